"""Minimum Bayes risk decoding on lattices small enough to work out by hand, and against brute force."""

from __future__ import annotations

import math
import threading
import time
from itertools import pairwise

import lattice_maker as make
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_maker import Arc, Toy

from kaldi_punct import _core
from kaldi_punct.errors import ConfigError, LatticeError, UtteranceError
from kaldi_punct.kaldi.lattice import Decoder, parse
from kaldi_punct.kaldi.sausage import MbrOptions, decode_mbr, to_sausage

MBR, MAP = MbrOptions(), MbrOptions(mbr=False)
PLAIN = _core.Scales(1.0, 1.0, 0.0)
DECODER = Decoder(make.WORDS, None, frame_shift_s=0.03, acoustic_scale=1.0, is_aligned=True)
END = (0.0, 0.0, ())


def cost(share: float) -> float:
    return -math.log(share)


def decode(
    toy: Toy, options: MbrOptions = MBR, scales: _core.Scales = PLAIN, words: list[int] | None = None
) -> _core.Sausage:
    return decode_mbr(parse(make.binary(toy), "toy.ark"), scales, options, words)


def chosen(sausage: _core.Sausage) -> list[int]:
    return [word for word, _, _, _ in sausage.one_best]


def shares(sausage: _core.Sausage) -> list[dict[int, float]]:
    return [{word: pytest.approx(p, abs=1e-6) for word, p, _, _ in words} for _, _, words in sausage.bins]


# "a harbour" 0.6, "a light" 0.4
TWO = Toy(
    3,
    (
        Arc(0, 1, 1, 0.0, 0.0, (1, 1)),
        Arc(1, 2, 2, cost(0.6), 0.0, (1, 1, 1)),
        Arc(1, 2, 3, cost(0.4), 0.0, (1, 1, 1)),
    ),
    {2: END},
)
# "a harbour" 0.4, "light [noise]" 0.3, "light light" 0.3: no path is likelier than the first, but most begin with light
SPREAD = Toy(
    7,
    tuple(
        arc
        for middle, first, second, share in ((1, 1, 2, 0.4), (2, 3, 4, 0.3), (3, 3, 3, 0.3))
        for arc in (Arc(0, middle, first, cost(share), 0.0, (1,)), Arc(middle, 4, second, 0.0, 0.0, (1,)))
    ),
    {4: END},
)
# "a" 0.6, "a harbour" 0.4
SHORT = Toy(
    3, (Arc(0, 1, 1, 0.0, 0.0, (1,)), Arc(1, 2, 2, cost(0.4), 0.0, (1, 1))), {1: (cost(0.6), 0.0, (1, 1)), 2: END}
)


def test_posteriors_are_shares_of_the_paths() -> None:
    sausage = decode(TWO)
    assert shares(sausage) == [{0: 1}, {1: 1}, {0: 1}, {2: 0.6, 3: 0.4}, {0: 1}]
    assert [words[0][0] for _, _, words in sausage.bins] == [0, 1, 0, 2, 0]  # likeliest first
    assert sausage.one_best == [(1, 1.0, 0.0, 2.0), (2, pytest.approx(0.6), 2.0, 5.0)]
    assert sausage.bayes_risk == pytest.approx(0.4)
    assert sausage.is_settled
    assert [(begin, end) for begin, end, _ in sausage.bins] == [(0, 0), (0, 2), (2, 2), (2, 5), (5, 5)]


def test_the_words_of_least_expected_error_may_be_of_no_path() -> None:
    best_path, mbr = decode(SPREAD, MAP), decode(SPREAD)
    assert chosen(best_path) == [1, 2]
    assert best_path.bayes_risk == pytest.approx(0.6 + 0.6)
    assert chosen(mbr) == [3, 2]
    assert mbr.bayes_risk == pytest.approx(0.4 + 0.6)
    assert shares(mbr)[1::2] == [{3: 0.6, 1: 0.4}, {2: 0.4, 4: 0.3, 3: 0.3}]
    assert [word for word, _, _, _ in mbr.bins[3][2]] == [2, 4, 3]  # of equal posteriors the higher word-id goes first


def test_a_word_that_may_not_be_there() -> None:
    sausage = decode(SHORT)
    assert chosen(sausage) == [1]
    assert shares(sausage) == [{0: 1}, {1: 1}, {0: 0.6, 2: 0.4}]
    assert sausage.bayes_risk == pytest.approx(0.4)
    # 0.4 of the mass lies at 1 .. 3, that of "no word" at the end of its arc
    assert sausage.bins[2][:2] == (pytest.approx(0.4 * 1 + 0.6 * 1), pytest.approx(3.0))


def test_silence_may_stay_among_the_words() -> None:
    assert chosen(decode(TWO, MbrOptions(print_silence=True))) == [0, 1, 0, 2, 0]


def test_given_words_in_place_of_the_best_path() -> None:
    kept = decode(TWO, MAP, words=[1, 3])
    assert kept.one_best[1][:2] == (3, pytest.approx(0.4))
    assert kept.bayes_risk == pytest.approx(0.6)
    assert chosen(decode(TWO, MBR, words=[1, 3])) == [1, 2]
    absent = decode(TWO, MAP, words=[4])  # of no path: no confidence, and the times of what stands there
    assert absent.one_best == [(4, 0.0, pytest.approx(0.0), pytest.approx(2.0))]


def test_scales_and_word_insertion_penalty() -> None:
    toy = Toy(2, (Arc(0, 1, 1, 1.0, 20.0), Arc(0, 1, 2, 3.0, 10.0)), {1: END})
    even = 1 / (1 + math.exp(-(2.0 * 0.5 - 10.0 * 0.1)))
    assert decode(toy, scales=_core.Scales(0.5, 0.1, 0.0)).bayes_risk == pytest.approx(1 - even, abs=1e-6)
    assert chosen(decode(toy, scales=_core.Scales(1.0, 0.1, 0.0))) == [1]
    assert chosen(decode(toy, scales=_core.Scales(0.4, 0.1, 0.0))) == [2]
    assert chosen(decode(SHORT, scales=_core.Scales(1.0, 1.0, -2.0))) == [1, 2]


def test_overlapping_words_share_their_time() -> None:
    """The words' own times are averages over different paths, so one may end after the next begins."""
    arcs = (
        Arc(0, 1, 1, cost(0.5), 0.0, (1,) * 2),
        Arc(1, 4, 2, 0.0, 0.0, (1,) * 8),
        Arc(0, 2, 1, cost(0.5), 0.0, (1,) * 9),
        Arc(2, 4, 3, 0.0, 0.0, (1,) * 1),
    )
    (_, _, first_begin, first_end), (word, _, begin, end) = decode(Toy(5, arcs, {4: END})).one_best
    assert word == 3  # begins at 9 where it stands; "a" ends at 5.5 on average
    assert (first_begin, first_end, begin, end) == (0.0, 5.5, 9.0, 10.0)
    kept = decode(Toy(5, arcs, {4: END}), MAP, words=[1, 2])
    # "a" is at 0 .. 5.5, "harbour" at 2 .. 10: of 0 .. 10 the first gets 5.5 / (5.5 + 8)
    assert kept.one_best[0][2:] == (0.0, pytest.approx(10 * 5.5 / 13.5))
    assert kept.one_best[1][2:] == (pytest.approx(10 * 5.5 / 13.5), 10.0)


def edit_distance(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def expected_errors(toy: Toy, words: list[int]) -> float:
    weights = [(p.words, math.exp(-p.graph - p.acoustic)) for p in make.all_paths(toy)]
    total = sum(w for _, w in weights)
    return sum(w * edit_distance(path, tuple(words)) for path, w in weights) / total


COSTS = st.integers(0, 24).map(lambda i: i / 8)


@st.composite
def toys(draw: st.DrawFn) -> Toy:
    """Small lattices with at least one complete path."""
    n = draw(st.integers(2, 6))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] < p[1])
    tids = st.lists(st.integers(1, 10), max_size=3).map(tuple)
    words = st.integers(0, 3)
    chain = [Arc(i, i + 1, draw(words), draw(COSTS), draw(COSTS), draw(tids)) for i in range(n - 1)]
    more = draw(st.lists(st.builds(lambda p, *rest: Arc(*p, *rest), ends, words, COSTS, COSTS, tids), max_size=8))
    finals = draw(st.dictionaries(st.integers(0, n - 2), st.tuples(COSTS, COSTS, tids), max_size=2))
    return Toy(n, (*chain, *more), {**finals, n - 1: (draw(COSTS), draw(COSTS), draw(tids))})


@given(toys())
@settings(max_examples=60, deadline=None)
def test_never_worse_than_the_best_path(toy: Toy) -> None:
    best_path, mbr = decode(toy, MAP), decode(toy)
    slack = 1e-4  # a word against no word costs 1.00001
    assert mbr.bayes_risk <= best_path.bayes_risk + slack
    # The recursion aligns paths that share a beginning alike, so it may see more errors than there are, never fewer.
    for sausage in (best_path, mbr):
        assert sausage.bayes_risk >= expected_errors(toy, chosen(sausage)) - slack
    if best_path.bayes_risk <= expected_errors(toy, chosen(best_path)) + slack:
        assert expected_errors(toy, chosen(mbr)) <= expected_errors(toy, chosen(best_path)) + slack
    assert chosen(best_path) == list(_core.best_paths(parse(make.binary(toy)), 1, PLAIN)[0].words)
    for _, _, words in mbr.bins:
        assert sum(p for _, p, _, _ in words) == pytest.approx(1.0, abs=1e-5)
        assert [p for _, p, _, _ in words] == sorted((p for _, p, _, _ in words), reverse=True)
    times = [t for begin, end, _ in mbr.bins for t in (begin, end)]
    assert all(a <= b + 1e-6 for a, b in pairwise(times))
    n_frames = parse(make.binary(toy)).n_frames
    assert all(0 <= begin <= end + 1e-6 <= n_frames + 1e-5 for _, _, begin, end in mbr.one_best)


@given(toys())
@settings(max_examples=30, deadline=None)
def test_state_numbers_do_not_matter(toy: Toy) -> None:
    """The same lattice with its states numbered the other way round, as far as the start allows."""
    n = toy.n_states
    turned = {s: s if s == 0 else n - s for s in range(n)}
    arcs = tuple(Arc(turned[a.begin], turned[a.end], a.word, a.graph, a.acoustic, a.tids) for a in toy.arcs)
    other = Toy(n, arcs, {turned[s]: weight for s, weight in toy.finals.items()})
    assert decode(other, MAP).bayes_risk == pytest.approx(decode(toy, MAP).bayes_risk, abs=1e-4)


def test_states_on_no_complete_path_do_not_count() -> None:
    arcs = (*TWO.arcs, Arc(0, 3, 4, -50.0, 0.0, (1,) * 9), Arc(4, 1, 4, -50.0, 0.0))
    assert shares(decode(Toy(5, arcs, TWO.finals))) == shares(decode(TWO))


@pytest.mark.parametrize(
    ("toy", "n_frames"),
    [
        (Toy(1, (), {0: END}), 0),  # one state
        (Toy(1, (), {0: (1.0, 2.0, (1, 1))}), 2),  # one state, frames behind it
        (Toy(3, (Arc(0, 1, 0, 1.0, 2.0, (1,)), Arc(1, 2, 0, 0.0, 0.0)), {2: END}), 1),  # no words
    ],
)
def test_no_words(toy: Toy, n_frames: int) -> None:
    for options in (MBR, MAP):
        sausage = decode(toy, options)
        assert sausage.one_best == []
        assert sausage.bayes_risk == 0
        assert shares(sausage) == [{0: 1}]
        assert sausage.bins[0][1] <= n_frames


def test_words_without_frames() -> None:
    toy = Toy(3, (Arc(0, 1, 1, 0.0, 0.0), Arc(1, 2, 2, 0.0, 0.0)), {2: END})
    assert decode(toy).one_best == [(1, 1.0, 0.0, 0.0), (2, 1.0, 0.0, 0.0)]


def test_no_path() -> None:
    for toy in (Toy(2, (Arc(0, 1, 1, 0.0, 0.0),), {}), Toy(0, (), {})):
        with pytest.raises(UtteranceError, match=r"toy\.ark.*: the lattice has no path to a final state"):
            decode(toy)


def test_costs_that_are_no_numbers() -> None:
    with pytest.raises(LatticeError, match="cost"):
        decode(Toy(2, (Arc(0, 1, 1, math.nan, 0.0),), {1: END}))
    huge = Toy(2, (Arc(0, 1, 1, 1e300, 0.0), Arc(0, 1, 2, 0.0, 0.0)), {1: END})
    with pytest.raises(
        LatticeError,
        match=r"toy.*: expected costs that are finite once scaled, got graph cost 1e\+300 and acoustic cost 0; is",
    ):
        decode_mbr(parse(make.binary(huge, double=True), "toy"), PLAIN, MBR)


def test_more_than_memory_is_for_is_refused() -> None:
    n = 50_000
    toy = Toy(2, tuple(Arc(0, 1, 1 + i % 3, 1.0, 0.0) for i in range(n)), {1: END})
    lattice = parse(make.binary(toy), "toy.ark")
    began = time.perf_counter()
    with pytest.raises(
        LatticeError,
        match=r"toy\.ark: byte 0: expected a lattice and words that can be aligned in 2048 MiB, "
        r"got 50000 arcs and 50000 words; prune the lattice, or decode shorter pieces",
    ):
        decode_mbr(lattice, PLAIN, MAP, [1] * n)
    assert time.perf_counter() - began < 5
    assert decode_mbr(lattice, PLAIN, MBR).bayes_risk == pytest.approx(2 / 3, abs=1e-3)


def test_decoder_gives_words_in_seconds_with_confidences() -> None:
    lattice = parse(make.binary(TWO))
    sausage = DECODER.sausage(lattice, start_s=10.0)
    assert [(w.word, w.confidence) for w in sausage.words] == [("a", 1.0), ("harbour", pytest.approx(0.6))]
    assert (sausage.words[1].start_s, sausage.words[1].duration_s) == pytest.approx((10.06, 0.09))
    assert sausage.bayes_risk == pytest.approx(0.4)
    place = sausage.bins[3]
    assert (place.start_s, place.duration_s) == pytest.approx((10.06, 0.09))
    assert [(w.word, pytest.approx(w.posterior)) for w in place.words] == [("harbour", 0.6), ("light", 0.4)]
    assert (place.words[1].start_s, place.words[1].duration_s) == pytest.approx((10.06, 0.09))
    silences = DECODER.sausage(lattice, MbrOptions(print_silence=True))
    assert [w.word for w in silences.words] == ["<eps>", "a", "<eps>", "harbour", "<eps>"]
    hypothesis = DECODER.confident(parse(make.binary(SPREAD)), MAP, start_s=1.0)
    assert [w.word for w in hypothesis.words] == ["a", "harbour"]
    assert [w.confidence for w in hypothesis.words] == pytest.approx([0.4, 0.4])
    assert hypothesis.words[0].start_s == 1.0
    assert hypothesis.graph_cost is None


def test_decoder_options_reach_the_core() -> None:
    lattice = parse(make.binary(Toy(2, (Arc(0, 1, 1, 1.0, 20.0), Arc(0, 1, 2, 3.0, 10.0)), {1: END})))
    words = [
        Decoder(make.WORDS, None, None, scale, lm_scale, penalty).confident(lattice).words[0].word
        for scale, lm_scale, penalty in ((0.1, 1.0, 0.0), (0.3, 1.0, 0.0), (0.1, 0.4, 0.0))
    ]
    assert words == ["a", "harbour", "harbour"]
    penalised = Decoder(make.WORDS, None, None, 1.0, 1.0, -2.0).confident(parse(make.binary(SHORT)))
    assert [w.word for w in penalised.words] == ["a", "harbour"]


def test_no_times_without_alignment() -> None:
    lattice = parse(make.binary(TWO))
    words = Decoder(make.WORDS, None, 0.03, 1.0).confident(lattice).words
    assert [(w.start_s, w.duration_s) for w in words] == [(None, None)] * 2
    assert words[1].confidence == pytest.approx(0.6)
    with pytest.raises(ConfigError, match="frame_shift_s: expected the length of a lattice frame"):
        Decoder(make.WORDS, None, None, 1.0, is_aligned=True)


def test_a_word_that_words_txt_lacks() -> None:
    lattice = parse(make.binary(TWO), "toy.ark")
    with pytest.raises(LatticeError, match=r"toy\.ark.*expected word-ids of the words table \(1 words\), got 2; give"):
        Decoder({1: "a"}, None, None, 1.0).sausage(lattice)
    with pytest.raises(LatticeError, match="got 2"):
        to_sausage(decode(TWO), {1: "a"}, None)


def test_threads_run_beside_the_core() -> None:
    rows = 300
    arcs = tuple(Arc(i, i + 1, 1 + j, cost(1 / 3), 0.0, (1,)) for i in range(rows) for j in range(3))
    lattice = parse(make.binary(Toy(rows + 1, arcs, {rows: END})))
    ticks, done = 0, threading.Event()

    def work() -> None:
        for _ in range(3):
            decode_mbr(lattice, PLAIN, MBR)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.001):
        ticks += 1
    thread.join()
    assert ticks > 0
