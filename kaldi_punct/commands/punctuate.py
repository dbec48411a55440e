"""``punctuate``: marks and case onto lattices, CTM, text, JSONL or results of decoders."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kaldi_punct.commands import outputs, sources
from kaldi_punct.commands.batching import Answered, punctuate_groups
from kaldi_punct.commands.common import Tally, good, load_punctuator, with_progress
from kaldi_punct.commands.confidences import add_confidence
from kaldi_punct.commands.conversations import conversations, in_input_order
from kaldi_punct.commands.options import add_device, add_lattice_options, add_out, add_verb, count
from kaldi_punct.commands.sound import SoundTable
from kaldi_punct.commands.sources import Item, Tables
from kaldi_punct.errors import ConfigError, KaldiPunctError

if TYPE_CHECKING:
    from kaldi_punct.commands.options import Verbs

Answers = Callable[[Iterator[Item]], Iterator[Answered]]
log = logging.getLogger("kaldi_punct")


def add_verbs(verbs: Verbs) -> None:
    """Adds the parser."""
    parser = add_verb(
        verbs,
        "punctuate",
        "Punctuation and capitals onto lattices, CTM, text, JSONL or results of decoders",
        "kaldi-punct punctuate --from ctm --segments egs/mini/segments egs/mini/kaldi/1best.ctm -",
        "Every input word comes out once, in order. Utterances of one recording (--segments) are one conversation: the "
        "model sees across their borders.",
    )
    parser.add_argument(
        "--model", default="en", metavar="en|DIR", help="built-in model or model directory (default %(default)s)"
    )
    add_device(parser)
    add_input_options(parser)
    parser.add_argument(
        "--feats",
        metavar="F.scp",
        help="frames of each recording by kaldi-punct feats, in place of --wav-scp, which gives what they lack",
    )
    parser.add_argument(
        "--nbest",
        type=count,
        metavar="N",
        help="of lattices: marks that the N best hypotheses agree on, by their posteriors, on the words of the best "
        "(default 1; N times the computing)",
    )
    parser.set_defaults(run=run_punctuate)


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """What ``punctuate`` and ``client`` have in common."""
    parser.add_argument(
        "--from", dest="kind", choices=sources.KINDS, help="what <in> is; guessed from its name if not given"
    )
    parser.add_argument(
        "--to",
        choices=outputs.KINDS,
        default="text",
        help="text: '<utt-id> <word+mark> …' (no key with --from lines); ctm: the input's lines "
        "with the word replaced; jsonl: an object an utterance (default %(default)s)",
    )
    parser.add_argument("--no-punctuation", action="store_true", help="put no marks")
    parser.add_argument("--no-capitalization", action="store_true", help="leave the words as they are written")
    parser.add_argument("--utt2spk", metavar="F", help="speaker of each utterance: a change of speaker is a feature")
    parser.add_argument("--segments", metavar="F", help="recording, start and end of each utterance")
    parser.add_argument(
        "--reco2file-and-channel",
        metavar="F",
        help="file and channel of each recording of --segments, for a CTM keyed by those",
    )
    parser.add_argument("--wav-scp", metavar="F", help="sound of each recording (or utterance), for a model that hears")
    add_lattice_options(parser, with_words=True)
    add_confidence(parser)
    parser.add_argument(
        "source",
        metavar="<in>",
        help="lattices: rspecifier or decode directory; else an extended filename, - for stdin "
        "(of vosk, kaldi-server and online2 the final results are read, partial ones passed over and counted)",
    )
    add_out(parser)


def run_punctuate(args: argparse.Namespace, tally: Tally) -> None:
    """Punctuates an input."""
    kind = kind_of(args)
    side = Tables.read(args)
    entries = open_items(args, kind, side)
    punctuator = load_punctuator(args.model, args.device)
    hears = punctuator.info.hears and (args.feats is None or args.wav_scp is not None)
    sound = SoundTable.read(args.wav_scp, hears).with_feats(args.feats, punctuator.frame_kind)
    if sound.wav_scp and sound.feats is None:
        punctuator.load_hearing()  # an encoder that is missing is told once, not with each utterance

    def answers(items: Iterator[Item]) -> Iterator[Answered]:
        return punctuate_groups(
            punctuator,
            conversations(items, side.sizes()),
            sound.heard,
            punctuation=not args.no_punctuation,
            capitalization=not args.no_capitalization,
        )

    write_answers(args, kind, side, entries, answers, tally)


def kind_of(args: argparse.Namespace) -> str:
    """The input's kind, logged where it is guessed."""
    if args.kind is not None:
        return str(args.kind)
    kind = sources.guess_kind(args.source)
    log.info("reading %s as %s (--from says otherwise)", args.source, kind)
    return kind


def open_items(args: argparse.Namespace, kind: str, side: Tables) -> sources.Entries:
    """The input's utterances; lattices as their best paths, or as --confidence says."""
    if kind != "lattice":
        given = [
            name
            for name in (
                "words",
                "word_boundary",
                "align_lexicon",
                "transition_model",
                "frame_shift",
                "acoustic_scale",
                "word_ins_penalty",
                "confidence",
                "nbest",
            )
            if getattr(args, name, None) is not None
        ]
        if given:
            raise ConfigError(
                f"--{given[0].replace('_', '-')}: expected an input of lattices, got {kind}; leave it out"
            )
        if kind in sources.RESULT_KINDS:
            from kaldi_punct.commands.results import read_results

            return read_results(args.source, kind, side)
        return sources.read_items(args.source, kind, side)
    from kaldi_punct.commands.decoding import DecoderFiles, find_decoder, hypotheses

    n = getattr(args, "nbest", None) or 1  # client has no such option
    if n > 1 and args.confidence not in (None, "none"):
        raise ConfigError(
            f"--nbest: expected it without --confidence, got --confidence {args.confidence}; leave one out"
        )
    decoder = find_decoder(args.source, DecoderFiles.from_args(args), need_times=args.to == "ctm")
    return hypotheses(args.source, decoder, side, args.confidence or "none", n)


def write_answers(
    args: argparse.Namespace, kind: str, side: Tables, entries: sources.Entries, answers: Answers, tally: Tally
) -> None:
    """Has the utterances answered and writes the answers in input order."""
    from kaldi_punct.kaldi.tables import open_wxfilename

    items = (item for _, item in good(with_progress(entries, "utt"), tally))
    with open_wxfilename(args.out) as out:
        writer = outputs.open_writer(args.to, out, with_keys=kind != "lines")
        for item, answer in in_input_order(answers(items)):
            if isinstance(answer, KaldiPunctError):
                tally.report(answer, item.utterance.utt_id)
                continue
            try:
                writer.write(item, answer)
            except KaldiPunctError as e:
                tally.report(e, item.utterance.utt_id)
            else:
                tally.n_done += 1
        writer.flush()
    if not tally.n_done + tally.n_errors:
        log.warning("%s: expected utterances, got none: is it empty?", args.source)
    side.log_missing()
