"""Tables of lattices, and the files of the decoder that made them.

The native core is loaded when a lattice is read, so that text tables work without it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kaldi_punct.errors import ConfigError, FormatError, LatticeError, UtteranceError
from kaldi_punct.kaldi.archives import open_archive
from kaldi_punct.kaldi.scales import find_scales
from kaldi_punct.kaldi.streams import RxFilename, open_rxfilename, parse_rspecifier, read_lines, split_key
from kaldi_punct.kaldi.symbols import read_symbols
from kaldi_punct.types import Hypothesis

if TYPE_CHECKING:
    from kaldi_punct.kaldi.aligners import Aligner, PhoneAligner
    from kaldi_punct.kaldi.lattice import Decoder, Lattice

_log = logging.getLogger(__name__)


def read_lattices(rspecifier: str) -> Iterator[tuple[str, Lattice | LatticeError]]:
    """Keys and lattices of ``ark:`` or ``scp:``, one in memory at a time; one that is bad is an error in its place.

    With ``scp,p:`` an entry whose file cannot be read is logged and left out.

    Raises:
        FormatError: no rspecifier, an empty table, or a broken stream; what came before it is given first.
    """
    from kaldi_punct.kaldi.lattice import read_archive

    spec = parse_rspecifier(rspecifier)
    if not spec.is_script:
        with open_rxfilename(spec.rxfilename) as stream:
            yield from read_archive(stream, spec.rxfilename)
        return
    n = 0
    for n, line in read_lines(spec.rxfilename):
        key, rx = split_key(spec.rxfilename, n, line)
        if not rx:
            raise FormatError(
                f"{spec.rxfilename}:{n}: expected '<key> <rxfilename>', got '{key}' alone; is it a script file?"
            )
        lattice = _read_entry(f"{spec.rxfilename}:{n}", key, rx)
        if isinstance(lattice, LatticeError) and spec.permissive:
            _log.warning("%s (left out)", lattice)
        else:
            yield key, lattice
    if not n:
        raise FormatError(
            f"{spec.rxfilename}: expected lines '<key> <rxfilename>', got an empty file; did the decoding fail?"
        )


@contextlib.contextmanager
def open_lattices(wspecifier: RxFilename, *, compact: bool = True) -> Iterator[Callable[[str, Lattice], None]]:
    """A table of lattices to write to: call what is given with a key and a lattice.

        with open_lattices("ark,t:| gzip -c > lat.gz") as write:
            write("utt-1", lattice)

    Args:
        wspecifier: ``ark:``, ``ark,t:`` (text) or ``ark,scp:`` before a path, ``path.gz``, ``| command`` or ``-``.
        compact: CompactLattice, as Kaldi's decoders write; else the state-level Lattice.

    Raises:
        FormatError: no wspecifier, or a file that cannot be written; from a call, as ``lattice.to_bytes``.
    """
    from kaldi_punct.kaldi.lattice import to_bytes

    with open_archive(wspecifier) as archive:

        def write(key: str, lattice: Lattice) -> None:
            archive.write(key, to_bytes(lattice, binary=archive.binary, compact=compact))

        yield write


def write_lattices(wspecifier: RxFilename, entries: Iterable[tuple[str, Lattice]], *, compact: bool = True) -> int:
    """Writes keys and lattices as they come; returns how many. Arguments and errors as for ``open_lattices``."""
    n = 0
    with open_lattices(wspecifier, compact=compact) as write:
        for key, lattice in entries:
            write(key, lattice)
            n += 1
    return n


def load_decoder(
    *,
    words: RxFilename,
    acoustic_scale: float,
    transition_model: RxFilename | None = None,
    word_boundary: RxFilename | None = None,
    align_lexicon: RxFilename | None = None,
    frame_shift_s: float | None = None,
    lm_scale: float = 1.0,
    word_ins_penalty: float = 0.0,
    is_aligned: bool = False,
) -> Decoder:
    """What turns lattices into words, from the decoder's files.

    Args:
        words: words.txt of the decoding graph.
        acoustic_scale: multiplies acoustic costs (1/LMWT).
        transition_model: final.mdl or trans.mdl; with ``word_boundary`` or ``align_lexicon`` it gives word times.
        word_boundary: phones/word_boundary.int.
        align_lexicon: phones/align_lexicon.int, in place of it.
        frame_shift_s: seconds between frames of the lattices; needed for word times.
        lm_scale: multiplies graph costs.
        word_ins_penalty: added to the graph cost of each word.
        is_aligned: the lattices are word-aligned already (lattice-align-words).

    Raises:
        ConfigError: a value is out of range, or word times are asked for with half of what they need.
        FormatError: a file is not what it should be.
    """
    from kaldi_punct.kaldi.lattice import Decoder

    if word_boundary is not None and align_lexicon is not None:
        raise ConfigError("align_lexicon: expected it or word_boundary, got both; give one of them")
    phones = word_boundary if align_lexicon is None else align_lexicon
    if (transition_model is None) != (phones is None):
        given, missing = "transition_model", "word_boundary"
        if transition_model is None:
            given, missing = missing if align_lexicon is None else "align_lexicon", given
        raise ConfigError(f"{missing}: expected a file, got none with {given}; give both for word times, or neither")
    aligner = None
    if transition_model is not None and phones is not None:
        aligner = load_aligner(transition_model, word_boundary, align_lexicon)
    symbols = read_symbols(words)
    return Decoder(symbols, aligner, frame_shift_s, acoustic_scale, lm_scale, word_ins_penalty, is_aligned)


def read_nbest(
    rspecifier: str,
    words: RxFilename,
    n: int = 10,
    acoustic_scale: float | None = None,
    frame_shift_s: float | None = None,
    word_boundary: RxFilename | None = None,
    model: RxFilename | None = None,
    lm_scale: float = 1.0,
    word_ins_penalty: float | None = None,
) -> Iterator[tuple[str, tuple[Hypothesis, ...]]]:
    """Utterances and their hypotheses, best first; with word times where ``model`` and ``word_boundary`` are given.

    Utterances whose lattice is bad are logged and left out; the last line of the log counts them.

    Args:
        rspecifier: of lattices: ``ark:gunzip -c exp/chain/decode_dev/lat.*.gz|``.
        words: words.txt of the decoding graph.
        n: how many hypotheses, at least 1.
        acoustic_scale: multiplies acoustic costs; None: as ``scoring_kaldi/best_wer`` beside the lattices says.
        frame_shift_s: seconds between frames of the lattices; None: as found beside the model.
        word_boundary: phones/word_boundary.int.
        model: final.mdl or trans.mdl.
        lm_scale: multiplies graph costs.
        word_ins_penalty: added to the graph cost of each word; None: as best_wer says where the acoustic scale is its
            too, else 0.

    Raises:
        ConfigError: a value is out of range, or neither given nor found.
        FormatError: a broken stream; what came before it is given first.
    """
    decoder = _decoder_beside(
        rspecifier, words, acoustic_scale, frame_shift_s, word_boundary, model, lm_scale, word_ins_penalty
    )
    n_bad = 0
    for utt_id, lattice in read_lattices(rspecifier):
        try:
            if isinstance(lattice, LatticeError):
                raise lattice
            yield utt_id, decoder.nbest(lattice, n)
        except (LatticeError, UtteranceError) as e:
            n_bad += 1
            _log.error("%s", e)
    if n_bad:
        _log.error("%s: %d lattices left out", rspecifier, n_bad)


def _read_entry(where: str, key: str, rx: str) -> Lattice | LatticeError:
    from kaldi_punct.kaldi.lattice import read_value

    try:
        with open_rxfilename(rx) as stream:
            return read_value(stream, f"{rx}: {key}")
    except FormatError as e:
        return LatticeError(f"{where}: {e}")


def load_aligner(
    transition_model: RxFilename,
    word_boundary: RxFilename | None,
    align_lexicon: RxFilename | None,
    *,
    reorder: bool = True,
) -> Aligner:
    """What finds word times, from one of the two tables of phones.

    Raises:
        FormatError: a file is not what it should be.
        ConfigError: none of the two tables.
    """
    from kaldi_punct.kaldi.aligners import LexiconAligner, WordAligner

    model, model_name = _read(transition_model), str(transition_model)
    if align_lexicon is not None:
        return LexiconAligner(model, _read(align_lexicon), model_name, str(align_lexicon), reorder=reorder)
    if word_boundary is None:
        raise ConfigError(
            "word_boundary: expected phones/word_boundary.int or align_lexicon.int, got neither; give one"
        )
    return WordAligner(model, _read(word_boundary), model_name, str(word_boundary), reorder=reorder)


def load_phone_aligner(transition_model: RxFilename, *, reorder: bool = True) -> PhoneAligner:
    """What finds the times of phones.

    Raises:
        FormatError: no transition model.
    """
    from kaldi_punct.kaldi.aligners import PhoneAligner

    return PhoneAligner(_read(transition_model), str(transition_model), reorder=reorder)


def _read(rx: RxFilename) -> bytes:
    with open_rxfilename(rx) as stream:
        return stream.read()


def _decoder_beside(
    rspecifier: str,
    words: RxFilename,
    acoustic_scale: float | None,
    frame_shift_s: float | None,
    word_boundary: RxFilename | None,
    model: RxFilename | None,
    lm_scale: float,
    word_ins_penalty: float | None,
) -> Decoder:
    """The decoder of ``read_nbest``; values that were not given are looked for beside the lattices, and logged."""
    scales = find_scales(rspecifier)
    if acoustic_scale is None:
        acoustic_scale = scales.acoustic_scale
        if word_ins_penalty is None:
            word_ins_penalty = scales.word_ins_penalty
        if acoustic_scale is None:
            raise ConfigError(
                f"acoustic_scale: expected a number, got none, and there is no scoring_kaldi/best_wer beside "
                f"'{rspecifier}'; "
                "give it (1/LMWT: about 0.1 for a chain model, 1/12 for a GMM)"
            )
    if frame_shift_s is None and model is not None:
        frame_shift_s = scales.frame_shift_s
        if frame_shift_s is None:
            raise ConfigError(
                f"frame_shift_s: expected seconds, got none, and there is no frame_subsampling_factor beside "
                f"'{rspecifier}'; "
                "give it (0.03 for most chain models, 0.01 for a GMM)"
            )
    word_ins_penalty = word_ins_penalty or 0.0
    _log.info("%s: acoustic scale %g, word insertion penalty %g, frame shift %s s",
              rspecifier, acoustic_scale, word_ins_penalty, frame_shift_s)  # fmt: skip
    return load_decoder(
        words=words,
        acoustic_scale=acoustic_scale,
        transition_model=model,
        word_boundary=word_boundary,
        frame_shift_s=frame_shift_s,
        lm_scale=lm_scale,
        word_ins_penalty=word_ins_penalty,
    )
