"""kaldi-punct <verb> [options] <in...> <out>: inputs first, output last, data to stdout, log to stderr.

The exit status is 0 if at least one utterance came out and nothing was cut short, 1 otherwise, 2 for a wrong call.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Sequence

from kaldi_punct.commands import (
    framing,
    lattice_tools,
    lattices,
    learning,
    measuring,
    preparing,
    pretraining,
    punctuate,
    serving,
)
from kaldi_punct.commands.common import Tally
from kaldi_punct.errors import KaldiPunctError

Command = Callable[[argparse.Namespace, Tally], None]

_MODULES = (punctuate, lattices, lattice_tools, measuring, serving, preparing, framing, learning, pretraining)


def build_parser() -> argparse.ArgumentParser:
    """The parser of every verb; loads nothing heavy."""
    parser = argparse.ArgumentParser(
        prog="kaldi-punct",
        description="Punctuation, capitals and word times for what Kaldi decodes.",
        epilog="e.g.: kaldi-punct punctuate --help",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="<verb>", required=True)
    for module in _MODULES:
        module.add_verbs(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb; returns the exit status."""
    args = build_parser().parse_args(argv)
    handler = _start_log(args.verbose)
    try:
        return _run(args)
    finally:
        logging.getLogger("kaldi_punct").removeHandler(handler)


def _run(args: argparse.Namespace) -> int:
    tally = Tally()
    command: Command = args.run
    try:
        command(args, tally)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except (KaldiPunctError, OSError) as e:
        if args.verbose:
            logging.getLogger("kaldi_punct").debug("what led to the error below", exc_info=True)
        tally.break_off(e)
    return tally.finish()


class _Lines(logging.Handler):
    """Plain lines on stderr for what goes well, the level before what does not; a progress bar stays below them."""

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if record.levelno > logging.INFO:
            text = f"{record.levelname}: {text}"
        if sys.stderr is None:  # closed; print would turn to stdout
            return
        with contextlib.suppress(OSError):  # a full disk under the log stops no work
            if "tqdm" in sys.modules:
                sys.modules["tqdm"].tqdm.write(text, file=sys.stderr)
            else:
                print(text, file=sys.stderr)


def _start_log(verbose: bool) -> logging.Handler:
    handler = _Lines()
    logger = logging.getLogger("kaldi_punct")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    return handler


if __name__ == "__main__":
    sys.exit(main())
