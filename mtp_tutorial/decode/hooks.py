"""Where the lab may look on, or put a fault in, without the engine knowing the lab.

Takes: what the loop has at each of its steps.  Returns: the same, or something else in its place.
Must not know: the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..records import Draft, Sampling, Verdict
from ..sampling import probabilities_unchecked


class Hooks:
    """Places where the lab looks on, or puts a fault in, without the engine knowing the lab. By default: no change."""

    #: Raise ValueError when a used row of the target holds NaN, or one of the drafter's is no distribution.
    check_nan = True

    def reads(self, sequences: Sequence[int], ids: Tensor) -> Tensor:
        """(B, k_max+1) ids on their way to the target: the last token of each live sequence, then its draft."""
        return ids

    def probabilities(
        self, logits: Tensor, sampling: Sampling, history: Tensor | None, prompt_lengths: Tensor | None, draft: Tensor
    ) -> Tensor:
        """(B, L, V) logits → the target's distributions. ``history`` is None unless penalties are on."""
        return probabilities_unchecked(logits, sampling, history, prompt_lengths, draft)

    def uniforms(self, generators: Sequence[torch.Generator], drafted: Sequence[int]) -> Tensor:
        """(B, k_max+1, 2) float64: sequence b draws k_b coins, then k_b + 1 draws, never more."""
        found = torch.zeros(len(drafted), max(drafted, default=0) + 1, 2, dtype=torch.float64)
        for row, (source, k) in enumerate(zip(generators, drafted, strict=True)):
            numbers = torch.rand(2 * k + 1, generator=source, dtype=torch.float64)
            found[row, :k, 0] = numbers[:k]
            found[row, : k + 1, 1] = numbers[k:]
        return found

    def hidden(self, hidden: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The target's hidden states on their way to the drafter."""
        return hidden

    def ends(self, token: int, eos_ids: frozenset[int], accepted: bool) -> bool:
        """Whether the text ends with this token. accepted: it is a draft token, not the one that ends its round."""
        return token in eos_ids

    def observe(
        self, sequences: Sequence[int], draft: Draft, target_probs: Tensor, uniforms: Tensor, verdict: Verdict
    ) -> None:
        """Sees the tensors of each round, the prefill included (its draft is empty)."""
