"""Sound of data sets: decoded once, what cannot be used is reported, and cut into pieces by (seed, epoch) alone."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tones import write_tones

from kaldi_punct.errors import ConfigError, FormatError
from kaldi_punct.pretraining_config import Wav2vecConfig
from kaldi_punct.waves import CropBatches, Waves, draw_negatives, read_waves


class Reports(list[str]):
    """Collects what is reported."""

    def __call__(self, error: Exception, rec_id: str) -> None:
        self.append(f"{rec_id} | {error}")


def read(data: Path, cache: Path, reports: Reports | None = None, min_samples: int = 1000) -> Waves:
    return read_waves(data, cache, 16_000, min_samples, Reports() if reports is None else reports)


def test_recordings_are_decoded_once(tmp_path: Path) -> None:
    data = write_tones(tmp_path / "d", n_recordings=2)
    waves = read(data, tmp_path / "c" / "train0")
    assert waves.rec_ids == ("rec0", "rec1")
    expected, _ = soundfile.read(data / "rec1.wav", dtype="float32")
    np.testing.assert_allclose(waves.cut(1, 100, 50), expected[100:150], atol=1 / 32768)
    assert waves.total_samples == 2 * len(expected)
    (data / "rec1.wav").unlink()
    np.testing.assert_array_equal(read(data, tmp_path / "c" / "train0").cut(1, 0, 90), waves.cut(1, 0, 90))


def test_other_rates_are_resampled(tmp_path: Path) -> None:
    data = write_tones(tmp_path / "d", n_recordings=1, seconds=0.8, rate=8_000)
    waves = read(data, tmp_path / "c")
    assert len(waves.samples[0]) == 12_800
    slow, _ = soundfile.read(data / "rec0.wav", dtype="float32")
    np.testing.assert_allclose(waves.cut(0, 2000, 4000)[::2], slow[1000:3000], atol=0.02)


def test_wav_scp_as_kaldi_has_it(tmp_path: Path) -> None:
    data = write_tones(tmp_path / "d", n_recordings=1)
    table = f"piped cat {data}/rec0.wav |\nplain {data}/rec0.wav\n"
    (data / "wav.scp").unlink()
    (data / "wav.scp.gz").write_bytes(gzip.compress(table.encode()))
    waves = read(data, tmp_path / "c")
    assert waves.rec_ids == ("piped", "plain")
    np.testing.assert_array_equal(waves.samples[0], waves.samples[1])


def test_what_cannot_be_used_is_reported_each_time(tmp_path: Path) -> None:
    data = write_tones(tmp_path / "d", n_recordings=1)
    soundfile.write(data / "silent.wav", np.zeros(16_000), 16_000)
    soundfile.write(data / "short.wav", np.full(400, 0.1), 16_000)
    soundfile.write(data / "stereo.wav", np.zeros((16_000, 2)), 16_000)
    (data / "broken.wav").write_bytes(b"RIFF")
    names = ("broken", "missing", "rec0", "short", "silent", "stereo")
    table = "".join(f"{n} {data}/{n}.wav\n" for n in names) + "zpipe false |\n"
    (data / "wav.scp").write_text(table)
    for _ in range(2):
        reports = Reports()
        assert read(data, tmp_path / "c", reports).rec_ids == ("rec0",)
        broken, missing, short, silent, stereo, pipe = reports
        assert "broken | " in broken
        assert "expected a whole WAV, FLAC or OGG file" in broken
        assert "missing.wav: expected a readable file" in missing
        assert "short.wav: expected at least 1000 samples at 16000 Hz, got 400; join it to its neighbours" in short
        assert "silent.wav: expected sound, got silence (all samples are 0)" in silent
        assert "expected one channel, got 2" in stereo
        assert pipe.startswith("zpipe | zpipe: ")


def test_a_directory_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(
        FormatError, match=r"d: expected a Kaldi data directory with wav\.scp, got none; check the path"
    ):
        read(tmp_path / "d", tmp_path / "c")
    (tmp_path / "d" / "wav.scp").write_text("a /nowhere.wav\n")
    with pytest.raises(FormatError, match=r"wav\.scp: expected recordings to learn from, got none that can be used"):
        read(tmp_path / "d", tmp_path / "c")


def test_another_wav_scp_is_another_run(tmp_path: Path) -> None:
    data = write_tones(tmp_path / "d", n_recordings=2)
    read(data, tmp_path / "c")
    (data / "wav.scp").write_text(f"rec0 {data}/rec0.wav\n")
    with pytest.raises(ConfigError, match=r"c\.json: expected the recordings that this run began with, got another"):
        read(data, tmp_path / "c")


def test_a_file_of_samples_that_is_cut_short(tmp_path: Path) -> None:
    data = write_tones(tmp_path / "d", n_recordings=1)
    read(data, tmp_path / "c")
    (tmp_path / "c.i16").write_bytes(b"\0\0")
    with pytest.raises(FormatError, match=r"c\.i16: expected \d+ bytes, got 2; remove .*c\.\*"):
        read(data, tmp_path / "c")


N_SAMPLES = (1200, 3000, 9000, 20_000, 50_001)


@pytest.fixture
def waves() -> Waves:
    rng = np.random.default_rng(1)
    samples = tuple(rng.integers(-9999, 9999, n).astype(np.int16) for n in N_SAMPLES)
    return Waves(tuple(f"r{i}" for i in range(len(samples))), samples)


def cut(waves: Waves, seed: tuple[int, ...] = (1, 0), crop: int = 8000, batch: int = 24_000) -> CropBatches:
    frames: Callable[[int], int] = Wav2vecConfig().n_frames
    return CropBatches(
        waves, crop_samples=crop, batch_samples=batch, min_samples=1105, n_frames=frames, n_negatives=4, seed=seed
    )


@pytest.mark.parametrize("seed", [(1, 0), (1, 1), (2, 0), (0,)])
def test_pieces_hold_nearly_all_sound(waves: Waves, seed: tuple[int, ...]) -> None:
    batches = cut(waves, seed)
    heard = 0
    for batch in batches.batches():
        n_crops, n_samples = batch.samples.shape
        assert 1105 <= n_samples <= 8000
        assert n_crops * n_samples <= 24_000
        assert batch.negatives.shape == (n_crops, Wav2vecConfig().n_frames(n_samples), 4)
        assert len(batch.rec_ids) == n_crops
        assert batch.samples.dtype == np.float32
        assert abs(batch.samples).max() < 0.31
        heard += n_crops * n_samples
    assert heard == batches.n_samples
    assert 0.75 * sum(N_SAMPLES) < heard <= sum(N_SAMPLES)


def test_an_epoch_can_be_entered_anywhere(waves: Waves) -> None:
    whole = list(cut(waves).batches())
    rest = list(cut(waves).batches(2))
    assert len(rest) == len(whole) - 2 == len(cut(waves)) - 2
    for a, b in zip(whole[2:], rest, strict=True):
        np.testing.assert_array_equal(a.samples, b.samples)
        np.testing.assert_array_equal(a.negatives, b.negatives)
    order = [b.rec_ids for b in whole]
    assert [b.rec_ids for b in cut(waves, (1, 1)).batches()] != order
    assert [b.rec_ids for b in cut(waves, (2, 0)).batches()] != order


def test_options_of_batches_are_not_ignored(waves: Waves) -> None:
    assert max(b.samples.shape[1] for b in cut(waves, crop=4000).batches()) <= 4000
    assert len(cut(waves, batch=8000)) > len(cut(waves, batch=24_000))


def test_negatives_are_all_other_frames() -> None:
    drawn = draw_negatives(1, 4, 3000, np.random.default_rng(1))[0]
    for t, row in enumerate(drawn):
        values, counts = np.unique(row, return_counts=True)
        assert values.tolist() == [i for i in range(4) if i != t]
        assert counts.min() > 900
