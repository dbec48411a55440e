"""Speech made of numbers, in which the sound alone decides the mark: each word has its own bins, so has each mark."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from transformers import BertConfig

from kaldi_punct.batch import Example, collate
from kaldi_punct.config import ModelConfig
from kaldi_punct.models.muse import Muse, to_inputs
from kaldi_punct.models.objective import label_loss
from kaldi_punct.types import Word
from kaldi_punct.windows import Sound, build_track, cut_example

VOCABULARY = ("ape", "bee", "cow", "dog", "eel", "fox")
MARKS = ["", ".", "?"]
N_SPOKEN = 4  # words of an utterance, none of them twice
FRAME_SHIFT_S = 0.05
LEAD_FRAMES, WORD_FRAMES, GAP_FRAMES = 12, 4, 2


class Whole:
    """A table with one piece a word, [CLS] and [SEP] around."""

    cls_id, sep_id = 0, 1

    def __call__(self, word: str) -> tuple[int, ...]:
        return (2 + VOCABULARY.index(word),)


def speak(rng: np.random.Generator, by_times: bool) -> tuple[list[Word], Sound, list[int]]:
    """Words with times, how they sound, and the mark heard in each."""
    spoken = rng.permutation(len(VOCABULARY))[:N_SPOKEN].tolist()
    marks = rng.integers(0, len(MARKS), N_SPOKEN).tolist()
    frames = rng.normal(0, 0.1, (2 * LEAD_FRAMES + N_SPOKEN * (WORD_FRAMES + GAP_FRAMES), 80)).astype(np.float32)
    words = []
    for i, (w, mark) in enumerate(zip(spoken, marks, strict=True)):
        first = LEAD_FRAMES + i * (WORD_FRAMES + GAP_FRAMES)
        frames[first : first + WORD_FRAMES, 5 * w : 5 * w + 5] += 1.0
        if mark:
            frames[first : first + WORD_FRAMES, 50 + 5 * mark : 55 + 5 * mark] += 1.0
        words.append(Word(VOCABULARY[w], first * FRAME_SHIFT_S, WORD_FRAMES * FRAME_SHIFT_S))
    return words, Sound(frames, FRAME_SHIFT_S, by_times=by_times), marks


def make_examples(n: int, seed: int, *, by_times: bool, shift_s: float = 0.0, timed: bool = True) -> list[Example]:
    """Examples of utterances, every word time moved by ``shift_s`` or taken away."""
    rng = np.random.default_rng(seed)
    examples = []
    for _ in range(n):
        words, sound, marks = speak(rng, by_times)
        if timed:
            words = [dataclasses.replace(w, start_s=(w.start_s or 0.0) + shift_s) for w in words]
        else:
            words = [Word(w.word) for w in words]
        targets = np.array(marks, np.int64)
        track = build_track(words, Whole(), sound)
        examples.append(cut_example(track, 0, len(words), Whole(), 16, 2.0, targets, np.full(len(words), -100)))  # type: ignore[arg-type]
    return examples


def train_muse(fusion: str, n_steps: int, *, lookahead: int | None = None) -> Muse:
    """A tiny model without timing features, trained on the synthetic speech."""
    config = ModelConfig(
        n_layers=1,
        timing=False,
        acoustic="melspec",
        fusion=fusion,
        lookahead=lookahead,
        lstm_dim=24,
        conv_kernel=3,
        marks=MARKS,
        dropout=0.0,
    )
    encoder = BertConfig(
        vocab_size=2 + len(VOCABULARY),
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.3,
    )
    torch.manual_seed(5)
    model = Muse(config, encoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(n_steps):
        batch = collate(make_examples(24, 1000 + step, by_times=config.hears_by_times))
        assert batch.marks is not None
        assert batch.cases is not None
        logits = model(to_inputs(batch, torch.device("cpu")))
        loss = label_loss(logits, torch.as_tensor(batch.marks), torch.as_tensor(batch.cases), 0.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def accuracy(model: Muse, *, shift_s: float = 0.0, timed: bool = True) -> float:
    """Share of marks that a model hears right in new utterances."""
    examples = make_examples(60, 1, by_times=model.config.hears_by_times, shift_s=shift_s, timed=timed)
    batch = collate(examples)
    with torch.inference_mode():
        found = model(to_inputs(batch, torch.device("cpu"))).marks.argmax(-1).numpy()
    assert batch.marks is not None
    return float((found == batch.marks).mean())
