"""What must hold of any lattice, on random small ones: the core against the brute force of ``lattice_oracle``."""

from __future__ import annotations

import math
from collections import Counter

import lattice_maker as make
import lattice_oracle as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_maker import Toy
from lattice_oracle import SCALES, WIDE_COSTS, Scales, toys

from kaldi_punct import _core
from kaldi_punct.kaldi.lattice import Lattice, parse

ANY = st.one_of(toys(), toys(costs=WIDE_COSTS))


def core(scales: Scales) -> _core.Scales:
    return _core.Scales(scales.lm, scales.acoustic, scales.penalty)


def spelled(lattice: Lattice, scales: Scales) -> list[tuple[tuple[int, ...], tuple[int, ...], float, float]]:
    """All paths of a lattice, as words, frames and costs, in no order."""
    found = _core.best_paths(lattice, 10_000, core(scales))
    return sorted((tuple(p.words), tuple(p.transition_ids), p.graph_cost, p.acoustic_cost) for p in found)


@given(ANY, st.integers(1, 40), SCALES)
@settings(max_examples=300, deadline=None)
def test_nbest(toy: Toy, n: int, scales: Scales) -> None:
    every = oracle.paths(toy, scales)
    got = _core.best_paths(parse(make.binary(toy)), n, core(scales))
    assert [p.total_cost for p in got] == [p.total for p in every[:n]]
    if every:  # of equal totals, the best path is that of least graph cost
        assert got[0].graph_cost == every[0].graph
    left = Counter((p.words, p.tids, p.graph, p.acoustic) for p in every)
    left.subtract((tuple(p.words), tuple(p.transition_ids), p.graph_cost, p.acoustic_cost) for p in got)
    assert min(left.values(), default=0) >= 0  # each is a path, and none comes twice


@given(ANY, SCALES, st.integers(1, 12))
@settings(max_examples=150, deadline=None)
def test_a_shorter_list_begins_the_longer(toy: Toy, scales: Scales, n: int) -> None:
    lattice = parse(make.binary(toy))
    short, long = (
        [(p.words, p.transition_ids) for p in _core.best_paths(lattice, k, core(scales))] for k in (n, n + 7)
    )
    assert long[: len(short)] == short


@given(ANY, SCALES)
@settings(max_examples=300, deadline=None)
def test_sum_over_all_paths(toy: Toy, scales: Scales) -> None:
    every = oracle.paths(toy, scales)
    got = _core.total_cost_of_all(parse(make.binary(toy)), core(scales))
    assert got == pytest.approx(oracle.total_of_all(every), rel=1e-9, abs=1e-9)


@given(ANY)
@settings(max_examples=150, deadline=None)
def test_every_form_holds_the_same_paths(toy: Toy) -> None:
    expected = sorted((p.words, p.tids, p.graph, p.acoustic) for p in oracle.paths(toy, Scales()))
    for name, form in make.FORMS.items():
        # A text lattice begins with its start state, so that state must have a line.
        has_start = 0 in toy.finals or any(a.begin == 0 for a in toy.arcs)
        if "text" in name and not has_start:
            continue
        if "noncompact" in name and not (toy.arcs or toy.finals):
            continue
        assert spelled(parse(form(toy)), Scales()) == expected, name


@given(toys(), st.floats(0.05, 5.0), st.floats(0.05, 5.0))
@settings(max_examples=100, deadline=None)
def test_scales_are_linear(toy: Toy, lm: float, acoustic: float) -> None:
    """Scales multiply; both by one factor changes no order."""
    lattice = parse(make.binary(toy))
    once = _core.best_paths(lattice, 20, _core.Scales(lm, acoustic, 0.0))
    twice = _core.best_paths(lattice, 20, _core.Scales(2 * lm, 2 * acoustic, 0.0))
    assert [p.total_cost for p in twice] == pytest.approx([2 * p.total_cost for p in once], rel=1e-12, abs=1e-12)
    for path in once:
        assert path.total_cost == pytest.approx(lm * path.graph_cost + acoustic * path.acoustic_cost, abs=1e-9)


@given(toys(), SCALES)
@settings(max_examples=100, deadline=None)
def test_posteriors_of_all_paths_sum_to_one(toy: Toy, scales: Scales) -> None:
    lattice = parse(make.binary(toy))
    found = _core.best_paths(lattice, 10_000, core(scales))
    all_cost = _core.total_cost_of_all(lattice, core(scales))
    if found:
        assert math.fsum(math.exp(all_cost - p.total_cost) for p in found) == pytest.approx(1.0)
    else:
        assert all_cost == math.inf
