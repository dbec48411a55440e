"""What a reference Kaldi's lattice-mbr-decode and lattice-to-ctm-conf answer on real lattices (../shared/golden).

All that it prints is the same, on the lattices that it aligned and on those aligned here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_lattice_golden import SETS, decoder, lattices, read_table

from kaldi_punct import _core
from kaldi_punct.cli import main
from kaldi_punct.kaldi.lattice import Lattice
from kaldi_punct.kaldi.sausage import MbrOptions, decode_mbr

pytestmark = pytest.mark.shared

PRINTED = 1e-6  # relative: what seven printed digits leave
ROUNDED = 0.01 + 1e-9  # two decimals each of two numbers


@dataclass(frozen=True)
class Golden:
    words: list[int]
    bayes_risk: float
    bins: list[list[tuple[int, float]]]
    times: list[tuple[float, float]]


def golden(folder: Path) -> Iterator[tuple[str, Golden]]:
    words, risk, bins, times = (
        read_table(folder / f"mbr.{part}") for part in ("words.int", "bayes_risk", "sausage_stats", "times")
    )
    for key, text in words.items():
        rows = [row.split() for row in bins[key].strip("[] ").split("] [")]
        yield (
            key,
            Golden(
                [int(w) for w in text.split()],
                float(risk[key]),
                [[(int(w), float(p)) for w, p in zip(row[::2], row[1::2], strict=True)] for row in rows],
                [(float(b), float(e)) for b, e in (row.split() for row in times[key].split(";"))],
            ),
        )


def check_sausage(ours: _core.Sausage, kaldis: Golden, key: str) -> None:
    assert [word for word, _, _, _ in ours.one_best] == kaldis.words, key
    assert ours.bayes_risk == pytest.approx(kaldis.bayes_risk, rel=PRINTED, abs=PRINTED), key
    assert [[word for word, _, _, _ in words] for _, _, words in ours.bins] == [
        [word for word, _ in words] for words in kaldis.bins
    ], key
    for (begin, end, words), theirs, times in zip(ours.bins, kaldis.bins, kaldis.times, strict=True):
        assert [p for _, p, _, _ in words] == pytest.approx([p for _, p in theirs], rel=PRINTED), key
        assert (begin, end) == pytest.approx(times, rel=PRINTED, abs=PRINTED), key


def aligned(shared: Path, name: str, by_kaldi: bool) -> Iterator[tuple[str, Lattice]]:
    folder = shared / "golden" / name
    if by_kaldi:
        yield from lattices(folder / "lat.aligned.ark.gz")
        return
    aligner = decoder(shared, name).aligner
    assert aligner is not None
    for key, lattice in lattices(folder / "lat.ark"):
        yield key, _core.align_words(lattice, aligner.core, 0, 0, 0.0)[0]


def decode_all(shared: Path, name: str, by_kaldi: bool) -> dict[str, _core.Sausage]:
    scales = _core.Scales(1.0, SETS[name].acoustic_scale, 0.0)
    return {key: decode_mbr(lattice, scales, MbrOptions()) for key, lattice in aligned(shared, name, by_kaldi)}


@pytest.mark.parametrize("by_kaldi", [True, False])
@pytest.mark.parametrize("name", SETS)
def test_words_risk_sausages_and_times(shared: Path, name: str, by_kaldi: bool) -> None:
    kaldis, ours = dict(golden(shared / "golden" / name)), decode_all(shared, name, by_kaldi)
    assert list(ours) == list(kaldis)
    for key, sausage in ours.items():
        check_sausage(sausage, kaldis[key], key)


@pytest.mark.parametrize("kind", ["mbr", "map"])
@pytest.mark.parametrize("name", SETS)
def test_ctm_with_confidences(shared: Path, tmp_path: Path, name: str, kind: str) -> None:
    this, folder = SETS[name], shared / "golden" / name
    lang = shared / this.lang
    options = ["--confidence", kind, "--acoustic-scale", this.acoustic_scale, "--frame-shift", this.frame_shift_s,
               "--transition-model", folder / "trans.mdl", "--word-boundary",
               lang / "phones" / "word_boundary.int"]  # fmt: skip
    args = ["ctm", *options, f"ark:{folder / 'lat.ark'}", lang / "words.txt", tmp_path / "ctm"]
    assert main([str(a) for a in args]) == 0
    check_ctm(tmp_path / "ctm", folder / f"{kind}.conf.ctm")


def read_rows(path: Path) -> dict[str, list[list[str]]]:
    rows: dict[str, list[list[str]]] = {}
    for line in path.read_text().splitlines():
        rows.setdefault(line.split()[0], []).append(line.split())
    return rows


def check_ctm(ours: Path, kaldis: Path) -> None:
    """Equal words; times and confidences as near as two decimals of each can be."""
    our, kaldi = read_rows(ours), read_rows(kaldis)
    assert list(our) == list(kaldi)
    for key, rows in our.items():
        assert [(r[1], r[4]) for r in rows] == [(r[1], r[4]) for r in kaldi[key]], key
        for a, b in zip(rows, kaldi[key], strict=True):
            for column in (2, 3, 5):
                assert abs(float(a[column]) - float(b[column])) <= ROUNDED, (a, b)


def test_ctm_of_recordings(shared: Path, tmp_path: Path) -> None:
    folder, lang, reco = shared / "golden" / "gmm-lj", shared / "golden" / "lang", shared / "golden" / "reco"
    options = ["--acoustic-scale", "0.0833333", "--frame-shift", "0.01", "--transition-model", folder / "trans.mdl",
               "--word-boundary", lang / "phones" / "word_boundary.int", "--segments", reco / "segments",
               "--reco2file-and-channel", reco / "reco2file_and_channel"]  # fmt: skip
    for more, name in ([], "gmm-lj.reco.ctm"), (["--confidence", "map"], "gmm-lj.reco.conf.ctm"):
        args = ["ctm", *options, *more, f"ark:{folder / 'lat.ark'}", lang / "words.txt", tmp_path / name]
        assert main([str(a) for a in args]) == 0
        if more:
            check_ctm(tmp_path / name, reco / name)
        else:
            assert (tmp_path / name).read_text() == (reco / name).read_text()
