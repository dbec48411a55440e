"""``train`` and ``models``."""

from __future__ import annotations

import argparse
import logging
import os
from typing import TYPE_CHECKING

from kaldi_punct.commands.common import Tally
from kaldi_punct.commands.options import add_config_options, add_verb

if TYPE_CHECKING:
    from kaldi_punct.commands.options import Verbs

log = logging.getLogger("kaldi_punct")


def add_verbs(verbs: Verbs) -> None:
    """Adds the parsers."""
    parser = add_verb(
        verbs,
        "train",
        "Trains a model",
        "kaldi-punct train --set train.init=en --set train.max_steps=2 egs/mini egs/mini exp/punct",
        "A run that was stopped goes on from its last checkpoint. The best model is <exp-dir>/best. Several processes "
        "train one model under torchrun. The last line counts optimizer steps.",
    )
    add_config_options(parser, "model, data and train", "train.seed")
    parser.add_argument("train", metavar="<train-dirs>", help="punctuated data directories, separated by commas")
    parser.add_argument("dev", metavar="<dev-dirs>", help="the same, scored after each epoch")
    parser.add_argument("out", metavar="<exp-dir>", help="made if missing")
    parser.set_defaults(run=run_train)

    parser = add_verb(
        verbs,
        "models",
        "The built-in models",
        "kaldi-punct models",
        "Lines are '<name> <version> <language> <marks> <what it uses>'.",
    )
    parser.set_defaults(run=run_models)


def run_train(args: argparse.Namespace, tally: Tally) -> None:
    """Trains a model."""
    from kaldi_punct.config import Config
    from kaldi_punct.training import run_training

    if int(os.environ.get("RANK", "0")) > 0:  # one of several processes: the first tells how it goes
        log.setLevel(logging.WARNING)
    config = Config.load(args.config, args.overrides)
    outcome = run_training(args.train.split(","), args.dev.split(","), args.out, config)
    log.info("%d words in %d steps; the best model is %s", outcome.n_words, outcome.n_steps, outcome.best_dir)
    tally.n_done = outcome.n_steps
    if outcome.n_split:
        tally.note = f"{outcome.n_split} batches split for want of memory"


def run_models(args: argparse.Namespace, tally: Tally) -> None:  # noqa: ARG001
    """Prints the built-in models."""
    from kaldi_punct.checkpoint import built_in_names
    from kaldi_punct.punctuator import load

    for name in built_in_names():
        info = load(name).info
        uses = ["text"] + ["timing"] * info.uses_times + ["sound"] * info.hears
        print(name, info.version, info.language, " ".join(m for m in info.marks if m), "+".join(uses))
        tally.n_done += 1
