"""What ``ctm`` writes of a lattice: words of the best path or of least expected error, silences, or phones."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kaldi_punct.commands.confidences import choose_words, kind_of
from kaldi_punct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaldi_punct.kaldi.lattice import Decoder, Lattice
    from kaldi_punct.types import Hypothesis


def add_path_options(parser: argparse.ArgumentParser) -> None:
    """Options that say what is written of the best path."""
    parser.add_argument(
        "--print-silence",
        action="store_true",
        help="also silences (and parts of words without label), as <eps>; with confidences: places where no word is "
        "likeliest",
    )
    parser.add_argument("--phones", metavar="F", help="phones in place of words: phones.txt of the lang directory")


def check_options(args: argparse.Namespace) -> None:
    """Refuses options that do not go together (those of ``add_path_options`` and ``confidences.add_mbr``).

    Raises:
        ConfigError: the text names the option.
    """
    kind = kind_of(args)
    if args.phones is not None and kind != "none":
        raise ConfigError(
            "--phones: expected it without --mbr and --confidence, got both; confidences are of words, leave one out"
        )
    if args.phones is not None and args.print_silence:
        raise ConfigError("--print-silence: expected it without --phones, got both; silences are phones, leave it out")


def word_chooser(args: argparse.Namespace, decoder: Decoder) -> Callable[[Lattice], Hypothesis]:
    """What takes from a lattice that which the options ask for (checked by ``check_options``).

    Raises:
        FormatError: ``--phones`` is not a symbol table.
    """
    from kaldi_punct.kaldi.aligned import best_phones, best_segments
    from kaldi_punct.kaldi.tables import read_symbols

    kind = kind_of(args)
    if kind != "none":
        return lambda lattice: choose_words(decoder, lattice, kind, print_silence=args.print_silence)
    if args.phones is not None:
        phones = read_symbols(args.phones)
        return lambda lattice: best_phones(decoder, lattice, phones)
    if args.print_silence:
        return lambda lattice: best_segments(decoder, lattice)
    return decoder.best_path
