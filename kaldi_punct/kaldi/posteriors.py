"""How sure a lattice is: posteriors of arcs, the distance of the second-best sentence, how many arcs lie over a frame.

Posteriors mean a word's only where the lattice is word-aligned (``kaldi.aligned``): before that its arcs cut words up.
"""

from __future__ import annotations

import math

from kaldi_punct import _core
from kaldi_punct._core import ArcPosterior, Lattice
from kaldi_punct.errors import ConfigError, UtteranceError
from kaldi_punct.kaldi.lattice_ops import no_path, scales

__all__ = ["ArcPosterior", "arc_posteriors", "depth", "depth_per_frame", "sentence_confidence"]

_MAX_SAME = 1 << 12  # paths that are looked at for a second sentence


def arc_posteriors(
    lattice: Lattice, *, acoustic_scale: float, lm_scale: float = 1.0, min_post: float = 1e-4
) -> list[ArcPosterior]:
    """The arcs of a posterior above ``min_post``: first frame, word-id, posterior, transition-ids (lattice-arc-post).

    Raises:
        ConfigError: a scale or ``min_post`` is no number.
        UtteranceError: no path leads to the end.
    """
    if math.isnan(min_post):
        raise ConfigError("min_post: expected a number, got nan")
    weights = scales(acoustic_scale, lm_scale)
    if math.isinf(_core.total_cost_of_all(lattice, weights)):
        raise no_path(lattice)
    return _core.arc_posteriors(lattice, weights, min_post)


def sentence_confidence(lattice: Lattice, *, acoustic_scale: float, lm_scale: float = 1.0) -> float:
    """How much dearer than the best the second-best sentence is, scaled; infinite if there is one only.

    Where paths of the same words follow each other (in a state-level lattice) the next other words are looked for.
    Source: lattice-confidence (Kaldi's lat/confidence.cc).

    Raises:
        ConfigError: a scale is no finite number.
        UtteranceError: no path leads to the end, or thousands have the same words.
    """
    weights = scales(acoustic_scale, lm_scale)
    n = 2
    while True:
        paths = _core.best_paths(lattice, n, weights)
        if not paths:
            raise no_path(lattice)
        for path in paths[1:]:
            if path.words != paths[0].words:
                return path.total_cost - paths[0].total_cost
        if len(paths) < n:
            return math.inf
        if n >= _MAX_SAME:
            raise UtteranceError(f"{lattice.origin}: expected a second sentence, got {n} paths of the same words")
        n *= 4


def depth(lattice: Lattice) -> float:
    """Arcs over a frame, on average (lattice-depth); 1 where there is no frame."""
    return _core.depth(lattice)


def depth_per_frame(lattice: Lattice) -> list[int]:
    """Arcs over each frame (lattice-depth-per-frame); empty where there is no frame."""
    return _core.depth_per_frame(lattice)
