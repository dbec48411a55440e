"""Tiny speech encoders of every kind, with seeded weights that were never trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kaldi_punct.types import Audio

DIM = 12
KINDS = ("wav2vec2", "hubert", "wavlm", "whisper", "wav2vec")
WHISPER_POSITIONS = 60  # a piece of 1.2 s, so that seconds of sound have several


def write_speech_encoder(kind: str, directory: Path, **options: Any) -> Path:
    """A directory of an encoder of ``KINDS``."""
    torch.manual_seed(13)
    if kind == "wav2vec":
        from kaldi_punct.models.wav2vec import Wav2vec
        from kaldi_punct.pretraining_config import Wav2vecConfig

        values = {"dim": DIM, "context_kernels": [2, 3], "norm": "frame", **options}
        Wav2vec(Wav2vecConfig(**values)).save(directory)
        return directory
    make_hf(kind, **options).save_pretrained(directory)
    if kind == "whisper":
        from transformers import WhisperFeatureExtractor

        WhisperFeatureExtractor(feature_size=80).save_pretrained(directory)
    else:
        write_preprocessor(directory, do_normalize=True)
    return directory


def make_hf(kind: str, **options: Any) -> Any:
    """The whole model, as ``transformers`` has it."""
    import transformers as hf

    if kind == "whisper":
        values: dict[str, Any] = {"d_model": DIM, "max_source_positions": WHISPER_POSITIONS}
        for part in ("encoder", "decoder"):
            values |= {f"{part}_layers": 2, f"{part}_attention_heads": 2, f"{part}_ffn_dim": 16}
        # Of the vocabulary, which nobody uses.
        values |= {"vocab_size": 20, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}
        values |= {"decoder_start_token_id": 4, "suppress_tokens": None, "begin_suppress_tokens": None}
        return hf.WhisperModel(hf.WhisperConfig(**{**values, **options})).eval()
    classes = {"wav2vec2": hf.Wav2Vec2Model, "hubert": hf.HubertModel, "wavlm": hf.WavLMModel}
    # HuBERT as the large ones are: norms before the layers, and per frame in the convolutions.
    stable = {"do_stable_layer_norm": True, "feat_extract_norm": "layer"} if kind == "hubert" else {}
    values = {"hidden_size": DIM, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    values |= {"conv_dim": [8] * 7, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, **stable}
    config = classes[kind].config_class(**{**values, **options})
    return classes[kind](config).eval()


def write_preprocessor(directory: Path, **values: Any) -> None:
    """What the extractor of an encoder that takes samples does."""
    base = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 16000, "feature_size": 1}
    (directory / "preprocessor_config.json").write_text(json.dumps({**base, **values}))


def noise(duration_s: float, sample_rate_hz: int = 16000, seed: int = 1) -> Audio:
    """Noise that grows and fades, so that its pieces differ."""
    n = round(duration_s * sample_rate_hz)
    samples = np.random.default_rng(seed).standard_normal(n) * (0.1 + 0.05 * np.sin(np.arange(n) / 3000.0))
    return Audio(samples.astype(np.float32), sample_rate_hz)
