"""``lattice depth``, ``arc-post``, ``confidence``, ``oracle``: what can be counted on lattices."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kaldi_punct.commands.common import Tally, log
from kaldi_punct.commands.lattice_tools import (
    SOURCE_HELP,
    add_scales,
    add_tool,
    lattices,
    number,
    reporting,
    scales_of,
)
from kaldi_punct.commands.options import add_out
from kaldi_punct.errors import ConfigError, UtteranceError

if TYPE_CHECKING:
    from kaldi_punct._core import TransitionModel
    from kaldi_punct.commands.lattice_tools import Tools
    from kaldi_punct.kaldi.oracle import Oracle
    from kaldi_punct.kaldi.posteriors import ArcPosterior

_MAX_CONFIDENCE = 1e10  # in place of infinity, which not all readers of numbers take (lattice-confidence)
_TABLE_HELP = "wspecifier (ark:F, ark,t:F) or a path; ark,t:- for text to stdout"


def add_tools(tools: Tools) -> None:
    """Adds the parsers."""
    parser = add_tool(
        tools,
        "depth",
        "How many arcs lie over a frame",
        "kaldi-punct lattice depth egs/mini/decode ark,t:-",
        "On average, a number an utterance, as lattice-depth does; or for each frame.",
    )
    parser.add_argument("--per-frame", action="store_true", help="write an int vector, a number a frame")
    parser.add_argument("source", metavar="<lat-rspecifier>", help=SOURCE_HELP)
    add_out(parser, _TABLE_HELP)
    parser.set_defaults(run=run_depth)

    parser = add_tool(
        tools,
        "arc-post",
        "Posteriors of arcs",
        "kaldi-punct lattice arc-post --acoustic-scale 0.1 --transition-model egs/mini/trans.mdl egs/mini/decode -",
        "Lines '<utt-id> <first-frame> <frames> <posterior> <word-id> [<transition-ids>] [<phones>]', tabs between "
        "them, as lattice-arc-post writes. Align the lattices first, or an arc is no word.",
    )
    parser.add_argument(
        "--min-post", type=number, default=1e-4, metavar="P", help="leave out what is not above (default %(default)s)"
    )
    parser.add_argument("--print-alignment", action="store_true", help="write the transition-ids, commas between them")
    parser.add_argument("--transition-model", metavar="F", help="final.mdl or trans.mdl; writes the phones")
    add_scales(parser)
    parser.add_argument("source", metavar="<lat-rspecifier>", help=SOURCE_HELP)
    add_out(parser)
    parser.set_defaults(run=run_arc_post)

    parser = add_tool(
        tools,
        "confidence",
        "How much dearer the second-best sentence is",
        "kaldi-punct lattice confidence --acoustic-scale 0.1 egs/mini/decode ark,t:-",
        "In scaled cost, a number an utterance, 1e10 where there is one sentence only, as lattice-confidence does.",
    )
    add_scales(parser)
    parser.add_argument("source", metavar="<lat-rspecifier>", help=SOURCE_HELP)
    add_out(parser, _TABLE_HELP)
    parser.set_defaults(run=run_confidence)
    _add_oracle(tools)


def _add_oracle(tools: Tools) -> None:
    parser = add_tool(
        tools,
        "oracle",
        "The words that come closest to a reference",
        "kaldi-punct lattice oracle --acoustic-scale 0.1 egs/mini/decode egs/mini/text egs/mini/lang/words.txt -",
        "Writes '<utt-id> <word> ...' of the path of fewest word errors, of several the likeliest, and logs the word "
        "error rate, as lattice-oracle does.",
    )
    parser.add_argument("--edits", metavar="W", help="wspecifier to write the number of word errors to")
    parser.add_argument(
        "--map-oov", metavar="WORD", help="stands for reference words that are not in words.txt; else they are errors"
    )
    parser.add_argument(
        "--wildcards", metavar="W1:W2", default="", help="words that count neither as words nor as errors"
    )
    add_scales(parser)
    parser.add_argument("source", metavar="<lat-rspecifier>", help=SOURCE_HELP)
    parser.add_argument("reference", metavar="<text>", help="text table of what was said")
    parser.add_argument("words", metavar="<words.txt>", help="the words' symbol table")
    add_out(parser)
    parser.set_defaults(run=run_oracle)


def run_depth(args: argparse.Namespace, tally: Tally) -> None:
    """Writes the depth of each lattice."""
    from kaldi_punct.kaldi.archives import float_value, int_vector_value, open_archive
    from kaldi_punct.kaldi.posteriors import depth, depth_per_frame

    n_frames, n_arc_frames = 0, 0.0
    with open_archive(args.out) as table:
        for utt_id, lattice in lattices(args.source, tally):
            with reporting(tally, utt_id):
                value = depth(lattice)
                if args.per_frame:
                    table.write(utt_id, int_vector_value(depth_per_frame(lattice), table.binary))
                else:
                    table.write(utt_id, float_value(value, table.binary))
                n_frames += lattice.n_frames
                n_arc_frames += value * lattice.n_frames
    if n_frames:
        log.info("Overall density is %.6g over %d frames", n_arc_frames / n_frames, n_frames)


def run_arc_post(args: argparse.Namespace, tally: Tally) -> None:
    """Writes the posteriors of each lattice's arcs."""
    from kaldi_punct.kaldi.posteriors import arc_posteriors
    from kaldi_punct.kaldi.tables import open_wxfilename

    scales = scales_of(args)
    model = None if args.transition_model is None else _load_model(args.transition_model)
    with open_wxfilename(args.out) as out:
        for utt_id, lattice in lattices(args.source, tally):
            with reporting(tally, utt_id):
                posteriors = arc_posteriors(lattice, min_post=args.min_post, **scales)
                lines = [_arc_line(utt_id, arc, args.print_alignment, model) for arc in posteriors]
                out.write("".join(lines).encode())


def run_confidence(args: argparse.Namespace, tally: Tally) -> None:
    """Writes the distance of the second-best sentence of each lattice."""
    from kaldi_punct.kaldi.archives import float_value, open_archive
    from kaldi_punct.kaldi.posteriors import sentence_confidence

    scales = scales_of(args)
    with open_archive(args.out) as table:
        for utt_id, lattice in lattices(args.source, tally):
            with reporting(tally, utt_id):
                value = sentence_confidence(lattice, **scales)
                table.write(utt_id, float_value(min(value, _MAX_CONFIDENCE), table.binary))


def run_oracle(args: argparse.Namespace, tally: Tally) -> None:
    """Writes the words of each lattice that come closest to the reference."""
    from kaldi_punct.kaldi.archives import int_value, open_archive
    from kaldi_punct.kaldi.oracle import oracle
    from kaldi_punct.kaldi.tables import open_wxfilename, read_symbols, read_text

    scales = scales_of(args)
    words = read_symbols(args.words)
    ids = {word: i for i, word in words.items()}
    wildcards = [_known(ids, word, "--wildcards") for word in args.wildcards.split(":") if word]
    oov = -1 if args.map_oov is None else _known(ids, args.map_oov, "--map-oov")
    references = dict(read_text(args.reference))
    done: list[Oracle] = []
    with ExitStack() as stack:
        out = stack.enter_context(open_wxfilename(args.out))
        edits = None if args.edits is None else stack.enter_context(open_archive(args.edits))
        for utt_id, lattice in lattices(args.source, tally):
            with reporting(tally, utt_id):
                if utt_id not in references:
                    raise UtteranceError(f"{args.reference}: expected '{utt_id}' in it, got no such key; add its text")
                reference = [ids.get(word, oov) for word in references[utt_id].split()]
                found = oracle(lattice, reference, wildcards=wildcards, **scales)
                spelled = "".join(f" {word}" for word in _spelled(words, found.words, args.words))
                out.write(f"{utt_id}{spelled}\n".encode())
                if edits is not None:
                    edits.write(utt_id, int_value(found.n_errors, edits.binary))
                done.append(found)
    _log_wer(done)


def _log_wer(done: list[Oracle]) -> None:
    n_words, n_errors = sum(o.n_words for o in done), sum(o.n_errors for o in done)
    rate = f"{100 * n_errors / n_words:.2f}" if n_words else "nan"
    log.info(
        "Overall %%WER %s [ %d / %d, %d insertions, %d deletions, %d substitutions ]",
        rate,
        n_errors,
        n_words,
        sum(o.n_insertions for o in done),
        sum(o.n_deletions for o in done),
        sum(o.n_substitutions for o in done),
    )


def _known(ids: Mapping[str, int], word: str, option: str) -> int:
    if word not in ids:
        raise ConfigError(f"{option}: expected words of words.txt, got '{word}'; check its spelling")
    return ids[word]


def _spelled(words: Mapping[int, str], ids: tuple[int, ...], name: str) -> Iterator[str]:
    for i in ids:
        if i not in words:
            raise UtteranceError(f"{name}: expected word-id {i} in it, got none; give the words.txt of the lattices")
        yield words[i]


def _load_model(rx: str) -> TransitionModel:
    from kaldi_punct._core import TransitionModel
    from kaldi_punct.kaldi.tables import open_rxfilename

    with open_rxfilename(rx) as stream:
        return TransitionModel(stream.read(), rx)


def _arc_line(utt_id: str, arc: ArcPosterior, with_alignment: bool, model: TransitionModel | None) -> str:
    tids = arc.transition_ids
    fields = [utt_id, str(arc.first_frame), str(len(tids)), f"{arc.posterior:.7g}", str(arc.word)]
    if with_alignment:
        fields.append(",".join(map(str, tids)))
    if model is not None:
        fields.append(" ".join(_phones(utt_id, tids, model)))
    return "\t".join(fields) + "\n"


def _phones(utt_id: str, tids: list[int], model: TransitionModel) -> Iterator[str]:
    for tid in tids:
        if tid > model.n_transition_ids:
            raise UtteranceError(
                f"{utt_id}: expected transition-ids up to {model.n_transition_ids}, got {tid}; give the model that "
                "made the lattices"
            )
        phone, is_final, _ = model.transition(tid)
        if is_final:
            yield str(phone)
