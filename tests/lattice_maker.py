"""Makes small Kaldi lattices and transition models, byte by byte as Kaldi writes them, and lists all paths of one.

``python tests/lattice_maker.py`` writes the files of tests/data/lattices again.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data" / "lattices"
INF = math.inf


@dataclass(frozen=True)
class Arc:
    """From state to state; ``tids`` are the transition-ids, one a frame."""

    begin: int
    end: int
    word: int
    graph: float
    acoustic: float
    tids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Toy:
    """A compact lattice in plain sight. The start is state 0; ``finals`` maps a state to (graph, acoustic, tids)."""

    n_states: int
    arcs: tuple[Arc, ...]
    finals: dict[int, tuple[float, float, tuple[int, ...]]]


@dataclass(frozen=True)
class ToyPath:
    words: tuple[int, ...]
    tids: tuple[int, ...]
    graph: float
    acoustic: float


def all_paths(toy: Toy) -> Iterator[ToyPath]:
    """Every path from the start to a final state."""

    def go(state: int, words: tuple[int, ...], tids: tuple[int, ...], graph: float, ac: float) -> Iterator[ToyPath]:
        if state in toy.finals:
            final_graph, final_ac, final_tids = toy.finals[state]
            yield ToyPath(words, tids + final_tids, graph + final_graph, ac + final_ac)
        for a in toy.arcs:
            if a.begin == state:
                word = (a.word,) if a.word else ()
                yield from go(a.end, words + word, tids + a.tids, graph + a.graph, ac + a.acoustic)

    return go(0, (), (), 0.0, 0.0) if toy.n_states else iter(())


def header(arc_type: str, n_states: int, fst_type: str = "vector", flags: int = 0, start: int = 0) -> bytes:
    """OpenFst's header."""
    types = b"".join(struct.pack("<i", len(t)) + t.encode() for t in (fst_type, arc_type))
    return struct.pack("<i", 0x7EB2FDD6) + types + struct.pack("<iiQqqq", 2, flags, 3, start, n_states, 0)


def binary(toy: Toy, double: bool = False, start: int | None = None) -> bytes:
    """The toy as a CompactLattice."""

    def weight(graph: float, acoustic: float, tids: Sequence[int]) -> bytes:
        return struct.pack(f"<{'dd' if double else 'ff'}i{len(tids)}i", graph, acoustic, len(tids), *tids)

    out = header("compactlattice84" if double else "compactlattice44", toy.n_states, start=start or 0)
    for state in range(toy.n_states):
        out += weight(*toy.finals.get(state, (INF, INF, ())))
        arcs = [a for a in toy.arcs if a.begin == state]
        out += struct.pack("<q", len(arcs))
        for a in arcs:
            out += struct.pack("<ii", a.word, a.word) + weight(a.graph, a.acoustic, a.tids) + struct.pack("<i", a.end)
    return out


def spelled_out(toy: Toy) -> list[tuple[int, int, int, int, float, float]]:
    """Arcs (begin, end, tid, word, graph, acoustic) of the state-level form; (state, -1, 0, 0, ...) is a final state.

    As Kaldi converts: the word and the costs lie on the first of an arc's frames.
    """
    rows: list[tuple[int, int, int, int, float, float]] = []
    n_states = toy.n_states

    def chain(begin: int, end: int | None, word: int, graph: float, acoustic: float, tids: Sequence[int]) -> None:
        nonlocal n_states
        for i, tid in enumerate(tids):
            to = n_states if end is None or i + 1 < len(tids) else end
            n_states += to == n_states
            rows.append((begin, to, tid, word, graph, acoustic))
            begin, word, graph, acoustic = to, 0, 0.0, 0.0
        if end is None:
            rows.append((begin, -1, 0, 0, graph, acoustic))
        elif not tids:
            rows.append((begin, end, 0, word, graph, acoustic))

    for a in toy.arcs:
        chain(a.begin, a.end, a.word, a.graph, a.acoustic, a.tids)
    for state, (graph, acoustic, tids) in toy.finals.items():
        chain(state, None, 0, graph, acoustic, tids)
    return sorted(rows, key=lambda row: row[0])


def binary_noncompact(toy: Toy, double: bool = False) -> bytes:
    """The toy as a state-level Lattice."""
    rows, cost = spelled_out(toy), "<dd" if double else "<ff"
    n_states = 1 + max(max(row[0], row[1]) for row in rows)
    out = header("lattice8" if double else "lattice4", n_states)
    for state in range(n_states):
        final = [row[4:] for row in rows if row[0] == state and row[1] < 0]
        out += struct.pack(cost, *(final[0] if final else (INF, INF)))
        arcs = [row for row in rows if row[0] == state and row[1] >= 0]
        out += struct.pack("<q", len(arcs))
        for _, end, tid, word, graph, acoustic in arcs:
            out += struct.pack("<ii", tid, word) + struct.pack(cost, graph, acoustic) + struct.pack("<i", end)
    return out


def text(toy: Toy) -> bytes:
    """The toy as a CompactLattice in text form, from the newline behind the key to the empty line."""
    lines = []
    for state in range(toy.n_states):
        for a in toy.arcs:
            if a.begin == state:
                weight = f"{a.graph!r},{a.acoustic!r},{'_'.join(map(str, a.tids))}"
                # OpenFst leaves out a weight of one.
                lines.append(f"{state}\t{a.end}\t{a.word}" + ("" if weight == "0.0,0.0," else f"\t{weight}"))
        if state in toy.finals:
            graph, acoustic, tids = toy.finals[state]
            weight = f"{graph!r},{acoustic!r},{'_'.join(map(str, tids))}"
            lines.append(f"{state}" + ("" if weight == "0.0,0.0," else f"\t{weight}"))
    return ("\n" + "".join(line + "\n" for line in lines) + "\n").encode()


def text_noncompact(toy: Toy) -> bytes:
    """The toy as a state-level Lattice in text form."""
    lines = []
    for begin, end, tid, word, graph, acoustic in spelled_out(toy):
        weight = "" if graph == acoustic == 0 else f"\t{graph!r},{acoustic!r}"
        lines.append(f"{begin}{weight}\n" if end < 0 else f"{begin}\t{end}\t{tid}\t{word}{weight}\n")
    return ("\n" + "".join(lines) + "\n").encode()


FORMS: dict[str, Callable[[Toy], bytes]] = {
    "binary": binary,
    "double": lambda toy: binary(toy, double=True),
    "text": text,
    "noncompact": binary_noncompact,
    "noncompact double": lambda toy: binary_noncompact(toy, double=True),
    "noncompact text": text_noncompact,
}


def archive(entries: dict[str, bytes]) -> bytes:
    """A table of values."""
    return b"".join(key.encode() + b" " + value for key, value in entries.items())


# The toy model: one-state phones as in chain models. Phone p has the transition-ids 2p-1 (self-loop) and 2p (out).
SIL, BEGIN, END, INTERNAL, SINGLETON = 1, 2, 3, 4, 5
WORD_BOUNDARY = b"1 nonword\n2 begin\n3 end\n4 internal\n5 singleton\n"
WORDS = {0: "<eps>", 1: "a", 2: "harbour", 3: "light", 4: "[noise]"}
_STATES = ((0, 1), ())  # for each HMM state, where its transitions lead


def frames(phone: int, n: int) -> tuple[int, ...]:
    """n frames of one phone, self-loops behind (the graph was made with reorder)."""
    return (2 * phone,) + (2 * phone - 1,) * (n - 1)


def phones(*runs: tuple[int, int]) -> tuple[int, ...]:
    """The transition-ids of (phone, frames) runs."""
    return tuple(tid for phone, n in runs for tid in frames(phone, n))


def transition_model_binary(
    hmms: Sequence[Sequence[Sequence[int]]] = (_STATES,),
    hmm_of_phone: Sequence[int] = (-1, 0, 0, 0, 0, 0),
    tuples: Sequence[Sequence[int]] = tuple((p, 0, p) for p in range(1, 6)),
    chain: bool = True,
) -> bytes:
    """A transition model; ``tuples`` holds (phone, HMM state, pdf); ``chain`` writes <Tuples>, else <Triples>."""

    def vector(values: Sequence[int]) -> bytes:
        return b"\4" + struct.pack(f"<i{len(values)}i", len(values), *values)

    def number(value: int) -> bytes:
        return b"\4" + struct.pack("<i", value)

    out = b"\0B<TransitionModel> <Topology> "
    out += vector([p for p, h in enumerate(hmm_of_phone) if h >= 0]) + vector(hmm_of_phone)
    out += (number(-1) if chain else b"") + number(len(hmms))
    for hmm in hmms:
        out += number(len(hmm))
        for state, targets in enumerate(hmm):
            out += number(state if targets else -1) + (number(state if targets else -1) if chain else b"")
            out += number(len(targets))
            out += b"".join(number(to) + b"\4" + struct.pack("<f", 0.5) for to in targets)
    name = b"Tuples" if chain else b"Triples"
    out += b"</Topology> <" + name + b"> " + number(len(tuples))
    for phone, state, pdf in tuples:
        out += number(phone) + number(state) + number(pdf) + (number(pdf) if chain else b"")
    out += b"</" + name + b"> <LogProbs> FV " + number(0) + b"</LogProbs> </TransitionModel> "
    return out + b"what follows in a final.mdl is of no interest"


def transition_model_text(
    hmms: Sequence[Sequence[Sequence[int]]] = (_STATES,),
    hmm_of_phone: Sequence[int] = (-1, 0, 0, 0, 0, 0),
    tuples: Sequence[Sequence[int]] = tuple((p, 0, p) for p in range(1, 6)),
    chain: bool = True,
) -> bytes:
    """The same in text form."""
    out = "<TransitionModel> \n<Topology> \n"
    for h, hmm in enumerate(hmms):
        out += "<TopologyEntry> \n<ForPhones> \n"
        out += "".join(f"{p} " for p, of in enumerate(hmm_of_phone) if of == h) + "\n</ForPhones> \n"
        for state, targets in enumerate(hmm):
            out += f"<State> {state} "
            if targets:
                out += f"<ForwardPdfClass> {state} <SelfLoopPdfClass> 1 " if chain else f"<PdfClass> {state} "
            out += "".join(f"<Transition> {to} 0.5 " for to in targets) + "</State> \n"
        out += "</TopologyEntry> \n"
    name = "Tuples" if chain else "Triples"
    out += f"</Topology> \n<{name}> {len(tuples)} \n"
    for phone, state, pdf in tuples:
        out += f"{phone} {state} {pdf} " + (f"{pdf} \n" if chain else "\n")
    return (out + f"</{name}> \n<LogProbs> \n [ 0 0 ]\n</LogProbs> \n</TransitionModel> \n").encode()


# "[sil] a harbour [sil]", against "[sil] a light [sil]" and, dearer, "a" alone. As in real lattices the words lie
# early, and the frames of one word spread over two arcs.
FORK = Toy(
    n_states=5,
    arcs=(
        Arc(0, 1, 1, 1.5, 20.0, phones((SIL, 4), (SINGLETON, 2))),
        Arc(1, 2, 2, 3.25, 40.0, (*frames(SINGLETON, 2)[1:], *phones((BEGIN, 3), (INTERNAL, 2)))),
        Arc(1, 2, 3, 4.0, 42.5, (*frames(SINGLETON, 3)[1:], *phones((BEGIN, 2), (INTERNAL, 2)))),
        Arc(2, 3, 0, 0.5, 10.0, phones((END, 2), (SIL, 3))),
        Arc(1, 4, 0, 12.0, 55.0, phones((SIL, 11))),
    ),
    finals={3: (0.75, 0.0, ()), 4: (0.0, 0.0, frames(SIL, 2)[1:])},
)
# One word without an alternative.
LINE = Toy(2, (Arc(0, 1, 3, 2.0, 30.0, phones((SIL, 2), (BEGIN, 3), (END, 4), (SIL, 2))),), {1: (0.0, 0.0, ())})


def files() -> dict[str, bytes]:
    """What tests/data/lattices holds."""
    toys = {"call-1": FORK, "call-2": LINE}
    return {
        "lat.ark": archive({key: binary(toy) for key, toy in toys.items()}),
        "lat.txt": archive({key: text(toy) for key, toy in toys.items()}),
        "lat.noncompact.ark": archive({key: binary_noncompact(toy) for key, toy in toys.items()}),
        "trans.mdl": transition_model_binary(),
        "word_boundary.int": WORD_BOUNDARY,
        "words.txt": "".join(f"{word} {i}\n" for i, word in WORDS.items()).encode(),
    }


if __name__ == "__main__":
    DATA.mkdir(parents=True, exist_ok=True)
    for name, data in files().items():
        (DATA / name).write_bytes(data)
