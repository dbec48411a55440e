"""Decoder files: what the server's owner says of a Kaldi decoder, so that clients may name it and send its lattices.

    words: lang/words.txt
    transition_model: final.mdl
    word_boundary: lang/phones/word_boundary.int
    frame_shift_s: 0.03
    acoustic_scale: 0.1

``align_lexicon: lang/phones/align_lexicon.int`` may stand in place of ``word_boundary``.
Paths are relative to the file that holds them. Read once, at start-up; no request leads here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from kaldi_punct.errors import ConfigError
from kaldi_punct.kaldi.lattice import Decoder
from kaldi_punct.kaldi.tables import load_decoder

_PATHS = ("words", "transition_model", "word_boundary", "align_lexicon")
_NUMBERS = ("frame_shift_s", "acoustic_scale")
_TIMING = ("transition_model", "word_boundary", "frame_shift_s")
_KEYS = (*_PATHS, *_NUMBERS)


def load_decoders(named_files: Iterable[str]) -> dict[str, Decoder]:
    """Decoders by name, in the order given; the first is the default.

    Args:
        named_files: ``NAME=FILE.yaml`` each.

    Raises:
        ConfigError: not of that form, a name twice, or a file that ``load_decoder_file`` refuses.
    """
    decoders: dict[str, Decoder] = {}
    for item in named_files:
        name, equals, path = item.partition("=")
        if not (name and equals and path):
            raise ConfigError(f"--decoder: expected NAME=FILE.yaml, got {item!r}; e.g. phone=phone.yaml")
        if name in decoders:
            raise ConfigError(f"--decoder: expected each name once, got {name!r} twice; rename one")
        decoders[name] = load_decoder_file(path)
    return decoders


def load_decoder_file(path: str | Path) -> Decoder:
    """The decoder that a YAML file describes.

    Raises:
        ConfigError: unreadable, an unknown or missing key, or a value out of range.
        KaldiPunctError: one of the files that it names is not what it should be.
    """
    values = _read_mapping(Path(path))
    for key in values:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(_KEYS)}"
            raise ConfigError(f"{path}: unknown key {key!r}; {hint}")
    for key in ("words", "acoustic_scale"):
        if key not in values:
            raise ConfigError(f"{path}: expected the key {key!r}, got none; add it")
    if "align_lexicon" in values and "word_boundary" in values:
        raise ConfigError(f"{path}: expected word_boundary or align_lexicon, got both; leave one out")
    timing = [key if key != "word_boundary" or "align_lexicon" not in values else "align_lexicon" for key in _TIMING]
    missing = [key for key in timing if key not in values]
    if missing and len(missing) < len(timing):
        raise ConfigError(
            f"{path}: expected {', '.join(timing)} together (word times need all), "
            f"got no {' and no '.join(missing)}; add what is missing, or go without word times"
        )
    for key in _PATHS:
        if key in values:
            values[key] = _resolve(values[key], key, Path(path))
    for key in _NUMBERS:
        value = values.get(key, 1.0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise ConfigError(f"{path}: {key}: expected a number above 0, got {value!r}")
    return load_decoder(**values)


def _read_mapping(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise ConfigError(f"{path}: expected a readable decoder file, got {e.strerror}") from e
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path}: expected YAML, got something else: {' '.join(str(e).split())}") from e
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected 'key: value' lines, got {type(values).__name__}; give at least words")
    return values


def _resolve(value: object, key: str, path: Path) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{path}: {key}: expected a file name, got {value!r}")
    # A pipe or an absolute path means the same from everywhere.
    return value if value.rstrip().endswith("|") else str(path.parent / value)
