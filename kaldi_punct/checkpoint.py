"""A model directory: what is in it, how it is saved and loaded.

config.json         architecture, labels, name, version (ours), and the encoder's own configuration
model.safetensors   weights; matrices may be stored in 8 bits, a scale a row, and are dequantised on load
tokenizer.json      the tokenizer
case_lexicon.json   lower-case word -> its mixed form (McDonald)
speech/             the frozen speech encoder through which the model hears; not copied, it is named in config.json
README.md           the model card
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoConfig, PreTrainedConfig

from kaldi_punct.batch import PieceTable
from kaldi_punct.config import Config, DataConfig, ModelConfig, model_config_from_dict
from kaldi_punct.errors import CheckpointError, ConfigError
from kaldi_punct.frames import FrameSource
from kaldi_punct.model_files import read_json, replace_text, write_json, write_weights
from kaldi_punct.models.baselines import (
    WORD_SPECIAL_IDS,
    RecurrentConfig,
    RecurrentEncoder,
    fill_embeddings,
    read_word_vectors,
    word_tokenizer,
)
from kaldi_punct.models.lexical import (
    LexicalEncoder,
    check_causal,
    load_pretrained,
    read_embeddings,
    read_encoder_config,
    read_encoder_tokenizer,
)
from kaldi_punct.models.muse import Muse, learn_to_hear
from kaldi_punct.models.speech import SpeechFrames, make_source

BUILT_IN_DIR = Path(__file__).parent / "builtin"
FORMAT = "kaldi_punct/1"
_MODEL = "the model directory"  # for error texts
_SCALE = ".scale"
# Below this a matrix is not worth 8 bits.
_MIN_QUANTISED = 16_384


@dataclass
class Checkpoint:
    """Everything that a model directory holds, in memory.

    Attributes:
        model: the network.
        config: its architecture.
        window: how conversations are cut for it (``max_pieces``, ``margin_words``, ``left_context_s``).
        tokenizer: of the lexical encoder.
        special_ids: (cls, sep, unk) piece ids.
        encoder_config: of the transformer, or the sizes of a baseline.
        case_lexicon: lower-case word -> mixed form.
        name, version: as reported to clients.
        source: where the frames that it hears come from; None if it does not hear.
        copy_speech: whether a speech encoder is copied into the directory; None: where it is not on the hub.
    """

    model: Muse
    config: ModelConfig
    window: DataConfig
    tokenizer: Tokenizer
    special_ids: tuple[int, int, int]
    encoder_config: PreTrainedConfig | RecurrentConfig
    case_lexicon: dict[str, str] = field(default_factory=dict)
    name: str = ""
    version: str = ""
    source: FrameSource | None = None
    copy_speech: bool | None = None

    def __post_init__(self) -> None:
        if self.source is None:
            self.source = make_source(self.config)

    def piece_table(self) -> PieceTable:
        """Pieces of words by this checkpoint's tokenizer."""
        return PieceTable(self.tokenizer, *self.special_ids)


def create(config: Config, count_words: Callable[[], Mapping[str, int]] | None = None) -> Checkpoint:
    """A new checkpoint: pretrained encoder or given embeddings, everything else from scratch.

    Seed torch before the call; the weights from scratch depend on it.

    Args:
        config: of the run.
        count_words: how often the training sets have each word; called for a model of whole words alone.

    Raises:
        CheckpointError: the encoder cannot be had, or is no encoder for ``model.lookahead``.
        ConfigError: windows longer than the encoder reaches.
        FormatError: a broken file of word vectors.
    """
    options, source = _hear(config.model)
    if options.lexical != "transformer":
        made = _create_baseline(options, config.data, source, count_words)
    else:
        made = _create_transformer(options, config.data, source)
    made.copy_speech = config.train.copy_speech
    return made


def _hear(options: ModelConfig) -> tuple[ModelConfig, FrameSource | None]:
    """Where frames come from, and the options with their sample rate: a speech encoder has one of its own."""
    source = make_source(options)
    return options if source is None else replace(options, sample_rate_hz=source.kind.sample_rate_hz), source


def _create_transformer(options: ModelConfig, window: DataConfig, source: FrameSource | None) -> Checkpoint:
    name = options.encoder
    encoder_config = read_encoder_config(name, options.n_layers, options.encoder_dropout)
    check_reach(encoder_config, window.max_pieces, name)
    model = Muse(options, encoder_config, _n_features(source))
    assert isinstance(model.lexical, LexicalEncoder), "A transformer was asked for. This is a bug."
    load_pretrained(model.lexical, name)
    check_causal(model.lexical, name)
    tokenizer, special_ids = read_encoder_tokenizer(name)
    return Checkpoint(model, options, window, tokenizer, special_ids, encoder_config, source=source)


def _create_baseline(
    options: ModelConfig,
    window: DataConfig,
    source: FrameSource | None,
    count_words: Callable[[], Mapping[str, int]] | None,
) -> Checkpoint:
    vectors: dict[int, Tensor] = {}
    if options.tokens == "words":
        assert count_words is not None, "A model of whole words needs the training set's. This is a bug."
        given = read_word_vectors(options.embeddings) if options.embeddings else {}
        tokenizer, special_ids = word_tokenizer(count_words(), options.word_min_count, given), WORD_SPECIAL_IDS
        ids = tokenizer.get_vocab()
        vectors = {ids[word]: vector for word, vector in given.items()}
    else:
        tokenizer, special_ids = read_encoder_tokenizer(options.encoder)
        if options.embeddings:
            vectors = dict(enumerate(read_embeddings(options.encoder)))
    vocab_size = max(tokenizer.get_vocab_size(), len(vectors))  # an encoder may have more rows than pieces
    width = len(next(iter(vectors.values()))) if vectors else options.embedding_dim
    encoder_config = RecurrentConfig(vocab_size, width)
    model = Muse(options, encoder_config, _n_features(source))
    assert isinstance(model.lexical, RecurrentEncoder), "A baseline was asked for. This is a bug."
    if vectors:
        fill_embeddings(model.lexical, vectors)
    return Checkpoint(model, options, window, tokenizer, special_ids, encoder_config, source=source)


def _n_features(source: FrameSource | None) -> int | None:
    return None if source is None else source.kind.dim


def teach_to_hear(checkpoint: Checkpoint, options: ModelConfig) -> bool:
    """Gives a model that does not hear what it needs to learn it; see ``models.muse.learn_to_hear``.

    Args:
        checkpoint: the model.
        options: what it will hear, and how.

    Returns:
        False where the model learned to hear before: its own ears learn on, as they are.

    Raises:
        CheckpointError: the speech encoder cannot be had.
        ConfigError: the model always heard, or the encoder hears ahead and the model may not.
    """
    if checkpoint.model.sound_head is not None:
        return False
    options, source = _hear(replace(options, lookahead=checkpoint.config.lookahead))
    checkpoint.model = learn_to_hear(checkpoint.model, checkpoint.encoder_config, options, _n_features(source))
    checkpoint.config, checkpoint.source = checkpoint.model.config, source
    return True


def check_reach(encoder_config: PreTrainedConfig | RecurrentConfig, max_pieces: int, name: str) -> None:
    """Checks that the windows of a run fit into an encoder.

    Args:
        encoder_config: of the encoder.
        max_pieces: length of the windows.
        name: what the encoder is called where it is refused.

    Raises:
        ConfigError: windows longer than the encoder reaches.
    """
    n_positions = getattr(encoder_config, "max_position_embeddings", None)
    if n_positions is not None and max_pieces > n_positions:
        raise ConfigError(f"data.max_pieces: expected at most {n_positions} for {name!r}, got {max_pieces}")


def save(checkpoint: Checkpoint, model_dir: str | Path, *, quantise: bool = False) -> None:
    """Writes a model directory.

    Args:
        checkpoint: what to write.
        model_dir: made if missing; each file is replaced as a whole.
        quantise: store large matrices in 8 bits, symmetric, one scale a row.
    """
    directory = Path(model_dir)
    directory.mkdir(parents=True, exist_ok=True)
    state = checkpoint.model.state_dict()
    write_weights(directory / "model.safetensors", quantise_state(state) if quantise else state, FORMAT)
    replace_text(directory / "tokenizer.json", checkpoint.tokenizer.to_str(pretty=True))
    speech = checkpoint.source if isinstance(checkpoint.source, SpeechFrames) else None
    if speech is not None:
        speech.save(directory, checkpoint.copy_speech)
    write_json(directory / "case_lexicon.json", dict(sorted(checkpoint.case_lexicon.items())))
    write_json(
        directory / "config.json",
        {
            "format": FORMAT,
            "name": checkpoint.name,
            "version": checkpoint.version,
            "model": asdict(checkpoint.config),
            "window": asdict(checkpoint.window),
            "special_ids": list(checkpoint.special_ids),
            "encoder_config": _portable(checkpoint.encoder_config),
            **({"speech": speech.values()} if speech is not None else {}),
        },
    )


def load(name: str | Path) -> Checkpoint:
    """The checkpoint of a directory, of a built-in model, or of the Hugging Face hub.

    Args:
        name: a model directory, the name of a built-in model ("en"), or "hub:ORG/NAME".

    Raises:
        CheckpointError: nothing of that name, or a directory that is incomplete or not ours.
    """
    directory = find_model_dir(str(name))
    config_path = directory / "config.json"
    values = read_json(config_path, _MODEL)
    if values.get("format") != FORMAT:
        raise CheckpointError(
            f"{config_path}: expected format {FORMAT!r}, got {values.get('format')!r}; "
            "a model directory comes from `kaldi-punct train` (an ASR or plain BERT model is none)"
        )
    try:
        config = model_config_from_dict(values["model"], str(config_path))
        window = DataConfig(**values["window"])
        encoder_config = _read_encoder_values(config, values["encoder_config"])
        cls_id, sep_id, unk_id = values["special_ids"]
        source = SpeechFrames.from_values(values["speech"], directory) if config.acoustic == "speech" else None
    except (KeyError, TypeError, ValueError, ConfigError) as e:
        raise CheckpointError(f"{config_path}: expected a complete model configuration, got: {e}") from e
    model = Muse(config, encoder_config, _n_features(source))
    _load_weights(model, directory / "model.safetensors")
    model.eval()
    return Checkpoint(
        model,
        config,
        window,
        _read_tokenizer(directory / "tokenizer.json"),
        (cls_id, sep_id, unk_id),
        encoder_config,
        _read_lexicon(directory / "case_lexicon.json"),
        values.get("name") or directory.name,
        values.get("version") or "0",
        source,
    )


def find_model_dir(name: str) -> Path:
    """Where a model lies; see ``load``."""
    if name.startswith("hub:"):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

        try:
            return Path(snapshot_download(name.removeprefix("hub:")))
        except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as e:
            raise CheckpointError(f"{name}: expected a model on the Hugging Face hub, got: {e}") from e
    for directory in (Path(name), BUILT_IN_DIR / name):
        if (directory / "config.json").is_file():
            return directory
    if Path(name).is_dir():
        raise CheckpointError(f"{name}: expected a model directory with config.json, got one without it")
    raise CheckpointError(
        f"{name}: expected a model directory, 'hub:ORG/NAME' or a built-in model ({', '.join(built_in_names())}), "
        "got none of them"
    )


def built_in_names() -> list[str]:
    """Names of the models inside the package."""
    return sorted(p.parent.name for p in BUILT_IN_DIR.glob("*/config.json"))


def quantise_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Large matrices in 8 bits: row r is ``int8 x scale[r]``, the scale stored beside it as ``<name>.scale``."""
    out: dict[str, Tensor] = {}
    for key, tensor in state.items():
        if tensor.ndim < 2 or tensor.numel() < _MIN_QUANTISED or not tensor.is_floating_point():
            out[key] = tensor
            continue
        rows = tensor.float().reshape(tensor.shape[0], -1)
        scale = rows.abs().amax(1).clamp(min=1e-12) / 127.0
        out[key] = (rows / scale.unsqueeze(1)).round().clamp(-127, 127).to(torch.int8).reshape(tensor.shape)
        out[key + _SCALE] = scale
    return out


def dequantise_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of ``quantise_state``: all float32, so that an answer never depends on its batch mates."""
    out: dict[str, Tensor] = {}
    for key, tensor in state.items():
        if key.endswith(_SCALE):
            continue
        if tensor.dtype == torch.int8:
            scale = state[key + _SCALE].reshape(-1, *[1] * (tensor.ndim - 1))
            tensor = tensor.float() * scale
        out[key] = tensor
    return out


def _read_encoder_values(config: ModelConfig, values: Mapping[str, Any]) -> PreTrainedConfig | RecurrentConfig:
    if config.lexical != "transformer":
        return RecurrentConfig(**values)
    others = {k: v for k, v in values.items() if k != "model_type"}
    encoder_config: PreTrainedConfig = AutoConfig.for_model(values["model_type"], **others)
    return encoder_config


def _portable(encoder_config: PreTrainedConfig | RecurrentConfig) -> dict[str, Any]:
    """What tells an encoder from the defaults of its kind, without the path that it was once read from."""
    if isinstance(encoder_config, RecurrentConfig):
        return asdict(encoder_config)
    values: dict[str, Any] = encoder_config.to_diff_dict()
    return {"model_type": encoder_config.model_type, **{k: v for k, v in values.items() if k != "_name_or_path"}}


def _load_weights(model: Muse, path: Path) -> None:
    try:
        state = dequantise_state(load_file(path))
        model.load_state_dict(state)
    except FileNotFoundError as e:
        raise CheckpointError(f"{path}: expected the model's weights, got no such file") from e
    except (SafetensorError, RuntimeError, KeyError) as e:
        raise CheckpointError(f"{path}: expected weights that fit config.json, got: {str(e).splitlines()[0]}") from e


def _read_tokenizer(path: Path) -> Tokenizer:
    if not path.is_file():
        raise CheckpointError(f"{path}: expected the model's tokenizer, got no such file")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as e:  # tokenizers raises nothing narrower
        raise CheckpointError(f"{path}: expected the model's tokenizer, got: {e}; copy the model anew") from e


def _read_lexicon(path: Path) -> dict[str, str]:
    lexicon = read_json(path, _MODEL)
    wrong = next((word for word, written in lexicon.items() if not isinstance(written, str)), None)
    if wrong is not None:
        raise CheckpointError(f"{path}: expected strings, got {lexicon[wrong]!r} for {wrong!r}; copy the model anew")
    return lexicon
