"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent

# Tests never reach the network; set before transformers is imported anywhere.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shared: needs the material of ../shared (golden answers, real corpora)")
    config.addinivalue_line("markers", "slow: takes more than about ten seconds")
    config.addinivalue_line("markers", "gpu: needs a CUDA device")


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the checkout."""
    return REPO


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of golden answers and corpora beside the checkout; KALDI_PUNCT_SHARED names another."""
    path = Path(os.environ.get("KALDI_PUNCT_SHARED", REPO.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"no folder {path}: set KALDI_PUNCT_SHARED to the golden answers and corpora")
    return path


@pytest.fixture(scope="session")
def mini(repo: Path) -> Path:
    """Three short calls with real Kaldi lattices, audio and punctuated truth."""
    return repo / "egs" / "mini"
