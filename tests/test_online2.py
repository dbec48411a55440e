"""Lines of Kaldi's online2-tcp-nnet3-decode-faster, wherever the stream is cut."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_punct.errors import FormatError
from kaldi_punct.formats.online2 import Online2Lines, read_online2
from kaldi_punct.formats.result import Result
from kaldi_punct.types import Word

# As the server sends it: partials repeated and revised, an empty final at the end.
PLAIN = "passing \rpassing \rpassing that as an \rpassing that is an example \npréface \rpréface way \n\n".encode()
TIMES = b"0.00 0.84 passing \r0.00 2.10 passing that \n2.10 2.10 \r2.10 4.20 as an example \n\n"


def parse(*blocks: bytes) -> tuple[list[Result | FormatError], Counter[str]]:
    counts: Counter[str] = Counter()
    lines = Online2Lines("tcp", "call", counts)
    found = [x for block in blocks for x in lines.feed(block)]
    return found + lines.close(), counts


def finals(found: list[Result | FormatError]) -> list[Result]:
    assert all(isinstance(r, Result) for r in found)
    return [r for r in found if isinstance(r, Result) and r.is_final]


def texts(found: list[Result | FormatError]) -> list[str]:
    return [" ".join(w.word for w in r.utterance.words) for r in finals(found)]


def test_words() -> None:
    found, counts = parse(PLAIN)
    assert texts(found) == ["passing that is an example", "préface way", ""]
    assert [r.utterance.utt_id for r in finals(found)] == ["call-0001", "call-0002", "call-0003"]
    assert [r.where for r in finals(found)] == ["tcp:1", "tcp:2", "tcp:3"]
    assert [r.is_final for r in found if isinstance(r, Result)] == [False, False, False, True, False, True, True]
    first = finals(found)[0].utterance
    assert (first.start_s, first.end_s, first.rec_id, first.words[0]) == (None, None, "call", Word("passing"))
    assert counts == {"finals": 3, "partials": 4}


def test_times() -> None:
    found, _ = parse(TIMES)
    assert texts(found) == ["passing that", "as an example", ""]
    assert [(r.utterance.start_s, r.utterance.end_s) for r in finals(found)] == [(0.0, 2.1), (2.1, 4.2), (None, None)]


def test_numbers_that_are_words() -> None:
    assert texts(parse(b"two 0.00 1.00 \n3.50 4.50 five \n")[0]) == ["two 0.00 1.00", "3.50 4.50 five"]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([PLAIN, TIMES]), st.data())
def test_any_cut_gives_the_same(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    blocks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse(*blocks) == parse(stream)


def test_a_second_connection_is_another_recording() -> None:
    found, _ = parse(TIMES, b"0.00 1.00 next \n")
    assert [r.utterance.utt_id for r in finals(found)][-1] == "call-2-0001"


def test_what_never_became_final_is_counted() -> None:
    found, counts = parse(b"so \nnow then \r")
    assert texts(found) == ["so"]
    assert counts["words that never became final"] == 2


def test_half_a_line_is_no_result() -> None:
    found, _ = parse(b"so \nnow th")
    assert texts(found[:1]) == ["so"]
    assert str(found[1]) == (
        "tcp:2: expected a line feed or carriage return after each result, got the end after 'now th'; "
        "keep the connection open until the decoder closes it"
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            b"so what ",
            ("expected '<begin-s> <end-s> <word> …' as before, got 'so what '; decode with --produce-time all along, "
            "or without it"),
        ),
        (
            b"3.00 2.00 so ",
            ("expected '<begin-s> <end-s> <word> …' as before, got '3.00 2.00 so '; decode with --produce-time all "
            "along, or without it"),
        ),
        (b"2.00 3.00 caf\xe9 ", "expected UTF-8 text, got byte 0xe9 in column 14; use a words.txt in UTF-8"),
        (
            b"x" * (1 << 21),
            f"expected a result of at most 1048576 bytes, got more: '{'x' * 40} …'; --from names what the input is",
        ),
    ],
)  # fmt: skip
def test_errors(line: bytes, expected: str) -> None:
    stream = b"0.00 2.00 well \n" + line + b"\n2.00 4.00 next one \n"
    for blocks in ([stream], [stream[i : i + 65536] for i in range(0, len(stream), 65536)]):
        found, _ = parse(*blocks)
        assert str(found[1]) == f"tcp:2: {expected}" or len(blocks) < len(line) >> 16
        assert texts([found[0], found[2]]) == ["well", "next one"] or len(blocks) < len(line) >> 16


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "call.txt.gz"
    import gzip

    path.write_bytes(gzip.compress(PLAIN * 3000))
    assert len(finals(list(read_online2(path, "call")))) == 9000
    path.write_bytes(gzip.compress(PLAIN * 3000)[:-20])
    with pytest.raises(FormatError, match=r"call\.txt\.gz"):
        list(read_online2(path, "call"))


@pytest.mark.shared
def test_what_kaldi_sent(shared: Path) -> None:
    """Six clips through Kaldi itself, block by block as they came."""
    plain, times = (
        [
            json.loads(line)["bytes"].encode()
            for line in (shared / "golden" / "online2-tcp" / name).read_text().splitlines()
        ]
        for name in ("plain.jsonl", "times.jsonl")
    )
    assert any(block[-1:] not in b"\r\n" for block in plain)  # half lines
    for blocks in (plain, times):
        found, counts = parse(*blocks)
        assert parse(b"".join(blocks)) == (found, counts)
        assert counts["finals"] == 3
        assert counts["partials"] == sum(b.count(b"\r") for b in blocks)
        assert texts(found)[2] == "passing that as an example a fine typography way"
    assert texts(parse(*plain)[0]) == texts(parse(*times)[0])
    spans = [(r.utterance.start_s, r.utterance.end_s) for r in finals(parse(*times)[0])]
    assert spans == [(0.0, 20.16), (20.16, 40.32), (40.32, 44.94)]
