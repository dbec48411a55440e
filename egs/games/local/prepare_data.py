#!/usr/bin/env python3
"""Punctuated Kaldi data directories of the acted dialogue ("games"), of reference words and of ASR words.

e.g.: local/prepare_data.py corpora/games data

Makes data/{ref,asr}/{a,b,dev}, each with `wav.scp`, `ctm`, `text_punct`, `utt2spk` and `file_ends` (index of the last
reference word of each file that a turn recording was joined from, an integer vector table).

ref  words and times as in the corpus (forced alignment)
asr  best paths of the corpus' lattices, jackknifed: each fold decoded by the model of the other

The games often leave out the final full stop of a line. Where a file ends without a mark, and a new sentence or nothing
follows, the reference gets "⁇": a slot that nobody knows, neither learned nor scored. The log counts them.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from kaldi_punct.kaldi.lattice import Decoder, Lattice
from kaldi_punct.kaldi.lattice_tables import load_decoder, read_lattices
from kaldi_punct.labels import case_of
from kaldi_punct.types import Case, Hypothesis

log = logging.getLogger("prepare_data")

DECODE_DIRS = {
    "train_a": "chain_b/decode_turns_train_a",
    "train_b": "chain_a/decode_turns_train_b",
    "dev": "chain_ab/decode_turns_dev",
}
UNKNOWN = "⁇"
ACOUSTIC_SCALE, WORD_INS_PENALTY, FRAME_SHIFT_S = 0.1, 0.5, 0.03  # as the corpus' best paths were taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    for fold in DECODE_DIRS:
        prepare_fold(args.corpus, args.out, fold)


def prepare_fold(corpus: Path, out: Path, fold: str) -> None:
    turns = corpus / "data" / f"turns_{fold}"
    ends = file_ends(corpus / "data" / fold, turns)
    references = {rec: mark_doubts(tok, ends[rec]) for rec, tok in read_table(turns / "text_tok").items()}
    n_doubts = sum(text.count(UNKNOWN) for text in references.values())
    n_ends = sum(len(e) for e in ends.values())
    log.info("%s: %d recordings, %d files, %d of them with unknown last mark", fold, len(references), n_ends, n_doubts)
    tables = {
        "text_punct": references,
        "wav.scp": {r: str((corpus / path).resolve()) for r, path in read_table(turns / "wav.scp").items()},
        "utt2spk": read_table(turns / "utt2spk"),
        "file_ends": {r: " ".join(map(str, e)) for r, e in ends.items()},
    }
    # The corpus' last column says whether a word was aligned; a CTM's sixth column would be a confidence.
    ref_ctm = [" ".join(line.split(" ")[:5]) for line in (turns / "ctm").read_text(encoding="utf-8").splitlines()]
    asr_ctm = [line for rec, best in decode(corpus, fold) for line in ctm_lines(rec, best)]
    name = fold.removeprefix("train_")
    for kind, ctm in (("ref", ref_ctm), ("asr", asr_ctm)):
        write_dir(out / kind / name, tables, ctm)


def file_ends(utterances: Path, turns: Path) -> dict[str, list[int]]:
    """Index of the last word of each file of each turn recording, in time order."""
    n_words = {u: len(text.split(" ")) for u, text in read_table(utterances / "text").items()}
    files: dict[str, list[tuple[float, str]]] = {}
    for utt_id, fields in read_table(turns / "utt_segments").items():
        rec_id, start_s, _ = fields.split(" ")
        files.setdefault(rec_id, []).append((float(start_s), utt_id))
    out: dict[str, list[int]] = {}
    for rec_id, parts in files.items():
        total = 0
        for _, utt_id in sorted(parts):
            total += n_words[utt_id]
            out.setdefault(rec_id, []).append(total - 1)
    for rec_id, text in read_table(turns / "text").items():
        assert out[rec_id][-1] == len(text.split(" ")) - 1, f"{rec_id}: its files do not hold its words"
    return out


def mark_doubts(tokens: str, ends: list[int]) -> str:
    """The reference of ``Word|mark`` tokens, with an unknown mark at file ends without one before a new sentence."""
    out = [token.split("|") for token in tokens.split(" ")]
    for i in ends:
        is_last_of_sentence = i + 1 == len(out) or case_of(out[i + 1][0]) is not Case.LOWER
        if not out[i][1] and is_last_of_sentence:
            out[i][1] = UNKNOWN
    return " ".join(word + mark for word, mark in out)


def make_decoder(corpus: Path, directory: Path) -> Decoder:
    """What reads the lattices of a decode directory."""
    lang = corpus / "decode" / "lang" if (corpus / "decode" / "lang").is_dir() else corpus / "lang"
    return load_decoder(
        words=lang / "words.txt",
        word_boundary=lang / "phones" / "word_boundary.int",
        transition_model=directory.parent / "trans.mdl",
        acoustic_scale=ACOUSTIC_SCALE,
        frame_shift_s=FRAME_SHIFT_S,
        word_ins_penalty=WORD_INS_PENALTY,
    )


def decode(corpus: Path, fold: str) -> list[tuple[str, Hypothesis]]:
    directory = corpus / "decode" / DECODE_DIRS[fold]
    decoder = make_decoder(corpus, directory)
    out = []
    for archive in sorted(directory.glob("lat.*.gz")):
        for rec_id, lattice in read_lattices(f"ark:{archive}"):
            if isinstance(lattice, Lattice):
                out.append((rec_id, decoder.best_path(lattice)))
            else:
                log.error("%s", lattice)
    return out


def ctm_lines(rec_id: str, best: Hypothesis) -> list[str]:
    return [f"{rec_id} 1 {w.start_s:.2f} {w.duration_s:.2f} {w.word}" for w in best.words]


def write_dir(directory: Path, tables: dict[str, dict[str, str]], ctm: list[str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    lines = sorted(ctm, key=lambda line: line.split(" ", 1)[0])
    (directory / "ctm").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    spoken = {line.split(" ", 1)[0] for line in lines}
    for name, table in tables.items():
        rows = "".join(f"{key} {table[key]}\n" for key in sorted(table) if key in spoken)
        (directory / name).write_text(rows, encoding="utf-8")


def read_table(path: Path) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main()
