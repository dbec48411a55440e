"""Timing features and the frames at which words are heard."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kaldi_punct.timing import FIELDS, N_TIMING, heard_frames, last_frame, timing_features
from kaldi_punct.types import Word


def column(name: str) -> int:
    return FIELDS.index(name)


def known(name: str) -> int:
    return FIELDS.index(name) + len(FIELDS)


def test_values_and_known_bits() -> None:
    words = [Word("so", 1.0, 0.2, 0.9, "a"), Word("what", 1.5, 0.4, None, "a"), Word("you", 1.9, 0.1, 0.5, "b")]
    features = timing_features(words)
    assert features.shape == (3, N_TIMING)
    assert features[0, column("pause_after")] == pytest.approx(math.log1p(0.3 / 0.1))
    assert features[1, column("pause_before")] == features[0, column("pause_after")]
    assert features[1, column("pause_after")] == pytest.approx(0.0, abs=1e-6)
    assert features[:, known("pause_before")].tolist() == [0, 1, 1]
    assert features[:, known("pause_after")].tolist() == [1, 1, 0]
    assert features[1, column("duration")] == pytest.approx(math.log1p(4.0))
    assert features[1, column("char_duration")] == pytest.approx(math.log1p(0.1 / 0.05))
    assert features[:, known("confidence")].tolist() == [1, 0, 1]
    assert features[0, column("confidence")] == pytest.approx(0.9)
    assert features[:, column("speaker_change")].tolist() == [0, 1, 0]
    assert features[:, known("speaker_change")].tolist() == [1, 1, 0]


def test_nothing_known_is_all_zeros() -> None:
    assert not timing_features([Word("so"), Word("what")]).any()


def test_a_word_without_times_hides_the_pauses_beside_it_only() -> None:
    features = timing_features([Word("a", 0.0, 0.1), Word("b"), Word("c", 0.5, 0.1), Word("d", 0.7, 0.1)])
    assert features[:, known("pause_after")].tolist() == [0, 0, 1, 0]


def test_overlapping_words_have_no_pause() -> None:
    features = timing_features([Word("a", 0.0, 0.5), Word("b", 0.45, 0.1)])
    assert features[0, column("pause_after")] == 0.0
    assert features[0, known("pause_after")] == 1.0


@pytest.mark.parametrize(
    ("end_s", "frame"), [(0.0, 0), (0.01, 0), (0.011, 1), (0.02, 1), (0.3, 29), (0.1 + 0.2, 29), (1.0, 99), (0.07, 6)]
)
def test_last_frame_of_a_word(end_s: float, frame: int) -> None:
    assert last_frame(end_s, 0.01) == frame


def test_onset_is_heard_at_the_next_word_or_half_a_second_on_or_at_the_end() -> None:
    start = np.array([0.0, 0.3, 2.0])
    end = np.array([0.2, 0.5, 2.2])
    last, onset = heard_frames(start, end, 0.0, 240, 0.01)
    assert last.tolist() == [19, 49, 219]
    assert onset.tolist() == [29, 99, 239]  # next word; 0.5 s on; end of the audio


def test_words_outside_the_audio_are_not_heard() -> None:
    start = np.array([0.0, 1.0, 9.0, float("nan")])
    end = np.array([0.2, 1.2, 9.5, float("nan")])
    last, onset = heard_frames(start, end, 0.9, 100, 0.01)
    assert last.tolist() == [-1, 29, -1, -1]
    assert onset.tolist() == [-1, 79, -1, -1]


def test_no_frames_at_all() -> None:
    last, onset = heard_frames(np.array([0.0]), np.array([0.1]), 0.0, 0, 0.01)
    assert (last.tolist(), onset.tolist()) == ([-1], [-1])
