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
from lattice_oracle import SCALES, WIDE_COSTS, Scales, Words, toys

from kaldi_punct import _core
from kaldi_punct.errors import UtteranceError
from kaldi_punct.kaldi import lattice_ops
from kaldi_punct.kaldi.aligned import align_phones, align_words
from kaldi_punct.kaldi.aligners import PhoneAligner, WordAligner
from kaldi_punct.kaldi.lattice import Lattice, parse, to_bytes
from kaldi_punct.kaldi.oracle import oracle as lattice_oracle
from kaldi_punct.kaldi.posteriors import arc_posteriors

ALIGNER = WordAligner(make.transition_model_binary(), make.WORD_BOUNDARY)
PHONES = PhoneAligner(make.transition_model_binary())
ANY = st.one_of(toys(), toys(costs=WIDE_COSTS))


def core(scales: Scales) -> _core.Scales:
    return _core.Scales(scales.lm, scales.acoustic, scales.penalty)


Spelled = tuple[Words, Words, float, float]


def expected_paths(toy: Toy, scales: Scales | None = None) -> list[Spelled]:
    return sorted((p.words, p.tids, p.graph, p.acoustic) for p in oracle.paths(toy, scales or Scales()))


def spelled(lattice: Lattice, scales: Scales) -> list[Spelled]:
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
    expected = expected_paths(toy)
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


@given(ANY, st.sampled_from(list(make.FORMS)), st.booleans(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_what_was_written_is_read(toy: Toy, form: str, binary: bool, compact: bool) -> None:
    if not (0 in toy.finals or any(a.begin == 0 for a in toy.arcs)):
        form = "binary"  # the other forms cannot say where such a lattice begins
    lattice = parse(make.FORMS[form](toy))
    written = to_bytes(lattice, binary=binary, compact=compact)
    again = parse(written)
    assert spelled(again, Scales()) == expected_paths(toy)
    assert to_bytes(again, binary=binary, compact=compact) == written


@given(ANY)
@settings(max_examples=150, deadline=None)
def test_other_forms_hold_the_same_paths(toy: Toy) -> None:
    lattice = parse(make.binary(toy))
    for form in (lattice_ops.to_compact, lattice_ops.to_state_level, lattice_ops.connect):
        assert spelled(form(lattice), Scales()) == expected_paths(toy), form
        assert spelled(lattice_ops.to_compact(form(lattice)), Scales()) == expected_paths(toy), form


@given(ANY, SCALES)
@settings(max_examples=150, deadline=None)
def test_rescaled(toy: Toy, scales: Scales) -> None:
    got = lattice_ops.rescale(
        parse(make.binary(toy)),
        acoustic_scale=scales.acoustic, lm_scale=scales.lm, word_ins_penalty=scales.penalty,
    )  # fmt: skip
    every = oracle.paths(toy, scales)
    expected = sorted((p.words, p.tids, scales.lm * p.graph, scales.acoustic * p.acoustic) for p in every)
    assert spelled(got, Scales()) == expected


@given(ANY, SCALES, st.integers(1, 80).map(lambda i: i / 8))
@settings(max_examples=300, deadline=None)
def test_pruned_has_the_arcs_of_paths_within_the_beam(toy: Toy, scales: Scales, beam: float) -> None:
    scales = Scales(scales.lm, scales.acoustic)
    lattice, every = parse(make.binary(toy)), oracle.paths(toy, scales)
    if not every:
        with pytest.raises(UtteranceError):
            lattice_ops.prune(lattice, beam, acoustic_scale=scales.acoustic, lm_scale=scales.lm)
        return
    got = lattice_ops.prune(lattice, beam, acoustic_scale=scales.acoustic, lm_scale=scales.lm)
    kept = oracle.within_beam(every, beam)
    assert got.n_arcs == len(kept[0])
    assert spelled(got, Scales()) == expected_paths(oracle.part_of(toy, *kept))


@given(ANY, SCALES)
@settings(max_examples=200, deadline=None)
def test_arc_posteriors(toy: Toy, scales: Scales) -> None:
    scales = Scales(scales.lm, scales.acoustic)
    lattice, every = parse(make.binary(toy)), oracle.paths(toy, scales)
    if not every:
        with pytest.raises(UtteranceError):
            arc_posteriors(lattice, acoustic_scale=scales.acoustic, lm_scale=scales.lm)
        return
    got = arc_posteriors(lattice, acoustic_scale=scales.acoustic, lm_scale=scales.lm, min_post=1e-9)
    left = [
        (a.word, a.tids, p) for a, p in zip(toy.arcs, oracle.arc_posteriors(toy, every), strict=True) if p > 1.01e-9
    ]
    for arc in got:
        near = [e for e in left if e[:2] == (arc.word, tuple(arc.transition_ids))]
        best = min(near, key=lambda e: abs(e[2] - arc.posterior), default=None)
        assert arc.posterior == pytest.approx(best[2] if best else 0.0, rel=1e-6, abs=1.1e-9)
        if best:
            left.remove(best)
    assert left == []


@given(ANY, st.lists(st.integers(1, 4), max_size=5).map(tuple))
@settings(max_examples=200, deadline=None)
def test_oracle_errors(toy: Toy, reference: Words) -> None:
    lattice, every = parse(make.binary(toy)), oracle.paths(toy, Scales())
    if not every:
        with pytest.raises(UtteranceError):
            lattice_oracle(lattice, reference)
        return
    got = lattice_oracle(lattice, reference)
    assert got.n_errors == oracle.least_errors(every, reference) == oracle.edit_distance(got.words, reference)
    assert got.n_words == len(reference)
    nearest = [p for p in every if oracle.edit_distance(p.words, reference) == got.n_errors]
    assert got.words in [p.words for p in nearest if p.total == nearest[0].total]


@given(ANY, SCALES, st.integers(1, 12))
@settings(max_examples=150, deadline=None)
def test_nbest_lattices_are_the_paths(toy: Toy, scales: Scales, n: int) -> None:
    lattice = parse(make.binary(toy))
    options = {"acoustic_scale": scales.acoustic, "lm_scale": scales.lm, "word_ins_penalty": scales.penalty}
    paths = _core.best_paths(lattice, n, core(scales))
    if not paths:
        return
    linear = [lattice_ops.linear_path(one) for one in lattice_ops.nbest(lattice, n, **options)]
    assert [(list(p.words), list(p.transition_ids), p.graph_cost, p.acoustic_cost) for p in linear] == [
        (p.words, p.transition_ids, p.graph_cost, p.acoustic_cost) for p in paths
    ]


def cheapest(found: list[Spelled]) -> dict[Words, tuple[float, Words]]:
    """The least total of each word sequence, with the frames of that path."""
    least: dict[Words, tuple[float, Words]] = {}
    for words, tids, graph, acoustic in found:
        path = (graph + acoustic, tids)
        least[words] = min(least.get(words, path), path)
    return least


@st.composite
def spoken(draw: st.DrawFn) -> Toy:
    """Lattices whose frames are whole words and silences; each arc may hold part of them, and any word or none."""
    word = st.sampled_from(
        [((make.SINGLETON, 2),), ((make.BEGIN, 1), (make.END, 2)), ((make.BEGIN, 2), (make.INTERNAL, 1), (make.END, 1))]
    )
    n, arcs = draw(st.integers(2, 5)), []
    for begin in range(n - 1):
        for _ in range(draw(st.integers(1, 2))):
            end = draw(st.integers(begin + 1, n - 1))
            has_word = draw(st.booleans())
            tids = make.phones(*draw(word)) if has_word else make.phones((make.SIL, draw(st.integers(1, 3))))
            word_id = draw(st.integers(1, 3)) if has_word else 0
            arcs.append(make.Arc(begin, end, word_id, draw(oracle.COSTS), draw(oracle.COSTS), tids))
    return Toy(n, tuple(arcs), {n - 1: (draw(oracle.COSTS), 0.0, ())})


@given(spoken())
@settings(max_examples=200, deadline=None)
def test_aligned_lattices_keep_words_frames_and_costs(toy: Toy) -> None:
    lattice = parse(make.binary(toy))
    for aligned in (align_words(lattice, ALIGNER), align_phones(lattice, PHONES)):
        assert aligned.problem == ""
        got, expected = cheapest(spelled(aligned.lattice, Scales())), cheapest(expected_paths(toy))
        assert {words: cost for words, (cost, _) in got.items()} == {w: cost for w, (cost, _) in expected.items()}
        frames = {(words, tids) for words, tids, _, _ in expected_paths(toy)}
        assert {(words, tids) for words, (_, tids) in got.items()} <= frames


@given(toys())
@settings(max_examples=200, deadline=None)
def test_aligned_lattices_keep_the_best_path_of_any(toy: Toy) -> None:
    """Also where the frames make no sense as words. Of paths that come to the same words the best is kept."""
    aligned = align_words(parse(make.binary(toy)), ALIGNER)
    expected = oracle.paths(toy, Scales())
    got = [(graph + acoustic, tids) for _, tids, graph, acoustic in spelled(aligned.lattice, Scales())]
    assert min((cost for cost, _ in got), default=None) == min((p.total for p in expected), default=None)
    assert {tids for _, tids in got} <= {p.tids for p in expected}
