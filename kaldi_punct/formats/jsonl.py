"""JSON lines: one object an utterance, out with marks and case, in with words.

Out: ``utt_id``, ``text``, ``words: [{word, text, mark, case, start_s, duration_s, confidence, prob}]``, ``sentences``.
What is unknown is null. A word whose speaker is known has ``spk_id`` besides.

In: ``utt_id``; ``words`` (objects as above, of which only ``word`` must be there, or plain strings) or ``text``, which
is split at blanks; ``rec_id``, ``channel``, ``start_s`` and ``end_s`` of the utterance where given. So what this
module writes can be read again.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.streams import RxFilename, read_lines, split_fields, write_lines
from kaldi_punct.types import Punctuated, PunctuatedWord, Sentence, Utterance, Word

_Object = Mapping[str, object]
_MAX = sys.float_info.max
_SLACK_S = 0.1  # as times of a CTM may step back


def dumps(punctuated: Punctuated) -> str:
    """One utterance as a line of JSON, without its end."""
    record = {
        "utt_id": punctuated.utt_id,
        "text": punctuated.text,
        "words": [_word_record(w) for w in punctuated.words],
        "sentences": [_sentence_record(s) for s in punctuated.sentences],
    }
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def write_jsonl(wx: RxFilename, utterances: Iterable[Punctuated]) -> int:
    """Writes utterances as they come; returns how many."""
    return write_lines(wx, (dumps(u) for u in utterances))


def read_jsonl(rx: RxFilename) -> Iterator[Utterance]:
    """Utterances of a JSON lines file; blank lines are passed over.

    Raises:
        FormatError: a line that is no such object, or a broken stream.
    """
    name = os.fspath(rx)
    for n, line in read_lines(rx):
        if not line.strip(" \t"):
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as e:  # a number of thousands of digits is a ValueError of its own
            what = f"{e.msg} in column {e.colno}" if isinstance(e, json.JSONDecodeError) else str(e).partition(";")[0]
            raise FormatError(
                f"{name}:{n}: expected one JSON object, got '{line[:40]}' ({what}); write one a line"
            ) from e
        yield _to_utterance(f"{name}:{n}", record)


def _word_record(word: PunctuatedWord) -> dict[str, object]:
    record: dict[str, object] = {
        "word": word.word.word,
        "text": word.written,
        "mark": word.mark,
        "case": None if word.case is None else word.case.name.lower(),
        "start_s": _rounded(word.word.start_s),
        "duration_s": _rounded(word.word.duration_s),
        "confidence": word.word.confidence,
        "prob": round(word.mark_prob, 6),
    }
    if word.word.spk_id is not None:
        record["spk_id"] = word.word.spk_id
    return record


def _sentence_record(sentence: Sentence) -> dict[str, object]:
    return {
        "text": sentence.text,
        "first_word": sentence.first_word,
        "n_words": sentence.n_words,
        "start_s": _rounded(sentence.start_s),
        "end_s": _rounded(sentence.end_s),
        "spk_id": sentence.spk_id,
    }


def _rounded(seconds: float | None) -> float | None:
    """Microseconds: sums such as 0.1 + 0.2 do not print a tail."""
    return None if seconds is None else round(seconds, 6)


def _to_utterance(where: str, record: object) -> Utterance:
    if not isinstance(record, dict):
        raise FormatError(f'{where}: expected a JSON object, got {_kind(record)}; write {{"utt_id": …, "words": […]}}')
    utt_id = _token(where, record, "utt_id")
    if utt_id is None:
        raise FormatError(f"{where}: expected a string 'utt_id', got none; give each line one")
    start_s, end_s = _number(where, record, "start_s"), _number(where, record, "end_s")
    if start_s is not None and end_s is not None and end_s <= start_s:
        raise FormatError(f"{where}: expected 'start_s' below 'end_s', got {start_s:g} and {end_s:g}; correct them")
    words = _to_words(where, record)
    early = next((w for w in words if w.start_s is not None and w.start_s < (start_s or 0.0) - _SLACK_S), None)
    if early is not None:
        raise FormatError(
            f"{where}: expected times on the recording's clock, got '{early.word}' at {early.start_s:g} s before the "
            f"utterance's 'start_s' {start_s:g}; add the latter to the words' times, or leave it out"
        )
    return Utterance(utt_id, words, _token(where, record, "rec_id"), _token(where, record, "channel"), start_s, end_s)


def _to_words(where: str, record: _Object) -> tuple[Word, ...]:
    words = record.get("words")
    if words is None:
        text = _string(where, record, "text")
        if text is None:
            raise FormatError(f"{where}: expected a list 'words' or a string 'text', got neither; give one")
        return tuple(Word(w) for w in split_fields(text))
    if not isinstance(words, list):
        raise FormatError(
            f"{where}: expected a list 'words', got {_kind(words)}; "
            'write it as ["hello", …] or [{"word": "hello"}, …]'
        )
    return tuple(_to_word(f"{where}: words[{i}]", word) for i, word in enumerate(words))


def _to_word(where: str, record: object) -> Word:
    if isinstance(record, str):
        record = {"word": record}
    if not isinstance(record, dict):
        raise FormatError(
            f'{where}: expected a string or an object, got {_kind(record)}; write "hello" or {{"word": "hello"}}'
        )
    word = _token(where, record, "word")
    if word is None:
        raise FormatError(f"{where}: expected a string 'word' without blanks, got null; write one object a word")
    start_s, duration_s = _number(where, record, "start_s"), _number(where, record, "duration_s")
    if (start_s is None) != (duration_s is None):
        raise FormatError(f"{where}: expected both 'start_s' and 'duration_s' or neither, got one; add the other")
    confidence = _number(where, record, "confidence")
    if confidence is not None and confidence > 1:
        raise FormatError(
            f"{where}: expected a 'confidence' from 0 to 1, got {confidence:g}; leave it out if there is none"
        )
    return Word(word, start_s, duration_s, confidence, _token(where, record, "spk_id"))


def _token(where: str, record: _Object, field: str) -> str | None:
    """A string that can stand in a table: as a key, a column, a word."""
    value = _string(where, record, field)
    if value is not None and split_fields(value) != [value]:
        raise FormatError(
            f"{where}: expected a string '{field}' without blanks, got {json.dumps(value)[:40]}; "
            + ("write one object a word" if field == "word" else "put e.g. _ in their place")
        )
    return value


def _string(where: str, record: _Object, field: str) -> str | None:
    value = record.get(field)
    if value is not None and not isinstance(value, str):
        raise FormatError(f"{where}: expected a string '{field}', got {_kind(value)}; put it in quotes")
    if value is not None and any("\ud800" <= c <= "\udfff" for c in value):
        raise FormatError(
            f"{where}: expected a string '{field}' of whole characters, got half a surrogate pair: "
            f"{json.dumps(value)[:40]}; write the character itself"
        )
    return value


def _number(where: str, record: _Object, field: str) -> float | None:
    value = record.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MAX:
        raise FormatError(
            f"{where}: expected a number '{field}' of at least 0, got {json.dumps(value)[:40]}; "
            "null says that it is unknown"
        )
    return float(value)


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
