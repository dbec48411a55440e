"""`kaldi-punct punctuate` with a model that hears: the sound of each recording reaches the words' own frames."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tiny import write_encoder

from kaldi_punct import checkpoint
from kaldi_punct.cli import main
from kaldi_punct.config import Config


@pytest.fixture(scope="module")
def hearing_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that hears, never trained: its answers differ wherever what it hears differs."""
    directory = tmp_path_factory.mktemp("hearing")
    encoder = write_encoder(directory / "encoder")
    torch.manual_seed(5)
    made = checkpoint.create(
        Config.load(
            None,
            [
                f"model.encoder={encoder}",
                "model.n_layers=1",
                "model.acoustic=melspec",
                "model.lstm_dim=16",
                "data.max_pieces=64",
            ],
        )
    )
    checkpoint.save(made, directory / "model")
    return directory / "model"


def punctuate(out: Path, *options: str | Path) -> list[list[float]]:
    """Probabilities of the marks chosen, by utterance."""
    argv = ["punctuate", "--from", "ctm", "--to", "jsonl", *map(str, options), "kaldi/1best.ctm", str(out)]
    assert main(argv) == 0
    return [[w["prob"] for w in json.loads(line)["words"]] for line in out.read_text().splitlines()]


def test_sound_reaches_the_answer(
    hearing_model: Path, mini: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(mini)
    with_sound = ["--model", hearing_model, "--segments", "segments", "--wav-scp", "wav.scp"]
    heard = punctuate(tmp_path / "heard", *with_sound)
    again = punctuate(tmp_path / "again", *with_sound)
    deaf = punctuate(tmp_path / "deaf", "--model", hearing_model, "--segments", "segments")
    assert "it goes by the words alone" in caplog.text
    assert heard == again
    assert [len(u) for u in heard] == [len(u) for u in deaf]
    differing = sum(a != b for a, b in zip(heard, deaf, strict=True))
    assert differing == len(heard) == 30


def test_sound_of_one_recording_is_not_anothers(
    hearing_model: Path, mini: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mini)
    swapped = tmp_path / "wav.scp"
    swapped.write_text(
        (mini / "wav.scp").read_text().replace("harbour-A wav/harbour-A.flac", "harbour-A wav/kitchen-A.flac")
    )
    common = ["--model", hearing_model, "--segments", "segments", "--wav-scp"]
    right = punctuate(tmp_path / "right", *common, "wav.scp")
    wrong = punctuate(tmp_path / "wrong", *common, swapped)
    assert all(a != b for a, b in zip(right[:5], wrong[:5], strict=True))  # harbour-A
    assert right[5:] == wrong[5:]
