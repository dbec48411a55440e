"""Streaming models: nothing beyond the lookahead changes a label, and what has come so far is enough for it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from nets import N_PIECES, assert_alone_equals_in_a_batch, assert_gradient_reaches_every_parameter, build, make_example
from nets import run as run_examples
from torch import Tensor
from transformers import AutoConfig

from kaldi_punct.batch import Example
from kaldi_punct.config import FUSIONS
from kaldi_punct.errors import CheckpointError
from kaldi_punct.features import compute
from kaldi_punct.models.causal import causal_mask, heard_until, past_timing
from kaldi_punct.models.lexical import LexicalEncoder, check_causal
from kaldi_punct.models.muse import Muse
from kaldi_punct.timing import FIELDS, MAX_ONSET_DELAY_S, timing_features
from kaldi_punct.types import Audio, Word
from kaldi_punct.windows import Sound, build_track, cut_example

SHIFT_S = 0.05
HEARD = ("none", *FUSIONS)


class Spell:
    """A table whose words have one to three pieces."""

    cls_id, sep_id = 2, 3

    def __call__(self, word: str) -> tuple[int, ...]:
        return tuple(4 + ord(c) % (N_PIECES - 4) for c in word)


def streaming(lexical: str, heard: str, lookahead: int) -> Muse:
    options = {"acoustic": "none"} if heard == "none" else {"acoustic": "melspec", "fusion": heard}
    return build(lexical=lexical, lookahead=lookahead, **options)


def make_words(n: int, seed: int) -> list[Word]:
    """Words of two speakers with confidences and times, some of them without times."""
    rng = np.random.default_rng(seed)
    words, now_s = [], 0.3
    for i in range(n):
        text = "".join(rng.choice(list("abcdefgh"), int(rng.integers(1, 4))))
        duration_s = float(rng.choice([0.1, 0.2, 0.35]))
        timed = bool(rng.random() < 0.8) or i == 0
        word = Word(text, now_s, duration_s) if timed else Word(text)
        words.append(dataclasses.replace(word, confidence=float(rng.random()), spk_id=str(rng.integers(0, 2))))
        now_s += duration_s + float(rng.choice([0.0, 0.05, 0.3, 0.9]))
    return words


def make_frames(n: int, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).random((n, 80), np.float32)


def to_example(words: list[Word], frames: np.ndarray[Any, np.dtype[np.float32]]) -> Example:
    track = build_track(words, Spell(), Sound(frames, SHIFT_S))
    return cut_example(track, 0, len(words), Spell(), 64, 2.0)  # type: ignore[arg-type]


def label(model: Muse, words: list[Word], frames: np.ndarray[Any, np.dtype[np.float32]]) -> Tensor:
    logits = run_examples(model, to_example(words, frames))
    return torch.cat([logits.marks, logits.cases], -1)[0]


def reach_s(model: Muse, words: list[Word], i: int) -> float:
    """Until when the label of word i may hear: the end of the last word in its lookahead, or its own onset read-out."""
    k = model.config.lookahead or 0
    ends = [e for w in words[: i + k + 1] if (e := w.end_s) is not None]
    until_s = max(ends, default=0.0)
    end_s = words[i].end_s
    if model.acoustic is not None and model.config.fusion in ("onset", "both", "gate") and end_s is not None:
        after = words[i + 1].start_s if i + 1 < len(words) else None
        until_s = max(until_s, end_s + MAX_ONSET_DELAY_S if after is None else min(after, end_s + MAX_ONSET_DELAY_S))
    return until_s


def frames_until(time_s: float) -> int:
    return math.ceil(round(time_s / SHIFT_S, 6))


def change_after(words: list[Word], kept: int, move_first: bool) -> list[Word]:
    """Words of another text, speaker, confidence and time from ``kept`` on; the first of them may keep its start."""
    out = words[:kept]
    for n, word in enumerate(words[kept:]):
        late_s = 0.0 if n == 0 and not move_first else 0.11
        start_s = None if word.start_s is None else word.start_s + late_s
        duration_s = None if word.duration_s is None else word.duration_s + 0.07
        out.append(Word("z" + word.word[:2], start_s, duration_s, 0.5, f"other{word.spk_id}"))
    return out


@pytest.mark.parametrize("lookahead", [0, 1, 3])
@pytest.mark.parametrize("heard", HEARD)
@pytest.mark.parametrize("lexical", ["transformer", "lstm"])
def test_the_future_changes_nothing(lexical: str, heard: str, lookahead: int) -> None:
    model = streaming(lexical, heard, lookahead)
    for seed in (1, 2):
        words, frames = make_words(10, seed), make_frames(400, seed)
        before = label(model, words, frames)
        for i in (2, 5):
            kept = i + lookahead + 1
            # An onset read-out knows when the next word begins, be it beyond the lookahead.
            knows_onset = lookahead == 0 and heard in ("onset", "both", "gate")
            n_frames = frames_until(reach_s(model, words, i))
            noise = np.concatenate([frames[:n_frames], make_frames(400 - n_frames, seed + 9)])
            after = label(model, change_after(words, kept, not knows_onset), noise)
            torch.testing.assert_close(after[: i + 1], before[: i + 1], atol=1e-5, rtol=1e-5)
            # It is no accident: each word sees as far as it may, and its own word and sound.
            assert (after[i + 1 :] - before[i + 1 :]).abs().amax(1).min() > 1e-4


@pytest.mark.parametrize("lookahead", [0, 1, 3])
@pytest.mark.parametrize("heard", HEARD)
@pytest.mark.parametrize("lexical", ["transformer", "lstm"])
def test_what_has_come_so_far_is_enough(lexical: str, heard: str, lookahead: int) -> None:
    """A window that ends with the lookahead gives a word the same label as the whole: masked equals incremental."""
    model = streaming(lexical, heard, lookahead)
    words, frames = make_words(9, 4), make_frames(400, 4)
    whole = to_example(words, frames)
    marks = run_examples(model, whole).marks[0]
    for i in range(9 - lookahead):
        so_far = to_example(words[: i + lookahead + 1], frames[: frames_until(reach_s(model, words, i))])
        if not lookahead and whole.onset_frames is not None and so_far.onset_frames is not None:
            so_far.onset_frames[i] = whole.onset_frames[i]  # known as soon as the next word begins
        torch.testing.assert_close(run_examples(model, so_far).marks[0, i], marks[i], atol=1e-5, rtol=1e-5)


def test_without_lookahead_all_words_see_all() -> None:
    words, frames = make_words(8, 1), make_frames(400, 1)
    for lexical in ("transformer", "blstm"):
        model = build(lexical=lexical, acoustic="melspec")
        changed = label(model, change_after(words, 7, True), frames)
        assert (changed - label(model, words, frames)).abs().amax(1).min() > 1e-4


@pytest.mark.parametrize("heard", HEARD)
@pytest.mark.parametrize(("lexical", "lookahead"), [("transformer", 0), ("transformer", 2), ("lstm", 0), ("lstm", 2)])
def test_streaming_models_in_batches_and_in_training(lexical: str, heard: str, lookahead: int) -> None:
    n = None if heard == "none" else 1
    examples = make_example(3, 1, n and 40), make_example(9, 2, n and 91), make_example(6, 3)
    assert_alone_equals_in_a_batch(streaming(lexical, heard, lookahead), *examples)
    assert_gradient_reaches_every_parameter(streaming(lexical, heard, lookahead), *examples)


def test_masks_of_pieces() -> None:
    piece_words = torch.tensor([[-1, 0, 0, 1, 2, -1, -1]])
    sees = causal_mask(piece_words, 0)
    assert sees.dtype == torch.bool
    assert sees[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 1, 0, 0],
        [1, 1, 1, 1, 1, 0, 0],
        [1, 1, 1, 1, 1, 0, 0],
    ]
    levels = causal_mask(piece_words, 1)
    assert levels[0, 0, :5].tolist() == [
        [2, 0, 0, 0, 0, 0, 0],
        [2, 2, 2, 1, 0, 0, 0],
        [2, 2, 2, 1, 0, 0, 0],
        [2, 2, 2, 2, 1, 0, 0],
        [2, 2, 2, 2, 2, 0, 0],
    ]


def test_timing_of_the_past() -> None:
    words = [Word("a", 0.0, 0.2, 0.9, "x"), Word("b", 0.5, 0.2, 0.8, "y"), Word("c", 0.8, 0.2, 0.7, "y")]
    timing = torch.as_tensor(timing_features(words)).unsqueeze(0)
    past = past_timing(timing)[0]
    after, speaker, known = FIELDS.index("pause_after"), FIELDS.index("speaker_change"), len(FIELDS)
    assert not past[:, [after, after + known]].any()
    assert past[:, speaker].tolist() == [0.0, 1.0, 0.0]
    assert past[:, speaker + known].tolist() == [0.0, 1.0, 1.0]
    rest = [c for c in range(2 * known) if c % known not in (after, speaker)]
    assert torch.equal(past[:, rest], timing[0][:, rest])


def test_how_far_words_hear() -> None:
    last = torch.tensor([[-1, 3, -1, 9], [2, 5, -1, -1]])
    assert heard_until(last, 0).tolist() == [[-1, 3, 3, 9], [2, 5, 5, 5]]
    assert heard_until(last, 2).tolist() == [[3, 9, 9, 9], [5, 5, 5, 5]]


def test_frames_know_nothing_of_later_sound() -> None:
    samples = np.random.default_rng(1).normal(0, 0.1, 8000).astype(np.float32)
    frames = compute("melspec", Audio(samples, 8000))
    # Frame t covers 10 ms from t x 10 ms on; its window ends 15 ms later.
    n_frames = 40
    part = compute("melspec", Audio(samples[: n_frames * 80 + 120], 8000))
    assert np.array_equal(part, frames[:n_frames])


def small_encoder(kind: str) -> Any:
    sizes = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
    names = {"intermediate_size": 32, "max_position_embeddings": 40, "pad_token_id": 0}
    if kind == "distilbert":
        sizes = {"vocab_size": 20, "dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 32}
        names = {"max_position_embeddings": 40}
    if kind == "electra":
        names["embedding_size"] = 8
    return AutoConfig.for_model(kind, **sizes, **names)


@pytest.mark.parametrize("lookahead", [0, 2])
@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "electra", "modernbert"])
def test_kinds_of_encoders_heed_the_mask(kind: str, lookahead: int) -> None:
    torch.manual_seed(1)
    encoder = LexicalEncoder(small_encoder(kind), lookahead).eval()
    assert encoder.transformer.config._attn_implementation == "sdpa"  # type: ignore[union-attr]
    for parameter in encoder.parameters():
        parameter.data.mul_(3.0)
    check_causal(encoder, kind)
    piece_words = torch.tensor([[-1, 0, 1, 2, 3, 4, -1]])
    ids = torch.arange(4, 11).unsqueeze(0)
    added = torch.zeros(1, 7, encoder.input_width)
    with torch.no_grad():
        before = encoder(ids, ids > 0, piece_words, added)
        for word in range(5):
            other = ids.clone()
            other[0, 1 + word] = 15
            moved = (encoder(other, ids > 0, piece_words, None) - before)[0, 1:6].abs().amax(1) > 1e-4
            assert moved.tolist() == [i >= word - lookahead for i in range(5)]


def test_an_encoder_that_heeds_no_mask_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    encoder = LexicalEncoder(small_encoder("bert"), 0)
    forward = encoder.transformer.forward
    monkeypatch.setattr(encoder.transformer, "forward", lambda attention_mask, **rest: forward(**rest))
    with pytest.raises(CheckpointError) as e:
        check_causal(encoder, "org/name")
    assert str(e.value) == (
        "model.lookahead: expected an encoder that heeds an attention mask of four axes, got 'org/name' (BertModel), "
        "in which words see more than 0 ahead; take another model.encoder, or lookahead null"
    )
    assert encoder.training
    check_causal(LexicalEncoder(small_encoder("bert")), "org/name")  # without lookahead there is nothing to heed


def test_layers_that_cannot_be_told_apart_are_refused() -> None:
    LexicalEncoder(AutoConfig.for_model("albert", hidden_size=16, num_attention_heads=2, vocab_size=20), 0)
    with pytest.raises(CheckpointError) as e:
        LexicalEncoder(AutoConfig.for_model("albert", hidden_size=16, num_attention_heads=2, vocab_size=20), 1)
    assert str(e.value) == (
        "model.lookahead: expected 0 with AlbertModel, whose layers cannot be told apart; take another model.encoder, "
        "or lookahead 0"
    )
