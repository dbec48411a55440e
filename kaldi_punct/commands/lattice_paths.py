"""``lattice nbest``: the best paths of lattices, as lattices and as tables."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
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
from kaldi_punct.commands.options import add_out, count

if TYPE_CHECKING:
    from kaldi_punct.commands.lattice_tools import Tools
    from kaldi_punct.kaldi.archives import ArchiveWriter
    from kaldi_punct.kaldi.lattice import Lattice

_TABLES = {
    "alignments": "transition-ids, one a frame",
    "words": "word-ids",
    "lm_costs": "graph costs, unscaled",
    "ac_costs": "acoustic costs, unscaled",
}


def add_tools(tools: Tools) -> None:
    """Adds the parser."""
    parser = add_tool(
        tools,
        "nbest",
        "Best paths of lattices, as lattices",
        "kaldi-punct lattice nbest --n 3 --acoustic-scale 0.1 --alignments ark,t:ali.txt egs/mini/decode ark:nbest.ark",
        "Writes lattices of one path each, utt-1 .. utt-N, best first, costs unscaled, as lattice-to-nbest does; and "
        "what nbest-to-linear tells of them where a table is named. 'kaldi-punct nbest' writes words and times.",
    )
    parser.add_argument("--n", type=count, default=10, help="paths of each lattice at most (default %(default)s)")
    parser.add_argument(
        "--one-best", action="store_true", help="the best path alone, keyed utt as lattice-1best does, not utt-1"
    )
    parser.add_argument(
        "--word-ins-penalty", type=number, default=0.0, metavar="P", help="added to each word's graph cost (default 0)"
    )
    add_scales(parser)
    for name, what in _TABLES.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", metavar="W", help=f"wspecifier to write {what} to: ark:F, ark,t:F"
        )
    parser.add_argument("source", metavar="<lat-rspecifier>", help=SOURCE_HELP)
    add_out(parser, LATTICES_OUT_HELP)
    parser.set_defaults(run=run_nbest)


def run_nbest(args: argparse.Namespace, tally: Tally) -> None:
    """Writes the best paths of each lattice."""
    from kaldi_punct.kaldi.archives import open_archive
    from kaldi_punct.kaldi.lattice_ops import nbest
    from kaldi_punct.kaldi.tables import open_lattices

    scales = scales_of(args)
    n = 1 if args.one_best else args.n
    with ExitStack() as stack:
        write = stack.enter_context(open_lattices(args.out))
        named = {name: getattr(args, name) for name in _TABLES if getattr(args, name) is not None}
        tables = {name: stack.enter_context(open_archive(spec)) for name, spec in named.items()}
        for utt_id, lattice in lattices(args.source, tally):
            with reporting(tally, utt_id):
                paths = nbest(lattice, n, word_ins_penalty=args.word_ins_penalty, **scales)
                for rank, path in enumerate(paths, 1):
                    key = utt_id if args.one_best else f"{utt_id}-{rank}"
                    write(key, path)
                    _write_linear(tables, key, path)


def _write_linear(tables: dict[str, ArchiveWriter], key: str, lattice: Lattice) -> None:
    from kaldi_punct.kaldi.archives import float_value, int_vector_value
    from kaldi_punct.kaldi.lattice_ops import linear_path

    if not tables:
        return
    path = linear_path(lattice)
    vectors = {"alignments": path.transition_ids, "words": path.words}
    costs = {"lm_costs": path.graph_cost, "ac_costs": path.acoustic_cost}
    for name, table in tables.items():
        if name in vectors:
            table.write(key, int_vector_value(vectors[name], table.binary))
        else:
            table.write(key, float_value(costs[name], table.binary))
