"""Training: the loop, its state, and exact resume.

``exp_dir`` holds ``last/`` (a model directory and ``state.pt``), ``best/`` (the model directory of the best dev epoch),
``config.yaml``, ``results.jsonl`` (a line an epoch) and TensorBoard scalars under ``tensorboard/``.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from kaldi_punct import checkpoint as checkpoints
from kaldi_punct.batch import Example, collate
from kaldi_punct.checkpoint import Checkpoint
from kaldi_punct.config import Config
from kaldi_punct.dataset import (
    EpochExamples,
    LabelledConversation,
    count_words,
    mixed_lexicon,
    read_conversations,
    sound_reader,
)
from kaldi_punct.errors import ConfigError, KaldiPunctError
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.labels import LabelSet
from kaldi_punct.models.muse import Logits, Muse, to_inputs
from kaldi_punct.models.objective import label_loss, parameter_groups, set_learning_rate
from kaldi_punct.punctuator import Punctuator, infer_by_budget
from kaldi_punct.scoring import Score, score_marks
from kaldi_punct.windows import cut_example, cut_windows

log = logging.getLogger(__name__)


@dataclass
class State:
    """Everything that the loop changes; saved and restored as a whole."""

    epoch: int = 0
    batch: int = 0  # next batch of this epoch
    step: int = 0
    best_f1: float = -1.0
    loss_sum: float = 0.0  # since the last log line
    n_losses: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


def train(
    train_dirs: Sequence[str | Path] | str | Path,
    dev_dirs: Sequence[str | Path] | str | Path,
    exp_dir: str | Path,
    config: Config | None = None,
) -> Path:
    """Trains a model and returns the directory of the best one.

    A run that was stopped goes on from its last checkpoint, to the same weights (on a CPU, bit for bit).

    Args:
        train_dirs: punctuated Kaldi data directories (``text_punct``; ``ctm``, ``segments``, ``utt2spk``, ``wav.scp``
            where there are any).
        dev_dirs: the same, scored after each epoch; the best mean of their micro F1 decides.
        exp_dir: made if missing.
        config: options; None for the defaults.

    Raises:
        ConfigError: options that do not fit the data or the run that is there.
        FormatError: a data directory that breaks its format.
    """
    return _Run(_as_paths(train_dirs), _as_paths(dev_dirs), Path(exp_dir), config or Config()).run()


class _Run:
    """One training run: data, model, optimizer and state."""

    def __init__(self, train_dirs: list[Path], dev_dirs: list[Path], exp_dir: Path, config: Config) -> None:
        config = copy.deepcopy(config)  # its model section may be replaced
        self.config, self.exp_dir = config, exp_dir
        options = config.train
        if options.n_threads:
            torch.set_num_threads(options.n_threads)
        _seed_all(options.seed)
        exp_dir.mkdir(parents=True, exist_ok=True)
        _keep_config(exp_dir / "config.yaml", config)
        AcceleratorState._reset_state()  # a run before this one, in the same process, may have had another precision
        self.accelerator = Accelerator(mixed_precision="bf16" if options.precision == "bf16" else "no")
        self.last_dir = exp_dir / "last"
        resumed = (self.last_dir / "state.pt").is_file()
        self.checkpoint = checkpoints.load(self.last_dir) if resumed else self._begin(train_dirs)
        config.model = self.checkpoint.config
        self.labels = LabelSet(tuple(config.model.marks), config.model.mark_map)
        self.table = self.checkpoint.piece_table()
        self.train_set, self.repeats = self._read_train(train_dirs)
        self.dev_sets = [self._read(d, options.dev_max_words) for d in dev_dirs]
        self.dev_names = [d.name for d in dev_dirs]
        if not resumed:
            self.checkpoint.case_lexicon = {**self.checkpoint.case_lexicon, **mixed_lexicon(self.train_set)}
            if not options.init:
                _fit_normaliser(self.checkpoint.model, self.train_set)
        self.optimizer = torch.optim.AdamW(parameter_groups(self.checkpoint.model, config), betas=(0.9, 0.98))
        self.peak_lrs = [float(g["lr"]) for g in self.optimizer.param_groups]
        self.state = State()
        if resumed:
            self._restore()
        # accelerate moves the model and wraps it where several processes train together.
        self.model, self.optimizer = self.accelerator.prepare(self.checkpoint.model, self.optimizer)
        self.writer = SummaryWriter(str(exp_dir / "tensorboard"))

    def run(self) -> Path:
        """The loop."""
        options = self.config.train
        n_steps = self._count_steps()
        while self.state.epoch < options.n_epochs and self.state.step < n_steps:
            examples = self._epoch_examples(self.state.epoch)
            log.info("epoch %d: %d batches, padding %.1f %%", self.state.epoch, len(examples), 100 * examples.padding)
            self._train_epoch(examples, n_steps)
            self.state.epoch, self.state.batch = self.state.epoch + 1, 0
            self._score_dev()
            self._save()
        self.writer.close()
        return self.exp_dir / "best"

    def _train_epoch(self, examples: EpochExamples, n_steps: int) -> None:
        options = self.config.train
        self.model.train()
        bar = tqdm(
            total=len(examples),
            initial=self.state.batch,
            unit="batch",
            mininterval=5.0,
            desc=f"epoch {self.state.epoch}",
        )
        n_words, since = 0, time.perf_counter()
        for batch in examples.batches(self.state.batch):
            if self.state.step >= n_steps:
                break
            set_learning_rate(self.optimizer, self.peak_lrs, self.state.step, n_steps, options.warmup_share)
            loss = self._step(batch)
            self.state.step += 1
            self.state.batch += 1
            self.state.loss_sum += loss
            self.state.n_losses += 1
            n_words += sum(e.n_words for e in batch)
            bar.update()
            if self.state.n_losses >= 50:
                n_words, since = self._log_progress(bar, n_words, since)
            if self.state.step % options.save_every_steps == 0:
                self._save()
        bar.close()

    def _step(self, batch: Sequence[Example]) -> float:
        padded = collate(batch)
        assert padded.marks is not None, "Training examples have targets. This is a bug."
        assert padded.cases is not None, "Training examples have targets. This is a bug."
        device = self.accelerator.device
        with self.accelerator.autocast():
            logits: Logits = self.model(to_inputs(padded, device))
            loss = label_loss(
                logits,
                torch.as_tensor(padded.marks).to(device),
                torch.as_tensor(padded.cases).to(device),
                self.config.train.case_weight,
            )
        value = float(loss.detach())
        if not math.isfinite(value):
            raise KaldiPunctError(
                f"step {self.state.step}: expected a finite loss, got {value}; lower train.peak_lr and train.head_lr, "
                f"and go on from {self.last_dir}"
            )
        self.accelerator.backward(loss)
        self.accelerator.clip_grad_norm_(self.model.parameters(), self.config.train.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return value

    def _log_progress(self, bar: Any, n_words: int, since: float) -> tuple[int, float]:
        loss = self.state.loss_sum / self.state.n_losses
        words_per_s = n_words / max(time.perf_counter() - since, 1e-9)
        self.writer.add_scalar("train/loss", loss, self.state.step)
        self.writer.add_scalar("train/words_per_s", words_per_s, self.state.step)
        bar.set_postfix_str(f"loss {loss:.4f}, {words_per_s:.0f} words/s")
        log.info("step %d: loss %.4f, %.0f words/s", self.state.step, loss, words_per_s)
        self.state.loss_sum, self.state.n_losses = 0.0, 0
        return 0, time.perf_counter()

    def _score_dev(self) -> None:
        if not self.dev_sets:
            checkpoints.save(self.checkpoint, self.exp_dir / "best")
            return
        punctuator = Punctuator(self.checkpoint, str(self.accelerator.device))
        result: dict[str, Any] = {"epoch": self.state.epoch, "step": self.state.step}
        micros = []
        for name, conversations in zip(self.dev_names, self.dev_sets, strict=True):
            score = score_conversations(punctuator, self.checkpoint, conversations, self.labels)
            micros.append(score.micro.f1)
            result[name] = score.as_dict()
            self.writer.add_scalar(f"dev/{name}/micro_f1", score.micro.f1, self.state.step)
            log.info("epoch %d, %s:\n%s", self.state.epoch, name, score)
        self.state.history.append(result)
        with open(self.exp_dir / "results.jsonl", "a", encoding="utf-8") as f:
            f.write(json.dumps(result) + "\n")
        mean = sum(micros) / len(micros)
        if mean > self.state.best_f1:
            self.state.best_f1 = mean
            checkpoints.save(self.checkpoint, self.exp_dir / "best")
        self.checkpoint.model.train()

    def _save(self) -> None:
        """The model and, last, the state that makes it a checkpoint: both replaced as wholes."""
        checkpoints.save(self.checkpoint, self.last_dir)
        tmp = self.last_dir / "state.pt.tmp"
        torch.save(
            {
                "state": asdict(self.state),
                "optimizer": self.optimizer.state_dict(),
                "weights": self.checkpoint.model.state_dict(),
                "torch_rng": torch.get_rng_state(),
            },
            tmp,
        )
        os.replace(tmp, self.last_dir / "state.pt")

    def _restore(self) -> None:
        saved = torch.load(self.last_dir / "state.pt", weights_only=True)
        self.state = State(**saved["state"])
        # The weights stand in state.pt too: a kill between the two files leaves the older pair whole.
        self.checkpoint.model.load_state_dict(saved["weights"])
        self.optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["torch_rng"])
        log.info("going on from %s: epoch %d, step %d", self.last_dir, self.state.epoch, self.state.step)

    def _count_steps(self) -> int:
        options = self.config.train
        total = sum(len(self._epoch_examples(e)) for e in range(options.n_epochs))
        return min(total, options.max_steps) if options.max_steps else total

    def _epoch_examples(self, epoch: int) -> EpochExamples:
        options = self.config.train
        return EpochExamples(
            self.train_set,
            self.repeats,
            self.table,
            self.config.data,
            seed=options.seed,
            epoch=epoch,
            batch_pieces=options.batch_pieces,
        )

    def _begin(self, train_dirs: list[Path]) -> Checkpoint:
        """The checkpoint that a new run begins from."""
        init = self.config.train.init
        if not init:
            return checkpoints.create(self.config, lambda: self._count_words(train_dirs))
        checkpoint = checkpoints.load(init)
        checkpoints.check_reach(checkpoint.encoder_config, self.config.data.max_pieces, init)
        checkpoint.window = self.config.data
        log.info("going on from %s: its architecture replaces section model", init)
        return checkpoint

    def _count_words(self, train_dirs: list[Path]) -> Counter[str]:
        """How often the training sets have each word, for a model that reads whole words."""
        model = self.config.model
        labels = LabelSet(tuple(model.marks), model.mark_map)
        counts: Counter[str] = Counter()
        for directory, limit in zip(train_dirs, self._limits(train_dirs), strict=True):
            counts += count_words(DataDir(directory), labels, max_words=limit, seed=self.config.train.seed)
        return counts

    def _read_train(self, train_dirs: list[Path]) -> tuple[list[LabelledConversation], list[int]]:
        limits, options = self._limits(train_dirs), self.config.train
        conversations: list[LabelledConversation] = []
        repeats: list[int] = []
        for i, directory in enumerate(train_dirs):
            part = self._read(directory, limits[i])
            conversations.extend(part)
            repeats.extend([options.repeats[i] if options.repeats else 1] * len(part))
        return conversations, repeats

    def _limits(self, train_dirs: list[Path]) -> list[int]:
        """Words to take of each training set, 0 for all."""
        options = self.config.train
        for name, values in (("repeats", options.repeats), ("max_words", options.max_words)):
            if values and len(values) != len(train_dirs):
                raise ConfigError(
                    f"train.{name}: expected {len(train_dirs)} values, one for each training set, got {len(values)}"
                )
        return options.max_words or [0] * len(train_dirs)

    def _read(self, directory: Path, max_words: int) -> list[LabelledConversation]:
        data_dir = DataDir(directory)
        conversations, tally = read_conversations(
            data_dir,
            self.table,
            self.labels,
            max_words=max_words,
            seed=self.config.train.seed,
            read_sound=sound_reader(data_dir, self.config.model),
        )
        log.info("%s: %s", directory, tally)
        return conversations


def score_conversations(
    punctuator: Punctuator, checkpoint: Checkpoint, conversations: Sequence[LabelledConversation], labels: LabelSet
) -> Score:
    """Marks and case of labelled conversations against their references, both sides of context seen."""
    table, window = checkpoint.piece_table(), checkpoint.window
    reference_marks: list[str | None] = []
    hyp_marks: list[str] = []
    reference_cases: list[int | None] = []
    hyp_cases: list[int] = []
    for conversation in conversations:
        marks, cases = label_track(punctuator, conversation, table, window)
        hyp_marks.extend(labels.marks[m] for m in marks)
        hyp_cases.extend(cases)
        reference_marks.extend(w.mark for w in conversation.labels)
        reference_cases.extend(w.case for w in conversation.labels)
    return score_marks(reference_marks, hyp_marks, reference_cases, hyp_cases, labels=labels)


def label_track(
    punctuator: Punctuator, conversation: LabelledConversation, table: Any, window: Any
) -> tuple[list[int], list[int]]:
    """(mark, case) class of each word of a conversation."""
    track = conversation.track
    windows = cut_windows([len(p) for p in track.pieces], window.max_pieces, window.margin_words)
    examples = [cut_example(track, w.start, w.stop, table, window.max_pieces, window.left_context_s) for w in windows]
    marks: list[int] = []
    cases: list[int] = []
    for w, p in zip(windows, infer_by_budget(punctuator, examples), strict=True):
        part = slice(w.first - w.start, w.last - w.start)
        marks.extend(p.marks[part].argmax(1).tolist())
        cases.extend(p.cases[part].argmax(1).tolist())
    return marks, cases


def _fit_normaliser(model: Muse, conversations: Sequence[LabelledConversation]) -> None:
    """Mean and deviation of the training frames, kept in the checkpoint."""
    sounds = [c.track.sound.frames for c in conversations if c.track.sound is not None]
    if model.acoustic is None:
        return
    if not sounds:
        raise ConfigError("model.acoustic: expected training sets with sound (wav.scp), got none")
    total = sum(len(s) for s in sounds)
    mean = sum(s.sum(0, dtype=np.float64) for s in sounds) / total
    variance = sum(((s - mean) ** 2).sum(0) for s in sounds) / total
    model.acoustic.mean.copy_(torch.as_tensor(mean))
    model.acoustic.std.copy_(torch.as_tensor(np.sqrt(variance)).clamp(min=1e-3))


def _keep_config(path: Path, config: Config) -> None:
    """Writes the configuration, or checks that a run to be resumed had the same."""
    text = config.dump()
    # Read, not compared as text: an older version wrote fewer keys.
    if path.is_file() and (before := Config.load(str(path))) != config:
        known = before.dump().splitlines()
        changed = [line for line in text.splitlines() if line not in known]
        raise ConfigError(
            f"{path}: expected the options that this run began with, got other ones ({'; '.join(changed)}); "
            "take another exp_dir, or remove this one to begin again"
        )
    path.write_text(text, encoding="utf-8")


def _seed_all(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)


def _as_paths(dirs: Sequence[str | Path] | str | Path) -> list[Path]:
    return [Path(dirs)] if isinstance(dirs, (str, Path)) else [Path(d) for d in dirs]
