"""egs/fisher on made-up discs, with stand-ins for the Kaldi scripts that align."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kaldi_punct.cli import main
from kaldi_punct.config import Config
from kaldi_punct.kaldi.data_dir import DataDir

Run = Callable[..., "subprocess.CompletedProcess[str]"]
FISHER = Path(__file__).parent / "data" / "fisher"
LOGGED = '#!/usr/bin/env bash\necho "$0 $*" >>calls\n'
# One word a tenth of a second, as Kaldi writes them: "<unk>" for what no lexicon has, nothing of what failed to align.
GET_TRAIN_CTM = LOGGED + (
    r"""dir=${*: -1} data=${*: -3:1}
mkdir -p "$dir"
tac "$data/text" | awk '/^fe_03_00004-A-000200/ {next} /^fe_03_00003-A-000050/ {print $1, 1, 0, 0.5, "hm"; next}
  {for (i = 2; i <= NF; i++) printf "%s 1 %.2f 0.10 %s\n", $1, i / 10, $i == "olga" ? "<unk>" : $i}' >"$dir/ctm"
"""
)


PRINT_CALL = '#!/usr/bin/env bash\necho "$*" >>calls\n[ "$1" != score ] || echo "%F1 50.0 $3"\n'


@pytest.fixture
def recipe(repo: Path, tmp_path: Path) -> Path:
    """A copy of the recipe beside a copy of the discs and a Kaldi recipe whose scripts write down their calls."""
    shutil.copytree(repo / "egs" / "fisher", tmp_path / "fisher", ignore=shutil.ignore_patterns("data", "exp"))
    shutil.copytree(FISHER, tmp_path / "discs")
    s5 = tmp_path / "s5"
    for name in (
        "steps/make_mfcc.sh", "steps/compute_cmvn_stats.sh", "utils/fix_data_dir.sh", "steps/nnet3/align.sh",
        "steps/online/nnet2/extract_ivectors_online.sh", "steps/get_train_ctm.sh",
    ):  # fmt: skip
        (s5 / name).parent.mkdir(parents=True, exist_ok=True)
        (s5 / name).write_text(GET_TRAIN_CTM if "train_ctm" in name else LOGGED)
        (s5 / name).chmod(0o755)
    for name in ("path.sh", "data/lang/words.txt", "exp/m/final.mdl", "exp/m/tree", "conf/mfcc_hires.conf"):
        (s5 / name).parent.mkdir(parents=True, exist_ok=True)
        (s5 / name).touch()
    (s5 / "exp/m/frame_subsampling_factor").write_text("3\n")
    program = tmp_path / "bin" / "kaldi-punct"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kaldi_punct.cli "$@"\n')
    program.chmod(0o755)
    return tmp_path


@pytest.fixture
def run(recipe: Path, repo: Path) -> Run:
    def call(*args: str, script: str = "run.sh") -> subprocess.CompletedProcess[str]:
        path = f"{recipe}/bin:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "PYTHONPATH": str(repo)}
        command = [f"./{script}", *args]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=recipe / "fisher", env=env)

    return call


def test_from_discs_to_scores(
    run: Run, recipe: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    halves = (
        "--dev-share",
        "0.25",
        "--test-share",
        "0.25",
        "--hours",
        "0.002 0.009",
        "--seed",
        "1",
        "--min-words",
        "6",
    )
    place = ("--discs", f"{recipe}/discs/LDC2004T19 {recipe}/discs", "--s5", f"{recipe}/s5", "--mdl", "exp/m")
    done = run(*halves, *place, "--ivectors", "exp/x", "--nj", "2", "--cmd", "my.pl", "--stop-stage", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-10].split() == ["data/train", "data/dev", "data/test"]
    data = recipe / "fisher" / "data"
    train, one, more = (DataDir(data / name) for name in ("train", "train_0.002h", "train_0.009h"))
    assert set(one.utt_ids) < set(more.utt_ids) == set(train.utt_ids)
    calls = (recipe / "s5" / "calls").read_text().splitlines()
    assert [c.partition(" ")[0] for c in calls[:6]] == [
        "steps/make_mfcc.sh", "steps/compute_cmvn_stats.sh", "utils/fix_data_dir.sh",
        "steps/online/nnet2/extract_ivectors_online.sh", "steps/nnet3/align.sh", "steps/get_train_ctm.sh",
    ]  # fmt: skip
    assert calls[4] == (
        "steps/nnet3/align.sh --cmd my.pl --nj 2 --use-gpu false --online-ivector-dir exp/punct_train/ivectors "
        "--scale-opts --transition-scale=1.0 --acoustic-scale=1.0 --self-loop-scale=1.0 data/punct_train data/lang "
        "exp/m exp/punct_train/ali"
    )
    assert calls[5] == (
        "steps/get_train_ctm.sh --cmd my.pl --use-segments false --frame-shift 0.03 data/punct_train data/lang "
        "exp/punct_train/ali"
    )
    words = [(w.word, w.start_s) for s in ("train", "dev", "test") for u in DataDir(data / s) for w in u.words]
    assert ("olga", 2.5 + 0.6) in words  # not <unk>
    assert "<unk>" not in [w for w, _ in words]
    assert "local/align_words.sh: 1 utterances have no times, 1 have other words than text" in done.stderr
    again = run(*halves, *place, "--stop-stage", "2")
    assert again.stdout == done.stdout
    assert (recipe / "s5" / "calls").read_text().splitlines() == calls  # times that are there are kept
    (recipe / "fisher" / "exp" / "tiny").mkdir(parents=True)
    (recipe / "fisher" / "exp" / "tiny" / "best").symlink_to(tiny_model)
    (recipe / "bin" / "kaldi-punct").write_text(PRINT_CALL)  # each call of the real one would load torch
    models = ("--models", "bert wav2vec_fa", "--streaming", "streaming_lstm", "--small", "bert", "--lists", "nbest_3")
    done = run("--stage", "3", "--stop-stage", "3", "--hours", "1 9", *models)
    assert done.stdout.splitlines() == [
        "./run.sh: no exp/wav2vec_large, so no wav2vec_fa",
        "./run.sh: no data/train/nbest/words, so no nbest_3",
    ]
    (data / "train" / "nbest").mkdir()
    (data / "train" / "nbest" / "words").touch()
    assert not run("--stage", "3", "--stop-stage", "3", "--models", "", "--streaming", "", "--small", "").stdout
    trained = (recipe / "fisher" / "calls").read_text().splitlines()
    assert trained[:4] == [
        "train --config conf/bert.yaml data/train data/dev exp/bert",
        "train --config conf/streaming_lstm.yaml data/train data/dev exp/streaming_lstm",
        "train --config conf/bert.yaml data/train_1h data/dev exp/bert_1h",
        "train --config conf/bert.yaml data/train_9h data/dev exp/bert_9h",
    ]
    assert [t.split()[-1] for t in trained[4:]] == ["exp/nbest_1", "exp/nbest_3", "exp/nbest_5", "exp/nbest_10"]
    for call in trained:
        assert Config.load(str(Path(recipe / "fisher" / call.split()[2])))
    (recipe / "fisher" / "calls").unlink()
    done = run("--stage", "4")
    assert done.stdout.splitlines() == ["%F1 50.0 exp/tiny/test.text"] * 2
    monkeypatch.chdir(recipe / "fisher")
    for call in Path("calls").read_text().splitlines():
        assert main(shlex.split(call)) == 0
    out = capfd.readouterr().out
    assert out.startswith("%F1 ")
    assert out.splitlines()[0].endswith(" exp/tiny/test.text")


def test_what_is_missing_is_named(run: Run, recipe: Path) -> None:
    assert run().stderr == "./run.sh: stage 0 needs the LDC's discs; name their folders by --discs\n"
    assert run("--stage", "2").stderr == "./run.sh: expected file data/train/text_punct to exist; run stage 0\n"
    for name in ("train", "dev", "test"):
        (recipe / "fisher" / "data" / name).mkdir(parents=True)
        (recipe / "fisher" / "data" / name / "text_punct").touch()
    done = run("--stage", "1")
    assert done.stderr == "./run.sh: stage 1 needs a Kaldi recipe with a trained model; name its folder by --s5\n"
    done = run("--nonsense", "1")
    assert done.stderr == "./run.sh: unknown option --nonsense (see the configuration section)\n"
    align = "local/align_words.sh"
    assert run("data/train", f"{recipe}/s5", "data/lang", "nowhere", script=align).stderr == (
        f"./{align}: expected file {recipe}/s5/nowhere/final.mdl to exist\n"
    )
    assert "e.g.: ./local/align_words.sh --nj 8 data/dev" in run(script=align).stdout
    assert run("--x", "1", script=align).stderr == (f"./{align}: unknown option --x (see the configuration section)\n")
