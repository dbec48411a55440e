"""CTM: one timed word a line, ``<id> <channel> <start-s> <duration-s> <word> [confidence]``; field 4 is a duration."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kaldi_punct.errors import FormatError, UtteranceError
from kaldi_punct.kaldi.streams import (
    RxFilename,
    as_rspecifier,
    read_lines,
    split_fields,
    to_number,
    to_seconds,
    write_lines,
)
from kaldi_punct.types import Utterance, Word

MAX_STEP_BACK_S = 0.1  # decoders and roundings step back by a frame or two; more is a table in disorder
_CONFIDENCE_SLACK = 1e-3  # sums of posteriors may pass 1 by rounding
_TO_WORD = re.compile(r"[ \t\r\n\f\v]*(?:[^ \t\r\n\f\v]+[ \t\r\n\f\v]+){4}")


@dataclass(frozen=True, slots=True)
class CtmLine:
    """One word of a CTM.

    Attributes:
        rec_id: first field: a recording, or an utterance where the CTM is one of utterances.
        channel: second field, as written.
        start_s: when the word begins.
        duration_s: how long it lasts.
        confidence: sixth field, 0..1; None if it is absent or ``NA``.
        raw: the line as it stands in the file.
        line: its number in the file.
    """

    rec_id: str
    channel: str
    start_s: float
    duration_s: float
    word: str
    confidence: float | None = None
    raw: str = ""
    line: int = 0

    def rewritten(self, word: str) -> str:
        """The same line with another word in its place; every other character stays."""
        if not self.raw:
            tail = "" if self.confidence is None else f" {self.confidence:.2f}"
            return f"{self.rec_id} {self.channel} {self.start_s:.2f} {self.duration_s:.2f} {word}{tail}"
        before = _TO_WORD.match(self.raw)
        assert before is not None, "A line that was parsed has five fields. This is a bug."
        return self.raw[: before.end()] + word + self.raw[before.end() + len(self.word) :]


@dataclass(frozen=True, slots=True)
class CtmSequence:
    """The words of one recording and channel.

    Attributes:
        utterance: its words in the order of the lines.
        lines: one for each word.
        n_steps_back: how many times a start lies before the one before it, by at most ``MAX_STEP_BACK_S``.
    """

    utterance: Utterance
    lines: tuple[CtmLine, ...]
    n_steps_back: int = 0


def read_ctm(table: RxFilename) -> Iterator[CtmLine]:
    """The lines of a CTM in order; comments (``;;``) are left out.

    Raises:
        FormatError: a line that is none of a CTM, or a broken stream.
    """
    name = os.fspath(table)
    rx = as_rspecifier(table).rxfilename if isinstance(table, str) else table
    for n, line in read_lines(rx):
        if not line.startswith(";;"):
            yield parse_ctm_line(name, n, line)


def parse_ctm_line(name: str, n: int, line: str) -> CtmLine:
    """One line of a CTM.

    Args:
        name: of the file, for errors.
        n: number of the line, for errors.
        line: its text.

    Raises:
        FormatError: not five or six fields, or numbers that cannot be.
    """
    fields = split_fields(line)
    if not 5 <= len(fields) <= 6:
        raise FormatError(
            f"{name}:{n}: expected 5 or 6 fields '<id> <channel> <start-s> <duration-s> <word> [confidence]', "
            f"got {len(fields)}: '{line}'; is it a CTM?"
        )
    start_s, duration_s = to_seconds(name, n, fields[2]), to_seconds(name, n, fields[3])
    if start_s < 0 or duration_s < 0:
        raise FormatError(
            f"{name}:{n}: expected a start and a duration of at least 0 s, got {fields[2]} and {fields[3]}; "
            "times count from the start of the recording"
        )
    confidence = _to_confidence(name, n, fields[5]) if len(fields) == 6 else None
    return CtmLine(fields[0], fields[1], start_s, duration_s, fields[4], confidence, line, n)


def read_ctm_recordings(table: RxFilename) -> Iterator[tuple[CtmLine, ...]]:
    """The lines of one recording (all its channels) at a time.

    Raises:
        FormatError: as ``read_ctm``, or a recording whose lines do not stand together.
    """
    seen: set[str] = set()
    lines: list[CtmLine] = []
    for line in read_ctm(table):
        if lines and lines[0].rec_id != line.rec_id:
            yield tuple(lines)
            lines = []
        if not lines:
            if line.rec_id in seen:
                raise FormatError(
                    f"{os.fspath(table)}:{line.line}: expected the lines of '{line.rec_id}' together, got it again "
                    "after others; sort the CTM: sort -s -k1,1"
                )
            seen.add(line.rec_id)
        lines.append(line)
    if lines:
        yield tuple(lines)


def ctm_sequences(
    name: str, lines: Sequence[CtmLine], spk_of: Callable[[str], str | None] = lambda _: None
) -> list[CtmSequence | UtteranceError]:
    """The sequences of one recording: one for each channel, in order of their first line.

    A sequence is named ``rec``, or ``rec-channel`` if the recording has more than one channel.

    Args:
        name: of the file, for errors.
        lines: of one recording.
        spk_of: the speaker of a sequence, by its name (else by its recording's); None if unknown.

    Returns:
        A sequence whose times step back by more than ``MAX_STEP_BACK_S`` is an UtteranceError in its place.
    """
    out: list[CtmSequence | UtteranceError] = []
    for utt_id, own in split_channels(lines).items():
        rec_id, channel = own[0].rec_id, own[0].channel
        spk_id = spk_of(utt_id) or spk_of(rec_id)
        try:
            n_steps_back = count_steps_back(name, utt_id, own)
        except UtteranceError as e:
            out.append(e)
            continue
        words = tuple(to_word(line, spk_id) for line in own)
        out.append(CtmSequence(Utterance(utt_id, words, rec_id, channel), tuple(own), n_steps_back))
    return out


def split_channels(lines: Sequence[CtmLine]) -> dict[str, list[CtmLine]]:
    """The lines of one recording by sequence: ``rec``, or ``rec-channel`` if there are several channels."""
    channels: dict[str, list[CtmLine]] = {}
    for line in lines:
        channels.setdefault(line.channel, []).append(line)
    if len(channels) == 1:
        return {lines[0].rec_id: list(lines)}
    return {f"{lines[0].rec_id}-{channel}": own for channel, own in channels.items()}


def count_steps_back(name: str, utt_id: str, lines: Sequence[CtmLine]) -> int:
    """How many words begin before the word before them, by at most ``MAX_STEP_BACK_S``.

    Raises:
        UtteranceError: by more than that.
    """
    n = 0
    for before, line in pairwise(lines):
        step_s = before.start_s - line.start_s
        if step_s > MAX_STEP_BACK_S + 1e-9:
            raise UtteranceError(
                f"{name}:{line.line}: expected times of '{utt_id}' that go on, got '{line.word}' at {line.start_s:g} s "
                f"after '{before.word}' at {before.start_s:g} s; sort the CTM: sort -s -k1,1 -k2,2 -k3,3n"
            )
        n += step_s > 0
    return n


def to_word(line: CtmLine, spk_id: str | None = None) -> Word:
    """The line's word with its times."""
    return Word(line.word, line.start_s, line.duration_s, line.confidence, spk_id)


def write_ctm(table: RxFilename, lines: Iterable[CtmLine]) -> int:
    """Writes CTM lines, times with two decimals as Kaldi does; returns how many."""
    return write_lines(table, (replace(line, raw="").rewritten(line.word) for line in lines))


def _to_confidence(name: str, n: int, field: str) -> float | None:
    if field == "NA":
        return None
    confidence = to_number(field)
    if not 0 <= confidence <= 1 + _CONFIDENCE_SLACK:
        raise FormatError(
            f"{name}:{n}: expected a confidence from 0 to 1 (or NA), got '{field}'; leave the sixth field out if "
            "there is none"
        )
    return min(confidence, 1.0)
