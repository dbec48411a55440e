"""Frames that were computed once (``kaldi-punct feats``): Kaldi tables of float matrices, keyed by recording.

A data directory holds them as ``feats_<type>.scp`` (beside it ``feats_<type>.ark``), where ``feats_<type>.yaml`` tells
what they are. Kaldi's own ``feats.scp`` is another thing: the decoder's features, by utterance.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile
import yaml

from kaldi_punct.batch import Floats
from kaldi_punct.errors import FormatError
from kaldi_punct.frames import FrameKind
from kaldi_punct.kaldi.tables import by_key, read_wav_scp
from kaldi_punct.kaldi.vectors import read_float_matrix

_OFFSET = re.compile(r"^(.+):([0-9]+)$")
_MATRIX_HEAD = struct.Struct("<2s3sbibi")  # "\0B", "FM ", then rows and columns, each after its size in bytes


def table_name(kind: FrameKind) -> str:
    """The name of the table of such frames in a data directory, without its suffix."""
    return f"feats_{kind.type}"


def write_kind(scp: str | os.PathLike[str], kind: FrameKind) -> None:
    """Writes what the frames of a table are beside it."""
    Path(scp).with_suffix(".yaml").write_text(yaml.safe_dump(dataclasses.asdict(kind), sort_keys=False), "utf-8")


@dataclass(frozen=True, slots=True)
class FrameTable:
    """A script file of frames; matrices of plain archives are mapped into memory, not read.

    Attributes:
        path: the script file.
        kind: what a model wants to hear.
        entries: rxfilename of each recording's frames.
    """

    path: str
    kind: FrameKind
    entries: dict[str, str]
    _maps: dict[str, mmap.mmap] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | os.PathLike[str], kind: FrameKind) -> FrameTable:
        """The table of a script file.

        Args:
            path: ``<rec-id> <archive>:<offset>`` lines.
            kind: what a model wants to hear.

        Raises:
            FormatError: no such file, a broken one, or frames of another kind.
        """
        _check_kind(Path(path), kind)
        return cls(os.fspath(path), kind, by_key(path, read_wav_scp(path)))

    @classmethod
    def find(cls, data_dir: Path, kind: FrameKind) -> FrameTable | None:
        """The table of a data directory that holds such frames; None if it has none of the type.

        Raises:
            FormatError: as ``read``; of several tables that do not fit, the first is told.
        """
        wrong: FormatError | None = None
        for path in sorted(data_dir.glob(f"{table_name(kind)}*.scp")):  # a suffix tells those of several encoders apart
            try:
                _check_kind(path, kind)
            except FormatError as e:
                wrong = wrong or e
            else:
                return cls.read(path, kind)
        if wrong is not None:
            raise wrong
        return None

    def frames(self, rec_id: str, wav: str | None = None) -> Floats | None:
        """The frames of a recording, (T, F); None if the table lacks it.

        Args:
            rec_id: the recording.
            wav: rxfilename of its sound; where that is a file, the number of frames must fit its length.

        Raises:
            FormatError: not there, no frames, or frames that do not fit the model or the sound.
        """
        if rec_id not in self.entries:
            return None
        rx = self.entries[rec_id]
        where = f"{self.path}: '{rec_id}'"
        frames = self._map(rx)
        if frames is None:
            frames = read_float_matrix(rx)
        if frames.shape[1] != self.kind.dim:
            raise FormatError(f"{where}: expected frames of {self.kind.dim} numbers, got {frames.shape[1]}; {_again()}")
        n_frames = None if wav is None else self._count(wav)
        # Resampling rounds the number of samples.
        if n_frames is not None and abs(len(frames) - n_frames) > 1:
            raise FormatError(f"{where}: expected {n_frames} frames for its sound {wav}, got {len(frames)}; {_again()}")
        return frames

    def _count(self, wav: str) -> int | None:
        """How many frames a sound file has by its head; None for a pipe, or what has no plain head."""
        try:
            info = soundfile.info(wav) if os.path.isfile(wav) else None
        except soundfile.SoundFileError:
            return None  # who hears it will tell
        if info is None:
            return None
        return self.kind.n_frames(round(info.frames * self.kind.sample_rate_hz / info.samplerate))

    def _map(self, rx: str) -> Floats | None:
        """A matrix of float32 in a plain archive, mapped; None for what must be read."""
        found = _OFFSET.match(rx)
        if found is None or not os.path.isfile(found[1]) or not os.path.getsize(found[1]):
            return None
        path, offset = found[1], int(found[2])
        if path not in self._maps:  # one map a file: each holds a descriptor
            with open(path, "rb") as stream:
                self._maps[path] = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        data = self._maps[path]
        if offset + _MATRIX_HEAD.size > len(data):
            return None
        binary, token, _, n_rows, _, n_columns = _MATRIX_HEAD.unpack_from(data, offset)
        begin = offset + _MATRIX_HEAD.size
        if (binary, token) != (b"\0B", b"FM ") or begin + 4 * n_rows * n_columns > len(data):
            return None
        return np.frombuffer(data, "<f4", n_rows * n_columns, begin).reshape(n_rows, n_columns)


def _check_kind(path: Path, kind: FrameKind) -> None:
    told = path.with_suffix(".yaml")
    if not told.is_file():
        return
    try:
        found = FrameKind(**yaml.safe_load(told.read_text("utf-8")))
    except (OSError, TypeError, ValueError, yaml.YAMLError) as e:
        raise FormatError(f"{told}: expected what the frames of {path.name} are, got: {e}; {_again()}") from e
    names = [f.name for f in dataclasses.fields(kind) if getattr(found, f.name) != getattr(kind, f.name)]
    if names:
        wanted, got = (", ".join(f"{n} {getattr(k, n)}" for n in names) for k in (kind, found))
        raise FormatError(f"{told}: expected frames that the model hears ({wanted}), got others ({got}); {_again()}")


def _again() -> str:
    return "run kaldi-punct feats for this model again, or remove the table"
