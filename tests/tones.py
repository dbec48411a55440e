"""Data directories of sound that can be foretold: tones that change, over and over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

TONES_HZ = tuple(250.0 * 1.25**i for i in range(12))


def write_tones(
    directory: Path, n_recordings: int = 4, seconds: float = 1.5, seed: int = 1, rate: int = 16_000
) -> Path:
    """A ``wav.scp`` and its files: each tone lasts 80 ms, and which comes next follows from which it is."""
    directory.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    lines = []
    for r in range(n_recordings):
        n_tones = int(seconds / 0.08)
        first = int(rng.integers(0, len(TONES_HZ)))
        hz = np.repeat([TONES_HZ[(first + i) % len(TONES_HZ)] for i in range(n_tones)], int(0.08 * rate))
        samples = 0.3 * np.sin(2 * np.pi * np.cumsum(hz) / rate) + rng.normal(0, 0.003, len(hz))
        path = directory / f"rec{r}.wav"
        soundfile.write(path, samples.astype(np.float32), rate)
        lines.append(f"rec{r} {path}\n")
    (directory / "wav.scp").write_text("".join(lines))
    return directory
