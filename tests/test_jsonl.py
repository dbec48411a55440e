"""JSON lines out and in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kaldi_punct.errors import FormatError
from kaldi_punct.formats.jsonl import dumps, read_jsonl, write_jsonl
from kaldi_punct.types import Case, Punctuated, PunctuatedWord, Sentence, Utterance, Word

ANSWER = Punctuated(
    "utt-1",
    (
        PunctuatedWord(Word("née", 0.1 + 0.2, 0.25, 0.91, "ann"), "Née,", ",", Case.CAPITALIZED, 0.8, 0.9),
        PunctuatedWord(Word("<unk>"), "<unk>", "", None, 1.0, 1.0),
    ),
    (Sentence("Née, <unk>", 0, 2, 0.3, None, "ann"),),
)


def test_what_is_written() -> None:
    assert json.loads(dumps(ANSWER)) == {
        "utt_id": "utt-1",
        "text": "Née, <unk>",
        "words": [
            {
                "word": "née",
                "text": "Née,",
                "mark": ",",
                "case": "capitalized",
                "start_s": 0.3,
                "duration_s": 0.25,
                "confidence": 0.91,
                "prob": 0.8,
                "spk_id": "ann",
            },
            {
                "word": "<unk>",
                "text": "<unk>",
                "mark": "",
                "case": None,
                "start_s": None,
                "duration_s": None,
                "confidence": None,
                "prob": 1.0,
            },
        ],
        "sentences": [
            {"text": "Née, <unk>", "first_word": 0, "n_words": 2, "start_s": 0.3, "end_s": None, "spk_id": "ann"}
        ],
    }
    assert "\n" not in dumps(ANSWER)
    assert "née" in dumps(ANSWER)


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl.gz"
    assert write_jsonl(path, [ANSWER, ANSWER]) == 2
    words = (Word("née", 0.3, 0.25, 0.91, "ann"), Word("<unk>"))
    assert list(read_jsonl(path)) == [Utterance("utt-1", words)] * 2


def read(tmp_path: Path, line: str) -> Utterance:
    (tmp_path / "x.jsonl").write_text(line + "\n", encoding="utf-8")
    (utterance,) = read_jsonl(tmp_path / "x.jsonl")
    return utterance


def test_short_forms(tmp_path: Path) -> None:
    words = (Word("hello"), Word("a\u3000b"))
    assert read(tmp_path, '{"utt_id": "u", "text": " hello  a\u3000b "}') == Utterance("u", words)
    assert read(tmp_path, '\n{"utt_id": "u", "words": ["hello", "a\u3000b"], "text": "other"}') == Utterance("u", words)
    assert read(tmp_path, '{"utt_id": "u", "words": []}') == Utterance("u", ())


def test_the_place_of_the_utterance(tmp_path: Path) -> None:
    line = '{"utt_id": "u", "text": "a", "rec_id": "r", "channel": "A", "start_s": 1, "end_s": 2.5}'
    assert read(tmp_path, line) == Utterance("u", (Word("a"),), "r", "A", 1.0, 2.5)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("hello", ": expected one JSON object, got 'hello' (Expecting value in column 1); write one a line"),
        ("[1]", ': expected a JSON object, got a list; write {"utt_id": …, "words": […]}'),
        ("3", ': expected a JSON object, got a number; write {"utt_id": …, "words": […]}'),
        ('{"text": "a"}', ": expected a string 'utt_id', got none; give each line one"),
        ('{"utt_id": 7, "text": "a"}', ": expected a string 'utt_id', got a number; put it in quotes"),
        ('{"utt_id": "u"}', ": expected a list 'words' or a string 'text', got neither; give one"),
        (
            '{"utt_id": "u", "words": "a b"}',
            ': expected a list \'words\', got a string; write it as ["hello", …] or [{"word": "hello"}, …]',
        ),
        (
            '{"utt_id": "u", "words": ["a", 5]}',
            ': words[1]: expected a string or an object, got a number; write "hello" or {"word": "hello"}',
        ),
        (
            '{"utt_id": "u", "words": ["a b"]}',
            ": words[0]: expected a string 'word' without blanks, got \"a b\"; write one object a word",
        ),
        (
            '{"utt_id": "u", "words": [{"text": "a"}]}',
            ": words[0]: expected a string 'word' without blanks, got null; write one object a word",
        ),
        (
            '{"utt_id": "u", "words": [{"word": "a", "start_s": 1}]}',
            ": words[0]: expected both 'start_s' and 'duration_s' or neither, got one; add the other",
        ),
        (
            '{"utt_id": "u", "words": [{"word": "a", "start_s": -1, "duration_s": 1}]}',
            ": words[0]: expected a number 'start_s' of at least 0, got -1; null says that it is unknown",
        ),
        (
            '{"utt_id": "u", "words": [{"word": "a", "confidence": NaN}]}',
            ": words[0]: expected a number 'confidence' of at least 0, got NaN; null says that it is unknown",
        ),
        (
            '{"utt_id": "u", "words": [{"word": "a", "confidence": 1.5}]}',
            ": words[0]: expected a 'confidence' from 0 to 1, got 1.5; leave it out if there is none",
        ),
    ],
)
def test_bad_lines(tmp_path: Path, line: str, text: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"utt_id": "u", "text": "fine"}\n' + line + "\n", encoding="utf-8")
    iterator = read_jsonl(path)
    assert next(iterator).utt_id == "u"
    with pytest.raises(FormatError) as e:
        next(iterator)
    assert str(e.value) == f"{path}:2{text}"
