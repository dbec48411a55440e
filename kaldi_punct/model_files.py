"""Files of model directories: JSON in; JSON, text and weights out, whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from kaldi_punct.errors import CheckpointError


def read_json(path: Path, of: str) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
        path: of the file.
        of: what has such a file, for the error text: "a speech encoder".

    Raises:
        CheckpointError: no such file, or one that holds no JSON object.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise CheckpointError(f"{path}: expected a file of {of}, got no such file") from e
    except OSError as e:
        raise CheckpointError(f"{path}: expected a file of {of}, got: {e.strerror}") from e
    except ValueError as e:
        raise CheckpointError(f"{path}: expected JSON, got: {e}") from e
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(values).__name__}")
    return values


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file as a whole."""
    replace_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def write_weights(path: Path, state: Mapping[str, Tensor], model_format: str) -> None:
    """Writes a safetensors file as a whole.

    Args:
        path: of the file.
        state: tensors by name, on any device.
        model_format: of the model directory; kept as metadata.
    """
    tmp = path.with_suffix(path.suffix + ".tmp")
    save_file({k: v.detach().cpu().contiguous() for k, v in state.items()}, tmp, metadata={"format": model_format})
    tmp.chmod(0o644)  # safetensors makes files for their owner alone
    os.replace(tmp, path)


def replace_text(path: Path, text: str) -> None:
    """Writes a file as a whole: a run that is killed meanwhile leaves the one before."""
    tmp = path.with_suffix(path.suffix + ".tmp")
    tmp.write_text(text, encoding="utf-8")
    os.replace(tmp, path)
