"""Scores for eyes and for other programs: what ``kaldi-punct score`` prints, and tables for a results page."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from kaldi_punct.labels import DEFAULT_LABELS, LabelSet
from kaldi_punct.scoring import Score, score
from kaldi_punct.significance import N_SAMPLES, Comparison, compare_tables


def run(
    ref: str | os.PathLike[str],
    hyp: str | os.PathLike[str],
    *,
    as_json: bool = False,
    labels: LabelSet = DEFAULT_LABELS,
) -> tuple[Score, str]:
    """The score of a table against another, and the text to print: the table, or one JSON object.

    Args:
        ref: as of ``scoring.score``.
        hyp: as of ``scoring.score``; its name ends the grep-able line.
        as_json: JSON in place of the table.
        labels: the marks to score.
    """
    result = score(ref, hyp, labels)
    name = os.fspath(hyp)
    return result, to_json(result, name) if as_json else to_text(result, name)


def run_compare(
    ref: str | os.PathLike[str],
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    as_json: bool = False,
    labels: LabelSet = DEFAULT_LABELS,
    n_samples: int = N_SAMPLES,
    seed: int = 0,
) -> tuple[Comparison, str]:
    """Two tables compared on one reference, and the text to print: which is A and B and a table, or one JSON object.

    Args:
        ref: as of ``significance.compare_tables``, as are the others.
        a: its name is told.
        b: its name is told.
        as_json: JSON in place of the table.
        labels: the marks to score.
        n_samples: how often utterances are drawn anew.
        seed: of the draws.
    """
    result = compare_tables(ref, a, b, labels, n_samples=n_samples, seed=seed)
    names = {"A": os.fspath(a), "B": os.fspath(b)}
    if as_json:
        named = {f"name_{side.lower()}": name for side, name in names.items()}
        return result, json.dumps({**named, **result.as_dict()}, ensure_ascii=False)
    return result, "\n".join([*(f"{side}: {name}" for side, name in names.items()), str(result)])


def to_text(result: Score, name: str = "") -> str:
    """The table with ``name`` in its first line, which greps as ``%F1``."""
    first, _, rest = str(result).partition("\n")
    assert first == result.line(), "the table begins with the line. This is a bug."
    return f"{result.line(name)}\n{rest}"


def to_json(result: Score, name: str = "") -> str:
    """One JSON object in one line; keys as of ``Score.as_dict``, ``name`` first."""
    return json.dumps({"name": name, **result.as_dict()}, ensure_ascii=False)


def errors(result: Score) -> list[str]:
    """One line for each utterance that could not be scored, to be reported and counted."""
    return [f"{u}: expected in the hypothesis, got no such utterance; not scored" for u in result.missing] + [
        f"{u}: expected in the reference, got no such utterance; not scored" for u in result.unknown
    ]


def compare_errors(result: Comparison, a: str, b: str) -> list[str]:
    """One line for each utterance that could not be compared, to be reported and counted."""
    return [
        f"{utt_id}: expected in {place}, got no such utterance; not compared"
        for place, utt_ids in (
            (a, result.only_b),
            (b, result.only_a),
            (f"{a} and {b}", result.missing),
            ("the reference", result.unknown),
        )
        for utt_id in utt_ids
    ]


def to_markdown(results: Mapping[str, Score]) -> str:
    """A table with one row a score: F1 of each mark with its support, micro, macro, case accuracy, lost marks."""
    marks = list(dict.fromkeys(mark for r in results.values() for mark in r.marks))
    head = ["", *(f"`{m}`" for m in marks), "micro", "macro", "case %", "lost %"]
    rows = [head, ["---"] * len(head)]
    for name, r in results.items():
        each = [f"{r.marks[m].f1:.1f} ({r.marks[m].n_ref})" if m in r.marks else "" for m in marks]
        case = f"{r.case_accuracy:.1f}" if r.n_cases else ""
        rows.append([name, *each, f"{r.micro.f1:.1f}", f"{r.macro_f1:.1f}", case, f"{r.lost_share:.1f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
