"""Aligned lattices as a reference Kaldi gives them (../shared/golden)."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_lattice_golden import SETS, decoder, lattices

from kaldi_punct import _core
from kaldi_punct.kaldi.aligned import align_words
from kaldi_punct.kaldi.lattice import Lattice, WordAligner

pytestmark = pytest.mark.shared


def paths(lattice: Lattice) -> list[tuple[list[int], list[int]]]:
    best = _core.best_paths(lattice, 20, _core.Scales(1.0, 1.0, 0.0))
    return [(path.words, path.transition_ids) for path in best]


@pytest.mark.parametrize("name", SETS)
def test_align_words(shared: Path, name: str) -> None:
    folder, aligner = shared / "golden" / name, decoder(shared, name).aligner
    assert isinstance(aligner, WordAligner)
    golden = dict(lattices(folder / "lat.aligned.ark.gz"))
    n_problems = 0
    for key, lattice in lattices(folder / "lat.ark"):
        aligned, theirs = align_words(lattice, aligner), golden.pop(key)
        assert (aligned.lattice.n_states, aligned.lattice.n_arcs) == (theirs.n_states, theirs.n_arcs)
        assert paths(aligned.lattice) == paths(theirs)
        n_problems += bool(aligned.problem)
    assert not golden
    assert n_problems == (9 if name == "chain-partial" else 0)  # as many as Kaldi counts as errors
