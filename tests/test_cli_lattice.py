"""``kaldi-punct lattice <tool>``: every tool's example, every option, bad utterances among good ones."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import lattice_maker as make
import pytest
from acceptor import difference
from lattice_maker import Arc, Toy

from kaldi_punct.cli import build_parser, main
from kaldi_punct.kaldi.lattice import Lattice, parse
from kaldi_punct.kaldi.tables import read_lattices

NO_END = Toy(2, (Arc(0, 1, 1, 1.0, 1.0, (1,)),), {})
NEED_A_PATH = ("prune", "nbest", "arc-post", "confidence", "oracle")
Run = Callable[..., SimpleNamespace]


pytestmark = pytest.mark.usefixtures("in_repo_copy")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs ``kaldi-punct lattice`` in this process: exit status, stdout, stderr."""

    def call(*args: object) -> SimpleNamespace:
        capfd.readouterr()
        status = main(["lattice", *(str(a) for a in args)])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return SimpleNamespace(status=status, out=out, err=err, last=err.splitlines()[-1] if err else "")

    return call


@pytest.fixture
def toys(tmp_path: Path) -> str:
    """Two good lattices with one without an end between them."""
    toys = {"call-1": make.FORK, "call-x": NO_END, "call-2": make.LINE}
    (tmp_path / "toys.ark").write_bytes(make.archive({key: make.binary(toy) for key, toy in toys.items()}))
    (tmp_path / "words.txt").write_text("".join(f"{word} {i}\n" for i, word in make.WORDS.items()))
    (tmp_path / "text").write_text("call-1 a harbour zeppelin\ncall-x a\ncall-2 light [noise]\n")
    (tmp_path / "trans.mdl").write_bytes(make.transition_model_binary())
    return "ark:toys.ark"


def tools() -> dict[str, argparse.ArgumentParser]:
    verbs = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    found = next(a for a in verbs.choices["lattice"]._actions if isinstance(a, argparse._SubParsersAction))
    return dict(found.choices)


def read(spec: str) -> dict[str, Lattice]:
    got = dict(read_lattices(spec))
    assert all(isinstance(lattice, Lattice) for lattice in got.values())
    return {key: lattice for key, lattice in got.items() if isinstance(lattice, Lattice)}


def rows(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (line.partition(" ") for line in text.splitlines())}


class TestHelp:
    @pytest.mark.parametrize("tool", tools())
    def test_example_runs(self, tool: str, run: Run, capfd: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as e:
            main(["lattice", tool, "--help"])
        assert e.value.code == 0
        example = capfd.readouterr().out.rstrip().split("\n\n")[-1]
        words = shlex.split(example)
        assert words[:4] == ["e.g.:", "kaldi-punct", "lattice", tool]
        done = run(*words[3:])
        assert done.status == 0, done.err
        assert done.last.endswith(", 0 errors")

    def test_every_option_is_explained(self) -> None:
        for parser in tools().values():
            assert parser.description
            assert all(action.help for action in parser._actions)


class TestCopy:
    def test_forms(self, run: Run, toys: str) -> None:
        assert run("copy", toys, "ark:out.ark").last == "Done 3, 0 errors"
        assert run("copy", "--state-level", toys, "ark,t:level.txt").status == 0
        assert Path("level.txt").read_text().startswith("call-1 \n0\t5\t2\t1\t1.5,20\n")
        for out in ("ark:out.ark", "ark:level.txt"):
            got = read(out)
            assert difference(got["call-1"], parse(make.binary(make.FORK))) == ""
            assert list(got) == ["call-1", "call-x", "call-2"]

    def test_script(self, run: Run, toys: str) -> None:
        assert run("copy", toys, "ark,scp:a.ark,a.scp").status == 0
        assert difference(read("scp:a.scp")["call-2"], parse(make.binary(make.LINE))) == ""

    def test_broken_input_keeps_what_came_before(self, run: Run, toys: str) -> None:
        data = Path("toys.ark").read_bytes()
        Path("toys.ark").write_bytes(data[:-3])
        done = run("copy", toys, "ark:out.ark")
        assert (done.status, done.last) == (1, "Done 2, 1 errors")
        assert list(read("ark:out.ark")) == ["call-1", "call-x"]

    def test_bad_wspecifier(self, run: Run, toys: str) -> None:
        done = run("copy", toys, "scp:a.scp")
        assert done.status == 1
        assert "expected ark,scp:<archive>,<script>" in done.err


class TestOptions:
    def test_scale(self, run: Run, toys: str) -> None:
        options = ("--lm-scale", 0.5, "--acoustic-scale", 0.1, "--word-ins-penalty", 2)
        assert run("scale", *options, toys, "ark,t:out").last == "Done 3, 0 errors"
        line = Path("out").read_text().split("\n")[1].split("\t")
        assert line[3].startswith("1.75,2,")  # (1.5 + 2) x 0.5, 20 x 0.1

    def test_prune(self, run: Run, toys: str) -> None:
        n_arcs = []
        for options in ((), ("--beam", 3), ("--beam", 0.5), ("--beam", 3, "--lm-scale", 0.01)):
            done = run("prune", "--acoustic-scale", 0.1, *options, toys, "ark:out")
            assert done.last == "Done 2, 1 errors"
            n_arcs.append(read("ark:out")["call-1"].n_arcs)
        assert n_arcs == [5, 4, 3, 5]
        run("prune", "--acoustic-scale", 10, "--beam", 5, toys, "ark:out")
        assert read("ark:out")["call-1"].n_arcs == 3
        run("prune", "--acoustic-scale", 0.1, "--state-level", toys, "ark:out")
        assert b"lattice4" in Path("out").read_bytes().replace(b"compactlattice44", b"")
        assert "expected a number above 0, got 0.0" in run("prune", "--acoustic-scale", 1, "--beam", 0, toys, "-").err

    def test_nbest(self, run: Run, toys: str) -> None:
        tables = [f"--{name}" for name in ("alignments", "words", "lm-costs", "ac-costs")]
        named = [part for name in tables for part in (name, f"ark,t:{name[2:]}")]
        done = run("nbest", "--n", 2, "--acoustic-scale", 0.1, *named, toys, "ark:out")
        assert done.last == "Done 2, 1 errors"
        assert list(read("ark:out")) == ["call-1-1", "call-1-2", "call-2-1"]
        got = {name[2:]: rows(Path(name[2:]).read_text()) for name in tables}
        assert got["words"] == {"call-1-1": "1 2", "call-1-2": "1 3", "call-2-1": "3"}
        assert got["lm-costs"]["call-1-1"] == "6"
        assert got["ac-costs"]["call-1-1"] == "70"
        assert got["alignments"]["call-2-1"] == "2 1 4 3 3 6 5 5 5 2 1"

    def test_nbest_scales_and_penalty(self, run: Run, toys: str) -> None:
        for options, best in (
            (("--acoustic-scale", 0.1), "1 2"),
            (("--acoustic-scale", 0.1, "--lm-scale", -2), "1"),
            (("--acoustic-scale", -1), "1 3"),
            (("--acoustic-scale", 0.1, "--word-ins-penalty", 50), "1"),
        ):
            run("nbest", "--n", 1, *options, "--words", "ark,t:words", toys, "ark:out")
            assert rows(Path("words").read_text())["call-1-1"] == best

    def test_one_best(self, run: Run, toys: str) -> None:
        assert run("nbest", "--one-best", "--acoustic-scale", 0.1, toys, "ark:out").status == 0
        assert list(read("ark:out")) == ["call-1", "call-2"]

    def test_depth(self, run: Run, toys: str) -> None:
        done = run("depth", toys, "ark,t:-")
        assert rows(done.out)["call-2"] == "1"
        assert "Overall density is" in done.err
        per_frame = rows(run("depth", "--per-frame", toys, "ark,t:-").out)
        assert per_frame["call-2"] == " ".join(["1"] * 11)
        numbers = [int(n) for n in per_frame["call-1"].split()]
        assert sum(numbers) / len(numbers) == pytest.approx(float(rows(done.out)["call-1"]))

    def test_arc_post(self, run: Run, toys: str) -> None:
        done = run("arc-post", "--acoustic-scale", 0.1, toys, "-")
        lines = [line.split("\t") for line in done.out.splitlines()]
        assert done.last == "Done 2, 1 errors"
        assert lines[-1] == ["call-2", "0", "11", "1", "3"]
        assert lines[0][:3] == ["call-1", "0", "6"]
        few = run("arc-post", "--acoustic-scale", 0.1, "--min-post", 0.9, toys, "-").out.splitlines()
        assert len(few) < len(lines)
        options = ("--print-alignment", "--transition-model", "trans.mdl", "--lm-scale", 0.5)
        full = run("arc-post", "--acoustic-scale", 0.1, *options, toys, "-").out.splitlines()
        assert full[-1].split("\t")[5:] == ["2,1,4,3,3,6,5,5,5,2,1", "1 2 3 1"]
        assert [line.split("\t")[3] for line in full] != [line[3] for line in lines]

    def test_arc_post_with_a_foreign_model(self, run: Run, toys: str) -> None:
        Path("small.mdl").write_bytes(make.transition_model_binary(tuples=((1, 0, 1),)))
        done = run("arc-post", "--acoustic-scale", 0.1, "--transition-model", "small.mdl", toys, "-")
        assert "expected transition-ids up to 2, got" in done.err
        assert done.last == "Done 0, 3 errors"

    def test_confidence(self, run: Run, toys: str) -> None:
        got = rows(run("confidence", "--acoustic-scale", 0.1, toys, "ark,t:-").out)
        assert got == {"call-1": "1", "call-2": "1e+10"}
        assert (
            rows(run("confidence", "--acoustic-scale", 0.1, "--lm-scale", 2, toys, "ark,t:-").out)["call-1"] == "1.75"
        )

    def test_oracle(self, run: Run, toys: str) -> None:
        call = ("oracle", "--acoustic-scale", 0.1)
        done = run(*call, "--edits", "ark,t:edits", toys, "text", "words.txt", "-")
        assert done.out == "call-1 a harbour\ncall-2 light\n"
        assert Path("edits").read_text() == "call-1 1\ncall-2 1\n"
        assert "Overall %WER 40.00 [ 2 / 5, 0 insertions, 2 deletions, 0 substitutions ]" in done.err
        assert done.last == "Done 2, 1 errors"
        wild = run(*call, "--wildcards", "[noise]:light", toys, "text", "words.txt", "-")
        assert wild.out == "call-1 a harbour\ncall-2\n"
        Path("text").write_text("call-1 zeppelin light\n")
        assert run(*call, toys, "text", "words.txt", "-").out == "call-1 a light\n"
        mapped = run(*call, "--map-oov", "harbour", "--edits", "ark,t:edits", toys, "text", "words.txt", "-")
        assert Path("edits").read_text() == "call-1 1\n"
        assert "text: expected 'call-2' in it, got no such key" in mapped.err

    def test_oracle_likeliest_of_the_closest(self, run: Run, toys: str) -> None:
        Path("text").write_text("call-1 a [noise]\n")
        outs = [
            run("oracle", "--acoustic-scale", scale, "--lm-scale", lm, toys, "text", "words.txt", "-").out
            for scale, lm in ((0.1, 1), (-1, 1), (0.1, -1))
        ]
        assert outs == ["call-1 a harbour\n", "call-1 a light\n", "call-1 a\n"]

    def test_words_that_are_not_there(self, run: Run, toys: str) -> None:
        for option in ("--map-oov", "--wildcards"):
            done = run("oracle", "--acoustic-scale", 0.1, option, "zz", toys, "text", "words.txt", "-")
            assert f"{option}: expected words of words.txt, got 'zz'" in done.err
        Path("words.txt").write_text("<eps> 0\na 1\n")
        done = run("oracle", "--acoustic-scale", 0.1, toys, "text", "words.txt", "-")
        assert "words.txt: expected word-id 3 in it, got none" in done.err


class TestScale:
    @pytest.mark.parametrize("tool", NEED_A_PATH)
    def test_is_asked_for(self, tool: str, run: Run, toys: str) -> None:
        between = ("text", "words.txt") if tool == "oracle" else ()
        done = run(tool, toys, *between, "out")
        assert done.status == 1
        assert "--acoustic-scale: expected 1/LMWT, got none" in done.err

    def test_is_found_beside_the_lattices(self, run: Run, toys: str) -> None:
        folder = Path("exp/decode")
        (folder / "scoring_kaldi").mkdir(parents=True)
        (folder / "lat.1").write_bytes(Path("toys.ark").read_bytes())
        (folder / "scoring_kaldi/best_wer").write_text("%WER 1.0 [ 1 / 100, 0 ins, 0 del, 1 sub ] wer_10_0.0\n")
        done = run("confidence", folder, "ark,t:-")
        assert rows(done.out)["call-1"] == "1"
        assert "acoustic scale 0.1 is from" in done.err

    def test_no_number(self, capsys: pytest.CaptureFixture[str]) -> None:
        for value in ("x", "nan", "inf"):
            with pytest.raises(SystemExit):
                main(["lattice", "prune", "--beam", value, "ark:x", "-"])
            assert f"expected a number, got '{value}'" in capsys.readouterr().err
