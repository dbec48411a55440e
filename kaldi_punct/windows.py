"""A conversation's words as arrays (a Track), and the windows cut from it, in training and at inference alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kaldi_punct.batch import Example, Floats, Ints, PieceTable
from kaldi_punct.timing import MAX_ONSET_DELAY_S, heard_frames, timing_features
from kaldi_punct.types import Word

Pieces = Callable[[str], tuple[int, ...]]  # of one word: a PieceTable, or what stands in for it

GUESS_MARGIN_S = 10.0  # more sound on both sides where only a guess says when the words of a window are said


@dataclass(frozen=True, slots=True)
class Sound:
    """What a conversation sounds like: frames on the words' clock.

    Attributes:
        frames: (T, F) float32, not yet normalised.
        frame_shift_s: seconds between frames.
        start_s: time of frame 0 on the words' clock.
        by_times: it is heard at word times alone (forced alignment), so not at all by words without them; False for
            a model that finds its words in the sound by itself.
    """

    frames: Floats
    frame_shift_s: float
    start_s: float = 0.0
    by_times: bool = True


@dataclass(frozen=True, slots=True)
class Track:
    """The real words of one conversation, as arrays.

    Attributes:
        pieces: piece ids of each word.
        timing: (W, K) timing features.
        start_s, end_s: (W,) seconds; NaN where unknown.
        sound: None where nothing was heard.
    """

    pieces: Sequence[tuple[int, ...]]
    timing: Floats
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    sound: Sound | None = None

    def __len__(self) -> int:
        return len(self.pieces)


@dataclass(frozen=True, slots=True)
class Window:
    """Words start..stop of a sequence, of which first..last (exclusive) are answered from here."""

    start: int
    stop: int
    first: int
    last: int


def cut_windows(n_pieces: Sequence[int], max_pieces: int, margin_words: int) -> list[Window]:
    """Windows over a sequence, so that each word is answered once and has context on both sides.

    Args:
        n_pieces: pieces of each word.
        max_pieces: length of a window, its two special pieces included. A single word that is longer gets a window of
            its own (``cut_example`` cuts its pieces).
        margin_words: words shared by neighbouring windows on each side; fewer where a window holds few words.
    """
    budget = max_pieces - 2
    windows: list[Window] = []
    start = first = 0
    while first < len(n_pieces) or not windows:
        stop = start
        used = 0
        while stop < len(n_pieces) and (used + n_pieces[stop] <= budget or stop <= first):
            used += n_pieces[stop]
            stop += 1
        margin = min(margin_words, (stop - first - 1) // 2 if stop < len(n_pieces) else 0)
        last = stop - max(margin, 0) if stop < len(n_pieces) else stop
        windows.append(Window(start, stop, first, last))
        if last >= len(n_pieces):
            break
        first = last
        start = _step_back(n_pieces, first, margin_words, budget)
    return windows


def _step_back(n_pieces: Sequence[int], first: int, margin_words: int, budget: int) -> int:
    """Start of a window whose first answered word is ``first``: its left margin, within a third of the budget."""
    start, used = first, 0
    room = min(budget // 3, budget - min(n_pieces[first], budget))
    while start > 0 and first - start < margin_words and used + n_pieces[start - 1] <= room:
        start -= 1
        used += n_pieces[start]
    return start


def build_track(words: Sequence[Word], table: Pieces, sound: Sound | None = None) -> Track:
    """The track of consecutive words; tokens that are not words must have been left out."""
    nan = float("nan")
    start_s = np.array([nan if w.start_s is None else w.start_s for w in words], np.float64)
    end_s = np.array([nan if (e := w.end_s) is None else e for w in words], np.float64)
    return Track([table(w.word) for w in words], timing_features(words), start_s, end_s, sound)


def cut_example(
    track: Track,
    start: int,
    stop: int,
    table: PieceTable,
    max_pieces: int,
    left_context_s: float,
    marks: Ints | None = None,
    cases: Ints | None = None,
) -> Example:
    """The example of words start..stop of a track.

    Args:
        track: the conversation.
        start: first word.
        stop: one past the last word.
        table: pieces of words, for the special pieces.
        max_pieces: length of a window; the pieces of a single word that is longer are cut.
        left_context_s: sound before the first word that the model hears first, seconds.
        marks: (stop - start,) targets.
        cases: (stop - start,) targets.
    """
    ids, starts = _join_pieces(track.pieces[start:stop], table, max_pieces)
    timing = track.timing[start:stop]
    if track.sound is None:
        return Example(ids, starts, timing, marks=marks, cases=cases)
    begin_s, end_s = track.start_s[start:stop], track.end_s[start:stop]
    frames, origin_s = _cut_sound(track.sound, *_find_span(track, start, stop), left_context_s)
    last, onset = heard_frames(begin_s, end_s, origin_s, len(frames), track.sound.frame_shift_s)
    return Example(ids, starts, timing, frames, last, onset, marks, cases)


def _join_pieces(words: Sequence[tuple[int, ...]], table: PieceTable, max_pieces: int) -> tuple[Ints, Ints]:
    """(piece_ids, word_starts) of a window; the pieces of a word longer than the whole window are cut."""
    ids = [table.cls_id]
    starts = []
    for pieces in words:
        starts.append(len(ids))
        ids.extend(pieces[: max_pieces - 2])
    ids.append(table.sep_id)
    return np.asarray(ids, np.int64), np.asarray(starts, np.int64)


def _find_span(track: Track, start: int, stop: int) -> tuple[float, float]:
    """When words start..stop of a track begin and end, seconds; NaN if nothing is to be heard."""
    begin_s, end_s = track.start_s[start:stop], track.end_s[start:stop]
    known = ~np.isnan(begin_s)
    from_s = float(begin_s[known].min()) if known.any() else math.nan
    to_s = float(end_s[known].max()) if known.any() else math.nan
    if track.sound is None or track.sound.by_times or stop == start:
        return from_s, to_s
    # Where the first or the last word has no times: as if untimed words were spread evenly between timed ones.
    if not known[0]:
        from_s = np.fmin(from_s, _guess_time(track, track.sound, start) - GUESS_MARGIN_S)
    if not known[-1]:
        to_s = np.fmax(to_s, _guess_time(track, track.sound, stop) + GUESS_MARGIN_S)
    return float(from_s), float(to_s)


def _guess_time(track: Track, sound: Sound, n_words: int) -> float:
    """When the first ``n_words`` words of a track have been said, by the times of words around or of the sound."""
    known = np.flatnonzero(~np.isnan(track.start_s))
    place = np.concatenate([[0.0], known + 0.5, [float(len(track))]])
    sound_end_s = sound.start_s + len(sound.frames) * sound.frame_shift_s
    middle_s = (track.start_s[known] + track.end_s[known]) / 2
    return float(np.interp(n_words, place, np.concatenate([[sound.start_s], middle_s, [sound_end_s]])))


def count_frames(track: Track, start: int, stop: int, left_context_s: float) -> int:
    """How many frames the example of words start..stop of a track has; see ``cut_example``."""
    if track.sound is None:
        return 0
    first, last = _find_frames(track.sound, *_find_span(track, start, stop), left_context_s)
    return last - first


def _cut_sound(sound: Sound, begin_s: float, end_s: float, left_context_s: float) -> tuple[Floats, float]:
    """(frames, time of the first) around what is said from ``begin_s`` to ``end_s``; no frames where that is NaN."""
    first, last = _find_frames(sound, begin_s, end_s, left_context_s)
    return sound.frames[first:last], sound.start_s + first * sound.frame_shift_s


def _find_frames(sound: Sound, begin_s: float, end_s: float, left_context_s: float) -> tuple[int, int]:
    if math.isnan(begin_s):
        return 0, 0
    from_s = begin_s - left_context_s - sound.start_s
    to_s = end_s + MAX_ONSET_DELAY_S - sound.start_s
    first = min(max(int(from_s / sound.frame_shift_s), 0), len(sound.frames))
    last = min(max(int(to_s / sound.frame_shift_s) + 1, first), len(sound.frames))
    return first, last
