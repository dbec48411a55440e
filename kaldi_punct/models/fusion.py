"""Fusion of sound and words: one acoustic vector a word, from the states of the acoustic encoder (paper, section 3).

The paper gives a word's acoustic vector to all of its pieces, or attends from each piece; a label is then read at one
piece. Here the lexical side is read out first, so all of this is by word: the same where one piece is read
(``read_out`` first or last), and with fewer vectors to compute.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FRAMES_A_STATE = {"forced_alignment": 1, "onset": 1, "attention": 2, "both": 2, "gate": 2}


class Heard(NamedTuple):
    """The states of a batch, and where its words stand among them.

    Attributes:
        states: (B, T, S); T is at least 1.
        n_states: (B,) int64, how many of them are real.
        last: (B, W) int64, state in which a word ends; -1 unknown.
        onset: (B, W) int64, state in which the next word begins; -1 unknown.
        until: (B, W) int64, the last state that a word may attend to, -1 for none; None: to all of them.
    """

    states: Tensor
    n_states: Tensor
    last: Tensor
    onset: Tensor
    until: Tensor | None


class ForcedAlignmentFusion(nn.Module):
    """States read at word times, with a learned vector for words that have none or lie outside the sound.

    The paper reads the state at the word's last frame. ``onset`` reads a second one where the next word begins, so that
    the pause between them is heard.
    """

    def __init__(self, width: int, onset: bool) -> None:
        super().__init__()
        self.onset = onset
        self.width = width * (2 if onset else 1)
        self.missing = nn.Parameter(torch.zeros(self.width))

    def forward(self, words: Tensor, heard: Heard | None) -> Tensor:
        """The acoustic vector of each word.

        Args:
            words: (B, W, D) lexical vectors; only their number counts.
            heard: None if nothing was heard in the whole batch.

        Returns:
            (B, W, width).
        """
        if heard is None:
            return self.missing.expand(*words.shape[:2], self.width)
        out = read_states(heard.states, heard.last)  # (B, W, S)
        if self.onset:
            out = torch.cat([out, read_states(heard.states, heard.onset)], dim=-1)
        return torch.where(self.hears(heard), out, self.missing)

    def hears(self, heard: Heard) -> Tensor:
        """Which words hear anything: (B, W, 1) bool."""
        return (heard.last >= 0).unsqueeze(-1)


class AttentionFusion(nn.Module):
    """Scaled dot-product attention from words to states: keys are projected states, values the states themselves.

    Needs no word times, unless ``Heard.until`` limits what a word may hear. A word that may hear nothing gets a learned
    vector.
    """

    def __init__(self, lexical_width: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.key = nn.Linear(width, lexical_width, bias=False)  # one would move no weight
        self.missing = nn.Parameter(torch.zeros(width))

    def forward(self, words: Tensor, heard: Heard | None) -> Tensor:
        """The acoustic vector of each word.

        Args:
            words: (B, W, D) lexical vectors, the queries.
            heard: None if nothing was heard in the whole batch.

        Returns:
            (B, W, width).
        """
        if heard is None:
            return self.missing.expand(*words.shape[:2], self.width)
        seen = seen_states(heard)
        hears = seen.any(-1, keepdim=True)  # (B, 1 or W, 1)
        # A softmax over nothing is not a number, and so would be its gradient: such words look at one state in vain.
        seen = seen | (~hears & (torch.arange(seen.shape[-1], device=seen.device) == 0))
        out = F.scaled_dot_product_attention(words, self.key(heard.states), heard.states, attn_mask=seen)
        return torch.where(hears, out, self.missing)

    def hears(self, heard: Heard) -> Tensor:
        """Which words hear anything: (B, 1 or W, 1) bool."""
        return seen_states(heard).any(-1, keepdim=True)


class BothFusion(nn.Module):
    """States read at word times, that of the next onset too, and attention beside them."""

    def __init__(self, lexical_width: int, width: int) -> None:
        super().__init__()
        self.aligned = ForcedAlignmentFusion(width, onset=True)
        self.attention = AttentionFusion(lexical_width, width)
        self.width = self.aligned.width + width

    def forward(self, words: Tensor, heard: Heard | None) -> Tensor:
        """The acoustic vector of each word: (B, W, D) -> (B, W, width)."""
        return torch.cat([self.aligned(words, heard), self.attention(words, heard)], dim=-1)

    def hears(self, heard: Heard) -> Tensor:
        """Which words hear anything: (B, W, 1) bool."""
        return self.aligned.hears(heard) | self.attention.hears(heard)


class GateFusion(nn.Module):
    """A learned gate that weighs, for each word and dimension, what is read at its times and what is attended to."""

    def __init__(self, lexical_width: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.aligned = ForcedAlignmentFusion(width, onset=True)
        self.attention = AttentionFusion(lexical_width, width)
        self.project = nn.Linear(self.aligned.width, width)
        self.gate = nn.Linear(lexical_width + self.aligned.width + width, width)

    def forward(self, words: Tensor, heard: Heard | None) -> Tensor:
        """The acoustic vector of each word: (B, W, D) -> (B, W, width)."""
        aligned, attended = self.aligned(words, heard), self.attention(words, heard)
        share = torch.sigmoid(self.gate(torch.cat([words, aligned, attended], dim=-1)))  # (B, W, S)
        out: Tensor = share * self.project(aligned) + (1 - share) * attended
        return out

    def hears(self, heard: Heard) -> Tensor:
        """Which words hear anything: (B, W, 1) bool."""
        return self.aligned.hears(heard) | self.attention.hears(heard)


Fusion = ForcedAlignmentFusion | AttentionFusion | BothFusion | GateFusion


def make_fusion(name: str, lexical_width: int, width: int) -> Fusion:
    """The fusion called ``name``, one of ``config.FUSIONS``, of states (S = ``width``) and lexical vectors."""
    if name == "attention":
        return AttentionFusion(lexical_width, width)
    if name == "both":
        return BothFusion(lexical_width, width)
    if name == "gate":
        return GateFusion(lexical_width, width)
    return ForcedAlignmentFusion(width, onset=name == "onset")


def seen_states(heard: Heard) -> Tensor:
    """Which states each word may attend to: (B, 1 or W, T) bool."""
    place = torch.arange(heard.states.shape[1], device=heard.states.device)
    seen = (place < heard.n_states.unsqueeze(1)).unsqueeze(1)  # (B, 1, T)
    return seen if heard.until is None else seen & (place <= heard.until.unsqueeze(-1))


def read_states(states: Tensor, index: Tensor) -> Tensor:
    """The states at given places: (B, T, S) and (B, W) -> (B, W, S); -1 reads the first."""
    return states.gather(1, index.clamp(min=0).unsqueeze(-1).expand(-1, -1, states.shape[-1]))
