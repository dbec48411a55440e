"""The Kaldi step scripts, in a recipe folder with stand-ins for Kaldi's utils/parse_options.sh and run.pl."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

# What the real ones do with what the steps use of them: --name value pairs, and one bash line for each job.
PARSE_OPTIONS = r"""
while [ "${1#--}" != "$1" ]; do
  name=$(echo "${1#--}" | tr - _)
  [ -z "${!name+set}" ] && echo "$0: invalid option $1" && exit 1
  printf -v "$name" '%s' "$2"
  shift 2
done
true
"""
RUN_PL = r"""#!/usr/bin/env bash
while [ "${1#--}" != "$1" ]; do shift 2; done
first=1 last=1
case $1 in JOB=*) range=${1#JOB=} first=${range%:*} last=${range#*:} && shift ;; esac
log=$1 && shift
for ((n = first; n <= last; n++)); do
  line="${*//JOB/$n}"
  mkdir -p "$(dirname "${log//JOB/$n}")"
  echo "# $line" >"${log//JOB/$n}"
  bash -c "( $line ) >>${log//JOB/$n} 2>&1" || exit 1
done
"""
# Writes its arguments one a line, and a table that is out of order across jobs.
KALDI_PUNCT = r"""#!/usr/bin/env bash
printf '%s\n' "$@" >>calls
[ -e fails ] && { echo "it failed" >&2; exit 1; }
if [ "$1" = score ]; then
  printf '%s\n' "%F1 75.6 [ C 75.6 FS 75.6 Q 81.3 ] $3" "a table"
  exit 0
fi
out=${*: -1}
case $out in *.1) echo "b-1 Hi." ;; *) echo "a-1 Yes." ;; esac >"$out"
"""


@pytest.fixture
def recipe(tmp_path: Path, repo: Path) -> Path:
    """A folder like egs/<corpus>/s5 after decoding."""
    programs = {"utils/parse_options.sh": PARSE_OPTIONS, "utils/run.pl": RUN_PL, "bin/kaldi-punct": KALDI_PUNCT}
    for name, text in programs.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "punct").symlink_to(repo / "egs" / "punct" / "steps" / "punct")
    shutil.copytree(repo / "egs" / "mini", tmp_path / "data", ignore=shutil.ignore_patterns("wav"))
    (tmp_path / "data" / "trans.mdl").rename(tmp_path / "data" / "final.mdl")
    return tmp_path


def run(recipe: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = f"{recipe / 'bin'}:{recipe / 'utils'}:{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=recipe, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )


PUNCTUATE = "steps/punct/punctuate_lattice.sh"
DIRS = ("data", "data/lang", "data/decode", "exp/punct")


def calls(recipe: Path) -> list[str]:
    """What kaldi-punct was called with: one line a call."""
    words = (recipe / "calls").read_text().splitlines()
    starts = [i for i, word in enumerate(words) if word in ("punctuate", "score")]
    return [" ".join(words[a:b]) for a, b in zip(starts, [*starts[1:], len(words)], strict=True)]


def test_each_job_is_punctuated_and_the_tables_joined_in_order(recipe: Path) -> None:
    done = run(recipe, PUNCTUATE, *DIRS)
    assert done.returncode == 0, done.stdout + done.stderr
    common = (
        "punctuate --model en --from lattice --to text --words data/lang/words.txt "
        "--word-boundary data/lang/phones/word_boundary.int --transition-model data/decode/../final.mdl "
        "--utt2spk data/utt2spk --segments data/segments "
    )
    assert calls(recipe) == [f"{common}ark:data/decode/lat.{n}.gz exp/punct/text_punct.{n}" for n in (1, 2)]
    assert (recipe / "exp" / "punct" / "text_punct").read_text() == "a-1 Yes.\nb-1 Hi.\n"
    assert (recipe / "exp" / "punct" / "num_jobs").read_text() == "2\n"
    assert done.stdout.endswith(f"{PUNCTUATE}: wrote exp/punct/text_punct (2 lines)\n")


@pytest.mark.parametrize(
    ("options", "passed"),
    [
        (("--model", "exp/model"), "--model exp/model "),
        (("--mdl", "data/lang/phones.txt"), "--transition-model data/lang/phones.txt "),
        (("--acoustic-scale", "0.1"), "--acoustic-scale 0.1 "),
        (("--word-ins-penalty", "0.5"), "--word-ins-penalty 0.5 "),
        (("--frame-shift", "0.03"), "--frame-shift 0.03 "),
        (("--use-audio", "true"), "--wav-scp data/wav.scp "),
        (("--to", "ctm"), "--to ctm "),
        (("--to", "jsonl"), "--to jsonl "),
    ],
)
def test_options_reach_the_program(recipe: Path, options: tuple[str, ...], passed: str) -> None:
    assert run(recipe, PUNCTUATE, *DIRS).returncode == 0
    assert passed not in " ".join(calls(recipe))
    assert run(recipe, PUNCTUATE, *options, *DIRS).returncode == 0
    assert all(passed in call for call in calls(recipe)[2:])


def test_other_outputs_have_their_own_names_and_keep_the_jobs_order(recipe: Path) -> None:
    for to, name in (("ctm", "ctm"), ("jsonl", "punct.jsonl")):
        assert run(recipe, PUNCTUATE, "--to", to, *DIRS).returncode == 0
        assert (recipe / "exp" / "punct" / name).read_text() == "b-1 Hi.\na-1 Yes.\n"


def test_stage_1_joins_without_punctuating_again(recipe: Path) -> None:
    assert run(recipe, PUNCTUATE, *DIRS).returncode == 0
    (recipe / "exp" / "punct" / "text_punct.1").write_text("c-1 Ho.\n")
    assert run(recipe, PUNCTUATE, "--stage", "1", *DIRS).returncode == 0
    assert len(calls(recipe)) == 2
    assert (recipe / "exp" / "punct" / "text_punct").read_text() == "a-1 Yes.\nc-1 Ho.\n"


def test_cmd_runs_the_jobs(recipe: Path) -> None:
    (recipe / "bin" / "my.pl").write_text('#!/usr/bin/env bash\necho "$@" >mine\nexec run.pl "$@"\n')
    (recipe / "bin" / "my.pl").chmod(0o755)
    assert run(recipe, PUNCTUATE, "--cmd", "my.pl --mem 4G", *DIRS).returncode == 0
    assert (
        (recipe / "mine")
        .read_text()
        .startswith("--mem 4G JOB=1:2 exp/punct/log/punctuate.JOB.log kaldi-punct punctuate ")
    )


def test_without_segments_none_are_passed(recipe: Path) -> None:
    (recipe / "data" / "segments").unlink()
    assert run(recipe, PUNCTUATE, *DIRS).returncode == 0
    assert "--segments" not in " ".join(calls(recipe))


def test_a_job_that_fails_fails_the_step_and_leaves_no_table(recipe: Path) -> None:
    assert run(recipe, PUNCTUATE, *DIRS).returncode == 0
    (recipe / "fails").touch()
    assert run(recipe, PUNCTUATE, *DIRS).returncode == 1
    assert not (recipe / "exp" / "punct" / "text_punct").exists()
    assert "it failed" in (recipe / "exp" / "punct" / "log" / "punctuate.1.log").read_text()


def test_missing_files_are_named(recipe: Path) -> None:
    for name in ("utt2spk", "lang/words.txt", "lang/phones/word_boundary.int", "decode/num_jobs", "decode/lat.1.gz"):
        path = recipe / "data" / name
        path.rename(path.with_suffix(".hidden"))
        done = run(recipe, PUNCTUATE, *DIRS)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (
            1,
            f"{PUNCTUATE}: expected file data/{name} to exist",
        )
        path.with_suffix(".hidden").rename(path)
    (recipe / "data" / "final.mdl").unlink()
    assert run(recipe, PUNCTUATE, *DIRS).stdout.endswith("expected file data/decode/../final.mdl to exist\n")


def test_wrong_calls_are_explained(recipe: Path) -> None:
    done = run(recipe, PUNCTUATE, "data")
    assert done.returncode == 1
    assert (
        f"Usage: {PUNCTUATE} [options] <data-dir> <lang-dir|graph-dir> <decode-dir> <punct-dir>\ne.g.:\n" in done.stdout
    )
    done = run(recipe, PUNCTUATE, "--to", "srt", *DIRS)
    assert done.returncode == 1
    assert done.stdout.endswith(f"{PUNCTUATE}: expected --to to be text, ctm or jsonl, got srt\n")
    (recipe / "data" / "wav.scp").unlink()
    done = run(recipe, PUNCTUATE, "--use-audio", "true", *DIRS)
    assert done.returncode == 1
    assert done.stdout.endswith(f"{PUNCTUATE}: expected file data/wav.scp to exist (--use-audio true)\n")


def test_a_program_that_is_not_installed_is_asked_for(recipe: Path) -> None:
    (recipe / "bin" / "kaldi-punct").unlink()
    path = f"{recipe / 'bin'}:{recipe / 'utils'}:/usr/bin:/bin"
    for script, dirs in ((PUNCTUATE, DIRS), ("steps/punct/score.sh", ("data", "exp/punct"))):
        done = subprocess.run(
            [script, *dirs], cwd=recipe, env={"PATH": path}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert done.stdout.endswith(
            f"{script}: expected the program kaldi-punct on the PATH; install the package kaldi_punct by pip "
            "and name its bin folder in path.sh\n"
        )


SCORE = "steps/punct/score.sh"


def test_the_score_is_kept_as_a_report_and_one_line(recipe: Path) -> None:
    assert run(recipe, PUNCTUATE, *DIRS).returncode == 0
    done = run(recipe, SCORE, "data", "exp/punct")
    assert done.returncode == 0, done.stdout + done.stderr
    line = "%F1 75.6 [ C 75.6 FS 75.6 Q 81.3 ] exp/punct/text_punct\n"
    scoring = recipe / "exp" / "punct" / "scoring_punct"
    assert (scoring / "best_f1").read_text() == line
    assert done.stdout.endswith(line)
    assert (scoring / "report.txt").read_text() == f"{line}a table\n"
    assert calls(recipe)[-1] == "score data/text_punct exp/punct/text_punct"


def test_a_score_that_fails_leaves_no_line(recipe: Path) -> None:
    assert run(recipe, PUNCTUATE, *DIRS).returncode == 0
    assert run(recipe, SCORE, "data", "exp/punct").returncode == 0
    (recipe / "fails").touch()
    assert run(recipe, SCORE, "data", "exp/punct").returncode == 1
    assert not (recipe / "exp" / "punct" / "scoring_punct" / "best_f1").exists()


def test_score_runs_by_cmd_and_explains_wrong_calls(recipe: Path) -> None:
    assert run(recipe, PUNCTUATE, *DIRS).returncode == 0
    (recipe / "bin" / "my.pl").write_text('#!/usr/bin/env bash\necho "$@" >mine\nexec run.pl "$@"\n')
    (recipe / "bin" / "my.pl").chmod(0o755)
    assert run(recipe, SCORE, "--cmd", "my.pl", "data", "exp/punct").returncode == 0
    assert (recipe / "mine").read_text().startswith("exp/punct/scoring_punct/log/score.log kaldi-punct score data/")
    done = run(recipe, SCORE, "data")
    assert (done.returncode, done.stdout.splitlines()[1]) == (1, f"Usage: {SCORE} [options] <data-dir> <punct-dir>")
    done = run(recipe, SCORE, "data", "exp/none")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        1,
        f"{SCORE}: expected file exp/none/text_punct to exist",
    )
