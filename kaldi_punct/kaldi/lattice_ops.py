"""Lattices into lattices: other scales, fewer paths, the best paths alone, the other form.

Each function gives a new lattice and leaves the one that it is given as it is. Costs stay unscaled, as Kaldi's tools
leave them, but for ``rescale``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kaldi_punct import _core
from kaldi_punct._core import Lattice
from kaldi_punct.errors import ConfigError, LatticeError, UtteranceError

_MAX_PATHS = 2**31 - 1  # what the native core counts to


@dataclass(frozen=True, slots=True)
class LinearPath:
    """What nbest-to-linear tells of a lattice of one path.

    Attributes:
        words: word-ids.
        transition_ids: one a frame.
        graph_cost, acoustic_cost: unscaled.
    """

    words: tuple[int, ...]
    transition_ids: tuple[int, ...]
    graph_cost: float
    acoustic_cost: float


def scales(acoustic_scale: float = 1.0, lm_scale: float = 1.0, word_ins_penalty: float = 0.0) -> _core.Scales:
    """What the native core weighs costs with.

    Args:
        acoustic_scale: multiplies acoustic costs (1/LMWT).
        lm_scale: multiplies graph costs.
        word_ins_penalty: added to the graph cost of each word, before it is scaled.

    Raises:
        ConfigError: one is no finite number.
    """
    given = {"acoustic_scale": acoustic_scale, "lm_scale": lm_scale, "word_ins_penalty": word_ins_penalty}
    for name, value in given.items():
        if not math.isfinite(value):
            raise ConfigError(f"{name}: expected a finite number, got {value}")
    return _core.Scales(lm_scale, acoustic_scale, word_ins_penalty)


def rescale(
    lattice: Lattice, *, acoustic_scale: float = 1.0, lm_scale: float = 1.0, word_ins_penalty: float = 0.0
) -> Lattice:
    """With the word insertion penalty on each word, then all costs scaled (lattice-add-penalty, lattice-scale).

    Raises:
        ConfigError: as ``scales``.
    """
    return _core.rescaled(lattice, scales(acoustic_scale, lm_scale, word_ins_penalty))


def prune(lattice: Lattice, beam: float, *, acoustic_scale: float, lm_scale: float = 1.0) -> Lattice:
    """Without what no path within ``beam`` of the best path's scaled cost goes through (lattice-prune).

    Raises:
        ConfigError: a scale is no finite number, or the beam not above 0.
        UtteranceError: no path leads to the end.
    """
    if not beam > 0:
        raise ConfigError(f"beam: expected a number above 0, got {beam}")
    out = _core.pruned(lattice, scales(acoustic_scale, lm_scale), beam)
    if not out.n_states:
        raise no_path(lattice)
    return out


def nbest(
    lattice: Lattice, n: int, *, acoustic_scale: float, lm_scale: float = 1.0, word_ins_penalty: float = 0.0
) -> list[Lattice]:
    """The n best paths, best first, each as a lattice of one path (lattice-to-nbest; lattice-1best with n 1).

    Args:
        lattice: as read.
        n: how many, at least 1; fewer come if the lattice has fewer.
        acoustic_scale, lm_scale: weigh the costs; they come out unscaled.
        word_ins_penalty: added to the graph cost of each word; the costs that come out hold it.

    Raises:
        ConfigError: n or a scale is out of range.
        UtteranceError: no path leads to the end.
    """
    if n < 1:
        raise ConfigError(f"n: expected at least 1 path, got {n}")
    out = _core.best_lattices(lattice, min(n, _MAX_PATHS), scales(acoustic_scale, lm_scale, word_ins_penalty))
    if not out:
        raise no_path(lattice)
    return out


def linear_path(lattice: Lattice) -> LinearPath:
    """Words, alignment and costs of a lattice of one path, as ``nbest`` gives them (nbest-to-linear).

    Raises:
        LatticeError: it has more than one path.
        UtteranceError: it has none.
    """
    if not lattice.n_states:
        raise no_path(lattice)
    if not _core.is_linear(lattice):
        raise LatticeError(f"{lattice.origin}: expected a lattice of one path, got branches; take its n-best paths")
    path = _core.best_paths(lattice, 1, scales())[0]
    return LinearPath(tuple(path.words), tuple(path.transition_ids), path.graph_cost, path.acoustic_cost)


def to_compact(lattice: Lattice) -> Lattice:
    """With an arc for each word, its frames on it, where the lattice came with an arc for each frame."""
    return _core.compacted(lattice)


def to_state_level(lattice: Lattice) -> Lattice:
    """With an arc for each frame."""
    return _core.spelled_out(lattice)


def connect(lattice: Lattice) -> Lattice:
    """Without the states that lie on no path from the start to the end."""
    return _core.connected(lattice)


def no_path(lattice: Lattice) -> UtteranceError:
    """The error of a lattice that holds no path."""
    return UtteranceError(f"{lattice.origin}: the lattice has no path to a final state; was decoding cut off?")
