"""Does gated LoRA leave what the target says as it is? With the gate, and with the gate held open.

Takes: a target, a ``GatedLora`` head, token ids.  Returns: the largest change.
Must not know: rules, rounds, how the head was trained.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..drafters.gated_lora import GatedLora
from ..models import Target


@torch.no_grad()
def leak(target: Target, head: GatedLora, ids: Sequence[int], held_open: bool = False) -> float:
    """The largest change that masks behind a text make to the target's own hidden states of the text: 0 with a gate.

    ids: the text.  held_open: let the addition act in every row, as it would without a gate.
    """
    gated, n = head.gated, len(ids)
    masked = torch.tensor([[*ids, *head.mask_ids]], device=target.device)
    own = target.forward(masked[:, :n], [n], target.new_cache(1), layers=(-1,))[1][0]
    layers = [module for module in gated.model.modules() if hasattr(module, "lora")] if held_open else []
    for layer in layers:
        layer.forward = lambda x, layer=layer: layer.linear(x) + layer.lora(x).to(x.dtype)
    try:
        found = gated.forward(masked, [masked.shape[1]], gated.new_cache(1), layers=(-1,))[1][0]
    finally:
        for layer in layers:
            del layer.forward  # the class's own again
    return float((own - found[:, :n]).abs().max())
