"""The training loop of all heads: batches, steps, checkpoints that a second run goes on from.

Takes: an objective and texts with the target's hidden states.  Returns: a trained head, a row of numbers a step.
Must not know: what kind of head it trains, how the texts were made.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from ..drafters.head import Head
from ..longrun import bar
from ..models import native_bf16
from ..models.threads import fitted
from .selfdistill import Text
from .updates import make_optimizers, update, whole


@dataclass(frozen=True)
class Schedule:
    """steps: updates of the weights. batch: texts a step."""

    steps: int = 2000
    batch: int = 16
    lr_matrices: float = 3e-3  # Muon
    lr_rest: float = 1e-3  # AdamW, for norms, biases and single vectors
    warmup: int = 50
    seed: int = 0
    minutes_between_checkpoints: float = 3.0


@dataclass(frozen=True)
class Batch:
    """Texts side by side, padded. B texts, L tokens.

    ids: (B, L) int64.  states: (B, L, size of all recorded layers); the last token's is missing and zero.
    wanted: (B, L) bool, the positions whose *next* token belongs to an answer, and is to be predicted.
    """

    ids: Tensor
    states: Tensor
    wanted: Tensor


class Objective(Protocol):
    """What a head is asked for."""

    head: Head

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        """What to make smaller, and named numbers for the log."""


def groups(texts: Sequence[Text], size: int, generator: torch.Generator) -> Iterator[list[Text]]:
    """Endless groups of texts of like length, in a new order each time round."""
    by_length = sorted(texts, key=lambda text: len(text.ids))
    parts = [by_length[i : i + size] for i in range(0, len(by_length), size)]
    while True:
        for i in torch.randperm(len(parts), generator=generator).tolist():
            yield parts[i]


def padded(group: Sequence[Text], device: torch.device | str = "cpu") -> Batch:
    width = max(len(text.ids) for text in group)
    ids = torch.zeros(len(group), width, dtype=torch.int64)
    states = torch.zeros(len(group), width, group[0].states.shape[1], dtype=group[0].states.dtype)
    wanted = torch.zeros(len(group), width, dtype=torch.bool)
    for row, text in enumerate(group):
        n = len(text.ids)
        ids[row, :n], states[row, : n - 1] = text.ids, text.states
        wanted[row, text.prompt - 1 : n - 1] = True
    return Batch(ids.to(device), states.to(device), wanted.to(device))


def train(
    objective: Objective, texts: Sequence[Text], schedule: Schedule, checkpoint: Path | None, progress: bool = True
) -> list[dict[str, float]]:
    """Train ``objective.head`` in place; a second call with the same checkpoint goes on where the first stopped.

    The weights are float32 while they are trained, whatever they are used in later. Returns a row a step.
    Raises ValueError when the checkpoint was made by another schedule or holds another head.
    """
    head, dtype = objective.head, next(objective.head.parameters()).dtype
    device = next(head.parameters()).device
    generator = torch.Generator().manual_seed(schedule.seed)
    head.float().train()
    # Muon is for matrices that multiply; the vectors of mask tokens are a table.
    named = {name: p.ndim == 2 and not name.startswith("masks") for name, p in head.named_parameters()}
    matrices, rest = ([p for name, p in head.named_parameters() if named[name] == wanted] for wanted in (True, False))
    optimizers = make_optimizers(matrices, rest)
    start, log = _resume(checkpoint, schedule, head, optimizers, generator)
    source = groups(texts, schedule.batch, generator)
    saved_at = time.monotonic()
    shown = bar(range(start, schedule.steps), "training", progress, initial=start, total=schedule.steps)
    for step in shown:
        batch = padded(next(source), device)
        with fitted():
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda" or native_bf16()):
                loss, row = objective.loss(batch, generator)
            loss.backward()
            update(head, optimizers, (schedule.lr_matrices, schedule.lr_rest), step, schedule.steps, schedule.warmup)
        log.append({"step": step} | row)
        shown.set_postfix({key: f"{value:.3f}" for key, value in row.items()}, refresh=False)
        late = time.monotonic() - saved_at > 60 * schedule.minutes_between_checkpoints
        if checkpoint is not None and (late or step + 1 == schedule.steps):
            _save(checkpoint, schedule, head, optimizers, log, generator)
            saved_at = time.monotonic()
    head.to(dtype).eval()
    return log


def _resume(
    path: Path | None, schedule: Schedule, head: Head, optimizers: list, generator: torch.Generator
) -> tuple[int, list]:
    """The step to go on with, and the rows so far; weights, optimizers and generator are filled."""
    if path is None or not path.exists():
        return 0, []
    try:
        saved = torch.load(path, weights_only=True)
        marks = saved["made_by"]
    except Exception as error:  # torch raises whatever its readers do: OSError, RuntimeError, pickle's own …
        raise ValueError(f"{path} is damaged ({type(error).__name__}): delete it, and training begins anew") from error
    mine = _marks(schedule, head)
    if marks != mine:
        raise ValueError(
            f"{path} is the checkpoint of another run ({marks}; this run: {mine}): give another folder, or "
            "delete that file"
        )
    head.load_state_dict(saved["head"])
    for optimizer, state in zip(optimizers, saved["optimizers"], strict=True):
        optimizer.load_state_dict(state)
    generator.set_state(saved["generator"])
    return len(saved["log"]), saved["log"]


def _marks(schedule: Schedule, head: Head) -> dict:
    return {"head": head.name, "settings": head.settings, **asdict(schedule)}


def _save(path: Path, schedule: Schedule, head: Head, optimizers: list, log: list, generator: torch.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {
        "made_by": _marks(schedule, head),
        "head": head.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "log": log,
        "generator": generator.get_state(),
    }
    whole(path, lambda temporary: torch.save(state, temporary))
