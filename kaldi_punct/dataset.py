"""Training data: punctuated Kaldi data directories -> labelled conversations."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kaldi_punct.augmentation import HypothesisReader, RankedConversation
from kaldi_punct.batch import IGNORE, Floats, Ints
from kaldi_punct.errors import FormatError
from kaldi_punct.hearing import SoundReader
from kaldi_punct.kaldi.data_dir import Conversation, DataDir
from kaldi_punct.labels import LabelledWord, LabelSet, is_word, split
from kaldi_punct.projection import project
from kaldi_punct.types import Case, Utterance, Word
from kaldi_punct.windows import Pieces, Track, build_track

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LabelledConversation:
    """The real words of a conversation with what stood around them in the reference.

    Attributes:
        rec_id: the recording.
        track: its words as arrays.
        labels: (W,) reference words; a mark or case of None is unknown.
        marks, cases: (W,) the same as class indices, IGNORE where unknown.
        utt_ids: (W,) the utterance of each word; may be empty.
        rank: 0 for the data's own words; else they are a decoder's, the rank-th hypotheses of the conversation that
            stands before this one, and share its sound.
        weights: (W,) how much each word counts in the loss; None: 1.
    """

    rec_id: str
    track: Track
    labels: tuple[LabelledWord, ...]
    marks: Ints
    cases: Ints
    utt_ids: tuple[str, ...] = ()
    rank: int = 0
    weights: Floats | None = None

    def describe(self, start: int, stop: int) -> str:
        """Where words start..stop come from, for a message; words are numbered from 1."""
        text = f"{self.rec_id}{f' hypothesis {self.rank}' if self.rank else ''} words {start + 1}-{stop}"
        utt_ids = list(dict.fromkeys(self.utt_ids[start:stop]))
        return text if utt_ids in ([], [self.rec_id]) else f"{text} ({utt_ids[0]} .. {utt_ids[-1]})"


@dataclass
class Tally:
    """What became of a data set while it was read; printed, never silent.

    ``ranks`` are the same of its hypotheses, by rank.
    """

    n_conversations: int = 0
    n_words: int = 0
    n_marks: int = 0
    n_marks_lost: int = 0
    n_without_reference: int = 0
    ranks: dict[int, Tally] = field(default_factory=dict)

    def __str__(self) -> str:
        lost = 100.0 * self.n_marks_lost / max(self.n_marks, 1)
        return (
            f"{self.n_conversations} conversations, {self.n_words} words, {self.n_marks} marks "
            f"({self.n_marks_lost} lost in projection, {lost:.1f} %), "
            f"{self.n_without_reference} utterances without reference"
        ) + "".join(f"\nhypotheses {rank}: {tally}" for rank, tally in sorted(self.ranks.items()))


def read_conversations(
    data_dir: DataDir,
    table: Pieces,
    labels: LabelSet,
    *,
    max_words: int = 0,
    seed: int = 0,
    read_sound: SoundReader | None = None,
    read_hypotheses: HypothesisReader | None = None,
) -> tuple[list[LabelledConversation], Tally]:
    """The labelled conversations of a punctuated data directory.

    Args:
        data_dir: one with ``text_punct``; where its words differ from the CTM's or ``text``'s, it is projected.
        table: pieces of words.
        labels: marks, and how the reference's map onto them.
        max_words: take whole conversations, in an order drawn by ``seed``, until they hold this many words; 0: all.
        seed: of that order.
        read_sound: frames of a conversation; None for a model that does not hear.
        read_hypotheses: what else a decoder heard in it; each comes right after the conversation, with its sound.

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
        own = _label_conversation(conversation, data_dir.text_punct, table, labels, tally)
        if own is not None:
            group = [own]
            for ranked in () if read_hypotheses is None else read_hypotheses(conversation):
                part = tally.ranks.setdefault(ranked.rank, Tally())
                heard = _label_conversation(ranked.conversation, data_dir.text_punct, table, labels, part, ranked)
                group += [] if heard is None else [heard]
            sound = None if read_sound is None else read_sound(conversation)
            out += group if sound is None else [replace(c, track=replace(c.track, sound=sound)) for c in group]
        if max_words and tally.n_words >= max_words:
            break
    if not out:
        raise FormatError(f"{data_dir.path}: expected utterances with a reference in text_punct, got none")
    return out, tally


def count_words(
    data_dir: DataDir,
    labels: LabelSet,
    *,
    max_words: int = 0,
    seed: int = 0,
    read_hypotheses: HypothesisReader | None = None,
) -> Counter[str]:
    """How often ``read_conversations`` of the same arguments meets each word, lower-cased."""
    counts: Counter[str] = Counter()

    def count(word: str) -> tuple[int, ...]:
        counts[word.lower()] += 1
        return (0,)

    read_conversations(data_dir, count, labels, max_words=max_words, seed=seed, read_hypotheses=read_hypotheses)
    return counts


def mixed_lexicon(conversations: Sequence[LabelledConversation], min_count: int = 3) -> dict[str, str]:
    """Lower-case word -> its most frequent MIXED form, of words written so at least ``min_count`` times."""
    forms: Counter[tuple[str, str]] = Counter()
    for conversation in conversations:
        if conversation.rank:  # the same words of the same reference once more
            continue
        forms.update((w.word, w.written) for w in conversation.labels if w.case is Case.MIXED and w.written)
    lexicon: dict[str, str] = {}
    for (word, written), count in forms.most_common():
        if count >= min_count and word not in lexicon and word == written.lower():
            lexicon[word] = written
    return lexicon


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
    ranked: RankedConversation | None = None,
) -> LabelledConversation | None:
    words: list[Word] = []
    targets: list[LabelledWord] = []
    utt_ids: list[str] = []
    utt_weights = (1.0,) * len(conversation.utterances) if ranked is None else ranked.weights
    weights: list[float] = []
    for utterance, weight in zip(conversation.utterances, utt_weights, strict=True):
        reference = text_punct.get(utterance.utt_id)
        if weight <= 0:
            labelled = [LabelledWord(w.word, None, None) for w in utterance.words]
        elif reference is None:
            tally.n_without_reference += 1
            labelled = [LabelledWord(w.word, None, None) for w in utterance.words]
        else:
            labelled = list(_label_utterance(utterance, split(reference, labels), tally))
        for word, target in zip(utterance.words, labelled, strict=True):
            if is_word(word.word):
                words.append(word)
                targets.append(target)
                utt_ids.append(utterance.utt_id)
                weights.append(weight)
    if not words or all(t.mark is None for t in targets):
        return None
    marks = np.array([IGNORE if t.mark is None else labels.index(t.mark) for t in targets], np.int64)
    cases = np.array([IGNORE if t.case is None else int(t.case) for t in targets], np.int64)
    tally.n_conversations += 1
    tally.n_words += len(words)
    return LabelledConversation(
        conversation.rec_id,
        build_track(words, table),
        tuple(targets),
        marks,
        cases,
        tuple(utt_ids),
        0 if ranked is None else ranked.rank,
        None if all(w == 1.0 for w in utt_weights) else np.array(weights, np.float32),
    )


def _label_utterance(utterance: Utterance, reference: list[LabelledWord], tally: Tally) -> Sequence[LabelledWord]:
    tokens = [w.word for w in utterance.words]
    if [t.lower() for t in tokens] == [r.word.lower() for r in reference]:
        tally.n_marks += sum(bool(r.mark) for r in reference)
        return reference
    projection = project(reference, tokens)
    tally.n_marks += projection.n_marks
    tally.n_marks_lost += projection.n_marks_lost
    return projection.words
