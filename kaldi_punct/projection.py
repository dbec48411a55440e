"""Carry a reference's marks and case onto other words of the same speech (a decoder's) by edit distance.

Memory is bounded: kaldialign keeps 4 bytes for each pair of a reference and a hypothesis word, so long inputs are first
cut along a minimal path found by rapidfuzz (bit-parallel, Hirschberg: linear memory) into pieces of at most
``PIECE_STEPS`` words of both sides, about 1 MiB a piece. A path that is cut stays minimal, so nothing is lost by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import kaldialign
import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from kaldi_punct.labels import FINAL_MARKS, LabelledWord, is_word, write_case
from kaldi_punct.types import Case

PIECE_STEPS = 1024  # most words, reference and hypothesis together, that kaldialign sees at once
BLOCK_CELLS = 1 << 16  # a larger block of errors is no speech recognition: kaldialign's pairs stay
ALIKE = 0.5  # spelling similarity (0..1) from which two words count as two spellings of one
CASE_ALIKE = 0.7  # the same, for giving a substituted word the reference's case
PAIR_GAIN = 0.25  # what any pair of words in a block is worth beside its similarity

Pair = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Projection:
    """A hypothesis with a reference's labels, and what that cost.

    Attributes:
        words: one for each hypothesis word, in order. ``mark`` is "" after an inserted word; ``case`` None is unknown.
        slots: for each reference word, the index of the hypothesis word that its mark goes to: the word that it is
            paired with, or else the real word before; None if there is none.
        n_marks: marks that the reference has.
        n_marks_lost: those of them that found no free word.
        n_equal: hypothesis words that equal their reference word, case apart.
        n_substituted: hypothesis words paired with another reference word.
        n_inserted: hypothesis words without a partner.
        n_deleted: reference words without a partner.
    """

    words: tuple[LabelledWord, ...]
    slots: tuple[int | None, ...]
    n_marks: int
    n_marks_lost: int
    n_equal: int
    n_substituted: int
    n_inserted: int
    n_deleted: int


def project(ref: Sequence[LabelledWord], hyp: Sequence[str]) -> Projection:
    """The hypothesis' words with the reference's marks and case.

    A word that is equal takes mark, case and ``written``; a substituted one takes the mark (a non-word such as
    ``<unk>`` passes it to the word before), and the case where it can be trusted. The mark of a deleted word moves to
    the word before, but never onto another mark: then it is lost. Times are not touched.

    Args:
        ref: the reference, as ``labels.split`` gives it.
        hyp: the decoder's words.
    """
    pairs = align([w.word for w in ref], hyp)
    marks: list[str | None] = [""] * len(hyp)
    sources: list[int | None] = [None] * len(hyp)
    slots: list[int | None] = [None] * len(ref)
    last: int | None = None  # the last real word of the hypothesis so far
    n_lost = n_inserted = 0
    for i, j in pairs:
        if j is not None:
            sources[j] = i
            n_inserted += i is None
            last = j if is_word(hyp[j]) else last
        if i is None:
            continue
        slots[i] = last
        mark = ref[i].mark
        if mark == "":
            continue
        if last is not None and marks[last] == "":
            marks[last] = mark
        elif mark is not None:
            n_lost += 1
    words = _labelled(ref, hyp, marks, sources)
    n_equal = sum(i is not None and _key(ref[i].word) == _key(w) for i, w in zip(sources, hyp, strict=True))
    return Projection(
        words=words,
        slots=tuple(slots),
        n_marks=sum(bool(w.mark) for w in ref),
        n_marks_lost=n_lost,
        n_equal=n_equal,
        n_substituted=len(hyp) - n_inserted - n_equal,
        n_inserted=n_inserted,
        n_deleted=len(ref) + n_inserted - len(hyp),
    )


def align(ref: Sequence[str], hyp: Sequence[str]) -> list[Pair]:
    """Index pairs ``(i, j)`` of a minimal edit path, in order; None on one side is a deletion or an insertion.

    Words are compared without regard to case. Within each block of errors, words are paired again by spelling; where
    spelling says nothing, surplus hypothesis words come first in their block and surplus reference words last, so that
    a mark lands at the end of what was said in its place ("2020." on the last of "two thousand twenty").

    Args:
        ref: reference words.
        hyp: hypothesis words.
    """
    ref, hyp = [_key(w) for w in ref], [_key(w) for w in hyp]
    if ref == hyp:
        return [(i, i) for i in range(len(ref))]
    numbers: dict[str, int] = {}
    r = [numbers.setdefault(w, len(numbers)) for w in ref]
    h = [numbers.setdefault(w, len(numbers)) for w in hyp]
    pairs: list[Pair] = []
    i0 = j0 = 0
    for i1, j1 in _cuts(r, h):
        i, j = i0, j0
        for a, b in kaldialign.align(r[i0:i1], h[j0:j1], -1):
            pairs.append((None if a == -1 else i, None if b == -1 else j))
            i, j = i + (a != -1), j + (b != -1)
        i0, j0 = i1, j1
    return _pair_again(pairs, ref, hyp)


def _cuts(r: list[int], h: list[int]) -> list[tuple[int, int]]:
    """Ends of the pieces, on one minimal path, inside runs of equal words where there are any."""
    if len(r) + len(h) <= PIECE_STEPS:
        return [(len(r), len(h))]
    cuts: list[tuple[int, int]] = []
    i0 = j0 = 0
    good: tuple[int, int] | None = None  # the last place within reach that has equal words on both sides
    for op in Levenshtein.opcodes(r, h):
        i, j = op.src_start, op.dest_start
        while (i, j) != (op.src_end, op.dest_end):
            i, j = min(i + 1, op.src_end), min(j + 1, op.dest_end)
            if i + j - i0 - j0 >= PIECE_STEPS - 1:
                i0, j0 = good or (i, j)
                cuts.append((i0, j0))
                good = None
            if op.tag == "equal" and op.src_start < i < op.src_end and i + j - i0 - j0 > PIECE_STEPS // 2:
                good = (i, j)
    if not cuts or cuts[-1] != (len(r), len(h)):
        cuts.append((len(r), len(h)))
    return cuts


def _pair_again(pairs: list[Pair], ref: Sequence[str], hyp: Sequence[str]) -> list[Pair]:
    """The same path with the words of each block of errors paired by spelling."""
    out: list[Pair] = []
    block: list[Pair] = []
    for i, j in pairs:
        if i is not None and j is not None and ref[i] == hyp[j]:
            out += _pair_block(block, ref, hyp)
            block = []
            out.append((i, j))
        else:
            block.append((i, j))
    return out + _pair_block(block, ref, hyp)


def _pair_block(block: list[Pair], ref: Sequence[str], hyp: Sequence[str]) -> list[Pair]:
    rows = [i for i, _ in block if i is not None]
    cols = [j for _, j in block if j is not None]
    if len(block) < 2 or not rows or not cols or len(rows) * len(cols) > BLOCK_CELLS:
        return block
    alike = process.cdist(
        [_letters(ref[i]) for i in rows],
        [_letters(hyp[j]) for j in cols],
        scorer=Levenshtein.normalized_similarity,
        score_cutoff=ALIKE,
        dtype=np.float32,
    )
    gain = alike + PAIR_GAIN
    best = np.zeros((len(rows) + 1, len(cols) + 1), np.float32)
    for a in range(len(rows)):
        np.maximum(best[a, 1:], best[a, :-1] + gain[a], out=best[a + 1, 1:])
        np.maximum.accumulate(best[a + 1], out=best[a + 1])
    path: list[Pair] = []
    a, b = len(rows), len(cols)
    while a and b:
        # The order of these questions settles ties: surplus reference words go last, surplus hypothesis words first.
        if best[a, b] == best[a - 1, b]:
            a -= 1
            path.append((rows[a], None))
        elif best[a, b] == best[a, b - 1]:
            b -= 1
            path.append((None, cols[b]))
        else:
            a, b = a - 1, b - 1
            path.append((rows[a], cols[b]))
    path += [(rows[k], None) for k in range(a - 1, -1, -1)]
    path += [(None, cols[k]) for k in range(b - 1, -1, -1)]
    return _reach_the_end(path[::-1], ref, hyp)


def _reach_the_end(path: list[Pair], ref: Sequence[str], hyp: Sequence[str]) -> list[Pair]:
    """The path with a word that was decoded as several paired with the last of them, where its mark belongs.

    "healthcare" heard as "health care", "Q3" as "q three": a word with a digit in it takes all insertions after it in
    its block, another word as many as make the spelling more alike.
    """
    out = list(path)
    for k, (i, j) in enumerate(path):
        if i is None or j is None:
            continue
        end = k
        word, said = _letters(ref[i]), _letters(hyp[j])
        spoken_number = any(c.isdigit() for c in word)
        alike = Levenshtein.normalized_similarity(word, said)
        for n in range(k + 1, len(path)):
            if path[n][0] is not None:
                break
            said += _letters(hyp[path[n][1]])  # type: ignore[index]  # an insertion has a hypothesis word
            now = Levenshtein.normalized_similarity(word, said)
            if spoken_number or now > alike:
                end, alike = n, now
        if end > k:
            out[k : end + 1] = [(None, p[1]) for p in path[k:end]] + [(i, path[end][1])]
    return out


def _labelled(
    ref: Sequence[LabelledWord], hyp: Sequence[str], marks: Sequence[str | None], sources: Sequence[int | None]
) -> tuple[LabelledWord, ...]:
    words: list[LabelledWord] = []
    starts = True  # the next word starts a sentence, of the hypothesis as it is labelled so far
    for j, word in enumerate(hyp):
        if not is_word(word):
            words.append(LabelledWord(word, "", None, word))
            continue
        i = sources[j]
        if i is not None and _key(ref[i].word) == _key(word):
            words.append(LabelledWord(word, marks[j], ref[i].case, ref[i].written))
        else:
            case = None if i is None else _trusted_case(ref, i, word, starts)
            words.append(LabelledWord(word, marks[j], case, "" if case is None else write_case(word, case)))
        starts = marks[j] in FINAL_MARKS if marks[j] else False
    return tuple(words)


def _trusted_case(ref: Sequence[LabelledWord], i: int, word: str, starts: bool) -> Case | None:
    """The case of a word decoded in place of ``ref[i]``, if the reference's case says something about it.

    At the start of a sentence any word is Capitalized. Elsewhere a spelling of the same word keeps its case; not UPPER
    or MIXED, which rest on each letter.
    """
    case = ref[i].case
    ref_starts = i == 0 or ref[i - 1].mark in FINAL_MARKS
    if starts or ref_starts:
        return Case.CAPITALIZED if starts and ref_starts and case is Case.CAPITALIZED else None
    if case not in (Case.LOWER, Case.CAPITALIZED):
        return None
    alike = Levenshtein.normalized_similarity(_letters(ref[i].word.casefold()), _letters(word.casefold()))
    return case if alike >= CASE_ALIKE else None


def _key(word: str) -> str:
    """What words are compared by."""
    return word.casefold().replace("’", "'")


def _letters(word: str) -> str:
    """The word without apostrophes, hyphens and dots, which decoders write as they like (never empty)."""
    return "".join(c for c in word if c.isalnum()) or word
