"""What training makes small, and how: the loss, AdamW's parameter groups, the learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kaldi_punct.batch import IGNORE
from kaldi_punct.config import Config
from kaldi_punct.errors import ConfigError
from kaldi_punct.models.lexical import LexicalEncoder
from kaldi_punct.models.muse import Logits, Muse


def label_loss(
    logits: Logits,
    marks: Tensor,
    cases: Tensor,
    case_weight: float,
    smoothing: float = 0.0,
    n_targets: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Mean cross-entropy of marks, plus that of cases by its weight; unknown targets count for nothing.

    A word's weight is a factor of its part of the sum, which is divided by the number of words and not by their
    weights: what a word teaches does not depend on its batch.

    Args:
        logits: of both heads.
        marks, cases: (B, W) targets, IGNORE where unknown.
        case_weight: of the case head's loss.
        smoothing: share of each target that is spread evenly over all classes.
        n_targets: (2,) known marks and cases to divide by; None for those given here. Give those of all parts where a
            step is computed in parts.
        weights: (B, W) of the words; None: all 1.
    """

    def one(scores: Tensor, targets: Tensor, n: Tensor | None) -> Tensor:
        total = F.cross_entropy(
            scores.float().flatten(0, 1),
            targets.flatten(),
            ignore_index=IGNORE,
            reduction="sum" if weights is None else "none",
            label_smoothing=smoothing,
        )
        if weights is not None:
            total = total @ weights.flatten()
        return total / ((targets != IGNORE).sum() if n is None else n).clamp(min=1)

    n_marks, n_cases = (None, None) if n_targets is None else n_targets
    return one(logits.marks, marks, n_marks) + case_weight * one(logits.cases, cases, n_cases)


def make_optimizer(model: Muse, config: Config, device: torch.device) -> torch.optim.AdamW:
    """AdamW over ``parameter_groups``.

    Args:
        model: what learns.
        config: of the run.
        device: where it will learn.
    """
    # One pass over the weights instead of a dozen: on a CPU, where small batches meet large embeddings, the rest of
    # a step took about as long as the optimizer's part of it.
    fused = device.type in ("cpu", "cuda")
    return torch.optim.AdamW(parameter_groups(model, config), betas=(0.9, 0.98), fused=fused)


def parameter_groups(model: Muse, config: Config) -> list[dict[str, Any]]:
    """AdamW groups: pretrained or from scratch, with weight decay (matrices) or without (biases, norms).

    Frozen parameters are in none.

    With ``train.layer_decay`` each layer of a transformer has a group of its own: the top one learns at
    ``train.peak_lr``, each below at ``layer_decay`` times the rate of the one above, the embeddings slowest.

    Raises:
        ConfigError: a layer decay for a model without layers to tell apart.
    """
    layer_decay = config.train.layer_decay
    heights = layer_heights(model) if layer_decay != 1.0 else {}
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    if model.config.lexical == "transformer":
        pretrained = "lexical."
    else:
        pretrained = "lexical.embeddings." if model.config.embeddings else "none"
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        lr = config.train.peak_lr if name.startswith(pretrained) else config.train.head_lr
        lr *= layer_decay ** heights.get(name, 0)
        decay = config.train.weight_decay if parameter.ndim >= 2 else 0.0
        groups.setdefault((lr, decay), []).append(parameter)
    return [{"params": p, "lr": lr, "weight_decay": decay} for (lr, decay), p in groups.items()]


def layer_heights(model: Muse) -> dict[str, int]:
    """How many layers stand above each parameter of the transformer, by name; what follows the layers has 0.

    Raises:
        ConfigError: no transformer, or one whose layers cannot be told apart.
    """
    lexical = model.lexical
    if not isinstance(lexical, LexicalEncoder):
        raise ConfigError(
            f"train.layer_decay: expected 1 with model.lexical {model.config.lexical!r}, which is not pretrained in "
            "layers"
        )
    n_layers = model.config.n_layers
    lists = [n for n, m in lexical.named_modules() if isinstance(m, nn.ModuleList) and len(m) == n_layers]
    if len(lists) != 1:
        raise ConfigError(
            f"train.layer_decay: expected 1 with {type(lexical.transformer).__name__}, whose layers cannot be told "
            "apart"
        )
    prefix = f"lexical.{lists[0]}."
    heights: dict[str, int] = {}
    passed = False
    for name, _ in model.named_parameters():
        if name.startswith(prefix):
            passed = True
            heights[name] = n_layers - 1 - int(name.removeprefix(prefix).partition(".")[0])
        elif name.startswith("lexical."):
            heights[name] = 0 if passed else n_layers
    return heights


def set_learning_rate(optimizer: Any, peak_lrs: Sequence[float], step: int, n_steps: int, warmup_share: float) -> None:
    """Linear warm-up, then linear to 0 at the last step."""
    warmup = max(1, round(n_steps * warmup_share))
    factor = (step + 1) / warmup if step < warmup else max(n_steps - step, 0) / max(n_steps - warmup, 1)
    for group, peak in zip(optimizer.param_groups, peak_lrs, strict=True):
        group["lr"] = peak * factor
