"""Marks and case: from punctuated text to words with labels, and back.

A reference is text as a person writes it ("Hello, how are you?"). ``split`` takes it apart into lower-case words, each
with the mark after it and its case; ``write`` and ``join`` put them together again: ``join(split(text))`` is stable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kaldi_punct.types import Case

MARKS = ("", ",", ".", "?")
FINAL_MARKS = frozenset(".?!…。？！।؟")

# What a mark of the reference becomes. "" drops it; a mark not named here is dropped too. None says that nobody knows
# what stood there: the slot is neither learned nor scored.
MARK_MAP: Mapping[str, str | None] = {
    ",": ",", ".": ".", "?": "?",
    "!": ".", "...": ".", "…": ".",
    ";": ",", ":": ",", "--": ",", "—": ",", "–": ",",
    "，": ",", "、": ",", "،": ",", "؛": ",", "；": ",", "：": ",",
    "。": ".", "।": ".", "！": ".", "؟": "?", "？": "?", "⁇": None,
}  # fmt: skip

# The dot of these ends no sentence, whatever follows ...
TITLES = frozenset(["mr", "mrs", "ms", "messrs", "dr", "prof", "st", "vs", "e.g.", "i.e."])
# ... and of these only before a word that begins one. "U.S." and "p.m." are known by their form.
ABBREVIATIONS = frozenset(["etc", "inc", "corp", "co", "ltd", "jr", "sr"])

_BLANK_SEPARATED = re.compile(r"[^ \t\n\r\f\v]+")  # Kaldi's blanks; U+00A0 is a letter like any other
_PLAIN = re.compile(r"[A-Za-z]+(?:['’-][A-Za-z]+)*[,.?!;:]?")
_BETWEEN_WORDS = re.compile(r"(\.{2,}|…|--+|—)")  # these part words without a blank
_LEADING = re.compile(r"[,?!;:–。？！、，،؟؛।；：¿¡⁇]|\.(?!\w)")
_TRAILING = re.compile(r"[,.?!;:–。？！、，،؟؛।；：¿¡⁇]")
_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = {closing: opening for opening, closing in _OPENING.items()}
_WRAPPING = '"“”„«»‹›*`'  # quotes that are never part of a word, and Markdown's emphasis
_APOSTROPHES = "'‘’"
# Words that begin with an apostrophe of their own.
_CLITIC = re.compile(r"['‘’](?:em|cause|til|till|tis|twas|bout|round|n|\d\d?s?)(?!\w)", re.IGNORECASE)
_ADDRESS = re.compile(r"[^\W_](?:://|@)[^\W_]|\bwww\.[^\W_]")
_DOTTED = re.compile(r"(?:(?:[^\W\d_]|[Pp]h)\._?){2,}")  # "i._b._m." is how Fisher's lexicon spells
_NON_WORD = re.compile(r"^(?:<[^<>]*>|\[[^\[\]]*\]|\{[^{}]*\}|\(\([^()]*\)\)|#\d+|%[^\W\d]\S*)$")
_CLITIC_TAIL = re.compile(r"['’](?:s|ll|re|ve|d|m|t)$")
# Strongest first: where several marks meet on one word, the strongest stays.
_STRENGTH = "?.,"
_MEMO_WORDS = 1 << 17


@dataclass(frozen=True, slots=True)
class LabelledWord:
    """A word with what stood around it in the reference.

    Attributes:
        word: lower case, without marks: what a decoder would write.
        mark: the mark after it, one of the label set's; None if unknown.
        case: how it was written; None if unknown.
        written: as it was written, without marks ("McDonald"); a dot that belongs to the word stays ("U.S.", "Mr.").
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
        mark_map: reference mark -> one of ``marks``; a mark that is missing here is dropped, one that maps to None
            makes the mark of its word unknown.
        titles: lower-case abbreviations whose dot ends no sentence.
        abbreviations: lower-case abbreviations whose dot ends a sentence only before a word that begins one.
    """

    marks: tuple[str, ...] = MARKS
    mark_map: Mapping[str, str | None] = field(default_factory=lambda: dict(MARK_MAP))
    titles: frozenset[str] = TITLES
    abbreviations: frozenset[str] = ABBREVIATIONS
    # Plain tokens seen so far: text is mostly the same few words, and making a record costs more than finding one.
    _memo: dict[str, LabelledWord] = field(default_factory=dict, init=False, repr=False, compare=False)

    def index(self, mark: str) -> int:
        """The class index of a mark."""
        return self.marks.index(mark)


DEFAULT_LABELS = LabelSet()


def is_word(token: str) -> bool:
    """False for what a decoder writes in place of words: ``<unk>``, ``[noise]``, ``((…))``, ``#1``, ``%hesitation``."""
    return _NON_WORD.match(token) is None


def split(text: str, labels: LabelSet = DEFAULT_LABELS) -> list[LabelledWord]:
    """The words of punctuated text with their marks and case.

    Only ASCII blanks separate words, as in Kaldi. Quotes and brackets around a word are stripped and the marks next to
    them kept (``said."`` has a full stop). A mark that stands alone, or on a non-word, belongs to the word before it;
    where several meet on one word, the strongest stays. A non-word (``<unk>``, ``[noise]``) stays as a token without
    mark and case. The dot of "U.S." or "etc." is a mark only at the end of the text or before a capitalized word.

    Args:
        text: one line of a ``text_punct`` table, without its key.
        labels: which marks are known and how the others map onto them.
    """
    out: list[LabelledWord] = []
    doubtful: list[int] = []  # words with a dot that may or may not be a mark
    memo = labels._memo
    in_quotes = False
    for token in _BLANK_SEPARATED.findall(text):
        known = memo.get(token)
        if known is not None:
            out.append(known)
        elif _PLAIN.fullmatch(token) and "--" not in token and not _is_abbreviation(token, labels):
            out.append(_remember(token, labels))
        else:
            in_quotes = _read_token(token, labels, out, doubtful, in_quotes)
    for i in doubtful:
        out[i] = _settle(out, i, labels)
    return out


def join(words: Iterable[LabelledWord]) -> str:
    """Text of labelled words: the inverse of ``split`` up to what its mark map drops."""
    return " ".join(write(w.written or write_case(w.word, w.case), w.mark or "") for w in words)


def write(written: str, mark: str) -> str:
    """A cased word with its mark; "U.S." takes no second full stop."""
    return written if mark == "." and written.endswith(".") else written + mark


def case_of(written: str) -> Case:
    """The case class of a written word: ``I`` and ``A`` are Capitalized; the tail of ``NASA's`` does not count."""
    letters = [c for c in written if c.isalpha()]
    if not any(c.isupper() for c in letters):
        return Case.LOWER
    head = _CLITIC_TAIL.sub("", written)  # NASA's is UPPER, I'm is Capitalized
    letters = [c for c in head if c.isalpha()]
    if len(letters) > 1 and not any(c.islower() for c in letters):
        return Case.UPPER
    return Case.CAPITALIZED if _capitalize(written.lower()) == written else Case.MIXED


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
        return _lower(word)
    if case is Case.MIXED and lexicon is not None and word.lower() in lexicon:
        return lexicon[word.lower()]
    if case is Case.UPPER:
        tail = _CLITIC_TAIL.search(word.lower())
        return _upper(word[: tail.start()]) + tail.group() if tail else _upper(word)
    return _capitalize(_lower(word))


def _capitalize(lower: str) -> str:
    """The word with its first letter raised; "o'brien" and "twenty-first" keep their tails lower."""
    for i, c in enumerate(lower):
        if c.isalpha():
            return lower[:i] + _upper(c) + lower[i + 1 :]
    return lower


def _upper(word: str) -> str:
    """In capitals, letter for letter: "ß" stays, since "SS" would be another spelling."""
    upper = word.upper()
    return upper if len(upper) == len(word) else "".join(c.upper() if len(c.upper()) == 1 else c for c in word)


def _lower(word: str) -> str:
    """In small letters, letter for letter."""
    lower = word.lower()
    return lower if len(lower) == len(word) else "".join(c.lower() if len(c.lower()) == 1 else c for c in word)


def _is_abbreviation(token: str, labels: LabelSet) -> bool:
    return token[-1] == "." and _may_end_in_dot(token[:-1], labels)


def _may_end_in_dot(core: str, labels: LabelSet) -> bool:
    """True for abbreviations and for single capitals ("B."), as initials are written and lexicons spell letters."""
    word = core.lower()
    return word in labels.titles or word in labels.abbreviations or (len(core) == 1 and core.isupper())


def _remember(token: str, labels: LabelSet) -> LabelledWord:
    """The record of a plain word with at most one mark, kept for the next time."""
    core = token if token[-1].isalpha() else token[:-1]
    mark = labels.mark_map.get(token[len(core) :], "")
    word = LabelledWord(core.lower(), mark, case_of(core), core)
    if len(labels._memo) < _MEMO_WORDS:
        labels._memo[token] = word
    return word


def _read_token(token: str, labels: LabelSet, out: list[LabelledWord], doubtful: list[int], in_quotes: bool) -> bool:
    """Appends the words of one token to ``out``; returns whether a single quote is open after it.

    "word--word" and "word...word" are two words with a mark between them, but not within an address.
    """
    parts = [token] if _is_address(token) or _is_tagged(token) else [p for p in _BETWEEN_WORDS.split(token) if p]
    for k, part in enumerate(parts):
        if _BETWEEN_WORDS.fullmatch(part):
            _give_to_word_before(out, [part], labels)
            continue
        lead, core, marks, in_quotes = _strip(part, in_quotes)
        if parts[k + 1 : k + 2] and parts[k + 1].startswith("..") and _DOTTED.fullmatch(core + "."):
            core += "."  # "U.S...": one of the dots is the word's
        _give_to_word_before(out, lead, labels)
        if core.strip("-"):
            word = is_word(core)
            out.append(
                LabelledWord(core.lower(), "", case_of(core), core) if word else LabelledWord(core, "", None, core)
            )
            if word and marks[:1] == ["."] and _may_end_in_dot(core, labels):
                doubtful.append(len(out) - 1)
                marks = marks[1:]
            elif _DOTTED.fullmatch(core):
                doubtful.append(len(out) - 1)
        elif core:
            marks = [core, *marks]
        _give_to_word_before(out, marks, labels)
    return in_quotes


def _strip(part: str, in_quotes: bool) -> tuple[list[str], str, list[str], bool]:
    """(marks before, core, marks after from the inside out, is a single quote open) of a part of a token."""
    lead: list[str] = []
    marks: list[str] = []
    core = part
    while core and not _is_tagged(core):
        if _wraps_at_start(core):
            core = core[1:]
        elif core[0] in _APOSTROPHES and not _CLITIC.match(core):
            core, in_quotes = core[1:], True
        elif _LEADING.match(core):
            lead.append(core[0])
            core = core[1:]
        else:
            break
    while core and is_word(core):
        if _wraps_at_end(core):
            core = core[:-1]
        elif core[-1] in _APOSTROPHES and core not in ("'n'", "’n’") and (in_quotes or not core[-2:-1].isalpha()):
            core, in_quotes = core[:-1], False
        elif _TRAILING.fullmatch(core[-1]) and not _DOTTED.fullmatch(core):
            marks.insert(0, core[-1])
            core = core[:-1]
        else:
            break
    return lead, core, marks, in_quotes


def _wraps_at_start(core: str) -> bool:
    first = core[0]
    if first in _OPENING:
        return not re.search(re.escape(_OPENING[first]) + r"[^\W_]", core)  # not "(s)he"
    return first in _WRAPPING or first in _CLOSING or first == "_"


def _wraps_at_end(core: str) -> bool:
    last = core[-1]
    if last in _CLOSING:
        return core.count(_CLOSING[last]) < core.count(last)  # not "word(s)"
    return last in _WRAPPING or last in _OPENING or (last == "_" and "_" not in core[:-1])  # not AMI's "X_M_L_"


def _is_tagged(token: str) -> bool:
    """True for a non-word with or without marks and quotes after it."""
    return not is_word(token.rstrip(",.?!;:…" + _WRAPPING + _APOSTROPHES))


def _is_address(token: str) -> bool:
    return _ADDRESS.search(token) is not None


def _give_to_word_before(out: list[LabelledWord], marks: Iterable[str], labels: LabelSet) -> None:
    """Puts marks onto the last real word; of them and the mark that it has, the strongest stays."""
    mapped = {labels.mark_map.get(_canonical(m), "") for m in marks} - {""}
    if not mapped:
        return
    for i in range(len(out) - 1, -1, -1):
        if is_word(out[i].word):
            out[i] = replace(out[i], mark=_strongest({*mapped, out[i].mark}))
            return


def _strongest(marks: set[str | None]) -> str | None:
    """Of the marks that meet on a word the one that stays; unknown if any is."""
    known = {m for m in marks if m is not None}
    return (
        None if len(known) < len(marks) else next(m for m in (*_STRENGTH, *sorted(known, reverse=True)) if m in known)
    )


def _canonical(mark: str) -> str:
    if len(mark) > 1 and set(mark) == {"."}:
        return "..."
    if len(mark) > 1 and set(mark) == {"-"}:
        return "--"
    return mark


def _settle(out: list[LabelledWord], i: int, labels: LabelSet) -> LabelledWord:
    """Word ``i``, whose dot may be a mark, now that the words after it are known."""
    word = out[i]
    if word.mark != "":
        return word
    after = next((w.written for w in out[i + 1 :] if is_word(w.word)), None)
    ends = after is None or (after[0].isupper() and word.word not in labels.titles)
    if ends:
        return replace(word, mark=labels.mark_map.get(".", ""))
    return word if word.written.endswith(".") else replace(word, written=word.written + ".")
