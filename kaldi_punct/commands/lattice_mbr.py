"""``lattice mbr``: minimum Bayes risk decoding as tables, as lattice-mbr-decode writes them."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kaldi_punct.commands.common import Tally, good, with_progress
from kaldi_punct.commands.lattice_tools import SOURCE_HELP, add_tool
from kaldi_punct.commands.options import add_lattice_options, add_threads

if TYPE_CHECKING:
    from kaldi_punct._core import Sausage
    from kaldi_punct.commands.lattice_tools import Tools
    from kaldi_punct.kaldi.lattice import Lattice

TABLES = ("words", "words.int", "bayes_risk", "sausage_stats", "times")


def add_tools(tools: Tools) -> None:
    """Adds the parser."""
    parser = add_tool(
        tools,
        "mbr",
        "Words of least expected error, and what else may stand at their places",
        "kaldi-punct lattice mbr --acoustic-scale 0.1 egs/mini/decode egs/mini/lang/words.txt exp/mbr",
        "Writes the tables <out-dir>/words, words.int (word-ids), bayes_risk (expected errors), sausage_stats (for "
        "each place '[ word-id posterior ... ]', likeliest first, 0: none) and times ('begin end ;' of each place, in "
        "frames). Lattices are word-aligned first where the transition model and the word boundaries are given or "
        "found; else times mean nothing.",
    )
    parser.add_argument("--no-mbr", action="store_true", help="keep the best path's words")
    parser.add_argument(
        "--print-silence", action="store_true", help="also places where no word is likeliest, as word <eps>"
    )
    parser.add_argument("--one-best-times", action="store_true", help="times of the words, in place of all places")
    parser.add_argument("--aligned", action="store_true", help="the lattices are word-aligned already")
    parser.add_argument(
        "--lm-scale", type=float, default=1.0, metavar="S", help="multiplies graph costs (default %(default)s)"
    )
    add_lattice_options(parser, with_words=False)
    add_threads(parser)
    parser.add_argument("source", metavar="<lat-rspecifier>", help=SOURCE_HELP)
    parser.add_argument("words", metavar="<words.txt>", help="the words' symbol table")
    parser.add_argument("out", metavar="<out-dir>", help="directory of the tables; made if missing")
    parser.set_defaults(run=run_mbr)


def run_mbr(args: argparse.Namespace, tally: Tally) -> None:
    """Writes the tables."""
    from kaldi_punct.commands.decoding import DecoderFiles, find_decoder, read_lattices
    from kaldi_punct.commands.threads import map_entries
    from kaldi_punct.kaldi.sausage import MbrOptions, to_sausage
    from kaldi_punct.kaldi.tables import open_wxfilename

    given = DecoderFiles.from_args(args)
    decoder = find_decoder(
        args.source, given, need_times=False, lm_scale=args.lm_scale, is_aligned=args.aligned, in_frames=True
    )
    options = MbrOptions(not args.no_mbr, args.print_silence)

    def rows(utt_id: str, lattice: Lattice) -> tuple[bytes, ...]:
        sausage = decoder.raw_sausage(lattice, options)
        words = [w.word for w in to_sausage(sausage, decoder.words, None).words]
        values = (" ".join(words), *values_of(sausage, args.one_best_times))
        return tuple(f"{utt_id} {value}".rstrip(" ").encode() + b"\n" for value in values)

    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = [stack.enter_context(open_wxfilename(out / name)) for name in TABLES]
        entries = with_progress(read_lattices(args.source), "utt")
        for _, lines in good(map_entries(rows, entries, args.nj), tally):
            for file, line in zip(files, lines, strict=True):
                file.write(line)
            tally.n_done += 1


def values_of(sausage: Sausage, one_best_times: bool) -> tuple[str, str, str, str]:
    """Word-ids, Bayes risk, sausage and times as Kaldi writes them, with seven digits."""
    best = sausage.one_best
    bins = sausage.bins
    times = [(begin, end) for _, _, begin, end in best] if one_best_times else [(begin, end) for begin, end, _ in bins]
    stats = ("".join(f" {word} {posterior:.7g}" for word, posterior, _, _ in words) for _, _, words in bins)
    return (
        " ".join(str(word) for word, _, _, _ in best),
        f"{sausage.bayes_risk:.7g}",
        " ".join(f"[{words} ]" for words in stats),
        " ; ".join(f"{begin:.7g} {end:.7g}" for begin, end in times),
    )
