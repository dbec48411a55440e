"""Configuration: YAML, dotted overrides, and errors with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaldi_punct.config import Config, model_config_from_dict
from kaldi_punct.errors import ConfigError


def test_yaml_then_overrides(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("model: {timing: false}\ntrain: {seed: 3, peak_lr: 1.0e-4}\n")
    config = Config.load(str(path), ["train.seed=5", "data.max_pieces=64"])
    assert (config.model.timing, config.train.seed, config.train.peak_lr, config.data.max_pieces) == (
        False,
        5,
        1e-4,
        64,
    )


def test_dump_loads_to_the_same(tmp_path: Path) -> None:
    config = Config.load(None, ["train.repeats=[1,3]", "model.acoustic=melspec"])
    path = tmp_path / "c.yaml"
    path.write_text(config.dump())
    assert Config.load(str(path)) == config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.peek_lr=1", "override: unknown key 'train.peek_lr'; did you mean 'peak_lr'?"),
        ("trian.seed=1", "override: unknown key 'trian'; did you mean 'train'?"),
        ("model.read_out=middle", "model.read_out: expected one of ('last', 'first', 'mean'), got 'middle'"),
        ("data.crop_prob=1.5", "data.crop_prob: expected a probability 0..1, got 1.5"),
        ("model.marks=[',']", "model.marks: expected '' (no mark) first, got [',']"),
        ("model.n_layers=0", "model.n_layers: expected at least 1, got 0"),
        ("train.batch_pieces=10", "train.batch_pieces: expected at least data.max_pieces, got 10"),
        ("model.acoustic=mfcc", "model.acoustic: expected one of ('none', 'melspec', 'pitch'), got 'mfcc'"),
        ("model.mark_map={'!': '!'}", "model.mark_map: expected values out of model.marks, got ['!']"),
        ("data.max_pieces=15", "data.max_pieces: expected at least 16, got 15"),
        ("train=5", "override: expected a mapping at train., got int"),
        ("train.precision=fp8", "train.precision: expected fp32 or bf16, got 'fp8'"),
    ],
)
def test_errors(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as e:
        Config.load(None, [override])
    assert str(e.value) == message


def test_a_mark_may_be_unknown(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text('model: {mark_map: {";": null}}\n')
    config = Config.load(str(path))
    assert config.model.mark_map[";"] is None
    path.write_text(config.dump())
    assert Config.load(str(path)) == config


def test_wrong_type_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("train: {seed: many}\n")
    with pytest.raises(ConfigError, match=r"c\.yaml: .*many"):
        Config.load(str(path))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: expected a readable YAML file, got No such file"):
        Config.load(str(tmp_path / "none.yaml"))


def test_a_checkpoint_from_a_newer_version_says_so() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'gate'.*newer kaldi_punct"):
        model_config_from_dict({"gate": True}, "config.json")
