"""Fisher English as the LDC ships it: where its files lie, and what stands in them.

    fe_03_p1_tran/data/trans/000/fe_03_00001.txt                every call: times, no marks, no case
    fe_03_p1_tran/data/bbn_orig/000/originals/fe_03_00007.txo   calls transcribed by BBN/WordWave: marks, case, no times
    fe_03_p1_sph1/audio/000/fe_03_00001.sph                     sound; channel 1 is side A

(``fe_03_p2_tran`` and ``fisher_eng_tr_sp_d1`` likewise.) Sources: ``fe_03_readme.txt`` and ``bbn_trans_readme.txt`` of
LDC2004T19, and Kaldi's egs/fisher_english/s5/local/fisher_data_prep.sh. Calls that the LDC transcribed itself (about
12 %) have no punctuated transcript; the ``.trn`` files of ``bbn_orig`` have no marks either. This reader has met those
descriptions and made-up files, never the discs.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kaldi_punct.errors import FormatError, UtteranceError
from kaldi_punct.kaldi.streams import split_fields, to_seconds
from kaldi_punct.preparation.writing import Report

log = logging.getLogger(__name__)

SIDES = ("A", "B")  # channel 1 and 2
_CALL = re.compile(r"fe_03_[0-9]{5}")
_UTTERANCE = re.compile(r"\s*(\S+)\s+(\S+)\s+([AB]):(.*)")
_TURN = re.compile(r"\s*([LRAB])\d?:\s*(.*)")
_SIDE_OF = {"L": "A", "R": "B", "A": "A", "B": "B"}
_TAG = re.compile(r"\[[^\[\]]*\]")  # "[LAUGH]", "[MN]", "Min[?]"
_MARKUP = re.compile(r"(?<!\S)[~^@*+]+|[~^*+]+(?=[,.?!;:]*(?!\S))")  # of acronyms, guesses and coinages
# What Kaldi's recipe makes of the noises, so that words are those of its lexicon.
_NOISES = {
    "[laugh]": "[laughter]",
    "[sigh]": "[noise]",
    "[cough]": "[noise]",
    "[mn]": "[noise]",
    "[breath]": "[noise]",
    "[lipsmack]": "[noise]",
}


@dataclass(frozen=True, slots=True)
class Corpus:
    """The files of each call.

    Attributes:
        transcripts: time-annotated, of every call.
        originals: punctuated, of the calls that BBN/WordWave transcribed.
        audio: two-channel sphere files; empty if there are no speech discs.
    """

    transcripts: Mapping[str, Path]
    originals: Mapping[str, Path]
    audio: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class TimedUtterance:
    """A line of a time-annotated transcript.

    Attributes:
        utt_id: as Kaldi's recipe names it: call, side, start and end in hundredths of a second.
        side: ``A`` or ``B``.
        start_s, end_s: where it lies in the call.
        words: as transcribed, noises as Kaldi's recipe writes them, without the brackets of unclear ones.
        is_unclear: somebody was not sure what was said: "(( ))".
    """

    utt_id: str
    side: str
    start_s: float
    end_s: float
    words: tuple[str, ...]
    is_unclear: bool


@dataclass
class Oddities:
    """Files that are read although something is odd about them.

    Attributes:
        recoded: no UTF-8; read as Windows-1252.
        headed: with lines before the first turn, which are left out.
    """

    recoded: list[Path] = field(default_factory=list)
    headed: list[Path] = field(default_factory=list)

    def tell(self) -> None:
        """Logs how many there are of each."""
        if self.recoded:
            log.warning("%d files are no UTF-8, read as Windows-1252; first %s", len(self.recoded), self.recoded[0])
        if self.headed:
            log.warning(
                "%d files have lines before the first turn (left out); first %s", len(self.headed), self.headed[0]
            )


def find_corpus(folders: Sequence[Path]) -> Corpus:
    """The files of Fisher below some folders, in any order and depth.

    Raises:
        FormatError: no time-annotated or no punctuated transcript is there.
    """
    found: dict[str, dict[str, Path]] = {"txt": {}, "txo": {}, "sph": {}}
    n_twice = 0
    for path in _files(folders):
        kind, call = path.suffix[1:].lower(), path.stem
        if kind not in found or not _CALL.fullmatch(call):
            continue
        if (kind == "txt" and path.parent.parent.name != "trans") or (
            kind == "txo" and path.parent.name != "originals"
        ):
            continue
        n_twice += call in found[kind]
        found[kind].setdefault(call, path)
    if n_twice:
        log.warning("%d files are there twice; the first of each is taken", n_twice)
    for kind, place in (
        ("txt", "data/trans/NNN/fe_03_NNNNN.txt"),
        ("txo", "data/bbn_orig/NNN/originals/fe_03_NNNNN.txo"),
    ):
        if not found[kind]:
            names = ", ".join(map(str, folders))
            raise FormatError(
                f"{names}: expected transcripts {place} below, got none; name the folders that hold fe_03_p1_tran and "
                "fe_03_p2_tran (LDC2004T19, LDC2005T19)"
            )
    return Corpus(*(dict(sorted(found[kind].items())) for kind in ("txt", "txo", "sph")))


def read_transcript(path: Path, report: Report, odd: Oddities) -> list[TimedUtterance]:
    """The utterances of a time-annotated transcript, in the order of its lines.

    Args:
        path: ``fe_03_NNNNN.txt``.
        report: takes the lines that are no utterance.
        odd: takes note of the file.

    Raises:
        FormatError: the file is of another call, or cannot be read.
    """
    call = path.stem
    out: list[TimedUtterance] = []
    seen: set[str] = set()
    for n, line in enumerate(_decode(path, odd).split("\n"), 1):
        line = line.rstrip("\r")
        if n == 1 and line.startswith("#") and f"{call}.sph" not in line:
            raise FormatError(f"{path}:1: expected '# {call}.sph', got '{line}'; is the file named after another call?")
        if line.startswith("#") or not line.strip():
            continue
        try:
            utterance = _parse(path, n, line)
            if utterance.utt_id in seen:
                raise UtteranceError(
                    f"{path}:{n}: expected each utterance once, got '{utterance.utt_id}' again; left out"
                )
        except (FormatError, UtteranceError) as e:
            report(e)
            continue
        seen.add(utterance.utt_id)
        out.append(utterance)
    return out


def read_original(path: Path, odd: Oddities) -> dict[str, str]:
    """The punctuated text of each side, turn after turn, without tags and mark-up.

    Turns are lines ``L: …`` (side A) and ``R: …`` (side B); a line without a side goes on with the turn before it.

    Args:
        path: ``fe_03_NNNNN.txo``.
        odd: takes note of the file.

    Raises:
        FormatError: there is no turn in it.
    """
    turns: dict[str, list[str]] = {side: [] for side in SIDES}
    side = ""
    is_headed = False
    for line in _decode(path, odd).split("\n"):
        found = _TURN.match(line)
        if found is not None:
            side, line = _SIDE_OF[found.group(1)], found.group(2)
        if side and line.strip():
            turns[side].append(line)
        elif line.strip() and not line.startswith("#"):
            is_headed = True
    if not side:
        raise FormatError(f"{path}: expected turns 'L: …' and 'R: …', got none; is it a transcript of BBN/WordWave?")
    if is_headed:
        odd.headed.append(path)
    return {side: clean(" ".join(lines)) for side, lines in turns.items()}


def clean(text: str) -> str:
    """Text without tags ("[LAUGH]", the "[?]" of "Min[?]") and mark-up ("~TV"); marks stay."""
    return " ".join(split_fields(_MARKUP.sub("", _TAG.sub("", text))))


def _parse(path: Path, n: int, line: str) -> TimedUtterance:
    found = _UTTERANCE.fullmatch(line)
    if found is None:
        raise FormatError(f"{path}:{n}: expected '<start-s> <end-s> A: <words>' (or B:), got '{line}'; left out")
    start, end, side, text = found.groups()
    start_s, end_s = to_seconds(str(path), n, start), to_seconds(str(path), n, end)
    if not 0 <= start_s < end_s < 10000:
        raise UtteranceError(f"{path}:{n}: expected 0 <= start-s < end-s < 10000, got {start} and {end}; left out")
    words = tuple(_NOISES.get(w, w) for w in split_fields(text.replace("((", " ").replace("))", " ").lower()))
    # Kaldi's recipe cuts hundredths off (sprintf "%06d"), so do these ids: its lattices then fit.
    utt_id = f"{path.stem}-{side}-{int(start_s * 100.0):06d}-{int(end_s * 100.0):06d}"
    return TimedUtterance(utt_id, side, start_s, end_s, words, "((" in text)


def _decode(path: Path, odd: Oddities) -> str:
    """The text of a file of 2003: UTF-8 (ASCII), else the code page of Windows."""
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise FormatError(f"{path}: expected a readable file, got '{e.strerror}'; check its permissions") from e
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        odd.recoded.append(path)
        return raw.decode("cp1252", errors="replace")


def _files(folders: Sequence[Path]) -> Iterator[Path]:
    """Files below folders, links followed (discs are often linked together), each real folder once."""
    seen: set[str] = set()
    for folder in folders:
        if not folder.is_dir():
            raise FormatError(f"{folder}: expected a folder of the corpus, got no directory; check the path")
        for place, names, files in os.walk(folder, followlinks=True):
            real = os.path.realpath(place)
            if real in seen:
                names.clear()
                continue
            seen.add(real)
            names.sort()
            yield from (Path(place) / name for name in sorted(files))
