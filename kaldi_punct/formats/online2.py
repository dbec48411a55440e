"""What Kaldi's ``online2-tcp-nnet3-decode-faster`` sends: words and a blank after each; finals end in a line feed,
what is not final yet in a carriage return.

With ``--produce-time=true`` seconds of begin and end come before the words: ``0.00 5.46 hello there``. The first line
that is not empty tells whether a stream has them. The server writes a line and its end apart, so a block may hold any
part of a line. (online2-tcp-nnet3-decode-faster.cc; its last final is empty where nothing was left to decode.)
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator

from kaldi_punct.errors import FormatError
from kaldi_punct.formats import fields
from kaldi_punct.formats.result import Result, Session
from kaldi_punct.kaldi.streams import RxFilename, open_rxfilename, stream_error
from kaldi_punct.types import Hypothesis

_TIMED = re.compile(r"([0-9]+\.[0-9]{2}) ([0-9]+\.[0-9]{2})(?: (.*))?")
_END = re.compile(rb"[\r\n]")
_BLOCK_BYTES = 1 << 16
_MAX_LINE_BYTES = 1 << 20  # a line is one utterance


def read_online2(rx: RxFilename, rec_id: str, counts: Counter[str] | None = None) -> Iterator[Result | FormatError]:
    """The results of a stream, and in its place what is none.

    Args:
        rx: what to read.
        rec_id: the recording; one after which the clock starts again is another, ``<rec_id>-2``.
        counts: takes how many finals and partials there were, and words that never became final.

    Raises:
        FormatError: a broken stream.
    """
    lines = Online2Lines(os.fspath(rx), rec_id, Counter() if counts is None else counts)
    with open_rxfilename(rx) as stream:
        read = getattr(stream, "read1", stream.read)  # what there is, rather than wait for a full block
        while block := read(_BLOCK_BYTES):
            yield from lines.feed(block)
        if stream_error(stream) is None:
            yield from lines.close()


class Online2Lines:
    """Results from blocks of bytes, wherever they are cut.

    Args:
        name: of the stream, for errors.
        rec_id: the recording.
        counts: takes what is met on the way.
    """

    def __init__(self, name: str, rec_id: str, counts: Counter[str]) -> None:
        self._name = name
        self._session = Session(rec_id, counts)
        self._rest = b""
        self._too_long = False
        self._line = 1
        self._has_times: bool | None = None  # not known yet

    def feed(self, block: bytes) -> list[Result | FormatError]:
        """What ends in the next block."""
        out: list[Result | FormatError] = []
        start = 0
        for end in _END.finditer(block):
            line = self._rest + block[start : end.start()]
            start, self._rest = end.end(), b""
            try:
                out.append(self._to_result(line, is_final=end.group() == b"\n"))
            except FormatError as e:
                out.append(e)
            self._too_long = False
            self._line += end.group() == b"\n"
        self._rest += block[start:]
        if len(self._rest) > _MAX_LINE_BYTES:
            self._too_long, self._rest = True, self._rest[:40]
        return out

    def close(self) -> list[FormatError]:
        """What is left when the stream ends: half a line must not pass for a whole one."""
        self._session.close()
        if not self._rest:
            return []
        return [
            FormatError(
                f"{self._where}: expected a line feed or carriage return after each result, got the end after "
                f"'{_shown(self._rest)}'; keep the connection open until the decoder closes it"
            )
        ]

    @property
    def _where(self) -> str:
        return f"{self._name}:{self._line}"

    def _to_result(self, raw: bytes, is_final: bool) -> Result:
        if self._too_long:
            raise FormatError(
                f"{self._where}: expected a result of at most {_MAX_LINE_BYTES} bytes, got more: '{_shown(raw)} …'; "
                "--from names what the input is"
            )
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as e:
            raise FormatError(
                f"{self._where}: expected UTF-8 text, got byte 0x{raw[e.start]:02x} in column {e.start + 1}; "
                "use a words.txt in UTF-8"
            ) from e
        start_s, end_s = None, None
        if text:
            timed = _TIMED.fullmatch(text)
            if self._has_times is None:
                self._has_times = timed is not None
            if self._has_times:
                start_s, end_s = self._times(text, timed)
                text = "" if timed is None else timed.group(3) or ""
        return self._session.result(self._where, [Hypothesis(fields.words(text))], is_final, start_s, end_s)

    def _times(self, text: str, timed: re.Match[str] | None) -> tuple[float, float | None]:
        start_s, end_s = (0.0, -1.0) if timed is None else (float(timed.group(1)), float(timed.group(2)))
        if end_s < start_s:
            raise FormatError(
                f"{self._where}: expected '<begin-s> <end-s> <word> …' as before, got '{text[:40]}'; "
                "decode with --produce-time all along, or without it"
            )
        return start_s, end_s if end_s > start_s else None


def _shown(raw: bytes) -> str:
    return raw[:40].decode("utf-8", "replace")
