"""Checkpoints of fairseq's wav2vec (``wav2vec_large.pt``), read without fairseq.

A ``.pt`` file is a pickle, which can run whatever it likes when it is loaded. Here torch's restricted unpickler reads
it (``weights_only``): beside tensors and plain values it makes objects of the classes listed below and of no others.
fairseq's own classes are replaced by ones that hold what they are given.
"""

from __future__ import annotations

import argparse
import ast
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kaldi_punct.errors import CheckpointError, ConfigError
from kaldi_punct.models.wav2vec import Wav2vec
from kaldi_punct.pretraining_config import Wav2vecConfig, check_wav2vec

log = logging.getLogger(__name__)

# What fairseq's trainers pickled beside weights: statistics of the run, in classes that have moved since.
_METERS = ("AverageMeter", "SumMeter", "TimeMeter", "StopwatchMeter")
_METER_MODULES = ("fairseq.meters", "fairseq.logging.meters")
# Parts of our modules and of fairseq's (models/wav2vec/wav2vec.py): a layer there is a list of conv, dropout, norm.
_PARTS = {
    "encoder": ("feature_extractor", {"conv": 0, "norm": 2}),
    "context": ("feature_aggregator", {"conv": 1, "norm": 3}),
}
_PREDICTION = "wav2vec_predictions.project_to_steps"
# Options that would make another network; what a file does not say is as it was before there was the option.
_UNKNOWN_UNLESS: Mapping[str, Sequence[object]] = {
    "aggregator": ("cnn",),
    "activation": ("relu",),
    "vq_type": ("none", None),
    "project_features": ("none", None),
    "skip_connections_feat": (False,),
    "non_affine_group_norm": (False,),
    "no_conv_bias": (False,),
}


def load_fairseq(path: str | Path) -> Wav2vec:
    """The model of a fairseq checkpoint, in evaluation mode; equal to fairseq's in what it gives.

    Args:
        path: ``wav2vec_large.pt``, or another that fairseq's ``--arch wav2vec`` trained.

    Raises:
        CheckpointError: not such a file, one with objects that are not loaded, or a network of another kind.
    """
    saved = _load_pickle(Path(path))
    if not isinstance(saved, dict) or not isinstance(saved.get("model"), Mapping):
        raise CheckpointError(f"{path}: expected a fairseq checkpoint with weights under 'model', got none")
    options = _options(saved, path)
    config = _config(options, path)
    model = Wav2vec(config)
    try:
        model.load_state_dict(_rename(saved["model"], config))
    except (KeyError, RuntimeError) as e:
        reason = " ".join(str(e).splitlines()[:2])
        raise CheckpointError(f"{path}: expected weights that fit the file's own options, got: {reason}") from e
    return model.eval()


def import_fairseq(path: str | Path, directory: str | Path) -> Wav2vec:
    """Writes the model of a fairseq checkpoint as a model directory, and returns it.

    Raises:
        CheckpointError: as of ``load_fairseq``.
    """
    model = load_fairseq(path)
    model.save(directory)
    return model


def _load_pickle(path: Path) -> Any:
    try:
        with torch.serialization.safe_globals(_safe_classes()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as e:
        raise CheckpointError(f"{path}: expected a fairseq checkpoint, got {e.strerror or e}") from e
    except Exception as e:  # torch raises whatever the bytes lead it to
        line = next((line for line in str(e).splitlines() if "GLOBAL" in line), "") or str(e).partition("\n")[0]
        raise CheckpointError(
            f"{path}: expected a fairseq checkpoint of weights, options and statistics, got: {line.strip()}; "
            "what a file of this kind has no need of is not loaded"
        ) from e


def _safe_classes() -> list[Any]:
    """Classes that may be made: each keeps the values it is given and does nothing with them."""
    from omegaconf import DictConfig, ListConfig, nodes
    from omegaconf.base import ContainerMetadata, Metadata

    meters = [type(name, (), {"__module__": module}) for module in _METER_MODULES for name in _METERS]
    values = [nodes.AnyNode, nodes.BooleanNode, nodes.FloatNode, nodes.IntegerNode, nodes.StringNode]
    plain = [argparse.Namespace, bool, dict, float, int, list, str, defaultdict, Any]
    return [*plain, DictConfig, ListConfig, ContainerMetadata, Metadata, *values, *meters]


def _options(saved: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    """The model's options: a Namespace under 'args' (until 2020), or a mapping under 'cfg'."""
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    found = saved.get("args") if saved.get("args") is not None else saved.get("cfg")
    try:
        if isinstance(found, DictConfig):
            found = OmegaConf.to_container(found)
    except (OmegaConfBaseException, AttributeError, TypeError) as e:
        raise CheckpointError(f"{path}: expected options that omegaconf reads, got: {e}") from e
    if isinstance(found, argparse.Namespace):
        found = vars(found)
    if isinstance(found, dict) and "model" in found:
        found = found["model"]
    if isinstance(found, argparse.Namespace):
        found = vars(found)
    if not isinstance(found, dict) or "conv_feature_layers" not in found:
        raise CheckpointError(f"{path}: expected options with conv_feature_layers under 'args' or 'cfg', got none")
    return found


def _config(options: Mapping[str, Any], path: str | Path) -> Wav2vecConfig:
    for name, known in _UNKNOWN_UNLESS.items():
        if options.get(name, known[0]) not in known:
            raise CheckpointError(
                f"{path}: expected {name} to be {known[0]!r} (wav2vec of 2019), got {options[name]!r}; "
                "wav2vec 2.0 and vq-wav2vec are other models"
            )
    encoder = _layers(options, "conv_feature_layers", path)
    context = _layers(options, "conv_aggregator_layers", path)
    widths = {width for width, _, _ in (*encoder, *context)}
    if len(widths) != 1 or any(stride != 1 for _, _, stride in context):
        raise CheckpointError(
            f"{path}: expected one width in all layers and stride 1 in the aggregator's, got {encoder} and {context}"
        )
    config = Wav2vecConfig(
        dim=widths.pop(),
        kernels=[kernel for _, kernel, _ in encoder],
        strides=[stride for _, _, stride in encoder],
        context_kernels=[kernel for _, kernel, _ in context],
        skip_connections=bool(options.get("skip_connections_agg", False)),
        residual_scale=float(options.get("residual_scale", 0.5)),
        log_compression=bool(options.get("log_compression", False)),
        norm="utterance",
        pad="zero" if options.get("agg_zero_pad", False) else "replicate",
        prediction_steps=int(options.get("prediction_steps", 12)),
    )
    try:
        check_wav2vec(config)
    except ConfigError as e:
        raise CheckpointError(f"{path}: expected a wav2vec of 2019, got: {e}") from e
    return config


def _layers(options: Mapping[str, Any], name: str, path: str | Path) -> list[tuple[int, int, int]]:
    """(width, kernel, stride) of layers that are written as Python: "[(512, 10, 5)] + [(512, 4, 2)] * 3"."""
    text = options.get(name)
    try:
        layers: Any = _evaluate(ast.parse(text, mode="eval").body) if isinstance(text, str) else text
        return [(int(width), int(kernel), int(stride)) for width, kernel, stride in layers]
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError) as e:
        raise CheckpointError(f"{path}: expected {name} as a list of (width, kernel, stride), got {text!r}") from e


def _evaluate(node: ast.expr) -> Any:
    """Numbers, tuples, lists, their sums and small multiples; nothing else, whatever a file may hold."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_evaluate(element) for element in node.elts]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = _evaluate(node.left), _evaluate(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(node.op, ast.Mult) and isinstance(left, list) and isinstance(right, int) and right <= 100:
            return left * right
    raise ValueError("not a list of layers")


def _rename(weights: Mapping[str, Tensor], config: Wav2vecConfig) -> dict[str, Tensor]:
    """fairseq's weights under our names. A part that the file lacks or has too much shows when they are loaded."""
    renamed: dict[str, Tensor] = {}
    rest = dict(weights)
    for ours, (theirs, places) in _PARTS.items():
        for i in range(len(config.kernels if ours == "encoder" else config.context_kernels)):
            for part, place in places.items():
                for kind in ("weight", "bias"):
                    if (ours, part, kind) != ("encoder", "conv", "bias"):
                        key = f"{theirs}.conv_layers.{i}.{place}.{kind}"
                        renamed[f"{ours}.layers.{i}.{part}.{kind}"] = rest.pop(key).float()
    renamed["prediction.weight"] = rest.pop(f"{_PREDICTION}.weight").squeeze(2).float()  # (in, out, 1, steps)
    renamed["prediction.bias"] = rest.pop(f"{_PREDICTION}.bias").float()
    return {**renamed, **rest}
