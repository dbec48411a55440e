"""Fusion of sound and words by forced alignment: LSTM states at word ends and onsets (paper, section 3.1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ForcedAlignmentFusion(nn.Module):
    """Frame states -> one vector a word, with a learned vector where nothing was heard.

    The paper reads the state at the word's last frame. ``onset`` reads a second one where the next word begins, so that
    the pause between them is heard.
    """

    def __init__(self, width: int, onset: bool) -> None:
        super().__init__()
        self.onset = onset
        self.width = width * (2 if onset else 1)
        self.missing = nn.Parameter(torch.zeros(self.width))

    def forward(self, states: Tensor | None, last_frames: Tensor, onset_frames: Tensor) -> Tensor:
        """The acoustic vector of each word.

        Args:
            states: (B, T, D) LSTM states; None if nothing was heard in the whole batch.
            last_frames: (B, W) int64, -1 where unknown.
            onset_frames: (B, W) int64, -1 where unknown.

        Returns:
            (B, W, width).
        """
        if states is None:
            return self.missing.expand(*last_frames.shape, self.width)
        heard = read_states(states, last_frames)  # (B, W, D)
        if self.onset:
            heard = torch.cat([heard, read_states(states, onset_frames)], dim=-1)
        return torch.where((last_frames >= 0).unsqueeze(-1), heard, self.missing)


def read_states(states: Tensor, frames: Tensor) -> Tensor:
    """The states at given frames: (B, T, D) and (B, W) -> (B, W, D); frame -1 reads frame 0."""
    index = frames.clamp(min=0).unsqueeze(-1).expand(-1, -1, states.shape[-1])
    return states.gather(1, index)
