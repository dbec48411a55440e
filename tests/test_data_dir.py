"""Kaldi data directories: utterances, conversations, and what is refused or counted."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from kaldi_punct.errors import FormatError, UtteranceError
from kaldi_punct.kaldi.data_dir import Conversation, DataDir
from kaldi_punct.types import Utterance, Word

Make = Callable[..., DataDir]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a data directory of tables given as name=content; ``_`` of a name stands for a dot in ``wav_scp``."""

    def make(**tables: str) -> DataDir:
        for name, content in tables.items():
            (tmp_path / name.replace("wav_scp", "wav.scp")).write_text(content, encoding="utf-8")
        return DataDir(tmp_path)

    return make


def words(data_dir: DataDir) -> dict[str, list[str]]:
    return {u.utt_id: [w.word for w in u.words] for u in data_dir}


def test_words_come_from_text(make: Make) -> None:
    data_dir = make(text="a hello you\nb \n", utt2spk="a s\nb s\n", text_punct="a Hello, you.\n")
    assert list(data_dir) == [
        Utterance("a", (Word("hello", spk_id="s"), Word("you", spk_id="s")), "a"),
        Utterance("b", (), "b"),
    ]
    assert len(data_dir) == 2
    assert dict(data_dir.text_punct) == {"a": "Hello, you."}


def test_words_come_from_text_punct_where_there_is_no_text(make: Make) -> None:
    data_dir = make(text_punct="a Hello, [noise] you.\nb “Yes!”\n")
    assert words(data_dir) == {"a": ["hello", "[noise]", "you"], "b": ["yes"]}


def test_words_come_from_the_ctm_first(make: Make) -> None:
    data_dir = make(text="a hello\nb you\n", ctm="a 1 0.5 0.25 hallo 0.9\n", utt2spk="a s\nb s\n")
    assert list(data_dir) == [
        Utterance("a", (Word("hallo", 0.5, 0.25, 0.9, "s"),), "a", "1"),
        Utterance("b", (), "b"),
    ]
    assert data_dir.ctm["a"] == (Word("hallo", 0.5, 0.25, 0.9, "s"),)
    assert list(data_dir.ctm) == ["a"]


def test_tables_may_be_compressed(tmp_path: Path) -> None:
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"a hello\n"))
    assert words(DataDir(tmp_path)) == {"a": ["hello"]}


def test_a_ctm_of_several_channels_is_keyed_by_them(make: Make) -> None:
    data_dir = make(ctm="r1 A 0 1 a\nr1 B 0 1 b\nr1 A 2 1 c\nr2 A 0 1 d\n", utt2spk="r1-B bob\nr2 dan\n")
    assert words(data_dir) == {"r1-A": ["a", "c"], "r1-B": ["b"], "r2": ["d"]}
    assert [(u.rec_id, u.channel, u.words[0].spk_id) for u in data_dir] == [
        ("r1", "A", None),
        ("r1", "B", "bob"),
        ("r2", "A", "dan"),
    ]
    assert [(c.rec_id, c.channel, len(c.utterances)) for c in data_dir.conversations()] == [
        ("r1", "A", 1),
        ("r1", "B", 1),
        ("r2", "A", 1),
    ]


SEGMENTS = "a-2 r1 10.0 12.0\nb-1 r2 0.0 4.0\nc-1 r1 2.5 9.0\n"


def test_segments_make_conversations_in_time_order(make: Make) -> None:
    data_dir = make(text="a-2 two\nb-1 other\nc-1 one\n", segments=SEGMENTS, reco2file_and_channel="r1 f A\nr2 f B\n")
    one, two = data_dir["c-1"], data_dir["a-2"]
    assert one == Utterance("c-1", (Word("one"),), "r1", "A", 2.5, 9.0)
    assert list(data_dir.conversations()) == [
        Conversation("r1", "A", (one, two)),
        Conversation("r2", "B", (data_dir["b-1"],)),
    ]
    assert [u.utt_id for u in data_dir] == ["a-2", "b-1", "c-1"]


def test_a_ctm_of_utterances_is_put_on_the_recording_s_clock(make: Make) -> None:
    data_dir = make(segments=SEGMENTS, ctm="a-2 1 0.5 0.25 two 0.9\nc-1 1 0 1 one\n", utt2spk="a-2 s\nb-1 s\nc-1 t\n")
    assert data_dir["a-2"].words == (Word("two", 10.5, 0.25, 0.9, "s"),)
    assert data_dir["c-1"].words == (Word("one", 2.5, 1.0, None, "t"),)
    assert data_dir["b-1"].words == ()
    assert [len(c.utterances) for c in data_dir.conversations()] == [2, 1]


@pytest.mark.parametrize(("rec_id", "channel"), [("r1", "1"), ("file", "A")])
def test_a_ctm_of_recordings_is_cut_into_segments(make: Make, rec_id: str, channel: str) -> None:
    lines = [
        (2.0, "before"),
        (8.6, "inside"),
        (8.9, "across"),
        (9.2, "nearer"),
        (9.7, "later"),
        (10.5, "in"),
        (13.0, "end"),
    ]
    ctm = "".join(f"{rec_id} {channel} {start_s} 0.4 {word}\n" for start_s, word in lines)
    data_dir = make(segments=SEGMENTS, ctm=ctm, reco2file_and_channel="r1 file A\nr2 file B\n")
    assert words(data_dir) == {
        "c-1": ["before", "inside", "across", "nearer"],
        "a-2": ["later", "in", "end"],
        "b-1": [],
    }
    assert data_dir["a-2"].words[1].start_s == 10.5


def test_reco2utt_makes_conversations(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    data_dir = make(
        text_punct="a A.\nb B.\nc C.\nd D.\n",
        reco2utt="r1 c a gone\n",
        ctm="a 1 0 1 a\nc 1 0 1 c\n",
    )
    first, *others = data_dir.conversations()
    assert (first.rec_id, first.channel, [u.utt_id for u in first.utterances]) == ("r1", "1", ["c", "a"])
    assert data_dir["a"].rec_id == "r1"
    assert [(c.rec_id, len(c.utterances)) for c in others] == [("b", 1), ("d", 1)]
    assert "reco2utt: 1 utterances are in no other table (left out): it is stale" in caplog.text


def test_without_both_each_utterance_stands_alone(make: Make) -> None:
    data_dir = make(text="a x\nb y\n")
    assert [c.rec_id for c in data_dir.conversations()] == ["a", "b"]


def test_small_steps_back_are_counted_and_large_ones_are_errors(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        data_dir = make(ctm="a 1 1.0 1 x\na 1 0.95 1 y\nb 1 5 1 x\nb 1 4 1 y\nc 1 0 1 z\n")
    assert data_dir.n_steps_back == 1
    assert list(data_dir.errors) == ["b"]
    assert words(data_dir) == {"a": ["x", "y"], "c": ["z"]}
    assert [c.rec_id for c in data_dir.conversations()] == ["a", "c"]
    for lookup in (data_dir.ctm, data_dir):
        with pytest.raises(
            UtteranceError, match=r"ctm:4: expected times of 'b' that go on, got 'y' at 4 s after 'x' at 5 s"
        ):
            lookup["b"]
    assert "ctm: 1 times step back by at most 0.1 s (taken as they are)" in caplog.text
    assert "ctm:4: expected times of 'b' that go on" in caplog.text


def test_a_stale_text_punct_is_told(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    data_dir = make(text="a x\nb y\nc z\n", text_punct="a X.\nz Gone.\n")
    assert dict(data_dir.text_punct) == {"a": "X."}
    assert "text_punct: 1 utterances are in no other table (left out): it is stale" in caplog.text
    assert "text_punct: 2 utterances are missing from it" in caplog.text


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ({"utt2spk": "a s\n"}, ": expected one of text, text_punct and ctm, got none; is it a Kaldi data directory?"),
        (
            {"text": "b x\na y\n"},
            "/text:2: expected keys sorted in C order, got 'a' after 'b'; run utils/fix_data_dir.sh {path}",
        ),
        (
            {"text": "a x\nb y\n", "utt2spk": "a s\n"},
            "/text: expected only keys that are in utt2spk, got 1 others, first 'b'; run utils/fix_data_dir.sh {path}",
        ),
        (
            {"text": "a x\n", "segments": "a r 0 1\nb r 1 2\n"},
            "/segments: expected only keys that are in text, got 1 others, first 'b'; run utils/fix_data_dir.sh {path}",
        ),
        (
            {"text": "a x\nb y\n", "segments": "a r 0 1\n"},
            "/text: expected only keys that are in segments, got 1 others, first 'b'; run utils/fix_data_dir.sh {path}",
        ),
        (
            {"text": "a x\n", "segments": "a r 0 1\n", "wav_scp": "q q.wav\n"},
            (
                "/segments: expected only keys that are in wav.scp, got 1 others, first 'r'; "
                "run utils/fix_data_dir.sh {path}"
            ),
        ),
        (
            {"text": "a x\n", "wav_scp": "b b.wav\n"},
            "/text: expected only keys that are in wav.scp, got 1 others, first 'a'; run utils/fix_data_dir.sh {path}",
        ),
        (
            {"segments": "a r 0 1\n", "ctm": "q 1 0 1 x\n"},
            (
                "/ctm:1: expected an utterance or a recording of segments, got 'q'; "
                "is this the CTM of another data directory?"
            ),
        ),
        (
            {"segments": "a r 0 1\nb r 1 2\n", "ctm": "a 1 0 1 x\nr 1 0 1 x\n"},
            (
                "/ctm:2: expected the lines of 'a' from one recording and channel, got them from several; "
                "key the CTM by utterance, or by recording, but not by both"
            ),
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Make, tmp_path: Path, tables: dict[str, str], text: str) -> None:
    with pytest.raises(FormatError) as e:
        make(**tables)
    assert str(e.value) == f"{tmp_path}{text}".replace("{path}", str(tmp_path))


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none: expected a Kaldi data directory, got no directory; check the path"):
        DataDir(tmp_path / "none")


def test_the_sample(mini: Path) -> None:
    data_dir = DataDir(mini)
    assert len(data_dir) == 30
    conversations = list(data_dir.conversations())
    assert len(conversations) == len(data_dir.wav_scp) == 6
    for conversation in conversations:
        starts_s = [u.start_s for u in conversation.utterances]
        assert starts_s == sorted(starts_s, key=lambda s: s or 0)
        assert conversation.channel in ("A", "B")
    assert sum(len(c.utterances) for c in conversations) == 30


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "n_utts", "n_recs"), [("turns_dev", 154, 154), ("dev", 776, 154), ("turns_train_a", 815, 815)]
)
def test_real_data_directories(shared: Path, name: str, n_utts: int, n_recs: int) -> None:
    data_dir = DataDir(shared / "data" / "games" / "data" / name)
    assert len(data_dir) == n_utts
    assert len(list(data_dir.conversations())) == n_recs
    if name == "turns_dev":
        assert sum(len(u.words) for u in data_dir) == 4771
        assert words(data_dir) == {u: text.split(" ") for u, text in data_dir.text.items()}
