"""What stands beside a Kaldi decode directory: scales, frame shift, words and model, so that nobody has to guess them.

exp/chain/tdnn_lstm/frame_subsampling_factor            -> frame shift: 0.01 s times it (steps/conf/get_ctm_conf.sh)
                    frame_shift                         -> frame shift of the lattices, wins over the factor
                    final.mdl                           -> transition model
                    graph/words.txt, phones/word_boundary.int or phones/align_lexicon.int
                    decode_dev/lat.1.gz
                    decode_dev/scoring_kaldi/best_wer   -> "... wer_9_0.5": acoustic scale 1/9, word penalty 0.5
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.streams import as_rspecifier, read_lines

_FEATURE_SHIFT_S = 0.01  # Kaldi's default, which its scripts multiply by the factor
_BEST_WER = re.compile(r"wer_([0-9]+(?:\.[0-9]+)?)(?:_(-?[0-9]+(?:\.[0-9]+)?))?[ \t]*$")
_OFFSET = re.compile(r":[0-9]+$")


@dataclass(frozen=True, slots=True)
class Scales:
    """What was found for a decode directory; None for what was not.

    Attributes:
        decode_dir: the directory of the lattices.
        acoustic_scale: 1/LMWT of the best word error rate.
        word_ins_penalty: that of the best word error rate.
        frame_shift_s: seconds between frames of the lattices.
        words: ``words.txt``.
        word_boundary: ``phones/word_boundary.int``.
        align_lexicon: ``phones/align_lexicon.int``.
        transition_model: ``final.mdl`` or ``trans.mdl``.
        best_wer: the file that the first two numbers were read from.
        frame_shift_file: the file that the frame shift was read from.
    """

    decode_dir: Path | None = None
    acoustic_scale: float | None = None
    word_ins_penalty: float | None = None
    frame_shift_s: float | None = None
    words: Path | None = None
    word_boundary: Path | None = None
    align_lexicon: Path | None = None
    transition_model: Path | None = None
    best_wer: Path | None = None
    frame_shift_file: Path | None = None


def find_scales(where: str | os.PathLike[str]) -> Scales:
    """What stands beside the lattices.

    Args:
        where: a decode directory, or an rspecifier of its lattices: ``ark:gunzip -c exp/tri3/decode/lat.*.gz|``.

    Raises:
        FormatError: a file is there and does not hold what it should.
    """
    decode_dir = Path(where) if os.path.isdir(where) else _directory_of(os.fspath(where))
    if decode_dir is None:
        return Scales()
    # Through a link the parent is that of its target, as in "$dir/../final.mdl" of Kaldi's scripts.
    model_dir = decode_dir.resolve().parent if decode_dir.is_symlink() else Path(os.path.normpath(decode_dir / ".."))
    best_wer = _first_file(decode_dir / "scoring_kaldi" / "best_wer")
    shift_file = _first_file(model_dir / "frame_shift", model_dir / "frame_subsampling_factor")
    acoustic_scale, word_ins_penalty = (None, None) if best_wer is None else _read_best_wer(best_wer)
    langs = _lang_dirs(model_dir)
    return Scales(
        decode_dir,
        acoustic_scale,
        word_ins_penalty,
        None if shift_file is None else _read_frame_shift(shift_file),
        _first_file(*(folder / "words.txt" for folder in langs)),
        _first_file(*(folder / "phones" / "word_boundary.int" for folder in langs)),
        _first_file(*(folder / "phones" / "align_lexicon.int" for folder in langs)),
        _first_file(decode_dir / "final.mdl", model_dir / "final.mdl", model_dir / "trans.mdl"),
        best_wer,
        shift_file,
    )


def _directory_of(rspecifier: str) -> Path | None:
    """The directory of the first file that an rspecifier names, be it inside a command."""
    rx = as_rspecifier(rspecifier).rxfilename.strip(" ")
    if rx.endswith("|"):
        try:
            names = shlex.split(rx[:-1])
        except ValueError:  # an unbalanced quote: the shell will say so
            return None
    else:
        names = [rx]
    for name in names:
        name = _OFFSET.sub("", name)
        if (glob.has_magic(name) and glob.glob(name)) or os.path.isfile(name):
            folder = os.path.dirname(name)
            if "/bin/" not in f"{folder}/":
                return Path(folder or ".")
    return None


def _read_best_wer(path: Path) -> tuple[float, float]:
    """(acoustic scale, word insertion penalty); recipes of old have no penalty in the name, and used none."""
    line = next((text for _, text in read_lines(path)), "")
    found = _BEST_WER.search(line)
    if not found or float(found.group(1)) == 0:
        raise FormatError(
            f"{path}:1: expected a line that ends in wer_<LMWT>_<WIP>, got '{line}'; score again "
            "(steps/score_kaldi.sh) or give --acoustic-scale and --word-ins-penalty"
        )
    return 1 / float(found.group(1)), float(found.group(2) or 0)


def _read_frame_shift(path: Path) -> float:
    unit_s = 1.0 if path.name == "frame_shift" else _FEATURE_SHIFT_S
    text = next((text for _, text in read_lines(path)), "").strip(" \t")
    if not re.fullmatch(r"[0-9]*\.?[0-9]+", text) or float(text) == 0:
        what = "seconds" if unit_s == 1 else "a number of frames"
        raise FormatError(f"{path}:1: expected {what} above 0, got '{text}'; correct it or give --frame-shift")
    return round(float(text) * unit_s, 9)


def _lang_dirs(model_dir: Path) -> list[Path]:
    """Where a words.txt may be: the decoding graph's first, since its numbers are the lattices'."""
    graphs = sorted(p for p in model_dir.glob("graph_*") if (p / "words.txt").is_file())
    # Of several graphs a guess could be the wrong one.
    return [model_dir / "graph", *(graphs if len(graphs) == 1 else []), model_dir / "lang"]


def _first_file(*paths: Path) -> Path | None:
    return next((p for p in paths if p.is_file()), None)
