"""What ``punctuate`` and ``client`` write: text, CTM or JSONL."""

from __future__ import annotations

from typing import BinaryIO, Protocol

from kaldi_punct.commands.sources import Item
from kaldi_punct.errors import UtteranceError
from kaldi_punct.types import Punctuated

KINDS = ("text", "ctm", "jsonl")


class Writer(Protocol):
    """Writes answers as they come."""

    def write(self, item: Item, answer: Punctuated) -> None:
        """Takes the answer of one item.

        Raises:
            UtteranceError: the kind of output cannot hold it.
        """

    def flush(self) -> None:
        """Writes what is held."""


def open_writer(kind: str, out: BinaryIO, *, with_keys: bool) -> Writer:
    """The writer of one of ``KINDS``.

    Args:
        kind: what to write.
        out: where to.
        with_keys: text lines begin with the utterance's key.
    """
    if kind == "ctm":
        return CtmWriter(out)
    return JsonWriter(out) if kind == "jsonl" else TextWriter(out, with_keys)


class TextWriter:
    """``<utt-id> <word+mark> …``: exactly one token an input word, in order."""

    def __init__(self, out: BinaryIO, with_keys: bool) -> None:
        self._out, self._with_keys = out, with_keys

    def write(self, item: Item, answer: Punctuated) -> None:
        """Writes one line."""
        tokens = ([item.utterance.utt_id] if self._with_keys else []) + [w.written for w in answer.words]
        self._out.write(f"{' '.join(tokens)}\n".encode())

    def flush(self) -> None:
        """Does nothing."""


class JsonWriter:
    """One JSON object an utterance."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, item: Item, answer: Punctuated) -> None:  # noqa: ARG002
        """Writes one line."""
        from kaldi_punct.formats.jsonl import dumps

        self._out.write(f"{dumps(answer)}\n".encode())

    def flush(self) -> None:
        """Does nothing."""


class CtmWriter:
    """The input's CTM lines with the word replaced; without such lines, new ones from the words' times.

    Channels of a recording may alternate line by line, so the lines of one recording are held until all of its
    sequences are there.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._rec_id: str | None = None
        self._lines: list[tuple[int, str]] = []

    def write(self, item: Item, answer: Punctuated) -> None:
        """Takes one answer.

        Raises:
            UtteranceError: its words have no times.
        """
        if not item.lines:
            self._out.write("".join(f"{line}\n" for line in _new_lines(item, answer)).encode())
            return
        if item.lines[0].rec_id != self._rec_id:
            self.flush()
            self._rec_id = item.lines[0].rec_id
        pairs = zip(item.lines, answer.words, strict=True)
        self._lines.extend((line.line, line.rewritten(word.written)) for line, word in pairs)

    def flush(self) -> None:
        """Writes what is held, in the order of the input's lines."""
        self._out.write("".join(f"{line}\n" for _, line in sorted(self._lines)).encode())
        self._lines = []


def _new_lines(item: Item, answer: Punctuated) -> list[str]:
    """CTM lines keyed by utterance, times from its start."""
    from kaldi_punct.kaldi.tables import CtmLine

    utterance = item.utterance
    zero_s = utterance.start_s or 0.0
    lines = []
    for word in answer.words:
        w = word.word
        if w.start_s is None or w.duration_s is None:
            raise UtteranceError(
                f"{utterance.utt_id}: expected word times for --to ctm, got '{w.word}' without them; "
                "give a CTM, or lattices with --transition-model, --word-boundary and --frame-shift; of Vosk, results "
                "after SetWords(True)"
            )
        line = CtmLine(
            utterance.utt_id, utterance.channel or "1", w.start_s - zero_s, w.duration_s, w.word, w.confidence
        )
        lines.append(line.rewritten(word.written))
    return lines
