"""A trained model that hears uses what it hears: silence and wrong times cost it inner marks (fold A to fold B).

Wrong times cost one nothing that finds the sound by attention. Needs what `egs/games/run.sh` and `run_table.sh` make
(`data/` and `exp/`), in egs/games or where KALDI_PUNCT_GAMES points: weights trained on the acted dialogue are not part
of the repository.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recipe(repo: Path) -> Path:
    path = Path(os.environ.get("KALDI_PUNCT_GAMES", repo / "egs" / "games"))
    if not (path / "exp" / "ref_a_all" / "best" / "config.json").is_file():
        pytest.skip(f"no trained model in {path}/exp/ref_a_all/best: run egs/games/run.sh, or set KALDI_PUNCT_GAMES")
    return path


@pytest.fixture(scope="module")
def scorer(repo: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("score_slots", repo / "egs" / "games" / "local" / "score_slots.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def inner_f1(recipe: Path, scorer: ModuleType) -> float:
    scores = scorer.score_slots(str(recipe / "exp" / "ref_a_all" / "best"), recipe / "data" / "ref" / "b")
    return float(scores["inner"].micro.f1)


def test_silence_costs_inner_marks(recipe: Path, scorer: ModuleType, inner_f1: float) -> None:
    silent = scorer.score_slots(str(recipe / "exp" / "ref_a_all" / "best"), recipe / "data" / "ref" / "b", silence=True)
    assert silent["inner"].micro.f1 <= inner_f1 - 3.0


def test_wrong_times_cost_inner_marks(recipe: Path, scorer: ModuleType, inner_f1: float) -> None:
    shifted = scorer.score_slots(str(recipe / "exp" / "ref_a_all" / "best"), recipe / "data" / "ref" / "b", shift_s=0.5)
    assert shifted["inner"].micro.f1 <= inner_f1 - 3.0


def test_attention_is_left_alone_by_wrong_times(recipe: Path, scorer: ModuleType) -> None:
    model = recipe / "exp" / "ref_a_melspec_attention_s1" / "best"
    if not (model / "config.json").is_file():
        pytest.skip(f"no trained model in {model}: run egs/games/run_table.sh --table fusion")
    right, wrong = (scorer.score_slots(str(model), recipe / "data" / "ref" / "b", shift_s=s) for s in (0.0, 0.5))
    for kind in ("inner", "end"):
        assert wrong[kind].micro.f1 == pytest.approx(right[kind].micro.f1, abs=0.5)
