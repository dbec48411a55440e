"""The server as a process, its options, and its decoder files."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import grpc
import grpc.aio
import pytest
from serving import running_server, tiny_checkpoint

from kaldi_punct import checkpoint
from kaldi_punct.errors import ConfigError, KaldiPunctError
from kaldi_punct.punctuator import Punctuator
from kaldi_punct.serve.client import Client
from kaldi_punct.serve.decoders import load_decoder_file, load_decoders
from kaldi_punct.serve.last_answers import TIME_TO_READ_S
from kaldi_punct.serve.server import ServeOptions, Server
from kaldi_punct.v1 import punctuation_pb2 as pb


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_answers_and_drains_when_told_to_stop(tmp_path: Path, repo: Path, number: int) -> None:
    checkpoint.save(tiny_checkpoint("none"), tmp_path / "tiny")
    command = [sys.executable, "-m", "kaldi_punct.cli", "serve", "--listen", "localhost:0", "--grace", "30"]
    command += ["--model", str(tmp_path / "tiny")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=repo) as process:
        assert process.stderr is not None
        try:
            port = None
            log = ""
            while port is None:
                line = process.stderr.readline()
                assert line, f"the server ended: {log}"
                log += line
                if found := re.search(r"^serving tiny-none on localhost:(\d+)$", line):
                    port = found[1]
            with Client(f"localhost:{port}") as client:
                assert len(client.punctuate_text("secretword two").words) == 2
                # Some seconds of work are under way when the signal comes; they are finished.
                running = client.stub().Punctuate.future(pb.PunctuateRequest(text="a b c d " * 5000), timeout=120)
                assert len(client.punctuate_text("one").words) == 1
                process.send_signal(number)
                assert len(running.result().words) == 20000
            log += process.stderr.read()
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert log.endswith("stopping: new requests are refused, running ones have 30 s\nstopped\n")
    assert "secretword" not in log


class Broken(Punctuator):
    """A model that fails on one word, and quotes it."""

    def plan(self, words: Sequence[object], **context: object) -> object:
        if any(w.word == "secretword" for w in words):
            raise KeyError("secretword")
        return super().plan(words, **context)


def test_a_fault_of_ours_is_internal_and_logged_without_the_words(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.DEBUG),
        running_server({"broken": Broken(tiny_checkpoint("none"))}) as address,
        Client(address) as client,
    ):
        with pytest.raises(grpc.RpcError) as caught:
            client.stub().Punctuate(pb.PunctuateRequest(text="a secretword"), timeout=60)
        assert caught.value.code() == grpc.StatusCode.INTERNAL
        assert caught.value.details() == "the server failed; its log says where. This is a bug."
        assert len(client.punctuate_text("still alive").words) == 2
    assert "a request failed: KeyError" in caplog.text
    assert "in plan" in caplog.text
    assert "secretword" not in re.sub(r'raise KeyError\("secretword"\)|w\.word == "secretword"', "", caplog.text)


def test_a_port_that_is_taken_is_refused() -> None:
    punctuator = Punctuator(tiny_checkpoint("none"))
    with running_server({"tiny": punctuator}) as address:
        port = address.rpartition(":")[2]
        with pytest.raises(ConfigError) as caught, running_server({"tiny": punctuator}, listen=f"localhost:{port}"):
            pass
    assert str(caught.value) == f"listen: expected a free HOST:PORT, got 'localhost:{port}'; choose another port"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_batch_pieces": 50}, "max_batch_pieces: expected at least 192, a window of model 'tiny', got 50"),
        ({"max_batch_pieces": 0}, "max_batch_pieces: expected at least 1, got 0"),
        ({"max_requests": 0}, "max_requests: expected at least 1, got 0"),
        ({"grace_s": -1.0}, "grace_s: expected seconds, 0 or more, got -1.0"),
        ({"metrics_listen": "nowhere"}, "metrics-listen: expected HOST:PORT, got 'nowhere'; e.g. localhost:9090"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], text: str) -> None:
    with (
        pytest.raises(ConfigError) as caught,
        running_server({"tiny": Punctuator(tiny_checkpoint("none"))}, **options),
    ):
        pass
    assert str(caught.value) == text


def test_a_port_for_metrics_that_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        taken.listen()
        address = f"localhost:{taken.getsockname()[1]}"
        with (
            pytest.raises(ConfigError) as caught,
            running_server({"tiny": Punctuator(tiny_checkpoint("none"))}, metrics_listen=address),
        ):
            pass
    assert str(caught.value) == (
        f"metrics-listen: expected a free address, got '{address}' (Address already in use); choose another"
    )


def test_a_server_needs_a_model() -> None:
    with pytest.raises(ConfigError) as caught, running_server({}):
        pass
    assert str(caught.value) == "model: expected at least one model, got none; name one with --model"


def test_a_message_above_the_limit_is_refused() -> None:
    with (
        running_server({"tiny": Punctuator(tiny_checkpoint("none"))}, max_message_bytes=1000) as address,
        Client(address) as client,
    ):
        assert client.info().max_message_bytes == 1000
        with pytest.raises(KaldiPunctError, match="Received message larger than max"):
            client.punctuate_text("word " * 1000)


def test_running_requests_are_cut_off_after_the_grace() -> None:
    gate = threading.Event()

    class Slow(Punctuator):
        def infer(self, examples: Sequence[object]) -> list[object]:
            if any(e.n_words == 1 for e in examples):
                gate.wait(5)
            return super().infer(examples)

    with running_server({"slow": Slow(tiny_checkpoint("none"))}, grace_s=0.2) as address, Client(address) as client:
        running = client.stub().Punctuate.future(pb.PunctuateRequest(text="one"), timeout=300)
        assert len(client.info().models) == 1
    gate.set()
    assert running.exception().code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def test_defaults_are_what_the_help_says() -> None:
    options = ServeOptions()
    assert (options.listen, options.max_batch_pieces, options.max_requests) == ("localhost:50051", 4096, 4096)
    assert (options.max_message_bytes, options.n_threads, options.grace_s) == (64 << 20, 2, 10.0)


GOOD = "words: words.txt\nacoustic_scale: 0.1\n"
DECODER_ERRORS = [
    (GOOD + "word_boundry: x\n", "unknown key 'word_boundry'; did you mean 'word_boundary'?"),
    (GOOD + "zzz: 1\n", ("unknown key 'zzz'; known: words, transition_model, word_boundary, align_lexicon, "
                        "frame_shift_s, acoustic_scale")),
    (GOOD + "align_lexicon: x\nword_boundary: y\n", "expected word_boundary or align_lexicon, got both; leave one out"),
    (GOOD + "align_lexicon: x\n",
     ("expected transition_model, align_lexicon, frame_shift_s together (word times need all), got no transition_model "
      "and no frame_shift_s; add what is missing, or go without word times")),
    ("acoustic_scale: 0.1\n", "expected the key 'words', got none; add it"),
    ("words: words.txt\n", "expected the key 'acoustic_scale', got none; add it"),
    (GOOD + "word_boundary: x\ntransition_model: y\n",
     ("expected transition_model, word_boundary, frame_shift_s together (word times need all), got no frame_shift_s; "
     "add what is missing, or go without word times")),
    ("words: words.txt\nacoustic_scale: fast\n", "acoustic_scale: expected a number above 0, got 'fast'"),
    ("words: words.txt\nacoustic_scale: 0\n", "acoustic_scale: expected a number above 0, got 0"),
    ("words: 3\nacoustic_scale: 0.1\n", "words: expected a file name, got 3"),
    ("- words\n", "expected 'key: value' lines, got list; give at least words"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "text"), DECODER_ERRORS)
def test_a_bad_decoder_file_is_refused(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "decoder.yaml"
    path.write_text(content, encoding="utf-8")
    (tmp_path / "words.txt").write_text("<eps> 0\na 1\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_decoder_file(path)
    assert str(caught.value) == f"{path}: {text}"


def test_a_decoder_file_that_is_no_yaml_or_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "decoder.yaml"
    with pytest.raises(ConfigError) as caught:
        load_decoder_file(path)
    assert str(caught.value) == f"{path}: expected a readable decoder file, got No such file or directory"
    path.write_text("words: [", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_decoder_file(path)
    assert str(caught.value).startswith(f"{path}: expected YAML, got something else: ")


def test_decoders_are_named_and_their_paths_start_at_the_file(mini: Path, tmp_path: Path) -> None:
    decoders = load_decoders([f"b={mini}/decoder.yaml", f"a={mini}/decoder.yaml"])
    assert list(decoders) == ["b", "a"]
    assert (decoders["b"].frame_shift_s, decoders["b"].acoustic_scale) == (0.03, 0.1)
    assert decoders["b"].aligner is not None
    (tmp_path / "plain.yaml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "words.txt").write_text("<eps> 0\na 1\n", encoding="utf-8")
    plain = load_decoder_file(tmp_path / "plain.yaml")
    assert (plain.words[1], plain.aligner, plain.frame_shift_s) == ("a", None, None)
    for bad, text in (
        ("decoder.yaml", "--decoder: expected NAME=FILE.yaml, got 'decoder.yaml'; e.g. phone=phone.yaml"),
        ("b", "--decoder: expected NAME=FILE.yaml, got 'b'; e.g. phone=phone.yaml"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_decoders([bad])
        assert str(caught.value) == text
    with pytest.raises(ConfigError) as caught:
        load_decoders([f"b={mini}/decoder.yaml"] * 2)
    assert str(caught.value) == "--decoder: expected each name once, got 'b' twice; rename one"


def test_the_last_answers_are_read_before_their_connections_close() -> None:
    running, release = threading.Event(), threading.Event()

    class Held(Punctuator):
        def infer(self, examples: Sequence[object]) -> list[object]:
            if any(e.n_words == 2 for e in examples):
                running.set()
                release.wait(60)
            return super().infer(examples)

    async def main() -> float:
        server = Server({"held": Held(tiny_checkpoint("none"))}, {}, ServeOptions(listen="localhost:0", grace_s=60.0))
        await server.start()
        async with grpc.aio.insecure_channel(f"localhost:{server.port}") as channel:
            call = channel.unary_stream(  # a caller that sees the answer and the end of its call apart
                "/kaldi_punct.v1.Punctuation/Punctuate",
                request_serializer=pb.PunctuateRequest.SerializeToString,
                response_deserializer=pb.PunctuateResponse.FromString,
            )(pb.PunctuateRequest(text="one two"))
            assert await asyncio.to_thread(running.wait, 60)
            stopped = asyncio.create_task(server.stop())
            await asyncio.sleep(2 * TIME_TO_READ_S)
            release.set()
            assert len((await call.read()).words) == 2
            answered_s = time.monotonic()
            assert await call.read() is grpc.aio.EOF
            ended_s = time.monotonic()
            assert await call.code() == grpc.StatusCode.OK
            await stopped
        return ended_s - answered_s

    assert asyncio.run(main()) > TIME_TO_READ_S / 2
