"""Lattices that are written are read again, byte for byte or path for path; and tables of them."""

from __future__ import annotations

import gzip
import re
import time
from pathlib import Path

import lattice_maker as make
import pytest
from acceptor import acceptor, difference
from hypothesis import given, settings
from lattice_maker import Arc, Toy
from test_lattice_paths import toys

from kaldi_punct.errors import FormatError, LatticeError, UtteranceError
from kaldi_punct.kaldi.archives import (
    float_value,
    int_value,
    int_vector_value,
    open_archive,
    parse_wspecifier,
)
from kaldi_punct.kaldi.lattice import Lattice, parse, to_bytes
from kaldi_punct.kaldi.lattice_ops import to_compact, to_state_level
from kaldi_punct.kaldi.tables import open_lattices, read_lattices, write_lattices


def lattice(toy: Toy) -> Lattice:
    return parse(make.binary(toy))


def paths(data: bytes) -> list[make.ToyPath]:
    """All paths of a binary CompactLattice."""
    return sorted(make.all_paths(toy_of(data)), key=repr)


def toy_of(data: bytes) -> Toy:
    """A binary CompactLattice in plain sight; the start becomes state 0 (it is, in what the core writes of a toy)."""
    got = acceptor(data)
    if got.start < 0:
        return Toy(0, (), {})
    assert got.start == 0
    arcs = tuple(
        Arc(s, a.next, a.word, a.weight.graph, a.weight.acoustic, a.weight.tids)
        for s, of_state in enumerate(got.arcs)
        for a in of_state
    )
    return Toy(len(got.arcs), arcs, {s: (w.graph, w.acoustic, w.tids) for s, w in got.finals.items()})


@pytest.mark.parametrize("toy", [make.FORK, make.LINE], ids=["fork", "line"])
class TestForms:
    def test_binary_and_text_are_kaldis(self, toy: Toy) -> None:
        # The maker writes OpenFst's property bits as 3 and floats by Python's rules; all else must be the same.
        ours, made = to_bytes(lattice(toy)), make.binary(toy)
        assert ours[:42] == made[:42]
        assert ours[50:] == made[50:]
        assert to_bytes(parse(make.text(toy)), binary=False).replace(b".0,", b",") == re.sub(
            rb"\.0(?=[,\s])", b"", make.text(toy)
        )

    @pytest.mark.parametrize("form", make.FORMS)
    def test_every_form_becomes_every_form(self, toy: Toy, form: str) -> None:
        source = parse(make.FORMS[form](toy))
        for binary in (True, False):
            for compact in (True, False):
                again = parse(to_bytes(source, binary=binary, compact=compact))
                assert difference(again, lattice(toy)) == ""

    def test_state_level_form_is_kaldis(self, toy: Toy) -> None:
        ours, made = to_bytes(lattice(toy), compact=False), make.binary_noncompact(toy)
        assert b"lattice4" in ours
        assert parse(ours).n_states == parse(made).n_states
        assert parse(ours).n_arcs == parse(made).n_arcs
        assert difference(parse(ours), parse(made)) == ""

    def test_forms_in_memory(self, toy: Toy) -> None:
        level = to_state_level(lattice(toy))
        assert level.n_arcs == parse(make.binary_noncompact(toy)).n_arcs
        assert difference(to_compact(level), lattice(toy)) == ""


@given(toys())
@settings(max_examples=200, deadline=None)
def test_write_read_identity(toy: Toy) -> None:
    whole = lattice(toy)
    assert to_bytes(parse(to_bytes(whole))) == to_bytes(whole)
    text = to_bytes(whole, binary=False)
    assert to_bytes(parse(text), binary=False) == text
    level = to_bytes(whole, compact=False)
    assert to_bytes(parse(level), compact=False) == level
    assert paths(to_bytes(whole)) == sorted(make.all_paths(toy), key=repr)
    there_and_back = paths(to_bytes(parse(level)))
    assert there_and_back == sorted(make.all_paths(toy), key=repr)


class TestOddLattices:
    def test_no_state(self) -> None:
        empty = parse(make.header("compactlattice44", 0, start=-1))
        assert to_bytes(empty, binary=False) == b"\n\n"
        assert parse(to_bytes(empty)).n_states == 0
        assert parse(b"\n\n").n_states == 0

    def test_one_state(self) -> None:
        for final in ({}, {0: (0.0, 0.0, ())}, {0: (1.5, 2.0, (3, 4))}):
            one = lattice(Toy(1, (), final))
            assert parse(to_bytes(one, binary=False)).n_states == 1
            assert difference(parse(to_bytes(one)), one) == ""
        assert to_bytes(lattice(Toy(1, (), {})), binary=False) == b"\n0\tInfinity,Infinity,\n\n"
        assert to_bytes(lattice(Toy(1, (), {})), binary=False, compact=False) == b"\n0\tInfinity,Infinity\n\n"

    def test_start_that_is_not_the_first_state(self) -> None:
        text = b"\n5\t2\t7\t1,2,3\n2\n\n"
        assert to_bytes(parse(text), binary=False) == b"\n1\t0\t7\t1,2,3\n0\n\n"

    def test_cost_beyond_a_float(self) -> None:
        big = parse(make.binary(Toy(2, (Arc(0, 1, 1, 1e300, 0.0),), {1: (0.0, 0.0, ())}), double=True), "lat.ark: utt")
        for binary in (True, False):
            with pytest.raises(
                LatticeError, match=r"lat\.ark: utt.*expected costs that a 32-bit float can hold, got 1"
            ):
                to_bytes(big, binary=binary)


TOYS = {"call-1": make.FORK, "call-2": make.LINE}


class TestTables:
    def entries(self) -> list[tuple[str, Lattice]]:
        return [(key, lattice(toy)) for key, toy in TOYS.items()]

    @pytest.mark.parametrize("spec", ["ark:{}", "ark,t:{}", "{}", "ark,b:{}", "ark:{}.gz", "ark:| cat > {}"])
    def test_written_and_read(self, tmp_path: Path, spec: str) -> None:
        out = spec.format(tmp_path / "lat")
        assert write_lattices(out, self.entries()) == 2
        file = next(tmp_path.iterdir())
        is_text = ",t" in spec
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        assert (b"compactlattice44" not in data) == is_text
        got = dict(read_lattices(f"ark:{file}"))
        assert list(got) == list(TOYS)
        for key, toy in TOYS.items():
            found = got[key]
            assert isinstance(found, Lattice)
            assert difference(found, lattice(toy)) == ""

    def test_state_level(self, tmp_path: Path) -> None:
        write_lattices(f"ark:{tmp_path}/lat", self.entries(), compact=False)
        assert b"compact" not in (tmp_path / "lat").read_bytes()

    def test_script(self, tmp_path: Path) -> None:
        write_lattices(f"ark,scp:{tmp_path}/lat.ark,{tmp_path}/lat.scp", self.entries())
        lines = (tmp_path / "lat.scp").read_text().splitlines()
        assert lines[0] == f"call-1 {tmp_path}/lat.ark:7"
        got = dict(read_lattices(f"scp:{tmp_path}/lat.scp"))
        for key, toy in TOYS.items():
            found = got[key]
            assert isinstance(found, Lattice)
            assert difference(found, lattice(toy)) == ""

    def test_flush(self, tmp_path: Path) -> None:
        fifo = tmp_path / "copy"
        with open_lattices(f"ark,f,t:| cat > {fifo}") as write:
            write("call-2", lattice(make.LINE))
            for _ in range(500):
                if fifo.exists() and fifo.stat().st_size:
                    break
                time.sleep(0.01)
            assert fifo.read_bytes().startswith(b"call-2 \n0\t1\t3")

    @pytest.mark.parametrize("key", ["", "a b", "a\tb"])
    def test_key_that_is_none(self, tmp_path: Path, key: str) -> None:
        with open_archive(tmp_path / "x") as archive, pytest.raises(UtteranceError, match="expected a key without"):
            archive.write(key, b"")

    @pytest.mark.parametrize(
        ("spec", "text"),
        [
            ("scp:a.scp", "expected ark,scp:<archive>,<script>, got one file; name both"),
            ("ark,scp:a.ark", "expected ark,scp:<archive>,<script>, got one file; name both"),
            ("ark,scp:a.gz,a.scp", "expected an archive that is a plain file, got 'a.gz'"),
            ("ark,scp:-,a.scp", "expected an archive that is a plain file, got '-'"),
            ("ark,scp:| cat > a,a.scp", "expected an archive that is a plain file, got '| cat > a'"),
        ],
    )
    def test_no_wspecifier(self, spec: str, text: str) -> None:
        with pytest.raises(FormatError, match=re.escape(f"{spec}: {text}")):
            parse_wspecifier(spec)

    def test_a_colon_in_a_path_is_no_option(self) -> None:
        assert parse_wspecifier("dir/a:b").wxfilename == "dir/a:b"


def test_values() -> None:
    assert int_vector_value([3, 1], binary=False) == b"3 1\n"
    assert int_vector_value([3], binary=True) == b"\0B\4\1\0\0\0\4\3\0\0\0"
    assert float_value(0.125, binary=False) == b"0.125\n"
    assert float_value(1234567.89, binary=False) == b"1234568\n"
    assert float_value(1.0, binary=True) == b"\0B\4\0\0\x80?"
    assert int_value(7, binary=False) == b"7\n"
    assert int_value(7, binary=True) == b"\0B\4\7\0\0\0"
