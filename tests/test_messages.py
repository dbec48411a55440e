"""JSON objects that follow each other, whole and broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_punct.errors import FormatError
from kaldi_punct.formats.messages import Message, Splitter, read_messages
from kaldi_punct.kaldi.streams import open_wxfilename

Record = dict[str, object]


def split(text: str) -> list[Message | FormatError]:
    splitter = Splitter("in")
    out = [x for n, line in enumerate(text.split("\n"), 1) for x in splitter.feed(n, line)]
    return out + splitter.close()


def records(text: str) -> list[object]:
    """What each object holds; of what is none, its error's text."""
    return [m.record if isinstance(m, Message) else str(m) for m in split(text)]


def refused(line: int, got: str, what: str) -> str:
    return f"in:{line}: expected one JSON object after the other, got '{got}' ({what}); write each from {{ to }}"


def test_a_line_each_pretty_and_glued() -> None:
    text = '{"a": 1}\n\n  {"b": "}{"} {"c": "\\"["}\n{\n  "d" : [{\n      "e" : 2\n    }, {}]\n}{"f":\n3}'
    found = split(text)
    assert [m.record for m in found if isinstance(m, Message)] == [
        {"a": 1},
        {"b": "}{"},
        {"c": '"['},
        {"d": [{"e": 2}, {}]},
        {"f": 3},
    ]
    assert [m.where for m in found if isinstance(m, Message)] == ["in:1", "in:3", "in:3", "in:4", "in:8"]


def test_objects_that_lie_flat_are_not_torn_apart() -> None:
    record = {"alternatives": [{"text": "a", "result": [{"word": "a"}, {"word": "b"}]}, {}], "x": {"y": {}}}
    assert records(json.dumps(record, indent=0) + '\n{"text": ""}') == [record, {"text": ""}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"text": "he\n{"b": 1}', [refused(1, '{"text": "he', "broken off: a string that does not end in its line")]),
        ('{"text": "hello",\n}\n{"b": 1}', [refused(2, "}", "PLACEHOLDER")]),
        ('{"text": "hello"\n{"b": 1}', [refused(1, '{"text": "hello"', "broken off: another one begins")]),
        ('{"r": [\n{"a": 1}\n{"b": 1}', [refused(1, '{"r": [', "broken off: another one begins"), {"a": 1}]),
        ('{"r": [\n  1,\n\n{"b": 1}', [refused(1, '{"r": [', "broken off: the stream ends")]),
        ('LOG (VoskAPI:x):\n{"b": 1}', [refused(1, "LOG (VoskAPI:x):", "no bracket")]),
        ('}\n{"b": 1}', [refused(1, "}", "no bracket")]),
        ('[{"a": 1}]\n{"b": 1}', [refused(1, '[{"a": 1}]', "a list")]),
        ('{"a": 01}\n{"b": 1}', [refused(1, '{"a": 01}', "PLACEHOLDER")]),
        ('{"a": [1, }\n{"b": 1}', [refused(1, '{"a": [1, }', "broken off: another one begins")]),
        ("[" * 70 + '\n{"b": 1}', [refused(1, "[" * 40, "broken off: brackets too deep")]),
        ('{"a": ' + "9" * 5000 + '}\n{"b": 1}', [refused(1, '{"a": ' + "9" * 34, "PLACEHOLDER")]),
    ],
)  # fmt: skip
def test_what_is_broken_costs_itself_alone(text: str, expected: list[object]) -> None:
    found = records(text)
    assert found[-1] == {"b": 1}
    assert len(found) == len(expected) + 1
    for got, want in zip(found, expected, strict=False):
        # json's own words differ from version to version.
        head = want.partition("PLACEHOLDER")[0] if isinstance(want, str) else want
        assert str(got).startswith(head) if isinstance(head, str) else got == head


def test_the_line_of_an_error_is_where_json_found_it() -> None:
    assert str(records('{\n  "a": 1,\n  "b": tru\n}')[0]).startswith(
        "in:3: expected one JSON object after the other, got '"
    )


def test_a_line_that_is_no_utf8_costs_the_object_around_it(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'{"a": 1}\n{"a": "\xe9"}\n{"b": 1}\n')
    first, bad, last = read_messages(path)
    assert isinstance(first, Message)
    assert isinstance(last, Message)
    assert last.where == f"{path}:3"
    assert str(bad) == (
        f"{path}:2: expected UTF-8 text, got byte 0xe9 in column 8; convert it, e.g. iconv -f latin1 -t utf-8"
    )


def test_a_broken_stream_keeps_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    with open_wxfilename(path) as out:
        for i in range(3000):
            out.write(b'{"a": %d}\n' % i)
    path.write_bytes(path.read_bytes()[:-200])
    found = []
    with pytest.raises(FormatError, match=r"x\.json\.gz"):
        found.extend(read_messages(path))
    found = []
    try:
        for message in read_messages(path):
            found.append(message)
    except FormatError:
        pass
    assert all(isinstance(m, Message) for m in found)
    assert [m.record["a"] for m in found if isinstance(m, Message)] == list(range(len(found)))
    assert len(found) > 100


def test_deep_and_long_rubbish_ends_soon() -> None:
    assert len(records('{"a":[\n' * 20000)) >= 300
    assert len(records('{"a":[\n' + "{},\n" * 20000)) >= 20000


TEXTS = st.text(st.sampled_from('{}[]",:\\ \nabé'), max_size=8)
LISTS = st.lists(st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=2)
OBJECTS = st.dictionaries(TEXTS, st.one_of(st.integers(), TEXTS, LISTS), max_size=3)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(OBJECTS, st.sampled_from([None, 0, 2]), st.sampled_from(["", "\n", " \n\n"])), max_size=5))
def test_whatever_is_written_is_read(written: list[tuple[Record, int | None, str]]) -> None:
    text = "".join(json.dumps(record, indent=indent) + after for record, indent, after in written)
    assert records(text) == [record for record, _, _ in written]


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from('{}[]",:\\ \na1'), max_size=60))
def test_rubbish_never_raises_and_what_follows_a_line_break_is_read(text: str) -> None:
    assert records(text + '\n{"end": 1}')[-1] == {"end": 1}
