"""Examples (one window of a conversation each) -> padded Batches.

Legend of axes, here and in models/: B batch, W words, P pieces, T frames, F feature bins, D model width, C labels,
N hypotheses, K timing features. Order (B, time, feature). A mask is True where there is something real.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

from kaldi_punct.timing import N_TIMING

IGNORE = -100  # a target that no loss sees
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Example:
    """One window, ready to be padded.

    Attributes:
        piece_ids: (P,) with the two special pieces.
        word_starts: (W,) index of each word's first piece; the word's pieces run up to the next word's.
        timing: (W, K) timing features.
        frames: (T, F) acoustic frames; None where nothing was heard.
        last_frames: (W,) frame in which the word ends; -1 unknown.
        onset_frames: (W,) frame of the next word's onset; -1 unknown.
        marks, cases: (W,) targets, IGNORE where unknown; None outside training.
        weights: (W,) how much each word counts in the loss; None: 1.
        source: utterances and words that it was cut from, for messages; "" outside training.
    """

    piece_ids: Ints
    word_starts: Ints
    timing: Floats
    frames: Floats | None = None
    last_frames: Ints | None = None
    onset_frames: Ints | None = None
    marks: Ints | None = None
    cases: Ints | None = None
    source: str = ""
    weights: Floats | None = None

    @property
    def n_pieces(self) -> int:
        """Length in pieces, special ones included: what a batch pays for."""
        return len(self.piece_ids)

    @property
    def n_words(self) -> int:
        """Length in words."""
        return len(self.word_starts)


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded examples.

    Attributes:
        piece_ids: (B, P) int64; piece_mask: (B, P) bool.
        piece_words: (B, P) index of the word a piece belongs to; -1 at special and padding pieces.
        first_pieces, last_pieces: (B, W) index of each word's first and last piece.
        word_mask: (B, W) bool.
        timing: (B, W, K) float32; special pieces take none.
        frames: (B, T, F) float32 or None; frame_lens: (B,).
        last_frames, onset_frames: (B, W) int64, -1 unknown.
        marks, cases: (B, W) int64 with IGNORE, or None.
        weights: (B, W) float32 of the words in the loss, or None: all 1.
    """

    piece_ids: Ints
    piece_mask: NDArray[np.bool_]
    piece_words: Ints
    first_pieces: Ints
    last_pieces: Ints
    word_mask: NDArray[np.bool_]
    timing: Floats
    frames: Floats | None
    frame_lens: Ints
    last_frames: Ints
    onset_frames: Ints
    marks: Ints | None
    cases: Ints | None
    weights: Floats | None = None


class PieceTable:
    """Pieces of words by a tokenizer, each word by itself and remembered."""

    def __init__(self, tokenizer: Tokenizer, cls_id: int, sep_id: int, unk_id: int) -> None:
        self.cls_id, self.sep_id, self.unk_id = cls_id, sep_id, unk_id
        prefix = " " if isinstance(tokenizer.pre_tokenizer, ByteLevel) else ""

        @lru_cache(maxsize=200_000)
        def pieces(word: str) -> tuple[int, ...]:
            # A word that the tokenizer swallows whole (a zero-width character) still needs a place.
            return tuple(tokenizer.encode(prefix + word, add_special_tokens=False).ids) or (unk_id,)

        self._pieces = pieces

    def __call__(self, word: str) -> tuple[int, ...]:
        """Piece ids of one word, lower-cased; never empty."""
        return self._pieces(word.lower())


def collate(examples: Sequence[Example]) -> Batch:
    """Pads examples into one batch."""
    n_b = len(examples)
    n_p = max(e.n_pieces for e in examples)
    n_w = max(max(e.n_words for e in examples), 1)
    ids = np.zeros((n_b, n_p), np.int64)
    piece_mask = np.zeros((n_b, n_p), bool)
    piece_words = np.full((n_b, n_p), -1, np.int64)
    first = np.zeros((n_b, n_w), np.int64)
    last = np.zeros((n_b, n_w), np.int64)
    word_mask = np.zeros((n_b, n_w), bool)
    timing = np.zeros((n_b, n_w, N_TIMING), np.float32)
    for b, e in enumerate(examples):
        n, w = e.n_pieces, e.n_words
        ids[b, :n] = e.piece_ids
        piece_mask[b, :n] = True
        ends = np.append(e.word_starts[1:], n - 1) if w else e.word_starts
        first[b, :w], last[b, :w] = e.word_starts, ends - 1
        if w:
            piece_words[b, 1 : n - 1] = np.repeat(np.arange(w), ends - e.word_starts)
        word_mask[b, :w] = True
        timing[b, :w] = e.timing
    frames, frame_lens = _pad_frames(examples)
    return Batch(
        ids,
        piece_mask,
        piece_words,
        first,
        last,
        word_mask,
        timing,
        frames,
        frame_lens,
        _pad_words([e.last_frames for e in examples], n_b, n_w, -1),
        _pad_words([e.onset_frames for e in examples], n_b, n_w, -1),
        _pad_targets([e.marks for e in examples], n_b, n_w),
        _pad_targets([e.cases for e in examples], n_b, n_w),
        _pad_weights([e.weights for e in examples], n_b, n_w),
    )


def batch_by_budget(examples: Iterable[Example], max_padded_pieces: int) -> Iterator[list[Example]]:
    """Groups consecutive examples while longest x count stays within the budget; one that is longer goes alone."""
    group: list[Example] = []
    longest = 0
    for example in examples:
        longest_then = max(longest, example.n_pieces)
        if group and longest_then * (len(group) + 1) > max_padded_pieces:
            yield group
            group, longest_then = [], example.n_pieces
        group.append(example)
        longest = longest_then
    if group:
        yield group


def _pad_frames(examples: Sequence[Example]) -> tuple[Floats | None, Ints]:
    lens = np.asarray([0 if e.frames is None else len(e.frames) for e in examples], np.int64)
    if not lens.any():
        return None, lens
    n_f = next(e.frames.shape[1] for e in examples if e.frames is not None)
    frames = np.zeros((len(examples), int(lens.max()), n_f), np.float32)
    for b, e in enumerate(examples):
        if e.frames is not None:
            frames[b, : len(e.frames)] = e.frames
    return frames, lens


def _pad_words(rows: Sequence[Ints | None], n_b: int, n_w: int, fill: int) -> Ints:
    out = np.full((n_b, n_w), fill, np.int64)
    for b, row in enumerate(rows):
        if row is not None:
            out[b, : len(row)] = row
    return out


def _pad_targets(rows: Sequence[Ints | None], n_b: int, n_w: int) -> Ints | None:
    return None if all(r is None for r in rows) else _pad_words(rows, n_b, n_w, IGNORE)


def _pad_weights(rows: Sequence[Floats | None], n_b: int, n_w: int) -> Floats | None:
    if all(r is None for r in rows):
        return None
    out = np.ones((n_b, n_w), np.float32)
    for b, row in enumerate(rows):
        if row is not None:
            out[b, : len(row)] = row
    return out
