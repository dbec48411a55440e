"""Lattices: reading them, their best paths, and the times of the words (the Python face of the native core).

Nothing here opens a file: values come as bytes, archives as open binary streams. See ``kaldi.tables`` for rspecifiers.

    for key, lattice in read_archive(stream, "lat.1.gz"):
        if isinstance(lattice, LatticeError): ...
        else: print(key, decoder.best_path(lattice))
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from kaldi_punct import _core
from kaldi_punct._core import Lattice
from kaldi_punct.errors import ConfigError, LatticeError, UtteranceError
from kaldi_punct.kaldi.aligners import Aligner, LexiconAligner, WordAligner
from kaldi_punct.kaldi.sausage import MbrOptions, Sausage, decode_mbr, to_sausage, to_words
from kaldi_punct.types import Hypothesis, Word

__all__ = ["Decoder", "Lattice", "LexiconAligner", "WordAligner", "parse", "read_archive", "read_value", "to_bytes"]

_LOG = logging.getLogger(__name__)
_CHUNK_BYTES = 1 << 16
_MAX_PATHS = 2**31 - 1  # what the native core counts to
_Span = tuple[int, int, int | None]  # word-id, first frame, frames; None: no frame is left for it, or none is known


def parse(data: bytes, name: str = "") -> Lattice:
    """The lattice that one value of a Kaldi lattice table holds.

    Args:
        data: what follows ``<key> `` in an archive: binary or text, CompactLattice or Lattice.
        name: where it comes from, for error texts.

    Raises:
        LatticeError: it is no lattice, is cut short, has a cycle or a cost that is no number; the text has the byte.
    """
    return _core.parse(data, name)


def to_bytes(lattice: Lattice, *, binary: bool = True, compact: bool = True) -> bytes:
    """The value of a Kaldi lattice table for a lattice, as lattice-copy writes it; ``parse`` and Kaldi read it again.

    Args:
        lattice: to be written; costs become 32-bit floats.
        binary: OpenFst's binary form; else text, whose costs have six digits.
        compact: CompactLattice (arc type compactlattice44); else the state-level Lattice (lattice4). The lattice is
            converted where it came in the other form.

    Raises:
        LatticeError: a cost is too large for a 32-bit float.
    """
    return _core.write(lattice, binary, compact)


def read_archive(stream: BinaryIO, name: str) -> Iterator[tuple[str, Lattice | LatticeError]]:
    """The entries of a lattice archive in order, one in memory at a time.

    A value that is wrong but whose end is known (a cost that is no number, a bad line of text, a cycle) comes as the
    error in its place, and the entries behind it follow.

    Args:
        stream: an open archive, already decompressed.
        name: of the archive, for error texts.

    Raises:
        LatticeError: the stream is empty, cut short, or not a lattice archive. What came before was already given.
    """
    reader = _core.ArchiveReader(name, True)
    is_empty = True
    for key, lattice in _entries(reader, stream):
        is_empty = False
        yield key.decode(), lattice
    if is_empty:
        raise LatticeError(f"{name}: byte 0: expected a lattice archive, got nothing; did the decoding fail?")


def read_value(stream: BinaryIO, name: str) -> Lattice:
    """The one lattice that begins where the stream stands, as after seeking to an offset of a script file.

    Raises:
        LatticeError: as ``parse``; the byte in its text counts from where the stream stood.
    """
    for _, lattice in _entries(_core.ArchiveReader(name, False), stream):
        if isinstance(lattice, LatticeError):
            raise lattice
        return lattice
    raise LatticeError(f"{name}: byte 0: expected a lattice, got nothing")


def _entries(reader: _core.ArchiveReader, stream: BinaryIO) -> Iterator[tuple[bytes, Lattice | LatticeError]]:
    while True:
        # A long value is looked at again each time; as much again as is there keeps that linear.
        chunk = stream.read(max(_CHUNK_BYTES, reader.n_pending))
        if chunk:
            reader.feed(chunk)
        else:
            reader.end()
        while (entry := reader.next()) is not None:
            key, value = entry
            yield key, LatticeError(value) if isinstance(value, str) else value
        if not chunk:
            return


@dataclass(frozen=True)
class Decoder:
    """What makes words, times and scores out of a lattice.

    Attributes:
        words: word-ids to words (words.txt).
        aligner: finds the word times; None for words without times.
        frame_shift_s: length of a lattice frame, seconds; 0.03 for most chain models, 0.01 for others. Needed by the
            aligner.
        acoustic_scale: multiplies acoustic costs (1 / LMWT); 0.1 for most chain models.
        lm_scale: multiplies graph costs.
        word_ins_penalty: added to the graph cost of each word.
        is_aligned: the lattices given are word-aligned already, so that ``sausage`` needs no aligner.
    """

    words: Mapping[int, str]
    aligner: Aligner | None
    frame_shift_s: float | None
    acoustic_scale: float
    lm_scale: float = 1.0
    word_ins_penalty: float = 0.0
    is_aligned: bool = False

    def __post_init__(self) -> None:
        if (self.aligner is not None or self.is_aligned) and self.frame_shift_s is None:
            raise ConfigError("frame_shift_s: expected the length of a lattice frame (0.03 or 0.01 s) with word times")
        if self.frame_shift_s is not None and not 0 < self.frame_shift_s < 1:
            raise ConfigError(f"frame_shift_s: expected seconds between 0 and 1, got {self.frame_shift_s}")
        for name in ("acoustic_scale", "lm_scale", "word_ins_penalty"):
            if not math.isfinite(getattr(self, name)):
                raise ConfigError(f"{name}: expected a finite number, got {getattr(self, name)}")

    def nbest(
        self, lattice: Lattice, n: int, acoustic_scale: float | None = None, start_s: float = 0.0
    ) -> tuple[Hypothesis, ...]:
        """The n hypotheses of least total cost, best first; fewer if the lattice has fewer.

        Total cost is ``lm_scale * graph_cost + acoustic_scale * acoustic_cost``. A hypothesis' costs are Kaldi's,
        unscaled; the graph cost holds the word insertion penalty, as after lattice-add-penalty. Its posterior is its
        share of all paths of the lattice.

        Args:
            lattice: as read.
            n: how many, at least 1.
            acoustic_scale: in place of the decoder's.
            start_s: time of the lattice's first frame, seconds.

        Raises:
            UtteranceError: no path leads to the end.
            LatticeError: a word-id is not in the words, or the lattice is of another model.
            ConfigError: n or the scale is out of range.
        """
        if n < 1:
            raise ConfigError(f"n: expected at least 1 hypothesis, got {n}")
        scale = self.acoustic_scale if acoustic_scale is None else acoustic_scale
        if not math.isfinite(scale):
            raise ConfigError(f"acoustic_scale: expected a finite number, got {scale}")
        scales = _core.Scales(self.lm_scale, scale, self.word_ins_penalty)
        paths = _core.best_paths(lattice, min(n, _MAX_PATHS), scales)
        if not paths:
            raise UtteranceError(f"{lattice.origin}: the lattice has no path to a final state; was decoding cut off?")
        all_paths_cost = _core.total_cost_of_all(lattice, scales)
        known: dict[_Span, Word] = {}  # the paths of one lattice share most of their words
        return tuple(self._hypothesis(lattice, path, all_paths_cost, start_s, known) for path in paths)

    def best_path(self, lattice: Lattice, acoustic_scale: float | None = None, start_s: float = 0.0) -> Hypothesis:
        """The hypothesis of least total cost; arguments and errors as for ``nbest``."""
        return self.nbest(lattice, 1, acoustic_scale, start_s)[0]

    def sausage(self, lattice: Lattice, options: MbrOptions | None = None, start_s: float = 0.0) -> Sausage:
        """The words that may stand at each place, and the words chosen with their confidences.

        As lattice-to-ctm-conf after lattice-align-words. The words have times where the aligner gives them.

        Args:
            lattice: as read.
            options: how words are chosen; None: minimum Bayes risk decoding.
            start_s: time of the lattice's first frame, seconds.

        Raises:
            UtteranceError: no path leads to the end.
            LatticeError: a word-id is not in the words, the lattice is of another model, or is too large.
        """
        sausage = self.raw_sausage(lattice, options)
        try:
            return to_sausage(sausage, self.words, self._sausage_shift_s(), start_s)
        except LatticeError as e:
            raise LatticeError(f"{lattice.origin}: {e}") from e

    def raw_sausage(self, lattice: Lattice, options: MbrOptions | None = None) -> _core.Sausage:
        """The same in word-ids and frames; errors as for ``sausage``."""
        scales = _core.Scales(self.lm_scale, self.acoustic_scale, self.word_ins_penalty)
        sausage = decode_mbr(self._aligned(lattice), scales, options or MbrOptions())
        if not sausage.is_settled:
            _LOG.warning("%s: minimum Bayes risk decoding did not settle", lattice.origin)
        return sausage

    def confident(self, lattice: Lattice, options: MbrOptions | None = None, start_s: float = 0.0) -> Hypothesis:
        """The words chosen by ``sausage``, with times and confidences; they are of no single path, so have no costs."""
        sausage = self.raw_sausage(lattice, options)
        try:
            return Hypothesis(to_words(sausage, self.words, self._sausage_shift_s(), start_s))
        except LatticeError as e:
            raise LatticeError(f"{lattice.origin}: {e}") from e

    def _sausage_shift_s(self) -> float | None:
        return self.frame_shift_s if self.is_aligned or self.aligner is not None else None

    def _aligned(self, lattice: Lattice) -> Lattice:
        if self.is_aligned or self.aligner is None:
            return lattice
        aligned, problem = self.aligner.align_lattice(lattice)
        if problem:
            _LOG.info("%s: %s", lattice.origin, problem)
        return aligned

    def _hypothesis(
        self, lattice: Lattice, path: _core.Path, all_paths_cost: float, start_s: float, known: dict[_Span, Word]
    ) -> Hypothesis:
        words = []
        for span in self._spans(lattice, path):
            word = known.get(span)
            if word is None:
                word = known[span] = self._word(lattice, span, start_s)
            words.append(word)
        posterior = math.exp(min(all_paths_cost - path.total_cost, 0.0))
        return Hypothesis(tuple(words), path.graph_cost, path.acoustic_cost, posterior)

    def _spans(self, lattice: Lattice, path: _core.Path) -> list[_Span]:
        """The path's words; those that no frame is left for (a forced end) stay without frames."""
        if self.aligner is None:
            return [(word_id, 0, None) for word_id in path.words]
        try:
            alignment = self.aligner.align(path)
        except LatticeError as e:
            raise LatticeError(f"{lattice.origin}: {e}") from e
        if alignment.problem:
            _LOG.info("%s: %s", lattice.origin, alignment.problem)
        spans: list[_Span] = [s for s in alignment.segments if s[0] != 0]
        if alignment.n_unaligned > 0:
            spans += [(word_id, 0, None) for word_id in path.words[len(spans) :]]
        return spans

    def _word(self, lattice: Lattice, span: _Span, start_s: float) -> Word:
        word_id, first_frame, n_frames = span
        word = self.words.get(word_id)
        if word is None:
            raise LatticeError(
                f"{lattice.origin}: expected word-ids of the words table ({len(self.words)} words), got {word_id};"
                " give the words.txt of the graph that made the lattice"
            )
        if n_frames is None or self.frame_shift_s is None:
            return Word(word)
        return Word(word, start_s + first_frame * self.frame_shift_s, n_frames * self.frame_shift_s)
