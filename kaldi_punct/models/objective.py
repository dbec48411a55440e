"""What training makes small, and how: the loss, AdamW's parameter groups, the learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from kaldi_punct.batch import IGNORE
from kaldi_punct.config import Config
from kaldi_punct.models.muse import Logits, Muse


def label_loss(logits: Logits, marks: Tensor, cases: Tensor, case_weight: float) -> Tensor:
    """Mean cross-entropy of marks, plus that of cases by its weight; unknown targets count for nothing."""

    def one(scores: Tensor, targets: Tensor) -> Tensor:
        total = F.cross_entropy(scores.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum")
        return total / (targets != IGNORE).sum().clamp(min=1)

    return one(logits.marks, marks) + case_weight * one(logits.cases, cases)


def parameter_groups(model: Muse, config: Config) -> list[dict[str, Any]]:
    """AdamW groups: pretrained or from scratch, with weight decay (matrices) or without (biases, norms)."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    if model.config.lexical == "transformer":
        pretrained = "lexical."
    else:
        pretrained = "lexical.embeddings." if model.config.embeddings else "none"
    for name, parameter in model.named_parameters():
        lr = config.train.peak_lr if name.startswith(pretrained) else config.train.head_lr
        decay = config.train.weight_decay if parameter.ndim >= 2 else 0.0
        groups.setdefault((lr, decay), []).append(parameter)
    return [{"params": p, "lr": lr, "weight_decay": decay} for (lr, decay), p in groups.items()]


def set_learning_rate(optimizer: Any, peak_lrs: Sequence[float], step: int, n_steps: int, warmup_share: float) -> None:
    """Linear warm-up, then linear to 0 at the last step."""
    warmup = max(1, round(n_steps * warmup_share))
    factor = (step + 1) / warmup if step < warmup else max(n_steps - step, 0) / max(n_steps - warmup, 1)
    for group, peak in zip(optimizer.param_groups, peak_lrs, strict=True):
        group["lr"] = peak * factor
