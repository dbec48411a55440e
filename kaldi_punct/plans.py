"""What is computed for one answer, and how the probabilities of its windows become those of its words."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from kaldi_punct.batch import Example
from kaldi_punct.nbest import Array, fuse
from kaldi_punct.types import Case, Word
from kaldi_punct.windows import Window


@dataclass(frozen=True, slots=True)
class Probs:
    """Probabilities of one example's words: marks (W, C), cases (W, 4), float32."""

    marks: Array
    cases: Array


@dataclass(frozen=True, slots=True)
class Strand:
    """One word sequence of a plan: its windows, and which of its tokens are words.

    Attributes:
        words: the tokens to answer, without the left context.
        real: index into ``words`` of each real word.
        n_left: real words of left context before them in the track.
        windows: over left context and real words.
        sizes: how many of the tokens each utterance has.
        weights: share of each utterance's hypothesis in a fusion.
    """

    words: tuple[Word, ...]
    real: tuple[int, ...]
    n_left: int
    windows: tuple[Window, ...]
    sizes: tuple[int, ...]
    weights: tuple[float, ...]

    def parts(self) -> Iterator[slice]:
        """The real words of each utterance, as they are counted in ``real``."""
        for size, end in zip(self.sizes, accumulate(self.sizes), strict=True):
            yield slice(bisect_left(self.real, end - size), bisect_left(self.real, end))

    def tokens(self, part: slice) -> list[str]:
        """Real words."""
        return [self.words[i].word for i in self.real[part]]

    def confidences(self, part: slice) -> list[float]:
        """Of real words; 1 where unknown."""
        known = (self.words[i].confidence for i in self.real[part])
        return [1.0 if c is None else c for c in known]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be computed for one answer: ``infer`` takes the examples, ``finish`` their probabilities, in order.

    Its strands are the hypotheses of the same utterances, best first.
    """

    strands: tuple[Strand, ...]
    examples: tuple[Example, ...]
    used_times: bool
    used_audio: bool
    weigh_words: bool = False


def merge(plan: Plan, probs: Sequence[Probs], n_marks: int) -> tuple[Array, Array, Array | None]:
    """(marks, cases) of the first strand's real words, and the marks of the word before them: all probabilities.

    Args:
        plan: of the answer.
        probs: one for each of its examples, in order.
        n_marks: classes of a mark.
    """
    stitched = []
    taken = 0
    for strand in plan.strands:
        own = list(probs[taken : taken + len(strand.windows)])
        taken += len(strand.windows)
        stitched.append(_stitch(strand, own, n_marks))
    lead = _mark_before(plan.strands[0], probs)
    if len(plan.strands) == 1:
        return *stitched[0], lead
    fused = [_fuse_utterance(plan, stitched, u) for u in range(len(plan.strands[0].sizes))]
    return np.concatenate([m for m, _ in fused]), np.concatenate([c for _, c in fused]), lead


def is_heard(example: Example, by_times: bool) -> bool:
    """Whether sound has a part in the answer to an example."""
    if example.frames is None or example.last_frames is None:
        return False
    return bool((example.last_frames >= 0).any()) if by_times else bool(len(example.frames))


def _fuse_utterance(plan: Plan, stitched: Sequence[tuple[Array, Array]], u: int) -> tuple[Array, Array]:
    """The probabilities of all strands on the first's words, in one utterance."""
    taking_part = [k for k, s in enumerate(plan.strands) if k == 0 or s.weights[u] > 0]
    strands = [plan.strands[k] for k in taking_part]
    parts = [list(s.parts())[u] for s in strands]
    tokens = [s.tokens(part) for s, part in zip(strands, parts, strict=True)]
    confidences = [s.confidences(part) for s, part in zip(strands, parts, strict=True)]
    probs = [(stitched[k][0][part], stitched[k][1][part]) for k, part in zip(taking_part, parts, strict=True)]
    return fuse(tokens, [s.weights[u] for s in strands], probs, confidences if plan.weigh_words else None)


def _mark_before(strand: Strand, probs: Sequence[Probs]) -> Array | None:
    """Mark probabilities of the last word of left context; None without context, or where no window saw it."""
    for window, p in zip(strand.windows, probs, strict=False):
        if window.start < strand.n_left <= window.stop:
            row: Array = p.marks[strand.n_left - 1 - window.start]
            return row
    return None


def _stitch(strand: Strand, probs: Sequence[Probs], n_marks: int) -> tuple[Array, Array]:
    """Each real word's probabilities from the window that answers it."""
    n_words = strand.n_left + len(strand.real)
    marks = np.zeros((n_words, n_marks), np.float32)
    cases = np.zeros((n_words, len(Case)), np.float32)
    for window, p in zip(strand.windows, probs, strict=True):
        part = slice(window.first - window.start, window.last - window.start)
        marks[window.first : window.last] = p.marks[part]
        cases[window.first : window.last] = p.cases[part]
    return marks[strand.n_left :], cases[strand.n_left :]
