"""A new data directory: written under another name, read back, and only then there."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from kaldi_punct.errors import FormatError, KaldiPunctError
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.preparation.distribution import SetCounts, count_set

log = logging.getLogger(__name__)
_T = TypeVar("_T")

Report = Callable[[KaldiPunctError], None]  # reports and counts what is left out

# What a data directory holds: Kaldi's tables and ours. A directory with anything else in it is never replaced.
TABLES = frozenset(
    [
        "cmvn.scp", "ctm", "feats.scp", "file_ends", "reco2dur", "reco2file_and_channel", "reco2utt", "segments",
        "spk2gender", "spk2utt", "text", "text_punct", "utt2dur", "utt2lang", "utt2num_frames", "utt2spk", "vad.scp",
        "wav.scp",
    ]
)  # fmt: skip
NBEST_TABLES = frozenset(["ac_cost", "ctm", "lm_cost", "words"])  # of its folder ``nbest``: lists to train on


class Track(Protocol):
    """Gives items as they are, and shows how far it is."""

    def __call__(self, items: Iterable[_T], unit: str) -> Iterable[_T]: ...


def untracked(items: Iterable[_T], unit: str) -> Iterable[_T]:  # noqa: ARG001
    """Shows nothing."""
    return items


class DataDirWriter:
    """Tables of a data directory that is not there yet.

    Attributes:
        counts: what it holds, once it is there.
        n_errors: utterances that cannot be used (``DataDir.errors``), once it is there.
    """

    def __init__(self, path: Path, temporary: Path) -> None:
        self.counts: SetCounts | None = None
        self.n_errors = 0
        self._path, self._temporary = path, temporary
        self._files: dict[str, BinaryIO] = {}

    def write(self, table: str, key: str, value: str) -> None:
        """Appends ``<key> <value>``; keys come in C order."""
        self.write_line(table, f"{key} {value}" if value else key)

    def write_line(self, table: str, line: str) -> None:
        """Appends a line as it is; a table may lie in a folder of the directory (``nbest/words``)."""
        if table not in self._files:
            (self._temporary / table).parent.mkdir(exist_ok=True)
            self._files[table] = open(self._temporary / table, "wb")  # noqa: SIM115  # closed by ``close``
        self._files[table].write(f"{line}\n".encode())

    def write_table(self, table: str, entries: Mapping[str, str]) -> None:
        """Writes a whole table, in C order."""
        for key in sorted(entries):
            self.write(table, key, entries[key])

    def write_lines(self, table: str, lines: Iterable[str]) -> None:
        """Writes lines as they are."""
        for line in lines:
            self.write_line(table, line)

    def copy(self, source: Path, table: str) -> None:
        """Takes a file as it is, under the name of a table (``ctm.gz`` too)."""
        try:
            shutil.copyfile(source, self._temporary / table)
        except OSError as e:
            raise FormatError(f"{source}: expected a readable file, got '{e.strerror}'; check the path") from e

    @property
    def is_empty(self) -> bool:
        """Nothing was written yet."""
        return not any(self._temporary.iterdir())

    def close(self) -> None:
        """Closes the tables."""
        for file in self._files.values():
            file.close()

    def finish(self) -> None:
        """Reads the directory as any reader will, and gives it its name.

        Raises:
            FormatError: a table is broken or does not fit the others.
        """
        self.close()
        data = DataDir(self._temporary)
        self.n_errors = len(data.errors)
        self.counts = count_set(data, str(self._path))
        _give_name(self._temporary, self._path)


@contextlib.contextmanager
def new_data_dir(path: str | os.PathLike[str]) -> Iterator[DataDirWriter]:
    """A data directory to write: there when the block has ended by itself, in place of one that was there before.

    Until then it is ``<path>.tmp``, which a killed run leaves and the next one replaces. None is made of nothing: a
    block that has written no table leaves no directory, and no ``counts``.

    Raises:
        FormatError: what stands there is no data directory alone; or what was written is none.
    """
    path = Path(path)
    _check_replaceable(path)
    temporary = _beside(path, "tmp")
    _check_replaceable(temporary)
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    except OSError as e:
        raise FormatError(f"{path}: expected a directory that can be made, got '{e.strerror}'; name another") from e
    writer = DataDirWriter(path, temporary)
    try:
        yield writer
        if not writer.is_empty:
            writer.finish()
    finally:
        writer.close()
        shutil.rmtree(temporary, ignore_errors=True)


def counts_of(writer: DataDirWriter) -> SetCounts:
    """What a finished directory holds."""
    assert writer.counts is not None, "A directory that is finished has counts. This is a bug."
    return writer.counts


def find_table(directory: Path, name: str) -> Path | None:
    """The file of a table, packed or not; None if there is none."""
    return next((p for p in (directory / name, directory / f"{name}.gz") if p.is_file()), None)


def _check_replaceable(path: Path) -> None:
    if not path.exists() and not path.is_symlink():
        return
    if path.exists() and path.samefile(os.curdir):
        raise FormatError(f"{path}: expected another directory than the one that work is done in; name it from outside")
    strange = (
        [path.name]
        if path.is_symlink() or not path.is_dir()
        else sorted(p.name for p in path.iterdir() if not _is_ours(p))
    )
    if strange:
        raise FormatError(
            f"{path}: expected a new directory, or one that holds tables of a data directory and nothing else, got "
            f"'{strange[0]}'; name another, or remove it"
        )


def _is_ours(path: Path) -> bool:
    if path.is_dir():
        return path.name == "nbest" and all(p.is_file() and p.name in NBEST_TABLES for p in path.iterdir())
    return path.name.removesuffix(".gz") in TABLES


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}.{suffix}")


def _give_name(temporary: Path, path: Path) -> None:
    """Renames a finished directory; what was there before goes once the new one is there."""
    if not path.exists():
        os.replace(temporary, path)
        return
    before = _beside(path, "before")
    _check_replaceable(before)
    shutil.rmtree(before, ignore_errors=True)
    os.replace(path, before)
    os.replace(temporary, path)
    shutil.rmtree(before)
