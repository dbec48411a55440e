"""Baselines: LSTMs over pieces or words in place of the pretrained transformer (paper, section 4.2).

``blstm`` reads in both directions (Zelasko et al., 2018); ``lstm`` in one, for streaming: with a lookahead of k words,
a word's vector is the state at the word beside the state k words later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from kaldi_punct.config import ModelConfig
from kaldi_punct.errors import FormatError

SPECIAL_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORD_SPECIAL_IDS = (2, 3, 1)  # cls, sep, unk


@dataclass(frozen=True, slots=True)
class RecurrentConfig:
    """What a checkpoint must know of a baseline beside its ModelConfig."""

    vocab_size: int
    embedding_dim: int


class RecurrentEncoder(nn.Module):
    """Embeddings of pieces or words -> states of a deep LSTM (B, P, D)."""

    def __init__(self, config: ModelConfig, sizes: RecurrentConfig) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(sizes.vocab_size, sizes.embedding_dim)
        self.both_ways = config.lexical == "blstm"
        self.lstm = nn.LSTM(
            sizes.embedding_dim,
            config.lexical_dim,
            config.n_layers,
            batch_first=True,
            dropout=config.encoder_dropout if config.n_layers > 1 else 0.0,
            bidirectional=self.both_ways,
        )
        self.input_width = sizes.embedding_dim
        self.width = config.lexical_dim * (2 if self.both_ways else 1)

    def forward(self, piece_ids: Tensor, piece_mask: Tensor, piece_words: Tensor, added: Tensor | None) -> Tensor:  # noqa: ARG002
        """Vectors of pieces; arguments and result as those of ``LexicalEncoder``."""
        embedded = self.embeddings(piece_ids)  # (B, P, input_width)
        if added is not None:
            embedded = embedded + added
        if not self.both_ways:  # padding stands at the end: no state before it knows of it
            states: Tensor = self.lstm(embedded)[0]
            return states
        lengths = piece_mask.sum(1).cpu()
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=piece_ids.shape[1])
        return states


def word_tokenizer(counts: Mapping[str, int], min_count: int, known: Iterable[str] = ()) -> Tokenizer:
    """A tokenizer with one piece a word.

    Args:
        counts: how often the training set has each word, lower-cased.
        min_count: words that are there less often are unknown ones.
        known: words to take besides, for which vectors are given.
    """
    frequent = [w for w, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if n >= min_count]
    vocabulary = dict.fromkeys((*SPECIAL_WORDS, *frequent, *known))
    return Tokenizer(WordLevel({w: i for i, w in enumerate(vocabulary)}, unk_token="[UNK]"))


def read_word_vectors(path: str | Path) -> dict[str, Tensor]:
    """Word vectors of a text file, a line ``<word> <number> ...`` each (GloVe; word2vec and fastText with their head).

    Words are lower-cased; the first of equal ones counts.

    Raises:
        FormatError: no such file, no vectors in it, or a line of another width.
    """
    vectors: dict[str, Tensor] = {}
    width = 0
    try:
        with open(path, encoding="utf-8") as f:
            for n, line in enumerate(f, 1):
                fields = line.rstrip().split(" ")
                if n == 1 and len(fields) == 2 and all(f.isdecimal() for f in fields):
                    continue  # the head of word2vec's text format: how many, how wide
                vector = _read_vector(fields[1:], width, f"{path}:{n}")
                width = len(vector)
                vectors.setdefault(fields[0].lower(), torch.tensor(vector))
    except OSError as e:
        raise FormatError(
            f"model.embeddings: expected a readable file of word vectors, got {path}: {e.strerror}"
        ) from e
    except UnicodeDecodeError as e:
        raise FormatError(f"{path}: expected word vectors as UTF-8 text, got: {e}") from e
    if not vectors:
        raise FormatError(f"{path}: expected lines '<word> <number> ...', got an empty file")
    return vectors


def _read_vector(fields: Sequence[str], width: int, where: str) -> list[float]:
    try:
        vector = [float(f) for f in fields]
    except ValueError:
        vector = []
    if not vector or width not in (0, len(vector)):
        raise FormatError(
            f"{where}: expected a word and {width or 'its'} numbers, separated by single blanks, "
            f"got {len(fields) + 1} fields"
        )
    return vector


def fill_embeddings(encoder: RecurrentEncoder, vectors: Mapping[int, Tensor]) -> None:
    """Puts given vectors into the embeddings; other rows are drawn with the deviation of the given ones."""
    given = torch.stack(list(vectors.values()))
    with torch.no_grad():
        encoder.embeddings.weight.normal_(0.0, float(given.std()))
        encoder.embeddings.weight[list(vectors)] = given
