"""Rows of the corpora that come as tables of tabs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.tables import read_lines
from kaldi_punct.preparation.writing import Report


def read_rows(path: Path, names: str, report: Report) -> Iterator[tuple[int, list[str]]]:
    """Line numbers (from 1) and fields; a row with too few or too many is reported and left out.

    Args:
        path: packed or not.
        names: of the fields, separated by blanks.
        report: takes the bad rows.
    """
    n_fields = names.count(" ") + 1
    for n, line in read_lines(path):
        fields = line.split("\t")
        if len(fields) == n_fields:
            yield n, fields
        else:
            report(
                FormatError(
                    f"{path}:{n}: expected {n_fields} fields '{names}' with tabs between, got {len(fields)}; left out"
                )
            )
