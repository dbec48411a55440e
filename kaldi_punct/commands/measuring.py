"""``score`` and ``project``: punctuated text against a reference, and a reference's marks onto a decoder's words."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from kaldi_punct.commands import sources
from kaldi_punct.commands.common import Tally, good, with_progress
from kaldi_punct.commands.options import add_out, add_verb
from kaldi_punct.errors import UtteranceError

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
        "words are counted and not scored.",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the table")
    parser.add_argument("ref", metavar="<ref>", help="a table like text_punct, or a data directory that has one")
    parser.add_argument("hyp", metavar="<hyp>", help="the same of the text to be scored")
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

    result, text = report.run(args.ref, args.hyp, as_json=args.json)
    for error in report.errors(result):
        tally.report(UtteranceError(error))
    print(text)
    tally.n_done = result.n_utts


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
