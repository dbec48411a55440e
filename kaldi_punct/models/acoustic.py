"""The acoustic encoder: frames -> causal convolution -> uni-directional LSTM (paper, sections 2 and 4.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class AcousticEncoder(nn.Module):
    """Frames -> states (B, T, D). Frame t's state depends on frames 0..t alone."""

    mean: Tensor
    std: Tensor

    def __init__(self, n_features: int, width: int, kernel: int) -> None:
        super().__init__()
        # Statistics of the training set, kept with the weights: never those of the utterance.
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("std", torch.ones(n_features))
        self.conv = nn.Conv1d(n_features, width, kernel)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.width = width
        self._left = kernel - 1

    def forward(self, frames: Tensor) -> Tensor:
        """States of frames.

        Args:
            frames: (B, T, F) float32, as the features come; padding at the end changes no earlier state.

        Returns:
            (B, T, D).
        """
        x = (frames - self.mean) / self.std
        x = F.pad(x.transpose(1, 2), (self._left, 0))  # (B, F, left + T): causal
        x = F.gelu(self.conv(x)).transpose(1, 2)  # (B, T, D)
        states: Tensor = self.lstm(x)[0]
        return states
