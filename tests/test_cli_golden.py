"""The command line on real lattices: against what Kaldi answers (../shared/golden), and on a real recipe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from kaldi_punct.cli import main

# name, acoustic scale, frame shift, lang directory below shared
SETS = (
    ("gmm-lj", "0.0833333", 0.01, "golden/lang"),
    ("gmm-long", "0.0833333", 0.01, "golden/lang"),
    ("chain-lj", "0.1", 0.03, "golden/lang"),
    ("tdnn-lstm", "0.1", 0.03, "recipe/s5/data/lang_test"),
)

pytestmark = pytest.mark.shared


def options(shared: Path, name: str, scale: str, shift_s: float, lang: str) -> tuple[list[str], str]:
    """The options of a set's decoder, and its words.txt."""
    boundary = shared / lang / "phones" / "word_boundary.int"
    model = shared / "golden" / name / "trans.mdl"
    given = ["--acoustic-scale", scale, "--frame-shift", str(shift_s)]
    return [*given, "--word-boundary", str(boundary), "--transition-model", str(model)], str(
        shared / lang / "words.txt"
    )


def rows(path: Path, n: int) -> list[list[str]]:
    return sorted(
        [line.split(" ")[:n] for line in path.read_text(encoding="utf-8").splitlines()], key=lambda row: row[0]
    )


@pytest.mark.parametrize(("name", "scale", "shift_s", "lang"), SETS, ids=lambda v: v if isinstance(v, str) else "")
def test_ctm(shared: Path, tmp_path: Path, name: str, scale: str, shift_s: float, lang: str) -> None:
    given, words = options(shared, name, scale, shift_s, lang)
    source = f"ark:{shared / 'golden' / name / 'lat.ark'}"
    assert main(["ctm", *given, source, words, str(tmp_path / "ctm")]) == 0
    ours, kaldis = rows(tmp_path / "ctm", 5), rows(shared / "golden" / name / "1best.ctm", 5)
    assert [(r[0], r[1], r[4]) for r in ours] == [(r[0], r[1], r[4]) for r in kaldis]
    for our, kaldi in zip(ours, kaldis, strict=True):
        for column in (2, 3):
            assert abs(float(our[column]) - float(kaldi[column])) <= shift_s / 2, (our, kaldi)


@pytest.mark.parametrize(("name", "scale", "shift_s", "lang"), SETS, ids=lambda v: v if isinstance(v, str) else "")
def test_nbest_tables(shared: Path, tmp_path: Path, name: str, scale: str, shift_s: float, lang: str) -> None:
    """Total costs rank by rank, and the words of every hypothesis that no tie could have swapped."""
    given, words = options(shared, name, scale, shift_s, lang)
    folder = shared / "golden" / name
    assert main(["nbest", "--n", "10", *given, f"ark:gunzip -c {folder}/lat.txt.gz |", words, str(tmp_path)]) == 0
    ours = totals(tmp_path / "lm_cost", tmp_path / "ac_cost", float(scale))
    kaldis = totals(folder / "nbest10.lmcost", folder / "nbest10.accost", float(scale))
    assert ours.keys() == kaldis.keys()
    for utt_id, costs in kaldis.items():
        assert sorted(ours[utt_id]) == pytest.approx(sorted(costs), rel=1e-5)
    our_words, kaldi_words = texts(tmp_path / "words"), texts(folder / "nbest10.words")
    for key, text in kaldi_words.items():
        utt_id, _, rank = key.rpartition("-")
        if not is_tied(sorted(kaldis[utt_id]), kaldis[utt_id][int(rank) - 1]):
            own_rank = 1 + sorted(kaldis[utt_id]).index(kaldis[utt_id][int(rank) - 1])
            assert our_words[f"{utt_id}-{own_rank}"] == text, key


def totals(lm: Path, ac: Path, scale: float) -> dict[str, list[float]]:
    out: dict[str, list[float]] = {}
    acoustic = {key: float(value) for key, value in texts(ac).items()}
    for key, value in texts(lm).items():
        out.setdefault(key.rpartition("-")[0], []).append(float(value) + scale * acoustic[key])
    return out


def texts(path: Path) -> dict[str, str]:
    pairs = [line.rstrip(" ").partition(" ") for line in path.read_text(encoding="utf-8").splitlines()]
    return {key: value for key, _, value in pairs}


def is_tied(costs: Sequence[float], cost: float) -> bool:
    return sum(abs(c - cost) <= 2e-6 * abs(cost) for c in costs) > 1 or cost >= costs[-1] - 2e-6 * abs(cost)


def test_decode_directory_of_a_recipe(
    shared: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both jobs; scale, penalty, frame shift, model and words are found there. Kaldi scored this best path."""
    monkeypatch.chdir(shared / "recipe" / "s5")
    decode = "exp/chain/tdnn_lstm/decode_turns_dev"
    out = tmp_path / "text_punct"
    plain = ["--no-punctuation", "--no-capitalization"]
    assert (
        main(["punctuate", "--model", str(tiny_model), *plain, "--utt2spk", "data/turns_dev/utt2spk", decode, str(out)])
        == 0
    )
    err = capfd.readouterr().err
    assert f"lattices: acoustic scale 0.111111 is from {decode}/scoring_kaldi/best_wer" in err
    assert f"lattices: word insertion penalty 0.5 is from {decode}/scoring_kaldi/best_wer" in err
    assert "lattices: frame shift 0.03 s is from exp/chain/tdnn_lstm/frame_subsampling_factor" in err
    assert err.splitlines()[-1] == "Done 154, 0 errors"
    figures = re.search(r"/ (\d+), (\d+) ins, (\d+) del,", Path(decode, "scoring_kaldi", "best_wer").read_text())
    assert figures
    n_ref, n_ins, n_del = map(int, figures.groups())
    assert sum(len(text.split(" ")) for text in texts(out).values()) == n_ref + n_ins - n_del
    assert main(["score", "data/turns_dev", str(out)]) == 0
