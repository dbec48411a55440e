"""Loss in parts, smoothed labels, rates by layer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import write_encoder

from kaldi_punct import checkpoint
from kaldi_punct.config import Config
from kaldi_punct.errors import ConfigError
from kaldi_punct.models.muse import Logits
from kaldi_punct.models.objective import label_loss, layer_heights, parameter_groups


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


def make(encoder: Path, *more: str) -> tuple[checkpoint.Checkpoint, Config]:
    config = Config.load(None, [f"model.encoder={encoder}", "model.n_layers=2", "data.max_pieces=64", *more])
    return checkpoint.create(config, lambda: {"a": 2}), config


def test_parts_of_a_batch_add_up_to_the_whole() -> None:
    torch.manual_seed(1)
    logits = Logits(torch.randn(4, 3, 4), torch.randn(4, 3, 4))
    marks, cases = torch.randint(0, 4, (4, 3)), torch.randint(0, 4, (4, 3))
    marks[0] = marks[2, 0] = cases[1:3] = -100  # unlike numbers of targets in both halves
    whole = label_loss(logits, marks, cases, 0.4)
    n_targets = torch.stack([(marks != -100).sum(), (cases != -100).sum()])
    parts = [
        label_loss(Logits(logits.marks[p], logits.cases[p]), marks[p], cases[p], 0.4, n_targets=n_targets)
        for p in (slice(0, 1), slice(1, 4))
    ]
    torch.testing.assert_close(parts[0] + parts[1], whole)


def test_smoothed_labels_are_spread_over_all_classes() -> None:
    logits = Logits(torch.randn(1, 2, 4), torch.zeros(1, 2, 4))
    marks, cases = torch.tensor([[3, -100]]), torch.full((1, 2), -100)
    log_probs = logits.marks[0, 0].log_softmax(0)
    wanted = torch.full((4,), 0.2 / 4)
    wanted[3] += 0.8
    torch.testing.assert_close(label_loss(logits, marks, cases, 0.4, 0.2), -(wanted * log_probs).sum())
    assert label_loss(logits, marks, cases, 0.4, 0.0) == label_loss(logits, marks, cases, 0.4)


def test_each_layer_below_learns_more_slowly(encoder: Path) -> None:
    made, config = make(encoder, "train.layer_decay=0.5", "train.peak_lr=0.008", "train.head_lr=0.1")
    rates = {}
    names = {id(p): name for name, p in made.model.named_parameters()}
    for group in parameter_groups(made.model, config):
        rates.update({names[id(p)]: group["lr"] for p in group["params"]})
    assert rates.keys() == set(names.values())
    for name, rate in rates.items():
        if ".layer.1." in name:
            assert rate == 0.008
        elif ".layer.0." in name:
            assert rate == 0.004
        elif name.startswith("lexical."):
            assert "embeddings" in name
            assert rate == 0.002
        else:
            assert rate == 0.1


def test_without_layer_decay_nothing_changes(encoder: Path) -> None:
    made, config = make(encoder)
    assert {g["lr"] for g in parameter_groups(made.model, config)} == {config.train.peak_lr, config.train.head_lr}


def test_layers_that_cannot_be_told_apart(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, config = make(encoder, "model.lexical=lstm", "train.layer_decay=0.9")
    message = r"^train\.layer_decay: expected 1 with model\.lexical 'lstm', which is not pretrained in layers$"
    with pytest.raises(ConfigError, match=message):
        parameter_groups(made.model, config)
    made, config = make(encoder, "train.layer_decay=0.9")
    made.model.config.n_layers = 3  # no list of so many
    with pytest.raises(ConfigError, match=r"^train\.layer_decay: expected 1 with BertModel, whose layers cannot"):
        layer_heights(made.model)
