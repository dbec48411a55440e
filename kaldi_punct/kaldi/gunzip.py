"""Decompressing gzip such that damage costs only what comes after it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from kaldi_punct.errors import FormatError


def gunzip(name: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Decompressed bytes of one or more gzip members; all that is whole comes out before a FormatError."""
    unzip, n_bytes, is_open = zlib.decompressobj(31), 0, False
    for chunk in chunks:
        data = chunk
        while data:
            if not is_open and n_bytes and not (data := data.lstrip(b"\0")):
                break  # zero padding after the last member, as gzip itself allows
            is_open = True
            before = unzip.copy()
            try:
                plain = unzip.decompress(data)
            except zlib.error as e:
                plain, n_whole = _until_damage(before, data)
                yield plain
                raise FormatError(
                    f"{name}: expected gzip data, got damage near byte {n_bytes + n_whole} of the file ({e}); "
                    "write the file anew"
                ) from e
            yield plain
            n_bytes += len(data) - len(unzip.unused_data)
            data = unzip.unused_data
            if unzip.eof:
                unzip, is_open = zlib.decompressobj(31), False
    if is_open or not n_bytes:
        raise FormatError(
            f"{name}: expected whole gzip data, got an end after byte {n_bytes} of the file; write the file anew"
        )


def _until_damage(unzip: zlib._Decompress, data: bytes) -> tuple[bytes, int]:
    """What comes out before the damage, and how many bytes that took: zlib gives nothing of the call that fails."""
    plain = bytearray()
    for i in range(len(data)):
        try:
            plain += unzip.decompress(data[i : i + 1])
        except zlib.error:
            return bytes(plain), i
    return bytes(plain), len(data)
