"""JSON objects that follow each other in a stream: a line each, printed over many lines, or with nothing between."""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile

from kaldi_punct.errors import FormatError
from kaldi_punct.formats import fields
from kaldi_punct.kaldi.streams import RxFilename, open_rxfilename, stream_error

_MAX_DEPTH = 64  # far above any decoder's; bounds what a broken object can swallow, and json's recursion
_PART = re.compile(r'"(?:[^"\\]|\\.)*("?)|[{}\[\]]')
_BLANKS = " \t\r\f\v"


@dataclass(frozen=True, slots=True)
class Message:
    """One object.

    Attributes:
        where: ``path:line`` of its first line.
        record: what it holds.
    """

    where: str
    record: fields.Object


def read_messages(rx: RxFilename) -> Iterator[Message | FormatError]:
    """The objects of a stream as they end, and in its place what is none of them.

    After an object that is broken off, reading goes on at the next line that begins with ``{``.

    Raises:
        FormatError: a broken stream.
    """
    splitter = Splitter(os.fspath(rx))
    with open_rxfilename(rx) as stream:
        for n, raw in enumerate(stream, 1):
            if not raw.endswith(b"\n") and stream_error(stream) is not None:
                return
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as e:
                line = ""
                yield FormatError(
                    f"{os.fspath(rx)}:{n}: expected UTF-8 text, got byte 0x{raw[e.start]:02x} in column {e.start + 1}; "
                    "convert it, e.g. iconv -f latin1 -t utf-8"
                )
            yield from splitter.feed(n, line.rstrip("\n"))
        if stream_error(stream) is None:
            yield from splitter.close()


class Splitter:
    """Cuts lines into objects.

    Only brackets and strings are looked at until an object ends; ``json`` then has the last word.

    Args:
        name: of the stream, for errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._held: list[tuple[int, str]] = []  # lines of the object that is open
        self._depth = 0
        self._last = ""  # its last character that counts
        self._out: list[Message | FormatError] = []

    def feed(self, n: int, line: str) -> list[Message | FormatError]:
        """What ends in the next line."""
        waiting = deque([(n, line)])
        while waiting:
            n, line = waiting.popleft()
            # Inside an object "{" can only follow one of these: here the one before was broken off.
            if self._depth and line.startswith("{") and self._last not in ("[", ",", ":"):
                waiting.extendleft(reversed([*self._break_off("another one begins"), (n, line)]))
                continue
            problem = self._scan(n, line)
            if problem:
                waiting.extendleft(reversed(self._break_off(problem)))
        return self._take()

    def close(self) -> list[Message | FormatError]:
        """What is left when the stream ends."""
        out = self._take()
        while self._depth:
            again = self._break_off("the stream ends")
            out += self._take()
            for n, line in again:
                out += self.feed(n, line)
        return out

    def _take(self) -> list[Message | FormatError]:
        out, self._out = self._out, []
        return out

    def _scan(self, n: int, line: str) -> str:
        """Looks for the ends of objects; returns what is wrong with the one that is open, or nothing."""
        start = at = 0
        while True:
            if not self._depth:
                start = at = len(line) - len(line[at:].lstrip(_BLANKS))
                if at == len(line):
                    return ""
                if line[at] not in "{[":
                    self._refuse(n, line[at:], "no bracket")
                    return ""
            part = _PART.search(line, at)
            between = line[at : None if part is None else part.start()].rstrip(_BLANKS)
            self._last = between[-1:] or self._last
            if part is None:
                break
            at, self._last = part.end(), part.group()[-1]
            self._depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(part.group(), 0)
            if part.group(1) == "" or self._depth > _MAX_DEPTH:
                self._held.append((n, line[start:]))
                return "brackets too deep" if self._depth > _MAX_DEPTH else "a string that does not end in its line"
            if not self._depth:
                self._complete(n, line[start:at])
        self._held.append((n, line[start:]))
        return ""

    def _complete(self, n: int, tail: str) -> None:
        """Takes the last line of an object."""
        lines = [*self._held, (n, tail)]
        self._held = []
        first = lines[0][0]
        try:
            record = json.loads("\n".join(line for _, line in lines))
        except (ValueError, RecursionError) as e:  # a number of thousands of digits is a ValueError of its own
            at = e.lineno - 1 if isinstance(e, json.JSONDecodeError) else 0
            what = f"{e.msg} in column {e.colno}" if isinstance(e, json.JSONDecodeError) else str(e).partition(";")[0]
            self._refuse(*lines[min(at, len(lines) - 1)], what)
            return
        if isinstance(record, dict):
            self._out.append(Message(f"{self._name}:{first}", record))
        else:
            self._refuse(first, lines[0][1], "a list")

    def _break_off(self, problem: str) -> list[tuple[int, str]]:
        """Gives the open object up; returns those of its lines that may begin another one."""
        held, self._held, self._depth = self._held, [], 0
        self._refuse(*held[0], f"broken off: {problem}")
        return list(dropwhile(lambda entry: not entry[1].startswith("{"), held[1:]))

    def _refuse(self, n: int, line: str, what: str) -> None:
        self._out.append(
            FormatError(
                f"{self._name}:{n}: expected one JSON object after the other, got '{line.strip()[:40]}' ({what}); "
                "write each from { to }"
            )
        )
