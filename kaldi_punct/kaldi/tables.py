"""Kaldi's tables: text, segments, wav.scp, utt2spk, words.txt and their like; the front of all that reads Kaldi files.

Text tables take a path, any rxfilename, or an rspecifier (``ark:``, ``ark,t:``, ``scp:``). The parts live in
``streams`` (opening), ``archives``, ``ctm``, ``symbols``, ``vectors``, ``lattice_tables`` and ``scales``; their
names are all found here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.ctm import CtmLine, CtmSequence, ctm_sequences, read_ctm, read_ctm_recordings, write_ctm
from kaldi_punct.kaldi.lattice_tables import load_decoder, open_lattices, read_lattices, read_nbest, write_lattices
from kaldi_punct.kaldi.scales import Scales, find_scales
from kaldi_punct.kaldi.streams import (
    BLANKS,
    RxFilename,
    as_rspecifier,
    open_rxfilename,
    open_wxfilename,
    parse_rspecifier,
    read_lines,
    split_fields,
    split_key,
    stream_error,
    to_seconds,
    write_lines,
)
from kaldi_punct.kaldi.symbols import read_symbols
from kaldi_punct.kaldi.vectors import (
    read_float_matrices,
    read_float_vectors,
    read_int_vectors,
    write_float_matrices,
    write_float_vectors,
    write_int_vectors,
)

T = TypeVar("T")

__all__ = [
    "CtmLine",
    "CtmSequence",
    "Scales",
    "Segment",
    "by_key",
    "ctm_sequences",
    "find_scales",
    "load_decoder",
    "open_lattices",
    "open_rxfilename",
    "open_wxfilename",
    "parse_rspecifier",
    "read_ctm",
    "read_ctm_recordings",
    "read_float_matrices",
    "read_float_vectors",
    "read_int_vectors",
    "read_lattices",
    "read_lines",
    "read_nbest",
    "read_reco2file_and_channel",
    "read_reco2utt",
    "read_segments",
    "read_symbols",
    "read_text",
    "read_utt2spk",
    "read_wav_scp",
    "split_fields",
    "stream_error",
    "write_ctm",
    "write_float_matrices",
    "write_float_vectors",
    "write_int_vectors",
    "write_lattices",
    "write_lines",
    "write_segments",
    "write_text",
]


@dataclass(frozen=True, slots=True)
class Segment:
    """A line of ``segments``: a piece of a recording.

    Attributes:
        start_s: where it begins in the recording, seconds.
        end_s: where it ends; None if it lasts to the recording's end (-1 in the file).
    """

    utt_id: str
    rec_id: str
    start_s: float
    end_s: float | None


def read_text(table: RxFilename, check_sorted: bool = False) -> Iterator[tuple[str, str]]:
    """Keys and the rest of each line, blanks around it gone: ``text``, ``text_punct`` and whatever looks like them.

    Args:
        table: path, rxfilename or rspecifier; with ``scp:`` each entry names a file whose first line is the value.
        check_sorted: raise where a key is not above the one before it in C order, as Kaldi demands of a data directory.

    Raises:
        FormatError: a blank line, a key out of order, not UTF-8, or a broken stream.
    """
    for _, key, value in _entries(table, check_sorted):
        yield key, value


def write_text(table: RxFilename, entries: Iterable[tuple[str, str]]) -> int:
    """Writes ``<key> <value>`` lines to a wxfilename (``ark,t:`` before it or not); returns how many."""
    return write_lines(_wxfilename(table), (f"{key} {value}" if value else key for key, value in entries))


def by_key(table: RxFilename, entries: Iterable[tuple[str, T]]) -> dict[str, T]:
    """The entries of a table whose keys stand once each.

    Args:
        table: its name, for an error's text.
        entries: one a line, in order.

    Raises:
        FormatError: a key that stands twice.
    """
    out: dict[str, T] = {}
    for n, (key, value) in enumerate(entries, 1):
        if key in out:
            raise FormatError(
                f"{os.fspath(table)}:{n}: expected each key once, got '{key}' again; remove one of the lines"
            )
        out[key] = value
    return out


def read_segments(table: RxFilename, check_sorted: bool = False) -> Iterator[Segment]:
    """The lines of ``segments``.

    Raises:
        FormatError: not four fields, times that are no numbers, or an end that is not after the start.
    """
    name = os.fspath(table)
    for n, line in _sorted_lines(table, check_sorted):
        fields = split_fields(line)
        if len(fields) != 4:
            raise FormatError(
                f"{name}:{n}: expected 4 fields '<utt> <rec> <start-s> <end-s>', got {len(fields)}: '{line}'; "
                "write all four"
            )
        start_s, end_s = (to_seconds(name, n, field) for field in fields[2:])
        if start_s < 0 or (end_s != -1 and end_s <= start_s):
            raise FormatError(
                f"{name}:{n}: expected 0 <= start-s < end-s (or end-s -1: to the end), got {fields[2]} and {fields[3]}"
                "; the fourth field is the end, not the duration"
            )
        yield Segment(fields[0], fields[1], start_s, None if end_s == -1 else end_s)


def write_segments(table: RxFilename, segments: Iterable[Segment]) -> int:
    """Writes ``segments``; returns how many lines."""
    return write_lines(
        table,
        (
            f"{s.utt_id} {s.rec_id} {s.start_s:.3f} {-1 if s.end_s is None else format(s.end_s, '.3f')}"
            for s in segments
        ),
    )


def read_wav_scp(table: RxFilename, check_sorted: bool = False) -> Iterator[tuple[str, str]]:
    """Recording ids and the rxfilename of their sound: open it with ``open_rxfilename``.

    Paths in it are relative to the working directory, as in Kaldi.

    Raises:
        FormatError: a line without a filename.
    """
    for n, key, rx in _entries(table, check_sorted):
        if not rx:
            raise FormatError(
                f"{os.fspath(table)}:{n}: expected '<rec> <file or command |>', got '{key}' alone; name its file"
            )
        yield key, rx


def read_utt2spk(table: RxFilename, check_sorted: bool = False) -> Iterator[tuple[str, str]]:
    """Utterance ids and their speakers.

    Raises:
        FormatError: not two fields.
    """
    for n, key, value in _entries(table, check_sorted):
        if len(split_fields(value)) != 1:
            raise FormatError(
                f"{os.fspath(table)}:{n}: expected 2 fields '<utt> <spk>', got {1 + len(split_fields(value))}: "
                f"'{f'{key} {value}'.strip()}'; spk2utt is the table the other way round"
            )
        yield key, value


def read_reco2utt(table: RxFilename, check_sorted: bool = False) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Recording ids and their utterances in time order.

    Raises:
        FormatError: a recording without utterances.
    """
    for n, key, value in _entries(table, check_sorted):
        if not value:
            raise FormatError(
                f"{os.fspath(table)}:{n}: expected '<rec> <utt1> <utt2> …', got '{key}' alone; remove the line"
            )
        yield key, tuple(split_fields(value))


def read_reco2file_and_channel(table: RxFilename, check_sorted: bool = False) -> Iterator[tuple[str, tuple[str, str]]]:
    """Recording ids and (file id, channel).

    Raises:
        FormatError: not three fields.
    """
    for n, key, value in _entries(table, check_sorted):
        fields = split_fields(value)
        if len(fields) != 2:
            raise FormatError(
                f"{os.fspath(table)}:{n}: expected 3 fields '<rec> <file> <channel>', got {1 + len(fields)}: "
                f"'{f'{key} {value}'.strip()}'; the channel is A or B, or 1"
            )
        yield key, (fields[0], fields[1])


def _entries(table: RxFilename, check_sorted: bool) -> Iterator[tuple[int, str, str]]:
    """(line, key, rest of the line)."""
    spec = as_rspecifier(table)
    for n, line in _sorted_lines(table, check_sorted):
        key, value = split_key(os.fspath(table), n, line)
        if spec.is_script:
            value = next((first for _, first in read_lines(value)), "").strip(BLANKS)
        yield n, key, value


def _sorted_lines(table: RxFilename, check_sorted: bool) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, keys in C order where that is asked for."""
    name, before = os.fspath(table), None
    rx = as_rspecifier(table).rxfilename if isinstance(table, str) else table
    for n, line in read_lines(rx):
        key, _ = split_key(name, n, line)
        if check_sorted and before is not None and key <= before:
            what = f"'{key}' a second time" if key == before else f"'{key}' after '{before}'"
            folder = os.path.dirname(name) or "."
            raise FormatError(
                f"{name}:{n}: expected keys sorted in C order, got {what}; run utils/fix_data_dir.sh {folder}"
            )
        before = key
        yield n, line


def _wxfilename(table: RxFilename) -> RxFilename:
    return as_rspecifier(table).rxfilename if isinstance(table, str) else table
