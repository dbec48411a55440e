"""Whether two lattices are the same weighted acceptor: the same paths, each with its words, frames and two costs.

State numbers, the order of arcs, and how far along a path its frames and costs lie may differ.

    assert difference(ours, golden) == ""

Both lattices are walked at once. A pair of states is reached with what one of them is ahead of the other in costs and
frames; what it is ahead must be the same whichever way the pair is reached, and nothing at a final state. Where two
arcs of a state have the same word, words and frames together tell them apart, and then what they lead to.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field

from kaldi_punct.kaldi.lattice import Lattice, to_bytes

Tids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Weight:
    graph: float
    acoustic: float
    tids: Tids


@dataclass(frozen=True, slots=True)
class Arc:
    word: int
    next: int
    weight: Weight


@dataclass(slots=True)
class Acceptor:
    """A compact lattice in plain sight, without the states of no use. ``start`` is -1 if there is no path."""

    start: int
    arcs: list[list[Arc]]
    finals: dict[int, Weight]
    shapes: dict[int, int] = field(default_factory=dict)  # of a state, without costs


def acceptor(value: bytes | Lattice) -> Acceptor:
    """Of a lattice, or of a binary CompactLattice as it stands in an archive; this reads it without the core."""
    data = to_bytes(value) if isinstance(value, Lattice) else value
    start, n_states = struct.unpack_from("<qq", data, 14 + 4 + len("compactlattice44") + 16)
    at = 14 + 4 + len("compactlattice44") + 40
    assert data[18:34] == b"compactlattice44"
    arcs: list[list[Arc]] = []
    finals: dict[int, Weight] = {}

    def weight(at: int) -> tuple[Weight, int]:
        graph, acoustic, n = struct.unpack_from("<ffi", data, at)
        return Weight(graph, acoustic, struct.unpack_from(f"<{n}i", data, at + 12)), at + 12 + 4 * n

    for state in range(n_states):
        final, at = weight(at)
        if final.graph != float("inf"):
            finals[state] = final
        (n_arcs,) = struct.unpack_from("<q", data, at)
        at += 8
        of_state = []
        for _ in range(n_arcs):
            word, _ = struct.unpack_from("<ii", data, at)
            of_arc, at = weight(at + 8)
            (to,) = struct.unpack_from("<i", data, at)
            at += 4
            of_state.append(Arc(word, to, of_arc))
        arcs.append(of_state)
    assert at == len(data), "bytes are left over"
    return _trimmed(Acceptor(start, arcs, finals))


def difference(ours: bytes | Lattice, theirs: bytes | Lattice, atol: float = 2e-3, rtol: float = 1e-5) -> str:
    """What differs first, or "" if nothing does.

    Args:
        ours, theirs: lattices, or binary values of CompactLattices.
        atol: costs may differ by this; along paths, so that it must hold for sums.
        rtol: and by this share of the costs of an arc, as text has six digits.
    """
    a, b = acceptor(ours), acceptor(theirs)
    if a.start < 0 or b.start < 0:
        return "" if a.start == b.start else f"only one has a path: starts {a.start} and {b.start}"
    ahead: dict[tuple[int, int], tuple[float, float, Tids, Tids]] = {(a.start, b.start): (0.0, 0.0, (), ())}
    to_do = [(a.start, b.start)]
    while to_do:
        pair = to_do.pop()
        here = f"states {pair[0]} and {pair[1]}"
        graph, acoustic, more_a, more_b = ahead[pair]
        finals = a.finals.get(pair[0]), b.finals.get(pair[1])
        if (finals[0] is None) != (finals[1] is None):
            return f"{here}: only one is final"
        steps = [] if finals[0] is None or finals[1] is None else [(finals[0], finals[1], None)]
        matched = _matched(a, b, pair)
        if isinstance(matched, str):
            return f"{here}: {matched}"
        for x, y in matched:
            steps.append((x.weight, y.weight, (x.next, y.next)))
        for wa, wb, to in steps:
            slack = atol + rtol * max(abs(wa.graph), abs(wb.graph), abs(wa.acoustic), abs(wb.acoustic))
            ta, tb = more_a + wa.tids, more_b + wb.tids
            n = min(len(ta), len(tb))
            if ta[:n] != tb[:n]:
                return f"{here}: frames {ta[:n]} and {tb[:n]} on the way to {to}"
            now = (graph + wa.graph - wb.graph, acoustic + wa.acoustic - wb.acoustic, ta[n:], tb[n:])
            before = (0.0, 0.0, (), ()) if to is None else ahead.get(to)
            if before is None and to is not None:
                ahead[to] = now
                to_do.append(to)
            elif before is not None:
                if max(abs(now[0] - before[0]), abs(now[1] - before[1])) > slack:
                    return f"{here}: costs differ by {now[:2]}, not {before[:2]}, on the way to {to}"
                if now[2:] != before[2:]:
                    return f"{here}: frames differ by {now[2:]}, not {before[2:]}, on the way to {to}"
    return ""


def _matched(a: Acceptor, b: Acceptor, pair: tuple[int, int]) -> list[tuple[Arc, Arc]] | str:
    """The arcs of two states that belong together, or why they do not."""
    arcs_a, arcs_b = a.arcs[pair[0]], b.arcs[pair[1]]
    words_a, words_b = Counter(arc.word for arc in arcs_a), Counter(arc.word for arc in arcs_b)
    if words_a != words_b:
        return f"words {dict(words_a - words_b)} only in the first, {dict(words_b - words_a)} only in the second"
    if words_a and max(words_a.values()) > 1:
        order_a = sorted(arcs_a, key=lambda x: _order(a, x))
        order_b = sorted(arcs_b, key=lambda x: _order(b, x))
    else:
        order_a, order_b = (sorted(arcs, key=lambda x: x.word) for arcs in (arcs_a, arcs_b))
    return list(zip(order_a, order_b, strict=True))


def _order(of: Acceptor, arc: Arc) -> tuple[int, Tids, int, float, float]:
    return arc.word, arc.weight.tids, of.shapes[arc.next], arc.weight.graph, arc.weight.acoustic


def _trimmed(whole: Acceptor) -> Acceptor:
    """Without what lies on no path from the start to a final state; and with the shapes of the states."""
    reached: list[int] = []  # states, each after those that its arcs lead to
    seen: set[int] = set()
    stack = [(whole.start, False)] if whole.start >= 0 else []
    while stack:
        state, is_done = stack.pop()
        if is_done:
            reached.append(state)
        elif state not in seen:
            seen.add(state)
            stack.append((state, True))
            stack.extend((arc.next, False) for arc in whole.arcs[state])
    finals = dict(whole.finals)
    useful: set[int] = set()
    shapes: dict[int, int] = {}
    arcs: list[list[Arc]] = [[] for _ in whole.arcs]
    for state in reached:
        arcs[state] = [arc for arc in whole.arcs[state] if arc.next in useful]
        _take_end(state, arcs, finals)
        if state in finals or arcs[state]:
            useful.add(state)
            out = sorted((arc.word, arc.weight.tids, shapes[arc.next]) for arc in arcs[state])
            final = finals.get(state)
            shapes[state] = hash((final and final.tids, tuple(out)))
    finals = {state: final for state, final in finals.items() if state in useful}
    return Acceptor(whole.start if whole.start in useful else -1, arcs, finals, shapes)


def _take_end(state: int, arcs: list[list[Arc]], finals: dict[int, Weight]) -> None:
    """An arc without a word to a state where all ends is a final weight in another form; so it becomes one."""
    ends = [arc for arc in arcs[state] if arc.word == 0 and arc.next in finals and not arcs[arc.next]]
    if len(ends) == 1 and state not in finals:
        arc, last = ends[0].weight, finals[ends[0].next]
        finals[state] = Weight(arc.graph + last.graph, arc.acoustic + last.acoustic, arc.tids + last.tids)
        arcs[state].remove(ends[0])
