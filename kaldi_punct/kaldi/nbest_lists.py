"""N-best lists in a directory of tables keyed ``utt-1 .. utt-N``, as ``kaldi-punct nbest`` writes them.

``words`` is a text table; ``lm_cost`` and ``ac_cost`` (Kaldi's costs, unscaled) and ``ctm`` (each hypothesis' word
times from its own path, from the start of the utterance) may be missing. Only where each utterance's lines stand is
held in memory; the lists themselves are read as they are asked for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from kaldi_punct.errors import FormatError, UtteranceError
from kaldi_punct.kaldi.ctm import CtmLine, count_steps_back, parse_ctm_line
from kaldi_punct.kaldi.streams import split_fields, to_number
from kaldi_punct.types import Hypothesis, Word

_Run = tuple[int, int, int]  # first byte, one past the last, number of the first line


class NbestLists:
    """The N-best lists of a directory, by utterance.

    Attributes:
        path: the directory.
        has_costs: both tables of costs are there.
        has_times: there is a ctm.

    Raises:
        FormatError: no directory, no table ``words`` in it, or a key that is not ``<utt-id>-<rank>``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not (self.path / "words").is_file():
            raise FormatError(
                f"{self.path}: expected N-best lists (words, lm_cost, ac_cost, ctm), got no table words; "
                "write them with kaldi-punct nbest"
            )
        names = ("words", "lm_cost", "ac_cost", "ctm")
        self._places = {n: _index(self.path / n) for n in names if (self.path / n).is_file()}
        self.has_costs = "lm_cost" in self._places and "ac_cost" in self._places
        self.has_times = "ctm" in self._places

    def __contains__(self, utt_id: object) -> bool:
        return utt_id in self._places["words"]

    def read(
        self, utt_id: str, n: int, *, start_s: float = 0.0, spk_id: str | None = None
    ) -> tuple[tuple[int, Hypothesis], ...]:
        """(rank, hypothesis) of the best ``n`` of an utterance; ranks count from 1 and need not be without gaps.

        Args:
            utt_id: one that is in the lists.
            n: the highest rank.
            start_s: when the utterance begins, on the clock that its times shall have.
            spk_id: who says it.

        Raises:
            UtteranceError: a hypothesis lacks a cost, its times step back, or they are of other words.
            FormatError: a line that is none of its table.
        """
        words = {r: split_fields(text) for r, _, text in self._entries("words", utt_id) if r <= n}
        costs = {name: self._costs(name, utt_id, words) for name in ("lm_cost", "ac_cost")}
        times: dict[int, list[CtmLine]] = {}
        ctm = str(self.path / "ctm")
        for rank, number, line in self._entries("ctm", utt_id, whole=True):
            if rank in words:
                times.setdefault(rank, []).append(parse_ctm_line(ctm, number, line))
        out = []
        for rank in sorted(words):
            said = self._time(f"{utt_id}-{rank}", words[rank], times.get(rank, []), start_s, spk_id)
            out.append((rank, Hypothesis(said, costs["lm_cost"].get(rank), costs["ac_cost"].get(rank))))
        return tuple(out)

    def _costs(self, name: str, utt_id: str, words: dict[int, list[str]]) -> dict[int, float]:
        if name not in self._places:
            return {}
        out = {}
        for rank, number, text in self._entries(name, utt_id):
            out[rank] = to_number(text.strip())
            if not math.isfinite(out[rank]):
                raise FormatError(
                    f"{self.path / name}:{number}: expected '<utt-id>-<rank> <cost>', got cost '{text}'; "
                    "write the lists with kaldi-punct nbest"
                )
        missing = [rank for rank in words if rank not in out]
        if missing:
            raise UtteranceError(
                f"{utt_id}: expected a cost of each hypothesis in {self.path / name}, got none of "
                f"'{utt_id}-{missing[0]}'; are words and {name} of one run?"
            )
        return out

    def _time(
        self, key: str, tokens: Sequence[str], lines: list[CtmLine], start_s: float, spk_id: str | None
    ) -> tuple[Word, ...]:
        """The words of a hypothesis with the times of the lines; a word that no frame was left for has no line."""
        count_steps_back(str(self.path / "ctm"), key, lines)
        out = []
        k = 0
        for token in tokens:
            if k < len(lines) and lines[k].word == token:
                line = lines[k]
                out.append(Word(token, start_s + line.start_s, line.duration_s, line.confidence, spk_id))
                k += 1
            else:
                out.append(Word(token, spk_id=spk_id))
        if k < len(lines):
            raise UtteranceError(
                f"{self.path / 'ctm'}:{lines[k].line}: expected the words of '{key}' in {self.path / 'words'}, "
                f"got '{lines[k].word}'; are words and ctm of one run?"
            )
        return tuple(out)

    def _entries(self, name: str, utt_id: str, whole: bool = False) -> Iterator[tuple[int, int, str]]:
        """(rank, line number, what follows the key, or the whole line) of an utterance's lines in a table."""
        runs = self._places.get(name, {}).get(utt_id, ())
        if not runs:
            return
        with open(self.path / name, "rb") as file:
            for first, last, number in runs:
                file.seek(first)
                for i, raw in enumerate(file.read(last - first).splitlines()):
                    try:
                        line = raw.decode()
                    except UnicodeDecodeError as e:
                        raise FormatError(f"{self.path / name}:{number + i}: expected UTF-8, got other bytes") from e
                    key, _, rest = line.partition(" ")
                    yield int(key.rpartition("-")[2]), number + i, line if whole else rest


def _index(path: Path) -> dict[str, list[_Run]]:
    """Where the lines of each utterance stand in a table; in one place, unless its keys are mixed with others'."""
    places: dict[str, list[_Run]] = {}
    runs: list[_Run] = []
    before, at = b"", 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            utt, _, rank = (line.split(None, 1) or [b""])[0].rpartition(b"-")
            if not utt or not rank.isdigit():
                raise FormatError(
                    f"{path}:{number}: expected a key '<utt-id>-<rank>', got "
                    f"'{line[:60].decode(errors='replace').strip()}'; write the lists with kaldi-punct nbest"
                )
            if utt != before or not runs:
                runs, before = places.setdefault(utt.decode(errors="replace"), []), utt
                runs.append((at, at, number))
            at += len(line)
            runs[-1] = (runs[-1][0], at, runs[-1][2])
    return places
