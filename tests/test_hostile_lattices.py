"""Lattices that nobody should make, to every function that takes one: a clear error, or the right empty answer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import lattice_maker as make
import pytest
from lattice_maker import INF, Arc, Toy

from kaldi_punct import _core
from kaldi_punct.errors import FormatError, LatticeError, UtteranceError
from kaldi_punct.kaldi import lattice_ops, posteriors
from kaldi_punct.kaldi.lattice import Decoder, Lattice, WordAligner, parse, to_bytes
from kaldi_punct.kaldi.oracle import oracle

ALIGNER = WordAligner(make.transition_model_binary(), make.WORD_BOUNDARY)
DECODER = Decoder(make.WORDS, ALIGNER, frame_shift_s=0.03, acoustic_scale=0.1)
SCALES = _core.Scales(1.0, 0.1, 0.0)
ONE = {1: (0.0, 0.0, ())}

Function = Callable[[Lattice], object]
# Every public function of a lattice; those not in EMPTY raise UtteranceError where no path leads to the end.
FUNCTIONS: dict[str, Function] = {
    "n_frames": lambda lattice: lattice.n_frames,
    "best_paths": lambda lattice: _core.best_paths(lattice, 5, SCALES),
    "total_cost_of_all": lambda lattice: _core.total_cost_of_all(lattice, SCALES),
    "nbest": lambda lattice: DECODER.nbest(lattice, 5),
    "best_path": DECODER.best_path,
    "to_bytes": lambda lattice: [
        parse(to_bytes(lattice, binary=binary, compact=compact)).n_frames
        for binary in (True, False)
        for compact in (True, False)
    ],
    "rescale": lambda lattice: lattice_ops.rescale(lattice, lm_scale=0.5, word_ins_penalty=1.0).n_frames,
    "to_compact": lambda lattice: lattice_ops.to_compact(lattice).n_frames,
    "to_state_level": lambda lattice: lattice_ops.to_state_level(lattice).n_frames,
    "connect": lambda lattice: lattice_ops.connect(lattice).n_frames,
    "depth": posteriors.depth,
    "depth_per_frame": posteriors.depth_per_frame,
    "prune": lambda lattice: lattice_ops.prune(lattice, 4.0, acoustic_scale=0.1).n_frames,
    "nbest as lattices": lambda lattice: [x.n_frames for x in lattice_ops.nbest(lattice, 5, acoustic_scale=0.1)],
    "arc_posteriors": lambda lattice: posteriors.arc_posteriors(lattice, acoustic_scale=0.1),
    "sentence_confidence": lambda lattice: posteriors.sentence_confidence(lattice, acoustic_scale=0.1),
    "oracle": lambda lattice: oracle(lattice, [1, 2]),
}
# What a lattice without a path gives.
EMPTY: dict[str, object] = {
    "n_frames": 0, "best_paths": [], "total_cost_of_all": INF, "to_bytes": [0] * 4, "rescale": 0, "to_compact": 0,
    "to_state_level": 0, "connect": 0,
}  # fmt: skip


def arc(begin: int = 0, end: int = 1, word: int = 1, graph: float = 1.0, acoustic: float = 2.0, n: int = 3) -> Arc:
    return Arc(begin, end, word, graph, acoustic, make.frames(make.SINGLETON, n) if n else ())


@dataclass(frozen=True)
class Refused:
    """No lattice: reading it says so."""

    value: bytes
    error: str


REFUSED = {
    "a cycle": Refused(make.binary(Toy(2, (arc(), arc(1, 0)), ONE)), "expected a lattice without cycles, got one"),
    "a self-loop": Refused(make.binary(Toy(2, (arc(), arc(1, 1)), ONE)), "expected a lattice without cycles, got one"),
    "a cycle that is not reached": Refused(
        make.binary(Toy(4, (arc(), arc(2, 3), arc(3, 2)), ONE)), "expected a lattice without cycles, got one"
    ),
    "a negative state": Refused(
        make.binary(Toy(2, (arc(end=-5),), ONE)), "expected a state number of 0 or more, got -5"
    ),
    "a huge state": Refused(
        make.binary(Toy(2, (arc(end=2**31 - 1),), ONE)), "expected states below 2, got an arc to state 2147483647"
    ),
    "a negative state in text": Refused(b"\n0 -1 2 1,2,3\n\n", "expected state numbers from 0 to 2147483647, got"),
    "a huge state in text": Refused(b"\n0 99999999999 2 1,2,3\n\n", "expected state numbers from 0 to 2147483647"),
    "a huge number of states": Refused(make.header("lattice4", 2**40), "expected a number of states, got 1099511"),
    "a huge number of arcs": Refused(
        make.header("lattice4", 1) + b"\0" * 8 + b"\xff" * 7 + b"\x7f", "expected a number of arcs, got 9223372036854"
    ),
    "a start that is not there": Refused(
        make.binary(Toy(2, (arc(),), ONE), start=7), "expected a start state below 2, got 7"
    ),
    "costs that are no numbers": Refused(
        make.binary(Toy(2, (arc(graph=math.nan),), ONE)), "expected finite costs, got nan,2.0"
    ),
    "a cost of minus infinity": Refused(
        make.binary(Toy(2, (arc(acoustic=-INF),), ONE)), "expected finite costs, got 1.000000,-inf"
    ),
    "one infinite cost of two": Refused(
        make.binary(Toy(2, (arc(graph=INF),), ONE)), "expected finite costs, got inf,2.0"
    ),
    "a final cost that is no number": Refused(
        make.binary(Toy(2, (arc(),), {1: (0.0, math.nan, ())})), "expected finite costs, got 0.000000,nan"
    ),
    "nothing": Refused(b"", "expected a lattice, got nothing"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_lattice(name: str) -> None:
    refused = REFUSED[name]
    with pytest.raises(LatticeError, match=rf"^req: byte \d+: .*{re.escape(refused.error)}"):
        parse(refused.value, "req")


PATHLESS = {
    "no state": make.binary(Toy(0, (), {}), start=-1),
    "one state that is not final": make.binary(Toy(1, (), {})),
    "no final state": make.binary(Toy(2, (arc(),), {})),
    "a final state that is not reached": make.binary(Toy(3, (arc(),), {2: (0.0, 0.0, ())})),
    "arcs of infinite cost alone": make.binary(Toy(2, (arc(graph=INF, acoustic=INF),), ONE)),
    "text without a line": b"\n\n",
}


@pytest.mark.parametrize("name", PATHLESS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_without_a_path(name: str, function: str) -> None:
    lattice = parse(PATHLESS[name], "req")
    if function in EMPTY:
        assert FUNCTIONS[function](lattice) == EMPTY[function]
    elif function.startswith("depth"):  # counts what can be reached, path or not
        assert FUNCTIONS[function](lattice) in (1.0, [], [1, 1, 1])
    else:
        text = "req: byte 0: the lattice has no path to a final state; was decoding cut off?"
        with pytest.raises(UtteranceError, match=rf"^{re.escape(text)}$"):
            FUNCTIONS[function](lattice)


WORDLESS = {
    "one state": (make.binary(Toy(1, (), {0: (1.5, 2.0, ())})), 0),
    "an epsilon-only path": (make.binary(Toy(3, (arc(word=0, n=0), arc(1, 2, 0, n=0)), {2: (0.0, 0.0, ())})), 0),
    "silence alone": (make.binary(Toy(2, (Arc(0, 1, 0, 1.0, 2.0, make.frames(make.SIL, 4)),), ONE)), 4),
}


@pytest.mark.parametrize("name", WORDLESS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_without_a_word(name: str, function: str) -> None:
    value, n_frames = WORDLESS[name]
    lattice = parse(value, "req")
    got = FUNCTIONS[function](lattice)
    if function == "best_paths":
        (path,) = _core.best_paths(lattice, 5, SCALES)
        assert (path.words, len(path.transition_ids)) == ([], n_frames)
    elif function == "nbest":
        assert [h.words for h in DECODER.nbest(lattice, 5)] == [()]
    elif function == "best_path":
        assert DECODER.best_path(lattice).words == ()
        assert DECODER.best_path(lattice).posterior == 1.0
    elif function in ("n_frames", "rescale", "to_compact", "to_state_level", "connect", "prune"):
        assert got == n_frames
    elif function == "nbest as lattices":
        assert got == [n_frames]
    elif function == "sentence_confidence":
        assert got == INF
    elif function == "oracle":
        assert (got.words, got.n_deletions, got.n_errors) == ((), 2, 2)  # type: ignore[attr-defined]
    elif function == "to_bytes":
        assert got == [n_frames] * 4


ODD = {
    "words without frames": Toy(2, (arc(n=0),), ONE),
    "a state that is not reached, and one that leads nowhere": Toy(5, (arc(), arc(0, 2), arc(3, 1, 2), arc(3, 4)), ONE),
    "an arc of infinite cost beside a real one": Toy(2, (arc(), arc(word=2, graph=INF, acoustic=INF)), ONE),
    "costs near the end of what a float holds": Toy(2, (arc(graph=3e38, acoustic=-3e38), arc(word=2)), ONE),
    "the same arc twice": Toy(2, (arc(), arc()), ONE),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_odd_ones_are_answered(name: str, function: str) -> None:
    """Every function answers; where a word is certain it is the answer."""
    lattice = parse(make.binary(ODD[name]), "req")
    FUNCTIONS[function](lattice)
    paths = _core.best_paths(lattice, 5, SCALES)
    expected = [p.total_cost for p in paths]
    assert expected == sorted(expected)
    assert len(paths) == {"words without frames": 1, "costs near the end of what a float holds": 2,
                          "the same arc twice": 2}.get(name, 1)  # fmt: skip


TABLES = {
    "transition model": lambda data: _core.TransitionModel(data, "F"),
    "word boundaries": lambda data: _core.WordBoundary(data, "F"),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("data", [b"", b"\0B", b"\xff" * 100, b" " * 100, b"\n" * 3, b"<TransitionModel> " * 50])
def test_files_that_are_no_models(table: str, data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^F:"):
        TABLES[table](data)


def test_a_phone_number_beyond_all_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(FormatError, match=r"^F:1: expected '<phone-id> nonword"):
        _core.WordBoundary(b"99999999 begin\n", "F")
    model = make.transition_model_text().replace(b"1 2 3 4 5 \n</ForPhones>", b"99999999 \n</ForPhones>")
    with pytest.raises(FormatError, match="expected a phone number, got '99999999'"):
        _core.TransitionModel(model, "F")


@pytest.mark.parametrize("write", [make.transition_model_binary, make.transition_model_text])
def test_a_state_with_more_transitions_than_any_topology_has(write: Callable[..., bytes]) -> None:
    # Their number multiplies with that of the tuples: a short file could ask for all memory.
    hmms = (((*[0] * 64, 1), ()),)
    with pytest.raises(FormatError, match=r"^F: byte \d+: expected at most 64 transitions of an HMM state, got "):
        _core.TransitionModel(write(hmms), "F")
    assert _core.TransitionModel(write((((*[0] * 63, 1), ()),)), "F").n_transition_ids == 5 * 64
