"""Conference calls of Earnings-21: a decoder's CTM and one line of reference a call, both taken as they are."""

from __future__ import annotations

from pathlib import Path

from kaldi_punct.preparation.distribution import SetCounts
from kaldi_punct.preparation.writing import counts_of, new_data_dir


def prepare_earnings21(source: Path, out: Path) -> SetCounts:
    """Takes ``ctm.gz`` and ``text_punct.call.gz``; returns what they hold.

    Args:
        source: the directory that has both.
        out: the directory to make.

    Raises:
        FormatError: one of them is not there or not what it should be.
    """
    with new_data_dir(out) as writer:
        writer.copy(source / "ctm.gz", "ctm.gz")
        writer.copy(source / "text_punct.call.gz", "text_punct.gz")
    return counts_of(writer)
