"""CTMs moved to the recording's clock, as utils/convert_ctm.pl moves them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kaldi_punct.errors import UtteranceError
from kaldi_punct.kaldi.reco_ctm import RecordingClock, to_recording
from kaldi_punct.kaldi.tables import (
    CtmLine,
    Segment,
    read_ctm_recordings,
    read_reco2file_and_channel,
    read_segments,
)

SEGMENTS = {"u1": Segment("u1", "r1", 10.005, 12.0), "u2": Segment("u2", "r2", 3.0, None)}
CLOCK = RecordingClock(SEGMENTS, {"r1": ("file", "B")}, "data/segments", "data/reco2file_and_channel")


def text(lines: list[CtmLine]) -> list[str]:
    return [line.rewritten(line.word) for line in lines]


def test_file_channel_and_time_of_the_recording() -> None:
    lines = [CtmLine("u1", "1", 0.5, 0.25, "hello", 0.875), CtmLine("u1", "1", 0.75, 0.3, "you")]
    assert text(to_recording(lines, CLOCK)) == ["file B 10.51 0.25 hello 0.88", "file B 10.76 0.30 you"]


def test_times_have_two_decimals_before_they_move() -> None:
    late = RecordingClock({"u2": Segment("u2", "r1", 3.004, None)}, {"r1": ("file", "B")})
    assert text(to_recording([CtmLine("u2", "1", 0.8349, 0.1049, "a")], late)) == ["file B 3.83 0.10 a"]


def test_lines_of_a_file_move_too() -> None:
    line = CtmLine("u1", "1", 0.5, 0.25, "hello", None, raw="u1 1 0.50 0.25 hello NA", line=3)
    assert text(to_recording([line], CLOCK)) == ["file B 10.51 0.25 hello"]


def test_without_channels_the_recording_names_itself() -> None:
    lines = [CtmLine("u2", "1", 0.5, 0.25, "hello")]
    assert text(to_recording(lines, RecordingClock(SEGMENTS))) == ["r2 1 3.50 0.25 hello"]


def test_nothing_comes_of_nothing() -> None:
    assert to_recording([], CLOCK) == []


def test_words_past_the_end_of_the_segment_stay_and_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    lines = [CtmLine("u1", "1", 1.5, 0.5, "in"), CtmLine("u1", "1", 1.9, 0.5, "out")]
    with caplog.at_level(logging.WARNING, "kaldi_punct"):
        assert len(to_recording(lines, CLOCK)) == 2
    assert caplog.messages == ["u1: 1 words pass the end of the segment, 12 s"]


def test_no_end_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    to_recording([CtmLine("u2", "1", 900.0, 0.5, "late")], RecordingClock(SEGMENTS))
    assert not caplog.messages


def test_utterance_without_segment() -> None:
    with pytest.raises(UtteranceError, match=r"^data/segments: expected a line of utterance 'u3', got none; are these"):
        to_recording([CtmLine("u3", "1", 0.0, 0.5, "a")], CLOCK)


def test_recording_without_channel() -> None:
    with pytest.raises(
        UtteranceError,
        match=r"^data/reco2file_and_channel: expected a line of recording 'r2' \(utterance 'u2'\), got none; add",
    ):
        to_recording([CtmLine("u2", "1", 0.0, 0.5, "a")], CLOCK)


@pytest.mark.shared
@pytest.mark.parametrize(("source", "golden"), [("1best.ctm", "reco.ctm"), ("map.conf.ctm", "reco.conf.ctm")])
def test_as_convert_ctm(shared: Path, source: str, golden: str) -> None:
    folder = shared / "golden" / "reco"
    clock = RecordingClock(
        {s.utt_id: s for s in read_segments(folder / "segments")},
        dict(read_reco2file_and_channel(folder / "reco2file_and_channel")),
    )
    ours = [
        line
        for lines in read_ctm_recordings(shared / "golden" / "gmm-lj" / source)
        for line in text(to_recording(lines, clock))
    ]
    assert ours == (folder / f"gmm-lj.{golden}").read_text().splitlines()
