"""Results of decoders as what ``punctuate`` and ``client`` read: the finals of one recording are one conversation."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from kaldi_punct.commands.sources import Entries, Tables, step_back
from kaldi_punct.errors import ConfigError, FormatError

if TYPE_CHECKING:
    from kaldi_punct.formats.result import Result
    from kaldi_punct.kaldi.tables import CtmLine
    from kaldi_punct.types import Utterance

log = logging.getLogger("kaldi_punct")


def read_results(source: str, kind: str, side: Tables) -> Entries:
    """The final results of a stream; what is none of its format is an error in its place.

    A recording is held until the next begins, or the stream ends.

    Raises:
        ConfigError: ``--segments`` with a stream that has its own.
        FormatError: a broken stream; what came before it is read first.
    """
    if side.segments:
        raise ConfigError(f"--segments: expected none with --from {kind}, whose messages are segments; leave it out")
    return _entries(source, kind, side)


def recording_of(source: str) -> str:
    """The name of the recording that a stream is of, by that of its file."""
    if source in ("", "-") or "|" in source:
        return "stream"
    name = os.path.basename(source).removesuffix(".gz")
    stem = os.path.splitext(name)[0] or name
    return "_".join(stem.split()) or "stream"


def _entries(source: str, kind: str, side: Tables) -> Entries:
    counts: Counter[str] = Counter()
    lines = count(1)
    run: list[Result] = []
    broken: FormatError | None = None
    try:
        for found in _read(source, kind, counts):
            if isinstance(found, FormatError):
                yield "", found
            elif found.is_final:
                if run and run[0].utterance.rec_id != found.utterance.rec_id:
                    yield from _conversation(source, run, side, lines)
                    run = []
                run.append(found)
    except FormatError as e:
        broken = e
    yield from _conversation(source, run, side, lines)
    _log(source, counts)
    if broken is not None:
        raise broken


def _read(source: str, kind: str, counts: Counter[str]) -> Iterator[Result | FormatError]:
    from kaldi_punct.formats.kaldi_server import read_kaldi_server
    from kaldi_punct.formats.online2 import read_online2
    from kaldi_punct.formats.vosk import read_vosk

    readers = {"vosk": read_vosk, "kaldi-server": read_kaldi_server, "online2": read_online2}
    return readers[kind](source, recording_of(source), counts)


def _conversation(source: str, run: Sequence[Result], side: Tables, lines: Iterator[int]) -> Entries:
    """The finals of one recording, those whose times cannot be as errors."""
    errors = [step_back(source, r.utterance) for r in run]
    if run:
        side.sizes()[run[0].utterance.rec_id or ""] = errors.count(None)
    for result, error in zip(run, errors, strict=True):
        utterance = result.utterance
        item = replace(side.place(utterance), conversation=utterance.rec_id, lines=_ctm_lines(utterance, lines))
        yield utterance.utt_id, error or item


def _ctm_lines(utterance: Utterance, lines: Iterator[int]) -> tuple[CtmLine, ...]:
    """Lines keyed by the recording, on its clock; none where a word has no times."""
    from kaldi_punct.kaldi.tables import CtmLine

    out = []
    for w in utterance.words:
        if w.start_s is None or w.duration_s is None:
            return ()
        key = utterance.rec_id or utterance.utt_id
        out.append(CtmLine(key, "1", w.start_s, w.duration_s, w.word, w.confidence, line=next(lines)))
    return tuple(out)


def _log(source: str, counts: Counter[str]) -> None:
    """Says once what was passed over."""
    log.info("%s: %d finals; %d partials passed over", source, counts["finals"], counts["partials"])
    for what in ("speaker vectors", "messages without a result"):
        if counts[what]:
            log.info("%s: %d %s passed over", source, counts[what], what)
    if counts["texts that differ from their words"]:
        log.warning(
            "%s: %d texts differ from the timed words beside them: the timed words are taken, as the decoder's own",
            source,
            counts["texts that differ from their words"],
        )
    if counts["words that never became final"]:
        log.warning(
            "%s: %d words of partials never became final: ask the decoder for its last result (Vosk: FinalResult)",
            source,
            counts["words that never became final"],
        )
