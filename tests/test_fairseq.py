"""Checkpoints of fairseq: the same answers, and nothing else that a pickle might do.

``tests/data/wav2vec`` was made by running fairseq's own model file with small random weights:

    python tests/data/wav2vec/make.py <checkout of github.com/facebookresearch/fairseq> tests/data/wav2vec
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from kaldi_punct.errors import CheckpointError
from kaldi_punct.fairseq import import_fairseq, load_fairseq
from kaldi_punct.models.contrastive import contrast
from kaldi_punct.models.wav2vec import Wav2vec
from kaldi_punct.pretraining_config import Wav2vecConfig

DATA = Path(__file__).parent / "data" / "wav2vec"


@pytest.fixture(scope="module")
def answers() -> dict[str, torch.Tensor]:
    return load_file(DATA / "answers.safetensors")


def saved(**options: object) -> dict[str, Any]:
    """The checkpoint's content with other options."""
    model = load_fairseq(DATA / "fairseq.pt")
    base = {
        "conv_feature_layers": "[(16, 10, 5)] + [(16, 8, 4)] + [(16, 4, 2)] * 3 + [(16, 1, 1)] * 2",
        "conv_aggregator_layers": str([(16, k, 1) for k in range(2, 14)]),
        "skip_connections_agg": True,
        "log_compression": True,
    }
    weights: dict[str, torch.Tensor] = {}
    for key, tensor in model.state_dict().items():
        room, _, rest = key.partition(".")
        if room == "prediction":
            tensor = tensor.unsqueeze(2) if rest == "weight" else tensor
            weights[f"wav2vec_predictions.project_to_steps.{rest}"] = tensor
            continue
        _, i, part, kind = rest.split(".")
        theirs, place = {
            ("encoder", "conv"): ("feature_extractor", 0),
            ("encoder", "norm"): ("feature_extractor", 2),
            ("context", "conv"): ("feature_aggregator", 1),
            ("context", "norm"): ("feature_aggregator", 3),
        }[room, part]
        weights[f"{theirs}.conv_layers.{i}.{place}.{kind}"] = tensor
    return {"args": argparse.Namespace(**{**base, **options}), "model": weights}


def test_the_same_frames_as_fairseq(answers: dict[str, torch.Tensor]) -> None:
    model = load_fairseq(DATA / "fairseq.pt")
    large = Wav2vecConfig.large()
    large.dim = 16
    assert model.config == large
    with torch.no_grad():
        encoded, context = model(answers["samples"].unsqueeze(0))
    torch.testing.assert_close(encoded[0], answers["encoded"], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(context[0], answers["context"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model.extract(answers["samples"]), answers["context"], rtol=1e-5, atol=1e-5)


def test_the_same_loss_as_fairseq(answers: dict[str, torch.Tensor]) -> None:
    model = load_fairseq(DATA / "fairseq.pt")
    with torch.no_grad():
        outcome = contrast(model, answers["samples"].unsqueeze(0), answers["negatives"].unsqueeze(0))
    torch.testing.assert_close(outcome.loss, answers["loss"], rtol=1e-5, atol=1e-5)


def test_it_becomes_a_model_directory(tmp_path: Path, answers: dict[str, torch.Tensor]) -> None:
    import_fairseq(DATA / "fairseq.pt", tmp_path / "model")
    frames = Wav2vec.load(tmp_path / "model").extract(answers["samples"])
    torch.testing.assert_close(frames, answers["context"], rtol=1e-5, atol=1e-5)


def test_options_of_the_file_are_not_ignored(tmp_path: Path) -> None:
    torch.save(saved(agg_zero_pad=True, residual_scale=1.0, skip_connections_agg=False), tmp_path / "c.pt")
    config = load_fairseq(tmp_path / "c.pt").config
    assert (config.pad, config.residual_scale, config.skip_connections) == ("zero", 1.0, False)
    torch.save(saved(log_compression=False), tmp_path / "c.pt")
    assert not load_fairseq(tmp_path / "c.pt").config.log_compression


def test_options_as_newer_versions_wrote_them(tmp_path: Path, answers: dict[str, torch.Tensor]) -> None:
    from omegaconf import OmegaConf

    old = saved()
    model = {**vars(old["args"]), "_name": "wav2vec", "activation": "relu", "vq_type": "none"}
    for cfg in ({"model": model}, OmegaConf.create({"model": model}), {"model": argparse.Namespace(**model)}):
        torch.save({"args": None, "cfg": cfg, "model": old["model"]}, tmp_path / "c.pt")
        frames = load_fairseq(tmp_path / "c.pt").extract(answers["samples"])
        torch.testing.assert_close(frames, answers["context"], rtol=1e-5, atol=1e-5)


def test_weights_of_half_precision(tmp_path: Path) -> None:
    halves = saved()
    halves["model"] = {k: v.half() for k, v in halves["model"].items()}
    torch.save(halves, tmp_path / "c.pt")
    assert all(p.dtype == torch.float32 for p in load_fairseq(tmp_path / "c.pt").parameters())


class Evil:
    """What a pickle must not be able to do here."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo done > evil.txt",)


def test_nothing_of_a_pickle_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({**saved(), "extra_state": Evil()}, "c.pt")
    with pytest.raises(
        CheckpointError, match=r"c\.pt: expected a fairseq checkpoint of .*, got: .*system.* not loaded"
    ):
        load_fairseq("c.pt")
    torch.save({**saved(), "extra_state": Path("x")}, "c.pt")
    with pytest.raises(CheckpointError, match=r"c\.pt: expected a fairseq checkpoint of .*, got: .*pathlib"):
        load_fairseq("c.pt")
    assert not Path("evil.txt").exists()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"vq_type": "gumbel"}, "expected vq_type to be 'none' .*, got 'gumbel'; wav2vec 2.0 and vq-wav2vec are other"),
        ({"aggregator": "gru"}, "expected aggregator to be 'cnn'"),
        ({"activation": "gelu"}, "expected activation to be 'relu'"),
        ({"conv_aggregator_layers": "[(8, 3, 1)]"}, "expected one width in all layers and stride 1"),
        ({"conv_aggregator_layers": "[(16, 3, 2)]"}, "expected one width in all layers and stride 1"),
        ({"conv_feature_layers": "[(16, 10, 5)]"}, "expected a wav2vec of 2019, got: wav2vec.strides: .*, got 5"),
        ({"conv_feature_layers": "__import__('os')"}, 'expected conv_feature_layers as a list of .*, got "__import__'),
        ({"conv_feature_layers": "[(16, 10, 5)] * 10**9"}, "expected conv_feature_layers as a list of"),
        ({"conv_feature_layers": "[(16, 10"}, "expected conv_feature_layers as a list of"),
        ({"conv_aggregator_layers": None}, "expected conv_aggregator_layers as a list of"),
        ({"conv_aggregator_layers": "[(16, 4, 1)] * 12"}, "expected weights that fit the file's own options, got"),
        ({"conv_aggregator_layers": "[(16, 2, 1), (16, 3, 1)]"}, "expected weights that fit .*, got: .*Unexpected key"),
        ({"conv_aggregator_layers": "[(16, 2, 1)] * 20"}, "expected weights that fit .*, got: .*conv_layers"),
    ],
)
def test_other_networks_are_refused(tmp_path: Path, options: dict[str, object], match: str) -> None:
    torch.save(saved(**options), tmp_path / "c.pt")
    with pytest.raises(CheckpointError, match=f"c\\.pt: {match}"):
        load_fairseq(tmp_path / "c.pt")


def test_files_that_are_no_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    with pytest.raises(CheckpointError, match=r"c\.pt: expected a fairseq checkpoint, got No such file"):
        load_fairseq(path)
    for content in (b"", b"text", (DATA / "fairseq.pt").read_bytes()[:1000]):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"c\.pt: expected a fairseq checkpoint of weights, .*, got"):
            load_fairseq(path)
    torch.save([1], path)
    with pytest.raises(CheckpointError, match=r"expected a fairseq checkpoint with weights under 'model', got none"):
        load_fairseq(path)
    torch.save({"model": {}}, path)
    with pytest.raises(CheckpointError, match=r"expected options with conv_feature_layers under 'args' or 'cfg'"):
        load_fairseq(path)
