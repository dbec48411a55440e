"""The exceptions of kaldi_punct.

    KaldiPunctError
     +-- FormatError              a file, table or request that does not say what its format asks for
     |    +-- LatticeError        a lattice that cannot be read or is not a lattice
     +-- UtteranceError           one utterance that cannot be done; the others go on
     +-- ConfigError              an unknown option, or a value out of range
     +-- CheckpointError          a model directory that is incomplete, or made for something else
     +-- MissingDependencyError   an optional package that is not installed
     +-- ServeError               what the service answers with a status of its own

Catch all of them with:

    try:
        punctuator = kaldi_punct.load("exp/punct")
    except kaldi_punct.KaldiPunctError as e:
        ...
"""

from __future__ import annotations


class KaldiPunctError(Exception):
    """Whatever kaldi_punct raises on purpose."""


class FormatError(KaldiPunctError, ValueError):
    """Input that breaks its format; the text is ``path:line: expected …, got …, how to fix``."""


class LatticeError(FormatError):
    """A lattice that cannot be read; the text names file, key and byte offset."""


class UtteranceError(KaldiPunctError):
    """One utterance that cannot be done; it is reported, counted and skipped."""


class ConfigError(KaldiPunctError, ValueError):
    """An unknown option or a value out of range; the text holds a hint."""


class CheckpointError(KaldiPunctError):
    """A model directory that is incomplete, broken, or not one of ours."""


class MissingDependencyError(KaldiPunctError, ImportError):
    """An optional package is not installed; the text holds the install line."""


class ServeError(KaldiPunctError):
    """A request that the service refuses.

    Args:
        message: what was expected and got.
        field: dotted name of the request's field at fault, or "" if none is.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field
