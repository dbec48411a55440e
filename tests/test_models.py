"""MuSe as a whole: shapes, masks, timing, read-outs, and independence of batch mates."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from nets import assert_alone_equals_in_a_batch, build, make_example, run

from kaldi_punct.models.acoustic import AcousticEncoder
from kaldi_punct.models.muse import pick_pieces, spread_to_pieces


@pytest.mark.parametrize("acoustic", ["none", "melspec"])
@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("read_out", ["last", "first", "mean"])
def test_alone_equals_in_a_batch(acoustic: str, timing: bool, read_out: str) -> None:
    model = build(acoustic=acoustic, timing=timing, read_out=read_out)
    n_frames = 40 if acoustic != "none" else None
    assert_alone_equals_in_a_batch(
        model, make_example(3, 1, n_frames), make_example(9, 2, None if n_frames is None else 90)
    )


def test_timing_matters_and_its_absence_is_the_same_as_zeros() -> None:
    example = make_example(5, 1)
    hidden = dataclasses.replace(example, timing=np.zeros_like(example.timing))
    assert not torch.allclose(run(build(), example).marks, run(build(), hidden).marks)
    assert torch.equal(run(build(timing=False), example).marks, run(build(timing=False), hidden).marks)


def test_the_normaliser_is_part_of_the_weights() -> None:
    encoder = AcousticEncoder(4, 8, 3)
    assert {"mean", "std"} <= set(encoder.state_dict())
    frames = torch.randn(1, 9, 4)
    before = encoder(frames)
    encoder.mean.fill_(0.5)
    assert not torch.allclose(before, encoder(frames))


def test_pieces_and_words_find_each_other() -> None:
    words = torch.tensor([[[1.0], [2.0]]])
    spread = spread_to_pieces(words, torch.tensor([[-1, 0, 0, 1, -1]]))
    assert spread.flatten().tolist() == [0.0, 1.0, 1.0, 2.0, 0.0]
    assert pick_pieces(spread, torch.tensor([[2, 3]])).flatten().tolist() == [1.0, 2.0]
