"""Marks and case: from punctuated text to words with labels, and back.

A reference is text as a person writes it ("Hello, how are you?"). ``split`` takes it apart into lower-case words, each
with the mark after it and its case; ``write`` puts one word together again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kaldi_punct.types import Case

MARKS = ("", ",", ".", "?")
FINAL_MARKS = frozenset(".?!…。？！।؟")

# What a mark of the reference becomes. "" drops it; a mark not named here is dropped too.
MARK_MAP: Mapping[str, str] = {
    ",": ",", ".": ".", "?": "?",
    "!": ".", "...": ".", "…": ".",
    ";": ",", ":": ",", "--": ",", "—": ",", "–": ",",
}  # fmt: skip

# Quotes and brackets around words; they go, and a mark next to them stays.
_WRAPPING = "\"“”„«»‹›()[]{}*_`"
_QUOTES = "'‘’"
_TRAILING_MARK = re.compile(r"(\.{2,}|…|--+|—|–|[,.?!;:。？！、，؟।])$")
_LEADING_MARK = re.compile(r"^(\.{2,}|…|--+|—|–|[,.?!;:¿¡])")
# "U.S.", "a.m.", "p.m.": the last dot belongs to the word, and may end the sentence too.
_DOTTED = re.compile(r"^(?:\w\.){2,}$")
_NON_WORD = re.compile(r"^(?:<[^<>]*>|\[[^\[\]]*\]|\{[^{}]*\}|\(\([^()]*\)\)|#\d+|%\S+)$")
# Strongest first: where several marks meet on one word, the strongest stays.
_STRENGTH = "?.,"


@dataclass(frozen=True, slots=True)
class LabelledWord:
    """A word with what stood around it in the reference.

    Attributes:
        word: lower case, without marks: what a decoder would write.
        mark: the mark after it, one of the label set's; None if unknown.
        case: how it was written; None if unknown.
        written: as it was written, without marks ("McDonald").
    """

    word: str
    mark: str | None = ""
    case: Case | None = Case.LOWER
    written: str = ""


@dataclass(frozen=True)
class LabelSet:
    """The marks that a model or a score knows, and how a reference's marks map onto them.

    Attributes:
        marks: "" (none) first.
        mark_map: reference mark -> one of ``marks``; a mark that is missing here is dropped.
    """

    marks: tuple[str, ...] = MARKS
    mark_map: Mapping[str, str] = field(default_factory=lambda: dict(MARK_MAP))

    def index(self, mark: str) -> int:
        """The class index of a mark."""
        return self.marks.index(mark)


DEFAULT_LABELS = LabelSet()


def is_word(token: str) -> bool:
    """False for what a decoder writes in place of words: ``<unk>``, ``[noise]``, ``<eps>``, ``((…))``, ``%hesitation``."""
    return _NON_WORD.match(token) is None


def split(text: str, labels: LabelSet = DEFAULT_LABELS) -> list[LabelledWord]:
    """The words of punctuated text with their marks and case.

    Only ASCII blanks and tabs separate words, as in Kaldi. Quotes and brackets around a word are stripped and the marks
    next to them kept (``said."`` has a full stop). A mark that stands alone, or on a non-word, belongs to the word before
    it. A non-word (``<unk>``, ``[noise]``) stays as a token without mark and case.

    Args:
        text: one line of a ``text_punct`` table, without its key.
        labels: which marks are known and how the others map onto them.
    """
    out: list[LabelledWord] = []
    for token in re.split(r"[ \t\r\n]+", text.strip(" \t\r\n")):
        if not token:
            continue
        for core, marks in _take_apart(token):
            mark = _strongest(marks, labels)
            if core and is_word(core):
                out.append(LabelledWord(core.lower(), mark, case_of(core), core))
                continue
            if core:
                out.append(LabelledWord(core, "", None, core))
            _give_to_word_before(out, mark)
    return out


def case_of(written: str) -> Case:
    """The case class of a written word: ``I`` and ``A`` are Capitalized, ``NASA`` and ``X's`` tails are seen through."""
    letters = [c for c in written if c.isalpha()]
    if not letters or not any(c.isupper() for c in letters):
        return Case.LOWER
    head = re.sub(r"['’](?:s|ll|re|ve|d|m|t)$", "", written)  # NASA's is UPPER, I'm is Capitalized
    letters = [c for c in head if c.isalpha()]
    if len(letters) > 1 and all(c.isupper() or not c.islower() for c in letters):
        return Case.UPPER
    if _capitalize(written.lower()) == written:
        return Case.CAPITALIZED
    return Case.MIXED


def write_case(word: str, case: Case | None, lexicon: Mapping[str, str] | None = None) -> str:
    """The word as it is written in a case.

    Args:
        word: as the decoder wrote it.
        case: None leaves the word alone.
        lexicon: lower-case word -> its mixed form; a MIXED word that it lacks is Capitalized.
    """
    if case is None or not is_word(word):
        return word
    if case is Case.LOWER:
        return word.lower()
    if case is Case.MIXED and lexicon is not None and word.lower() in lexicon:
        return lexicon[word.lower()]
    if case is Case.UPPER:
        tail = re.search(r"['’](?:s|ll|re|ve|d|m|t)$", word.lower())
        return word[: tail.start()].upper() + tail.group() if tail else word.upper()
    return _capitalize(word.lower())


def join(words: Iterable[LabelledWord]) -> str:
    """Text of labelled words: the inverse of ``split`` up to what its mark map drops."""
    return " ".join((w.written or write_case(w.word, w.case)) + (w.mark or "") for w in words)


def _capitalize(lower: str) -> str:
    """The word with its first letter raised; "o'brien" and "twenty-first" keep their tails lower."""
    for i, c in enumerate(lower):
        if c.isalpha():
            return lower[:i] + c.upper() + lower[i + 1 :]
    return lower


def _take_apart(token: str) -> list[tuple[str, list[str]]]:
    """(core, marks after it) of one blank-separated token; leading marks come first, with an empty core."""
    if not is_word(token.rstrip(",.?!;:")) and token.rstrip(",.?!;:"):
        core = token.rstrip(",.?!;:")
        return [(core, list(token[len(core) :]))]
    lead: list[str] = []
    core = token
    while core:
        found = _LEADING_MARK.match(core)
        if core[0] in _WRAPPING:
            core = core[1:]
        elif core[0] in _QUOTES and (len(core) < 2 or not _is_clitic(core)):
            core = core[1:]
        elif found and (len(found.group()) > 1 or not core[1:2].isdigit()):
            lead.append(found.group())
            core = core[found.end() :]
        else:
            break
    marks: list[str] = []
    while core:
        if core[-1] in _WRAPPING:
            core = core[:-1]
        elif core[-1] in _QUOTES and _closes_quote(token, core):
            core = core[:-1]
        elif _DOTTED.match(core):
            marks.append(".") if not marks else None
            break
        elif found := _TRAILING_MARK.search(core):
            marks.append(found.group())
            core = core[: found.start()]
        else:
            break
    parts = [("", lead)] if lead else []
    # "word--word" and "word...word" are two words with a mark between them.
    inner = [p for p in re.split(r"(\.{2,}|…|--+|—)", core) if p]
    for i in range(0, len(inner) - 1, 2):
        parts.append((inner[i], [inner[i + 1]]))
    parts.append((inner[-1] if inner else "", marks))
    return parts


def _is_clitic(core: str) -> bool:
    """True for words that begin with an apostrophe of their own: 'em, 'cause, 'til, '90s."""
    return core[1:].rstrip(",.?!;:\"'").lower() in {"em", "cause", "til", "tis", "twas", "bout", "round", "n"} or core[1:2].isdigit()


def _closes_quote(token: str, core: str) -> bool:
    """True if the apostrophe at the end of ``core`` is a closing quote and not part of the word (flippin', boys')."""
    return token[0] in _QUOTES or not core[-2:-1].isalpha()


def _strongest(marks: Iterable[str], labels: LabelSet) -> str:
    mapped = {labels.mark_map.get(_canonical(m), "") for m in marks} - {""}
    for mark in (*_STRENGTH, *labels.marks):
        if mark in mapped:
            return mark
    return ""


def _canonical(mark: str) -> str:
    if len(mark) > 1 and set(mark) == {"."}:
        return "..."
    if len(mark) > 1 and set(mark) == {"-"}:
        return "--"
    return mark


def _give_to_word_before(out: list[LabelledWord], mark: str) -> None:
    """Puts a mark that has no word of its own onto the last real word, unless that has one already."""
    if not mark:
        return
    for i in range(len(out) - 1, -1, -1):
        if is_word(out[i].word):
            if not out[i].mark:
                out[i] = LabelledWord(out[i].word, mark, out[i].case, out[i].written)
            return
