"""Verify rules: what happens to a draft once the target has looked at it.

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
from .parts import (
    at_draft,
    conclude,
    draw_at,
    is_distribution,
    leading,
    lowest_and_sum,
    ratio,
    residual,
    row_at,
    without_draft,
)  # fmt: skip
from .rules import block, block_quantities, greedy, rejection, relaxed, sample_and_match, target_only, typical
from .table import RULES, Rule, cdf_points, full_row, get_rule, points

__all__ = [
    "RULES", "Rule", "at_draft", "block", "block_quantities", "cdf_points", "check_rows", "conclude", "draw_at",
    "full_row", "get_rule", "greedy", "is_distribution", "leading", "lowest_and_sum", "points", "ratio", "rejection",
    "relaxed", "residual", "row_at", "sample_and_match", "target_only", "typical", "verify", "without_draft",
]  # fmt: skip


def verify(rule: str | Rule, draft: Draft, target_probs: Tensor, uniforms: Tensor, **params: float) -> Verdict:
    """Judge a draft: which of its tokens stay, and which token follows them.

    rule: a name from RULES, or a Rule.
    draft: tokens (B, k) and, unless they were chosen without randomness, the distributions they were drawn from.
    target_probs: (B, k+1, V), already processed by ``probabilities``.
    uniforms: (B, k+1, 2) in [0, 1): ``[i, 0]`` is the coin of draft position i, ``[i, 1]`` draws the last token.
    Raises ValueError on shapes that do not fit, a vocabulary that does not match, NaN or negative probabilities in a
    used row, uniforms outside [0, 1), an unknown rule or parameter.

    >>> draft = Draft(torch.tensor([[0]]))
    >>> p = torch.tensor([[[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]], dtype=torch.float64)
    >>> verify("rejection", draft, p, torch.tensor([[[0.7, 0.5], [0.0, 0.0]]], dtype=torch.float64)).tokens.tolist()
    [[1, -1]]
    """
    rule = get_rule(rule)
    params = rule.check_params(params)
    _check(draft, target_probs, uniforms)
    return rule.decide(draft, target_probs, uniforms, **params)


def _check(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> None:
    if not isinstance(draft, Draft):
        raise ValueError(f"draft must be a Draft, got {type(draft).__name__}: use Draft(tokens, probs)")
    if draft.probs is not None and not isinstance(draft.probs, Tensor):
        raise ValueError("draft.probs must be a tensor here; a callable is for lab.exact only")
    batch, k = draft.tokens.shape
    if not isinstance(target_probs, Tensor) or not target_probs.is_floating_point() or target_probs.ndim != 3:
        raise ValueError("target_probs must be a floating point tensor of shape (B, k+1, V)")
    if target_probs.shape[:2] != (batch, k + 1):
        raise ValueError(f"target_probs must have the shape {(batch, k + 1, 'V')}, got {tuple(target_probs.shape)}")
    vocabulary = target_probs.shape[2]
    if draft.probs is not None and draft.probs.shape[2] != vocabulary:
        raise ValueError(
            f"the drafter has a vocabulary of {draft.probs.shape[2]} tokens, the target one of {vocabulary}: "
            "both must number the same tokens alike; use a drafter made for this target"
        )
    if draft.tokens.numel() and int(draft.tokens.max()) >= vocabulary:
        raise ValueError(
            f"the draft holds the id {int(draft.tokens.max())}, but the target's vocabulary has {vocabulary} tokens"
        )
    if not isinstance(uniforms, Tensor) or not uniforms.is_floating_point() or uniforms.shape != (batch, k + 1, 2):
        got = tuple(uniforms.shape) if isinstance(uniforms, Tensor) else type(uniforms).__name__
        raise ValueError(f"uniforms must be floating point of shape {(batch, k + 1, 2)}, got {got}")
    place = torch.arange(k + 1, device=target_probs.device)
    used = place <= draft.lengths[:, None]
    if not bool(((uniforms >= 0) & (uniforms < 1))[used].all()):
        raise ValueError("uniforms must lie in [0, 1)")
    check_rows("target_probs", target_probs[used])
    if draft.probs is not None:
        check_rows("draft.probs", draft.probs[used[:, 1:]])


def check_rows(name: str, rows: Tensor) -> None:
    if bool(rows.isnan().any()):
        raise ValueError(f"{name} holds NaN in a row that is used: look for an overflow in the model that made it")
    if not bool(is_distribution(*lowest_and_sum(rows)).all()):
        raise ValueError(
            f"{name} holds a row that is no distribution (negative, or sum not 1): pass probabilities, not logits"
        )
