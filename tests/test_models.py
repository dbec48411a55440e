"""The networks: shapes, masks, causality, what is unknown, and independence of batch mates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from transformers import BertConfig

from kaldi_punct.batch import Example, collate
from kaldi_punct.config import ModelConfig
from kaldi_punct.models.acoustic import AcousticEncoder
from kaldi_punct.models.fusion import ForcedAlignmentFusion
from kaldi_punct.models.muse import Logits, Muse, pick_pieces, spread_to_pieces, to_inputs
from kaldi_punct.timing import N_TIMING

Build = Callable[..., Muse]


@pytest.fixture
def build() -> Build:
    def make(**options: object) -> Muse:
        encoder = BertConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        torch.manual_seed(3)
        model = Muse(ModelConfig(n_layers=2, timing_dim=8, lstm_dim=12, **options), encoder).eval()  # type: ignore[arg-type]
        if model.timing_to_pieces is not None:
            torch.nn.init.normal_(model.timing_to_pieces.weight)
        return model

    return make


def make_example(n_words: int, seed: int, n_frames: int | None = None) -> Example:
    rng = np.random.default_rng(seed)
    n_pieces = rng.integers(1, 4, n_words)
    starts = 1 + np.concatenate([[0], np.cumsum(n_pieces)[:-1]])
    ids = np.concatenate([[2], rng.integers(4, 50, n_pieces.sum()), [3]])
    example = Example(ids, starts, rng.random((n_words, N_TIMING), np.float32))
    if n_frames is None:
        return example
    last = np.sort(rng.integers(0, n_frames, n_words))
    return dataclasses.replace(
        example,
        frames=rng.random((n_frames, 80), np.float32),
        last_frames=last,
        onset_frames=np.minimum(last + 3, n_frames - 1),
    )


def run(model: Muse, *examples: Example) -> Logits:
    with torch.inference_mode():
        logits: Logits = model(to_inputs(collate(examples), torch.device("cpu")))
    return logits


@pytest.mark.parametrize("acoustic", ["none", "melspec"])
@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("read_out", ["last", "first", "mean"])
def test_alone_equals_in_a_batch(build: Build, acoustic: str, timing: bool, read_out: str) -> None:
    model = build(acoustic=acoustic, timing=timing, read_out=read_out)
    n_frames = 40 if acoustic != "none" else None
    short, long = make_example(3, 1, n_frames), make_example(9, 2, None if n_frames is None else 90)
    together = run(model, short, long)
    assert together.marks.shape == (2, 9, 4)
    assert together.cases.shape == (2, 9, 4)
    for b, example in enumerate((short, long)):
        alone = run(model, example)
        torch.testing.assert_close(together.marks[b, : example.n_words], alone.marks[0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(together.cases[b, : example.n_words], alone.cases[0], atol=1e-5, rtol=1e-5)


def test_heard_and_unheard_in_one_batch(build: Build) -> None:
    model = build(acoustic="melspec")
    heard, unheard = make_example(4, 1, 50), make_example(6, 2)
    together = run(model, heard, unheard)
    torch.testing.assert_close(together.marks[1], run(model, unheard).marks[0], atol=1e-5, rtol=1e-5)
    silent = dataclasses.replace(heard, frames=None, last_frames=None, onset_frames=None)
    assert not torch.allclose(run(model, heard).marks, run(model, silent).marks)


def test_timing_matters_and_its_absence_is_the_same_as_zeros(build: Build) -> None:
    example = make_example(5, 1)
    hidden = dataclasses.replace(example, timing=np.zeros_like(example.timing))
    assert not torch.allclose(run(build(), example).marks, run(build(), hidden).marks)
    assert torch.equal(run(build(timing=False), example).marks, run(build(timing=False), hidden).marks)


def test_the_onset_read_out_is_read_only_where_asked_for(build: Build) -> None:
    example = make_example(5, 1, 60)
    assert example.onset_frames is not None
    other = dataclasses.replace(example, onset_frames=np.zeros_like(example.onset_frames))
    assert not torch.allclose(
        run(build(acoustic="melspec"), example).marks, run(build(acoustic="melspec"), other).marks
    )
    without = build(acoustic="melspec", onset=False)
    assert torch.equal(run(without, example).marks, run(without, other).marks)


def test_acoustic_states_do_not_hear_the_future() -> None:
    torch.manual_seed(1)
    encoder = AcousticEncoder(80, 12, 5).eval()
    frames = torch.randn(1, 30, 80)
    changed = frames.clone()
    changed[:, 20:] += 1.0
    before, after = encoder(frames), encoder(changed)
    assert torch.equal(before[:, :20], after[:, :20])
    assert not torch.allclose(before[:, 20:], after[:, 20:])


def test_the_normaliser_is_part_of_the_weights() -> None:
    encoder = AcousticEncoder(4, 8, 3)
    assert {"mean", "std"} <= set(encoder.state_dict())
    frames = torch.randn(1, 9, 4)
    before = encoder(frames)
    encoder.mean.fill_(0.5)
    assert not torch.allclose(before, encoder(frames))


def test_fusion_reads_the_states_at_the_words_frames() -> None:
    fusion = ForcedAlignmentFusion(2, onset=True)
    torch.nn.init.constant_(fusion.missing, 7.0)
    states = torch.arange(10, dtype=torch.float32).reshape(1, 5, 2)
    out = fusion(states, torch.tensor([[1, -1]]), torch.tensor([[4, -1]]))
    assert out.tolist() == [[[2.0, 3.0, 8.0, 9.0], [7.0, 7.0, 7.0, 7.0]]]
    assert fusion(None, torch.tensor([[1]]), torch.tensor([[2]])).tolist() == [[[7.0] * 4]]


def test_pieces_and_words_find_each_other() -> None:
    words = torch.tensor([[[1.0], [2.0]]])
    spread = spread_to_pieces(words, torch.tensor([[-1, 0, 0, 1, -1]]))
    assert spread.flatten().tolist() == [0.0, 1.0, 1.0, 2.0, 0.0]
    assert pick_pieces(spread, torch.tensor([[2, 3]])).flatten().tolist() == [1.0, 2.0]
