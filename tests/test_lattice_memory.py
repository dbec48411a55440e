"""The verbs on lattices: memory that does not grow with the archive, and threads that share the work in order."""

from __future__ import annotations

import gzip
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kaldi_punct.cli import main


def benchmark(repo: Path) -> ModuleType:
    name = "lattice_memory"
    spec = importlib.util.spec_from_file_location(name, repo / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("verb", "n_threads"), [("ctm", 1), ("nbest", 2)])
def test_memory_does_not_grow_with_the_archive(verb: str, n_threads: int, repo: Path) -> None:
    measure = benchmark(repo).measure
    few, many = measure(verb, 100, n_threads), measure(verb, 3000, n_threads)
    # 2900 lattices take 8 MiB as they lie in the archive, and several times that when read.
    assert many.max_rss_mib < few.max_rss_mib + 6


def run_verb(verb: str, mini: Path, source: str, out: Path, *more: str) -> int:
    demo = ["--acoustic-scale", "0.1", "--frame-shift", "0.03", "--transition-model", str(mini / "trans.mdl")]
    demo += ["--word-boundary", str(mini / "lang/phones/word_boundary.int"), *more]
    return main([verb, *demo, source, str(mini / "lang/words.txt"), str(out)])


@pytest.fixture
def archive(mini: Path, tmp_path: Path) -> str:
    """Real lattices, a bad one in their middle, and an end that is cut off."""
    first, second = (gzip.decompress((mini / "decode" / f"lat.{i}.gz").read_bytes()) for i in (1, 2))
    bad = b"bad \n0 1 x\n\n"
    (tmp_path / "lat.ark").write_bytes(first + bad + second[:-40])
    return f"ark:{tmp_path / 'lat.ark'}"


Outputs = Callable[[Path], dict[str, bytes]]


def outputs(path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (sorted(path.iterdir()) if path.is_dir() else [path])}


@pytest.mark.parametrize("verb", ["ctm", "nbest"])
def test_threads_change_nothing(
    verb: str, archive: str, mini: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got = {}
    for n_threads in ("1", "3"):
        status = run_verb(verb, mini, archive, tmp_path / f"out{n_threads}", "--nj", n_threads)
        log = capsys.readouterr().err
        errors = [line for line in log.splitlines() if line.startswith(("ERROR", "Done"))]
        got[n_threads] = (status, errors, list(outputs(tmp_path / f"out{n_threads}").values()))
    assert got["1"] == got["3"]
    status, errors, files = got["3"]
    assert status == 1
    assert len(errors) == 3
    assert "bad: byte" in errors[0]
    assert "the archive is cut short" in errors[1]
    assert all(files)


def test_threads_are_used(mini: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kaldi_punct.commands import threads

    asked = []
    real = threads.ThreadPoolExecutor
    monkeypatch.setattr(threads, "ThreadPoolExecutor", lambda n, **more: asked.append(n) or real(n, **more))
    for verb in ("ctm", "nbest"):
        assert run_verb(verb, mini, str(mini / "decode"), tmp_path / verb, "--nj", "3") == 0
    assert asked == [3, 3]
