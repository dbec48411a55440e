"""Aligned lattices, phones and pronunciations as a reference Kaldi gives them (../shared/golden)."""

from __future__ import annotations

from pathlib import Path

import pytest
from acceptor import difference
from test_lattice_golden import FORMS, SETS, decoder, lattices, read, read_ctm, read_words

from kaldi_punct import _core
from kaldi_punct.kaldi.aligned import (
    align_lexicon,
    align_phones,
    align_words,
    best_phones,
    best_raw_path,
    best_segments,
    check_same_paths,
    prons,
)
from kaldi_punct.kaldi.lattice import Decoder, LexiconAligner, WordAligner, to_bytes
from kaldi_punct.kaldi.lattice_tables import load_phone_aligner
from kaldi_punct.types import Hypothesis

pytestmark = pytest.mark.shared

WITH_TEXT = {"atol": 0.2, "rtol": 2e-5}  # costs of text have six digits, and the differences add up along a path
WITH_PHONES = ("gmm-lj", "gmm-long", "chain-lj")


def lexicon_aligner(shared: Path, name: str) -> LexiconAligner:
    lexicon = shared / SETS[name].lang / "phones" / "align_lexicon.int"
    return LexiconAligner((shared / "golden" / name / "trans.mdl").read_bytes(), lexicon.read_bytes())


def scales_of(name: str) -> _core.Scales:
    return _core.Scales(1.0, SETS[name].acoustic_scale, 0.0)


def check(ours: Hypothesis, golden: list[tuple[str, float, float]], frame_shift_s: float) -> None:
    assert [w.word for w in ours.words] == [word for word, _, _ in golden]
    for word, (_, start_s, duration_s) in zip(ours.words, golden, strict=True):
        assert word.start_s == pytest.approx(start_s, abs=frame_shift_s / 2)
        assert word.duration_s == pytest.approx(duration_s, abs=frame_shift_s / 2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SETS)
def test_align_words(shared: Path, name: str, form: str) -> None:
    folder, aligner = shared / "golden" / name, decoder(shared, name).aligner
    assert isinstance(aligner, WordAligner)
    golden = dict(lattices(folder / "lat.aligned.ark.gz"))
    n_problems = 0
    for key, lattice in lattices(folder / form):
        aligned, theirs = align_words(lattice, aligner), golden.pop(key)
        assert difference(aligned.lattice, theirs, **(WITH_TEXT if "txt" in form else {})) == "", key
        if form == "lat.ark":  # states and arcs in the same order, costs to the last bit
            assert to_bytes(aligned.lattice) == to_bytes(theirs), key
        if "noncompact" not in form:
            assert (aligned.lattice.n_states, aligned.lattice.n_arcs) == (theirs.n_states, theirs.n_arcs)
        n_problems += bool(aligned.problem)
    assert not golden
    assert n_problems == (9 if name == "chain-partial" else 0)  # the lattices that end before any final state


@pytest.mark.parametrize("name", SETS)
def test_align_lexicon(shared: Path, name: str) -> None:
    folder, aligner = shared / "golden" / name, lexicon_aligner(shared, name)
    golden = dict(lattices(folder / "lat.aligned_lexicon.txt.gz"))
    n_problems = 0
    for key, lattice in lattices(folder / "lat.ark"):
        aligned, theirs = align_lexicon(lattice, aligner), golden.pop(key)
        assert difference(aligned.lattice, theirs, **WITH_TEXT) == "", key
        assert (aligned.lattice.n_states, aligned.lattice.n_arcs) == (theirs.n_states, theirs.n_arcs)
        n_problems += bool(aligned.problem)
        if name != "chain-partial":  # paths that end inside a word are lost there, in Kaldi too
            check_same_paths(lattice, aligned.lattice)
    assert not golden
    assert (n_problems > 0) == (name == "chain-partial")


@pytest.mark.parametrize("name", ["gmm-lj", "gmm-long", "chain-lj"])
def test_best_path_times_by_lexicon(shared: Path, name: str) -> None:
    by_lexicon = Decoder(
        read_words(shared / SETS[name].lang),
        lexicon_aligner(shared, name),
        SETS[name].frame_shift_s,
        SETS[name].acoustic_scale,
    )
    golden = read_ctm(shared / "golden" / name / "1best.lexicon.ctm")
    for key, lattice in lattices(shared / "golden" / name / "lat.ark"):
        check(by_lexicon.best_path(lattice), golden[key], SETS[name].frame_shift_s)


@pytest.mark.parametrize("name", WITH_PHONES)
def test_phones_of_the_best_path(shared: Path, name: str) -> None:
    folder, this = shared / "golden" / name, decoder(shared, name)
    golden = read_ctm(folder / "1best.phones.ctm")
    rows = (line.split() for line in (shared / "golden/lang/phones.txt").read_text().splitlines())
    symbols = {int(number): phone for phone, number in rows}
    for key, lattice in lattices(folder / "lat.ark"):
        check(best_phones(this, lattice, symbols), golden[key], SETS[name].frame_shift_s)


@pytest.mark.parametrize("name", SETS)
def test_words_and_silences_of_the_best_path(shared: Path, name: str) -> None:
    folder, this = shared / "golden" / name, decoder(shared, name)
    golden = read_ctm(folder / "1best.withsil.ctm")
    for key, lattice in lattices(folder / "lat.ark"):
        check(best_segments(this, lattice), golden[key], SETS[name].frame_shift_s)


@pytest.mark.parametrize("name", WITH_PHONES)
def test_pronunciations(shared: Path, name: str) -> None:
    folder, aligner = shared / "golden" / name, decoder(shared, name).aligner
    assert aligner is not None
    phones = load_phone_aligner(folder / "trans.mdl")
    lines = []
    for key, lattice in lattices(folder / "lat.ark"):
        for pron in prons(lattice, best_raw_path(lattice, scales_of(name)), aligner, phones):
            fields = (pron.first_frame, pron.n_frames, pron.word, *(phone for phone, _ in pron.phones))
            lines.append(f"{key} {' '.join(map(str, fields))}")
    assert lines == read(folder / "1best.prons.int").decode().splitlines()


@pytest.mark.parametrize("name", ["gmm-lj", "tdnn-lstm"])
def test_phones_of_lattices_keep_their_paths(shared: Path, name: str) -> None:
    folder = shared / "golden" / name
    phones = load_phone_aligner(folder / "trans.mdl")
    for _, lattice in list(lattices(folder / "lat.ark"))[:8]:
        for replace_words in (False, True):
            aligned = align_phones(lattice, phones, replace_words=replace_words)
            assert aligned.problem == ""
            ours, before = (best_raw_path(lat, scales_of(name)) for lat in (aligned.lattice, lattice))
            assert ours.transition_ids == before.transition_ids
            if not replace_words:
                check_same_paths(lattice, aligned.lattice)
                assert ours.words == before.words
            else:
                assert ours.words == [phone for phone, _, _ in phones.align(before).segments]
