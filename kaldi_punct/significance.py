"""Is one system better than another? Paired bootstrap over utterances (or recordings), on what was counted in each.

Units are drawn anew with replacement, the same ones for both systems, and both are scored on what was drawn (Efron and
Tibshirani, 1993; for word errors Bisani and Ney, ICASSP 2004). Interval and p-value come from the same draws: a
difference of p < 0.05 is one whose 95 % interval leaves out 0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kaldi_punct.errors import FormatError
from kaldi_punct.labels import DEFAULT_LABELS, LabelSet, split
from kaldi_punct.scoring import Rates, read_marked, score_words

Counts = Mapping[str, Rates]  # of one unit: what was counted for each mark
Array = NDArray[np.float64]

N_SAMPLES = 10_000
BLOCK = 200  # samples drawn at a time: memory is this by the number of units


@dataclass(frozen=True, slots=True)
class Difference:
    """F1 of two systems in percent, and how sure the difference is.

    Attributes:
        a, b: F1 of each.
        ci95: interval of ``b - a`` that holds 95 % of the samples.
        p: two-sided: twice the share of samples on the other side of 0 (0 itself counts to both sides), at most 1 and
            never below 2 / (n_samples + 1).
    """

    a: float
    b: float
    ci95: tuple[float, float]
    p: float

    @property
    def difference(self) -> float:
        """What the second has more than the first."""
        return self.b - self.a

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        return {"a": self.a, "b": self.b, "difference": self.difference, "ci95": list(self.ci95), "p": self.p}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the same units.

    Attributes:
        rates_a, rates_b: what each system got of each mark, over the units that both have.
        marks: F1 of each mark.
        micro: over all marks together.
        macro: mean F1 of the marks that the reference or the system has.
        n_units: utterances (or recordings) that were drawn from.
        n_samples: how often.
        seed: of the draws.
        only_a, only_b: units that the other lacks; these and the next are in no figure.
        missing: units of the reference that both lack.
        unknown: units of either that the reference lacks.
    """

    rates_a: Mapping[str, Rates]
    rates_b: Mapping[str, Rates]
    marks: Mapping[str, Difference]
    micro: Difference
    macro: Difference
    n_units: int
    n_samples: int
    seed: int
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists for JSON; rates are percentages."""
        return {
            "a": {mark: r.as_dict() for mark, r in self.rates_a.items()},
            "b": {mark: r.as_dict() for mark, r in self.rates_b.items()},
            "f1": {
                "marks": {mark: d.as_dict() for mark, d in self.marks.items()},
                "micro": self.micro.as_dict(),
                "macro": self.macro.as_dict(),
            },
            "n_units": self.n_units,
            "n_samples": self.n_samples,
            "seed": self.seed,
            "only_a": list(self.only_a),
            "only_b": list(self.only_b),
            "missing": list(self.missing),
            "unknown": list(self.unknown),
        }

    def __str__(self) -> str:
        """A table for eyes."""
        rows = [f"{'F1':<12}{'A':>8}{'B':>8}{'B - A':>8}{'95 % interval':>18}{'p':>9}{'support':>10}"]
        n_total = sum(r.n_ref for r in self.rates_a.values())
        supports = [*(r.n_ref for r in self.rates_a.values()), n_total, n_total]
        named = {**self.marks, "micro": self.micro, "macro": self.macro}
        for (name, d), n_ref in zip(named.items(), supports, strict=True):
            interval = f"{d.ci95[0]:+.1f} to {d.ci95[1]:+.1f}"
            rows.append(f"{name:<12}{d.a:8.1f}{d.b:8.1f}{d.difference:+8.1f}{interval:>18}{d.p:9.4f}{n_ref:10d}")
        rows.append(f"paired bootstrap: {self.n_units} units, {self.n_samples} samples, seed {self.seed}")
        left_out = {
            "only in A": self.only_a,
            "only in B": self.only_b,
            "in neither": self.missing,
            "unknown": self.unknown,
        }
        if any(left_out.values()):
            rows.append(f"not compared: {', '.join(f'{len(u)} {what}' for what, u in left_out.items())}")
        return "\n".join(rows)


def compare(
    a: Mapping[str, Counts], b: Mapping[str, Counts], *, n_samples: int = N_SAMPLES, seed: int = 0
) -> Comparison:
    """How much better the second system is than the first.

    The order of the units has no part in it, and with the systems swapped every difference changes its sign alone.

    Args:
        a: what the first system got in each unit, as ``Score.marks`` has it: a unit is an utterance, or a recording
            where its utterances lean on each other.
        b: the same of the second system.
        n_samples: how often the units are drawn anew.
        seed: of the draws.

    Raises:
        FormatError: fewer than two units that both have.
        ValueError: ``n_samples`` below 1.
    """
    if n_samples < 1:
        raise ValueError(f"n_samples: expected at least 1, got {n_samples}")
    units = sorted(a.keys() & b.keys())
    if len(units) < 2:
        raise FormatError(
            f"expected at least two units that both systems have, got {len(units)} (A has {len(a)}, B {len(b)}); "
            "compare systems that were scored on the same utterances"
        )
    marks = list(dict.fromkeys(m for side in (a, b) for u in units for m in side[u]))
    counted = np.stack([_counts_of(side, units, marks) for side in (a, b)], axis=1)  # (U, 2, C, 3)
    whole = counted.sum(axis=0)
    sums = _draw(counted, n_samples, seed)
    return Comparison(
        rates_a=_rates(marks, whole[0]),
        rates_b=_rates(marks, whole[1]),
        marks={m: _difference(whole, sums, lambda x, k=k: _f1(x[..., k, :])) for k, m in enumerate(marks)},  # type: ignore[misc]
        micro=_difference(whole, sums, lambda x: _f1(x.sum(axis=-2))),
        macro=_difference(whole, sums, _macro_f1),
        n_units=len(units),
        n_samples=n_samples,
        seed=seed,
        only_a=tuple(sorted(a.keys() - b.keys())),
        only_b=tuple(sorted(b.keys() - a.keys())),
    )


def compare_tables(
    ref: str | os.PathLike[str],
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    labels: LabelSet = DEFAULT_LABELS,
    *,
    n_samples: int = N_SAMPLES,
    seed: int = 0,
) -> Comparison:
    """``compare`` of two tables of punctuated text against one reference, utterance by utterance.

    Args:
        ref: as of ``scoring.score``.
        a: as ``hyp`` of ``scoring.score``.
        b: the same of the second system; its words may be others.
        labels: the marks to score.
        n_samples: as of ``compare``.
        seed: as of ``compare``.

    Raises:
        FormatError: a table cannot be read or holds a key twice, or fewer than two utterances are in all three.
    """
    refs, texts_a, texts_b = read_marked(ref), read_marked(a), read_marked(b)

    def count(texts: Mapping[str, str]) -> dict[str, Counts]:
        return {
            u: score_words(split(refs[u], labels), split(texts[u], labels), labels=labels).marks
            for u in refs
            if u in texts
        }

    return replace(
        compare(count(texts_a), count(texts_b), n_samples=n_samples, seed=seed),
        missing=tuple(sorted(refs.keys() - texts_a.keys() - texts_b.keys())),
        unknown=tuple(sorted((texts_a.keys() | texts_b.keys()) - refs.keys())),
    )


def _counts_of(side: Mapping[str, Counts], units: list[str], marks: list[str]) -> Array:
    """(U, C, 3): marks asked for, given, right."""
    nothing = Rates(0, 0, 0)
    rates = [[side[u].get(m, nothing) for m in marks] for u in units]
    return np.array([[(r.n_ref, r.n_hyp, r.n_hit) for r in row] for row in rates], np.float64).reshape(
        len(units), len(marks), 3
    )


def _draw(counted: Array, n_samples: int, seed: int) -> Array:
    """(n_samples, 2, C, 3): sums over units drawn with replacement. Floats, which hold these integers exactly."""
    rng = np.random.default_rng(seed)
    n_units = len(counted)
    flat = counted.reshape(n_units, -1)
    even = np.full(n_units, 1.0 / n_units)
    parts = []
    for first in range(0, n_samples, BLOCK):
        # How often each unit is drawn is all that matters.
        times = rng.multinomial(n_units, even, size=min(BLOCK, n_samples - first))
        parts.append(times.astype(np.float64) @ flat)
    return np.concatenate(parts).reshape(n_samples, *counted.shape[1:])


def _difference(whole: Array, sums: Array, figure: Callable[[Array], Array]) -> Difference:
    """Of one figure, which maps counts (..., C, 3) to (...)."""
    a, b = figure(whole).tolist()
    sampled = figure(sums)  # (n_samples, 2)
    differences = sampled[:, 1] - sampled[:, 0]
    n_below, n_above = int((differences <= 0).sum()), int((differences >= 0).sum())
    p = min(1.0, 2.0 * (1 + min(n_below, n_above)) / (1 + len(differences)))
    low, high = np.percentile(differences, [2.5, 97.5]).tolist()
    return Difference(a, b, (low, high), p)


def _f1(counts: Array) -> Array:
    """(..., 3) -> (...): F1 in percent, 0 where there is nothing."""
    return 200.0 * counts[..., 2] / np.maximum(counts[..., 0] + counts[..., 1], 1.0)


def _macro_f1(counts: Array) -> Array:
    """(..., C, 3) -> (...): mean F1 of the marks that either side has."""
    seen = counts[..., 0] + counts[..., 1] > 0
    sums: Array = (_f1(counts) * seen).sum(axis=-1)
    n_seen: Array = np.maximum(seen.sum(axis=-1), 1.0)
    means: Array = sums / n_seen
    return means


def _rates(marks: list[str], counts: Array) -> dict[str, Rates]:
    return {m: Rates(*(int(n) for n in row)) for m, row in zip(marks, counts, strict=True)}
