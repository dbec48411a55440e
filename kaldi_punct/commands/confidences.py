"""What ``ctm`` and ``punctuate`` share on confidences, and how ``ctm`` moves to the recording's clock."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kaldi_punct.errors import ConfigError

if TYPE_CHECKING:
    from kaldi_punct.kaldi.lattice import Decoder, Lattice
    from kaldi_punct.kaldi.reco_ctm import RecordingClock
    from kaldi_punct.types import Hypothesis

KINDS = ("none", "map", "mbr")
_HELP = (
    "none: words of the best path, without confidences; map: the same words with confidences; mbr: the words of least "
    "expected error (minimum Bayes risk), with confidences"
)


def add_confidence(parser: argparse.ArgumentParser) -> None:
    """Which words, and whether they come with confidences."""
    parser.add_argument("--confidence", choices=KINDS, help=f"{_HELP} (default none)")


def add_mbr(parser: argparse.ArgumentParser) -> None:
    """The options of ``ctm`` that go with confidences."""
    add_confidence(parser)
    parser.add_argument("--mbr", action="store_true", help="the same as --confidence mbr")
    parser.add_argument(
        "--aligned",
        action="store_true",
        help="with confidences: the lattices are word-aligned already (lattice-align-words), no model is needed",
    )


def add_recording_clock(parser: argparse.ArgumentParser) -> None:
    """Tables that put a CTM on the recording's clock."""
    parser.add_argument(
        "--segments", metavar="F", help="recording of each utterance: lines are keyed by it, times count from its start"
    )
    parser.add_argument(
        "--reco2file-and-channel", metavar="F", help="file and channel of each recording of --segments, for the lines"
    )


def kind_of(args: argparse.Namespace) -> str:
    """The kind of confidences that the options of ``add_mbr`` ask for.

    Raises:
        ConfigError: options that do not go together.
    """
    if args.mbr and args.confidence not in (None, "mbr"):
        raise ConfigError(f"--mbr: expected it alone or with --confidence mbr, got --confidence {args.confidence}")
    kind = "mbr" if args.mbr else args.confidence or "none"
    if kind == "none" and args.aligned:
        raise ConfigError("--aligned: expected --mbr or --confidence with it, got none; add one, or leave this out")
    return kind


def read_clock(args: argparse.Namespace) -> RecordingClock | None:
    """The tables of ``add_recording_clock``; None if none is given.

    Raises:
        ConfigError: channels of recordings without the recordings.
        FormatError: a table that cannot be read.
    """
    from kaldi_punct.kaldi import tables
    from kaldi_punct.kaldi.reco_ctm import RecordingClock
    from kaldi_punct.kaldi.tables import by_key

    segments, channels = args.segments, args.reco2file_and_channel
    if segments is None:
        if channels is not None:
            raise ConfigError(
                "--reco2file-and-channel: expected --segments with it, got none; add it, or leave this out"
            )
        return None
    return RecordingClock(
        by_key(segments, ((s.utt_id, s) for s in tables.read_segments(segments))),
        None if channels is None else by_key(channels, tables.read_reco2file_and_channel(channels)),
        segments,
        channels or "",
    )


def choose_words(
    decoder: Decoder, lattice: Lattice, kind: str, *, print_silence: bool = False, start_s: float = 0.0
) -> Hypothesis:
    """The words of one of ``KINDS``.

    Raises:
        UtteranceError: no path leads to the end.
        LatticeError: the lattice does not go with the decoder.
    """
    from kaldi_punct.kaldi.sausage import MbrOptions

    if kind == "none":
        return decoder.best_path(lattice, start_s=start_s)
    return decoder.confident(lattice, MbrOptions(kind == "mbr", print_silence), start_s)
