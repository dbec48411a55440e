"""Two processes train one model: as one process with twice the accumulation does, and they resume alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny import write_data_dir, write_encoder

from kaldi_punct.config import Config
from kaldi_punct.errors import ConfigError
from kaldi_punct.training import train

OPTIONS = [
    "model.n_layers=1", "model.timing_dim=8", "model.acoustic=melspec", "model.lstm_dim=8",
    "data.max_pieces=64", "data.hide_audio_prob=0.4",
    "train.batch_pieces=64", "train.n_epochs=2", "train.log_every_steps=1", "train.save_every_steps=2",
    "train.peak_lr=0.003", "train.head_lr=0.01", "train.n_threads=1",
]  # fmt: skip


def losses(exp_dir: Path) -> list[float]:
    """The loss of each step, as TensorBoard shows it."""
    events = EventAccumulator(str(exp_dir / "tensorboard"))
    events.Reload()
    scalars = events.Scalars("train/loss")
    assert [s.step for s in scalars] == list(range(1, len(scalars) + 1))
    return [s.value for s in scalars]


def results(exp_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (exp_dir / "results.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_two_processes_equal_one_with_twice_the_accumulation(tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    data = write_data_dir(tmp_path / "train", n_utts=11, with_sound=True)
    config = Config.load(None, [f"model.encoder={encoder}", *OPTIONS])
    (tmp_path / "c.yaml").write_text(config.dump())
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = str(Path(__file__).with_name("rank_main.py"))
    names = [str(data), str(tmp_path / "c.yaml"), str(tmp_path / "two"), str(tmp_path / "cut")]
    done = subprocess.run(
        [*launch, script, *names],
        capture_output=True,
        text=True,
        timeout=900,  # seconds; of a machine with nothing else to do it takes twenty
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("broken off") == 2
    assert done.stderr.count("Done ") == 1  # the first process alone tells how it goes

    config.train.accumulate = 2
    train(data, data, tmp_path / "one", config)
    one, two, cut = (tmp_path / name for name in ("one", "two", "cut"))
    assert len(losses(one)) > 8
    assert losses(two) == pytest.approx(losses(one), rel=1e-4)
    assert losses(two) != losses(one)[::-1]
    for a, b in zip(results(one), results(two), strict=True):
        assert a["step"] == b["step"]
        assert a["train"]["micro"]["f1"] == pytest.approx(b["train"]["micro"]["f1"], abs=3.0)

    # A run that broke off goes on to the same weights, bit for bit, and its curve has no step twice.
    assert losses(cut) == losses(two)
    assert results(cut) == results(two)
    weights = [load_file(d / "last" / "model.safetensors") for d in (two, cut)]
    assert all(torch.equal(weights[0][k], weights[1][k]) for k in weights[0])

    # One process does not go on with what two began: its steps would hold other batches.
    config.train.accumulate = 1
    message = r"state\.pt: expected 2 batches a step \(processes x train\.accumulate\), as this run began with, got 1"
    with pytest.raises(ConfigError, match=message):
        train(data, data, two, config)
