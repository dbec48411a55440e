"""A Kaldi data directory and a punctuated reference -> a punctuated data directory, all of it or a part."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.kaldi.streams import split_key
from kaldi_punct.kaldi.tables import CtmLine, by_key, read_lines, read_text, split_fields
from kaldi_punct.labels import is_word
from kaldi_punct.preparation.cutting import cut_reference
from kaldi_punct.preparation.distribution import SetCounts
from kaldi_punct.preparation.subsets import call_of, durations_s, take_hours
from kaldi_punct.preparation.writing import (
    NBEST_TABLES,
    TABLES,
    DataDirWriter,
    Report,
    Track,
    counts_of,
    find_table,
    new_data_dir,
    untracked,
)

log = logging.getLogger(__name__)

_BY_SPEAKER = frozenset(["cmvn.scp", "spk2gender"])
_OF_MANY = frozenset(["spk2utt", "reco2utt"])  # lists of utterances


@dataclass(frozen=True, slots=True)
class Selection:
    """Which utterances to take.

    Attributes:
        hours: as few calls as hold so many hours; None takes all.
        seed: of their order.
        min_words: utterances with fewer words are left out.
        min_agreement: the same of those with a lower share of words that a recording's reference has, 0..1.
    """

    hours: float | None = None
    seed: int = 1
    min_words: int = 0
    min_agreement: float = 0.5


@dataclass(frozen=True, slots=True)
class _Part:
    """What is taken of a directory."""

    data: DataDir
    utt_ids: frozenset[str]
    rec_ids: frozenset[str]
    spk_ids: frozenset[str]


def prepare_kaldi_dir(
    source: Path,
    reference: Path | None,
    out: Path,
    selection: Selection,
    report: Report,
    track: Track = untracked,
) -> SetCounts:
    """Writes a punctuated data directory; returns what it holds.

    Args:
        source: a Kaldi data directory.
        reference: a table like ``text_punct``, keyed by utterance, or by recording: then it is aligned to the words of
            the recording's utterances. None: ``source`` has a ``text_punct``.
        out: the directory to make.
        selection: which utterances to take.
        report: takes each utterance that cannot be used.
        track: shows how far it is.

    Raises:
        FormatError: a table that is broken, a reference of nothing that is here, or nothing left to take.
    """
    if out.exists() and out.samefile(source):
        raise FormatError(f"{out}: expected another directory than the one that is read; name a new one")
    data = DataDir(source)
    for error in data.errors.values():
        report(error)
    texts, doubtful = _references(data, reference, selection.min_agreement, track)
    part = _select(data, texts, doubtful, selection)
    known = {*TABLES, "nbest"}
    strange = sorted(p.name for p in source.iterdir() if p.name.removesuffix(".gz") not in known)
    if strange:
        log.info("%s: not taken, since they are no tables known here: %s", source, " ".join(strange))
    with new_data_dir(out) as writer:
        for path in sorted(source.iterdir()):
            name = path.name.removesuffix(".gz")
            if name in TABLES and name != "text_punct" and path == find_table(source, name):
                _write_part(path, name, part, writer)
        for name in sorted(NBEST_TABLES):
            if (source / "nbest" / name).is_file():
                writer.write_lines(f"nbest/{name}", _nbest_lines(source / "nbest" / name, part))
        writer.write_table("text_punct", {u: t for u, t in texts.items() if u in part.utt_ids})
    return counts_of(writer)


def _references(
    data: DataDir, reference: Path | None, min_agreement: float, track: Track
) -> tuple[dict[str, str], set[str]]:
    """Punctuated text by utterance, and the utterances that a recording's reference does not fit."""
    if reference is None:
        if not data.text_punct:
            raise FormatError(
                f"{data.path}: expected a table text_punct, or a reference to be named after the directory, got none"
            )
        return dict(data.text_punct), set()
    table = by_key(reference, read_text(reference))
    texts = {u: table[u] for u in data.utt_ids if u in table}
    used, doubtful = set(texts), set[str]()
    utt_ids = set(data.utt_ids)
    n_marks = n_lost = 0
    for conversation in track(data.conversations(), "recording"):
        keys = (conversation.rec_id, f"{conversation.rec_id}-{conversation.channel}")
        key = next((k for k in keys if k in table and k not in utt_ids), None)
        if key is None:
            continue
        used.add(key)
        done = cut_reference(table[key], [[w.word for w in u.words] for u in conversation.utterances])
        n_marks, n_lost = n_marks + done.n_marks, n_lost + done.n_marks_lost
        for utterance, cut in zip(conversation.utterances, done.cuts, strict=True):
            texts[utterance.utt_id] = cut.text
            if cut.agreement < min_agreement:
                doubtful.add(utterance.utt_id)
    if not texts:
        first = next(iter(table), None)
        got = "an empty table" if first is None else f"keys such as '{first}'"
        raise FormatError(
            f"{reference}: expected keys that are utterances or recordings of {data.path}, got {got}; "
            "is it of other data?"
        )
    if n_marks:
        log.info("%s: %d of %d marks found no word (%.1f %%)", reference, n_lost, n_marks, 100 * n_lost / n_marks)
    if len(used) < len(table):
        log.warning("%s: %d keys are no utterance and no recording (left out)", reference, len(table) - len(used))
    return texts, doubtful


def _select(data: DataDir, texts: Mapping[str, str], doubtful: set[str], selection: Selection) -> _Part:
    utt_ids = set(data.utt_ids) - doubtful
    if doubtful:
        log.warning(
            "%s: %d utterances have too few words that their recording's reference has (left out)",
            data.path,
            len(doubtful),
        )
    if selection.min_words > 1:
        short = {u for u in utt_ids if sum(is_word(w.word) for w in data[u].words) < selection.min_words}
        utt_ids -= short
        log.info("%s: %d utterances have fewer than %d words (left out)", data.path, len(short), selection.min_words)
    if selection.hours is not None:
        utt_ids &= _take_hours(data, utt_ids, selection.hours, selection.seed)
    if not utt_ids & texts.keys():
        raise FormatError(f"{data.path}: expected utterances with a reference, got none that are long enough")
    return _Part(
        data,
        frozenset(utt_ids),
        frozenset(data.place(u)[0] for u in utt_ids),
        frozenset(data.utt2spk[u] for u in utt_ids if u in data.utt2spk),
    )


def _take_hours(data: DataDir, utt_ids: set[str], hours: float, seed: int) -> set[str]:
    seconds: dict[str, float] = {}
    for utt_id, duration_s in durations_s(data).items():
        if utt_id not in utt_ids:
            continue
        if duration_s is None:
            raise FormatError(
                f"{data.path}: expected segments, utt2dur or a CTM to count hours by, got no time of '{utt_id}'; make "
                f"utt2dur with utils/data/get_utt2dur.sh {data.path}"
            )
        call = call_of(data, utt_id)
        seconds[call] = seconds.get(call, 0.0) + duration_s
    taken = take_hours(seconds, hours, seed, str(data.path))
    return {u for u in utt_ids if call_of(data, u) in taken}


def _write_part(path: Path, name: str, part: _Part, writer: DataDirWriter) -> None:
    if name == "ctm":
        writer.write_lines("ctm", _ctm_lines(path, part))
        return
    keys = part.spk_ids if name in _BY_SPEAKER else part.utt_ids | part.rec_ids
    for n, line in read_lines(path):
        key, *values = split_fields(line)[:1] or [""]
        if name in _OF_MANY:
            values = [u for u in split_fields(line)[1:] if u in part.utt_ids]
            if values:
                writer.write(name, key, " ".join(values))
        elif key in keys:
            writer.write_line(name, line)
        elif not key:
            raise FormatError(f"{path}:{n}: expected '<key> …', got a blank line; remove it")


def _nbest_lines(path: Path, part: _Part) -> Iterator[str]:
    """Lines of the hypotheses ``utt-1 .. utt-N`` of what is taken."""
    for n, line in read_lines(path):
        key, _ = split_key(str(path), n, line)
        if key.rpartition("-")[0] in part.utt_ids:
            yield line


def _ctm_lines(path: Path, part: _Part) -> Iterator[str]:
    """The CTM's own lines; keyed by utterance where a recording is torn, since its words would go elsewhere."""
    data = part.data
    every = data.segments or [*data.utt_ids, *data.errors]
    torn = part.rec_ids & {data.place(u)[0] for u in every if u not in part.utt_ids}
    if torn and data.segments and not all(fields[0] in data.segments for fields, _ in _read_ctm(path)):
        log.info("%s: keyed by utterance now, since parts of its recordings are left out", path)
        yield from _lines_by_utterance(part)
        return
    rec_of = {place: rec_id for rec_id, place in data.reco2file_and_channel.items()}
    for fields, line in _read_ctm(path):
        key, channel = fields[0], fields[1]
        if key in data.segments or key in part.utt_ids:
            if key in part.utt_ids:
                yield line
        elif data.segments:
            if rec_of.get((key, channel), key) in part.rec_ids:
                yield line
        elif f"{key}-{channel}" in part.utt_ids:  # one of several channels; if it stays alone, it must keep its name
            yield f"{key}-{channel}{line[len(key) :]}" if key in torn else line


def _read_ctm(path: Path) -> Iterator[tuple[list[str], str]]:
    return ((split_fields(line), line) for _, line in read_lines(path) if not line.startswith(";;"))


def _lines_by_utterance(part: _Part) -> Iterator[str]:
    for utt_id in sorted(part.utt_ids):
        for w in part.data.ctm.get(utt_id, ()):
            assert w.start_s is not None, "Words of a CTM have times. This is a bug."
            assert w.duration_s is not None, "Words of a CTM have times. This is a bug."
            start_s = max(w.start_s - part.data.segments[utt_id].start_s, 0.0)
            yield CtmLine(utt_id, "1", start_s, w.duration_s, w.word, w.confidence).rewritten(w.word)
