"""A Kaldi data directory as conversations of utterances: read and checked at once, words built as they are asked for.

Words come from ``ctm`` where there is one, else from ``text``, else from ``text_punct`` (through ``labels.split``).
Every table may be compressed (``ctm.gz``).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from kaldi_punct import labels
from kaldi_punct.errors import FormatError, UtteranceError
from kaldi_punct.kaldi.ctm_words import CtmWords
from kaldi_punct.kaldi.tables import (
    Segment,
    read_reco2file_and_channel,
    read_reco2utt,
    read_segments,
    read_text,
    read_utt2spk,
    read_wav_scp,
    split_fields,
)
from kaldi_punct.types import Utterance, Word

_log = logging.getLogger(__name__)
_V_co = TypeVar("_V_co", covariant=True)


class _Reader(Protocol[_V_co]):
    def __call__(self, table: Path, check_sorted: bool = False) -> Iterator[tuple[str, _V_co]]: ...


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is said in one recording and channel, in time order.

    Attributes:
        rec_id: the recording; the utterance's own id if no table says where it is from.
        channel: None if unknown.
        utterances: its segments.
    """

    rec_id: str
    channel: str | None
    utterances: tuple[Utterance, ...]


class DataDir:
    """A Kaldi data directory: iterating gives its utterances in table order.

    Attributes:
        path: the directory.
        utt_ids: its utterances in table order, those of ``errors`` left out.
        text: ``text`` by utterance; empty if there is no such table. Likewise all that follow.
        text_punct: punctuated text by utterance; only of utterances that are here.
        segments: by utterance.
        utt2spk: speaker by utterance.
        wav_scp: rxfilename by recording.
        reco2utt: the utterances of each recording, in time order.
        reco2file_and_channel: (file, channel) by recording.
        ctm: words with times by utterance, on the recording's clock where ``segments`` tells it.
        errors: utterances left out, and why: their times step back by more than 0.1 s.
        n_steps_back: how many times a word begins before the one before it, by less than that.

    Raises:
        FormatError: a table is broken, unsorted, or does not fit the others.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise FormatError(f"{self.path}: expected a Kaldi data directory, got no directory; check the path")
        self.text: Mapping[str, str] = self._table("text", read_text)
        punctuated = self._table("text_punct", read_text)
        self.utt2spk: Mapping[str, str] = self._table("utt2spk", read_utt2spk)
        self.wav_scp: Mapping[str, str] = self._table("wav.scp", read_wav_scp)
        self.reco2utt: Mapping[str, tuple[str, ...]] = self._table("reco2utt", read_reco2utt)
        self.reco2file_and_channel: Mapping[str, tuple[str, str]] = self._table(
            "reco2file_and_channel", read_reco2file_and_channel
        )
        segments = self._find("segments")
        self.segments: Mapping[str, Segment] = (
            {} if segments is None else {s.utt_id: s for s in read_segments(segments, check_sorted=True)}
        )
        self.ctm = CtmWords(self._find("ctm"), self.segments, self.utt2spk, self.reco2file_and_channel)
        self.errors: Mapping[str, UtteranceError] = self.ctm.errors
        self.n_steps_back = self.ctm.n_steps_back
        every = self._every_utterance(punctuated)
        self.utt_ids: tuple[str, ...] = tuple(u for u in every if u not in self.errors)
        known = set(every)
        self.text_punct: Mapping[str, str] = {u: t for u, t in punctuated.items() if u in known}
        self._rec_of = {u: rec_id for rec_id, utts in self.reco2utt.items() for u in utts}
        self._check(known, len(punctuated))

    def __iter__(self) -> Iterator[Utterance]:
        return (self[u] for u in self.utt_ids)

    def __len__(self) -> int:
        return len(self.utt_ids)

    def __getitem__(self, utt_id: str) -> Utterance:
        """One utterance.

        Raises:
            UtteranceError: it is one of ``errors``.
            KeyError: there is no such utterance.
        """
        if utt_id in self.errors:
            raise self.errors[utt_id]
        segment = self.segments.get(utt_id)
        rec_id, channel = self.place(utt_id)
        start_s, end_s = (segment.start_s, segment.end_s) if segment else (None, None)
        return Utterance(utt_id, self._words(utt_id), rec_id, channel, start_s, end_s)

    def conversations(self) -> Iterator[Conversation]:
        """The utterances of one recording and channel at a time, in time order (``segments``, else ``reco2utt``).

        Recordings come in the order of their first utterance. Without both tables each utterance stands alone.
        """
        groups: dict[tuple[str, str | None], list[str]] = {}
        for utt_id in self.utt_ids:
            groups.setdefault(self._group(utt_id), []).append(utt_id)
        for (rec_id, channel), utt_ids in groups.items():
            if self.segments:
                utt_ids = sorted(utt_ids, key=lambda u: self.segments[u].start_s)
            elif rec_id in self.reco2utt:
                here = set(utt_ids)
                utt_ids = [u for u in self.reco2utt[rec_id] if u in here]
            utterances = tuple(self[u] for u in utt_ids)
            channel = channel or next((u.channel for u in utterances if u.channel is not None), None)
            yield Conversation(utterances[0].rec_id or rec_id, channel, utterances)

    def _group(self, utt_id: str) -> tuple[str, str | None]:
        """What an utterance shares with the others of its conversation."""
        if self.segments:
            return self.place(utt_id)
        # A list of reco2utt is one conversation; an utterance that no list has stands alone.
        return self._rec_of.get(utt_id, utt_id), None

    def _words(self, utt_id: str) -> tuple[Word, ...]:
        if self.ctm.exists:
            return self.ctm.get(utt_id, ())  # in none of its lines: nothing was heard
        spk_id = self.utt2spk.get(utt_id)
        if self.text:
            return tuple(Word(w, spk_id=spk_id) for w in split_fields(self.text.get(utt_id, "")))
        return tuple(Word(w.word, spk_id=spk_id) for w in labels.split(self.text_punct[utt_id]))

    def place(self, utt_id: str) -> tuple[str, str | None]:
        """(recording, channel) of an utterance; without any table that says so it is a recording of its own."""
        if segment := self.segments.get(utt_id):
            rec_id = segment.rec_id
        else:
            rec_id = self._rec_of.get(utt_id) or self.ctm.rec_id(utt_id) or utt_id
        if rec_id in self.reco2file_and_channel:
            return rec_id, self.reco2file_and_channel[rec_id][1]
        return rec_id, None if self.segments else self.ctm.channel(utt_id)

    def _every_utterance(self, punctuated: Mapping[str, str]) -> list[str]:
        if self.segments:
            return list(self.segments)
        if self.ctm.exists:
            # Keyed by utterance: the other tables also name those in which nothing was heard.
            for table in (self.text, self.utt2spk, punctuated):
                if table and all(u in table for u in self.ctm.every):
                    return list(table)
            return list(self.ctm.every)
        if not self.text and not punctuated:
            raise FormatError(
                f"{self.path}: expected one of text, text_punct and ctm, got none; is it a Kaldi data directory?"
            )
        return list(self.text or punctuated)

    def _check(self, known: set[str], n_punctuated: int) -> None:
        if self.segments:
            for name, keys in (("text", self.text), ("ctm", self.ctm.every)):
                self._check_subset("segments", self.segments, name, keys)
        if not self.ctm.exists:
            name = "text" if self.text else "text_punct"
            self._check_subset(name, self.text or self.text_punct, "segments", self.segments)
            if self.utt2spk:
                self._check_subset("utt2spk", self.utt2spk, name, known)
        if self.wav_scp:
            name = "segments" if self.segments else "ctm" if self.ctm.exists else "text"
            self._check_subset("wav.scp", self.wav_scp, name, (self.place(u)[0] for u in known))
        self._warn(
            "text_punct",
            n_punctuated - len(self.text_punct),
            "utterances are in no other table (left out): it is stale",
        )
        self._warn(
            "reco2utt", len(set(self._rec_of) - known), "utterances are in no other table (left out): it is stale"
        )
        if self.text_punct:
            self._warn("text_punct", len(known) - len(self.text_punct), "utterances are missing from it")
        self._warn("ctm", self.n_steps_back, "times step back by at most 0.1 s (taken as they are)")
        for error in self.errors.values():
            _log.error("%s", error)

    def _warn(self, name: str, n: int, what: str) -> None:
        if n:
            _log.warning("%s: %d %s", self._file(name), n, what)

    def _check_subset(self, whole: str, keys: Iterable[str], part: str, part_keys: Iterable[str]) -> None:
        keys = set(keys)
        strays = [k for k in part_keys if k not in keys]
        if strays:
            raise FormatError(
                f"{self._file(part)}: expected only keys that are in {whole}, got {len(strays)} others, first "
                f"'{strays[0]}'; run utils/fix_data_dir.sh {self.path}"
            )

    def _table(self, name: str, read: _Reader[_V_co]) -> dict[str, _V_co]:
        path = self._find(name)
        return {} if path is None else dict(read(path, check_sorted=True))

    def _find(self, name: str) -> Path | None:
        return next((p for p in (self.path / name, self.path / f"{name}.gz") if p.is_file()), None)

    def _file(self, name: str) -> Path:
        return self._find(name) or self.path / name
