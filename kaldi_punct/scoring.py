"""Precision, recall and F1 of marks and case against a reference, on its own words or on a decoder's.

All rates are percentages. A slot is the place after a word: the reference has a mark there or "" (none), and so has the
hypothesis. Where the words differ, the reference is projected onto the hypothesis first; a mark that finds no word
there is lost, which is counted and held against nobody.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.tables import by_key, read_text
from kaldi_punct.labels import DEFAULT_LABELS, LabelledWord, LabelSet, is_word, split
from kaldi_punct.projection import project
from kaldi_punct.types import Case

MARK_NAMES: Mapping[str, str] = {",": "C", ".": "FS", "?": "Q", "!": "E"}  # others go by themselves
N_RESAMPLES = 1000  # of the bootstrap


@dataclass(frozen=True, slots=True)
class Rates:
    """How often one class was asked for, given, and right."""

    n_ref: int
    n_hyp: int
    n_hit: int

    @property
    def precision(self) -> float:
        """Right ones among those given, percent; 0 if none was given."""
        return 100.0 * self.n_hit / self.n_hyp if self.n_hyp else 0.0

    @property
    def recall(self) -> float:
        """Right ones among those asked for, percent; 0 if none was asked for."""
        return 100.0 * self.n_hit / self.n_ref if self.n_ref else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, percent."""
        return 200.0 * self.n_hit / (self.n_ref + self.n_hyp) if self.n_ref + self.n_hyp else 0.0

    @property
    def support(self) -> int:
        """How many the reference has."""
        return self.n_ref

    def as_dict(self) -> dict[str, float | int]:
        """Plain numbers for JSON."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, "support": self.n_ref}


@dataclass(frozen=True, slots=True)
class Score:
    """What a hypothesis is worth against a reference.

    Attributes:
        marks: rates of each mark of the label set, none ("") left out.
        micro: over all marks together; a wrong mark is one given too many and one missed.
        slots: is there a mark at all, whichever.
        n_slots: words after which the reference knows what comes.
        n_slots_right: of them, those with the right mark or rightly none.
        cases: rates of each case class.
        n_cases: words whose case both sides know.
        n_cases_right: of them, those with the right case.
        n_marks_lost: reference marks that found no word in the hypothesis; they are in no other figure.
        n_ref_words: words of the reference.
        n_word_errors: substituted, inserted and deleted words of the hypothesis.
        n_utts: utterances scored.
        missing: utterances that the hypothesis lacks; not scored.
        unknown: utterances that the reference lacks; not scored.
        micro_f1_ci95: 95 % interval of micro F1 by bootstrap over utterances (Bisani and Ney, ICASSP 2004); None if
            there are fewer than two.
    """

    marks: Mapping[str, Rates]
    micro: Rates
    slots: Rates
    n_slots: int
    n_slots_right: int
    cases: Mapping[Case, Rates]
    n_cases: int
    n_cases_right: int
    n_marks_lost: int = 0
    n_ref_words: int = 0
    n_word_errors: int = 0
    n_utts: int = 1
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    micro_f1_ci95: tuple[float, float] | None = None

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the marks that either side has, percent."""
        return self._mean([r.f1 for r in self._seen()])

    @property
    def macro_precision(self) -> float:
        """Mean precision of the marks that either side has, percent."""
        return self._mean([r.precision for r in self._seen()])

    @property
    def macro_recall(self) -> float:
        """Mean recall of the marks that either side has, percent."""
        return self._mean([r.recall for r in self._seen()])

    @property
    def slot_accuracy(self) -> float:
        """Slots with the right mark or rightly none, percent."""
        return 100.0 * self.n_slots_right / self.n_slots if self.n_slots else 0.0

    @property
    def slot_error_rate(self) -> float:
        """Wrong slots for each mark of the reference, percent; may exceed 100."""
        return 100.0 * (self.n_slots - self.n_slots_right) / self.micro.n_ref if self.micro.n_ref else 0.0

    @property
    def case_accuracy(self) -> float:
        """Words with the right case, percent."""
        return 100.0 * self.n_cases_right / self.n_cases if self.n_cases else 0.0

    @property
    def lost_share(self) -> float:
        """Reference marks that were lost, percent."""
        n = self.n_marks_lost + self.micro.n_ref
        return 100.0 * self.n_marks_lost / n if n else 0.0

    @property
    def n_errors(self) -> int:
        """Utterances that could not be scored."""
        return len(self.missing) + len(self.unknown)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists for JSON; rates are percentages."""
        macro = {"precision": self.macro_precision, "recall": self.macro_recall, "f1": self.macro_f1}
        return {
            "marks": {mark: r.as_dict() for mark, r in self.marks.items()},
            "micro": self.micro.as_dict(),
            "micro_f1_ci95": None if self.micro_f1_ci95 is None else list(self.micro_f1_ci95),
            "macro": {**macro, "support": self.micro.n_ref},
            "slots": {**self.slots.as_dict(), "accuracy": self.slot_accuracy, "error_rate": self.slot_error_rate},
            "n_slots": self.n_slots,
            "case": {c.name.lower(): r.as_dict() for c, r in self.cases.items()},
            "case_accuracy": self.case_accuracy,
            "n_cases": self.n_cases,
            "n_marks_lost": self.n_marks_lost,
            "n_ref_words": self.n_ref_words,
            "n_word_errors": self.n_word_errors,
            "n_utts": self.n_utts,
            "n_errors": self.n_errors,
            "missing": list(self.missing),
            "unknown": list(self.unknown),
        }

    def line(self, name: str = "") -> str:
        """The figures in one line to grep: ``%F1 75.6 [ C 75.6 FS 75.6 Q 81.3 ] name``."""
        each = " ".join(f"{MARK_NAMES.get(mark, mark)} {r.f1:.1f}" for mark, r in self.marks.items())
        return f"%F1 {self.micro.f1:.1f} [ {each} ] {name}".rstrip()

    def __str__(self) -> str:
        """A table for eyes; ``line`` comes first."""
        macro = f"{self.macro_precision:8.1f}{self.macro_recall:8.1f}{self.macro_f1:8.1f}{self.micro.n_ref:10d}"
        rows = [self.line(), f"{'mark':<12}{'P':>8}{'R':>8}{'F1':>8}{'support':>10}"]
        rows += [_row(mark, r) for mark, r in self.marks.items()]
        rows += [_row("micro", self.micro), f"{'macro':<12}{macro}", _row("any mark", self.slots)]
        if self.micro_f1_ci95 is not None:
            low, high = self.micro_f1_ci95
            rows.append(f"micro F1: 95 % interval {low:.1f} to {high:.1f} ({self.n_utts} utterances resampled)")
        rows.append(f"slots: {self.n_slots}, {self.slot_accuracy:.1f} % right; error rate {self.slot_error_rate:.1f} %")
        if self.n_cases:
            rows.append(f"{'case':<12}{'P':>8}{'R':>8}{'F1':>8}{'support':>10}")
            rows += [_row(c.name.lower(), r) for c, r in self.cases.items()]
            rows.append(f"case: {self.n_cases} words, {self.case_accuracy:.1f} % right")
        if self.n_word_errors:
            rate = 100.0 * self.n_word_errors / max(self.n_ref_words, 1)
            rows.append(f"words differ: {self.n_word_errors} errors, WER {rate:.1f} %")
        if self.n_marks_lost:
            rows.append(f"marks lost with deleted words, not scored: {self.n_marks_lost} ({self.lost_share:.1f} %)")
        if self.n_errors:
            rows.append(f"not scored: {len(self.missing)} utterances missing, {len(self.unknown)} unknown")
        return "\n".join(rows)

    def _seen(self) -> list[Rates]:
        return [r for r in self.marks.values() if r.n_ref + r.n_hyp]

    @staticmethod
    def _mean(values: Sequence[float]) -> float:
        return sum(values) / len(values) if values else 0.0


def score(ref: str | os.PathLike[str], hyp: str | os.PathLike[str], labels: LabelSet = DEFAULT_LABELS) -> Score:
    """The score of one table of punctuated text against another.

    Utterances are matched by their keys; those that only one side has are left out and named in the score.

    Args:
        ref: a table like ``text_punct`` (any rxfilename; ``.gz`` is unpacked), or a data directory that has one.
        hyp: the same of the text to be scored; its words may be others.
        labels: the marks to score, and how those of both texts map onto them.

    Raises:
        FormatError: a table cannot be read, holds a key twice, or the two have no key in common.
    """
    ref_texts, hyp_texts = read_marked(ref), read_marked(hyp)
    common = [u for u in ref_texts if u in hyp_texts]
    if not common:
        raise FormatError(
            f"{_table_of(hyp)}: expected the utterances of {_table_of(ref)} (first '{next(iter(ref_texts))}'), got "
            f"none of them (first '{next(iter(hyp_texts))}'); score tables that are keyed alike, by segment or by call"
        )
    counts = _Counts(labels)
    for utt_id in common:
        counts.add(split(ref_texts[utt_id], labels), split(hyp_texts[utt_id], labels))
    return counts.score(
        missing=tuple(u for u in ref_texts if u not in hyp_texts),
        unknown=tuple(u for u in hyp_texts if u not in ref_texts),
    )


def score_words(
    ref: Sequence[LabelledWord],
    hyp: Sequence[LabelledWord],
    *,
    labels: LabelSet = DEFAULT_LABELS,
    mask: Sequence[bool] | None = None,
) -> Score:
    """The score of one word sequence; the reference is projected where the words differ.

    Args:
        ref: words with what is true; a mark or case of None is unknown and not scored.
        hyp: words with what was put to them.
        labels: the marks to score.
        mask: one for each word of ``hyp``, True where its slot counts; marks lost outside of it count as lost too.
    """
    counts = _Counts(labels)
    counts.add(ref, hyp, mask)
    return counts.score()


def score_marks(
    ref_marks: Sequence[str | None],
    hyp_marks: Sequence[str | None],
    ref_cases: Sequence[int | None] = (),
    hyp_cases: Sequence[int | None] = (),
    *,
    labels: LabelSet = DEFAULT_LABELS,
    mask: Sequence[bool] | None = None,
) -> Score:
    """The score of labels that lie side by side, one for each word.

    Args:
        ref_marks: the true mark after each word; None is unknown and not scored.
        hyp_marks: the mark given; None is not scored.
        ref_cases: the true case of each word, None unknown; empty if case is not scored.
        hyp_cases: the case given.
        labels: the marks to score.
        mask: True where a word counts.

    Raises:
        ValueError: the sequences differ in length.
    """
    counts = _Counts(labels)
    counts.add_labels(ref_marks, hyp_marks, ref_cases, hyp_cases, mask)
    return counts.score()


@dataclass(slots=True)
class _Counts:
    """What is counted while utterances go by."""

    labels: LabelSet
    marks: list[Counter[tuple[str, str]]] = field(default_factory=list)  # (true, given) of each utterance
    cases: Counter[tuple[int, int]] = field(default_factory=Counter)
    n_marks_lost: int = 0
    n_ref_words: int = 0
    n_word_errors: int = 0

    def add(self, ref: Sequence[LabelledWord], hyp: Sequence[LabelledWord], mask: Sequence[bool] | None = None) -> None:
        """Counts one utterance."""
        projection = project(ref, [w.word for w in hyp])
        real = [is_word(w.word) for w in hyp]
        keep = real if mask is None else [r and bool(m) for r, m in zip(real, mask, strict=True)]
        true = projection.words
        self.add_labels(
            [w.mark for w in true], [w.mark for w in hyp], [w.case for w in true], [w.case for w in hyp], keep
        )
        self.n_marks_lost += projection.n_marks_lost
        self.n_ref_words += len(ref)
        self.n_word_errors += projection.n_substituted + projection.n_inserted + projection.n_deleted

    def add_labels(
        self,
        ref_marks: Sequence[str | None],
        hyp_marks: Sequence[str | None],
        ref_cases: Sequence[int | None],
        hyp_cases: Sequence[int | None],
        mask: Sequence[bool] | None,
    ) -> None:
        """Counts one utterance whose labels lie side by side."""
        keep = [True] * len(ref_marks) if mask is None else mask
        marks = zip(ref_marks, hyp_marks, keep, strict=True)
        self.marks.append(Counter((r, h) for r, h, k in marks if k and r is not None and h is not None))
        if ref_cases or hyp_cases:
            cases = zip(ref_cases, hyp_cases, keep, strict=True)
            self.cases.update((int(r), int(h)) for r, h, k in cases if k and r is not None and h is not None)

    def score(self, missing: tuple[str, ...] = (), unknown: tuple[str, ...] = ()) -> Score:
        """All that was counted."""
        total: Counter[tuple[str, str]] = sum(self.marks, Counter())
        each = np.array([_hits(c) for c in self.marks], dtype=np.int64).reshape(-1, 3)
        n_ref, n_hyp, n_hit = each.sum(axis=0).tolist()
        return Score(
            marks={m: _rates(total, m) for m in self.labels.marks if m},
            micro=Rates(n_ref, n_hyp, n_hit),
            slots=Rates(n_ref, n_hyp, sum(n for (r, h), n in total.items() if r and h)),
            n_slots=sum(total.values()),
            n_slots_right=sum(n for (r, h), n in total.items() if r == h),
            cases={c: _rates(self.cases, int(c)) for c in Case} if self.cases else {},
            n_cases=sum(self.cases.values()),
            n_cases_right=sum(n for (r, h), n in self.cases.items() if r == h),
            n_marks_lost=self.n_marks_lost,
            n_ref_words=self.n_ref_words,
            n_word_errors=self.n_word_errors,
            n_utts=len(self.marks),
            missing=missing,
            unknown=unknown,
            micro_f1_ci95=_interval(each),
        )


def _hits(counts: Counter[tuple[str, str]]) -> tuple[int, int, int]:
    """(marks asked for, given, right) of an utterance."""
    return (
        sum(n for (r, _), n in counts.items() if r),
        sum(n for (_, h), n in counts.items() if h),
        sum(n for (r, h), n in counts.items() if r and r == h),
    )


def _rates(counts: Mapping[tuple[Any, Any], int], label: str | int) -> Rates:
    return Rates(
        n_ref=sum(n for (r, _), n in counts.items() if r == label),
        n_hyp=sum(n for (_, h), n in counts.items() if h == label),
        n_hit=counts.get((label, label), 0),
    )


def _interval(each: np.ndarray[Any, np.dtype[np.int64]], seed: int = 0) -> tuple[float, float] | None:
    """95 % interval of micro F1, utterances drawn anew with replacement; ``each`` is (n_utts, 3) as of ``_hits``."""
    n_utts = len(each)
    if n_utts < 2:
        return None
    # How often each utterance is drawn is all that matters, and takes (n_resamples, n_utts) at most a block at a time.
    rng = np.random.default_rng(seed)
    n_ref, n_hyp, n_hit = np.concatenate(
        [rng.multinomial(n_utts, np.full(n_utts, 1.0 / n_utts), size=100) @ each for _ in range(N_RESAMPLES // 100)]
    ).T
    f1 = 200.0 * n_hit / np.maximum(n_ref + n_hyp, 1)
    low, high = np.percentile(f1, [2.5, 97.5]).tolist()
    return low, high


def _row(name: str, rates: Rates) -> str:
    return f"{name:<12}{rates.precision:8.1f}{rates.recall:8.1f}{rates.f1:8.1f}{rates.n_ref:10d}"


def read_marked(table: str | os.PathLike[str]) -> dict[str, str]:
    """The lines of a table like ``text_punct`` by their keys; a data directory stands for the one in it."""
    name = _table_of(table)
    texts = by_key(name, read_text(name))
    if not texts:
        raise FormatError(f"{name}: expected lines '<utt-id> <words with marks>', got an empty table; check the path")
    return texts


def _table_of(path: str | os.PathLike[str]) -> str:
    """The table itself, where a data directory is given."""
    name = os.fspath(path)
    if not os.path.isdir(name):
        return name
    for table in ("text_punct", "text_punct.gz"):
        if os.path.isfile(os.path.join(name, table)):
            return os.path.join(name, table)
    raise FormatError(
        f"{name}: expected a data directory with a table text_punct, got none in it; name the table itself"
    )
