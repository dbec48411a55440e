"""Computing that may run out of memory, on a GPU or on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")

_TEXTS = ("out of memory", "can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")


def attempt(compute: Callable[[], T]) -> tuple[T | None, str]:
    """What it gives, or None and the reason where memory was short.

    By then the error is gone, and with it the tensors that its frames held, so that less can be tried at once.
    """
    try:
        return compute(), ""
    except (MemoryError, RuntimeError) as e:  # torch has no class of its own for the CPU
        if not is_out_of_memory(e):
            raise
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None, reason


def is_out_of_memory(error: Exception) -> bool:
    """Whether there was too little memory."""
    known = (MemoryError, torch.cuda.OutOfMemoryError)
    return isinstance(error, known) or any(text in str(error) for text in _TEXTS)
