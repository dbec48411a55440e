"""Extended filenames: files, gzip, pipes, offsets; what a broken or a killed one leaves."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kaldi_punct.errors import FormatError, LatticeError
from kaldi_punct.kaldi.streams import (
    Rspecifier,
    as_rspecifier,
    open_rxfilename,
    open_wxfilename,
    parse_rspecifier,
    read_lines,
    split_fields,
    write_lines,
)


def read(rx: str | Path) -> bytes:
    with open_rxfilename(rx) as stream:
        return stream.read()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ark:lat.ark", Rspecifier(False, "lat.ark")),
        ("ark,t:-", Rspecifier(False, "-")),
        ("ark,s,cs:gunzip -c lat.1.gz|", Rspecifier(False, "gunzip -c lat.1.gz|")),
        ("t,ark:x", Rspecifier(False, "x")),
        ("scp:lat.scp", Rspecifier(True, "lat.scp")),
        ("scp,p:lat.scp", Rspecifier(True, "lat.scp", permissive=True)),
        ("ark:a:b", Rspecifier(False, "a:b")),
    ],
)
def test_rspecifiers(text: str, expected: Rspecifier) -> None:
    assert parse_rspecifier(text) == expected


@pytest.mark.parametrize("text", ["lat.ark", "arc:lat.ark", "ark,scp:a,b", "ark,what:x", "C:lat", "s,cs:x"])
def test_what_is_no_rspecifier_is_refused_and_taken_for_a_file_where_that_may_be(text: str) -> None:
    with pytest.raises(
        FormatError, match=r"expected an rspecifier \(ark:<rxfilename> or scp:<rxfilename>\), got no such"
    ):
        parse_rspecifier(text)
    assert as_rspecifier(text) == Rspecifier(False, text)


def test_fields_are_split_at_ascii_blanks_alone() -> None:
    assert split_fields(" a\u00a0b\t c\u3000d  e\x1cf\r\n") == ["a\u00a0b", "c\u3000d", "e\x1cf"]


def test_plain_gzip_pipe_offset_and_stdin_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"one\ntwo\n" * 30_000  # longer than any buffer
    (tmp_path / "x").write_bytes(data)
    (tmp_path / "x.gz").write_bytes(gzip.compress(data[:1000]) + gzip.compress(data[1000:]) + b"\0" * 512)
    assert read(tmp_path / "x") == data
    assert read(str(tmp_path / "x.gz")) == data
    assert read(f"cat {tmp_path}/x | cat |") == data
    assert read(f"gunzip -c {tmp_path}/x.gz|") == data
    assert read(f"{tmp_path}/x:4") == data[4:]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert read("-") == data


def test_a_path_object_is_never_a_command(tmp_path: Path) -> None:
    odd = tmp_path / "echo hi |"
    odd.write_bytes(b"a file")
    assert read(odd) == b"a file"


def test_a_file_whose_name_ends_like_an_offset_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "x:4").write_bytes(b"whole")
    assert read(f"{tmp_path}/x:4") == b"whole"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as e:
        read(f"{tmp_path}/none")
    assert str(e.value) == (
        f"{tmp_path}/none: expected a readable file, got 'No such file or directory'; "
        "check the name (paths are relative to the working directory)"
    )


def test_an_output_pipe_is_no_input() -> None:
    with pytest.raises(FormatError, match=r"\| cat: expected an input, got an output pipe; write '<command> \|'"):
        read("| cat")


def test_what_comes_before_a_cut_in_gzip_is_read_and_half_a_line_is_not(tmp_path: Path) -> None:
    lines = [f"utt-{i} {os.urandom(20).hex()}" for i in range(5000)]
    whole = gzip.compress("".join(f"{line}\n" for line in lines).encode())
    (tmp_path / "x.gz").write_bytes(whole[: len(whole) // 2])
    got: list[str] = []
    with pytest.raises(FormatError) as e:
        got.extend(line for _, line in read_lines(tmp_path / "x.gz"))
    assert 1000 < len(got) < 5000
    assert got == lines[: len(got)]
    n = len(whole) // 2
    assert str(e.value) == (
        f"{tmp_path}/x.gz: expected whole gzip data, got an end after byte {n} of the file; write the file anew"
    )


@pytest.mark.parametrize("data", [b"", b"\x1f\x8b"])
def test_an_empty_gzip_file_is_cut_short(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.gz").write_bytes(data)
    with pytest.raises(FormatError, match=rf"expected whole gzip data, got an end after byte {len(data)} of the file"):
        read(tmp_path / "x.gz")


def test_what_is_not_gzip_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(b"hello world")
    with pytest.raises(
        FormatError, match=r"x\.gz: expected gzip data, got damage near byte 1 of the file \(.*\); write"
    ):
        read(tmp_path / "x.gz")


def test_rubbish_behind_gzip_data_is_damage(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"a\n") + b"rubbish")
    iterator = read_lines(tmp_path / "x.gz")
    assert next(iterator) == (1, "a")
    with pytest.raises(FormatError, match="expected gzip data, got damage near byte"):
        next(iterator)


def test_a_command_that_fails_is_an_error_after_what_it_wrote() -> None:
    iterator = read_lines("echo a b; exit 3 |")
    assert next(iterator) == (1, "a b")
    with pytest.raises(FormatError) as e:
        next(iterator)
    assert str(e.value) == (
        "echo a b; exit 3 |: expected the command to end with status 0, got 3; run it alone to see why"
    )


def test_a_command_that_is_not_read_to_its_end_is_stopped_without_complaint() -> None:
    with open_rxfilename("yes |") as stream:
        assert stream.readline() == b"y\n"


def test_an_error_of_the_reader_names_what_broke_the_stream() -> None:
    def read_lattice() -> None:
        with open_rxfilename("exit 1 |") as stream:
            stream.read()
            raise LatticeError("lat: no end")

    with pytest.raises(
        LatticeError, match=r"^lat: no end \(exit 1 \|: expected the command to end with status 0, got 1"
    ):
        read_lattice()


def test_text_that_is_not_utf8_is_named_by_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a fine\nb caf\xe9\n")
    iterator = read_lines(tmp_path / "x")
    assert next(iterator) == (1, "a fine")
    with pytest.raises(FormatError) as e:
        next(iterator)
    assert str(e.value) == (
        f"{tmp_path}/x:2: expected UTF-8 text, got byte 0xe9 in column 6; convert it, e.g. iconv -f latin1 -t utf-8"
    )


def test_gzip_under_a_plain_name_gets_its_own_hint(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(gzip.compress(b"a b\n" * 50))
    with pytest.raises(
        FormatError, match=r"text:1: expected UTF-8 text, got byte 0x8b.*it is gzip: read it as 'gunzip -c"
    ):
        list(read_lines(tmp_path / "text"))


def test_a_byte_order_mark_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbfa b\n")
    with pytest.raises(FormatError, match=r"text:1: expected text, got a byte order mark; remove it, e\.g\. sed"):
        list(read_lines(tmp_path / "text"))


def test_outputs_are_plain_gzip_or_pipe(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for wx in (f"{tmp_path}/a", f"{tmp_path}/b.gz", f"| cat > {tmp_path}/c"):
        assert write_lines(wx, iter(["x", "y é"])) == 2
    expected = "x\ny é\n".encode()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "c").read_bytes() == expected
    assert gzip.decompress((tmp_path / "b.gz").read_bytes()) == expected
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b.gz", "c"]
    write_lines("| cat", iter(["to stdout"]))
    assert capfdbinary.readouterr().out == b"to stdout\n"


def test_standard_output_stays_open() -> None:
    code = "from kaldi_punct.kaldi.streams import write_lines as w; w('-', iter(['a'])); w('-', iter(['b']))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"a\nb\n"


def test_a_file_takes_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("before")
    with open_wxfilename(target) as stream:
        stream.write(b"after")
        assert target.read_text() == "before"
        assert (tmp_path / "out.tmp").exists()
    assert target.read_text() == "after"
    assert not (tmp_path / "out.tmp").exists()


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("before")

    def fail(data: bytes, error: Exception) -> None:
        with open_wxfilename(target) as stream:
            stream.write(data)
            raise error

    with pytest.raises(RuntimeError):
        fail(b"after", RuntimeError())
    with pytest.raises(FormatError):
        fail(b"", FormatError())  # the input broke before anything came of it
    assert target.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_a_broken_input_keeps_what_came_before_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError):
        write_lines(tmp_path / name, (line for _, line in read_lines("echo a; exit 1 |")))
    assert read(tmp_path / name) == b"a\n"
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_killed_run_leaves_at_most_a_temporary_file(tmp_path: Path) -> None:
    code = (
        "import os, sys; from kaldi_punct.kaldi.streams import open_wxfilename\n"
        "with open_wxfilename(sys.argv[1]) as f: f.write(b'x'); f.flush(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], check=False).returncode == -9
    assert [p.name for p in tmp_path.iterdir()] == ["out.tmp"]


def test_special_files_and_links_are_written_through(tmp_path: Path) -> None:
    write_lines("/dev/null", iter(["x"]))
    assert not Path("/dev/null").is_file()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_lines(tmp_path / "link", iter(["x"]))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "x\n"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        FormatError, match=r"none/out: expected a file that can be written, got 'No such file or directory';"
    ):
        write_lines(f"{tmp_path}/none/out", iter(["x"]))


def test_an_output_command_that_fails_is_an_error() -> None:
    with pytest.raises(
        FormatError, match=r"\| cat >/dev/null; exit 4: expected the command to end with status 0, got 4"
    ):
        write_lines("| cat >/dev/null; exit 4", iter(["x"]))
