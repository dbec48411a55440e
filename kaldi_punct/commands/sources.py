"""What ``punctuate`` and ``client`` read but lattices, as utterances in input order."""

from __future__ import annotations

import argparse
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from kaldi_punct.errors import ConfigError, FormatError, KaldiPunctError, UtteranceError
from kaldi_punct.types import Hypothesis, Utterance, Word

if TYPE_CHECKING:
    from kaldi_punct.kaldi.ctm_words import SegmentCutter
    from kaldi_punct.kaldi.tables import CtmLine, CtmSequence, Segment

T = TypeVar("T")
RESULT_KINDS = ("vosk", "kaldi-server", "online2")  # results of decoders, commands/results.py
KINDS = ("lattice", "ctm", "text", "lines", "jsonl", *RESULT_KINDS)
log = logging.getLogger("kaldi_punct")


@dataclass(frozen=True, slots=True)
class Item:
    """One utterance read.

    Attributes:
        utterance: its times are on the recording's clock where ``segments`` tells it.
        conversation: what it shares its context with; None if it stands alone.
        lines: the CTM lines of its words, one each; empty if it has none yet.
        hypotheses: its N-best list, the utterance's words first; empty if it is known by these alone.
    """

    utterance: Utterance
    conversation: str | None = None
    lines: tuple[CtmLine, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()


Entries = Iterator[tuple[str, Item | KaldiPunctError]]


@dataclass
class Tables:
    """The side tables of an input.

    Attributes:
        segments: by utterance; empty if not given.
        utt2spk: speaker by utterance.
        channels: (file, channel) by recording.
        missing: how many utterances each table lacks.
        recordings: those of ``segments``, as a CTM may name them.
    """

    segments: Mapping[str, Segment] = field(default_factory=dict)
    utt2spk: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    missing: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        recordings = {s.rec_id for s in self.segments.values()}
        # A CTM may name a recording by its file, and the channel beside it.
        self.recordings = recordings | {file for rec_id, (file, _) in self.channels.items() if rec_id in recordings}
        self._cutter: SegmentCutter | None = None
        self._sizes = Counter(s.rec_id for s in self.segments.values())

    @classmethod
    def read(cls, args: argparse.Namespace) -> Tables:
        """The tables that the options name.

        Raises:
            ConfigError: channels of recordings without the recordings.
            FormatError: a table that cannot be read.
        """
        from kaldi_punct.kaldi import tables

        segments, utt2spk, channels = args.segments, args.utt2spk, args.reco2file_and_channel
        if channels is not None and segments is None:
            raise ConfigError(
                "--reco2file-and-channel: expected --segments with it, got none; add it, or leave this out"
            )
        return cls(
            {} if segments is None else side_table(segments, ((s.utt_id, s) for s in tables.read_segments(segments))),
            {} if utt2spk is None else side_table(utt2spk, tables.read_utt2spk(utt2spk)),
            {} if channels is None else side_table(channels, tables.read_reco2file_and_channel(channels)),
        )

    def sizes(self) -> Counter[str]:
        """How many utterances each conversation has, by its name; it grows where an input brings its own."""
        return self._sizes

    def place(self, utterance: Utterance) -> Item:
        """The utterance with its segment and speaker."""
        utt_id = utterance.utt_id
        segment = self.segments.get(utt_id)
        if segment is not None:
            utterance = replace(utterance, rec_id=segment.rec_id, start_s=segment.start_s, end_s=segment.end_s)
        elif self.segments:
            self.missing["segments"] += 1
        spk_id = self.utt2spk.get(utt_id)
        if spk_id is not None:
            utterance = replace(utterance, words=tuple(replace(w, spk_id=spk_id) for w in utterance.words))
        elif self.utt2spk:
            self.missing["utt2spk"] += 1
        return Item(utterance, None if segment is None else segment.rec_id)

    def start_s(self, utt_id: str) -> float:
        """Where an utterance begins in its recording; 0 if unknown."""
        return self.segments[utt_id].start_s if utt_id in self.segments else 0.0

    def cut(self, source: str, lines: Sequence[CtmLine]) -> dict[str, list[CtmLine]]:
        """The CTM lines of one recording and channel, by the segment that they lie in."""
        from kaldi_punct.kaldi.ctm_words import SegmentCutter

        if self._cutter is None:
            self._cutter = SegmentCutter(source, self.segments, self.channels)
        return self._cutter(lines)

    def log_missing(self) -> None:
        """Says once for each table how many utterances it lacks."""
        for table, n in self.missing.items():
            effect = "each is a conversation of its own" if table == "segments" else "their speakers are unknown"
            log.warning("%d utterances are not in %s: %s", n, table, effect)


def side_table(table: str, entries: Iterable[tuple[str, T]]) -> dict[str, T]:
    """The entries of a side table, one a line.

    Raises:
        FormatError: it has none, or a key twice.
    """
    from kaldi_punct.kaldi.tables import by_key

    out = by_key(table, entries)
    if not out:
        raise FormatError(f"{table}: expected at least one line, got an empty table; leave the option out")
    return out


def guess_kind(source: str) -> str:
    """The kind of an input, by its name and its first lines.

    Raises:
        ConfigError: neither tells; the caller must say.
    """

    if source.split(":")[0].split(",")[0] in ("ark", "scp") and ":" in source:
        return "lattice"
    if os.path.isdir(source):
        return "lattice"
    name = os.path.basename(source).removesuffix(".gz")
    if os.path.isfile(source):
        if name.startswith("lat.") or name.endswith((".lat", ".ark", ".lats")):
            return "lattice"
        if name.endswith((".jsonl", ".json")):
            return "jsonl"
        if looks_like_ctm(source):
            return "ctm"
        if name.startswith("text") or name.endswith(".text"):
            return "text"
    elif source not in ("", "-") and "|" not in source and ":" not in source and not os.path.exists(source):
        raise FormatError(f"{source}: expected a readable file, got no such file; check the name")
    raise ConfigError(
        f"--from: expected one of {', '.join(KINDS)} for an input whose name does not tell, got none: '{source}'; "
        "say what it is, e.g. --from text for lines '<utt-id> <word> …', --from lines for words alone"
    )


def looks_like_ctm(source: str) -> bool:
    """Whether the first lines of a file, if it is one, are those of a CTM."""
    from kaldi_punct.kaldi import tables

    if not os.path.isfile(source):
        return False
    head = [line for _, (_, line) in zip(range(20), tables.read_lines(source), strict=False)]
    rows = [tables.split_fields(line) for line in head if not line.startswith(";;")]
    return bool(rows) and all(_is_ctm(row) for row in rows)


def read_items(source: str, kind: str, side: Tables) -> Entries:
    """The utterances of anything but lattices, in order; one that cannot be taken is an error in its place.

    Raises:
        FormatError: the input breaks its format, or was cut short.
    """
    readers = {"ctm": _read_ctm, "text": _read_text, "lines": _read_lines, "jsonl": _read_jsonl}
    return readers[kind](source, side)


def _is_ctm(fields: list[str]) -> bool:
    if not 5 <= len(fields) <= 6:
        return False
    try:
        return float(fields[2]) >= 0 and float(fields[3]) >= 0
    except ValueError:
        return False


def _read_text(source: str, side: Tables) -> Entries:
    from kaldi_punct.kaldi import tables

    for utt_id, text in tables.read_text(source):
        yield utt_id, side.place(Utterance(utt_id, tuple(Word(w) for w in tables.split_fields(text))))


def _read_lines(source: str, side: Tables) -> Entries:
    from kaldi_punct.kaldi import tables

    for n, line in tables.read_lines(source):
        utt_id = f"line-{n}"
        yield utt_id, side.place(Utterance(utt_id, tuple(Word(w) for w in tables.split_fields(line))))


def _read_jsonl(source: str, side: Tables) -> Entries:
    from kaldi_punct.formats.jsonl import read_jsonl

    for utterance in read_jsonl(source):
        error = step_back(source, utterance)
        yield utterance.utt_id, error or side.place(utterance)


def step_back(source: str, utterance: Utterance) -> UtteranceError | None:
    """Why an utterance's times cannot be, as ``count_steps_back`` says of a CTM."""
    from kaldi_punct.kaldi.ctm import MAX_STEP_BACK_S

    before = 0.0
    for word in utterance.words:
        if word.start_s is None:
            continue
        if before - word.start_s > MAX_STEP_BACK_S + 1e-9:
            return UtteranceError(
                f"{source}: {utterance.utt_id}: expected times that go on, got '{word.word}' at {word.start_s:g} s "
                f"after a word at {before:g} s; sort the words by their times"
            )
        before = word.start_s
    return None


def _read_ctm(source: str, side: Tables) -> Entries:
    """A CTM by recording, by utterance (times count from the segment's start), or by recording and cut by segments."""
    from kaldi_punct.kaldi import tables
    from kaldi_punct.kaldi.ctm import MAX_STEP_BACK_S, split_channels

    n_steps_back = n_pairs = n_overlaps = 0
    for lines in tables.read_ctm_recordings(source):
        for own in split_channels(lines).values():
            n_pairs += len(own) - 1
            n_overlaps += sum(b.start_s < a.start_s + a.duration_s - MAX_STEP_BACK_S for a, b in pairwise(own))
        for found in _sequences(source, lines, side):
            if isinstance(found, UtteranceError):
                yield lines[0].rec_id, found
                continue
            n_steps_back += found.n_steps_back
            item = side.place(found.utterance)
            yield found.utterance.utt_id, replace(item, lines=found.lines)
    if n_steps_back:
        log.warning("%s: %d times step back by at most 0.1 s (taken as they are)", source, n_steps_back)
    if 2 * n_overlaps > n_pairs:
        log.warning(
            "%s: %d of %d words last beyond the start of the next: the fourth field of a CTM is a duration, not an end",
            source,
            n_overlaps,
            n_pairs,
        )


def _sequences(source: str, lines: Sequence[CtmLine], side: Tables) -> Iterator[CtmSequence | UtteranceError]:
    """The sequences of the lines of one recording or utterance, times on the recording's clock."""
    from kaldi_punct.kaldi.ctm import CtmSequence, count_steps_back, ctm_sequences, split_channels, to_word

    rec_id = lines[0].rec_id
    if rec_id in side.segments or rec_id not in side.recordings:
        for found in ctm_sequences(source, lines):
            yield found if isinstance(found, UtteranceError) else _shifted(found, side.start_s(rec_id))
        return
    for own in split_channels(lines).values():
        for utt_id, part in side.cut(source, own).items():
            try:
                n_steps_back = count_steps_back(source, utt_id, part)
            except UtteranceError as e:
                yield e
                continue
            utterance = Utterance(utt_id, tuple(to_word(line) for line in part), rec_id, own[0].channel)
            yield CtmSequence(utterance, tuple(part), n_steps_back)


def _shifted(sequence: CtmSequence, shift_s: float) -> CtmSequence:
    if not shift_s:
        return sequence
    words = tuple(w if w.start_s is None else replace(w, start_s=w.start_s + shift_s) for w in sequence.utterance.words)
    return replace(sequence, utterance=replace(sequence.utterance, words=words))
