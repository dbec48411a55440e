"""Options that several verbs share, each with how to choose it."""

from __future__ import annotations

import argparse
import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]


def add_verb(verbs: Verbs, name: str, summary: str, example: str, details: str = "") -> argparse.ArgumentParser:
    """The parser of one verb.

    Args:
        summary: one line for the list of verbs.
        example: a command line that runs in a checkout.
        details: what else its help should say.
    """
    parser = verbs.add_parser(
        name,
        help=summary,
        description="\n\n".join(textwrap.fill(part, 100) for part in (summary, details) if part),
        epilog=f"e.g.: {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log more, with the trace of an error")
    return parser


def add_config_options(parser: argparse.ArgumentParser, sections: str, key: str) -> None:
    """``--config`` and ``--set`` of what trains.

    Args:
        sections: those of the YAML file.
        key: one that may be overridden, as an example.
    """
    parser.add_argument("--config", metavar="F.yaml", help=f"sections {sections}; defaults where it says nothing")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help=f"override one key: {key}=3; may be given several times",
    )


def add_lattice_options(parser: argparse.ArgumentParser, with_words: bool) -> None:
    """Options of what reads lattices.

    Args:
        with_words: add ``--words``; False where words.txt is a positional argument.
    """
    group = parser.add_argument_group(
        "lattices",
        "What is not given is looked for beside the decode directory (../frame_subsampling_factor, ../frame_shift, "
        "scoring_kaldi/best_wer, ../final.mdl, ../graph*/words.txt, ../graph*/phones/word_boundary.int or else "
        "align_lexicon.int); the values "
        "used are logged. What is needed and not found is asked for by name.",
    )
    if with_words:
        group.add_argument("--words", metavar="F", help="words.txt that the lattices were made with")
    phones = group.add_mutually_exclusive_group()
    phones.add_argument(
        "--word-boundary", metavar="F", help="phones/word_boundary.int; with a transition model gives word times"
    )
    phones.add_argument(
        "--align-lexicon",
        metavar="F",
        help="phones/align_lexicon.int in its place, where phones do not tell their place in the word",
    )
    group.add_argument(
        "--transition-model", metavar="F", help="final.mdl (its head is read) or trans.mdl, binary or text"
    )
    group.add_argument(
        "--frame-shift",
        type=_positive,
        metavar="S",
        help="seconds between the lattice's frames: 0.01 for most GMMs, 0.03 for a chain model",
    )
    scale = group.add_mutually_exclusive_group()
    scale.add_argument(
        "--acoustic-scale",
        type=_positive,
        metavar="S",
        help="multiplies acoustic costs: 1/LMWT of the best WER, often 1/12 for a GMM and 0.1 for a chain model",
    )
    scale.add_argument(
        "--inv-acoustic-scale",
        dest="acoustic_scale",
        type=_inverse,
        metavar="LMWT",
        help="the same as its inverse, the language model weight: 12 stands for 1/12",
    )
    group.add_argument(
        "--word-ins-penalty",
        type=float,
        metavar="P",
        help="added to the cost of each word: that of the best WER where it is found, else 0",
    )


def add_out(parser: argparse.ArgumentParser, help: str = "extended filename to write, - for stdout") -> None:
    """The last positional argument."""
    parser.add_argument("out", metavar="<out>", help=help)


def add_threads(parser: argparse.ArgumentParser) -> None:
    """How many threads share the work (``commands.threads``)."""
    parser.add_argument(
        "--nj",
        type=count,
        default=1,
        metavar="N",
        help="threads that share the work, in one process; the output is the same (default %(default)s)",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Where the model runs."""
    parser.add_argument("--device", type=_device, default="cpu", help="cpu, cuda, cuda:0 … (default %(default)s)")


def count(text: str) -> int:
    """A whole number above 0, as an option's value."""
    value = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return value


def _device(text: str) -> str:
    if re.fullmatch(r"cpu|cuda(:\d+)?", text) is None:
        raise argparse.ArgumentTypeError(f"expected cpu, cuda or cuda:N, got {text!r}")
    return text


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return value


def _inverse(text: str) -> float:
    return 1 / _positive(text)
