"""``kaldi-punct lattice align`` and ``prons``, and word times by --align-lexicon, on the toy lattices of tests/data."""

from __future__ import annotations

import shutil
from pathlib import Path

import lattice_maker as make
import pytest
from acceptor import acceptor
from lattice_maker import Arc, Toy

from kaldi_punct.cli import main
from kaldi_punct.kaldi.tables import read_lattices

MODEL = ("--transition-model", "trans.mdl")
BY_WORD = (*MODEL, "--word-boundary", "word_boundary.int")
BY_LEXICON = (*MODEL, "--lexicon", "align_lexicon.int")
LEXICON = b"0 0 1\n1 1 5\n2 2 2 4 3\n3 3 2 3\n"


@pytest.fixture(autouse=True)
def in_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with the toy lattices, their model and a lexicon."""
    for path in make.DATA.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "align_lexicon.int").write_bytes(LEXICON)
    toys = {"u1": make.binary(make.LINE), "u2": make.binary(cut_off()), "u3": make.binary(make.LINE)}
    (tmp_path / "cut.ark").write_bytes(make.archive(toys))
    monkeypatch.chdir(tmp_path)


def cut_off() -> Toy:
    """Ends inside a word without label."""
    return Toy(2, (Arc(0, 1, 0, 2.0, 30.0, make.phones((make.SIL, 2), (make.BEGIN, 3))),), {1: (0.0, 0.0, ())})


def run(capfd: pytest.CaptureFixture[str], *args: object) -> tuple[int, list[str], str]:
    """Exit status, lines of stdout, stderr."""
    capfd.readouterr()
    status = main([str(arg) for arg in args])
    out, err = capfd.readouterr()
    return status, out.splitlines(), err


def labels(name: str) -> dict[str, list[int]]:
    """All labels of each lattice of an archive."""
    out = {}
    for key, lattice in read_lattices(f"ark:{name}"):
        assert not isinstance(lattice, Exception)
        out[key] = sorted(arc.word for arcs in acceptor(lattice).arcs for arc in arcs)
    return out


@pytest.mark.parametrize("how", [BY_WORD, BY_LEXICON])
def test_align(capfd: pytest.CaptureFixture[str], how: tuple[str, ...]) -> None:
    status, _, err = run(capfd, "lattice", "align", *how, "ark:lat.ark", "ark:out.ark")
    assert (status, err.splitlines()[-1]) == (0, "Done 2, 0 errors")
    assert labels("out.ark")["call-2"] in ([0, 0, 3], [0, 3])  # a silence at the end may be a final weight
    run(capfd, "lattice", "align", *how, "ark:lat.noncompact.ark", "ark:same.ark")
    assert labels("same.ark") == labels("out.ark")


def test_align_phones(capfd: pytest.CaptureFixture[str]) -> None:
    run(capfd, "lattice", "align", *MODEL, "--phones", "--replace-words", "ark:lat.ark", "ark:out.ark")
    assert labels("out.ark")["call-2"] == [1, 1, 2, 3]
    run(capfd, "lattice", "align", *MODEL, "--phones", "ark:lat.ark", "ark:out.ark")
    assert labels("out.ark")["call-2"] == [3]
    _, plain, _ = run(capfd, "lattice", "align", *MODEL, "--phones", "ark:lat.ark", "ark,t:-")
    _, kept, _ = run(capfd, "lattice", "align", *MODEL, "--phones", "--keep-epsilons", "ark:lat.ark", "ark,t:-")
    assert len(kept) > len(plain)


def test_a_partial_word_is_written_and_counted(capfd: pytest.CaptureFixture[str]) -> None:
    options = ("--silence-label", 4, "--partial-word-label", 8)
    status, _, err = run(capfd, "lattice", "align", *BY_WORD, *options, "ark:cut.ark", "ark:out.ark")
    assert (status, err.splitlines()[-1]) == (0, "Done 2, 1 errors")
    assert "cut.ark: u2: byte" in err
    assert "a partial word without label at the end: was the decoder cut off?" in err
    assert labels("out.ark") == {"u1": [3, 4, 4], "u2": [4, 8], "u3": [3, 4, 4]}
    run(capfd, "lattice", "align", *BY_LEXICON, "--partial-word-label", 8, "ark:cut.ark", "ark:out.ark")
    assert labels("out.ark")["u2"][-1] == 8


def test_max_expand_and_test(capfd: pytest.CaptureFixture[str]) -> None:
    arcs = [a for i in range(12) for a in (Arc(i, i + 1, 1, 0.0, 0.0), Arc(i, i + 1, 2, 0.0, 0.0))]
    wide = Toy(14, (*arcs, Arc(12, 13, 0, 0.0, 0.0, make.phones((1, 2)))), {13: (0.0, 0.0, ())})
    Path("wide.ark").write_bytes(make.archive({"u1": make.binary(wide)}))
    status, _, err = run(capfd, "lattice", "align", *BY_WORD, "--max-expand", 2, "ark:wide.ark", "ark:out.ark")
    assert status == 1
    assert "u1: byte 3: expected an alignment of at most 1028 states, got more" in err
    Path("twice.int").write_bytes(b"1 1 2\n1 1 2 4\n2 2 4 3\n2 2 3\n")
    phones = make.phones((2, 1), (4, 1), (3, 1))
    two_ways = Toy(3, (Arc(0, 1, 1, 0.0, 0.0), Arc(1, 2, 2, 0.0, 0.0, phones)), {2: (0.0, 0.0, ())})
    Path("twice.ark").write_bytes(make.archive({"u1": make.binary(two_ways)}))
    call = ("lattice", "align", *MODEL, "--lexicon", "twice.int", "ark:twice.ark", "ark:out.ark")
    assert run(capfd, *call)[0] == 0
    status, _, err = run(capfd, *call[:2], "--test", *call[2:])
    assert status == 1
    assert "expected the aligned lattice to have each path once" in err
    assert run(capfd, *call[:2], "--test", "--allow-duplicate-paths", *call[2:])[0] == 0


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((), "--transition-model: expected final.mdl or trans.mdl, got none; give the model that made the lattices"),
        (MODEL, "--word-boundary: expected phones/word_boundary.int (or --lexicon and align_lexicon.int), got none"),
        (
            (*MODEL, "--phones", "--silence-label", "1"),
            "--silence-label: expected it with --word-boundary, got --phones",
        ),
        ((*BY_LEXICON, "--silence-label", "1"), "--silence-label: expected it with --word-boundary, got --lexicon"),
        ((*MODEL, "--phones", "--max-expand", "1"), "--max-expand: expected it with --word-boundary or --lexicon, got"),
        (
            (*MODEL, "--phones", "--partial-word-label", "1"),
            "--partial-word-label: expected it with --word-boundary or",
        ),
        (
            (*BY_WORD, "--keep-epsilons"),
            "--keep-epsilons: expected it with --phones, got --word-boundary; leave it out",
        ),
        (
            (*BY_WORD, "--replace-words"),
            "--replace-words: expected it with --phones, got --word-boundary; leave it out",
        ),
        ((*BY_WORD, "--test"), "--test: expected it with --lexicon, got --word-boundary; leave it out"),
        ((*BY_LEXICON, "--allow-duplicate-paths"), "--allow-duplicate-paths: expected it with --test, got none"),
    ],
)
def test_options_that_do_not_go_together(capfd: pytest.CaptureFixture[str], args: tuple[str, ...], text: str) -> None:
    status, _, err = run(capfd, "lattice", "align", *args, "ark:lat.ark", "ark:out.ark")
    assert status == 1
    assert text in err
    assert not Path("out.ark").exists()


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--silence-label", "-1", "expected a word-id of 0 or more, got '-1'"),
        ("--partial-word-label", "2147483648", "expected a word-id of 0 or more, got '2147483648'"),
        ("--max-expand", "-2", "expected a number of 0 or more, got '-2'"),
    ],
)
def test_values_out_of_range(capfd: pytest.CaptureFixture[str], option: str, value: str, text: str) -> None:
    with pytest.raises(SystemExit):
        run(capfd, "lattice", "align", *BY_WORD, f"{option}={value}", "ark:lat.ark", "ark:out.ark")
    assert text in capfd.readouterr().err


def test_reorder(capfd: pytest.CaptureFixture[str]) -> None:
    toy = Toy(2, (Arc(0, 1, 1, 0.0, 0.0, (10, 1, 2)),), {1: (0.0, 0.0, ())})
    Path("straight.ark").write_bytes(make.archive({"u1": make.binary(toy)}))
    for how in (BY_WORD, BY_LEXICON, (*MODEL, "--phones")):
        call = ("lattice", "align", *how, "ark:straight.ark", "ark:out.ark")
        assert run(capfd, *call)[0] == 1
        assert run(capfd, *call[:2], "--no-reorder", *call[2:])[0] == 0


def test_prons(capfd: pytest.CaptureFixture[str]) -> None:
    _, lines, err = run(capfd, "lattice", "prons", *BY_WORD, "--acoustic-scale", 0.1, "ark:lat.ark", "-")
    assert err.splitlines()[-1] == "Done 2, 0 errors"
    assert lines == [
        "call-1 0 4 0 1",
        "call-1 4 3 1 5",
        "call-1 7 7 2 2 4 3",
        "call-1 14 3 0 1",
        "call-2 0 2 0 1",
        "call-2 2 7 3 2 3",
        "call-2 9 2 0 1",
    ]
    assert run(capfd, "lattice", "prons", *BY_LEXICON, "--acoustic-scale", 0.1, "ark:lat.ark", "-")[1] == lines
    _, lengths, _ = run(capfd, "lattice", "prons", *BY_WORD, "--phone-lengths", "ark:lat.ark", "-")
    assert "call-2 2 3,4 3 2 3" in lengths
    # Without graph costs the cheapest sound wins, however dear its words; and the other way round.
    Path("two.ark").write_bytes(make.archive({"u1": make.binary(two_words())}))
    for lm, acoustic, line in ((0, 1, "u1 0 3 1 5"), (1, 0, "u1 0 3 3 2 3")):
        call = ("lattice", "prons", *BY_WORD, "--lm-scale", lm, "--acoustic-scale", acoustic, "ark:two.ark", "-")
        assert run(capfd, *call)[1] == [line]


def two_words() -> Toy:
    word = make.phones((make.SINGLETON, 3)), make.phones((make.BEGIN, 1), (make.END, 2))
    return Toy(2, (Arc(0, 1, 1, 9.0, 1.0, word[0]), Arc(0, 1, 3, 1.0, 9.0, word[1])), {1: (0.0, 0.0, ())})


def ctm(*options: object) -> tuple[object, ...]:
    scales = ("--acoustic-scale", 0.1, "--frame-shift", 0.03, "--transition-model", "trans.mdl")
    return ("ctm", *scales, *options, "ark:lat.ark", "words.txt", "-")


def test_word_times_by_lexicon(capfd: pytest.CaptureFixture[str]) -> None:
    _, lines, err = run(capfd, *ctm("--align-lexicon", "align_lexicon.int"))
    assert lines == run(capfd, *ctm("--word-boundary", "word_boundary.int"))[1]
    assert lines[0] == "call-1 1 0.12 0.09 a"
    assert "lattices: transition model trans.mdl, align lexicon align_lexicon.int, frame shift 0.03 s" in err
    with pytest.raises(SystemExit):
        run(capfd, *ctm("--align-lexicon", "align_lexicon.int", "--word-boundary", "word_boundary.int"))
    assert "not allowed with argument" in capfd.readouterr().err


def test_a_lexicon_beside_the_lattices_is_found(capfd: pytest.CaptureFixture[str]) -> None:
    phones = Path("exp/graph/phones")
    phones.mkdir(parents=True)
    Path("exp/decode").mkdir()
    shutil.copy("align_lexicon.int", phones)
    shutil.copy("words.txt", "exp/graph")
    shutil.copy("trans.mdl", "exp/final.mdl")
    shutil.copy("lat.ark", "exp/decode/lat.1")
    options = ("--acoustic-scale", 0.1, "--frame-shift", 0.03)
    _, lines, err = run(capfd, "ctm", *options, "exp/decode", "words.txt", "-")
    assert "align lexicon exp/graph/phones/align_lexicon.int" in err
    assert lines[0] == "call-1 1 0.12 0.09 a"
    shutil.copy("word_boundary.int", phones)  # wins where both are there
    _, same, err = run(capfd, "ctm", *options, "exp/decode", "words.txt", "-")
    assert "word boundary exp/graph/phones/word_boundary.int" in err
    assert same == lines


def test_print_silence(capfd: pytest.CaptureFixture[str]) -> None:
    for how in (("--word-boundary", "word_boundary.int"), ("--align-lexicon", "align_lexicon.int")):
        assert run(capfd, *ctm(*how, "--print-silence"))[1] == [
            "call-1 1 0.00 0.12 <eps>",
            "call-1 1 0.12 0.09 a",
            "call-1 1 0.21 0.21 harbour",
            "call-1 1 0.42 0.09 <eps>",
            "call-2 1 0.00 0.06 <eps>",
            "call-2 1 0.06 0.21 light",
            "call-2 1 0.27 0.06 <eps>",
        ]


@pytest.mark.parametrize(
    ("how", "confidence"),
    # The lexicon lacks the rival's pronunciation, so that path is none of the aligned lattice's.
    [(("--word-boundary", "word_boundary.int"), "0.73"), (("--align-lexicon", "align_lexicon.int"), "1.00")],
)
def test_confidences_by_either_aligner(
    capfd: pytest.CaptureFixture[str], how: tuple[str, str], confidence: str
) -> None:
    lines = [line.split() for line in run(capfd, *ctm(*how, "--mbr"))[1]]
    assert [line[4:] for line in lines] == [["a", "1.00"], ["harbour", confidence], ["light", "1.00"]]
    assert [float(line[2]) for line in lines] == pytest.approx([0.12, 0.21, 0.06], abs=0.011)


def test_phone_ctm(capfd: pytest.CaptureFixture[str]) -> None:
    Path("phones.txt").write_text("<eps> 0\nSIL 1\nL_B 2\nT_E 3\nR_I 4\nAH_S 5\n")
    call = ctm("--word-boundary", "word_boundary.int", "--phones", "phones.txt")
    assert run(capfd, *call)[1][-4:] == [
        "call-2 1 0.00 0.06 SIL",
        "call-2 1 0.06 0.09 L_B",
        "call-2 1 0.15 0.12 T_E",
        "call-2 1 0.27 0.06 SIL",
    ]
    Path("phones.txt").write_text("<eps> 0\nSIL 1\n")
    status, _, err = run(capfd, *call)
    assert status == 1
    assert "expected numbers of the phones table, got 5; give the phones.txt of the graph that made the lattice" in err
    status, _, err = run(capfd, *call[:1], "--print-silence", *call[1:])
    assert status == 1
    assert "--print-silence: expected it without --phones, got both; silences are phones, leave it out" in err
