"""What every verb shares: counting, reporting, the exit status, a progress bar."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kaldi_punct.errors import ConfigError, FormatError, KaldiPunctError

if TYPE_CHECKING:
    from kaldi_punct.punctuator import Punctuator

T = TypeVar("T")
log = logging.getLogger("kaldi_punct")


@dataclass
class Tally:
    """What a command did: the last line it logs and its exit status follow from this.

    Attributes:
        n_done: utterances (or whatever the verb works on) that came out.
        n_errors: those that did not; each was reported.
        cut_short: an input ended before its end: truncated, corrupt, or a pipe that failed.
        silent: no last line (a server has none).
        note: what else the last line should say.
    """

    n_done: int = 0
    n_errors: int = 0
    cut_short: bool = False
    silent: bool = False
    note: str = ""

    def report(self, error: Exception, utt_id: str = "") -> None:
        """Reports and counts one thing that could not be done; names the utterance where the error does not."""
        self.n_errors += 1
        text = describe(error)
        log.error("%s", text if utt_id in text else f"{utt_id}: {text}")

    def break_off(self, error: Exception) -> None:
        """Reports a stream that broke: what came before it is kept, the command fails."""
        self.report(error)
        self.cut_short = True

    def finish(self) -> int:
        """Logs the last line; returns the exit status."""
        if self.silent:
            return 1 if self.n_errors else 0
        log.info("Done %d, %d errors%s", self.n_done, self.n_errors, f" ({self.note})" if self.note else "")
        return 0 if self.n_done > 0 and not self.cut_short else 1


def describe(error: Exception) -> str:
    """The error's text; an OSError's as ``path: reason``."""
    if isinstance(error, OSError) and not isinstance(error, KaldiPunctError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def good(items: Iterable[tuple[str, T | KaldiPunctError]], tally: Tally) -> Iterator[tuple[str, T]]:
    """The good values of a table; bad ones are reported and counted, a broken stream ends the table."""
    iterator = iter(items)
    while True:
        try:
            key, value = next(iterator)
        except StopIteration:
            return
        except (FormatError, OSError) as e:
            tally.break_off(e)
            return
        if isinstance(value, KaldiPunctError):
            tally.report(value, key)
        else:
            yield key, value


def load_punctuator(name: str, device: str) -> Punctuator:
    """The model of a name on a device.

    Raises:
        CheckpointError: no such model.
        ConfigError: no such device.
    """
    check_device(device)
    from kaldi_punct.punctuator import load

    return load(name, device)


def check_device(device: str) -> None:
    """Raises ConfigError for a device that is not there."""
    if device == "cpu":
        return
    import torch

    if device.startswith("cuda") and (int(device[5:] or 0) >= torch.cuda.device_count()):
        raise ConfigError(
            f"--device: expected one of {torch.cuda.device_count()} CUDA devices, got '{device}'; use cpu"
        )


def with_progress(items: Iterable[T], unit: str) -> Iterator[T]:
    """The same items under a progress bar on stderr, where that is a terminal."""
    from tqdm import tqdm

    # None: where stderr is no terminal; it may also be closed.
    yield from tqdm(items, unit=unit, disable=True if sys.stderr is None else None, dynamic_ncols=True)
