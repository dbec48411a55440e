#!/usr/bin/env python3
"""Scores a model on inner slots and on end slots apart, as JSON or text.

e.g.: local/score_slots.py exp/ref_a_all/best data/ref/b

A seam between two joined files is a pause that says only that a file ended, and nearly every file ends a sentence; so a
figure over all slots would measure the joining. An end slot is the word that a file's last reference word projects to.
Slots whose mark is unknown ("⁇" in the reference) are not scored.
`--silence` puts silence in place of the sound, `--shift-s 0.5` moves every word time. `--counts F` writes what was
counted in each recording, for compare_slots.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import kaldi_punct
from kaldi_punct.audio import read_audio
from kaldi_punct.kaldi.data_dir import Conversation, DataDir
from kaldi_punct.kaldi.streams import open_rxfilename
from kaldi_punct.labels import DEFAULT_LABELS, LabelledWord, split
from kaldi_punct.plans import Plan
from kaldi_punct.projection import project
from kaldi_punct.punctuator import infer_in_groups
from kaldi_punct.scoring import Score, score_marks
from kaldi_punct.types import Audio, Word


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--silence", action="store_true", help="zeros in place of the sound")
    parser.add_argument("--shift-s", type=float, default=0.0, help="added to every word time")
    parser.add_argument("--counts", type=Path, help="JSON lines (.gz): counts of each recording and kind of slot")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    slots = label_slots(args.model, args.data_dir, silence=args.silence, shift_s=args.shift_s)
    if args.counts is not None:
        with gzip.open(args.counts, "wt") if args.counts.suffix == ".gz" else open(args.counts, "w") as f:
            f.writelines(f"{line}\n" for line in count_lines(slots))
    scores = score_all(slots)
    if args.json:
        print(json.dumps({kind: score.as_dict() for kind, score in scores.items()}))
        return
    for kind, score in scores.items():
        print(f"{kind} slots\n{score}\n")


class Slots(NamedTuple):
    """The slots of one recording: the true mark (None is not scored), the one given, whether a file ends there."""

    rec_id: str
    ref_marks: list[str | None]
    hyp_marks: list[str]
    is_end: list[bool]


def score_slots(model: str, data_dir: Path, *, silence: bool = False, shift_s: float = 0.0) -> dict[str, Score]:
    """Scores by kind of slot: "inner" and "end"."""
    return score_all(label_slots(model, data_dir, silence=silence, shift_s=shift_s))


def label_slots(model: str, data_dir: Path, *, silence: bool = False, shift_s: float = 0.0) -> list[Slots]:
    """What a model answers in each recording, beside what is true."""
    punctuator = kaldi_punct.load(model)
    data = DataDir(data_dir)
    ends = {k: [int(v) for v in text.split(" ")] for k, text in read_table(data_dir / "file_ends").items()}
    hear = punctuator.sound_reader(data)

    def plan(recording: Conversation) -> Plan:
        words = [shift(w, shift_s) for utterance in recording.utterances for w in utterance.words]
        if hear is None:
            return punctuator.plan(words)
        # Frames that kaldi-punct feats computed before are those of the sound, not of silence.
        audio = read_silence(data.wav_scp[recording.rec_id]) if silence else hear(recording)
        return punctuator.plan(words, audio=audio)

    plans = ((recording.rec_id, plan(recording)) for recording in data.conversations())
    out = []
    for (rec_id, planned), probs in infer_in_groups(punctuator, (((r, p), p.examples) for r, p in plans)):
        answer = punctuator.finish(planned, probs)
        reference = split(data.text_punct[rec_id])
        marks, end_slots = place_reference(reference, ends[rec_id], [w.word.word for w in answer.words])
        is_end = [i in end_slots for i in range(len(answer.words))]
        out.append(Slots(rec_id, marks, [w.mark for w in answer.words], is_end))
    return out


def score_all(slots: Sequence[Slots]) -> dict[str, Score]:
    """Scores by kind of slot, over recordings."""
    ref_marks = [m for s in slots for m in s.ref_marks]
    hyp_marks = [m for s in slots for m in s.hyp_marks]
    is_end = [e for s in slots for e in s.is_end]
    return {
        "inner": score_marks(ref_marks, hyp_marks, labels=DEFAULT_LABELS, mask=[not e for e in is_end]),
        "end": score_marks(ref_marks, hyp_marks, labels=DEFAULT_LABELS, mask=is_end),
    }


def count_lines(slots: Sequence[Slots]) -> Iterator[str]:
    """JSON objects ``{"rec_id", "kind", "marks": {mark: {"n_ref", "n_hyp", "n_hit"}}}``, two a recording."""
    for s in slots:
        for kind, score in score_all([s]).items():
            marks = {mark: dataclasses.asdict(rates) for mark, rates in score.marks.items()}
            yield json.dumps({"rec_id": s.rec_id, "kind": kind, "marks": marks})


def place_reference(
    reference: Sequence[LabelledWord], ends: Sequence[int], tokens: Sequence[str]
) -> tuple[list[str | None], set[int]]:
    """(mark of each token, None where it is not scored; the tokens at which a file ends)."""
    if [w.word for w in reference] == [t.lower() for t in tokens]:
        return [w.mark for w in reference], set(ends)
    projection = project(reference, tokens)
    end_slots = {slot for e in ends if (slot := projection.slots[e]) is not None}
    return [w.mark for w in projection.words], end_slots


def shift(word: Word, shift_s: float) -> Word:
    return word if word.start_s is None else dataclasses.replace(word, start_s=max(word.start_s + shift_s, 0.0))


def read_silence(rxfilename: str) -> Audio:
    """Zeros in place of a sound."""
    with open_rxfilename(rxfilename) as stream:
        audio = read_audio(stream)
    return dataclasses.replace(audio, samples=np.zeros_like(audio.samples))


def read_table(path: Path) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main()
