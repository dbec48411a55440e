"""Fixtures that every test may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

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


@pytest.fixture
def in_repo_copy(tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory from which ``egs`` can be seen, as from the root of a clone."""
    (tmp_path / "egs").symlink_to(repo / "egs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., SimpleNamespace]:
    """Runs a command line in this process, in an empty directory: exit status, stdout, stderr, its last line."""
    from kaldi_punct.cli import main

    monkeypatch.chdir(tmp_path)

    def call(*args: object) -> SimpleNamespace:
        capfd.readouterr()
        status = main([str(a) for a in args])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return SimpleNamespace(status=status, out=out, err=err, last=err.splitlines()[-1] if err else "")

    return call


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


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory of a few kilobytes: seeded weights that were never trained, text and timing in."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig

    from kaldi_punct import checkpoint
    from kaldi_punct.config import DataConfig, ModelConfig
    from kaldi_punct.models.muse import Muse

    letters = "abcdefghijklmnopqrstuvwxyz'-0123456789<>[]"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{c}" for c in letters)]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    encoder = BertConfig(vocab_size=len(pieces), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                         intermediate_size=32, max_position_embeddings=64)  # fmt: skip
    config = ModelConfig(encoder="", n_layers=1, timing_dim=8)
    torch.manual_seed(7)
    model = Muse(config, encoder)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:  # so that answers differ from word to word, and with the words around
                parameter.mul_(4.0)
    directory = tmp_path_factory.mktemp("tiny_model")
    window = DataConfig(max_pieces=48, margin_words=4)
    lexicon = {"mcdonald": "McDonald"}
    made = checkpoint.Checkpoint(model, config, window, tokenizer, (2, 3, 1), encoder, lexicon, "tiny", "1")
    checkpoint.save(made, directory)
    return directory
