"""A deaf model that learns to hear (train.learn=sound): it hears, and without sound it says what it always said."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny import write_data_dir, write_encoder

import kaldi_punct
from kaldi_punct import checkpoint as checkpoints
from kaldi_punct.config import FUSIONS, Config
from kaldi_punct.errors import ConfigError
from kaldi_punct.models.muse import AddedHead, learn_to_hear
from kaldi_punct.training import train
from kaldi_punct.types import Audio, Punctuated, Word

OPTIONS = (
    "model.timing_dim=8",
    "model.lstm_dim=8",
    "data.max_pieces=64",
    "train.batch_pieces=128",
    "train.n_threads=1",
)
HEARS = ("train.learn=sound", "model.acoustic=melspec", "train.head_lr=0.05", "data.hide_audio_prob=0.0")
WORDS = [Word("do", 0.1, 0.2), Word("you", 0.3, 0.2), Word("see", 0.5, 0.2), Word("well", 1.2, 0.2)]


@pytest.fixture(scope="module")
def deaf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("deaf")
    encoder = write_encoder(root / "encoder")
    data = write_data_dir(root / "train", n_utts=3)
    overrides = [f"model.encoder={encoder}", "model.n_layers=2", *OPTIONS, "train.max_steps=2"]
    return train(data, [], root / "exp", Config.load(None, overrides))


def options(deaf: Path, *more: str) -> Config:
    return Config.load(None, [f"train.init={deaf}", *OPTIONS, *HEARS, *more])


def probs(answer: Punctuated) -> list[float]:
    return [p for w in answer.words for p in w.label_probs]


@pytest.fixture
def noise() -> Audio:
    return Audio(np.random.default_rng(5).normal(0, 0.1, 16000).astype(np.float32), 8000)


@pytest.mark.slow
@pytest.mark.parametrize("fusion", FUSIONS)
def test_it_hears_and_answers_without_sound_as_before(deaf: Path, tmp_path: Path, fusion: str, noise: Audio) -> None:
    data = write_data_dir(tmp_path / "train", n_utts=3, with_sound=True)
    best = train(data, data, tmp_path / "exp", options(deaf, f"model.fusion={fusion}", "train.max_steps=4"))
    before, after = load_file(deaf / "model.safetensors"), load_file(best / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert after["sound_head.marks.weight"].abs().max() > 0
    assert after["acoustic.mean"].abs().max() > 1
    old, new = kaldi_punct.load(deaf), kaldi_punct.load(best)
    assert new.info.hears
    assert not old.info.hears
    assert probs(new(WORDS)) == probs(old(WORDS))
    assert probs(new(WORDS, audio=noise)) != probs(new(WORDS))


@pytest.mark.slow
def test_the_manner_of_the_recordings_is_learned_apart_and_not_answered(
    deaf: Path, tmp_path: Path, noise: Audio
) -> None:
    data = write_data_dir(tmp_path / "train", n_utts=3, with_sound=True)
    best = train(data, data, tmp_path / "exp", options(deaf, "train.max_steps=4"))
    checkpoint = checkpoints.load(best)
    with_manner = probs(kaldi_punct.Punctuator(checkpoint)(WORDS, audio=noise))
    head = checkpoint.model.manner_head
    assert head is not None
    assert head.marks.weight.abs().max() > 0
    for parameter in head.parameters():
        torch.nn.init.zeros_(parameter)
    assert probs(kaldi_punct.Punctuator(checkpoint)(WORDS, audio=noise)) == with_manner


@pytest.mark.parametrize("fusion", FUSIONS)
def test_it_begins_where_the_deaf_one_is(deaf: Path, fusion: str, noise: Audio) -> None:
    old = checkpoints.load(deaf)
    config = dataclasses.replace(old.config, acoustic="melspec", lstm_dim=8, fusion=fusion)
    model = learn_to_hear(old.model, old.encoder_config, config).eval()
    assert model.config.hearing == "added"
    assert isinstance(model.sound_head, AddedHead)
    new = kaldi_punct.Punctuator(dataclasses.replace(old, model=model, config=model.config))
    assert probs(new(WORDS, audio=noise)) == probs(kaldi_punct.load(deaf)(WORDS))


@pytest.mark.slow
def test_a_run_that_was_stopped_still_changes_nothing_else(deaf: Path, tmp_path: Path) -> None:
    data = write_data_dir(tmp_path / "train", n_utts=3, with_sound=True)
    whole = train(data, [], tmp_path / "whole", options(deaf, "train.n_epochs=2"))
    cut = options(deaf, "train.n_epochs=2", "train.save_every_steps=1")
    train(data, [], tmp_path / "cut", dataclasses.replace(cut, train=dataclasses.replace(cut.train, n_epochs=1)))
    (tmp_path / "cut" / "config.yaml").unlink()  # another number of epochs is another run
    after = load_file(train(data, [], tmp_path / "cut", cut) / "model.safetensors")
    before = load_file(deaf / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert set(after) == set(load_file(whole / "model.safetensors"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("train.learn=more",), r"train\.learn: expected one of \('all', 'sound'\), got 'more'"),
        (("train.learn=sound", "model.acoustic=melspec"), r"train\.init: expected a model that learns to hear"),
        (("train.learn=sound", "train.init=en"), r"model\.acoustic: expected what it will hear"),
        (("model.acoustic=pitch", "data.recolour=1"), r"data\.recolour: expected 0 with model\.acoustic 'pitch'"),
        (("data.recolour=-1",), r"data\.recolour: expected nepers, 0 up to below 10, got -1"),
        (("model.hearing=none",), r"model\.hearing: expected one of \('fused', 'added'\), got 'none'"),
    ],
)
def test_wrong_options(overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.load(None, list(overrides))


@pytest.mark.slow
def test_ears_learn_on(deaf: Path, tmp_path: Path) -> None:
    data = write_data_dir(tmp_path / "train", n_utts=2, with_sound=True)
    best = train(data, [], tmp_path / "exp", options(deaf, "train.max_steps=1"))
    other = options(best, "train.max_steps=1", "model.lstm_dim=4")  # the ears that are there stay as they are
    before = load_file(best / "model.safetensors")
    after = load_file(train(data, [], tmp_path / "again", other) / "model.safetensors")
    learned = {name for name in after if not torch.equal(before[name], after[name])}
    assert {name.partition(".")[0] for name in learned} == {"acoustic", "sound_head", "manner_head"}
    assert not {"acoustic.mean", "acoustic.std"} & learned
    assert set(after) == set(before)


@pytest.mark.slow
def test_a_model_that_always_heard_does_not_learn_to(deaf: Path, tmp_path: Path) -> None:
    data = write_data_dir(tmp_path / "train", n_utts=2, with_sound=True)
    encoder = write_encoder(tmp_path / "encoder")
    heard = [f"model.encoder={encoder}", "model.n_layers=2", *OPTIONS, "model.acoustic=melspec", "train.max_steps=1"]
    best = train(data, [], tmp_path / "exp", Config.load(None, heard))
    with pytest.raises(ConfigError, match=r"train\.init: expected a model without ears .* trained with sound from the"):
        train(data, [], tmp_path / "again", options(best, "train.max_steps=1"))


@pytest.mark.slow
def test_added_hearing_trains_from_scratch(tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    data = write_data_dir(tmp_path / "train", n_utts=3, with_sound=True)
    overrides = [
        f"model.encoder={encoder}",
        "model.n_layers=2",
        *OPTIONS,
        "model.acoustic=melspec",
        "model.hearing=added",
    ]
    after = load_file(train(data, [], tmp_path / "exp", Config.load(None, overrides)) / "model.safetensors")
    assert after["sound_head.marks.weight"].abs().max() > 0
    assert after["manner_head.marks.weight"].abs().max() == 0
