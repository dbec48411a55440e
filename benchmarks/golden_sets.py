"""Sets of real lattices with the answers of a reference Kaldi, and how near ours come."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kaldi_punct import _core
from kaldi_punct.errors import LatticeError
from kaldi_punct.kaldi.lattice import Decoder, Lattice, WordAligner, read_archive
from kaldi_punct.kaldi.symbols import read_symbols

TIE = 1e-6  # relative: hypotheses this near may stand in any order

# Acoustic scale, seconds of a lattice frame, and the lang directory as seen from the set's folder.
SETS = {
    "gmm-lj": (0.0833333, 0.01, "../lang"),
    "gmm-long": (0.0833333, 0.01, "../lang"),
    "chain-lj": (0.1, 0.03, "../lang"),
    "chain-partial": (0.1, 0.03, "../lang"),
    "tdnn-lstm": (0.1, 0.03, "../../recipe/s5/data/lang_test"),
}


@dataclass(frozen=True)
class GoldenSet:
    """One set; answers are read when they are asked for.

    Attributes:
        folder: of its files.
        acoustic_scale: that Kaldi was given.
        frame_shift_s: of its lattices.
        lang: the lang directory, as seen from the folder.
    """

    folder: Path
    acoustic_scale: float
    frame_shift_s: float
    lang: str

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def scales(self) -> _core.Scales:
        return _core.Scales(1.0, self.acoustic_scale, 0.0)

    @cached_property
    def words(self) -> Mapping[int, str]:
        return read_symbols(self.folder / self.lang / "words.txt")

    @cached_property
    def aligner(self) -> WordAligner:
        boundary = self.folder / self.lang / "phones" / "word_boundary.int"
        return WordAligner((self.folder / "trans.mdl").read_bytes(), boundary.read_bytes())

    def decoder(self, lm_scale: float = 1.0, word_ins_penalty: float = 0.0) -> Decoder:
        """Makes words, times and scores of the set's lattices."""
        return Decoder(self.words, self.aligner, self.frame_shift_s, self.acoustic_scale, lm_scale, word_ins_penalty)

    def bytes(self, name: str) -> bytes:
        """A file, unpacked."""
        data = (self.folder / name).read_bytes()
        return gzip.decompress(data) if name.endswith(".gz") else data

    def lattices(self, name: str = "lat.ark") -> Iterator[tuple[str, Lattice]]:
        """The lattices of an archive; a broken one raises."""
        path = self.folder / name
        with gzip.open(path) if name.endswith(".gz") else path.open("rb") as stream:
            for key, lattice in read_archive(stream, name):
                if isinstance(lattice, LatticeError):
                    raise lattice
                yield key, lattice

    def table(self, name: str) -> dict[str, str]:
        """A table of one line for each key."""
        rows = (line.partition(" ") for line in self.bytes(name).decode().splitlines())
        return {key: value.strip(" ") for key, _, value in rows}

    def rows(self, name: str) -> dict[str, list[list[str]]]:
        """A table of several lines for each key, such as a CTM: the fields behind the key."""
        out: dict[str, list[list[str]]] = {}
        for line in self.bytes(name).decode().splitlines():
            key, *fields = line.strip(" ").split(" ")
            out.setdefault(key, []).append(fields)
        return out


@dataclass(frozen=True)
class Score:
    """How near our answer is to Kaldi's.

    Attributes:
        n_equal, n_wrong: utterances for which all that must be identical is, or is not.
        n_ties: places of lists where another of the hypotheses of equal cost stands.
        worst: the largest difference of each kind of number, in its own unit.
    """

    n_equal: int = 0
    n_wrong: int = 0
    n_ties: int = 0
    worst: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_equal(self) -> bool:
        return self.n_wrong == 0 and self.n_equal > 0

    def with_utterance(self, other: Score) -> Score:
        """Both together."""
        worst = {kind: max(self.worst.get(kind, 0.0), other.worst.get(kind, 0.0)) for kind in self.worst | other.worst}
        counts = self.n_equal + other.n_equal, self.n_wrong + other.n_wrong, self.n_ties + other.n_ties
        return Score(*counts, worst)

    def __str__(self) -> str:
        n = self.n_equal + self.n_wrong
        parts = [f"equal {self.n_equal}/{n}"]
        parts += [f"{self.n_ties} ties"] if self.n_ties else []
        parts += [f"{kind} {_digits(value)}" for kind, value in self.worst.items()]
        return ", ".join(parts)


def _digits(value: float) -> str:
    return "0" if value < 5e-10 else f"{value:.1g}"


def score(is_equal: bool, n_ties: int = 0, **numbers: tuple[Sequence[float], Sequence[float]]) -> Score:
    """Of one utterance.

    Args:
        is_equal: all that must be identical is.
        n_ties: in its list.
        numbers: by kind, ours and Kaldi's; they are compared where all that must be identical is.
    """
    if not is_equal or any(len(ours) != len(theirs) for ours, theirs in numbers.values()):
        return Score(n_wrong=1)
    worst = {
        kind.replace("_", " "): max((abs(a - b) for a, b in zip(ours, theirs, strict=True)), default=0.0)
        for kind, (ours, theirs) in numbers.items()
    }
    return Score(n_equal=1, n_ties=n_ties, worst=worst)


Check = Callable[[GoldenSet], Iterator[Score]]  # a score for each utterance
