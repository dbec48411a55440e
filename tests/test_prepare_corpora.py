"""``prepare`` of corpora as they are shipped: Fisher, podcasts, AMI, Earnings-21, games; made-up lines of each."""

from __future__ import annotations

import gzip
import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kaldi_punct.cli import main
from kaldi_punct.errors import KaldiPunctError
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.labels import split
from kaldi_punct.preparation.fisher import clean, read_original, read_transcript
from kaldi_punct.preparation.games import DECODE_DIRS, mark_doubts
from kaldi_punct.preparation.podcasts import unescape
from kaldi_punct.types import Word

Run = Callable[..., SimpleNamespace]
FISHER = Path(__file__).parent / "data" / "fisher"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line in this process, in an empty directory: exit status, stdout, stderr, its last line."""
    monkeypatch.chdir(tmp_path)

    def call(*args: object) -> SimpleNamespace:
        capfd.readouterr()
        status = main([str(a) for a in args])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return SimpleNamespace(status=status, out=out, err=err, last=err.splitlines()[-1] if err else "")

    return call


def pack(path: Path, *rows: str) -> Path:
    path.write_bytes(gzip.compress("".join(f"{row}\n" for row in rows).encode()))
    return path


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

    def test_an_original_turn_by_turn(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        path = tmp_path / "x.txo"
        path.write_bytes(
            b"# header\nCall 7\nL:  It\x92s me,\nMarta. [LAUGH]\n\nR1: ~TV? *Blorp*, @NASA.\nL: Y-[?] yes --\n"
        )
        with caplog.at_level(logging.INFO):
            assert read_original(path) == {"A": "It’s me, Marta. Y- yes --", "B": "TV? Blorp, NASA."}
        assert f"{path}: no UTF-8, read as Windows-1252" in caplog.text
        assert f"{path}: 1 lines before the first turn (left out)" in caplog.text

    def test_markup(self) -> None:
        assert clean("a [MN] b[?], [LAUGH]. (c) it's ^Bob d-") == "a b, . (c) it's Bob d-"

    def test_unclear_and_noises(self, tmp_path: Path) -> None:
        path = tmp_path / "fe_03_00001.txt"
        path.write_text("# fe_03_00001.sph\r\n\r\n0.5 1.5 A: (( oh Yeah )) [cough] [LAUGH]\r\n")
        errors: list[KaldiPunctError] = []
        (utterance,) = read_transcript(path, errors.append)
        assert (utterance.words, utterance.is_unclear) == (("oh", "yeah", "[noise]", "[laughter]"), True)
        assert not errors


class TestPodcasts:
    def test_conversations_of_turns(self, run: Run, tmp_path: Path) -> None:
        rows = [f"e{e}\t{t:03d}\tSpeaker {t % 2}\tWell, turn {t}." for e in range(4) for t in range(3)]
        source = pack(tmp_path / "p.tsv.gz", *rows)
        assert run("prepare", "--from", "podcasts", source, "all").last == "Done 12, 0 errors"
        conversations = list(DataDir("all").conversations())
        assert [c.rec_id for c in conversations] == ["e0", "e1", "e2", "e3"]
        first = conversations[0].utterances
        assert [u.utt_id for u in first] == ["e0-Speaker_0-000", "e0-Speaker_1-001", "e0-Speaker_0-002"]
        assert first[0].words[0] == Word("well", spk_id="e0-Speaker_0")
        done = run("prepare", "--from", "podcasts", "--max-words", 10, source, "some")
        assert "2 of 4 episodes, 6 turns, 18 words" in done.err
        for seed in range(1, 6):
            run("prepare", "--from", "podcasts", "--max-words", 3, "--seed", seed, source, f"s{seed}")
        assert len({Path(f"s{seed}/reco2utt").read_text() for seed in range(1, 6)}) > 1

    @pytest.mark.parametrize(
        ("text", "plain", "n"),
        [
            ("it&#39;s &quot;fine&quot;", 'it\'s "fine"', 3),
            ("AT&T; R&D &copy that &nbsp;&#x41;", "AT&T; R&D &copy that  A", 2),
            ("&amp;#39;", "&#39;", 1),
            ("a&#10;b", "a b", 1),
        ],
    )
    def test_entities(self, text: str, plain: str, n: int) -> None:
        assert unescape(text) == (plain, n)

    def test_entities_of_a_transcript(self, run: Run, tmp_path: Path) -> None:
        source = pack(tmp_path / "p.tsv.gz", "e\t1\tAnn\tit&#39;s me.", "e\t2\tBob\t&nbsp;")
        done = run("prepare", "--from", "podcasts", source, "out")
        assert f"{source}: 2 HTML entities became what they stand for" in done.err
        assert Path("out/text_punct").read_text() == "e-Ann-1 it's me.\n"

    def test_bad_rows(self, run: Run, tmp_path: Path) -> None:
        source = pack(tmp_path / "p.tsv.gz", "e\t1\tAnn\tYes.", "e\t1", "e f\t1\tAnn\tNo.")
        done = run("prepare", "--from", "podcasts", source, "out")
        assert (done.status, done.last) == (0, "Done 1, 2 errors")
        assert (
            f"{source}:2: expected 4 fields 'episode turn speaker text' with tabs between, got 2; left out" in done.err
        )
        assert f"{source}:3: expected an episode and a turn without blanks, got 'e f', '1'; left out" in done.err
        done = run("prepare", "--from", "podcasts", pack(source, "e"), "none")
        assert done.status == 1
        assert f"{source}: expected rows 'episode turn speaker text' with tabs between, got none that can" in done.err


class TestAmi:
    def test_words_have_their_times(self, run: Run, tmp_path: Path) -> None:
        rows = ["m\tA\t1.0\t1.5\tWell\t,", "m\tA\t\t\tX_M_L_\t", "m\tA\t1.2\t2.0\tyes\t.", "m\tB\t0.5\t0.7\tNo\t?"]
        done = run("prepare", "--from", "ami", pack(tmp_path / "a.tsv.gz", *rows), "d")
        assert "2 meeting channels, 4 words, 1 of them without times, 1 moved" in done.err
        data = DataDir("d")
        assert data.text_punct == {"m-A": "Well, XML yes.", "m-B": "No?"}
        words = {u.utt_id: [(w.word, w.start_s, w.duration_s) for w in u.words] for u in data}
        assert words == {
            "m-A": [("well", 1.0, 0.5), ("xml", 1.5, 0.0), ("yes", 1.5, 0.5)],
            "m-B": [("no", 0.5, 0.2)],
        }

    def test_bad_rows(self, run: Run, tmp_path: Path) -> None:
        rows = ["m\tA\t1.0", "m\tA\t1.0\tx\tWell\t,", "m\tA\t1.0\t1.5\t\t,", "m\tA\t1.0\t1.5\tyes\t."]
        source = pack(tmp_path / "a.tsv.gz", *rows)
        done = run("prepare", "--from", "ami", source, "d")
        assert (done.status, done.last) == (0, "Done 1, 3 errors")
        assert (
            f"{source}:1: expected 6 fields 'meeting channel start end word mark' with tabs between, got 3" in done.err
        )
        assert f"{source}:2: expected a time in seconds, got 'x'; write it as a number" in done.err
        assert f"{source}:3: expected a meeting, a channel and a word, got one of them empty; left out" in done.err
        done = run("prepare", "--from", "ami", pack(source, *rows[:3]), "none")
        assert (done.status, Path("none").exists()) == (1, False)
        assert f"{source}: expected rows 'meeting channel start end word mark' with tabs between, got none" in done.err


class TestEarnings21:
    def test_it_is_taken_as_it_is(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "c").mkdir()
        pack(tmp_path / "c" / "ctm.gz", "call 1 0.00 0.50 well", "call 1 0.50 0.50 yes")
        assert "c/text_punct.call.gz: expected a readable file, got 'No such file or directory'" in (
            run("prepare", "--from", "earnings21", "c", "d").err
        )
        pack(tmp_path / "c" / "text_punct.call.gz", "call Well, yes.")
        assert run("prepare", "--from", "earnings21", "c", "d").status == 0
        data = DataDir("d")
        assert [[w.word for w in u.words] for u in data] == [["well", "yes"]]
        assert data.text_punct == {"call": "Well, yes."}


@pytest.fixture
def games(tmp_path: Path, mini: Path) -> Path:
    """A corpus in the layout of the games: its turn recordings are the utterances of ``egs/mini``, two files each."""
    corpus = tmp_path / "games"
    shutil.copytree(mini / "lang", corpus / "lang")
    words = dict(line.split(" ", 1) for line in (mini / "text").read_text().splitlines())
    punct = dict(line.split(" ", 1) for line in (mini / "text_punct").read_text().splitlines())
    for fold, decode in DECODE_DIRS.items():
        shutil.copytree(mini / "decode", corpus / "decode" / decode)
        shutil.copy(mini / "trans.mdl", corpus / "decode" / Path(decode).parent / "trans.mdl")
        tables: dict[str, list[str]] = {}
        for rec, text in words.items():
            said = text.split()
            tokens = [f"{w.written}|{w.mark or ''}" for w in split(punct[rec])]
            tokens[-1] = tokens[-1].partition("|")[0] + "|"
            for i, (start, part) in enumerate(((0.0, said[:2]), (0.5, said[2:]))):
                tables.setdefault(f"data/{fold}/text", []).append(f"{rec}-{i} {' '.join(part)}")
                tables.setdefault(f"data/turns_{fold}/utt_segments", []).append(
                    f"{rec}-{i} {rec} {start} {start + 0.5}"
                )
            own = f"data/turns_{fold}"
            tables.setdefault(f"{own}/text", []).append(f"{rec} {text}")
            tables.setdefault(f"{own}/text_tok", []).append(f"{rec} {' '.join(tokens)}")
            tables.setdefault(f"{own}/wav.scp", []).append(f"{rec} audio/{rec}.ogg")
            tables.setdefault(f"{own}/utt2spk", []).append(f"{rec} {rec[:8]}")
            tables.setdefault(f"{own}/ctm", []).extend(f"{rec} 1 {i}.00 0.50 {w} 1" for i, w in enumerate(said))
        for name, lines in tables.items():
            (corpus / name).parent.mkdir(parents=True, exist_ok=True)
            (corpus / name).write_text("".join(f"{line}\n" for line in lines))
    return corpus


class TestGames:
    def test_reference_and_asr_words(self, run: Run, games: Path, mini: Path) -> None:
        done = run("prepare", "--from", "games", games, "out")
        assert (done.status, done.last) == (0, "Done 180, 0 errors")
        assert "dev: 30 recordings, 60 files, 31 of them with unknown last mark" in done.err
        ref = DataDir("out/ref/a")
        rec = "harbour-A-000035-000456"
        first = [w.word for w in ref[rec].words]
        assert first[:5] == ["hello", "this", "is", "marta", "at"]
        assert ref.text_punct[rec].endswith("How can I help you⁇")
        assert Path("out/ref/a/file_ends").read_text().splitlines()[0] == f"{rec} 1 {len(first) - 1}"
        assert ref.wav_scp[rec] == f"{games}/audio/{rec}.ogg"
        options = ("--acoustic-scale", 0.1, "--word-ins-penalty", 0.5, "--frame-shift", 0.03, "--transition-model")
        phones = ("--word-boundary", mini / "lang/phones/word_boundary.int")
        best = run("ctm", *options, mini / "trans.mdl", *phones, mini / "decode", mini / "lang/words.txt", "-")
        assert Path("out/asr/dev/ctm").read_text().splitlines() == sorted(
            best.out.splitlines(), key=lambda line: line.split()[0]
        )
        again = run("prepare", "--resume", "--from", "games", games, "out")
        assert again.out == done.out
        assert again.err.count("is there already, left as it is") == 6

    def test_files_that_do_not_hold_their_recording(self, run: Run, games: Path) -> None:
        path = games / "data" / "turns_train_a" / "utt_segments"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
        done = run("prepare", "--from", "games", games, "out")
        assert done.status == 1
        assert (
            f"{path}: expected files of 'harbour-A-000035-000456' that hold its 13 words, got 11; is it whole?"
            in done.err
        )

    def test_doubtful_ends(self) -> None:
        assert mark_doubts("Go| on|, Now| stop|", [1, 3]) == "Go on, Now stop⁇"
        assert mark_doubts("Go| on| Now| stop|.", [1, 3]) == "Go on⁇ Now stop."
        assert mark_doubts("Go| on| and| on|.", [1, 3]) == "Go on and on."

    def test_lattices_that_are_cut_short_make_no_directory(self, run: Run, games: Path) -> None:
        path = games / "decode" / DECODE_DIRS["dev"] / "lat.1.gz"
        path.write_bytes(path.read_bytes()[:-200])
        done = run("prepare", "--from", "games", games, "out")
        assert (done.status, done.last) == (1, "Done 0, 1 errors")
        assert sorted(str(p) for p in Path("out").glob("*/*")) == [
            "out/asr/a", "out/asr/b", "out/ref/a", "out/ref/b", "out/ref/dev",
        ]  # fmt: skip
