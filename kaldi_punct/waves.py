"""The sound of whole data sets, decoded once: 16-bit samples at one rate in a file that is mapped into memory.

Pretraining hears every recording in every epoch. Decoding and resampling it anew each time would cost a small model
more than learning from it, and the sound of hundreds of hours does not fit into memory as numbers.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from kaldi_punct.audio import read_audio, resample
from kaldi_punct.errors import ConfigError, FormatError, KaldiPunctError, UtteranceError
from kaldi_punct.kaldi.streams import open_rxfilename
from kaldi_punct.kaldi.tables import read_wav_scp

Report = Callable[[Exception, str], None]
_INT16_SCALE = 32768.0
_MAX_LENGTH_RATIO = 1.25  # of the pieces of a batch, which are cut to the shortest


@dataclass(frozen=True, slots=True)
class Waves:
    """Recordings of data directories.

    Attributes:
        rec_ids: their names.
        samples: of each, 16-bit; parts of files that are read where they are looked at.
    """

    rec_ids: tuple[str, ...]
    samples: tuple[NDArray[np.int16], ...]

    @classmethod
    def join(cls, parts: Sequence[Waves]) -> Waves:
        """The recordings of all parts."""
        return cls(
            tuple(rec_id for part in parts for rec_id in part.rec_ids),
            tuple(samples for part in parts for samples in part.samples),
        )

    @property
    def total_samples(self) -> int:
        """Of all recordings."""
        return sum(len(samples) for samples in self.samples)

    def cut(self, recording: int, start: int, n_samples: int) -> NDArray[np.float32]:
        """Samples -1..1 of a part of a recording."""
        part: NDArray[np.float32] = self.samples[recording][start : start + n_samples].astype(np.float32)
        part /= _INT16_SCALE
        return part


def read_waves(data_dir: Path, cache: Path, sample_rate_hz: int, min_samples: int, report: Report) -> Waves:
    """The recordings of a data directory's ``wav.scp``.

    They are decoded into ``<cache>.i16`` the first time; after that they are only looked up there, and what was
    reported then is reported again.

    Args:
        data_dir: a Kaldi data directory; no other table is needed.
        cache: where the samples are kept, without suffix; its folder is made if missing.
        sample_rate_hz: they are resampled to this.
        min_samples: shorter recordings are left out.
        report: takes each recording that is left out, as an error and its name.

    Raises:
        FormatError: no ``wav.scp``, a broken one, or no recording in it that can be used.
        ConfigError: the recordings that are kept there are of another ``wav.scp``.
    """
    table = next((p for p in (data_dir / "wav.scp", data_dir / "wav.scp.gz") if p.is_file()), None)
    if table is None:
        raise FormatError(f"{data_dir}: expected a Kaldi data directory with wav.scp, got none; check the path")
    entries = dict(read_wav_scp(table))
    digest = hashlib.sha256(json.dumps([entries, sample_rate_hz, min_samples]).encode()).hexdigest()
    index_path = cache.with_name(f"{cache.name}.json")
    if not index_path.is_file():
        cache.parent.mkdir(parents=True, exist_ok=True)
        _decode(entries, digest, cache, sample_rate_hz, min_samples)
    index = json.loads(index_path.read_text(encoding="utf-8"))
    if index["digest"] != digest:
        raise ConfigError(
            f"{index_path}: expected the recordings that this run began with, got another {table}; "
            "take another exp_dir, or remove this one to begin again"
        )
    for rec_id, text in index["errors"]:
        report(UtteranceError(text), rec_id)
    if not index["recordings"]:
        raise FormatError(f"{table}: expected recordings to learn from, got none that can be used")
    rec_ids, n_samples = zip(*index["recordings"], strict=True)
    path = cache.with_name(f"{cache.name}.i16")
    if path.stat().st_size != 2 * sum(n_samples):
        raise FormatError(f"{path}: expected {2 * sum(n_samples)} bytes, got {path.stat().st_size}; remove {cache}.*")
    whole = np.asarray(np.memmap(path, "<i2", "r"))
    return Waves(tuple(rec_ids), tuple(np.split(whole, np.cumsum(n_samples)[:-1])))


def _decode(entries: dict[str, str], digest: str, cache: Path, sample_rate_hz: int, min_samples: int) -> None:
    """Writes the samples, and then the index that says that they are whole."""
    recordings: list[tuple[str, int]] = []
    errors: list[tuple[str, str]] = []
    tmp = cache.with_name(f"{cache.name}.i16.tmp")
    with open(tmp, "wb") as out:
        for rec_id, rxfilename in tqdm(entries.items(), desc="decoding", unit="recording", disable=None):
            try:
                samples = _read(rxfilename, sample_rate_hz, min_samples)
            except (KaldiPunctError, OSError) as e:
                errors.append((rec_id, _describe(e, rec_id)))
                continue
            samples.tofile(out)
            recordings.append((rec_id, len(samples)))
    os.replace(tmp, cache.with_name(f"{cache.name}.i16"))
    index = {"digest": digest, "recordings": recordings, "errors": errors}
    tmp = cache.with_name(f"{cache.name}.json.tmp")
    tmp.write_text(json.dumps(index) + "\n", encoding="utf-8")
    os.replace(tmp, cache.with_name(f"{cache.name}.json"))


def _read(rxfilename: str, sample_rate_hz: int, min_samples: int) -> NDArray[np.int16]:
    with open_rxfilename(rxfilename) as stream:
        audio = resample(read_audio(stream.read(), name=rxfilename), sample_rate_hz)
    if len(audio.samples) < min_samples:
        raise UtteranceError(
            f"{rxfilename}: expected at least {min_samples} samples at {sample_rate_hz} Hz, got {len(audio.samples)}; "
            "join it to its neighbours"
        )
    samples: NDArray[np.int16] = np.clip(np.rint(audio.samples * _INT16_SCALE), -32768, 32767).astype("<i2")
    if samples.min() == samples.max():
        raise UtteranceError(f"{rxfilename}: expected sound, got silence (all samples are {samples[0]})")
    return samples


def _describe(error: Exception, rec_id: str) -> str:
    text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    return text if rec_id in text else f"{rec_id}: {text}"


@dataclass(frozen=True, slots=True)
class Crop:
    """A piece of a recording."""

    recording: int
    start: int
    n_samples: int


@dataclass(frozen=True, slots=True)
class CropBatch:
    """Pieces of sound of equal length, B of them.

    Attributes:
        rec_ids: the recording of each.
        samples: (B, N) float32, -1..1.
        negatives: (B, T, K) int64: for each frame K others of the same piece, drawn at random.
    """

    rec_ids: tuple[str, ...]
    samples: NDArray[np.float32]
    negatives: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rec_ids)

    def part(self, first: int, last: int) -> CropBatch:
        """The pieces ``first`` to one before ``last``."""
        return CropBatch(self.rec_ids[first:last], self.samples[first:last], self.negatives[first:last])


class CropBatches:
    """The batches of one epoch, which depend on (seed, epoch) alone, so that an epoch can be entered at any batch.

    A recording is cut into equal pieces, in each epoch into other ones. Pieces of like length come together and are cut
    to the shortest of them at a place drawn at random: nothing is padded, as in the released recipe.

    Args:
        waves: the recordings.
        crop_samples: longest piece.
        batch_samples: samples of a batch.
        min_samples: shortest piece.
        n_frames: frames of so many samples.
        n_negatives: drawn for each frame.
        seed: (seed, epoch), or one number where every epoch is the same: then chance decides the negatives alone.
    """

    def __init__(
        self,
        waves: Waves,
        *,
        crop_samples: int,
        batch_samples: int,
        min_samples: int,
        n_frames: Callable[[int], int],
        n_negatives: int,
        seed: Sequence[int],
    ) -> None:
        self._waves, self._n_frames, self._n_negatives, self._seed = waves, n_frames, n_negatives, list(seed)
        self._moves = len(self._seed) > 1
        rng = np.random.default_rng(self._seed)
        crops: list[Crop] = []
        for i, n_samples in enumerate(len(samples) for samples in waves.samples):
            n_pieces = -(-n_samples // crop_samples) + (int(rng.integers(0, 2)) if self._moves else 0)
            n_pieces = max(1, min(n_pieces, n_samples // min_samples))
            borders = [n_samples * k // n_pieces for k in range(n_pieces + 1)]
            crops.extend(Crop(i, a, b - a) for a, b in itertools.pairwise(borders))
        crops.sort(key=lambda crop: crop.n_samples)
        self._batches = list(_group(crops, batch_samples))
        if self._moves:
            self._batches = [self._batches[k] for k in rng.permutation(len(self._batches)).tolist()]

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def n_samples(self) -> int:
        """Samples that are heard in the epoch."""
        return sum(len(batch) * batch[0].n_samples for batch in self._batches)

    def batches(self, first: int = 0) -> Iterator[CropBatch]:
        """Batches from the ``first`` on."""
        return (self.batch(i) for i in range(first, len(self._batches)))

    def batch(self, i: int) -> CropBatch:
        """One batch."""
        crops, rng = self._batches[i], np.random.default_rng([*self._seed, i])
        shortest = crops[0].n_samples
        samples = np.empty((len(crops), shortest), np.float32)
        for row, crop in zip(samples, crops, strict=True):
            shift = int(rng.integers(0, crop.n_samples - shortest + 1)) if self._moves else 0
            row[:] = self._waves.cut(crop.recording, crop.start + shift, shortest)
        negatives = draw_negatives(len(crops), self._n_frames(shortest), self._n_negatives, rng)
        return CropBatch(tuple(self._waves.rec_ids[c.recording] for c in crops), samples, negatives)


def draw_negatives(n_crops: int, n_frames: int, n_negatives: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """For each frame others of its crop, all equally likely: (B, T, K) indices, never the frame's own."""
    drawn = rng.integers(0, n_frames - 1, (n_crops, n_frames, n_negatives))
    return drawn + (drawn >= np.arange(n_frames)[None, :, None])


def _group(crops: Sequence[Crop], batch_samples: int) -> Iterator[list[Crop]]:
    """Consecutive crops, shortest first: as many as fit, and none that would lose a fifth by being cut to the first."""
    group: list[Crop] = []
    for crop in crops:
        if group and (
            crop.n_samples > _MAX_LENGTH_RATIO * group[0].n_samples or crop.n_samples * (len(group) + 1) > batch_samples
        ):
            yield group
            group = []
        group.append(crop)
    if group:
        yield group
