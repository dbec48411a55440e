"""The times of the words, and the files that they rest on: transition model and word boundaries."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable

import lattice_maker as make
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_maker import Arc, Toy

from kaldi_punct import _core
from kaldi_punct.errors import FormatError, LatticeError
from kaldi_punct.kaldi.lattice import Decoder, Lattice, WordAligner, parse, read_archive

ALIGNER = WordAligner(make.transition_model_binary(), make.WORD_BOUNDARY)
DECODER = Decoder(make.WORDS, ALIGNER, frame_shift_s=0.03, acoustic_scale=0.1)


def entries(data: bytes, name: str = "lat.ark") -> list[tuple[str, Lattice | LatticeError]]:
    return list(read_archive(io.BytesIO(data), name))


def raw_paths(lattice: Lattice, n: int, lm: float = 1.0, acoustic: float = 0.1, wip: float = 0.0) -> list[_core.Path]:
    return _core.best_paths(lattice, n, _core.Scales(lm, acoustic, wip))


def times(toy: Toy, decoder: Decoder = DECODER, start_s: float = 0.0) -> list[tuple[str, float | None, float | None]]:
    return [
        (w.word, w.start_s, w.duration_s) for w in decoder.best_path(parse(make.binary(toy)), start_s=start_s).words
    ]


def line(words: tuple[int, ...], tids: tuple[int, ...]) -> Toy:
    """One path; all words at its beginning, far from their frames."""
    arcs = [Arc(i, i + 1, word, 0.0, 0.0) for i, word in enumerate(words)]
    n = len(words)
    return Toy(n + 2, (*arcs, Arc(n, n + 1, 0, 1.0, 1.0, tids)), {n + 1: (0.0, 0.0, ())})


def test_times() -> None:
    # Frames: 4 of silence, 3 of "a", 3 + 2 + 2 of "harbour", 3 of silence; the second path has one more of "a".
    assert times(make.FORK) == [("a", 4 * 0.03, 3 * 0.03), ("harbour", 7 * 0.03, 7 * 0.03)]
    assert times(make.FORK, start_s=60.0) == [("a", 60 + 4 * 0.03, 3 * 0.03), ("harbour", 60 + 7 * 0.03, 7 * 0.03)]
    assert times(make.FORK, Decoder(make.WORDS, ALIGNER, 0.01, 0.1))[1][1:] == (7 * 0.01, 7 * 0.01)
    assert times(make.FORK, Decoder(make.WORDS, None, None, 0.1)) == [("a", None, None), ("harbour", None, None)]


P = make.phones
WORD = ((make.BEGIN, 2), (make.END, 2))


@pytest.mark.parametrize(
    ("words", "tids", "segments", "problem"),
    [
        ((3,), P((1, 2), *WORD, (1, 3)), [(0, 0, 2), (3, 2, 4), (0, 6, 3)], ""),
        ((3,), P(*WORD), [(3, 0, 4)], ""),  # its end is only known to be one because nothing follows
        ((1, 3), P((5, 1), (2, 1), (3, 1)), [(1, 0, 1), (3, 1, 2)], ""),
        ((1, 1), P((5, 2), (5, 3)), [(1, 0, 2), (1, 2, 3)], ""),
        ((2,), P((2, 1), (4, 1), (4, 2), (3, 1), (1, 1)), [(2, 0, 5), (0, 5, 1)], ""),
        ((), P((1, 2), (1, 2)), [(0, 0, 2), (0, 2, 2)], ""),
        ((), (), [], ""),
        ((3,), P((1, 2), (2, 3)), [(0, 0, 2), (3, 2, 3)], "an incomplete word at the end: was the decoder cut off?"),
        ((3, 2), P((2, 1), (3, 2), (2, 1), (4, 9)), [(3, 0, 3), (2, 3, 10)], "an incomplete word at the end"),
        ((3,), P((1, 4)), [(3, 0, 4)], "an incomplete word at the end"),  # Kaldi gives the word to the silence
        ((), P((1, 2), (2, 3)), [(0, 0, 2), (0, 2, 3)], "a partial word without label at the end"),
        ((3, 2), P(*WORD), [(3, 0, 4)], "words without frames at the end"),
        ((3,), (), [], "words without frames at the end"),
        (
            (3,),
            P((2, 2), (1, 2), (3, 1), (1, 1)),
            [(3, 0, 5), (0, 5, 1)],
            "a phone that is not word-internal inside a word",
        ),
        ((3,), (3, 6, 5, 2), [(3, 0, 4)], "a phone changes before its final transition"),
    ],
)
def test_alignment(
    words: tuple[int, ...], tids: tuple[int, ...], segments: list[tuple[int, int, int]], problem: str
) -> None:
    (path,) = raw_paths(parse(make.binary(line(words, tids))), 5)
    alignment = ALIGNER.align(path)
    assert alignment.segments == segments
    assert alignment.n_unaligned == len(words) - sum(word != 0 for word, _, _ in segments)
    assert alignment.problem.startswith(problem)
    assert bool(alignment.problem) == bool(problem)


def test_words_without_frames_stay_without_times(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert times(line((3, 2), P(*WORD))) == [("light", 0.0, 4 * 0.03), ("harbour", None, None)]
    assert "byte 0: words without frames at the end" in caplog.text


def test_without_reorder_self_loops_come_before_the_way_out() -> None:
    # loop, loop, out | loop, out: with reorder the loop behind the way out is the first word's.
    tids = (9, 9, 10, 9, 10)
    (path,) = raw_paths(parse(make.binary(line((1, 1), tids))), 1)
    straight = WordAligner(make.transition_model_binary(), make.WORD_BOUNDARY, reorder=False)
    assert straight.align(path).segments == [(1, 0, 3), (1, 3, 2)]
    assert ALIGNER.align(path).segments == [(1, 0, 4), (1, 4, 1)]


def test_another_models_lattice() -> None:
    ((_, lattice),) = entries(make.archive({"u1": make.binary(line((1,), (2, 11)))}))
    assert isinstance(lattice, Lattice)
    with pytest.raises(
        LatticeError, match=r"^lat\.ark: u1: byte 3: expected transition-ids from 1 to 10, got 11; is this the model"
    ):
        DECODER.best_path(lattice)
    few = WordAligner(make.transition_model_binary(), b"1 nonword\n5 singleton\n")
    with pytest.raises(
        LatticeError, match=r"expected phones of the word boundary file, got phone 2; give the word_boundary\.int"
    ):
        times(make.FORK, Decoder(make.WORDS, few, 0.03, 0.1))


THREE_STATES = ((0, 1), (1, 2), (2, 3), ())
TWO_WAYS = ((0, 1, 2), (1, 2), ())
HMMS = (THREE_STATES, TWO_WAYS)
OF_PHONE = (-1, 0, 1, 0)
TUPLES = ((1, 0, 0), (1, 1, 1), (1, 2, 2), (2, 0, 3), (2, 1, 4), (3, 2, 5))


@pytest.mark.parametrize("chain", [True, False])
@pytest.mark.parametrize("form", [make.transition_model_binary, make.transition_model_text])
def test_transition_model(form: Callable[..., bytes], chain: bool) -> None:
    model = _core.TransitionModel(form(HMMS, OF_PHONE, TUPLES, chain), "m")
    expected = [
        *((1, False, True), (1, False, False)) * 2, (1, False, True), (1, True, False),
        (2, False, True), (2, False, False), (2, True, False), (2, False, True), (2, True, False),
        (3, False, True), (3, True, False),
    ]  # fmt: skip
    assert [model.transition(i) for i in range(1, model.n_transition_ids + 1)] == expected
    for tid in (0, len(expected) + 1, -1):
        with pytest.raises(IndexError, match=f"no transition-id {tid}"):
            model.transition(tid)


def test_a_model_in_text_times_words_too() -> None:
    aligner = WordAligner(make.transition_model_text(), make.WORD_BOUNDARY)
    assert times(make.FORK, Decoder(make.WORDS, aligner, 0.03, 0.1)) == times(make.FORK)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "m: byte 0: expected more of a transition model, got the end: the file is cut short"),
        (b"\0B<Nnet3> ", "m: byte 10: expected <TransitionModel>, got '<Nnet3>'; give a Kaldi model"),
        (make.transition_model_binary()[:200], "m: byte 200: expected more of a transition model"),
        (make.transition_model_text().partition(b"3 4 5")[0], "m: byte 65: expected more of a transition model"),
        (
            make.transition_model_binary().replace(b"<Tuples>", b"<Truple>"),
            "expected <Tuples> or <Triples>, got '<Truple>'",
        ),
        (make.transition_model_binary(tuples=((7, 0, 1),)), "expected a phone of the topology, got '7'"),
        (make.transition_model_binary(tuples=((1, 2, 1),)), "expected an HMM state of phone 1, got '2'"),
        (make.transition_model_text().replace(b"0.5", b"half"), "expected a number, got 'half'"),
        (make.transition_model_text().replace(b"<State> 1", b"<State> 2"), "expected HMM states in order from 0"),
        (
            make.transition_model_text().replace(b"<Transition>", b"<Jump>"),
            "expected <PdfClass>, <ForwardPdfClass>, <SelfLoopPdfClass>, <Transition> or </State>, got '<Jump>'",
        ),
        (
            make.transition_model_text().replace(b"</TopologyEntry>", b"<End>", 1),
            "expected <State> or </TopologyEntry>, got '<End>'",
        ),
        (
            make.transition_model_text().replace(b"</Topology>", b"<End>", 1),
            "expected <TopologyEntry> or </Topology>, got '<End>'",
        ),
        (make.transition_model_text().replace(b"<Tuples> 5", b"<Tuples> x"), "expected an integer, got 'x'"),
        (
            make.transition_model_text().replace(b"<Tuples> 5", b"<Tuples> -5"),
            "expected a number of transition states, got '-5'",
        ),
        (
            make.transition_model_binary().replace(b"> \4", b"> \5", 1),
            "expected a vector of 4-byte integers, got 'byte 5'",
        ),
        (make.transition_model_text().replace(b"1 2 3 4 5 \n", b"1 2 x 4 5 \n", 1), "expected a phone number, got 'x'"),
    ],
)
def test_bad_transition_model(data: bytes, text: str) -> None:
    with pytest.raises(FormatError, match=text):
        WordAligner(data, make.WORD_BOUNDARY, "m", "b")


@given(st.integers(0, 10**9), st.booleans())
@settings(max_examples=200, deadline=None)
def test_spoilt_models_never_crash(seed: int, is_text: bool) -> None:
    data = bytearray(make.transition_model_text() if is_text else make.transition_model_binary())
    data[seed % len(data)] = seed // len(data) % 256
    try:
        _core.TransitionModel(bytes(data), "m")
    except FormatError as e:
        assert str(e).startswith("m: byte ")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "b:1: expected phones and their place in a word, got an empty file"),
        (b"1 nonword\n2 middle\n", "b:2: expected '<phone-id> nonword.begin.end.internal.singleton', got '2 middle'"),
        (b"1 nonword\nSIL nonword\n", "b:2: expected .*, got 'SIL nonword'; give phones/word_boundary.int"),
        (b"1\n", "b:1: expected .*, got '1'"),
        (b"\xff begin\n", "b:1: expected .*, got '. begin'"),
        (b"99999999999 begin\n", "b:1: expected .*, got '99999999999 begin'"),
    ],
)
def test_bad_word_boundaries(data: bytes, text: str) -> None:
    with pytest.raises(FormatError, match=text):
        WordAligner(make.transition_model_binary(), data, "m", "b")
