"""The objective of masked words: an encoder learns a domain as its decoder writes it, without marks or case."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from kaldi_punct.batch import IGNORE, Ints, PieceTable
from kaldi_punct.errors import ConfigError, FormatError
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.labels import is_word
from kaldi_punct.models.contrastive import Outcome
from kaldi_punct.models.mlm import (
    load_masked_lm,
    load_tokenizer,
    new_masked_lm,
    save_masked_lm,
    tell_masked,
    train_wordpiece,
)
from kaldi_punct.pretraining_config import MlmConfig, PretrainingConfig
from kaldi_punct.waves import Report

log = logging.getLogger(__name__)

MASK_SHARE, RANDOM_SHARE = 0.8, 0.1  # of the pieces asked for (Devlin et al., 2019); the rest stays as it is


@dataclass(frozen=True, slots=True)
class MaskedBatch:
    """Windows of words, some of whose pieces are hidden.

    Attributes:
        names: recording of each window.
        piece_ids: (B, P) int64 with the two special pieces.
        piece_mask: (B, P) bool, False at padding.
        targets: (B, P) int64, the true piece where it is asked for, else IGNORE.
    """

    names: tuple[str, ...]
    piece_ids: Ints
    piece_mask: NDArray[np.bool_]
    targets: Ints

    def __len__(self) -> int:
        return len(self.names)

    def part(self, first: int, last: int) -> MaskedBatch:
        """The windows ``first`` to one before ``last``."""
        rows = slice(first, last)
        return MaskedBatch(self.names[rows], self.piece_ids[rows], self.piece_mask[rows], self.targets[rows])


@dataclass(frozen=True, slots=True)
class Pieces:
    """The words of one recording as pieces: ids of all of them in order, and where each word begins."""

    name: str
    ids: Ints
    starts: Ints


class MaskedWords:
    """A model that is taught, and what it is taught with; see ``pretraining.Objective``.

    Args:
        config: options of the run; ``mlm.encoder`` goes on from a pretrained one, or is None for one from scratch with
            pieces of its own.
        train_dirs: Kaldi data directories with ``ctm``, ``text`` or ``text_punct``.
        dev_dirs: the same, for validation.
        cache_dir: where a vocabulary that was learned is kept.
        report: takes each utterance that is left out.

    Raises:
        CheckpointError: no such encoder.
        ConfigError: windows longer than the encoder reaches.
        FormatError: directories without words.
    """

    CACHE = "pieces"  # its folder in the directory of a run
    PEAK_LR = 1e-4
    BATCH_OPTION, LENGTH_OPTION = "mlm.batch_pieces", "mlm.max_pieces"

    def __init__(
        self,
        config: PretrainingConfig,
        train_dirs: Sequence[Path],
        dev_dirs: Sequence[Path],
        cache_dir: Path,
        report: Report,
    ) -> None:
        self._options, self._seed = config.mlm, config.pretrain.seed
        train_texts = [read_words(d, report) for d in train_dirs]
        if self._options.encoder is not None:
            self.tokenizer = load_tokenizer(self._options.encoder)
            self.model = load_masked_lm(self._options.encoder, self._options)
        else:
            self.tokenizer = self._learn_pieces([" ".join(w) for text in train_texts for _, w in text], cache_dir)
            self.model = new_masked_lm(self._options, len(self.tokenizer))
        reach = getattr(self.model.config, "max_position_embeddings", None)
        if isinstance(reach, int) and self._options.max_pieces > reach:
            raise ConfigError(f"mlm.max_pieces: expected at most {reach}, got {self._options.max_pieces}")
        backend, cls, sep = self.tokenizer, self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        self._table = PieceTable(backend.backend_tokenizer, cls, sep, backend.unk_token_id)
        self._train = [p for d, text in zip(train_dirs, train_texts, strict=True) for p in self._cut(d, text)]
        self._dev = [self._cut(d, read_words(d, report)) for d in dev_dirs]

    def epoch(self, epoch: int) -> MaskedBatches:
        """What to learn from in one epoch."""
        return self._batches(self._train, [self._seed, epoch])

    def dev(self, i: int) -> MaskedBatches:
        """The i-th validation set; the same pieces are hidden in each epoch."""
        return self._batches(self._dev[i], [0])

    def names(self, batch: MaskedBatch) -> Sequence[str]:
        """The recordings of a batch."""
        return batch.names

    def outcome(self, batch: MaskedBatch, device: torch.device) -> Outcome:
        """What the model makes of a batch."""
        ids, mask, targets = (
            torch.from_numpy(a).to(device) for a in (batch.piece_ids, batch.piece_mask, batch.targets)
        )
        return tell_masked(self.model, ids, mask, targets)

    def save(self, directory: Path) -> None:
        """Writes a transformers directory, for ``model.encoder``."""
        save_masked_lm(self.model, self.tokenizer, directory)

    def _learn_pieces(self, texts: Sequence[str], cache_dir: Path) -> PreTrainedTokenizerFast:
        """The vocabulary of a run: learned once, so that a run that goes on has the same."""
        if not (cache_dir / "tokenizer.json").is_file():
            tokenizer = train_wordpiece(texts, self._options.vocab_size, self._options.min_piece_count)
            tokenizer.save_pretrained(cache_dir)
            log.info("%d pieces learned from %d recordings", len(tokenizer), len(texts))
        return load_tokenizer(str(cache_dir))

    def _cut(self, directory: Path, text: Sequence[tuple[str, list[str]]]) -> list[Pieces]:
        out = []
        for rec_id, words in text:
            pieces = [self._table(w) for w in words]
            starts = np.cumsum([0, *(len(p) for p in pieces)])[:-1]
            out.append(Pieces(f"{directory.name}/{rec_id}", np.array([i for p in pieces for i in p], np.int64), starts))
        log.info("%s: %d recordings, %d pieces", directory, len(out), sum(len(p.ids) for p in out))
        return out

    def _batches(self, texts: Sequence[Pieces], seed: Sequence[int]) -> MaskedBatches:
        return MaskedBatches(texts, self._options, self.tokenizer, seed)


class MaskedBatches:
    """The batches of one epoch, which depend on (seed, epoch) alone, so that an epoch can be entered at any batch.

    Whole words are hidden, all pieces of one together. Windows begin at other words in each epoch.

    Args:
        texts: the recordings.
        options: of the objective.
        tokenizer: for its special pieces.
        seed: (seed, epoch), or one number for windows and hidden words without chance.
    """

    def __init__(
        self, texts: Sequence[Pieces], options: MlmConfig, tokenizer: PreTrainedTokenizerFast, seed: Sequence[int]
    ) -> None:
        self._texts, self._options, self._seed = texts, options, list(seed)
        self._special = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id)
        self._plain = np.setdiff1d(np.arange(len(tokenizer)), tokenizer.all_special_ids)
        rng = np.random.default_rng(self._seed)
        moves, budget = len(self._seed) > 1, options.max_pieces - 2
        windows = [w for i, text in enumerate(texts) for w in _cut_windows(i, text, budget, rng if moves else None)]
        windows.sort(key=lambda w: w[2] - w[1])
        self._groups: list[list[tuple[int, int, int]]] = []
        for window in windows:
            longest = window[2] - window[1] + 2
            if not self._groups or longest * (len(self._groups[-1]) + 1) > options.batch_pieces:
                self._groups.append([])
            self._groups[-1].append(window)
        if moves:
            self._groups = [self._groups[k] for k in rng.permutation(len(self._groups)).tolist()]

    def __len__(self) -> int:
        return len(self._groups)

    def batch(self, i: int) -> MaskedBatch:
        """One batch."""
        windows, rng = self._groups[i], np.random.default_rng([*self._seed, i])
        cls_id, sep_id, _ = self._special
        width = max(stop - start for _, start, stop in windows) + 2
        ids = np.zeros((len(windows), width), np.int64)
        mask = np.zeros((len(windows), width), bool)
        targets = np.full((len(windows), width), IGNORE, np.int64)
        for row, (k, start, stop) in enumerate(windows):
            n = stop - start
            ids[row, 0], ids[row, n + 1] = cls_id, sep_id
            ids[row, 1 : n + 1], targets[row, 1 : n + 1] = self._hide(self._texts[k], start, stop, rng)
            mask[row, : n + 2] = True
        return MaskedBatch(tuple(self._texts[k].name for k, _, _ in windows), ids, mask, targets)

    def _hide(self, text: Pieces, start: int, stop: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Pieces start..stop with some words hidden, and what stood there."""
        ids = text.ids[start:stop].copy()
        word = np.searchsorted(text.starts, np.arange(start, stop), side="right") - 1
        first, last = int(word[0]), int(word[-1])
        asked = (rng.random(last - first + 1) < self._options.mask_prob)[word - first]
        if not asked.any():  # every window asks for something
            asked = word == rng.integers(first, last + 1)
        targets = np.where(asked, ids, IGNORE)
        fate = rng.random(len(ids))
        ids[asked & (fate < MASK_SHARE)] = self._special[2]
        drawn = asked & (fate >= MASK_SHARE) & (fate < MASK_SHARE + RANDOM_SHARE)
        ids[drawn] = rng.choice(self._plain, int(drawn.sum()))
        return ids, targets


def read_words(directory: Path, report: Report) -> list[tuple[str, list[str]]]:
    """(recording, its words) of a Kaldi data directory; tokens that are no words are left out.

    Raises:
        FormatError: a directory that breaks its format, or without words.
    """
    out: list[tuple[str, list[str]]] = []
    data_dir = DataDir(directory)
    for utt_id, error in data_dir.errors.items():
        report(error, utt_id)
    for conversation in data_dir.conversations():
        words = [w.word for u in conversation.utterances for w in u.words if is_word(w.word)]
        if words:
            out.append((conversation.rec_id, words))
    if not out:
        raise FormatError(f"{directory}: expected words in ctm, text or text_punct, got none")
    return out


def _cut_windows(i: int, text: Pieces, budget: int, rng: np.random.Generator | None) -> Iterator[tuple[int, int, int]]:
    """(recording, first piece, one past the last) of windows of whole words; a word beyond the budget is cut."""
    ends = np.append(text.starts[1:], len(text.ids))
    first, room = 0, budget if rng is None else int(budget * rng.uniform(0.4, 1.0))
    while first < len(text.starts):
        start = int(text.starts[first])
        stop_word = max(int(np.searchsorted(ends, start + room, side="right")), first + 1)
        yield i, start, min(int(ends[stop_word - 1]), start + budget)
        first, room = stop_word, budget
