"""``nbest`` and ``ctm``: what lattices hold, without a punctuation model."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kaldi_punct.commands import confidences
from kaldi_punct.commands.common import Tally, good, with_progress
from kaldi_punct.commands.options import add_lattice_options, add_out, add_threads, add_verb, count
from kaldi_punct.commands.path_ctm import add_path_options, check_options, word_chooser

if TYPE_CHECKING:
    from kaldi_punct.commands.options import Verbs
    from kaldi_punct.kaldi.lattice import Lattice
    from kaldi_punct.kaldi.tables import CtmLine
    from kaldi_punct.types import Hypothesis

_SOURCE_HELP = "rspecifier of lattices ('ark:gunzip -c dir/lat.*.gz |', scp:lat.scp), or a decode directory"
_DEMO = (
    "--acoustic-scale 0.1 --frame-shift 0.03 --transition-model egs/mini/trans.mdl "
    "--word-boundary egs/mini/lang/phones/word_boundary.int egs/mini/decode egs/mini/lang/words.txt"
)


def add_verbs(verbs: Verbs) -> None:
    """Adds the parsers."""
    parser = add_verb(
        verbs,
        "nbest",
        "N-best lists of lattices",
        f"kaldi-punct nbest --n 10 {_DEMO} exp/nbest",
        "Writes <out-dir>/{words,lm_cost,ac_cost}, tables keyed utt-1 .. utt-N, best first, costs unscaled; and "
        "<out-dir>/ctm where word times are known.",
    )
    add_threads(parser)
    parser.add_argument("--n", type=count, default=10, help="hypotheses of each lattice at most (default %(default)s)")
    parser.add_argument(
        "--lm-scale", type=float, default=1.0, metavar="S", help="multiplies graph costs (default %(default)s)"
    )
    add_lattice_options(parser, with_words=False)
    parser.add_argument("source", metavar="<lat-rspecifier>", help=_SOURCE_HELP)
    parser.add_argument("words", metavar="<words.txt>", help="the words' symbol table")
    parser.add_argument("out", metavar="<out-dir>", help="directory of the tables; made if missing")
    parser.set_defaults(run=run_nbest)

    parser = add_verb(
        verbs,
        "ctm",
        "Words of lattices with their times",
        f"kaldi-punct ctm --mbr {_DEMO} -",
        "Lines are '<utt-id> 1 <start-s> <duration-s> <word>', times from the start of the utterance: the best path; "
        "with --mbr the words of least expected error, and their confidence in a sixth column. With --segments: "
        "'<file> <channel> ...', times from the start of the recording.",
    )
    confidences.add_mbr(parser)
    confidences.add_recording_clock(parser)
    add_path_options(parser)
    add_threads(parser)
    parser.add_argument(
        "--lm-scale", type=float, default=1.0, metavar="S", help="multiplies graph costs (default %(default)s)"
    )
    add_lattice_options(parser, with_words=False)
    parser.add_argument("source", metavar="<lat-rspecifier>", help=_SOURCE_HELP)
    parser.add_argument("words", metavar="<words.txt>", help="the words' symbol table")
    add_out(parser)
    parser.set_defaults(run=run_ctm)


def run_nbest(args: argparse.Namespace, tally: Tally) -> None:
    """Writes the tables of N-best lists."""
    from kaldi_punct.commands.decoding import DecoderFiles, find_decoder, read_lattices
    from kaldi_punct.commands.threads import map_entries
    from kaldi_punct.kaldi.tables import open_wxfilename

    decoder = find_decoder(args.source, DecoderFiles.from_args(args), need_times=False, lm_scale=args.lm_scale)
    names = ["words", "lm_cost", "ac_cost"] + (["ctm"] if decoder.aligner is not None else [])

    def tables(utt_id: str, lattice: Lattice) -> list[bytes]:
        parts: dict[str, BinaryIO] = {name: BytesIO() for name in names}
        for rank, hypothesis in enumerate(decoder.nbest(lattice, args.n), 1):
            _write_hypothesis(parts, f"{utt_id}-{rank}", hypothesis)
        for part in parts.values():
            part.seek(0)
        return [part.read() for part in parts.values()]

    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = [stack.enter_context(open_wxfilename(out / name)) for name in names]
        entries = with_progress(read_lattices(args.source), "utt")
        for _, parts in good(map_entries(tables, entries, args.nj), tally):
            for file, part in zip(files, parts, strict=True):
                file.write(part)
            tally.n_done += 1


def run_ctm(args: argparse.Namespace, tally: Tally) -> None:
    """Writes the CTM of best paths, or of the words of least expected error."""
    from kaldi_punct.commands.decoding import DecoderFiles, find_decoder, read_lattices
    from kaldi_punct.commands.threads import map_entries
    from kaldi_punct.kaldi.reco_ctm import to_recording
    from kaldi_punct.kaldi.tables import open_wxfilename

    check_options(args)
    clock = confidences.read_clock(args)
    decoder = find_decoder(
        args.source, DecoderFiles.from_args(args), need_times=True, lm_scale=args.lm_scale, is_aligned=args.aligned
    )

    choose = word_chooser(args, decoder)

    def ctm(utt_id: str, lattice: Lattice) -> bytes:
        chosen = choose(lattice)
        if clock is None:
            return _ctm(utt_id, chosen)
        lines = to_recording(_ctm_lines(utt_id, chosen), clock)
        return "".join(f"{line.rewritten(line.word)}\n" for line in lines).encode()

    with open_wxfilename(args.out) as out:
        entries = with_progress(read_lattices(args.source), "utt")
        for _, lines in good(map_entries(ctm, entries, args.nj), tally):
            out.write(lines)
            tally.n_done += 1


def _write_hypothesis(files: dict[str, BinaryIO], key: str, hypothesis: Hypothesis) -> None:
    words = "".join(f" {w.word}" for w in hypothesis.words)
    files["words"].write(f"{key}{words}\n".encode())
    files["lm_cost"].write(f"{key} {hypothesis.graph_cost:.7g}\n".encode())
    files["ac_cost"].write(f"{key} {hypothesis.acoustic_cost:.7g}\n".encode())
    if "ctm" in files:
        files["ctm"].write(_ctm(key, hypothesis))


def _ctm_lines(key: str, hypothesis: Hypothesis) -> list[CtmLine]:
    from kaldi_punct.kaldi.tables import CtmLine

    return [
        CtmLine(key, "1", w.start_s, w.duration_s, w.word, w.confidence)
        for w in hypothesis.words
        if w.start_s is not None and w.duration_s is not None
    ]


def _ctm(key: str, hypothesis: Hypothesis) -> bytes:
    """What ``_ctm_lines`` gives, as text; without its records, which cost more than all that the core does."""
    out = []
    for w in hypothesis.words:
        if w.start_s is not None and w.duration_s is not None:
            tail = "" if w.confidence is None else f" {w.confidence:.2f}"
            out.append(f"{key} 1 {w.start_s:.2f} {w.duration_s:.2f} {w.word}{tail}\n")
    return "".join(out).encode()
