"""Pretraining: the loop that teaches an encoder from sound or text alone, whatever the objective.

``exp_dir`` holds ``last/`` (a model directory and ``state.pt``), ``best/`` (the model directory of the epoch with the
least validation loss), ``config.yaml``, ``results.jsonl`` (a line an epoch), TensorBoard scalars under
``tensorboard/``, and what the objective keeps there.
"""

from __future__ import annotations

import logging
import math
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from tqdm import tqdm

from kaldi_punct.contrastive import Contrastive
from kaldi_punct.errors import CheckpointError, ConfigError, KaldiPunctError
from kaldi_punct.loop import make_accelerator, make_bar, open_writer
from kaldi_punct.masked_words import MaskedWords
from kaldi_punct.memory import attempt
from kaldi_punct.models.contrastive import Outcome
from kaldi_punct.pretraining_config import PretrainConfig, PretrainingConfig
from kaldi_punct.run_state import STATE, keep_config, write_results
from kaldi_punct.waves import Report

log = logging.getLogger(__name__)

OBJECTIVES: Mapping[str, type[Contrastive] | type[MaskedWords]] = {"contrastive": Contrastive, "mlm": MaskedWords}


class Batch(Protocol):
    """Rows of what is learned from."""

    def __len__(self) -> int: ...

    def part(self, first: int, last: int) -> Batch:
        """The rows ``first`` to one before ``last``."""


class Batches(Protocol):
    """The batches of one epoch, in an order that depends on its number alone."""

    def __len__(self) -> int: ...

    def batch(self, i: int) -> Batch:
        """One of them; how it is drawn depends on (seed, epoch, i) alone."""


class Objective(Protocol):
    """What a run teaches: ``contrastive.Contrastive`` or ``masked_words.MaskedWords``, made from the same arguments."""

    BATCH_OPTION: str  # how large a batch is, and its rows: to be lowered where memory is short
    LENGTH_OPTION: str

    @property
    def model(self) -> nn.Module:
        """To be taught."""

    def epoch(self, epoch: int) -> Batches:
        """What to learn from in one epoch."""

    def dev(self, i: int) -> Batches:
        """The i-th validation set, the same in each epoch."""

    def names(self, batch: Any) -> Sequence[str]:
        """Where a batch is from, for a message."""

    def outcome(self, batch: Any, device: torch.device) -> Outcome:
        """What the model makes of a batch."""

    def save(self, directory: Path) -> None:
        """Writes the model directory."""


@dataclass
class State:
    """Everything that the loop changes beside weights and optimizer; saved and restored as a whole."""

    epoch: int = 0
    batch: int = 0  # next batch of this epoch, of all processes together
    step: int = 0
    best_loss: float = math.inf
    loss_sum: float = 0.0  # since the last line of the log
    n_losses: int = 0
    n_processes: int = 1
    n_split: int = 0  # batches split for want of memory
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Pretrained:
    """What a run did.

    Attributes:
        best_dir: the model directory of the best epoch.
        n_steps: optimizer steps, those before it that it went on from included.
        n_split: batches split for want of memory.
    """

    best_dir: Path
    n_steps: int
    n_split: int


def pretrain(
    objective: str,
    train_dirs: Sequence[str | Path],
    dev_dirs: Sequence[str | Path],
    exp_dir: str | Path,
    config: PretrainingConfig,
    report: Report,
) -> Pretrained:
    """Teaches an encoder without labels.

    A run that was stopped goes on from its last checkpoint, to the same weights (on a CPU, bit for bit).

    Args:
        objective: one of ``OBJECTIVES``.
        train_dirs: Kaldi data directories.
        dev_dirs: the same, for validation after each epoch; empty for none.
        exp_dir: made if missing.
        config: options.
        report: takes each recording or utterance that cannot be used, as an error and its name.

    Raises:
        ConfigError: options that do not fit the data or the run that is there.
        FormatError: a data directory that breaks its format.
        CheckpointError: a run to go on from that is broken.
        KaldiPunctError: a loss that is not finite, or too little memory for half a batch.
    """
    dirs = [Path(d) for d in train_dirs], [Path(d) for d in dev_dirs]
    return _Run(objective, *dirs, Path(exp_dir), config, report).run()


class _Run:
    """One pretraining run: objective, optimizer and state."""

    def __init__(
        self,
        objective: str,
        train_dirs: Sequence[Path],
        dev_dirs: Sequence[Path],
        exp_dir: Path,
        config: PretrainingConfig,
        report: Report,
    ) -> None:
        kind = OBJECTIVES[objective]
        rate = kind.PEAK_LR if config.pretrain.peak_lr is None else config.pretrain.peak_lr
        self.options, self.peak_lr = config.pretrain, rate
        self.exp_dir, self.last_dir = exp_dir, exp_dir / "last"
        if self.options.n_threads:
            torch.set_num_threads(self.options.n_threads)
        random.seed(self.options.seed)
        torch.manual_seed(self.options.seed)
        self.accelerator = make_accelerator(self.options.precision)
        self.is_first = self.accelerator.is_main_process
        if self.is_first:
            exp_dir.mkdir(parents=True, exist_ok=True)
            keep_config(exp_dir / "config.yaml", config)
        with self.accelerator.main_process_first():  # it decodes, the others find what it wrote
            self.objective: Objective = kind(config, train_dirs, dev_dirs, exp_dir / kind.CACHE, report)
        self.dev_names = [d.name for d in dev_dirs]
        self.model = self.objective.model
        self.optimizer: Any = torch.optim.AdamW(
            parameter_groups(self.model, self.options, self.peak_lr), betas=(0.9, 0.999)
        )
        self.state = State(n_processes=self.accelerator.num_processes)
        if (self.last_dir / STATE).is_file():
            self._restore()
        # Moved and set to its precision, but not wrapped: gradients of several processes meet in ``_step``.
        self.accelerator.prepare_model(self.model, evaluation_mode=True)
        self.optimizer = self.accelerator.prepare(self.optimizer)
        self.n_steps = self._count_steps()
        self.writer = open_writer(exp_dir, self.state.step, is_first=self.is_first)

    def run(self) -> Pretrained:
        """The loop."""
        state = self.state
        log.info("%d parameters, %d steps", sum(p.numel() for p in self.model.parameters()), self.n_steps)
        with make_bar("pretraining", self.n_steps, self.state.step, is_first=self.is_first) as bar:
            while state.epoch < self.options.n_epochs and state.step < self.n_steps:
                self._train_epoch(bar)
                state.epoch, state.batch = state.epoch + 1, 0
                self._validate()
                self._save()
        if self.writer is not None:
            self.writer.close()
        self.accelerator.wait_for_everyone()
        return Pretrained(self.exp_dir / "best", state.step, state.n_split)

    def _train_epoch(self, bar: Any) -> None:
        state, options = self.state, self.options
        self.model.train()
        since_s, since_step = time.perf_counter(), state.step
        for batch in self._read_batches(self.objective.epoch(state.epoch)):
            if state.step >= self.n_steps:
                break
            set_cosine_rate(self.optimizer, options, self.peak_lr, state.step, self.n_steps)
            state.loss_sum += self._step(batch)
            state.n_losses += 1
            state.step += 1
            state.batch += state.n_processes
            bar.update()
            if state.n_losses >= options.log_every_steps:
                seconds = time.perf_counter() - since_s
                self._log_progress(bar, (state.step - since_step) / max(seconds, 1e-9))
                since_s, since_step = time.perf_counter(), state.step
            if state.step % options.save_every_steps == 0:
                self._save()

    def _read_batches(self, epoch: Batches) -> Iterator[Batch]:
        """This process' batches of the rest of an epoch; the last ones are left out where not all processes get one."""
        n = self.state.n_processes
        for first in range(self.state.batch, len(epoch) - n + 1, n):
            yield epoch.batch(first + self.accelerator.process_index)

    def _step(self, batch: Batch) -> float:
        loss = self._accumulate(batch)
        if self.state.n_processes > 1:
            loss = self._share_gradients(loss)
        if self.options.max_grad_norm:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.options.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def _accumulate(self, batch: Batch) -> float:
        """Gradients of a batch, in halves where memory is short; returns its loss."""
        done, reason = attempt(partial(self._backward, batch))
        if done is not None:
            return done[0]
        self.optimizer.zero_grad()  # a backward that broke has left gradients
        n, step = len(batch), self.state.step
        if n < 2:
            raise self._no_memory("a batch of one row", reason, batch)
        self.state.n_split += 1
        log.warning("step %d: out of memory, a batch of %d rows is split in two: %s", step, n, reason)
        loss_sum, n_predictions = 0.0, 0
        for part in (batch.part(0, n // 2), batch.part(n // 2, n)):
            done, reason = attempt(partial(self._backward, part, weighted=True))
            if done is None:
                raise self._no_memory("half a batch", reason, part)
            loss_sum, n_predictions = loss_sum + done[0] * done[1], n_predictions + done[1]
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad /= max(n_predictions, 1)
        return loss_sum / max(n_predictions, 1)

    def _backward(self, batch: Batch, *, weighted: bool = False) -> tuple[float, int]:
        """Adds the gradients of the mean loss, or of the sum over predictions; returns the mean and their number."""
        with self.accelerator.autocast():
            outcome = self.objective.outcome(batch, self.accelerator.device)
        loss = float(outcome.loss.detach())
        if not math.isfinite(loss):
            where = "; ".join(self.objective.names(batch))
            raise KaldiPunctError(
                f"step {self.state.step}: expected a finite loss, got {loss} at {where}; look at these "
                f"recordings, or begin a new run with lower pretrain.peak_lr (now {self.peak_lr})"
            )
        self.accelerator.backward(outcome.loss * outcome.n if weighted else outcome.loss)
        return loss, outcome.n

    def _no_memory(self, what: str, reason: str, batch: Batch) -> KaldiPunctError:
        options = f"{self.objective.BATCH_OPTION} or {self.objective.LENGTH_OPTION}"
        where = "; ".join(self.objective.names(batch))
        return KaldiPunctError(
            f"step {self.state.step}: expected memory for {what}, got: {reason}; lower {options}: {where}"
        )

    def _share_gradients(self, loss: float) -> float:
        """Gradients, and the loss, averaged over processes."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        grads = [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters]
        both: Tensor = torch.cat([*grads, torch.tensor([loss], device=self.accelerator.device)])
        *shared, mean = self.accelerator.reduce(both, "mean").split([*(p.numel() for p in parameters), 1])
        for parameter, gradient in zip(parameters, shared, strict=True):
            parameter.grad = gradient.view_as(parameter).clone()
        return float(mean)

    def _log_progress(self, bar: Any, steps_per_s: float) -> None:
        state = self.state
        loss = state.loss_sum / state.n_losses
        state.loss_sum, state.n_losses = 0.0, 0
        if self.writer is None:
            return
        self.writer.add_scalar("train/loss", loss, state.step)
        self.writer.add_scalar("train/steps_per_s", steps_per_s, state.step)
        bar.set_postfix_str(f"loss {loss:.4f}")
        left = tqdm.format_interval((self.n_steps - state.step) / max(steps_per_s, 1e-9))
        text = "step %d of %d: loss %.4f, %.2f steps/s, %s left"
        log.info(text, state.step, self.n_steps, loss, steps_per_s, left)

    def _validate(self) -> None:
        state, best_dir = self.state, self.exp_dir / "best"
        result: dict[str, Any] = {"epoch": state.epoch, "step": state.step}
        losses = []
        for i, name in enumerate(self.dev_names):
            loss, accuracy, n = self._measure(self.objective.dev(i))
            losses.append(loss)
            result[name] = {"loss": loss, "accuracy": accuracy, "n": n}
            log.info("epoch %d, %s: loss %.4f, accuracy %.2f %% of %d", state.epoch, name, loss, 100 * accuracy, n)
            if self.writer is not None:
                self.writer.add_scalar(f"dev/{name}/loss", loss, state.step)
                self.writer.add_scalar(f"dev/{name}/accuracy", accuracy, state.step)
        state.history.append(result)
        mean = sum(losses) / len(losses) if losses else -math.inf
        if mean < state.best_loss or not losses:
            state.best_loss = mean if losses else math.inf
            if self.is_first:
                self.objective.save(best_dir)
        if self.is_first:
            write_results(self.exp_dir, state.history)

    @torch.no_grad()
    def _measure(self, batches: Batches) -> tuple[float, float, int]:
        """(loss, accuracy, predictions) of a validation set, each process on its share."""
        self.model.eval()
        total = torch.zeros(3, dtype=torch.float64, device=self.accelerator.device)
        for i in range(self.accelerator.process_index, len(batches), self.state.n_processes):
            with self.accelerator.autocast():
                outcome = self.objective.outcome(batches.batch(i), self.accelerator.device)
            total += torch.stack([outcome.loss * outcome.n, outcome.n_right, torch.tensor(outcome.n)]).to(total)
        if self.state.n_processes > 1:
            total = self.accelerator.reduce(total, "sum")
        loss, n_right, n = total.tolist()
        return loss / max(n, 1), n_right / max(n, 1), int(n)

    def _save(self) -> None:
        """The model and, last, the state that makes it a checkpoint: both replaced as wholes."""
        if not self.is_first:
            return
        self.objective.save(self.last_dir)
        tmp = self.last_dir / f"{STATE}.tmp"
        saved = {
            "state": asdict(self.state),
            "optimizer": self.optimizer.state_dict(),
            # Here too: a kill between the two files must leave weights and optimizer of one step.
            "weights": self.model.state_dict(),
            "torch_rng": torch.get_rng_state(),
        }
        torch.save(saved, tmp)
        os.replace(tmp, self.last_dir / STATE)

    def _restore(self) -> None:
        path = self.last_dir / STATE
        try:
            saved = torch.load(path, weights_only=True, map_location="cpu")
            state = State(**saved["state"])
            self.model.load_state_dict(saved["weights"])
            self.optimizer.load_state_dict(saved["optimizer"])
            torch.set_rng_state(saved["torch_rng"])
        except Exception as e:  # torch raises whatever the bytes lead it to
            raise CheckpointError(
                f"{path}: expected the state of a pretraining run, got: {str(e).partition(chr(10))[0] or repr(e)}; "
                f"remove {self.last_dir} to begin again"
            ) from e
        if state.n_processes != self.state.n_processes:
            raise ConfigError(
                f"{path}: expected {state.n_processes} processes, as this run began with, got "
                f"{self.state.n_processes}; start as many as before, or take another exp_dir"
            )
        self.state = state
        log.info("going on from %s: epoch %d, step %d", self.last_dir, state.epoch, state.step)

    def _count_steps(self) -> int:
        n = self.state.n_processes
        total = sum(len(self.objective.epoch(e)) // n for e in range(self.options.n_epochs))
        if not total:
            raise ConfigError(f"expected at least {n} batches, one for each process, got fewer; take smaller ones")
        return min(total, self.options.max_steps) if self.options.max_steps else total


def parameter_groups(model: nn.Module, options: PretrainConfig, peak_lr: float) -> list[dict[str, Any]]:
    """AdamW groups: matrices with weight decay, biases and norms without."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    return [
        {"params": matrices, "lr": peak_lr, "weight_decay": options.weight_decay},
        {"params": others, "lr": peak_lr, "weight_decay": 0.0},
    ]


def set_cosine_rate(optimizer: Any, options: PretrainConfig, peak_lr: float, step: int, n_steps: int) -> None:
    """Linear warm-up, then half a cosine down to ``min_lr``."""
    if step < options.warmup_steps:
        rate = peak_lr * (step + 1) / options.warmup_steps
    else:
        share = (step - options.warmup_steps) / max(n_steps - options.warmup_steps, 1)
        rate = options.min_lr + 0.5 * (peak_lr - options.min_lr) * (1 + math.cos(math.pi * share))
    for group in optimizer.param_groups:
        group["lr"] = rate
