"""Whole lattices whose arcs lie on their frames, as Kaldi's lattice-align-* make them.

    aligned = align_words(lattice, WordAligner(model, word_boundary))
    if aligned.problem: ...        # a partial word at a forced end: the lattice is what Kaldi gives then, too

Nothing here opens a file, as in ``kaldi.lattice``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kaldi_punct import _core
from kaldi_punct._core import Lattice
from kaldi_punct.errors import ConfigError, LatticeError
from kaldi_punct.kaldi.lattice import WordAligner

_MAX_LABEL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Aligned:
    """A lattice as an aligner gives it.

    Attributes:
        lattice: each arc holds the frames of its label, and costs where the input had them; no state if no path of the
            input leads to its end.
        problem: what is odd about it (a word or silence that a forced end cut off); "" if nothing. Kaldi counts such a
            lattice as an error and goes on with it.
    """

    lattice: Lattice
    problem: str


def align_words(
    lattice: Lattice,
    aligner: WordAligner,
    *,
    silence_label: int = 0,
    partial_word_label: int = 0,
    max_expand: float = 0.0,
) -> Aligned:
    """The lattice with an arc for each word and each silence; the same paths and costs (lattice-align-words).

    Args:
        lattice: as read.
        aligner: knows the phones that begin and end words.
        silence_label: word-id on silences.
        partial_word_label: word-id on what a forced end cut off, where no word is left for it.
        max_expand: refuse a lattice that would grow beyond 1000 + max_expand times its states; 0: beyond what fits in
            about 1 GB.

    Raises:
        LatticeError: it grows beyond that, or has transition-ids or phones that the aligner does not know.
        ConfigError: an option is out of range.
    """
    _check_label("silence_label", silence_label)
    _check_label("partial_word_label", partial_word_label)
    _check_max_expand(max_expand)
    try:
        return Aligned(*_core.align_words(lattice, aligner.core, silence_label, partial_word_label, max_expand))
    except LatticeError as e:
        raise LatticeError(f"{lattice.origin}: {e}") from e


def _check_label(name: str, label: int) -> None:
    if not 0 <= label <= _MAX_LABEL:
        raise ConfigError(f"{name}: expected a word-id of 0 or more, got {label}; 0 is for no word")


def _check_max_expand(max_expand: float) -> None:
    if not (math.isfinite(max_expand) and max_expand >= 0):
        raise ConfigError(f"max_expand: expected 0 (no limit of its own) or a factor above it, got {max_expand}")
