"""Sound in: WAV, FLAC and OGG files or their bytes, and raw 16-bit samples -> one channel of float samples.

Nothing here opens what a client names: a server hands over bytes. Recordings of a ``wav.scp``, whose entries may be
pipes, are opened by ``kaldi.tables`` and come here as streams.
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from kaldi_punct.errors import FormatError
from kaldi_punct.types import Audio

MIN_SAMPLE_RATE_HZ = 4000  # Kaldi's pitch works on 4 kHz
MAX_SAMPLE_RATE_HZ = 384000

_BLOCK_SAMPLES = 1 << 20
# Programs that write WAV into a pipe cannot know its length; sox and ffmpeg put a huge one (Kaldi takes these too).
_UNKNOWN_LENGTH_BYTES = 0x7FFF0000
_WAV_CUT_SHORT = re.compile(r"^data : (\d+) \(should be (\d+)\)", re.MULTILINE)
_OGG_CUT_SHORT = re.compile(r"^Ogg ?: (Junk after the last page|Last page lacks an end-of-stream bit)", re.MULTILINE)


def read_audio(
    source: str | Path | bytes | BinaryIO,
    *,
    start_s: float = 0.0,
    name: str | None = None,
    max_duration_s: float | None = None,
) -> Audio:
    """The sound of a WAV, FLAC or OGG file of one channel, at the file's own sample rate.

    Args:
        source: a path, the bytes of a whole file, or an open binary stream (it need not be seekable).
        start_s: time of the first sample on the words' clock, seconds.
        name: what error messages call it; by default the path, or "audio".
        max_duration_s: refuse longer sound, without decoding all of it: a small file may hold hours of silence.

    Raises:
        FormatError: not a sound file, cut short, empty, too long, or of more than one channel.
        OSError: the path cannot be opened.
    """
    if isinstance(source, (str, Path)):
        with open(source, "rb") as stream:
            return read_audio(stream, start_s=start_s, name=name or os.fspath(source), max_duration_s=max_duration_s)
    data = source if isinstance(source, bytes) else source.read()
    name = name or "audio"
    if not data:
        raise FormatError(
            f"{name}: expected a WAV, FLAC or OGG file, got no bytes; check the command or file it is from"
        )
    try:
        samples, sample_rate_hz = _decode(data, name, max_duration_s)
    except soundfile.SoundFileError as e:
        raise FormatError(
            f"{name}: expected a whole WAV, FLAC or OGG file, got {len(data)} bytes that do not decode ({_reason(e)}); "
            "convert it, for instance by: sox in.mp3 out.wav"
        ) from e
    return _checked(samples, sample_rate_hz, start_s, name)


def from_linear16(data: bytes, sample_rate_hz: int, *, start_s: float = 0.0, name: str = "audio") -> Audio:
    """The sound of raw samples: signed 16-bit, little-endian, one channel.

    Args:
        data: two bytes a sample.
        sample_rate_hz: samples a second.
        start_s: time of the first sample on the words' clock, seconds.
        name: what error messages call it.

    Raises:
        FormatError: no samples, half a sample, or a sample rate out of range.
    """
    if len(data) % 2:
        raise FormatError(
            f"{name}: expected 16-bit samples, got an odd number of bytes ({len(data)}); send whole samples"
        )
    samples = np.frombuffer(data, dtype="<i2").astype(np.float32) / np.float32(32768)
    return _checked(samples, sample_rate_hz, start_s, name)


def resample(audio: Audio, sample_rate_hz: int) -> Audio:
    """The same sound at another sample rate, on the same clock; the very same record if the rate is the same.

    Raises:
        FormatError: a sample rate out of range.
    """
    if audio.sample_rate_hz == sample_rate_hz:
        return audio
    _check_rate(sample_rate_hz, "resample")
    samples = soxr.resample(audio.samples, audio.sample_rate_hz, sample_rate_hz, quality="HQ")
    return Audio(np.asarray(samples, dtype=np.float32), sample_rate_hz, audio.start_s)


def cut(audio: Audio, start_s: float, end_s: float | None = None) -> Audio:
    """The part of ``audio`` from ``start_s`` to ``end_s``, both on its clock, which the part keeps.

    Sample positions are rounded down, as Kaldi's extract-segments does. What lies outside the sound is left out, so the
    part may be shorter than asked for, or empty.

    Args:
        audio: the whole.
        start_s: seconds.
        end_s: seconds; None for the end of the sound.
    """
    n_samples = len(audio.samples)
    first = min(max(_floor_sample(start_s - audio.start_s, audio.sample_rate_hz), 0), n_samples)
    last = n_samples if end_s is None else _floor_sample(end_s - audio.start_s, audio.sample_rate_hz)
    last = min(max(last, first), n_samples)
    return Audio(audio.samples[first:last], audio.sample_rate_hz, audio.start_s + first / audio.sample_rate_hz)


def _floor_sample(offset_s: float, sample_rate_hz: int) -> int:
    # Rounding first: 0.29 * 100 is 28.999999999999996, and a sample early is a sample too many.
    return int(np.floor(round(offset_s * sample_rate_hz, 3)))


def _decode(data: bytes, name: str, max_duration_s: float | None) -> tuple[NDArray[np.float32], int]:
    blocks: list[NDArray[np.float32]] = []
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        if file.channels != 1:
            raise FormatError(
                f"{name}: expected one channel, got {file.channels}; take one out, "
                "for instance by: sox in.wav out.wav remix 1 (in a wav.scp: sox in.wav -t wav - remix 1 |)"
            )
        max_samples = None if max_duration_s is None else int(max_duration_s * file.samplerate)
        n_samples = 0
        while True:
            block = file.read(_BLOCK_SAMPLES, dtype="float32")
            n_samples += len(block)
            if max_samples is not None and n_samples > max_samples:
                raise FormatError(f"{name}: expected at most {max_duration_s:g} s of sound, got more; send it in parts")
            blocks.append(block)
            if len(block) < _BLOCK_SAMPLES:
                break
        _check_whole(file.extra_info, name)
        return np.concatenate(blocks), int(file.samplerate)


def _check_whole(decoder_notes: str, name: str) -> None:
    # libsndfile goes on without a word when a WAV or OGG file ends early; only its notes tell.
    wav = _WAV_CUT_SHORT.search(decoder_notes)
    if wav and int(wav[2]) < int(wav[1]) < _UNKNOWN_LENGTH_BYTES:
        raise FormatError(
            f"{name}: expected {wav[1]} bytes of samples, got {wav[2]}: the file is cut short; copy it again"
        )
    if _OGG_CUT_SHORT.search(decoder_notes):
        raise FormatError(f"{name}: expected a whole Ogg stream, got one that is cut short or goes on; copy it again")


def _reason(error: soundfile.SoundFileError) -> str:
    # "Error opening <_io.BytesIO object at 0x7f…>: " says nothing to a reader.
    return re.sub(r"^Error opening <.*?>: ", "", str(error)).rstrip(". ")


def _checked(samples: NDArray[np.float32], sample_rate_hz: int, start_s: float, name: str) -> Audio:
    _check_rate(sample_rate_hz, name)
    if not len(samples):
        raise FormatError(f"{name}: expected sound, got no samples; leave the audio out where there is none")
    if not np.isfinite(samples).all():
        raise FormatError(f"{name}: expected finite samples, got NaN or infinity; write the file again as 16-bit")
    return Audio(samples, sample_rate_hz, start_s)


def _check_rate(sample_rate_hz: int, name: str) -> None:
    if not MIN_SAMPLE_RATE_HZ <= sample_rate_hz <= MAX_SAMPLE_RATE_HZ:
        raise FormatError(
            f"{name}: expected a sample rate from {MIN_SAMPLE_RATE_HZ} to {MAX_SAMPLE_RATE_HZ} Hz, "
            f"got {sample_rate_hz}; give the rate the sound was recorded at"
        )
