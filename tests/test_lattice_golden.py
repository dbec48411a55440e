"""What a reference Kaldi answers on real lattices (../shared/golden), and on the embedded sample (egs/mini)."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kaldi_punct import _core
from kaldi_punct.kaldi.lattice import Decoder, Lattice, WordAligner, read_archive
from kaldi_punct.types import Hypothesis

pytestmark = pytest.mark.shared

COST_TOLERANCE = 1e-3  # relative
TIE = 1e-6  # relative: two hypotheses this close may swap


@dataclass(frozen=True)
class Set:
    acoustic_scale: float
    frame_shift_s: float
    lang: str = "golden/lang"


SETS = {
    "gmm-lj": Set(0.0833333, 0.01),
    "gmm-long": Set(0.0833333, 0.01),
    "chain-lj": Set(0.1, 0.03),
    "tdnn-lstm": Set(0.1, 0.03, "recipe/s5/data/lang_test"),
    "chain-partial": Set(0.1, 0.03),  # decodes cut off inside words and silences
}
FORMS = ("lat.ark", "lat.txt.gz", "lat.noncompact.ark.gz")


def read(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def read_table(path: Path) -> dict[str, str]:
    rows = (line.partition(" ") for line in read(path).decode().splitlines())
    return {key: value.strip(" ") for key, _, value in rows}


def read_ctm(path: Path) -> dict[str, list[tuple[str, float, float]]]:
    out: dict[str, list[tuple[str, float, float]]] = {}
    for line in read(path).decode().splitlines():
        key, _, start, duration, word = line.split(" ")[:5]
        out.setdefault(key, []).append((word, float(start), float(duration)))
    return out


def read_words(lang: Path) -> dict[int, str]:
    rows = (line.split(" ") for line in (lang / "words.txt").read_text().splitlines())
    return {int(i): word for word, i in rows}


def decoder(shared: Path, name: str, word_ins_penalty: float = 0.0, lm_scale: float = 1.0) -> Decoder:
    this, lang = SETS[name], shared / SETS[name].lang
    aligner = WordAligner(
        (shared / "golden" / name / "trans.mdl").read_bytes(), (lang / "phones" / "word_boundary.int").read_bytes()
    )
    return Decoder(read_words(lang), aligner, this.frame_shift_s, this.acoustic_scale, lm_scale, word_ins_penalty)


def lattices(path: Path) -> Iterator[tuple[str, Lattice]]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        for key, lattice in read_archive(stream, path.name):
            assert isinstance(lattice, Lattice), lattice
            yield key, lattice


def as_text(hyp: Hypothesis) -> str:
    return " ".join(w.word for w in hyp.words)


def total(graph: float, acoustic: float, this: Decoder) -> float:
    return this.lm_scale * graph + this.acoustic_scale * acoustic


def check_nbest(this: Decoder, hyps: dict[str, tuple[Hypothesis, ...]], folder: Path, stem: str) -> int:
    """Every hypothesis has Kaldi's words and costs, up to ties; returns how many places in the lists hold a tie."""
    words, lm, ac = (read_table(folder / f"{stem}.{part}") for part in ("words", "lmcost", "accost"))
    keys = [f"{key}-{i}" for key, of_key in hyps.items() for i in range(1, len(of_key) + 1)]
    assert keys == list(words)
    n_ties = 0
    for key, of_key in hyps.items():
        golden = {f"{key}-{i}" for i in range(1, len(of_key) + 1)}
        for i, hyp in enumerate(of_key, 1):
            assert hyp.graph_cost is not None
            assert hyp.acoustic_cost is not None
            at = f"{key}-{i}"
            ours, theirs = (
                total(hyp.graph_cost, hyp.acoustic_cost, this),
                total(float(lm[at]), float(ac[at]), this),
            )
            assert ours == pytest.approx(theirs, rel=COST_TOLERANCE)
            if as_text(hyp) != words[at]:
                n_ties += 1
                # Its words must stand elsewhere in Kaldi's list, or just below its end, at the same total.
                assert ours == pytest.approx(theirs, rel=TIE), f"{at}: {as_text(hyp)} != {words[at]}"
                at = next((other for other in golden if words[other] == as_text(hyp)), "")
            if at:
                assert hyp.graph_cost == pytest.approx(float(lm[at]), rel=COST_TOLERANCE)
                assert hyp.acoustic_cost == pytest.approx(float(ac[at]), rel=COST_TOLERANCE)
    return n_ties


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SETS)
def test_nbest_words_and_costs(shared: Path, name: str, form: str) -> None:
    this, folder = decoder(shared, name), shared / "golden" / name
    hyps = {key: this.nbest(lattice, 10) for key, lattice in lattices(folder / form)}
    n_ties = check_nbest(this, hyps, folder, "nbest10")
    # Only gmm-long holds real ties; the costs of text have six digits, which makes a few more.
    most = {"gmm-long": 2}.get(name, 0) + (4 if form == "lat.txt.gz" else 0)
    assert n_ties <= most


@pytest.mark.parametrize("name", ["gmm-lj", "gmm-long", "chain-lj"])
def test_nbest_with_lm_scale(shared: Path, name: str) -> None:
    this, folder = decoder(shared, name, lm_scale=0.8), shared / "golden" / name
    hyps = {key: this.nbest(lattice, 5) for key, lattice in lattices(folder / "lat.ark")}
    assert check_nbest(this, hyps, folder, "nbest5_lm0.8") == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SETS)
def test_best_path_with_word_insertion_penalty(shared: Path, name: str, form: str) -> None:
    this, folder = decoder(shared, name, word_ins_penalty=0.5), shared / "golden" / name
    golden = read_table(folder / "best_wip0.5.words")
    assert {key: as_text(this.best_path(lattice)) for key, lattice in lattices(folder / form)} == golden


def test_word_insertion_penalty_is_not_ignored(shared: Path) -> None:
    with_penalty, without = decoder(shared, "tdnn-lstm", word_ins_penalty=0.5), decoder(shared, "tdnn-lstm")
    ours = list(lattices(shared / "golden" / "tdnn-lstm" / "lat.ark"))
    assert any(without.best_path(lat).words != with_penalty.best_path(lat).words for _, lat in ours)


def check_times(hyp: Hypothesis, golden: list[tuple[str, float, float]], frame_shift_s: float) -> None:
    timed = [w for w in hyp.words if w.start_s is not None]
    assert [w.word for w in timed] == [word for word, _, _ in golden]
    for word, (_, start_s, duration_s) in zip(timed, golden, strict=True):
        assert word.start_s == pytest.approx(start_s, abs=frame_shift_s / 2)
        assert word.duration_s == pytest.approx(duration_s, abs=frame_shift_s / 2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SETS)
def test_best_path_times(shared: Path, name: str, form: str) -> None:
    this, folder = decoder(shared, name), shared / "golden" / name
    golden = read_ctm(folder / "1best.ctm")
    n_words = 0
    for key, lattice in lattices(folder / form):
        hyp = this.best_path(lattice)
        check_times(hyp, golden.get(key, []), SETS[name].frame_shift_s)
        n_words += len(hyp.words)
    assert n_words == sum(map(len, golden.values()))


@pytest.mark.parametrize("name", SETS)
def test_nbest_times(shared: Path, name: str) -> None:
    this, folder = decoder(shared, name), shared / "golden" / name
    golden, words = read_ctm(folder / "nbest10.ctm"), read_table(folder / "nbest10.words")
    for key, lattice in lattices(folder / "lat.ark"):
        for i, hyp in enumerate(this.nbest(lattice, 10), 1):
            if as_text(hyp) == words[f"{key}-{i}"]:  # else a tie, see test_nbest_words_and_costs
                check_times(hyp, golden.get(f"{key}-{i}", []), SETS[name].frame_shift_s)


@pytest.mark.parametrize("name", SETS)
def test_silences_of_the_best_path(shared: Path, name: str) -> None:
    this, folder = decoder(shared, name), shared / "golden" / name
    golden = read_ctm(folder / "1best.withsil.ctm")
    shift = SETS[name].frame_shift_s
    assert this.aligner is not None
    for key, lattice in lattices(folder / "lat.ark"):
        path = _core.best_paths(lattice, 1, _core.Scales(1.0, this.acoustic_scale, 0.0))[0]
        segments = this.aligner.align(path).segments
        assert [this.words[word] for word, _, _ in segments] == [word for word, _, _ in golden[key]]
        for (_, first, n_frames), (_, start_s, duration_s) in zip(segments, golden[key], strict=True):
            assert first * shift == pytest.approx(start_s, abs=shift / 2)
            assert n_frames * shift == pytest.approx(duration_s, abs=shift / 2)


def test_partial_words_are_noticed(shared: Path) -> None:
    this = decoder(shared, "chain-partial")
    assert this.aligner is not None
    problems = 0
    for _, lattice in lattices(shared / "golden" / "chain-partial" / "lat.ark"):
        path = _core.best_paths(lattice, 1, _core.Scales(1.0, this.acoustic_scale, 0.0))[0]
        problems += bool(this.aligner.align(path).problem)
    assert problems >= 9  # the set's README: nine lattices end before any final state


@pytest.mark.parametrize("name", ["gmm-lj", "chain-lj"])
def test_transition_model(shared: Path, name: str) -> None:
    folder = shared / "golden" / name
    model = _core.TransitionModel((folder / "trans.mdl").read_bytes(), "trans.mdl")
    phones = dict(line.split(" ") for line in (shared / "golden/lang/phones.txt").read_text().splitlines())
    n_ids, phone = 0, ""
    for line in read(folder / "transitions.txt.gz").decode().splitlines():
        fields = line.split()
        if fields[0] == "Transition-state":
            phone = fields[4]
        else:
            n_ids += 1
            got_phone, _, is_self_loop = model.transition(int(fields[2]))
            assert got_phone == int(phones[phone])
            assert is_self_loop == ("[self-loop]" in line)
    assert n_ids == model.n_transition_ids


def test_head_of_a_real_final_mdl(shared: Path) -> None:
    alone = _core.TransitionModel((shared / "golden/tdnn-lstm/trans.mdl").read_bytes(), "trans.mdl")
    final = _core.TransitionModel((shared / "recipe/s5/exp/chain/tdnn_lstm/final.mdl").read_bytes(), "final.mdl")
    ids = range(1, alone.n_transition_ids + 1)
    assert final.n_transition_ids == alone.n_transition_ids
    assert [final.transition(i) for i in ids] == [alone.transition(i) for i in ids]


@pytest.mark.parametrize("folder", ["chain_a", "chain_ab", "chain_b", "gmm_ab"])
def test_other_real_models(shared: Path, folder: str) -> None:
    data = (shared / "data/games/decode" / folder / "trans.mdl").read_bytes()
    assert _core.TransitionModel(data, "trans.mdl").n_transition_ids > 100
