"""``score`` and ``project``: punctuated text against a reference, and a reference's marks onto a decoder's words."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from kaldi_punct.commands import sources
from kaldi_punct.commands.common import Tally, good, with_progress
from kaldi_punct.commands.options import add_out, add_verb
from kaldi_punct.errors import ConfigError, UtteranceError

if TYPE_CHECKING:
    from kaldi_punct.commands.options import Verbs

log = logging.getLogger("kaldi_punct")


def add_verbs(verbs: Verbs) -> None:
    """Adds the parsers."""
    parser = add_verb(
        verbs,
        "score",
        "Precision, recall and F1 of punctuated text",
        "kaldi-punct score egs/mini/text_punct egs/mini/text_punct",
        "Where the words differ, the reference's marks are carried over by alignment; marks that get lost with deleted "
        "words are counted and not scored. With --compare: F1 of two texts, what the second has more, its 95 % "
        "interval and two-sided p-value, by paired bootstrap over the utterances that both and the reference have.",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the table")
    parser.add_argument(
        "--compare", nargs=2, metavar=("A", "B"), help="is B better than A? Two tables in place of <hyp>"
    )
    parser.add_argument("--n-samples", type=int, metavar="N", help="of the bootstrap of --compare (10000)")
    parser.add_argument("--seed", type=int, metavar="N", help="of the bootstrap of --compare (0)")
    parser.add_argument("ref", metavar="<ref>", help="a table like text_punct, or a data directory that has one")
    parser.add_argument("hyp", metavar="<hyp>", nargs="?", help="the same of the text to be scored")
    parser.set_defaults(run=run_score)

    parser = add_verb(
        verbs,
        "project",
        "A reference's marks and case carried onto a decoder's words",
        "kaldi-punct project egs/mini/text_punct egs/mini/kaldi/best.words -",
        "Writes a table like text_punct with the words of <hyp>. Marks that find no word are counted.",
    )
    parser.add_argument(
        "--from", dest="kind", choices=("ctm", "text"), help="what <hyp> is; guessed from its name if not given"
    )
    parser.add_argument("ref", metavar="<ref>", help="a table like text_punct")
    parser.add_argument("source", metavar="<hyp>", help="a CTM or a text table with the same keys")
    add_out(parser)
    parser.set_defaults(run=run_project)


def run_score(args: argparse.Namespace, tally: Tally) -> None:
    """Prints the score of a table."""
    from kaldi_punct import report

    if args.compare is not None:
        run_compare(args, tally)
        return
    if args.hyp is None:
        raise ConfigError("<hyp>: expected a table to score, got none; give one, or two with --compare")
    for option, value in (("--n-samples", args.n_samples), ("--seed", args.seed)):
        if value is not None:
            raise ConfigError(f"{option}: expected only with --compare, got {value}; leave it out")
    result, text = report.run(args.ref, args.hyp, as_json=args.json)
    for error in report.errors(result):
        tally.report(UtteranceError(error))
    print(text)
    tally.n_done = result.n_utts


def run_compare(args: argparse.Namespace, tally: Tally) -> None:
    """Prints how two tables differ."""
    from kaldi_punct import report
    from kaldi_punct.significance import N_SAMPLES

    if args.hyp is not None:
        raise ConfigError(f"<hyp>: expected none with --compare, got '{args.hyp}'; leave it out")
    n_samples = N_SAMPLES if args.n_samples is None else args.n_samples
    seed = 0 if args.seed is None else args.seed
    for option, value, least in (("--n-samples", n_samples, 1), ("--seed", seed, 0)):
        if value < least:
            raise ConfigError(f"{option}: expected at least {least}, got {value}")
    a, b = args.compare
    result, text = report.run_compare(args.ref, a, b, as_json=args.json, n_samples=n_samples, seed=seed)
    for error in report.compare_errors(result, a, b):
        tally.report(UtteranceError(error))
    print(text)
    tally.n_done = result.n_units


def run_project(args: argparse.Namespace, tally: Tally) -> None:
    """Writes a decoder's words with a reference's marks."""
    from kaldi_punct.kaldi.tables import open_wxfilename, read_text
    from kaldi_punct.labels import join, split
    from kaldi_punct.projection import project

    kind = args.kind or ("ctm" if sources.looks_like_ctm(args.source) else "text")
    refs = sources.side_table(args.ref, read_text(args.ref))
    n_marks = n_lost = 0
    with open_wxfilename(args.out) as out:
        entries = sources.read_items(args.source, kind, sources.Tables())
        for utt_id, item in good(with_progress(entries, "utt"), tally):
            if utt_id not in refs:
                tally.report(UtteranceError(f"{utt_id}: expected in {args.ref}, got no such utterance; left out"))
                continue
            done = project(split(refs[utt_id]), [w.word for w in item.utterance.words])
            n_marks, n_lost = n_marks + done.n_marks, n_lost + done.n_marks_lost
            out.write(f"{utt_id} {join(done.words)}".rstrip(" ").encode() + b"\n")
            tally.n_done += 1
    log.info(
        "%d of %d marks were lost with deleted words (%.1f %%)",
        n_lost,
        n_marks,
        100 * n_lost / max(n_marks, 1),
    )
