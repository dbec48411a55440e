"""Lattices of other packages: PyKaldi's in, k2's out, and N-best lists by k2.

Neither package is needed for anything else, and neither is loaded before a function here asks for it.

    lattice = from_pykaldi(recognizer.decode(features))          # PyKaldi's objects, in Kaldi's own bytes
    fsa = to_k2(lattice, acoustic_scale=0.1)                     # a k2.Fsa, where `import k2` works
    for hypotheses in nbest_k2(lattices, 10, decoder, python=".venv-k2/bin/python"): ...   # k2 in a process of its own
"""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from types import ModuleType
from typing import Any

from kaldi_punct import _core
from kaldi_punct.errors import ConfigError, KaldiPunctError, LatticeError, MissingDependencyError, UtteranceError
from kaldi_punct.kaldi import k2_worker
from kaldi_punct.kaldi.lattice import Decoder, Lattice, read_archive, to_bytes
from kaldi_punct.types import Hypothesis

__all__ = ["from_pykaldi", "nbest_k2", "to_k2"]

N_SAMPLES = 6000  # finds all of the golden 10-best lists (docs/lattices.md)


def from_pykaldi(value: Any, name: str = "pykaldi") -> Lattice:
    """The lattice that a PyKaldi object holds.

    PyKaldi writes it in Kaldi's own form to a temporary file, and the native core reads that. Its recognizers give
    acoustic costs unscaled, as lattices on disk have them.

    Args:
        value: a ``CompactLatticeVectorFst`` or ``LatticeVectorFst`` of ``kaldi.fstext``, as its readers and aligners
            give them; or the dictionary that a recognizer's ``decode`` returns.
        name: of the utterance, for error texts; holds no blank.

    Raises:
        MissingDependencyError: PyKaldi is not installed.
        ConfigError: the value holds no lattice.
        LatticeError: the lattice is empty or cannot be used.
    """
    fstext, table = _pykaldi("kaldi.fstext"), _pykaldi("kaldi.util.table")
    if isinstance(value, Mapping):
        if "lattice" not in value:
            raise ConfigError(
                f"{name}: expected a recognizer's output with a 'lattice', got {sorted(map(str, value))}; decode with "
                "a recognizer that makes lattices, such as NnetLatticeFasterRecognizer"
            )
        value = value["lattice"]
    if isinstance(value, fstext.CompactLatticeVectorFst):
        writer_type = table.CompactLatticeWriter
    elif isinstance(value, fstext.LatticeVectorFst):
        writer_type = table.LatticeWriter
    else:
        raise ConfigError(
            f"{name}: expected PyKaldi's CompactLatticeVectorFst or LatticeVectorFst, got {type(value).__name__}; "
            "give the lattice itself or what a recognizer's decode returns"
        )
    with tempfile.TemporaryDirectory(prefix="kaldi_punct-") as folder:
        path = Path(folder) / "lat.ark"
        with writer_type(f"ark:{path}") as writer:
            writer[name] = value
        with path.open("rb") as stream:
            lattice = next(item for _, item in read_archive(stream, "pykaldi"))
    if isinstance(lattice, LatticeError):
        raise lattice
    return lattice


def to_k2(
    lattice: Lattice,
    *,
    acoustic_scale: float,
    lm_scale: float = 1.0,
    word_ins_penalty: float = 0.0,
    state_level: bool = False,
    device: str = "cpu",
) -> Any:
    """The lattice as a ``k2.Fsa``: trimmed, its states in topological order, label -1 on the arcs that end a path.

    Scores are negated costs: ``fsa.scores = lm_scale * fsa.lm_scores + acoustic_scale * fsa.ac_scores``, the two
    attributes unscaled; ``lm_scores`` holds the word insertion penalty.

    Args:
        lattice: as read; of either form.
        acoustic_scale: multiplies acoustic costs (1/LMWT).
        lm_scale: multiplies graph costs.
        word_ins_penalty: added to the graph cost of each word.
        state_level: one arc a frame, labels are transition-ids, ``aux_labels`` word-ids (0: none), for what works on
            frames. Else one arc a word or so, labels are word-ids (0: none), and the ragged attribute ``tids`` holds
            the transition-ids of each arc, for rescoring and paths.
        device: ``cpu`` or ``cuda:0``.

    Returns:
        A single Fsa; ``k2.Fsa.from_fsas([...])`` makes an FsaVec of several, with their attributes.

    Raises:
        MissingDependencyError: k2 is not installed in this Python.
        UtteranceError: no path leads to the end; k2 has no such Fsa.
        ConfigError: a scale is no finite number.
    """
    scales = _scales(lm_scale, acoustic_scale, word_ins_penalty)
    if not _has_k2():
        raise MissingDependencyError(
            f"k2: expected the package in this Python ({_version()}) for k2 objects, got none; install the wheel for "
            "your PyTorch from the k2 project's page, or take nbest_k2(..., python=) with a Python that has it"
        )
    graph, _ = k2_worker.read_value(to_bytes(lattice, compact=not state_level))
    if not graph.n_states:
        raise _no_path(lattice.origin)
    return k2_worker.to_fsa(graph, scales, device)


def nbest_k2(
    lattices: Iterable[Lattice],
    n: int,
    decoder: Decoder,
    *,
    n_samples: int = N_SAMPLES,
    device: str | None = None,
    python: str | PathLike[str] | None = None,
) -> Iterator[tuple[Hypothesis, ...] | UtteranceError | LatticeError]:
    """The n best hypotheses of each lattice by k2, best first, in the order of the lattices.

    The first is exact (``k2.shortest_path``). The others are the best among random paths (``k2.random_paths``), no two
    with the same words: k2 may miss some that ``Decoder.nbest`` finds, and those it finds have the same costs. Nothing
    is random about the answer. All lattices are written to a temporary file first; k2 runs once for all of them.

    Args:
        lattices: as read.
        n: how many, at least 1.
        decoder: the words, scales and word times of the hypotheses, as in ``decoder.nbest``.
        n_samples: how many random paths k2 draws of each lattice; more find more, and take longer.
        device: ``cpu`` or ``cuda:0``; None for a GPU where k2 has one.
        python: an interpreter that has k2 (``scripts/setup_k2`` makes one), to run k2 in a process of its own; None to
            run it here.

    Returns:
        For a lattice without a path, or of other words or another model, the error in its place.

    Raises:
        MissingDependencyError: k2 is not installed here, or not in ``python``.
        ConfigError: a value is out of range, or ``python`` cannot be run.
        KaldiPunctError: k2 failed.
    """
    if n < 1 or n_samples < 1:
        name, value = ("n", n) if n < 1 else ("n_samples", n_samples)
        raise ConfigError(f"{name}: expected at least 1, got {value}")
    if python is None and not _has_k2():
        raise MissingDependencyError(
            f"k2: expected the package in this Python ({_version()}), got none; make a Python that has it with "
            "'scripts/setup_k2 .venv-k2' and give python='.venv-k2/bin/python'"
        )
    return _nbest(lattices, n, decoder, n_samples, device, None if python is None else fspath(python))


def _nbest(
    lattices: Iterable[Lattice], n: int, decoder: Decoder, n_samples: int, device: str | None, python: str | None
) -> Iterator[tuple[Hypothesis, ...] | UtteranceError | LatticeError]:
    core_scales = _core.Scales(decoder.lm_scale, decoder.acoustic_scale, decoder.word_ins_penalty)
    scales = _scales(decoder.lm_scale, decoder.acoustic_scale, decoder.word_ins_penalty)
    about: list[tuple[str, float]] = []  # of each lattice: where it was read, and the cost of all its paths
    with tempfile.TemporaryDirectory(prefix="kaldi_punct-") as folder:
        source, target = Path(folder) / "lat.ark", Path(folder) / "nbest.ark"
        with source.open("wb") as out:
            for lattice in lattices:
                out.write(b"%d " % len(about) + to_bytes(lattice))
                about.append((lattice.origin, _core.total_cost_of_all(lattice, core_scales)))
        if not about:
            return
        if python is None:
            _run_here(source, target, n, scales, n_samples, device)
        else:
            _run_there(python, source, target, n, scales, n_samples, device)
        yield from _read_answers(target, about, decoder)


def _run_here(source: Path, target: Path, n: int, scales: k2_worker.Scales, n_samples: int, device: str | None) -> None:
    try:
        k2_worker.write_nbest(str(source), str(target), n, scales, n_samples, device)
    except ValueError as e:
        raise ConfigError(f"k2: {e}") from e


def _run_there(
    python: str, source: Path, target: Path, n: int, scales: k2_worker.Scales, n_samples: int, device: str | None
) -> None:
    command = [python, k2_worker.__file__, "--n", str(n), "--n-samples", str(n_samples),
               f"--lm-scale={scales.lm!r}", f"--acoustic-scale={scales.acoustic!r}",
               f"--word-ins-penalty={scales.word_ins_penalty!r}"]  # fmt: skip
    command += [] if device is None else ["--device", device]
    try:
        done = subprocess.run([*command, source, target], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as e:
        raise ConfigError(
            f"python: expected an interpreter that has k2, got '{python}' ({e.strerror}); make one with "
            "'scripts/setup_k2 .venv-k2' and give python='.venv-k2/bin/python'"
        ) from e
    if done.returncode == 0:
        return
    lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
    if done.returncode == k2_worker.NO_K2:
        raise MissingDependencyError(
            f"python: expected an interpreter that has k2, got '{python}' ({lines[-1]}); make one with "
            "'scripts/setup_k2 .venv-k2' and give python='.venv-k2/bin/python'"
        )
    if done.returncode == k2_worker.BAD_INPUT:
        raise ConfigError(f"k2: {lines[-1]}")
    # k2's own checks end the process with a long stack trace behind the line that matters.
    raise KaldiPunctError(f"k2: '{python}' ended with status {done.returncode}: " + " | ".join(lines[:3] + lines[-1:]))


def _read_answers(
    target: Path, about: list[tuple[str, float]], decoder: Decoder
) -> Iterator[tuple[Hypothesis, ...] | UtteranceError | LatticeError]:
    """The hypotheses of each lattice from the linear lattices ``<number>-<rank>``."""
    if not target.stat().st_size:  # no lattice has a path, and an empty archive is an error to its reader
        yield from (_no_path(origin) for origin, _ in about)
        return
    with target.open("rb") as stream:
        entries = read_archive(stream, "k2")
        key, linear = next(entries, ("", None))
        for i, (origin, all_paths_cost) in enumerate(about):
            found: list[Lattice] = []
            while linear is not None and int(key.partition("-")[0]) == i:
                if isinstance(linear, LatticeError):
                    raise linear
                found.append(linear)
                key, linear = next(entries, ("", None))
            try:
                yield tuple(_hypothesis(path, all_paths_cost, decoder) for path in found) or _no_path(origin)
            except LatticeError as e:
                yield LatticeError(f"{origin}: {e}")


def _hypothesis(linear: Lattice, all_paths_cost: float, decoder: Decoder) -> Hypothesis:
    hypothesis = decoder.best_path(linear)
    graph, acoustic = hypothesis.graph_cost or 0.0, hypothesis.acoustic_cost or 0.0
    total = decoder.lm_scale * graph + decoder.acoustic_scale * acoustic
    return replace(hypothesis, posterior=math.exp(min(all_paths_cost - total, 0.0)))


def _scales(lm: float, acoustic: float, word_ins_penalty: float) -> k2_worker.Scales:
    for name, value in (("lm_scale", lm), ("acoustic_scale", acoustic), ("word_ins_penalty", word_ins_penalty)):
        if not math.isfinite(value):
            raise ConfigError(f"{name}: expected a finite number, got {value}")
    return k2_worker.Scales(lm, acoustic, word_ins_penalty)


def _no_path(origin: str) -> UtteranceError:
    return UtteranceError(f"{origin}: the lattice has no path to a final state; was decoding cut off?")


def _has_k2() -> bool:
    return find_spec("k2") is not None


def _version() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def _pykaldi(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise MissingDependencyError(
            f"pykaldi: expected the package for its lattices, got none in this Python ({e}); it is built from source "
            "(https://github.com/pykaldi/pykaldi), and PyPI's pykaldi 0.0.1 is empty. Without it, write the lattices "
            "to an archive where they are made and read that"
        ) from e
