"""Verify rules: what happens to a draft once the target has looked at it.

Takes: a ``Draft``, the target's probabilities, uniforms.  Returns: a ``Verdict``. Pure functions, vectorised over B.
Must not know: models, caches, drafters, the loop.

Shapes: B sequences, k draft tokens, V vocabulary. Row i of ``target_probs`` is the target's distribution after
draft tokens 0 … i-1; row k is the one a bonus token is drawn from.

What each uniform does: ``[i, 0]`` is the acceptance coin of draft position i; the recovered or bonus token is always
the inverse CDF of ``[i, 1]`` with i = num_accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from types import MappingProxyType

import torch
from torch import Tensor

from .records import Draft, Verdict
from .sampling import inverse_cdf

# -- Small parts the rules are made of ------------------------------------------------------------------------------


def at_draft(rows: Tensor, draft: Draft) -> Tensor:
    """(B, ≥k, V) rows → (B, k): the probability that row i gives to draft token i (0 where there is no draft)."""
    k = draft.tokens.shape[1]
    found = rows[:, :k].gather(2, draft.tokens.clamp_min(0).unsqueeze(2)).squeeze(2)
    return found.masked_fill(draft.tokens < 0, 0)


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


def _ratio(draft: Draft, target_probs: Tensor) -> Tensor:
    """(B, k): p(d)/q(d). A draft token with q = 0, which its own distribution could not have drawn, counts as 0."""
    p = at_draft(target_probs, draft)
    if draft.probs is None:
        return p
    q = at_draft(draft.probs, draft)
    ratio = torch.where(q > 0, p / q, 0.0)
    return ratio.clamp_max(torch.finfo(ratio.dtype).max)  # an overflow to inf would make block's 0 · inf a NaN


# -- The rules ------------------------------------------------------------------------------------------------------


def greedy(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """Accept while the draft token is the target's most probable token; end in that token. No randomness."""
    best = target_probs.argmax(-1)
    n = leading(draft.tokens == best[:, : draft.tokens.shape[1]], draft)
    return conclude(draft, n, best.gather(1, n[:, None]).squeeze(1))


def rejection(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """Accept with probability min(1, p/q); after a rejection draw from max(p - q, 0), normalised."""
    n = leading(uniforms[:, :-1, 0] < _ratio(draft, target_probs), draft)
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
    ratio = _ratio(draft, target_probs)
    r = torch.ones(batch, k + 1, dtype=ratio.dtype, device=ratio.device)
    for i in range(1, k + 1):
        r[:, i] = (r[:, i - 1] * ratio[:, i - 1]).clamp_max(1)
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


# -- Where a rule's decision changes, for lab.exact -----------------------------------------------------------------

#: For one sequence: (draft, target_probs, **params) → for each row i, the breakpoints of coin [i, 0] and draw [i, 1].
Breakpoints = Callable[..., list[tuple[Tensor, Tensor]]]


def cdf_points(weights: Tensor) -> Tensor:
    """(V,) weights → the points of (0, 1) where the inverse CDF changes its token."""
    total = weights.to(torch.float64).cumsum(-1)
    return total / total[-1]


def points(coins: Callable, weights: Callable) -> Breakpoints:
    """Breakpoints of a rule from its coin thresholds ``coins(...) -> (k,)`` and the last token's weights
    ``weights(..., n) -> (B, V)`` after n accepted tokens."""

    def breakpoints(draft: Draft, target_probs: Tensor, **params: float) -> list[tuple[Tensor, Tensor]]:
        none = target_probs.new_zeros(0)
        thresholds = coins(draft, target_probs, **params) if coins else None
        rows = []
        for i in range(int(draft.lengths[0]) + 1):
            n = torch.tensor([i], device=target_probs.device)
            drafted = i < int(draft.lengths[0])
            coin = thresholds[i : i + 1] if thresholds is not None and drafted else none
            rows.append((coin, cdf_points(weights(draft, target_probs, n)[0]) if weights else none))
        return rows

    return breakpoints


def full_row(draft: Draft, target_probs: Tensor, n: Tensor) -> Tensor:
    return row_at(target_probs, n)


def _residual_row(draft: Draft, target_probs: Tensor, n: Tensor) -> Tensor:
    return residual(row_at(target_probs, n), draft, n)


def _block_row(draft: Draft, target_probs: Tensor, n: Tensor) -> Tensor:
    r, _ = block_quantities(draft, target_probs)
    return residual(row_at(target_probs, n), draft, n, scale=r.gather(1, n[:, None]).squeeze(1))


def _target_only_row(draft: Draft, target_probs: Tensor, n: Tensor) -> Tensor:
    return residual(row_at(target_probs, n), Draft(draft.tokens), n)


@dataclass(frozen=True, eq=False)  # told apart by identity, so that a rule can be a key
class Rule:
    """A verify rule and what is known of it.

    decide: (draft, target_probs, uniforms, **params) → Verdict.
    lossless: with the default parameters, the emitted tokens follow the target's own law.
    lossless_at_zero: so they do at temperature 0, where every target row is one-hot.
    params: parameter → default.  ranges: parameter → (low, high), both allowed, low only where above 0.
    """

    name: str
    decide: Callable[..., Verdict]
    lossless: bool
    lossless_at_zero: bool
    sentence: str
    reference: str
    breakpoints: Breakpoints
    params: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))

    def check_params(self, params: Mapping[str, float]) -> dict[str, float]:
        """All parameters with defaults filled in. Raises ValueError on an unknown name or a value out of range."""
        for name, value in params.items():
            if name not in self.params:
                known = ", ".join(self.params) or "none"
                raise ValueError(f"verify rule {self.name!r} has no parameter {name!r}; it has: {known}")
            low, high = self.ranges.get(name, (float("-inf"), float("inf")))
            if isinstance(value, bool) or not isinstance(value, Real) or not low <= value <= high:
                raise ValueError(
                    f"{name}={value!r} for verify rule {self.name!r}: use a number from {low:g} to {high:g}"
                )
        return {**self.params, **params}

    def is_lossless(self, **params: float) -> bool:
        """Whether the rule is lossless with these parameters: ``target_only`` is so at thresholds 1 and 1 only."""
        return self.lossless and self.check_params(params) == dict(self.params)


_TINY = 1e-9  # SGLang's own floor for threshold_acc

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.name: rule
        for rule in (
            Rule(
                "greedy", greedy, False, True,
                "Accept while the draft token is the target's argmax; the last token is the argmax too.",
                "SGLang eagle_utils.py, greedy verification; Stern et al., arXiv 1811.03115",
                points(None, None),
            ),
            Rule(
                "rejection", rejection, True, True,
                "Accept with probability min(1, p/q); after a rejection draw from max(p - q, 0), normalised.",
                "Leviathan et al., arXiv 2211.17192, algorithm 1; Chen et al., arXiv 2302.01318",
                points(lambda d, p: _ratio(d, p)[0], _residual_row),
            ),
            Rule(
                "sample_and_match", sample_and_match, True, True,
                "Draw the target's own token at each position and accept while it equals the draft token.",
                "The exact-match form used by several engines; accepts less than rejection for a sampled draft",
                points(None, full_row),
            ),
            Rule(
                "target_only", target_only, True, True,
                "Accept with probability p/threshold_acc, always when p ≥ threshold_single; q is never looked at.",
                "SGLang tree_speculative_sampling_target_only (draft_probs = 0)",
                points(
                    lambda d, p, threshold_single=1.0, threshold_acc=1.0: at_draft(p, d)[0] / threshold_acc,
                    lambda d, p, n: _target_only_row(d, p, n),
                ),
                MappingProxyType({"threshold_single": 1.0, "threshold_acc": 1.0}),
                MappingProxyType({"threshold_single": (0.0, 1.0), "threshold_acc": (_TINY, 1.0)}),
            ),
            Rule(
                "block", block, True, True,
                "Judge prefixes instead of single tokens and keep the longest that passes.",
                "Sun et al., block verification, arXiv 2403.10444, algorithm 2",
                points(lambda d, p: block_quantities(d, p)[1][0], _block_row),
            ),
            Rule(
                "typical", typical, False, True,
                "Accept when p > min(ε, δ·exp(-entropy)); the last token is drawn from the full p.",
                "Medusa, arXiv 2401.10774, typical acceptance",
                points(None, full_row),
                MappingProxyType({"epsilon": 0.09, "delta": 0.3}),
                MappingProxyType({"epsilon": (0.0, 1.0), "delta": (0.0, 1.0)}),
            ),
            Rule(
                "relaxed", relaxed, False, True,
                "Accept when p is within δ of the most probable token's; the last token is drawn from the full p.",
                "The threshold rules of some serving engines (relaxed acceptance)",
                points(None, full_row),
                MappingProxyType({"delta": 0.1}),
                MappingProxyType({"delta": (0.0, 1.0)}),
            ),
        )
    }
)  # fmt: skip


def get_rule(rule: str | Rule) -> Rule:
    """The rule of that name, or the rule itself. Raises ValueError listing the known names."""
    if isinstance(rule, Rule):
        return rule
    if isinstance(rule, str) and rule in RULES:
        return RULES[rule]
    raise ValueError(f"unknown verify rule {rule!r}; known: {', '.join(RULES)}")


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
    _check_rows("target_probs", target_probs[used])
    if draft.probs is not None:
        _check_rows("draft.probs", draft.probs[used[:, 1:]])


def _check_rows(name: str, rows: Tensor) -> None:
    if bool(rows.isnan().any()):
        raise ValueError(f"{name} holds NaN in a row that is used: look for an overflow in the model that made it")
    if bool((rows < 0).any()) or bool(((rows.sum(-1) - 1).abs() > 0.01).any()):
        raise ValueError(
            f"{name} holds a row that is no distribution (negative, or sum not 1): pass probabilities, not logits"
        )
