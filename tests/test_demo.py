"""scripts/demo.py as a person runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


def run_demo(repo: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/demo.py", *options],
        cwd=repo,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def done(repo: Path) -> subprocess.CompletedProcess[str]:
    """The demo with the built-in model."""
    return run_demo(repo)


@pytest.mark.slow
def test_every_utterance_is_printed_in_order_of_time(done: subprocess.CompletedProcess[str], mini: Path) -> None:
    assert done.returncode == 0, done.stderr
    turns = re.findall(r"^ *(\d+\.\d\d) s  ([AB])  (?=\S)", done.stdout, re.MULTILINE)
    lines = (line.split(" ") for line in (mini / "segments").read_text().splitlines())
    # harbour-A: the call, then the side.
    expected = sorted((rec_id[:-2], float(start_s), rec_id[-1]) for _, rec_id, start_s, _ in lines)
    assert [(float(start_s), side) for start_s, side in turns] == [(start_s, side) for _, start_s, side in expected]


@pytest.mark.slow
def test_the_decoders_words_stand_under_the_text(done: subprocess.CompletedProcess[str], mini: Path) -> None:
    printed = " ".join(done.stdout.split())
    for line in (mini / "kaldi" / "best.words").read_text().splitlines():
        words = line.split(" ", 1)[1].strip()
        assert f" {words} " in printed


@pytest.mark.slow
def test_the_score_is_good(done: subprocess.CompletedProcess[str]) -> None:
    found = re.search(r"^%F1 (\d+\.\d) \[ C ", done.stdout, re.MULTILINE)
    assert found is not None
    assert float(found[1]) > 80.0  # without the sound 78.9
    assert "punctuated from the words, their times, the sound" in done.stdout
    assert "30 utterances" in done.stdout
    assert "WER 7.4 %" in done.stdout


@pytest.mark.slow
def test_a_server_that_does_not_start_fails_the_demo_and_says_why(repo: Path, tmp_path: Path) -> None:
    done = run_demo(repo, "--model", str(tmp_path))
    assert done.returncode == 1
    assert f"{tmp_path}: expected a model directory with config.json" in done.stderr
    assert done.stderr.endswith("demo: the server ended with exit status 1; its log is above\n")
    assert done.stdout == ""
