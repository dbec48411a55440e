"""Training: the loop.

``exp_dir`` holds ``last/`` (a model directory and ``state.pt``), ``best/`` (the model directory of the best dev epoch),
``config.yaml``, ``results.jsonl`` (a line an epoch) and TensorBoard scalars under ``tensorboard/``.

Several processes (``torchrun``) train one model: each takes every n-th batch of a step (``updates``) and every n-th
dev conversation; the first alone writes and logs.
"""

from __future__ import annotations

import copy
import logging
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from kaldi_punct import checkpoint as checkpoints
from kaldi_punct.batch import Example
from kaldi_punct.checkpoint import Checkpoint
from kaldi_punct.config import Config, check
from kaldi_punct.corpora import count_training_words, fit_normaliser, read_corpora
from kaldi_punct.dataset import mixed_lexicon
from kaldi_punct.dev_scoring import score_conversations
from kaldi_punct.epochs import EpochExamples
from kaldi_punct.errors import ConfigError
from kaldi_punct.loop import make_accelerator, make_bar, open_writer
from kaldi_punct.models.muse import freeze_all_but_hearing
from kaldi_punct.models.objective import make_optimizer, set_learning_rate
from kaldi_punct.punctuator import Punctuator
from kaldi_punct.run_state import STATE, State, keep_config, restore_state, save_state, write_results
from kaldi_punct.updates import Updater

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a training run did, those before it that it went on from included.

    Attributes:
        best_dir: directory of the best model.
        n_steps: optimizer steps.
        n_words: words learned from, once for each time.
        n_split: batches split for want of memory.
    """

    best_dir: Path
    n_steps: int
    n_words: int
    n_split: int


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
        exp_dir: made if missing; seen by all processes.
        config: options; None for the defaults.

    Raises:
        ConfigError: options that do not fit the data or the run that is there.
        FormatError: a data directory that breaks its format.
        KaldiPunctError: a loss that is not finite, or too little memory for half a batch.
    """
    return run_training(train_dirs, dev_dirs, exp_dir, config).best_dir


def run_training(
    train_dirs: Sequence[str | Path] | str | Path,
    dev_dirs: Sequence[str | Path] | str | Path,
    exp_dir: str | Path,
    config: Config | None = None,
) -> Outcome:
    """Trains as ``train`` does, and says what was done."""
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
        self.accelerator = make_accelerator(options.precision)
        self.is_first = self.accelerator.is_main_process
        if self.is_first:
            exp_dir.mkdir(parents=True, exist_ok=True)
            keep_config(exp_dir / "config.yaml", config)
        self.accelerator.wait_for_everyone()
        self.last_dir = exp_dir / "last"
        resumed = (self.last_dir / STATE).is_file()
        self.is_new_to_sound = not options.init
        self.checkpoint = checkpoints.load(self.last_dir) if resumed else self._begin(train_dirs)
        config.model = self.checkpoint.config
        check(config)  # what was begun from may not go with the rest
        self.checkpoint.copy_speech = options.copy_speech
        if self.checkpoint.source is not None:
            self.checkpoint.source.use(str(self.accelerator.device))
        self.corpora = read_corpora(train_dirs, dev_dirs, self.checkpoint, config)
        if not resumed:
            if options.learn == "all":
                found = mixed_lexicon(self.corpora.train)
                self.checkpoint.case_lexicon = {**self.checkpoint.case_lexicon, **found}
            if self.is_new_to_sound:
                fit_normaliser(self.checkpoint.model, self.corpora.train)
        if options.learn == "sound":
            freeze_all_but_hearing(self.checkpoint.model)
        optimizer: Any = make_optimizer(self.checkpoint.model, config, self.accelerator.device)
        self.peak_lrs = [float(g["lr"]) for g in optimizer.param_groups]
        self.state = State(batches_a_step=options.accumulate * self.accelerator.num_processes)
        if resumed:
            self.state = restore_state(self.last_dir, self.checkpoint, optimizer, self.state.batches_a_step)
            log.info("going on from %s: epoch %d, step %d", self.last_dir, self.state.epoch, self.state.step)
        # Moved and set to its precision, but not wrapped: gradients of several processes meet in ``updates``.
        model = self.accelerator.prepare_model(self.checkpoint.model, evaluation_mode=True)
        self.updater = Updater(model, self.accelerator.prepare(optimizer), self.accelerator, options)
        self.updater.n_split = self.state.n_split
        self.n_steps = self.corpora.count_steps(self.updater.batches_a_step)
        if not self.n_steps:
            raise ConfigError(
                f"train.n_epochs, train.repeats: expected something to learn from, got no batch in {options.n_epochs} "
                f"epochs of {', '.join(map(str, train_dirs))}"
            )
        self.writer = open_writer(exp_dir, self.state.step, is_first=self.is_first)
        self._began = self.state.step, time.perf_counter()

    def run(self) -> Outcome:
        """The loop."""
        if self.is_first:
            write_results(self.exp_dir, self.state.history)
        with make_bar("training", self.n_steps, self.state.step, is_first=self.is_first) as bar:
            # Also after the last step, where a kill came between it and its epoch's score.
            while self.state.epoch < self.config.train.n_epochs and (
                self.state.step < self.n_steps or self.state.batch > 0
            ):
                self._train_epoch(bar)
                if self.corpora.dev:
                    self._save()  # what comes now may take long
                self.state.epoch, self.state.batch = self.state.epoch + 1, 0
                self._score_dev()
                self._save()
        if self.writer is not None:
            self.writer.close()
        self.accelerator.wait_for_everyone()
        return Outcome(self.exp_dir / "best", self.state.step, self.state.n_words, self.state.n_split)

    def _train_epoch(self, bar: Any) -> None:
        options, state = self.config.train, self.state
        examples = self.corpora.epoch(state.epoch)
        log.info(
            "epoch %d: %d batches, padding %.1f %% of pieces%s",
            state.epoch,
            len(examples),
            100 * examples.padding,
            f", {100 * examples.frame_padding:.1f} % of frames" if self.checkpoint.model.acoustic is not None else "",
        )
        self.checkpoint.model.train()
        n_words, since = 0, time.perf_counter()
        for first, batches in self._read_steps(examples):
            if state.step >= self.n_steps:
                break
            set_learning_rate(self.updater.optimizer, self.peak_lrs, state.step, self.n_steps, options.warmup_share)
            state.loss_sum += self.updater.update(batches, state.step)
            state.n_losses += 1
            state.n_split = self.updater.n_split
            state.step += 1
            state.batch = min(first + state.batches_a_step, len(examples))
            n_words += examples.n_words(first, state.batch)
            state.n_words += examples.n_words(first, state.batch)
            bar.update()
            if state.n_losses >= options.log_every_steps:
                self._log_progress(bar, n_words / max(time.perf_counter() - since, 1e-9))
                n_words, since = 0, time.perf_counter()
            if state.step % options.save_every_steps == 0:
                self._save()

    def _read_steps(self, examples: EpochExamples) -> Iterator[tuple[int, list[list[Example]]]]:
        """(first batch of the step, this process' batches of it) for the rest of an epoch."""
        n, state = self.updater.batches_a_step, self.state
        for first in range(state.batch, len(examples), n):
            mine = range(
                first + self.accelerator.process_index, min(first + n, len(examples)), self.accelerator.num_processes
            )
            with self.updater.clock.measure("data"):
                batches = [examples.batch(i) for i in mine]
            yield first, batches

    def _log_progress(self, bar: Any, words_per_s: float) -> None:
        loss = self.state.loss_sum / self.state.n_losses
        self.state.loss_sum, self.state.n_losses = 0.0, 0
        if self.writer is None:
            return
        self.writer.add_scalar("train/loss", loss, self.state.step)
        self.writer.add_scalar("train/words_per_s", words_per_s, self.state.step)
        bar.set_postfix_str(f"loss {loss:.4f}, {words_per_s:.0f} words/s")
        first_step, began_s = self._began
        a_step_s = (time.perf_counter() - began_s) / (self.state.step - first_step)
        log.info(
            "step %d of %d: loss %.4f, %.0f words/s, %s left",
            self.state.step,
            self.n_steps,
            loss,
            words_per_s,
            tqdm.format_interval(a_step_s * (self.n_steps - self.state.step)),
        )

    def _score_dev(self) -> None:
        state, best_dir = self.state, self.exp_dir / "best"
        if not self.corpora.dev:
            if self.is_first:
                checkpoints.save(self.checkpoint, best_dir)
            return
        punctuator = Punctuator(self.checkpoint, str(self.accelerator.device))
        result: dict[str, Any] = {"epoch": state.epoch, "step": state.step}
        micros = []
        for name, conversations in self.corpora.dev.items():
            share = self.accelerator.process_index, self.accelerator.num_processes
            score = score_conversations(punctuator, self.checkpoint, conversations, self.corpora.labels, *share)
            micros.append(score.micro.f1)
            result[name] = score.as_dict()
            if self.writer is not None:
                self.writer.add_scalar(f"dev/{name}/micro_f1", score.micro.f1, state.step)
            log.info("epoch %d, %s:\n%s", state.epoch, name, score)
        state.history.append(result)
        mean = sum(micros) / len(micros)
        if mean > state.best_f1:
            state.best_f1 = mean
            if self.is_first:
                checkpoints.save(self.checkpoint, best_dir)
        if self.is_first:
            write_results(self.exp_dir, state.history)

    def _save(self) -> None:
        if self.is_first:
            save_state(self.last_dir, self.checkpoint, self.updater.optimizer, self.state)

    def _begin(self, train_dirs: list[Path]) -> Checkpoint:
        """The checkpoint that a new run begins from."""
        init = self.config.train.init
        if not init:
            return checkpoints.create(self.config, lambda: count_training_words(train_dirs, self.config))
        checkpoint = checkpoints.load(init)
        checkpoints.check_reach(checkpoint.encoder_config, self.config.data.max_pieces, init)
        checkpoint.window = self.config.data
        if self.config.train.learn == "sound":
            self.is_new_to_sound = checkpoints.teach_to_hear(checkpoint, self.config.model)
            what = "learns to hear" if self.is_new_to_sound else "goes on learning to hear, by the ears that it has"
            log.info("%s %s: all else stays as it is", init, what)
            return checkpoint
        log.info("going on from %s: its architecture replaces section model", init)
        return checkpoint


def _seed_all(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)


def _as_paths(dirs: Sequence[str | Path] | str | Path) -> list[Path]:
    return [Path(dirs)] if isinstance(dirs, (str, Path)) else [Path(d) for d in dirs]
