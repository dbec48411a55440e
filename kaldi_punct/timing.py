"""Word times, confidences and speakers -> the timing features of each word, and the frames at which a word is heard."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kaldi_punct.types import Word

FIELDS = ("pause_before", "pause_after", "duration", "char_duration", "confidence", "speaker_change")
N_TIMING = 2 * len(FIELDS)  # each value with a known-bit
TIME_COLUMNS = tuple(c for i in range(4) for c in (i, i + len(FIELDS)))  # what goes when times are hidden
CONFIDENCE_COLUMNS = (4, 4 + len(FIELDS))
SPEAKER_COLUMNS = (5, 5 + len(FIELDS))
PAUSE_AFTER_COLUMNS = (1, 1 + len(FIELDS))

# The sound of a pause is heard up to this long after a word, unless the next word begins earlier.
MAX_ONSET_DELAY_S = 0.5
# Pauses and durations are squeezed by log1p(x / unit), so that 0.03 s and 3 s are both told from their neighbours.
_PAUSE_UNIT_S = 0.1
_DURATION_UNIT_S = 0.1
_CHAR_UNIT_S = 0.05


def timing_features(words: Sequence[Word]) -> NDArray[np.float32]:
    """The timing features of words in order.

    Values first, then their known-bits: an unknown value is 0 with its bit 0. The pause before a word is the silence
    since the word before (unknown at the first word); a speaker change is 1 where the next word is another speaker's.

    Args:
        words: consecutive words of one conversation, without tokens that are not words.

    Returns:
        shape (n_words, N_TIMING), float32, in the order of FIELDS.
    """
    n = len(words)
    values = np.zeros((n, len(FIELDS)), np.float32)
    known = np.zeros((n, len(FIELDS)), np.float32)
    for i, word in enumerate(words):
        if word.start_s is not None and word.duration_s is not None:
            values[i, 2] = math.log1p(word.duration_s / _DURATION_UNIT_S)
            values[i, 3] = math.log1p(word.duration_s / max(len(word.word), 1) / _CHAR_UNIT_S)
            known[i, 2:4] = 1
        if word.confidence is not None:
            values[i, 4], known[i, 4] = word.confidence, 1
        if i + 1 == n:
            break
        after = words[i + 1]
        if word.spk_id is not None and after.spk_id is not None:
            values[i, 5], known[i, 5] = float(word.spk_id != after.spk_id), 1
        end_s = word.end_s
        if end_s is not None and after.start_s is not None:
            pause = math.log1p(max(after.start_s - end_s, 0.0) / _PAUSE_UNIT_S)
            values[i, 1], known[i, 1] = pause, 1
            values[i + 1, 0], known[i + 1, 0] = pause, 1
    return np.concatenate([values, known], axis=1)


def last_frame(end_s: float, frame_shift_s: float) -> int:
    """Index of the frame in which a word that ends at ``end_s`` ends; frame t covers [t, t+1) x frame_shift_s."""
    return max(math.ceil(round(end_s / frame_shift_s, 6)) - 1, 0)


def heard_frames(
    start_s: NDArray[np.float64], end_s: NDArray[np.float64], origin_s: float, n_frames: int, frame_shift_s: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The frames at which each word is read out: at its end, and at the onset of the next word.

    The onset read-out is the start of the next word or, if earlier, 0.5 s after the word's end or the end of the audio.

    Args:
        start_s: (W,) when the words of one window begin, seconds; NaN where unknown.
        end_s: (W,) when they end.
        origin_s: time of frame 0 on the words' clock, seconds.
        n_frames: how many frames there are.
        frame_shift_s: seconds between frames.

    Returns:
        (last, onset), each of shape (W,); -1 where the word has no times or lies outside the audio.
    """
    last = np.full(len(start_s), -1, np.int64)
    onset = np.full(len(start_s), -1, np.int64)
    for i, (begin, end) in enumerate(zip(start_s.tolist(), end_s.tolist(), strict=True)):
        if math.isnan(begin) or begin < origin_s - frame_shift_s:
            continue
        t = last_frame(end - origin_s, frame_shift_s)
        if t > n_frames or n_frames == 0:  # one frame of grace: decoders round up
            continue
        last[i] = min(t, n_frames - 1)
        hear_s = end + MAX_ONSET_DELAY_S
        if i + 1 < len(start_s) and not math.isnan(start_s[i + 1]):
            hear_s = min(hear_s, max(float(start_s[i + 1]), end))
        onset[i] = min(max(last_frame(hear_s - origin_s, frame_shift_s), int(last[i])), n_frames - 1)
    return last, onset
