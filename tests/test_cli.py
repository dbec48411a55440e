"""The command line: every verb, every option, what goes where, and the exit status."""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kaldi_punct.cli import build_parser, main
from kaldi_punct.commands.conversations import conversations, in_input_order
from kaldi_punct.commands.sources import Item
from kaldi_punct.types import Audio, Punctuated, Utterance, Word

VERBS = (
    "punctuate",
    "nbest",
    "ctm",
    "lattice",
    "score",
    "project",
    "serve",
    "client",
    "prepare",
    "feats",
    "pretrain",
    "import-wav2vec",
    "train",
    "models",
)
# What these start does not end, or needs a server: their examples run in TestServe and TestClient. The last two
# need more than a clone has: test_cli_pretraining.py.
NOT_RUN = ("serve", "client", "pretrain", "import-wav2vec")


pytestmark = pytest.mark.usefixtures("in_repo_copy")


@pytest.fixture
def built_in(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny model under the name of the built-in one."""
    from kaldi_punct import checkpoint

    (tmp_path / "builtin").mkdir()
    (tmp_path / "builtin" / "en").symlink_to(tiny_model)
    monkeypatch.setattr(checkpoint, "BUILT_IN_DIR", tmp_path / "builtin")


def verb_parsers() -> dict[str, argparse.ArgumentParser]:
    action = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def example_of(parser: argparse.ArgumentParser) -> list[str]:
    assert parser.epilog is not None
    head, _, command = parser.epilog.partition("e.g.: ")
    words = shlex.split(command)
    assert (head, words[0]) == ("", "kaldi-punct")
    return words[1:]


class TestHelp:
    def test_verbs(self) -> None:
        assert set(verb_parsers()) == set(VERBS)

    @pytest.mark.parametrize("verb", VERBS)
    def test_help_ends_in_an_example_that_parses(self, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as e:
            main([verb, "--help"])
        assert e.value.code == 0
        last = capsys.readouterr().out.rstrip().split("\n\n")[-1]
        assert last.startswith("e.g.: kaldi-punct ")
        assert build_parser().parse_args(example_of(verb_parsers()[verb])).verb == verb

    @pytest.mark.parametrize("verb", [v for v in VERBS if v not in NOT_RUN])
    @pytest.mark.usefixtures("built_in")
    def test_examples_run(self, verb: str, run: Callable[..., SimpleNamespace]) -> None:
        # The tiny model reads no longer windows.
        extra = ["--set", "data.max_pieces=48"] if verb == "train" else []
        done = run(*example_of(verb_parsers()[verb]), *extra)
        assert done.status == 0, done.err
        assert done.last.startswith("Done ")
        assert done.last.endswith(", 0 errors")
        assert done.out or verb in ("nbest", "feats", "train")

    def test_every_option_is_explained(self) -> None:
        for parser in verb_parsers().values():
            for action in parser._actions:
                assert action.help, action

    def test_help_loads_nothing_heavy(self) -> None:
        code = (
            "import sys; from kaldi_punct.cli import main\n"
            "try: main(['punctuate', '--help'])\n"
            "except SystemExit: pass\n"
            "print(sorted({'torch', 'grpc', 'transformers', 'soundfile'} & set(sys.modules)), file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stderr.strip() == "[]"

    def test_no_abbreviated_options(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as e:
            main(["score", "--js", "a", "b"])
        assert e.value.code == 2
        assert "unrecognized arguments: --js" in capsys.readouterr().err


def ctm_of(mini: Path, name: str = "1best.ctm") -> list[str]:
    return [line.rstrip() for line in (mini / "kaldi" / name).read_text().splitlines()]


class TestLattices:
    def test_ctm_is_kaldis(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        done = run("ctm", "--acoustic-scale", 0.1, "egs/mini/decode", "egs/mini/lang/words.txt", "-")
        assert sorted(done.out.splitlines()) == sorted(ctm_of(mini))
        assert (done.status, done.last) == (0, "Done 30, 0 errors")

    def test_what_was_found_is_logged(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("ctm", "--acoustic-scale", 0.1, "egs/mini/decode", "egs/mini/lang/words.txt", "-")
        assert "lattices: frame shift 0.03 s is from egs/mini/frame_subsampling_factor" in done.err
        assert "acoustic scale 0.1, word insertion penalty 0" in done.err
        assert "transition model egs/mini/trans.mdl" in done.err

    def test_scale_and_penalty_of_the_best_wer(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        shutil.copytree(mini, "copy")
        Path("copy/decode/scoring_kaldi").mkdir()
        Path("copy/decode/scoring_kaldi/best_wer").write_text("%WER 7.43 [ 33 / 444 ] copy/decode/wer_10_0.5\n")
        done = run("ctm", "copy/decode", "egs/mini/lang/words.txt", "found.ctm")
        assert "lattices: acoustic scale 0.1 is from copy/decode/scoring_kaldi/best_wer" in done.err
        assert "lattices: word insertion penalty 0.5 is from copy/decode/scoring_kaldi/best_wer" in done.err
        run(
            "ctm",
            "--acoustic-scale",
            0.1,
            "--word-ins-penalty",
            0.5,
            "egs/mini/decode",
            "egs/mini/lang/words.txt",
            "given.ctm",
        )
        assert Path("found.ctm").read_text() == Path("given.ctm").read_text()

    def test_scale_is_asked_for_by_name(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("ctm", "egs/mini/decode", "egs/mini/lang/words.txt", "out.ctm")
        assert (
            "ERROR: --acoustic-scale: expected 1/LMWT, as of scoring_kaldi/best_wer, got none, and none was found "
            "beside egs/mini/decode; give --acoustic-scale" in done.err
        )
        assert (done.status, done.last) == (1, "Done 0, 1 errors")
        assert not Path("out.ctm").exists()

    @pytest.mark.parametrize(
        ("missing", "option", "what"),
        [
            ("trans.mdl", "--transition-model", "final.mdl or trans.mdl"),
            ("lang/phones/word_boundary.int", "--word-boundary", "phones/word_boundary.int (or --align-lexicon)"),
            ("frame_subsampling_factor", "--frame-shift", "seconds of a lattice frame"),
        ],
    )
    def test_what_times_need_is_asked_for(
        self, run: Callable[..., SimpleNamespace], mini: Path, missing: str, option: str, what: str
    ) -> None:
        shutil.copytree(mini, "copy")
        Path("copy", missing).unlink()
        call = ["ctm", "--acoustic-scale", "0.1", "copy/decode", "egs/mini/lang/words.txt", "out.ctm"]
        done = run(*call)
        assert (
            f"ERROR: {option}: expected {what}, got none, and none was found beside copy/decode; give {option}"
            in done.err
        )
        given = {"--frame-shift": "0.03"}.get(option, f"egs/mini/{missing}")
        assert run("ctm", option, given, *call[1:]).status == 0
        assert sorted(Path("out.ctm").read_text().splitlines()) == sorted(ctm_of(mini))

    def test_frame_shift_scales_times(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run(
            "ctm", "--acoustic-scale", 0.1, "--frame-shift", 0.06, "egs/mini/decode", "egs/mini/lang/words.txt", "-"
        )
        assert done.out.splitlines()[0] == "harbour-A-000035-000456 1 0.36 0.90 hello"

    def test_acoustic_scale_changes_the_best_path(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        done = run("ctm", "--acoustic-scale", 2.0, "egs/mini/decode", "egs/mini/lang/words.txt", "-")
        assert sorted(done.out.splitlines()) != sorted(ctm_of(mini))

    def test_lm_scale_and_acoustic_scale_make_the_same_ratio(self, run: Callable[..., SimpleNamespace]) -> None:
        tail = ("egs/mini/decode", "egs/mini/lang/words.txt", "-")
        both = run("ctm", "--lm-scale", 0.5, "--acoustic-scale", 0.05, *tail)
        assert both.out == run("ctm", "--acoustic-scale", 0.1, *tail).out
        assert both.out != run("ctm", "--acoustic-scale", 0.05, *tail).out

    def test_word_ins_penalty_makes_paths_shorter(self, run: Callable[..., SimpleNamespace]) -> None:
        tail = ("--acoustic-scale", 0.1, "egs/mini/decode", "egs/mini/lang/words.txt", "-")
        n_words = [len(run("ctm", "--word-ins-penalty", p, *tail).out.splitlines()) for p in (0, 20)]
        assert n_words[1] < n_words[0]

    def test_nbest_is_kaldis(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        rspecifier = "ark:gunzip -c egs/mini/decode/lat.*.gz |"
        done = run("nbest", "--acoustic-scale", 0.1, "--n", 10, rspecifier, "egs/mini/lang/words.txt", "exp/nbest")
        assert (done.status, done.last) == (0, "Done 30, 0 errors")
        ours = sorted(Path("exp/nbest/words").read_text().splitlines())
        assert ours == sorted(line.rstrip() for line in (mini / "kaldi" / "nbest10.words").read_text().splitlines())
        keys = [line.split(" ")[0] for line in ours]
        for name in ("lm_cost", "ac_cost"):
            rows = [line.split(" ") for line in Path("exp/nbest", name).read_text().splitlines()]
            assert sorted(key for key, _ in rows) == keys
            assert all(abs(float(cost)) < 1e6 for _, cost in rows)
        best = [line.split(" ", 1) for line in Path("exp/nbest/ctm").read_text().splitlines()]
        firsts = sorted(f"{key.removesuffix('-1')} {rest}" for key, rest in best if key.endswith("-1"))
        assert firsts == sorted(ctm_of(mini))

    def test_nbest_options(self, run: Callable[..., SimpleNamespace]) -> None:
        tail = ("--acoustic-scale", 0.1, "egs/mini/decode", "egs/mini/lang/words.txt")
        run("nbest", "--n", 2, *tail, "two")
        ranks = {line.split(" ")[0].rpartition("-")[2] for line in Path("two/words").read_text().splitlines()}
        assert ranks == {"1", "2"}
        run("nbest", "--n", 2, "--lm-scale", 0.1, *tail, "scaled")
        assert Path("two/words").read_text() != Path("scaled/words").read_text()

    def test_nbest_without_times(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        shutil.copytree(mini, "copy")
        Path("copy/trans.mdl").unlink()
        done = run("nbest", "--acoustic-scale", 0.1, "copy/decode", "egs/mini/lang/words.txt", "exp/nbest")
        assert "WARNING: lattices: no word times, as there is no --transition-model" in done.err
        assert sorted(p.name for p in Path("exp/nbest").iterdir()) == ["ac_cost", "lm_cost", "words"]

    def test_cut_archive_keeps_what_came_before(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        whole = gzip.decompress((mini / "decode" / "lat.1.gz").read_bytes())
        Path("cut.ark").write_bytes(whole[: len(whole) * 2 // 3])
        options = ("--acoustic-scale", 0.1, "--frame-shift", 0.03, "--transition-model", "egs/mini/trans.mdl",
                   "--word-boundary", "egs/mini/lang/phones/word_boundary.int")  # fmt: skip
        done = run("ctm", *options, "ark:cut.ark", "egs/mini/lang/words.txt", "out.ctm")
        n_done = len({line.split(" ")[0] for line in Path("out.ctm").read_text().splitlines()})
        assert n_done > 0
        assert (done.status, done.last) == (1, f"Done {n_done}, 1 errors")
        assert "ERROR: cut.ark: " in done.err
        assert "byte " in done.err

    def test_word_that_words_txt_lacks(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        lines = [
            line for line in (mini / "lang" / "words.txt").read_text().splitlines() if not line.startswith("hello ")
        ]
        Path("words.txt").write_text("\n".join(lines) + "\n")
        done = run("ctm", "--acoustic-scale", 0.1, "egs/mini/decode", "words.txt", "out.ctm")
        assert done.status == 0
        assert "harbour-A-000035-000456: byte 24: expected word-ids of the words table" in done.err
        n_errors = int(done.last.split(", ")[1].split(" ")[0])
        assert done.last == f"Done {30 - n_errors}, {n_errors} errors"
        assert n_errors > 0

    def test_decode_directory_with_a_job_missing(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        shutil.copytree(mini, "copy")
        Path("copy/decode/lat.1.gz").unlink()
        done = run("ctm", "--acoustic-scale", 0.1, "copy/decode", "egs/mini/lang/words.txt", "out.ctm")
        assert (
            "ERROR: copy/decode: expected lat.1.gz to lat.2.gz (num_jobs), got 1 archives, none of job 1; decode the "
            "missing jobs, or name the archives: 'ark:gunzip -c … |'" in done.err
        )
        assert done.status == 1

    def test_directory_without_lattices(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("ctm", "--acoustic-scale", 0.1, "egs/mini/lang", "egs/mini/lang/words.txt", "-")
        assert (
            "ERROR: egs/mini/lang: expected a decode directory with lat.JOB.gz, got none in it; check the path"
            in done.err
        )

    def test_one_broken_job_does_not_stop_the_others(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        shutil.copytree(mini, "copy")
        Path("copy/decode/lat.1.gz").write_bytes(gzip.compress(b"utt1 \0Bnonsense"))
        done = run("ctm", "--acoustic-scale", 0.1, "copy/decode", "egs/mini/lang/words.txt", "out.ctm")
        assert done.status == 1
        assert "lat.1.gz" in done.err
        utts = {line.split(" ")[0] for line in Path("out.ctm").read_text().splitlines()}
        assert done.last == f"Done {len(utts)}, 1 errors"
        assert utts

    @pytest.mark.parametrize("option", ["--acoustic-scale", "--frame-shift"])
    @pytest.mark.parametrize("value", ["0", "-1", "inf", "nan"])
    def test_scales_above_zero(self, option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as e:
            main(["ctm", f"{option}={value}", "a", "b", "c"])
        assert e.value.code == 2
        assert f"argument {option}: expected a number above 0, got '{value}'" in capsys.readouterr().err

    def test_at_least_one_hypothesis(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["nbest", "--n", "0", "a", "b", "c"])
        assert "argument --n: expected a whole number above 0, got '0'" in capsys.readouterr().err

    def test_reader_of_the_output_goes_away(self) -> None:
        command = (
            f"{shlex.quote(sys.executable)} -m kaldi_punct.cli project egs/mini/text_punct egs/mini/text - | head -n 1"
        )
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("harbour-A-000035-000456 Hello, ")
        assert "Traceback" not in done.stderr


def words_of(text: str) -> list[str]:
    """The tokens of punctuated text without what the model put to them."""
    return [token.rstrip(",.?").lower() for token in text.split(" ")]


@pytest.mark.usefixtures("built_in")
class TestPunctuate:
    def test_lines(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("in.txt").write_text("so what do you think\n\nnothing <unk> else\n")
        done = run("punctuate", "--from", "lines", "in.txt", "-")
        first, blank, last = done.out.splitlines()
        assert words_of(first) == ["so", "what", "do", "you", "think"]
        assert blank == ""
        assert words_of(last) == ["nothing", "<unk>", "else"]
        assert (done.status, done.last) == (0, "Done 3, 0 errors")

    def test_stdin(self, run: Callable[..., SimpleNamespace], monkeypatch: pytest.MonkeyPatch) -> None:
        Path("in.txt").write_text("so what do you think\n")
        with open("in.txt") as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            done = run("punctuate", "--from", "lines", "-", "-")
        assert words_of(done.out.strip()) == ["so", "what", "do", "you", "think"]

    def test_text_table(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        done = run("punctuate", "egs/mini/text", "-")
        assert "reading egs/mini/text as text (--from says otherwise)" in done.err
        assert [words_of(line) for line in done.out.splitlines()] == [
            [token.lower() for token in line.split(" ")] for line in (mini / "text").read_text().splitlines()
        ]

    def test_unicode_blanks_are_part_of_a_word(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("text").write_text("u1 a\u00a0b c\u3000d\tplain\n", encoding="utf-8")
        done = run("punctuate", "--no-punctuation", "--no-capitalization", "text", "-")
        assert done.out == "u1 a\u00a0b c\u3000d plain\n"

    def test_utterance_without_words(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("text").write_text("u1\nu2 hello\n")
        done = run("punctuate", "--no-punctuation", "--no-capitalization", "text", "-")
        assert done.out == "u1\nu2 hello\n"
        assert done.last == "Done 2, 0 errors"

    def test_model(self, run: Callable[..., SimpleNamespace], tiny_model: Path) -> None:
        assert run("punctuate", "--model", tiny_model, "egs/mini/text", "-").status == 0
        done = run("punctuate", "--model", "nowhere", "egs/mini/text", "out")
        assert (
            "nowhere: expected a model directory, 'hub:ORG/NAME' or a built-in model (en), got none of them" in done.err
        )
        assert done.status == 1
        assert not Path("out").exists()

    def test_device(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("punctuate", "--device", "cuda:99", "egs/mini/text", "-")
        assert "CUDA devices, got 'cuda:99'; use cpu" in done.err
        assert done.status == 1

    def test_unknown_device(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["punctuate", "--device", "quantum", "a", "b"])
        assert "argument --device: expected cpu, cuda or cuda:N, got 'quantum'" in capsys.readouterr().err

    def test_switches(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        neither = run("punctuate", "--no-punctuation", "--no-capitalization", "egs/mini/text", "-").out
        assert neither == (mini / "text").read_text()
        both = run("punctuate", "egs/mini/text", "-").out
        no_case = run("punctuate", "--no-capitalization", "egs/mini/text", "-").out
        no_marks = run("punctuate", "--no-punctuation", "egs/mini/text", "-").out
        assert no_case == "".join(f"{line}\n" for line in _lower_words(both))
        assert len({neither, both, no_case, no_marks}) == 4
        assert not any(c in no_marks for c in ",.?")

    def test_ctm_keeps_every_other_column(self, run: Callable[..., SimpleNamespace]) -> None:
        text = ";; a comment\nrec1 1 0.00 0.5000 hello 0.97\nrec1 1 0.50 0.25 there NA\nrec2 A 1 .5   well\t1.0 \n"
        Path("in.ctm").write_text(text)
        done = run("punctuate", "--to", "ctm", "in.ctm", "-")
        assert "reading in.ctm as ctm" in done.err
        assert [_plain_ctm(line) for line in done.out.splitlines()] == [
            ["rec1 1 0.00 0.5000 ", "hello", " 0.97"],
            ["rec1 1 0.50 0.25 ", "there", " NA"],
            ["rec2 A 1 .5   ", "well", "\t1.0 "],
        ]

    def test_ctm_with_channels_that_alternate(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("in.ctm").write_text("c A 0 1 one\nc B 0.5 1 uno\nc A 1 1 two\nc B 2 1 dos\nd 1 0 1 three\n")
        text = run("punctuate", "--no-punctuation", "--no-capitalization", "in.ctm", "-")
        assert text.out == "c-A one two\nc-B uno dos\nd three\n"
        ctm = run("punctuate", "--no-punctuation", "--no-capitalization", "--to", "ctm", "in.ctm", "-")
        assert ctm.out == Path("in.ctm").read_text()

    def test_times_that_step_back(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("in.ctm").write_text("a 1 1.00 0.1 one\na 1 0.95 0.1 two\nb 1 1.00 0.1 one\nb 1 0.50 0.1 two\nc 1 0 1 x\n")
        done = run("punctuate", "--no-punctuation", "--no-capitalization", "in.ctm", "-")
        assert done.out == "a one two\nc x\n"
        assert "WARNING: in.ctm: 1 times step back by at most 0.1 s (taken as they are)" in done.err
        assert "ERROR: in.ctm:4: expected times of 'b' that go on, got 'two' at 0.5 s after 'one' at 1 s" in done.err
        assert (done.status, done.last) == (0, "Done 2, 1 errors")

    def test_nothing_done_is_a_failure(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("in.ctm").write_text("b 1 1.00 0.1 one\nb 1 0.50 0.1 two\n")
        done = run("punctuate", "in.ctm", "-")
        assert (done.status, done.last) == (1, "Done 0, 1 errors")

    def test_broken_line_ends_the_input(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("in.ctm").write_text("a 1 1.00 0.1 one\nb 1 1.00 0.1 two\nc 1 0.5\n")
        done = run("punctuate", "--from", "ctm", "--no-punctuation", "--no-capitalization", "in.ctm", "out")
        assert Path("out").read_text() == "a one\n"
        assert "ERROR: in.ctm:3: expected 5 or 6 fields" in done.err
        assert (done.status, done.last) == (1, "Done 1, 1 errors")

    def test_truncated_gzip_keeps_what_came_before(self, run: Callable[..., SimpleNamespace]) -> None:
        lines = "".join(f"u{n:05d} w{n * 7919 % 1000} some words\n" for n in range(20_000))
        Path("text.gz").write_bytes(gzip.compress(lines.encode())[:8000])
        done = run("punctuate", "--no-punctuation", "--no-capitalization", "text.gz", "out.gz")
        written = gzip.decompress(Path("out.gz").read_bytes()).decode()
        assert lines.startswith(written)
        n_done = written.count("\n")
        assert n_done > 100
        assert (done.status, done.last) == (1, f"Done {n_done}, 1 errors")

    def test_kind_that_cannot_be_told(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("words").write_text("hello\n")
        done = run("punctuate", "words", "-")
        assert (
            "--from: expected one of lattice, ctm, text, lines, jsonl, vosk, kaldi-server, online2 for an input "
            "whose name does not tell, got none: "
            "'words'; say what it is, e.g. --from text for lines '<utt-id> <word> …', --from lines for words alone"
            in done.err
        )

    def test_lattice_options_want_lattices(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("punctuate", "--acoustic-scale", 0.1, "egs/mini/text", "-")
        assert "--acoustic-scale: expected an input of lattices, got text; leave it out" in done.err

    def test_lattices_as_their_best_paths(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        options = ("--acoustic-scale", 0.1, "--no-punctuation", "--no-capitalization")
        directory = run("punctuate", *options, "egs/mini/decode", "-")
        best = sorted(line.rstrip() for line in (mini / "kaldi" / "best.words").read_text().splitlines())
        assert sorted(directory.out.splitlines()) == best
        pipe = run("punctuate", *options, "ark:gunzip -c egs/mini/decode/lat.*.gz |", "-")
        assert pipe.out == directory.out
        ctm = run("punctuate", *options, "--to", "ctm", "egs/mini/decode", "-")
        assert sorted(ctm.out.splitlines()) == sorted(ctm_of(mini))

    def test_lattice_files_may_be_named(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        Path("lat").mkdir()
        for name in ("lat.1.gz", "lat.2.gz"):
            shutil.copy(mini / "decode" / name, "lat")
        base = ["punctuate", "--no-punctuation", "--no-capitalization", "--to", "ctm"]
        options = {
            "--words": "egs/mini/lang/words.txt",
            "--word-boundary": "egs/mini/lang/phones/word_boundary.int",
            "--transition-model": "egs/mini/trans.mdl",
            "--frame-shift": "0.03",
            "--acoustic-scale": "0.1",
        }
        whole = run(*base, *[x for pair in options.items() for x in pair], "lat", "-")
        assert sorted(whole.out.splitlines()) == sorted(ctm_of(mini))
        for left_out in options:
            given = [x for option, value in options.items() if option != left_out for x in (option, value)]
            done = run(*base, *given, "lat", "-")
            assert f"ERROR: {left_out}: expected " in done.err
            assert done.status == 1
        shorter = run(*base, *[x for pair in options.items() for x in pair], "--word-ins-penalty", 20, "lat", "-")
        assert len(shorter.out) < len(whole.out)

    def test_lattice_times_are_the_ctms(self, run: Callable[..., SimpleNamespace]) -> None:
        """Words and times of the lattice equal those of the CTM, so the answers do too, segments included."""
        ctm = run("punctuate", "--segments", "egs/mini/segments", "egs/mini/kaldi/1best.ctm", "-")
        lattices = run("punctuate", "--segments", "egs/mini/segments", "--acoustic-scale", 0.1, "egs/mini/decode", "-")
        assert sorted(lattices.out.splitlines()) == sorted(ctm.out.splitlines())

    @pytest.mark.parametrize("segments", [[], ["--segments", "egs/mini/segments"]], ids=["alone", "conversations"])
    def test_nbest_of_one_is_the_best_path(self, run: Callable[..., SimpleNamespace], segments: list[str]) -> None:
        lattices = ["--acoustic-scale", 0.1, "egs/mini/decode", "-"]
        one, plain, ten = (run("punctuate", *segments, *n, *lattices) for n in (["--nbest", 1], [], ["--nbest", 10]))
        assert one.out == plain.out
        assert ten.out != plain.out
        assert [[w.strip(",.?").lower() for w in line.split()] for line in ten.out.splitlines()] == [
            [w.strip(",.?").lower() for w in line.split()] for line in plain.out.splitlines()
        ]
        assert ten.last == "Done 30, 0 errors"

    def test_nbest_is_what_fuse_gives(
        self, run: Callable[..., SimpleNamespace], mini: Path, tiny_model: Path, built_in: None
    ) -> None:
        import kaldi_punct

        lang = mini / "lang"
        options = ["--acoustic-scale", 0.1, "--utt2spk", "egs/mini/utt2spk"]
        done = run("punctuate", "--nbest", 3, *options, "egs/mini/decode", "-")
        texts = dict(line.split(" ", 1) for line in done.out.splitlines())
        punctuator = kaldi_punct.load(tiny_model)
        speakers = dict(line.split() for line in (mini / "utt2spk").read_text().splitlines())
        lists = kaldi_punct.read_nbest(
            f"ark:{sorted((mini / 'decode').glob('lat.*.gz'))[0]}", words=lang / "words.txt", n=3, acoustic_scale=0.1,
            frame_shift_s=0.03, word_boundary=lang / "phones" / "word_boundary.int", model=mini / "trans.mdl",
        )  # fmt: skip
        for utt_id, hypotheses in lists:
            said = [
                dataclasses.replace(h, words=tuple(dataclasses.replace(w, spk_id=speakers[utt_id]) for w in h.words))
                for h in hypotheses
            ]
            assert texts[utt_id] == punctuator.fuse(said).text

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            (
                ["--nbest", "3", "egs/mini/kaldi/1best.ctm"],
                "--nbest: expected an input of lattices, got ctm; leave it out",
            ),
            (
                ["--nbest", "3", "--confidence", "mbr", "egs/mini/decode"],
                "--nbest: expected it without --confidence, got --confidence mbr; leave one out",
            ),
        ],
    )
    def test_nbest_does_not_go_with(self, run: Callable[..., SimpleNamespace], given: list[str], text: str) -> None:
        done = run("punctuate", *given, "-")
        assert text in done.err
        assert done.status != 0

    def test_segments_join_a_recording(self, run: Callable[..., SimpleNamespace]) -> None:
        alone = run("punctuate", "egs/mini/kaldi/1best.ctm", "-")
        joined = run("punctuate", "--segments", "egs/mini/segments", "egs/mini/kaldi/1best.ctm", "-")
        assert alone.out != joined.out
        assert [words_of(line) for line in alone.out.splitlines()] == [
            words_of(line) for line in joined.out.splitlines()
        ]
        by_recording = run(
            "punctuate", "--segments", "egs/mini/segments", "--reco2file-and-channel", "egs/mini/reco2file_and_channel",
            "egs/mini/kaldi/1best.reco.ctm", "-",
        )  # fmt: skip
        assert sorted(by_recording.out.splitlines()) == sorted(joined.out.splitlines())

    def test_recording_ctm_in_its_own_order(self, run: Callable[..., SimpleNamespace], mini: Path) -> None:
        done = run(
            "punctuate", "--no-punctuation", "--no-capitalization", "--to", "ctm", "--segments", "egs/mini/segments",
            "--reco2file-and-channel", "egs/mini/reco2file_and_channel", "egs/mini/kaldi/1best.reco.ctm", "-",
        )  # fmt: skip
        assert done.out == (mini / "kaldi" / "1best.reco.ctm").read_text()

    def test_utterances_outside_the_tables_are_counted(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("segments").write_text("u1 rec 0 1\n")
        Path("utt2spk").write_text("u1 s1\n")
        Path("text").write_text("u1 hello\nu2 there\nu3 you\n")
        done = run("punctuate", "--segments", "segments", "--utt2spk", "utt2spk", "text", "-")
        assert "WARNING: 2 utterances are not in segments: each is a conversation of its own" in done.err
        assert "WARNING: 2 utterances are not in utt2spk: their speakers are unknown" in done.err
        assert done.last == "Done 3, 0 errors"

    def test_lines_are_in_no_table(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("lines").write_text("hello\nthere\n")
        Path("segments").write_text("u1 rec 0 1\n")
        Path("utt2spk").write_text("u1 s1\n")
        done = run("punctuate", "--from", "lines", "--segments", "segments", "--utt2spk", "utt2spk", "lines", "-")
        assert "WARNING: 2 utterances are not in segments: each is a conversation of its own" in done.err
        assert "WARNING: 2 utterances are not in utt2spk: their speakers are unknown" in done.err

    def test_channels_want_recordings(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("punctuate", "--reco2file-and-channel", "egs/mini/reco2file_and_channel", "egs/mini/text", "-")
        assert (
            "ERROR: --reco2file-and-channel: expected --segments with it, got none; add it, or leave this out"
            in done.err
        )
        assert done.status == 1

    @pytest.mark.parametrize("to", ["text", "ctm", "jsonl"])
    @pytest.mark.parametrize("kind", ["lattice", "ctm", "text", "lines", "jsonl"])
    def test_every_kind_of_input_to_every_kind_of_output(
        self, run: Callable[..., SimpleNamespace], mini: Path, kind: str, to: str
    ) -> None:
        """The name of the input says nothing, so that --from decides; only words without times make no CTM."""
        plain = ["punctuate", "--no-punctuation", "--no-capitalization"]
        best = {
            r[0]: r[1:] for r in (line.split() for line in (mini / "kaldi" / "best.words").read_text().splitlines())
        }
        if kind == "lattice":
            Path("in").write_bytes(
                b"".join(gzip.decompress((mini / "decode" / f"lat.{n}.gz").read_bytes()) for n in (1, 2))
            )
        elif kind == "jsonl":
            run(*plain, "--to", "jsonl", "egs/mini/kaldi/1best.ctm", "in")
        elif kind == "ctm":
            shutil.copy(mini / "kaldi" / "1best.ctm", "in")
        else:
            key = [] if kind == "lines" else [""]
            Path("in").write_text(
                "".join(" ".join([*(utt_id for _ in key), *words]) + "\n" for utt_id, words in best.items())
            )
        decoder = ["--acoustic-scale", "0.1", "--frame-shift", "0.03", "--words", "egs/mini/lang/words.txt",
                   "--word-boundary", "egs/mini/lang/phones/word_boundary.int",
                   "--transition-model", "egs/mini/trans.mdl"] if kind == "lattice" else []  # fmt: skip
        done = run(*plain, "--from", kind, "--to", to, *decoder, "in", "-")
        rows = done.out.splitlines()
        if to == "ctm" and kind in ("text", "lines"):
            assert (done.status, rows, done.last) == (1, [], "Done 0, 30 errors")
            return
        assert (done.status, done.last) == (0, "Done 30, 0 errors")
        if to == "ctm":
            assert sorted(row.rstrip() for row in rows) == sorted(ctm_of(mini))
            return
        if to == "jsonl":
            records = [json.loads(row) for row in rows]
            answers = [(r["utt_id"], [w["text"] for w in r["words"]]) for r in records]
            has_times = [w["start_s"] is not None for r in records for w in r["words"]]
            assert set(has_times) == {kind not in ("text", "lines")}
        else:
            fields = [row.split(" ") for row in rows]
            answers = [("", f) if kind == "lines" else (f[0], f[1:]) for f in fields]
        if kind == "lines":
            assert [words for _, words in answers] == list(best.values())
        else:
            assert dict(answers) == best

    def test_jsonl(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run(
            "punctuate", "--to", "jsonl", "--utt2spk", "egs/mini/utt2spk", "--segments", "egs/mini/segments",
            "egs/mini/kaldi/1best.ctm", "out.jsonl",
        )  # fmt: skip
        assert done.status == 0
        first = json.loads(Path("out.jsonl").read_text().splitlines()[0])
        assert first["utt_id"] == "harbour-A-000035-000456"
        word = first["words"][0]
        assert (word["word"], word["spk_id"], word["start_s"], word["duration_s"]) == ("hello", "harbour-A", 0.53, 0.45)
        assert first["text"].split(" ")[0] == word["text"]
        again = run("punctuate", "out.jsonl", "-")
        assert "reading out.jsonl as jsonl" in again.err
        assert [words_of(line)[0] for line in again.out.splitlines()][:1] == ["harbour-a-000035-000456"]

    def test_ctm_needs_times(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("text").write_text("u1 hello\n")
        done = run("punctuate", "--to", "ctm", "text", "-")
        assert (
            "u1: expected word times for --to ctm, got 'hello' without them; give a CTM, or lattices with "
            "--transition-model, --word-boundary and --frame-shift" in done.err
        )
        assert (done.status, done.last) == (1, "Done 0, 1 errors")

    def test_sound_for_a_model_that_does_not_hear(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("punctuate", "--wav-scp", "egs/mini/wav.scp", "egs/mini/text", "-")
        assert "WARNING: --wav-scp egs/mini/wav.scp is not used: the model does not hear" in done.err

    def test_long_text_comes_back_whole(self, run: Callable[..., SimpleNamespace]) -> None:
        tokens = [f"word{n}" for n in range(2000)]
        Path("text").write_text(f"call {' '.join(tokens)}\n")
        done = run("punctuate", "text", "-")
        assert words_of(done.out.strip())[1:] == tokens


def _lower_words(text: str) -> Iterator[str]:
    for line in text.splitlines():
        key, _, words = line.partition(" ")
        yield f"{key} {words.lower()}"


def _plain_ctm(line: str) -> list[str]:
    """What stands before the word, the word without what was put to it, and what stands behind."""
    for word in ("hello", "there", "well"):
        at = line.lower().find(word)
        if at >= 0:
            return [line[:at], word, line[at + len(word) :].lstrip(",.?")]
    raise AssertionError(line)


class TestSound:
    """The table of sound, with an item in place of a whole run."""

    def item(self, rec_id: str | None, utt_id: str = "u1") -> Item:
        return Item(Utterance(utt_id, (Word("hello"),), rec_id, None, 0.5, 1.0))

    def test_by_recording_then_by_utterance(self, mini: Path) -> None:
        from kaldi_punct.commands.sound import SoundTable

        sound = SoundTable(
            {"harbour-A": str(mini / "wav" / "harbour-A.flac"), "u2": str(mini / "wav" / "harbour-B.flac")}
        )
        whole = sound.of(self.item("harbour-A"))
        assert isinstance(whole, Audio)
        assert (whole.sample_rate_hz, whole.start_s) == (8000, 0.0)
        assert sound.of(self.item(None, "u2")) is not None
        part = sound.of_utterance(self.item("harbour-A"))
        assert part is not None
        assert (part.start_s, len(part.samples)) == (0.5, 4000)
        assert SoundTable().of(self.item("harbour-A")) is None

    def test_recording_that_the_table_lacks(self) -> None:
        from kaldi_punct.commands.sound import SoundTable
        from kaldi_punct.errors import UtteranceError

        with pytest.raises(
            UtteranceError,
            match="u1: expected its recording in --wav-scp, got no entry; add it, or leave --wav-scp out",
        ):
            SoundTable({"other": "x.wav"}).of(self.item("harbour-A"))

    def test_pipes_and_broken_files(self, mini: Path) -> None:
        from kaldi_punct.commands.sound import SoundTable
        from kaldi_punct.errors import UtteranceError

        Path("bad.wav").write_bytes(b"nothing")
        sound = SoundTable({"r1": f"cat {mini}/wav/harbour-A.flac |", "r2": "bad.wav"})
        assert sound.of(self.item("r1")) is not None
        with pytest.raises(UtteranceError, match=r"^u1: bad.wav: expected a whole WAV, FLAC or OGG file"):
            sound.of(self.item("r2"))

    def test_hearing_model_without_the_table(self, caplog: pytest.LogCaptureFixture) -> None:
        from kaldi_punct.commands.sound import SoundTable

        with caplog.at_level("INFO", "kaldi_punct"):
            SoundTable.read(None, hears=True)
        assert "the model hears, but there is no --wav-scp: it goes by the words alone" in caplog.text

    def test_table_is_read_for_a_model_that_hears(self) -> None:
        from kaldi_punct.commands.sound import SoundTable

        assert SoundTable.read("egs/mini/wav.scp", hears=True).wav_scp["harbour-A"] == "wav/harbour-A.flac"


class TestConversations:
    def items(self, *names: str | None) -> list[Item]:
        return [
            Item(Utterance(f"u{n}", (), start_s=float(-n)), conversation=name)  # later in the input, earlier in time
            for n, name in enumerate(names)
        ]

    def test_each_comes_when_it_is_complete_and_in_time_order(self) -> None:
        seen: list[str] = []

        def watched() -> Iterator[Item]:
            for item in self.items("a", "b", "a", None, "b"):
                seen.append(item.utterance.utt_id)
                yield item

        groups = conversations(watched(), {"a": 2, "b": 3})
        assert [n for n, _ in next(groups)] == [2, 0]
        assert seen == ["u0", "u1", "u2"]
        assert [[n for n, _ in group] for group in groups] == [[3], [4, 1]]

    def test_answers_come_in_input_order(self) -> None:
        items = self.items("a", "b", None)
        out = Punctuated("", (), ())
        answers = [(2, items[2], out), (0, items[0], out), (1, items[1], out)]
        assert [item.utterance.utt_id for item, _ in in_input_order(answers)] == ["u0", "u1", "u2"]


class TestScoreAndProject:
    def test_score_prints_a_table(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("score", "egs/mini/text_punct", "egs/mini/text_punct")
        assert done.out.startswith("%F1 100.0 [")
        assert (done.status, done.last) == (0, "Done 30, 0 errors")

    def test_score_of_a_data_directory_as_json(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("score", "--json", "egs/mini", "egs/mini/text")
        result = json.loads(done.out)
        assert result["name"] == "egs/mini/text"

    def test_score_counts_what_is_missing(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("ref").write_text("u1 Hello, you.\nu2 Well.\n")
        Path("hyp").write_text("u1 Hello, you.\nu3 What?\n")
        done = run("score", "ref", "hyp")
        assert "ERROR: u2: expected in the hypothesis, got no such utterance; not scored" in done.err
        assert "ERROR: u3: expected in the reference, got no such utterance; not scored" in done.err
        assert (done.status, done.last) == (0, "Done 1, 2 errors")

    def test_score_of_nothing_in_common(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("ref").write_text("u1 Hello.\n")
        Path("hyp").write_text("u2 Hello.\n")
        done = run("score", "ref", "hyp")
        assert (done.status, done.last) == (1, "Done 0, 1 errors")

    def test_project(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("ref").write_text("u1 Hello, how are you? Fine.\n")
        Path("hyp").write_text("u1 hello how or you\nu2 what\n")
        done = run("project", "ref", "hyp", "-")
        assert done.out == "u1 Hello, how or you?\n"
        assert "ERROR: u2: expected in ref, got no such utterance; left out" in done.err
        assert "1 of 3 marks were lost with deleted words (33.3 %)" in done.err
        assert done.last == "Done 1, 1 errors"

    def test_project_of_a_ctm(self, run: Callable[..., SimpleNamespace]) -> None:
        Path("ref").write_text("u1 Hello, you.\n")
        Path("hyp").write_text("u1 1 0 1 hello\nu1 1 1 1 you\n")
        assert run("project", "ref", "hyp", "-").out == "u1 Hello, you.\n"
        assert run("project", "--from", "text", "ref", "hyp", "-").out.startswith("u1 1 0 1 ")

    def test_killed_run_leaves_no_output(self, mini: Path) -> None:
        os.mkfifo("slow")
        command = [
            sys.executable,
            "-m",
            "kaldi_punct.cli",
            "project",
            "--from",
            "text",
            "egs/mini/text_punct",
            "slow",
            "out",
        ]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process, open("slow", "w") as fifo:
            fifo.write((mini / "text").read_text())
            fifo.flush()
            while not Path("out.tmp").exists():
                time.sleep(0.01)
            process.kill()
        assert not Path("out").exists()


class TestServe:
    def test_options_reach_the_service(
        self, run: Callable[..., SimpleNamespace], tiny_model: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import kaldi_punct.serve as service

        seen: dict[str, Any] = {}

        def serve(models: Any, decoders: Any, options: Any) -> None:
            seen.update(models=models, decoders=decoders, options=options)

        monkeypatch.setattr(service, "serve", serve)
        done = run(
            "serve", "--listen", "localhost:1", "--model", tiny_model, "--decoder", "mini=egs/mini/decoder.yaml",
            "--max-batch-pieces", 100, "--max-requests", 7, "--max-message-mb", 3, "--threads", 5, "--grace", 1.5,
            "--metrics", "localhost:2",
        )  # fmt: skip
        assert (done.status, done.err) == (0, "")
        options = seen["options"]
        assert (options.listen, options.metrics_listen, options.grace_s) == ("localhost:1", "localhost:2", 1.5)
        assert (options.max_batch_pieces, options.max_requests, options.n_threads) == (100, 7, 5)
        assert options.max_message_bytes == 3 << 20
        assert list(seen["models"]) == ["tiny"]
        assert list(seen["decoders"]) == ["mini"]

    @pytest.mark.usefixtures("built_in")
    def test_example_serves(self, run: Callable[..., SimpleNamespace], monkeypatch: pytest.MonkeyPatch) -> None:
        import kaldi_punct.serve as service

        seen: list[Any] = []
        monkeypatch.setattr(service, "serve", lambda *given: seen.extend(given))
        assert run(*example_of(verb_parsers()["serve"])).status == 0
        assert (list(seen[0]), list(seen[1]), seen[2].listen) == (["tiny"], ["mini"], "localhost:50051")

    def test_a_model_twice(self, run: Callable[..., SimpleNamespace], tiny_model: Path) -> None:
        done = run("serve", "--model", tiny_model, "--model", tiny_model)
        assert "ERROR: --model: expected each name once, got 'tiny' twice; leave one out" in done.err
        assert done.status == 1

    def test_device(self, run: Callable[..., SimpleNamespace], tiny_model: Path) -> None:
        assert "got 'cuda:99'" in run("serve", "--model", tiny_model, "--device", "cuda:99").err


@pytest.fixture(scope="class")
def server(tiny_model: Path) -> Iterator[str]:
    """The address of a running ``kaldi-punct serve``."""
    repo = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-m", "kaldi_punct.cli", "serve", "--listen", "localhost:0", "--model", str(tiny_model)]
    command += ["--decoder", f"mini={repo / 'egs' / 'mini' / 'decoder.yaml'}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=repo) as process:
        assert process.stderr is not None
        seen = []
        for line in process.stderr:
            seen.append(line)
            if line.startswith("serving tiny on "):
                yield line.split(" ")[-1].strip()
                break
        process.terminate()
        seen.append(process.stderr.read())
        assert process.wait() == 0, "".join(seen)


@pytest.mark.slow
class TestClient:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["egs/mini/text"],
            ["egs/mini/kaldi/1best.ctm"],
            ["--to", "ctm", "egs/mini/kaldi/1best.ctm"],
            ["--no-punctuation", "egs/mini/text"],
            ["--no-capitalization", "egs/mini/text"],
            ["--acoustic-scale", "0.1", "egs/mini/decode"],
            ["--to", "jsonl", "--utt2spk", "egs/mini/utt2spk", "egs/mini/text"],
        ],
        ids=" ".join,
    )
    def test_answers_equal_punctuates(
        self, run: Callable[..., SimpleNamespace], server: str, tiny_model: Path, arguments: list[str]
    ) -> None:
        online = run("client", "--server", server, *arguments, "-")
        offline = run("punctuate", "--model", tiny_model, *arguments, "-")
        # Batch mates move a probability in its sixth digit.
        digits = re.compile(r'"prob": (\d\.\d+)')
        assert digits.sub("", online.out) == digits.sub("", offline.out)
        assert [float(p) for p in digits.findall(online.out)] == pytest.approx(
            [float(p) for p in digits.findall(offline.out)], abs=1e-4
        )
        assert (online.status, online.last) == (0, "Done 30, 0 errors")

    def test_example_runs(self, run: Callable[..., SimpleNamespace], server: str) -> None:
        done = run(*(server if part == "localhost:50051" else part for part in example_of(verb_parsers()["client"])))
        assert done.out
        assert (done.status, done.last) == (0, "Done 30, 0 errors")

    def test_context_is_what_was_sent_before(self, run: Callable[..., SimpleNamespace], server: str) -> None:
        alone = run("client", "--server", server, "egs/mini/kaldi/1best.ctm", "-")
        joined = run("client", "--server", server, "--segments", "egs/mini/segments", "egs/mini/kaldi/1best.ctm", "-")
        assert alone.out != joined.out
        one = run("client", "--server", server, "--in-flight", 1, "--segments", "egs/mini/segments",
                  "egs/mini/kaldi/1best.ctm", "-")  # fmt: skip
        assert one.out == joined.out

    def test_model(self, run: Callable[..., SimpleNamespace], server: str) -> None:
        assert run("client", "--server", server, "--model", "tiny", "egs/mini/text", "-").status == 0
        done = run("client", "--server", server, "--model", "other", "egs/mini/text", "-")
        assert "options.model: expected a model of this server (tiny), got 'other'" in done.err
        assert (done.status, done.last) == (1, "Done 0, 30 errors")

    def test_sound_is_not_sent_to_a_model_that_does_not_hear(
        self, run: Callable[..., SimpleNamespace], server: str
    ) -> None:
        done = run("client", "--server", server, "--wav-scp", "egs/mini/wav.scp", "egs/mini/text", "-")
        assert "--wav-scp egs/mini/wav.scp is not used: the model does not hear" in done.err


def test_client_in_flight(run: Callable[..., SimpleNamespace], monkeypatch: pytest.MonkeyPatch) -> None:
    from kaldi_punct.serve import client as module

    seen = {}

    def punctuate_all(*_: Any, **options: Any) -> Iterator[Any]:
        seen.update(options)
        yield from ()

    monkeypatch.setattr(module, "punctuate_all", punctuate_all)
    monkeypatch.setattr(
        module.Client, "info", lambda _: SimpleNamespace(models=[SimpleNamespace(name="en", hears=False)])
    )
    run("client", "--server", "localhost:1", "--in-flight", 3, "egs/mini/text", "-")
    assert seen["in_flight"] == 3


def test_client_without_a_server(run: Callable[..., SimpleNamespace]) -> None:
    done = run("client", "--server", "localhost:1", "egs/mini/text", "-")
    assert "ERROR: localhost:1: expected a running server, got none" in done.err
    assert done.status == 1


class TestLearning:
    def test_train(self, run: Callable[..., SimpleNamespace], monkeypatch: pytest.MonkeyPatch) -> None:
        from kaldi_punct import training

        seen: list[Any] = []

        def run_training(train_dirs: Any, dev_dirs: Any, exp_dir: Any, config: Any) -> training.Outcome:
            seen.extend([train_dirs, dev_dirs, exp_dir, config])
            return training.Outcome(Path(exp_dir) / "best", n_steps=7, n_words=90, n_split=len(seen) // 8)

        monkeypatch.setattr(training, "run_training", run_training)
        Path("conf.yaml").write_text("train: {n_epochs: 3}\n")
        done = run(
            "train", "--config", "conf.yaml", "--set", "train.seed=5", "--set", "model.n_layers=2", "a,b", "c", "exp"
        )
        assert seen[:3] == [["a", "b"], ["c"], "exp"]
        assert (seen[3].train.n_epochs, seen[3].train.seed, seen[3].model.n_layers) == (3, 5, 2)
        assert "90 words in 7 steps; the best model is exp/best" in done.err
        assert (done.status, done.last) == (0, "Done 7, 0 errors")
        done = run("train", "a", "b", "exp")
        assert (done.status, done.last) == (0, "Done 7, 0 errors (1 batches split for want of memory)")

    def test_one_process_of_several_leaves_the_telling_to_the_first(
        self, run: Callable[..., SimpleNamespace], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from kaldi_punct import training

        outcome = training.Outcome(Path("best"), 1, 1, 0)
        monkeypatch.setattr(training, "run_training", lambda *_: outcome)
        monkeypatch.setenv("RANK", "1")
        assert run("train", "a", "b", "exp").err == ""

    def test_train_with_an_unknown_key(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("train", "--set", "train.sead=5", "a", "b", "c")
        assert "ERROR: override: unknown key 'train.sead'; did you mean 'seed'?" in done.err
        assert done.status == 1

    @pytest.mark.usefixtures("built_in")
    def test_models(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("models")
        assert done.out == "en 1 en , . ? text+timing\n"
        assert done.last == "Done 1, 0 errors"


def test_verbose_shows_what_led_to_an_error(run: Callable[..., SimpleNamespace]) -> None:
    assert "Traceback" not in run("score", "nowhere", "nowhere").err
    done = run("score", "--verbose", "nowhere", "nowhere")
    assert "Traceback" in done.err
    assert "ERROR: nowhere: expected a readable file, got 'No such file or directory'" in done.err
