"""Rows of the golden table: best paths and N-best lists, their words, costs and times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from golden_sets import TIE, Check, GoldenSet, Score, score

from kaldi_punct import _core
from kaldi_punct.types import Hypothesis


@dataclass(frozen=True, slots=True)
class NbestTables:
    """Kaldi's lists by ``utt-1 .. utt-N``: words, costs, and where the set has them word-ids and transition-ids."""

    words: dict[str, str]
    graph_costs: dict[str, str]
    acoustic_costs: dict[str, str]
    word_ids: dict[str, str]
    frames: dict[str, str]

    @classmethod
    def read(cls, this: GoldenSet, stem: str) -> NbestTables:
        has_ids = (this.folder / f"{stem}.words.int").is_file()
        ids = (this.table(f"{stem}.words.int"), this.table(f"{stem}.ali.gz")) if has_ids else ({}, {})
        return cls(*(this.table(f"{stem}.{part}") for part in ("words", "lmcost", "accost")), *ids)

    def keys(self, utt: str) -> list[str]:
        """The utterance's, best first."""
        return [key for key in self.words if key.rpartition("-")[0] == utt]

    def costs(self, key: str) -> list[float]:
        """Of graph and acoustics, unscaled."""
        return [float(self.graph_costs[key]), float(self.acoustic_costs[key])]

    def has(self, key: str, path: _core.Path) -> bool:
        """Whether the hypothesis has the path's word-ids and transition-ids."""
        return all(
            not table or table[key].split() == [str(number) for number in ours]
            for table, ours in ((self.word_ids, path.words), (self.frames, path.transition_ids))
        )


def nbest(n: int, lm_scale: float, stem: str) -> Check:
    """Words, word-ids, transition-ids and costs of N-best lists."""

    def check(this: GoldenSet) -> Iterator[Score]:
        tables = NbestTables.read(this, stem)
        for utt, lattice in this.lattices():
            paths = _core.best_paths(lattice, n, _core.Scales(lm_scale, this.acoustic_scale, 0.0))
            keys = tables.keys(utt)
            if keys != [f"{utt}-{i}" for i in range(1, len(paths) + 1)]:
                yield Score(n_wrong=1)
            else:
                yield _nbest(this, lm_scale, tables, list(zip(keys, paths, strict=True)))

    return check


def _nbest(this: GoldenSet, lm_scale: float, tables: NbestTables, places: Sequence[tuple[str, _core.Path]]) -> Score:
    ours: list[float] = []
    theirs: list[float] = []
    n_ties, is_equal = 0, True
    for place, path in places:
        text = " ".join(this.words[word] for word in path.words)
        key = place
        if text != tables.words[place]:
            n_ties += 1
            graph, acoustic = tables.costs(place)
            total = lm_scale * graph + this.acoustic_scale * acoustic
            is_equal &= abs(path.total_cost - total) <= TIE * abs(total)
            key = next((other for other, _ in places if tables.words[other] == text), "")
        if not key:
            continue  # stands just below the end of Kaldi's list
        is_equal &= tables.has(key, path)
        size = [max(1.0, abs(cost)) for cost in tables.costs(key)]
        ours += [path.graph_cost / size[0], path.acoustic_cost / size[1]]
        theirs += [cost / of for cost, of in zip(tables.costs(key), size, strict=True)]
    return score(is_equal, n_ties, cost=(ours, theirs))


def nbest_ctm(this: GoldenSet) -> Iterator[Score]:
    """Words and times of each hypothesis whose words stand at the same place of Kaldi's list."""
    golden, words, decoder = this.rows("nbest10.ctm"), this.table("nbest10.words"), this.decoder()
    for utt, lattice in this.lattices():
        hypotheses = decoder.nbest(lattice, 10)
        total = Score()
        for i, hypothesis in enumerate(hypotheses, 1):
            key = f"{utt}-{i}"
            if " ".join(w.word for w in hypothesis.words) == words.get(key):
                total = total.with_utterance(ctm_score(hypothesis, golden.get(key, [])))
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
        yield ctm_score(decoder.best_path(lattice), golden.get(utt, []))


def best_path_with_silences(this: GoldenSet) -> Iterator[Score]:
    """Words, silences and times."""
    golden, shift_s = this.rows("1best.withsil.ctm"), this.frame_shift_s
    for utt, lattice in this.lattices():
        segments = this.aligner.align(_core.best_paths(lattice, 1, this.scales)[0]).segments
        ours = [n * shift_s for _, first, n_frames in segments for n in (first, n_frames)]
        theirs = [float(number) for row in golden[utt] for number in row[1:3]]
        is_equal = [this.words[word] for word, _, _ in segments] == [row[3] for row in golden[utt]]
        yield score(is_equal, time=(ours, theirs))


def ctm_score(hypothesis: Hypothesis, golden: Sequence[Sequence[str]]) -> Score:
    """A hypothesis beside the lines of a CTM; words that no frame is left for stand in none."""
    timed = [(w.word, w.start_s, w.duration_s, w.confidence) for w in hypothesis.words if w.start_s is not None]
    times = [s for _, start_s, duration_s, _ in timed for s in (start_s or 0.0, duration_s or 0.0)]
    numbers = {"time": (times, [float(number) for row in golden for number in row[1:3]])}
    if any(len(row) > 4 for row in golden):
        confidences = [confidence or 0.0 for _, _, _, confidence in timed]
        numbers["confidence"] = (confidences, [float(row[4]) for row in golden])
    return score([word for word, _, _, _ in timed] == [row[3] for row in golden], **numbers)


ROWS: tuple[tuple[str, Check], ...] = (
    ("lattice-to-nbest --n=10, nbest-to-linear", nbest(10, 1.0, "nbest10")),
    ("lattice-to-nbest --n=5 --lm-scale=0.8", nbest(5, 0.8, "nbest5_lm0.8")),
    ("nbest-to-ctm of 10-best", nbest_ctm),
    ("lattice-best-path", best_path),
    ("lattice-add-penalty 0.5, lattice-best-path", best_path_with_penalty),
    ("lattice-1best, nbest-to-ctm", best_path_ctm),
    ("lattice-1best, nbest-to-ctm --print-silence", best_path_with_silences),
)
