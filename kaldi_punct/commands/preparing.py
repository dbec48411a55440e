"""``prepare``: corpora into punctuated data directories, parts of these, and what they hold."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from kaldi_punct.commands.common import Tally, with_progress
from kaldi_punct.commands.options import add_verb, count
from kaldi_punct.errors import ConfigError

if TYPE_CHECKING:
    from kaldi_punct.commands.options import Verbs
    from kaldi_punct.preparation.distribution import SetCounts

log = logging.getLogger("kaldi_punct")

# What stands before <out> for each kind, and the options that mean something to it.
_INPUTS = {
    "kaldi": "<data-dir> [<text_punct>]",
    "fisher": "<ldc-dir> [<ldc-dir> …]",
    "podcasts": "<turns.tsv>",
    "ami": "<words.tsv>",
    "earnings21": "<dir>",
    "games": "<corpus-dir>",
}
_MOST = {"kaldi": 2, "podcasts": 1, "ami": 1, "earnings21": 1, "games": 1}
_OPTIONS = {
    "hours": ("kaldi",),
    "max_words": ("podcasts",),
    "min_words": ("kaldi", "fisher"),
    "min_agreement": ("kaldi", "fisher"),
    "dev_share": ("fisher",),
    "test_share": ("fisher",),
    "sph2pipe": ("fisher",),
    "seed": ("kaldi", "fisher", "podcasts"),
    "resume": tuple(_INPUTS),
}


def add_verbs(verbs: Verbs) -> None:
    """Adds the parser."""
    parser = add_verb(
        verbs,
        "prepare",
        "Punctuated Kaldi data directories from corpora, and parts of them",
        "kaldi-punct prepare egs/mini egs/mini/text_punct data/mini",
        "Prints how often each mark stands in what was made. A directory is there once it is complete.",
    )
    parser.add_argument(
        "--from",
        dest="kind",
        choices=tuple(_INPUTS),
        default="kaldi",
        help="what <in> is (default %(default)s). "
        + "; ".join(f"{kind}: {names}" for kind, names in _INPUTS.items())
        + ". fisher and games make several directories in <out>. docs/data.md says what each looks like",
    )
    parser.add_argument(
        "--stats", action="store_true", help="make nothing: count the marks of data directories that are there"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the table")
    parser.add_argument("--resume", action="store_true", help="leave directories that are there as they are")
    parser.add_argument(
        "--hours", type=float, metavar="H", help="kaldi: as few calls as hold so many hours; 1 lies within 10"
    )
    parser.add_argument(
        "--max-words", type=count, metavar="N", help="podcasts: whole episodes, drawn by --seed, up to so many words"
    )
    parser.add_argument(
        "--min-words", type=count, metavar="N", help="leave out shorter utterances (fisher: 6, as the paper; kaldi: 1)"
    )
    parser.add_argument(
        "--min-agreement",
        type=_share,
        metavar="X",
        help="leave out utterances with a lower share of words that the recording's reference has too (0.5)",
    )
    parser.add_argument("--dev-share", type=_share, metavar="X", help="fisher: share of the calls for dev (0.1)")
    parser.add_argument("--test-share", type=_share, metavar="X", help="fisher: share of the calls for test (0.1)")
    parser.add_argument("--seed", type=int, metavar="N", help="of every draw (1)")
    parser.add_argument("--sph2pipe", metavar="CMD", help="fisher: what reads sphere files in wav.scp (sph2pipe)")
    parser.add_argument("paths", nargs="+", metavar="<path>", help="<in…> <out>; with --stats, data directories")
    parser.set_defaults(run=run_prepare)


def run_prepare(args: argparse.Namespace, tally: Tally) -> None:
    """Makes data directories, or counts what they hold."""
    from kaldi_punct.preparation import distribution

    for name, kinds in _OPTIONS.items():
        value = getattr(args, name)
        if value is not None and value is not False and (args.stats or args.kind not in kinds):
            where = "without --stats" if args.stats else f"with --from {' or '.join(kinds)}"
            raise ConfigError(f"--{name.replace('_', '-')}: expected {where}, got it elsewhere; leave it out")
    sets = _count(args, tally) if args.stats else _prepare(args, tally)
    print(distribution.to_json(sets) if args.json else distribution.to_text(sets))
    tally.n_done += sum(s.n_utts for s in sets)


def _count(args: argparse.Namespace, tally: Tally) -> list[SetCounts]:
    from kaldi_punct.kaldi.data_dir import DataDir
    from kaldi_punct.preparation.distribution import count_set

    sets = []
    for path in with_progress(args.paths, "set"):
        data = DataDir(path)
        tally.n_errors += len(data.errors)  # reported by it
        sets.append(count_set(data))
    return sets


def _prepare(args: argparse.Namespace, tally: Tally) -> list[SetCounts]:
    *inputs, out = map(Path, args.paths)
    if not 1 <= len(inputs) <= _MOST.get(args.kind, len(inputs)):
        raise ConfigError(
            f"--from {args.kind}: expected {_INPUTS[args.kind]} <out>, got {len(args.paths)} paths; name all of them"
        )
    if args.hours is not None and not args.hours > 0:
        raise ConfigError(f"--hours: expected a number above 0, got {args.hours:g}")
    if args.kind == "fisher":
        return _prepare_fisher(args, inputs, out, tally)
    if args.kind == "games":
        from kaldi_punct.preparation.games import prepare_games

        return list(prepare_games(inputs[0], out, tally.report, resume=args.resume, track=with_progress))
    if args.resume and out.is_dir():
        from kaldi_punct.kaldi.data_dir import DataDir
        from kaldi_punct.preparation.distribution import count_set

        log.info("%s: is there already, left as it is", out)
        return [count_set(DataDir(out))]
    return [_prepare_one(args, inputs, out, tally)]


def _prepare_one(args: argparse.Namespace, inputs: list[Path], out: Path, tally: Tally) -> SetCounts:
    seed = 1 if args.seed is None else args.seed
    if args.kind == "podcasts":
        from kaldi_punct.preparation.podcasts import prepare_podcasts

        return prepare_podcasts(inputs[0], out, args.max_words or 0, seed, tally.report, with_progress)
    if args.kind == "ami":
        from kaldi_punct.preparation.ami import prepare_ami

        return prepare_ami(inputs[0], out, tally.report, with_progress)
    if args.kind == "earnings21":
        from kaldi_punct.preparation.earnings21 import prepare_earnings21

        return prepare_earnings21(inputs[0], out)
    from kaldi_punct.preparation.kaldi_dir import Selection, prepare_kaldi_dir

    given = {k: getattr(args, k) for k in ("hours", "seed", "min_words", "min_agreement")}
    selection = Selection(**{k: v for k, v in given.items() if v is not None})
    return prepare_kaldi_dir(
        inputs[0], inputs[1] if len(inputs) > 1 else None, out, selection, tally.report, with_progress
    )


def _prepare_fisher(args: argparse.Namespace, inputs: list[Path], out: Path, tally: Tally) -> list[SetCounts]:
    from kaldi_punct.preparation.fisher_sets import FisherOptions, prepare_fisher

    names = ("min_words", "min_agreement", "dev_share", "test_share", "seed", "sph2pipe")
    given = {k: getattr(args, k) for k in names}
    options = FisherOptions(**{k: v for k, v in given.items() if v is not None})
    if options.dev_share + options.test_share >= 1:
        raise ConfigError(
            f"--dev-share, --test-share: expected less than 1 together, got {options.dev_share + options.test_share:g}"
        )
    return prepare_fisher(inputs, out, options, tally.report, resume=args.resume, track=with_progress)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a share from 0 to 1, got {text!r}")
    return value
