"""Masked words: a transformer learns to tell pieces that are hidden (Devlin et al., 2019); its pieces, if it has none.

Axes: B batch, P pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from kaldi_punct.batch import IGNORE
from kaldi_punct.errors import CheckpointError, FormatError
from kaldi_punct.models.contrastive import Outcome
from kaldi_punct.models.lexical import encoder_dir, read_encoder_config
from kaldi_punct.pretraining_config import MlmConfig

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"


def load_masked_lm(name: str, options: MlmConfig) -> nn.Module:
    """The encoder called ``name``, truncated to its first layers, with a head that tells pieces.

    Where the encoder was saved without such a head, the head is new but for its embeddings, which are the encoder's.

    Raises:
        CheckpointError: nothing readable there, or fewer layers than asked for.
    """
    config = read_encoder_config(name, options.n_layers, options.dropout)
    try:
        model: nn.Module = AutoModelForMaskedLM.from_pretrained(encoder_dir(name), config=config, dtype=torch.float32)
    except (OSError, ValueError) as e:
        raise CheckpointError(f"mlm.encoder: expected a transformer that can tell masked words, got: {e}") from e
    return model


def new_masked_lm(options: MlmConfig, vocab_size: int) -> nn.Module:
    """A BERT from scratch; seed torch before the call."""
    config = BertConfig(
        vocab_size=vocab_size,
        hidden_size=options.hidden_dim,
        num_hidden_layers=options.n_layers,
        num_attention_heads=options.n_heads,
        intermediate_size=4 * options.hidden_dim,
        max_position_embeddings=options.max_pieces,
        hidden_dropout_prob=options.dropout,
        attention_probs_dropout_prob=options.dropout,
        pad_token_id=0,
    )
    return BertForMaskedLM(config)


def load_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """The tokenizer of an encoder.

    Raises:
        CheckpointError: none there, or one without a piece that stands for what cannot be seen.
    """
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(encoder_dir(name))
    except Exception as e:  # transformers raises nothing narrower for a broken file
        raise CheckpointError(f"mlm.encoder: expected a tokenizer at {name!r}, got: {e}") from e
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or tokenizer.mask_token_id is None:
        raise CheckpointError(f"mlm.encoder: expected a fast tokenizer with a mask piece at {name!r}, got none")
    return tokenizer


def train_wordpiece(texts: Iterable[str], vocab_size: int, min_count: int) -> PreTrainedTokenizerFast:
    """A WordPiece vocabulary of lower-cased words (the paper's has 28k pieces).

    Args:
        texts: what it is learned from; words are what spaces part, as a decoder prints them.
        vocab_size: pieces at most, the five special ones included.
        min_count: how often a piece must have been seen.

    Raises:
        FormatError: texts without words.
    """
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNK))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    specials = [PAD, UNK, CLS, SEP, MASK]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, min_frequency=min_count, special_tokens=specials, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() <= len(specials):
        raise FormatError("texts: expected words to learn pieces from, got none")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}", special_tokens=[(CLS, specials.index(CLS)), (SEP, specials.index(SEP))]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token=PAD, unk_token=UNK, cls_token=CLS, sep_token=SEP, mask_token=MASK
    )


def tell_masked(model: nn.Module, piece_ids: Tensor, piece_mask: Tensor, targets: Tensor) -> Outcome:
    """How well the model tells the pieces asked for.

    Args:
        model: a transformer with a head that gives ``logits`` (B, P, pieces).
        piece_ids: (B, P) int64, some of them hidden.
        piece_mask: (B, P) bool.
        targets: (B, P) int64, the true piece where it is asked for, else IGNORE.
    """
    logits: Tensor = model(input_ids=piece_ids, attention_mask=piece_mask.long()).logits
    asked = targets != IGNORE
    scores, truth = logits[asked].float(), targets[asked]  # (N, pieces), (N,)
    n = len(truth)
    loss = F.cross_entropy(scores, truth, reduction="sum") / max(n, 1)
    return Outcome(loss, n, (scores.argmax(-1) == truth).sum().detach() if n else torch.zeros((), dtype=torch.long))


def save_masked_lm(model: Any, tokenizer: PreTrainedTokenizerFast, directory: Path) -> None:
    """Writes a transformers directory, which ``model.encoder`` names."""
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
