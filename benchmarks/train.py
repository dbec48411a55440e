"""How many words a second training learns from, how much of its batches is padding, and where its time goes.

    python benchmarks/train.py
    python benchmarks/train.py --config egs/games/conf/all.yaml --data data/ref/a --max-words 4000 --seconds 60

Data is read as `kaldi-punct train` reads it and learned from step by step; nothing is saved. "data" is the building of
batches and their way to the device, "features" the reading of sound and the making of frames: once a run, so that its
share is that of an epoch among `train.n_epochs`. One thread unless OMP_NUM_THREADS says otherwise.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from accelerate import Accelerator

from kaldi_punct import checkpoint as checkpoints
from kaldi_punct.config import Config
from kaldi_punct.corpora import Corpora, count_training_words, fit_normaliser
from kaldi_punct.dataset import read_conversations
from kaldi_punct.hearing import SoundReader, sound_reader
from kaldi_punct.kaldi.data_dir import Conversation, DataDir
from kaldi_punct.labels import LabelSet
from kaldi_punct.models.objective import make_optimizer
from kaldi_punct.updates import Clock, Updater
from kaldi_punct.windows import Sound

MINI = Path(__file__).resolve().parent.parent / "egs" / "mini"
PARTS = ("data", "features", "forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True)
class Speed:
    """Words and steps learned from, and the time that took, on the clock and of the CPU."""

    n_words: int
    n_steps: int
    wall_s: float
    cpu_s: float


def main() -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", help="as of kaldi-punct train")
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="override one key of it")
    parser.add_argument("--data", type=Path, help="punctuated data directory (default: egs/mini)")
    parser.add_argument("--max-words", type=int, default=0, help="words to read of it; 0: all (default %(default)s)")
    parser.add_argument(
        "--repeat", type=int, default=0, help="times that an epoch takes it (default: 100 for egs/mini)"
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="time to learn for (default %(default)s)")
    args = parser.parse_args()

    config = Config.load(args.config, args.overrides)
    torch.manual_seed(config.train.seed)
    features = make_clock()
    repeat = args.repeat or (1 if args.data else 100)
    corpora, checkpoint = read(args.data or MINI, args.max_words, repeat, config, features)
    fit_normaliser(checkpoint.model, corpora.train)
    accelerator = Accelerator(mixed_precision="bf16" if config.train.precision == "bf16" else "no")
    model = accelerator.prepare_model(checkpoint.model, evaluation_mode=True)
    optimizer = make_optimizer(checkpoint.model, config, accelerator.device)
    updater = Updater(model, accelerator.prepare(optimizer), accelerator, config.train)
    speed = learn(corpora, updater, args.seconds)
    report(corpora, updater, features.seconds["features"], speed)
    return 0


def make_clock() -> Clock:
    """Of the CPU where nothing else computes: other programs on the machine do not disturb it."""
    if torch.cuda.is_available():
        return Clock(torch.device("cuda"))
    return Clock(now=time.process_time)


def read(
    directory: Path, max_words: int, repeat: int, config: Config, features: Clock
) -> tuple[Corpora, checkpoints.Checkpoint]:
    """The data of a run, its sound read under a clock, and the model that it would begin with."""
    checkpoint = checkpoints.create(config, lambda: count_training_words([directory], config))
    labels = LabelSet(tuple(config.model.marks), config.model.mark_map)
    data_dir = DataDir(directory)
    table = checkpoint.piece_table()
    by_times = config.model.hears_by_times
    reader = timed(sound_reader(data_dir, checkpoint.source, by_times=by_times), features)
    conversations, tally = read_conversations(data_dir, table, labels, max_words=max_words, read_sound=reader)
    print(f"{directory}: {tally}")
    return Corpora(conversations, [repeat] * len(conversations), {}, table, labels, config), checkpoint


def timed(reader: SoundReader | None, clock: Clock) -> SoundReader | None:
    """The same reader, under a clock."""
    if reader is None:
        return None

    def read_sound(conversation: Conversation) -> Sound | None:
        with clock.measure("features"):
            return reader(conversation)

    return read_sound


def learn(corpora: Corpora, updater: Updater, seconds: float) -> Speed:
    """Learns for about so long; the first step, in which much is made that stays, does not count."""
    n_words = n_steps = epoch = 0
    began_s, cpu_began_s = math.inf, 0.0
    n = updater.batches_a_step
    updater.model.train()
    while True:
        examples = corpora.epoch(epoch)
        epoch += 1
        for first in range(0, len(examples), n):
            last = min(first + n, len(examples))
            with updater.clock.measure("data"):
                batches = [examples.batch(i) for i in range(first, last)]
            updater.update(batches, n_steps)
            if began_s == math.inf:
                updater.clock = make_clock()
                began_s, cpu_began_s = time.perf_counter(), time.process_time()
                continue
            n_words += examples.n_words(first, last)
            n_steps += 1
            if time.perf_counter() - began_s >= seconds:
                return Speed(n_words, n_steps, time.perf_counter() - began_s, time.process_time() - cpu_began_s)


def report(corpora: Corpora, updater: Updater, features_s: float, speed: Speed) -> None:
    """Prints the figures."""
    examples = corpora.epoch(0)
    # Frames are made once for all repeats and epochs.
    n_run_words = corpora.config.train.n_epochs * examples.n_words(0, len(examples))
    shares_s = {**updater.clock.seconds, "features": features_s * speed.n_words / n_run_words}
    sounds = [c.track.sound for c in corpora.train if c.track.sound is not None]
    print(
        f"{speed.n_words / speed.wall_s:.0f} words/s, {speed.n_words / speed.cpu_s:.0f} words a second of CPU, "
        f"{speed.n_steps} steps of {updater.batches_a_step} batches"
    )
    print(f"padding: {100 * examples.padding:.1f} % of pieces, {100 * examples.frame_padding:.1f} % of frames")
    if sounds:
        sound_s = sum(len(s.frames) * s.frame_shift_s for s in sounds)
        print(f"features: {features_s:.1f} s for {sound_s:.0f} s of sound, once a run")
    total_s = sum(shares_s.values())
    print(", ".join(f"{name} {100 * shares_s.get(name, 0.0) / total_s:.1f} %" for name in PARTS))


if __name__ == "__main__":
    sys.exit(main())
