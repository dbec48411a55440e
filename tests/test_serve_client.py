"""The client: what it sends, what it makes of errors, and whole conversations in order with their context."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import soundfile
from serving import running_server, some_words, tiny_checkpoint

from kaldi_punct.audio import read_audio
from kaldi_punct.errors import FormatError, KaldiPunctError, ServeError
from kaldi_punct.punctuator import Punctuator
from kaldi_punct.serve.client import LEFT_CONTEXT_WORDS, Client, audio_to_proto, punctuate_all
from kaldi_punct.serve.messages import audio_from_proto, hypotheses_to_proto, punctuated_from_proto, punctuated_to_proto
from kaldi_punct.types import Audio, Hypothesis, Punctuated, Utterance, Word
from kaldi_punct.v1 import punctuation_pb2 as pb


@pytest.fixture(scope="module")
def punctuator() -> Punctuator:
    return Punctuator(tiny_checkpoint("melspec"))


@pytest.fixture(scope="module")
def client(punctuator: Punctuator) -> Iterator[Client]:
    with running_server({"tiny": punctuator}) as address, Client(address) as client:
        yield client


class Spy:
    """In place of a client: notes what it is asked, answers out of order, and knows how many calls overlap."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.asked: dict[str, tuple[str, ...]] = {}
        self.delay_s = delay_s
        self.n_now = self.n_most = 0
        self._lock = threading.Lock()

    def punctuate(
        self, words: Sequence[Word], *, audio: Audio | None, left_context: Sequence[Word], utt_id: str
    ) -> Punctuated:
        with self._lock:
            self.n_now += 1
            self.n_most = max(self.n_most, self.n_now)
            self.asked[utt_id] = tuple(w.word for w in left_context)
        time.sleep(self.delay_s * (len(utt_id) % 3))
        with self._lock:
            self.n_now -= 1
        if utt_id == "bad":
            raise ServeError("transcript: expected better", "transcript")
        return Punctuated(utt_id, (), (), used_audio=audio is not None)


def utterances(*texts: str, prefix: str = "u") -> list[Utterance]:
    return [Utterance(f"{prefix}{i}", tuple(Word(t) for t in text.split(" "))) for i, text in enumerate(texts)]


def run(spy: Spy, conversations: Any, **options: Any) -> list[tuple[str, Punctuated | KaldiPunctError]]:
    return list(punctuate_all(spy, conversations, **options))  # type: ignore[arg-type]


def test_each_request_takes_the_words_before_it_in_its_conversation_along() -> None:
    spy = Spy()
    run(spy, [utterances("a b", "c", "d e f", prefix="x"), utterances("g", "h", prefix="y")], left_context_words=3)
    assert spy.asked == {"x0": (), "x1": ("a", "b"), "x2": ("a", "b", "c"), "y0": (), "y1": ("g",)}
    run(spy, [utterances("a b", "c", "d")], left_context_words=2)
    assert spy.asked["u2"] == ("b", "c")
    run(spy, [utterances("a b", "c", "d")], left_context_words=0)
    assert spy.asked["u2"] == ()
    run(spy, [utterances(*["w"] * 100)])
    assert len(spy.asked["u99"]) == LEFT_CONTEXT_WORDS


def test_answers_keep_the_order_and_calls_overlap_within_the_bound() -> None:
    spy = Spy(delay_s=0.02)
    conversations = [[Utterance("u" * (1 + i % 7) + str(i), ())] for i in range(60)]
    answers = run(spy, conversations, in_flight=4)
    assert [utt_id for utt_id, _ in answers] == [c[0].utt_id for c in conversations]
    assert [a.utt_id for _, a in answers if isinstance(a, Punctuated)] == [utt_id for utt_id, _ in answers]
    assert 2 <= spy.n_most <= 4


def test_an_utterance_that_fails_is_an_error_in_its_place() -> None:
    def audio(utterance: Utterance) -> Audio | None:
        if utterance.utt_id == "silent":
            raise FormatError("wav.scp: expected sound, got none")
        if utterance.utt_id == "lost":
            raise FileNotFoundError(2, "No such file or directory", "a.wav")
        return Audio(np.zeros(8, np.float32), 8000)

    names = ["u1", "bad", "silent", "lost", "u2"]
    answers = dict(run(Spy(), [[Utterance(n, ()) for n in names]], audio=audio))
    assert list(answers) == names
    assert {n: str(a) for n, a in answers.items() if isinstance(a, KaldiPunctError)} == {
        "bad": "transcript: expected better",
        "silent": "wav.scp: expected sound, got none",
        "lost": "lost: expected its audio, got: [Errno 2] No such file or directory: 'a.wav'",
    }
    assert isinstance(answers["u2"], Punctuated)
    assert answers["u2"].used_audio


def test_conversations_are_read_lazily() -> None:
    n_read = 0

    def endless() -> Iterator[list[Utterance]]:
        nonlocal n_read
        while True:
            n_read += 1
            yield [Utterance(f"u{n_read}", ())]

    answers = punctuate_all(Spy(), endless(), in_flight=2)  # type: ignore[arg-type]
    assert [next(answers)[0] for _ in range(3)] == ["u1", "u2", "u3"]
    assert n_read <= 3 + 2 * 2 + 1
    answers.close()


def test_a_conversation_through_the_server_is_the_offline_one(client: Client, punctuator: Punctuator) -> None:
    turns = [Utterance(f"u{i}", tuple(some_words(9, i, times=False))) for i in range(4)]
    answers = dict(punctuate_all(client, [turns]))
    words: tuple[Word, ...] = ()
    for turn in turns:
        answer = answers[turn.utt_id]
        assert isinstance(answer, Punctuated)
        assert answer.text == punctuator(turn.words, left_context=words).text
        words += turn.words


def test_own_words_come_back_to_the_bit(client: Client) -> None:
    words = [Word("a", 0.1, 0.2, 0.9, "s"), Word("b")]
    assert [w.word for w in client.punctuate(words).words] == words


def test_errors_name_the_field(client: Client) -> None:
    with pytest.raises(ServeError) as caught:
        client.punctuate(["a b"])
    assert caught.value.field == "transcript.words[0].word"
    assert str(caught.value) == (
        "transcript.words[0].word: expected one token without blanks, got 'a b'; send one Word for each token"
    )


def test_no_server_is_said_so() -> None:
    with Client("localhost:1") as client, pytest.raises(ServeError) as caught:
        client.info()
    assert str(caught.value).startswith("localhost:1: expected a running server, got none (")
    assert str(caught.value).endswith("; start one with kaldi-punct serve")


def test_a_call_that_takes_too_long_is_said_so(client: Client) -> None:
    with Client(client.target, timeout_s=1e-6) as hasty, pytest.raises(ServeError) as caught:
        hasty.punctuate(["a"])
    assert str(caught.value).startswith(f"{client.target}: DEADLINE_EXCEEDED: ")


@pytest.mark.parametrize("exact", [True, False])
def test_sound_arrives_without_loss(exact: bool) -> None:
    samples = np.random.default_rng(1).integers(-32768, 32768, 999).astype(np.float32) / 32768
    samples = samples if exact else samples * np.float32(0.7)
    message = audio_to_proto(Audio(samples, 8000, 1.5))
    assert (message.encoding == pb.Audio.ENCODING_LINEAR16) == exact
    arrived = audio_from_proto(message)
    assert (arrived.samples == samples).all()
    assert (arrived.sample_rate_hz, arrived.start_s) == (8000, 1.5)


def test_sound_of_every_kind_is_the_same_sound(client: Client) -> None:
    pcm = np.random.default_rng(1).integers(-9000, 9000, 16000).astype(np.int16)
    files = []
    for kind in ("WAV", "FLAC"):
        file = io.BytesIO()
        soundfile.write(file, pcm, 8000, format=kind)
        files.append(file.getvalue())
    words = some_words(4, 1)
    answers = [
        client.punctuate(words, audio=pcm, sample_rate_hz=8000),
        client.punctuate(words, audio=pcm.tobytes(), sample_rate_hz=8000),
        client.punctuate(words, audio=read_audio(files[0])),
        *(client.punctuate(words, audio=data) for data in files),
    ]
    assert all(a.used_audio for a in answers)
    unheard = client.punctuate(words)
    for answer in answers:
        assert [w.mark_prob for w in answer.words] == pytest.approx([w.mark_prob for w in answers[0].words], abs=1e-6)
        assert [w.mark_prob for w in answer.words] != pytest.approx([w.mark_prob for w in unheard.words], abs=1e-4)


def test_samples_without_a_rate_are_refused() -> None:
    with pytest.raises(ServeError) as caught:
        audio_to_proto(np.zeros(4, np.int16))
    assert str(caught.value) == (
        "audio: expected int16 samples (n,) with sample_rate_hz, got int16 of shape (4,) with sample_rate_hz=0; "
        "or give a types.Audio"
    )


def test_hypotheses_are_weighed_as_offline() -> None:
    word = (Word("a"),)
    both = hypotheses_to_proto([Hypothesis(word, 1.0, 2.0, 0.5), Hypothesis(word, 1.0, 2.0, 0.25)])
    assert [(h.posterior, h.HasField("graph_cost")) for h in both] == [(0.5, False), (0.25, False)]
    costs = hypotheses_to_proto([Hypothesis(word, 1.0, 2.0), Hypothesis(word, 3.0, 4.0, 0.5)])
    assert [(h.graph_cost, h.acoustic_cost, h.HasField("posterior")) for h in costs] == [(1, 2, False), (3, 4, False)]
    neither = hypotheses_to_proto([Hypothesis(word, 1.0), Hypothesis(word, None, None, 0.5)])
    assert not any(h.HasField("graph_cost") or h.HasField("posterior") for h in neither)


def test_an_answer_survives_the_wire(punctuator: Punctuator) -> None:
    out = punctuator([*some_words(5, 1), Word("<unk>")], utt_id="u")
    back = punctuated_from_proto(punctuated_to_proto(out, label_probabilities=True))
    assert back.sentences == out.sentences
    assert [(w.word, w.written, w.mark, w.case) for w in back.words] == [
        (w.word, w.written, w.mark, w.case) for w in out.words
    ]
    assert back.words[0].label_probs == pytest.approx(out.words[0].label_probs, abs=1e-7)
