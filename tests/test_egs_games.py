"""The tables of egs/games: which runs are made, what is kept of them, and how rows are pooled and compared."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTHING = {"n_ref": 0, "n_hyp": 0, "n_hit": 0}


def write_counts(path: Path, rec_ids: list[str], n_right: int) -> None:
    """Recordings with ten commas each inside and ten question marks at ends, ``n_right`` of either right."""
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt") as f:
        for rec_id in rec_ids:
            for kind, mark in (("inner", ","), ("end", "?")):
                rates = {"n_ref": 10, "n_hyp": 10, "n_hit": n_right}
                marks = {m: rates if m == mark else NOTHING for m in (",", ".", "?")}
                f.write(json.dumps({"rec_id": rec_id, "kind": kind, "marks": marks}) + "\n")


def show(repo: Path, results: Path, *arguments: str) -> list[str]:
    command = [sys.executable, str(repo / "egs/games/local/show_table.py"), "--results", str(results), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_rows_are_pooled_over_folds_and_compared(repo: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    for fold, other in ("ab", "ba"):
        recs = [f"{other}{i}" for i in range(20)]
        for model, n_right in (("text", 4), ("all", 8 if fold == "a" else 6)):
            write_counts(results / f"ref_{fold}_{model}_s1.{other}.jsonl.gz", recs, n_right)
            write_counts(results / f"ref_{fold}_{model}_s1.dev.jsonl.gz", ["d0", "d1"], n_right)
    lines = show(repo, results, "--kind", "ref", "--baseline", "text", "text", "all", "sound")
    table = [line for line in lines if line.startswith("|")]
    assert table[2] == "| text | 40.0 | 0.0 | 0.0 | 40.0 |  | 0.0 | 0.0 | 40.0 |  | 40.0 |  |"
    assert table[3] == "| all | 70.0 | 0.0 | 0.0 | 70.0 | 0.001 | 0.0 | 0.0 | 70.0 | 0.001 | 70.0 | 0.001 |"
    assert table[4] == "| sound (without ref_a_sound_s1 ref_b_sound_s1) |" + " - |" * 11
    assert "Support: inner `,` 400, `.` 0, `?` 0; end `,` 0, `.` 0, `?` 400; 40 recordings." in lines
    one = show(repo, results, "--kind", "ref", "--folds", "a", "--baseline", "text", "all")
    assert "| all | 80.0 |" in "\n".join(one)


@pytest.fixture
def stand_ins(repo: Path, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A copy of the recipe whose trainings and scorings only say that they were called."""
    recipe = tmp_path / "games"
    (recipe / "local").mkdir(parents=True)
    for name in ("run_table.sh", "local/show_table.py", "local/compare_slots.py"):
        (recipe / name).write_bytes((repo / "egs/games" / name).read_bytes())
        (recipe / name).chmod(0o755)
    calls = tmp_path / "calls"
    score = recipe / "local" / "score_slots.py"
    score.write_text(f'#!/bin/sh\necho score "$1" "$2" >> {calls}\n: > x; cp counts.gz "$4"\n')
    train = tmp_path / "bin" / "kaldi-punct"
    train.parent.mkdir()
    train.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    for path in (score, train):
        path.chmod(0o755)
    write_counts(recipe / "counts.gz", ["r1", "r2"], 5)
    path = f"{train.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return recipe, {**os.environ, "PATH": path, "PYTHONPATH": str(repo)}


def run_table(recipe: Path, env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(recipe / "run_table.sh"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def test_a_table_makes_its_runs_once(stand_ins: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    recipe, env = stand_ins
    done = run_table(recipe, env, "--table", "nbest", "--folds", "a", "--seeds", "1")
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[:3] == [
        "train --config conf/nbest_ref.yaml --set train.seed=1 data/ref/a data/asr/dev exp/asr_a_nbest_ref_s1",
        "score exp/asr_a_nbest_ref_s1/best data/asr/b",
        "score exp/asr_a_nbest_ref_s1/best data/asr/dev",
    ]
    assert len(calls) == 15
    assert "| nbest_10 | 50.0 |" in done.stdout
    (recipe / "results" / "asr_a_nbest_5_s1.dev.jsonl.gz").unlink()
    assert run_table(recipe, env, "--table", "nbest", "--folds", "a").returncode == 0
    again = (tmp_path / "calls").read_text().splitlines()[15:]
    assert [line.split(" ")[0] for line in again] == ["train", "score", "score"]
    assert "exp/asr_a_nbest_5_s1" in again[0]


def test_little_data_is_a_part_of_the_whole(stand_ins: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    recipe, env = stand_ins
    assert run_table(recipe, env, "--table", "small", "--folds", "b").returncode == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == "prepare --hours 1 data/ref/b data/ref/b_1h"
    assert calls[1].endswith("data/ref/b_1h data/ref/dev exp/ref_b_blstm_1h_s1")


def test_a_wav2vec_never_heard_what_is_scored(stand_ins: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    recipe, env = stand_ins
    assert run_table(recipe, env, "--table", "fusion", "--folds", "b").returncode == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    first = next(i for i, call in enumerate(calls) if call.startswith("pretrain"))
    assert calls[first : first + 5] == [
        "pretrain --objective contrastive --config conf/wav2vec_small.yaml data/ref/b data/ref/dev exp/wav2vec_small_b",
        *(f"feats --speech exp/wav2vec_small_b/best --suffix _b data/ref/{d} data/ref/{d}" for d in ("b", "a", "dev")),
        (
            "train --config conf/wav2vec_fa.yaml --set train.seed=1 --set model.speech=exp/wav2vec_small_b/best "
            "data/ref/b data/ref/dev exp/ref_b_wav2vec_fa_s1"
        ),
    ]


def test_print_only_and_wrong_tables(stand_ins: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    recipe, env = stand_ins
    done = run_table(recipe, env, "--table", "streaming", "--print-only", "true")
    assert "| streaming_all_k0 (without ref_a_streaming_all_k0_s1 ref_b_streaming_all_k0_s1) |" in done.stdout
    assert not (tmp_path / "calls").exists()
    done = run_table(recipe, env, "--table", "nonsense")
    assert done.returncode == 1
    assert "expected --table fusion, streaming, small or nbest, got 'nonsense'" in done.stderr
