"""The rows of the golden table: what each of Kaldi's tools answered, and our answer to the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from golden_sets import TIE, GoldenSet, Score, score

from kaldi_punct import _core
from kaldi_punct.kaldi.lattice import Lattice, to_bytes
from kaldi_punct.types import Hypothesis

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from acceptor import difference

Check = Callable[[GoldenSet], Iterator[Score]]


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
    return {"atol": 0.05, "rtol": 2e-5} if ".txt" in golden else {"atol": 2e-3, "rtol": 1e-5}


def nbest(n: int, lm_scale: float, stem: str) -> Check:
    """Word-ids, words, transition-ids and costs of N-best lists."""

    def check(this: GoldenSet) -> Iterator[Score]:
        scales = _core.Scales(lm_scale, this.acoustic_scale, 0.0)
        words, lm, ac = (this.table(f"{stem}.{part}") for part in ("words", "lmcost", "accost"))
        has_ids = (this.folder / f"{stem}.words.int").is_file()
        ids, frames = (this.table(f"{stem}.words.int"), this.table(f"{stem}.ali.gz")) if has_ids else ({}, {})
        for utt, lattice in this.lattices():
            keys = [key for key in words if key.rpartition("-")[0] == utt]
            paths = _core.best_paths(lattice, n, scales)
            yield _nbest(this, scales_of(lm_scale, this), paths, keys, words, lm, ac, ids, frames)

    return check


def scales_of(lm_scale: float, this: GoldenSet) -> tuple[float, float]:
    """Of graph and acoustic costs."""
    return lm_scale, this.acoustic_scale


def _nbest(
    this: GoldenSet,
    scales: tuple[float, float],
    paths: Sequence[_core.Path],
    keys: Sequence[str],
    words: dict[str, str],
    lm: dict[str, str],
    ac: dict[str, str],
    ids: dict[str, str],
    frames: dict[str, str],
) -> Score:
    if [key.rpartition("-")[2] for key in keys] != [str(i) for i in range(1, len(paths) + 1)]:
        return Score(n_wrong=1)
    ours: list[float] = []
    theirs: list[float] = []
    n_ties, is_equal = 0, True
    for path, place in zip(paths, keys, strict=True):
        text = " ".join(this.words[word] for word in path.words)
        key = place
        if text != words[place]:
            n_ties += 1
            total = scales[0] * float(lm[place]) + scales[1] * float(ac[place])
            is_equal &= abs(path.total_cost - total) <= TIE * abs(total)
            key = next((other for other in keys if words[other] == text), "")
        if not key:
            continue  # stands just below the end of Kaldi's list
        is_equal &= not ids or ids[key].split() == [str(word) for word in path.words]
        is_equal &= not frames or frames[key].split() == [str(tid) for tid in path.transition_ids]
        ours += [path.graph_cost, path.acoustic_cost]
        theirs += [float(lm[key]), float(ac[key])]
    relative = [our / max(1.0, abs(kaldis)) for our, kaldis in zip(ours, theirs, strict=True)]
    return score(is_equal, n_ties, cost=(relative, [c / max(1.0, abs(c)) for c in theirs]))


def nbest_ctm(this: GoldenSet) -> Iterator[Score]:
    """Words and times of each hypothesis whose words stand at the same place of Kaldi's list."""
    golden, words, decoder = this.rows("nbest10.ctm"), this.table("nbest10.words"), this.decoder()
    for utt, lattice in this.lattices():
        hypotheses = decoder.nbest(lattice, 10)
        total = Score()
        for i, hypothesis in enumerate(hypotheses, 1):
            key = f"{utt}-{i}"
            if " ".join(w.word for w in hypothesis.words) == words.get(key):
                total = total.with_utterance(_ctm(hypothesis, golden.get(key, [])))
            else:
                total = total.with_utterance(Score(n_equal=1, n_ties=1))
        yield Score(int(total.is_equal), int(not total.is_equal), total.n_ties, total.worst)


def best_path(this: GoldenSet) -> Iterator[Score]:
    """Word-ids and transition-ids."""
    words, frames = this.table("best.words.int"), this.table("best.ali.gz")
    for utt, lattice in this.lattices():
        path = _core.best_paths(lattice, 1, this.scales)[0]
        ours = [str(word) for word in path.words], [str(tid) for tid in path.transition_ids]
        yield score(ours == (words[utt].split(), frames[utt].split()))


def best_path_with_penalty(this: GoldenSet) -> Iterator[Score]:
    """Words."""
    golden, decoder = this.table("best_wip0.5.words"), this.decoder(word_ins_penalty=0.5)
    for utt, lattice in this.lattices():
        yield score(" ".join(w.word for w in decoder.best_path(lattice).words) == golden[utt])


def best_path_ctm(this: GoldenSet) -> Iterator[Score]:
    """Words and times."""
    golden, decoder = this.rows("1best.ctm"), this.decoder()
    for utt, lattice in this.lattices():
        yield _ctm(decoder.best_path(lattice), golden.get(utt, []))


def best_path_with_silences(this: GoldenSet) -> Iterator[Score]:
    """Words, silences and times."""
    golden, shift_s = this.rows("1best.withsil.ctm"), this.frame_shift_s
    for utt, lattice in this.lattices():
        segments = this.aligner.align(_core.best_paths(lattice, 1, this.scales)[0]).segments
        ours = [n * shift_s for _, first, n_frames in segments for n in (first, n_frames)]
        theirs = [float(number) for row in golden[utt] for number in row[1:3]]
        is_equal = [this.words[word] for word, _, _ in segments] == [row[3] for row in golden[utt]]
        yield score(is_equal, time=(ours, theirs))


def _ctm(hypothesis: Hypothesis, golden: Sequence[Sequence[str]]) -> Score:
    """A hypothesis beside the lines of a CTM; words that no frame is left for stand in none."""
    timed = [(w.word, w.start_s, w.duration_s, w.confidence) for w in hypothesis.words if w.start_s is not None]
    times = [s for _, start_s, duration_s, _ in timed for s in (start_s or 0.0, duration_s or 0.0)]
    numbers = {"time": (times, [float(number) for row in golden for number in row[1:3]])}
    if any(len(row) > 4 for row in golden):
        confidences = [confidence or 0.0 for _, _, _, confidence in timed]
        numbers["confidence"] = (confidences, [float(row[4]) for row in golden])
    return score([word for word, _, _, _ in timed] == [row[3] for row in golden], **numbers)


ROWS: tuple[tuple[str, Check], ...] = (
    ("lattice-copy, binary", copy(False, True, "lat.ark")),
    ("lattice-copy, text", copy(True, True, "lat.txt.gz")),
    ("lattice-copy, not compact", copy(False, False, "lat.noncompact.ark.gz")),
    ("lattice-to-nbest --n=10, nbest-to-linear", nbest(10, 1.0, "nbest10")),
    ("lattice-to-nbest --n=5 --lm-scale=0.8", nbest(5, 0.8, "nbest5_lm0.8")),
    ("nbest-to-ctm of 10-best", nbest_ctm),
    ("lattice-best-path", best_path),
    ("lattice-add-penalty 0.5, lattice-best-path", best_path_with_penalty),
    ("lattice-1best, nbest-to-ctm", best_path_ctm),
    ("lattice-1best, nbest-to-ctm --print-silence", best_path_with_silences),
)
