"""What must come out of a small lattice, by looking at every path of it; and small lattices of every kind."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from lattice_maker import Arc, Toy

Words = tuple[int, ...]


@dataclass(frozen=True)
class Scales:
    """The cost of a path is ``lm * (graph + penalty * words) + acoustic * acoustic_cost``."""

    lm: float = 1.0
    acoustic: float = 1.0
    penalty: float = 0.0


@dataclass(frozen=True)
class Path:
    """``arcs`` are places in ``Toy.arcs``; ``graph`` holds the penalty."""

    arcs: tuple[int, ...]
    end: int
    words: Words
    tids: tuple[int, ...]
    graph: float
    acoustic: float
    total: float


def paths(toy: Toy, scales: Scales) -> list[Path]:
    """Every path from the start to a final state, best first; of equal ones that of lower graph cost."""

    def go(state: int) -> Iterator[tuple[tuple[int, ...], int]]:
        if state in toy.finals:
            yield (), state
        for i, arc in enumerate(toy.arcs):
            if arc.begin == state:
                for rest, end in go(arc.end):
                    yield (i, *rest), end

    found = []
    for arcs, end in go(0) if toy.n_states else ():
        weights = [(toy.arcs[i].graph, toy.arcs[i].acoustic, toy.arcs[i].tids) for i in arcs] + [toy.finals[end]]
        words = tuple(toy.arcs[i].word for i in arcs if toy.arcs[i].word)
        graph = sum(w[0] for w in weights) + scales.penalty * len(words)
        acoustic = sum(w[1] for w in weights)
        tids = tuple(tid for w in weights for tid in w[2])
        found.append(Path(arcs, end, words, tids, graph, acoustic, scales.lm * graph + scales.acoustic * acoustic))
    return sorted(found, key=lambda p: (p.total, p.graph))


def total_of_all(every: Sequence[Path]) -> float:
    """Negated logarithm of the summed likelihoods."""
    if not every:
        return math.inf
    best = every[0].total
    return best - math.log(math.fsum(math.exp(best - p.total) for p in every))


def posteriors(every: Sequence[Path]) -> list[float]:
    """Each path's share."""
    total = total_of_all(every)
    return [math.exp(total - p.total) for p in every]


def arc_posteriors(toy: Toy, every: Sequence[Path]) -> list[float]:
    """For each arc, the share of the paths through it."""
    shares = [0.0] * len(toy.arcs)
    for path, share in zip(every, posteriors(every), strict=True):
        for i in path.arcs:
            shares[i] += share
    return shares


def within_beam(every: Sequence[Path], beam: float) -> tuple[set[int], set[int]]:
    """The arcs, and the final states, of the paths that cost at most ``beam`` more than the best."""
    kept = [p for p in every if p.total <= every[0].total + beam]
    return {i for p in kept for i in p.arcs}, {p.end for p in kept}


def part_of(toy: Toy, arcs: set[int], finals: set[int]) -> Toy:
    """The lattice with these arcs and final states alone."""
    return Toy(toy.n_states, tuple(a for i, a in enumerate(toy.arcs) if i in arcs),
               {s: w for s, w in toy.finals.items() if s in finals})  # fmt: skip


def edit_distance(a: Words, b: Words) -> int:
    """Insertions, deletions and substitutions that make one of the other."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def word_posteriors(every: Sequence[Path]) -> dict[Words, float]:
    """The share of each word sequence."""
    shares: dict[Words, float] = defaultdict(float)
    for path, share in zip(every, posteriors(every), strict=True):
        shares[path.words] += share
    return dict(shares)


def expected_errors(words: Words, shares: dict[Words, float]) -> float:
    """Word errors to expect of these words if one of the paths is right."""
    return math.fsum(share * edit_distance(words, other) for other, share in shares.items())


def least_errors(every: Iterable[Path], reference: Words) -> int:
    """Word errors of the path that is nearest to the reference."""
    return min(edit_distance(p.words, reference) for p in every)


# Costs are multiples of 1/8, so that sums are exact, and few, so that ties are common.
COSTS = st.integers(-4, 24).map(lambda i: i / 8)
WIDE_COSTS = st.integers(-400, 4000).map(lambda i: i / 8)
TIDS = st.lists(st.integers(1, 10), max_size=3).map(tuple)
SCALES = st.builds(
    Scales, st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([0.125, 1.0]), st.sampled_from([0.0, 0.5, -0.25])
)


@st.composite
def toys(draw: st.DrawFn, costs: st.SearchStrategy[float] = COSTS, max_states: int = 6, max_arcs: int = 10) -> Toy:
    """Acyclic lattices; some states cannot be reached, some lead nowhere, numbers in no order, arcs double."""
    n = draw(st.integers(1, max_states))
    number = [0, *draw(st.permutations(range(1, n)))]
    pairs = list(itertools.combinations(range(n), 2))
    arc = st.builds(
        lambda p, word, graph, acoustic, tids: Arc(number[p[0]], number[p[1]], word, graph, acoustic, tids),
        st.sampled_from(pairs or [(0, 0)]), st.integers(0, 3), costs, costs, TIDS,
    )  # fmt: skip
    arcs = draw(st.lists(arc, max_size=max_arcs)) if pairs else []
    finals = draw(st.dictionaries(st.integers(0, n - 1), st.tuples(costs, costs, TIDS), max_size=n))
    return Toy(n, tuple(sorted(arcs, key=lambda a: a.begin)), finals)
