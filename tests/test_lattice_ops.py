"""Other costs, fewer paths, posteriors, depth and oracle, on lattices small enough to list all paths."""

from __future__ import annotations

import math
from collections.abc import Callable

import lattice_maker as make
import pytest
from acceptor import difference
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_maker import Arc, Toy, ToyPath
from test_lattice_paths import toys
from test_lattice_writing import lattice, paths

from kaldi_punct import _core
from kaldi_punct.errors import ConfigError, LatticeError, UtteranceError
from kaldi_punct.kaldi.lattice import Lattice, parse, to_bytes
from kaldi_punct.kaldi.lattice_ops import connect, linear_path, nbest, prune, rescale
from kaldi_punct.kaldi.oracle import Oracle, oracle
from kaldi_punct.kaldi.posteriors import arc_posteriors, depth, depth_per_frame, sentence_confidence

EMPTY = make.header("compactlattice44", 0, start=-1)
NO_END = make.binary(Toy(2, (Arc(0, 1, 1, 1.0, 1.0, (1,)),), {}))
EPSILONS = Toy(3, (Arc(0, 1, 0, 1.0, 2.0), Arc(1, 2, 0, 0.5, 0.25)), {2: (0.25, 0.0, ())})


def cost(path: ToyPath, lm: float, acoustic: float) -> float:
    return lm * path.graph + acoustic * path.acoustic


class TestRescale:
    @given(toys(), st.sampled_from([0.5, 1.0]), st.sampled_from([0.125, 1.0]), st.sampled_from([0.0, 0.5]))
    @settings(max_examples=100, deadline=None)
    def test_against_brute_force(self, toy: Toy, lm: float, acoustic: float, penalty: float) -> None:
        ours = rescale(lattice(toy), lm_scale=lm, acoustic_scale=acoustic, word_ins_penalty=penalty)
        theirs = [
            ToyPath(p.words, p.tids, lm * (p.graph + penalty * len(p.words)), acoustic * p.acoustic)
            for p in make.all_paths(toy)
        ]
        assert paths(to_bytes(ours)) == sorted(theirs, key=repr)

    @pytest.mark.parametrize("name", ["lm_scale", "acoustic_scale", "word_ins_penalty"])
    def test_scale_that_is_no_number(self, name: str) -> None:
        with pytest.raises(ConfigError, match=f"{name}: expected a finite number, got nan"):
            rescale(lattice(make.FORK), **{name: math.nan})


class TestPrune:
    @given(toys(), st.sampled_from([0.25, 3.0, 20.0]), st.sampled_from([0.5, 1.0]), st.sampled_from([0.125, 1.0]))
    @settings(max_examples=200, deadline=None)
    def test_against_brute_force(self, toy: Toy, beam: float, lm: float, acoustic: float) -> None:
        whole = list(make.all_paths(toy))
        if not whole:
            with pytest.raises(UtteranceError, match="the lattice has no path to a final state"):
                prune(lattice(toy), beam, acoustic_scale=acoustic, lm_scale=lm)
            return
        best = min(cost(p, lm, acoustic) for p in whole)
        kept = paths(to_bytes(prune(lattice(toy), beam, acoustic_scale=acoustic, lm_scale=lm)))
        for path in whole:  # all of the beam are there; others only as mixtures of them
            if cost(path, lm, acoustic) <= best + beam:
                assert path in kept
        assert all(path in whole for path in kept)
        used = {path for path in kept if cost(path, lm, acoustic) <= best + beam}
        assert {w for p in kept for w in p.words} == {w for p in used for w in p.words}

    def test_beam(self) -> None:
        fork = lattice(make.FORK)
        counts = [len(paths(to_bytes(prune(fork, beam, acoustic_scale=0.1)))) for beam in (0.5, 2.0, 100.0)]
        assert counts == [1, 2, 3]
        for beam in (0.0, -1.0, math.nan):
            with pytest.raises(ConfigError, match="beam: expected a number above 0, got"):
                prune(fork, beam, acoustic_scale=0.1)

    def test_form_is_kept(self) -> None:
        level = prune(parse(make.binary_noncompact(make.FORK)), 100.0, acoustic_scale=0.1)
        assert difference(level, lattice(make.FORK)) == ""


class TestConnect:
    @given(toys())
    @settings(max_examples=100, deadline=None)
    def test_paths_stay(self, toy: Toy) -> None:
        ours = connect(lattice(toy))
        assert paths(to_bytes(ours)) == sorted(make.all_paths(toy), key=repr)

    def test_states_of_no_use_go(self) -> None:
        toy = Toy(5, (Arc(0, 2, 1, 1.0, 1.0), Arc(1, 2, 2, 0.0, 0.0), Arc(0, 3, 3, 0.0, 0.0)), {2: (0.0, 0.0, ())})
        assert (connect(lattice(toy)).n_states, connect(lattice(toy)).n_arcs) == (2, 1)


class TestBestPaths:
    @given(toys(), st.integers(1, 10), st.sampled_from([0.0, 0.5]))
    @settings(max_examples=100, deadline=None)
    def test_the_paths_of_the_core(self, toy: Toy, n: int, penalty: float) -> None:
        theirs = _core.best_paths(lattice(toy), n, _core.Scales(1.0, 0.125, penalty))
        if not theirs:
            return
        ours = nbest(lattice(toy), n, acoustic_scale=0.125, word_ins_penalty=penalty)
        assert len(ours) == len(theirs)
        for one, path in zip(ours, theirs, strict=True):
            linear = linear_path(parse(to_bytes(one)))
            assert list(linear.words) == list(path.words)
            assert list(linear.transition_ids) == list(path.transition_ids)
            assert linear.graph_cost == pytest.approx(path.graph_cost)
            assert linear.acoustic_cost == pytest.approx(path.acoustic_cost)

    def test_an_arc_for_each_word(self) -> None:
        best = nbest(lattice(make.FORK), 1, acoustic_scale=0.1)[0]
        assert (best.n_states, best.n_arcs) == (3, 2)

    def test_scales(self) -> None:
        first = [
            linear_path(nbest(lattice(make.FORK), 1, **scales)[0]).words
            for scales in ({"acoustic_scale": 0.1}, {"acoustic_scale": 0.1, "lm_scale": -2.0})
        ]
        assert first[0] != first[1]

    def test_n(self) -> None:
        with pytest.raises(ConfigError, match="n: expected at least 1 path, got 0"):
            nbest(lattice(make.FORK), 0, acoustic_scale=0.1)
        assert len(nbest(lattice(make.FORK), 2**70, acoustic_scale=0.1)) == 3

    def test_not_linear(self) -> None:
        for toy in (make.FORK, Toy(2, (Arc(0, 1, 1, 0.0, 0.0),), {0: (0.0, 0.0, ()), 1: (0.0, 0.0, ())})):
            with pytest.raises(LatticeError, match="expected a lattice of one path, got branches"):
                linear_path(lattice(toy))


class TestPosteriors:
    @given(toys(), st.sampled_from([0.5, 1.0]), st.sampled_from([0.125, 1.0]))
    @settings(max_examples=100, deadline=None)
    def test_against_brute_force(self, toy: Toy, lm: float, acoustic: float) -> None:
        whole = list(make.all_paths(toy))
        if not whole:
            return
        # Each arc gets a transition-id of its own, so that the paths through it can be told.
        marked = tuple(Arc(a.begin, a.end, a.word, a.graph, a.acoustic, (i + 1,)) for i, a in enumerate(toy.arcs))
        finals = {s: (g, ac, ()) for s, (g, ac, _) in toy.finals.items()}
        marked_toy = Toy(toy.n_states, marked, finals)
        whole = list(make.all_paths(marked_toy))
        weights = [math.exp(-cost(p, lm, acoustic)) for p in whole]
        ours = {
            arc.transition_ids[0]: arc
            for arc in arc_posteriors(lattice(marked_toy), acoustic_scale=acoustic, lm_scale=lm, min_post=0.0)
        }
        for i, arc in enumerate(toy.arcs):
            share = sum(w for w, p in zip(weights, whole, strict=True) if i + 1 in p.tids) / sum(weights)
            if share > 1e-12:
                assert ours[i + 1].posterior == pytest.approx(share, rel=1e-6)
                assert ours[i + 1].word == arc.word

    def test_min_post(self) -> None:
        fork = lattice(make.FORK)
        whole = arc_posteriors(fork, acoustic_scale=0.1)
        some = arc_posteriors(fork, acoustic_scale=0.1, min_post=0.4)
        assert [a.posterior for a in some] == [a.posterior for a in whole if a.posterior > 0.4]
        assert len(some) < len(whole)
        assert whole[0].first_frame == 0
        assert whole[0].posterior == pytest.approx(1.0)
        with pytest.raises(ConfigError, match="min_post: expected a number, got nan"):
            arc_posteriors(fork, acoustic_scale=0.1, min_post=math.nan)

    def test_depth(self) -> None:
        toy = Toy(2, (Arc(0, 1, 1, 0.0, 0.0, (1, 2)), Arc(0, 1, 2, 0.0, 0.0, (1, 3))), {1: (0.0, 0.0, (5,))})
        assert depth(lattice(toy)) == pytest.approx(5 / 3)
        assert depth_per_frame(lattice(toy)) == [2, 2, 1]

    @given(toys())
    @settings(max_examples=100, deadline=None)
    def test_depth_per_frame_never_fails(self, toy: Toy) -> None:
        per_frame = depth_per_frame(lattice(toy))
        assert len(per_frame) == lattice(toy).n_frames
        assert all(n >= 0 for n in per_frame)

    def test_confidence(self) -> None:
        fork = lattice(make.FORK)
        best = [cost(p, 0.5, 0.1) for p in make.all_paths(make.FORK)]
        ours = sentence_confidence(fork, acoustic_scale=0.1, lm_scale=0.5)
        assert ours == pytest.approx(sorted(best)[1] - min(best))
        assert sentence_confidence(lattice(make.LINE), acoustic_scale=0.1) == math.inf

    def test_confidence_looks_for_other_words(self) -> None:
        arcs = [Arc(0, 1, 1, float(i), 0.0, (1,)) for i in range(9)] + [Arc(0, 1, 2, 20.0, 0.0, (1,))]
        assert sentence_confidence(lattice(Toy(2, tuple(arcs), {1: (0.0, 0.0, ())})), acoustic_scale=1.0) == 20.0
        same = tuple(Arc(i, i + 1, 0, float(j), 0.0) for i in range(20) for j in range(2))
        with pytest.raises(UtteranceError, match="expected a second sentence, got 8192 paths of the same words"):
            sentence_confidence(lattice(Toy(21, same, {20: (0.0, 0.0, ())})), acoustic_scale=1.0)


class TestOracle:
    @given(toys(), st.lists(st.integers(1, 4), max_size=4), st.sampled_from([(), (2,)]))
    @settings(max_examples=200, deadline=None)
    def test_against_brute_force(self, toy: Toy, reference: list[int], wildcards: tuple[int, ...]) -> None:
        whole = list(make.all_paths(toy))
        if not whole:
            return
        said = [w for w in reference if w not in wildcards]
        found = oracle(lattice(toy), reference, wildcards=wildcards, acoustic_scale=0.125)
        errors = {p: distance([w for w in p.words if w not in wildcards], said) for p in whole}
        assert found.n_errors == min(errors.values()) == distance(list(found.words), said)
        assert found.n_words == len(said)
        assert len(found.words) == found.n_correct + found.n_substitutions + found.n_insertions
        closest = [p for p in whole if errors[p] == found.n_errors]
        likeliest = min(cost(p, 1.0, 0.125) for p in closest)
        assert any(
            tuple(w for w in p.words if w not in wildcards) == found.words and cost(p, 1.0, 0.125) == likeliest
            for p in closest
        )

    def test_counts(self) -> None:
        found = oracle(lattice(make.FORK), [1, 4, 3, 3])
        assert found == Oracle((1, 3), 2, 0, 0, 2)
        assert (found.n_errors, found.n_words) == (2, 4)
        assert oracle(lattice(make.FORK), []) == Oracle((1,), 0, 0, 1, 0)
        assert oracle(lattice(make.LINE), [-1]) == Oracle((3,), 0, 1, 0, 0)

    def test_too_many(self) -> None:
        line = parse(b"\n" + b"".join(b"%d %d 1 0,0,\n" % (i, i + 1) for i in range(70000)) + b"70000\n\n", "lat")
        with pytest.raises(LatticeError, match="expected at most 134217728 pairs of a state and a reference word"):
            oracle(line, [1] * 2000)


def distance(a: list[int], b: list[int]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
    return row[-1]


NEED_A_PATH: dict[str, Callable[[Lattice], object]] = {
    "prune": lambda lat: prune(lat, 5.0, acoustic_scale=0.1),
    "nbest": lambda lat: nbest(lat, 3, acoustic_scale=0.1),
    "posteriors": lambda lat: arc_posteriors(lat, acoustic_scale=0.1),
    "confidence": lambda lat: sentence_confidence(lat, acoustic_scale=0.1),
    "oracle": lambda lat: oracle(lat, [1, 2]),
}


class TestOddLattices:
    @pytest.mark.parametrize("data", [EMPTY, NO_END], ids=["empty", "no end"])
    @pytest.mark.parametrize("name", NEED_A_PATH)
    def test_no_path(self, name: str, data: bytes) -> None:
        with pytest.raises(UtteranceError, match=r"lat\.ark.*the lattice has no path to a final state"):
            NEED_A_PATH[name](parse(data, "lat.ark: utt"))

    @pytest.mark.parametrize("data", [EMPTY, NO_END], ids=["empty", "no end"])
    def test_right_empty_answer(self, data: bytes) -> None:
        whole = parse(data)
        assert connect(whole).n_states == 0
        assert rescale(whole, lm_scale=2.0).n_states == whole.n_states
        assert depth_per_frame(whole) == []
        assert depth(whole) == 1.0
        with pytest.raises((UtteranceError, LatticeError)):
            linear_path(whole)

    def test_epsilons_alone(self) -> None:
        whole = lattice(EPSILONS)
        assert linear_path(nbest(whole, 2, acoustic_scale=0.1)[0]).words == ()
        assert sentence_confidence(whole, acoustic_scale=0.1) == math.inf
        assert oracle(whole, [1]) == Oracle((), 0, 0, 0, 1)
        assert depth_per_frame(whole) == []
        assert [a.posterior for a in arc_posteriors(whole, acoustic_scale=0.1)] == [1.0, 1.0]
        assert prune(whole, 1.0, acoustic_scale=0.1).n_arcs == 2

    def test_one_state(self) -> None:
        one = lattice(Toy(1, (), {0: (1.0, 2.0, (4, 4))}))
        assert linear_path(nbest(one, 2, acoustic_scale=0.1)[0]).transition_ids == (4, 4)
        assert depth_per_frame(one) == [1, 1]
        assert arc_posteriors(one, acoustic_scale=0.1) == []
        assert prune(one, 1.0, acoustic_scale=0.1).n_states == 1

    def test_state_that_cannot_be_reached(self) -> None:
        toy = Toy(3, (Arc(0, 2, 1, 1.0, 1.0, (1,)), Arc(1, 2, 2, -50.0, 0.0, (1, 1, 1))), {2: (0.0, 0.0, ())})
        whole = lattice(toy)
        assert [a.word for a in arc_posteriors(whole, acoustic_scale=0.1)] == [1]
        assert depth_per_frame(whole) == [1]
        assert prune(whole, 5.0, acoustic_scale=0.1).n_states == 2
        assert oracle(whole, [2]).words == (1,)
        assert sentence_confidence(whole, acoustic_scale=0.1) == math.inf

    def test_way_that_ends_nowhere_but_is_longest(self) -> None:
        toy = Toy(3, (Arc(0, 1, 1, 1.0, 1.0, (1,)), Arc(0, 2, 2, 0.0, 0.0, (1,) * 9)), {1: (0.0, 0.0, ())})
        assert depth_per_frame(lattice(toy)) == [2]
