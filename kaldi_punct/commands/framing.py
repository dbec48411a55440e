"""``feats``: the frames that a model hears, computed once for all trainings."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kaldi_punct.commands.common import Tally, check_device, good, with_progress
from kaldi_punct.commands.options import add_device, add_out, add_threads, add_verb, count
from kaldi_punct.commands.threads import map_entries
from kaldi_punct.errors import ConfigError, FormatError, KaldiPunctError, UtteranceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kaldi_punct.commands.options import Verbs
    from kaldi_punct.frames import FrameSource
    from kaldi_punct.types import Audio

log = logging.getLogger("kaldi_punct")
Sounds = Iterator[tuple[str, "Callable[[], Audio] | KaldiPunctError"]]
TYPES = ("melspec", "pitch", "prosody", "speech")


def add_verbs(verbs: Verbs) -> None:
    """Adds the parser."""
    parser = add_verb(
        verbs,
        "feats",
        "Frames that a model hears, computed once",
        "kaldi-punct feats --type melspec \"scp:sed 's, wav, egs/mini/wav,' egs/mini/wav.scp |\" exp/mini",
        "Writes a float matrix a recording, keyed by recording: a conversation's segments share its frames, so "
        "segments are not cut. In a data directory the tables feats_<type>.{ark,scp,yaml} are found by train and by "
        "Punctuator.stream, and punctuate takes them by --feats; what they lack is computed from wav.scp.",
    )
    parser.add_argument("--type", choices=TYPES, help="as model.acoustic (speech where --speech is given)")
    parser.add_argument("--speech", metavar="DIR", help="as model.speech: an encoder's directory or hub name")
    parser.add_argument(
        "--layer", type=int, default=-1, metavar="K", help="as model.speech_layer (default %(default)s: the output)"
    )
    parser.add_argument(
        "--sample-rate", type=count, metavar="HZ", help="as model.sample_rate_hz, but for speech (default 8000)"
    )
    parser.add_argument(
        "--compress", action="store_true", help="two bytes a number, not four; such matrices are read as a whole"
    )
    parser.add_argument(
        "--suffix",
        default="",
        metavar="S",
        help="of the tables' names in a directory that holds those of several encoders",
    )
    add_device(parser)
    add_threads(parser)
    parser.add_argument(
        "source", metavar="<in>", help="data directory with wav.scp, or scp:<wav.scp>, or ark:<archive of WAV files>"
    )
    add_out(parser, "directory of the tables (the data directory itself, as a rule), or a wspecifier")
    parser.set_defaults(run=run_feats)


def run_feats(args: argparse.Namespace, tally: Tally) -> None:
    """Computes the frames of recordings."""
    from kaldi_punct.kaldi.archives import open_archive, parse_wspecifier
    from kaldi_punct.kaldi.vectors import float_matrix_value
    from kaldi_punct.precomputed import write_kind

    check_device(args.device)
    sounds = open_sounds(args.source)
    source = make_source(args)
    source.use(args.device)
    source.load()
    out = _wspecifier(args.out, source.kind.type, args.suffix)
    script = parse_wspecifier(out).script
    if args.compress and not parse_wspecifier(out).binary:
        raise ConfigError("--compress: expected a binary archive, got ark,t; leave one of them out")

    def work(rec_id: str, read: Callable[[], Audio]) -> NDArray[np.float32]:
        return compute(source, rec_id, read())

    with open_archive(out) as writer:
        for rec_id, frames in good(with_progress(map_entries(work, sounds, args.nj), "rec"), tally):
            writer.write(rec_id, float_matrix_value(frames, writer.binary, args.compress))
            tally.n_done += 1
    if script is not None:
        write_kind(script, source.kind)
        log.info("%s: %s frames of %d numbers, one every %g s", script, source.kind.type, source.kind.dim,
                 source.kind.frame_shift_s)  # fmt: skip


def make_source(args: argparse.Namespace) -> FrameSource:
    """What the options ask for.

    Raises:
        ConfigError: options that do not go together.
        CheckpointError: no such encoder.
    """
    kind = args.type or ("speech" if args.speech else None)
    if kind is None:
        raise ConfigError(f"--type: expected one of {', '.join(TYPES)}, got none; add it")
    if kind == "speech":
        if not args.speech:
            raise ConfigError("--speech: expected an encoder with --type speech, got none; add it")
        if args.sample_rate is not None:
            raise ConfigError("--sample-rate: expected none with --type speech, whose encoder has one; leave it out")
        from kaldi_punct.models.speech import SpeechFrames

        return SpeechFrames.of(args.speech, args.layer)
    if args.speech or args.layer != -1:
        name = "--speech" if args.speech else "--layer"
        raise ConfigError(f"{name}: expected --type speech with it, got {kind}; leave one of them out")
    from kaldi_punct.frames import KaldiFrames

    return KaldiFrames(kind, args.sample_rate or 8000)


def open_sounds(source: str) -> Sounds:
    """Recordings, and how to read each: nothing is read before it is asked for.

    Raises:
        FormatError: neither a data directory nor an rspecifier.
    """
    from kaldi_punct.kaldi.tables import parse_rspecifier

    if os.path.isdir(source):
        tables = [path for name in ("wav.scp", "wav.scp.gz") if (path := Path(source) / name).is_file()]
        if not tables:
            raise FormatError(f"{source}: expected a data directory with wav.scp, got one without it")
        return _by_script(str(tables[0]))
    if not source.startswith(("scp", "ark")) or ":" not in source:
        raise FormatError(
            f"{source}: expected a data directory or an rspecifier of sound, got neither; write e.g. 'scp:{source}'"
        )
    spec = parse_rspecifier(source)
    return _by_script(spec.rxfilename) if spec.is_script else _by_archive(source)


def compute(source: FrameSource, rec_id: str, audio: Audio) -> NDArray[np.float32]:
    """The frames of a recording, at least one.

    Raises:
        UtteranceError: it is too short for one.
    """
    frames = source.frames(audio)
    if not len(frames):
        needed_s = source.kind.window_samples / source.kind.sample_rate_hz
        raise UtteranceError(
            f"{rec_id}: expected at least {needed_s:g} s of sound, got {audio.duration_s:g} s; leave it out"
        )
    return frames


def _by_script(path: str) -> Sounds:
    from kaldi_punct.audio import read_audio
    from kaldi_punct.kaldi.tables import by_key, open_rxfilename, read_wav_scp

    def reader(rx: str) -> Callable[[], Audio]:
        def read() -> Audio:
            with open_rxfilename(rx) as stream:
                return read_audio(stream.read(), name=rx)

        return read

    for rec_id, rx in by_key(path, read_wav_scp(path)).items():
        yield rec_id, reader(rx)


def _by_archive(rspecifier: str) -> Sounds:
    from kaldi_punct.kaldi.vectors import read_waves
    from kaldi_punct.types import Audio

    for rec_id, (channels, sample_rate_hz) in read_waves(rspecifier):
        if len(channels) != 1:
            yield rec_id, UtteranceError(f"{rec_id}: expected one channel, got {len(channels)}; take one out")
            continue
        audio = Audio(channels[0], sample_rate_hz)
        yield rec_id, lambda audio=audio: audio  # type: ignore[misc]


def _wspecifier(out: str, kind: str, suffix: str) -> str:
    """The tables of a directory, which is made; a wspecifier stays as it is."""
    if ":" in out and out.partition(":")[0].split(",")[0] in ("ark", "scp"):
        if suffix:
            raise ConfigError("--suffix: expected a directory as <out> with it, got a wspecifier; leave it out")
        return out
    Path(out).mkdir(parents=True, exist_ok=True)
    stem = os.path.join(out, f"feats_{kind}{suffix}")
    return f"ark,scp:{stem}.ark,{stem}.scp"
