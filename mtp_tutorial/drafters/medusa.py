"""Medusa drafter: parallel heads on the last hidden state, each for another place ahead.

Takes: the target's hidden state of the last position it has read.  Returns: drafts.
Must not know: verify rules, the loop.

The target read everything but the token it just said, and head s guesses s places beyond that token. All heads read
the same state: they see neither the token just said nor each other's guesses, so one call makes all drafts and nothing
need be cached, but far places are guessed blindly.

Ref: Medusa, arXiv 2401.10774, section 2.1.1 (one residual block a head). The lm_head is the target's, shared by all.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..models import Target
from ..records import Draft, Sampling, Verdict
from .head import Head
from .head_drafter import Ends, HeadDrafter


class MedusaHead(Head):
    """Blocks h + SiLU(W h + b), one for each place ahead. hidden: (…, size) → (…, size) for place s (from 0)."""

    name = "medusa"

    def __init__(self, target: Target, num_heads: int = 4) -> None:
        super().__init__(target, num_heads=num_heads)
        if num_heads < 1:
            raise ValueError(f"num_heads={num_heads}: Medusa has at least one head")
        size = self.decoder.config.hidden_size
        self.blocks = nn.ModuleList(nn.Linear(size, size) for _ in range(num_heads))
        self.ready(target)

    def forward(self, hidden: Tensor, place: int) -> Tensor:
        return hidden + torch.nn.functional.silu(self.blocks[place](hidden))

    @torch.no_grad()
    def start_from_target(self, generator: torch.Generator) -> None:
        """Each block starts as the identity, as in Medusa."""
        for block in self.blocks:
            block.weight.zero_()
            block.bias.zero_()


class MedusaDrafter(HeadDrafter):
    """Drafts at most as many tokens as there are heads.

    head: a MedusaHead for this target. For the other options see ``HeadDrafter``.
    """

    kind = MedusaHead

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        super().start(target, prompts, hidden)
        self.last = torch.zeros_like(hidden[0][:, 0])

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        super().commit(verdict, hidden)
        # The state of the last position read: the one that the last new token was drawn from.
        rows = (verdict.tokens >= 0).sum(1).to(self.last.device) - 1
        self.last = hidden[0][torch.arange(len(rows), device=rows.device), rows]

    def keep(self, rows: Sequence[int]) -> None:
        super().keep(rows)
        self.last = self.last[list(rows)]

    @torch.no_grad()
    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        longest = min(int(k.max()) if len(k) else 0, len(self.head.blocks))
        if longest == 0:
            return Draft.of_lists([[]] * len(k), self.target.device)
        choice, ends = self.choice(sampling), Ends(k)
        for step in range(longest):
            sure = self.guess(choice, self.head(self.last, step), uniforms[:, step])
            if ends.stop(step, sure):
                break
        return choice.draft(ends.k)
