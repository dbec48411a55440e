"""Tables of int vectors, float vectors and float matrices.

kaldi-native-io reads them; it can write neither through gzip nor under another name first, so the three plain formats
are written here.
"""

from __future__ import annotations

import shlex
import struct
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.streams import open_rxfilename, open_wxfilename, parse_rspecifier

T = TypeVar("T")


def read_int_vectors(rspecifier: str) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """Keys and int vectors, shape (n,): alignments, word numbers.

    Raises:
        FormatError: cannot be opened, cut short, or no int vectors; what came before is given first.
    """
    yield from _read(rspecifier, "SequentialInt32VectorReader", "int vectors", _as(np.int32))


def read_float_vectors(rspecifier: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Keys and float vectors, shape (n,).

    Raises:
        FormatError: as ``read_int_vectors``.
    """
    yield from _read(rspecifier, "SequentialFloatVectorReader", "float vectors", _as(np.float32))


def read_float_matrices(rspecifier: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Keys and float matrices, shape (rows, columns): features; compressed ones too.

    Raises:
        FormatError: as ``read_int_vectors``.
    """
    yield from _read(rspecifier, "SequentialFloatMatrixReader", "float matrices", _as(np.float32))


def read_float_matrix(rxfilename: str) -> NDArray[np.float32]:
    """One float matrix, shape (rows, columns), as a script file names it: ``archive:offset``, a pipe; compressed too.

    Raises:
        FormatError: cannot be opened, cut short, or no float matrix.
    """
    import kaldi_native_io

    try:
        return np.array(kaldi_native_io.FloatMatrix.read(rxfilename), np.float32)
    except RuntimeError as e:
        raise FormatError(
            f"{rxfilename}: expected a whole float matrix, got none there; check the name (paths are relative to the "
            "working directory), or write the table anew"
        ) from e


def read_waves(rspecifier: str) -> Iterator[tuple[str, tuple[NDArray[np.float32], int]]]:
    """Keys and sounds of an archive of WAV files: samples (channels, n), -1..1, and their rate in Hz.

    Raises:
        FormatError: as ``read_int_vectors``.
    """

    def convert(wave: Any) -> tuple[NDArray[np.float32], int]:
        return np.array(wave.data.numpy(), np.float32) / np.float32(32768), round(wave.sample_freq)

    yield from _read(rspecifier, "SequentialWaveReader", "WAV files", convert)


def write_int_vectors(wspecifier: str, entries: Iterable[tuple[str, NDArray[np.int32]]]) -> int:
    """Writes int vectors to ``ark:`` or, as text, ``ark,t:``; returns how many."""
    return _write(wspecifier, entries, _int_binary, lambda v: " ".join(map(str, v.tolist())))


def write_float_vectors(wspecifier: str, entries: Iterable[tuple[str, NDArray[np.float32]]]) -> int:
    """Writes float vectors to ``ark:`` or, as text, ``ark,t:``; returns how many."""
    return _write(wspecifier, entries, _float_binary, lambda v: f" [ {_text(v)} ]")


def write_float_matrices(wspecifier: str, entries: Iterable[tuple[str, NDArray[np.float32]]]) -> int:
    """Writes float matrices to ``ark:`` or, as text, ``ark,t:``; returns how many."""
    return _write(wspecifier, entries, _float_binary, _text_matrix)


def float_matrix_value(matrix: NDArray[np.float32], binary: bool, compress: bool = False) -> bytes:
    """The value of a float matrix, as ``archives.ArchiveWriter.write`` takes it.

    Args:
        matrix: (rows, columns).
        binary: False for text.
        compress: two bytes a number: the nearest of 65,536 steps from the least to the greatest number.
    """
    if not binary:
        return f"{_text_matrix(matrix)}\n".encode()
    return b"\0B" + (_compressed(matrix) if compress else _float_binary(matrix))


def _as(dtype: type) -> Callable[[Any], NDArray[Any]]:
    # A copy: the reader's own memory goes with its next entry.
    return lambda value: np.array(value, dtype)


def _read(rspecifier: str, reader_name: str, what: str, convert: Callable[[Any], T]) -> Iterator[tuple[str, T]]:
    import kaldi_native_io  # 0.2 s, and most commands read no such table

    rx = parse_rspecifier(rspecifier).rxfilename
    if not rx.rstrip(" ").endswith("|") and rx not in ("", "-"):
        with open_rxfilename(rx):  # a file that is missing is told in our words
            pass
        if rx.endswith(".gz"):
            rspecifier = f"{rspecifier[: -len(rx)]}gunzip -c {shlex.quote(rx)}|"
    reader_class = getattr(kaldi_native_io, reader_name)
    reader = reader_class.__new__(reader_class)
    reader._impl = SimpleNamespace(is_open=False)  # its __del__ asks for it even where opening failed
    try:
        reader.open(rspecifier)
    except RuntimeError as e:
        raise FormatError(
            f"{rspecifier}: expected a table of {what}, got something else at its start; is it another kind of table?"
        ) from e
    n, key = 0, ""
    while not reader.done:
        n, key = n + 1, reader.key
        yield key, convert(reader.value)
        reader.next()
    # The public close() drops the answer that tells a whole table from a broken one.
    if not reader._impl.close():
        after = f"after '{key}' ({n} whole)" if n else "at its start"
        raise FormatError(
            f"{rspecifier}: expected a whole table of {what}, got damage or an early end {after}; write the table anew"
        )


def _write(
    wspecifier: str,
    entries: Iterable[tuple[str, NDArray[Any]]],
    to_binary: Callable[[NDArray[Any]], bytes],
    to_text: Callable[[NDArray[Any]], str],
) -> int:
    head, colon, wx = wspecifier.partition(":")
    options = head.split(",")
    if not colon or "ark" not in options or not {"ark", "t", "b", "f", "nf"}.issuperset(options):
        raise FormatError(
            f"{wspecifier}: expected ark:<wxfilename> or ark,t:<wxfilename>, got neither; "
            f"write e.g. 'ark,t:{wspecifier}'"
        )
    n = 0
    with open_wxfilename(wx) as stream:
        for key, value in entries:
            if "t" in options:
                stream.write(f"{key} {to_text(value)}\n".encode())
            else:
                stream.write(f"{key} ".encode() + b"\0B" + to_binary(value))
            n += 1
    return n


def _int_binary(vector: NDArray[np.int32]) -> bytes:
    # Kaldi's BasicVectorHolder: every number, the count too, has its size in bytes before it.
    return struct.pack("<bi", 4, len(vector)) + b"".join(struct.pack("<bi", 4, x) for x in vector.tolist())


def _float_binary(array: NDArray[np.float32]) -> bytes:
    token = b"FV " if array.ndim == 1 else b"FM "
    return token + b"".join(struct.pack("<bi", 4, n) for n in array.shape) + array.astype("<f4").tobytes()


def _compressed(matrix: NDArray[np.float32]) -> bytes:
    # Kaldi's compressed-matrix.h: format 2, one range for the whole matrix.
    low = float(matrix.min()) if matrix.size else 0.0
    span = (float(matrix.max()) - low if matrix.size else 0.0) or 1e-5  # Kaldi's own way with a constant matrix
    steps = np.clip(np.round((matrix.astype(np.float64) - low) * (65535.0 / span)), 0, 65535)
    return b"CM2 " + struct.pack("<ffii", low, span, *matrix.shape) + steps.astype("<u2").tobytes()


def _text_matrix(matrix: NDArray[np.float32]) -> str:
    return " [\n  " + "\n  ".join(map(_text, matrix)) + " ]"


def _text(vector: NDArray[np.float32]) -> str:
    return " ".join(format(x, ".7g") for x in vector.tolist())
