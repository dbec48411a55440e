"""The service as a whole: its answers are the offline ones, whoever else calls; health, reflection, limits."""

from __future__ import annotations

import re
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from serving import running_server, some_words, tiny_checkpoint

from kaldi_punct.kaldi.tables import read_lattices
from kaldi_punct.punctuator import Punctuator
from kaldi_punct.serve.batcher import OverloadedError
from kaldi_punct.serve.client import Client, Switches
from kaldi_punct.serve.decoders import load_decoder_file
from kaldi_punct.serve.server import SERVICE_NAME
from kaldi_punct.types import Audio, Hypothesis, Punctuated, Word
from kaldi_punct.v1 import punctuation_pb2 as pb


@pytest.fixture(scope="module")
def punctuator() -> Punctuator:
    return Punctuator(tiny_checkpoint("melspec"))


@pytest.fixture(scope="module")
def client(punctuator: Punctuator, mini: Path) -> Iterator[Client]:
    models = {"tiny": punctuator, "other": Punctuator(tiny_checkpoint("none", seed=2))}
    decoders = {"mini": load_decoder_file(mini / "decoder.yaml")}
    with running_server(models, decoders) as address, Client(address) as client:
        yield client


def some_sound(duration_s: float, seed: int = 1) -> Audio:
    samples = np.random.default_rng(seed).integers(-8000, 8000, int(duration_s * 8000)).astype(np.float32) / 32768
    return Audio(samples, 8000)


def assert_same(online: Punctuated, offline: Punctuated) -> None:
    """Labels equal, probabilities within 1e-4; everything else the same too."""
    assert online.text == offline.text
    assert [(w.word, w.mark, w.case) for w in online.words] == [(w.word, w.mark, w.case) for w in offline.words]
    assert [w.mark_prob for w in online.words] == pytest.approx([w.mark_prob for w in offline.words], abs=1e-4)
    assert [w.case_prob for w in online.words] == pytest.approx([w.case_prob for w in offline.words], abs=1e-4)
    assert online.sentences == offline.sentences
    assert (online.utt_id, online.used_times, online.used_audio, online.n_hypotheses) == (
        offline.utt_id, offline.used_times, offline.used_audio, offline.n_hypotheses)  # fmt: skip


@pytest.mark.parametrize("n_words", [1, 7, 500])
@pytest.mark.parametrize("audio", [None, some_sound(20.0)], ids=["silent", "heard"])
def test_alone_the_answer_is_the_offline_one(
    client: Client, punctuator: Punctuator, n_words: int, audio: Audio | None
) -> None:
    words, context = some_words(n_words, n_words), some_words(5, 99, times=False)
    online = client.punctuate(words, audio=audio, left_context=context, utt_id="utt-1")
    offline = punctuator(words, audio=audio, left_context=context, utt_id="utt-1")
    assert_same(online, offline)
    assert offline.used_audio == (audio is not None)
    assert len({w.mark for w in offline.words}) > 1 or n_words < 500


def test_among_32_callers_of_mixed_lengths_the_answers_are_the_offline_ones(
    client: Client, punctuator: Punctuator
) -> None:
    calls = [
        (some_words((i * 37) % 150 + 1, i, times=i % 3 > 0), some_sound(8.0, i) if i % 2 else None) for i in range(96)
    ]
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda c: client.punctuate(c[0], audio=c[1]), calls))
    for (words, audio), online in zip(calls, answers, strict=True):
        assert_same(online, punctuator(words, audio=audio))


@pytest.mark.parametrize("n", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_concurrent_requests_are_neither_lost_nor_mixed_up(client: Client, n: int) -> None:
    # All are sent before the first answer is awaited.
    futures = [
        client.stub().Punctuate.future(
            pb.PunctuateRequest(utt_id=f"utt-{i}", text=" ".join(f"w{i}x{k}" for k in range(1 + i % 7))), timeout=300
        )
        for i in range(n)
    ]
    for i, future in enumerate(futures):
        answer = future.result()
        assert answer.utt_id == f"utt-{i}"
        assert [w.word.word for w in answer.words] == [f"w{i}x{k}" for k in range(1 + i % 7)]


def test_text_is_split_at_ascii_blanks_only(client: Client) -> None:
    answer = client.punctuate_text(" a\tb\u00a0c  <unk>\n")
    assert [w.word.word for w in answer.words] == ["a", "b\u00a0c", "<unk>"]
    assert (answer.words[2].written, answer.words[2].mark, answer.words[2].case) == ("<unk>", "", None)


def test_no_words_give_no_words(client: Client) -> None:
    for answer in (client.punctuate([], utt_id="u"), client.punctuate_text(" ", utt_id="u")):
        assert (answer.utt_id, answer.words, answer.sentences, answer.text) == ("u", (), (), "")
    empty = client.punctuate_nbest([Hypothesis(()), Hypothesis((Word("uh"),))])
    assert (empty.words, empty.n_hypotheses) == ((), 2)


def test_a_word_comes_back_as_it_came_in(client: Client) -> None:
    word = pb.Word(word="McDonald", start_s=0.1, duration_s=0.0, confidence=0.1, spk_id="a b")
    bare = pb.Word(word="[noise]")
    answer = client.stub().Punctuate(pb.PunctuateRequest(transcript=pb.Transcript(words=[word, bare])), timeout=60)
    assert [w.word for w in answer.words] == [word, bare]


def test_the_answer_depends_on_the_other_hypotheses(client: Client, punctuator: Punctuator) -> None:
    first = Hypothesis(tuple(some_words(12, 1)), posterior=0.4)
    others = [Hypothesis(tuple(some_words(12, seed)), posterior=0.3) for seed in (2, 3)]
    alone = client.punctuate_nbest([first])
    fused = client.punctuate_nbest([first, *others])
    assert [w.word for w in fused.words] == [w.word for w in alone.words]
    assert fused.n_hypotheses == 3
    change = max(abs(a.mark_prob - b.mark_prob) for a, b in zip(alone.words, fused.words, strict=True))
    assert change > 0.01
    assert_same(alone, punctuator.fuse([first]))
    assert [w.written for w in fused.words] == [w.written for w in punctuator.fuse([first, *others]).words]


def test_nbest_costs_are_scaled_by_the_request_or_else_by_the_decoder(client: Client, punctuator: Punctuator) -> None:
    hyps = [Hypothesis(tuple(some_words(12, seed)), 1.0, float(seed * 10)) for seed in (1, 2)]

    def probs(answer: Punctuated) -> list[float]:
        return [w.mark_prob for w in answer.words]

    by_decoder, by_request = client.punctuate_nbest(hyps), client.punctuate_nbest(hyps, acoustic_scale=0.01)
    assert probs(by_decoder) == pytest.approx(probs(punctuator.fuse(hyps, acoustic_scale=0.1)), abs=1e-4)
    assert probs(by_request) == pytest.approx(probs(punctuator.fuse(hyps, acoustic_scale=0.01)), abs=1e-4)
    assert probs(by_decoder) != pytest.approx(probs(by_request), abs=1e-3)


def test_a_lattice_is_answered_on_its_best_path(client: Client, mini: Path) -> None:
    from kaldi_punct.kaldi.streams import open_rxfilename

    with open_rxfilename(f"gunzip -c {mini}/decode/lat.1.gz |") as stream:
        archive = stream.read()
    key, _, rest = archive.partition(b" ")
    utt_id, lattice = next(iter(read_lattices(f"ark:gunzip -c {mini}/decode/lat.1.gz |")))
    assert utt_id.encode() == key
    best = load_decoder_file(mini / "decoder.yaml").best_path(lattice, start_s=2.5)
    # The value's own end is known from its content; what follows it in the archive does not belong to the request.
    answer = client.punctuate_lattice(_first_value(rest), start_s=2.5, decoder="mini")
    assert len(best.words) > 3
    assert [(w.word.word, w.word.start_s, w.word.duration_s) for w in answer.words] == [
        (w.word, w.start_s, w.duration_s) for w in best.words
    ]
    assert answer.used_times
    assert min(w.word.start_s or 0.0 for w in answer.words) >= 2.5


def _first_value(rest: bytes) -> bytes:
    following = re.search(rb"[A-Za-z0-9_-]+ \xd6\xfd\xb2\x7e", rest[4:])
    assert following is not None
    return rest[: following.start() + 4]


def test_switches_and_probabilities_are_those_of_the_request(client: Client) -> None:
    words = ["hello", "you", "there"] * 5
    plain = client.punctuate(words)
    assert any(w.mark for w in plain.words)
    assert any(w.written != w.word.word for w in plain.words)
    assert all(w.label_probs == () for w in plain.words)
    unmarked = client.punctuate(words, switches=Switches(punctuation=False))
    assert {w.mark for w in unmarked.words} == {""}
    uncased = client.punctuate(words, switches=Switches(capitalization=False))
    assert {w.case for w in uncased.words} == {None}
    assert [w.written.rstrip(",.?") for w in uncased.words] == words
    full = client.punctuate(words, switches=Switches(label_probabilities=True))
    assert all(len(w.label_probs) == 4 and sum(w.label_probs) == pytest.approx(1, abs=1e-5) for w in full.words)
    other = client.punctuate(words, switches=Switches(model="other"))
    assert [w.mark_prob for w in other.words] != pytest.approx([w.mark_prob for w in plain.words], abs=1e-3)


def test_info_names_models_and_decoders(client: Client) -> None:
    info = client.info()
    assert [(m.name, m.version, m.language, m.hears, m.uses_times) for m in info.models] == [
        ("tiny", "7", "en", True, True),
        ("other", "7", "en", False, True),
    ]
    assert list(info.models[0].marks) == ["", ",", ".", "?"]
    assert list(info.decoders) == ["mini"]
    assert info.max_message_bytes == 64 << 20
    answer = client.stub().Punctuate(pb.PunctuateRequest(text="so what"), timeout=60)
    assert (answer.info.model, answer.info.model_version, answer.info.n_hypotheses) == ("tiny-melspec", "7", 1)
    assert answer.info.inference_ms > 0
    assert answer.info.queue_ms >= 0


def test_health_and_reflection(client: Client) -> None:
    with grpc.insecure_channel(client.target) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", SERVICE_NAME):
            answer = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=60)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        names = [s.name for a in reflection.ServerReflectionInfo(asked) for s in a.list_services_response.service]
        assert set(names) >= {SERVICE_NAME, "grpc.health.v1.Health"}


class Gated(Punctuator):
    """A model that computes only while its gate is open."""

    def __init__(self) -> None:
        super().__init__(tiny_checkpoint("none"))
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.n_batches = 0

    def infer(self, examples: Sequence[object]) -> list[object]:
        self.entered.set()
        assert self.gate.wait(30)
        self.n_batches += 1
        return super().infer(examples)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.perf_counter() + 60
    while not condition():
        assert time.perf_counter() < deadline, "waited 60 s in vain"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def test_health_is_not_serving_before_the_warm_up_is_over() -> None:
    model, address = Gated(), f"localhost:{free_port()}"
    opener = threading.Timer(3.0, model.gate.set)
    opener.start()
    seen: list[int] = []

    def watch() -> None:
        options = [("grpc.max_reconnect_backoff_ms", 100), ("grpc.initial_reconnect_backoff_ms", 100)]
        with grpc.insecure_channel(address, options=options) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            for status in stub.Watch(health_pb2.HealthCheckRequest(), timeout=60, wait_for_ready=True):
                seen.append(status.status)
                if status.status == health_pb2.HealthCheckResponse.SERVING:
                    return

    watcher = threading.Thread(target=watch)
    watcher.start()
    with running_server({"gated": model}, listen=address):
        watcher.join(60)
    opener.join()
    response = health_pb2.HealthCheckResponse
    assert seen == [response.NOT_SERVING, response.SERVING]


def test_a_full_server_refuses_at_once_and_a_cancelled_call_makes_room() -> None:
    model, port = Gated(), free_port()
    model.gate.set()

    def metric(name: str) -> float:
        with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), 0.0)

    with (
        running_server({"gated": model}, max_requests=2, metrics_listen=f"localhost:{port}") as address,
        Client(address) as client,
    ):
        client.punctuate(["warm"])
        model.gate.clear()
        model.entered.clear()
        n_batches = model.n_batches
        held = [client.stub().Punctuate.future(pb.PunctuateRequest(text="so what"), timeout=300)]
        assert model.entered.wait(60)
        held.append(client.stub().Punctuate.future(pb.PunctuateRequest(text="never mind"), timeout=300))
        wait_for(lambda: metric("kaldi_punct_queue_requests") == 1)
        began_s = time.perf_counter()
        with pytest.raises(OverloadedError) as caught:
            client.punctuate(["hello"])
        assert time.perf_counter() - began_s < 5
        assert str(caught.value) == "expected at most 2 requests at once, got one more; try again later"
        held[1].cancel()
        wait_for(lambda: metric("kaldi_punct_in_flight") == 1)
        wait_for(lambda: metric("kaldi_punct_dropped_requests") == 1)
        model.gate.set()
        assert client.punctuate(["hello"]).words[0].word == Word("hello")
        assert len(held[0].result().words) == 2
        assert model.n_batches == n_batches + 2  # the cancelled call cost nothing
        assert metric('kaldi_punct_requests_total{code="OK"}') == 3
        assert metric('kaldi_punct_requests_total{code="RESOURCE_EXHAUSTED"}') == 1
        assert metric('kaldi_punct_requests_total{code="CANCELLED"}') == 1
        assert metric("kaldi_punct_words_total") == 4
