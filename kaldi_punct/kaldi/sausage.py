"""Sausages: the words that may stand at each place of an utterance, and the words of least expected error among them.

As Kaldi's lattice-mbr-decode and lattice-to-ctm-conf (lat/sausages.cc). Everything that they print comes out the same;
costs are therefore rounded to 32 bits where Kaldi rounds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kaldi_punct import _core
from kaldi_punct._core import Lattice
from kaldi_punct.errors import LatticeError, UtteranceError
from kaldi_punct.types import Word

NO_WORD = 0  # word-id of "no word stands here"


@dataclass(frozen=True, slots=True)
class MbrOptions:
    """How words are chosen.

    Attributes:
        mbr: minimum Bayes risk decoding; False: the words stay those of the best path, and only get confidences.
        print_silence: places where no word is likeliest stay among the words, as ``<eps>``.
    """

    mbr: bool = True
    print_silence: bool = False


@dataclass(frozen=True, slots=True)
class BinWord:
    """A word that may stand in a bin.

    Attributes:
        word: the word; that of word-id 0 (``<eps>``) where none stands.
        posterior: 0..1; those of a bin sum to 1.
        start_s: when it begins, averaged over the paths that have it here; None if the lattice has no word times.
        duration_s: how long it lasts, averaged likewise.
    """

    word: str
    posterior: float
    start_s: float | None = None
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class Bin:
    """A place in the utterance; before, between and after the words there is one where mostly none stands.

    Attributes:
        words: likeliest first.
        start_s: when it begins, averaged over its words; bins do not overlap. None if there are no word times.
        duration_s: how long it lasts.
    """

    words: tuple[BinWord, ...]
    start_s: float | None = None
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class Sausage:
    """What an utterance may hold, place by place.

    Attributes:
        bins: all places, in order.
        words: the words chosen, with confidences; a word's confidence is its posterior in its bin.
        bayes_risk: expected number of word errors of ``words``.
        is_settled: the words no longer changed; False if they were given up after 101 rounds.
    """

    bins: tuple[Bin, ...]
    words: tuple[Word, ...]
    bayes_risk: float
    is_settled: bool = True


def decode_mbr(
    lattice: Lattice, scales: _core.Scales, options: MbrOptions, words: Sequence[int] | None = None
) -> _core.Sausage:
    """The sausage of a lattice in Kaldi's own terms: word-ids, and times in frames.

    Args:
        lattice: as of lattice-align-words if times shall mean something.
        scales: of the costs.
        options: how words are chosen.
        words: word-ids to start from (and to keep, without ``mbr``) in place of the best path's.

    Raises:
        UtteranceError: no path leads to the end.
        LatticeError: arcs and words are too many to be aligned, or costs overflow.
    """
    given = None if words is None else list(words)
    try:
        sausage = _core.decode_mbr(lattice, scales, options.mbr, options.print_silence, given)
    except LatticeError as e:
        raise LatticeError(f"{lattice.origin}: {e}") from e
    if sausage is None:
        raise UtteranceError(f"{lattice.origin}: the lattice has no path to a final state; was decoding cut off?")
    return sausage


def to_sausage(
    sausage: _core.Sausage, words: Mapping[int, str], frame_shift_s: float | None, start_s: float = 0.0
) -> Sausage:
    """The same in words and seconds.

    Args:
        sausage: of ``decode_mbr``.
        words: word-ids to words.
        frame_shift_s: seconds between frames; None leaves times out.
        start_s: time of the first frame, seconds.

    Raises:
        LatticeError: a word-id is not in the words.
    """
    bins = tuple(
        Bin(
            tuple(
                BinWord(_text(w, words), min(p, 1.0), *_timed(b, e, frame_shift_s, start_s)) for w, p, b, e in of_bin
            ),
            *_timed(begin, end, frame_shift_s, start_s),
        )
        for begin, end, of_bin in sausage.bins
    )
    chosen = to_words(sausage, words, frame_shift_s, start_s)
    return Sausage(bins, chosen, sausage.bayes_risk, sausage.is_settled)


def to_words(
    sausage: _core.Sausage, words: Mapping[int, str], frame_shift_s: float | None, start_s: float = 0.0
) -> tuple[Word, ...]:
    """The words chosen alone; arguments and errors as for ``to_sausage``."""
    return tuple(
        Word(_text(w, words), *_timed(b, e, frame_shift_s, start_s), min(p, 1.0)) for w, p, b, e in sausage.one_best
    )


def _timed(begin: float, end: float, frame_shift_s: float | None, start_s: float) -> tuple[float | None, float | None]:
    if frame_shift_s is None:
        return None, None
    return start_s + begin * frame_shift_s, (end - begin) * frame_shift_s


def _text(word_id: int, words: Mapping[int, str]) -> str:
    word = "<eps>" if word_id == NO_WORD else words.get(word_id)
    if word is None:
        raise LatticeError(
            f"expected word-ids of the words table ({len(words)} words), got {word_id}; "
            "give the words.txt of the graph that made the lattice"
        )
    return word
