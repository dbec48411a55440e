"""Opening what Kaldi's extended filenames name: files, gzip, pipes, standard streams, offsets.

    rxfilename   path | path.gz | path:offset | 'command |' | -
    wxfilename   path | path.gz | '| command' | -
    rspecifier   ark[,options]:rxfilename | scp[,options]:rxfilename

A broken input (truncated gzip, a command that fails) shows as an end of file first, so that whatever came before it is
read, and as a FormatError when the stream is closed.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import math
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.gunzip import gunzip

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_CHUNK_BYTES = 1 << 16
BLANKS = " \t\r\n\f\v"  # where Kaldi's SplitStringToVector splits: ASCII blanks alone
_FIELD = re.compile(rf"[^{BLANKS}]+")
_KEY_VALUE = re.compile(rf"[{BLANKS}]*([^{BLANKS}]+)[{BLANKS}]*(.*)", re.DOTALL)
_OFFSET = re.compile(r"^(.+):([0-9]{1,18})$")
# Kaldi's kaldi-table.h. All but "p" (permissive) only tell Kaldi how to save memory in random access.
_OPTIONS = frozenset({"ark", "scp", "b", "t", "o", "no", "s", "ns", "cs", "ncs", "p", "np", "bg", "f", "nf"})

RxFilename = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Rspecifier:
    """A table to read.

    Attributes:
        is_script: True for ``scp:`` (lines ``<key> <rxfilename>``), False for ``ark:`` (keys and values in one stream).
        rxfilename: where the archive or the script file is.
        permissive: skip entries of a script file that cannot be read (option ``p``).
    """

    is_script: bool
    rxfilename: str
    permissive: bool = False


def parse_rspecifier(rspecifier: str) -> Rspecifier:
    """The parts of ``ark,s,cs:foo``, ``scp,p:foo`` and the like.

    Raises:
        FormatError: it is no rspecifier.
    """
    found = _specifier(rspecifier)
    if found is None:
        raise FormatError(
            f"{rspecifier}: expected an rspecifier (ark:<rxfilename> or scp:<rxfilename>), got no such prefix; "
            f"write e.g. 'ark:{rspecifier}'"
        )
    return found


def as_rspecifier(spec: RxFilename) -> Rspecifier:
    """The same, with a bare rxfilename taken for an archive, as text tables are given."""
    found = _specifier(spec) if isinstance(spec, str) else None
    return found or Rspecifier(False, os.fspath(spec))


def _specifier(spec: str) -> Rspecifier | None:
    head, colon, rest = spec.partition(":")
    options = head.split(",")
    if not colon or ("ark" in options) == ("scp" in options) or not _OPTIONS.issuperset(options):
        return None
    return Rspecifier("scp" in options, rest, "p" in options)


def split_fields(line: str) -> list[str]:
    """The fields of a line, separated by ASCII blanks as in Kaldi (never at U+00A0 or U+3000)."""
    return _FIELD.findall(line)


def split_key(name: str, n: int, line: str) -> tuple[str, str]:
    """The key of line ``n`` of a table, and the rest of it without the blanks around.

    Raises:
        FormatError: the line is blank.
    """
    found = _KEY_VALUE.match(line)
    if found is None:
        raise FormatError(f"{name}:{n}: expected '<key> …', got a blank line; remove it")
    return found.group(1), found.group(2).rstrip(BLANKS)


def to_number(field: str) -> float:
    """The number that a field holds; NaN if it is none, or one that only Python reads: "1_0", digits of Arabic."""
    try:
        return float(field) if field.isascii() and "_" not in field else math.nan
    except ValueError:
        return math.nan


def to_seconds(name: str, n: int, field: str) -> float:
    """The number in a field of line ``n`` that holds a time.

    Raises:
        FormatError: it is no finite number.
    """
    seconds = to_number(field)
    if not math.isfinite(seconds):
        raise FormatError(f"{name}:{n}: expected a time in seconds, got '{field}'; write it as a number")
    return seconds


@contextlib.contextmanager
def open_rxfilename(rx: RxFilename) -> Iterator[BinaryIO]:
    """The bytes that an rxfilename names, as an open stream; decompressed where the name ends in ``.gz``.

    A ``os.PathLike`` is always a file of that name, never a command.

    Raises:
        FormatError: it cannot be opened; or, on closing, it was cut short or its command failed.
    """
    with contextlib.ExitStack() as stack:
        stream = _open_for_reading(rx, stack)
        try:
            yield stream
        except FormatError as e:
            cause = stream_error(stream)
            if cause is None or cause is e:
                raise
            raise type(e)(f"{e} ({cause})") from e
        cause = stream_error(stream)
        if cause is not None:
            raise cause


def stream_error(stream: BinaryIO) -> FormatError | None:
    """Why a stream that has come to its end is not whole; None if nothing is known against it."""
    raw = getattr(stream, "raw", None)
    return raw.error if isinstance(raw, _Source) else None


def read_lines(rx: RxFilename) -> Iterator[tuple[int, str]]:
    """Line numbers (from 1) and lines without their end, decoded.

    A last line that a broken stream cut short is dropped: half a line must not pass for a whole one.

    Raises:
        FormatError: not UTF-8, or the stream is broken.
    """
    name = os.fspath(rx)
    with open_rxfilename(rx) as stream:
        for n, raw in enumerate(stream, 1):
            if not raw.endswith(b"\n") and stream_error(stream) is not None:
                break
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as e:
                fix = "convert it, e.g. iconv -f latin1 -t utf-8"
                if n == 1 and raw.startswith(b"\x1f\x8b"):
                    fix = f"it is gzip: read it as 'gunzip -c {name}|' or name it .gz"
                raise FormatError(
                    f"{name}:{n}: expected UTF-8 text, got byte 0x{raw[e.start]:02x} in column {e.start + 1}; {fix}"
                ) from e
            if n == 1 and line.startswith("\ufeff"):
                raise FormatError(
                    f"{name}:1: expected text, got a byte order mark; remove it, e.g. sed -i '1s/^\\xef\\xbb\\xbf//'"
                )
            yield n, line.rstrip("\r\n")


@contextlib.contextmanager
def open_wxfilename(wx: RxFilename) -> Iterator[BinaryIO]:
    """A stream to write to; compressed where the name ends in ``.gz``.

    A file is written under ``<name>.tmp`` and takes its name when the block ends by itself, or by a FormatError after
    something was written (a broken input keeps what came before it). Any other exception leaves what was there before.

    Raises:
        FormatError: it cannot be opened, or its command failed.
    """
    name = _name_of(wx)
    if isinstance(wx, str) and name in ("", "-", "/dev/stdout"):
        with _standard_output() as stream:
            yield stream
    elif isinstance(wx, str) and name.rstrip(" ").endswith("|"):
        raise FormatError(f"{name}: expected an output, got an input pipe; write '| <command>'")
    elif isinstance(wx, str) and name.lstrip(" ").startswith("|"):
        with _output_pipe(name) as stream:
            yield stream
    else:
        with _new_file(name) as stream:
            yield stream


def write_lines(wx: RxFilename, lines: Iterator[str]) -> int:
    """Writes lines (given without their end) as they come; returns how many."""
    n = 0
    with open_wxfilename(wx) as stream:
        for line in lines:
            stream.write(f"{line}\n".encode())
            n += 1
    return n


class _Sink(io.FileIO):
    """A file to write to whose errors name it and say what to do."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except OSError as e:
            raise _unwritten(e, str(self.name)) from e


def _unwritten(error: OSError, name: str) -> OSError:
    return OSError(error.errno, f"expected to be written whole, got '{error.strerror}'; make room for it", name)


@contextlib.contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    if sys.stdout is None:
        raise FormatError("-: expected an open standard output, got a closed one; name a file")
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except OSError as e:
        if e.filename is not None or e.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise _unwritten(e, "standard output") from e


class _Source(io.RawIOBase):
    """A raw stream over chunks. A FormatError of theirs is kept, and the reader sees an end of file instead.

    Raised at once, it would make io.BufferedReader throw away bytes that it holds already.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self.error: FormatError | None = None
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        while not self._rest and self.error is None:
            try:
                self._rest = memoryview(next(self._chunks))
            except StopIteration:
                return 0
            except FormatError as e:
                self.error = e
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n


def _open_for_reading(rx: RxFilename, stack: contextlib.ExitStack) -> BinaryIO:
    name = _name_of(rx)
    if isinstance(rx, str):
        if name in ("", "-"):
            if sys.stdin is None:
                raise FormatError("-: expected an open standard input, got a closed one; name a file")
            return sys.stdin.buffer
        if name.rstrip(" ").endswith("|"):
            return _buffered(_command_chunks(name, stack))
        if name.lstrip(" ").startswith("|"):
            raise FormatError(f"{name}: expected an input, got an output pipe; write '<command> |'")
        if (found := _OFFSET.match(name)) and not os.path.exists(name):
            stream = _open_file(found.group(1), name, stack)
            stream.seek(int(found.group(2)))
            return stream
    stream = _open_file(name, name, stack)
    return _buffered(gunzip(name, _chunks(stream))) if name.endswith(".gz") else stream


def _name_of(name: RxFilename) -> str:
    text = os.fspath(name)
    if "\0" in text:
        raise FormatError(f"{text!r}: expected a file name or a command, got a null byte in it; take it out")
    return text


def _buffered(chunks: Iterator[bytes]) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Source(chunks), _CHUNK_BYTES))


def _open_file(path: str, name: str, stack: contextlib.ExitStack) -> BinaryIO:
    try:
        return stack.enter_context(open(path, "rb"))
    except OSError as e:
        raise FormatError(
            f"{name}: expected a readable file, got '{e.strerror}'; check the name (paths are relative to the working "
            "directory)"
        ) from e


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk


def _command_chunks(name: str, stack: contextlib.ExitStack) -> Iterator[bytes]:
    """Standard output of a shell command; its exit status is judged only where all of it was read."""
    process = subprocess.Popen(name.rstrip(" ")[:-1], shell=True, stdout=subprocess.PIPE)
    assert process.stdout is not None, "This is a bug."
    stack.callback(process.wait)
    stack.callback(process.stdout.close)  # runs first: a command that still writes ends by SIGPIPE
    return _until_status(name, process, cast(io.BufferedReader, process.stdout))


def _until_status(name: str, process: subprocess.Popen[bytes], stdout: io.BufferedReader) -> Iterator[bytes]:
    while chunk := stdout.read1(_CHUNK_BYTES):
        yield chunk
    if status := process.wait():
        raise FormatError(f"{name}: expected the command to end with status 0, got {status}; run it alone to see why")


@contextlib.contextmanager
def _output_pipe(name: str) -> Iterator[BinaryIO]:
    process = subprocess.Popen(name.lstrip(" ")[1:], shell=True, stdin=subprocess.PIPE)
    assert process.stdin is not None, "This is a bug."
    status = 0
    try:
        try:
            yield cast(BinaryIO, process.stdin)
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            status = process.wait()
    except BrokenPipeError:
        if not status:  # it took what it wanted, as head does
            raise
    if status:
        raise FormatError(f"{name}: expected the command to end with status 0, got {status}; run it alone to see why")


@contextlib.contextmanager
def _new_file(name: str) -> Iterator[BinaryIO]:
    is_special = os.path.exists(name) and not stat.S_ISREG(os.stat(name).st_mode)  # /dev/null, a fifo, >(command)
    target = name if is_special else os.path.realpath(name)
    temporary = target if is_special else target + ".tmp"
    is_done = False
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(io.BufferedWriter(_Sink(temporary, "wb")))
        except OSError as e:
            raise FormatError(
                f"{name}: expected a file that can be written, got '{e.strerror}'; check its directory and permissions"
            ) from e
        if not is_special:
            stack.callback(lambda: os.replace(temporary, target) if is_done else os.remove(temporary))
        with file, _compressed(file, name) as stream:
            try:
                yield stream
                is_done = True
            except FormatError:
                is_done = stream.tell() > 0
                raise


def _compressed(file: BinaryIO, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if not name.endswith(".gz"):
        return contextlib.nullcontext(file)
    # Neither name nor time in the header: the same content gives the same file.
    return cast("contextlib.AbstractContextManager[BinaryIO]", gzip.GzipFile("", "wb", 6, file, mtime=0))
