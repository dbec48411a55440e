"""The contrastive objective of pretraining: wav2vec learns to tell what comes next in the sound of data directories."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import torch

from kaldi_punct.models.contrastive import Outcome, contrast
from kaldi_punct.models.wav2vec import Wav2vec
from kaldi_punct.pretraining_config import SAMPLE_RATE_HZ, PretrainingConfig
from kaldi_punct.waves import CropBatch, CropBatches, Report, Waves, read_waves

log = logging.getLogger(__name__)


class Contrastive:
    """A model that is taught, and what it is taught with; see ``pretraining.Objective``.

    Args:
        config: options of the run.
        train_dirs: Kaldi data directories with ``wav.scp``.
        dev_dirs: the same, for validation.
        cache_dir: where decoded sound is kept.
        report: takes each recording that is left out.

    Raises:
        FormatError, ConfigError: as of ``waves.read_waves``.
    """

    CACHE = "sound"  # its folder in the directory of a run
    PEAK_LR = 0.005  # as the released recipe has it
    BATCH_OPTION, LENGTH_OPTION = (
        "contrastive.batch_samples",
        "contrastive.crop_samples",
    )

    def __init__(
        self,
        config: PretrainingConfig,
        train_dirs: Sequence[Path],
        dev_dirs: Sequence[Path],
        cache_dir: Path,
        report: Report,
    ) -> None:
        self._config = config
        self.model = Wav2vec(config.wav2vec)

        self._train = Waves.join([self._read(d, cache_dir / f"train{i}", report) for i, d in enumerate(train_dirs)])
        self._dev = [self._read(d, cache_dir / f"dev{i}", report) for i, d in enumerate(dev_dirs)]

    def epoch(self, epoch: int) -> CropBatches:
        """The training batches of one epoch."""
        return self._cut(self._train, [self._config.pretrain.seed, epoch])

    def dev(self, i: int) -> CropBatches:
        """The batches of one validation set, the same in each epoch."""
        return self._cut(self._dev[i], [0])

    def names(self, batch: CropBatch) -> Sequence[str]:
        """The recordings of a batch, for a message."""
        return batch.rec_ids

    def outcome(self, batch: CropBatch, device: torch.device) -> Outcome:
        """What the model makes of a batch."""
        samples = torch.from_numpy(batch.samples).to(device)
        return contrast(self.model, samples, torch.from_numpy(batch.negatives).to(device))

    def save(self, directory: Path) -> None:
        """Writes the model directory, which ``Wav2vec.load`` reads."""
        self.model.save(directory)

    def _read(self, data_dir: Path, cache: Path, report: Report) -> Waves:
        waves = read_waves(data_dir, cache, SAMPLE_RATE_HZ, self._config.wav2vec.min_samples, report)
        hours = waves.total_samples / SAMPLE_RATE_HZ / 3600
        log.info("%s: %d recordings, %.2f h", data_dir, len(waves.rec_ids), hours)
        return waves

    def _cut(self, waves: Waves, seed: Sequence[int]) -> CropBatches:
        options, model = self._config.contrastive, self._config.wav2vec
        return CropBatches(
            waves,
            crop_samples=options.crop_samples,
            batch_samples=options.batch_samples,
            min_samples=model.min_samples,
            n_frames=model.n_frames,
            n_negatives=options.n_negatives,
            seed=seed,
        )
