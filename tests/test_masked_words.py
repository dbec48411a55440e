"""Masked words: what is hidden, a vocabulary of its own, an encoder that goes on and is then punctuated with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import SENTENCES, write_data_dir, write_encoder
from transformers import AutoTokenizer

from kaldi_punct.batch import IGNORE
from kaldi_punct.config import Config
from kaldi_punct.errors import CheckpointError, ConfigError, FormatError
from kaldi_punct.masked_words import MaskedBatches, Pieces, read_words
from kaldi_punct.models.mlm import tell_masked, train_wordpiece
from kaldi_punct.pretraining import pretrain
from kaldi_punct.pretraining_config import MlmConfig, PretrainingConfig
from kaldi_punct.training import train

SMALL = ("mlm.encoder=null", "mlm.n_layers=2", "mlm.hidden_dim=32", "mlm.n_heads=2", "mlm.vocab_size=60",
         "mlm.max_pieces=48", "mlm.batch_pieces=192", "pretrain.peak_lr=0.01", "pretrain.warmup_steps=2",
         "pretrain.n_threads=1")  # fmt: skip


def options(*more: str) -> PretrainingConfig:
    return PretrainingConfig.load(None, [*SMALL, *more])


def run(train_dir: Path, dev_dir: Path, exp: Path, config: PretrainingConfig) -> Path:
    errors: list[Exception] = []
    done = pretrain("mlm", [train_dir], [dev_dir], exp, config, lambda e, _: errors.append(e))
    assert not errors
    return done.best_dir


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_dir(tmp_path_factory.mktemp("data") / "train", n_utts=8)


@pytest.fixture(scope="module")
def tokenizer():  # type: ignore[no-untyped-def]
    return train_wordpiece(SENTENCES, 80, 1)


def test_pieces_are_learned_lower_cased_and_few_enough() -> None:
    texts = ["the sea the seas THE see", "a the"]
    pieces = train_wordpiece(texts, 20, 1)
    assert len(pieces) <= 20
    assert pieces.tokenize("The") == ["the"]
    assert pieces.cls_token_id == 2
    assert len(train_wordpiece(texts, 1000, 3)) < len(train_wordpiece(texts, 1000, 1))
    with pytest.raises(FormatError, match="expected words to learn pieces from, got none"):
        train_wordpiece([""], 20, 1)


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=40), min_size=1, max_size=5),
    seed=st.lists(st.integers(0, 9), min_size=1, max_size=2),
    max_pieces=st.integers(4, 20),
)
def test_every_piece_is_there_once_and_whole_words_are_hidden(
    tokenizer, lengths: list[list[int]], seed: list[int], max_pieces: int
) -> None:  # type: ignore[no-untyped-def]
    texts, n = [], len(tokenizer)
    for k, words in enumerate(lengths):
        ids = np.random.default_rng(k).integers(5, n, sum(words))
        texts.append(Pieces(f"rec{k}", ids, np.cumsum([0, *words])[:-1]))
    batches = MaskedBatches(texts, MlmConfig(max_pieces=max_pieces, batch_pieces=3 * max_pieces), tokenizer, seed)
    seen: dict[str, int] = {}
    for i in range(len(batches)):
        batch, again = batches.batch(i), batches.batch(i)
        assert np.array_equal(batch.piece_ids, again.piece_ids)
        assert batch.piece_ids.shape[1] <= max_pieces
        assert batch.piece_ids.size <= 3 * max_pieces
        for name, row, mask, targets in zip(batch.names, batch.piece_ids, batch.piece_mask, batch.targets, strict=True):
            n_real = int(mask.sum())
            assert row[0] == tokenizer.cls_token_id
            assert row[n_real - 1] == tokenizer.sep_token_id
            assert not row[n_real:].any()
            assert (targets != IGNORE).any()
            assert (targets[[0, n_real - 1]] == IGNORE).all()
            kept = (targets == IGNORE)[1 : n_real - 1]
            assert not (row[1 : n_real - 1][kept] == tokenizer.mask_token_id).any()
            seen[name] = seen.get(name, 0) + n_real - 2
    if max_pieces >= 6:  # longer than any word: nothing is cut
        assert seen == {t.name: len(t.ids) for t in texts}


def test_how_much_is_hidden(tokenizer) -> None:  # type: ignore[no-untyped-def]
    ids = np.random.default_rng(1).integers(5, len(tokenizer), 20_000)
    text = Pieces("rec", ids, np.arange(len(ids)))
    batches = MaskedBatches([text], MlmConfig(max_pieces=64, mask_prob=0.15), tokenizer, [1, 0])
    every = [batches.batch(i) for i in range(len(batches))]
    targets = np.concatenate([b.targets.ravel() for b in every])
    given_ids = np.concatenate([b.piece_ids.ravel() for b in every])
    asked = targets != IGNORE
    assert asked.sum() == pytest.approx(0.15 * len(ids), rel=0.1)
    assert (given_ids[asked] == tokenizer.mask_token_id).mean() == pytest.approx(0.8, abs=0.03)
    assert (given_ids[asked] == targets[asked]).mean() == pytest.approx(0.1, abs=0.03)
    assert MaskedBatches([text], MlmConfig(max_pieces=64), tokenizer, [1, 1]).batch(0).piece_ids.tolist() != (
        every[0].piece_ids.tolist()
    )


def test_words_without_marks_and_noises(tmp_path: Path) -> None:
    (tmp_path / "text_punct").write_text("utt1 Hello, [noise] you.\nutt2 [noise]\n")
    assert read_words(tmp_path, lambda *_: None) == [("utt1", ["hello", "you"])]
    (tmp_path / "text_punct").write_text("utt2 [noise]\n")
    with pytest.raises(FormatError, match="expected words in ctm, text or text_punct, got none"):
        read_words(tmp_path, lambda *_: None)


def test_nothing_asked_is_no_loss(tokenizer) -> None:  # type: ignore[no-untyped-def]
    class Known(torch.nn.Module):
        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> object:
            logits = torch.nn.functional.one_hot(input_ids, 9) * 50.0 * attention_mask.unsqueeze(-1)
            return type("Out", (), {"logits": logits})

    ids, mask = torch.tensor([[1, 4, 5, 2]]), torch.ones(1, 4, dtype=torch.bool)
    nothing = tell_masked(Known(), ids, mask, torch.full((1, 4), IGNORE))
    assert (float(nothing.loss), nothing.n) == (0.0, 0)
    told = tell_masked(Known(), ids, mask, torch.tensor([[IGNORE, 4, 6, IGNORE]]))
    assert (told.n, int(told.n_right)) == (2, 1)
    assert float(told.loss) == pytest.approx(25.0)


@pytest.mark.slow
def test_from_scratch_it_learns_and_is_an_encoder(data: Path, tmp_path: Path) -> None:
    best = run(data, data, tmp_path / "exp", options("pretrain.n_epochs=6"))
    lines = (tmp_path / "exp" / "results.jsonl").read_text().splitlines()
    assert len(lines) == 6
    losses = [float(line.partition('"loss": ')[2].partition("}")[0].partition(",")[0]) for line in lines]
    assert losses[-1] < losses[0]
    assert len(AutoTokenizer.from_pretrained(best)) <= 60
    overrides = [f"model.encoder={best}", "model.n_layers=1", "data.max_pieces=48", "train.batch_pieces=96",
                 "model.timing_dim=8", "train.max_steps=1", "train.n_threads=1"]  # fmt: skip
    assert (train(data, [], tmp_path / "punct", Config.load(None, overrides)) / "config.json").is_file()


@pytest.mark.slow
def test_it_goes_on_from_an_encoder(data: Path, tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder", mask=True)
    more = options(f"mlm.encoder={encoder}", "mlm.n_layers=1", "pretrain.max_steps=1")
    best = run(data, data, tmp_path / "exp", more)
    before, after = (AutoTokenizer.from_pretrained(d).get_vocab() for d in (encoder, best))
    assert before == after


def test_an_encoder_without_a_mask_piece(data: Path, tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    with pytest.raises(CheckpointError, match="expected a fast tokenizer with a mask piece"):
        run(data, data, tmp_path / "exp", options(f"mlm.encoder={encoder}"))


def test_windows_longer_than_the_encoder_reaches(data: Path, tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder", mask=True)
    with pytest.raises(ConfigError, match=r"mlm\.max_pieces: expected at most 128, got 256"):
        run(
            data,
            data,
            tmp_path / "exp",
            options(f"mlm.encoder={encoder}", "mlm.max_pieces=256", "mlm.batch_pieces=256"),
        )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("mlm.mask_prob=0", r"mlm\.mask_prob: expected a probability above 0, got 0"),
        ("mlm.hidden_dim=33", r"mlm\.hidden_dim: expected a multiple of mlm\.n_heads"),
        ("mlm.batch_pieces=10", r"mlm\.batch_pieces: expected at least mlm\.max_pieces"),
        ("mlm.vocab_size=3", r"mlm\.vocab_size: expected at least 6"),
    ],
)
def test_wrong_options(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        options(override)
