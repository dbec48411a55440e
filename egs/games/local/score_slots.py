#!/usr/bin/env python3
"""Scores a model on inner slots and on end slots apart, as JSON or text.

e.g.: local/score_slots.py exp/ref_a_all/best data/ref/b

A seam between two joined files is a pause that says only that a file ended, and nearly every file ends a sentence; so a
figure over all slots would measure the joining. An end slot is the word that a file's last reference word projects to.
Slots whose mark is unknown ("⁇" in the reference) are not scored.
`--silence` puts silence in place of the sound, `--shift-s 0.5` moves every word time.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import kaldi_punct
from kaldi_punct.audio import read_audio
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.kaldi.streams import open_rxfilename
from kaldi_punct.labels import DEFAULT_LABELS, LabelledWord, split
from kaldi_punct.projection import project
from kaldi_punct.scoring import Score, score_marks
from kaldi_punct.types import Audio, Word


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--silence", action="store_true", help="zeros in place of the sound")
    parser.add_argument("--shift-s", type=float, default=0.0, help="added to every word time")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    scores = score_slots(args.model, args.data_dir, silence=args.silence, shift_s=args.shift_s)
    if args.json:
        print(json.dumps({kind: score.as_dict() for kind, score in scores.items()}))
        return
    for kind, score in scores.items():
        print(f"{kind} slots\n{score}\n")


def score_slots(model: str, data_dir: Path, *, silence: bool = False, shift_s: float = 0.0) -> dict[str, Score]:
    """Scores by kind of slot: "inner" and "end"."""
    punctuator = kaldi_punct.load(model)
    data = DataDir(data_dir)
    ends = {k: [int(v) for v in text.split(" ")] for k, text in read_table(data_dir / "file_ends").items()}
    ref_marks: list[str | None] = []
    hyp_marks: list[str] = []
    is_end: list[bool] = []
    for utterance in data:
        words = [shift(w, shift_s) for w in utterance.words]
        audio = read_sound(data.wav_scp[utterance.utt_id], silence) if punctuator.info.hears else None
        answer = punctuator(words, audio=audio)
        reference = split(data.text_punct[utterance.utt_id])
        marks, end_slots = place_reference(reference, ends[utterance.utt_id], [w.word for w in words])
        ref_marks.extend(marks)
        hyp_marks.extend(w.mark for w in answer.words)
        is_end.extend(i in end_slots for i in range(len(words)))
    return {
        "inner": score_marks(ref_marks, hyp_marks, labels=DEFAULT_LABELS, mask=[not e for e in is_end]),
        "end": score_marks(ref_marks, hyp_marks, labels=DEFAULT_LABELS, mask=is_end),
    }


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


def read_sound(rxfilename: str, silence: bool) -> Audio:
    with open_rxfilename(rxfilename) as stream:
        audio = read_audio(stream)
    return dataclasses.replace(audio, samples=np.zeros_like(audio.samples)) if silence else audio


def read_table(path: Path) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main()
