"""Writing archives, with the script file that tells where each value lies.

wspecifier   ark[,t]:wxfilename | ark,scp[,t]:path,path | wxfilename
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from kaldi_punct.errors import FormatError, UtteranceError
from kaldi_punct.kaldi.streams import BLANKS, RxFilename, open_wxfilename

_OPTIONS = frozenset({"ark", "scp", "b", "t", "f", "nf", "p"})  # Kaldi's kaldi-table.h


@dataclass(frozen=True, slots=True)
class Wspecifier:
    """A table to write.

    Attributes:
        wxfilename: of the archive.
        script: of the script file that tells where each value lies in the archive; None for no such file.
        binary: binary values; False with option ``t``.
        flush: after each value (option ``f``).
    """

    wxfilename: RxFilename
    script: str | None = None
    binary: bool = True
    flush: bool = False


def parse_wspecifier(spec: RxFilename) -> Wspecifier:
    """The parts of ``ark:foo``, ``ark,t:foo``, ``ark,scp:foo.ark,foo.scp``; a bare wxfilename is a binary archive.

    Raises:
        FormatError: a script file without an archive, or with one that has no offsets (a pipe, gzip, stdout).
    """
    head, colon, rest = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    options = head.split(",")
    if not colon or not {"ark", "scp"} & set(options) or not _OPTIONS.issuperset(options):
        return Wspecifier(spec)
    binary, flush = "t" not in options, "f" in options
    if "scp" not in options:
        return Wspecifier(rest, None, binary, flush)
    archive, _, script = rest.partition(",")
    if "ark" not in options or not script:
        raise FormatError(f"{spec}: expected ark,scp:<archive>,<script>, got one file; name both")
    if archive in ("", "-") or archive.endswith(".gz") or archive.lstrip(" ").startswith("|"):
        raise FormatError(
            f"{spec}: expected an archive that is a plain file, got '{archive}'; the script file holds offsets into it"
        )
    return Wspecifier(archive, script, binary, flush)


class ArchiveWriter:
    """Writes values one by one; ``open_archive`` makes it.

    Attributes:
        binary: whether the values are to be binary.
    """

    def __init__(self, spec: Wspecifier, archive: BinaryIO, script: BinaryIO | None) -> None:
        self.binary = spec.binary
        self._spec = spec
        self._archive = archive
        self._script = script
        self._n_bytes = 0

    def write(self, key: str, value: bytes) -> None:
        """Writes one entry.

        Args:
            key: without blanks.
            value: its bytes, as they stand behind the blank.

        Raises:
            UtteranceError: the key is empty or has a blank in it.
        """
        if not key or any(c in BLANKS for c in key):
            raise UtteranceError(f"{key!r}: expected a key without blanks, got one with; rename the utterance")
        head = f"{key} ".encode()
        self._archive.write(head)
        self._archive.write(value)
        if self._script is not None:
            where = f"{os.fspath(self._spec.wxfilename)}:{self._n_bytes + len(head)}"
            self._script.write(f"{key} {where}\n".encode())
        self._n_bytes += len(head) + len(value)
        if self._spec.flush:
            self._archive.flush()
            if self._script is not None:
                self._script.flush()


@contextlib.contextmanager
def open_archive(spec: RxFilename) -> Iterator[ArchiveWriter]:
    """An archive to write to; it takes its name when the block ends, as with ``streams.open_wxfilename``.

    Raises:
        FormatError: no wspecifier, or a file that cannot be written.
    """
    parsed = parse_wspecifier(spec)
    with contextlib.ExitStack() as stack:
        archive = stack.enter_context(open_wxfilename(parsed.wxfilename))
        script = None if parsed.script is None else stack.enter_context(open_wxfilename(parsed.script))
        yield ArchiveWriter(parsed, archive, script)


def int_vector_value(values: Sequence[int], binary: bool) -> bytes:
    """The value of an int vector, as ``ArchiveWriter.write`` takes it: an alignment, words by number."""
    if not binary:
        return f"{' '.join(map(str, values))}\n".encode()
    # Kaldi's BasicVectorHolder: every number, the count too, has its size in bytes before it.
    return b"\0B" + struct.pack("<bi", 4, len(values)) + b"".join(struct.pack("<bi", 4, x) for x in values)


def float_value(value: float, binary: bool) -> bytes:
    """The value of a number, as ``ArchiveWriter.write`` takes it; text has seven digits, as Kaldi's."""
    return b"\0B" + struct.pack("<bf", 4, value) if binary else f"{value:.7g}\n".encode()


def int_value(value: int, binary: bool) -> bytes:
    """The value of a whole number, as ``ArchiveWriter.write`` takes it."""
    return b"\0B" + struct.pack("<bi", 4, value) if binary else f"{value}\n".encode()
