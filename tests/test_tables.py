"""Text tables, vector tables, CTM and what stands beside a decode directory."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kaldi_punct.errors import FormatError, UtteranceError
from kaldi_punct.kaldi import tables
from kaldi_punct.kaldi.tables import CtmLine, CtmSequence, Segment
from kaldi_punct.types import Word


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    def write(name: str, content: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return str(path)

    return write


Write = Callable[[str, str], str]


def test_text_comes_by_path_archive_pipe_and_script(write: Write) -> None:
    path = write("text", "a hello  you\n\tb\there \nc\n")
    expected = [("a", "hello  you"), ("b", "here"), ("c", "")]
    assert list(tables.read_text(path)) == expected
    assert list(tables.read_text(f"ark:{path}")) == expected
    assert list(tables.read_text(f"ark,t:cat {path} |")) == expected
    one = write("one", "hello you\n")
    script = write("x.scp", f"a {path}:2\nb cat {one} |\n")
    assert list(tables.read_text(f"scp:{script}")) == [("a", "hello  you"), ("b", "hello you")]


def test_text_written_is_text_read(tmp_path: Path) -> None:
    entries = [("a", "b c"), ("d", ""), ("é", "日\u3000本")]
    for name in ("text", "text.gz"):
        assert tables.write_text(f"{tmp_path}/{name}", iter(entries)) == 3
        assert list(tables.read_text(tmp_path / name)) == entries
    tables.write_text(f"ark,t:{tmp_path}/z", entries)
    assert (tmp_path / "z").read_bytes() == (tmp_path / "text").read_bytes() == "a b c\nd\né 日\u3000本\n".encode()


def test_a_blank_line_is_refused(write: Write) -> None:
    path = write("text", "a b\n \nc d\n")
    with pytest.raises(FormatError) as e:
        list(tables.read_text(path))
    assert str(e.value) == f"{path}:2: expected '<key> …', got a blank line; remove it"


def test_keys_out_of_c_order_are_refused_where_order_matters(write: Write, tmp_path: Path) -> None:
    path = write("utt2spk", "a s\nB s\n")
    assert len(list(tables.read_utt2spk(path))) == 2
    with pytest.raises(FormatError) as e:
        list(tables.read_utt2spk(path, check_sorted=True))
    assert str(e.value) == (
        f"{path}:2: expected keys sorted in C order, got 'B' after 'a'; run utils/fix_data_dir.sh {tmp_path}"
    )
    path = write("text", "a x\na y\n")
    with pytest.raises(
        FormatError, match=r"text:2: expected keys sorted in C order, got 'a' a second time; run utils/fix"
    ):
        list(tables.read_text(path, check_sorted=True))
    path = write("text", "A-1 x\nA1 y\na z\né z\n\U0001f600 z\n")  # as LC_ALL=C sort
    assert len(list(tables.read_text(path, check_sorted=True))) == 5


def test_segments(write: Write, tmp_path: Path) -> None:
    path = write("segments", "u1 r 0.0 1.5\nu2 r 1.5 -1\n")
    segments = [Segment("u1", "r", 0.0, 1.5), Segment("u2", "r", 1.5, None)]
    assert list(tables.read_segments(path)) == segments
    tables.write_segments(tmp_path / "out", segments)
    assert (tmp_path / "out").read_text() == "u1 r 0.000 1.500\nu2 r 1.500 -1\n"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("u1 r1 0.0", "expected 4 fields '<utt> <rec> <start-s> <end-s>', got 3: 'u1 r1 0.0'; write all four"),
        ("u1 r1 0.0 x", "expected a time in seconds, got 'x'; write it as a number"),
        ("u1 r1 0.0 nan", "expected a time in seconds, got 'nan'; write it as a number"),
        (
            "u1 r1 3.0 2.5",
            (
                "expected 0 <= start-s < end-s (or end-s -1: to the end), got 3.0 and 2.5; "
                "the fourth field is the end, not the duration"
            ),
        ),
        (
            "u1 r1 -1 2.5",
            (
                "expected 0 <= start-s < end-s (or end-s -1: to the end), got -1 and 2.5; "
                "the fourth field is the end, not the duration"
            ),
        ),
    ],
)
def test_bad_segments(write: Write, line: str, text: str) -> None:
    path = write("segments", f"u0 r1 0 1\n{line}\n")
    with pytest.raises(FormatError) as e:
        list(tables.read_segments(path))
    assert str(e.value) == f"{path}:2: {text}"


def test_wav_scp_gives_what_opens(write: Write) -> None:
    sound = write("a.wav", "RIFF")
    path = write("wav.scp", f"r1 {sound}\nr2 cat {sound} | tr R r |\n")
    got = {}
    for rec_id, rx in tables.read_wav_scp(path):
        with tables.open_rxfilename(rx) as stream:
            got[rec_id] = stream.read()
    assert got == {"r1": b"RIFF", "r2": b"rIFF"}


@pytest.mark.parametrize(
    ("read", "line", "text"),
    [
        (tables.read_wav_scp, "r1", "expected '<rec> <file or command |>', got 'r1' alone; name its file"),
        (
            tables.read_utt2spk,
            "s u1 u2",
            "expected 2 fields '<utt> <spk>', got 3: 's u1 u2'; spk2utt is the table the other way round",
        ),
        (tables.read_reco2utt, "r1", "expected '<rec> <utt1> <utt2> …', got 'r1' alone; remove the line"),
        (
            tables.read_reco2file_and_channel,
            "r1 f",
            "expected 3 fields '<rec> <file> <channel>', got 2: 'r1 f'; the channel is A or B, or 1",
        ),
    ],
)
def test_bad_lines_of_small_tables(
    write: Write, read: Callable[[str], Iterator[tuple[str, object]]], line: str, text: str
) -> None:
    path = write("table", f"{line}\n")
    with pytest.raises(FormatError) as e:
        list(read(path))
    assert str(e.value) == f"{path}:1: {text}"


def test_small_tables(write: Write) -> None:
    assert dict(tables.read_utt2spk(write("utt2spk", "u s\n"))) == {"u": "s"}
    assert dict(tables.read_reco2utt(write("reco2utt", "r u1 u2\n"))) == {"r": ("u1", "u2")}
    assert dict(tables.read_reco2file_and_channel(write("r2f", "r f A\n"))) == {"r": ("f", "A")}
    assert tables.read_symbols(write("words.txt", "<eps> 0\nhello 1\n#0 7\n")) == {0: "<eps>", 1: "hello", 7: "#0"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<eps> 0\nhello\n", ":2: expected 2 fields '<word> <number>', got 'hello'; is it a words.txt?"),
        ("<eps> 0\nhello -1\n", ":2: expected 2 fields '<word> <number>', got 'hello -1'; is it a words.txt?"),
        ("a 0\nb 0\n", ":2: expected each number once, got 0 for 'a' and 'b'; make the table anew"),
        ("", ": expected lines '<word> <number>', got an empty file; make the table anew"),
    ],
)
def test_bad_symbols(write: Write, content: str, text: str) -> None:
    path = write("words.txt", content)
    with pytest.raises(FormatError) as e:
        tables.read_symbols(path)
    assert str(e.value) == f"{path}{text}"


INTS = [("a", np.array([1, -2, 70000], np.int32)), ("b", np.array([], np.int32))]
FLOATS = [("a", np.array([1, 2.5, 1e-7], np.float32)), ("b", np.array([], np.float32))]
MATRICES = [("a", np.arange(6, dtype=np.float32).reshape(2, 3) / 7)]


@pytest.mark.parametrize("prefix", ["ark:", "ark,t:"])
@pytest.mark.parametrize("name", ["x", "x.gz"])
@pytest.mark.parametrize(
    ("write_table", "read_table", "entries"),
    [
        (tables.write_int_vectors, tables.read_int_vectors, INTS),
        (tables.write_float_vectors, tables.read_float_vectors, FLOATS),
        (tables.write_float_matrices, tables.read_float_matrices, MATRICES),
    ],
)
def test_vectors_written_are_vectors_read(
    tmp_path: Path,
    prefix: str,
    name: str,
    write_table: Callable[[str, object], int],
    read_table: Callable[[str], Iterator[tuple[str, NDArray[np.float32]]]],
    entries: list[tuple[str, NDArray[np.float32]]],
) -> None:
    assert write_table(f"{prefix}{tmp_path}/{name}", entries) == len(entries)
    got = list(read_table(f"ark:{tmp_path}/{name}"))
    assert [key for key, _ in got] == [key for key, _ in entries]
    for (_, value), (_, expected) in zip(got, entries, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-6)
        assert value.dtype == expected.dtype


def test_vectors_look_as_kaldi_writes_them(tmp_path: Path) -> None:
    tables.write_int_vectors(f"ark,t:{tmp_path}/i", INTS)
    tables.write_float_vectors(f"ark,t:{tmp_path}/f", FLOATS[:1])
    tables.write_int_vectors(f"ark:{tmp_path}/b", [("k", np.array([5], np.int32))])
    assert (tmp_path / "i").read_text() == "a 1 -2 70000\nb \n"
    assert (tmp_path / "f").read_text() == "a  [ 1 2.5 1e-07 ]\n"
    assert (tmp_path / "b").read_bytes() == b"k \0B\4\1\0\0\0\4\5\0\0\0"


def test_vectors_by_script_file(tmp_path: Path, write: Write) -> None:
    tables.write_int_vectors(f"ark:{tmp_path}/x", INTS)
    script = write("x.scp", f"other {tmp_path}/x:2\n")
    ((key, value),) = tables.read_int_vectors(f"scp:{script}")
    assert key == "other"
    assert value.tolist() == [1, -2, 70000]


def test_a_cut_vector_table_keeps_what_is_whole(tmp_path: Path) -> None:
    entries = [("a", np.array([1, 2], np.int32)), ("b", np.array([3], np.int32))]
    tables.write_int_vectors(f"ark:{tmp_path}/x", entries)
    (tmp_path / "cut").write_bytes((tmp_path / "x").read_bytes()[:-2])
    keys: list[str] = []
    with pytest.raises(FormatError) as e:
        keys.extend(key for key, _ in tables.read_int_vectors(f"ark:{tmp_path}/cut"))
    assert keys == ["a"]
    assert str(e.value) == (
        f"ark:{tmp_path}/cut: expected a whole table of int vectors, got damage or an early end after 'a' (1 whole); "
        "write the table anew"
    )


def test_other_wrong_vector_tables(tmp_path: Path, write: Write) -> None:
    path = write("text", "a hello\n")
    with pytest.raises(
        FormatError, match=rf"ark:{path}: expected a table of float vectors, got something else at its start"
    ):
        list(tables.read_float_vectors(f"ark:{path}"))
    with pytest.raises(FormatError, match=r"none: expected a readable file, got 'No such file or directory'"):
        list(tables.read_float_vectors(f"ark:{tmp_path}/none"))
    with pytest.raises(
        FormatError, match=r"expected a whole table of int vectors, got damage or an early end at its start"
    ):
        list(tables.read_int_vectors("ark:exit 1 |"))
    with pytest.raises(
        FormatError, match=r"^x: expected ark:<wxfilename> or ark,t:<wxfilename>, got neither; write e\.g\."
    ):
        tables.write_int_vectors("x", INTS)


CTM = """;; a comment
r1 A 0.50 0.25 hello 0.91
r1 B 0.60 0.10 yes
r1 A 0.45 0.10 you NA
r2  1 0.00\t0.10 <unk> 1.00
"""


def test_ctm_lines(write: Write) -> None:
    lines = list(tables.read_ctm(write("ctm", CTM)))
    assert lines[0] == CtmLine("r1", "A", 0.5, 0.25, "hello", 0.91, "r1 A 0.50 0.25 hello 0.91", 2)
    assert [line.confidence for line in lines] == [0.91, None, None, 1.0]
    assert [line.line for line in lines] == [2, 3, 4, 5]
    assert lines[3].rewritten("Oh,") == "r2  1 0.00\t0.10 Oh, 1.00"
    assert lines[1].rewritten("Yes.") == "r1 B 0.60 0.10 Yes."


def test_ctm_channels_are_sequences_of_their_own(write: Write) -> None:
    path = write("ctm", CTM)
    recordings = list(tables.read_ctm_recordings(path))
    assert [[line.word for line in lines] for lines in recordings] == [["hello", "yes", "you"], ["<unk>"]]
    a, b = tables.ctm_sequences(path, recordings[0], {"r1-A": "ann", "r1": "bob"}.get)
    assert isinstance(a, CtmSequence)
    assert isinstance(b, CtmSequence)
    assert (a.utterance.utt_id, a.utterance.rec_id, a.utterance.channel) == ("r1-A", "r1", "A")
    assert a.utterance.words == (Word("hello", 0.5, 0.25, 0.91, "ann"), Word("you", 0.45, 0.1, None, "ann"))
    assert [line.line for line in a.lines] == [2, 4]
    assert (a.n_steps_back, b.n_steps_back) == (1, 0)
    assert b.utterance.words == (Word("yes", 0.6, 0.1, None, "bob"),)
    (only,) = tables.ctm_sequences(path, recordings[1])
    assert isinstance(only, CtmSequence)
    assert only.utterance.utt_id == "r2"
    assert only.utterance.words[0].spk_id is None


@pytest.mark.parametrize(("start", "is_error"), [("9.90", False), ("9.89", True)])
def test_steps_back_of_more_than_a_tenth_of_a_second_are_an_error_of_the_utterance(
    write: Write, start: str, is_error: bool
) -> None:
    path = write("ctm", f"r A 10.00 0.2 one\nr B 3 1 fine\nr A {start} 0.2 two\n")
    (lines,) = tables.read_ctm_recordings(path)
    a, b = tables.ctm_sequences(path, lines)
    assert isinstance(b, CtmSequence)
    if not is_error:
        assert isinstance(a, CtmSequence)
        assert a.n_steps_back == 1
        return
    assert isinstance(a, UtteranceError)
    assert str(a) == (
        f"{path}:3: expected times of 'r-A' that go on, got 'two' at 9.89 s after 'one' at 10 s; "
        "sort the CTM: sort -s -k1,1 -k2,2 -k3,3n"
    )


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "r A 1.0 0.5",
            (
                "expected 5 or 6 fields '<id> <channel> <start-s> <duration-s> <word> [confidence]', got 4: "
                "'r A 1.0 0.5'; "
                "is it a CTM?"
            ),
        ),
        ("r A * 0.5 w", "expected a time in seconds, got '*'; write it as a number"),
        (
            "r A 1.0 -0.5 w",
            (
                "expected a start and a duration of at least 0 s, got 1.0 and -0.5; "
                "times count from the start of the recording"
            ),
        ),
        (
            "r A 1.0 0.5 w 1.2",
            "expected a confidence from 0 to 1 (or NA), got '1.2'; leave the sixth field out if there is none",
        ),
        (
            "r A 1.0 0.5 w lex",
            "expected a confidence from 0 to 1 (or NA), got 'lex'; leave the sixth field out if there is none",
        ),
    ],
)
def test_bad_ctm_lines(write: Write, line: str, text: str) -> None:
    path = write("ctm", f"r A 0 1 fine\n{line}\n")
    iterator = tables.read_ctm(path)
    assert next(iterator).word == "fine"
    with pytest.raises(FormatError) as e:
        next(iterator)
    assert str(e.value) == f"{path}:2: {text}"


def test_a_recording_in_two_places_is_refused(write: Write) -> None:
    path = write("ctm", "a 1 0 1 x\nb 1 0 1 x\na 1 5 1 x\n")
    with pytest.raises(FormatError) as e:
        list(tables.read_ctm_recordings(path))
    assert str(e.value) == (
        f"{path}:3: expected the lines of 'a' together, got it again after others; sort the CTM: sort -s -k1,1"
    )


def test_ctm_written_is_ctm_read(tmp_path: Path) -> None:
    lines = [CtmLine("r", "1", 0.5, 0.25, "hello", 0.91), CtmLine("r", "1", 0.751, 0.1, "you")]
    assert tables.write_ctm(tmp_path / "ctm.gz", lines) == 2
    assert gzip.decompress((tmp_path / "ctm.gz").read_bytes()) == b"r 1 0.50 0.25 hello 0.91\nr 1 0.75 0.10 you\n"


@pytest.mark.shared
def test_a_real_ctm_of_earnings_calls(shared: Path) -> None:
    path = shared / "data" / "earnings21" / "dev" / "ctm.gz"
    n_words = n_steps_back = 0
    for lines in tables.read_ctm_recordings(path):
        (sequence,) = tables.ctm_sequences(str(path), lines)
        assert isinstance(sequence, CtmSequence)
        n_words += len(sequence.utterance.words)
        n_steps_back += sequence.n_steps_back
    count = subprocess.run(f"gunzip -c {path} | wc -l", shell=True, capture_output=True, check=True).stdout
    assert n_words == int(count) == 49034
    assert n_steps_back == 1
