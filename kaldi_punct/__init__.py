"""Punctuation, capitals and word times for what Kaldi decodes.

    punctuator = kaldi_punct.load("en")
    print(punctuator("so what do you think".split()).text)

The names below load what they need on first use: importing the package loads neither torch nor grpc.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kaldi_punct.errors import (
    CheckpointError,
    ConfigError,
    FormatError,
    KaldiPunctError,
    LatticeError,
    MissingDependencyError,
    ServeError,
    UtteranceError,
)
from kaldi_punct.types import Audio, Case, Hypothesis, Punctuated, PunctuatedWord, Sentence, Utterance, Word

if TYPE_CHECKING:
    from kaldi_punct.config import Config
    from kaldi_punct.kaldi.data_dir import DataDir
    from kaldi_punct.kaldi.tables import read_nbest
    from kaldi_punct.punctuator import Punctuator, load
    from kaldi_punct.scoring import Score, score
    from kaldi_punct.training import train

__all__ = [
    "Audio",
    "Case",
    "CheckpointError",
    "Config",
    "ConfigError",
    "DataDir",
    "FormatError",
    "Hypothesis",
    "KaldiPunctError",
    "LatticeError",
    "MissingDependencyError",
    "Punctuated",
    "PunctuatedWord",
    "Punctuator",
    "Score",
    "Sentence",
    "ServeError",
    "Utterance",
    "UtteranceError",
    "Word",
    "load",
    "read_nbest",
    "score",
    "train",
]

_HOMES = {
    "Config": "kaldi_punct.config",
    "DataDir": "kaldi_punct.kaldi.data_dir",
    "Punctuator": "kaldi_punct.punctuator",
    "Score": "kaldi_punct.scoring",
    "load": "kaldi_punct.punctuator",
    "read_nbest": "kaldi_punct.kaldi.tables",
    "score": "kaldi_punct.scoring",
    "train": "kaldi_punct.training",
}


def __getattr__(name: str) -> object:
    """A public name from its module, on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kaldi_punct' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
