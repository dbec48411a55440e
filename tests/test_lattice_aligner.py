"""Whole lattices on their frames: hand-made ones, broken ones, and what the options do."""

from __future__ import annotations

import lattice_maker as make
import pytest
from lattice_maker import Arc, Toy

from kaldi_punct import _core
from kaldi_punct.errors import ConfigError, LatticeError
from kaldi_punct.kaldi.aligned import align_words
from kaldi_punct.kaldi.lattice import Lattice, WordAligner, parse

ALIGNER = WordAligner(make.transition_model_binary(), make.WORD_BOUNDARY)
P = make.phones
WORD = ((make.BEGIN, 2), (make.END, 2))


def toy(data: Toy, name: str = "lat.ark: u1") -> Lattice:
    return parse(make.binary(data), name)


def paths(lattice: Lattice, n: int = 100) -> list[tuple[tuple[int, ...], tuple[int, ...], float, float]]:
    scales = _core.Scales(1.0, 1.0, 0.0)
    return [
        (tuple(p.words), tuple(p.transition_ids), round(p.graph_cost, 6), round(p.acoustic_cost, 6))
        for p in _core.best_paths(lattice, n, scales)
    ]


def line(words: tuple[int, ...], tids: tuple[int, ...]) -> Toy:
    """One path; all words at its beginning, far from their frames."""
    arcs = [Arc(i, i + 1, word, 0.0, 0.0) for i, word in enumerate(words)]
    n = len(words)
    return Toy(n + 2, (*arcs, Arc(n, n + 1, 0, 1.0, 1.0, tids)), {n + 1: (0.0, 0.0, ())})


def test_the_paths_stay_the_same() -> None:
    before = toy(make.FORK)
    aligned = align_words(before, ALIGNER)
    assert aligned.problem == ""
    assert paths(aligned.lattice) == paths(before)
    assert aligned.lattice.origin == before.origin
    # Silence, "a", "harbour" or "light", silence; but "a" alone meets only silence before it is put out.
    assert aligned.lattice.n_arcs > before.n_arcs


@pytest.mark.parametrize(
    ("words", "tids", "labels", "problem"),
    [
        ((3,), P((1, 2), *WORD, (1, 3)), (9, 3, 9), ""),
        ((3,), P(*WORD), (3,), ""),
        ((), P((1, 2)), (9,), ""),
        ((), P((1, 2), (1, 2)), (9, 9), ""),
        ((3,), P((1, 2), (2, 3)), (9, 3), "an incomplete word at the end"),
        ((), P((1, 2), (2, 3)), (9, 8), "a partial word without label at the end"),
        ((3, 2), P(*WORD), (3,), "words without frames at the end"),
        ((), (1, 1), (9,), "an incomplete silence at the end"),
        ((3,), P((2, 2), (1, 2), (3, 1), (1, 1)), (3, 9), "a phone that is not word-internal inside a word"),
        ((3,), (3, 6, 5, 2), (3,), "a phone changes before its final transition"),
    ],
)
def test_labels(words: tuple[int, ...], tids: tuple[int, ...], labels: tuple[int, ...], problem: str) -> None:
    aligned = align_words(toy(line(words, tids)), ALIGNER, silence_label=9, partial_word_label=8)
    assert aligned.problem.startswith(problem)
    assert bool(aligned.problem) == bool(problem)
    assert paths(aligned.lattice) == [(labels, tids, 1.0, 1.0)]
    assert aligned.lattice.n_arcs == len(labels)


def test_without_labels_silences_keep_their_frames() -> None:
    tids = P((1, 2), *WORD, (1, 3))
    aligned = align_words(toy(line((3,), tids)), ALIGNER).lattice
    assert (aligned.n_arcs, aligned.n_states, aligned.n_frames) == (3, 4, 9)
    assert paths(aligned) == [((3,), tids, 1.0, 1.0)]


def test_reorder() -> None:
    # With reorder a loop behind the way out is the word's; here it is the silence's.
    lattice = toy(line((1,), (10, 1, 2)))
    straight = WordAligner(make.transition_model_binary(), make.WORD_BOUNDARY, reorder=False)
    assert align_words(lattice, straight).problem == ""
    assert align_words(lattice, ALIGNER).problem.startswith("a phone changes before its final transition")


@pytest.mark.parametrize(
    "empty",
    [
        Toy(0, (), {}),
        Toy(1, (), {}),
        Toy(2, (Arc(0, 1, 3, 0.0, 0.0, P(*WORD)),), {}),
        Toy(3, (Arc(0, 1, 3, 0.0, 0.0, P(*WORD)),), {2: (0.0, 0.0, ())}),
    ],
)
def test_no_path_to_the_end_gives_no_state(empty: Toy) -> None:
    aligned = align_words(toy(empty), ALIGNER).lattice
    assert (aligned.n_states, aligned.n_arcs, paths(aligned)) == (0, 0, [])


def test_one_state_and_nothing_but_epsilons() -> None:
    assert paths(align_words(toy(Toy(1, (), {0: (0.5, 2.0, ())})), ALIGNER).lattice) == [((), (), 0.5, 2.0)]
    epsilons = Toy(3, (Arc(0, 1, 0, 1.0, 2.0), Arc(1, 2, 0, 1.0, 2.0), Arc(0, 2, 0, 0.5, 9.0)), {2: (1.0, 0.0, ())})
    aligned = align_words(toy(epsilons), ALIGNER).lattice
    assert (aligned.n_states, paths(aligned)) == (1, [((), (), 3.0, 4.0)])
    only_final = align_words(toy(Toy(1, (), {0: (0.5, 2.0, P(*WORD))})), ALIGNER, partial_word_label=8)
    assert paths(only_final.lattice) == [((8,), P(*WORD), 0.5, 2.0)]


def test_of_equal_words_between_the_same_states_the_best_stays() -> None:
    twice = Toy(2, (Arc(0, 1, 3, 2.0, 5.0, P(*WORD)), Arc(0, 1, 3, 1.0, 5.5, P(*WORD))), {1: (0.0, 0.0, ())})
    assert paths(align_words(toy(twice), ALIGNER).lattice) == [((3,), P(*WORD), 1.0, 5.5)]


def test_dead_ends_are_dropped() -> None:
    arcs = (*make.LINE.arcs, Arc(0, 2, 2, 0.0, 0.0, P((1, 2), *WORD)))
    aligned = align_words(toy(Toy(3, arcs, make.LINE.finals)), ALIGNER).lattice
    assert paths(aligned) == paths(toy(make.LINE))
    assert aligned.n_arcs == 3


def test_another_models_lattice() -> None:
    with pytest.raises(
        LatticeError, match=r"^lat\.ark: u1: byte 0: expected transition-ids from 1 to 10, got 11; is this the model"
    ):
        align_words(toy(line((1,), (2, 11))), ALIGNER)
    few = WordAligner(make.transition_model_binary(), b"1 nonword\n5 singleton\n")
    with pytest.raises(LatticeError, match=r"expected phones of the word boundary file, got phone 2; give the word_b"):
        align_words(toy(make.FORK), few)


def branching(n: int) -> Toy:
    """2**n paths: each arc has a word of its own, and no frame tells the words apart before the end."""
    arcs = [a for i in range(n) for a in (Arc(i, i + 1, 1, 0.0, 0.0), Arc(i, i + 1, 2, 0.0, 0.0))]
    return Toy(n + 2, (*arcs, Arc(n, n + 1, 0, 0.0, 0.0, P((1, 2)))), {n + 1: (0.0, 0.0, ())})


def test_max_expand() -> None:
    assert align_words(toy(branching(5)), ALIGNER).problem != ""
    with pytest.raises(
        LatticeError, match=r"u1: byte 0: expected an alignment of at most 1028 states, got more \(the lattice has 14\)"
    ):
        align_words(toy(branching(12)), ALIGNER, max_expand=2.0)
    assert align_words(toy(branching(12)), ALIGNER, max_expand=2000.0).lattice.n_arcs > 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"silence_label": -1}, "silence_label: expected a word-id of 0 or more, got -1"),
        ({"partial_word_label": 2**31}, "partial_word_label: expected a word-id of 0 or more, got 2147483648"),
        ({"max_expand": -0.5}, r"max_expand: expected 0 \(no limit of its own\) or a factor above it, got -0.5"),
        ({"max_expand": float("nan")}, "max_expand: expected 0"),
    ],
)
def test_options_out_of_range(options: dict[str, int], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        align_words(toy(make.LINE), ALIGNER, **options)
