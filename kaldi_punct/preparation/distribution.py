"""How often each mark stands in a data directory, as counts that add up: the paper's Table 1 does not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.labels import DEFAULT_LABELS, LabelSet, is_word, split
from kaldi_punct.preparation.subsets import durations_s

_NAMES = {"": "no mark"}


@dataclass(frozen=True, slots=True)
class SetCounts:
    """What a punctuated data directory holds.

    Attributes:
        name: the directory.
        n_recordings: recordings (and channels) that its utterances are from.
        n_utts: utterances with a reference.
        n_words: words of the references; non-words such as ``[noise]`` are none.
        hours: of its utterances; None if the time of none is known.
        marks: how many words are followed by each mark, "" first.
        n_unknown: words after which nobody knows the mark; ``sum(marks.values()) + n_unknown == n_words``.
    """

    name: str
    n_recordings: int
    n_utts: int
    n_words: int
    hours: float | None
    marks: Mapping[str, int]
    n_unknown: int

    def shares(self) -> dict[str, float]:
        """Percent of the known slots, with two decimals, that add up to 100; all 0 if there are none."""
        return dict(zip(self.marks, _percent(list(self.marks.values())), strict=True))

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        shares = self.shares()
        return {
            "name": self.name,
            "recordings": self.n_recordings,
            "utterances": self.n_utts,
            "words": self.n_words,
            "hours": None if self.hours is None else round(self.hours, 4),
            "marks": {m: {"count": n, "percent": shares[m]} for m, n in self.marks.items()},
            "unknown": self.n_unknown,
        }


def count_set(data: DataDir, name: str | None = None, labels: LabelSet = DEFAULT_LABELS) -> SetCounts:
    """Counts the references of a data directory.

    Args:
        data: the directory.
        name: what to call it; its path if not given.
        labels: which marks are told apart.
    """
    counts: Counter[str | None] = Counter()
    utt_ids = [u for u in data.utt_ids if u in data.text_punct]
    for utt_id in utt_ids:
        counts.update(w.mark for w in split(data.text_punct[utt_id], labels) if is_word(w.word))
    times_s = [s for s in durations_s(data).values() if s is not None]
    return SetCounts(
        name=str(data.path) if name is None else name,
        n_recordings=len({data.place(u) for u in utt_ids}),
        n_utts=len(utt_ids),
        n_words=sum(counts.values()),
        hours=sum(times_s) / 3600 if times_s else None,
        marks={mark: counts[mark] for mark in labels.marks},
        n_unknown=counts[None],
    )


def to_text(sets: Sequence[SetCounts]) -> str:
    """A table with one column a set."""
    rows: list[tuple[str, list[str]]] = [
        ("", [s.name for s in sets]),
        ("recordings", [f"{s.n_recordings:,}" for s in sets]),
        ("utterances", [f"{s.n_utts:,}" for s in sets]),
        ("hours", ["-" if s.hours is None else f"{s.hours:.2f}" for s in sets]),
        ("words", [f"{s.n_words:,}" for s in sets]),
    ]
    shares = [s.shares() for s in sets]
    for mark in dict.fromkeys(m for s in sets for m in s.marks):
        cells = [_cell(s.marks.get(mark, 0), p.get(mark, 0.0)) for s, p in zip(sets, shares, strict=True)]
        rows.append((_NAMES.get(mark, mark), cells))
    rows.append(
        ("all known", [_cell(sum(s.marks.values()), sum(p.values())) for s, p in zip(sets, shares, strict=True)])
    )
    if any(s.n_unknown for s in sets):
        rows.append(("unknown", [f"{s.n_unknown:,}" for s in sets]))
    widths = [max(len(cells[i]) for _, cells in rows) for i in range(len(sets))]
    head = max(len(name) for name, _ in rows)
    return "\n".join(
        f"{name:{head}}  {'  '.join(c.rjust(w) for c, w in zip(cells, widths, strict=True))}".rstrip()
        for name, cells in rows
    )


def to_json(sets: Sequence[SetCounts]) -> str:
    """One JSON object in one line: ``{"sets": [...]}``."""
    return json.dumps({"sets": [s.as_dict() for s in sets]}, ensure_ascii=False)


def _cell(count: int, percent: float) -> str:
    return f"{count:,} {percent:6.2f} %"


def _percent(counts: Sequence[int]) -> list[float]:
    """Shares in hundredths of a percent that add up to 100 %: the largest remainders are rounded up."""
    total = sum(counts)
    if not total:
        return [0.0] * len(counts)
    floors = [10000 * n // total for n in counts]
    order = sorted(range(len(counts)), key=lambda i: (-(10000 * counts[i] % total), i))
    for i in order[: 10000 - sum(floors)]:
        floors[i] += 1
    return [n / 100 for n in floors]
