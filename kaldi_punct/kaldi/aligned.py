"""Lattices and best paths whose words lie on their frames, as Kaldi's lattice-align-* tools make them.

    aligned = align_words(lattice, WordAligner(model, word_boundary))
    if aligned.problem: ...        # a partial word at a forced end: the lattice is what Kaldi gives then, too

Nothing here opens a file, as in ``kaldi.lattice``.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kaldi_punct import _core
from kaldi_punct._core import Lattice
from kaldi_punct.errors import ConfigError, LatticeError, UtteranceError
from kaldi_punct.kaldi.aligners import Aligner, LexiconAligner, PhoneAligner, WordAligner
from kaldi_punct.kaldi.lattice import Decoder
from kaldi_punct.types import Hypothesis, Word

_LOG = logging.getLogger(__name__)
_MAX_LABEL = 2**31 - 1
_SUM_TOLERANCE = 1e-4


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


@dataclass(frozen=True, slots=True)
class Pron:
    """A word of a path with its phones, all by number.

    Attributes:
        word: word-id; 0 for silence.
        first_frame: where it begins.
        n_frames: how many frames it has.
        phones: phone-ids with their numbers of frames.
    """

    word: int
    first_frame: int
    n_frames: int
    phones: tuple[tuple[int, int], ...]


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
    return Aligned(*aligner.align_lattice(lattice, silence_label, partial_word_label, max_expand))


def align_lexicon(
    lattice: Lattice, aligner: LexiconAligner, *, partial_word_label: int = 0, max_expand: float = 0.0
) -> Aligned:
    """The same by pronunciations (lattice-align-words-lexicon); the lexicon gives silence its label.

    Args:
        lattice: as read.
        aligner: knows the pronunciations.
        partial_word_label: as of ``align_words``.
        max_expand: as of ``align_words``; counts from the states of the phone-aligned lattice.

    Raises:
        LatticeError: it grows beyond that, or has transition-ids or words that the aligner does not know.
        ConfigError: an option is out of range.
    """
    _check_label("partial_word_label", partial_word_label)
    _check_max_expand(max_expand)
    return Aligned(*aligner.align_lattice(lattice, partial_word_label, max_expand))


def align_phones(
    lattice: Lattice, aligner: PhoneAligner, *, remove_epsilons: bool = True, replace_words: bool = False
) -> Aligned:
    """The lattice with arcs that end where phones do (lattice-align-phones); words stay roughly where they were.

    Args:
        lattice: as read.
        aligner: knows the phones.
        remove_epsilons: no arcs without a word; an arc may then hold several phones, unless ``replace_words``.
        replace_words: phone-ids in place of words: a phone lattice.

    Raises:
        LatticeError: it has transition-ids that the model does not know, or grows beyond what fits in about 1 GB.
    """
    try:
        return Aligned(*_core.align_phones(lattice, aligner.core, remove_epsilons, replace_words))
    except LatticeError as e:
        raise LatticeError(f"{lattice.origin}: {e}") from e


def check_same_paths(before: Lattice, after: Lattice, *, allow_duplicates: bool = False) -> None:
    """Checks that an aligned lattice holds the paths it was made of: their sum, and the frames of the best.

    Args:
        before: as given to the aligner.
        after: as it came.
        allow_duplicates: the sum may differ: a lexicon may deal out the same frames in several ways.

    Raises:
        UtteranceError: it does not.
    """
    scales = _core.Scales(1.0, 1.0, 0.0)
    sums = _core.total_cost_of_all(before, scales), _core.total_cost_of_all(after, scales)
    if not allow_duplicates and not math.isclose(*sums, rel_tol=_SUM_TOLERANCE, abs_tol=_SUM_TOLERANCE):
        raise UtteranceError(
            f"{before.origin}: expected the aligned lattice to have each path once (-log of the sum {sums[0]:g}), got "
            f"{sums[1]:g}; does the lexicon deal out the same phones in several ways?"
        )
    best = [_core.best_paths(lattice, 1, scales) for lattice in (before, after)]
    if [p.transition_ids for p in best[0]] != [p.transition_ids for p in best[1]]:
        raise UtteranceError(
            f"{before.origin}: expected the frames of the best path in the aligned lattice, got others"
        )


def best_raw_path(lattice: Lattice, scales: _core.Scales) -> _core.Path:
    """The path of least cost, in word-ids and transition-ids.

    Raises:
        UtteranceError: no path leads to the end.
    """
    paths = _core.best_paths(lattice, 1, scales)
    if not paths:
        raise UtteranceError(f"{lattice.origin}: the lattice has no path to a final state; was decoding cut off?")
    return paths[0]


def prons(lattice: Lattice, path: _core.Path, aligner: Aligner, phones: PhoneAligner) -> tuple[Pron, ...]:
    """The words and silences of a path with their phones, end to end (nbest-to-prons).

    Args:
        lattice: that the path is of, for error texts.
        path: of ``best_raw_path``.
        aligner: finds the words.
        phones: finds the phones.

    Raises:
        LatticeError: the path has transition-ids, phones or words that an aligner does not know.
    """
    try:
        words, of_path = aligner.align(path).segments, phones.align(path).segments
    except LatticeError as e:
        raise LatticeError(f"{lattice.origin}: {e}") from e
    out, i = [], 0
    for word, first, n_frames in words:
        own = []
        # A forced end may cut a phone in two words.
        while i < len(of_path) and of_path[i][1] < first + n_frames:
            own.append((of_path[i][0], of_path[i][2]))
            i += 1
        out.append(Pron(word, first, n_frames, tuple(own)))
    return tuple(out)


def best_segments(decoder: Decoder, lattice: Lattice, start_s: float = 0.0) -> Hypothesis:
    """The best path's words and silences with times (lattice-1best | lattice-align-words | nbest-to-ctm).

    Silences, and what a forced end leaves without a word, stand as what ``words`` has for 0, ``<eps>``.

    Args:
        decoder: with an aligner.
        lattice: as read.
        start_s: time of the lattice's first frame, seconds.

    Raises:
        UtteranceError: no path leads to the end.
        LatticeError: a word-id is not in the words, or the lattice is of another model.
        ConfigError: the decoder has no aligner.
    """
    aligner, _ = _timing(decoder)
    return _timed(decoder, lattice, aligner.align, decoder.words, "words", start_s)


def best_phones(decoder: Decoder, lattice: Lattice, symbols: Mapping[int, str], start_s: float = 0.0) -> Hypothesis:
    """The best path's phones with times, silences too (… | lattice-align-phones | lattice-to-phone-lattice | …).

    Args:
        decoder: with an aligner; its transition model tells the phones.
        lattice: as read.
        symbols: phones by number (phones.txt).
        start_s: time of the lattice's first frame, seconds.

    Raises:
        UtteranceError, LatticeError, ConfigError: as for ``best_segments``; a phone may be missing among the symbols.
    """
    aligner, _ = _timing(decoder)
    return _timed(decoder, lattice, aligner.phones.align, symbols, "phones", start_s)


def _timing(decoder: Decoder) -> tuple[Aligner, float]:
    if decoder.aligner is None or decoder.frame_shift_s is None:
        raise ConfigError("aligner: expected a decoder that gives word times, got one without; give it a model")
    return decoder.aligner, decoder.frame_shift_s


def _timed(
    decoder: Decoder,
    lattice: Lattice,
    align: Callable[[_core.Path], _core.Alignment],
    symbols: Mapping[int, str],
    table: str,
    start_s: float,
) -> Hypothesis:
    scales = _core.Scales(decoder.lm_scale, decoder.acoustic_scale, decoder.word_ins_penalty)
    path = best_raw_path(lattice, scales)
    try:
        alignment = align(path)
    except LatticeError as e:
        raise LatticeError(f"{lattice.origin}: {e}") from e
    if alignment.problem:
        _LOG.info("%s: %s", lattice.origin, alignment.problem)
    _, shift_s = _timing(decoder)
    words = to_timed_words(lattice, alignment.segments, symbols, shift_s, table, start_s)
    return Hypothesis(words, path.graph_cost, path.acoustic_cost)


def to_timed_words(
    lattice: Lattice,
    segments: Iterable[tuple[int, int, int]],
    symbols: Mapping[int, str],
    frame_shift_s: float,
    table: str = "words",
    start_s: float = 0.0,
) -> tuple[Word, ...]:
    """Segments of an alignment as words (silence: what the table has for 0, ``<eps>``) with times.

    Args:
        lattice: that they are of, for error texts.
        segments: (word-id or phone-id, first frame, number of frames) each.
        symbols: the words (or phones) by number.
        frame_shift_s: seconds of a frame.
        table: of the symbols, for error texts.
        start_s: time of the first frame, seconds.

    Raises:
        LatticeError: a number that the table does not have.
    """
    out = []
    for number, first, n_frames in segments:
        if number not in symbols:
            raise LatticeError(
                f"{lattice.origin}: expected numbers of the {table} table, got {number}; give the {table}.txt of the "
                "graph that made the lattice"
            )
        out.append(Word(symbols[number], start_s + first * frame_shift_s, n_frames * frame_shift_s))
    return tuple(out)


def _check_label(name: str, label: int) -> None:
    if not 0 <= label <= _MAX_LABEL:
        raise ConfigError(f"{name}: expected a word-id of 0 or more, got {label}; 0 is for no word")


def _check_max_expand(max_expand: float) -> None:
    if not (math.isfinite(max_expand) and max_expand >= 0):
        raise ConfigError(f"max_expand: expected 0 (no limit of its own) or a factor above it, got {max_expand}")
