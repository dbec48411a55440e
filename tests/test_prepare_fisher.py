"""``prepare --from fisher``: made-up calls in the layout of the LDC's discs."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kaldi_punct.errors import KaldiPunctError
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.labels import split
from kaldi_punct.preparation.fisher import Oddities, clean, read_original, read_transcript

Run = Callable[..., SimpleNamespace]
FISHER = Path(__file__).parent / "data" / "fisher"


@pytest.fixture
def discs(tmp_path: Path) -> Path:
    """A copy of the made-up discs of Fisher."""
    return Path(shutil.copytree(FISHER, tmp_path / "discs"))


def place(discs: Path, call: str, kind: str) -> Path:
    return next(discs.rglob(f"{call}.{kind}"))


class TestFisher:
    def test_the_sets(self, run: Run, discs: Path) -> None:
        done = run("prepare", "--from", "fisher", "--dev-share", 0.25, "--test-share", 0.25, discs, "out")
        assert (done.status, done.last) == (0, "Done 19, 0 errors")
        assert "5 calls, 1 of them without a punctuated transcript (left out)" in done.err
        assert (
            "19 utterances; left out: 1 unclear, 4 too short, 1 that their punctuated transcript does not fit; 0 of 55 "
            "marks found no word (0.0 %); 0 calls have L and R the other way round"
        ) in done.err
        first = place(discs, "fe_03_00003", "txo")
        assert f"WARNING: 1 files are no UTF-8, read as Windows-1252; first {first}" in done.err
        assert "before the first turn" not in done.err
        first.write_bytes(b"Call 3\n" + first.read_bytes())
        done = run("prepare", "--from", "fisher", discs, "again")
        assert f"WARNING: 1 files have lines before the first turn (left out); first {first}" in done.err
        sets = {name: DataDir(f"out/{name}") for name in ("train", "dev", "test")}
        calls = {name: {u[:11] for u in data.utt_ids} for name, data in sets.items()}
        assert [len(c) for c in calls.values()] == [2, 1, 1]
        assert set().union(*calls.values()) == {"fe_03_00002", "fe_03_00003", "fe_03_00004", "fe_03_05851"}

    def test_one_call_in_full(self, run: Run, discs: Path) -> None:
        run("prepare", "--from", "fisher", "--dev-share", 0, "--test-share", 0, discs, "out")
        tables = {p.name: p.read_text().splitlines() for p in Path("out/train").iterdir()}
        of_call = {name: [x for x in lines if x.startswith("fe_03_00002")] for name, lines in tables.items()}
        sph = place(discs, "fe_03_00002", "sph")
        assert of_call["text_punct"] == [
            "fe_03_00002-A-000250-000877 Hi, my name is Olga, and I'm calling from a small town in Min- Minnesota.",
            "fe_03_00002-A-001360-001902 [laughter] Not at all. But the summers are lovely, so we stay.",
            # Before "I" the dot of "t._v." would be read as a full stop.
            (
                "fe_03_00002-A-002790-003411 "
                "We don't own a t._v I read books, and my husband, he listens to the radio. [noise]"
            ),
            "fe_03_00002-B-000890-001335 Oh, really? I have a cousin there. Do you like the winters?",
            "fe_03_00002-B-002020-002764 So, um, the topic is t._v., I guess. Do you watch a lot of it?",
            "fe_03_00002-B-003429-003827 That is so funny, because we watch it every single night.",
        ]
        assert of_call["text"][0] == (
            "fe_03_00002-A-000250-000877 hi my name is olga and i'm calling from a small town in min- minnesota"
        )
        # The id is cut off as Kaldi's recipe does it, the time is not.
        assert of_call["segments"][0] == "fe_03_00002-A-000250-000877 fe_03_00002-A 2.50 8.78"
        assert of_call["wav.scp"] == [
            f"fe_03_00002-A sph2pipe -f wav -p -c 1 {sph} |",
            f"fe_03_00002-B sph2pipe -f wav -p -c 2 {sph} |",
        ]
        assert of_call["reco2file_and_channel"] == ["fe_03_00002-A fe_03_00002 A", "fe_03_00002-B fe_03_00002 B"]
        assert of_call["utt2spk"][0] == "fe_03_00002-A-000250-000877 fe_03_00002-A"
        assert of_call["spk2utt"][0].split() == ["fe_03_00002-A", *(x.split()[0] for x in of_call["text"][:3])]
        data = DataDir("out/train")
        for utt_id in data.utt_ids:  # what is learned is what was heard
            assert [w.word.rstrip(".") for w in split(data.text_punct[utt_id])] == [
                w.word.rstrip(".") for w in data[utt_id].words
            ]

    def test_options(self, run: Run, discs: Path) -> None:
        fisher = ("prepare", "--from", "fisher", "--dev-share", 0, "--test-share", 0)
        assert run(*fisher, "--min-words", 1, discs, "short").last == "Done 22, 0 errors"
        assert run(*fisher, "--min-agreement", 0, discs, "lax").last == "Done 20, 0 errors"
        run(*fisher, "--sph2pipe", "tools/sph2pipe", discs, "other")
        assert " tools/sph2pipe -f wav " in Path("other/train/wav.scp").read_text()
        drawn = set()
        for seed in range(4):
            run("prepare", "--from", "fisher", "--seed", seed, "--test-share", 0.3, discs, f"s{seed}")
            drawn.add(Path(f"s{seed}/test/text").read_text())
        assert len(drawn) > 1

    def test_resume(self, run: Run, discs: Path) -> None:
        fisher = ("prepare", "--from", "fisher", "--dev-share", 0.3, "--test-share", 0.3, discs, "out")
        first = run(*fisher)
        before = Path("out/dev/text").stat().st_mtime_ns
        shutil.rmtree("out/test")
        again = run(*fisher, "--resume")
        assert again.out == first.out
        assert "out/dev: is there already, left as it is" in again.err
        assert Path("out/dev/text").stat().st_mtime_ns == before

    def test_without_sound(self, run: Run, discs: Path) -> None:
        for path in discs.rglob("*.sph"):
            path.unlink()
        done = run("prepare", "--from", "fisher", "--dev-share", 0, "--test-share", 0, discs, "out")
        assert "WARNING: no .sph files: the sets will have no wav.scp" in done.err
        assert done.last == "Done 19, 0 errors"
        assert not Path("out/train/wav.scp").exists()

    def test_discs_in_several_folders(self, run: Run, discs: Path) -> None:
        done = run("prepare", "--from", "fisher", *sorted(p for p in discs.iterdir() if p.is_dir()), "out")
        assert done.last == "Done 19, 0 errors"
        shutil.copytree(discs / "LDC2005T19", discs / "again")
        done = run("prepare", "--from", "fisher", discs, "out")
        assert "WARNING: 2 files are there twice; the first of each is taken" in done.err
        (discs / "loop").symlink_to(discs)
        assert run("prepare", "--from", "fisher", discs, "out").last == "Done 19, 0 errors"

    def test_bad_files_are_reported_and_the_others_go_on(self, run: Run, discs: Path) -> None:
        place(discs, "fe_03_00003", "sph").unlink()
        original = place(discs, "fe_03_00004", "txo")
        original.write_text("nothing\n")
        path = place(discs, "fe_03_00002", "txt")
        lines = path.read_text().splitlines()
        lines[3:3] = ["nonsense", "9.0 8.0 A: backwards it goes", "1.x 2.0 B: no number", lines[7]]
        path.write_text("\n".join(lines))
        other = place(discs, "fe_03_05851", "txt")
        other.write_text(other.read_text().replace("fe_03_05851.sph", "fe_03_09999.sph"))
        done = run("prepare", "--from", "fisher", "--dev-share", 0, "--test-share", 0, discs, "out")
        assert (done.status, done.last) == (0, "Done 6, 7 errors")
        assert [x.removeprefix("ERROR: ") for x in done.err.splitlines() if x.startswith("ERROR")] == [
            "fe_03_00003: expected its sound fe_03_00003.sph, got none; name the folder of its disc. Left out",
            f"{path}:4: expected '<start-s> <end-s> A: <words>' (or B:), got 'nonsense'; left out",
            f"{path}:5: expected 0 <= start-s < end-s < 10000, got 9.0 and 8.0; left out",
            f"{path}:6: expected a time in seconds, got '1.x'; write it as a number",
            f"{path}:12: expected each utterance once, got 'fe_03_00002-A-000250-000877' again; left out",
            f"{original}: expected turns 'L: …' and 'R: …', got none; is it a transcript of BBN/WordWave?",
            f"{other}:1: expected '# fe_03_05851.sph', got '# fe_03_09999.sph'; is the file named after another call?",
        ]

    def test_sides_the_other_way_round(self, run: Run, discs: Path) -> None:
        run("prepare", "--from", "fisher", discs, "before")
        path = place(discs, "fe_03_05851", "txo")
        path.write_text(path.read_text().replace("L:", "X:").replace("R:", "L:").replace("X:", "R:"))
        done = run("prepare", "--from", "fisher", discs, "after")
        assert "1 calls have L and R the other way round" in done.err
        assert Path("before/train/text_punct").read_text() == Path("after/train/text_punct").read_text()

    def test_a_set_of_nothing_is_not_made(self, run: Run, discs: Path) -> None:
        place(discs, "fe_03_05851", "txo").write_text("L: No.")
        done = run("prepare", "--from", "fisher", "--dev-share", 0.25, "--test-share", 0.25, discs, "out")
        assert (done.status, done.last) == (0, "Done 15, 1 errors")
        assert "ERROR: out/test: expected utterances for it, got none that can be used; not made" in done.err
        assert sorted(p.name for p in Path("out").iterdir()) == ["dev", "train"]

    def test_no_discs(self, run: Run, discs: Path, tmp_path: Path) -> None:
        done = run("prepare", "--from", "fisher", "nowhere", "out")
        assert "ERROR: nowhere: expected a folder of the corpus, got no directory; check the path" in done.err
        (tmp_path / "empty").mkdir()
        done = run("prepare", "--from", "fisher", "empty", "out")
        assert (
            "ERROR: empty: expected transcripts data/trans/NNN/fe_03_NNNNN.txt below, got none; name the folders that "
            "hold fe_03_p1_tran and fe_03_p2_tran (LDC2004T19, LDC2005T19)"
        ) in done.err
        for path in discs.rglob("fe_03_0000[234].txt"):
            path.unlink()
        place(discs, "fe_03_05851", "txt").unlink()
        done = run("prepare", "--from", "fisher", discs, "out")
        assert "expected calls with both transcripts (and sound, if any has it), got none; name all discs" in done.err

    def test_an_original_turn_by_turn(self, tmp_path: Path) -> None:
        path = tmp_path / "x.txo"
        path.write_bytes(
            b"# header\nCall 7\nL:  It\x92s me,\nMarta. [LAUGH]\n\nR1: ~TV? *Blorp*, @NASA.\nL: Y-[?] yes --\n"
        )
        odd = Oddities()
        assert read_original(path, odd) == {"A": "It’s me, Marta. Y- yes --", "B": "TV? Blorp, NASA."}
        assert (odd.recoded, odd.headed) == ([path], [path])

    def test_markup(self) -> None:
        assert clean("a [MN] b[?], [LAUGH]. (c) it's ^Bob d-") == "a b, . (c) it's Bob d-"

    @given(st.binary(max_size=200), st.text("LR:AB 0123.-()[]~\n\xe9", max_size=200))
    @settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_no_bytes_crash_it(self, tmp_path: Path, raw: bytes, text: str) -> None:
        for content in (raw, text.encode(), text.encode("cp1252")):
            path = tmp_path / "fe_03_00001.txt"
            path.write_bytes(content)
            with contextlib.suppress(KaldiPunctError):
                read_transcript(path, [].append, Oddities())
            with contextlib.suppress(KaldiPunctError):
                read_original(path, Oddities())

    def test_unclear_and_noises(self, tmp_path: Path) -> None:
        path = tmp_path / "fe_03_00001.txt"
        path.write_text("# fe_03_00001.sph\r\n\r\n0.5 1.5 A: (( oh Yeah )) [cough] [LAUGH]\r\n")
        errors: list[KaldiPunctError] = []
        (utterance,) = read_transcript(path, errors.append, Oddities())
        assert (utterance.words, utterance.is_unclear) == (("oh", "yeah", "[noise]", "[laughter]"), True)
        assert not errors
