"""Marks and case carried from a reference onto a decoder's words."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import kaldialign
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_punct import projection
from kaldi_punct.labels import LabelledWord, split
from kaldi_punct.projection import Projection, align, project
from kaldi_punct.types import Case


def onto(ref: str, hyp: str) -> Projection:
    return project(split(ref), hyp.split(" ") if hyp else [])


def marked(ref: str, hyp: str) -> str:
    return " ".join(w.word + (w.mark or "") for w in onto(ref, hyp).words)


@pytest.mark.parametrize(
    ("ref", "hyp", "expected"),
    [
        ("Yes, we do. Good.", "yes we do good", "yes, we do. good."),
        # A substituted word takes the mark; a deleted one's moves to the word before it, if that is free.
        ("in Cleveland, Ohio.", "in cleaved ohio", "in cleaved, ohio."),
        ("we will go now.", "we will go", "we will go."),
        ("we will go, now.", "we will go", "we will go,"),
        # An inserted word has none.
        ("so, we go", "so uh we go", "so, uh we go"),
        # Words in a block of errors are paired by spelling, not by their place in it.
        ("a safe, well harbour. So", "a safe harbor so", "a safe, harbor. so"),
        ("going to, war we", "gone two war we", "gone two, war we"),
        ("from to going. So", "from going two so", "from going. two so"),
        # Spoken numbers: the mark goes to the end of what was said.
        ("in 2020. Then", "in two thousand twenty then", "in two thousand twenty. then"),
        ("from 3% to 5%, and", "from three percent two five percent and", "from three percent two five percent, and"),
        ("the Q3, we", "the q three we", "the q three, we"),
        ("is COVID-19, we", "is covid nineteen we", "is covid nineteen, we"),
        ("twenty twenty. Then", "2020 then", "2020. then"),
        # Compounds, both ways.
        ("our healthcare, is", "our health care is", "our health care, is"),
        ("our health care, is", "our healthcare is", "our healthcare, is"),
        ("the U.S., is", "the u s is", "the u s, is"),
        # A non-word passes its mark to the word before it, and carries none itself.
        ("at Monro, yes", "at <unk> yes", "at, <unk> yes"),
        ("at, Monro. yes", "at [noise] yes", "at, [noise] yes"),
        ("so we. Go", "so [noise] we [noise] go", "so [noise] we. [noise] go"),
        ("Yes.", "<unk>", "<unk>"),
        ("", "so it is", "so it is"),
        ("So. It is.", "", ""),
    ],
)
def test_project(ref: str, hyp: str, expected: str) -> None:
    assert marked(ref, hyp) == expected


def test_lost_marks_are_counted_not_misplaced() -> None:
    p = onto("Well. We go, now. Then", "we go then")
    assert [w.mark for w in p.words] == ["", ",", ""]  # "Well." has no word before it, "now." finds a comma there
    assert (p.n_marks, p.n_marks_lost) == (3, 2)
    assert p.slots == (None, 0, 1, 1, 2)


def test_edits_are_counted() -> None:
    p = onto("a b c d e", "a x c e f")
    assert (p.n_equal, p.n_substituted, p.n_inserted, p.n_deleted) == (3, 1, 1, 1)


def test_slots_tell_where_each_reference_word_went() -> None:
    assert onto("in 2020 then go now", "in two thousand twenty then <unk>").slots == (0, 3, 4, 4, 4)


def test_unknown_marks_stay_unknown() -> None:
    ref = [LabelledWord("a", None), LabelledWord("b"), LabelledWord("c", None), LabelledWord("d", ".")]
    p = project(ref, ["a", "b", "d"])
    assert [w.mark for w in p.words] == [None, None, "."]
    assert (p.n_marks, p.n_marks_lost) == (1, 0)


def cases(ref: str, hyp: str) -> list[Case | None]:
    return [w.case for w in onto(ref, hyp).words]


def test_equal_words_take_case_and_writing() -> None:
    p = onto("Mr. McDonald of NASA's O’Brien", "mr mcdonald of nasa's o'brien")
    assert [w.written for w in p.words] == ["Mr.", "McDonald", "of", "NASA's", "O’Brien"]
    assert [w.word for w in p.words] == ["mr", "mcdonald", "of", "nasa's", "o'brien"]


def test_case_of_substituted_words_only_where_it_can_be_trusted() -> None:
    # The start of a sentence on both sides.
    assert cases("We go. These are", "we go this are")[2] is Case.CAPITALIZED
    assert onto("We go. These are", "we go this are").words[2].written == "This"
    # Not where the stop was lost or another word begins the sentence.
    assert cases("We, go. These are", "we this are") == [Case.CAPITALIZED, None, Case.LOWER]
    assert cases("We go. So these are", "we go thus are")[2] is None
    # A spelling of the same word keeps its case within a sentence; a different word is unknown.
    assert cases("the Monroe company", "the monro company")[1] is Case.CAPITALIZED
    assert cases("the harbours are", "the harbour are")[1] is Case.LOWER
    assert cases("the Monroe company", "the and company")[1] is None
    assert cases("the NASA plan", "the nasal plan")[1] is None
    assert cases("so yes", "so uh yes")[1] is None
    assert cases("so yes", "so [noise] yes")[1] is None


words = st.lists(st.sampled_from(["a", "b", "ab", "abc", "A", "cab", "dab"]), max_size=40)


@settings(deadline=None)  # a busy machine is no failure
@given(words, words)
def test_align_keeps_every_word_in_order(ref: list[str], hyp: list[str]) -> None:
    pairs = align(ref, hyp)
    assert [i for i, _ in pairs if i is not None] == list(range(len(ref)))
    assert [j for _, j in pairs if j is not None] == list(range(len(hyp)))
    assert all(i is not None or j is not None for i, j in pairs)


@settings(deadline=None)  # a busy machine is no failure
@given(words, words)
def test_pieces_change_no_distance(ref: list[str], hyp: list[str]) -> None:
    """Cutting a minimal path leaves it minimal: pieces of 8 words cost as little as one piece."""
    r, h = [w.casefold() for w in ref], [w.casefold() for w in hyp]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "PIECE_STEPS", 8)
        numbers = {w: n for n, w in enumerate(dict.fromkeys(r + h))}
        cuts = projection._cuts([numbers[w] for w in r], [numbers[w] for w in h])
        ends = [(0, 0), *cuts]
        distance = 0
        for (i0, j0), (i1, j1) in zip(ends, cuts, strict=False):
            assert 0 <= i1 - i0 + j1 - j0 <= 8
            distance += kaldialign.edit_distance(r[i0:i1], h[j0:j1])["total"]
        assert ends[-1] == (len(r), len(h))
        assert distance == kaldialign.edit_distance(r, h)["total"]
        pairs = align(ref, hyp)
    assert [i for i, _ in pairs if i is not None] == list(range(len(ref)))
    assert [j for _, j in pairs if j is not None] == list(range(len(hyp)))


@settings(deadline=None)  # a busy machine is no failure
@given(words, words)
def test_projection_keeps_words_and_counts_marks(ref: list[str], hyp: list[str]) -> None:
    marks = random.Random(len(ref)).choices(["", ",", "."], k=len(ref))
    p = project([LabelledWord(w, m) for w, m in zip(ref, marks, strict=True)], hyp)
    assert [w.word for w in p.words] == hyp
    assert p.n_marks == sum(map(bool, marks))
    assert sum(bool(w.mark) for w in p.words) == p.n_marks - p.n_marks_lost
    assert p.n_equal + p.n_substituted + p.n_inserted == len(hyp)
    assert p.n_equal + p.n_substituted + p.n_deleted == len(ref)


_MEASURE = """
import random, sys, time
from kaldi_punct.projection import align

def long_call(n, share_wrong):
    rng = random.Random(1)
    vocabulary = [f"w{k}" for k in range(4000)]
    weights = [1 / (k + 1) for k in range(len(vocabulary))]
    ref = rng.choices(vocabulary, weights, k=n)
    hyp = []
    for word, other in zip(ref, rng.choices(vocabulary, weights, k=n)):
        wrong = rng.random() < share_wrong
        hyp += rng.choice([[], [other], [word, other]]) if wrong else [word]
    return ref, hyp

def peak_mib():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

align(["a", "b"], ["b", "c", "a"])
ref, hyp = long_call(20000, float(sys.argv[1]))
before, start = peak_mib(), time.process_time()
pairs = align(ref, hyp)
print(time.process_time() - start, peak_mib() - before, len(pairs))
"""


# Measured on one slow core: 0.24 s of CPU and 9 MiB for 0.2, 0.52 s and 9 MiB for 1.0, the pairs themselves included.
# All at once, kaldialign would keep 4 x 20,000 x 20,000 bytes (1.5 GiB).
@pytest.mark.parametrize("share_wrong", [0.2, 1.0])
def test_a_call_of_20000_words_aligns_in_bounded_memory(repo: Path, share_wrong: float) -> None:
    command = [sys.executable, "-c", _MEASURE, str(share_wrong)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=repo)
    seconds, mebibytes, n_pairs = map(float, run.stdout.split())
    print(f"share of words wrong {share_wrong}: {seconds:.2f} s, {mebibytes:.1f} MiB more, {n_pairs:.0f} pairs")
    assert n_pairs >= 20000
    assert mebibytes < 64
    assert seconds < 30


@pytest.mark.shared
@pytest.mark.parametrize(("part", "lost"), [("dev", 4.77), pytest.param("train", 6.80, marks=pytest.mark.slow)])
def test_real_calls_lose_few_marks(shared: Path, part: str, lost: float) -> None:
    folder = shared / "data" / "earnings21" / part
    hyps: dict[str, list[str]] = defaultdict(list)
    with gzip.open(folder / "ctm.gz", "rt", encoding="utf-8") as f:
        for line in f:
            call, _, _, _, word, *_ = line.rstrip("\n").split(" ")
            hyps[call].append(word)
    n_marks = n_lost = 0
    with gzip.open(folder / "text_punct.call.gz", "rt", encoding="utf-8") as f:
        for line in f:
            call, text = line.rstrip("\n").split(" ", 1)
            p = project(split(text), hyps[call])
            assert [w.word for w in p.words] == hyps[call]
            n_marks, n_lost = n_marks + p.n_marks, n_lost + p.n_marks_lost
    print(f"earnings21 {part}: {n_lost} of {n_marks} marks lost ({100 * n_lost / n_marks:.2f} %)")
    assert 100 * n_lost / n_marks == pytest.approx(lost, abs=0.3)
