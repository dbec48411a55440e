"""Rows of the golden table: tools whose answers are lattices."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from golden_sets import Check, GoldenSet, Score, score

from kaldi_punct import _core
from kaldi_punct.kaldi.aligned import align_lexicon, align_words
from kaldi_punct.kaldi.lattice import Lattice, LexiconAligner, to_bytes
from kaldi_punct.kaldi.lattice_ops import prune, rescale

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from acceptor import difference


def copy(text: bool, compact: bool, golden: str) -> Check:
    """Lattices written and read again."""

    def check(this: GoldenSet) -> Iterator[Score]:
        theirs = dict(this.lattices(golden))
        for key, lattice in this.lattices():
            ours = to_bytes(lattice, binary=not text, compact=compact)
            again = _core.parse(ours, key)
            yield score(difference(to_bytes(again), to_bytes(theirs[key]), **_slack(golden)) == "")

    return check


def same_lattices(make: Callable[[GoldenSet, Lattice], Lattice], golden: str) -> Check:
    """Lattices that are the same weighted acceptors."""

    def check(this: GoldenSet) -> Iterator[Score]:
        theirs = dict(this.lattices(golden))
        for key, lattice in this.lattices():
            golden_lattice = theirs.pop(key, None)
            ours = to_bytes(make(this, lattice))
            yield score(
                golden_lattice is not None and difference(ours, to_bytes(golden_lattice), **_slack(golden)) == ""
            )
        yield from (Score(n_wrong=1) for _ in theirs)

    return check


def _slack(golden: str) -> dict[str, float]:
    # Costs of text have six digits, and the differences add up along a path.
    return {"atol": 0.2, "rtol": 2e-5} if ".txt" in golden else {"atol": 2e-3, "rtol": 1e-5}


def aligned(this: GoldenSet, lattice: Lattice) -> Lattice:
    """An arc for each word and silence."""
    return align_words(lattice, this.aligner).lattice


def aligned_by_lexicon(this: GoldenSet, lattice: Lattice) -> Lattice:
    """The same by pronunciations."""
    lexicon = this.folder / this.lang / "phones" / "align_lexicon.int"
    return align_lexicon(lattice, _lexicon_aligner(this.folder / "trans.mdl", lexicon)).lattice


@cache
def _lexicon_aligner(model: Path, lexicon: Path) -> LexiconAligner:
    return LexiconAligner(model.read_bytes(), lexicon.read_bytes())


def scaled(this: GoldenSet, lattice: Lattice) -> Lattice:
    """Graph costs halved, acoustic costs scaled."""
    return rescale(lattice, lm_scale=0.5, acoustic_scale=this.acoustic_scale)


def pruned(this: GoldenSet, lattice: Lattice) -> Lattice:
    """What lies within 3 of the best path, its costs written with six digits as Kaldi's were."""
    ours = prune(lattice, 3.0, acoustic_scale=this.acoustic_scale)
    return _core.parse(to_bytes(ours, binary=False), lattice.origin)


ROWS: tuple[tuple[str, Check], ...] = (
    ("lattice-copy, binary", copy(False, True, "lat.ark")),
    ("lattice-copy, text", copy(True, True, "lat.txt.gz")),
    ("lattice-copy, not compact", copy(False, False, "lat.noncompact.ark.gz")),
    ("lattice-scale", same_lattices(scaled, "lat.scaled.txt.gz")),
    ("lattice-prune --beam=3", same_lattices(pruned, "lat.prune3.txt.gz")),
    ("lattice-align-words", same_lattices(aligned, "lat.aligned.ark.gz")),
    ("lattice-align-words-lexicon", same_lattices(aligned_by_lexicon, "lat.aligned_lexicon.txt.gz")),
)
