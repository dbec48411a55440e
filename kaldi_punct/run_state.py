"""What a training run keeps on disk, so that it can be killed anywhere and goes on to the same weights.

``last/state.pt`` alone decides where a run goes on: whatever else a killed run left behind is made anew from it. Every
file is replaced as a whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from kaldi_punct import checkpoint as checkpoints
from kaldi_punct.checkpoint import Checkpoint
from kaldi_punct.errors import CheckpointError, ConfigError
from kaldi_punct.model_files import replace_text

STATE = "state.pt"
RESULTS = "results.jsonl"


@dataclass
class State:
    """Everything that the loop changes beside weights and optimizer; saved and restored as a whole.

    Attributes:
        epoch, batch: the next batch, of all processes together.
        step: optimizer steps done.
        best_f1: of the dev epochs so far; -1 before the first.
        loss_sum, n_losses: since the last line of the log.
        n_words: trained on so far.
        n_split: batches that were split for want of memory.
        batches_a_step: of all processes together; 0 in states of older versions, which had one.
        history: the lines of ``results.jsonl``.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    best_f1: float = -1.0
    loss_sum: float = 0.0
    n_losses: int = 0
    n_words: int = 0
    n_split: int = 0
    batches_a_step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


def save_state(last_dir: Path, checkpoint: Checkpoint, optimizer: Any, state: State) -> None:
    """Writes the model directory and, last, the state that makes it a place to go on from."""
    checkpoints.save(checkpoint, last_dir)
    saved = {
        "state": asdict(state),
        "optimizer": optimizer.state_dict(),
        # Here too: a kill between the two files must leave weights and optimizer of one step.
        "weights": checkpoint.model.state_dict(),
        "torch_rng": torch.get_rng_state(),
        "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    tmp = last_dir / f"{STATE}.tmp"
    torch.save(saved, tmp)
    os.replace(tmp, last_dir / STATE)


def restore_state(last_dir: Path, checkpoint: Checkpoint, optimizer: Any, batches_a_step: int) -> State:
    """Fills model, optimizer and generators as ``save_state`` left them.

    Args:
        last_dir: where it wrote.
        checkpoint: a model of the same architecture.
        optimizer: of that model's parameters.
        batches_a_step: of all processes together.

    Raises:
        ConfigError: other batches a step than the run began with.
        CheckpointError: a file that is broken.
    """
    path = last_dir / STATE
    try:
        saved = torch.load(path, weights_only=True, map_location="cpu")
        state = State(**saved["state"])
    except Exception as e:  # torch raises whatever the bytes lead it to
        raise CheckpointError(
            f"{path}: expected the state of a training run, got: {str(e).splitlines()[0] if str(e) else e!r}; "
            f"remove {last_dir} to begin again"
        ) from e
    if (state.batches_a_step or 1) != batches_a_step:
        raise ConfigError(
            f"{path}: expected {state.batches_a_step or 1} batches a step (processes x train.accumulate), as this run "
            f"began with, got {batches_a_step}; start as many processes as before, or take another exp_dir"
        )
    checkpoint.model.load_state_dict(saved["weights"])
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["torch_rng"])
    if saved.get("cuda_rng") and len(saved["cuda_rng"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(saved["cuda_rng"])
    return state


def write_results(exp_dir: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Writes the scores of all epochs: a line each, so that an epoch that is done again is not there twice."""
    replace_text(exp_dir / RESULTS, "".join(json.dumps(line) + "\n" for line in history))


class Options(Protocol):
    """The options of a run: ``config.Config``, or those of another kind of training."""

    @classmethod
    def load(cls, path: str | None = None, overrides: Sequence[str] = ()) -> Any:
        """Those of a YAML file."""

    def dump(self) -> str:
        """As YAML."""


def keep_config(path: Path, config: Options) -> None:
    """Writes the configuration, or checks that a run to be resumed had the same.

    Raises:
        ConfigError: it had other options.
    """
    text = config.dump()
    # Read, not compared as text: an older version wrote fewer keys.
    if path.is_file() and (before := config.load(str(path))) != config:
        known = before.dump().splitlines()
        changed = [line for line in text.splitlines() if line not in known]
        raise ConfigError(
            f"{path}: expected the options that this run began with, got other ones ({'; '.join(changed)}); "
            "take another exp_dir, or remove this one to begin again"
        )
    replace_text(path, text)
