"""Punctuator: every word out once, context, windows, N-best fusion, switches."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import tiny_checkpoint

from kaldi_punct.errors import ConfigError
from kaldi_punct.nbest import fuse, posteriors
from kaldi_punct.plans import Probs
from kaldi_punct.punctuator import (
    Punctuator,
    attach,
    find_sentences,
    infer_by_budget,
    load,
    punctuate_conversation,
    split_answer,
)
from kaldi_punct.types import Audio, Case, Hypothesis, PunctuatedWord, Utterance, Word, to_words

HOSTILE = [
    "",
    "a",
    "<unk>",
    "[noise]",
    "<eps>",
    "an-",
    "#0",
    "%hes",
    "a.b/c?d=e",
    "don't",
    "'em",
    "twenty-one",
    "42.",
    "3.14",
    "U.S.",
    "\u200b",
    "naïve",
    "ＦＵＬＬ",
    "😀",
    "x" * 600,
    "Already,",
    "CASED",
    "McDonald",
    "-",
    ",",
    "...",
    "ß",
    "İ",
    "\u0301",
]


@pytest.fixture(scope="module")
def punctuator(tiny_model: Path) -> Punctuator:
    return load(tiny_model)


class Scripted(Punctuator):
    """The real punctuator with the network's answer replaced, to test what becomes of probabilities."""

    def __init__(self, base: Punctuator, marks: dict[str, list[float]], cases: dict[str, list[float]]) -> None:
        self.__dict__.update(base.__dict__)
        self._said, self._cased = marks, cases

    def answer(self, words: list[list[str]]) -> list[Probs]:
        none, lower = [1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]
        return [
            Probs(
                np.array([self._said.get(w, none) for w in part], np.float32),
                np.array([self._cased.get(w, lower) for w in part], np.float32),
            )
            for part in words
        ]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([w for w in HOSTILE if w]) | st.text("abc<>[]'.,", min_size=1, max_size=5), max_size=120)
)
def test_every_word_comes_out_once_in_order(punctuator: Punctuator, words: list[str]) -> None:
    answer = punctuator(words)
    assert [w.word.word for w in answer.words] == words
    assert len(answer.text.split(" ")) == len(words) or not words
    assert [i for s in answer.sentences for i in range(s.first_word, s.first_word + s.n_words)] == list(
        range(len(words))
    )


def test_nothing_in_nothing_out(punctuator: Punctuator) -> None:
    answer = punctuator([], utt_id="u")
    assert (answer.words, answer.sentences, answer.text, answer.utt_id) == ((), (), "", "u")


def test_tokens_that_are_not_words_pass_through_and_do_not_separate(punctuator: Punctuator) -> None:
    with_noise = punctuator(["so", "[noise]", "what", "<unk>"])
    without = punctuator(["so", "what"])
    assert [w.written for w in with_noise.words if w.case is not None] == [w.written for w in without.words]
    noise = with_noise.words[1]
    assert (noise.written, noise.mark, noise.case, noise.mark_prob) == ("[noise]", "", None, 1.0)


def test_twenty_thousand_words(punctuator: Punctuator) -> None:
    words = [f"{'abcdefghij'[i % 10]}{i % 7}" for i in range(20_000)]
    assert [w.word.word for w in punctuator(words).words] == words


@pytest.mark.parametrize("n_words", [1, 2, 21, 22, 23, 24, 25, 45, 46, 47, 48, 49, 50, 92, 93])
def test_lengths_around_window_edges(punctuator: Punctuator, n_words: int) -> None:
    words = ["ab"] * n_words
    assert len(punctuator(words).words) == n_words


def test_words_times_and_speakers_come_back_untouched(punctuator: Punctuator) -> None:
    words = [Word("so", 1.0, 0.2, 0.5, "a"), Word("what", 1.3, 0.2, None, "b")]
    answer = punctuator(words)
    assert [w.word for w in answer.words] == words
    assert answer.used_times
    assert not punctuator(["so", "what"]).used_times
    assert answer.sentences[0].start_s == 1.0
    assert answer.sentences[-1].end_s == 1.5
    assert answer.sentences[0].spk_id == "a"


def test_times_change_the_answers_probabilities(punctuator: Punctuator) -> None:
    timed = punctuator([Word("so", 0.0, 0.2), Word("what", 3.0, 0.2)])
    plain = punctuator(["so", "what"])
    assert timed.words[0].label_probs != plain.words[0].label_probs


@pytest.mark.parametrize("fusion", ["onset", "attention", "gate"])
def test_who_hears_words_without_times(fusion: str) -> None:
    model = Punctuator(tiny_checkpoint(fusion=fusion))
    noise = Audio(np.random.default_rng(1).normal(0, 0.1, 16_000).astype(np.float32), 8000)
    words = ["so", "what", "do", "you", "think"]
    heard, deaf = model(words, audio=noise), model(words)
    assert heard.used_audio == (fusion != "onset")
    assert (heard.words != deaf.words) == (fusion != "onset")
    late = dataclasses.replace(noise, start_s=1000.0)
    timed = [Word(w, 0.3 * i, 0.2) for i, w in enumerate(words)]
    assert model(timed, audio=noise).used_audio
    assert not model(timed, audio=late).used_audio


def test_left_context_is_seen_and_left_out(punctuator: Punctuator) -> None:
    words = ["do", "you", "think", "that", "it", "is"]
    whole = punctuator(words)
    rest = punctuator(words[2:], left_context=words[:2])
    assert [w.word.word for w in rest.words] == words[2:]
    for a, b in zip(whole.words[2:], rest.words, strict=True):
        assert a.mark == b.mark
        np.testing.assert_allclose(a.label_probs, b.label_probs, atol=1e-5)
    alone = punctuator(words[2:])
    assert any(abs(a.mark_prob - b.mark_prob) > 1e-4 for a, b in zip(alone.words, rest.words, strict=True))


def test_a_very_long_left_context(punctuator: Punctuator) -> None:
    answer = punctuator(["so", "what"], left_context=["ab"] * 5000)
    assert [w.word.word for w in answer.words] == ["so", "what"]


def test_switches(punctuator: Punctuator) -> None:
    words = ["so", "What", "do", "you", "think"] * 4
    plain = punctuator(words, punctuation=False, capitalization=False)
    assert plain.text == " ".join(words)
    assert all(w.case is None and w.mark == "" for w in plain.words)
    no_marks = punctuator(words, punctuation=False)
    assert not any(w.mark for w in no_marks.words)
    assert all(w.case is not None for w in no_marks.words)
    no_case = punctuator(words, capitalization=False)
    assert [w.written[: len(o)] for w, o in zip(no_case.words, words, strict=True)] == words


def test_batch_mates_change_nothing(punctuator: Punctuator) -> None:
    plans = [punctuator.plan(to_words(["ab"] * n)) for n in (1, 7, 40, 200)]
    alone = [infer_by_budget(punctuator, p.examples) for p in plans]
    together = infer_by_budget(punctuator, [e for p in plans for e in p.examples])
    for p, q in zip([p for part in alone for p in part], together, strict=True):
        np.testing.assert_allclose(p.marks, q.marks, atol=1e-5)


def test_segments_of_a_conversation_get_their_own_words_back(punctuator: Punctuator) -> None:
    words = to_words(["so", "what", "do", "you", "think", "of", "it", "all", "then"])
    utterances = [Utterance("u1", words[:3]), Utterance("u2", ()), Utterance("u3", words[3:])]
    answers = punctuate_conversation(punctuator, utterances)
    assert [a.utt_id for a in answers] == ["u1", "u2", "u3"]
    assert [tuple(w.word for w in a.words) for a in answers] == [u.words for u in utterances]
    whole = punctuator(words)
    assert tuple(w for a in answers for w in a.words) == whole.words


def test_a_sentence_begins_with_a_capital_and_case_follows_the_lexicon(punctuator: Punctuator) -> None:
    said = {"one": [0.1, 0.0, 0.9, 0.0]}
    cased = {"two": [0.6, 0.3, 0.1, 0.0], "mcdonald": [0.0, 0.0, 0.0, 1.0]}
    scripted = Scripted(punctuator, said, cased)
    words = ["one", "two", "mcdonald", "two"]
    plan = scripted.plan(to_words(words))
    answer = scripted.finish(plan, scripted.answer([words]))
    assert answer.text == "one. Two McDonald two"
    assert answer.words[1].case is Case.CAPITALIZED
    assert answer.words[1].case_prob == pytest.approx(0.9)


def test_no_capital_for_a_sentence_that_does_not_begin(punctuator: Punctuator) -> None:
    said = {"hello": [0.0, 0.55, 0.45, 0.0]}
    cased = {"this": [0.45, 0.55, 0.0, 0.0], "marta": [0.05, 0.95, 0.0, 0.0], "nasa": [0.2, 0.1, 0.7, 0.0]}
    scripted = Scripted(punctuator, said, cased)
    words = ["hello", "this", "hello", "marta", "hello", "nasa"]
    plan = scripted.plan(to_words(words))
    answer = scripted.finish(plan, scripted.answer([words]))
    # "this" was a capital only because a sentence might have begun; a name is one anywhere.
    assert answer.text == "hello, this hello, Marta hello, NASA"
    assert answer.words[1].case_prob == pytest.approx(0.45 / 0.55, abs=1e-6)
    assert answer.words[5].case_prob == pytest.approx(0.7)


def test_a_final_mark_in_the_context_raises_the_first_word(punctuator: Punctuator) -> None:
    scripted = Scripted(punctuator, {"one": [0.1, 0.0, 0.9, 0.0]}, {})
    plan = scripted.plan(to_words(["two"]), left_context=to_words(["one"]))
    assert scripted.finish(plan, scripted.answer([["one", "two"]])).text == "Two"


def test_the_answer_depends_on_hypotheses_two_to_n(punctuator: Punctuator) -> None:
    scripted = Scripted(punctuator, {"know": [0.6, 0.4, 0.0, 0.0], "no": [0.1, 0.0, 0.9, 0.0]}, {})
    hyps = [
        Hypothesis(to_words(["i", "know", "it"]), posterior=0.5),
        Hypothesis(to_words(["i", "no", "it"]), posterior=0.5),
    ]
    plan = scripted.plan_fused(hyps)
    fused = scripted.finish(plan, scripted.answer([["i", "know", "it"], ["i", "no", "it"]]))
    assert [w.mark for w in fused.words] == ["", ".", ""]
    assert fused.words[1].label_probs == pytest.approx((0.35, 0.2, 0.45, 0.0), abs=1e-6)
    assert fused.n_hypotheses == 2
    weak = [hyps[0], dataclasses.replace(hyps[1], posterior=0.05)]
    plan = scripted.plan_fused(weak)
    assert scripted.finish(plan, scripted.answer([["i", "know", "it"], ["i", "no", "it"]])).words[1].mark == ""


def test_a_mark_on_a_word_that_the_best_hypothesis_lacks_is_carried_to_its_slot(punctuator: Punctuator) -> None:
    scripted = Scripted(punctuator, {"then": [0.0, 0.0, 1.0, 0.0]}, {})
    hyps = [
        Hypothesis(to_words(["go", "now"]), posterior=0.4),
        Hypothesis(to_words(["go", "then", "now"]), posterior=0.6),
    ]
    plan = scripted.plan_fused(hyps)
    fused = scripted.finish(plan, scripted.answer([["go", "now"], ["go", "then", "now"]]))
    assert fused.text == "go. Now"


def test_confidence_weighs_words_if_asked(punctuator: Punctuator) -> None:
    scripted = Scripted(punctuator, {"know": [0.6, 0.4, 0.0, 0.0], "no": [0.1, 0.0, 0.9, 0.0]}, {})
    doubtful = [Word("i"), Word("no", confidence=0.2), Word("it")]
    hyps = [Hypothesis(to_words(["i", "know", "it"]), posterior=0.5), Hypothesis(tuple(doubtful), posterior=0.5)]
    answers = scripted.answer([["i", "know", "it"], ["i", "no", "it"]])
    fused = scripted.finish(scripted.plan_fused(hyps, weigh_words=True), answers)
    shares = [0.6 * 0.5 + 0.1 * 0.1, 0.4 * 0.5, 0.9 * 0.1, 0.0]  # "know" has no confidence, so it counts in full
    assert fused.words[1].label_probs == pytest.approx([p / 0.6 for p in shares], abs=1e-6)
    assert scripted.finish(scripted.plan_fused(hyps), answers).words[1].mark == "."


def test_one_hypothesis_is_the_same_as_none(punctuator: Punctuator) -> None:
    words = to_words(["so", "what", "do", "you", "think"])
    assert punctuator.fuse([Hypothesis(words)]).words == punctuator(words).words


def test_posteriors() -> None:
    def hyp(graph: float | None = None, acoustic: float | None = None, posterior: float | None = None) -> Hypothesis:
        return Hypothesis((), graph, acoustic, posterior)

    assert posteriors([hyp(), hyp()], None) == [0.5, 0.5]
    assert posteriors([hyp(posterior=0.6), hyp(posterior=0.2)], None) == pytest.approx([0.75, 0.25])
    costs = posteriors([hyp(10.0, 100.0), hyp(11.0, 100.0)], 0.1)
    assert costs[1] / costs[0] == pytest.approx(math.exp(-1))
    scaled = posteriors([hyp(10.0, 100.0), hyp(10.0, 110.0)], 0.1)
    assert scaled[1] / scaled[0] == pytest.approx(math.exp(-1))
    assert posteriors([hyp(1e6, 1e6), hyp(1e6 + 900, 1e6)], 1.0) == pytest.approx([1.0, 0.0])


def test_costs_need_a_scale() -> None:
    costly = Hypothesis((), 10.0, 100.0)
    with pytest.raises(
        ConfigError, match="acoustic_scale: expected the factor of the hypotheses' acoustic costs, got none"
    ):
        posteriors([costly, costly], None)
    assert posteriors([costly], None) == [1.0]


def test_hypotheses_that_know_different_things() -> None:
    with pytest.raises(
        ConfigError, match="hypotheses: expected posteriors of all, both costs of all, or nothing of any"
    ):
        posteriors([Hypothesis((), posterior=0.5), Hypothesis(())], None)
    with pytest.raises(ConfigError, match="got a mixture; complete them"):
        posteriors([Hypothesis((), 1.0, 2.0), Hypothesis((), 1.0)], 0.1)


def test_no_mark_twice() -> None:
    assert attach("42.", ".") == "42."
    assert attach("so", ",") == "so,"
    assert attach("so,", ".") == "so,."


def test_sentences() -> None:
    def word(written: str, mark: str = "") -> PunctuatedWord:
        return PunctuatedWord(Word(written), written, mark, Case.LOWER, 1.0, 1.0)

    sentences = find_sentences([word("a"), word("b.", "."), word("c,", ","), word("d")])
    assert [(s.text, s.first_word, s.n_words) for s in sentences] == [("a b.", 0, 2), ("c, d", 2, 2)]
    assert find_sentences([]) == ()


LISTS = (
    (
        Hypothesis(to_words(["so", "what", "do", "you", "think"]), posterior=0.5),
        Hypothesis(to_words(["so", "why", "think"]), posterior=0.3),
    ),
    (Hypothesis(to_words(["[noise]", "well", "i", "do"]), posterior=0.9),),
    (
        Hypothesis(to_words(["no", "he", "does"]), posterior=0.2),
        Hypothesis(to_words(["now", "he", "does", "not"]), posterior=0.2),
        Hypothesis(to_words([]), posterior=0.1),
    ),
)


def finish_lists(punctuator: Punctuator, lists: tuple[tuple[Hypothesis, ...], ...]) -> list[PunctuatedWord]:
    plan = punctuator.plan_lists(lists)
    return list(punctuator.finish(plan, infer_by_budget(punctuator, plan.examples)).words)


def test_lists_of_one_hypothesis_are_a_conversation(punctuator: Punctuator) -> None:
    lists = tuple(hypotheses[:1] for hypotheses in LISTS)
    words = [w for (h,) in lists for w in h.words]
    assert finish_lists(punctuator, lists) == list(punctuator(words).words)


def test_a_list_of_one_utterance_is_fused_as_ever(punctuator: Punctuator) -> None:
    assert finish_lists(punctuator, LISTS[:1]) == list(punctuator.fuse(LISTS[0]).words)


def test_each_utterance_of_a_conversation_is_fused_by_its_own_list(punctuator: Punctuator) -> None:
    """The k-th hypotheses are each other's context; a list that is shorter has no part in the fusion of others."""
    answers = []
    for k in range(3):
        chosen = [h[k] if k < len(h) else h[0] for h in LISTS]
        sizes = [len(h.words) for h in chosen]
        whole = punctuator([w for h in chosen for w in h.words]).words
        answers.append([whole[sum(sizes[:u]) : sum(sizes[: u + 1])] for u in range(3)])
    found = finish_lists(punctuator, LISTS)
    assert [w.word.word for w in found] == [w.word for h in LISTS for w in h[0].words]

    def marks(words: tuple[PunctuatedWord, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.array([w.label_probs for w in words if w.label_probs], np.float32).reshape(len(words), -1)

    for u, ranks in ((0, (0, 1)), (2, (0, 1))):
        expected, _ = fuse(
            [[w.word.word for w in answers[k][u]] for k in ranks],
            posteriors(LISTS[u], None)[: len(ranks)],
            [(marks(answers[k][u]), np.zeros((len(answers[k][u]), 4), np.float32)) for k in ranks],
        )
        first = sum(len(LISTS[v][0].words) for v in range(u))
        got = np.array([w.label_probs for w in found[first : first + len(expected)]])
        assert got == pytest.approx(expected, abs=1e-6)
    assert marks(tuple(found[6:9])) == pytest.approx(marks(answers[0][1][1:]), abs=1e-6)


def test_lists_are_counted_and_heeded(punctuator: Punctuator) -> None:
    plan = punctuator.plan_lists(LISTS)
    answer = punctuator.finish(plan, infer_by_budget(punctuator, plan.examples))
    assert answer.n_hypotheses == 3
    utterances = [Utterance(f"u{i}", h[0].words) for i, h in enumerate(LISTS)]
    assert [p.n_hypotheses for p in split_answer(answer, utterances)] == [3, 3, 3]
    assert [w.label_probs for w in answer.words] != [
        w.label_probs for w in punctuator([w for h in LISTS for w in h[0].words]).words
    ]
