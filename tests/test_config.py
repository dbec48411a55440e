"""Configuration: YAML, dotted overrides, and errors with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaldi_punct.config import Config, ModelConfig, model_config_from_dict
from kaldi_punct.errors import ConfigError

ACOUSTICS = ("none", "melspec", "pitch", "prosody", "speech")
CAUSAL = ("none", "melspec", "speech")


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
        ("model.acoustic=mfcc", f"model.acoustic: expected one of {ACOUSTICS}, got 'mfcc'"),
        ("model.acoustic=speech", "model.speech: expected a speech encoder with model.acoustic 'speech', got ''"),
        ("model.speech=a/b", "model.speech: expected '' with model.acoustic 'none', got 'a/b'"),
        ("model.speech_layer=-2", "model.speech_layer: expected at least -1, got -2"),
        ("model.mark_map={'!': '!'}", "model.mark_map: expected values out of model.marks, got ['!']"),
        ("data.max_pieces=15", "data.max_pieces: expected at least 16, got 15"),
        (
            "model.fusion=late",
            "model.fusion: expected one of ('forced_alignment', 'onset', 'attention', 'both', 'gate'), got 'late'",
        ),
        ("model.lexical=gru", "model.lexical: expected one of ('transformer', 'blstm', 'lstm'), got 'gru'"),
        ("model.tokens=letters", "model.tokens: expected one of ('pieces', 'words'), got 'letters'"),
        ("model.tokens=words", "model.tokens: expected 'pieces' with model.lexical 'transformer', got 'words'"),
        ("model.embeddings=encoder", "model.embeddings: expected '' with model.lexical 'transformer', got 'encoder'"),
        ("model.lookahead=-1", "model.lookahead: expected null or at least 0, got -1"),
        ("model.lexical_dim=0", "model.lexical_dim: expected at least 1, got 0"),
        ("model.embedding_dim=0", "model.embedding_dim: expected at least 1, got 0"),
        ("model.word_min_count=0", "model.word_min_count: expected at least 1, got 0"),
        ("model.lstm_dim=0", "model.lstm_dim: expected at least 1, got 0"),
        ("train=5", "override: expected a mapping at train., got int"),
        ("train.precision=fp8", "train.precision: expected fp32 or bf16, got 'fp8'"),
        ("train.accumulate=0", "train.accumulate: expected a number of at least 1, got 0"),
        ("train.log_every_steps=0", "train.log_every_steps: expected a number of at least 1, got 0"),
        ("train.save_every_steps=0", "train.save_every_steps: expected a number of at least 1, got 0"),
        ("train.layer_decay=0", "train.layer_decay: expected above 0, at most 1, got 0.0"),
        ("train.layer_decay=1.1", "train.layer_decay: expected above 0, at most 1, got 1.1"),
        ("train.label_smoothing=1", "train.label_smoothing: expected at least 0, below 1, got 1.0"),
        ("train.max_grad_norm=-1", "train.max_grad_norm: expected a number of at least 0, got -1.0"),
    ],
)
def test_errors(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as e:
        Config.load(None, [override])
    assert str(e.value) == message


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("lexical=blstm", "lookahead=2"),
            "model.lookahead: expected null with model.lexical 'blstm' (it reads from the end), got 2",
        ),
        (
            ("acoustic=pitch", "lookahead=0"),
            f"model.acoustic: expected one of {CAUSAL} with model.lookahead (pitch hears ahead), got 'pitch'",
        ),
        (
            ("lexical=lstm", "tokens=words", "embeddings=encoder"),
            "model.embeddings: expected '' or a file of word vectors with model.tokens 'words', got 'encoder'",
        ),
        (
            ("lexical=lstm", "embeddings=v.txt"),
            "model.embeddings: expected '' or 'encoder' with model.tokens 'pieces', got 'v.txt'",
        ),
    ],
)
def test_options_that_do_not_go_together(overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError) as e:
        Config.load(None, [f"model.{o}" for o in overrides])
    assert str(e.value) == message


def test_the_key_onset_of_older_versions(tmp_path: Path) -> None:
    for onset, fusion in ((True, "onset"), (False, "forced_alignment")):
        assert model_config_from_dict({"onset": onset}, "config.json").fusion == fusion
        assert Config.load(None, [f"model.onset={onset}"]).model.fusion == fusion
        path = tmp_path / "c.yaml"
        path.write_text(f"model: {{onset: {str(onset).lower()}, timing: false}}\n")
        assert Config.load(str(path)).model.fusion == fusion
    assert ModelConfig().fusion == "onset"
    assert model_config_from_dict({}, "config.json").fusion == "onset"


def test_a_lookahead_is_a_number_or_null(tmp_path: Path) -> None:
    assert Config.load(None, ["model.lookahead=0"]).model.lookahead == 0
    assert Config.load(None, ["model.lookahead=null"]).model.lookahead is None
    config = Config.load(None, ["model.lookahead=2"])
    path = tmp_path / "c.yaml"
    path.write_text(config.dump())
    assert Config.load(str(path)) == config


@pytest.mark.parametrize(
    ("fusion", "lookahead", "by_times"),
    [("forced_alignment", None, True), ("onset", None, True), ("attention", None, False), ("attention", 0, True),
     ("both", None, False), ("gate", None, False)],
)  # fmt: skip
def test_who_hears_by_times(fusion: str, lookahead: int | None, by_times: bool) -> None:
    assert ModelConfig(fusion=fusion, lookahead=lookahead).hears_by_times == by_times


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
    with pytest.raises(ConfigError, match=r"unknown key 'magic'.*newer kaldi_punct"):
        model_config_from_dict({"magic": True}, "config.json")
