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
from collections.abc import Iterable, Iterator

from kaldi_punct.errors import FormatError
from kaldi_punct.formats import fields
from kaldi_punct.kaldi.streams import RxFilename, read_lines, write_lines
from kaldi_punct.types import Punctuated, PunctuatedWord, Sentence, Utterance, Word

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
        raise FormatError(
            f'{where}: expected a JSON object, got {fields.kind(record)}; write {{"utt_id": …, "words": […]}}'
        )
    utt_id = fields.token(where, record, "utt_id")
    if utt_id is None:
        raise FormatError(f"{where}: expected a string 'utt_id', got none; give each line one")
    start_s, end_s = fields.number(where, record, "start_s"), fields.number(where, record, "end_s")
    if start_s is not None and end_s is not None and end_s <= start_s:
        raise FormatError(f"{where}: expected 'start_s' below 'end_s', got {start_s:g} and {end_s:g}; correct them")
    words = _to_words(where, record)
    early = next((w for w in words if w.start_s is not None and w.start_s < (start_s or 0.0) - _SLACK_S), None)
    if early is not None:
        raise FormatError(
            f"{where}: expected times on the recording's clock, got '{early.word}' at {early.start_s:g} s before the "
            f"utterance's 'start_s' {start_s:g}; add the latter to the words' times, or leave it out"
        )
    return Utterance(
        utt_id, words, fields.token(where, record, "rec_id"), fields.token(where, record, "channel"), start_s, end_s
    )


def _to_words(where: str, record: fields.Object) -> tuple[Word, ...]:
    words = record.get("words")
    if words is None:
        text = fields.string(where, record, "text")
        if text is None:
            raise FormatError(f"{where}: expected a list 'words' or a string 'text', got neither; give one")
        return fields.words(text)
    if not isinstance(words, list):
        raise FormatError(
            f"{where}: expected a list 'words', got {fields.kind(words)}; "
            'write it as ["hello", …] or [{"word": "hello"}, …]'
        )
    return tuple(_to_word(f"{where}: words[{i}]", word) for i, word in enumerate(words))


def _to_word(where: str, record: object) -> Word:
    if isinstance(record, str):
        record = {"word": record}
    if not isinstance(record, dict):
        raise FormatError(
            f'{where}: expected a string or an object, got {fields.kind(record)}; write "hello" or {{"word": "hello"}}'
        )
    word = fields.token(where, record, "word")
    if word is None:
        raise FormatError(f"{where}: expected a string 'word' without blanks, got null; write one object a word")
    start_s, duration_s = fields.number(where, record, "start_s"), fields.number(where, record, "duration_s")
    if (start_s is None) != (duration_s is None):
        raise FormatError(f"{where}: expected both 'start_s' and 'duration_s' or neither, got one; add the other")
    confidence = fields.confidence(where, record, "confidence")
    return Word(word, start_s, duration_s, confidence, fields.token(where, record, "spk_id"))
