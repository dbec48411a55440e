"""Windows over a conversation: every word answered once, context on both sides, nothing longer than asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from kaldi_punct.batch import IGNORE, Example, PieceTable, batch_by_budget, collate
from kaldi_punct.timing import N_TIMING
from kaldi_punct.types import Word
from kaldi_punct.windows import Sound, build_track, cut_example, cut_windows


@pytest.fixture(scope="module")
def table() -> PieceTable:
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{c}" for c in letters)]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PieceTable(tokenizer, 2, 3, 1)


@given(st.lists(st.integers(1, 40) | st.just(100), max_size=300), st.integers(16, 64), st.integers(0, 20))
def test_every_word_is_answered_once_in_order(n_pieces: list[int], max_pieces: int, margin: int) -> None:
    windows = cut_windows(n_pieces, max_pieces, margin)
    answered = [i for w in windows for i in range(w.first, w.last)]
    assert answered == list(range(len(n_pieces)))
    for w in windows:
        assert w.start <= w.first <= w.last <= w.stop
        assert sum(min(n, max_pieces - 2) for n in n_pieces[w.start : w.stop]) <= max_pieces - 2


def test_neighbours_share_the_margin() -> None:
    windows = cut_windows([1] * 100, 34, 8)
    assert windows[0].stop - windows[0].last == 8
    assert windows[1].first - windows[1].start == 8
    assert windows[1].first == windows[0].last


@pytest.mark.parametrize("n_words", [28, 29, 30, 31, 32, 33, 34, 60, 61, 62])
def test_lengths_around_every_window_edge(n_words: int) -> None:
    windows = cut_windows([1] * n_words, 32, 5)
    assert [i for w in windows for i in range(w.first, w.last)] == list(range(n_words))


def test_a_word_longer_than_the_window_is_cut_and_keeps_its_place(table: PieceTable) -> None:
    track = build_track([Word("ab"), Word("x" * 600), Word("cd")], table)
    windows = cut_windows([len(p) for p in track.pieces], 48, 4)
    examples = [cut_example(track, w.start, w.stop, table, 48, 1.0) for w in windows]
    assert [i for w in windows for i in range(w.first, w.last)] == [0, 1, 2]
    assert all(e.n_pieces <= 48 for e in examples)


def test_a_word_that_the_tokenizer_swallows_still_has_a_piece(table: PieceTable) -> None:
    assert table("\u200b") == (1,)
    assert table("") == (1,)
    assert table("AB") == table("ab")


def test_frames_of_a_window_begin_with_its_left_context(table: PieceTable) -> None:
    frames = np.arange(1000, dtype=np.float32)[:, None]
    words = [Word("a", 5.0, 0.2), Word("b", 5.5, 0.2)]
    track = build_track(words, table, Sound(frames, 0.01))
    example = cut_example(track, 0, 2, table, 48, 2.0)
    assert example.frames is not None
    assert example.last_frames is not None
    assert example.onset_frames is not None
    assert example.frames[0, 0] == 300  # 2 s before the first word
    assert example.frames[example.last_frames[0], 0] == 519
    assert example.frames[example.onset_frames[0], 0] == 549
    shorter = cut_example(track, 0, 2, table, 48, 0.5)
    assert shorter.frames is not None
    assert shorter.frames[0, 0] == 450


def test_audio_that_begins_later_than_the_words_clock(table: PieceTable) -> None:
    frames = np.arange(1000, dtype=np.float32)[:, None]
    track = build_track([Word("a", 5.0, 0.2)], table, Sound(frames, 0.01, start_s=4.0))
    example = cut_example(track, 0, 1, table, 48, 2.0)
    assert example.frames is not None
    assert example.last_frames is not None
    assert example.frames[example.last_frames[0], 0] == 119


def heard_span(table: PieceTable, words: list[Word], start: int, stop: int, by_times: bool) -> tuple[int, int]:
    """First and last frame that a window of words hears; (0, 0) for none."""
    frames = np.arange(10_000, dtype=np.float32)[:, None]
    track = build_track(words, table, Sound(frames, 0.01, by_times=by_times))
    heard = cut_example(track, start, stop, table, 48, 2.0).frames
    assert heard is not None
    return (int(heard[0, 0]), int(heard[-1, 0])) if len(heard) else (0, 0)


def test_words_without_times_hear_nothing_by_times_and_everything_without(table: PieceTable) -> None:
    words = [Word(w) for w in "abcd"]
    assert heard_span(table, words, 0, 4, by_times=True) == (0, 0)
    assert heard_span(table, words, 0, 4, by_times=False) == (0, 9999)


def test_long_sound_of_words_without_times_is_cut_where_they_may_be(table: PieceTable) -> None:
    words = [Word("a")] * 100  # 100 s of sound: a word a second
    # 10 s of margin, 2 s of left context before and 0.5 s of pause after.
    assert heard_span(table, words, 40, 50, by_times=False) == (2800, 6050)
    # A timed word before and one after put the guess right.
    words[30] = Word("a", 60.0, 1.0)
    words[60] = Word("a", 90.0, 1.0)
    first, last = heard_span(table, words, 40, 50, by_times=False)
    assert (first, last) == (5800, 9050)
    # Where the first and the last word have times, these decide.
    words[40], words[49] = Word("a", 65.0, 1.0), Word("a", 75.0, 1.0)
    assert heard_span(table, words, 40, 50, by_times=False) == heard_span(table, words, 40, 50, by_times=True)


def test_collate_pads_and_masks() -> None:
    long = Example(
        np.array([2, 4, 5, 6, 3]), np.array([1, 3]), np.ones((2, N_TIMING), np.float32), marks=np.array([1, 2])
    )
    short = Example(np.array([2, 7, 3]), np.array([1]), np.ones((1, N_TIMING), np.float32), marks=np.array([3]))
    batch = collate([long, short])
    assert batch.piece_ids.tolist() == [[2, 4, 5, 6, 3], [2, 7, 3, 0, 0]]
    assert batch.piece_mask.sum(1).tolist() == [5, 3]
    assert batch.piece_words.tolist() == [[-1, 0, 0, 1, -1], [-1, 0, -1, -1, -1]]
    assert batch.first_pieces.tolist() == [[1, 3], [1, 0]]
    assert batch.last_pieces.tolist() == [[2, 3], [1, 0]]
    assert batch.word_mask.tolist() == [[True, True], [True, False]]
    assert batch.marks is not None
    assert batch.marks.tolist() == [[1, 2], [3, IGNORE]]
    assert batch.frames is None
    assert batch.last_frames.tolist() == [[-1, -1], [-1, -1]]


@given(st.lists(st.integers(2, 60), max_size=60), st.integers(60, 400))
def test_batches_keep_the_padded_budget(lengths: list[int], budget: int) -> None:
    examples = [Example(np.zeros(n, np.int64), np.array([1]), np.zeros((1, N_TIMING), np.float32)) for n in lengths]
    groups = list(batch_by_budget(examples, budget))
    assert [e.n_pieces for g in groups for e in g] == lengths
    assert all(max(e.n_pieces for e in g) * len(g) <= budget for g in groups)
