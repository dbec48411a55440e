"""kaldi-gstreamer-server's JSON. No server was at hand: the messages follow its source and its README."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from kaldi_punct.errors import FormatError
from kaldi_punct.formats.kaldi_server import read_kaldi_server
from kaldi_punct.formats.result import Result
from kaldi_punct.types import Hypothesis, Word

DATA = Path(__file__).parent / "data" / "decoders"
Message = dict[str, object]


def read(tmp_path: Path, *messages: object) -> tuple[list[Result | FormatError], Counter[str]]:
    path = tmp_path / "call.json"
    path.write_text("".join(json.dumps(m) + "\n" for m in messages), encoding="utf-8")
    counts: Counter[str] = Counter()
    return list(read_kaldi_server(path, "call", counts)), counts


def message(*hypotheses: Message, final: object = True, **more: object) -> Message:
    return {"status": 0, "result": {"hypotheses": list(hypotheses), "final": final}, **more}


def said(transcript: str, **more: object) -> Message:
    return {"transcript": transcript, **more}


def only(tmp_path: Path, m: object) -> Result:
    (result,) = read(tmp_path, m)[0]
    assert isinstance(result, Result), result
    return result


def keys(found: list[Result | FormatError]) -> list[str]:
    return [r.utterance.utt_id for r in found if isinstance(r, Result) and r.is_final]


def test_a_request() -> None:
    """A websocket's messages: partial results without an id, two segments with likelihoods and alignments."""
    counts: Counter[str] = Counter()
    found = list(read_kaldi_server(DATA / "kaldi-server.jsonl", "x", counts))
    results = [r for r in found if isinstance(r, Result)]
    assert len(results) == len(found)
    assert [r.is_final for r in results] == [False, True, False, True]
    first, second = (r.utterance for r in results if r.is_final)
    assert (first.utt_id, first.rec_id, first.start_s, first.end_s) == ("req-7-0001", "req-7", 0.0, 2.1)
    assert first.words == (Word("hello", 0.3, 0.5, 0.98), Word("there", 0.8, 0.6, 0.91))
    # Times of a segment count from its start.
    assert (second.utt_id, second.start_s) == ("req-7-0002", 2.1)
    assert second.words[0] == Word("fine", pytest.approx(2.6), 0.4, 0.8)
    hypotheses = results[1].hypotheses
    assert [" ".join(w.word for w in h.words) for h in hypotheses] == ["hello there", "hello their"]
    assert [h.posterior for h in hypotheses] == pytest.approx([0.7310586, 0.2689414])  # 128.174 and 127.174
    assert counts == {"finals": 2, "partials": 2, "messages without a result": 1}


class TestWords:
    def test_transcript_alone(self, tmp_path: Path) -> None:
        assert only(tmp_path, message(said("so what"))).utterance.words == (Word("so"), Word("what"))

    def test_the_decoders_own_words_before_the_post_processors(self, tmp_path: Path) -> None:
        own = said("So what?", **{"original-transcript": "so what"})
        assert only(tmp_path, message(own)).utterance.words == (Word("so"), Word("what"))
        edited = said("So.", **{"word-alignment": [{"word": "so", "start": 1, "length": 0.5, "confidence": 1.0004}]})
        found, counts = read(tmp_path, message(edited))
        assert isinstance(found[0], Result)
        assert found[0].utterance.words == (Word("so", 1.0, 0.5, 1.0),)
        assert counts["texts that differ from their words"] == 1

    def test_empty(self, tmp_path: Path) -> None:
        for m in (message(), message(said("")), {"status": 0, "result": {"final": True}}):
            result = only(tmp_path, m)
            assert (result.utterance.words, result.hypotheses, result.is_final) == ((), (Hypothesis(()),), True)

    def test_an_answer_over_http(self, tmp_path: Path) -> None:
        answer = {"status": 0, "hypotheses": [{"utterance": "so what."}], "id": "r1"}
        result = only(tmp_path, answer)
        assert (result.utterance.utt_id, result.utterance.words) == ("r1-0001", (Word("so"), Word("what.")))


class TestWeights:
    def weights(self, tmp_path: Path, *hypotheses: Message) -> list[float | None]:
        return [h.posterior for h in only(tmp_path, message(*hypotheses)).hypotheses]

    def test_likelihoods_before_confidences(self, tmp_path: Path) -> None:
        a, b = said("a", likelihood=-3.0, confidence=1e10), said("b", likelihood=-3.0, confidence=0.1)
        assert self.weights(tmp_path, a, b) == [0.5, 0.5]

    def test_confidences_where_there_is_nothing_else(self, tmp_path: Path) -> None:
        assert self.weights(tmp_path, said("a", confidence=0.6), said("b", confidence=0.2)) == pytest.approx(
            [0.75, 0.25]
        )
        assert self.weights(tmp_path, said("a", confidence=0.0), said("b", confidence=0)) == [None, None]
        assert self.weights(tmp_path, said("a", confidence=0.6), said("b")) == [None, None]

    def test_a_single_one_has_none(self, tmp_path: Path) -> None:
        # What the server's sample post-processor leaves.
        assert self.weights(tmp_path, said("a", likelihood=5.0, confidence=1e10)) == [None]


class TestRecordings:
    def test_segments_that_start_again(self, tmp_path: Path) -> None:
        found, _ = read(tmp_path, *(message(said("a"), segment=n) for n in (0, 1, 0, 0)))
        assert keys(found) == ["call-0001", "call-0002", "call-2-0001", "call-3-0001"]

    def test_partials_of_a_segment_do_not(self, tmp_path: Path) -> None:
        steps = [(0, False), (0, False), (0, True), (1, False), (1, True), (0, False), (0, True)]
        found, counts = read(tmp_path, *(message(said("a"), segment=n, final=f) for n, f in steps))
        assert keys(found) == ["call-0001", "call-0002", "call-2-0001"]
        assert counts["words that never became final"] == 0

    def test_requests(self, tmp_path: Path) -> None:
        found, _ = read(
            tmp_path,
            message(said("a"), segment=0, id="r1"),
            message(said("b"), segment=1, id="r1"),
            message(said("c"), segment=0, final=False),
            message(said("c"), segment=0, id="r2"),
            message(said("d"), segment=3, id="r3"),
        )
        assert keys(found) == ["r1-0001", "r1-0002", "r2-0001", "r3-0001"]

    def test_answers_over_http(self, tmp_path: Path) -> None:
        found, _ = read(tmp_path, *({"status": 0, "hypotheses": [{"utterance": "a"}]} for _ in range(2)))
        assert keys(found) == ["call-0001", "call-2-0001"]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (
            {"text": "so"},
            "expected a message of kaldi-gstreamer-server with 'status', got 'text'; --from names what the input is",
        ),
        (
            {"status": 9},
            "expected status 0, got 9 (no decoder is free); the server has no result, send the audio again",
        ),
        (
            {"status": 5, "message": "bad caps"},
            "expected status 0, got 5 (not allowed: bad caps); the server has no result, send the audio again",
        ),
        (
            {"status": 77},
            "expected status 0, got 77 (unknown); the server has no result, send the audio again",
        ),
        ({"status": "0"}, 'expected a number \'status\', got "0"; null says that it is unknown'),
        ({"status": 0, "result": []}, "expected an object 'result', got a list; put it in { }"),
        (
            message(said("so"), final=None),
            "expected 'final' to be true or false, got null; say whether the result will still change",
        ),
        (
            message(said("so"), id="a b"),
            "expected a string 'id' without blanks, got \"a b\"; put e.g. _ in their place",
        ),
        (message({}), "result: hypotheses[0]: expected a string 'transcript', got none; add it"),
        (
            message(said("a", likelihood=1), said("b")),
            "result: expected a 'likelihood' of each hypothesis or of none, got 1 of 2; add the others",
        ),
        (
            message(said("a", confidence=2), said("b", confidence=0)),
            "result: hypotheses[0]: expected a 'confidence' from 0 to 1, got 2; leave it out if there is none",
        ),
        (
            message(said("a", **{"word-alignment": [{"word": "a", "start": 1}]})),
            "result: hypotheses[0]: word-alignment[0]: expected 'word', 'start' and 'length', got no 'length'; add it",
        ),
        (
            {"status": 0, "hypotheses": [{}]},
            "hypotheses[0]: expected a string 'utterance', got none; add it",
        ),
    ],
)  # fmt: skip
def test_errors(tmp_path: Path, bad: object, expected: str) -> None:
    found, _ = read(tmp_path, bad, message(said("next one")))
    assert str(found[0]) == f"{tmp_path / 'call.json'}:1: {expected}"
    assert isinstance(found[1], Result)
    assert found[1].utterance.utt_id == "call-0001"
