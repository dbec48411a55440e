"""The records that flow through kaldi_punct: frozen, all times in seconds; what may be unknown is None, never 0."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


class Case(enum.IntEnum):
    """How a word is written; the value is the class index of the case head."""

    LOWER = 0  # hello
    CAPITALIZED = 1  # Hello
    UPPER = 2  # NASA
    MIXED = 3  # McDonald, through the model's lexicon


@dataclass(frozen=True, slots=True)
class Word:
    """One token as the decoder wrote it, with what is known of it.

    Attributes:
        word: the token; holds no blank.
        start_s: when it begins, seconds; None if unknown. Both times are known, or neither.
        duration_s: how long it lasts, seconds.
        confidence: 0..1, as in field 6 of a CTM.
        spk_id: who says it.
    """

    word: str
    start_s: float | None = None
    duration_s: float | None = None
    confidence: float | None = None
    spk_id: str | None = None

    @property
    def end_s(self) -> float | None:
        """When the word ends, seconds; None if its times are unknown."""
        if self.start_s is None or self.duration_s is None:
            return None
        return self.start_s + self.duration_s


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One word sequence of an N-best list.

    Costs are Kaldi's: negated natural logarithms, unscaled, lower is better.
    """

    words: tuple[Word, ...]
    graph_cost: float | None = None
    acoustic_cost: float | None = None
    posterior: float | None = None  # 0..1


@dataclass(frozen=True, slots=True)
class Utterance:
    """One utterance: a segment of a recording's channel, or a whole recording.

    Attributes:
        utt_id: its key in Kaldi's tables.
        words: its words in order, times on the recording's clock where they are known.
        rec_id: the recording it is cut from; None if unknown. Utterances of one recording and channel are one
            conversation.
        channel: the channel of the recording, as the CTM writes it.
        start_s: where the segment begins in the recording, seconds.
        end_s: where it ends.
    """

    utt_id: str
    words: tuple[Word, ...]
    rec_id: str | None = None
    channel: str | None = None
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True, slots=True)
class Audio:
    """One channel of sound.

    Attributes:
        samples: shape (n_samples,), float32 in [-1, 1].
        sample_rate_hz: samples a second.
        start_s: time of the first sample on the words' clock, seconds.
    """

    samples: NDArray[np.float32]
    sample_rate_hz: int
    start_s: float = 0.0

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.sample_rate_hz


@dataclass(frozen=True, slots=True)
class PunctuatedWord:
    """One input word with what the model put to it.

    Attributes:
        word: the input word, untouched.
        written: cased, with its mark: ``Hello,``.
        mark: the mark after the word; "" for none.
        case: how it is written; None if capitalization was switched off or the token is not a word.
        mark_prob: probability of the mark chosen, "none" included; 1 for a token that is not a word.
        case_prob: probability of the case chosen.
        label_probs: probability of each mark of the model, in the model's order.
    """

    word: Word
    written: str
    mark: str
    case: Case | None
    mark_prob: float
    case_prob: float
    label_probs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Sentence:
    """A run of words up to a final mark (or to the end of the utterance)."""

    text: str
    first_word: int  # index into the utterance's words
    n_words: int
    start_s: float | None = None
    end_s: float | None = None
    spk_id: str | None = None  # of its first word


@dataclass(frozen=True, slots=True)
class Punctuated:
    """An utterance with its marks and case: exactly one ``PunctuatedWord`` for each input word, in order.

    Attributes:
        used_times: the answer rests on word times.
        used_audio: the answer rests on sound.
        n_hypotheses: how many hypotheses were fused.
    """

    utt_id: str
    words: tuple[PunctuatedWord, ...]
    sentences: tuple[Sentence, ...]
    used_times: bool = False
    used_audio: bool = False
    n_hypotheses: int = 1

    @property
    def text(self) -> str:
        """The words as written, separated by single blanks."""
        return " ".join(w.written for w in self.words)


def to_words(tokens: Sequence[str | Word]) -> tuple[Word, ...]:
    """The same words as records: a plain string becomes a Word with nothing else known."""
    return tuple(Word(t) if isinstance(t, str) else t for t in tokens)
