"""EAGLE drafter: the MTP drafter's chain over features fused from three depths of the target.

Takes: the target's hidden states after a low, a middle and a high layer.  Returns: drafts.
Must not know: verify rules, the loop.

The last hidden state was made to name the next token, and has let go of what the tokens after it need. So EAGLE-3
reads earlier layers too, and lets one linear layer fuse them. From there on its chain is that of an MTP head: one
decoder layer over [embedding; feature], its output fed back as the feature of the next step.

Ref: EAGLE-3, arXiv 2503.01840; vLLM ``model_executor/models/llama_eagle3.py``. There the concatenation goes straight
    into a wider attention, and the state fed back is the one before the final norm; here a projection comes first, and
    the state after the norm is fed back, as in the MTP head beside it, so that the features are the only difference.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..models import Target
from .mtp import MtpDrafter
from .mtp_head import MtpHead


def low_middle_high(num_layers: int) -> tuple[int, int, int]:
    """The depths that EAGLE-3 reads, as vLLM picks them; spread evenly in a target of few layers."""
    if num_layers < 3:
        raise ValueError(f"the target has {num_layers} layers: fused features need three or more")
    return (2, num_layers // 2, num_layers - 3) if num_layers >= 8 else (1, num_layers // 2, num_layers - 1)


class EagleHead(MtpHead):
    """An MTP head whose first step reads fused features instead of the last hidden state."""

    name = "eagle"

    def __init__(self, target: Target) -> None:
        reads = low_middle_high(target.num_layers)
        super().__init__(target)
        self.decoder.check_one_attention_each()
        self.settings, self.reads = {}, reads
        size = self.decoder.config.hidden_size
        self.fuse = nn.Linear(3 * size, size, bias=False)
        self.ready(target)

    def read(self, hidden: tuple[Tensor, ...]) -> Tensor:
        return self.fuse(torch.cat(hidden, -1).to(self.fuse.weight.dtype))

    @torch.no_grad()
    def start_from_target(self, generator: torch.Generator) -> None:
        super().start_from_target(generator)
        for layer in self.layers:  # what it reads has been through no final norm that could be undone
            self.decoder.set_gain(layer.hnorm, self.decoder.gain(layer.enorm))
        size = self.fuse.out_features
        self.fuse.weight.copy_(torch.cat([torch.zeros(size, 2 * size), torch.eye(size)], 1))  # the high layer, to begin


class EagleDrafter(MtpDrafter):
    """``MtpDrafter`` with an ``EagleHead``; the same options."""

    kind = EagleHead
