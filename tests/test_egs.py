"""The recipes' own scripts, on a few made-up lines of each corpus."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kaldi_punct.cli import build_parser
from kaldi_punct.config import Config
from kaldi_punct.labels import split
from kaldi_punct.pretraining_config import PretrainingConfig
from kaldi_punct.types import Word


def script(path: Path) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CONFIGS = sorted(Path(__file__).resolve().parent.parent.glob("egs/*/conf/*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: f"{p.parts[-3]}-{p.stem}")
def test_configurations_are_read_and_tell_their_name(path: Path) -> None:
    is_pretraining = "\npretrain:" in path.read_text(encoding="utf-8")
    (PretrainingConfig if is_pretraining else Config).load(str(path))
    if path.parts[-3] in ("games", "fisher"):  # a row of a table each
        assert path.read_text(encoding="utf-8").startswith(f"# {path.stem}: ")


@pytest.fixture(scope="module")
def slots(repo: Path) -> ModuleType:
    return script(repo / "egs" / "games" / "local" / "score_slots.py")


def test_end_slots_are_where_files_end(slots: ModuleType) -> None:
    reference = split("Well, go. Now we stop and. go⁇")
    marks, ends = slots.place_reference(reference, [1, 6], ["well", "go", "now", "we", "stop", "and", "go"])
    # Nobody knows the mark of the last file: that slot is not scored.
    assert marks == [",", ".", "", "", "", ".", None]
    assert ends == {1, 6}
    marks, ends = slots.place_reference(reference, [1, 6], ["well", "now", "we", "<unk>", "stop", "and", "go"])
    assert ends == {0, 6}
    assert marks[6] is None


def test_times_are_shifted_but_not_below_zero(slots: ModuleType) -> None:
    assert slots.shift(Word("a", 1.0, 0.5), 0.5).start_s == 1.5
    assert slots.shift(Word("a", 0.2, 0.5), -0.5).start_s == 0.0
    assert slots.shift(Word("a"), 0.5) == Word("a")


def test_lists_of_a_fold_are_of_the_other_folds_model(repo: Path, tmp_path: Path) -> None:
    told = tmp_path / "bin" / "kaldi-punct"
    told.parent.mkdir()
    told.write_text('#!/bin/sh\necho "$@"\n')
    told.chmod(0o755)
    command = [str(repo / "egs/games/local/write_nbest.sh"), "corpus", "data"]
    env = {**os.environ, "PATH": f"{told.parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env, cwd=tmp_path)
    options = "nbest --n 10 --acoustic-scale 0.1 --word-ins-penalty 0.5 --frame-shift 0.03"
    assert done.stdout.splitlines() == [
        f"{options} --word-boundary corpus/lang/phones/word_boundary.int "
        f"--transition-model corpus/decode/chain_{other}/trans.mdl "
        f"corpus/decode/chain_{other}/decode_turns_train_{fold} corpus/lang/words.txt data/ref/{fold}/nbest"
        for fold, other in ("ab", "ba")
    ]
    build_parser().parse_args(done.stdout.splitlines()[0].split())
    done = subprocess.run(command[:2], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"usage: {command[0]} <corpus-dir> <data>\n")


def test_counts_of_slots_are_compared(repo: Path, slots: ModuleType, tmp_path: Path) -> None:
    def write(name: str, *hyps: str) -> None:
        made = [
            slots.Slots(f"r{i}", ["", "?", "."], ["", hyp, "."], [False, False, True]) for i, hyp in enumerate(hyps)
        ]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in slots.count_lines(made)))

    write("a", *"....." * 8)
    write("b", *"?????" * 8, "?")
    lines = (tmp_path / "a").read_text().splitlines()
    assert lines[0] == (
        '{"rec_id": "r0", "kind": "inner", "marks": {",": {"n_ref": 0, "n_hyp": 0, "n_hit": 0}, '
        '".": {"n_ref": 0, "n_hyp": 1, "n_hit": 0}, "?": {"n_ref": 1, "n_hyp": 0, "n_hit": 0}}}'
    )
    command = [sys.executable, str(repo / "egs/games/local/compare_slots.py")]

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert ask("a", "b", "--n-samples", "999").stdout.splitlines() == [
        "A: a",
        "B: b",
        "inner micro: A 0.0, B 100.0, B - A +100.0 (95 % interval +100.0 to +100.0), p = 0.0020, 40 recordings",
        "inner ?: A 0.0, B 100.0, B - A +100.0 (95 % interval +100.0 to +100.0), p = 0.0020, 40 recordings",
        "inner: not compared: 0 recordings only in A, 1 only in B",
        "end micro: A 100.0, B 100.0, B - A +0.0 (95 % interval +0.0 to +0.0), p = 1.0000, 40 recordings",
        "end ?: A 0.0, B 0.0, B - A +0.0 (95 % interval +0.0 to +0.0), p = 1.0000, 40 recordings",
        "end: not compared: 0 recordings only in A, 1 only in B",
    ]
    told = json.loads(ask("a", "b", "--json", "--seed", "3").stdout)
    assert (told["inner"]["seed"], told["inner"]["only_b"]) == (3, ["r40"])
    assert ask("a,b", "b").stderr == "b:1: expected each recording once, got 'r0' again\n"


@pytest.mark.parametrize(
    ("recipe", "text"),
    [
        ("en", "expected file nowhere/podcasts/train.turns.tsv.gz to exist; give --corpora"),
        ("games", "expected directory nowhere/decode to exist; give --corpus"),
    ],
)
def test_a_recipe_without_its_corpus_says_so(repo: Path, recipe: str, text: str) -> None:
    option = "--corpora" if recipe == "en" else "--corpus"
    run = repo / "egs" / recipe / "run.sh"
    done = subprocess.run([str(run), option, "nowhere"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"{run}: {text}\n")
    done = subprocess.run([str(run), "--nonsense", "1"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"{run}: unknown option --nonsense (see the configuration section)\n")
