"""How many bytes decoding reads: weights, keys and values, once for each call.

Takes: a target, a drafter, rounds.  Returns: bytes.
Must not know: clocks, prompts.

The count is from shapes: each call of the target reads every weight once (of the embedding only the rows it looks up,
unless it is the lm_head as well) and the keys and values of every slot that its sequences can see. Activations, which
stay in the caches of a CPU, are left out, and so is what a busy cache reads twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from ...drafters import Drafter
from ...models import Target
from ...records import Round
from .cost import cache_bytes, weight_bytes


@dataclass(frozen=True)
class Reading:
    """Bytes. target: of one call's weights.  slot: keys and values of one token of the target.

    step: of the weights of one draft step.  draft_slot: keys and values of one token of the drafter.
    """

    target: int
    slot: int
    step: int = 0
    draft_slot: int = 0

    def of_rounds(self, rounds: Sequence[Sequence[Round]]) -> tuple[int, int]:
        """(target, drafter): bytes read in the given rounds of a batch, each a list of its sequences' rounds."""
        target = drafter = 0
        for together in rounds:
            slots = len(together) * max(one.cache_written for one in together)  # as wide as the longest
            target += self.target + slots * self.slot
            steps = max(one.num_drafted for one in together)
            drafter += steps * (self.step + slots * self.draft_slot)
        return target, drafter


def reading(target: Target, drafter: Drafter | None = None) -> Reading:
    """What one call of the target and one step of the drafter read."""
    step, slot = _of_drafter(target, drafter)
    return Reading(weight_bytes(target), cache_bytes(target, 1), step, slot)


def _of_drafter(target: Target, drafter: object) -> tuple[int, int]:
    """(bytes of a step's weights, bytes of a slot). A drafter made of drafters reads what its parts read."""
    if drafter is None:
        return 0, 0
    if isinstance(model := getattr(drafter, "model", None), Target):  # a draft model
        slot = cache_bytes(model, 1)
        rows = getattr(model.model.get_output_embeddings(), "_rows", None)
        if rows is None:
            return weight_bytes(model), slot
        embedding = sum(map(_bytes, model.model.get_input_embeddings().parameters()))
        inner = sum(map(_bytes, model.model.get_decoder().parameters()))
        return inner - embedding + sum(map(_bytes, filter(_is_tensor, rows))), slot
    head, scores = getattr(drafter, "head", None), getattr(drafter, "scores", None)
    if isinstance(head, nn.Module):
        weights = sum(map(_bytes, head.parameters()))
        parts = getattr(head, "blocks", None) or getattr(head, "layers", None)
        if parts is not None and len(parts) > 1:  # a step runs one of them
            weights -= sum(map(_bytes, parts.parameters())) * (len(parts) - 1) // len(parts)
        scored = sum(map(_bytes, filter(_is_tensor, getattr(scores, "_rows", ()))))
        return weights + scored, cache_bytes(target, 1) // target.num_layers if hasattr(head, "layers") else 0
    parts = [part for part in vars(drafter).values() if hasattr(part, "propose")]
    found = [_of_drafter(target, part) for part in parts]
    return sum(step for step, _ in found), sum(slot for _, slot in found)


def _bytes(weight: torch.Tensor) -> int:
    return weight.numel() * weight.element_size()


def _is_tensor(one: object) -> bool:
    return isinstance(one, torch.Tensor)
