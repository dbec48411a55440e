"""The words of a lattice that come closest to a reference: what its decoding could have given at best."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kaldi_punct import _core
from kaldi_punct._core import Lattice
from kaldi_punct.kaldi.lattice_ops import no_path, scales


@dataclass(frozen=True, slots=True)
class Oracle:
    """A path and its word errors.

    Attributes:
        words: word-ids, without wildcards.
        n_correct: words that it has as the reference has them.
        n_substitutions, n_insertions, n_deletions: the others; an insertion is a word that the reference has not.
    """

    words: tuple[int, ...]
    n_correct: int
    n_substitutions: int
    n_insertions: int
    n_deletions: int

    @property
    def n_errors(self) -> int:
        """All word errors."""
        return self.n_substitutions + self.n_insertions + self.n_deletions

    @property
    def n_words(self) -> int:
        """Words of the reference, without wildcards."""
        return self.n_correct + self.n_substitutions + self.n_deletions


def oracle(
    lattice: Lattice,
    reference: Iterable[int],
    *,
    wildcards: Iterable[int] = (),
    acoustic_scale: float = 1.0,
    lm_scale: float = 1.0,
) -> Oracle:
    """The path of fewest word errors (lattice-oracle); of several the one of least scaled cost.

    Args:
        lattice: as read.
        reference: word-ids; a word that the lattice's table has not may have any id that the lattice has not, as -1.
        wildcards: word-ids that count neither as words nor as errors.
        acoustic_scale, lm_scale: weigh the costs of paths equally close.

    Raises:
        ConfigError: a scale is no finite number.
        UtteranceError: no path leads to the end.
        LatticeError: states and reference words are too many.
    """
    found = _core.oracle_path(lattice, list(reference), list(wildcards), scales(acoustic_scale, lm_scale))
    if found is None:
        raise no_path(lattice)
    return Oracle(tuple(found.words), found.n_correct, found.n_substitutions, found.n_insertions, found.n_deletions)
