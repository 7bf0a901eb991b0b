"""The seven verify rules, each a few lines over the parts.

Takes: a ``Draft``, the target's probabilities, uniforms.  Returns: a ``Verdict``. Pure functions, vectorised over B.
Must not know: models, caches, drafters, the loop.

Shapes: B sequences, k draft tokens, V vocabulary. Row i of ``target_probs`` is the target's distribution after
draft tokens 0 … i-1; row k is the one a bonus token is drawn from.

What each uniform does: ``[i, 0]`` is the acceptance coin of draft position i; the recovered or bonus token is always
the inverse CDF of ``[i, 1]`` with i = num_accepted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..records import Draft, Verdict
from ..sampling import inverse_cdf
from .parts import at_draft, conclude, draw_at, leading, ratio, residual, row_at, without_draft


def greedy(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """Accept while the draft token is the target's most probable token; end in that token. No randomness."""
    best = target_probs.argmax(-1)
    n = leading(draft.tokens == best[:, : draft.tokens.shape[1]], draft)
    return conclude(draft, n, best.gather(1, n[:, None]).squeeze(1))


def rejection(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """Accept with probability min(1, p/q); after a rejection draw from max(p - q, 0), normalised."""
    n = leading(uniforms[:, :-1, 0] < ratio(draft, target_probs), draft)
    weights = residual(row_at(target_probs, n), draft, n)
    return conclude(draft, n, inverse_cdf(weights, draw_at(uniforms, n)))


def sample_and_match(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """Draw the target's own token at each position; accept while it equals the draft token."""
    drawn = inverse_cdf(target_probs, uniforms[:, :, 1])
    n = leading(draft.tokens == drawn[:, :-1], draft)
    return conclude(draft, n, drawn.gather(1, n[:, None]).squeeze(1))


def target_only(
    draft: Draft, target_probs: Tensor, uniforms: Tensor, threshold_single: float = 1.0, threshold_acc: float = 1.0
) -> Verdict:
    """Accept with probability p/threshold_acc, and always when p ≥ threshold_single; never look at q."""
    p = at_draft(target_probs, draft)
    n = leading((uniforms[:, :-1, 0] < p / threshold_acc) | (p >= threshold_single), draft)
    weights = without_draft(row_at(target_probs, n), draft, n)
    weights = torch.where(weights.sum(-1, keepdim=True) > 0, weights, row_at(target_probs, n))
    return conclude(draft, n, inverse_cdf(weights, draw_at(uniforms, n)))


def block_quantities(draft: Draft, target_probs: Tensor) -> tuple[Tensor, Tensor]:
    """(B, k+1) r and (B, k) h of block verification: r[:, i] is for the first i draft tokens, h[:, i-1] passes them.

    Ref: arXiv 2403.10444, algorithm 2.
    """
    batch, k = draft.tokens.shape
    ratios = ratio(draft, target_probs)
    r = torch.ones(batch, k + 1, dtype=ratios.dtype, device=ratios.device)
    for i in range(1, k + 1):
        r[:, i] = (r[:, i - 1] * ratios[:, i - 1]).clamp_max(1)
    h = r[:, 1:].clone()  # the last draft token of a row passes with r itself
    lengths = draft.lengths
    for i in range(1, k):
        weights = r[:, i, None] * target_probs[:, i]
        if draft.probs is None:
            s = weights.sum(-1) - weights.gather(1, draft.tokens[:, i, None].clamp_min(0)).squeeze(1)
        else:
            s = (weights - draft.probs[:, i]).clamp_min(0).sum(-1)
        room = s + 1 - r[:, i]
        inner = torch.where(room > 0, s / room, 1.0)
        h[:, i - 1] = torch.where(i < lengths, inner, h[:, i - 1])
    return r, h


def block(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """Judge prefixes instead of single tokens: keep the longest prefix whose coin falls below its h."""
    batch, k = draft.tokens.shape
    r, h = block_quantities(draft, target_probs)
    place = torch.arange(1, k + 1, device=r.device)
    passes = (uniforms[:, :-1, 0] < h) & (draft.tokens >= 0)
    n = torch.where(passes, place, 0).amax(1) if k else torch.zeros(batch, dtype=torch.int64, device=r.device)
    weights = residual(row_at(target_probs, n), draft, n, scale=r.gather(1, n[:, None]).squeeze(1))
    return conclude(draft, n, inverse_cdf(weights, draw_at(uniforms, n)))


def typical(draft: Draft, target_probs: Tensor, uniforms: Tensor, epsilon: float = 0.09, delta: float = 0.3) -> Verdict:
    """Accept when p > min(ε, δ·exp(-H)), H the entropy of the row in nats; then draw from the full p."""
    entropy = torch.special.entr(target_probs[:, :-1]).sum(-1)
    n = leading(at_draft(target_probs, draft) > (delta * (-entropy).exp()).clamp_max(epsilon), draft)
    return conclude(draft, n, inverse_cdf(row_at(target_probs, n), draw_at(uniforms, n)))


def relaxed(draft: Draft, target_probs: Tensor, uniforms: Tensor, delta: float = 0.1) -> Verdict:
    """Accept when p is within δ of the most probable token's; then draw from the full p."""
    n = leading(at_draft(target_probs, draft) >= target_probs[:, :-1].amax(-1) - delta, draft)
    return conclude(draft, n, inverse_cdf(row_at(target_probs, n), draw_at(uniforms, n)))
