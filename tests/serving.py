"""What the tests of the service share: a tiny model with random weights, and a real server in a thread."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig

from kaldi_punct.checkpoint import Checkpoint
from kaldi_punct.config import DataConfig, ModelConfig
from kaldi_punct.kaldi.lattice import Decoder
from kaldi_punct.models.muse import Muse
from kaldi_punct.punctuator import Punctuator
from kaldi_punct.serve.server import ServeOptions, Server
from kaldi_punct.types import Word

LETTERS = "abcdefghijklmnopqrstuvwxyz'<>[]-.0123456789"


def tiny_checkpoint(acoustic: str = "melspec", seed: int = 1, fusion: str = "onset") -> Checkpoint:
    """A model of a few thousand weights, random but sure of itself, whose pieces are letters."""
    torch.manual_seed(seed)
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, **{c: i + 4 for i, c in enumerate(LETTERS)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    encoder = BertConfig(vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                         intermediate_size=64, max_position_embeddings=512, hidden_dropout_prob=0.0,
                         attention_probs_dropout_prob=0.0)  # fmt: skip
    config = ModelConfig(n_layers=2, acoustic=acoustic, fusion=fusion, timing_dim=8, lstm_dim=16)
    model = Muse(config, encoder)
    with torch.no_grad():
        for head in (model.mark_head, model.case_head):
            head.weight.mul_(15)
        for parameter in model.lexical.parameters():
            if parameter.ndim == 2:
                parameter.mul_(4)
    model.eval()
    return Checkpoint(model, config, DataConfig(), tokenizer, (2, 3, 1), encoder, name=f"tiny-{acoustic}", version="7")


@contextmanager
def running_server(
    punctuators: Mapping[str, Punctuator], decoders: Mapping[str, Decoder] | None = None, **options: object
) -> Iterator[str]:
    """The address of a server in a thread of its own; it is stopped at the end."""
    chosen = dataclasses.replace(ServeOptions(listen="localhost:0", grace_s=2.0), **options)
    ready = threading.Event()
    state: dict[str, object] = {}

    async def main() -> None:
        state["loop"], state["stop"] = asyncio.get_running_loop(), asyncio.Event()
        server = Server(punctuators, decoders or {}, chosen)
        try:
            await server.start()
            state["port"] = server.port
            ready.set()
            await state["stop"].wait()
        finally:
            await server.stop()

    def run() -> None:
        try:
            asyncio.run(main())
        except Exception as e:
            state["error"] = e
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(120)
    if "error" in state:
        thread.join()
        raise state["error"]
    try:
        yield f"localhost:{state['port']}"
    finally:
        state["loop"].call_soon_threadsafe(state["stop"].set)
        thread.join(30)
        assert not thread.is_alive()


def some_words(n: int, seed: int, *, times: bool = True) -> list[Word]:
    """n made-up words, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    words = []
    end_s = 0.0
    for _ in range(n):
        draws = torch.randint(0, 26, (2 + int(torch.randint(0, 5, (1,), generator=generator)),), generator=generator)
        start_s = end_s + float(torch.rand(1, generator=generator, dtype=torch.float64)) * 0.4
        duration_s = 0.1 + float(torch.rand(1, generator=generator, dtype=torch.float64)) * 0.3
        end_s = start_s + duration_s
        text = "".join(LETTERS[i] for i in draws)
        words.append(Word(text, start_s, duration_s, 0.5, "spk") if times else Word(text))
    return words
