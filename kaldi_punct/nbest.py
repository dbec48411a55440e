"""N-best lists: the weights of hypotheses, and their answers fused onto the best one's words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kaldi_punct.errors import ConfigError
from kaldi_punct.projection import align
from kaldi_punct.types import Hypothesis

Array = NDArray[np.float32]


def posteriors(hypotheses: Sequence[Hypothesis], acoustic_scale: float | None) -> list[float]:
    """Weights of hypotheses, summing to 1: their posteriors, else from their costs, else equal.

    Raises:
        ConfigError: costs, but no scale to add them by; or hypotheses that know different things.
    """
    n = len(hypotheses)
    if all(h.posterior is not None for h in hypotheses):
        given = [float(h.posterior or 0.0) for h in hypotheses]
        total = sum(given)
        return [p / total for p in given] if total > 0 else [1.0 / n] * n
    if all(h.graph_cost is not None and h.acoustic_cost is not None for h in hypotheses):
        if acoustic_scale is None and n > 1:
            raise ConfigError(
                "acoustic_scale: expected the factor of the hypotheses' acoustic costs, got none; "
                "give it (often 0.1 for a chain model, 1/12 for a GMM) or give posteriors"
            )
        costs = [(h.graph_cost or 0.0) + (acoustic_scale or 0.0) * (h.acoustic_cost or 0.0) for h in hypotheses]
        best = min(costs)
        weights = [math.exp(best - c) for c in costs]
        return [w / sum(weights) for w in weights]
    if any((h.posterior, h.graph_cost, h.acoustic_cost) != (None, None, None) for h in hypotheses):
        raise ConfigError(
            "hypotheses: expected posteriors of all, both costs of all, or nothing of any, got a mixture; complete them"
        )
    return [1.0 / n] * n


def fuse(
    tokens: Sequence[Sequence[str]],
    weights: Sequence[float],
    probs: Sequence[tuple[Array, Array]],
    confidences: Sequence[Sequence[float]] | None = None,
) -> tuple[Array, Array]:
    """Carries each hypothesis' probabilities onto the first's words and averages them by weight.

    A word of the first that a hypothesis lacks takes no part of that hypothesis; where a hypothesis has more words in
    one slot of the first's, the likeliest mark among them counts.

    Args:
        tokens: the words of each hypothesis, best first.
        weights: of the hypotheses.
        probs: (marks (W, C), cases (W, 4)) of each.
        confidences: (W,) of each, 0..1: what a word's part is multiplied by; None: 1.

    Returns:
        The same of the first hypothesis' words.
    """
    votes = [np.full(len(words), weight, np.float32) for words, weight in zip(tokens, weights, strict=True)]
    if confidences is not None:
        votes = [vote * np.asarray(c, np.float32) for vote, c in zip(votes, confidences, strict=True)]
    totals = votes[0].copy()
    marks = probs[0][0] * totals[:, None]
    cases = probs[0][1] * totals[:, None]
    for words, vote, (m, c) in zip(tokens[1:], votes[1:], probs[1:], strict=True):
        for k, run in _runs(align(tokens[0], words)):
            slot = min(run, key=lambda j: float(m[j][0]))
            weight = vote[run[0]]
            marks[k] += weight * m[slot]
            cases[k] += weight * c[run[0]]
            totals[k] += weight
    # A posterior may be 0: what nobody vouches for keeps the first's own answer.
    bare = totals <= 0
    marks[bare], cases[bare], totals[bare] = probs[0][0][bare], probs[0][1][bare], 1.0
    return marks / totals[:, None], cases / totals[:, None]


def _runs(pairs: Iterable[tuple[int | None, int | None]]) -> list[tuple[int, list[int]]]:
    """(word of the best hypothesis, [the word aligned to it and those inserted after it])."""
    out: list[tuple[int, list[int]]] = []
    open_run: list[int] | None = None
    for k, j in pairs:
        if k is not None and j is not None:
            open_run = [j]
            out.append((k, open_run))
        elif k is not None:
            open_run = None
        elif open_run is not None and j is not None:
            open_run.append(j)
    return out
