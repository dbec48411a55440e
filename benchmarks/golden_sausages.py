"""Rows of the golden table: minimum Bayes risk decoding and confidences."""

from __future__ import annotations

from collections.abc import Iterator

from golden_paths import ctm_score
from golden_sets import Check, GoldenSet, Score, score

from kaldi_punct import _core
from kaldi_punct.kaldi.sausage import MbrOptions


def sausages(this: GoldenSet) -> Iterator[Score]:
    """Words, the words of each bin, posteriors, Bayes risk, and times in frames."""
    words, risks = this.table("mbr.words.int"), this.table("mbr.bayes_risk")
    bins, times = this.table("mbr.sausage_stats"), this.table("mbr.times")
    decoder = this.decoder()
    for utt, lattice in this.lattices():
        ours = decoder.raw_sausage(lattice)
        rows = [row.split() for row in bins[utt].strip("[] ").split("] [")]
        yield score(
            _ids(ours) == (words[utt].split(), [row[::2] for row in rows]),
            risk=([ours.bayes_risk], [float(risks[utt])]),
            posterior=([p for _, _, of_bin in ours.bins for _, p, _, _ in of_bin],
                       [float(p) for row in rows for p in row[1::2]]),
            frame=([frame for begin, end, _ in ours.bins for frame in (begin, end)],
                   [float(frame) for pair in times[utt].split(";") for frame in pair.split()]),
        )  # fmt: skip


def _ids(sausage: _core.Sausage) -> tuple[list[str], list[list[str]]]:
    words = [str(word) for word, _, _, _ in sausage.one_best]
    return words, [[str(word) for word, _, _, _ in of_bin] for _, _, of_bin in sausage.bins]


def confidences(mbr: bool) -> Check:
    """Words, times and confidences."""

    def check(this: GoldenSet) -> Iterator[Score]:
        golden, decoder = this.rows(f"{'mbr' if mbr else 'map'}.conf.ctm"), this.decoder()
        for utt, lattice in this.lattices():
            yield ctm_score(decoder.confident(lattice, MbrOptions(mbr)), golden.get(utt, []))

    return check


ROWS: tuple[tuple[str, Check], ...] = (
    ("lattice-mbr-decode: words, risk, sausages, times", sausages),
    ("lattice-to-ctm-conf --decode-mbr=true", confidences(mbr=True)),
    ("lattice-to-ctm-conf --decode-mbr=false", confidences(mbr=False)),
)
