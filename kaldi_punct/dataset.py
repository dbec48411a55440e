"""Training data: punctuated Kaldi data directories -> labelled conversations -> shuffled examples of an epoch."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kaldi_punct.audio import read_audio, resample
from kaldi_punct.batch import IGNORE, Example, Ints, PieceTable
from kaldi_punct.config import DataConfig, ModelConfig
from kaldi_punct.errors import FormatError
from kaldi_punct.features import FRAME_SHIFT_S, compute
from kaldi_punct.kaldi.data_dir import Conversation, DataDir
from kaldi_punct.kaldi.streams import open_rxfilename
from kaldi_punct.labels import FINAL_MARKS, LabelledWord, LabelSet, is_word, split
from kaldi_punct.projection import project
from kaldi_punct.timing import CONFIDENCE_COLUMNS, SPEAKER_COLUMNS, TIME_COLUMNS
from kaldi_punct.types import Case, Utterance, Word
from kaldi_punct.windows import Pieces, Sound, Track, build_track, cut_example

log = logging.getLogger(__name__)

SoundReader = Callable[[Conversation], Sound | None]


@dataclass(frozen=True, slots=True)
class LabelledConversation:
    """The real words of a conversation with what stood around them in the reference.

    Attributes:
        rec_id: the recording.
        track: its words as arrays.
        labels: (W,) reference words; a mark or case of None is unknown.
        marks, cases: (W,) the same as class indices, IGNORE where unknown.
    """

    rec_id: str
    track: Track
    labels: tuple[LabelledWord, ...]
    marks: Ints
    cases: Ints


@dataclass
class Tally:
    """What became of a data set while it was read; printed, never silent."""

    n_conversations: int = 0
    n_words: int = 0
    n_marks: int = 0
    n_marks_lost: int = 0
    n_without_reference: int = 0

    def __str__(self) -> str:
        lost = 100.0 * self.n_marks_lost / max(self.n_marks, 1)
        return (
            f"{self.n_conversations} conversations, {self.n_words} words, {self.n_marks} marks "
            f"({self.n_marks_lost} lost in projection, {lost:.1f} %), "
            f"{self.n_without_reference} utterances without reference"
        )


def read_conversations(
    data_dir: DataDir,
    table: Pieces,
    labels: LabelSet,
    *,
    max_words: int = 0,
    seed: int = 0,
    read_sound: SoundReader | None = None,
) -> tuple[list[LabelledConversation], Tally]:
    """The labelled conversations of a punctuated data directory.

    Args:
        data_dir: one with ``text_punct``; where its words differ from the CTM's or ``text``'s, it is projected.
        table: pieces of words.
        labels: marks, and how the reference's map onto them.
        max_words: take whole conversations, in an order drawn by ``seed``, until they hold this many words; 0: all.
        seed: of that order.
        read_sound: frames of a conversation; None for a model that does not hear.

    Raises:
        FormatError: no ``text_punct``, or no utterance in it that the directory knows.
    """
    if not data_dir.text_punct:
        raise FormatError(
            f"{data_dir.path}: expected a table text_punct ('<utt-id> Hello, how are you?') of its utterances, got none"
        )
    conversations = _draw(data_dir, seed) if max_words else data_dir.conversations()
    out: list[LabelledConversation] = []
    tally = Tally()
    for conversation in conversations:
        labelled = _label_conversation(conversation, data_dir.text_punct, table, labels, tally, read_sound)
        if labelled is not None:
            out.append(labelled)
            tally.n_conversations += 1
            tally.n_words += len(labelled.labels)
        if max_words and tally.n_words >= max_words:
            break
    if not out:
        raise FormatError(f"{data_dir.path}: expected utterances with a reference in text_punct, got none")
    return out, tally


def sound_reader(data_dir: DataDir, config: ModelConfig) -> SoundReader | None:
    """Reads the frames of a conversation from ``wav.scp``; None for a model that does not hear."""
    if config.acoustic == "none":
        return None

    def read(conversation: Conversation) -> Sound | None:
        rxfilename = data_dir.wav_scp.get(conversation.rec_id)
        if rxfilename is None:
            return None
        with open_rxfilename(rxfilename) as stream:
            audio = resample(read_audio(stream.read(), name=rxfilename), config.sample_rate_hz)
        frames = compute(config.acoustic, audio)
        return Sound(frames, FRAME_SHIFT_S, by_times=config.hears_by_times)

    return read


def count_words(data_dir: DataDir, labels: LabelSet, *, max_words: int = 0, seed: int = 0) -> Counter[str]:
    """How often ``read_conversations`` of the same arguments meets each word, lower-cased."""
    counts: Counter[str] = Counter()

    def count(word: str) -> tuple[int, ...]:
        counts[word.lower()] += 1
        return (0,)

    read_conversations(data_dir, count, labels, max_words=max_words, seed=seed)
    return counts


def mixed_lexicon(conversations: Sequence[LabelledConversation], min_count: int = 3) -> dict[str, str]:
    """Lower-case word -> its most frequent MIXED form, of words written so at least ``min_count`` times."""
    forms: Counter[tuple[str, str]] = Counter()
    for conversation in conversations:
        forms.update((w.word, w.written) for w in conversation.labels if w.case is Case.MIXED and w.written)
    lexicon: dict[str, str] = {}
    for (word, written), count in forms.most_common():
        if count >= min_count and word not in lexicon and word == written.lower():
            lexicon[word] = written
    return lexicon


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
    epoch can be entered at any batch.
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
    ) -> None:
        self._conversations, self._table, self._config = conversations, table, config
        self._seed, self._epoch = seed, epoch
        rng = np.random.default_rng([seed, epoch])
        cuts: list[Cut] = []
        for i, n_times in enumerate(repeats):
            for _ in range(n_times):
                cuts.extend(_cut_conversation(i, conversations[i], config, rng))
        lengths = [self._n_pieces(c) for c in cuts]
        self._batches = _bucket(cuts, lengths, batch_pieces, rng)

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def padding(self) -> float:
        """Share of padded pieces that are padding."""
        real = sum(self._n_pieces(c) for b in self._batches for c in b)
        return 1.0 - real / max(sum(len(b) * max(self._n_pieces(c) for c in b) for b in self._batches), 1)

    def batches(self, first: int = 0) -> Iterator[list[Example]]:
        """Batches from the ``first`` on."""
        for i in range(first, len(self._batches)):
            yield [
                self._build(cut, np.random.default_rng([self._seed, self._epoch, i, j]))
                for j, cut in enumerate(self._batches[i])
            ]

    def _n_pieces(self, cut: Cut) -> int:
        pieces = self._conversations[cut.conversation].track.pieces
        return 2 + sum(len(p) for p in pieces[cut.start : cut.stop])

    def _build(self, cut: Cut, rng: np.random.Generator) -> Example:
        conversation = self._conversations[cut.conversation]
        marks = conversation.marks[cut.start : cut.stop].copy()
        cases = conversation.cases[cut.start : cut.stop].copy()
        for targets in (marks, cases):
            targets[: cut.mask_left] = IGNORE
            targets[len(targets) - cut.mask_right :] = IGNORE
        return cut_example(
            hide(conversation.track, self._config, rng),
            cut.start,
            cut.stop,
            self._table,
            self._config.max_pieces,
            self._config.left_context_s,
            marks,
            cases,
        )


def hide(track: Track, config: DataConfig, rng: np.random.Generator) -> Track:
    """The track with times, confidences, speakers and sound hidden at random.

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
    return track


def _draw(data_dir: DataDir, seed: int) -> list[Conversation]:
    conversations = list(data_dir.conversations())
    order = np.random.default_rng(seed).permutation(len(conversations))
    return [conversations[i] for i in order]


def _label_conversation(
    conversation: Conversation,
    text_punct: Mapping[str, str],
    table: Pieces,
    labels: LabelSet,
    tally: Tally,
    read_sound: SoundReader | None,
) -> LabelledConversation | None:
    words: list[Word] = []
    targets: list[LabelledWord] = []
    for utterance in conversation.utterances:
        reference = text_punct.get(utterance.utt_id)
        if reference is None:
            tally.n_without_reference += 1
            labelled = [LabelledWord(w.word, None, None) for w in utterance.words]
        else:
            labelled = list(_label_utterance(utterance, split(reference, labels), tally))
        for word, target in zip(utterance.words, labelled, strict=True):
            if is_word(word.word):
                words.append(word)
                targets.append(target)
    if not words or all(t.mark is None for t in targets):
        return None
    marks = np.array([IGNORE if t.mark is None else labels.index(t.mark) for t in targets], np.int64)
    cases = np.array([IGNORE if t.case is None else int(t.case) for t in targets], np.int64)
    sound = None if read_sound is None else read_sound(conversation)
    return LabelledConversation(conversation.rec_id, build_track(words, table, sound), tuple(targets), marks, cases)


def _label_utterance(utterance: Utterance, reference: list[LabelledWord], tally: Tally) -> Sequence[LabelledWord]:
    tokens = [w.word for w in utterance.words]
    if [t.lower() for t in tokens] == [r.word.lower() for r in reference]:
        tally.n_marks += sum(bool(r.mark) for r in reference)
        return reference
    projection = project(reference, tokens)
    tally.n_marks += projection.n_marks
    tally.n_marks_lost += projection.n_marks_lost
    return projection.words


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


def _bucket(
    cuts: Sequence[Cut], lengths: Sequence[int], batch_pieces: int, rng: np.random.Generator
) -> list[list[Cut]]:
    """Batches of like lengths within the padded budget, in random order."""
    order = np.argsort(np.asarray(lengths) + rng.uniform(0, 4, len(lengths)), kind="stable")
    batches: list[list[Cut]] = []
    group: list[Cut] = []
    longest = 0
    for k in order.tolist():
        longest_then = max(longest, lengths[k])
        if group and longest_then * (len(group) + 1) > batch_pieces:
            batches.append(group)
            group, longest_then = [], lengths[k]
        group.append(cuts[k])
        longest = longest_then
    if group:
        batches.append(group)
    return [batches[k] for k in rng.permutation(len(batches)).tolist()]
