"""MuSe: truncated transformer, timing features and sound, fused by forced alignment (Sunkara et al., 2020).

One model serves with and without word times, and with and without sound: what is unknown has its known-bits at 0 and a
learned vector in place of the sound's.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

from kaldi_punct.batch import Batch
from kaldi_punct.config import ModelConfig
from kaldi_punct.features import FEATURE_DIMS
from kaldi_punct.models.acoustic import AcousticEncoder
from kaldi_punct.models.fusion import ForcedAlignmentFusion
from kaldi_punct.models.lexical import LexicalEncoder
from kaldi_punct.timing import N_TIMING
from kaldi_punct.types import Case


class Inputs(NamedTuple):
    """A Batch on the model's device; shapes as there."""

    piece_ids: Tensor
    piece_mask: Tensor
    piece_words: Tensor
    first_pieces: Tensor
    last_pieces: Tensor
    timing: Tensor
    frames: Tensor | None
    last_frames: Tensor
    onset_frames: Tensor


class Logits(NamedTuple):
    """Before softmax: marks (B, W, C) and cases (B, W, 4)."""

    marks: Tensor
    cases: Tensor


class Muse(nn.Module):
    """The model; complete after construction, weights random until they are loaded."""

    def __init__(self, config: ModelConfig, encoder_config: PreTrainedConfig) -> None:
        super().__init__()
        self.config = config
        self.lexical = LexicalEncoder(encoder_config)
        width = self.lexical.width
        self.timing: nn.Sequential | None = None
        self.timing_to_pieces: nn.Linear | None = None
        if config.timing:
            self.timing = nn.Sequential(
                nn.Linear(N_TIMING, config.timing_dim),
                nn.GELU(),
                nn.Linear(config.timing_dim, config.timing_dim),
                nn.GELU(),
            )
            # Begins at zero, so that training starts from the pretrained encoder as it is.
            self.timing_to_pieces = nn.Linear(config.timing_dim, width, bias=False)
            nn.init.zeros_(self.timing_to_pieces.weight)
        self.acoustic: AcousticEncoder | None = None
        self.fusion: ForcedAlignmentFusion | None = None
        fused = width + (config.timing_dim if config.timing else 0)
        if config.acoustic != "none":
            self.acoustic = AcousticEncoder(FEATURE_DIMS[config.acoustic], config.lstm_dim, config.conv_kernel)
            self.fusion = ForcedAlignmentFusion(config.lstm_dim, config.onset)
            fused += self.fusion.width
        self.dropout = nn.Dropout(config.dropout)
        self.mark_head = nn.Linear(fused, len(config.marks))
        self.case_head = nn.Linear(fused, len(Case))

    def forward(self, inputs: Inputs) -> Logits:
        """Logits of each word's mark and case."""
        parts = []
        added = None
        if self.timing is not None and self.timing_to_pieces is not None:
            timing = self.timing(inputs.timing)  # (B, W, H)
            added = spread_to_pieces(self.timing_to_pieces(timing), inputs.piece_words)  # (B, P, D)
            parts.append(timing)
        pieces = self.lexical(inputs.piece_ids, inputs.piece_mask, added)  # (B, P, D)
        parts.insert(0, self._read_out(pieces, inputs))  # (B, W, D)
        if self.acoustic is not None and self.fusion is not None:
            states = None if inputs.frames is None else self.acoustic(inputs.frames)  # (B, T, S)
            parts.append(self.fusion(states, inputs.last_frames, inputs.onset_frames))  # (B, W, S or 2S)
        fused = self.dropout(torch.cat(parts, dim=-1))
        return Logits(self.mark_head(fused), self.case_head(fused))

    def _read_out(self, pieces: Tensor, inputs: Inputs) -> Tensor:
        """One lexical vector a word: (B, P, D) -> (B, W, D)."""
        if self.config.read_out == "first":
            return pick_pieces(pieces, inputs.first_pieces)
        if self.config.read_out == "last":
            return pick_pieces(pieces, inputs.last_pieces)
        sums = torch.cat([torch.zeros_like(pieces[:, :1]), pieces.cumsum(1)], dim=1)  # (B, P + 1, D)
        n_pieces = (inputs.last_pieces - inputs.first_pieces + 1).unsqueeze(-1)
        return (pick_pieces(sums, inputs.last_pieces + 1) - pick_pieces(sums, inputs.first_pieces)) / n_pieces


def pick_pieces(pieces: Tensor, index: Tensor) -> Tensor:
    """Vectors at given pieces: (B, P, D) and (B, W) -> (B, W, D)."""
    return pieces.gather(1, index.unsqueeze(-1).expand(-1, -1, pieces.shape[-1]))


def spread_to_pieces(words: Tensor, piece_words: Tensor) -> Tensor:
    """Each piece gets its word's vector, special and padding pieces zeros: (B, W, D) and (B, P) -> (B, P, D)."""
    index = piece_words.clamp(min=0).unsqueeze(-1).expand(-1, -1, words.shape[-1])
    spread = words.gather(1, index)
    return spread * (piece_words >= 0).unsqueeze(-1).to(spread.dtype)


def to_inputs(batch: Batch, device: torch.device) -> Inputs:
    """The tensors of a batch on a device."""

    def move(array: object) -> Tensor:
        return torch.as_tensor(array).to(device)

    return Inputs(
        move(batch.piece_ids),
        move(batch.piece_mask),
        move(batch.piece_words),
        move(batch.first_pieces),
        move(batch.last_pieces),
        move(batch.timing),
        None if batch.frames is None else move(batch.frames),
        move(batch.last_frames),
        move(batch.onset_frames),
    )
