"""The project itself: what importing loads, the public API, and that what the README says runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kaldi_punct
from kaldi_punct.cli import build_parser

API = {
    "errors": {
        "CheckpointError", "ConfigError", "FormatError", "KaldiPunctError", "LatticeError", "MissingDependencyError",
        "ServeError", "UtteranceError",
    },
    "records": {"Audio", "Case", "Hypothesis", "Punctuated", "PunctuatedWord", "Sentence", "Utterance", "Word"},
    "verbs": {"Config", "DataDir", "Punctuator", "Score", "load", "read_nbest", "score", "train"},
}  # fmt: skip


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_loads_neither_torch_nor_grpc() -> None:
    code = "import sys, json, kaldi_punct; print(json.dumps(sorted(sys.modules)))"
    loaded = {name.partition(".")[0] for name in json.loads(run_python(code))}
    assert not loaded & {"torch", "grpc", "transformers", "google", "omegaconf", "accelerate", "soundfile"}


@pytest.mark.parametrize("module", ["kaldi_punct.serve.client", "kaldi_punct.kaldi.data_dir", "kaldi_punct.scoring"])
def test_torch_stays_above(module: str) -> None:
    assert run_python(f"import sys, {module}; print('torch' in sys.modules)") == "False\n"


def test_public_names() -> None:
    expected = sorted(set().union(*API.values()))
    assert kaldi_punct.__all__ == expected
    assert dir(kaldi_punct) == expected


@pytest.mark.parametrize("name", sorted(set().union(*API.values())))
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    assert getattr(kaldi_punct, name).__doc__


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'kaldi_punct' has no attribute 'nonsense'"):
        kaldi_punct.nonsense  # noqa: B018


def readme_blocks(repo: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (repo / "README.md").read_text(encoding="utf-8"), re.M | re.S)


def readme_commands(repo: Path) -> list[str]:
    lines = "".join(readme_blocks(repo, "sh")).replace("\\\n", " ").splitlines()
    return [line.partition("#")[0].strip() for line in lines if line.partition("#")[0].strip()]


def test_first_screen_has_two_commands(repo: Path) -> None:
    first = readme_blocks(repo, "sh")[0].splitlines()
    assert [line.partition("#")[0].strip() for line in first] == ["./scripts/demo", "./scripts/test"]
    for line in first:
        assert os.access(repo / line.partition("#")[0].strip(), os.X_OK)


def test_readme_calls_parse(repo: Path) -> None:
    calls = [shlex.split(c.rpartition("|")[2]) for c in readme_commands(repo) if "kaldi-punct " in c]
    assert {call[1] for call in calls} >= {"punctuate", "score", "serve", "client", "train"}
    for call in calls:
        assert call[0] == "kaldi-punct"
        build_parser().parse_args(call[1:])


@pytest.fixture
def clone(tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that looks like a clone."""
    (tmp_path / "egs").symlink_to(repo / "egs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("clone")
def test_readme_python_runs(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = readme_blocks(repo, "python")
    exec(compile(first, "README.md", "exec"), {})
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "So what do you think?"
    assert sum(line.startswith("harbour-A-000035-000456 ") for line in out) == 2
    assert any(line.startswith("%F1 100.0") for line in out)
    compile(second, "README.md", "exec")


def test_readme_config_loads(repo: Path) -> None:
    path = re.findall(r'Config\.load\("([^"]+)"\)', (repo / "README.md").read_text(encoding="utf-8"))
    assert path
    for name in path:
        assert kaldi_punct.Config.load(str(repo / name))


def test_documents_that_are_linked_are_there(repo: Path) -> None:
    for page in (repo / "README.md", repo / "CONTRIBUTING.md", *(repo / "docs").glob("*.md")):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_scripts_can_be_run(repo: Path) -> None:
    for name in (
        "scripts/setup",
        "scripts/check",
        "scripts/sanitize",
        "scripts/test",
        "scripts/demo",
        "scripts/proto",
        ".ci/run",
    ):
        assert os.access(repo / name, os.X_OK), name


def test_changelog_has_the_version(repo: Path) -> None:
    version = re.search(r'^version = "([^"]+)"', (repo / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert version
    assert f"## {version.group(1)}" in (repo / "CHANGELOG.md").read_text(encoding="utf-8")


def test_set_up_says_which_python_it_needs(repo: Path, tmp_path: Path) -> None:
    """An old interpreter is refused by name, before anything is made."""
    shutil.copytree(repo / "scripts", tmp_path / "scripts")
    old = tmp_path / "python3.8"
    old.write_text('#!/bin/sh\ncase "$*" in *version_info*) exit 1;; *-V*) echo Python 3.8.1;; esac\nexit 0\n')
    old.chmod(0o755)
    for name in ("pyproject.toml", "CMakeLists.txt", "constraints.txt"):
        shutil.copy(repo / name, tmp_path)
    (tmp_path / "kaldi_punct" / "csrc").mkdir(parents=True)
    done = subprocess.run(
        [str(tmp_path / "scripts" / "setup")], capture_output=True, text=True, env={**os.environ, "PYTHON": str(old)}
    )
    assert done.returncode == 1
    assert "setup: expected Python 3.10 or later, got Python 3.8.1; name another: PYTHON=python3.12" in done.stderr
    assert not (tmp_path / ".venv").exists()
