"""``ctm`` with confidences and on the recording's clock, ``punctuate --confidence``, and ``lattice mbr``."""

from __future__ import annotations

from pathlib import Path

import lattice_maker as make
import pytest
from lattice_maker import Toy
from test_mbr import SPREAD, TWO

from kaldi_punct.cli import main

SCALES = ("--acoustic-scale", "1", "--frame-shift", "0.5")
EMPTY = Toy(2, (), {})


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with word-aligned lattices (a path more likely than its words, one without a path) and tables."""
    toys = {"utt-1": SPREAD, "utt-2": TWO, "utt-3": EMPTY}
    (tmp_path / "lat.ark").write_bytes(make.archive({key: make.binary(toy) for key, toy in toys.items()}))
    (tmp_path / "words.txt").write_text("".join(f"{word} {i}\n" for i, word in make.WORDS.items()))
    (tmp_path / "segments").write_text("utt-1 rec 10.0 20.0\nutt-2 other 5.0 9.0\n")
    (tmp_path / "reco2file_and_channel").write_text("rec file B\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str) -> int:
    return main([*args])


def ctm(*options: str) -> list[str]:
    run("ctm", "--aligned", *SCALES, *options, "ark:lat.ark", "words.txt", "ctm")
    return Path("ctm").read_text().splitlines()


def test_words_with_confidences(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    two = ["utt-2 1 0.00 1.00 a 1.00", "utt-2 1 1.00 1.50 harbour 0.60"]
    best_path = ["utt-1 1 0.00 0.50 a 0.40", "utt-1 1 0.50 0.50 harbour 0.40", *two]
    mbr = ["utt-1 1 0.00 0.50 light 0.60", "utt-1 1 0.50 0.50 harbour 0.40", *two]
    assert ctm("--confidence", "map") == best_path
    assert ctm("--confidence", "mbr") == mbr
    assert "utt-3: byte" in caplog.text
    assert "the lattice has no path to a final state" in caplog.text
    assert caplog.messages[-1] == "Done 2, 1 errors"
    assert ctm("--mbr") == mbr
    assert ctm("--mbr", "--confidence", "mbr", "--nj", "2") == mbr


def test_silences_between_words(files: Path) -> None:
    words = [line.split()[4] for line in ctm("--mbr", "--print-silence")]
    assert words == ["<eps>", "light", "<eps>", "harbour", "<eps>", "<eps>", "a", "<eps>", "harbour", "<eps>"]


def test_scales_reach_the_sausage(files: Path) -> None:
    assert ctm("--mbr", "--lm-scale", "1e-6")[-1] == "utt-2 1 1.00 1.50 harbour 0.50"
    toy = Toy(2, (make.Arc(0, 1, 1, 0.0, 20.0, (1,)), make.Arc(0, 1, 2, 1.0, 10.0, (1,))), {1: (0.0, 0.0, ())})
    Path("two.ark").write_bytes(make.archive({"u": make.binary(toy)}))

    def word(*options: str) -> str:
        assert run("ctm", "--mbr", "--aligned", "--frame-shift", "0.5", *options, "ark:two.ark", "words.txt", "x") == 0
        return Path("x").read_text().split()[4]

    assert [word("--acoustic-scale", "0.05"), word("--inv-acoustic-scale", "20")] == ["a", "a"]
    assert [word("--acoustic-scale", "0.2"), word("--inv-acoustic-scale", "5")] == ["harbour", "harbour"]


def test_one_of_the_two_scales(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        ctm("--inv-acoustic-scale", "10")
    assert "argument --inv-acoustic-scale: not allowed with argument --acoustic-scale" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("ctm", "--inv-acoustic-scale", "0", "ark:lat.ark", "words.txt", "ctm")
    assert "--inv-acoustic-scale: expected a number above 0, got '0'" in capsys.readouterr().err


def test_the_recordings_clock(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert ctm("--mbr", "--segments", "segments") == [
        "rec 1 10.00 0.50 light 0.60", "rec 1 10.50 0.50 harbour 0.40",
        "other 1 5.00 1.00 a 1.00", "other 1 6.00 1.50 harbour 0.60",
    ]  # fmt: skip
    caplog.clear()
    moved = ctm("--mbr", "--segments", "segments", "--reco2file-and-channel", "reco2file_and_channel")
    assert moved == ["file B 10.00 0.50 light 0.60", "file B 10.50 0.50 harbour 0.40"]
    assert "reco2file_and_channel: expected a line of recording 'other' (utterance 'utt-2'), got none" in caplog.text
    assert caplog.messages[-1] == "Done 1, 2 errors"
    Path("segments").write_text("utt-2 rec 5.0 9.0\n")
    assert ctm("--mbr", "--segments", "segments") == ["rec 1 5.00 1.00 a 1.00", "rec 1 6.00 1.50 harbour 0.60"]
    assert "segments: expected a line of utterance 'utt-1', got none" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mbr", "--confidence", "map"], "--mbr: expected it alone or with --confidence mbr, got --confidence map"),
        (["--mbr", "--phones", "phones.txt"], "--phones: expected it without --mbr and --confidence, got both; "),
        (["--aligned"], "--aligned: expected --mbr or --confidence with it, got none; add one, or leave this out"),
        (
            ["--reco2file-and-channel", "reco2file_and_channel"],
            "--reco2file-and-channel: expected --segments with it, got none; add it, or leave this out",
        ),
        (["--mbr"], "--transition-model: expected final.mdl or trans.mdl, got none"),
    ],
)
def test_options_that_do_not_go_together(
    files: Path, options: list[str], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert run("ctm", *SCALES, *options, "ark:lat.ark", "words.txt", "ctm") == 1
    assert message in caplog.text


def tables(*options: str) -> dict[str, list[str]]:
    assert run("lattice", "mbr", *options, "ark:lat.ark", "words.txt", "mbr") == 0
    return {path.name: path.read_text().splitlines() for path in Path("mbr").iterdir()}


def test_tables(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    got = tables("--aligned", "--acoustic-scale", "1")
    assert sorted(got) == ["bayes_risk", "sausage_stats", "times", "words", "words.int"]
    assert got["words"] == ["utt-1 light harbour", "utt-2 a harbour"]
    assert got["words.int"] == ["utt-1 3 2", "utt-2 1 2"]
    assert got["bayes_risk"][1] == "utt-2 0.4"
    assert got["sausage_stats"][1] == "utt-2 [ 0 1 ] [ 1 1 ] [ 0 1 ] [ 2 0.6 3 0.4 ] [ 0 1 ]"
    assert got["times"][1] == "utt-2 0 0 ; 0 2 ; 2 2 ; 2 5 ; 5 5"
    assert caplog.messages[-1] == "Done 2, 1 errors"
    assert tables("--aligned", "--acoustic-scale", "1", "--nj", "2") == got


def test_options_of_the_tables(files: Path) -> None:
    base = ("--aligned", "--acoustic-scale", "1")
    assert tables(*base, "--no-mbr")["words"][0] == "utt-1 a harbour"
    assert tables(*base, "--print-silence")["words"][1] == "utt-2 <eps> a <eps> harbour <eps>"
    assert tables(*base, "--one-best-times")["times"][1] == "utt-2 0 2 ; 2 5"
    assert tables(*base, "--lm-scale", "0")["bayes_risk"][1] == "utt-2 0.5"


def test_lattices_are_aligned_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The embedded lattice's words lie early; its first word begins after 4 frames of silence."""
    out = tmp_path / "mbr"
    args = ["--acoustic-scale", "0.1", f"ark:{make.DATA / 'lat.ark'}", str(make.DATA / "words.txt"), str(out)]
    model = [
        "--transition-model", str(make.DATA / "trans.mdl"), "--word-boundary", str(make.DATA / "word_boundary.int"),
    ]  # fmt: skip
    assert run("lattice", "mbr", "--one-best-times", *model, *args) == 0
    assert (out / "times").read_text().splitlines()[1] == "call-2 2 9"
    assert run("lattice", "mbr", "--one-best-times", "--aligned", *args) == 0
    assert (out / "times").read_text().splitlines()[1] == "call-2 0 11"


def test_embedded_sample_gives_what_kaldi_gives(mini: Path, tmp_path: Path) -> None:
    args = ["--acoustic-scale", "0.1", str(mini / "decode"), str(mini / "lang" / "words.txt"), str(tmp_path / "ctm")]
    assert run("ctm", "--mbr", *args) == 0
    ours = sorted(line.split() for line in (tmp_path / "ctm").read_text().splitlines())
    kaldis = sorted(line.split() for line in (mini / "kaldi" / "mbr.conf.ctm").read_text().splitlines())
    assert [row[:5] for row in ours] == [row[:5] for row in kaldis]
    for our, kaldi in zip(ours, kaldis, strict=True):
        assert abs(float(our[5]) - float(kaldi[5])) < 0.011  # rounded to two decimals


@pytest.mark.parametrize("kind", ["map", "mbr"])
def test_punctuate_with_confidences(mini: Path, tmp_path: Path, tiny_model: Path, kind: str) -> None:
    base = ["--acoustic-scale", "0.1", "--no-punctuation", "--no-capitalization", "--model", str(tiny_model)]
    source = [str(mini / "decode"), str(tmp_path / "a")]
    assert run("punctuate", *base, "--to", "ctm", "--confidence", kind, *source) == 0
    args = ["--acoustic-scale", "0.1", str(mini / "decode"), str(mini / "lang" / "words.txt"), str(tmp_path / "b")]
    assert run("ctm", "--confidence", kind, *args) == 0
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    assert run("punctuate", *base, "--to", "ctm", "--confidence", "none", *source) == 0
    assert len((tmp_path / "a").read_text().splitlines()[0].split()) == 5


def test_confidence_wants_lattices(tmp_path: Path, mini: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert run("punctuate", "--confidence", "map", str(mini / "text"), str(tmp_path / "a")) == 1
    assert "--confidence: expected an input of lattices, got text; leave it out" in caplog.text
