"""Words of the AMI meetings (``meeting channel start end word mark``): an utterance a person, with a CTM."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from pathlib import Path

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.streams import to_seconds
from kaldi_punct.preparation.distribution import SetCounts
from kaldi_punct.preparation.rows import read_rows
from kaldi_punct.preparation.writing import Report, Track, counts_of, new_data_dir, untracked

log = logging.getLogger(__name__)

_FIELDS = "meeting channel start end word mark"
_SPELLED = re.compile(r"(?:\w_)+(?:'?s)?")  # "X_M_L_"


@dataclass
class _Channel:
    """The words of one person in one meeting so far."""

    words: list[str] = field(default_factory=list)
    ctm: list[str] = field(default_factory=list)
    start_s: float = 0.0
    end_s: float = 0.0
    n_blank: int = 0
    n_back: int = 0

    def add(self, utt_id: str, start_s: float | None, end_s: float | None, word: str, mark: str) -> None:
        """One more word; None: its time is not known."""
        if start_s is None or end_s is None:
            self.n_blank += 1
            start_s = end_s = self.end_s
        self.n_back += start_s < self.start_s
        self.start_s = max(start_s, self.start_s)
        self.end_s = max(end_s, self.start_s)
        if _SPELLED.fullmatch(word):
            word = word.replace("_", "")
        word = word.replace(" ", "")
        self.ctm.append(f"{utt_id} 1 {self.start_s:.2f} {self.end_s - self.start_s:.2f} {word.lower()}")
        self.words.append(word + mark)


def prepare_ami(source: Path, out: Path, report: Report, track: Track = untracked) -> SetCounts:
    """Writes ``text_punct`` and ``ctm``; returns what they hold.

    Spelled words "X_M_L_" become "XML". Words without times begin where the word before ends and last 0 s; words that
    step back begin with the word before. Both are counted and logged.

    Args:
        source: rows with tabs, packed or not.
        out: the directory to make.
        report: takes bad rows.
        track: shows how far it is.

    Raises:
        FormatError: no row can be used.
    """
    channels: dict[str, _Channel] = {}
    for n, (meeting, name, start, end, word, mark) in track(read_rows(source, _FIELDS, report), "row"):
        try:
            if not meeting or not name or " " in meeting + name or not word.strip(" "):
                raise FormatError(
                    f"{source}:{n}: expected a meeting, a channel (neither with blanks) and a word, got '{meeting}', "
                    f"'{name}', '{word}'; left out"
                )
            start_s, end_s = (to_seconds(str(source), n, t) if start and end else None for t in (start, end))
        except FormatError as e:
            report(e)
            continue
        utt_id = f"{meeting}-{name}"
        channels.setdefault(utt_id, _Channel()).add(utt_id, start_s, end_s, word, mark)
    if not channels:
        raise FormatError(f"{source}: expected rows '{_FIELDS}' with tabs between, got none that can be used")
    with new_data_dir(out) as writer:
        for utt_id in sorted(channels):
            writer.write("text_punct", utt_id, " ".join(channels[utt_id].words))
            writer.write_lines("ctm", channels[utt_id].ctm)
    log.info(
        "%d meeting channels, %d words, %d of them without times, %d moved to the start of the word before",
        len(channels),
        sum(len(c.words) for c in channels.values()),
        sum(c.n_blank for c in channels.values()),
        sum(c.n_back for c in channels.values()),
    )
    return counts_of(writer)
