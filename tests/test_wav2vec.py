"""wav2vec: shapes, what hears what, and model directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from kaldi_punct.errors import CheckpointError, ConfigError
from kaldi_punct.models.wav2vec import Wav2vec
from kaldi_punct.pretraining_config import PretrainingConfig, Wav2vecConfig

TINY = {"dim": 8, "kernels": [10, 8, 4, 4, 4], "strides": [5, 4, 2, 2, 2], "context_kernels": [2, 3], "norm": "frame"}


def tiny(**changes: object) -> Wav2vec:
    torch.manual_seed(5)
    return Wav2vec(Wav2vecConfig(**{**TINY, **changes})).eval()  # type: ignore[arg-type]


def noise(n_samples: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(n_samples, generator=torch.Generator().manual_seed(seed)) * 0.1


def test_the_large_model_is_the_released_one() -> None:
    config = Wav2vecConfig.large()
    assert config == Wav2vecConfig()
    assert (config.receptive_field_samples, config.min_ahead) == (465, 3)
    model = Wav2vec(config)
    # 7 + 12 convolutions and norms of 512 channels, and 12 steps of 512 x 512: counted on the public model.
    assert sum(p.numel() for p in model.parameters()) == 32_537_088
    with torch.no_grad():
        encoded, context = model(torch.randn(2, 3_200))
        assert encoded.shape == context.shape == (2, 18, 512)
        assert model.prediction(context).shape == (2, 18, 12, 512)


def test_the_base_model_hears_210_ms() -> None:
    config = Wav2vecConfig.base()
    # Section 2.1 of the paper: 30 ms of the encoder, 210 ms in all.
    n_context_frames = 1 + sum(k - 1 for k in config.context_kernels)
    assert config.n_samples(1) == 465
    assert round(config.n_samples(n_context_frames) / 16_000, 2) == 0.21
    large = Wav2vecConfig.large()
    assert round(large.n_samples(1 + sum(k - 1 for k in large.context_kernels)) / 16_000, 2) == 0.81


@pytest.mark.parametrize("n_samples", [464, 465, 624, 625, 16_000])
def test_frames_of_samples(n_samples: int) -> None:
    model = tiny()
    frames = model.extract(noise(n_samples))
    assert frames.shape == (model.config.n_frames(n_samples), model.dim)
    assert frames.dtype == torch.float32
    n = model.config.n_frames(n_samples)
    if n:
        assert model.config.n_frames(model.config.n_samples(n)) == n
        assert model.config.n_frames(model.config.n_samples(n) - 1) == n - 1
    assert (model.sample_rate_hz, model.frame_shift_s) == (16_000, 0.01)


@pytest.mark.parametrize("t", [0, 7, 20])
def test_a_frame_hears_nothing_after_its_samples(t: int) -> None:
    model = tiny()
    sound = noise(8_000)
    other = sound.clone()
    other[160 * t + 465 :] = noise(8_000, seed=2)[160 * t + 465 :] * 30
    before, after = model.extract(sound), model.extract(other)
    assert torch.equal(before[: t + 1], after[: t + 1])
    assert not torch.equal(before[t + 1], after[t + 1])


def test_a_frame_hears_back_as_far_as_the_kernels_reach() -> None:
    model = tiny()
    sound = noise(8_000)
    other = sound.clone()
    other[: 160 * 10] += 1.0  # frames 0..9 hear it
    changed = (model.extract(sound) != model.extract(other)).any(1)
    last = 9 + sum(k - 1 for k in model.config.context_kernels)
    assert changed[: last + 1].all()
    assert not changed[last + 1 :].any()


def test_the_released_norm_hears_the_future() -> None:
    model = tiny(norm="utterance")
    sound = noise(8_000)
    other = sound.clone()
    other[6_000:] *= 30
    assert not torch.allclose(model.extract(sound)[:10], model.extract(other)[:10])


def test_frames_differ_before_anything_is_learnt() -> None:
    """Else nothing can be told from anything, and a run stays for long where it knows no more than chance."""
    torch.manual_seed(2)
    for norm in ("frame", "utterance"):
        model = Wav2vec(Wav2vecConfig(dim=32, norm=norm)).eval()
        encoded, context = model(noise(16_000).unsqueeze(0))
        for frames in (encoded[0], context[0]):
            assert frames.std(0).mean() > 0.3 * frames.abs().mean()


def test_alone_as_in_a_batch() -> None:
    for norm in ("frame", "utterance"):
        model = tiny(norm=norm)
        sounds = torch.stack([noise(4_000, seed) for seed in range(3)])
        together = model(sounds)[1]
        for sound, frames in zip(sounds, together, strict=True):
            torch.testing.assert_close(model.extract(sound), frames, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"skip_connections": False},
        {"residual_scale": 1.0},
        {"log_compression": False},
        {"norm": "utterance"},
        {"pad": "zero"},
    ],
)
def test_options_of_the_architecture_are_not_ignored(change: dict[str, object]) -> None:
    plain, other = tiny(), tiny(**change)
    other.load_state_dict(plain.state_dict())
    assert not torch.allclose(plain.extract(noise(4_000)), other.extract(noise(4_000)))


def test_a_model_directory(tmp_path: Path) -> None:
    model = tiny(pad="zero")
    model.save(tmp_path / "model")
    loaded = Wav2vec.load(tmp_path / "model")
    assert loaded.config == model.config
    assert not loaded.training
    assert torch.equal(loaded.extract(noise(4_000)), model.extract(noise(4_000)))
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == ["config.json", "model.safetensors"]


def test_directories_that_are_none(tmp_path: Path) -> None:
    tiny().save(tmp_path)
    config = tmp_path / "config.json"
    values = json.loads(config.read_text())

    def refused(text: str, match: str) -> None:
        config.write_text(text)
        with pytest.raises(CheckpointError, match=match):
            Wav2vec.load(tmp_path)

    refused("{", "config.json: expected JSON, got")
    refused("[]", "expected a JSON object, got list")
    refused(
        '{"model_type": "wav2vec2"}', "expected format 'kaldi_punct/wav2vec/1', got None; such a directory comes from"
    )
    other = {**values, "wav2vec": {**values["wav2vec"], "dimm": 3}}
    refused(json.dumps(other), "expected a complete model configuration, got: .*unknown key 'dimm'; did you mean 'dim'")
    other = {**values, "wav2vec": {**values["wav2vec"], "norm": "none"}}
    refused(json.dumps(other), "expected a complete model configuration, got: wav2vec.norm: expected one of")
    other = {**values, "wav2vec": {**values["wav2vec"], "dim": 4}}
    refused(json.dumps(other), "model.safetensors: expected weights that fit config.json, got: .*size mismatch")
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    refused(json.dumps(values), "model.safetensors: expected weights that fit config.json, got")
    (tmp_path / "model.safetensors").unlink()
    refused(json.dumps(values), "model.safetensors: expected the model's weights, got no such file")
    config.unlink()
    with pytest.raises(CheckpointError, match=r"config\.json: expected a file of a wav2vec model directory, got no"):
        Wav2vec.load(tmp_path)


@pytest.mark.parametrize(
    ("override", "match"),
    [
        ("wav2vec.norm=batch", r"wav2vec\.norm: expected one of \('utterance', 'frame'\), got 'batch'"),
        ("wav2vec.pad=mirror", r"wav2vec\.pad: expected one of \('replicate', 'zero'\), got 'mirror'"),
        ("wav2vec.dim=0", r"wav2vec\.dim: expected at least 1, got 0"),
        ("wav2vec.context_kernels=[]", r"wav2vec\.context_kernels: expected numbers of at least 1, got \[\]"),
        ("wav2vec.strides=[5,4,2,2,2]", r"wav2vec\.strides: expected 7 numbers, as kernels, got \[5, 4, 2, 2, 2\]"),
        ("wav2vec.strides=[5,4,2,2,2,2,1]", r"wav2vec\.strides: expected a product of 160 samples .*, got 320"),
        ("wav2vec.residual_scale=0", r"wav2vec\.residual_scale: expected a number above 0, got 0\.0"),
        ("wav2vec.dims=8", r"unknown key 'wav2vec\.dims'; did you mean 'dim'\?"),
        ("pretrain.precision=fp16", r"pretrain\.precision: expected fp32 or bf16, got 'fp16'"),
        ("pretrain.peak_lr=-1", r"pretrain\.peak_lr: expected a number of at least 0, got -1\.0"),
        ("pretrain.log_every_steps=0", r"pretrain\.log_every_steps: expected a number of at least 1, got 0"),
        ("contrastive.n_negatives=0", r"contrastive\.n_negatives: expected at least 1, got 0"),
        ("contrastive.crop_samples=1000", r"contrastive\.crop_samples: expected at least 1105: two .* got 1000"),
        ("contrastive.batch_samples=2000", r"contrastive\.batch_samples: expected at least .*crop_samples, got 2000"),
    ],
)
def test_values_out_of_range(override: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        PretrainingConfig.load(None, [override])


def test_options_come_back_from_yaml(tmp_path: Path) -> None:
    config = PretrainingConfig.load(None, ["wav2vec.dim=24", "pretrain.seed=7"])
    path = tmp_path / "c.yaml"
    path.write_text(config.dump())
    assert PretrainingConfig.load(str(path)) == config
    assert (config.wav2vec.dim, config.pretrain.seed) == (24, 7)
