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
import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypedDict

from kaldi_punct.commands.common import Tally, good, log, with_progress
from kaldi_punct.errors import ConfigError, LatticeError, UtteranceError

if TYPE_CHECKING:
    from kaldi_punct.commands.options import Verbs
    from kaldi_punct.kaldi.lattice import Lattice

    Tools = argparse._SubParsersAction[argparse.ArgumentParser]

SOURCE_HELP = "rspecifier of lattices ('ark:gunzip -c dir/lat.*.gz |', scp:lat.scp), or a decode directory"
LATTICES_OUT_HELP = "wspecifier of lattices (ark:F, ark,t:F, ark,scp:F,F; F a path, path.gz, '| command' or -)"


class Scales(TypedDict):
    """Keyword arguments of what weighs paths."""

    acoustic_scale: float
    lm_scale: float


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
    from kaldi_punct.commands import lattice_aligning, lattice_copying, lattice_mbr, lattice_measures, lattice_paths

    for module in (lattice_copying, lattice_paths, lattice_measures, lattice_aligning, lattice_mbr):
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


def add_scales(parser: argparse.ArgumentParser) -> None:
    """Options of a tool that weighs paths; ``scales_of`` reads them."""
    parser.add_argument(
        "--acoustic-scale",
        type=number,
        metavar="S",
        help="multiplies acoustic costs: 1/LMWT; if not given, that of scoring_kaldi/best_wer beside the lattices",
    )
    parser.add_argument(
        "--lm-scale", type=number, default=1.0, metavar="S", help="multiplies graph costs (default %(default)s)"
    )


def scales_of(args: argparse.Namespace) -> Scales:
    """The acoustic scale, given or found, and the graph scale.

    Raises:
        ConfigError: there is no acoustic scale.
    """
    if args.acoustic_scale is not None:
        return {"acoustic_scale": args.acoustic_scale, "lm_scale": args.lm_scale}
    from kaldi_punct.kaldi.scales import find_scales

    found = find_scales(args.source)
    if found.acoustic_scale is None:
        raise ConfigError(
            "--acoustic-scale: expected 1/LMWT, got none, and there is no scoring_kaldi/best_wer beside "
            f"'{args.source}'; give it (about 0.1 for a chain model, 1/12 for a GMM)"
        )
    log.info("lattices: acoustic scale %g is from %s", found.acoustic_scale, found.best_wer)
    return {"acoustic_scale": found.acoustic_scale, "lm_scale": args.lm_scale}


def number(text: str) -> float:
    """A finite number, as an option's value."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}")
    return value


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
