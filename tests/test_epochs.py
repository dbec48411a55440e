"""Batches of like lengths: how much of them is padding, and that nothing is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import write_data_dir
from tokenizers import Tokenizer, models, pre_tokenizers

from kaldi_punct.batch import PieceTable, collate
from kaldi_punct.config import DataConfig, ModelConfig
from kaldi_punct.dataset import read_conversations
from kaldi_punct.epochs import MAX_PADDING, EpochExamples, bucket, recolour
from kaldi_punct.hearing import sound_reader
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.labels import LabelSet
from kaldi_punct.models.speech import make_source

LENGTHS = st.lists(st.tuples(st.integers(3, 192), st.integers(0, 5000)), min_size=1, max_size=80)


def padding(lengths: np.ndarray, batches: list[list[int]]) -> float:
    padded = sum(len(b) * max(lengths[b]) for b in batches)
    return 1 - lengths.sum() / padded


@settings(max_examples=150, deadline=None)
@given(LENGTHS, st.sampled_from([192, 300, 1536]), st.integers(0, 2**31), st.booleans())
def test_less_than_a_twentieth_is_padding(
    lengths: list[tuple[int, int]], budget: int, seed: int, with_sound: bool
) -> None:
    n_pieces, n_frames = np.array(lengths).T
    if not with_sound:
        n_frames = n_frames * 0
    batches = bucket(n_pieces, n_frames, budget, np.random.default_rng(seed))
    assert sorted(k for b in batches for k in b) == list(range(len(lengths)))
    assert all(len(b) * max(n_pieces[b]) <= budget for b in batches)
    assert padding(n_pieces, batches) < MAX_PADDING == 0.05
    again = bucket(n_pieces, n_frames, budget, np.random.default_rng(seed))
    assert batches == again


def test_one_longer_than_the_budget_goes_alone() -> None:
    n_pieces = np.array([50, 300, 50])
    batches = bucket(n_pieces, n_pieces * 0, 192, np.random.default_rng(0))
    assert sorted(map(sorted, batches)) == [[0, 2], [1]]


@pytest.mark.parametrize("budget", [192, 384, 1536])
def test_batches_stay_full_where_lengths_are_many(budget: int) -> None:
    """As in a corpus of turns: a bound on padding must not be paid for with batches of one."""
    rng = np.random.default_rng(0)
    n_pieces = np.clip(rng.lognormal(3.5, 0.6, 1500).astype(int), 4, 192)
    batches = bucket(n_pieces, n_pieces * 0, budget, rng)
    assert padding(n_pieces, batches) < MAX_PADDING
    assert len(batches) < 1.2 * n_pieces.sum() / budget


def test_sounds_of_like_length_go_together() -> None:
    rng = np.random.default_rng(0)
    n_pieces = np.clip(rng.lognormal(3.5, 0.6, 1500).astype(int), 4, 192)
    n_frames = (n_pieces * rng.uniform(15, 45, 1500)).astype(int)  # slow and fast speakers
    by_sound = bucket(n_pieces, n_frames, 192, np.random.default_rng(1))
    by_pieces = bucket(n_pieces, n_frames * 0, 192, np.random.default_rng(1))
    assert padding(n_pieces, by_sound) < MAX_PADDING
    assert padding(n_frames, by_sound) < 0.1 < padding(n_frames, by_pieces)
    assert len(by_sound) < 1.1 * len(by_pieces)


def test_mates_and_order_change_from_epoch_to_epoch() -> None:
    n_pieces = np.random.default_rng(0).integers(10, 60, 200)
    first, second = (bucket(n_pieces, n_pieces * 30, 192, np.random.default_rng([1, e])) for e in (0, 1))
    assert first != second
    assert len({frozenset(b) for b in first} & {frozenset(b) for b in second}) < len(first) / 3


@pytest.fixture(scope="module")
def table() -> PieceTable:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PieceTable(tokenizer, 2, 3, 1)


def test_padding_is_told_as_it_is_and_sources_are_named(table: PieceTable, tmp_path: Path) -> None:
    data = DataDir(write_data_dir(tmp_path / "d", n_utts=6, with_sound=True))
    reader = sound_reader(data, make_source(ModelConfig(acoustic="melspec")), by_times=True)
    conversations, _ = read_conversations(data, table, LabelSet(), read_sound=reader)
    nothing = {f"hide_{name}_prob": 0.0 for name in ("times", "confidence", "speakers", "audio")}
    config = DataConfig(max_pieces=16, mask_words=1, **nothing)
    epoch = EpochExamples(conversations, [1] * 6, table, config, seed=1, epoch=0, batch_pieces=48)
    batches = [collate(epoch.batch(i)) for i in range(len(epoch))]
    real = sum(int(b.piece_mask.sum()) for b in batches)
    assert epoch.padding == pytest.approx(1 - real / sum(b.piece_ids.size for b in batches))
    real = sum(int(b.frame_lens.sum()) for b in batches)
    shapes = [b.frames.shape for b in batches if b.frames is not None]
    assert epoch.frame_padding == pytest.approx(1 - real / sum(n_b * n_t for n_b, n_t, _ in shapes))
    assert epoch.n_words(1, 3) == sum(e.n_words for i in (1, 2) for e in epoch.batch(i))
    for example in epoch.batch(0):
        utt_id, words = example.source.split(" words ")
        first, last = map(int, words.split("-"))
        assert last - first + 1 == example.n_words
        conversation = next(c for c in conversations if c.rec_id == utt_id)
        assert np.array_equal(conversation.track.timing[first - 1 : last], example.timing)


class TestRecolour:
    def test_all_frames_of_a_window_are_moved_by_one_smooth_curve_and_pitch_is_not(self) -> None:
        frames = np.random.default_rng(1).normal(size=(50, 84)).astype(np.float32)
        moved = recolour(frames, 1.0, np.random.default_rng(2)) - frames
        assert moved[:, 80:].max() == 0
        assert np.allclose(moved, moved[:1], atol=1e-5)
        assert 0 < np.abs(np.diff(moved[0, :80])).max() < np.abs(moved[0, :80]).max()

    def test_the_size_is_that_of_the_level(self) -> None:
        frames = np.zeros((1, 80), np.float32)
        levels = [recolour(frames, 2.0, np.random.default_rng(i)).mean() for i in range(400)]
        assert np.std(levels) == pytest.approx(2.0, rel=0.15)
        assert np.mean(levels) == pytest.approx(0.0, abs=0.4)

    def test_a_batch_is_the_same_whichever_were_built_before_and_training_data_stay(
        self, table: PieceTable, tmp_path: Path
    ) -> None:
        data = DataDir(write_data_dir(tmp_path / "d", n_utts=4, with_sound=True))
        reader = sound_reader(data, make_source(ModelConfig(acoustic="melspec")), by_times=True)
        conversations, _ = read_conversations(data, table, LabelSet(), read_sound=reader)
        before = [c.track.sound.frames.copy() for c in conversations if c.track.sound is not None]
        assert before

        def examples(size: float) -> EpochExamples:
            config = DataConfig(hide_audio_prob=0.0, hide_times_prob=0.0, recolour=size)
            return EpochExamples(conversations, [1] * 4, table, config, seed=1, epoch=0, batch_pieces=192)

        one, same, plain = (examples(size).batch(0)[0].frames for size in (1.0, 1.0, 0.0))
        assert one is not None
        assert same is not None
        assert plain is not None
        assert np.array_equal(one, same)
        assert not np.array_equal(one, plain)
        for c, frames in zip(conversations, before, strict=True):
            assert c.track.sound is not None
            assert np.array_equal(c.track.sound.frames, frames)
