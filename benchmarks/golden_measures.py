"""Rows of the golden table: what is counted on lattices, and the phones of best paths."""

from __future__ import annotations

import re
from collections.abc import Iterator

from golden_paths import ctm_score
from golden_sets import Check, GoldenSet, Score, score

from kaldi_punct import _core
from kaldi_punct.kaldi.aligned import best_phones, best_raw_path, prons
from kaldi_punct.kaldi.aligners import PhoneAligner
from kaldi_punct.kaldi.lattice import Decoder, LexiconAligner
from kaldi_punct.kaldi.oracle import oracle
from kaldi_punct.kaldi.posteriors import arc_posteriors, depth, sentence_confidence
from kaldi_punct.kaldi.reco_ctm import RecordingClock, to_recording
from kaldi_punct.kaldi.symbols import read_symbols
from kaldi_punct.kaldi.tables import CtmLine, read_reco2file_and_channel, read_segments

REFERENCES = {"tdnn-lstm": "../../recipe/s5/data/turns_dev/text"}
MOST_CONFIDENT = 1e10  # what Kaldi writes where there is no second sentence


def depths(this: GoldenSet) -> Iterator[Score]:
    """Arcs a frame; the difference is relative."""
    golden = this.table("depth.txt")
    for utt, lattice in this.lattices():
        yield score(True, relative=([depth(lattice) / float(golden[utt])], [1.0]))


def confidences(this: GoldenSet) -> Iterator[Score]:
    """Cost from the best sentence to the next."""
    golden = this.table("sentence_confidence.txt")
    for utt, lattice in this.lattices():
        ours = sentence_confidence(lattice, acoustic_scale=this.acoustic_scale)
        yield score(True, cost=([min(ours, MOST_CONFIDENT)], [float(golden[utt])]))


def arcs(this: GoldenSet) -> Iterator[Score]:
    """First frame, frames, word and phones of each arc, and its posterior."""
    golden = this.bytes("arc_post.txt.gz").decode().splitlines()
    rows: dict[str, list[tuple[int, int, int, str, float]]] = {}
    for key, first, n_frames, posterior, word, phones in (line.split("\t") for line in golden):
        rows.setdefault(key, []).append((int(first), int(n_frames), int(word), phones, float(posterior)))
    model = _core.TransitionModel((this.folder / "trans.mdl").read_bytes(), "trans.mdl")
    for utt, lattice in this.lattices("lat.aligned.ark.gz"):
        ours = sorted(
            (arc.first_frame, len(arc.transition_ids), arc.word, _phones(arc.transition_ids, model), arc.posterior)
            for arc in arc_posteriors(lattice, acoustic_scale=this.acoustic_scale)
        )
        theirs = sorted(rows.get(utt, []))
        is_equal = [row[:4] for row in ours] == [row[:4] for row in theirs]
        yield score(is_equal, posterior=([row[4] for row in ours], [row[4] for row in theirs]))


def _phones(tids: list[int] | tuple[int, ...], model: _core.TransitionModel) -> str:
    return " ".join(str(phone) for phone, is_final, _ in map(model.transition, tids) if is_final)


def word_errors(this: GoldenSet) -> Iterator[Score]:
    """Word errors of the nearest path: in all, as ``oracle.wer`` counts them."""
    references = this.table(REFERENCES.get(this.name, "ref.text"))
    counted = re.findall(r"WER \S+ \[ (\d+) / ", this.bytes("oracle.wer").decode())[0]
    ids = {word: number for number, word in this.words.items()}
    n_errors, n = 0, 0
    for utt, lattice in this.lattices():
        said = [ids.get(word, ids["<unk>"]) for word in references[utt].split(" ")]
        n_errors += oracle(lattice, said, acoustic_scale=this.acoustic_scale).n_errors
        n += 1
    is_equal = n_errors == int(counted)
    yield Score(n_equal=n if is_equal else 0, n_wrong=0 if is_equal else n)


def lexicon_ctm(this: GoldenSet) -> Iterator[Score]:
    """Words and times of the best path by pronunciations."""
    golden = this.rows("1best.lexicon.ctm")
    lexicon = this.folder / this.lang / "phones" / "align_lexicon.int"
    aligner = LexiconAligner((this.folder / "trans.mdl").read_bytes(), lexicon.read_bytes())
    decoder = Decoder(this.words, aligner, this.frame_shift_s, this.acoustic_scale)
    for utt, lattice in this.lattices():
        yield ctm_score(decoder.best_path(lattice), golden.get(utt, []))


def phone_ctm(this: GoldenSet) -> Iterator[Score]:
    """Phones and times of the best path."""
    golden, decoder = this.rows("1best.phones.ctm"), this.decoder()
    phones = read_symbols(this.folder / this.lang / "phones.txt")
    for utt, lattice in this.lattices():
        yield ctm_score(best_phones(decoder, lattice, phones), golden.get(utt, []))


def pronunciations(this: GoldenSet) -> Iterator[Score]:
    """Frames, word and phones of each word of the best path."""
    golden = this.rows("1best.prons.int")
    phones = PhoneAligner((this.folder / "trans.mdl").read_bytes())
    for utt, lattice in this.lattices():
        ours = [
            [str(n) for n in (pron.first_frame, pron.n_frames, pron.word, *(phone for phone, _ in pron.phones))]
            for pron in prons(lattice, best_raw_path(lattice, this.scales), this.aligner, phones)
        ]
        yield score(ours == golden.get(utt, []))


def recordings(this: GoldenSet) -> Iterator[Score]:
    """The golden CTM moved onto the recordings' clock, line by line (utils/convert_ctm.pl)."""
    reco = this.folder / "../reco"
    golden = (reco / f"{this.name}.reco.ctm").read_text(encoding="utf-8").splitlines()
    clock = RecordingClock(
        {segment.utt_id: segment for segment in read_segments(reco / "segments")},
        dict(read_reco2file_and_channel(reco / "reco2file_and_channel")),
    )
    ours = []
    n = 0
    for utt, rows in this.rows("1best.ctm").items():
        lines = [CtmLine(utt, row[0], float(row[1]), float(row[2]), row[3]) for row in rows]
        ours += [line.rewritten(line.word) for line in to_recording(lines, clock)]
        n += 1
    is_equal = sorted(ours) == sorted(line.strip(" ") for line in golden)
    yield Score(n_equal=n if is_equal else 0, n_wrong=0 if is_equal else n)


ROWS: tuple[tuple[str, Check], ...] = (
    ("nbest-to-ctm after lattice-align-words-lexicon", lexicon_ctm),
    ("lattice-align-phones, lattice-to-phone-lattice, nbest-to-ctm", phone_ctm),
    ("nbest-to-prons", pronunciations),
    ("lattice-arc-post", arcs),
    ("lattice-confidence", confidences),
    ("lattice-depth", depths),
    ("lattice-oracle", word_errors),
    ("utils/convert_ctm.pl", recordings),
)
