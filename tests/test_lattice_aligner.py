"""Whole lattices on their frames: hand-made ones, broken ones, and what the options do."""

from __future__ import annotations

import lattice_maker as make
import pytest
from lattice_maker import Arc, Toy

from kaldi_punct import _core
from kaldi_punct.errors import ConfigError, FormatError, LatticeError, UtteranceError
from kaldi_punct.kaldi.aligned import (
    Pron,
    align_lexicon,
    align_phones,
    align_words,
    best_phones,
    best_raw_path,
    best_segments,
    check_same_paths,
    prons,
    to_timed_words,
)
from kaldi_punct.kaldi.aligners import LexiconAligner, PhoneAligner, WordAligner
from kaldi_punct.kaldi.lattice import Decoder, Lattice, parse

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


# By lexicon: "a" is phone 5; "harbour" 2 4 3, "light" 2 3; silence is phone 1, and its label is 9.
LEXICON = b"1 1 5\n2 2 2 4 3\n3 3 2 3\n0 9 1\n"
BY_LEXICON = LexiconAligner(make.transition_model_binary(), LEXICON)


def test_by_lexicon_the_paths_stay_the_same() -> None:
    before = toy(make.FORK)
    lexicon = LEXICON.replace(b"0 9", b"0 0") + b"3 3 2 4 3\n"
    aligned = align_lexicon(before, LexiconAligner(make.transition_model_binary(), lexicon))
    assert len(paths(before)) == 3
    assert paths(aligned.lattice) == paths(before)
    assert aligned.problem == ""
    assert aligned.lattice.origin == before.origin


@pytest.mark.parametrize(
    ("words", "tids", "labels", "problem"),
    [
        ((3,), P((1, 2), *WORD, (1, 3)), (9, 3, 9), ""),
        ((1, 2, 3), P((5, 1), (2, 1), (4, 2), (3, 1), *WORD), (1, 2, 3), ""),
        ((), P((1, 2), (1, 2)), (9, 9), ""),
        ((), P((1, 2), (2, 3)), (9, 8), "frames at the end that make no word of the lexicon"),
        ((2,), P((1, 2), (2, 3)), (9, 2), "frames at the end that make no word of the lexicon"),
        ((3, 2), P(*WORD), (3, 2), "frames at the end that make no word of the lexicon"),
    ],
)
def test_labels_by_lexicon(
    words: tuple[int, ...], tids: tuple[int, ...], labels: tuple[int, ...], problem: str
) -> None:
    aligned = align_lexicon(toy(line(words, tids)), BY_LEXICON, partial_word_label=8)
    assert aligned.problem.startswith(problem)
    assert bool(aligned.problem) == bool(problem)
    assert (labels, tids, 1.0, 1.0) in paths(aligned.lattice)
    # Without a word, what is forced out may also hold the silence before it.
    assert len(paths(aligned.lattice)) == (2 if labels == (9, 8) else 1)


def test_new_words_and_words_without_phones() -> None:
    lexicon = LexiconAligner(make.transition_model_binary(), LEXICON + b"4 7\n")
    tids = P((5, 2), (1, 2), *WORD)
    assert paths(align_lexicon(toy(line((1, 4, 3), tids)), lexicon).lattice)[0][0] == (1, 7, 9, 3)
    (path,) = _core.best_paths(toy(line((1, 4, 3), tids)), 1, _core.Scales(1.0, 1.0, 0.0))
    # The path's own words, silence without a label.
    assert [s for s in lexicon.align(path).segments if s[2]] == [(1, 0, 2), (0, 2, 2), (3, 4, 4)]
    assert [s[0] for s in lexicon.align(path).segments if s[0]] == [1, 4, 3]


def test_ambiguous_lexicons_give_every_way() -> None:
    lexicon = LexiconAligner(make.transition_model_binary(), b"1 1 2\n1 1 2 4\n2 2 4 3\n2 2 3\n")
    before = toy(line((1, 2), P((2, 1), (4, 1), (3, 1))))
    aligned = align_lexicon(before, lexicon).lattice
    assert aligned.n_arcs == 4
    with pytest.raises(
        UtteranceError, match=r"expected the aligned lattice to have each path once \(.*\), got .*; does"
    ):
        check_same_paths(before, aligned)
    check_same_paths(before, aligned, allow_duplicates=True)
    with pytest.raises(UtteranceError, match="expected the frames of the best path in the aligned lattice, got others"):
        check_same_paths(before, toy(make.LINE), allow_duplicates=True)


def test_a_lexicon_that_knows_too_little() -> None:
    few = LexiconAligner(make.transition_model_binary(), b"0 0 1\n1 1 5\n")
    with pytest.raises(
        LatticeError, match=r"u1: byte 0: expected words of the align lexicon, got word 3; give the align_l"
    ):
        align_lexicon(toy(make.LINE), few)
    no_silence = LexiconAligner(make.transition_model_binary(), LEXICON.replace(b"0 9 1\n", b""))
    aligned = align_lexicon(toy(make.LINE), no_silence)
    assert aligned.problem == "frames at the end that make no word of the lexicon: was the decoder cut off?"
    with pytest.raises(LatticeError, match="expected transition-ids from 1 to 10, got 11"):
        align_lexicon(toy(line((1,), (2, 11))), BY_LEXICON)


@pytest.mark.parametrize("empty", [Toy(0, (), {}), Toy(1, (), {}), Toy(2, (Arc(0, 1, 3, 0.0, 0.0, P(*WORD)),), {})])
def test_by_lexicon_no_path_gives_no_state(empty: Toy) -> None:
    assert align_lexicon(toy(empty), BY_LEXICON).lattice.n_states == 0
    assert align_phones(toy(empty), PHONES).lattice.n_states == 0


def test_max_expand_by_lexicon() -> None:
    with pytest.raises(LatticeError, match=r"expected an alignment of at most 10.. states, got more"):
        align_lexicon(toy(branching(12)), BY_LEXICON, max_expand=0.001)
    with pytest.raises(ConfigError, match="max_expand: expected 0"):
        align_lexicon(toy(make.LINE), BY_LEXICON, max_expand=-1.0)
    with pytest.raises(ConfigError, match="partial_word_label: expected a word-id of 0 or more, got -1"):
        align_lexicon(toy(make.LINE), BY_LEXICON, partial_word_label=-1)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "l:1: expected words and their phones, got an empty file"),
        (
            b"1 1 5\n<eps> <eps> SIL\n",
            "l:2: expected '<word-id> <new-word-id> <phone-id> ...', got '<eps> <eps> SIL'; give",
        ),
        (b"1 1 5\n\n", "l:2: expected '<word-id> <new-word-id> <phone-id> ...', got ''; give phones/align_lexicon.int"),
        (b"1\n", "l:1: expected '<word-id>"),
        (b"1 1 0\n", "l:1: expected '<word-id>"),
        (b"-1 1 5\n", "l:1: expected '<word-id>"),
        (b"1 1 99999999999\n", "l:1: expected '<word-id>"),
        (b"0 0\n", "l:1: expected phones of word 0 .silence., got none; leave the line out"),
        (b"1 1 5\n1 2 5\n", "l:2: expected one new word for word 1 with these phones, got 1 and 2; leave one out"),
    ],
)
def test_bad_lexicons(data: bytes, text: str) -> None:
    with pytest.raises(FormatError, match=text):
        LexiconAligner(make.transition_model_binary(), data, "m", "l")


def test_the_same_line_twice_is_one() -> None:
    twice = LexiconAligner(make.transition_model_binary(), LEXICON + LEXICON)
    assert align_lexicon(toy(make.LINE), twice).lattice.n_arcs == 3


def test_reorder_by_lexicon() -> None:
    lattice = toy(line((1,), (10, 1, 2)))
    straight = LexiconAligner(make.transition_model_binary(), LEXICON, reorder=False)
    assert align_lexicon(lattice, straight).problem == ""
    assert align_lexicon(lattice, BY_LEXICON).problem.startswith("a phone changes")


# Phones.
PHONES = PhoneAligner(make.transition_model_binary())


def test_phones() -> None:
    tids = P((1, 2), *WORD, (1, 3))
    lattice = toy(line((3,), tids))
    assert paths(align_phones(lattice, PHONES).lattice) == [((3,), tids, 1.0, 1.0)]
    replaced = align_phones(lattice, PHONES, replace_words=True).lattice
    assert paths(replaced) == [((1, 2, 3, 1), tids, 1.0, 1.0)]
    assert replaced.n_arcs == 4
    assert align_phones(lattice, PHONES, remove_epsilons=False).lattice.n_arcs > 4
    assert paths(align_phones(lattice, PHONES, remove_epsilons=False).lattice) == [((3,), tids, 1.0, 1.0)]
    (path,) = _core.best_paths(lattice, 1, _core.Scales(1.0, 1.0, 0.0))
    assert PHONES.align(path).segments == [(1, 0, 2), (2, 2, 2), (3, 4, 2), (1, 6, 3)]


def test_phones_of_broken_lattices() -> None:
    cut = align_phones(toy(line((1,), (2, 9, 9))), PhoneAligner(make.transition_model_binary(), reorder=False))
    assert cut.problem == "an incomplete phone at the end: was the decoder cut off?"
    assert paths(cut.lattice) == [((1,), (2, 9, 9), 1.0, 1.0)]
    with pytest.raises(LatticeError, match=r"lat\.ark: u1: byte 0: expected transition-ids from 1 to 10, got 11"):
        align_phones(toy(line((1,), (2, 11))), PHONES)
    lattice = toy(line((1,), (10, 1, 2)))
    assert align_phones(lattice, PHONES).problem.startswith("a phone changes")
    assert align_phones(lattice, PhoneAligner(make.transition_model_binary(), reorder=False)).problem == ""


def test_prons() -> None:
    lattice = toy(line((3,), P((1, 2), *WORD, (1, 3))))
    path = best_raw_path(lattice, _core.Scales(1.0, 1.0, 0.0))
    expected = (Pron(0, 0, 2, ((1, 2),)), Pron(3, 2, 4, ((2, 2), (3, 2))), Pron(0, 6, 3, ((1, 3),)))
    assert prons(lattice, path, ALIGNER, PHONES) == expected
    assert prons(lattice, path, BY_LEXICON, PHONES) == expected
    with pytest.raises(
        UtteranceError, match=r"u1: byte 0: the lattice has no path to a final state; was decoding cut off"
    ):
        best_raw_path(toy(Toy(1, (), {})), _core.Scales(1.0, 1.0, 0.0))
    few = LexiconAligner(make.transition_model_binary(), b"1 1 5\n")
    with pytest.raises(LatticeError, match="u1: byte 0: expected words of the align lexicon, got word 3"):
        prons(lattice, path, few, PHONES)


def test_timed_words() -> None:
    words = to_timed_words(toy(make.LINE), [(0, 0, 2), (3, 2, 7)], make.WORDS, 0.03)
    assert [(w.word, w.start_s, w.duration_s) for w in words] == [("<eps>", 0.0, 0.06), ("light", 0.06, 0.21)]
    with pytest.raises(
        LatticeError, match=r"u1: byte 0: expected numbers of the phones table, got 7; give the phones\.txt"
    ):
        to_timed_words(toy(make.LINE), [(7, 0, 2)], make.WORDS, 0.03, "phones")


def test_a_decoder_without_times_has_no_segments() -> None:
    bare = Decoder(make.WORDS, None, None, 0.1)
    with pytest.raises(ConfigError, match="aligner: expected a decoder that gives word times, got one without"):
        best_segments(bare, toy(make.LINE))
    timed = Decoder(make.WORDS, ALIGNER, 0.03, 0.1)
    assert [w.start_s for w in best_segments(timed, toy(make.LINE), start_s=60.0).words] == [60.0, 60.06, 60.27]
    with pytest.raises(LatticeError, match="u1: byte 0: expected transition-ids from 1 to 10, got 11"):
        best_phones(timed, toy(line((1,), (2, 11))), {})


def test_what_is_odd_about_a_path_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    best_segments(Decoder(make.WORDS, ALIGNER, 0.03, 0.1), toy(line((3, 2), P(*WORD))))
    assert "u1: byte 0: words without frames at the end" in caplog.text
