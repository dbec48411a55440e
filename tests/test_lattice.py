"""Reading lattices: every form of them, broken ones, sizes."""

from __future__ import annotations

import io
import math
import resource
import struct
import subprocess
import sys

import lattice_maker as make
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_maker import FORMS, Arc, Toy

from kaldi_punct import _core
from kaldi_punct.errors import LatticeError
from kaldi_punct.kaldi.lattice import Decoder, Lattice, WordAligner, parse, read_archive, read_value

ALIGNER = WordAligner(make.transition_model_binary(), make.WORD_BOUNDARY)
DECODER = Decoder(make.WORDS, ALIGNER, frame_shift_s=0.03, acoustic_scale=0.1)


def entries(data: bytes, name: str = "lat.ark") -> list[tuple[str, Lattice | LatticeError]]:
    return list(read_archive(io.BytesIO(data), name))


def raw_paths(lattice: Lattice, n: int, lm: float = 1.0, acoustic: float = 0.1, wip: float = 0.0) -> list[_core.Path]:
    return _core.best_paths(lattice, n, _core.Scales(lm, acoustic, wip))


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
    with pytest.raises(LatticeError, match=r"^lat\.ark: byte 15: expected finite costs, got nan,0\.0"):
        read_value(io.BytesIO(b"\n0 1 3 1,2,4_3\n\n".replace(b"\n\n", b"\n1 nan,0\n\n")), "lat.ark")


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
    with pytest.raises(LatticeError, match=r"^byte \d+: expected more of the lattice, got the end: it is cut short$"):
        parse(make.binary(make.LINE)[:-1])


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
