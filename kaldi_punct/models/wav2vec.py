"""wav2vec: raw sound -> frames of 10 ms that tell what comes next (Schneider et al., 2019, arXiv:1904.05862).

A convolutional encoder makes a frame of every 160 samples; convolutions over the frames so far make its context, which
is what a punctuation model hears. Pretraining (``models.contrastive``) predicts later frames of the encoder from it.

Axes: B batch, N samples, T frames, D channels, S steps ahead.

What hears what. Frame t of the encoder looks at samples ``[160 t, 160 t + 465)``, its context at frames 0..t. But the
released model normalises each layer's output over all channels *and all time* (group norm with one group), so there
every frame depends on the whole sound, the future's loudness included: it is not a streaming model. With
``norm: frame`` the same network normalises over the channels of each frame alone, and a frame then depends on nothing
that is after its own samples: what a stream computes piece by piece equals what the whole gives. But loudness is lost.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from kaldi_punct.config import options_from_dict
from kaldi_punct.errors import CheckpointError, ConfigError
from kaldi_punct.model_files import read_json, write_json, write_weights
from kaldi_punct.pretraining_config import SAMPLE_RATE_HZ, SHIFT_SAMPLES, Wav2vecConfig, check_wav2vec

FORMAT = "kaldi_punct/wav2vec/1"

_USUAL_NEGATIVES = 10
# What a ReLU gives on average of normal numbers, without and with log compression.
_RELU_MEAN, _LOG_RELU_MEAN = 0.40, 0.28


class Wav2vec(nn.Module):
    """The encoder, the context, and the prediction that they are taught by.

    Attributes:
        dim: width of the frames.
        sample_rate_hz: of the sound that it hears.
        frame_shift_s: frame t is said to cover ``[t, t + 1) x frame_shift_s``.
    """

    def __init__(self, config: Wav2vecConfig) -> None:
        super().__init__()
        self.config = config
        self.dim = config.dim
        self.sample_rate_hz = SAMPLE_RATE_HZ
        self.frame_shift_s = SHIFT_SAMPLES / SAMPLE_RATE_HZ
        self.encoder = Encoder(config)
        self.context = Context(config)
        self.prediction = Prediction(config)

    @classmethod
    def load(cls, directory: str | Path) -> Wav2vec:
        """The model of a directory, in evaluation mode.

        Args:
            directory: holds ``config.json`` and ``model.safetensors``, as ``save`` writes them.

        Raises:
            CheckpointError: not such a directory, or one whose files do not fit.
        """
        model = cls(read_config(Path(directory)))
        path = Path(directory) / "model.safetensors"
        try:
            model.load_state_dict(load_file(path))
        except FileNotFoundError as e:
            raise CheckpointError(f"{path}: expected the model's weights, got no such file") from e
        except (SafetensorError, RuntimeError) as e:
            raise CheckpointError(f"{path}: expected weights that fit config.json, got: {_first_line(e)}") from e
        return model.eval()

    def save(self, directory: str | Path) -> None:
        """Writes a model directory: made if missing, each file replaced as a whole."""
        out = Path(directory)
        out.mkdir(parents=True, exist_ok=True)
        write_weights(out / "model.safetensors", self.state_dict(), FORMAT)
        values = {"format": FORMAT, "wav2vec": asdict(self.config)}
        write_json(out / "config.json", values)

    def forward(self, samples: Tensor, predict: bool = False) -> tuple[Tensor, Tensor]:
        """Frames of the encoder and their context.

        Args:
            samples: (B, N) float32 at 16 kHz, -1..1 as a file holds them (no other scaling), without padding.
            predict: give what the context expects (B, T, S, D) in its place (``Prediction``).

        Returns:
            Two tensors (B, T, D), T = ``config.n_frames(N)``.
        """
        encoded = self.encoder(samples)  # (B, D, T)
        context = self.context(encoded).transpose(1, 2)
        return encoded.transpose(1, 2), self.prediction(context) if predict else context

    @torch.no_grad()
    def extract(self, samples: Tensor) -> Tensor:
        """The context of one sound, for a model that hears it.

        Args:
            samples: (N,) float32 at ``sample_rate_hz``, on the model's device.

        Returns:
            (T, D) float32; T is 0 where the sound is shorter than ``config.receptive_field_samples``.
        """
        if not self.config.n_frames(len(samples)):
            return samples.new_zeros(0, self.dim)
        context: Tensor = self(samples.unsqueeze(0))[1]
        return context[0].float()


class Encoder(nn.Module):
    """Samples (B, N) -> frames (B, D, T): strided convolutions without bias or padding."""

    def __init__(self, config: Wav2vecConfig) -> None:
        super().__init__()
        widths = [1] + [config.dim] * len(config.kernels)
        self.layers = nn.ModuleList(
            _Layer(nn.Conv1d(n_in, config.dim, kernel, stride, bias=False), config)
            for n_in, kernel, stride in zip(widths, config.kernels, config.strides, strict=False)
        )
        self.log_compression = config.log_compression

    def forward(self, samples: Tensor) -> Tensor:
        x = samples.unsqueeze(1)  # (B, 1, N)
        for layer in self.layers:
            x = layer(x)  # (B, D, about N / stride)
        return x.abs().log1p() if self.log_compression else x


class Context(nn.Module):
    """Frames (B, D, T) -> what they and the ones before them say (B, D, T)."""

    def __init__(self, config: Wav2vecConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            _Layer(nn.Conv1d(config.dim, config.dim, kernel), config) for kernel in config.context_kernels
        )
        self.lefts = [kernel - 1 for kernel in config.context_kernels]
        self.pad = {"replicate": "replicate", "zero": "constant"}[config.pad]
        self.skip_connections = config.skip_connections
        self.scale = math.sqrt(config.residual_scale)

    def forward(self, frames: Tensor) -> Tensor:
        x = frames
        for layer, left in zip(self.layers, self.lefts, strict=True):
            y = layer(F.pad(x, (left, 0), self.pad) if left else x)  # causal
            x = (x + y) * self.scale if self.skip_connections else y
        return x


class _Layer(nn.Module):
    """Convolution, norm, ReLU."""

    def __init__(self, conv: nn.Conv1d, config: Wav2vecConfig) -> None:
        super().__init__()
        self.conv = conv
        _init_conv(conv)
        self.norm = _Norm(config.dim, over_time=config.norm == "utterance")

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)))


def _init_conv(conv: nn.Conv1d) -> None:
    """Random weights that answer 0 where all inputs are equal.

    What comes out of a ReLU has a mean, which plain random weights carry on and each norm enlarges against what changes
    over time: after a few layers all frames are nearly equal, and for hundreds of steps nothing is learnt.
    """
    fan_in = conv.in_channels * conv.kernel_size[0]
    with torch.no_grad():
        conv.weight.normal_(0.0, 1.0 / math.sqrt(fan_in))
        if conv.in_channels > 1:
            conv.weight -= conv.weight.mean((1, 2), keepdim=True)


class _Norm(nn.Module):
    """Mean 0 and variance 1 over channels, and over time where asked for; in float32 whatever comes in."""

    def __init__(self, dim: int, over_time: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.over_time = over_time

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()  # autocast leaves norms of float32 alone
        if self.over_time:
            return F.group_norm(wide, 1, self.weight, self.bias).type_as(x)
        frames = wide.transpose(1, 2)  # (B, T, D)
        return F.layer_norm(frames, frames.shape[2:], self.weight, self.bias).transpose(1, 2).type_as(x)


class Prediction(nn.Module):
    """Context (B, T, D) -> the encoder's frames as it expects them (B, T, S, D).

    The first of the S is the nearest that shares no sample with the frame itself, ``Wav2vecConfig.min_ahead`` later.
    """

    def __init__(self, config: Wav2vecConfig) -> None:
        super().__init__()
        dim, n_steps = config.dim, config.prediction_steps
        bound = 1.0 / math.sqrt(dim * n_steps)
        self.weight = nn.Parameter(torch.empty(dim, dim, n_steps).uniform_(-bound, bound))  # in, out, step
        # The same at all steps, as released. It begins where a candidate counts as right in 1 of 11 cases: what would
        # else bring all scores there first makes all frames alike, and then nothing is learnt for long.
        level = _LOG_RELU_MEAN if config.log_compression else _RELU_MEAN
        self.bias = nn.Parameter(torch.full((dim,), -math.log(_USUAL_NEGATIVES) / (dim * level)))

    def forward(self, context: Tensor) -> Tensor:
        dim, _, n_steps = self.weight.shape
        matrix = self.weight.transpose(1, 2).reshape(dim, n_steps * dim)
        return (context @ matrix).reshape(*context.shape[:2], n_steps, dim) + self.bias


def read_config(directory: Path) -> Wav2vecConfig:
    """The architecture of a model directory.

    Raises:
        CheckpointError: not a wav2vec model directory of ours, or a broken one.
    """
    path = directory / "config.json"
    values = read_json(path, "a wav2vec model directory")
    found = values.get("format")
    if found != FORMAT:
        raise CheckpointError(
            f"{path}: expected format {FORMAT!r}, got {found!r}; such a directory comes from "
            "`kaldi-punct pretrain` or `kaldi-punct import-wav2vec`"
        )
    try:
        config = options_from_dict(Wav2vecConfig, values["wav2vec"], str(path))
        check_wav2vec(config)
    except (KeyError, TypeError, ConfigError) as e:
        raise CheckpointError(f"{path}: expected a complete model configuration, got: {e}") from e
    return config


def _first_line(error: Exception) -> str:
    return " ".join(str(error).splitlines()[:2])
