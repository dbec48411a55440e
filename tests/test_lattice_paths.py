"""The best paths of lattices small enough to see through, and what the decoder makes of them."""

from __future__ import annotations

import gzip
import io
import math
import threading
import time
from pathlib import Path

import lattice_maker as make
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_maker import Arc, Toy

from kaldi_punct import _core
from kaldi_punct.errors import ConfigError, LatticeError, UtteranceError
from kaldi_punct.kaldi.lattice import Decoder, Lattice, WordAligner, parse, read_archive

ALIGNER = WordAligner(make.transition_model_binary(), make.WORD_BOUNDARY)
DECODER = Decoder(make.WORDS, ALIGNER, frame_shift_s=0.03, acoustic_scale=0.1)


def entries(data: bytes, name: str = "lat.ark") -> list[tuple[str, Lattice | LatticeError]]:
    return list(read_archive(io.BytesIO(data), name))


def raw_paths(lattice: Lattice, n: int, lm: float = 1.0, acoustic: float = 0.1, wip: float = 0.0) -> list[_core.Path]:
    return _core.best_paths(lattice, n, _core.Scales(lm, acoustic, wip))


COSTS = st.integers(-40, 400).map(lambda i: i / 8)


@st.composite
def toys(draw: st.DrawFn) -> Toy:
    n = draw(st.integers(1, 5))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] < p[1])
    tids = st.lists(st.integers(1, 10), max_size=3).map(tuple)
    words = st.integers(0, 3)
    arcs = (
        draw(st.lists(st.builds(lambda p, *rest: Arc(*p, *rest), ends, words, COSTS, COSTS, tids), max_size=9))
        if n > 1
        else []
    )
    finals = draw(st.dictionaries(st.integers(0, n - 1), st.tuples(COSTS, COSTS, tids), max_size=n))
    return Toy(n, tuple(arcs), finals)


@given(
    toys(),
    st.integers(1, 40),
    st.sampled_from([0.5, 1.0]),
    st.sampled_from([0.125, 1.0]),
    st.sampled_from([0, 0.5, -0.25]),
)
@settings(max_examples=300, deadline=None)
def test_nbest_against_brute_force(toy: Toy, n: int, lm: float, acoustic: float, wip: float) -> None:
    paths = list(make.all_paths(toy))
    costs = sorted(lm * (p.graph + wip * len(p.words)) + acoustic * p.acoustic for p in paths)
    for form in (
        (make.binary, make.text, make.binary_noncompact) if any(a.begin == 0 for a in toy.arcs) else (make.binary,)
    ):
        lattice = parse(form(toy))
        got = raw_paths(lattice, n, lm, acoustic, wip)
        assert [p.total_cost for p in got] == pytest.approx(costs[:n])
        left = [(p.words, p.tids, p.graph + wip * len(p.words), p.acoustic) for p in paths]
        for p in got:  # each is a path of its own
            left.remove((tuple(p.words), tuple(p.transition_ids), p.graph_cost, p.acoustic_cost))
            assert p.total_cost == pytest.approx(lm * p.graph_cost + acoustic * p.acoustic_cost)
        total = _core.total_cost_of_all(lattice, _core.Scales(lm, acoustic, wip))
        expected = -math.log(sum(math.exp(-c) for c in costs)) if costs else math.inf
        assert total == pytest.approx(expected)


def test_of_equal_totals_the_lower_graph_cost_goes_first() -> None:
    arcs = (Arc(0, 1, 1, 3.0, 10.0), Arc(0, 1, 2, 1.0, 12.0), Arc(0, 1, 3, 2.0, 11.0))
    paths = raw_paths(parse(make.binary(Toy(2, arcs, {1: (0.0, 0.0, ())}))), 3, acoustic=1.0)
    assert paths[0].words == [2]
    assert [p.total_cost for p in paths] == [13.0, 13.0, 13.0]


def test_posteriors_are_shares_of_all_paths() -> None:
    hyps = DECODER.nbest(parse(make.binary(make.FORK)), 10)
    assert sum(h.posterior or 0 for h in hyps) == pytest.approx(1.0)
    assert DECODER.best_path(parse(make.binary(make.FORK))).posterior == hyps[0].posterior
    costs = [(h.graph_cost or 0) + 0.1 * (h.acoustic_cost or 0) for h in hyps]
    assert hyps[1].posterior == pytest.approx((hyps[0].posterior or 0) * math.exp(costs[0] - costs[1]))


def test_scales() -> None:
    lattice = parse(make.binary(make.FORK))
    assert len(DECODER.nbest(lattice, 2)) == 2
    # "a" alone: graph 13.5 and acoustic 75, "a harbour": 6 and 70.
    cheap_words = Decoder(make.WORDS, None, None, acoustic_scale=0.1, word_ins_penalty=9.0)
    hyp = cheap_words.best_path(lattice)
    assert [w.word for w in hyp.words] == ["a"]
    assert hyp.graph_cost == 13.5 + 9.0
    assert [w.word for w in Decoder(make.WORDS, None, None, 0.1, lm_scale=-1.0).best_path(lattice).words] == ["a"]
    assert [w.word for w in DECODER.best_path(lattice, acoustic_scale=-3.0).words] == ["a"]


def test_no_path() -> None:
    for toy in (Toy(0, (), {}), Toy(1, (), {}), Toy(2, (Arc(0, 1, 1, 1.0, 1.0),), {}), Toy(3, (), {2: (0.0, 0.0, ())})):
        data = make.archive({"u7": make.binary(toy, start=-1 if toy.n_states == 0 else 0)})
        ((_, lattice),) = entries(data)
        assert isinstance(lattice, Lattice)
        with pytest.raises(UtteranceError, match=r"^lat\.ark: u7: byte 3: the lattice has no path to a final state"):
            DECODER.nbest(lattice, 3)


def test_a_path_without_words_or_frames() -> None:
    hyp = DECODER.best_path(parse(make.binary(Toy(1, (), {0: (1.5, 2.0, ())}))))
    assert (hyp.words, hyp.graph_cost, hyp.acoustic_cost) == ((), 1.5, 2.0)
    silent = Toy(2, (Arc(0, 1, 0, 1.0, 2.0, make.frames(make.SIL, 5)),), {1: (0.0, 0.0, ())})
    assert DECODER.best_path(parse(make.binary(silent))).words == ()


def test_bad_arguments() -> None:
    lattice = parse(make.binary(make.FORK))
    with pytest.raises(ConfigError, match="n: expected at least 1 hypothesis, got 0"):
        DECODER.nbest(lattice, 0)
    with pytest.raises(ConfigError, match="acoustic_scale: expected a finite number, got nan"):
        DECODER.best_path(lattice, acoustic_scale=math.nan)
    with pytest.raises(ConfigError, match="lm_scale: expected a finite number, got inf"):
        Decoder(make.WORDS, None, None, 0.1, lm_scale=math.inf)
    with pytest.raises(
        ConfigError, match=r"frame_shift_s: expected the length of a lattice frame \(0\.03 or 0\.01 s\)"
    ):
        Decoder(make.WORDS, ALIGNER, None, 0.1)
    with pytest.raises(ConfigError, match="frame_shift_s: expected seconds between 0 and 1, got 10"):
        Decoder(make.WORDS, ALIGNER, 10, 0.1)


def test_a_word_that_words_txt_lacks() -> None:
    ((_, lattice),) = entries(make.archive({"u1": make.binary(make.FORK)}))
    assert isinstance(lattice, Lattice)
    few = Decoder({0: "<eps>", 1: "a"}, None, None, 0.1)
    with pytest.raises(
        LatticeError, match=r"^lat\.ark: u1: byte 3: expected word-ids .*\(2 words\), got 2; give the words"
    ):
        few.best_path(lattice)


def test_threads_run_beside_the_core() -> None:
    # Many paths: 2 to the power of 400.
    arcs = [Arc(i, i + 1, w, float(w), 1.0, (2,)) for i in range(400) for w in (1, 2)]
    lattice = parse(make.binary(Toy(401, tuple(arcs), {400: (0.0, 0.0, ())})))
    started, n_beside = threading.Event(), 0

    def work() -> None:
        started.set()
        raw_paths(lattice, 8000)

    thread = threading.Thread(target=work)
    begin = time.perf_counter()
    thread.start()
    started.wait()
    while thread.is_alive():
        time.sleep(0.001)
        n_beside += 1
    assert n_beside > 5, f"{n_beside} steps beside {time.perf_counter() - begin:.3f} s in the core"


def test_embedded_sample_gives_what_kaldi_gives(mini: Path) -> None:
    words = {int(i): w for w, i in (row.split(" ") for row in (mini / "lang/words.txt").read_text().splitlines())}
    aligner = WordAligner((mini / "trans.mdl").read_bytes(), (mini / "lang/phones/word_boundary.int").read_bytes())
    decoder = Decoder(words, aligner, 0.03, 0.1)
    nbest, ctm = [], []
    for name in ("lat.1.gz", "lat.2.gz"):
        with gzip.open(mini / "decode" / name) as stream:
            for key, lattice in read_archive(stream, name):
                assert isinstance(lattice, Lattice)
                hyps = decoder.nbest(lattice, 10)
                nbest += [" ".join([f"{key}-{i}", *(w.word for w in h.words)]) for i, h in enumerate(hyps, 1)]
                ctm += [(key, w.word, w.start_s, w.duration_s) for w in hyps[0].words]
    golden = [row.split(" ")[:5] for row in (mini / "kaldi/1best.ctm").read_text().splitlines()]
    assert [row.rstrip(" ") for row in (mini / "kaldi/nbest10.words").read_text().splitlines()] == nbest
    assert [(key, word) for key, _, _, _, word in golden] == [(key, word) for key, word, _, _ in ctm]
    for (_, _, start_s, duration_s), row in zip(ctm, golden, strict=True):
        assert (start_s, duration_s) == pytest.approx((float(row[2]), float(row[3])), abs=0.015)
