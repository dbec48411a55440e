"""Symbol tables: ``words.txt``, ``phones.txt``."""

from __future__ import annotations

import os
import re

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.streams import RxFilename, read_lines, split_fields

_NUMBER = re.compile(r"[0-9]{1,10}")  # of 32 bits in Kaldi


def read_symbols(table: RxFilename) -> dict[int, str]:
    """The words of a symbol table such as ``words.txt``, by number.

    Raises:
        FormatError: not ``<word> <number>``, or a number twice.
    """
    name = os.fspath(table)
    symbols: dict[int, str] = {}
    for n, line in read_lines(table):
        fields = split_fields(line)
        if len(fields) != 2 or not _NUMBER.fullmatch(fields[1]):
            raise FormatError(f"{name}:{n}: expected 2 fields '<word> <number>', got '{line}'; is it a words.txt?")
        number = int(fields[1])
        if number in symbols:
            raise FormatError(
                f"{name}:{n}: expected each number once, got {number} for '{symbols[number]}' and '{fields[0]}'; "
                "make the table anew"
            )
        symbols[number] = fields[0]
    if not symbols:
        raise FormatError(f"{name}: expected lines '<word> <number>', got an empty file; make the table anew")
    return symbols
