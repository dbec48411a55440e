"""The acoustic encoder: frames -> causal convolution -> uni-directional LSTM (paper, sections 2 and 4.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class AcousticEncoder(nn.Module):
    """Frames -> states (B, T', D), one for every ``stride`` frames. State j depends on frames 0..j * stride alone."""

    mean: Tensor
    std: Tensor

    def __init__(self, n_features: int, width: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        # Statistics of the training set, kept with the weights: never those of the utterance.
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("std", torch.ones(n_features))
        self.conv = nn.Conv1d(n_features, width, kernel, stride)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.width = width
        self._left, self._stride = kernel - 1, stride

    def forward(self, frames: Tensor) -> Tensor:
        """States of frames.

        Args:
            frames: (B, T, F) float32, as the features come; padding at the end changes no earlier state.

        Returns:
            (B, T', D), T' = ``n_states`` of T.
        """
        x = (frames - self.mean) / self.std
        x = F.pad(x.transpose(1, 2), (self._left, 0))  # (B, F, left + T): causal
        x = F.gelu(self.conv(x)).transpose(1, 2)  # (B, T', D)
        states: Tensor = self.lstm(x)[0]
        return states

    def n_states(self, n_frames: Tensor) -> Tensor:
        """How many states that many frames have."""
        return (n_frames + self._stride - 1) // self._stride

    def state_at(self, frames: Tensor) -> Tensor:
        """The last state that hears nothing after given frames; -1 (unknown) stays -1."""
        return frames.div(self._stride, rounding_mode="floor")
