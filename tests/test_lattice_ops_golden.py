"""What a reference Kaldi makes of real lattices (../shared/golden): lattices out, and what is counted on them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from acceptor import difference

from kaldi_punct.kaldi.lattice import Lattice, parse, read_archive, to_bytes

pytestmark = pytest.mark.shared


@dataclass(frozen=True)
class Set:
    acoustic_scale: float


SETS = {
    "gmm-lj": Set(0.0833333),
    "gmm-long": Set(0.0833333),
    "chain-lj": Set(0.1),
    "chain-partial": Set(0.1),
    "tdnn-lstm": Set(0.1),
}
WITH_TEXT = {"atol": 0.05, "rtol": 2e-5}  # costs of text have six digits, and the differences add up along a path


def read(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def lattices(path: Path) -> Iterator[tuple[str, Lattice]]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        for key, lattice in read_archive(stream, path.name):
            assert isinstance(lattice, Lattice), lattice
            yield key, lattice


def read_table(path: Path) -> dict[str, str]:
    rows = (line.partition(" ") for line in read(path).decode().splitlines())
    return {key: value.strip(" ") for key, _, value in rows}


@pytest.fixture(params=SETS)
def folder(request: pytest.FixtureRequest, shared: Path) -> Path:
    return shared / "golden" / str(request.param)


def scale_of(folder: Path) -> float:
    return SETS[folder.name].acoustic_scale


class TestCopy:
    def test_binary_is_the_same_to_the_byte(self, folder: Path) -> None:
        ours = b"".join(key.encode() + b" " + to_bytes(lattice) for key, lattice in lattices(folder / "lat.ark"))
        assert ours == read(folder / "lat.ark")

    def test_text_is_the_same_to_the_byte(self, folder: Path) -> None:
        ours = b"".join(
            key.encode() + b" " + to_bytes(lattice, binary=False) for key, lattice in lattices(folder / "lat.ark")
        )
        assert ours == read(folder / "lat.txt.gz")

    def test_state_level_is_the_same_but_for_the_header(self, folder: Path) -> None:
        golden = read(folder / "lat.noncompact.ark.gz")
        ours = b"".join(
            key.encode() + b" " + to_bytes(lattice, compact=False) for key, lattice in lattices(folder / "lat.ark")
        )
        assert len(ours) == len(golden)
        at = 0
        for key, _ in lattices(folder / "lat.ark"):  # OpenFst writes down also whether labels are sorted
            properties = golden.index(key.encode() + b" \xd6\xfd\xb2\x7e", at) + len(key) + 1 + 34
            assert ours[at:properties] == golden[at:properties]
            at = properties + 8
        assert ours[at:] == golden[at:]

    def test_state_level_becomes_compact(self, folder: Path) -> None:
        compact = dict(lattices(folder / "lat.ark"))
        for key, lattice in lattices(folder / "lat.noncompact.ark.gz"):
            again = parse(to_bytes(lattice))
            assert again.n_states <= 2 * compact[key].n_states  # frames of a final state need an arc
            assert difference(again, compact[key]) == ""
