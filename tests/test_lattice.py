"""Reading lattices, their best paths and word times, on lattices small enough to see through."""

from __future__ import annotations

import gzip
import io
import logging
import math
import resource
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import lattice_maker as make
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_maker import Arc, Toy

from kaldi_punct import _core
from kaldi_punct.errors import ConfigError, FormatError, LatticeError, UtteranceError
from kaldi_punct.kaldi.lattice import Decoder, Lattice, WordAligner, parse, read_archive, read_value

ALIGNER = WordAligner(make.transition_model_binary(), make.WORD_BOUNDARY)
DECODER = Decoder(make.WORDS, ALIGNER, frame_shift_s=0.03, acoustic_scale=0.1)
FORMS: dict[str, Callable[[Toy], bytes]] = {
    "binary": make.binary,
    "double": lambda toy: make.binary(toy, double=True),
    "text": make.text,
    "noncompact": make.binary_noncompact,
    "noncompact double": lambda toy: make.binary_noncompact(toy, double=True),
    "noncompact text": make.text_noncompact,
}


def entries(data: bytes, name: str = "lat.ark") -> list[tuple[str, Lattice | LatticeError]]:
    return list(read_archive(io.BytesIO(data), name))


def raw_paths(lattice: Lattice, n: int, lm: float = 1.0, acoustic: float = 0.1, wip: float = 0.0) -> list[_core.Path]:
    return _core.best_paths(lattice, n, _core.Scales(lm, acoustic, wip))


# --- what is read


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_hypotheses(form: str) -> None:
    lattice = parse(FORMS[form](make.FORK))
    hyps = DECODER.nbest(lattice, 10)
    assert [" ".join(w.word for w in h.words) for h in hyps] == ["a harbour", "a light", "a"]
    assert [(h.graph_cost, h.acoustic_cost) for h in hyps] == [(6.0, 70.0), (6.75, 72.5), (13.5, 75.0)]
    assert lattice.n_frames == 18
    for toy in (make.FORK, make.LINE):
        paths = raw_paths(parse(FORMS[form](toy)), 10)
        assert {(tuple(p.words), tuple(p.transition_ids)) for p in paths} == {
            (p.words, p.tids) for p in make.all_paths(toy)
        }


@pytest.mark.parametrize("name", ["lat.ark", "lat.txt", "lat.noncompact.ark"])
def test_fixture_archives(name: str) -> None:
    with (make.DATA / name).open("rb") as stream:
        got = list(read_archive(stream, name))
    assert [key for key, _ in got] == ["call-1", "call-2"]
    aligner = WordAligner((make.DATA / "trans.mdl").read_bytes(), (make.DATA / "word_boundary.int").read_bytes())
    decoder = Decoder(make.WORDS, aligner, 0.03, 0.1)
    best = [decoder.best_path(lattice) for _, lattice in got if isinstance(lattice, Lattice)]
    assert [[w.word for w in hyp.words] for hyp in best] == [["a", "harbour"], ["light"]]


def test_fixture_files_are_what_the_maker_makes() -> None:
    for name, data in make.files().items():
        assert (make.DATA / name).read_bytes() == data, f"{name}: run python tests/lattice_maker.py"


def test_shape_and_origin() -> None:
    data = make.archive({"u1": make.binary(make.LINE), "u2": make.binary(make.FORK)})
    (_, first), (_, second) = entries(data)
    assert isinstance(first, Lattice)
    assert isinstance(second, Lattice)
    assert (second.n_states, second.n_arcs) == (5, 5)
    assert first.origin == "lat.ark: u1: byte 3"
    assert second.origin == f"lat.ark: u2: byte {3 + len(make.binary(make.LINE)) + 3}"


def test_binary_and_text_values_may_mix() -> None:
    values = [form(make.FORK) for form in FORMS.values()]
    data = make.archive({f"u{i}": value for i, value in enumerate(values)})
    assert [key for key, _ in entries(data)] == [f"u{i}" for i in range(len(values))]
    assert all(isinstance(lattice, Lattice) for _, lattice in entries(data))


class Dripping(io.RawIOBase):
    """A pipe that gives few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data, self._step = io.BytesIO(data), step

    def read(self, size: int = -1) -> bytes:
        return self._data.read(self._step)


@pytest.mark.parametrize("step", [1, 7, 100])
def test_pieces_of_any_size(step: int) -> None:
    data = make.archive({f"u{i}": form(make.FORK) for i, form in enumerate(FORMS.values())})
    got = list(read_archive(Dripping(data, step), "pipe"))  # type: ignore[arg-type]
    assert [(key, lat.n_arcs) for key, lat in got if isinstance(lat, Lattice)] == [
        (key, lat.n_arcs) for key, lat in entries(data) if isinstance(lat, Lattice)
    ]
    assert len(got) == len(FORMS)


def test_binary_mark_and_windows_newlines_are_taken() -> None:
    assert parse(b"\0B" + make.binary(make.FORK)).n_arcs == 5
    assert parse(make.text(make.FORK).replace(b"\n", b"\r\n")).n_arcs == 5


def test_text_without_the_newline_around_it() -> None:
    assert parse(make.text(make.FORK).strip()).n_arcs == 5


def test_read_value_where_a_script_file_points() -> None:
    data = make.archive({"u1": make.binary(make.LINE), "u2": make.text(make.FORK), "u3": make.binary(make.LINE)})
    stream = io.BytesIO(data)
    stream.seek(data.index(b"u2 ") + 3)
    assert read_value(stream, "lat.ark").n_arcs == 5
    with pytest.raises(LatticeError, match=r"^lat\.ark: byte 0: .*cut short"):
        read_value(io.BytesIO(b""), "lat.ark")
    with pytest.raises(LatticeError, match=r"^lat\.ark: byte 16: expected finite costs, got nan,0\.0"):
        read_value(io.BytesIO(b"\n0 1 3 1,2,4_3\n\n".replace(b"\n\n", b"\n1 nan,0\n\n")), "lat.ark")


# --- what is wrong


@pytest.mark.parametrize("cut", range(1, len(make.binary(make.FORK)), 17))
def test_cut_short_at_any_byte(cut: int) -> None:
    good = make.archive({"good": make.binary(make.LINE)})
    data = good + b"bad " + make.binary(make.FORK)[:cut]
    got = []
    with pytest.raises(LatticeError, match=rf"lat\.ark: bad: byte {len(data)}: .*the archive is cut short"):
        for item in read_archive(io.BytesIO(data), "lat.ark"):
            got.append(item)
    assert [key for key, _ in got] == ["good"]


def test_cut_short_inside_text_and_inside_a_key() -> None:
    data = make.archive({"u1": make.text(make.FORK)})
    with pytest.raises(LatticeError, match=r"u1: byte \d+: .*cut short \(a text lattice ends with an empty line\)"):
        entries(data[:-1])
    with pytest.raises(LatticeError, match=r"lat\.ark: byte 2: expected a key and a lattice, got the end"):
        entries(b"u1")
    with pytest.raises(LatticeError, match=r"lat\.ark: u1: byte 3: .*cut short"):
        entries(b"u1 ")


def test_empty() -> None:
    for data in (b"", b"\n \n"):
        with pytest.raises(LatticeError, match=r"lat\.1\.gz: byte 0: expected a lattice archive, got nothing"):
            entries(data, "lat.1.gz")
    with pytest.raises(LatticeError, match="req: byte 0: expected a lattice, got nothing"):
        parse(b"", "req")


HEADER = make.header("compactlattice44", 2)
FINAL = struct.pack("<ffi", 0, 0, 0)
NO_FINAL = struct.pack("<ffi", math.inf, math.inf, 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (make.header("standard", 2), "expected arc type compactlattice44 or lattice4, got 'standard'"),
        (make.header("lattice4", 2, fst_type="const"), "expected fst type vector, got 'const'"),
        (make.header("lattice4", 2, flags=1), "expected a lattice without symbol tables, got flags 1"),
        (make.header("lattice4", -7), "expected a number of states, got -7"),
        (make.header("lattice4", 2, start=-9), "expected a start state, got -9"),
        (HEADER[:4] + struct.pack("<i", 1 << 30), "expected the length of the fst type, got 1073741824"),
        (HEADER + FINAL + struct.pack("<q", -1), "expected a number of arcs, got -1"),
        (HEADER + FINAL[:8] + struct.pack("<i", -2), "expected a number of transition-ids, got -2"),
        (HEADER + FINAL[:8] + struct.pack("<ii", 1 << 30, 0), "expected a transition-id, got 0"),
        (b"hello", "expected a lattice .OpenFst's magic number, or a newline"),
        (b"\xd6hello", "expected a lattice .OpenFst's magic number., got other bytes"),
    ],
)
def test_no_lattice(value: bytes, text: str) -> None:
    good = make.archive({"u0": make.binary(make.LINE)})
    got = []
    with pytest.raises(LatticeError, match=rf"^lat\.ark: u1: byte \d+: {text}"):
        for item in read_archive(io.BytesIO(good + b"u1 " + value + make.archive({"u2": b""})), "lat.ark"):
            got.append(item[0])
    assert got == ["u0"]


def test_no_archive() -> None:
    with pytest.raises(LatticeError, match=r"byte 0: expected a key and a blank, got other bytes"):
        entries(b"\x00" * 10_000)
    with pytest.raises(LatticeError, match=r"^lat\.ark: byte 0: expected a key in UTF-8, got other bytes; is this"):
        entries(b"\xff\xfe " + make.binary(make.LINE))


def with_arc(arc: Arc) -> Toy:
    return Toy(make.FORK.n_states, (*make.FORK.arcs, arc), make.FORK.finals)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("arc", "text"),
    [
        (Arc(3, 0, 1, 1.0, 1.0, (2,)), "expected a lattice without cycles, got one through state 0"),
        (Arc(2, 2, 1, 1.0, 1.0, (2,)), "expected a lattice without cycles, got one through state 2"),
        (Arc(2, 3, 1, math.nan, 1.0, (2,)), r"expected finite costs, got -?nan,1\.0"),
        (Arc(2, 3, 1, 1.0, -math.inf, (2,)), r"expected finite costs, got 1\.000000,-inf"),
        (Arc(2, 3, 1, math.inf, 1.0, (2,)), r"expected finite costs, got inf,1\.0"),
    ],
)
def test_bad_value_is_one_error_and_the_others_come(form: str, arc: Arc, text: str) -> None:
    good = FORMS[form](make.LINE)
    data = make.archive({"u1": good, "u2": FORMS[form](with_arc(arc)), "u3": good})
    (_, first), (key, error), (_, last) = entries(data)
    assert isinstance(first, Lattice)
    assert isinstance(last, Lattice)
    assert key == "u2"
    assert isinstance(error, LatticeError)
    with pytest.raises(LatticeError, match=rf"^lat\.ark: u2: byte \d+: {text}"):
        raise error


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (make.binary(with_arc(Arc(0, 9, 1, 1.0, 1.0, (2,)))), "expected states below 5, got an arc to state 9"),
        (make.binary(with_arc(Arc(0, -4, 1, 1.0, 1.0, (2,)))), "expected a state number of 0 or more, got -4"),
        (make.binary(with_arc(Arc(0, 3, -1, 1.0, 1.0, (2,)))), "expected a word-id of 0 or more, got -1"),
        (make.binary(make.FORK, start=5), "expected a start state below 5, got 5"),
        (b"\n0 1 x 1,2,3\n\n", "expected an arc or a final state of a lattice, got '0 1 x 1,2,3'"),
        (b"\n0 1 2 1,2,3_0\n\n", "expected an arc or a final state of a lattice, got '0 1 2 1,2,3_0'"),
        (b"\n0 1 2 3 4 5\n\n", "expected an arc or a final state of a lattice, got '0 1 2 3 4 5'"),
        (b"\n0 1 2 1;2\n\n", "expected an arc or a final state of a lattice, got '0 1 2 1;2'"),
        (b"\n0 1 2 1,2,3\n1 2 3 4 1,2\n\n", "expected an arc or a final state of a lattice, got '1 2 3 4 1,2'"),
        (b"\n0 1 -2 1,2,3\n\n", "expected an arc or a final state of a lattice, got '0 1 -2 1,2,3'"),
        (b"\n0 -1 2 1,2,3\n\n", "expected state numbers from 0 to 2147483647, got '0 -1 2 1,2,3'"),
        (b"\n0 4294967296 2 1,2,3\n\n", "expected state numbers from 0 to 2147483647, got '0 4294967296 2 1,2,3'"),
    ],
)
def test_bad_numbers(value: bytes, text: str) -> None:
    (key, error), (_, last) = entries(make.archive({"u1": value, "u2": make.binary(make.LINE)}))
    assert key == "u1"
    assert isinstance(last, Lattice)
    with pytest.raises(LatticeError, match=rf"^lat\.ark: u1: byte \d+: {text}$"):
        raise error  # type: ignore[misc]


def test_unequal_labels() -> None:
    data = bytearray(make.binary(make.LINE))
    at = data.index(struct.pack("<ii", 3, 3))
    data[at : at + 4] = struct.pack("<i", 2)
    with pytest.raises(LatticeError, match=r"req: byte \d+: expected equal labels .*, got 2 and 3"):
        parse(bytes(data), "req")


def test_more_than_one_value() -> None:
    with pytest.raises(LatticeError, match=r"^req: byte \d+: expected the end after one lattice, got 3 more bytes"):
        parse(make.binary(make.LINE) + b"u2 x"[:3], "req")
    with pytest.raises(LatticeError, match="cut short"):
        parse(make.binary(make.LINE)[:-1], "req")


def test_a_huge_state_number_in_text_costs_nothing() -> None:
    lattice = parse(b"\n0 2000000000 3 1,2,2_1\n2000000000\n\n")
    assert (lattice.n_states, lattice.n_arcs, lattice.n_frames) == (2, 1, 2)


def test_a_huge_count_allocates_nothing() -> None:
    code = f"""
import resource
from kaldi_punct.kaldi.lattice import parse, LatticeError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for data in ({HEADER + NO_FINAL + struct.pack("<q", 2**31 - 1)!r}, {make.header("lattice4", 2**31 - 1)!r},
             {HEADER + FINAL[:8] + struct.pack("<i", 2**31 - 1)!r}):
    try:
        parse(data)
    except LatticeError as e:
        assert "cut short" in str(e), e
    else:
        raise SystemExit("read")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 4096  # KiB


@given(st.integers(0, 10**9), st.integers(1, 6))
@settings(max_examples=300, deadline=None)
def test_spoilt_bytes_never_crash(seed: int, n_bytes: int) -> None:
    data = bytearray(make.archive({f"u{i}": form(make.FORK) for i, form in enumerate(FORMS.values())}))
    for _ in range(n_bytes):
        seed = seed * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        data[(seed >> 16) % len(data)] = seed >> 56
    try:
        for _, lattice in read_archive(io.BytesIO(bytes(data)), "spoilt"):
            if isinstance(lattice, Lattice):
                raw_paths(lattice, 3)
    except LatticeError as e:
        assert str(e).startswith("spoilt: ")


# --- the best paths

COSTS = st.integers(-40, 400).map(lambda i: i / 8)


@st.composite
def toys(draw: st.DrawFn) -> Toy:
    n = draw(st.integers(1, 5))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] < p[1])
    tids = st.lists(st.integers(1, 10), max_size=3).map(tuple)
    words = st.integers(0, 3)
    arcs = (
        draw(st.lists(st.builds(lambda p, *rest: Arc(*p, *rest), ends, words, COSTS, COSTS, tids), max_size=9))
        if n > 1
        else []
    )
    finals = draw(st.dictionaries(st.integers(0, n - 1), st.tuples(COSTS, COSTS, tids), max_size=n))
    return Toy(n, tuple(arcs), finals)


@given(
    toys(),
    st.integers(1, 40),
    st.sampled_from([0.5, 1.0]),
    st.sampled_from([0.125, 1.0]),
    st.sampled_from([0, 0.5, -0.25]),
)
@settings(max_examples=300, deadline=None)
def test_nbest_against_brute_force(toy: Toy, n: int, lm: float, acoustic: float, wip: float) -> None:
    paths = list(make.all_paths(toy))
    costs = sorted(lm * (p.graph + wip * len(p.words)) + acoustic * p.acoustic for p in paths)
    for form in (
        (make.binary, make.text, make.binary_noncompact) if any(a.begin == 0 for a in toy.arcs) else (make.binary,)
    ):
        lattice = parse(form(toy))
        got = raw_paths(lattice, n, lm, acoustic, wip)
        assert [p.total_cost for p in got] == pytest.approx(costs[:n])
        left = [(p.words, p.tids, p.graph + wip * len(p.words), p.acoustic) for p in paths]
        for p in got:  # each is a path of its own
            left.remove((tuple(p.words), tuple(p.transition_ids), p.graph_cost, p.acoustic_cost))
            assert p.total_cost == pytest.approx(lm * p.graph_cost + acoustic * p.acoustic_cost)
        total = _core.total_cost_of_all(lattice, _core.Scales(lm, acoustic, wip))
        expected = -math.log(sum(math.exp(-c) for c in costs)) if costs else math.inf
        assert total == pytest.approx(expected)


def test_of_equal_totals_the_lower_graph_cost_goes_first() -> None:
    arcs = (Arc(0, 1, 1, 3.0, 10.0), Arc(0, 1, 2, 1.0, 12.0), Arc(0, 1, 3, 2.0, 11.0))
    paths = raw_paths(parse(make.binary(Toy(2, arcs, {1: (0.0, 0.0, ())}))), 3, acoustic=1.0)
    assert paths[0].words == [2]
    assert [p.total_cost for p in paths] == [13.0, 13.0, 13.0]


def test_posteriors_are_shares_of_all_paths() -> None:
    hyps = DECODER.nbest(parse(make.binary(make.FORK)), 10)
    assert sum(h.posterior or 0 for h in hyps) == pytest.approx(1.0)
    assert DECODER.best_path(parse(make.binary(make.FORK))).posterior == hyps[0].posterior
    costs = [(h.graph_cost or 0) + 0.1 * (h.acoustic_cost or 0) for h in hyps]
    assert hyps[1].posterior == pytest.approx((hyps[0].posterior or 0) * math.exp(costs[0] - costs[1]))


def test_scales() -> None:
    lattice = parse(make.binary(make.FORK))
    assert len(DECODER.nbest(lattice, 2)) == 2
    # "a" alone: graph 13.5 and acoustic 75, "a harbour": 6 and 70.
    cheap_words = Decoder(make.WORDS, None, None, acoustic_scale=0.1, word_ins_penalty=9.0)
    hyp = cheap_words.best_path(lattice)
    assert [w.word for w in hyp.words] == ["a"]
    assert hyp.graph_cost == 13.5 + 9.0
    assert [w.word for w in Decoder(make.WORDS, None, None, 0.1, lm_scale=-1.0).best_path(lattice).words] == ["a"]
    assert [w.word for w in DECODER.best_path(lattice, acoustic_scale=-3.0).words] == ["a"]


def test_no_path() -> None:
    for toy in (Toy(0, (), {}), Toy(1, (), {}), Toy(2, (Arc(0, 1, 1, 1.0, 1.0),), {}), Toy(3, (), {2: (0.0, 0.0, ())})):
        data = make.archive({"u7": make.binary(toy, start=-1 if toy.n_states == 0 else 0)})
        ((_, lattice),) = entries(data)
        assert isinstance(lattice, Lattice)
        with pytest.raises(UtteranceError, match=r"^lat\.ark: u7: byte 3: the lattice has no path to a final state"):
            DECODER.nbest(lattice, 3)


def test_a_path_without_words_or_frames() -> None:
    hyp = DECODER.best_path(parse(make.binary(Toy(1, (), {0: (1.5, 2.0, ())}))))
    assert (hyp.words, hyp.graph_cost, hyp.acoustic_cost) == ((), 1.5, 2.0)
    silent = Toy(2, (Arc(0, 1, 0, 1.0, 2.0, make.frames(make.SIL, 5)),), {1: (0.0, 0.0, ())})
    assert DECODER.best_path(parse(make.binary(silent))).words == ()


def test_bad_arguments() -> None:
    lattice = parse(make.binary(make.FORK))
    with pytest.raises(ConfigError, match="n: expected at least 1 hypothesis, got 0"):
        DECODER.nbest(lattice, 0)
    with pytest.raises(ConfigError, match="acoustic_scale: expected a finite number, got nan"):
        DECODER.best_path(lattice, acoustic_scale=math.nan)
    with pytest.raises(ConfigError, match="lm_scale: expected a finite number, got inf"):
        Decoder(make.WORDS, None, None, 0.1, lm_scale=math.inf)
    with pytest.raises(
        ConfigError, match=r"frame_shift_s: expected the length of a lattice frame \(0\.03 or 0\.01 s\)"
    ):
        Decoder(make.WORDS, ALIGNER, None, 0.1)
    with pytest.raises(ConfigError, match="frame_shift_s: expected seconds between 0 and 1, got 10"):
        Decoder(make.WORDS, ALIGNER, 10, 0.1)


def test_a_word_that_words_txt_lacks() -> None:
    ((_, lattice),) = entries(make.archive({"u1": make.binary(make.FORK)}))
    assert isinstance(lattice, Lattice)
    few = Decoder({0: "<eps>", 1: "a"}, None, None, 0.1)
    with pytest.raises(
        LatticeError, match=r"^lat\.ark: u1: byte 3: expected word-ids .*\(2 words\), got 2; give the words"
    ):
        few.best_path(lattice)


# --- the times of the words


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


# --- transition models and word boundaries

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
        (make.transition_model_text().replace(b"<Transition>", b"<Jump>"), "<Transition> or </State>, got '<Jump>'"),
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


# --- size and speed


def test_a_long_archive_takes_no_more_memory() -> None:
    value = make.archive({"u": make.binary(make.FORK)}) * 1000

    class Endless(io.RawIOBase):
        n_left = 100

        def read(self, size: int = -1) -> bytes:
            self.n_left -= 1
            return value if self.n_left >= 0 else b""

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n = sum(1 for _ in read_archive(Endless(), "endless"))  # type: ignore[arg-type]
    assert n == 100_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8192  # KiB; the archive has 40 MiB


def test_threads_run_beside_the_core() -> None:
    # Many paths: 2 to the power of 400.
    arcs = [Arc(i, i + 1, w, float(w), 1.0, (2,)) for i in range(400) for w in (1, 2)]
    lattice = parse(make.binary(Toy(401, tuple(arcs), {400: (0.0, 0.0, ())})))
    started, n_beside = threading.Event(), 0

    def work() -> None:
        started.set()
        raw_paths(lattice, 8000)

    thread = threading.Thread(target=work)
    begin = time.perf_counter()
    thread.start()
    started.wait()
    while thread.is_alive():
        time.sleep(0.001)
        n_beside += 1
    assert n_beside > 5, f"{n_beside} steps beside {time.perf_counter() - begin:.3f} s in the core"


# --- the embedded sample


def test_embedded_sample_gives_what_kaldi_gives(mini: Path) -> None:
    words = {int(i): w for w, i in (row.split(" ") for row in (mini / "lang/words.txt").read_text().splitlines())}
    aligner = WordAligner((mini / "trans.mdl").read_bytes(), (mini / "lang/phones/word_boundary.int").read_bytes())
    decoder = Decoder(words, aligner, 0.03, 0.1)
    nbest, ctm = [], []
    for name in ("lat.1.gz", "lat.2.gz"):
        with gzip.open(mini / "decode" / name) as stream:
            for key, lattice in read_archive(stream, name):
                assert isinstance(lattice, Lattice)
                hyps = decoder.nbest(lattice, 10)
                nbest += [" ".join([f"{key}-{i}", *(w.word for w in h.words)]) for i, h in enumerate(hyps, 1)]
                ctm += [(key, w.word, w.start_s, w.duration_s) for w in hyps[0].words]
    golden = [row.split(" ")[:5] for row in (mini / "kaldi/1best.ctm").read_text().splitlines()]
    assert [row.rstrip(" ") for row in (mini / "kaldi/nbest10.words").read_text().splitlines()] == nbest
    assert [(key, word) for key, _, _, _, word in golden] == [(key, word) for key, word, _, _ in ctm]
    for (_, _, start_s, duration_s), row in zip(ctm, golden, strict=True):
        assert (start_s, duration_s) == pytest.approx((float(row[2]), float(row[3])), abs=0.015)
