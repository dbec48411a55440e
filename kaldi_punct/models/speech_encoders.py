"""Frozen speech encoders: what they are by their files, and their frames of sound of any length.

Any encoder of ``transformers`` that takes samples (wav2vec 2.0, HuBERT, WavLM and their kin), Whisper's, and our own
wav2vec (``models.wav2vec``). Where their frames lie:

- wav2vec 2.0 and its kin: the convolutions of frame t see samples ``[320 t, 320 t + 400)``, so that it begins where it
  is said to, as Kaldi's windows do. A sound shorter than that window has no frame.
- our wav2vec: frame t sees ``[160 t, 160 t + 465)``, and what is before.
- Whisper: frame t lies around sample ``320 t``: its convolutions see 520 samples before and after, so its middle is
  10 ms before the middle of what it is said to cover. It is made where the first half of that is in the sound.

All attention sees the whole piece. Sound that is longer than a piece (30 s) is cut into pieces that overlap, and each
frame comes from one in which it has at least 5 s on both sides, or all that there is: memory does not grow with
attention's square, and a frame of a long recording has heard as much as one of a short one.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModel, PreTrainedConfig, WhisperFeatureExtractor

from kaldi_punct.errors import CheckpointError, ConfigError
from kaldi_punct.frames import FrameKind
from kaldi_punct.model_files import read_json
from kaldi_punct.models import wav2vec
from kaldi_punct.pretraining_config import SAMPLE_RATE_HZ, SHIFT_SAMPLES

log = logging.getLogger(__name__)
Samples = NDArray[np.float32]

PIECE_S = 30.0  # Whisper's; what others were trained on is rarely longer
CONTEXT_SHARE = 6  # this part of a piece, on either side, is context alone where there is more sound
_WHISPER_HOP_SAMPLES = 160
_ENCODER = "a speech encoder"  # for error texts
_HASHED_BYTES = 1 << 22
_BLOCK_SAMPLES = 1 << 20


@dataclass(frozen=True, slots=True)
class Described:
    """An encoder by its files; no weights are loaded for it.

    Attributes:
        model_type: wav2vec2, hubert, whisper …, or wav2vec.
        kind: its frames.
        piece_frames: the most that are made at a time.
        causal: no frame hears what is after its own samples.
    """

    model_type: str
    kind: FrameKind
    piece_frames: int
    causal: bool


class Encoder(Protocol):
    """A loaded encoder, on its device."""

    def prepare(self, samples: Samples) -> Samples:
        """A whole recording as the encoder wants it."""
        ...

    def extract(self, piece: Samples) -> NDArray[np.float32]:
        """(T, F) frames of a piece, at least as many as the kind says."""
        ...


def describe(directory: Path, layer: int) -> Described:
    """What the encoder in a directory is.

    Args:
        directory: with ``config.json`` and weights.
        layer: whose frames are wanted: -1 the output, 0 what the first layer gets, k what the k-th gives.

    Raises:
        CheckpointError: no speech encoder, or one without weights.
        ConfigError: no such layer.
    """
    if read_json(directory / "config.json", _ENCODER).get("format") == wav2vec.FORMAT:
        config = wav2vec.read_config(directory)
        _check_layer(layer, 0, directory)
        rate_hz, shift = SAMPLE_RATE_HZ, SHIFT_SAMPLES
        window, dim = config.receptive_field_samples, config.dim
        model_type, causal = "wav2vec", config.norm == "frame"
    else:
        hf = _read_hf_config(directory)
        rate_hz = int(_read_preprocessor(directory).get("sampling_rate", 16000))
        shift, window = _geometry(hf, directory)
        model_type, dim, causal = hf.model_type, hf.hidden_size, False
        layer = _check_layer(layer, hf.num_hidden_layers, directory)
    kind = FrameKind("speech", dim, rate_hz, shift, window, layer, _hash_weights(directory))
    piece = hf.max_source_positions if model_type == "whisper" else kind.n_frames(int(PIECE_S * rate_hz))
    return Described(model_type, kind, piece, causal)


def load(directory: Path, described: Described, device: str) -> Encoder:
    """The encoder in a directory, frozen.

    Raises:
        CheckpointError: weights that do not fit.
    """
    if described.model_type == "wav2vec":
        return _OwnWav2vec(wav2vec.Wav2vec.load(directory).requires_grad_(False).to(device), device)
    model = _load_hf(directory, described)
    if described.model_type == "whisper":
        model.to(device)
        return _Whisper(model, directory, described, device)
    values = _read_preprocessor(directory)
    normalise = values.get("do_normalize", True) if values else model.config.feat_extract_norm == "layer"
    if not values:
        log.warning("%s: no preprocessor_config.json: samples are %snormalised, as its config.json suggests",
                    directory, "" if normalise else "not ")  # fmt: skip
    return _FromSamples(model.to(device), described.kind.layer, bool(normalise), device)


def extract(encoder: Encoder, described: Described, samples: Samples) -> NDArray[np.float32]:
    """The frames of a whole recording, (T, F), T = ``kind.n_frames`` of its samples.

    Args:
        encoder: what ``load`` gave.
        described: what it is.
        samples: at the kind's sample rate.

    Raises:
        CheckpointError: the encoder makes another number of frames than its configuration says.
    """
    kind = described.kind
    n_frames, shift = kind.n_frames(len(samples)), kind.shift_samples
    out = np.empty((n_frames, kind.dim), np.float32)
    if not n_frames:
        return out
    samples = encoder.prepare(samples)
    for start, first, last in cut_pieces(n_frames, described.piece_frames):
        stop = start + described.piece_frames
        # The last piece takes what is left of the sound, also what makes no frame of its own.
        end = len(samples) if stop >= n_frames else max(stop * shift, (stop - 1) * shift + kind.window_samples)
        frames = encoder.extract(samples[start * shift : end])
        if len(frames) < last - start or frames.shape[1] != kind.dim:
            raise CheckpointError(
                f"{described.model_type}: expected {last - start} frames of {kind.dim} numbers by its config.json, got "
                f"{frames.shape}; take another model.speech"
            )
        out[first:last] = frames[first - start : last - start]
    return out


def cut_pieces(n_frames: int, piece_frames: int) -> Iterator[tuple[int, int, int]]:
    """Pieces (start, first, last) that give frames first..last each, in order, start being where the piece begins."""
    if n_frames <= piece_frames:
        yield 0, 0, n_frames
        return
    context = piece_frames // CONTEXT_SHARE
    first = 0
    while first < n_frames:
        start = min(max(first - context, 0), n_frames - piece_frames)  # the last is as long as the others
        last = n_frames if start + piece_frames >= n_frames else start + piece_frames - context
        yield start, first, last
        first = last


def weight_files(directory: Path) -> list[Path]:
    """The files that hold the weights, safetensors where there are any."""
    return sorted(directory.glob("*.safetensors")) or sorted(directory.glob("pytorch_model*.bin"))


class _FromSamples:
    """An encoder of ``transformers`` that takes samples."""

    def __init__(self, model: Any, layer: int, normalise: bool, device: str) -> None:
        self.model, self._layer, self._normalise, self._device = model, layer, normalise, device

    def prepare(self, samples: Samples) -> Samples:
        # Over the whole recording: a piece of silence is not to be blown up to speech.
        if not self._normalise:
            return samples
        mean, deviation = _moments(samples)
        normalised: Samples = (samples - np.float32(mean)) * np.float32(1.0 / deviation)
        return normalised

    def extract(self, piece: Samples) -> NDArray[np.float32]:
        return _states(self.model, torch.as_tensor(piece).unsqueeze(0).to(self._device), self._layer)


class _Whisper:
    """Whisper's encoder: log-mel energies of exactly one piece, silence added where it is shorter."""

    def __init__(self, model: Any, directory: Path, described: Described, device: str) -> None:
        self.model, self._device = model, device
        self._layer, self._rate_hz = described.kind.layer, described.kind.sample_rate_hz
        self._n_samples = described.piece_frames * described.kind.shift_samples
        if _read_preprocessor(directory):
            self._to_mel: Any = WhisperFeatureExtractor.from_pretrained(directory)
        else:
            self._to_mel = WhisperFeatureExtractor(  # type: ignore[no-untyped-call]
                feature_size=model.config.num_mel_bins
            )

    def prepare(self, samples: Samples) -> Samples:
        return samples

    def extract(self, piece: Samples) -> NDArray[np.float32]:
        mel = self._to_mel(piece, sampling_rate=self._rate_hz, max_length=self._n_samples, padding="max_length",
                           truncation=True, return_tensors="pt").input_features  # fmt: skip
        return _states(self.model, mel.to(self._device), self._layer)


class _OwnWav2vec:
    """Our wav2vec."""

    def __init__(self, model: wav2vec.Wav2vec, device: str) -> None:
        self.model, self._device = model, device

    def prepare(self, samples: Samples) -> Samples:
        return samples

    def extract(self, piece: Samples) -> NDArray[np.float32]:
        frames: NDArray[np.float32] = self.model.extract(torch.as_tensor(piece).to(self._device)).cpu().numpy()
        return frames


def _moments(samples: Samples) -> tuple[float, float]:
    """Mean and deviation, as the extractors of ``transformers`` take them; hours of sound a block at a time."""
    n, blocks = len(samples), [samples[i : i + _BLOCK_SAMPLES] for i in range(0, len(samples), _BLOCK_SAMPLES)]
    mean = sum(float(b.sum(dtype=np.float64)) for b in blocks) / n
    variance = sum(float(np.square(b - mean, dtype=np.float64).sum()) for b in blocks) / n
    return mean, math.sqrt(variance + 1e-7)


def _states(model: Any, inputs: torch.Tensor, layer: int) -> NDArray[np.float32]:
    with torch.inference_mode():
        if layer < 0:
            states = model(inputs).last_hidden_state
        else:
            states = model(inputs, output_hidden_states=True).hidden_states[layer]
    frames: NDArray[np.float32] = states[0].float().cpu().numpy()
    return frames


def _load_hf(directory: Path, described: Described) -> Any:
    try:
        model, report = AutoModel.from_pretrained(directory, dtype=torch.float32, output_loading_info=True)
    except Exception as e:  # transformers raises nothing narrower for a broken file
        raise CheckpointError(f"{directory}: expected weights that fit config.json, got: {e}; copy it anew") from e
    # The first is of training alone; a decoder is not used.
    missing = sorted(k for k in report["missing_keys"] if k != "masked_spec_embed" and not k.startswith("decoder."))
    if missing:
        raise CheckpointError(
            f"{directory}: expected all weights of config.json, got none for {len(missing)}, first {missing[0]!r}; "
            "copy it anew"
        )
    if described.model_type == "whisper":
        model = model.get_encoder()
    stack = model if described.model_type == "whisper" else model.encoder
    if described.kind.layer >= 0:  # layers beyond the next one change nothing of what is wanted
        stack.layers = stack.layers[: described.kind.layer + 1]
    return model.eval().requires_grad_(False)


def _read_hf_config(directory: Path) -> PreTrainedConfig:
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(directory)
    except (OSError, ValueError, KeyError) as e:
        raise CheckpointError(f"{directory}: expected a speech encoder's config.json, got: {e}") from e
    return config


def _geometry(config: PreTrainedConfig, directory: Path) -> tuple[int, int]:
    """(samples between frames, samples that the first one needs)."""
    if config.model_type == "whisper":
        return 2 * _WHISPER_HOP_SAMPLES, _WHISPER_HOP_SAMPLES
    kernels, strides = getattr(config, "conv_kernel", None), getattr(config, "conv_stride", None)
    if not kernels or not strides or getattr(config, "add_adapter", False):
        raise CheckpointError(
            f"{directory}: expected a speech encoder (wav2vec2, HuBERT, WavLM and the like without an adapter, "
            f"Whisper, or our wav2vec), got a model of type {config.model_type!r}; take another model.speech"
        )
    shift = window = 1
    for kernel, stride in zip(kernels, strides, strict=True):
        window += (kernel - 1) * shift
        shift *= stride
    return shift, window


def _check_layer(layer: int, n_layers: int, directory: Path) -> int:
    """The layer, the last by its one name."""
    if not -1 <= layer <= n_layers or (layer >= 0 and not n_layers):
        choice = f"-1 (the output) or 0..{n_layers}" if n_layers else "-1 (the output)"
        raise ConfigError(f"model.speech_layer: expected {choice} for {str(directory)!r}, got {layer}")
    return -1 if layer == n_layers else layer


def _hash_weights(directory: Path) -> str:
    digest = hashlib.sha256()
    files = weight_files(directory)
    if not files:
        raise CheckpointError(f"{directory}: expected an encoder's weights (*.safetensors), got none; copy it anew")
    for path in files:
        with open(path, "rb") as stream:
            while block := stream.read(_HASHED_BYTES):
                digest.update(block)
    return digest.hexdigest()


def _read_preprocessor(directory: Path) -> dict[str, Any]:
    path = directory / "preprocessor_config.json"
    return read_json(path, _ENCODER) if path.is_file() else {}
