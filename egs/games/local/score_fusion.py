#!/usr/bin/env python3
"""Scores N-best fusion: the marks of 1, 2, 3, 5, 10 … hypotheses of real lattices, carried onto the best path's words.

e.g.: local/score_fusion.py exp/asr_a_timing/best corpora/games b data/asr/b

Every hypothesis is punctuated once; the lists then differ in how many of them count, and in what weighs them:

posterior   the share of all paths of the lattice that a hypothesis holds (what `Punctuator.fuse` uses)
equal       every hypothesis alike
flat        posteriors of costs at a third of the acoustic and graph scale: less sure of the first
words       posterior times the confidence of each word in the lattice (minimum Bayes risk confidences of the
            hypothesis' own words): `Punctuator.fuse(weigh_words=True)`

Inner slots and end slots apart, as in score_slots.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from score_slots import place_reference, read_sound, read_table
from tqdm import tqdm

import kaldi_punct
from kaldi_punct import _core
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.kaldi.lattice import Decoder, Lattice
from kaldi_punct.kaldi.lattice_tables import read_lattices
from kaldi_punct.kaldi.sausage import MbrOptions, decode_mbr
from kaldi_punct.labels import DEFAULT_LABELS, is_word, split
from kaldi_punct.nbest import fuse
from kaldi_punct.preparation.games import ACOUSTIC_SCALE, DECODE_DIRS, make_decoder
from kaldi_punct.punctuator import Punctuator
from kaldi_punct.scoring import Score, score_marks
from kaldi_punct.types import Audio, Hypothesis

WEIGHINGS = ("posterior", "equal", "flat", "words")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("fold", choices=("a", "b", "dev"), help="whose lattices are punctuated")
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 3, 5, 10], help="default %(default)s")
    args = parser.parse_args()
    for (weighing, n), scores in score_fusion(args.model, args.corpus, args.fold, args.data_dir, args.sizes).items():
        print(json.dumps({"weighing": weighing, "n": n, **{k: s.as_dict() for k, s in scores.items()}}))


def score_fusion(
    model: str, corpus: Path, fold: str, data_dir: Path, sizes: Sequence[int]
) -> dict[tuple[str, int], dict[str, Score]]:
    """Scores by (weighing, size of the list) and by kind of slot."""
    punctuator = kaldi_punct.load(model)
    data = DataDir(data_dir)
    ends = {k: [int(v) for v in text.split(" ")] for k, text in read_table(data_dir / "file_ends").items()}
    ref_marks: list[str | None] = []
    is_end: list[bool] = []
    answers: dict[tuple[str, int], list[str]] = {}
    for rec_id, hypotheses in tqdm(nbest_lists(corpus, fold, max(sizes)), unit="lattice", file=sys.stderr):
        audio = read_sound(data.wav_scp[rec_id], False) if punctuator.info.hears else None
        spk_id = data.utt2spk[rec_id]
        probs = [mark_probs(punctuator, h, spk_id, audio) for h in hypotheses]
        tokens = [[w.word for w in h.words if is_word(w.word)] for h in hypotheses]
        marks, end_slots = place_reference(split(data.text_punct[rec_id]), ends[rec_id], tokens[0])
        ref_marks.extend(marks)
        is_end.extend(i in end_slots for i in range(len(marks)))
        for weighing in WEIGHINGS:
            weights = weigh(hypotheses, weighing)
            confidences = [[w.confidence or 0.0 for w in h.words if is_word(w.word)] for h in hypotheses]
            for n in sizes:
                marks_and_cases = [(p, np.ones((len(p), 1), np.float32)) for p in probs[:n]]
                by_word = confidences[:n] if weighing == "words" else None
                fused, _ = fuse(tokens[:n], weights[:n], marks_and_cases, by_word)
                answers.setdefault((weighing, n), []).extend(punctuator.info.marks[i] for i in fused.argmax(-1))
    return {
        key: {
            "inner": score_marks(ref_marks, hyp_marks, labels=DEFAULT_LABELS, mask=[not e for e in is_end]),
            "end": score_marks(ref_marks, hyp_marks, labels=DEFAULT_LABELS, mask=is_end),
        }
        for key, hyp_marks in answers.items()
    }


def nbest_lists(corpus: Path, fold: str, n: int) -> Iterator[tuple[str, tuple[Hypothesis, ...]]]:
    directory = corpus / "decode" / DECODE_DIRS[fold if fold == "dev" else f"train_{fold}"]
    decoder = make_decoder(corpus, directory)
    ids = {word: number for number, word in decoder.words.items()}
    for archive in sorted(directory.glob("lat.*.gz")):
        for rec_id, lattice in read_lattices(f"ark:{archive}"):
            if isinstance(lattice, Lattice):
                yield rec_id, tuple(with_confidences(decoder, ids, lattice, h) for h in decoder.nbest(lattice, n))


def with_confidences(decoder: Decoder, ids: dict[str, int], lattice: Lattice, hypothesis: Hypothesis) -> Hypothesis:
    """The hypothesis with the confidence of each of its words among all paths of the lattice."""
    scales = _core.Scales(decoder.lm_scale, decoder.acoustic_scale, decoder.word_ins_penalty)
    sausage = decode_mbr(lattice, scales, MbrOptions(mbr=False), [ids[w.word] for w in hypothesis.words])
    words = [
        dataclasses.replace(w, confidence=min(p, 1.0))
        for w, (_, p, _, _) in zip(hypothesis.words, sausage.one_best, strict=True)
    ]
    return dataclasses.replace(hypothesis, words=tuple(words))


def mark_probs(punctuator: Punctuator, hypothesis: Hypothesis, spk_id: str, audio: Audio | None) -> np.ndarray:
    """(W, C) mark probabilities of the real words of one hypothesis, which know their speaker as in training."""
    words = [dataclasses.replace(w, spk_id=spk_id, confidence=None) for w in hypothesis.words if is_word(w.word)]
    answer = punctuator(words, audio=audio)
    return np.array([w.label_probs for w in answer.words], np.float32).reshape(len(words), -1)


def weigh(hypotheses: Sequence[Hypothesis], weighing: str) -> list[float]:
    if weighing == "equal":
        return [1.0] * len(hypotheses)
    if weighing in ("posterior", "words"):
        return [h.posterior or 0.0 for h in hypotheses]
    costs = np.array([(h.graph_cost or 0.0) + ACOUSTIC_SCALE * (h.acoustic_cost or 0.0) for h in hypotheses])
    return [float(w) for w in np.exp(-(costs - costs.min()) / 3)]


if __name__ == "__main__":
    main()
