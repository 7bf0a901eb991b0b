"""What the training loops share: optimizers, the learning rate over time, one update, files that are whole.

Takes: parameters, gradients, a path.  Returns: nothing; weights and files change.
Must not know: models, losses, data.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn


def make_optimizers(
    matrices: Sequence[nn.Parameter],
    rest: Sequence[nn.Parameter],
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
) -> list[torch.optim.Optimizer]:
    """Muon for the matrices (with that weight decay), AdamW for norms and embeddings (with those betas, no decay)."""
    return [
        torch.optim.Muon(matrices, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, weight_decay=0.0, betas=betas),
    ]


def update(
    module: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    rates: Sequence[float],
    step: int,
    steps: int,
    warmup: int,
) -> None:
    """One step along the gradients, clipped at norm 1: each optimizer at its rate, warmed up, then falling to 0."""
    share = min(1.0, (step + 1) / warmup) * (1 - step / steps)
    torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    for optimizer, rate in zip(optimizers, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate * share
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write to a temporary name, then rename: what stands under ``path`` is whole."""
    temporary = path.with_name(path.name + ".tmp")
    write(temporary)
    if path.is_dir():
        shutil.rmtree(path)
    temporary.replace(path)
