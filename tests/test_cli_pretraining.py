"""The verbs pretrain and import-wav2vec."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from tones import write_tones

from kaldi_punct.cli import main
from kaldi_punct.models.wav2vec import Wav2vec
from kaldi_punct.pretraining_config import Wav2vecConfig

DATA = Path(__file__).parent / "data" / "wav2vec"


def call(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, list[str]]:
    """Exit status and lines of the log."""
    status = main([str(a) for a in args])
    return status, capsys.readouterr().err.splitlines()


def test_arguments_go_where_they_should(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
                                        tmp_path: Path) -> None:  # fmt: skip
    from kaldi_punct import pretraining

    seen: list[Any] = []

    def pretrain(objective: str, train: Any, dev: Any, exp: Any, config: Any, report: Any) -> pretraining.Pretrained:
        seen.append((objective, train, dev, exp, config.pretrain.seed, config.pretrain.n_epochs))
        return pretraining.Pretrained(Path(exp) / "best", n_steps=7, n_split=len(train) // 2)

    monkeypatch.setattr(pretraining, "pretrain", pretrain)
    (tmp_path / "c.yaml").write_text("pretrain: {n_epochs: 3}\n")
    more = ("--config", tmp_path / "c.yaml", "--set", "pretrain.seed=5")
    status, log = call(capsys, "pretrain", "--objective", "contrastive", *more, "a,b", "c", "exp")
    last = "Done 7, 0 errors (1 batches split for want of memory)"
    assert (status, log[-2:]) == (0, ["the best model is exp/best", last])
    call(capsys, "pretrain", "--objective", "contrastive", "a", "", "exp")
    assert seen == [("contrastive", ["a", "b"], ["c"], "exp", 5, 3), ("contrastive", ["a"], [], "exp", 1, 1)]
    monkeypatch.setenv("RANK", "1")  # one of several processes: the first tells how it goes
    assert call(capsys, "pretrain", "--objective", "contrastive", "a", "", "exp") == (0, [])


def test_bad_recordings_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = write_tones(tmp_path / "d", n_recordings=2, seconds=0.5)
    with open(data / "wav.scp", "a") as table:
        table.write("zz /nowhere.wav\n")
    more = ("--set", "wav2vec.dim=8", "--set", "pretrain.max_steps=1")
    status, log = call(capsys, "pretrain", "--objective", "contrastive", *more, data, data, tmp_path / "exp")
    assert (status, log[-1]) == (0, "Done 1, 2 errors")
    assert sum(line.startswith("ERROR: zz: /nowhere.wav: expected a readable file") for line in log) == 2
    Wav2vec.load(tmp_path / "exp" / "best")


def test_the_example_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "egs").symlink_to(repo / "egs")
    for name in ("train", "dev"):
        write_tones(tmp_path / "data" / name, n_recordings=1, seconds=0.4)
    with pytest.raises(SystemExit):
        main(["pretrain", "--help"])
    example = shlex.split(capsys.readouterr().out.rpartition("e.g.: kaldi-punct ")[2])
    status, log = call(capsys, *example, "--set", "pretrain.max_steps=1")
    assert (status, log[-1]) == (0, "Done 1, 0 errors")
    assert Wav2vec.load("exp/wav2vec/best").config == Wav2vecConfig.small()


def test_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, log = call(capsys, "pretrain", "--objective", "contrastive", "--set", "pretrain.sead=5", "a", "b", "c")
    assert (status, log) == (
        1,
        ["ERROR: override: unknown key 'pretrain.sead'; did you mean 'seed'?", "Done 0, 1 errors"],
    )
    status, log = call(capsys, "pretrain", "--objective", "contrastive", tmp_path / "none", "", tmp_path / "exp")
    assert status == 1
    assert "none: expected a Kaldi data directory with wav.scp, got none; check the path" in log[0]
    for wrong in (["--objective", "guess"], []):
        with pytest.raises(SystemExit) as e:
            main(["pretrain", *wrong, "a", "b", "c"])
        assert e.value.code == 2
        assert "--objective" in capsys.readouterr().err


def test_import(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, log = call(capsys, "import-wav2vec", DATA / "fairseq.pt", tmp_path / "model")
    assert (status, log) == (0, [f"{tmp_path / 'model'}: 16 dimensions, 32720 parameters", "Done 1, 0 errors"])
    assert Wav2vec.load(tmp_path / "model").dim == 16
    status, log = call(capsys, "import-wav2vec", tmp_path / "none.pt", tmp_path / "other")
    assert (status, log[-1]) == (1, "Done 0, 1 errors")
    assert "none.pt: expected a fairseq checkpoint, got No such file" in log[0]
    assert not (tmp_path / "other").exists()
