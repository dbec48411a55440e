"""Where the frames that a model hears come from: Kaldi's features here, frozen speech encoders in ``models.speech``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kaldi_punct import features
from kaldi_punct.audio import resample
from kaldi_punct.types import Audio


@dataclass(frozen=True, slots=True)
class FrameKind:
    """What frames are; those of equal kinds can stand for each other.

    Frame t is said to cover ``[t, t + 1) x frame_shift_s`` on the sound's clock, and is made where its window fits.

    Attributes:
        type: as ``ModelConfig.acoustic``.
        dim: features of a frame.
        sample_rate_hz: of the sound that they are made from.
        shift_samples: samples between frames, at that rate.
        window_samples: samples that a frame needs, from its beginning on.
        layer: of a speech encoder: 0 what its first layer gets, k what its k-th gives, -1 its output.
        sha256: of the speech encoder's weights; "" for other frames.
    """

    type: str
    dim: int
    sample_rate_hz: int
    shift_samples: int
    window_samples: int
    layer: int = -1
    sha256: str = ""

    @property
    def frame_shift_s(self) -> float:
        """Seconds between frames."""
        return self.shift_samples / self.sample_rate_hz

    def n_frames(self, n_samples: int) -> int:
        """How many frames that many samples have."""
        return max(0, 1 + (n_samples - self.window_samples) // self.shift_samples)


class FrameSource(Protocol):
    """What makes frames of sound."""

    @property
    def kind(self) -> FrameKind:
        """What the frames are."""
        ...

    def use(self, device: str) -> None:
        """Says where to compute: "cpu", "cuda:0" …"""
        ...

    def load(self) -> None:
        """Loads what it needs now; else the first sound does.

        Raises:
            CheckpointError: it cannot be had.
        """
        ...

    def frames(self, audio: Audio) -> NDArray[np.float32]:
        """The frames of a sound of any sample rate: (T, F), T = ``kind.n_frames`` of its samples at the kind's rate.

        Raises:
            CheckpointError: what it needs cannot be had.
        """
        ...


class KaldiFrames:
    """Kaldi's features: log-mel energies, pitch, or both (``features``)."""

    def __init__(self, name: str, sample_rate_hz: int) -> None:
        window = features.Windows.of(sample_rate_hz)
        self.kind = FrameKind(
            name, features.FEATURE_DIMS[name], sample_rate_hz, window.shift_samples, window.length_samples
        )

    def use(self, device: str) -> None:
        """Does nothing: all of it is the CPU's."""

    def load(self) -> None:
        """Does nothing: there is nothing to load."""

    def frames(self, audio: Audio) -> NDArray[np.float32]:
        """See ``FrameSource``."""
        return features.compute(self.kind.type, resample(audio, self.kind.sample_rate_hz))
