"""Labelled conversations and the examples of an epoch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tiny import write_data_dir
from tokenizers import Tokenizer, models, pre_tokenizers

from kaldi_punct.batch import IGNORE, PieceTable
from kaldi_punct.config import DataConfig
from kaldi_punct.dataset import count_words, mixed_lexicon, read_conversations
from kaldi_punct.epochs import EpochExamples, hide
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.labels import LabelSet
from kaldi_punct.timing import CONFIDENCE_COLUMNS, SPEAKER_COLUMNS, TIME_COLUMNS
from kaldi_punct.types import Word
from kaldi_punct.windows import Sound, build_track

LABELS = LabelSet()
UNK = 9  # a piece that no word has


@pytest.fixture(scope="module")
def table() -> PieceTable:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PieceTable(tokenizer, 2, 3, 1)


def write(directory: Path, **tables: str) -> DataDir:
    directory.mkdir()
    for name, text in tables.items():
        (directory / name).write_text(text)
    return DataDir(directory)


def test_the_reference_is_projected_onto_the_decoders_words(table: PieceTable, tmp_path: Path) -> None:
    data = write(
        tmp_path / "d",
        text_punct="u1 Well, harbour lights <noise>? OK.\n",
        ctm="u1 1 0.0 0.2 harbor 0.9\nu1 1 0.2 0.2 lights 0.9\nu1 1 0.4 0.1 <unk> 0.1\nu1 1 0.5 0.2 ok 0.8\n",
    )
    conversations, tally = read_conversations(data, table, LABELS)
    assert len(conversations) == 1
    conversation = conversations[0]
    assert [w.word for w in conversation.labels] == ["harbor", "lights", "ok"]
    assert [LABELS.marks[m] for m in conversation.marks] == ["", "?", "."]
    assert tally.n_marks == 3
    assert tally.n_marks_lost == 1
    assert "1 lost in projection, 33.3 %" in str(tally)


def test_segments_of_a_recording_are_one_conversation(table: PieceTable, tmp_path: Path) -> None:
    data = write(
        tmp_path / "d",
        text_punct="r-1 Hello there,\nr-2 my friend.\n",
        segments="r-1 r 0.0 1.0\nr-2 r 1.0 2.0\n",
        utt2spk="r-1 r\nr-2 r\n",
    )
    conversations, _ = read_conversations(data, table, LABELS)
    assert [[w.word for w in c.labels] for c in conversations] == [["hello", "there", "my", "friend"]]


def test_an_utterance_without_reference_is_context_and_counted(table: PieceTable, tmp_path: Path) -> None:
    data = write(
        tmp_path / "d",
        text_punct="r-1 Hello.\n",
        text="r-1 hello\nr-2 you\n",
        segments="r-1 r 0.0 1.0\nr-2 r 1.0 2.0\n",
    )
    conversations, tally = read_conversations(data, table, LABELS)
    assert conversations[0].marks.tolist() == [2, IGNORE]
    assert tally.n_without_reference == 1


def test_max_words_takes_whole_conversations_by_seed(table: PieceTable, tmp_path: Path) -> None:
    data = DataDir(write_data_dir(tmp_path / "d"))
    some, tally = read_conversations(data, table, LABELS, max_words=40, seed=1)
    assert 40 <= tally.n_words < 80
    again, _ = read_conversations(data, table, LABELS, max_words=40, seed=1)
    other, _ = read_conversations(data, table, LABELS, max_words=40, seed=5)
    assert [c.rec_id for c in some] == [c.rec_id for c in again] != [c.rec_id for c in other]


def test_epochs_are_reproducible_and_can_be_entered_anywhere(table: PieceTable, tmp_path: Path) -> None:
    conversations, _ = read_conversations(DataDir(write_data_dir(tmp_path / "d")), table, LABELS)

    def epoch(number: int, seed: int = 1, repeats: int = 1) -> EpochExamples:
        config = DataConfig(max_pieces=16, mask_words=1)
        return EpochExamples(
            conversations, [repeats] * len(conversations), table, config, seed=seed, epoch=number, batch_pieces=48
        )

    first = [[e.timing for e in b] for b in epoch(0).batches()]
    later = [[e.timing for e in b] for b in epoch(0).batches(2)]
    assert len(first) == len(epoch(0))
    assert len(later) == len(first) - 2
    assert all(np.array_equal(x, y) for a, b in zip(first[2:], later, strict=True) for x, y in zip(a, b, strict=True))
    assert [b[0].n_pieces for b in epoch(0).batches()] != [b[0].n_pieces for b in epoch(1).batches()]
    assert len(epoch(0, repeats=3)) > 2 * len(epoch(0))
    assert all(max(e.n_pieces for e in b) * len(b) <= 48 for b in epoch(0).batches())


def test_every_word_is_learnt_from_and_edges_are_masked(table: PieceTable, tmp_path: Path) -> None:
    conversations, _ = read_conversations(DataDir(write_data_dir(tmp_path / "d", n_utts=1)), table, LABELS)
    n_words = len(conversations[0].marks)
    config = DataConfig(max_pieces=12, mask_words=2, crop_prob=0.0)
    epoch = EpochExamples(conversations, [1], table, config, seed=1, epoch=0, batch_pieces=12)
    targets = sum(int((e.marks != IGNORE).sum()) for b in epoch.batches() for e in b if e.marks is not None)
    assert targets == n_words


def test_hiding(table: PieceTable, tmp_path: Path) -> None:
    conversations, _ = read_conversations(DataDir(write_data_dir(tmp_path / "d", n_utts=1)), table, LABELS)
    track = conversations[0].track
    rng = np.random.default_rng(0)
    nothing = DataConfig(hide_times_prob=0, hide_confidence_prob=0, hide_speakers_prob=0, hide_audio_prob=0)
    for name, columns in (("times", TIME_COLUMNS), ("confidence", CONFIDENCE_COLUMNS), ("speakers", SPEAKER_COLUMNS)):
        config = DataConfig(**{**vars(nothing), f"hide_{name}_prob": 1.0})
        hidden = hide(track, config, rng, UNK)
        rest = [c for c in range(track.timing.shape[1]) if c not in columns]
        assert not hidden.timing[:, list(columns)].any()
        assert np.array_equal(hidden.timing[:, rest], hide(track, nothing, rng, UNK).timing[:, rest])
        assert np.isnan(hidden.start_s).all() == np.isnan(hidden.end_s).all() == (name == "times")
    assert hide(track, nothing, rng, UNK) == track


def test_sound_that_is_heard_by_word_times_is_hidden_with_them(table: PieceTable) -> None:
    nothing = {f"hide_{name}_prob": 0.0 for name in ("times", "confidence", "speakers", "audio")}
    rng = np.random.default_rng(0)
    for by_times in (True, False):
        sound = Sound(np.zeros((100, 4), np.float32), 0.01, by_times=by_times)
        track = build_track([Word("a", 0.1, 0.2), Word("b", 0.5, 0.2)], table, sound)
        assert hide(track, DataConfig(**nothing), rng, UNK).sound is sound
        assert hide(track, DataConfig(**{**nothing, "hide_audio_prob": 1.0}), rng, UNK).sound is None
        untimed = hide(track, DataConfig(**{**nothing, "hide_times_prob": 1.0}), rng, UNK)
        assert (untimed.sound is None) == by_times
        assert track.start_s[0] == 0.1


def test_words_are_hidden_at_random(table: PieceTable) -> None:
    track = build_track([Word("ab", 0.1, 0.2), Word("c", 0.5, 0.2)] * 200, table)
    nothing = {f"hide_{name}_prob": 0.0 for name in ("times", "confidence", "speakers", "audio")}

    def hidden(seed: int, **more: float) -> list[bool]:
        found = hide(track, DataConfig(**nothing, **more), np.random.default_rng(seed), UNK)
        assert [len(p) for p in found.pieces] == [len(p) for p in track.pieces]
        assert found.timing is track.timing
        flags = [p != q for p, q in zip(found.pieces, track.pieces, strict=True)]
        assert all(set(p) == {UNK} for p, h in zip(found.pieces, flags, strict=True) if h)
        return flags

    assert all(hidden(0, hide_words_prob=1.0))
    assert not any(hidden(0, hide_words_prob=0.0))
    windows = [all(hidden(seed, hide_words_prob=0.3)) for seed in range(200)]
    assert 40 < sum(windows) < 80
    assert 20 < sum(hidden(0, drop_word_prob=0.1)) < 60


def test_words_are_counted_as_they_are_read(table: PieceTable, tmp_path: Path) -> None:
    data = DataDir(write_data_dir(tmp_path / "d"))
    whole = count_words(data, LABELS)
    conversations, _ = read_conversations(data, table, LABELS)
    assert whole == Counter(w.word.lower() for c in conversations for w in c.labels)
    some, _ = read_conversations(data, table, LABELS, max_words=40, seed=1)
    assert count_words(data, LABELS, max_words=40, seed=1).total() == sum(len(c.labels) for c in some)


def test_the_lexicon_keeps_the_most_frequent_mixed_form(table: PieceTable, tmp_path: Path) -> None:
    text = " ".join(["McDonald"] * 3 + ["MCDonald"] + ["iPhone"] * 2 + ["NASA"] * 5)
    conversations, _ = read_conversations(write(tmp_path / "d", text_punct=f"u1 {text}.\n"), table, LABELS)
    assert mixed_lexicon(conversations) == {"mcdonald": "McDonald"}
    assert mixed_lexicon(conversations, min_count=2) == {"mcdonald": "McDonald", "iphone": "iPhone"}
