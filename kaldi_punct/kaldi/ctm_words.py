"""The words of a data directory's CTM by utterance, without holding a record for each of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kaldi_punct.errors import FormatError, UtteranceError
from kaldi_punct.kaldi.ctm import (
    CtmLine,
    count_steps_back,
    parse_ctm_line,
    read_ctm_recordings,
    split_channels,
    to_word,
)
from kaldi_punct.kaldi.tables import Segment
from kaldi_punct.types import Word


class CtmWords(Mapping[str, tuple[Word, ...]]):
    """The words of a CTM by utterance, parsed again at each look: only the text of its lines is held.

    Without ``segments`` an utterance is a recording, or one of its channels (``rec-channel``) if it has several. With
    them the CTM is keyed by utterance (its times count from the segment's start) or by recording (a word belongs to the
    segment that its middle lies in, else to the nearest). Either way the words' times are on the recording's clock.

    Args:
        path: the CTM; None if there is none, which gives an empty mapping.
        segments: by utterance; empty if unknown.
        utt2spk: speaker by utterance, or by recording.
        channels: (file, channel) by recording, as in ``reco2file_and_channel``.

    Attributes:
        exists: there is a CTM.
        every: utterances with words in it, in its order, those of ``errors`` too.
        errors: those whose times step back too far.
        n_steps_back: small steps back in all others.

    Raises:
        FormatError: a line is none of a CTM, or belongs to no segment.
    """

    def __init__(
        self,
        path: Path | None,
        segments: Mapping[str, Segment],
        utt2spk: Mapping[str, str],
        channels: Mapping[str, tuple[str, str]],
    ) -> None:
        self.exists = path is not None
        self.errors: dict[str, UtteranceError] = {}
        self.n_steps_back = 0
        self.every: tuple[str, ...] = ()
        self._utt2spk = utt2spk
        self._lines: dict[str, str] = {}
        self._shift_s: dict[str, float] = {}
        self._places: dict[str, tuple[str, str]] = {}
        if path is None:
            return
        cut = SegmentCutter(str(path), segments, channels) if segments else None
        for lines in read_ctm_recordings(path):
            for utt_id, own in split_channels(lines).items():
                if cut is None:
                    self._add(str(path), utt_id, own)
                elif lines[0].rec_id in segments:
                    self._shift_s[lines[0].rec_id] = segments[lines[0].rec_id].start_s
                    self._add(str(path), lines[0].rec_id, own)
                else:
                    for segment_id, words in cut(own).items():
                        self._add(str(path), segment_id, words)
        self.every = tuple(self._lines)

    def __getitem__(self, utt_id: str) -> tuple[Word, ...]:
        if utt_id in self.errors:
            raise self.errors[utt_id]
        text, shift_s = self._lines[utt_id], self._shift_s.get(utt_id, 0.0)
        spk_id = self._utt2spk.get(utt_id) or self._utt2spk.get(self._places[utt_id][0])
        lines = (parse_ctm_line("", 0, line) for line in text.split("\n"))
        return tuple(
            to_word(replace(line, start_s=line.start_s + shift_s) if shift_s else line, spk_id) for line in lines
        )

    def __iter__(self) -> Iterator[str]:
        return (u for u in self._lines if u not in self.errors)

    def __len__(self) -> int:
        return len(self._lines) - len(self.errors)

    def rec_id(self, utt_id: str) -> str | None:
        """The first field of an utterance's lines; None if it has none."""
        return self._places[utt_id][0] if utt_id in self._places else None

    def channel(self, utt_id: str) -> str | None:
        """The channel of an utterance's lines; None if it has none."""
        return self._places[utt_id][1] if utt_id in self._places else None

    def _add(self, name: str, utt_id: str, lines: Sequence[CtmLine]) -> None:
        if utt_id in self._lines:
            raise FormatError(
                f"{name}:{lines[0].line}: expected the lines of '{utt_id}' from one recording and channel, got them "
                "from several; key the CTM by utterance, or by recording, but not by both"
            )
        self._lines[utt_id] = "\n".join(line.raw for line in lines)
        self._places[utt_id] = (lines[0].rec_id, lines[0].channel)
        try:
            self.n_steps_back += count_steps_back(name, utt_id, lines)
        except UtteranceError as e:
            self.errors[utt_id] = e


class SegmentCutter:
    """Cuts a recording's lines into its segments."""

    def __init__(self, name: str, segments: Mapping[str, Segment], channels: Mapping[str, tuple[str, str]]) -> None:
        self._name = name
        self._rec_of = {place: rec_id for rec_id, place in channels.items()}
        self._segments: dict[str, list[Segment]] = {}
        for segment in sorted(segments.values(), key=lambda s: s.start_s):
            self._segments.setdefault(segment.rec_id, []).append(segment)

    def __call__(self, lines: Sequence[CtmLine]) -> dict[str, list[CtmLine]]:
        first = lines[0]
        # After utils/convert_ctm.pl the first two fields are file and channel, not the recording of ``segments``.
        rec_id = self._rec_of.get((first.rec_id, first.channel), first.rec_id)
        segments = self._segments.get(rec_id)
        if segments is None:
            raise FormatError(
                f"{self._name}:{first.line}: expected an utterance or a recording of segments, got '{first.rec_id}'; "
                "is this the CTM of another data directory?"
            )
        starts_s = [s.start_s for s in segments]
        out: dict[str, list[CtmLine]] = {}
        for line in lines:
            middle_s = line.start_s + line.duration_s / 2
            i = max(bisect_right(starts_s, middle_s) - 1, 0)
            end_s = segments[i].end_s
            if (
                end_s is not None
                and end_s < middle_s
                and i + 1 < len(segments)
                and starts_s[i + 1] - middle_s < middle_s - end_s
            ):
                i += 1
            out.setdefault(segments[i].utt_id, []).append(line)
        return out
