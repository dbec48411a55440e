"""What a streaming model may see of a word's future: masks of pieces, timing features of the past, frames heard.

With lookahead k a word's label depends on the words up to the k-th after it. A mask with k words of lookahead in every
layer would reach k words further with each of them, so layers see no future at all but the last, which sees k words.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from kaldi_punct.errors import CheckpointError
from kaldi_punct.timing import PAUSE_AFTER_COLUMNS, SPEAKER_COLUMNS

_ALL_LAYERS, _LAST_LAYER = 2, 1  # levels of a mask: where a piece sees another


def causal_mask(piece_words: Tensor, lookahead: int) -> Tensor:
    """Which piece sees which, (B, 1, P, P): bool, or with a lookahead int8 levels for ``mask_by_layer``.

    A piece sees the piece that begins the window, the words before its own, its own as a whole, and in the last layer
    the next ``lookahead`` words. The piece that begins the window sees itself alone; nothing sees the one that ends it.

    Args:
        piece_words: (B, P) int64, word of each piece; -1 for special and padding ones.
        lookahead: words.
    """
    word = piece_words.clone()
    beyond = piece_words.shape[1]  # no window has more words than pieces
    word[word < 0] = 2 * beyond  # end and padding: after every word
    word[:, 0] = -beyond
    ahead = word.unsqueeze(1) - word.unsqueeze(2)  # (B, P, P): words from the query on to the key
    real = word.unsqueeze(1) < beyond
    past = ((ahead <= 0) & real).unsqueeze(1)
    if not lookahead:
        return past
    near = ((ahead <= lookahead) & real).unsqueeze(1)
    return past.to(torch.int8) + near.to(torch.int8)


def mask_by_layer(transformer: nn.Module, n_layers: int) -> None:
    """Makes the layers of a transformer take masks of levels: the last sees further than the others.

    Raises:
        CheckpointError: its layers cannot be told apart.
    """
    lists = [m for m in transformer.modules() if isinstance(m, nn.ModuleList) and len(m) == n_layers]
    if len(lists) != 1:
        raise CheckpointError(
            f"model.lookahead: expected 0 with {type(transformer).__name__}, whose layers cannot be told apart; "
            "take another model.encoder, or lookahead 0"
        )
    for i, layer in enumerate(lists[0]):
        least = _LAST_LAYER if i + 1 == n_layers else _ALL_LAYERS
        layer.register_forward_pre_hook(partial(_take_level, least), with_kwargs=True)


def _take_level(
    least: int, _: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    def take(value: Any) -> Any:
        is_mask = isinstance(value, Tensor) and value.dtype == torch.int8 and value.ndim == 4
        return value >= least if is_mask else value

    return tuple(take(a) for a in args), {k: take(v) for k, v in kwargs.items()}


def past_timing(timing: Tensor) -> Tensor:
    """Timing features that are known when their word ends: (B, W, K) -> (B, W, K).

    The pause after a word is left out: it is the next one's pause before. A change of speaker moves to the word that
    the new speaker begins with.
    """
    out = timing.clone()
    out[..., list(PAUSE_AFTER_COLUMNS)] = 0
    speakers = list(SPEAKER_COLUMNS)
    out[:, 1:, speakers] = timing[:, :-1, speakers]
    out[:, 0, speakers] = 0
    return out


def heard_until(last_frames: Tensor, lookahead: int) -> Tensor:
    """The last frame that each word may hear, (B, W); -1 for none: where words up to the lookahead's end.

    Args:
        last_frames: (B, W) int64, -1 where unknown.
        lookahead: words.
    """
    n_words = last_frames.shape[1]
    ends = last_frames.cummax(1).values
    return ends[:, (torch.arange(n_words, device=ends.device) + lookahead).clamp(max=n_words - 1)]
