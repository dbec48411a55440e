"""Bad input of every kind, through the command line: what is good comes out, what is not is told, nothing breaks."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kaldi_punct import labels
from kaldi_punct.cli import main
from kaldi_punct.errors import CheckpointError, ConfigError, FormatError
from kaldi_punct.kaldi.streams import open_rxfilename, to_seconds, write_lines
from kaldi_punct.kaldi.tables import read_ctm, read_lattices, read_symbols
from kaldi_punct.types import Case

# Every kind of token that a decoder, a lexicon or a person may write; none holds an ASCII blank.
TOKENS = (
    "<unk>", "[noise]", "((xx))", "{laugh}", "%hes", "#0", "an-", "-", "--", ",", ".", "?", "'", '"', "...", "<",
    "https://example.com/a?b=c", "www.x.org", "a@b.com", "1,000", "3.14", "a,b", "Hello,", "what?", "U.S.", "e.g.",
    "x" * 600, "a\u0300" * 50, "e\u0301te\u0301", "o\u00a0k", "\u00a0", "\u3000", "\u200b", "\ufeff", "\x85", "\u2028",
    "\x00", "\x1c", "\U0001f600", "\U0001f469\u200d\U0001f467", "\U0010ffff", "ß", "straße", "ŉ", "ﬁ", "İ", "ǅ",
    "中文", "العربية", "¿que", "hi…", "hi。", "“hi”", "[UNK]", "[SEP]", "##ing", "<s>", "i'm", "don’t", "NASA",
)  # fmt: skip
_FIELD = re.compile(r"[^ \t\r\n\f\v]+")


def run_shell(command: str, cwd: Path) -> SimpleNamespace:
    """Runs a shell line in which ``kaldi-punct`` is this checkout's."""
    env = dict(os.environ, KP=f"{sys.executable} -m kaldi_punct.cli", PYTHONPATH=str(Path(__file__).parents[1]))
    done = subprocess.run(["bash", "-c", command], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    return SimpleNamespace(status=done.returncode, out=done.stdout, err=done.stderr)


class TestEveryWordComesOut:
    @pytest.fixture(params=["text", "lines", "ctm", "jsonl"])
    def source(self, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
        """The same tokens in each kind of input."""
        written = {
            "text": f"u1 {' '.join(TOKENS)}\n",
            "lines": f"{' '.join(TOKENS)}\n",
            "ctm": "".join(f"u1 1 {0.3 * i:.2f} 0.2 {token} 0.50\n" for i, token in enumerate(TOKENS)),
            "jsonl": json.dumps({"utt_id": "u1", "words": list(TOKENS)}) + "\n",
        }
        path = tmp_path / "in"
        path.write_text(written[request.param], encoding="utf-8", newline="")
        return request.param, path

    @staticmethod
    def assert_same_words(written: list[str]) -> None:
        assert len(written) == len(TOKENS)
        for token, out in zip(TOKENS, written, strict=True):
            rest = out[len(token) :]
            assert out[: len(token)].lower() == token.lower()
            assert rest in ("", ",", ".", "?"), (token, out)
            if not labels.is_word(token):
                assert out == token

    def test_as_text(self, source: tuple[str, Path], run: Callable[..., SimpleNamespace], tiny_model: Path) -> None:
        kind, path = source
        done = run("punctuate", "--model", tiny_model, "--from", kind, path, "-")
        assert (done.status, done.out.count("\n")) == (0, 1)
        self.assert_same_words(_FIELD.findall(done.out)[0 if kind == "lines" else 1 :])

    def test_as_jsonl(self, source: tuple[str, Path], run: Callable[..., SimpleNamespace], tiny_model: Path) -> None:
        kind, path = source
        done = run("punctuate", "--model", tiny_model, "--from", kind, "--to", "jsonl", path, "-")
        words = json.loads(done.out)["words"]
        assert [w["word"] for w in words] == list(TOKENS)
        self.assert_same_words([w["text"] for w in words])

    def test_as_ctm(self, run: Callable[..., SimpleNamespace], tiny_model: Path, tmp_path: Path) -> None:
        before = [f"u1\t1  {0.3 * i:.3f} 0.20 {token}   0.5" for i, token in enumerate(TOKENS)]
        (tmp_path / "in").write_text("".join(f"{line}\n" for line in before), encoding="utf-8", newline="")
        done = run("punctuate", "--model", tiny_model, "--from", "ctm", "--to", "ctm", "in", "-")
        after = done.out.split("\n")[:-1]
        self.assert_same_words([_FIELD.findall(line)[4] for line in after])
        for old, new, token in zip(before, after, TOKENS, strict=True):
            start = old.index(token, 10)
            assert new[:start] == old[:start]
            assert new.endswith("   0.5")


class TestCaseChangesNoSpelling:
    @pytest.mark.parametrize(
        ("word", "case", "written"),
        [
            ("straße", Case.UPPER, "STRAßE"),
            ("ß", Case.CAPITALIZED, "ß"),
            ("ﬁnd", Case.CAPITALIZED, "ﬁnd"),
            ("İstanbul", Case.LOWER, "İstanbul"),
            ("élan", Case.UPPER, "ÉLAN"),
        ],
    )
    def test_letter_for_letter(self, word: str, case: Case, written: str) -> None:
        assert labels.write_case(word, case) == written


class TestNumbersAndNames:
    @pytest.mark.parametrize("field", ["1_0", "٣", "nan", "inf", "1e400", "0x1", ""])
    def test_what_only_python_takes_for_a_number_is_no_time(self, field: str) -> None:
        with pytest.raises(
            FormatError, match=f"^t:3: expected a time in seconds, got '{field}'; write it as a number$"
        ):
            to_seconds("t", 3, field)

    def test_confidence(self, tmp_path: Path) -> None:
        (tmp_path / "ctm").write_text("a 1 0 1 hi 0.0_5\n")
        with pytest.raises(FormatError, match=r"ctm:1: expected a confidence from 0 to 1 \(or NA\), got '0.0_5'"):
            list(read_ctm(tmp_path / "ctm"))

    @pytest.mark.parametrize("number", ["9" * 5000, "-1", "1_0", "1.0"])
    def test_word_number(self, tmp_path: Path, number: str) -> None:
        (tmp_path / "words.txt").write_text(f"<eps> 0\nhi {number}\n")
        with pytest.raises(FormatError, match=r"words.txt:2: expected 2 fields '<word> <number>', got 'hi "):
            read_symbols(tmp_path / "words.txt")

    def test_a_null_byte_in_a_name(self, tmp_path: Path) -> None:
        (tmp_path / "lat.scp").write_bytes(b"a x\0y\nb cat x\0y |\nc x:99999999999999999999\n")
        found = [str(e) for _, e in read_lattices(f"scp:{tmp_path}/lat.scp")]
        assert found[0] == (
            f"{tmp_path}/lat.scp:1: 'x\\x00y': expected a file name or a command, got a null byte in it; take it out"
        )
        assert "lat.scp:2: 'cat x\\x00y |': expected a file name or a command" in found[1]
        assert "x:99999999999999999999: expected a readable file" in found[2]
        with pytest.raises(FormatError, match=r"^'a\\x00b': expected a file name"):
            write_lines("a\0b", iter(["x"]))


class TestDamagedGzip:
    def test_what_is_before_the_damage_comes_out(self, tmp_path: Path) -> None:
        plain = b"".join(b"utt%05d %d\n" % (i, zlib.crc32(b"%d" % i)) for i in range(3000))
        packed = bytearray(gzip.compress(plain))
        packed[-6] ^= 1  # the checksum, so that all of the data is whole
        (tmp_path / "t.gz").write_bytes(packed)
        read = []
        broken = pytest.raises(FormatError, match="expected gzip data, got damage near byte")
        with broken as e, open_rxfilename(tmp_path / "t.gz") as stream:
            read.append(stream.read())
        assert b"".join(read) == plain
        near = int(re.findall(r"near byte (\d+)", str(e.value))[0])
        assert len(packed) - 8 <= near < len(packed)

    def test_lattices_before_the_damage_are_kept(
        self, mini: Path, tmp_path: Path, run: Callable[..., SimpleNamespace]
    ) -> None:
        packed = bytearray((mini / "decode" / "lat.1.gz").read_bytes())
        packed[len(packed) // 2] ^= 0xFF
        (tmp_path / "lat.1.gz").write_bytes(packed)
        done = run("nbest", "--acoustic-scale", 0.1, "ark:lat.1.gz", mini / "lang" / "words.txt", "out")
        n_done = int(re.findall(r"Done (\d+), 1 errors", done.err)[0])
        assert done.status == 1
        assert n_done == 3
        keys = {line.split(" ")[0].rpartition("-")[0] for line in (tmp_path / "out" / "words").read_text().splitlines()}
        assert len(keys) == n_done


class TestOutputs:
    CTM = "a 1 0 0.2 hi\na 1 1 0.2 you\n"
    SCORE = "$KP score t t"

    @pytest.fixture(autouse=True)
    def table(self, tmp_path: Path) -> None:
        (tmp_path / "t").write_text("a Hi, you.\n")
        (tmp_path / "in.ctm").write_text(self.CTM)

    def test_full_disk_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(
            OSError, match="expected to be written whole, got 'No space left on device'; make room"
        ) as e:
            write_lines("/dev/full", iter(["x"]))
        assert e.value.filename == "/dev/full"
        done = run_shell("$KP project t in.ctm - > /dev/full", tmp_path)
        assert done.status == 1
        assert (
            "ERROR: standard output: expected to be written whole, got 'No space left on device'; make room for it\n"
            in done.err
        )
        assert "Traceback" not in done.err
        assert "Exception ignored" not in done.err

    def test_a_file_that_outgrows_its_limit_leaves_what_was_there(self, tmp_path: Path) -> None:
        (tmp_path / "big.ctm").write_text("".join(f"a 1 {i} 0.2 hi\n" for i in range(20000)))
        (tmp_path / "out").write_text("old\n")
        done = run_shell("ulimit -f 16; $KP project t big.ctm out", tmp_path)
        assert done.status == 1
        assert "out.tmp: expected to be written whole, got 'File too large'; make room for it" in done.err
        assert (tmp_path / "out").read_text() == "old\n"
        assert not (tmp_path / "out.tmp").exists()

    @pytest.mark.parametrize("out", ["/dev/stdout", "/dev/fd/1", ">(cat)"])
    def test_pipes_by_name(self, tmp_path: Path, out: str) -> None:
        done = run_shell(f"set -o pipefail; $KP project t in.ctm {out} | cat", tmp_path)
        assert (done.status, done.out) == (0, "a Hi, you.\n"), done.err

    def test_standard_streams_that_are_closed(self, tmp_path: Path) -> None:
        done = run_shell("$KP project t in.ctm - >&-", tmp_path)
        assert (done.status, "Traceback" in done.err) == (1, False)
        assert "-: expected an open standard output, got a closed one; name a file" in done.err
        done = run_shell("$KP project t - out <&-", tmp_path)
        assert (done.status, "Traceback" in done.err) == (1, False)
        assert "-: expected an open standard input, got a closed one; name a file" in done.err
        done = run_shell("$KP project t in.ctm - 2>&-", tmp_path)
        assert (done.status, done.out) == (0, "a Hi, you.\n")

    def test_a_log_that_cannot_be_written_stops_no_work(self, tmp_path: Path) -> None:
        done = run_shell("$KP project t in.ctm - 2>/dev/full", tmp_path)
        assert (done.status, done.out) == (0, "a Hi, you.\n")

    def test_an_input_pipe_is_no_output(self) -> None:
        with pytest.raises(FormatError, match=r"^cat \|: expected an output, got an input pipe; write '\| <command>'$"):
            write_lines("cat |", iter(["x"]))

    def test_an_output_command_that_does_not_read_is_told_by_its_status(self) -> None:
        with pytest.raises(FormatError, match=r"^\| exit 3: expected the command to end with status 0, got 3; run it"):
            write_lines("| exit 3", iter(["x" * 1000] * 1000))
        with pytest.raises(BrokenPipeError):
            write_lines("| head -n 1 >/dev/null", iter(["x" * 1000] * 1000))

    @pytest.mark.parametrize("reader", ["head -n 1", "true"])
    def test_a_reader_that_goes_away_is_met_quietly(self, tmp_path: Path, reader: str) -> None:
        (tmp_path / "big.ctm").write_text("".join(f"a{i} 1 0 0.2 hi\n" for i in range(20000)))
        (tmp_path / "big").write_text("".join(f"a{i} Hi.\n" for i in range(20000)))
        done = run_shell(f"$KP project big big.ctm - | {reader}; exit ${{PIPESTATUS[0]}}", tmp_path)
        assert done.status == 1
        assert done.err == ""


class TestSideTables:
    @pytest.fixture(autouse=True)
    def text(self, tmp_path: Path) -> None:
        (tmp_path / "text").write_text("a hi\nb you\n")

    @pytest.mark.parametrize(
        ("option", "table"),
        [
            ("--segments", "a r 0 1\nb r 1 2\na r 2 3\n"),
            ("--utt2spk", "a s\nb s\na t\n"),
            ("--reco2file-and-channel", "r f A\ns f B\nr g A\n"),
        ],
    )
    def test_a_key_twice(
        self, option: str, table: str, run: Callable[..., SimpleNamespace], tiny_model: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "side").write_text(table)
        done = run("punctuate", "--model", tiny_model, *self.beside(option, tmp_path), option, "side", "text", "-")
        key = table[0]
        assert done.status == 1
        assert f"ERROR: side:3: expected each key once, got '{key}' again; remove one of the lines\n" in done.err

    @pytest.mark.parametrize("option", ["--segments", "--utt2spk", "--reco2file-and-channel"])
    def test_an_empty_one(
        self, option: str, run: Callable[..., SimpleNamespace], tiny_model: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "side").write_text("")
        done = run("punctuate", "--model", tiny_model, *self.beside(option, tmp_path), option, "side", "text", "-")
        assert done.status == 1
        assert "ERROR: side: expected at least one line, got an empty table; leave the option out\n" in done.err

    @staticmethod
    def beside(option: str, tmp_path: Path) -> list[str]:
        """What an option needs beside it."""
        (tmp_path / "segments").write_text("a r 0.0 1.0\n")
        return ["--segments", "segments"] if option == "--reco2file-and-channel" else []

    def test_references_twice(self, run: Callable[..., SimpleNamespace], tmp_path: Path) -> None:
        (tmp_path / "ref").write_text("a Hi.\na You.\n")
        done = run("project", "ref", "text", "-")
        assert (done.status, done.out) == (1, "")
        assert "ERROR: ref:2: expected each key once, got 'a' again; remove one of the lines\n" in done.err


class TestInputs:
    def test_an_empty_one_is_told(self, run: Callable[..., SimpleNamespace], tiny_model: Path, tmp_path: Path) -> None:
        (tmp_path / "text").write_text("")
        done = run("punctuate", "--model", tiny_model, "text", "-")
        assert done.status == 1
        assert "WARNING: text: expected utterances, got none: is it empty?\nDone 0, 0 errors\n" in done.err

    def test_one_that_is_not_there(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("punctuate", "nowhere", "-")
        assert done.status == 1
        assert "ERROR: nowhere: expected a readable file, got no such file; check the name\n" in done.err

    @pytest.mark.parametrize(("field", "warns"), [("{end:.2f}", True), ("0.30", False)])
    def test_ends_in_place_of_durations(
        self, field: str, warns: bool, run: Callable[..., SimpleNamespace], tiny_model: Path, tmp_path: Path
    ) -> None:
        rows = [f"a 1 {0.3 * i:.2f} {field.format(end=0.3 * i + 0.3)} w{i}\n" for i in range(10)]
        (tmp_path / "x.ctm").write_text("".join(rows))
        done = run("punctuate", "--model", tiny_model, "--from", "ctm", "x.ctm", "-")
        assert done.status == 0
        text = "words last beyond the start of the next: the fourth field of a CTM is a duration, not an end"
        assert (text in done.err) is warns

    def test_times_of_json_that_step_back(
        self, run: Callable[..., SimpleNamespace], tiny_model: Path, tmp_path: Path
    ) -> None:
        def record(utt_id: str, second_s: float) -> str:
            words = [
                {"word": "hi", "start_s": 5, "duration_s": 1},
                {"word": "you", "start_s": second_s, "duration_s": 1},
            ]
            return json.dumps({"utt_id": utt_id, "words": words})

        (tmp_path / "x.jsonl").write_text(f"{record('a', 4.95)}\n{record('b', 1)}\n{record('c', 6)}\n")
        done = run("punctuate", "--model", tiny_model, "--to", "ctm", "x.jsonl", "-")
        assert done.status == 0
        assert [line.split(" ")[0] for line in done.out.splitlines()] == ["a", "a", "c", "c"]
        assert (
            "ERROR: x.jsonl: b: expected times that go on, got 'you' at 1 s after a word at 5 s; sort the words by "
            "their times\nDone 2, 1 errors\n"
        ) in done.err

    @pytest.mark.parametrize(
        ("record", "error"),
        [
            ('{"utt_id": "a", "words": ["\\ud800"]}',
             "words[0]: expected a string 'word' of whole characters, got half a surrogate pair: \"\\ud800\"; write"),
            ('{"utt_id": "\\udc00", "words": []}', "expected a string 'utt_id' of whole characters, got half"),
            ('{"utt_id": "a b", "words": []}', "expected a string 'utt_id' without blanks, got \"a b\"; put e.g. _ in"),
            ('{"utt_id": "", "words": []}', "expected a string 'utt_id' without blanks, got \"\"; put e.g. _ in"),
            ('{"utt_id": "a\\nb", "words": []}', "expected a string 'utt_id' without blanks, got \"a\\nb\"; put"),
            ('{"utt_id": "a", "channel": "A B", "words": []}', "expected a string 'channel' without blanks, got"),
            ('{"utt_id": "a", "start_s": 2, "end_s": 1, "words": []}',
             "expected 'start_s' below 'end_s', got 2 and 1; correct them"),
            ('{"utt_id": "a", "start_s": 9, "words": [{"word": "hi", "start_s": 1, "duration_s": 1}]}',
             "expected times on the recording's clock, got 'hi' at 1 s before the utterance's 'start_s' 9; add"),
            ('{"utt_id": "a", "end_s": 1' + "0" * 400 + "}", "expected a number 'end_s' of at least 0, got 1000"),
            ('{"utt_id": "a", "end_s": 1' + "0" * 5000 + "}", "expected one JSON object, got '{\"utt_id\""),
            ("[" * 100000, "expected one JSON object, got '[[[["),
        ],
    )  # fmt: skip
    def test_json_that_cannot_be(
        self, record: str, error: str, run: Callable[..., SimpleNamespace], tiny_model: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "x.jsonl").write_text(f'{{"utt_id": "z", "words": ["hi"]}}\n{record}\n')
        done = run("punctuate", "--model", tiny_model, "x.jsonl", "-")
        assert (done.status, done.out[:2]) == (1, "z ")
        assert f"ERROR: x.jsonl:2: {error}" in done.err
        assert done.err.endswith("Done 1, 1 errors\n")


class TestOptions:
    @pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "1_0", "9" * 30])
    def test_counts(self, value: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["nbest", f"--n={value}", "ark:x", "words.txt", "out"])
        assert f"argument --n: expected a whole number above 0, got '{value}'" in capsys.readouterr().err

    @pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "abc", ""])
    def test_scales(self, value: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["nbest", f"--acoustic-scale={value}", "ark:x", "words.txt", "out"])
        assert f"argument --acoustic-scale: expected a number above 0, got '{value}'" in capsys.readouterr().err

    def test_more_hypotheses_than_can_be_counted(self, mini: Path) -> None:
        from kaldi_punct.kaldi.lattice import Decoder, parse

        text = b"\n0 1 1 0,0,1\n1 0,0,\n\n"
        hypotheses = Decoder({1: "hi"}, None, None, 1.0).nbest(parse(text), 10**30)
        assert [[w.word for w in h.words] for h in hypotheses] == [["hi"]]


class TestModels:
    @pytest.mark.parametrize(
        ("file", "content", "error"),
        [
            ("tokenizer.json", b"{}", "tokenizer.json: expected the model's tokenizer, got: "),
            ("tokenizer.json", b"\xff", "tokenizer.json: expected the model's tokenizer, got: "),
            ("case_lexicon.json", b'{"hi": 3}', "case_lexicon.json: expected strings, got 3 for 'hi'; copy the model"),
        ],
    )
    def test_broken_file(self, file: str, content: bytes, error: str, tiny_model: Path, tmp_path: Path) -> None:
        from kaldi_punct import checkpoint

        for path in tiny_model.iterdir():
            (tmp_path / path.name).write_bytes(content if path.name == file else path.read_bytes())
        with pytest.raises(CheckpointError, match=re.escape(f"{tmp_path}/{error}")):
            checkpoint.load(tmp_path)


class TestConfigs:
    @pytest.mark.parametrize(
        ("content", "error"),
        [
            (b"train: {", "c.yaml: expected YAML, got something else: while parsing a flow node"),
            (b"\xff", "c.yaml: expected YAML, got something else: 'utf-8' codec can't decode byte 0xff"),
            (b"train: {max_steps: x}", "c.yaml: train.max_steps: Value 'x' of type 'str' could not be converted to"),
            (b"train: {max_steps: -1}", "train.max_steps: expected a number of at least 0, got -1"),
            (b"train: {peak_lr: .nan}", "train.peak_lr: expected a number of at least 0, got nan"),
            (b"train: {save_every_steps: 0}", "train.save_every_steps: expected a number of at least 1, got 0"),
        ],
    )
    def test_broken_file(self, content: bytes, error: str, run: Callable[..., SimpleNamespace], tmp_path: Path) -> None:
        (tmp_path / "c.yaml").write_bytes(content)
        done = run("train", "--config", "c.yaml", "nowhere", "nowhere", "out")
        assert done.status == 1
        assert f"ERROR: {error}" in done.err
        assert "Traceback" not in done.err


class TestAddresses:
    @pytest.mark.parametrize("address", ["", "localhost", "localhost:99999", "localhost:x", ":50051", "a:-1", "::::"])
    def test_those_that_grpc_would_bend(self, address: str) -> None:
        from kaldi_punct.serve import Client, ServeOptions

        text = f"expected HOST:PORT with a port up to 65535, got '{address}'; e.g. localhost:50051"
        with pytest.raises(ConfigError, match=f"^server: {text}$"):
            Client(address)
        with pytest.raises(ConfigError, match=f"^listen: {text}$"):
            ServeOptions(listen=address)

    @pytest.mark.parametrize("address", ["[::1]:50051", "unix:/tmp/x", "dns:///localhost:50051", "localhost:0"])
    def test_others_pass(self, address: str) -> None:
        from kaldi_punct.serve import ServeOptions

        assert ServeOptions(listen=address).listen == address

    def test_limits(self) -> None:
        from kaldi_punct.serve import ServeOptions

        with pytest.raises(ConfigError, match=r"^max_message_bytes: expected less than 2048 MiB, got 4096 MiB$"):
            ServeOptions(max_message_bytes=1 << 32)
        with pytest.raises(ConfigError, match=r"^grace_s: expected seconds, 0 or more, got inf$"):
            ServeOptions(grace_s=float("inf"))
