"""Acted dialogue with sound and lattices ("games"): data directories of reference words and of ASR words.

Makes ``{ref,asr}/{a,b,dev}``, each with ``wav.scp``, ``ctm``, ``text_punct``, ``utt2spk`` and ``file_ends`` (index of
the last reference word of each file that a turn recording was joined from, an integer vector table).

    ref   words and times as in the corpus (forced alignment)
    asr   best paths of the corpus' lattices, jackknifed: each fold decoded by the model of the other

The games often leave out the final full stop of a line. Where a file ends without a mark, and a new sentence or nothing
follows, the reference gets "⁇": a slot that nobody knows, neither learned nor scored. The log counts them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.kaldi.lattice import Decoder, Lattice
from kaldi_punct.kaldi.tables import by_key, load_decoder, read_lattices, read_lines, read_text, split_fields
from kaldi_punct.labels import case_of
from kaldi_punct.preparation.distribution import SetCounts, count_set
from kaldi_punct.preparation.writing import Report, Track, counts_of, new_data_dir, untracked
from kaldi_punct.types import Case, Hypothesis

log = logging.getLogger(__name__)

DECODE_DIRS = {
    "train_a": "chain_b/decode_turns_train_a",
    "train_b": "chain_a/decode_turns_train_b",
    "dev": "chain_ab/decode_turns_dev",
}
KINDS = ("ref", "asr")
UNKNOWN = "⁇"
ACOUSTIC_SCALE, WORD_INS_PENALTY, FRAME_SHIFT_S = 0.1, 0.5, 0.03  # as the corpus' best paths were taken


def prepare_games(
    corpus: Path, out: Path, report: Report, *, resume: bool = False, track: Track = untracked
) -> Iterator[SetCounts]:
    """Writes the six directories one after the other; gives what each holds.

    Args:
        corpus: the folder that has ``data``, ``decode`` and ``lang``.
        out: the folder to make them in.
        report: takes lattices that cannot be read.
        resume: directories that are there are left as they are.
        track: shows how far it is.

    Raises:
        FormatError: a table of the corpus is broken or missing.
    """
    for fold in DECODE_DIRS:
        name = fold.removeprefix("train_")
        places = {kind: out / kind / name for kind in KINDS}
        tables: Mapping[str, Mapping[str, str]] | None = None
        for kind, place in places.items():
            if resume and place.is_dir():
                log.info("%s: is there already, left as it is", place)
                yield count_set(DataDir(place))
                continue
            tables = tables or fold_tables(corpus, fold)
            ctm = _reference_ctm(corpus, fold) if kind == "ref" else list(_decode(corpus, fold, report, track))
            yield _write_dir(place, tables, ctm)


def fold_tables(corpus: Path, fold: str) -> dict[str, Mapping[str, str]]:
    """The tables of a fold (a key of ``DECODE_DIRS``) but the CTM, by name."""
    turns = corpus / "data" / f"turns_{fold}"
    ends = file_ends(corpus / "data" / fold, turns)
    references = {rec: mark_doubts(tok, ends[rec]) for rec, tok in _table(turns / "text_tok").items()}
    n_doubts = sum(text.count(UNKNOWN) for text in references.values())
    n_ends = sum(len(e) for e in ends.values())
    log.info("%s: %d recordings, %d files, %d of them with unknown last mark", fold, len(references), n_ends, n_doubts)
    return {
        "text_punct": references,
        "wav.scp": {r: str((corpus / path).resolve()) for r, path in _table(turns / "wav.scp").items()},
        "utt2spk": _table(turns / "utt2spk"),
        "file_ends": {r: " ".join(map(str, e)) for r, e in ends.items()},
    }


def file_ends(utterances: Path, turns: Path) -> dict[str, list[int]]:
    """Index of the last word of each file of each turn recording, in time order.

    Args:
        utterances: the fold's data directory of single files.
        turns: that of its turn recordings, with ``utt_segments``.

    Raises:
        FormatError: the files of a recording do not hold its words.
    """
    n_words = {u: len(split_fields(text)) for u, text in _table(utterances / "text").items()}
    segments = turns / "utt_segments"
    files: dict[str, list[tuple[float, str]]] = {}
    for utt_id, value in _table(segments).items():
        rec_id, start_s, _ = split_fields(value)
        files.setdefault(rec_id, []).append((float(start_s), utt_id))
    out: dict[str, list[int]] = {}
    for rec_id, parts in files.items():
        total = 0
        for _, utt_id in sorted(parts):
            total += n_words[utt_id]
            out.setdefault(rec_id, []).append(total - 1)
    for rec_id, text in _table(turns / "text").items():
        here, there = out.get(rec_id, [-1])[-1] + 1, len(split_fields(text))
        if here != there:
            raise FormatError(
                f"{segments}: expected files of '{rec_id}' that hold its {there} words, got {here}; is it whole?"
            )
    return out


def mark_doubts(tokens: str, ends: Sequence[int]) -> str:
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


def ctm_lines(rec_id: str, best: Hypothesis) -> list[str]:
    """The words of a best path as lines of a CTM."""
    return [f"{rec_id} 1 {w.start_s:.2f} {w.duration_s:.2f} {w.word}" for w in best.words]


def _reference_ctm(corpus: Path, fold: str) -> list[str]:
    path = corpus / "data" / f"turns_{fold}" / "ctm"
    # The corpus' last column says whether a word was aligned; a CTM's sixth column would be a confidence.
    return [" ".join(split_fields(line)[:5]) for _, line in read_lines(path)]


def _decode(corpus: Path, fold: str, report: Report, track: Track) -> Iterator[str]:
    directory = corpus / "decode" / DECODE_DIRS[fold]
    decoder = make_decoder(corpus, directory)
    lattices = (entry for archive in sorted(directory.glob("lat.*.gz")) for entry in read_lattices(f"ark:{archive}"))
    for rec_id, lattice in track(lattices, "lattice"):
        if isinstance(lattice, Lattice):
            yield from ctm_lines(rec_id, decoder.best_path(lattice))
        else:
            report(lattice)


def _write_dir(directory: Path, tables: Mapping[str, Mapping[str, str]], ctm: Sequence[str]) -> SetCounts:
    lines = sorted(ctm, key=lambda line: line.split(" ", 1)[0])
    spoken = {line.split(" ", 1)[0] for line in lines}
    with new_data_dir(directory) as writer:
        writer.write_lines("ctm", lines)
        for name, table in tables.items():
            writer.write_table(name, {key: value for key, value in table.items() if key in spoken})
    return counts_of(writer)


def _table(path: Path) -> dict[str, str]:
    return by_key(path, read_text(path))
