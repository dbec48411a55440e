"""One optimizer step: the loss of its batches wherever they are computed, and what to do where memory is short.

The loss of a step is the mean over all targets of all its batches: those that this process computes one after the
other (``train.accumulate``) and those of the other processes. So N accumulated batches, or N processes, make the same
step as one batch N times as large, and so does a batch that was split for want of memory.

Gradients are summed over processes when all of them are there, in one go: DistributedDataParallel would wait for ever
for a process whose batches hold no sound, or which splits one.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from kaldi_punct.batch import IGNORE, Example, collate
from kaldi_punct.config import TrainConfig
from kaldi_punct.errors import KaldiPunctError
from kaldi_punct.memory import attempt
from kaldi_punct.models.muse import Logits, Muse, to_inputs
from kaldi_punct.models.objective import label_loss

log = logging.getLogger(__name__)

Batches = Sequence[Sequence[Example]]


class Clock:
    """Where the time goes: seconds by name."""

    def __init__(self, device: torch.device | None = None, now: Callable[[], float] = time.perf_counter) -> None:
        """A clock at zero.

        Args:
            device: waits for its work at the end of each stretch; None where a rough share will do.
            now: seconds.
        """
        self.seconds: Counter[str] = Counter()
        self._device, self._now = device, now

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Adds the time inside to ``name``."""
        began_s = self._now()
        try:
            yield
        finally:
            if self._device is not None and self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
            self.seconds[name] += self._now() - began_s  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class _Part:
    """Examples that go through the model together.

    Attributes:
        examples: a batch, or half of one.
        place: of the batch among all batches of the step; half: 0 for a whole batch, else 1 or 2.
    """

    examples: Sequence[Example]
    place: int
    half: int = 0


class Updater:
    """Model and optimizer, and how one step of them is made."""

    def __init__(self, model: Muse, optimizer: Any, accelerator: Accelerator, options: TrainConfig) -> None:
        self.model, self.optimizer = model, optimizer
        self.clock = Clock()
        self.n_split = 0
        self._accelerator, self._options = accelerator, options
        self._parameters = [p for p in model.parameters() if p.requires_grad]

    @property
    def batches_a_step(self) -> int:
        """Of all processes together."""
        n_processes: int = self._accelerator.num_processes
        return self._options.accumulate * n_processes

    def update(self, batches: Batches, step: int) -> float:
        """Makes one step; returns its loss, over the batches of all processes.

        Args:
            batches: of this process: every ``n_processes``-th batch of the step, from its own number on; may be empty.
            step: number of the step.

        Raises:
            KaldiPunctError: the loss is not finite, or memory is short for half a batch.
        """
        rank, n_processes = self._accelerator.process_index, self._accelerator.num_processes
        parts = [_Part(examples, rank + i * n_processes) for i, examples in enumerate(batches)]
        own_loss = self._accumulate(parts, self._count_targets(batches), step)
        with self.clock.measure("optimizer"):
            loss = self._share(own_loss)
            norm = math.nan
            if math.isfinite(loss):
                norm = float(self._accelerator.clip_grad_norm_(self._parameters, self._options.max_grad_norm))
            if not math.isfinite(norm):
                what, value = ("gradient", norm) if math.isfinite(loss) else ("loss", loss)
                at_fault = batches if math.isfinite(own_loss) == math.isfinite(loss) else []
                raise KaldiPunctError(self._describe(at_fault, step, what, value))
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss

    def _accumulate(self, parts: list[_Part], n_targets: Tensor, step: int) -> float:
        """Gradients of all parts; begins again with a batch in halves where memory ran out."""
        while True:
            loss, short, reason = 0.0, -1, ""
            for i, part in enumerate(parts):
                value, reason = attempt(partial(self._backward, part, n_targets, step))
                if value is None:
                    short = i
                    break
                loss += value
                if not math.isfinite(loss):
                    break
            if short < 0:
                return loss
            self.optimizer.zero_grad()  # a backward that broke has left gradients
            parts[short : short + 1] = self._split(parts[short], step, reason)

    def _split(self, part: _Part, step: int, reason: str) -> list[_Part]:
        n = len(part.examples)
        if part.half or n < 2:
            what = "half a batch" if part.half else "a batch of one window"
            raise KaldiPunctError(
                f"step {step}: expected memory for {what}, got: {reason}; lower train.batch_pieces or data.max_pieces: "
                f"{describe_sources(part.examples)}"
            )
        self.n_split += 1
        log.warning("step %d: out of memory, a batch of %d windows is split in two: %s", step, n, reason)
        return [_Part(part.examples[: n // 2], part.place, 1), _Part(part.examples[n // 2 :], part.place, 2)]

    def _backward(self, part: _Part, n_targets: Tensor, step: int) -> float:
        """Adds the gradients of a part; returns its share of the step's loss."""
        if self.batches_a_step > 1:
            # What is dropped out depends on the batch alone, not on where or after which others it is computed.
            key = np.random.SeedSequence([self._options.seed, step, part.place, part.half])
            torch.manual_seed(int(key.generate_state(1, np.uint64)[0]))
        loss = self._loss(part.examples, n_targets)
        value = float(loss.detach())
        if math.isfinite(value):
            with self.clock.measure("backward"):
                self._accelerator.backward(loss)
        return value

    def _loss(self, examples: Sequence[Example], n_targets: Tensor) -> Tensor:
        with self.clock.measure("data"):
            padded = collate(examples)
            assert padded.marks is not None, "Training examples have targets. This is a bug."
            assert padded.cases is not None, "Training examples have targets. This is a bug."
            device = self._accelerator.device
            inputs = to_inputs(padded, device)
            marks, cases = torch.as_tensor(padded.marks).to(device), torch.as_tensor(padded.cases).to(device)
            weights = None if padded.weights is None else torch.as_tensor(padded.weights).to(device)
        with self.clock.measure("forward"), self._accelerator.autocast():
            logits: Logits = self.model(inputs)
            options = self._options
            return label_loss(logits, marks, cases, options.case_weight, options.label_smoothing, n_targets, weights)

    def _count_targets(self, batches: Batches) -> Tensor:
        """(2,) known marks and cases in the step's batches, of all processes."""
        examples = [e for batch in batches for e in batch]
        n_marks = sum(int((e.marks != IGNORE).sum()) for e in examples if e.marks is not None)
        n_cases = sum(int((e.cases != IGNORE).sum()) for e in examples if e.cases is not None)
        total = torch.tensor([n_marks, n_cases], device=self._accelerator.device)
        if self._accelerator.num_processes > 1:
            total = self._accelerator.reduce(total, "sum")
        return total

    def _share(self, loss: float) -> float:
        """Sums gradients over processes, and returns the sum of their losses."""
        if self._accelerator.num_processes == 1:
            return loss
        device = self._accelerator.device
        # A parameter that no batch reached keeps no gradient at all: AdamW must pass it by, as with one process.
        reached = torch.tensor([float(p.grad is not None) for p in self._parameters], device=device)
        grads = [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in self._parameters]
        both = torch.cat([*grads, reached, torch.tensor([loss], device=device)])
        both = self._accelerator.reduce(both, "sum")
        *shared, reached, total = both.split([*(p.numel() for p in self._parameters), len(reached), 1])
        for parameter, gradient, is_reached in zip(self._parameters, shared, reached.tolist(), strict=True):
            parameter.grad = gradient.view_as(parameter).clone() if is_reached else None
        return float(total)

    def _describe(self, batches: Batches, step: int, what: str, value: float) -> str:
        """Which windows made a step go wrong, and how to go on."""
        examples = [e for batch in batches for e in batch]
        with torch.no_grad():
            n_targets = torch.ones(2, device=self._accelerator.device)
            losses = [float(self._loss([e], n_targets)) for e in examples]
        bad = [e for e, loss in zip(examples, losses, strict=True) if not math.isfinite(loss)] or examples
        options = self._options
        return (
            f"step {step}: expected a finite {what}, got {value} at {describe_sources(bad)}; look at these words and "
            f"their sound, or begin a new run with lower train.peak_lr (now {options.peak_lr}) and train.head_lr "
            f"(now {options.head_lr})"
        )


def describe_sources(examples: Sequence[Example]) -> str:
    """Where windows come from, for a message."""
    return "; ".join(e.source for e in examples) or "the windows of another process"
