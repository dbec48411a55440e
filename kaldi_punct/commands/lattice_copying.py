"""``lattice copy``: the same lattices in another form."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kaldi_punct.commands.common import Tally
from kaldi_punct.commands.lattice_tools import LATTICES_OUT_HELP, SOURCE_HELP, add_tool, lattices, reporting
from kaldi_punct.commands.options import add_out

if TYPE_CHECKING:
    from kaldi_punct.commands.lattice_tools import Tools


def add_tools(tools: Tools) -> None:
    """Adds the parser."""
    parser = add_tool(
        tools,
        "copy",
        "Lattices in another form",
        "kaldi-punct lattice copy egs/mini/decode ark,t:-",
        "Between binary (ark:) and text (ark,t:), compact and state-level, as lattice-copy does.",
    )
    parser.add_argument(
        "--state-level", action="store_true", help="write arcs of one frame each (arc type lattice4), not compact ones"
    )
    parser.add_argument("source", metavar="<lat-rspecifier>", help=SOURCE_HELP)
    add_out(parser, LATTICES_OUT_HELP)
    parser.set_defaults(run=run_copy)


def run_copy(args: argparse.Namespace, tally: Tally) -> None:
    """Writes every lattice again."""
    from kaldi_punct.kaldi.tables import open_lattices

    with open_lattices(args.out, compact=not args.state_level) as write:
        for utt_id, lattice in lattices(args.source, tally):
            with reporting(tally, utt_id):
                write(utt_id, lattice)
