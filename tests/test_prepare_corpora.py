"""``prepare`` of corpora as they are shipped: podcasts, AMI, Earnings-21, games; made-up lines of each."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import pytest

from kaldi_punct.commands import preparing
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.labels import split
from kaldi_punct.preparation.games import DECODE_DIRS, mark_doubts
from kaldi_punct.preparation.podcasts import unescape
from kaldi_punct.types import Word

Run = Callable[..., SimpleNamespace]
T = TypeVar("T")


def pack(path: Path, *rows: str) -> Path:
    path.write_bytes(gzip.compress("".join(f"{row}\n" for row in rows).encode()))
    return path


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
        assert f"{source}: 2 HTML entities became what they stand for, 1 turns are empty" in done.err
        assert Path("out/text_punct").read_text() == "e-Ann-1 it's me.\n"

    def test_bad_rows(self, run: Run, tmp_path: Path) -> None:
        source = pack(tmp_path / "p.tsv.gz", "e\t1\tAnn\tYes.", "e\t1", "e f\t1\tAnn\tNo.", "e\t1\tAnn\tNo.")
        done = run("prepare", "--from", "podcasts", source, "out")
        assert (done.status, done.last) == (0, "Done 1, 3 errors")
        assert (
            f"{source}:2: expected 4 fields 'episode turn speaker text' with tabs between, got 2; left out" in done.err
        )
        text = "expected an episode and a turn without blanks, each once, got"
        assert f"{source}:3: {text} 'e f', '1'; left out" in done.err
        assert f"{source}:4: {text} 'e', '1'; left out" in done.err
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
        text = "expected a meeting, a channel (neither with blanks) and a word, got"
        assert f"{source}:3: {text} 'm', 'A', ''; left out" in done.err
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


@pytest.mark.parametrize(
    ("kind", "unit", "n"), [("fisher", "call", 4), ("games", "lattice", 90), ("ami", "row", 1), ("podcasts", "row", 1)]
)
def test_it_shows_how_far_it_is(
    run: Run, games: Path, tmp_path: Path, kind: str, unit: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def track(items: Iterable[T], unit: str) -> Iterator[T]:
        for item in items:
            seen.append(unit)
            yield item

    monkeypatch.setattr(preparing, "with_progress", track)
    source = {
        "fisher": Path(__file__).parent / "data" / "fisher",
        "games": games,
        "ami": pack(tmp_path / "ami.gz", "m\tA\t1.0\t1.5\tWell\t."),
        "podcasts": pack(tmp_path / "podcasts.gz", "e\t1\tAnn\tYes."),
    }[kind]
    assert run("prepare", "--from", kind, source, "out").status == 0
    assert seen == [unit] * n
