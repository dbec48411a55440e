"""k2 itself against the core on real lattices (../shared/golden), in a Python that has k2 (scripts/setup_k2)."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lattice_maker import FORK, binary
from test_lattice_golden import SETS, TIE, as_text, decoder, lattices, read_table, total

from kaldi_punct.errors import ConfigError
from kaldi_punct.kaldi.interop import nbest_k2
from kaldi_punct.kaldi.lattice import Decoder, parse, to_bytes
from kaldi_punct.types import Hypothesis

# How many of Kaldi's 10-best entries k2 may miss: it draws paths at random.
MOST_MISSED = {"gmm-lj": 6, "gmm-long": 2, "chain-lj": 3, "chain-partial": 2, "tdnn-lstm": 12}


@pytest.fixture(scope="module")
def k2_python(repo: Path) -> Path:
    path = Path(os.environ.get("KALDI_PUNCT_K2_PYTHON", repo / ".venv-k2" / "bin" / "python"))
    if not path.exists():
        pytest.skip(f"no {path}: make it with scripts/setup_k2 .venv-k2, or name one with KALDI_PUNCT_K2_PYTHON")
    return path


def check_costs(ours: Hypothesis, theirs: Hypothesis, this: Decoder) -> None:
    for a, b in ((ours.graph_cost, theirs.graph_cost), (ours.acoustic_cost, theirs.acoustic_cost)):
        assert a is not None
        assert a == pytest.approx(b, abs=1e-3)
    assert ours.posterior == pytest.approx(theirs.posterior, abs=1e-3)
    assert ours.words == theirs.words  # times too


@pytest.mark.shared
@pytest.mark.parametrize("name", SETS)
def test_nbest_of_k2_is_the_core_s(
    shared: Path, k2_python: Path, name: str, record_property: Callable[[str, object], None]
) -> None:
    """The best path of every utterance, and the costs of every path that is in both lists."""
    this, folder = decoder(shared, name), shared / "golden" / name
    kept = dict(lattices(folder / "lat.ark"))
    n_found = 0
    golden: dict[str, set[str]] = {}
    for key, words in read_table(folder / "nbest10.words").items():
        golden.setdefault(key.rpartition("-")[0], set()).add(words)
    answers = list(nbest_k2(kept.values(), 10, this, python=k2_python))
    assert len(answers) == len(kept)
    for (key, lattice), hyps in zip(kept.items(), answers, strict=True):
        assert isinstance(hyps, tuple), hyps
        of_core = this.nbest(lattice, 10)
        check_costs(hyps[0], of_core[0], this)
        assert len({as_text(h) for h in hyps}) == len(hyps) <= 10
        totals = [total(h.graph_cost or 0, h.acoustic_cost or 0, this) for h in hyps]
        assert all(a <= b + TIE * abs(b) for a, b in itertools.pairwise(totals))
        by_words = {as_text(h): h for h in reversed(of_core)}
        for hyp in hyps:
            if as_text(hyp) in by_words:
                check_costs(hyp, by_words[as_text(hyp)], this)
        n_found += len(golden[key] & {as_text(h) for h in hyps})
    n_golden = sum(map(len, golden.values()))
    record_property("found", f"{n_found} of {n_golden}")
    print(f"{name}: k2 found {n_found} of {n_golden} entries of the 10-best lists")
    assert n_found >= n_golden - MOST_MISSED[name]


@pytest.mark.shared
def test_options_reach_k2(shared: Path, k2_python: Path) -> None:
    """Other scales and a penalty give the core's other best paths; n=1 needs no samples, few samples find fewer."""
    this = decoder(shared, "tdnn-lstm", word_ins_penalty=4.0, lm_scale=0.8)
    some = [lattice for _, lattice in lattices(shared / "golden" / "tdnn-lstm" / "lat.ark")][:4]
    answers = list(nbest_k2(some, 1, this, device="cpu", python=k2_python))
    for lattice, hyps in zip(some, answers, strict=True):
        assert isinstance(hyps, tuple)
        assert len(hyps) == 1
        check_costs(hyps[0], this.best_path(lattice), this)
    few, many = (list(nbest_k2(some, 50, this, n_samples=n, python=k2_python)) for n in (3, 6000))
    assert sum(len(h) for h in few if isinstance(h, tuple)) < sum(len(h) for h in many if isinstance(h, tuple))


def test_a_device_that_is_not_there(k2_python: Path) -> None:
    code = "import torch; print(torch.cuda.is_available())"
    if "True" in subprocess.run([k2_python, "-c", code], capture_output=True, text=True, check=True).stdout:
        pytest.skip("this machine has a GPU")
    this = Decoder({0: "<eps>", 1: "a", 2: "harbour", 3: "light"}, None, None, 0.1)
    with pytest.raises(ConfigError, match="k2: device: expected one that torch has, got cuda:0; take cpu"):
        list(nbest_k2([parse(binary(FORK))], 1, this, device="cuda:0", python=k2_python))


# Runs in the Python that has k2: it loads the worker's file, as to_k2 does where k2 imports.
_TO_FSA = """
import sys
sys.path.insert(0, sys.argv[1])
import k2, torch, k2_worker as w
for path in sys.argv[2:]:
    graph, _ = w.read_value(open(path, "rb").read())
    fsa = w.to_fsa(graph, w.Scales(0.8, 0.1, 0.5))
    assert fsa.properties & k2.fsa_properties.TOPSORTED, fsa.properties_str
    torch.testing.assert_close(fsa.scores, 0.8 * fsa.lm_scores + 0.1 * fsa.ac_scores, rtol=1e-6, atol=1e-6)
    assert (fsa.labels[fsa.arcs.values()[:, 1] == fsa.shape[0] - 1] == -1).all()
    best = k2.shortest_path(k2.Fsa.from_fsas([fsa]), use_double_scores=True)
    words = best.labels if graph.is_compact else best.aux_labels
    tids = best.tids.values if graph.is_compact else best.labels
    print([x for x in words.tolist() if x > 0], [x for x in tids.tolist() if x > 0],
          -best.lm_scores.double().sum().item(), -best.ac_scores.double().sum().item(), sep=";")
"""


@pytest.mark.shared
@pytest.mark.parametrize("name", ["gmm-lj", "tdnn-lstm"])
def test_an_fsa_of_either_form(shared: Path, k2_python: Path, tmp_path: Path, name: str) -> None:
    """Properties, attributes and the best path of the k2.Fsa of the word-level and of the state-level form."""
    from kaldi_punct import _core
    from kaldi_punct.kaldi import k2_worker

    some = [lattice for _, lattice in lattices(shared / "golden" / name / "lat.ark")][:5]
    files: list[Path] = []
    for i, lattice in enumerate(some):
        for compact in (True, False):
            files.append(tmp_path / f"{i}-{compact}")
            files[-1].write_bytes(to_bytes(lattice, compact=compact))
    command: list[Any] = [k2_python, "-c", _TO_FSA, Path(k2_worker.__file__).parent, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split(";") for line in done.stdout.splitlines()]
    assert len(rows) == len(files)
    for row, lattice in zip(rows, [x for x in some for _ in (0, 1)], strict=True):
        (path,) = _core.best_paths(lattice, 1, _core.Scales(0.8, 0.1, 0.5))
        assert row[:2] == [str(list(path.words)), str(list(path.transition_ids))]
        assert float(row[2]) == pytest.approx(path.graph_cost, rel=1e-5)
        assert float(row[3]) == pytest.approx(path.acoustic_cost, rel=1e-5)
