"""Lattices into k2 and N-best paths out of it: what runs where ``import k2`` works.

k2's own wheel may want a Python older than this package's, so this file is also a script of its own: it needs Python
3.9, torch and k2, and nothing of kaldi_punct. It reads a Kaldi archive of lattices and writes one of linear lattices
keyed ``<key>-1 .. <key>-N``, best first, as lattice-to-nbest does:

    python3.9 k2_worker.py --n 10 --acoustic-scale 0.1 lat.ark nbest.ark

Costs are Kaldi's (negated natural logarithms); k2's scores are negated costs.
"""

from __future__ import annotations

import argparse
import mmap
import struct
import sys
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

# torch and k2 are imported where they are used: the package reads this file where they are missing.

NO_K2 = 3  # exit status: this Python has no k2
BAD_INPUT = 4  # exit status: an archive or an option that cannot be used; the last line of stderr says why

_MAGIC = 0x7EB2FDD6
_COMPACT, _STATE_LEVEL = "compactlattice44", "lattice4"
_MAX_BATCH_ARCS = 100_000  # of the lattices that k2 handles at once
_MAX_BATCH = 16
# Scores are multiplied by each of these before sampling: where many paths are nearly as good as the best one, a scale
# above 1 keeps the samples near it; where few are, one below 1 meets them. One scale alone misses up to half of them.
_SAMPLING_SCALES = (0.5, 1.0, 2.0)


class Graph(NamedTuple):
    """A lattice as k2 wants it: one row an arc, sorted by state; a label -1 ends a path.

    All states lie on a path from the start (state 0) to the final state (the last one), each behind those that lead to
    it; both are missing where the lattice has no path.
    """

    is_compact: bool
    n_states: int
    begin: list[int]
    end: list[int]
    label: list[int]  # words; transition-ids in the state-level form; -1 at an end
    word: list[int]
    graph: list[float]
    acoustic: list[float]
    tids: list[tuple[int, ...]]  # in the compact form


class Scales(NamedTuple):
    """The cost of a path is ``lm * (graph + word_ins_penalty * words) + acoustic * acoustic_cost``."""

    lm: float
    acoustic: float
    word_ins_penalty: float


class _Row(NamedTuple):
    begin: int
    end: int
    label: int
    word: int
    graph: float
    acoustic: float
    tids: tuple[int, ...]


def read_value(data: bytes | mmap.mmap, at: int = 0) -> tuple[Graph, int]:
    """The binary lattice (32-bit costs) that begins at byte ``at``, and where it ends.

    Raises:
        ValueError: it is none.
    """
    magic, n_type = struct.unpack_from("<ii", data, at)
    if magic != _MAGIC or data[at + 8 : at + 8 + n_type] != b"vector":
        raise ValueError(f"byte {at}: expected a binary lattice, got something else")
    at += 8 + n_type
    (n_type,) = struct.unpack_from("<i", data, at)
    arc_type = data[at + 4 : at + 4 + n_type].decode("latin-1")
    if arc_type not in (_COMPACT, _STATE_LEVEL):
        raise ValueError(f"byte {at}: expected arcs of {_COMPACT} or {_STATE_LEVEL}, got {arc_type}")
    at += 4 + n_type
    _, _, _, start, n_states, _ = struct.unpack_from("<iiQqqq", data, at)
    at += struct.calcsize("<iiQqqq")
    rows: list[_Row] = []
    for state in range(n_states):
        # A weight, then the number of arcs; the final weight of a state is infinite where a path cannot end.
        (graph, acoustic, tids), at = _read_weight(data, at, arc_type)
        if graph < float("inf"):
            rows.append(_Row(state, n_states, -1, -1, graph, acoustic, tids))
        (n_arcs,) = struct.unpack_from("<q", data, at)
        at += 8
        for _ in range(n_arcs):
            label, word = struct.unpack_from("<ii", data, at)
            (graph, acoustic, tids), at = _read_weight(data, at + 8, arc_type)
            (end,) = struct.unpack_from("<i", data, at)
            at += 4
            if graph < float("inf"):
                rows.append(_Row(state, end, label, word, graph, acoustic, tids))
    return _trimmed(rows, start, n_states, arc_type == _COMPACT), at


def _read_weight(data: bytes | mmap.mmap, at: int, arc_type: str) -> tuple[tuple[float, float, tuple[int, ...]], int]:
    graph, acoustic = struct.unpack_from("<ff", data, at)
    if arc_type == _STATE_LEVEL:
        return (graph, acoustic, ()), at + 8
    (n,) = struct.unpack_from("<i", data, at + 8)
    return (graph, acoustic, struct.unpack_from(f"<{n}i", data, at + 12)), at + 12 + 4 * n


def _trimmed(rows: list[_Row], start: int, n_states: int, is_compact: bool) -> Graph:
    """The rows between states on a path to the end, states numbered in topological order."""
    leaving: dict[int, list[_Row]] = {}
    for row in rows:
        leaving.setdefault(row.begin, []).append(row)
    behind = _behind_first(leaving, start)
    useful = {n_states}
    for state in behind:
        if any(row.end in useful for row in leaving.get(state, ())):
            useful.add(state)
    number = {state: i for i, state in enumerate(s for s in reversed(behind) if s in useful)}
    if not number or start not in number:
        return Graph(is_compact, 0, [], [], [], [], [], [], [])
    kept = [row for state in number for row in leaving.get(state, ()) if row.end in useful]
    return Graph(
        is_compact,
        len(number),
        [number[row.begin] for row in kept],
        [number[row.end] for row in kept],
        [row.label for row in kept],
        [row.word for row in kept],
        [row.graph for row in kept],
        [row.acoustic for row in kept],
        [row.tids for row in kept],
    )


def _behind_first(leaving: dict[int, list[_Row]], start: int) -> list[int]:
    """The states that can be reached, each behind all that it leads to; no recursion, since lattices are long."""
    order: list[int] = []
    seen: set[int] = set()
    stack: list[tuple[int, bool]] = [(start, False)]
    while stack:
        state, is_done = stack.pop()
        if is_done:
            order.append(state)
        elif state not in seen:
            seen.add(state)
            stack.append((state, True))
            stack.extend((row.end, False) for row in leaving.get(state, ()) if row.end not in seen)
    return order


def scores(graph: Graph, scales: Scales) -> tuple[list[float], list[float], list[float]]:
    """For each arc: score, LM score, acoustic score; ``score = lm * LM score + acoustic * acoustic score``.

    LM and acoustic scores are unscaled negated costs; the LM score holds the word insertion penalty.
    """
    lm = [-(g + scales.word_ins_penalty * (word > 0)) for g, word in _pairs(graph.graph, graph.word)]
    acoustic = [-a for a in graph.acoustic]
    return [scales.lm * x + scales.acoustic * y for x, y in _pairs(lm, acoustic)], lm, acoustic


def to_fsa(graph: Graph, scales: Scales, device: str = "cpu") -> Any:
    """The ``k2.Fsa`` of a lattice that has a path.

    Its attributes are ``lm_scores`` and ``ac_scores`` (float32, one an arc); in the compact form, whose labels are
    words, also ``tids`` (ragged, the frames of each arc); in the state-level form, whose labels are transition-ids,
    also ``aux_labels`` (words).
    """
    import k2
    import torch

    total, lm, acoustic = (torch.tensor(values, dtype=torch.float32) for values in scores(graph, scales))
    fsa = _bare_fsa(graph, total)
    fsa.lm_scores, fsa.ac_scores = lm, acoustic
    if graph.is_compact:
        fsa.tids = k2.RaggedTensor([list(tids) for tids in graph.tids], dtype=torch.int32)
    else:
        fsa.aux_labels = torch.tensor(graph.word, dtype=torch.int32)
    return fsa.to(device)


def _bare_fsa(graph: Graph, total: Any) -> Any:
    import k2
    import torch

    columns = [torch.tensor(column, dtype=torch.int32) for column in (graph.begin, graph.end, graph.label)]
    # k2 takes the bits of the scores as a fourth integer.
    return k2.Fsa(torch.stack([*columns, total.view(torch.int32)], dim=1))


def _fsa_vec(graphs: list[Graph], scales: Scales, device: str) -> Any:
    """Lattices in one FsaVec; the attribute ``arc_index`` holds rows of the graphs."""
    import k2
    import torch

    fsas = []
    for graph in graphs:
        fsa = _bare_fsa(graph, torch.tensor(scores(graph, scales)[0], dtype=torch.float32))
        fsa.arc_index = torch.arange(len(graph.begin), dtype=torch.int32)
        fsas.append(fsa)
    return k2.Fsa.from_fsas(fsas).to(device)


def best_paths(graphs: list[Graph], n: int, scales: Scales, n_samples: int, device: str) -> list[list[list[int]]]:
    """The best paths of each graph that were found, best first, no two with the same words; a path is a list of rows.

    The first is exact (k2.shortest_path); the others are the best of ``n_samples`` random ones (k2.random_paths, which
    has no randomness: the same lattices give the same answer).
    """
    import k2

    filled = [i for i, graph in enumerate(graphs) if graph.n_states]
    found: list[list[list[int]]] = [[] for _ in graphs]
    if not filled:
        return found
    fsas = _fsa_vec([graphs[i] for i in filled], scales, device)
    best = k2.shortest_path(fsas, use_double_scores=True)
    rows, splits = best.arc_index.tolist(), best.arcs.shape().row_splits(1).tolist()
    # Splits are of states; the last state of a linear FSA has no arc.
    at = 0
    for k, i in enumerate(filled):
        n_arcs = splits[k + 1] - splits[k] - 1
        found[i].append(rows[at : at + n_arcs])
        at += n_arcs
    if n > 1:
        rows, true_scores = fsas.arc_index.tolist(), fsas.scores
        for scale in _SAMPLING_SCALES:
            fsas.scores = true_scores * scale
            sampled = k2.random_paths(
                fsas, use_double_scores=True, num_paths=max(n_samples // len(_SAMPLING_SCALES), 1)
            )
            for k, paths in enumerate(sampled.unique()[0].tolist()):
                found[filled[k]].extend([rows[arc] for arc in path] for path in paths)
    return [_distinct(graph, paths, scales)[:n] for graph, paths in _pairs(graphs, found)]


def _distinct(graph: Graph, paths: list[list[int]], scales: Scales) -> list[list[int]]:
    """Sorted by cost; of paths with the same words the cheapest."""
    score = scores(graph, scales)[0]
    cheapest: dict[tuple[int, ...], tuple[float, list[int]]] = {}
    for path in paths:
        words = tuple(graph.word[row] for row in path if graph.word[row] > 0)
        cost = -sum(score[row] for row in path)
        if words not in cheapest or cost < cheapest[words][0]:
            cheapest[words] = (cost, path)
    return [path for _, path in sorted(cheapest.values(), key=lambda found: found[0])]


def linear_lattice(graph: Graph, path: list[int]) -> bytes:
    """The value of a Kaldi lattice table that holds one path, unscaled: a binary CompactLattice."""

    def weight(row: int) -> bytes:
        tids = graph.tids[row]
        return struct.pack(f"<ffi{len(tids)}i", graph.graph[row], graph.acoustic[row], len(tids), *tids)

    types = b"".join(struct.pack("<i", len(name)) + name for name in (b"vector", _COMPACT.encode()))
    out = [struct.pack("<i", _MAGIC), types, struct.pack("<iiQqqq", 2, 0, 3, 0, len(path), len(path) - 1)]
    never = struct.pack("<ffi", float("inf"), float("inf"), 0)
    for i, row in enumerate(path[:-1]):
        out += [never, struct.pack("<qii", 1, graph.word[row], graph.word[row]), weight(row), struct.pack("<i", i + 1)]
    out += [weight(path[-1]), struct.pack("<q", 0)]
    return b"".join(out)


def read_archive(stream: BinaryIO) -> Iterator[tuple[bytes, Graph]]:
    """Keys and lattices of a binary archive.

    Raises:
        ValueError: it holds something else, or ends inside a lattice.
    """
    if not stream.read(1):
        return
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = 0
        while at < len(data):
            blank = data.find(b" ", at)
            key = data[at:blank]
            if blank < 0:
                raise ValueError(f"byte {at}: expected '<key> ', got no blank")
            try:
                graph, at = read_value(data, blank + 1)
            except struct.error as e:
                raise ValueError(f"byte {at}: expected a whole lattice, got an end of the file ({e})") from e
            yield key, graph


def write_nbest(source: str, target: str, n: int, scales: Scales, n_samples: int, device: str | None) -> None:
    """Reads the archive ``source`` and writes the archive ``target`` of linear lattices (see the head of this file).

    Args:
        device: ``cpu`` or ``cuda:0``; None for a GPU where there is one.

    Raises:
        ValueError: an archive or a device that cannot be used.
    """
    import torch

    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    elif device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device: expected one that torch has, got {device}; take cpu")
    with open(source, "rb") as stream, open(target, "wb") as out:
        for batch in _batches(read_archive(stream)):
            paths = best_paths([g for _, g in batch], n, scales, n_samples, device)
            for (key, graph), of_key in _pairs(batch, paths):
                for rank, path in enumerate(of_key, 1):
                    out.write(key + b"-%d " % rank + linear_lattice(graph, path))


def _batches(entries: Iterable[tuple[bytes, Graph]]) -> Iterator[list[tuple[bytes, Graph]]]:
    batch: list[tuple[bytes, Graph]] = []
    n_arcs = 0
    for entry in entries:
        if batch and (len(batch) == _MAX_BATCH or n_arcs + len(entry[1].begin) > _MAX_BATCH_ARCS):
            yield batch
            batch, n_arcs = [], 0
        batch.append(entry)
        n_arcs += len(entry[1].begin)
    if batch:
        yield batch


def _pairs(a: list[Any], b: list[Any]) -> Iterator[tuple[Any, Any]]:
    """``zip(a, b, strict=True)``, which Python 3.9 lacks."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} items")
    return zip(a, b)  # noqa: B905


def main() -> int:
    """Entry point of the script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--n", type=int, default=1, help="paths of each lattice at most")
    parser.add_argument("--acoustic-scale", type=float, required=True, help="multiplies acoustic costs")
    parser.add_argument("--lm-scale", type=float, default=1.0, help="multiplies graph costs")
    parser.add_argument("--word-ins-penalty", type=float, default=0.0, help="added to the graph cost of each word")
    parser.add_argument("--n-samples", type=int, default=2000, help="random paths of each lattice")
    parser.add_argument("--device", help="cpu or cuda:0 (default: a GPU where there is one)")
    parser.add_argument("source", help="archive of binary lattices")
    parser.add_argument("target", help="archive of linear lattices")
    args = parser.parse_args()
    try:
        import k2  # noqa: F401
    except ImportError as e:
        print(e, file=sys.stderr)
        return NO_K2
    scales = Scales(args.lm_scale, args.acoustic_scale, args.word_ins_penalty)
    try:
        write_nbest(args.source, args.target, args.n, scales, args.n_samples, args.device)
    except (ValueError, OSError) as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    return 0


if __name__ == "__main__":
    sys.path.pop(0)  # the modules beside this file are not for the packages that k2 needs
    sys.exit(main())
