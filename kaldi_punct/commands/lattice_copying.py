"""``lattice copy``, ``scale``, ``prune``: lattices in, lattices out."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from kaldi_punct.commands.common import Tally
from kaldi_punct.commands.lattice_tools import (
    LATTICES_OUT_HELP,
    SOURCE_HELP,
    add_scales,
    add_tool,
    lattices,
    number,
    reporting,
    scales_of,
)
from kaldi_punct.commands.options import add_out

if TYPE_CHECKING:
    from kaldi_punct.commands.lattice_tools import Tools
    from kaldi_punct.kaldi.lattice import Lattice


def add_tools(tools: Tools) -> None:
    """Adds the parsers."""
    parser = add_tool(
        tools,
        "copy",
        "Lattices in another form",
        "kaldi-punct lattice copy egs/mini/decode ark,t:-",
        "Between binary (ark:) and text (ark,t:), compact and state-level, as lattice-copy does.",
    )
    _add_lattices(parser)
    parser.set_defaults(run=run_copy)

    parser = add_tool(
        tools,
        "scale",
        "Lattices with other costs",
        "kaldi-punct lattice scale --lm-scale 0.5 egs/mini/decode ark,t:-",
        "Adds the word insertion penalty to the graph cost of each word, then scales all costs, as lattice-add-penalty "
        "and lattice-scale do.",
    )
    for name, what in (("lm", "graph"), ("acoustic", "acoustic")):
        parser.add_argument(
            f"--{name}-scale", type=number, default=1.0, metavar="S", help=f"multiplies {what} costs (default 1)"
        )
    parser.add_argument(
        "--word-ins-penalty", type=number, default=0.0, metavar="P", help="added to each word's graph cost (default 0)"
    )
    _add_lattices(parser)
    parser.set_defaults(run=run_scale)

    parser = add_tool(
        tools,
        "prune",
        "Lattices without their unlikely paths",
        "kaldi-punct lattice prune --acoustic-scale 0.1 --beam 3 egs/mini/decode ark,t:-",
        "Keeps what a path within the beam of the best one goes through, as lattice-prune does; costs stay unscaled.",
    )
    parser.add_argument("--beam", type=number, default=10.0, metavar="B", help="in scaled cost (default %(default)s)")
    add_scales(parser)
    _add_lattices(parser)
    parser.set_defaults(run=run_prune)


def run_copy(args: argparse.Namespace, tally: Tally) -> None:
    """Writes every lattice again."""
    _write_each(args, tally, lambda lattice: lattice)


def run_scale(args: argparse.Namespace, tally: Tally) -> None:
    """Writes every lattice with other costs."""
    from kaldi_punct.kaldi.lattice_ops import rescale

    options = {"acoustic_scale": args.acoustic_scale, "lm_scale": args.lm_scale}
    _write_each(args, tally, lambda lattice: rescale(lattice, word_ins_penalty=args.word_ins_penalty, **options))


def run_prune(args: argparse.Namespace, tally: Tally) -> None:
    """Writes every lattice pruned."""
    from kaldi_punct.kaldi.lattice_ops import prune

    scales = scales_of(args)
    _write_each(args, tally, lambda lattice: prune(lattice, args.beam, **scales))


def _add_lattices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-level", action="store_true", help="write arcs of one frame each (arc type lattice4), not compact ones"
    )
    parser.add_argument("source", metavar="<lat-rspecifier>", help=SOURCE_HELP)
    add_out(parser, LATTICES_OUT_HELP)


def _write_each(args: argparse.Namespace, tally: Tally, change: Callable[[Lattice], Lattice]) -> None:
    from kaldi_punct.kaldi.tables import open_lattices

    with open_lattices(args.out, compact=not args.state_level) as write:
        for utt_id, lattice in lattices(args.source, tally):
            with reporting(tally, utt_id):
                write(utt_id, change(lattice))
