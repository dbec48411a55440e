"""The data of one training run: its training sets, read once, and its dev sets."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from kaldi_punct.augmentation import FOLDER, nbest_reader
from kaldi_punct.batch import Floats, PieceTable
from kaldi_punct.checkpoint import Checkpoint
from kaldi_punct.config import Config, TrainConfig
from kaldi_punct.dataset import LabelledConversation, count_words, read_conversations
from kaldi_punct.epochs import EpochExamples
from kaldi_punct.errors import ConfigError
from kaldi_punct.frames import FrameSource
from kaldi_punct.hearing import sound_reader
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.labels import LabelSet
from kaldi_punct.models.muse import Muse

log = logging.getLogger(__name__)
_BLOCK_FRAMES = 20_000


@dataclass(frozen=True, slots=True)
class Corpora:
    """What a run learns from and is scored on.

    Attributes:
        train: conversations of all training sets.
        repeats: how often an epoch takes each of them.
        dev: conversations of each dev set, by name.
        table: pieces of words.
        labels: marks.
        config: of the run.
    """

    train: Sequence[LabelledConversation]
    repeats: Sequence[int]
    dev: Mapping[str, Sequence[LabelledConversation]]
    table: PieceTable
    labels: LabelSet
    config: Config

    def epoch(self, number: int) -> EpochExamples:
        """The examples of one epoch."""
        options = self.config.train
        return EpochExamples(
            self.train,
            self.repeats,
            self.table,
            self.config.data,
            seed=options.seed,
            epoch=number,
            batch_pieces=options.batch_pieces,
            nbest_per_epoch=options.nbest_per_epoch,
        )

    def count_steps(self, batches_a_step: int) -> int:
        """Optimizer steps of the whole run; an epoch's last one may hold fewer batches."""
        options = self.config.train
        total = sum(-(-len(self.epoch(e)) // batches_a_step) for e in range(options.n_epochs))
        return min(total, options.max_steps) if options.max_steps else total


def read_corpora(
    train_dirs: Sequence[Path], dev_dirs: Sequence[Path], checkpoint: Checkpoint, config: Config
) -> Corpora:
    """Reads the data of a run for a model.

    Args:
        train_dirs: punctuated Kaldi data directories.
        dev_dirs: the same.
        checkpoint: tells pieces, marks and what is heard.
        config: of the run, its section model that of the checkpoint.

    Raises:
        ConfigError: options for another number of training sets, or for N-best lists that are not there.
        FormatError: a data directory that breaks its format.
    """
    table = checkpoint.piece_table()
    labels = LabelSet(tuple(config.model.marks), config.model.mark_map)
    options = config.train
    limits = word_limits(options, len(train_dirs))
    train: list[LabelledConversation] = []
    repeats: list[int] = []
    for i, directory in enumerate(train_dirs):
        part = _read(directory, limits[i], table, labels, config, checkpoint.source, with_nbest=True)
        train.extend(part)
        repeats.extend([options.repeats[i] if options.repeats else 1] * len(part))
    if options.nbest and not any(c.rank for c in train):
        raise ConfigError(
            f"train.nbest: expected N-best lists in a folder {FOLDER} of a training set, got none that bring other "
            "words; write them with kaldi-punct nbest, or set it to 0"
        )
    names = _short_names(dev_dirs)
    dev = {
        n: _read(d, options.dev_max_words, table, labels, config, checkpoint.source)
        for n, d in zip(names, dev_dirs, strict=True)
    }
    return Corpora(train, repeats, dev, table, labels, config)


def count_training_words(train_dirs: Sequence[Path], config: Config) -> Counter[str]:
    """How often the training sets have each word, for a model that reads whole words."""
    labels = LabelSet(tuple(config.model.marks), config.model.mark_map)
    counts: Counter[str] = Counter()
    for directory, limit in zip(train_dirs, word_limits(config.train, len(train_dirs)), strict=True):
        data_dir = DataDir(directory)
        hypotheses = nbest_reader(data_dir, config.train)
        counts += count_words(data_dir, labels, max_words=limit, seed=config.train.seed, read_hypotheses=hypotheses)
    return counts


def word_limits(options: TrainConfig, n_sets: int) -> list[int]:
    """Words to take of each training set, 0 for all.

    Raises:
        ConfigError: options for another number of training sets.
    """
    for name, values in (("repeats", options.repeats), ("max_words", options.max_words)):
        if values and len(values) != n_sets:
            raise ConfigError(f"train.{name}: expected {n_sets} values, one for each training set, got {len(values)}")
    return options.max_words or [0] * n_sets


def fit_normaliser(model: Muse, conversations: Sequence[LabelledConversation]) -> None:
    """Puts mean and deviation of the training frames into a model that hears.

    Raises:
        ConfigError: there are none.
    """
    # Hypotheses share the sound of the conversation before them.
    sounds = [c.track.sound.frames for c in conversations if c.track.sound is not None and not c.rank]
    if model.acoustic is None:
        return
    if not sounds:
        raise ConfigError("model.acoustic: expected training sets with sound (wav.scp), got none")
    total = sum(len(s) for s in sounds)
    if not total:
        raise ConfigError("model.acoustic: expected training sets with sound, got recordings too short for a frame")
    mean = sum(s.sum(0, dtype=np.float64) for s in sounds) / total
    variance = sum(((b - mean) ** 2).sum(0) for s in sounds for b in _blocks(s)) / total
    model.acoustic.mean.copy_(torch.as_tensor(mean))
    model.acoustic.std.copy_(torch.as_tensor(np.sqrt(variance)).clamp(min=1e-3))


def _read(
    directory: Path,
    max_words: int,
    table: PieceTable,
    labels: LabelSet,
    config: Config,
    source: FrameSource | None,
    with_nbest: bool = False,
) -> list[LabelledConversation]:
    data_dir = DataDir(directory)
    hypotheses = nbest_reader(data_dir, config.train) if with_nbest else None
    conversations, tally = read_conversations(
        data_dir,
        table,
        labels,
        max_words=max_words,
        seed=config.train.seed,
        read_sound=sound_reader(data_dir, source, by_times=config.model.hears_by_times),
        read_hypotheses=hypotheses,
    )
    log.info("%s: %s", directory, tally)
    if hypotheses is not None:
        log.info("%s: %s", directory / FOLDER, hypotheses)
    return conversations


def _blocks(frames: Floats) -> Iterator[Floats]:
    """Hours of frames, a few minutes at a time."""
    yield from (frames[i : i + _BLOCK_FRAMES] for i in range(0, len(frames), _BLOCK_FRAMES))


def _short_names(directories: Sequence[Path]) -> list[str]:
    """The last part of each path, or all of it where two would be called the same."""
    names = [d.name for d in directories]
    return [name if names.count(name) == 1 else str(d) for name, d in zip(names, directories, strict=True)]
