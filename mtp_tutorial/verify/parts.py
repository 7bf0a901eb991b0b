"""The small parts that verify rules are made of.

Takes: drafts and rows of probabilities.  Returns: counts, rows, weights, a ``Verdict``.
Must not know: any rule.

Shapes: B sequences, k draft tokens, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..records import Draft, Verdict


def at_draft(rows: Tensor, draft: Draft) -> Tensor:
    """(B, ≥k, V) rows → (B, k): the probability that row i gives to draft token i (0 where there is no draft)."""
    k = draft.tokens.shape[1]
    found = rows[:, :k].gather(2, draft.tokens.clamp_min(0).unsqueeze(2)).squeeze(2)
    return found.masked_fill(draft.tokens < 0, 0)


def lowest_and_sum(rows: Tensor) -> tuple[Tensor, Tensor]:
    """(…, V) → (…) the smallest number of each row and its sum: what ``is_distribution`` looks at, NaN where one is."""
    wide = rows.dtype if rows.dtype == torch.float64 else torch.float32
    return rows.amin(-1).to(wide), rows.sum(-1, dtype=wide)


def is_distribution(lowest: Tensor, total: Tensor) -> Tensor:
    """Bool, from ``lowest_and_sum``: nothing negative, and a sum of 1 as far as a row in half precision can have it."""
    return (lowest >= 0) & ((total - 1).abs() <= 0.01)


def leading(accepted: Tensor, draft: Draft) -> Tensor:
    """(B, k) decisions → (B,) how many draft tokens stand before the first rejection."""
    return (accepted & (draft.tokens >= 0)).to(torch.int64).cumprod(1).sum(1)


def row_at(rows: Tensor, index: Tensor) -> Tensor:
    """(B, n, V) rows and (B,) indices → (B, V)."""
    return rows[torch.arange(len(rows), device=rows.device), index]


def without_draft(row: Tensor, draft: Draft, num_accepted: Tensor) -> Tensor:
    """(B, V) row at position num_accepted with the rejected draft token's mass removed; a bonus row stays whole."""
    padded = torch.cat([draft.tokens, draft.tokens.new_full((len(row), 1), -1)], 1)
    rejected = padded.gather(1, num_accepted[:, None])
    kept = torch.where(rejected < 0, row.gather(1, rejected.clamp_min(0)), 0.0)
    return row.scatter(1, rejected.clamp_min(0), kept.to(row.dtype))


def residual(target_row: Tensor, draft: Draft, num_accepted: Tensor, scale: Tensor | None = None) -> Tensor:
    """(B, V) weights of the last token: max(scale·p - q, 0) after a rejection, p itself in a bonus row. Not normalised.

    scale: (B,), 1 when None (block verification passes its r). A residual without mass, which only rounding can
    bring about, falls back to p.
    """
    scaled = target_row if scale is None else target_row * scale[:, None]
    if draft.probs is None:
        weights = without_draft(scaled, draft, num_accepted)
    else:
        k = draft.tokens.shape[1]
        is_bonus = (num_accepted == draft.lengths)[:, None]
        q = row_at(draft.probs, num_accepted.clamp_max(k - 1)) if k else torch.zeros_like(target_row)
        weights = torch.where(is_bonus, target_row, (scaled - q).clamp_min(0))
    return torch.where(weights.sum(-1, keepdim=True) > 0, weights, target_row)


def conclude(draft: Draft, num_accepted: Tensor, last: Tensor) -> Verdict:
    """The verdict that keeps ``num_accepted`` draft tokens and ends in ``last`` (B,)."""
    batch, k = draft.tokens.shape
    place = torch.arange(k + 1, device=draft.tokens.device)
    tokens = torch.cat([draft.tokens, draft.tokens.new_full((batch, 1), -1)], 1)
    tokens = torch.where(place < num_accepted[:, None], tokens, -1)
    tokens = torch.where(place == num_accepted[:, None], last[:, None], tokens)
    return Verdict(tokens, num_accepted, num_accepted == draft.lengths)


def draw_at(uniforms: Tensor, num_accepted: Tensor) -> Tensor:
    """(B,) the uniform that draws the recovered or bonus token: ``[num_accepted, 1]``."""
    return uniforms[:, :, 1].gather(1, num_accepted[:, None]).squeeze(1)


def ratio(draft: Draft, target_probs: Tensor) -> Tensor:
    """(B, k): p(d)/q(d). A draft token with q = 0, which its own distribution could not have drawn, counts as 0."""
    p = at_draft(target_probs, draft)
    if draft.probs is None:
        return p
    q = at_draft(draft.probs, draft)
    ratio = torch.where(q > 0, p / q, 0.0)
    return ratio.clamp_max(torch.finfo(ratio.dtype).max)  # an overflow to inf would make block's 0 · inf a NaN
