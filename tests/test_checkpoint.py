"""Model directories: written, read back, in 8 bits, and what is said of broken ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from tiny import write_encoder

from kaldi_punct import checkpoint
from kaldi_punct.config import Config
from kaldi_punct.errors import CheckpointError
from kaldi_punct.punctuator import Punctuator

WORDS = ["so", "what", "do", "you", "think", "of", "it"]


@pytest.fixture
def broken(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def test_saved_and_loaded_is_the_same(tiny_model: Path, tmp_path: Path) -> None:
    first = checkpoint.load(tiny_model)
    checkpoint.save(first, tmp_path / "again")
    second = checkpoint.load(tmp_path / "again")
    assert (second.config, second.window, second.case_lexicon, second.name) == (
        first.config, first.window, first.case_lexicon, first.name,
    )  # fmt: skip
    assert Punctuator(second)(WORDS) == Punctuator(first)(WORDS)


def test_no_path_of_this_machine_stays_behind(tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    made = checkpoint.create(Config.load(None, [f"model.encoder={encoder}", "model.n_layers=1", "data.max_pieces=64"]))
    made.config.encoder = "org/name"
    checkpoint.save(made, tmp_path / "model")
    assert str(tmp_path) not in (tmp_path / "model" / "config.json").read_text()
    assert (tmp_path / "model" / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_eight_bits_are_close_and_smaller() -> None:
    torch.manual_seed(1)
    state = {"w": torch.randn(256, 128), "conv": torch.randn(64, 32, 9), "b": torch.randn(256), "n": torch.tensor(3)}
    stored = checkpoint.quantise_state(state)
    assert stored["w"].dtype == torch.int8
    assert stored["conv"].dtype == torch.int8
    assert stored["b"].dtype == torch.float32
    back = checkpoint.dequantise_state(stored)
    assert back.keys() == state.keys()
    for key in ("w", "conv"):
        worst = state[key].abs().flatten(1).amax(1) / 127 / 2 + 1e-7
        assert bool(((back[key] - state[key]).abs().flatten(1).amax(1) <= worst).all())
    assert torch.equal(back["b"], state["b"])
    assert torch.equal(back["n"], state["n"])


def test_an_eight_bit_directory_loads(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_MIN_QUANTISED", 100)
    whole = checkpoint.load(tiny_model)
    checkpoint.save(whole, tmp_path / "small", quantise=True)
    sizes = [(d / "model.safetensors").stat().st_size for d in (tiny_model, tmp_path / "small")]
    assert sizes[1] < 0.6 * sizes[0]
    small = checkpoint.load(tmp_path / "small")
    for a, b in zip(whole.model.state_dict().values(), small.model.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, atol=0.05 * float(a.abs().max()) + 1e-6, rtol=0)


@pytest.fixture
def encoder_options(tmp_path: Path) -> Config:
    """Options of a new model whose encoder lies in ``tmp_path / "encoder"``, to break."""
    encoder = write_encoder(tmp_path / "encoder")
    return Config.load(None, [f"model.encoder={encoder}", "model.n_layers=1", "data.max_pieces=64"])


def test_an_encoder_without_a_tokenizer(encoder_options: Config, tmp_path: Path) -> None:
    for path in (tmp_path / "encoder").glob("*token*"):
        path.unlink()
    with pytest.raises(CheckpointError) as e:
        checkpoint.create(encoder_options)
    assert str(e.value) == (
        f"model.encoder: expected a tokenizer with pieces at '{tmp_path}/encoder', got special ones alone; add its "
        "tokenizer.json"
    )


def test_an_encoder_with_a_broken_tokenizer(encoder_options: Config, tmp_path: Path) -> None:
    (tmp_path / "encoder" / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"^model\.encoder: expected a tokenizer at '.*encoder', got: "):
        checkpoint.create(encoder_options)


def test_a_tokenizer_without_begin_and_end(encoder_options: Config, tmp_path: Path) -> None:
    path = tmp_path / "encoder" / "tokenizer_config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in values.items() if k not in ("cls_token", "sep_token")}))
    with pytest.raises(
        CheckpointError,
        match=r"^model\.encoder: expected a tokenizer with begin and end pieces at '.*encoder', got none$",
    ):
        checkpoint.create(encoder_options)


def test_a_tokenizer_that_is_not_fast(encoder_options: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaldi_punct.models.lexical.AutoTokenizer.from_pretrained", lambda _: object())
    with pytest.raises(
        CheckpointError, match=r"^model\.encoder: expected a fast tokenizer at '.*encoder', got object$"
    ):
        checkpoint.create(encoder_options)


def test_nothing_of_that_name() -> None:
    with pytest.raises(
        CheckpointError, match="nonesuch: expected a model directory, 'hub:ORG/NAME' or a built-in model"
    ):
        checkpoint.load("nonesuch")


def test_a_directory_that_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"expected a model directory with config\.json, got one without it"):
        checkpoint.load(tmp_path)


def test_a_model_of_something_else(broken: Path) -> None:
    (broken / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(
        CheckpointError, match=r"expected format 'kaldi_punct/1', got None; a model directory comes from"
    ):
        checkpoint.load(broken)


def test_an_incomplete_configuration(broken: Path) -> None:
    values = json.loads((broken / "config.json").read_text())
    del values["window"]
    (broken / "config.json").write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=r"config\.json: expected a complete model configuration, got: 'window'"):
        checkpoint.load(broken)


def test_a_configuration_that_is_no_json(broken: Path) -> None:
    (broken / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json: expected JSON, got"):
        checkpoint.load(broken)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.safetensors", "expected the model's weights, got no such file"),
        ("tokenizer.json", "expected the model's tokenizer, got no such file"),
        ("case_lexicon.json", "expected a file of the model directory, got no such file"),
    ],
)
def test_a_missing_file(broken: Path, name: str, message: str) -> None:
    (broken / name).unlink()
    with pytest.raises(CheckpointError) as e:
        checkpoint.load(broken)
    assert message in str(e.value)
    assert name in str(e.value)


def test_weights_cut_short(broken: Path) -> None:
    path = broken / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"model\.safetensors: expected weights that fit config\.json, got"):
        checkpoint.load(broken)


def test_weights_of_another_shape(broken: Path) -> None:
    values = json.loads((broken / "config.json").read_text())
    values["model"]["timing_dim"] = 9
    (broken / "config.json").write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=r"expected weights that fit config\.json"):
        checkpoint.load(broken)


def test_the_hub_is_asked_and_its_absence_told(monkeypatch: pytest.MonkeyPatch, tiny_model: Path) -> None:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def offline(name: str) -> str:
        raise LocalEntryNotFoundError(f"no {name} here")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(
        CheckpointError, match="hub:org/name: expected a model on the Hugging Face hub, got: no org/name here"
    ):
        checkpoint.load("hub:org/name")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda _: str(tiny_model))
    assert checkpoint.load("hub:org/name").name == "tiny"
