"""What is known of each rule: lossless or not, parameters, source, and where its decision changes.

Takes: a rule's name.  Returns: a ``Rule``.
Must not know: what a rule is used for.

The breakpoints are for ``lab.exact``: between two of them a uniform does not change what the rule decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from types import MappingProxyType

import torch
from torch import Tensor

from ..records import Draft, Verdict
from .parts import at_draft, ratio, residual, row_at
from .rules import block, block_quantities, greedy, rejection, relaxed, sample_and_match, target_only, typical

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
    Both are None, unknown until enumerated, in a rule made by ``dataclasses.replace`` with another ``decide``. The
    breakpoints are kept there, since the enumeration checks them.
    """

    name: str
    decide: Callable[..., Verdict]
    lossless: bool | None
    lossless_at_zero: bool | None
    sentence: str
    reference: str
    breakpoints: Breakpoints
    params: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))
    known_of: Callable[..., Verdict] | None = field(default=None, repr=False)  # the function that all this is said of

    def __post_init__(self) -> None:
        if self.known_of not in (None, self.decide):  # ``dataclasses.replace`` gave the rule another function
            object.__setattr__(self, "lossless", None)
            object.__setattr__(self, "lossless_at_zero", None)
        object.__setattr__(self, "known_of", self.decide)

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
        return bool(self.lossless) and self.check_params(params) == dict(self.params)


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
                points(lambda d, p: ratio(d, p)[0], _residual_row),
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
