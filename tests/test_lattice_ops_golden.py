"""What a reference Kaldi makes of real lattices (../shared/golden): lattices out, and what is counted on them."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from acceptor import difference

from kaldi_punct import _core
from kaldi_punct.kaldi.lattice import Lattice, parse, read_archive, to_bytes
from kaldi_punct.kaldi.lattice_ops import linear_path, nbest, prune, rescale
from kaldi_punct.kaldi.oracle import oracle
from kaldi_punct.kaldi.posteriors import arc_posteriors, depth, depth_per_frame, sentence_confidence

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
TIE = 1e-6  # relative: two hypotheses this close may swap
ORACLE_TEXT = {"tdnn-lstm": "../../recipe/s5/data/turns_dev/text"}
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


class TestCosts:
    def test_scaled(self, folder: Path) -> None:
        if not (folder / "lat.scaled.txt.gz").exists():
            pytest.skip(f"{folder.name} holds no such file")
        golden = dict(lattices(folder / "lat.scaled.txt.gz"))
        n = 0
        for key, lattice in lattices(folder / "lat.ark"):
            ours = rescale(lattice, lm_scale=0.5, acoustic_scale=scale_of(folder))
            assert difference(ours, golden[key], **WITH_TEXT) == ""
            assert to_bytes(ours, binary=False).count(b"\n") == to_bytes(golden[key], binary=False).count(b"\n")
            n += 1
        assert n == len(golden)

    def test_pruned(self, folder: Path) -> None:
        golden = dict(lattices(folder / "lat.prune3.txt.gz"))
        n = 0
        for key, lattice in lattices(folder / "lat.ark"):
            ours = prune(lattice, 3.0, acoustic_scale=scale_of(folder))
            assert (ours.n_states, ours.n_arcs) == (golden[key].n_states, golden[key].n_arcs)
            # Written with six digits, as Kaldi's were; as it scaled its costs there and back in 32 bits, a last digit
            # may be another.
            assert difference(parse(to_bytes(ours, binary=False)), golden[key], atol=0.05) == ""
            n += 1
        assert n == len(golden)

    def test_pruned_state_level(self, folder: Path) -> None:
        compact = dict(lattices(folder / "lat.ark"))
        for key, lattice in lattices(folder / "lat.noncompact.ark.gz"):
            ours = prune(lattice, 3.0, acoustic_scale=scale_of(folder))
            assert difference(ours, prune(compact[key], 3.0, acoustic_scale=scale_of(folder))) == ""


class TestBestPaths:
    def test_nbest_lattices(self, folder: Path) -> None:
        """Each path is one of Kaldi's, and stands in its place but for ties."""
        golden = {key: linear_path(lattice) for key, lattice in lattices(folder / "nbest10.ark.gz")}
        alignments, words = read_table(folder / "nbest10.ali.gz"), read_table(folder / "nbest10.words.int")
        keys, n_ties = [], 0
        for utt_id, lattice in lattices(folder / "lat.ark"):
            for rank, of_one in enumerate(nbest(lattice, 10, acoustic_scale=scale_of(folder)), 1):
                key = f"{utt_id}-{rank}"
                keys.append(key)
                ours, theirs = linear_path(parse(to_bytes(of_one))), golden[key]
                total, total_theirs = (p.graph_cost + scale_of(folder) * p.acoustic_cost for p in (ours, theirs))
                assert total == pytest.approx(total_theirs, rel=TIE)
                if ours.words != theirs.words:
                    n_ties += 1
                    continue
                assert ours.transition_ids == theirs.transition_ids
                assert " ".join(map(str, ours.transition_ids)) == alignments[key]
                assert " ".join(map(str, ours.words)) == words[key]
                assert ours.graph_cost == pytest.approx(theirs.graph_cost, rel=1e-5, abs=1e-3)
                assert ours.acoustic_cost == pytest.approx(theirs.acoustic_cost, rel=1e-5, abs=1e-3)
        assert keys == list(golden)
        assert n_ties <= (2 if folder.name == "gmm-long" else 0)

    def test_linear_path_of_kaldis_nbest(self, folder: Path) -> None:
        names = ("nbest10.ali.gz", "nbest10.words.int", "nbest10.lmcost", "nbest10.accost")
        alignments, words, lm, ac = (read_table(folder / name) for name in names)
        for key, lattice in lattices(folder / "nbest10.ark.gz"):
            path = linear_path(lattice)
            assert " ".join(map(str, path.transition_ids)) == alignments[key]
            assert " ".join(map(str, path.words)) == words[key]
            assert path.graph_cost == pytest.approx(float(lm[key]), rel=1e-5)
            assert path.acoustic_cost == pytest.approx(float(ac[key]), rel=1e-5)

    def test_alignment_of_the_best_path(self, folder: Path) -> None:
        golden, words = read_table(folder / "best.ali.gz"), read_table(folder / "best.words.int")
        for key, lattice in lattices(folder / "lat.ark"):
            path = linear_path(nbest(lattice, 1, acoustic_scale=scale_of(folder))[0])
            assert " ".join(map(str, path.transition_ids)) == golden[key]
            assert " ".join(map(str, path.words)) == words[key]

    def test_word_insertion_penalty(self, folder: Path) -> None:
        golden = read_table(folder / "best_wip0.5.words")
        lang = (
            folder.parent.parent / "recipe/s5/data/lang_test" if folder.name == "tdnn-lstm" else folder.parent / "lang"
        )
        words = {
            int(i): word for word, i in (line.split(" ") for line in (lang / "words.txt").read_text().splitlines())
        }
        for key, lattice in lattices(folder / "lat.ark"):
            path = linear_path(nbest(lattice, 1, acoustic_scale=scale_of(folder), word_ins_penalty=0.5)[0])
            assert " ".join(words[i] for i in path.words) == golden[key]


class TestMeasures:
    def test_depth(self, folder: Path) -> None:
        golden = read_table(folder / "depth.txt")
        for key, lattice in lattices(folder / "lat.ark"):
            assert depth(lattice) == pytest.approx(float(golden.pop(key)), rel=1e-6)
            per_frame = depth_per_frame(lattice)
            assert sum(per_frame) / len(per_frame) == pytest.approx(depth(lattice), rel=1e-9)
        assert golden == {}

    def test_sentence_confidence(self, folder: Path) -> None:
        golden = read_table(folder / "sentence_confidence.txt")
        for form in ("lat.ark", "lat.noncompact.ark.gz"):
            for key, lattice in lattices(folder / form):
                ours = sentence_confidence(lattice, acoustic_scale=scale_of(folder))
                # Kaldi takes the difference of two sums in 32 bits, whose last digit is worth this much.
                best = linear_path(nbest(lattice, 1, acoustic_scale=scale_of(folder))[0])
                digit = 2.0**-22 * abs(best.graph_cost + scale_of(folder) * best.acoustic_cost)
                assert min(ours, 1e10) == pytest.approx(float(golden[key]), abs=max(1e-3, digit))
        assert golden

    def test_arc_posteriors(self, folder: Path) -> None:
        if not (folder / "arc_post.txt.gz").exists():
            pytest.skip(f"{folder.name} holds no such file")
        golden: dict[str, list[tuple[int, int, int, str, float]]] = {}
        for line in read(folder / "arc_post.txt.gz").decode().splitlines():
            key, first, n_frames, posterior, word, phones = line.split("\t")
            golden.setdefault(key, []).append((int(first), int(n_frames), int(word), phones, float(posterior)))
        model = _core.TransitionModel((folder / "trans.mdl").read_bytes(), "trans.mdl")
        for key, lattice in lattices(folder / "lat.aligned.ark.gz"):
            ours = []
            for arc in arc_posteriors(lattice, acoustic_scale=scale_of(folder)):
                ends = [model.transition(tid) for tid in arc.transition_ids]
                phones = " ".join(str(phone) for phone, is_final, _ in ends if is_final)
                ours.append((arc.first_frame, len(arc.transition_ids), arc.word, phones, arc.posterior))
            theirs = sorted(golden.pop(key))
            assert [arc[:4] for arc in sorted(ours)] == [arc[:4] for arc in theirs]
            for a, b in zip(sorted(ours), theirs, strict=True):
                assert a[4] == pytest.approx(b[4], abs=1e-3)
        assert golden == {}

    def test_oracle(self, folder: Path) -> None:
        if not (folder / "oracle.words").exists():
            pytest.skip(f"{folder.name} holds no such file")
        reference = ORACLE_TEXT.get(folder.name, "ref.text")
        lang = (
            folder.parent.parent / "recipe/s5/data/lang_test" if folder.name == "tdnn-lstm" else folder.parent / "lang"
        )
        ids = {word: int(i) for word, i in (line.split() for line in (lang / "words.txt").read_text().splitlines())}
        references, golden = read_table(folder / reference), read_table(folder / "oracle.words")
        n_errors, n_other = 0, 0
        for key, lattice in lattices(folder / "lat.ark"):
            said = [ids.get(word, ids["<unk>"]) for word in references[key].split()]
            found = oracle(lattice, said, acoustic_scale=scale_of(folder))
            theirs = [ids[word] for word in golden[key].split()]
            assert found.n_errors == edit_distance(said, theirs)
            assert found.n_errors == edit_distance(said, list(found.words))
            assert found.n_words == len(said)
            n_errors += found.n_errors
            n_other += list(found.words) != theirs
        print(f"{folder.name}: {n_errors} errors, {n_other} of {len(golden)} utterances have other words, as close")
        counted = re.findall(r"WER \S+ \[ (\d+) / ", (folder / "oracle.wer").read_text())[0]
        assert n_errors == int(counted)


def edit_distance(a: list[int], b: list[int]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
    return row[-1]
