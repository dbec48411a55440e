"""``lattice align`` and ``lattice prons``: words, phones and pronunciations on their frames."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from kaldi_punct.commands.common import Tally
from kaldi_punct.commands.lattice_tools import LATTICES_OUT_HELP, SOURCE_HELP, add_tool, lattices, reporting
from kaldi_punct.commands.options import add_out
from kaldi_punct.errors import ConfigError, UtteranceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaldi_punct.commands.lattice_tools import Tools
    from kaldi_punct.kaldi.aligned import Aligned, Pron
    from kaldi_punct.kaldi.lattice import Lattice

_DEMO = "--transition-model egs/mini/trans.mdl --word-boundary egs/mini/lang/phones/word_boundary.int egs/mini/decode"


def add_tools(tools: Tools) -> None:
    """Adds the parsers."""
    parser = add_tool(
        tools,
        "align",
        "Lattices whose arcs hold the frames of their words or phones",
        f"kaldi-punct lattice align {_DEMO} ark,t:-",
        "As lattice-align-words (--word-boundary), lattice-align-words-lexicon (--lexicon) or lattice-align-phones "
        "(--phones). A lattice with a partial word at a forced end is written, reported and counted as an error.",
    )
    how = _add_aligner(parser)
    how.add_argument("--phones", action="store_true", help="arcs end where phones do; words stay roughly in place")
    parser.add_argument(
        "--silence-label", type=_label, metavar="N", help="word-id on silences, with --word-boundary (default 0)"
    )
    parser.add_argument(
        "--partial-word-label", type=_label, metavar="N", help="word-id on a partial word at the end (default 0)"
    )
    parser.add_argument(
        "--max-expand",
        type=_factor,
        metavar="X",
        help="refuse a lattice that would grow beyond 1000 + X times its states (default: beyond about 1 GB)",
    )
    parser.add_argument(
        "--keep-epsilons",
        action="store_true",
        help="with --phones: keep arcs without a word, so that each has one phone",
    )
    parser.add_argument("--replace-words", action="store_true", help="with --phones: phone-ids in place of words")
    parser.add_argument(
        "--test", action="store_true", help="with --lexicon: check that each aligned lattice has the same paths"
    )
    parser.add_argument(
        "--allow-duplicate-paths", action="store_true", help="with --test: take lattices with paths twice"
    )
    parser.add_argument("source", metavar="<lat-rspecifier>", help=SOURCE_HELP)
    add_out(parser, LATTICES_OUT_HELP)
    parser.set_defaults(run=run_align)

    parser = add_tool(
        tools,
        "prons",
        "Words of best paths with their phones",
        f"kaldi-punct lattice prons --acoustic-scale 0.1 {_DEMO} -",
        "Lines are '<utt-id> <first-frame> <frames> <word-id> <phone-id> ...', silences with word 0, as lattice-1best, "
        "lattice-align-words and nbest-to-prons give them.",
    )
    _add_aligner(parser)
    parser.add_argument("--acoustic-scale", type=_factor, default=1.0, metavar="S", help="as of ctm (default 1)")
    parser.add_argument("--lm-scale", type=_factor, default=1.0, metavar="S", help="as of ctm (default 1)")
    parser.add_argument(
        "--phone-lengths", action="store_true", help="the frames of each phone, with commas, in place of the word's"
    )
    parser.add_argument("source", metavar="<lat-rspecifier>", help=SOURCE_HELP)
    add_out(parser)
    parser.set_defaults(run=run_prons)


def run_align(args: argparse.Namespace, tally: Tally) -> None:
    """Writes every lattice aligned."""
    from kaldi_punct.kaldi.aligned import check_same_paths
    from kaldi_punct.kaldi.tables import open_lattices

    align = _aligning(args)
    with open_lattices(args.out) as write:
        for utt_id, lattice in lattices(args.source, tally):
            with reporting(tally, utt_id):
                aligned = align(lattice)
                if args.test and not aligned.problem:
                    check_same_paths(lattice, aligned.lattice, allow_duplicates=args.allow_duplicate_paths)
                if not aligned.lattice.n_states:
                    raise UtteranceError(f"{lattice.origin}: nothing is left of the lattice; {_reason(aligned)}")
                write(utt_id, aligned.lattice)
                if aligned.problem:  # written all the same, as Kaldi does
                    raise UtteranceError(f"{lattice.origin}: {aligned.problem}")


def run_prons(args: argparse.Namespace, tally: Tally) -> None:
    """Writes the pronunciations of best paths."""
    from kaldi_punct import _core
    from kaldi_punct.kaldi.aligned import best_raw_path, prons
    from kaldi_punct.kaldi.lattice_tables import load_aligner, load_phone_aligner
    from kaldi_punct.kaldi.tables import open_wxfilename

    _require(args, needs_table=True)
    aligner = load_aligner(args.transition_model, args.word_boundary, args.lexicon, reorder=not args.no_reorder)
    phones = load_phone_aligner(args.transition_model, reorder=not args.no_reorder)
    scales = _core.Scales(args.lm_scale, args.acoustic_scale, 0.0)
    with open_wxfilename(args.out) as out:
        for utt_id, lattice in lattices(args.source, tally):
            with reporting(tally, utt_id):
                found = prons(lattice, best_raw_path(lattice, scales), aligner, phones)
                out.write("".join(_line(utt_id, pron, args.phone_lengths) for pron in found).encode())


def _add_aligner(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    parser.add_argument("--transition-model", metavar="F", help="final.mdl (its head is read) or trans.mdl")
    parser.add_argument(
        "--no-reorder", action="store_true", help="the graph was made with --reorder=false: self-loops come first"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--word-boundary", metavar="F", help="phones/word_boundary.int of the lang directory")
    how.add_argument("--lexicon", metavar="F", help="phones/align_lexicon.int in its place")
    return how


def _aligning(args: argparse.Namespace) -> Callable[[Lattice], Aligned]:
    """What aligns one lattice."""
    from kaldi_punct.kaldi import aligned
    from kaldi_punct.kaldi.aligners import LexiconAligner
    from kaldi_punct.kaldi.lattice_tables import load_aligner, load_phone_aligner

    _check_options(args)
    _require(args, needs_table=not args.phones)
    partial, expand = args.partial_word_label or 0, args.max_expand or 0.0
    if args.phones:
        phones = load_phone_aligner(args.transition_model, reorder=not args.no_reorder)
        return lambda lattice: aligned.align_phones(
            lattice, phones, remove_epsilons=not args.keep_epsilons, replace_words=args.replace_words
        )
    aligner = load_aligner(args.transition_model, args.word_boundary, args.lexicon, reorder=not args.no_reorder)
    if isinstance(aligner, LexiconAligner):
        return lambda lattice: aligned.align_lexicon(lattice, aligner, partial_word_label=partial, max_expand=expand)
    silence = args.silence_label or 0
    return lambda lattice: aligned.align_words(
        lattice, aligner, silence_label=silence, partial_word_label=partial, max_expand=expand
    )


def _check_options(args: argparse.Namespace) -> None:
    """Refuses options that would be ignored."""
    kind = "--phones" if args.phones else "--lexicon" if args.lexicon else "--word-boundary"
    for option, kinds in {
        "silence_label": ("--word-boundary",),
        "partial_word_label": ("--word-boundary", "--lexicon"),
        "max_expand": ("--word-boundary", "--lexicon"),
        "keep_epsilons": ("--phones",),
        "replace_words": ("--phones",),
        "test": ("--lexicon",),
    }.items():
        if getattr(args, option) not in (None, False) and kind not in kinds:
            raise ConfigError(
                f"--{option.replace('_', '-')}: expected it with {' or '.join(kinds)}, got {kind}; leave it out"
            )

    if args.allow_duplicate_paths and not args.test:
        raise ConfigError("--allow-duplicate-paths: expected it with --test, got none; leave it out")


def _require(args: argparse.Namespace, *, needs_table: bool) -> None:
    if args.transition_model is None:
        raise ConfigError(
            "--transition-model: expected final.mdl or trans.mdl, got none; give the model that made the lattices"
        )
    if needs_table and args.word_boundary is None and args.lexicon is None:
        raise ConfigError(
            "--word-boundary: expected phones/word_boundary.int (or --lexicon and align_lexicon.int), got none; "
            "give one of them"
        )


def _reason(aligned: Aligned) -> str:
    return aligned.problem or "no path leads to its end"


def _line(utt_id: str, pron: Pron, phone_lengths: bool) -> str:
    frames = ",".join(str(n) for _, n in pron.phones) if phone_lengths else str(pron.n_frames)
    phones = "".join(f" {phone}" for phone, _ in pron.phones)
    return f"{utt_id} {pron.first_frame} {frames} {pron.word}{phones}\n"


def _label(text: str) -> int:
    value = int(text) if re.fullmatch(r"[0-9]{1,10}", text) else -1
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"expected a word-id of 0 or more, got {text!r}")
    return value


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of 0 or more, got {text!r}")
    return value
