"""Waveform -> frames that a model hears: log-mel energies or Kaldi's pitch.

One frame is made every ``FRAME_SHIFT_S``. Frame t is said to cover ``[t, t + 1) x FRAME_SHIFT_S`` on the sound's
clock, though its analysis window reaches ``FRAME_LENGTH_S`` from its beginning; only frames whose window fits are made
(Kaldi's ``snip_edges=true``), so the last 15 to 25 ms of a sound have no frame of their own.

Kaldi's own numbers depend on the sample rate: give the sound at the rate the model was trained on (``audio.resample``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import kaldi_native_fbank as knf
import numpy as np
from numpy.typing import NDArray

from kaldi_punct.errors import ConfigError
from kaldi_punct.types import Audio

FRAME_SHIFT_S = 0.01
FRAME_LENGTH_S = 0.025
FEATURE_DIMS: Mapping[str, int] = {"melspec": 80, "pitch": 4, "prosody": 84}

_FRAMES_A_SECOND = 100
_INT16_SCALE = 32768.0  # Kaldi computes on samples as 16-bit files hold them
_BLOCK_S = 30


class Windows(NamedTuple):
    """Kaldi's windows in samples: how far apart they are, and how long."""

    shift_samples: int
    length_samples: int

    @classmethod
    def of(cls, sample_rate_hz: int) -> Windows:
        """The windows at a sample rate.

        Raises:
            ConfigError: a sample rate that features cannot be made from.
        """
        return cls(_shift_samples(sample_rate_hz), int(sample_rate_hz * FRAME_LENGTH_S))


def compute(name: str, audio: Audio) -> NDArray[np.float32]:
    """The frames called ``name``, one of ``FEATURE_DIMS``.

    Returns:
        Shape (T, F), T = ``n_frames(audio)``, F = ``FEATURE_DIMS[name]``.

    Raises:
        ConfigError: no such features, or a sample rate they cannot be made from.
    """
    if name not in _COMPUTE:
        raise ConfigError(f"features: expected one of {', '.join(sorted(_COMPUTE))}, got {name!r}")
    return _COMPUTE[name](audio)


def n_frames(audio: Audio) -> int:
    """How many frames ``audio`` has; 0 if it is shorter than one window.

    Raises:
        ConfigError: a sample rate that features cannot be made from.
    """
    windows = Windows.of(audio.sample_rate_hz)
    if len(audio.samples) < windows.length_samples:
        return 0
    return 1 + (len(audio.samples) - windows.length_samples) // windows.shift_samples


def melspec(audio: Audio, n_mels: int = 80) -> NDArray[np.float32]:
    """Log-mel energies as Kaldi's compute-fbank-feats has them, without dither and without an energy dimension.

    Args:
        audio: the sound.
        n_mels: mel bins from 20 Hz to half the sample rate.

    Returns:
        Shape (T, n_mels), natural logarithms.

    Raises:
        ConfigError: a sample rate that features cannot be made from, or too many bins for it.
    """
    options = knf.FbankOptions()
    options.frame_opts.samp_freq = audio.sample_rate_hz
    options.frame_opts.dither = 0.0  # the same sound gives the same answer
    options.mel_opts.num_bins = n_mels
    frames = np.empty((n_frames(audio), n_mels), dtype=np.float32)
    try:
        extractor = knf.OnlineFbank(options)
    except ValueError as e:
        raise ConfigError(f"n_mels: expected fewer bins at {audio.sample_rate_hz} Hz, got {n_mels} ({e})") from e
    block_samples = _BLOCK_S * audio.sample_rate_hz
    n_done = 0
    for first in range(0, len(audio.samples), block_samples):  # by blocks, so that no second copy of hours is held
        extractor.accept_waveform(audio.sample_rate_hz, _as_kaldi(audio.samples[first : first + block_samples]))
        n_ready = extractor.num_frames_ready
        for t in range(n_done, n_ready):
            frames[t] = extractor.get_frame(t)
        extractor.pop(n_ready - n_done)
        n_done = n_ready
    assert n_done == len(frames), f"{n_done} frames made, {len(frames)} expected. This is a bug."
    return frames


def pitch(audio: Audio) -> NDArray[np.float32]:
    """Kaldi's four pitch dimensions, as compute- and process-kaldi-pitch-feats make them without noise.

    The dimensions are: probability-of-voicing feature, log pitch less its mean over 1.5 s around, delta log pitch, log
    pitch. The second looks 0.75 s ahead, and the search for the pitch itself knows the whole sound. Needs about 50 MiB
    for each minute of sound.

    Returns:
        Shape (T, 4).

    Raises:
        ConfigError: a sample rate that features cannot be made from.
    """
    n = n_frames(audio)
    if not n:
        return np.empty((0, FEATURE_DIMS["pitch"]), dtype=np.float32)
    extraction = knf.PitchExtractionOptions()
    extraction.samp_freq = audio.sample_rate_hz
    processing = knf.ProcessPitchOptions()
    processing.add_raw_log_pitch = True
    processing.delta_pitch_noise_stddev = 0.0  # the same sound gives the same answer
    frames = knf.compute_and_process_kaldi_pitch(extraction, processing, _as_kaldi(audio.samples))
    # Windows are counted on sound resampled to 4 kHz, which now and then fits one more than the sound itself does.
    assert n <= len(frames) <= n + 1, f"{len(frames)} pitch frames made, {n} expected. This is a bug."
    return np.array(frames[:n], dtype=np.float32)


def prosody(audio: Audio) -> NDArray[np.float32]:
    """``melspec`` and ``pitch`` side by side: (T, 84); what is said of either holds.

    Raises:
        ConfigError: a sample rate that features cannot be made from.
    """
    return np.concatenate([melspec(audio), pitch(audio)], axis=1)


_COMPUTE: Mapping[str, Callable[[Audio], NDArray[np.float32]]] = {
    "melspec": melspec,
    "pitch": pitch,
    "prosody": prosody,
}


def _shift_samples(sample_rate_hz: int) -> int:
    # Kaldi rounds the shift down to whole samples: at 11025 Hz frames would run ahead of the clock by 8 s in an hour.
    if sample_rate_hz % _FRAMES_A_SECOND or sample_rate_hz < 4000:
        raise ConfigError(
            f"sample_rate_hz: expected at least 4000 and a multiple of {_FRAMES_A_SECOND}, got {sample_rate_hz}; "
            "resample to 8000 or 16000 first"
        )
    return sample_rate_hz // _FRAMES_A_SECOND


def _as_kaldi(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = samples * np.float32(_INT16_SCALE)
    return scaled
