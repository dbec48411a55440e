"""benchmarks/train.py: its figures, and that its options are heeded."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from tiny import write_data_dir, write_encoder


def test_it_tells_speed_padding_and_shares(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("train_benchmark", repo / "benchmarks" / "train.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    data = write_data_dir(tmp_path / "d", n_utts=8, with_sound=True)
    encoder = write_encoder(tmp_path / "encoder")
    (tmp_path / "c.yaml").write_text(f"model: {{encoder: {encoder}, n_layers: 1, lstm_dim: 8}}\n")
    options = ["--config", str(tmp_path / "c.yaml"), "--set", "model.acoustic=melspec", "--set", "data.max_pieces=64"]
    more = ["--set", "train.batch_pieces=64", "--data", str(data), "--max-words", "60", "--repeat", "3"]
    monkeypatch.setattr("sys.argv", ["train.py", *options, *more, "--seconds", "0.3"])
    assert module.main() == 0
    out = capsys.readouterr().out
    n_conversations = int(re.findall(r"d: (\d) conversations", out)[0])
    assert n_conversations < 8
    speed = re.findall(r"^(\d+) words/s, (\d+) words a second of CPU, (\d+) steps of 1 batches$", out, re.M)[0]
    assert min(map(int, speed)) > 0
    assert re.search(r"^padding: \d\.\d % of pieces, \d+\.\d % of frames$", out, re.M)
    assert re.search(r"^features: \d+\.\d s for \d+ s of sound, once a run$", out, re.M)
    shares = re.findall(r"(\w+) (\d+\.\d) %,? ?", out.splitlines()[-1])
    assert [name for name, _ in shares] == ["data", "features", "forward", "backward", "optimizer"]
    assert sum(float(share) for _, share in shares) == pytest.approx(100, abs=0.3)
