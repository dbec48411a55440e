"""``prepare`` of Kaldi data directories: references cut onto utterances, and parts of directories."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from folders import contents, write

from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.kaldi.nbest_lists import NbestLists

Run = Callable[..., SimpleNamespace]


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """Two calls of two sides; call ``c2`` is a minute, ``c1`` half a minute a side."""
    d = tmp_path / "calls"
    utts = [
        ("c1-A-0", "c1-A", 0.0, 30.0, "well hello there"),
        ("c1-B-0", "c1-B", 30.0, 60.0, "hi"),
        ("c2-A-0", "c2-A", 0.0, 40.0, "how are you"),
        ("c2-A-1", "c2-A", 50.0, 70.0, "so"),
        ("c2-B-0", "c2-B", 40.0, 100.0, "i am fine thanks"),
    ]
    recs = sorted({rec for _, rec, *_ in utts})
    write(d / "text", *(f"{u} {text}" for u, *_, text in utts))
    write(d / "segments", *(f"{u} {r} {s:.2f} {e:.2f}" for u, r, s, e, _ in utts))
    write(d / "utt2spk", *(f"{u} {r}" for u, r, *_ in utts))
    write(d / "spk2utt", *(f"{r} {' '.join(u for u, rec, *_ in utts if rec == r)}" for r in recs))
    write(d / "wav.scp", *(f"{r} sph2pipe -f wav -p -c {1 + (r[-1] == 'B')} {r[:2]}.sph |" for r in recs))
    write(d / "reco2file_and_channel", *(f"{r} {r[:2]} {r[-1]}" for r in recs))
    write(d / "feats.scp", *(f"{u} feats.ark:{i}" for i, (u, *_) in enumerate(utts)))
    write(d / "cmvn.scp", *(f"{r} cmvn.ark:1" for r in recs))
    write(d / "conf" / "mfcc.conf", "--use-energy=false")
    return d


SIDES = ("c1-A Well, hello there.", "c1-B Hi!", "c2-A How are you? So?", "c2-B I am fine, thanks.")
TEXTS = (
    "c1-A-0 Well, hello there.", "c1-B-0 Hi.", "c2-A-0 How are you?", "c2-A-1 So?", "c2-B-0 I am fine, thanks.",
)  # fmt: skip


class TestKaldi:
    def test_a_reference_by_utterance(self, run: Run, calls: Path, tmp_path: Path) -> None:
        ref = write(tmp_path / "ref", *TEXTS[:4], "c9 Not here.")
        done = run("prepare", calls, ref, "out")
        assert (done.status, done.last) == (0, "Done 4, 0 errors")
        assert f"WARNING: {ref}: 1 keys are no utterance and no recording (left out)" in done.err
        assert f"{calls}: not taken, since they are no tables known here: conf" in done.err
        assert contents(Path("out")) == {
            **{p.name: p.read_text() for p in calls.iterdir() if p.is_file()},
            "text_punct": "".join(f"{t}\n" for t in TEXTS[:4]),
        }

    def test_a_reference_by_recording(self, run: Run, calls: Path, tmp_path: Path) -> None:
        done = run("prepare", calls, write(tmp_path / "ref", *SIDES), "out")
        assert (done.status, done.last) == (0, "Done 5, 0 errors")
        assert "0 of 7 marks found no word (0.0 %)" in done.err
        assert Path("out/text_punct").read_text() == "".join(f"{t}\n" for t in TEXTS)

    def test_a_reference_that_does_not_fit(self, run: Run, calls: Path, tmp_path: Path) -> None:
        ref = write(tmp_path / "ref", *SIDES[:3], "c2-B Fine? I? No way!")
        done = run("prepare", calls, ref, "out")
        assert f"WARNING: {calls}: 1 utterances have too few words that their recording's reference has" in done.err
        assert "c2-B-0" not in Path("out/segments").read_text()
        assert "c2-B" not in Path("out/wav.scp").read_text()
        run("prepare", "--min-agreement", 0.2, calls, ref, "lax")
        assert "c2-B-0" in DataDir("lax").text_punct

    def test_a_reference_of_other_data(self, run: Run, calls: Path, tmp_path: Path) -> None:
        ref = write(tmp_path / "ref", "x1 Yes.")
        done = run("prepare", calls, ref, "out")
        assert done.status == 1
        assert (
            f"ERROR: {ref}: expected keys that are utterances or recordings of {calls}, got keys such as 'x1'; is it "
            "of other data?"
        ) in done.err
        assert "got an empty table; is it" in run("prepare", calls, write(ref), "out").err

    def test_a_directory_without_reference(self, run: Run, calls: Path) -> None:
        done = run("prepare", calls, "out")
        assert (
            f"ERROR: {calls}: expected a table text_punct, or a reference to be named after the directory, got none"
        ) in done.err

    def test_a_directory_is_not_made_of_itself(self, run: Run, calls: Path) -> None:
        done = run("prepare", calls, calls)
        assert f"{calls}: expected another directory than the one that is read; name a new one" in done.err

    def test_hours_take_whole_calls(self, run: Run, calls: Path) -> None:
        write(calls / "text_punct", *TEXTS)
        taken = {}
        for seed in range(8):
            done = run("prepare", "--hours", 0.01, "--seed", seed, calls, f"out{seed}")
            assert done.status == 0
            data = DataDir(f"out{seed}")
            taken[seed] = {data.reco2file_and_channel[data.place(u)[0]][0] for u in data.utt_ids}
            assert set(data.utt_ids) == {f"{c}-{u}" for c in taken[seed] for u in ("A-0", "B-0", "A-1")} & set(
                DataDir(calls).utt_ids
            )
            assert Path(f"out{seed}/cmvn.scp").read_text().count("\n") == 2 * len(taken[seed])
            assert Path(f"out{seed}/feats.scp").read_text().count("\n") == len(data)
            assert len(Path(f"out{seed}/spk2utt").read_text().split()) == 2 * len(taken[seed]) + len(data)
        assert {len(t) for t in taken.values()} == {1}  # a minute of c1 or two of c2 hold 36 seconds
        assert len(set(map(frozenset, taken.values()))) == 2
        done = run("prepare", "--hours", 1, calls, "out")
        assert f"{calls}: expected at least 1 hours, got 0.05; ask for fewer" in done.err
        assert "--hours: expected a number above 0, got 0" in run("prepare", "--hours", 0, calls, "out").err

    def test_hours_without_times(self, run: Run, calls: Path, tmp_path: Path) -> None:
        write(tmp_path / "plain" / "text_punct", *TEXTS)
        done = run("prepare", "--hours", 1, "plain", "out")
        assert (
            "plain: expected segments, utt2dur or a CTM to count hours by, got no time of 'c1-A-0'; make utt2dur with "
            "utils/data/get_utt2dur.sh plain"
        ) in done.err
        write(tmp_path / "plain" / "utt2dur", *(f"{t.split()[0]} 3600" for t in TEXTS))
        assert run("prepare", "--hours", 2, "plain", "out").last == "Done 2, 0 errors"

    def test_nbest_lists_go_along(self, run: Run, calls: Path) -> None:
        write(calls / "text_punct", *TEXTS)
        keys = [f"{t.split()[0]}-{n}" for t in TEXTS for n in (1, 2)]
        tables = {
            "words": [f"{k} so" for k in keys], "ac_cost": [f"{k} 1.5" for k in keys],
            "lm_cost": [f"{k} 2" for k in keys], "ctm": [f"{k} 1 0.00 0.10 so" for k in keys],
        }  # fmt: skip
        for name, lines in tables.items():
            write(calls / "nbest" / name, *lines)
        for _ in range(2):  # a directory with lists is replaced as any other
            assert run("prepare", "--min-words", 3, calls, "out").status == 0
        taken = [i for i, k in enumerate(keys) if k[:-2] in ("c1-A-0", "c2-A-0", "c2-B-0")]
        for name, lines in tables.items():
            assert Path(f"out/nbest/{name}").read_text().splitlines() == [lines[i] for i in taken]
        assert NbestLists("out/nbest").read("c1-A-0", 2)[0][0] == 1
        write(Path("out/nbest/mine"), "x")
        assert "and nothing else, got 'nbest'; name another" in run("prepare", calls, "out").err

    def test_short_utterances_go(self, run: Run, calls: Path) -> None:
        write(calls / "text_punct", *TEXTS)
        done = run("prepare", "--min-words", 3, calls, "out")
        assert f"{calls}: 2 utterances have fewer than 3 words (left out)" in done.err
        assert DataDir("out").utt_ids == ("c1-A-0", "c2-A-0", "c2-B-0")
        done = run("prepare", "--min-words", 9, calls, "none")
        assert f"{calls}: expected utterances with a reference, got none that are long enough" in done.err

    @pytest.mark.parametrize("by", ["utterance", "recording", "file"])
    def test_words_keep_their_times(self, run: Run, calls: Path, by: str) -> None:
        write(calls / "text_punct", *TEXTS)
        lines = []
        for utt_id, words in (("c1-A-0", "well hello there"), ("c2-A-0", "how are you"), ("c2-A-1", "so")):
            zero_s = 0.0 if by == "utterance" or utt_id != "c2-A-1" else 50.0
            key = {"utterance": f"{utt_id} 1", "recording": f"{utt_id[:4]} 1", "file": f"{utt_id[:2]} A"}[by]
            lines += [f"{key} {zero_s + i:.2f} 0.50 {w} 0.9" for i, w in enumerate(words.split())]
        write(calls / "ctm", ";; made up", *lines)
        before = {u.utt_id: u.words for u in DataDir(calls)}
        assert run("prepare", "--min-words", 2, calls, "out").status == 0  # without c2-A-1, and c1-B, c2-B: not heard
        assert {u.utt_id: u.words for u in DataDir("out")} == {u: before[u] for u in ("c1-A-0", "c2-A-0")}
        assert run("prepare", "--hours", 0.001, calls, "part").status == 0
        part = DataDir("part")
        assert part.utt_ids
        assert {u.utt_id: u.words for u in part} == {u: before[u] for u in part.utt_ids}

    def test_a_channel_that_stays_alone_keeps_its_name(self, run: Run, tmp_path: Path) -> None:
        write(tmp_path / "a" / "text_punct", "r1-A Well, yes.", "r1-B No.", "r2-A I see.", "r2-B You do?")
        lines = [f"{r} {c} {i}.00 0.50 {w}" for r, c, text in (
            ("r1", "A", "well yes"), ("r1", "B", "no"), ("r2", "A", "i see"), ("r2", "B", "you do"),
        ) for i, w in enumerate(text.split())]  # fmt: skip
        write(tmp_path / "a" / "ctm", *lines)
        run("prepare", "--min-words", 2, "a", "out")
        assert Path("out/ctm").read_text().splitlines() == [
            "r1-A A 0.00 0.50 well", "r1-A A 1.00 0.50 yes", *lines[3:],
        ]  # fmt: skip
        assert DataDir("out").utt_ids == ("r1-A", "r2-A", "r2-B")
        assert DataDir("out").text_punct.keys() == {"r1-A", "r2-A", "r2-B"}

    def test_words_of_a_segment_that_cannot_be_used_go_nowhere_else(self, run: Run, calls: Path) -> None:
        write(calls / "text_punct", *TEXTS)
        times = ((0, "how"), (1, "are"), (2, "you"), (69, "so"), (51, "so"))  # c2-A-1 steps back
        write(calls / "ctm", *(f"c2-A 1 {t:.2f} 0.50 {w}" for t, w in times))
        done = run("prepare", calls, "out")
        assert done.last == "Done 4, 1 errors"
        data = DataDir("out")
        assert [w.word for w in data["c2-A-0"].words] == ["how", "are", "you"]
        assert "c2-A-1" not in data.utt_ids

    def test_an_utterance_that_cannot_be_used_is_counted(self, run: Run, tmp_path: Path) -> None:
        write(tmp_path / "a" / "text_punct", "u1 A b.", "u2 C.")
        write(tmp_path / "a" / "ctm", "u1 1 5.0 0.5 a", "u1 1 1.0 0.5 b", "u2 1 0.0 0.5 c")
        done = run("prepare", "a", "out")
        assert (done.status, done.last) == (0, "Done 1, 1 errors")
        assert DataDir("out").utt_ids == ("u2",)


class TestCalls:
    """Wrong calls, and options that belong elsewhere."""

    @pytest.mark.parametrize(
        ("call", "text"),
        [
            ("--from ami --hours 1 a b", "--hours: expected with --from kaldi, got it elsewhere; leave it out"),
            ("--max-words 9 a b", "--max-words: expected with --from podcasts, got it elsewhere; leave it out"),
            ("--from ami --seed 1 a b", "--seed: expected with --from kaldi or fisher or podcasts, got it elsewhere"),
            ("--from ami --seed 0 a b", "--seed: expected with --from kaldi or fisher or podcasts, got it elsewhere"),
            ("--dev-share 0.5 a b", "--dev-share: expected with --from fisher, got it elsewhere; leave it out"),
            ("--stats --resume a", "--resume: expected without --stats, got it elsewhere; leave it out"),
            ("--from ami a", "--from ami: expected <words.tsv> <out>, got 1 paths; name all of them"),
            ("a b c d", "--from kaldi: expected <data-dir> [<text_punct>] <out>, got 4 paths; name all of them"),
            (
                "--from fisher --dev-share 0.5 --test-share 0.5 a b",
                "--dev-share, --test-share: expected less than 1 together, got 1",
            ),
        ],
    )
    def test_it_is_said(self, run: Run, call: str, text: str) -> None:
        done = run("prepare", *call.split())
        assert done.status == 1
        assert f"ERROR: {text}" in done.err

    def test_a_share_is_a_share(self, run: Run) -> None:
        with pytest.raises(SystemExit) as e:
            run("prepare", "--from", "fisher", "--dev-share", "10", "a", "b")
        assert e.value.code == 2

    def test_resume_leaves_what_is_there(self, run: Run, calls: Path) -> None:
        write(calls / "text_punct", *TEXTS)
        run("prepare", "--min-words", 3, calls, "out")
        done = run("prepare", "--resume", calls, "out")
        assert "out: is there already, left as it is" in done.err
        assert done.last == "Done 3, 0 errors"
        shutil.rmtree("out")
        assert run("prepare", "--resume", calls, "out").last == "Done 5, 0 errors"
        assert run("prepare", "--min-words", 3, calls, "out").last == "Done 3, 0 errors"
