"""From lattices to words: which decoder made them, found beside their decode directory where it is not given."""

from __future__ import annotations

import argparse
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kaldi_punct.commands.confidences import choose_words
from kaldi_punct.commands.sources import Entries, Tables
from kaldi_punct.errors import ConfigError, FormatError, KaldiPunctError, LatticeError
from kaldi_punct.types import Utterance

if TYPE_CHECKING:
    from kaldi_punct.kaldi.lattice import Decoder, Lattice

log = logging.getLogger("kaldi_punct")
T = TypeVar("T")
_ANY_SHIFT_S = 0.01
_JOB = re.compile(r"^lat\.(\d+)(?:\.gz)?$")


@dataclass(frozen=True, slots=True)
class DecoderFiles:
    """What reads lattices; None is not known yet.

    Attributes:
        words, word_boundary, transition_model: rxfilenames.
        frame_shift_s: seconds between the lattice's frames.
        acoustic_scale: multiplies acoustic costs.
        word_ins_penalty: added to each word's cost.
        align_lexicon: rxfilename, in place of word_boundary.
    """

    words: str | None
    word_boundary: str | None
    transition_model: str | None
    frame_shift_s: float | None
    acoustic_scale: float | None
    word_ins_penalty: float | None
    align_lexicon: str | None = None

    @classmethod
    def from_args(cls, args: argparse.Namespace) -> DecoderFiles:
        """What the options of ``options.add_lattice_options`` give."""
        return cls(
            args.words,
            args.word_boundary,
            args.transition_model,
            args.frame_shift,
            args.acoustic_scale,
            args.word_ins_penalty,
            args.align_lexicon,
        )


def archives(source: str) -> list[str]:
    """The rspecifiers that an input stands for: itself, or a decode directory's archives in the order of their jobs.

    Raises:
        FormatError: a directory without lattices, or one whose archives are not as many as its ``num_jobs``.
    """
    if not os.path.isdir(source):
        is_rspecifier = source.split(":")[0].split(",")[0] in ("ark", "scp")
        return [source if is_rspecifier else f"ark:{source}"]
    jobs = {int(found.group(1)): name for name in os.listdir(source) if (found := _JOB.match(name))}
    if not jobs:
        raise FormatError(f"{source}: expected a decode directory with lat.JOB.gz, got none in it; check the path")
    n_jobs = len(jobs)
    if os.path.isfile(os.path.join(source, "num_jobs")):
        text = Path(source, "num_jobs").read_text(encoding="utf-8").strip()
        n_jobs = int(text) if text.isascii() and text.isdigit() else n_jobs
    missing = [job for job in range(1, n_jobs + 1) if job not in jobs]
    if missing or len(jobs) != n_jobs:
        raise FormatError(
            f"{source}: expected lat.1.gz to lat.{n_jobs}.gz (num_jobs), got {len(jobs)} archives"
            f"{f', none of job {missing[0]}' if missing else ''}; decode the missing jobs, "
            "or name the archives: 'ark:gunzip -c … |'"
        )
    return [f"ark:{os.path.join(source, jobs[job])}" for job in sorted(jobs)]


def read_lattices(source: str) -> Iterator[tuple[str, Lattice | LatticeError]]:
    """The lattices of an rspecifier, or of all archives of a decode directory.

    Raises:
        FormatError: a broken stream; the archives after it are read first.
    """
    from kaldi_punct.kaldi import tables

    broken: FormatError | None = None
    for rspecifier in archives(source):
        try:
            yield from tables.read_lattices(rspecifier)
        except FormatError as e:
            if broken is not None:
                log.error("%s", broken)
            broken = e
    if broken is not None:
        raise broken


def find_decoder(
    source: str,
    given: DecoderFiles,
    *,
    need_times: bool,
    lm_scale: float = 1.0,
    is_aligned: bool = False,
    in_frames: bool = False,
) -> Decoder:
    """The decoder of an input's lattices: what is given, else what lies beside their decode directory.

    Args:
        source: rspecifier or decode directory.
        given: by the user.
        need_times: word times must come out.
        lm_scale: multiplies graph costs.
        is_aligned: the lattices are word-aligned already.
        in_frames: times will be used in frames, so no frame shift is needed.

    Raises:
        ConfigError: something needed is neither given nor found; the text names the option.
    """
    from kaldi_punct.kaldi import tables

    files, place = _complete(source, given)
    if in_frames and files.frame_shift_s is None:
        files = replace(files, frame_shift_s=_ANY_SHIFT_S)
    words = _required(files.words, "--words", "words.txt", place)
    acoustic_scale = _required(files.acoustic_scale, "--acoustic-scale", "1/LMWT, as of scoring_kaldi/best_wer", place)
    word_ins_penalty = 0.0 if files.word_ins_penalty is None else files.word_ins_penalty
    if need_times and not is_aligned:
        _required(files.transition_model, "--transition-model", "final.mdl or trans.mdl", place)
        if files.align_lexicon is None:
            what = "phones/word_boundary.int (or --align-lexicon)"
            _required(files.word_boundary, "--word-boundary", what, place)
    log.info(
        "lattices: words %s, acoustic scale %g, word insertion penalty %g", words, acoustic_scale, word_ins_penalty
    )
    phones = files.word_boundary if files.align_lexicon is None else files.align_lexicon
    has_aligner = not is_aligned and files.transition_model is not None and phones is not None
    frame_shift_s = None
    if is_aligned:
        frame_shift_s = _required(files.frame_shift_s, "--frame-shift", "seconds of a lattice frame", place)
        log.info("lattices: word-aligned as they are, frame shift %g s", frame_shift_s)
    elif has_aligner:
        frame_shift_s = _required(files.frame_shift_s, "--frame-shift", "seconds of a lattice frame", place)
        log.info(
            "lattices: transition model %s, %s %s, frame shift %g s",
            files.transition_model,
            "word boundary" if files.align_lexicon is None else "align lexicon",
            phones,
            frame_shift_s,
        )
    else:
        log.warning(
            "lattices: no word times, as there is no %s",
            "--transition-model" if files.transition_model is None else "--word-boundary",
        )
    return tables.load_decoder(
        words=words,
        transition_model=files.transition_model if has_aligner else None,
        word_boundary=files.word_boundary if has_aligner else None,
        align_lexicon=files.align_lexicon if has_aligner else None,
        frame_shift_s=frame_shift_s,
        acoustic_scale=acoustic_scale,
        lm_scale=lm_scale,
        word_ins_penalty=word_ins_penalty,
        is_aligned=is_aligned,
    )


def hypotheses(source: str, decoder: Decoder, side: Tables, confidence: str = "none", n: int = 1) -> Entries:
    """The words of each lattice, chosen as ``confidences.KINDS`` says, on the recording's clock if that is known.

    With ``n`` above 1: those of the best path, and the list of the ``n`` best.
    """
    for utt_id, lattice in read_lattices(source):
        if isinstance(lattice, KaldiPunctError):
            yield utt_id, lattice
            continue
        try:
            if n > 1:
                chosen = decoder.nbest(lattice, n, start_s=side.start_s(utt_id))
            else:
                chosen = (choose_words(decoder, lattice, confidence, start_s=side.start_s(utt_id)),)
        except KaldiPunctError as e:
            yield utt_id, e
            continue
        item = side.place(Utterance(utt_id, chosen[0].words))
        if n > 1:
            spk_id = side.utt2spk.get(utt_id)
            said = (replace(h, words=tuple(replace(w, spk_id=spk_id) for w in h.words)) for h in chosen)
            item = replace(item, hypotheses=tuple(said))
        yield utt_id, item


def _complete(source: str, given: DecoderFiles) -> tuple[DecoderFiles, str]:
    """What is given, with what lies beside the lattices in place of what is not; and where was looked."""
    from kaldi_punct.kaldi.scales import find_scales

    found = find_scales(source)
    if found.decode_dir is None:
        return given, "(the input names no decode directory)"
    if given.acoustic_scale is None and found.acoustic_scale is not None:
        log.info("lattices: acoustic scale %g is from %s", found.acoustic_scale, found.best_wer)
    if given.word_ins_penalty is None and found.word_ins_penalty is not None:
        log.info("lattices: word insertion penalty %g is from %s", found.word_ins_penalty, found.best_wer)
    if given.frame_shift_s is None and found.frame_shift_s is not None:
        log.info("lattices: frame shift %g s is from %s", found.frame_shift_s, found.frame_shift_file)
    word_boundary, align_lexicon = given.word_boundary, given.align_lexicon
    if word_boundary is None and align_lexicon is None:
        word_boundary = _path(None, found.word_boundary)
        align_lexicon = None if word_boundary is not None else _path(None, found.align_lexicon)
    complete = DecoderFiles(
        _path(given.words, found.words),
        word_boundary,
        _path(given.transition_model, found.transition_model),
        _number(given.frame_shift_s, found.frame_shift_s),
        _number(given.acoustic_scale, found.acoustic_scale),
        _number(given.word_ins_penalty, found.word_ins_penalty),
        align_lexicon,
    )
    return complete, f"beside {found.decode_dir}"


def _path(given: str | None, found: Path | None) -> str | None:
    return given if given is not None or found is None else str(found)


def _number(given: float | None, found: float | None) -> float | None:
    return found if given is None else given


def _required(value: T | None, option: str, what: str, place: str) -> T:
    if value is None:
        raise ConfigError(f"{option}: expected {what}, got none, and none was found {place}; give {option}")
    return value
