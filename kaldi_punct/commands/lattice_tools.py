"""``lattice <tool>``: what Kaldi's lattice tools do, one sub-verb each.

A tool lives in a module of its own beside this one, named after what it works on, with a function
``add_tools(tools)`` that adds its parsers; the module is then listed in ``add_verbs`` below:

    def add_tools(tools: Tools) -> None:
        parser = add_tool(tools, "depth", "Depth of lattices", "kaldi-punct lattice depth egs/mini/decode -")
        parser.add_argument("source", metavar="<lat-rspecifier>", help=SOURCE_HELP)
        add_out(parser)                                   # commands.options
        parser.set_defaults(run=run_depth)                # run(args, tally), as of any verb

    def run_depth(args: argparse.Namespace, tally: Tally) -> None:
        for utt_id, lattice in lattices(args.source, tally):
            with reporting(tally, utt_id):                # an error is reported, counted, and the next one follows
                ...

Inputs come first, the output last; the example must run in a checkout (tests run it).
"""

from __future__ import annotations

import argparse
import contextlib
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kaldi_punct.commands.common import Tally, good, with_progress
from kaldi_punct.errors import LatticeError, UtteranceError

if TYPE_CHECKING:
    from kaldi_punct.commands.options import Verbs
    from kaldi_punct.kaldi.lattice import Lattice

    Tools = argparse._SubParsersAction[argparse.ArgumentParser]

SOURCE_HELP = "rspecifier of lattices ('ark:gunzip -c dir/lat.*.gz |', scp:lat.scp), or a decode directory"
LATTICES_OUT_HELP = "wspecifier of lattices (ark:F, ark,t:F, ark,scp:F,F; F a path, path.gz, '| command' or -)"


def add_verbs(verbs: Verbs) -> None:
    """Adds the verb and all its tools."""
    parser = verbs.add_parser(
        "lattice",
        help="Kaldi's lattice tools",
        description="What Kaldi's lattice tools do: kaldi-punct lattice <tool> --help",
        epilog="e.g.: kaldi-punct lattice copy egs/mini/decode ark,t:-",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    tools = parser.add_subparsers(dest="tool", metavar="<tool>", required=True, help="the tool; each has a --help")
    # Here, not above: the tools' modules use this one.
    from kaldi_punct.commands import lattice_copying

    for module in (lattice_copying,):
        module.add_tools(tools)


def add_tool(tools: Tools, name: str, summary: str, example: str, epilog: str = "") -> argparse.ArgumentParser:
    """The parser of one tool.

    Args:
        tools: what ``add_tools`` is given.
        name: of the sub-verb.
        summary: one line for the list of tools.
        example: a command line that runs in a checkout and ends the help.
        epilog: what else the help should say, before the example.
    """
    parser = tools.add_parser(
        name,
        help=summary,
        description="\n\n".join(textwrap.fill(part, 100) for part in (summary, epilog) if part),
        epilog=f"e.g.: {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log more, with the trace of an error")
    return parser


def lattices(source: str, tally: Tally) -> Iterator[tuple[str, Lattice]]:
    """The good lattices of an rspecifier or a decode directory; bad ones are reported and counted."""
    from kaldi_punct.commands.decoding import read_lattices

    return good(with_progress(read_lattices(source), "utt"), tally)


@contextlib.contextmanager
def reporting(tally: Tally, utt_id: str) -> Iterator[None]:
    """Counts one utterance as done, or reports and counts what is wrong with it."""
    try:
        yield
    except (LatticeError, UtteranceError) as e:
        tally.report(e, utt_id)
    else:
        tally.n_done += 1
