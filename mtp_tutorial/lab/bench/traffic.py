"""How many bytes decoding reads: weights, keys and values, once for each call.

Takes: a target, a drafter, rounds.  Returns: bytes.
Must not know: clocks, prompts.

The count is from shapes: each call of the target reads every weight once (of the embedding only the rows it looks up,
unless it is the lm_head as well) and the keys and values of every slot that its sequences can see. Activations, which
stay in the caches of a CPU, are left out, and so is what a busy cache reads twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

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

    def of_rounds(self, rounds: Sequence[Sequence[Round]], steps: int | None = None) -> tuple[int, int]:
        """(target, drafter): bytes read in the given rounds of a batch, each a list of its sequences' rounds.

        steps: of the drafter in all of them; None: as many as the longest draft of each round has tokens.
        """
        slots = [len(together) * max(one.cache_written for one in together) for together in rounds]
        if not slots:
            return 0, 0
        if steps is None:
            steps = sum(max(one.num_drafted for one in together) for together in rounds)
        target = len(rounds) * self.target + sum(slots) * self.slot
        return target, round(steps * (self.step + sum(slots) / len(slots) * self.draft_slot))


@contextmanager
def counted(drafter: object) -> Iterator[list[int]]:
    """Counts the steps of a drafter's trained head, in a list of one number; an empty list where it has none."""
    heads = list(_heads(drafter))
    steps = [0] if heads else []

    def count(*_) -> None:
        steps[0] += 1

    hooks = [head.register_forward_hook(count) for head in heads]
    try:
        yield steps
    finally:
        for hook in hooks:
            hook.remove()


def reading(target: Target, drafter: Drafter | None = None) -> Reading:
    """What one call of the target and one step of the drafter read."""
    step, slot = _of_drafter(target, drafter)
    return Reading(weight_bytes(target), cache_bytes(target, 1), step, slot)


def _of_drafter(target: Target, drafter: object) -> tuple[int, int]:
    """(bytes of a step's weights, bytes of a slot). A drafter made of drafters reads what its parts read."""
    if isinstance(model := getattr(drafter, "model", None), Target):  # a draft model
        slot = cache_bytes(model, 1)
        output = model.model.get_output_embeddings()
        if not hasattr(output, "frequent"):
            return weight_bytes(model), slot
        embedding = sum(weight.nbytes for weight in model.model.get_input_embeddings().parameters())
        inner = sum(weight.nbytes for weight in model.model.get_decoder().parameters())
        return inner - embedding + _scored(target, output), slot
    if isinstance(head := getattr(drafter, "head", None), nn.Module):
        weights = sum(weight.nbytes for weight in head.parameters())
        parts = getattr(head, "blocks", None) or getattr(head, "layers", None)
        if parts is not None and len(parts) > 1:  # a step runs one of them
            weights -= sum(weight.nbytes for weight in parts.parameters()) * (len(parts) - 1) // len(parts)
        slot = cache_bytes(target, 1) // target.num_layers if hasattr(head, "layers") else 0
        return weights + _scored(target, getattr(drafter, "scores", None)), slot
    found = [_of_drafter(target, part) for part in _parts(drafter)]
    return sum(step for step, _ in found), sum(slot for _, slot in found)


def _scored(target: Target, scores: object) -> int:
    """Bytes of the lm_head's rows that a drafting head scores: all of them, or those of the most frequent tokens."""
    weight = target.model.get_output_embeddings().weight
    frequent = getattr(scores, "frequent", None)
    return (len(weight) if frequent is None else len(frequent)) * weight.shape[1] * weight.element_size()


def _heads(drafter: object) -> Iterator[nn.Module]:
    """The trained heads of a drafter, or of the drafters that it is made of."""
    if isinstance(head := getattr(drafter, "head", None), nn.Module):
        yield head
    else:
        for part in _parts(drafter):
            yield from _heads(part)


def _parts(drafter: object) -> list[object]:
    return [part for part in getattr(drafter, "__dict__", {}).values() if hasattr(part, "propose")]
