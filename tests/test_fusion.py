"""Fusions of sound and words: shapes, masks, what is missing, and what each of them rests on."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from nets import assert_alone_equals_in_a_batch, assert_gradient_reaches_every_parameter, build, make_example, run

from kaldi_punct.batch import Example, collate
from kaldi_punct.config import FUSIONS
from kaldi_punct.models.acoustic import AcousticEncoder
from kaldi_punct.models.fusion import AttentionFusion, BothFusion, ForcedAlignmentFusion, GateFusion, Heard
from kaldi_punct.models.muse import Muse, pick_pieces, spread_to_pieces, to_inputs

BY_TIMES = ("forced_alignment", "onset")
ATTENDING = ("attention", "both", "gate")


def model_of(fusion: str) -> Muse:
    return build(acoustic="melspec", fusion=fusion)


def same(a: Example, b: Example, model: Muse) -> bool:
    return torch.allclose(run(model, a).marks, run(model, b).marks, atol=1e-5)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_alone_equals_in_a_batch(fusion: str) -> None:
    untimed = dataclasses.replace(make_example(5, 4, 61), last_frames=None, onset_frames=None)
    examples = make_example(3, 1, 40), make_example(9, 2, 91), make_example(6, 3), untimed
    assert_alone_equals_in_a_batch(model_of(fusion), *examples)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_gradients(fusion: str) -> None:
    # Words heard and unheard, so that what stands for missing sound learns too.
    assert_gradient_reaches_every_parameter(model_of(fusion), make_example(7, 1, 60), make_example(5, 2))


@pytest.mark.parametrize("fusion", FUSIONS)
def test_sixteen_bits(fusion: str) -> None:
    model, inputs = model_of(fusion), to_inputs(collate([make_example(7, 1, 60)]), torch.device("cpu"))
    with torch.autocast("cpu", torch.bfloat16):
        marks = model(inputs).marks
    marks.float().sum().backward()
    torch.testing.assert_close(marks.float(), model(inputs).marks, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_sound_matters_and_its_absence_is_learned(fusion: str) -> None:
    model, heard = model_of(fusion), make_example(6, 1, 60)
    assert heard.frames is not None
    other = dataclasses.replace(heard, frames=heard.frames + 1.0)
    silent = dataclasses.replace(heard, frames=None, last_frames=None, onset_frames=None)
    empty = dataclasses.replace(heard, frames=heard.frames[:0], last_frames=np.full(6, -1), onset_frames=np.full(6, -1))
    assert not same(heard, other, model)
    assert not same(heard, silent, model)
    assert same(silent, empty, model)
    before = run(model, silent).marks
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("missing"):
                parameter.add_(1.0)
    assert not torch.allclose(before, run(model, silent).marks)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_words_without_times(fusion: str) -> None:
    model, timed = model_of(fusion), make_example(6, 1, 60)
    untimed = dataclasses.replace(timed, last_frames=None, onset_frames=None)
    unheard = dataclasses.replace(untimed, frames=None)
    # Attention hears them all the same; words that are read by their times are then as without sound.
    assert same(untimed, unheard, model) == (fusion in BY_TIMES)
    assert same(timed, untimed, model) == (fusion == "attention")


@pytest.mark.parametrize("fusion", FUSIONS)
def test_words_outside_the_sound(fusion: str) -> None:
    model, example = model_of(fusion), make_example(6, 1, 60)
    assert example.last_frames is not None
    assert example.onset_frames is not None
    inside = np.arange(6) < 4
    outside = dataclasses.replace(
        example,
        last_frames=np.where(inside, example.last_frames, -1),
        onset_frames=np.where(inside, example.onset_frames, -1),
    )
    silent = dataclasses.replace(example, frames=None, last_frames=None, onset_frames=None)
    marks, whole, none = (run(model, e).marks[0] for e in (outside, example, silent))
    torch.testing.assert_close(marks[:4], whole[:4], atol=1e-5, rtol=1e-5)
    assert torch.allclose(marks[4:], none[4:], atol=1e-5) == (fusion in BY_TIMES)
    assert torch.allclose(marks[4:], whole[4:], atol=1e-5) == (fusion == "attention")


@pytest.mark.parametrize("fusion", FUSIONS)
def test_what_is_read_at_word_times(fusion: str) -> None:
    model, example = model_of(fusion), make_example(6, 1, 60)
    assert example.last_frames is not None
    assert example.onset_frames is not None
    other_onsets = dataclasses.replace(example, onset_frames=np.full(6, 59))
    other_ends = dataclasses.replace(example, last_frames=np.maximum(example.last_frames - 9, 0))
    assert same(example, other_onsets, model) == (fusion in ("forced_alignment", "attention"))
    assert same(example, other_ends, model) == (fusion == "attention")


def test_a_state_is_given_to_all_pieces_of_its_word() -> None:
    """What the paper does piece by piece is the same as reading words: whichever piece of a word is read later."""
    words = torch.tensor([[[1.0], [2.0]]])
    piece_words = torch.tensor([[-1, 0, 0, 1, -1]])
    for pieces_read in ([1, 3], [2, 3]):
        given = spread_to_pieces(words, piece_words)
        assert pick_pieces(given, torch.tensor([pieces_read])).equal(words)


def heard(n_states: int = 5, until: list[int] | None = None) -> Heard:
    states = torch.arange(10, dtype=torch.float32).reshape(1, 5, 2)
    last, onset = torch.tensor([[1, -1]]), torch.tensor([[4, -1]])
    return Heard(states, torch.tensor([n_states]), last, onset, None if until is None else torch.tensor([until]))


def test_forced_alignment_reads_the_states_at_the_words_frames() -> None:
    fusion = ForcedAlignmentFusion(2, onset=True)
    torch.nn.init.constant_(fusion.missing, 7.0)
    words = torch.zeros(1, 2, 3)
    assert fusion(words, heard()).tolist() == [[[2.0, 3.0, 8.0, 9.0], [7.0, 7.0, 7.0, 7.0]]]
    assert fusion(words, None).tolist() == [[[7.0] * 4] * 2]


def test_attention_weighs_the_states_by_their_projected_keys() -> None:
    fusion = AttentionFusion(3, 2)
    torch.nn.init.constant_(fusion.missing, 7.0)
    torch.nn.init.zeros_(fusion.key.weight)
    words = torch.ones(1, 2, 3)
    assert fusion(words, heard()).tolist() == [[[4.0, 5.0]] * 2]  # the mean of all
    assert fusion(words, heard(n_states=2)).tolist() == [[[1.0, 2.0]] * 2]  # padding is not heard
    assert fusion(words, heard(until=[1, -1])).tolist() == [[[1.0, 2.0], [7.0, 7.0]]]
    assert fusion(words, None).tolist() == [[[7.0, 7.0]] * 2]
    torch.nn.init.constant_(fusion.key.weight, 0.1)
    # Scores grow by 0.2 x 2 x 3 / sqrt(3) from state to state.
    weights = torch.softmax(torch.arange(5) * 0.4 * 3 / 3**0.5, 0)
    torch.testing.assert_close(fusion(words, heard())[0, 0], weights @ heard().states[0])


def test_both_stand_side_by_side() -> None:
    fusion = BothFusion(3, 2)
    words = torch.randn(1, 2, 3)
    parts = [fusion.aligned(words, heard()), fusion.attention(words, heard())]
    assert torch.equal(fusion(words, heard()), torch.cat(parts, -1))
    assert fusion.width == 6


def test_the_gate_chooses() -> None:
    torch.manual_seed(1)
    fusion = GateFusion(3, 2)
    words = torch.randn(1, 2, 3)
    aligned, attended = fusion.project(fusion.aligned(words, heard())), fusion.attention(words, heard())
    for bias, chosen in ((50.0, aligned), (-50.0, attended)):
        torch.nn.init.zeros_(fusion.gate.weight)
        torch.nn.init.constant_(fusion.gate.bias, bias)
        torch.testing.assert_close(fusion(words, heard()), chosen)
    assert fusion.width == 2


@pytest.mark.parametrize("stride", [1, 2])
def test_states_do_not_hear_the_future(stride: int) -> None:
    torch.manual_seed(1)
    encoder = AcousticEncoder(80, 12, 5, stride).eval()
    frames = torch.randn(1, 31, 80)
    before = encoder(frames)
    assert before.shape == (1, encoder.n_states(torch.tensor(31)), 12)
    for last in (18, 19):
        changed = frames.clone()
        changed[:, last + 1 :] += 1.0
        after = encoder(changed)
        known = int(encoder.state_at(torch.tensor(last))) + 1
        assert torch.equal(before[:, :known], after[:, :known])
        assert not torch.allclose(before[:, known], after[:, known])
    assert encoder.state_at(torch.tensor([-1, 0, 5])).tolist() == [-1, 0, 5 // stride]


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_stride_of_the_convolution(fusion: str) -> None:
    acoustic = model_of(fusion).acoustic
    assert acoustic is not None
    assert acoustic.conv.stride == ((2,) if fusion in ATTENDING else (1,))
