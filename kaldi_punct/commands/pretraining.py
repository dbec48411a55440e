"""``pretrain`` and ``import-wav2vec``."""

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

OBJECTIVES = ("contrastive", "mlm")  # the keys of pretraining.OBJECTIVES, which loads torch


def add_verbs(verbs: Verbs) -> None:
    """Adds the parsers."""
    parser = add_verb(
        verbs,
        "pretrain",
        "Teaches an encoder without labels",
        "kaldi-punct pretrain --objective contrastive --config egs/games/conf/wav2vec_small.yaml "
        "data/train data/dev exp/wav2vec",
        "contrastive: wav2vec (2019) learns from the sound of wav.scp to tell what comes next. "
        "mlm: a transformer learns to tell hidden words of ctm, text or text_punct. A run that was stopped "
        "goes on from its last checkpoint. The best model is <exp-dir>/best. Several processes teach one model under "
        "torchrun or accelerate launch. The last line counts optimizer steps, and recordings that could not be used.",
    )
    parser.add_argument("--objective", choices=OBJECTIVES, required=True, help="what is learnt")
    add_config_options(parser, "wav2vec, contrastive, mlm, pretrain", "pretrain.seed")
    parser.add_argument("train", metavar="<data-dirs>", help="Kaldi data directories, separated by commas")
    parser.add_argument("dev", metavar="<dev-dirs>", help="the same, for validation after each epoch; '' for none")
    parser.add_argument("out", metavar="<exp-dir>", help="made if missing")
    parser.set_defaults(run=run_pretrain)

    parser = add_verb(
        verbs,
        "import-wav2vec",
        "A wav2vec (2019) checkpoint of fairseq as a model directory",
        "kaldi-punct import-wav2vec wav2vec_large.pt exp/wav2vec_large",
        "fairseq is not needed, and nothing that the file may hold beside weights and options is run.",
    )
    parser.add_argument("checkpoint", metavar="<F.pt>", help="what fairseq's --arch wav2vec wrote")
    parser.add_argument("out", metavar="<model-dir>", help="made if missing")
    parser.set_defaults(run=run_import)


def run_pretrain(args: argparse.Namespace, tally: Tally) -> None:
    """Teaches an encoder."""
    from kaldi_punct.pretraining import pretrain
    from kaldi_punct.pretraining_config import PretrainingConfig

    if int(os.environ.get("RANK", "0")) > 0:  # one of several processes: the first tells how it goes
        log.setLevel(logging.WARNING)
    config = PretrainingConfig.load(args.config, args.overrides)
    train_dirs, dev_dirs = args.train.split(","), args.dev.split(",") if args.dev else []
    done = pretrain(args.objective, train_dirs, dev_dirs, args.out, config, tally.report)
    log.info("the best model is %s", done.best_dir)
    tally.n_done = done.n_steps
    if done.n_split:
        tally.note = f"{done.n_split} batches split for want of memory"


def run_import(args: argparse.Namespace, tally: Tally) -> None:
    """Turns a checkpoint of fairseq into a model directory."""
    from kaldi_punct.fairseq import import_fairseq

    model = import_fairseq(args.checkpoint, args.out)
    log.info("%s: %d dimensions, %d parameters", args.out, model.dim, sum(p.numel() for p in model.parameters()))
    tally.n_done = 1
