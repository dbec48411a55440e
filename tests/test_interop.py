"""What kaldi/interop.py does where neither PyKaldi nor k2 is installed, and the conversion that k2 is given."""

from __future__ import annotations

import ast
import importlib.util
import math
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from lattice_maker import FORK, LINE, WORDS, Arc, Toy, all_paths, archive, binary, binary_noncompact, text

from kaldi_punct.errors import ConfigError, KaldiPunctError, LatticeError, MissingDependencyError, UtteranceError
from kaldi_punct.kaldi import interop, k2_worker
from kaldi_punct.kaldi.lattice import Decoder, Lattice, parse, to_bytes

SCALES = k2_worker.Scales(1.0, 0.1, 0.0)
PATHLESS = Toy(2, (Arc(0, 1, 1, 1.0, 2.0, (1,)),), {})
# States out of order, a dead end (4), a state that nothing leads to (5), two finals, words twice on different costs.
UNSORTED = Toy(
    6,
    (
        Arc(0, 3, 1, 1.0, 10.0, (1, 2)),
        Arc(3, 1, 2, 2.0, 20.0, (3,)),
        Arc(3, 2, 0, 0.5, 5.0, ()),
        Arc(1, 2, 3, 0.25, 2.5, (4,)),
        Arc(0, 4, 2, 0.0, 0.0, (5,)),
        Arc(5, 2, 3, 0.0, 0.0, (5,)),
    ),
    {2: (0.125, 1.25, (9, 9)), 3: (7.0, 70.0, ())},
)
TOYS = {"fork": FORK, "line": LINE, "unsorted": UNSORTED}


def decoder(**changes: Any) -> Decoder:
    values: dict[str, Any] = {"words": WORDS, "aligner": None, "frame_shift_s": None, "acoustic_scale": 0.1, **changes}
    return Decoder(**values)


def graph(toy: Toy) -> k2_worker.Graph:
    return k2_worker.read_value(binary(toy))[0]


def graph_paths(this: k2_worker.Graph) -> list[list[int]]:
    """Every path, as rows."""

    def go(state: int, rows: list[int]) -> list[list[int]]:
        if state == this.n_states - 1:
            return [rows]
        return [p for r, begin in enumerate(this.begin) if begin == state for p in go(this.end[r], [*rows, r])]

    return go(0, []) if this.n_states else []


# The conversion


@pytest.mark.parametrize("name", TOYS)
def test_the_graph_has_the_paths_of_the_lattice(name: str) -> None:
    this = graph(TOYS[name])
    ours = {
        (
            tuple(this.word[r] for r in path if this.word[r] > 0),
            tuple(tid for r in path for tid in this.tids[r]),
            round(sum(this.graph[r] for r in path), 4),
            round(sum(this.acoustic[r] for r in path), 4),
        )
        for path in graph_paths(this)
    }
    assert ours == {(p.words, p.tids, round(p.graph, 4), round(p.acoustic, 4)) for p in all_paths(TOYS[name])}


@pytest.mark.parametrize("name", TOYS)
def test_the_state_level_graph_has_the_same_paths(name: str) -> None:
    this, _ = k2_worker.read_value(binary_noncompact(TOYS[name]))
    ours = {
        (
            tuple(this.word[r] for r in path if this.word[r] > 0),
            tuple(this.label[r] for r in path if this.label[r] > 0),
            round(sum(this.graph[r] + this.acoustic[r] for r in path), 4),
        )
        for path in graph_paths(this)
    }
    assert not this.is_compact
    assert ours == {(p.words, p.tids, round(p.graph + p.acoustic, 4)) for p in all_paths(TOYS[name])}


@pytest.mark.parametrize("name", TOYS)
def test_the_graph_is_as_k2_wants_it(name: str) -> None:
    """Sorted by state, in topological order, trimmed, -1 on the arcs into the last state and nowhere else."""
    this = graph(TOYS[name])
    assert this.begin == sorted(this.begin)
    assert set(this.begin) == set(range(this.n_states - 1))
    assert set(this.end) == set(range(1, this.n_states))
    for begin, end, label, word in zip(this.begin, this.end, this.label, this.word, strict=True):
        assert begin < end
        assert (label == -1) == (end == this.n_states - 1)
        assert word == label


def test_a_lattice_without_a_path_is_an_empty_graph() -> None:
    for toy in (PATHLESS, Toy(0, (), {})):
        assert k2_worker.read_value(binary(toy, start=-1 if not toy.n_states else 0))[0].n_states == 0


def test_a_long_lattice_needs_no_recursion() -> None:
    n = 2_000  # more than Python would recurse
    chain = Toy(n + 1, tuple(Arc(i, i + 1, 1, 1.0, 1.0, (1,)) for i in range(n)), {n: (0.0, 0.0, ())})
    assert len(graph(chain).begin) == n + 1


def test_scores_are_negated_scaled_costs() -> None:
    this = graph(LINE)  # one word at graph 2, acoustic 30
    total, lm, acoustic = k2_worker.scores(this, k2_worker.Scales(0.8, 0.1, 0.5))
    assert lm == [-2.5, 0.0]  # the end of the path is no word
    assert acoustic == [-30.0, 0.0]
    assert total == pytest.approx([0.8 * -2.5 + 0.1 * -30.0, 0.0])


def test_paths_are_sorted_and_differ_in_words() -> None:
    double = Toy(2, (Arc(0, 1, 1, 3.0, 0.0), Arc(0, 1, 1, 1.0, 0.0), Arc(0, 1, 2, 2.0, 0.0)), {1: (0.0, 0.0, ())})
    this = graph(double)
    paths = k2_worker._distinct(this, graph_paths(this), SCALES)
    assert [(this.word[p[0]], this.graph[p[0]]) for p in paths] == [(1, 1.0), (2, 2.0)]


@pytest.mark.parametrize("name", TOYS)
def test_a_linear_lattice_is_its_path(name: str) -> None:
    this = graph(TOYS[name])
    wanted = {p.tids: p for p in all_paths(TOYS[name])}
    for path in graph_paths(this):
        linear = parse(k2_worker.linear_lattice(this, path))
        hypothesis = decoder(words={i: str(i) for i in range(10)}).best_path(linear)
        toy_path = wanted[tuple(tid for r in path for tid in this.tids[r])]
        assert [int(w.word) for w in hypothesis.words] == list(toy_path.words)
        assert hypothesis.graph_cost == pytest.approx(toy_path.graph)
        assert hypothesis.acoustic_cost == pytest.approx(toy_path.acoustic)
        assert linear.n_frames == len(toy_path.tids)


def test_an_archive_is_read_entry_by_entry(tmp_path: Path) -> None:
    (tmp_path / "lat.ark").write_bytes(archive({"a": binary(FORK), "b": binary(LINE)}))
    with (tmp_path / "lat.ark").open("rb") as stream:
        assert [(key, g.n_states) for key, g in k2_worker.read_archive(stream)] == [(b"a", 6), (b"b", 3)]
    (tmp_path / "none.ark").write_bytes(b"")
    with (tmp_path / "none.ark").open("rb") as stream:
        assert list(k2_worker.read_archive(stream)) == []


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (archive({"a": binary(LINE)})[:-3], "expected a whole lattice, got an end of the file"),
        (archive({"a": text(LINE)}), "expected a binary lattice, got something else"),
        (archive({"a": binary(LINE, double=True)}), "expected arcs of compactlattice44 or lattice4, got compactlatt"),
        (b"key", "expected '<key> ', got no blank"),
    ],
)
def test_a_bad_archive_says_what_is_wrong(tmp_path: Path, data: bytes, wanted: str) -> None:
    (tmp_path / "lat.ark").write_bytes(data)
    with (tmp_path / "lat.ark").open("rb") as stream, pytest.raises(ValueError, match=r"byte [0-9]+: ") as e:
        list(k2_worker.read_archive(stream))
    assert wanted in str(e.value)


def test_batches_are_bounded() -> None:
    this = graph(LINE)
    small = list(k2_worker._batches((b"%d" % i, this) for i in range(40)))
    assert [len(b) for b in small] == [16, 16, 8]
    deep = this._replace(begin=[0] * 60_000)
    assert [len(b) for b in k2_worker._batches([(b"a", deep), (b"b", this), (b"c", deep)])] == [2, 1]


def test_the_worker_is_python_3_9() -> None:
    """Syntax and imports: nothing of this package, and nothing but the standard library before k2 is asked for."""
    tree = ast.parse(Path(k2_worker.__file__).read_text(), feature_version=(3, 9))
    at_the_top = {n.module if isinstance(n, ast.ImportFrom) else n.names[0].name for n in tree.body
                  if isinstance(n, ast.Import | ast.ImportFrom)}  # fmt: skip
    assert at_the_top <= {"__future__", "argparse", "mmap", "struct", "sys", "collections.abc", "typing"}
    everywhere = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert not any(name.startswith("kaldi_punct") for name in everywhere)


# k2 is not there


@pytest.fixture
def no_k2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interop, "_has_k2", lambda: False)


def test_importing_loads_neither_package() -> None:
    code = ("import sys, kaldi_punct, kaldi_punct.kaldi.interop; "
            "sys.exit(any(m in sys.modules for m in ('k2', 'kaldi', 'torch')))")  # fmt: skip
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(importlib.util.find_spec("k2") is not None, reason="k2 is installed in this Python")
def test_k2_is_looked_for() -> None:
    assert not interop._has_k2()


def test_to_k2_without_k2_says_how_to_get_it(no_k2: None) -> None:
    with pytest.raises(MissingDependencyError, match=r"k2: expected the package in this Python \(3\.[0-9]+\).*install"):
        interop.to_k2(parse(binary(FORK)), acoustic_scale=0.1)


def test_nbest_k2_without_k2_says_how_to_get_it_before_it_reads(no_k2: None) -> None:
    with pytest.raises(ImportError, match=r"scripts/setup_k2 \.venv-k2.*python='\.venv-k2/bin/python'"):
        interop.nbest_k2(iter([]), 1, decoder())


def test_values_out_of_range() -> None:
    with pytest.raises(ConfigError, match="n: expected at least 1, got 0"):
        interop.nbest_k2([], 0, decoder())
    with pytest.raises(ConfigError, match="n_samples: expected at least 1, got -1"):
        interop.nbest_k2([], 2, decoder(), n_samples=-1)
    for name in ("acoustic_scale", "lm_scale", "word_ins_penalty"):
        with pytest.raises(ConfigError, match=f"{name}: expected a finite number, got inf"):
            interop.to_k2(parse(binary(FORK)), **{"acoustic_scale": 0.1, name: math.inf})


def run_with(python: str, lattices: list[Lattice] | None = None, **options: Any) -> list[Any]:
    return list(interop.nbest_k2(lattices or [parse(binary(FORK))], 2, decoder(), python=python, **options))


def script(tmp_path: Path, body: str) -> str:
    """An interpreter that does what a test wants."""
    path = tmp_path / "python"
    path.write_text(f"#!{sys.executable}\nimport sys\n{body}")
    path.chmod(0o755)
    return str(path)


def test_no_such_interpreter() -> None:
    with pytest.raises(ConfigError, match=r"python: expected an interpreter that has k2, got '/nowhere/python' \(No s"):
        run_with("/nowhere/python")


@pytest.mark.skipif(importlib.util.find_spec("k2") is not None, reason="k2 is installed in this Python")
def test_an_interpreter_without_k2() -> None:
    """The worker itself runs here, up to its import of k2."""
    with pytest.raises(MissingDependencyError, match=r"python: .*\(No module named 'k2'\); make one with 'scripts/se"):
        run_with(sys.executable)


def test_what_the_worker_says_is_passed_on(tmp_path: Path) -> None:
    body = "print('device: expected one that torch has, got cuda:0; take cpu', file=sys.stderr); sys.exit(4)"
    with pytest.raises(ConfigError, match="k2: device: expected one that torch has, got cuda:0; take cpu"):
        run_with(script(tmp_path, body), device="cuda:0")


def test_a_worker_that_dies_is_an_error(tmp_path: Path) -> None:
    body = "print('[F] Check failed', *range(50), sep='\\n', file=sys.stderr); sys.exit(9)"
    with pytest.raises(KaldiPunctError, match=r"k2: '.*' ended with status 9: \[F\] Check failed \| 0 \| 1 \| 49"):
        run_with(script(tmp_path, body))


def test_every_option_reaches_the_worker(tmp_path: Path) -> None:
    body = "print(' '.join(sys.argv[2:-2]), file=sys.stderr); sys.exit(4)"
    this = decoder(acoustic_scale=0.25, lm_scale=0.8, word_ins_penalty=-0.5)
    with pytest.raises(ConfigError) as e:
        list(interop.nbest_k2([parse(binary(FORK))], 7, this, n_samples=99, device="cpu",
                              python=Path(script(tmp_path, body))))  # fmt: skip
    assert str(e.value) == ("k2: --n 7 --n-samples 99 --lm-scale=0.8 --acoustic-scale=0.25 --word-ins-penalty=-0.5 "
                            "--device cpu")  # fmt: skip


def test_no_lattices_need_no_worker() -> None:
    assert list(interop.nbest_k2([], 2, decoder(), python="/nowhere/python")) == []


# The answers of a worker: a double that takes the second and the first path of each fork, in this order


def fake_nbest(source: str, target: str, n: int, scales: k2_worker.Scales, n_samples: int, device: str | None) -> None:
    with open(source, "rb") as stream, open(target, "wb") as out:
        for key, this in k2_worker.read_archive(stream):
            for rank, path in enumerate(k2_worker._distinct(this, graph_paths(this), scales)[:n], 1):
                out.write(key + b"-%d " % rank + k2_worker.linear_lattice(this, path))


@pytest.fixture
def fake_k2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interop, "_has_k2", lambda: True)
    monkeypatch.setattr(k2_worker, "write_nbest", fake_nbest)


def test_hypotheses_are_those_of_the_core(fake_k2: None) -> None:
    for this in (decoder(), decoder(lm_scale=0.5, word_ins_penalty=1.5)):
        lattice = parse(binary(FORK))
        (answer,) = interop.nbest_k2([lattice], 10, this)
        wanted = this.nbest(lattice, 10)
        assert isinstance(answer, tuple)
        assert [h.words for h in answer] == [h.words for h in wanted]
        for ours, theirs in zip(answer, wanted, strict=True):
            assert ours.graph_cost == pytest.approx(theirs.graph_cost)
            assert ours.acoustic_cost == pytest.approx(theirs.acoustic_cost)
            assert ours.posterior == pytest.approx(theirs.posterior)


def test_a_bad_lattice_is_an_error_in_its_place(fake_k2: None) -> None:
    unknown = Toy(2, (Arc(0, 1, 99, 1.0, 1.0, (1,)),), {1: (0.0, 0.0, ())})
    toys = [PATHLESS, FORK, unknown, PATHLESS, LINE]
    first, second, third, fourth, fifth = interop.nbest_k2(
        [parse(binary(toy), f"utt-{i}") for i, toy in enumerate(toys)], 1, decoder()
    )
    assert isinstance(first, UtteranceError)
    assert str(first).startswith("utt-0: byte 0: the lattice has no path to a final state")
    assert isinstance(second, tuple)
    assert len(second) == 1
    assert isinstance(third, LatticeError)
    assert str(third).startswith("utt-2: ")
    assert "expected word-ids of the words table (5 words), got 99" in str(third)
    assert isinstance(fourth, UtteranceError)
    assert isinstance(fifth, tuple)
    (only,) = interop.nbest_k2([parse(binary(PATHLESS), "utt")], 1, decoder())
    assert isinstance(only, UtteranceError)


def test_to_k2_of_a_lattice_without_a_path(fake_k2: None) -> None:
    with pytest.raises(UtteranceError, match="utt: byte 0: the lattice has no path to a final state"):
        interop.to_k2(parse(binary(PATHLESS), "utt"), acoustic_scale=0.1)


# PyKaldi: a double with the names of PyKaldi 0.2.2 that the bridge calls. It guards the calls; it proves nothing of a
# real build.


class _Fst:
    def __init__(self, toy: Toy) -> None:
        self.toy = toy


class LatticeVectorFst(_Fst):
    pass


class CompactLatticeVectorFst(_Fst):
    pass


class _Writer:
    takes: type[_Fst]

    def __init__(self, wspecifier: str) -> None:
        assert wspecifier.startswith("ark:")
        self._stream = open(wspecifier.removeprefix("ark:"), "wb")  # noqa: SIM115

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __setitem__(self, key: str, value: _Fst) -> None:
        assert type(value) is self.takes
        form = binary if self.takes is CompactLatticeVectorFst else binary_noncompact
        self._stream.write(key.encode() + b" " + form(value.toy))


class CompactLatticeWriter(_Writer):
    takes = CompactLatticeVectorFst


class LatticeWriter(_Writer):
    takes = LatticeVectorFst


@pytest.fixture
def pykaldi(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {name: types.ModuleType(name) for name in ("kaldi", "kaldi.fstext", "kaldi.util", "kaldi.util.table")}
    vars(modules["kaldi.fstext"]).update(
        LatticeVectorFst=LatticeVectorFst, CompactLatticeVectorFst=CompactLatticeVectorFst
    )
    vars(modules["kaldi.util.table"]).update(LatticeWriter=LatticeWriter, CompactLatticeWriter=CompactLatticeWriter)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("fst", [CompactLatticeVectorFst, LatticeVectorFst])
def test_from_pykaldi(pykaldi: None, fst: type[_Fst]) -> None:
    this, wanted = decoder(), decoder().nbest(parse(binary(FORK)), 10)
    lattice = interop.from_pykaldi(fst(FORK), "call-1")
    assert "call-1" in lattice.origin
    assert [h.words for h in this.nbest(lattice, 10)] == [h.words for h in wanted]
    assert this.nbest(lattice, 10)[1].acoustic_cost == pytest.approx(wanted[1].acoustic_cost)
    output = {"alignment": [1], "lattice": fst(FORK), "text": "a light", "words": [1, 3], "weight": object()}
    assert to_bytes(interop.from_pykaldi(output)) == to_bytes(lattice)


def test_from_pykaldi_of_something_else(pykaldi: None) -> None:
    with pytest.raises(ConfigError, match=r"utt: expected PyKaldi's CompactLatticeVectorFst or .*, got str; give the"):
        interop.from_pykaldi("lat.ark", "utt")
    with pytest.raises(ConfigError, match=r"utt: expected a recognizer's output with a 'lattice', got \['text'\]; dec"):
        interop.from_pykaldi({"text": "a light"}, "utt")


def test_from_pykaldi_of_a_bad_lattice(pykaldi: None) -> None:
    cycle = Toy(2, (Arc(0, 1, 1, 1.0, 1.0, (1,)), Arc(1, 0, 1, 1.0, 1.0, (1,))), {1: (0.0, 0.0, ())})
    with pytest.raises(LatticeError, match=r"pykaldi: utt: byte .*cycle"):
        interop.from_pykaldi(CompactLatticeVectorFst(cycle), "utt")


@pytest.mark.skipif(importlib.util.find_spec("kaldi") is not None, reason="PyKaldi is installed in this Python")
def test_from_pykaldi_without_pykaldi_says_how_to_get_it() -> None:
    with pytest.raises(MissingDependencyError, match=r"pykaldi: expected the package.*built from source.*0\.0\.1 is e"):
        interop.from_pykaldi(object())


def test_scripts_of_the_side_environment(repo: Path, tmp_path: Path) -> None:
    """setup_k2 without a Python 3.9, with a wrong one, without a directory, with one that holds other things."""
    setup, bare = str(repo / "scripts" / "setup_k2"), {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}

    def run(*args: str, **more: str) -> tuple[int, str]:
        done = subprocess.run([setup, *args], env={**bare, **more}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    fake = tmp_path / "python3.9"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    code, said = run(str(tmp_path / "new"), PYTHON39=str(fake))
    assert (code, (tmp_path / "new").exists()) == (1, False)
    assert f"PYTHON39: expected a Python 3.9 with venv and ensurepip, got '{fake}'" in said
    code, said = run()
    assert code == 2
    assert "e.g.: scripts/setup_k2 .venv-k2" in said
    code, said = run("--quiet", "dir")
    assert code == 2
    assert "expected a directory first, got '--quiet'" in said
    code, said = run(str(tmp_path), PYTHON39="true")
    assert code == 2
    assert "got '" + str(tmp_path) + "' with other things in it" in said
    assert fake.exists()
