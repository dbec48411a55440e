"""Reading sound: formats, rates, clocks, and every error's text."""

from __future__ import annotations

import io
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kaldi_punct import audio
from kaldi_punct.errors import FormatError
from kaldi_punct.types import Audio

RATE_HZ = 8000


def tone(duration_s: float = 1.0, rate_hz: int = RATE_HZ, hz: float = 440.0) -> NDArray[np.float32]:
    t = np.arange(round(duration_s * rate_hz)) / rate_hz
    return cast(NDArray[np.float32], (0.5 * np.sin(2 * np.pi * hz * t)).astype(np.float32))


def encoded(
    samples: NDArray[np.float32], format: str = "WAV", subtype: str = "PCM_16", rate_hz: int = RATE_HZ
) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate_hz, format=format, subtype=subtype)
    return buffer.getvalue()


class Pipe:
    """A stream that can only be read once, as a subprocess's output."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self) -> bytes:
        data, self._data = self._data, b""
        return data


@pytest.mark.parametrize("format", ["WAV", "FLAC"])
def test_lossless_formats_give_the_16_bit_samples(format: str) -> None:
    pcm = np.array([0, 1, -1, 32767, -32768, 1234], dtype="<i2")
    buffer = io.BytesIO()
    soundfile.write(buffer, pcm, RATE_HZ, format=format, subtype="PCM_16")
    got = audio.read_audio(buffer.getvalue())
    assert got.sample_rate_hz == RATE_HZ
    assert got.samples.dtype == np.float32
    assert (got.samples * 32768).tolist() == pcm.tolist()


def test_ogg_is_read() -> None:
    got = audio.read_audio(encoded(tone(), "OGG", "VORBIS"))
    assert got.duration_s == 1.0
    assert np.abs(got.samples - tone()).max() < 0.05


def test_path_bytes_stream_and_pipe_are_the_same_sound(tmp_path: Path) -> None:
    data = encoded(tone())
    path = tmp_path / "a.wav"
    path.write_bytes(data)
    expected = audio.read_audio(data).samples
    for source in (path, str(path), io.BytesIO(data), cast(BinaryIO, Pipe(data))):
        assert np.array_equal(audio.read_audio(source).samples, expected)


def test_the_start_is_kept() -> None:
    assert audio.read_audio(encoded(tone()), start_s=2.5).start_s == 2.5
    assert audio.from_linear16(b"\1\0" * 80, RATE_HZ, start_s=2.5).start_s == 2.5
    assert audio.resample(audio.read_audio(encoded(tone()), start_s=2.5), 16000).start_s == 2.5


def test_sound_longer_than_a_block_is_whole() -> None:
    samples = np.tile(tone(), 300)  # 2.4 M samples, decoded in three blocks
    assert len(audio.read_audio(encoded(samples)).samples) == len(samples)


def test_linear16_is_little_endian_and_scaled_to_one() -> None:
    got = audio.from_linear16(np.array([0, 1, -32768, 16384], dtype="<i2").tobytes(), 16000)
    assert got.samples.tolist() == [0.0, 1 / 32768, -1.0, 0.5]
    assert got.sample_rate_hz == 16000


def test_linear16_equals_the_wav_file_of_the_same_samples() -> None:
    pcm = np.round(tone() * 32767).astype("<i2")
    buffer = io.BytesIO()
    soundfile.write(buffer, pcm, RATE_HZ, format="WAV", subtype="PCM_16")
    assert np.array_equal(
        audio.from_linear16(pcm.tobytes(), RATE_HZ).samples, audio.read_audio(buffer.getvalue()).samples
    )


def test_resampling_keeps_length_pitch_and_level() -> None:
    there = audio.resample(Audio(tone(), RATE_HZ), 16000)
    assert there.sample_rate_hz == 16000
    assert there.samples.dtype == np.float32
    assert len(there.samples) == 16000
    middle = slice(1000, 15000)
    assert np.abs(there.samples[middle] - tone(rate_hz=16000)[middle]).max() < 1e-3


def test_resampling_to_the_same_rate_is_free() -> None:
    same = Audio(tone(), RATE_HZ)
    assert audio.resample(same, RATE_HZ) is same


def test_cut_keeps_the_clock() -> None:
    whole = Audio(np.arange(800, dtype=np.float32), 100, start_s=10.0)
    part = audio.cut(whole, 11.0, 12.5)
    assert part.samples.tolist() == list(range(100, 250))
    assert (part.start_s, part.sample_rate_hz) == (11.0, 100)
    assert len(audio.cut(whole, 11.0).samples) == 700
    assert len(audio.cut(whole, 0.0, 10.5).samples) == 50  # begins before the sound does
    assert len(audio.cut(whole, 17.0, 30.0).samples) == 100  # ends after it
    assert len(audio.cut(whole, 30.0, 31.0).samples) == 0
    assert len(audio.cut(whole, 12.0, 11.0).samples) == 0


def test_cut_is_not_a_sample_early() -> None:
    whole = Audio(np.arange(100, dtype=np.float32), 100)
    assert audio.cut(whole, 0.29, 0.58).samples.tolist() == list(range(29, 58))  # 0.29 * 100 < 29 in floating point


@given(st.floats(0, 1), st.floats(0, 1))
def test_neighbouring_cuts_share_nothing_and_lose_nothing(a: float, b: float) -> None:
    whole = Audio(np.arange(1000, dtype=np.float32), 1000)
    first, second = sorted((a, b))
    parts = [audio.cut(whole, 0.0, first), audio.cut(whole, first, second), audio.cut(whole, second)]
    assert np.array_equal(np.concatenate([p.samples for p in parts]), whole.samples)


def message(source: bytes, **options: float) -> str:
    with pytest.raises(FormatError) as e:
        audio.read_audio(source, name="a.wav", **options)
    return str(e.value)


def test_two_channels_are_refused() -> None:
    stereo = encoded(np.stack([tone(), tone()], axis=1))
    assert message(stereo) == (
        "a.wav: expected one channel, got 2; take one out, for instance by: sox in.wav out.wav remix 1 "
        "(in a wav.scp: sox in.wav -t wav - remix 1 |)"
    )


def test_no_bytes_are_refused() -> None:
    assert message(b"") == (
        "a.wav: expected a WAV, FLAC or OGG file, got no bytes; check the command or file it is from"
    )


def test_a_file_without_samples_is_refused() -> None:
    assert message(encoded(tone(0.0))) == (
        "a.wav: expected sound, got no samples; leave the audio out where there is none"
    )


def test_another_format_is_refused() -> None:
    assert message(b"ID3 \n" * 160) == (
        "a.wav: expected a whole WAV, FLAC or OGG file, got 800 bytes that do not decode (Format not recognised); "
        "convert it, for instance by: sox in.mp3 out.wav"
    )


def test_a_wav_cut_short_is_refused() -> None:
    assert message(encoded(tone())[:8044]) == (
        "a.wav: expected 16000 bytes of samples, got 8000: the file is cut short; copy it again"
    )


def test_a_flac_cut_short_is_refused() -> None:
    data = encoded(tone(), "FLAC")
    assert f"got {len(data) // 2} bytes that do not decode (" in message(data[: len(data) // 2])


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_an_ogg_cut_short_is_refused(subtype: str) -> None:
    data = encoded(np.tile(tone(), 20), "OGG", subtype)
    for size in (len(data) // 2, len(data) - 10):
        assert message(data[:size]) == (
            "a.wav: expected a whole Ogg stream, got one that is cut short or goes on; copy it again"
        )


@pytest.mark.parametrize("written_bytes", [0xFFFFFFFF, 0x7FFFF000, 0x7FFFFFFF - 36])
def test_a_wav_from_a_pipe_of_unknown_length_is_read(written_bytes: int) -> None:
    data = bytearray(encoded(tone()))
    at = data.index(b"data") + 4
    data[at : at + 4] = written_bytes.to_bytes(4, "little")
    assert len(audio.read_audio(bytes(data)).samples) == RATE_HZ


def test_sound_longer_than_allowed_is_refused() -> None:
    data = encoded(tone(2.0))
    assert message(data, max_duration_s=1.5) == "a.wav: expected at most 1.5 s of sound, got more; send it in parts"
    assert audio.read_audio(data, max_duration_s=2.0).duration_s == 2.0


def test_samples_that_are_not_numbers_are_refused() -> None:
    samples = tone()
    samples[10] = np.nan
    assert message(encoded(samples, subtype="FLOAT")) == (
        "a.wav: expected finite samples, got NaN or infinity; write the file again as 16-bit"
    )


@pytest.mark.parametrize("rate_hz", [0, -8000, 100, 1_000_000])
def test_a_sample_rate_out_of_range_is_refused(rate_hz: int) -> None:
    expected = (
        f"audio: expected a sample rate from 4000 to 384000 Hz, got {rate_hz}; give the rate the sound was recorded at"
    )
    with pytest.raises(FormatError) as e:
        audio.from_linear16(b"\0\0" * 100, rate_hz, name="audio")
    assert str(e.value) == expected
    with pytest.raises(FormatError) as e:
        audio.resample(Audio(tone(), RATE_HZ), rate_hz)
    assert str(e.value) == expected.replace("audio:", "resample:")


def test_half_a_sample_is_refused() -> None:
    with pytest.raises(FormatError) as e:
        audio.from_linear16(b"\0\0\0", RATE_HZ)
    assert str(e.value) == "audio: expected 16-bit samples, got an odd number of bytes (3); send whole samples"


def test_no_linear16_samples_are_refused() -> None:
    with pytest.raises(FormatError, match=r"^audio: expected sound, got no samples; leave the audio out"):
        audio.from_linear16(b"", RATE_HZ)


def test_a_path_names_itself_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(b"no sound")
    with pytest.raises(FormatError) as e:
        audio.read_audio(path)
    assert str(e.value).startswith(f"{path}: expected a whole WAV, FLAC or OGG file, got 8 bytes")
    with pytest.raises(FileNotFoundError):
        audio.read_audio(tmp_path / "absent.wav")
