#!/usr/bin/env python3
"""Scores a model on data directories: with all that they know, with the times hidden, and on the text alone.

e.g.: local/score_sets.py exp/en/best data/earnings21_dev data/ami_dev data/podcasts_dev

One row a set and condition: F1 of comma, full stop, question mark, micro over the three, support of each, share of
words with the right case. The words are those of the data directory (ASR words in earnings21, through projection).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import kaldi_punct
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.labels import DEFAULT_LABELS, split
from kaldi_punct.projection import project
from kaldi_punct.punctuator import Punctuator, punctuate_conversation
from kaldi_punct.scoring import Score, score_marks
from kaldi_punct.types import Word

CONDITIONS: dict[str, Callable[[Word], Word]] = {
    "all": lambda word: word,
    "times hidden": lambda word: dataclasses.replace(word, start_s=None, duration_s=None),
    "text alone": lambda word: Word(word.word),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data_dirs", nargs="+", type=Path)
    parser.add_argument("--conditions", default=",".join(CONDITIONS), help="comma-separated: " + ", ".join(CONDITIONS))
    parser.add_argument("--json", action="store_true", help="one object a row, with precision and recall")
    args = parser.parse_args()
    punctuator = kaldi_punct.load(args.model)
    if not args.json:
        print("| set | known | , | . | ? | micro | support , . ? | case % |\n|---|---|---|---|---|---|---|---|")
    for data_dir in args.data_dirs:
        for condition in args.conditions.split(","):
            score = score_set(punctuator, DataDir(data_dir), CONDITIONS[condition])
            if args.json:
                print(json.dumps({"set": data_dir.name, "known": condition, **score.as_dict()}), flush=True)
            else:
                print(row(data_dir.name, condition, score), flush=True)


def score_set(punctuator: Punctuator, data_dir: DataDir, strip: Callable[[Word], Word]) -> Score:
    """The score of a whole set, conversation by conversation."""
    ref_marks: list[str | None] = []
    ref_cases: list[int | None] = []
    hyp_marks: list[str] = []
    hyp_cases: list[int] = []
    for conversation in data_dir.conversations():
        utterances = [dataclasses.replace(u, words=tuple(map(strip, u.words))) for u in conversation.utterances]
        for answer in punctuate_conversation(punctuator, utterances):
            reference = data_dir.text_punct.get(answer.utt_id)
            if reference is None:
                continue
            target = project(split(reference), [w.word.word for w in answer.words]).words
            for truth, word in zip(target, answer.words, strict=True):
                if word.case is not None:
                    ref_marks.append(truth.mark)
                    ref_cases.append(truth.case)
                    hyp_marks.append(word.mark)
                    hyp_cases.append(int(word.case))
    return score_marks(ref_marks, hyp_marks, ref_cases, hyp_cases, labels=DEFAULT_LABELS)


def row(name: str, condition: str, score: Score) -> str:
    """One line of the table."""
    f1 = " | ".join(f"{score.marks[m].f1:.1f}" for m in ",.?")
    support = " ".join(str(score.marks[m].support) for m in ",.?")
    return f"| {name} | {condition} | {f1} | {score.micro.f1:.1f} | {support} | {score.case_accuracy:.1f} |"


if __name__ == "__main__":
    main()
