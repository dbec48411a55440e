"""Pretraining: it learns tones, resumes exactly after a kill, and says what is wrong."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tones import write_tones

from kaldi_punct.commands import pretraining as verbs
from kaldi_punct.errors import CheckpointError, ConfigError, KaldiPunctError
from kaldi_punct.models.contrastive import contrast, loss_of_scores, score_candidates
from kaldi_punct.models.wav2vec import Wav2vec
from kaldi_punct.pretraining import OBJECTIVES, parameter_groups, pretrain, set_cosine_rate
from kaldi_punct.pretraining_config import PretrainConfig, PretrainingConfig, Wav2vecConfig
from kaldi_punct.waves import CropBatches, draw_negatives

OPTIONS = [
    "wav2vec.dim=24",
    "wav2vec.kernels=[10,8,4,4,4]",
    "wav2vec.strides=[5,4,2,2,2]",
    "wav2vec.context_kernels=[3,4]",
    "wav2vec.prediction_steps=3",
    "wav2vec.norm=frame",
    "contrastive.crop_samples=16000",
    "contrastive.batch_samples=32000",
    "pretrain.peak_lr=0.01",
    "pretrain.warmup_steps=2",
    "pretrain.n_threads=1",
]

TONES = (
    "contrastive.crop_samples=8000",
    "contrastive.batch_samples=16000",
    "contrastive.n_negatives=3",
    "pretrain.peak_lr=0.003",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tones(tmp_path_factory.mktemp("data") / "train")


def options(*more: str) -> PretrainingConfig:
    return PretrainingConfig.load(None, [*OPTIONS, *more])


def run(data: Path, exp_dir: Path, *more: str, dev: Path | None = None) -> list[str]:
    """What was reported."""
    reports: list[str] = []
    done = pretrain(
        "contrastive",
        [data],
        [dev] if dev else [],
        exp_dir,
        options(*more),
        lambda e, key: reports.append(f"{key}: {e}"),
    )
    assert done.best_dir == exp_dir / "best"
    return reports


def no_report(error: Exception, key: str) -> None:
    raise AssertionError(f"{key}: {error}")


def weights(exp_dir: Path) -> dict[str, torch.Tensor]:
    return load_file(exp_dir / "last" / "model.safetensors")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.slow
def test_it_learns_tones_and_leaves_everything_behind(data: Path, tmp_path: Path) -> None:
    exp, n_epochs = tmp_path / "exp", 20
    assert run(data, exp, *TONES, f"pretrain.n_epochs={n_epochs}", dev=data) == []
    results = [json.loads(line) for line in (exp / "results.jsonl").read_text().splitlines()]
    losses = [r["train"]["loss"] for r in results]
    assert len(losses) == n_epochs
    # One in four is right by chance, and 2.25 is the loss of one who knows that much.
    assert results[-1]["train"]["accuracy"] > 0.45
    assert losses[-1] < 2.1 < losses[0]
    n_frames = sum(b.negatives.shape[0] * b.negatives.shape[1] for b in epoch_of(data, exp).batches())
    assert 0.8 * 3 * n_frames < results[0]["train"]["n"] < 3 * n_frames
    assert list((exp / "tensorboard").iterdir())
    assert PretrainingConfig.load(str(exp / "config.yaml")) == options(*TONES, f"pretrain.n_epochs={n_epochs}")
    model = Wav2vec.load(exp / "best")
    assert model.config == options().wav2vec
    frames = model.extract(torch.randn(1600))
    assert frames.shape == (8, 24)
    best = min(range(n_epochs), key=losses.__getitem__)
    assert same(load_file(exp / "best" / "model.safetensors"), weights(exp)) == (best == n_epochs - 1)


def epoch_of(data: Path, exp: Path) -> CropBatches:
    return OBJECTIVES["contrastive"](options(*TONES), [data], [data], exp / "sound", lambda e, key: None).dev(0)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_weights(data: Path, tmp_path: Path) -> None:
    more = ("pretrain.n_epochs=15", "pretrain.save_every_steps=2")
    config = tmp_path / "c.yaml"
    config.write_text(options(*more).dump())
    script = (
        "from kaldi_punct.cli import main\n"
        f"main(['pretrain', '--objective', 'contrastive', '--config', {str(config)!r}, "
        f"{str(data)!r}, {str(data)!r}, {str(tmp_path / 'cut')!r}])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": os.getcwd()}, stderr=subprocess.DEVNULL
    )
    state = tmp_path / "cut" / "last" / "state.pt"
    deadline = time.monotonic() + 240
    while not state.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert torch.load(state, weights_only=True)["state"]["epoch"] < 15
    run(data, tmp_path / "cut", *more, dev=data)
    run(data, tmp_path / "whole", *more, dev=data)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "cut"))
    results = [(tmp_path / name / "results.jsonl").read_text() for name in ("whole", "cut")]
    assert results[0] == results[1]
    assert results[0].count("\n") == 15


def test_a_run_goes_on_in_the_middle_of_an_epoch(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = ("pretrain.n_epochs=2", "pretrain.save_every_steps=1", "contrastive.batch_samples=16000")
    run(data, tmp_path / "whole", *more)
    n_steps = torch.load(tmp_path / "whole" / "last" / "state.pt", weights_only=True)["state"]["step"]
    assert n_steps > 8
    from kaldi_punct import contrastive

    n_left = n_steps - 3

    def stop(model: Wav2vec, samples: torch.Tensor, negatives: torch.Tensor) -> object:
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise KeyboardInterrupt
        return contrast(model, samples, negatives)

    monkeypatch.setattr(contrastive, "contrast", stop)
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path / "cut", *more)
    monkeypatch.undo()
    assert torch.load(tmp_path / "cut" / "last" / "state.pt", weights_only=True)["state"]["batch"] > 0
    run(data, tmp_path / "cut", *more)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "cut"))


@pytest.mark.slow
def test_two_processes_take_a_batch_each_and_share_gradients(data: Path, tmp_path: Path) -> None:
    more = ("contrastive.batch_samples=16000", "pretrain.max_steps=2", "pretrain.log_every_steps=1")
    (tmp_path / "c.yaml").write_text(options(*more).dump())
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    verb = ["-m", "kaldi_punct.cli", "pretrain", "--objective", "contrastive", "--config", str(tmp_path / "c.yaml")]
    done = subprocess.run(
        [*launch, *verb, str(data), str(data), str(tmp_path / "two")],
        capture_output=True,
        text=True,
        timeout=900,  # seconds; of a machine with nothing else to do it takes ten
        env={**os.environ, "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    losses = [float(x) for x in re.findall(r"step \d of 2: loss ([0-9.]+)", done.stderr)]

    # What one process would do with both batches of each step.
    config = options(*more)
    torch.manual_seed(config.pretrain.seed)
    objective = OBJECTIVES["contrastive"](config, [data], [], tmp_path / "sound", lambda e, key: None)
    optimizer = torch.optim.AdamW(parameter_groups(objective.model, config.pretrain, 0.01), betas=(0.9, 0.999))
    for step, loss in enumerate(losses):
        set_cosine_rate(optimizer, config.pretrain, 0.01, step, 2)
        batches = [objective.epoch(0).batch(2 * step + i) for i in range(2)]
        mean = torch.stack([objective.outcome(b, torch.device("cpu")).loss for b in batches]).mean()
        assert float(mean.detach()) == pytest.approx(loss, abs=2e-4)
        mean.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert len(losses) == 2
    expected, found = objective.model.state_dict(), weights(tmp_path / "two")
    assert all(torch.allclose(found[k], expected[k], rtol=1e-3, atol=1e-4) for k in expected)


@pytest.mark.parametrize(
    "option",
    [
        "contrastive.n_negatives=3",
        "contrastive.crop_samples=9000",
        "contrastive.batch_samples=16000",
        "pretrain.weight_decay=0.5",
        "pretrain.max_grad_norm=0.0001",
        "pretrain.peak_lr=0.02",
        "pretrain.min_lr=0.009",
        "pretrain.warmup_steps=1",
        "pretrain.precision=bf16",
        "pretrain.seed=2",
        "pretrain.n_epochs=2",
    ],
)
def test_options_are_not_ignored(data: Path, tmp_path_factory: pytest.TempPathFactory, option: str) -> None:
    plain = tmp_path_factory.getbasetemp() / "plain_pretraining"
    if not plain.exists():
        run(data, plain)
    other = tmp_path_factory.mktemp("other") / "exp"
    run(data, other, option)
    assert not same(weights(plain), weights(other))
    assert all(bool(torch.isfinite(t).all()) for t in weights(other).values())


def test_steps_are_limited_saved_and_logged(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kaldi_punct import pretraining

    saves: list[int] = []
    save = pretraining._Run._save
    monkeypatch.setattr(pretraining._Run, "_save", lambda self: (saves.append(self.state.step), save(self)))
    with caplog.at_level("INFO", logger="kaldi_punct"):
        more = ("pretrain.max_steps=3", "pretrain.log_every_steps=2", "pretrain.save_every_steps=2")
        run(data, tmp_path / "exp", *more)
    assert saves == [2, 3]
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("step ")]
    assert len(lines) == 1
    assert lines[0].startswith("step 2 of 3: loss ")
    assert " steps/s, 0" in lines[0]
    state = torch.load(tmp_path / "exp" / "last" / "state.pt", weights_only=True)["state"]
    assert state["step"] == 3


def test_without_validation_the_last_model_is_the_best(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "exp", "pretrain.n_epochs=2")
    assert same(load_file(tmp_path / "exp" / "best" / "model.safetensors"), weights(tmp_path / "exp"))


def test_bad_recordings_are_reported_and_the_others_learnt_from(data: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "wav.scp").write_text((data / "wav.scp").read_text() + "zz /nowhere.wav\n")
    for _ in range(2):  # a run that goes on says so too
        reports = run(bad, tmp_path / "exp", "pretrain.max_steps=1")
        assert len(reports) == 1
        assert reports[0].startswith("zz: zz: /nowhere.wav: expected a readable file, got")


def test_a_model_that_begins_knows_what_chance_knows() -> None:
    """So that nothing is unlearnt while all scores are brought there: 3.35, to which random weights add something."""
    for config in (Wav2vecConfig.small(), Wav2vecConfig(dim=64, log_compression=False)):
        torch.manual_seed(3)
        samples = torch.randn(1, 16_000) * 0.1
        n_frames = config.n_frames(16_000)
        outcome = contrast(Wav2vec(config), samples, torch.randint(0, n_frames, (1, n_frames, 10)))
        assert 3.2 < float(outcome.loss.detach()) < 5.0


def test_a_loss_that_is_not_finite_names_the_recordings(data: Path, tmp_path: Path) -> None:
    match = (
        r"step \d+: expected a finite loss, got (nan|inf) at rec\d.*; look at these recordings, or begin a new run with"
    )
    with pytest.raises(KaldiPunctError, match=match):
        run(data, tmp_path / "exp", "pretrain.peak_lr=1e30", "pretrain.warmup_steps=0", "pretrain.n_epochs=9")


def short_of_memory(max_rows: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    """``Wav2vec.forward`` with memory for so many crops."""
    forward = Wav2vec.forward

    def short(self: Wav2vec, samples: torch.Tensor, **more: object) -> tuple[torch.Tensor, ...]:
        if len(samples) > max_rows:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 8 GiB.\nMore.")
        return forward(self, samples, **more)

    return short


def test_a_batch_too_large_for_memory_is_split(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    small = ("contrastive.crop_samples=8000", "pretrain.max_steps=4")  # batches of up to five crops
    run(data, tmp_path / "whole", *small)
    monkeypatch.setattr(Wav2vec, "forward", short_of_memory(3))
    done = pretrain("contrastive", [data], [], tmp_path / "split", options(*small), no_report)
    assert done.n_split >= 1
    # The halves weigh as in the whole: the same gradients, so the same weights but for the order of sums.
    split = weights(tmp_path / "split")
    for name, whole in weights(tmp_path / "whole").items():
        assert torch.allclose(whole, split[name], rtol=1e-3, atol=1e-5), name
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    text = (
        r"step \d: out of memory, a batch of [45] rows is split in two: CUDA out of memory. Tried to allocate 8 GiB\."
    )
    assert len(warnings) == done.n_split
    assert all(re.fullmatch(text, warning) for warning in warnings)
    # The count stays with the run.
    assert pretrain("contrastive", [data], [], tmp_path / "split", options(*small), no_report).n_split == done.n_split


def test_half_a_batch_too_large_for_memory_stops(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wav2vec, "forward", short_of_memory(0))
    rest = r", got: CUDA out of memory\. .*; lower contrastive\.batch_samples or contrastive\.crop_samples: rec\d"
    with pytest.raises(KaldiPunctError, match=r"step 0: expected memory for half a batch" + rest):
        run(data, tmp_path / "half")
    with pytest.raises(KaldiPunctError, match=r"step 0: expected memory for a batch of one row" + rest):
        run(data, tmp_path / "one", "contrastive.batch_samples=16000")


def test_a_run_with_other_options_is_not_mixed_up(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "exp", "pretrain.max_steps=1")
    with pytest.raises(ConfigError, match=r"config\.yaml: expected the options that this run began with.*seed: 2"):
        run(data, tmp_path / "exp", "pretrain.max_steps=1", "pretrain.seed=2")


def test_a_state_that_is_broken(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "exp", "pretrain.max_steps=1")
    state = tmp_path / "exp" / "last" / "state.pt"
    saved = torch.load(state, weights_only=True)
    torch.save({**saved, "state": {**saved["state"], "n_processes": 2}}, state)
    with pytest.raises(ConfigError, match=r"state\.pt: expected 2 processes, as this run began with, got 1; start as"):
        run(data, tmp_path / "exp", "pretrain.max_steps=1")
    state.write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=r"state\.pt: expected the state of a pretraining run, got: .*; remove"):
        run(data, tmp_path / "exp", "pretrain.max_steps=1")


def test_the_schedule() -> None:
    def rate(step: int) -> float:
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.AdamW([weight])
        set_cosine_rate(optimizer, PretrainConfig(min_lr=0.1, warmup_steps=10), 1.0, step, 110)
        return float(optimizer.param_groups[0]["lr"])

    assert [rate(0), rate(4), rate(9), rate(10)] == pytest.approx([0.1, 0.5, 1.0, 1.0])
    assert rate(60) == pytest.approx(0.55)
    assert rate(109) == pytest.approx(0.1, abs=1e-3)


def test_biases_and_norms_have_no_decay() -> None:
    model = Wav2vec(options().wav2vec)
    with_decay, without = parameter_groups(model, PretrainConfig(weight_decay=0.1), 1.0)
    assert {p.ndim for p in with_decay["params"]} == {3}
    assert {p.ndim for p in without["params"]} == {1}
    assert (with_decay["weight_decay"], without["weight_decay"]) == (0.1, 0.0)


def test_the_verb_knows_the_objectives() -> None:
    assert tuple(OBJECTIVES) == verbs.OBJECTIVES


def test_scores_are_of_frames_ahead() -> None:
    """Against the definition, one prediction after the other."""
    n_t, n_s, min_ahead = 7, 3, 2
    generator = torch.Generator().manual_seed(1)
    predicted = torch.randn(2, n_t, n_s, 5, generator=generator)
    encoded = torch.randn(2, n_t, 5, generator=generator)
    negatives = torch.randint(0, n_t, (2, n_t, 4), generator=generator)
    scores, real = score_candidates(predicted, encoded, negatives, min_ahead)
    assert scores.shape == (2, n_t, n_s, 5)
    total, n, n_right = 0.0, 0, 0
    for b in range(2):
        for t in range(n_t):
            for s in range(n_s):
                target = t + min_ahead + s
                if target >= n_t:
                    continue
                candidates = [target, *negatives[b, target].tolist()]
                expected = [float(predicted[b, t, s] @ encoded[b, c]) for c in candidates]
                torch.testing.assert_close(scores[b, target, s], torch.tensor(expected))
                assert real[target, s]
                total += math.log1p(math.exp(-expected[0])) + sum(math.log1p(math.exp(x)) for x in expected[1:])
                n_right += expected[0] > max(expected[1:])
                n += 1
    outcome = loss_of_scores(scores, real)
    assert (outcome.n, int(outcome.n_right)) == (n, n_right)
    assert int(real.sum()) * 2 == n
    assert float(outcome.loss) == pytest.approx(total / n, rel=1e-5)


def test_a_crop_too_short_for_the_farthest_steps() -> None:
    model = Wav2vec(options("wav2vec.prediction_steps=9").wav2vec)
    samples = torch.randn(1, model.config.min_samples)
    n_frames = model.config.n_frames(samples.shape[1])
    outcome = contrast(model, samples, torch.zeros(1, n_frames, 2, dtype=torch.int64))
    assert outcome.n == 3  # frames 0 and 1 tell the next but two, frame 0 the one after
    assert torch.isfinite(outcome.loss)


@pytest.mark.slow
def test_one_step_of_the_large_model() -> None:
    import numpy as np

    torch.manual_seed(1)
    config = Wav2vecConfig.large()
    model = Wav2vec(config)
    samples = torch.randn(2, 3_000, generator=torch.Generator().manual_seed(1)) * 0.1
    drawn = draw_negatives(2, config.n_frames(3_000), 10, np.random.default_rng(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    losses = []
    for _ in range(2):
        outcome = contrast(model, samples, torch.from_numpy(drawn))
        losses.append(float(outcome.loss.detach()))
        outcome.loss.backward()
        assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in model.parameters())
        optimizer.step()
        optimizer.zero_grad()
    assert losses[1] < losses[0]
    n_frames = config.n_frames(3_000)
    assert outcome.n == 2 * sum(n_frames - 3 - s for s in range(12))


@pytest.mark.parametrize(("name", "expected"), [("small", Wav2vecConfig.small()), ("large", Wav2vecConfig.large())])
def test_recipes(repo: Path, name: str, expected: Wav2vecConfig) -> None:
    config = PretrainingConfig.load(str(repo / "egs" / "games" / "conf" / f"wav2vec_{name}.yaml"))
    assert config.wav2vec == expected
    if name == "large":  # the released recipe
        assert (config.contrastive.crop_samples, config.contrastive.n_negatives) == (150_000, 10)
        assert (config.pretrain.max_steps, config.pretrain.precision) == (400_000, "bf16")
