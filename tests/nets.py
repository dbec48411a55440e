"""Tiny networks with seeded weights that were never trained, and examples for them."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from transformers import BertConfig

from kaldi_punct.batch import Example, collate
from kaldi_punct.config import ModelConfig
from kaldi_punct.models.baselines import RecurrentConfig
from kaldi_punct.models.muse import Logits, Muse, to_inputs
from kaldi_punct.timing import N_TIMING

N_PIECES = 50


def build(**options: object) -> Muse:
    """A model whose weights are large enough for answers to differ from word to word, and with the words around."""
    values = {"n_layers": 2, "timing_dim": 8, "lstm_dim": 12, "lexical_dim": 10, "embedding_dim": 14, **options}
    config = ModelConfig(**values)  # type: ignore[arg-type]
    encoder = BertConfig(
        vocab_size=N_PIECES,
        hidden_size=16,
        num_hidden_layers=config.n_layers,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(3)
    model = Muse(config, encoder if config.lexical == "transformer" else RecurrentConfig(N_PIECES, 14)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and "lstm" not in name:
                parameter.mul_(3.0)
        if model.timing_to_pieces is not None:
            torch.nn.init.normal_(model.timing_to_pieces.weight)
        if model.fusion is not None:
            for name, parameter in model.fusion.named_parameters():
                if name.endswith("missing"):
                    torch.nn.init.normal_(parameter)
    return model


def make_example(n_words: int, seed: int, n_frames: int | None = None) -> Example:
    """A window of random words, heard if it has frames."""
    rng = np.random.default_rng(seed)
    n_pieces = rng.integers(1, 4, n_words)
    starts = 1 + np.concatenate([[0], np.cumsum(n_pieces)[:-1]])
    ids = np.concatenate([[2], rng.integers(4, N_PIECES, n_pieces.sum()), [3]])
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
    """The logits of one batch."""
    with torch.inference_mode():
        logits: Logits = model(to_inputs(collate(examples), torch.device("cpu")))
    return logits


def assert_alone_equals_in_a_batch(model: Muse, *examples: Example) -> None:
    """Each row's logits do not depend on its batch mates, to 1e-5."""
    together = run(model, *examples)
    longest = max(e.n_words for e in examples)
    assert together.marks.shape == (len(examples), longest, len(model.config.marks))
    assert together.cases.shape == (len(examples), longest, 4)
    for b, example in enumerate(examples):
        alone = run(model, example)
        torch.testing.assert_close(together.marks[b, : example.n_words], alone.marks[0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(together.cases[b, : example.n_words], alone.cases[0], atol=1e-5, rtol=1e-5)


def assert_gradient_reaches_every_parameter(model: Muse, *examples: Example) -> None:
    """No parameter that training would move is left without a gradient."""
    model.train()
    logits = model(to_inputs(collate(examples), torch.device("cpu")))
    (logits.marks.square().sum() + logits.cases.square().sum()).backward()
    # A bias of attention's keys moves no weight, whatever it is.
    unreached = [
        name
        for name, p in model.named_parameters()
        if p.grad is None or (not name.endswith("key.bias") and not p.grad.any())
    ]
    assert unreached == []
