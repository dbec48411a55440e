"""A run killed anywhere goes on to the same end, one short of memory splits a batch, one gone wrong says where."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny import write_data_dir, write_encoder

from kaldi_punct import dev_scoring, loop
from kaldi_punct.config import Config
from kaldi_punct.errors import CheckpointError, KaldiPunctError
from kaldi_punct.memory import is_out_of_memory
from kaldi_punct.models.muse import Inputs, Logits, Muse
from kaldi_punct.training import Outcome, run_training, train
from kaldi_punct.updates import Updater

OPTIONS = [
    "model.n_layers=1", "model.timing_dim=8", "data.max_pieces=64", "train.batch_pieces=128",
    "train.peak_lr=0.003", "train.head_lr=0.01", "train.n_threads=1", "train.log_every_steps=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_dir(tmp_path_factory.mktemp("data") / "train", n_utts=6)


def options(encoder: Path, *more: str) -> Config:
    return Config.load(None, [f"model.encoder={encoder}", *OPTIONS, *more])


def weights(exp_dir: Path, name: str = "last") -> dict[str, torch.Tensor]:
    return load_file(exp_dir / name / "model.safetensors")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def close(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.allclose(a[k], b[k], rtol=1e-3, atol=1e-5) for k in a)


class Camera:
    """Copies of an exp_dir as a kill would leave it, each that differs from the one before by more than .tmp files."""

    def __init__(self, exp_dir: Path, album: Path) -> None:
        self.exp_dir, self.album = exp_dir, album
        self.places: list[str] = []
        self._before: dict[str, bytes] = {}

    def shoot(self, place: str) -> None:
        files = [p for p in self.exp_dir.rglob("*") if p.is_file() and "tensorboard" not in p.parts]
        seen = {str(p): p.read_bytes() for p in files if p.suffix != ".tmp"}
        if seen != self._before:
            shutil.copytree(self.exp_dir, self.album / str(len(self.places)))
            self.places.append(place)
            self._before = seen

    def watch(self, owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Takes a copy before and after each call of a function."""
        function = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            self.shoot(f"before {name}")
            out = function(*args, **kwargs)
            self.shoot(f"after {name} {args[1] if name == 'replace' else ''}")
            return out

        monkeypatch.setattr(owner, name, watched)


@pytest.mark.slow
def test_wherever_a_run_is_killed_it_goes_on_to_the_same_end(
    encoder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = options(encoder, "train.n_epochs=2", "train.save_every_steps=2")
    whole = tmp_path / "whole"
    camera = Camera(whole, tmp_path / "album")
    with monkeypatch.context() as patch:
        camera.watch(os, "replace", patch)
        camera.watch(Updater, "update", patch)
        camera.watch(dev_scoring, "join_classes", patch)
        train(data, data, whole, config)
    end = weights(whole), weights(whole, "best"), (whole / "results.jsonl").read_text()
    assert end[2].count("\n") == 2
    reached = " ".join(camera.places)
    for place in ("last/model.safetensors", "last/state.pt", "best/model.safetensors", "results.jsonl", "config.yaml"):
        assert place in reached
    assert len(camera.places) > 12
    for number, place in enumerate(camera.places):
        cut = tmp_path / "album" / str(number)
        for torn in cut.rglob("*.tmp"):  # the copy holds the whole file: a kill may come before that
            torn.write_bytes(torn.read_bytes()[:10])
        train(data, data, cut, config)
        assert same(weights(cut), end[0]), place
        assert same(weights(cut, "best"), end[1]), place
        assert (cut / "results.jsonl").read_text() == end[2], place


@pytest.mark.slow
def test_a_killed_process_goes_on(encoder: Path, data: Path, tmp_path: Path) -> None:
    """SIGKILL itself, in the middle of a step; no clock has a part in it, so that a busy machine changes nothing."""
    config = options(encoder, "train.n_epochs=2", "train.save_every_steps=2", "model.dropout=0.1")
    train(data, data, tmp_path / "whole", config)
    (tmp_path / "c.yaml").write_text(config.dump())
    script = f"""
import os, signal
from kaldi_punct import Config, train, updates
backward = updates.Updater._backward
def killed(self, part, n_targets, step):
    if step == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return backward(self, part, n_targets, step)
updates.Updater._backward = killed
train({str(data)!r}, {str(data)!r}, {str(tmp_path / "cut")!r}, Config.load({str(tmp_path / "c.yaml")!r}))
"""
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "cut" / "last" / "state.pt").is_file()
    train(data, data, tmp_path / "cut", config)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "cut"))
    events = [steps(tmp_path / name) for name in ("whole", "cut")]
    assert events[0] == events[1]


def steps(exp_dir: Path) -> list[tuple[int, float]]:
    """(step, loss) of a run's TensorBoard."""
    events = EventAccumulator(str(exp_dir / "tensorboard"))
    events.Reload()
    return [(s.step, s.value) for s in events.Scalars("train/loss")]


def test_a_run_that_goes_on_at_once_keeps_its_curve_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever process numbers the two runs have: here the later one has the smaller."""
    for pid, first in ((9, 1), (8, 3), (7, 5)):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        writer = loop.open_writer(tmp_path, first - 1, is_first=True)
        assert writer is not None
        for step in range(first, 7):
            writer.add_scalar("train/loss", float(pid), step)
        writer.close()
    assert steps(tmp_path) == [(1, 9.0), (2, 9.0), (3, 8.0), (4, 8.0), (5, 7.0), (6, 7.0)]


def test_a_broken_state_says_how_to_begin_again(encoder: Path, data: Path, tmp_path: Path) -> None:
    train(data, [], tmp_path / "exp", options(encoder, "train.max_steps=1"))
    state = tmp_path / "exp" / "last" / "state.pt"
    state.write_bytes(state.read_bytes()[:200])
    with pytest.raises(
        CheckpointError, match=r"state\.pt: expected the state of a training run, got: .*; remove .*last to begin again"
    ):
        train(data, [], tmp_path / "exp", options(encoder, "train.max_steps=1"))


Forward = Callable[[Muse, Inputs], Logits]


def forward_short_of_memory(
    n_examples: int, error: Callable[[], Exception], *, at: int = 0, late: bool = False
) -> tuple[Forward, list[int]]:
    """A forward pass that holds only so many examples, from its ``at``-th call on; and the sizes of its batches."""
    forward, sizes = Muse.forward, []

    class Short(torch.autograd.Function):
        """Breaks in the backward pass, when some gradients are there already."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *_: Any) -> Any:
            raise error()

    def short(self: Muse, inputs: Inputs) -> Logits:
        sizes.append(len(inputs.piece_ids))
        if self.training and len(inputs.piece_ids) > n_examples and len(sizes) > at:
            if not late:
                raise error()
            logits = forward(self, inputs)
            self.mark_head.weight.grad = torch.full_like(self.mark_head.weight, 7.0)  # half done
            return Logits(Short.apply(logits.marks), logits.cases)
        return forward(self, inputs)

    return short, sizes


CPU_ERROR = (
    "[enforce fail at alloc_cpu.cpp:116] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."
)


@pytest.mark.parametrize("late", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize(
    "error",
    [lambda: torch.cuda.OutOfMemoryError("CUDA out of memory. Tried"), lambda: RuntimeError(CPU_ERROR)],
    ids=["cuda", "cpu"],
)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_batch_too_large_for_memory_is_split(
    encoder: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    accumulate: int,
    error: Callable[[], Exception],
    late: bool,
) -> None:
    small = ("data.max_pieces=32", "model.dropout=0.0", f"train.accumulate={accumulate}")  # four windows in a batch
    config = options(encoder, "train.max_steps=3", *small)
    run_training(data, [], tmp_path / "whole", config)
    forward, sizes = forward_short_of_memory(2, error, late=late)
    monkeypatch.setattr(Muse, "forward", forward)
    outcome = run_training(data, [], tmp_path / "split", config)
    assert outcome.n_split >= 2
    assert max(sizes) >= 4
    # The halves weigh as in the whole: the same gradients, so the same weights and the same curve.
    assert close(weights(tmp_path / "whole"), weights(tmp_path / "split"))
    for (_, whole), (_, split) in zip(steps(tmp_path / "whole"), steps(tmp_path / "split"), strict=True):
        assert split == pytest.approx(whole, rel=1e-4)
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len(warnings) == outcome.n_split
    assert re.match(r"step \d: out of memory, a batch of \d windows is split in two: .*memory", warnings[0])
    # The count stays with the run.
    assert run_training(data, [], tmp_path / "split", config).n_split == outcome.n_split


def test_half_a_batch_too_large_for_memory_stops(
    encoder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Muse, "forward", forward_short_of_memory(1, MemoryError)[0])
    config = options(encoder, "data.max_pieces=32")
    message = (
        r"step \d: expected memory for half a batch, got: MemoryError; lower train\.batch_pieces or data\.max_pieces: "
        r"utt\d\d words \d+-\d+; utt\d\d words"
    )
    with pytest.raises(KaldiPunctError, match=message):
        train(data, [], tmp_path / "exp", config)
    monkeypatch.setattr(Muse, "forward", forward_short_of_memory(0, MemoryError)[0])
    with pytest.raises(KaldiPunctError, match=r"step \d: expected memory for a batch of one window, got"):
        train(data, [], tmp_path / "one", options(encoder, "train.batch_pieces=64"))


def test_other_errors_are_not_taken_for_a_lack_of_memory(
    encoder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, sizes = forward_short_of_memory(0, lambda: RuntimeError("shapes do not match"))
    monkeypatch.setattr(Muse, "forward", forward)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        train(data, [], tmp_path / "exp", options(encoder))
    assert len(sizes) == 1
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_what_is_not_finite_names_its_words(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    data = write_data_dir(tmp_path / "train", n_utts=5)
    (data / "segments").write_text("".join(f"utt{u:02d} call{u // 3} {u * 10}.0 {u * 10 + 9}.0\n" for u in range(5)))
    (data / "utt2spk").write_text("".join(f"utt{u:02d} utt{u:02d}\n" for u in range(5)))
    (data / "ctm").unlink()
    forward = Muse.forward
    chosen: list[int] = []

    class Infinite(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return grad * float("inf")

    def bad(self: Muse, inputs: Inputs) -> Logits:
        logits = forward(self, inputs)
        if where == "gradient":
            return Logits(Infinite.apply(logits.marks), logits.cases)
        sums = inputs.piece_ids.sum(1)
        if not chosen:
            assert len(sums) > 1
            chosen.append(int(sums.max()))
        at_fault = sums == chosen[0]  # one window of the first batch
        return Logits(torch.where(at_fault[:, None, None], logits.marks * float("nan"), logits.marks), logits.cases)

    monkeypatch.setattr(Muse, "forward", bad)
    config = options(encoder, "data.max_pieces=32", "train.batch_pieces=128", "data.mask_words=0")
    message = (
        rf"^step 0: expected a finite {where}, got \w+ at call[01] words \d+-\d+ \(utt0\d \.\. utt0\d\)(; call.*)?"
        + re.escape("; look at these words and their sound, or begin a new run with lower train.peak_lr (now 0.003) ")
        + re.escape("and train.head_lr (now 0.01)")
    )
    with pytest.raises(KaldiPunctError, match=message) as e:
        train(data, [], tmp_path / "exp", config)
    n_named = str(e.value).count("call")
    assert n_named == 1 if where == "loss" else n_named > 1
    assert not (tmp_path / "exp" / "last").exists()  # nothing was learned from it


def test_the_log_tells_padding_speed_and_what_is_left(
    encoder: Path, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kaldi_punct")
    outcome = run_training(data, [], tmp_path / "exp", options(encoder, "train.max_steps=2"))
    text = caplog.text
    assert "epoch 0: " in text
    assert " batches, padding " in text
    assert " % of pieces" in text
    assert " % of frames" not in text
    assert "step 1 of 2: loss " in text
    assert " words/s, 00:0" in text
    assert outcome == Outcome(tmp_path / "exp" / "best", 2, outcome.n_words, 0)
    assert outcome.n_words > 0
    sound = write_data_dir(tmp_path / "sound", n_utts=2, with_sound=True)
    train(sound, [], tmp_path / "heard", options(encoder, "train.max_steps=1", "model.acoustic=melspec"))
    assert " % of frames" in caplog.text


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The progress bars that training makes."""
    made: list[Any] = []
    original = loop.tqdm

    class Bar(original):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": False})
            made.append(self)

    monkeypatch.setattr(loop, "tqdm", Bar)
    return made


def test_one_bar_counts_the_steps_of_the_run(encoder: Path, data: Path, tmp_path: Path, bars: list[Any]) -> None:
    train(data, [], tmp_path / "exp", options(encoder, "train.n_epochs=2"))
    (bar,) = bars
    assert bar.total == bar.n > 2
    assert (bar.initial, bar.unit) == (0, "step")
    train(data, [], tmp_path / "exp", options(encoder, "train.n_epochs=2"))
    assert bars[1].n == bars[1].initial == bar.total
