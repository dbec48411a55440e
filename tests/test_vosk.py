"""Vosk's JSON: what it says, and what it cannot say."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest

from kaldi_punct.errors import FormatError
from kaldi_punct.formats.result import Result
from kaldi_punct.formats.vosk import read_vosk
from kaldi_punct.types import Hypothesis, Utterance, Word

DATA = Path(__file__).parent / "data" / "decoders"


def read(tmp_path: Path, *messages: object) -> tuple[list[Result | FormatError], Counter[str]]:
    path = tmp_path / "call.json"
    path.write_text("".join(json.dumps(m) + "\n" for m in messages), encoding="utf-8")
    counts: Counter[str] = Counter()
    return list(read_vosk(path, "call", counts)), counts


def only(tmp_path: Path, message: object) -> Result:
    (result,) = read(tmp_path, message)[0]
    assert isinstance(result, Result), result
    return result


def error(tmp_path: Path, message: object) -> str:
    """The text of an error after its place; the next message is read."""
    bad, good = read(tmp_path, message, {"text": "next one"})[0]
    assert isinstance(bad, FormatError)
    assert isinstance(good, Result)
    assert good.utterance.utt_id == "call-0001"
    place = f"{tmp_path / 'call.json'}:1: "
    assert str(bad).startswith(place)
    return str(bad).removeprefix(place)


def timed(word: str, start: float, end: float, **more: object) -> dict[str, object]:
    return {"word": word, "start": start, "end": end, **more}


class TestRealMessages:
    """What Vosk 0.3.45 printed of two LJ Speech clips, 2 s of quiet between them (a tiny Kaldi chain model)."""

    def test_words(self) -> None:
        counts: Counter[str] = Counter()
        found = list(read_vosk(DATA / "vosk-words.json", "lj", counts))
        results = [r for r in found if isinstance(r, Result)]
        assert len(results) == len(found)
        assert [r.is_final for r in results] == [False, False, True, False, True, True]
        assert [r.utterance.utt_id[-1] for r in results] == list("111223")
        finals = [r.utterance for r in results if r.is_final]
        assert [" ".join(w.word for w in u.words) for u in finals] == [
            "in the comparatively modern",
            "as never been surpassed",
            "",
        ]
        assert {u.rec_id for u in finals} == {"lj"}
        never = finals[1].words[1]
        assert (never.start_s, never.confidence) == (4.145506, 0.645927)
        assert never.end_s == pytest.approx(4.47)
        assert results[1].utterance.words[2] == Word("comparatively", 0.42, pytest.approx(0.78), 1.0)
        assert counts == {"finals": 3, "partials": 3}

    def test_alternatives_weigh_what_the_lattice_says(self) -> None:
        finals = [r for r in read_vosk(DATA / "vosk-alternatives.json", "lj") if isinstance(r, Result) and r.is_final]
        hypotheses = finals[1].hypotheses
        assert [h.words[1].word for h in hypotheses] == ["never", "ever", "better"]
        assert hypotheses[0].words == finals[1].utterance.words
        weights = [h.posterior or 0.0 for h in hypotheses]
        assert sum(weights) == pytest.approx(1)
        # The same audio without alternatives: Vosk's own confidence of "never" is 0.646.
        assert weights[0] == pytest.approx(0.645927, abs=0.01)
        assert hypotheses[0].words[1].confidence is None
        assert finals[2].hypotheses == (Hypothesis(()),)


class TestFinals:
    def test_text_alone(self, tmp_path: Path) -> None:
        result = only(tmp_path, {"text": " so  what\u3000now"})
        assert result.utterance == Utterance("call-0001", (Word("so"), Word("what\u3000now")), "call")
        assert result.hypotheses == (Hypothesis(result.utterance.words),)
        assert result.is_final
        assert result.where == f"{tmp_path / 'call.json'}:1"

    def test_words_without_confidence(self, tmp_path: Path) -> None:
        assert only(tmp_path, {"result": [timed("so", 1, 1.5)]}).utterance.words == (Word("so", 1.0, 0.5),)

    def test_confidence_may_pass_1_by_rounding(self, tmp_path: Path) -> None:
        message = {"text": "so", "result": [timed("so", 1, 1, conf=1.000002)]}
        assert only(tmp_path, message).utterance.words == (Word("so", 1.0, 0.0, 1.0),)

    def test_empty(self, tmp_path: Path) -> None:
        for message in ({"text": ""}, {"alternatives": []}, {"alternatives": [{"text": "", "confidence": 1.0}]}):
            result = only(tmp_path, message)
            assert (result.utterance.words, result.hypotheses, result.is_final) == ((), (Hypothesis(()),), True)

    def test_speaker_vectors_are_counted(self, tmp_path: Path) -> None:
        found, counts = read(tmp_path, {"text": "so", "spk": [0.1, -0.2], "spk_frames": 80})
        assert not isinstance(found[0], FormatError)
        assert counts == {"finals": 1, "speaker vectors": 1}

    def test_timed_words_win_over_an_edited_text(self, tmp_path: Path) -> None:
        found, counts = read(tmp_path, {"text": "So.", "result": [timed("so", 1, 2)]})
        assert isinstance(found[0], Result)
        assert found[0].utterance.words == (Word("so", 1.0, 1.0),)
        assert counts["texts that differ from their words"] == 1

    def test_a_clock_that_starts_again_is_another_recording(self, tmp_path: Path) -> None:
        def final(start: float) -> dict[str, object]:
            return {"text": "so", "result": [timed("so", start, start + 1)]}

        found, _ = read(tmp_path, final(0), final(0.95), final(1.8), {"text": "now"}, {"partial": "x"}, final(0.2))
        keys = [(r.utterance.rec_id, r.utterance.utt_id) for r in found if isinstance(r, Result) and r.is_final]
        assert keys == [
            ("call", "call-0001"),
            ("call", "call-0002"),
            ("call-2", "call-2-0001"),
            ("call-2", "call-2-0002"),
            ("call-3", "call-3-0001"),
        ]


class TestAlternatives:
    def test_scores_of_any_size(self, tmp_path: Path) -> None:
        for scores in ((850.5, 849.5), (-1e300, -1e300), (0.0, 1e308), (1.0, -1.0)):
            message = {"alternatives": [{"text": t, "confidence": s} for t, s in zip("ab", scores, strict=True)]}
            weights = [h.posterior for h in only(tmp_path, message).hypotheses]
            difference = max(min(scores[1] - scores[0], 700.0), -700.0)
            assert weights == pytest.approx([1 / (1 + math.exp(difference)), 1 / (1 + math.exp(-difference))])

    def test_order_is_the_decoders(self, tmp_path: Path) -> None:
        message = {"alternatives": [{"text": "a", "confidence": 1}, {"text": "b", "confidence": 2}]}
        assert [h.words[0].word for h in only(tmp_path, message).hypotheses] == ["a", "b"]

    def test_without_scores_nothing_is_known(self, tmp_path: Path) -> None:
        message = {"alternatives": [{"text": "a"}, {"text": "b"}]}
        assert [h.posterior for h in only(tmp_path, message).hypotheses] == [None, None]

    def test_one_alternative_has_no_weight(self, tmp_path: Path) -> None:
        message = {"alternatives": [{"text": "a", "confidence": 850.5}]}
        assert only(tmp_path, message).hypotheses == (Hypothesis((Word("a"),)),)


class TestPartials:
    def test_words_and_text(self, tmp_path: Path) -> None:
        message = {"partial": "so", "partial_result": [timed("so", 1, 2, conf=0.5)]}
        result = only(tmp_path, message)
        assert (result.is_final, result.utterance.words) == (False, (Word("so", 1.0, 1.0, 0.5),))
        assert only(tmp_path, {"partial": "so what"}).utterance.words == (Word("so"), Word("what"))

    def test_what_never_became_final_is_counted(self, tmp_path: Path) -> None:
        _, counts = read(tmp_path, {"partial": "so"}, {"text": "so what"}, {"partial": "so"}, {"partial": "now then"})
        assert counts == {"finals": 1, "partials": 3, "words that never became final": 2}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            {"status": 0, "x": 1},
            ("expected a result of Vosk with 'text', 'alternatives' or 'partial', got 'status', 'x'; "
            "--from names what the input is"),
        ),
        (
            {},
            ("expected a result of Vosk with 'text', 'alternatives' or 'partial', got none of them; "
            "--from names what the input is"),
        ),
        ({"text": 5}, "expected a string 'text', got a number; put it in quotes"),
        (
            {"text": "a\ud800"},
            ("expected a string 'text' of whole characters, got half a surrogate pair: \"a\\ud800\"; "
            "write the character itself"),
        ),
        ({"partial": ["so"]}, "expected a string 'partial', got a list; put it in quotes"),
        ({"text": "so", "result": {}}, "expected a list 'result', got an object; put it in [ ]"),
        ({"text": "so", "result": ["so"]}, "result[0]: expected an object, got a string; put it in { }"),
        (
            {"text": "so", "result": [{"word": "so", "start": 1}]},
            "result[0]: expected 'word', 'start' and 'end', got no 'end'; add it",
        ),
        (
            {"text": "so", "result": [timed("so", 2, 1)]},
            "result[0]: expected 'start' before 'end', got 2 and 1; correct them",
        ),
        (
            {"text": "so", "result": [timed("so", -1, 1)]},
            "result[0]: expected a number 'start' of at least 0, got -1; null says that it is unknown",
        ),
        (
            {"text": "so", "result": [timed("so what", 0, 1)]},
            "result[0]: expected a string 'word' without blanks, got \"so what\"; write one object a word",
        ),
        (
            {"text": "so", "result": [timed("so", 0, 1, conf=850.5)]},
            "result[0]: expected a 'conf' from 0 to 1, got 850.5; leave it out if there is none",
        ),
        ({"alternatives": "so"}, "expected a list 'alternatives', got a string; put it in [ ]"),
        (
            {"alternatives": [{"text": "a", "confidence": 1}, {"text": "b"}]},
            "expected a 'confidence' of each alternative or of none, got 1 of 2; add the others",
        ),
        (
            {"alternatives": [{"text": "a", "confidence": math.nan}, {"text": "b", "confidence": 1}]},
            "alternatives[0]: expected a number 'confidence', got NaN; null says that it is unknown",
        ),
        (
            {"alternatives": [{"text": "a"}, {"text": "b", "result": [timed("b", 1, 2), 3]}]},
            "alternatives[1]: result[1]: expected an object, got a number; put it in { }",
        ),
    ],
)  # fmt: skip
def test_errors(tmp_path: Path, message: object, expected: str) -> None:
    assert error(tmp_path, message) == expected
