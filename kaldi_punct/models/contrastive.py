"""What wav2vec learns by: telling the frame that comes from frames of elsewhere (Schneider et al., 2019, section 2.2).

Axes: B batch, T frames, N negatives, S steps ahead, D channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from kaldi_punct.models.wav2vec import Wav2vec


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one batch.

    Attributes:
        loss: mean over predictions, to be made small.
        n: predictions made.
        n_right: those in which the true answer scored highest.
    """

    loss: Tensor
    n: int
    n_right: Tensor


def contrast(model: Wav2vec, samples: Tensor, negatives: Tensor) -> Outcome:
    """How well the model tells what comes in crops of equal length.

    Args:
        model: to be taught; a wrapped one is called as it.
        samples: (B, N) float32.
        negatives: (B, T, N) int64: for each frame the frames of its own crop that stand against it.
    """
    encoded, predicted = model(samples, predict=True)
    scores, real = score_candidates(predicted, encoded, negatives, model.config.min_ahead)
    return loss_of_scores(scores, real)


def score_candidates(predicted: Tensor, encoded: Tensor, negatives: Tensor, min_ahead: int) -> tuple[Tensor, Tensor]:
    """Dot products of predictions with what they might be of.

    Args:
        predicted: (B, T, S, D); step s of frame t is of frame ``t + min_ahead + s``.
        encoded: (B, T, D).
        negatives: (B, T, N) int64.
        min_ahead: frames to the first of the S.

    Returns:
        Scores (B, T, S, 1 + N) by the frame that is predicted, its own first; and (T, S) bool, whether a frame of the
        crop predicts it so far ahead.
    """
    n_b, n_t, n_s, n_d = predicted.shape
    first = torch.arange(n_b, device=encoded.device).view(-1, 1, 1) * n_t  # frames of crop b begin at row b * T
    own = torch.arange(n_t, device=encoded.device).view(1, -1, 1).expand(n_b, -1, -1)
    rows = torch.cat([own, negatives], 2) + first  # (B, T, 1 + N)
    candidates = encoded.reshape(n_b * n_t, n_d).index_select(0, rows.flatten()).view(n_b, n_t, -1, n_d)
    shifted = []
    for s in range(n_s):
        ahead = min(min_ahead + s, n_t)
        shifted.append(F.pad(predicted[:, : n_t - ahead, s], (0, 0, ahead, 0)))
    of_frame = torch.stack(shifted, 2)  # (B, T, S, D): all that is predicted of a frame
    steps = torch.arange(n_s, device=encoded.device) + min_ahead
    real = torch.arange(n_t, device=encoded.device).unsqueeze(1) >= steps
    return of_frame @ candidates.transpose(2, 3), real


def loss_of_scores(scores: Tensor, real: Tensor) -> Outcome:
    """Binary cross-entropy of each candidate, summed over candidates and averaged over predictions.

    A model that knows nothing scores 1 + N candidates so that the loss is 3.35 with 10 negatives (each is right in 1 of
    11 cases), and gets one of 11 right.
    """
    wide = scores.float()
    each = F.softplus(-wide[..., 0]) + F.softplus(wide[..., 1:]).sum(-1)  # (B, T, S)
    n = int(real.sum()) * len(scores)
    loss = torch.where(real, each, 0.0).sum() / max(n, 1)
    n_right = ((wide[..., 0] > wide[..., 1:].amax(-1)) & real).sum()
    return Outcome(loss, n, n_right.detach())
