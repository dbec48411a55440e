"""The examples of an epoch: conversations cut into windows, hidden in part, put into batches of like lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kaldi_punct.batch import IGNORE, Example, Floats, Ints, PieceTable
from kaldi_punct.config import DataConfig
from kaldi_punct.dataset import LabelledConversation
from kaldi_punct.features import FEATURE_DIMS
from kaldi_punct.labels import FINAL_MARKS
from kaldi_punct.timing import CONFIDENCE_COLUMNS, SPEAKER_COLUMNS, TIME_COLUMNS
from kaldi_punct.windows import Track, count_frames, cut_example

MAX_PADDING = 0.05  # of the pieces of an epoch
_JITTER = 0.03  # how much lengths are blurred, so that examples meet other mates in each epoch
_HYPOTHESES = 2**32 - 1  # of the seed of their draw: no batch has this number
_N_WAVES = 6  # of a recolouring: its level, and up to five half-waves over the mel bins
_STRATUM = 0.07  # lengths that are alike enough to be put together by their sound


@dataclass(frozen=True, slots=True)
class Cut:
    """Words start..stop of a conversation, and how many at each end training does not learn from."""

    conversation: int
    start: int
    stop: int
    mask_left: int
    mask_right: int


class EpochExamples:
    """The examples of one epoch, in an order that depends on (seed, epoch) alone.

    Windows are cut at other places in each epoch; what is hidden in a window is drawn by its own generator, so that an
    epoch can be entered at any batch. Of the hypotheses of a conversation, ``nbest_per_epoch`` are drawn anew in each
    epoch, all of them if that is 0; the conversation's own words are always there.
    """

    def __init__(
        self,
        conversations: Sequence[LabelledConversation],
        repeats: Sequence[int],
        table: PieceTable,
        config: DataConfig,
        *,
        seed: int,
        epoch: int,
        batch_pieces: int,
        nbest_per_epoch: int = 0,
    ) -> None:
        self._conversations, self._table, self._config = conversations, table, config
        self._seed, self._epoch = seed, epoch
        rng = np.random.default_rng([seed, epoch])
        cuts: list[Cut] = []
        for i in _draw_hypotheses(conversations, repeats, nbest_per_epoch, [seed, epoch, _HYPOTHESES]):
            cuts.extend(_cut_conversation(i, conversations[i], config, rng))
        self._batches = [[cuts[k] for k in batch] for batch in bucket(*self._measure(cuts), batch_pieces, rng)]

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def padding(self) -> float:
        """Share of padded pieces that are padding."""
        return _padding([self._measure(b)[0] for b in self._batches])

    @property
    def frame_padding(self) -> float:
        """Share of padded frames that are padding; 0 where nothing is heard."""
        return _padding([self._measure(b)[1] for b in self._batches])

    def n_words(self, first: int, last: int) -> int:
        """Words in batches first..last."""
        return sum(c.stop - c.start for b in self._batches[first:last] for c in b)

    def batch(self, i: int) -> list[Example]:
        """The i-th batch; the same whichever were built before."""
        return [
            self._build(cut, np.random.default_rng([self._seed, self._epoch, i, j]))
            for j, cut in enumerate(self._batches[i])
        ]

    def batches(self, first: int = 0) -> Iterator[list[Example]]:
        """Batches from the ``first`` on."""
        return map(self.batch, range(first, len(self._batches)))

    def _measure(self, cuts: Sequence[Cut]) -> tuple[Ints, Ints]:
        """(pieces, frames) of each cut, before anything is hidden from it."""
        n_pieces, n_frames = [], []
        for cut in cuts:
            track = self._conversations[cut.conversation].track
            n_pieces.append(2 + sum(map(len, track.pieces[cut.start : cut.stop])))
            n_frames.append(count_frames(track, cut.start, cut.stop, self._config.left_context_s))
        return np.asarray(n_pieces, np.int64), np.asarray(n_frames, np.int64)

    def _build(self, cut: Cut, rng: np.random.Generator) -> Example:
        conversation = self._conversations[cut.conversation]
        marks = conversation.marks[cut.start : cut.stop].copy()
        cases = conversation.cases[cut.start : cut.stop].copy()
        for targets in (marks, cases):
            targets[: cut.mask_left] = IGNORE
            targets[len(targets) - cut.mask_right :] = IGNORE
        example = cut_example(
            hide(conversation.track, self._config, rng, self._table.unk_id),
            cut.start,
            cut.stop,
            self._table,
            self._config.max_pieces,
            self._config.left_context_s,
            marks,
            cases,
        )
        if self._config.recolour and example.frames is not None:
            example = replace(example, frames=recolour(example.frames, self._config.recolour, rng))
        weights = None if conversation.weights is None else conversation.weights[cut.start : cut.stop]
        return replace(example, source=conversation.describe(cut.start, cut.stop), weights=weights)


def hide(track: Track, config: DataConfig, rng: np.random.Generator, unk_id: int) -> Track:
    """The track with times, confidences, speakers, sound and words hidden at random.

    Sound that is heard at word times alone goes with them; other sound is cut then as for words that have none.
    """
    times, confidence, speakers, sound = rng.random(4) < (
        config.hide_times_prob,
        config.hide_confidence_prob,
        config.hide_speakers_prob,
        config.hide_audio_prob,
    )
    columns = [
        *(TIME_COLUMNS if times else ()),
        *(CONFIDENCE_COLUMNS if confidence else ()),
        *(SPEAKER_COLUMNS if speakers else ()),
    ]
    if columns:
        timing = track.timing.copy()
        timing[:, columns] = 0
        track = replace(track, timing=timing)
    if times:
        unknown = np.full(len(track), np.nan)
        track = replace(track, start_s=unknown, end_s=unknown)
    if sound or (times and track.sound is not None and track.sound.by_times):
        track = replace(track, sound=None)
    return _hide_words(track, config, rng, unk_id)


def recolour(frames: Floats, size: float, rng: np.random.Generator) -> Floats:
    """Log-mel frames as another voice at another distance from another microphone might have given them.

    All frames of a window are moved by one smooth curve over their mel bins, drawn anew for each window; dimensions
    beyond the mel bins (pitch) stay.

    Args:
        frames: (T, F), F at least the number of mel bins.
        size: standard deviation of the curve's level, in nepers; its waves are smaller the shorter they are.
        rng: of the draw.
    """
    n_mels = FEATURE_DIMS["melspec"]
    waves = np.cos(np.pi * np.outer(np.arange(_N_WAVES), (np.arange(n_mels) + 0.5) / n_mels))
    curve = (rng.normal(0.0, size, _N_WAVES) / (1 + np.arange(_N_WAVES))) @ waves
    moved: Floats = frames.copy()
    moved[:, :n_mels] += curve.astype(frames.dtype)
    return moved


def _hide_words(track: Track, config: DataConfig, rng: np.random.Generator, unk_id: int) -> Track:
    """Unknown pieces, as many, in place of those of all words, or of some."""
    if not config.hide_words_prob and not config.drop_word_prob:
        return track
    hidden = rng.random(len(track)) < (1.0 if rng.random() < config.hide_words_prob else config.drop_word_prob)
    pieces = [(unk_id,) * len(p) if h else p for p, h in zip(track.pieces, hidden.tolist(), strict=True)]
    return replace(track, pieces=pieces)


def _draw_hypotheses(
    conversations: Sequence[LabelledConversation], repeats: Sequence[int], n: int, seed: list[int]
) -> Iterator[int]:
    """The conversations of an epoch, each as often as it is repeated; ``n`` of those that are hypotheses of one."""
    if n == 0:
        yield from (i for i, n_times in enumerate(repeats) for _ in range(n_times))
        return
    rng = np.random.default_rng(seed)
    first = 0
    while first < len(conversations):
        last = first + 1
        while last < len(conversations) and conversations[last].rank:
            last += 1
        for _ in range(repeats[first]):
            yield first
            drawn = rng.permutation(last - first - 1)[:n]
            yield from (first + 1 + np.sort(drawn)).tolist()
        first = last


def _cut_conversation(
    i: int, conversation: LabelledConversation, config: DataConfig, rng: np.random.Generator
) -> list[Cut]:
    """Windows over a conversation: most are full ones, some a few sentences or a ragged piece of one."""
    n_words = len(conversation.marks)
    pieces = conversation.track.pieces
    cuts: list[Cut] = []
    position = 0
    budget = int((config.max_pieces - 2) * rng.uniform(0.4, 1.0))  # the first is shorter: other borders in each epoch
    while position < n_words:
        stop, used = position, 0
        while stop < n_words and (stop == position or used + len(pieces[stop]) <= budget):
            used += len(pieces[stop])
            stop += 1
        budget = config.max_pieces - 2
        if rng.random() < config.crop_prob:
            start, stop = _crop(conversation, position, stop, rng)
            cuts.append(Cut(i, start, stop, 0, 0))
            position = stop
            continue
        left = 0 if position == 0 else config.mask_words
        right = 0 if stop == n_words else config.mask_words
        if stop - position > left + right:
            cuts.append(Cut(i, position, stop, left, right))
        position = stop if stop == n_words else max(stop - 2 * config.mask_words, position + 1)
    return cuts


def _crop(conversation: LabelledConversation, position: int, stop: int, rng: np.random.Generator) -> tuple[int, int]:
    """A short piece of words position..stop: whole sentences in two cases of three, else cut anywhere."""
    wanted = int(rng.integers(3, 61))
    if rng.random() < 1 / 3:
        return position, min(position + wanted, stop)
    ends = [
        j + 1
        for j in range(position, stop)
        if (conversation.labels[j].mark or "") in FINAL_MARKS and conversation.labels[j].mark
    ]
    if len(ends) < 2 and position > 0:
        return position, min(position + wanted, stop)
    start = position if position == 0 or conversation.labels[position - 1].mark in FINAL_MARKS else ends[0]
    later = [e for e in ends if e > start]
    if not later:
        return position, min(position + wanted, stop)
    return start, next((e for e in later if e - start >= wanted), later[-1])


def bucket(n_pieces: Ints, n_frames: Ints, batch_pieces: int, rng: np.random.Generator) -> list[list[int]]:
    """Batches of like examples within a budget of padded pieces, in random order.

    Less than ``MAX_PADDING`` of all pieces is padding: batches are filled from the longest examples down, and a batch
    that would bring too much of it ends early. Frames have no such bound, but among examples of about the same pieces
    those of the same sound go together.

    Args:
        n_pieces: (N,) of each example.
        n_frames: (N,) of each example.
        batch_pieces: longest example x examples of a batch; one that is longer goes alone.
        rng: of mates and order.

    Returns:
        Indices of examples, each once.
    """
    jitter = rng.uniform(1 - _JITTER, 1, len(n_pieces))
    if n_frames.any():
        stratum = np.floor(np.log(n_pieces) / np.log1p(_STRATUM) + rng.uniform())
        order = np.lexsort((-n_frames * jitter, -stratum))
    else:
        order = np.argsort(-n_pieces * jitter, kind="stable")
    batches: list[list[int]] = []
    group: list[int] = []
    longest = real = 0  # of the group
    n_padded = n_padding = 0  # of the batches before it
    for k in order.tolist():
        n = int(n_pieces[k])
        padded = max(longest, n) * (len(group) + 1)
        padding = n_padding + padded - real - n
        if group and (padded > batch_pieces or padding >= MAX_PADDING * (n_padded + padded)):
            batches.append(group)
            n_padded, n_padding = n_padded + longest * len(group), n_padding + longest * len(group) - real
            group, longest, real = [], 0, 0
        group.append(k)
        longest, real = max(longest, n), real + n
    if group:
        batches.append(group)
    return [batches[k] for k in rng.permutation(len(batches)).tolist()]


def _padding(batches: Sequence[Ints]) -> float:
    padded = sum(len(lengths) * int(lengths.max()) for lengths in batches)
    return 1.0 - sum(int(lengths.sum()) for lengths in batches) / padded if padded else 0.0
