"""What the loops of training and pretraining have in common: processes, TensorBoard, a progress bar."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm


def make_accelerator(precision: str) -> Accelerator:
    """The device and the processes of a run.

    Args:
        precision: fp32 or bf16.
    """
    AcceleratorState._reset_state()  # a run before this one, in the same process, may have had another precision
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    cpu = several and not torch.cuda.is_available()  # else each process would train by itself
    return Accelerator(mixed_precision="bf16" if precision == "bf16" else "no", cpu=cpu)


def open_writer(exp_dir: Path, n_steps_done: int, *, is_first: bool) -> SummaryWriter | None:
    """TensorBoard's writer; None in all processes but the first."""
    if not is_first:
        return None
    log_dir = exp_dir / "tensorboard"
    # Files are read in order of their names, which begin with the second they were made in: a run that goes on within
    # the second in which it began before would be read in the order of process numbers.
    if names := [path.name for path in log_dir.glob("events.out.tfevents.*")]:
        newest = max(int(name.split(".")[3]) for name in names)
        time.sleep(min(max(newest + 1 - time.time(), 0.0), 1.0))
    # Scalars that a killed run wrote after its last checkpoint come again.
    return SummaryWriter(str(log_dir), purge_step=n_steps_done + 1)


def make_bar(name: str, n_steps: int, n_steps_done: int, *, is_first: bool) -> Any:
    """The progress bar over all steps of a run, in the first process."""
    return tqdm(
        total=n_steps,
        initial=n_steps_done,
        unit="step",
        mininterval=5.0,
        desc=name,
        dynamic_ncols=True,
        disable=None if is_first else True,  # None: where stderr is no terminal, the log tells it
    )
