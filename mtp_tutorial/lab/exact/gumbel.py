"""Drafts and recovered tokens drawn with noise instead of an inverse CDF: the law when both share the noise.

Takes: one row of the target and one of the drafter.  Returns: the law of the first token, by exact integration.
Must not know: models and drafters.

Both tokens are drawn by a race: each token i has a clock E_i ~ Exp(1), the draft token is the one with the smallest
E_i/q_i, the recovered token the one with the smallest E_i/r_i, where r = max(p - q, 0). With separate clocks this is
rejection sampling and the law is p. With the same clocks it is not: a token that lost the first race against a lower
clock is not a fresh draw in the second one.

Ref: the race is the Gumbel-max trick (Gumbel noise is -log of Exp(1) noise). Shared noise: vLLM issue 54282.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...verify import check_rows


def shared_noise_law(p: Tensor | Sequence[float], q: Tensor | Sequence[float]) -> Tensor:
    """(V,) the law of the first emitted token when draft and recovery share their noise.

    p, q: (V,) the target's and the drafter's row.  Raises ValueError unless both are distributions of one size.
    """
    return _law(*_checked(p, q), shared=True)


def separate_noise_law(p: Tensor | Sequence[float], q: Tensor | Sequence[float]) -> Tensor:
    """As ``shared_noise_law`` with noise of its own for the recovery: p itself."""
    return _law(*_checked(p, q), shared=False)


def race_pairs(q: Tensor, r: Tensor) -> Tensor:
    """(V, V): the probability that i has the smallest E_i/q_i and j the smallest E_j/r_j, with one clock E for both.

    Given that i wins at time t and j at time s = λt, all others are later than both: their clocks exceed
    max(q_m t, r_m λt). The density is integrated over t by hand, and over λ piece by piece: between two of the points
    q_m/r_m each maximum is a straight line in λ, so the piece has an antiderivative.
    """
    size = len(q)
    found = torch.zeros(size, size, dtype=torch.float64)
    for i in range(size):
        if q[i] <= 0:
            continue
        for j in range(size):
            if r[j] <= 0:
                continue
            others = [m for m in range(size) if m not in (i, j)]
            if i == j:
                at = float(q[i] / r[i])  # both races are won by the same clock, so λ has this one value
                found[i, i] = q[i] / (q[i] + sum(torch.maximum(q[m], r[m] * at) for m in others))
                continue
            low, high = float(q[j] / r[j]), float(q[i] / r[i]) if r[i] > 0 else float("inf")
            cuts = sorted(float(q[m] / r[m]) for m in others if r[m] > 0)
            edges = [low, *(cut for cut in cuts if low < cut < high), high]
            for left, right in zip(edges, edges[1:], strict=False):
                if left >= right:
                    continue
                inside = left + 1 if right == float("inf") else (left + right) / 2
                rising = [m for m in others if r[m] * inside > q[m]]
                level = float(q[i] + sum(q[m] for m in others if m not in rising))
                slope = float(r[j] + sum(r[m] for m in rising))
                end = 0.0 if right == float("inf") else 1 / (level + slope * right)
                found[i, j] += q[i] * r[j] * (1 / (level + slope * left) - end) / slope
    return found


def _law(p: Tensor, q: Tensor, shared: bool) -> Tensor:
    accept = torch.where(q > 0, (p / q.clamp_min(1e-300)).clamp_max(1), 0)
    r = (p - q).clamp_min(0)
    if not bool((r > 0).any()):  # p = q: nothing is ever rejected
        return q * accept
    pairs = race_pairs(q, r) if shared else q[:, None] * (r / r.sum())
    return q * accept + ((1 - accept)[:, None] * pairs).sum(0)


def _checked(p: Tensor | Sequence[float], q: Tensor | Sequence[float]) -> tuple[Tensor, Tensor]:
    p, q = (torch.as_tensor(row, dtype=torch.float64) for row in (p, q))
    if p.ndim != 1 or p.shape != q.shape:
        raise ValueError(f"p and q must be rows of one size, (V,), got {tuple(p.shape)} and {tuple(q.shape)}")
    check_rows("p", p)
    check_rows("q", q)
    return p, q
