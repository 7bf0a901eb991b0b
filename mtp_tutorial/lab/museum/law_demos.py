"""Broken rules at work: laws that are known exactly, by enumeration or by hand.

Takes: a broken rule.  Returns: a ``Demonstration``.
Must not know: the exhibits' texts, the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...records import Draft
from ...verify import RULES, Rule, verify
from ..exact import marginal, output_law, separate_noise_law, shared_noise_law
from .exhibit import Demonstration
from .second_article import article_law

P, Q = (0.5, 0.3, 0.2), (0.2, 0.3, 0.5)
AT_06 = tuple((torch.tensor(P, dtype=torch.float64).pow(1 / 0.6) / sum(p ** (1 / 0.6) for p in P)).tolist())


def doubles(rows) -> Tensor:
    return torch.as_tensor(rows, dtype=torch.float64)


def greedy_draft(*tokens: int) -> Draft:
    return Draft(torch.tensor([tokens]))


def drawn_from(*q: float) -> Draft:
    return Draft(torch.zeros(1, 1, dtype=torch.int64), doubles([[q]]))


def names(count: int) -> tuple[str, ...]:
    return tuple(f"token {i}" for i in range(count))


def first_token(
    rule: Rule, draft: Draft, predicted: Sequence[float], digits: int = 3, row: Sequence[float] = P
) -> Callable[[], Demonstration]:
    """The law of the first token of a round that drafts one token. row: the target's distribution, the right law."""

    def run() -> Demonstration:
        found = marginal(output_law(rule, draft, doubles([row, row])))
        wrong = tuple(found.get(token, 0.0) for token in range(len(row)))
        return Demonstration("law of the first token", names(len(row)), tuple(row), wrong, tuple(predicted), digits)

    return run


def one_coin(rule: Rule) -> Demonstration:
    """Two draft tokens, accepted with .6 and .5 one by one."""
    rows = doubles([(0.6, 0.4), (0.5, 0.5), (0.5, 0.5)])

    def both(rule: Rule | str) -> tuple[float, float]:
        law = output_law(rule, greedy_draft(0, 0), rows)
        return marginal(law)[0], sum(p for tokens, p in law.items() if tokens[:2] == (0, 0))

    labels = ("first token is the draft token", "both are")
    return Demonstration("share of rounds", labels, both("rejection"), both(rule), (0.6, 0.5))


def duplicate(rule: Rule) -> Demonstration:
    """Given that the draft token was accepted, how often does the bonus token say it again?"""
    rows = doubles([(0.5, 0.3, 0.2), (0.1, 0.6, 0.3)])  # after token 0 the target hardly ever says it again

    def again(rule: Rule | str) -> float:
        law = output_law(rule, greedy_draft(0), rows)
        return law[0, 0] / marginal(law)[0]

    label = ("the same token twice in a row",)
    return Demonstration("law of the bonus token", label, (again("rejection"),), (again(rule),), (0.5,))


def second_token(rule: Rule, predicted: Sequence[float]) -> Demonstration:
    """Rows that differ: the first token's law shows which row a rule looked at."""
    rows = doubles([(0.5, 0.3, 0.2), (0.1, 0.3, 0.6), (0.4, 0.4, 0.2)])

    def law(rule: Rule | str) -> tuple[float, ...]:
        found = marginal(output_law(rule, greedy_draft(0, 1), rows))
        return tuple(found.get(token, 0.0) for token in range(3))

    return Demonstration("law of the first token", names(3), law("rejection"), law(rule), tuple(predicted))


def article() -> Demonstration:
    """The law of the token after an accepted one, with a drafter that always says token 0."""
    rows = {(): doubles([1, 0, 0])}  # the first token is certain, and so accepted: the second is what we look at
    law = article_law(lambda prefix: rows.get(prefix, doubles(P)), lambda prefix: 0, k=2, length=2)
    after = tuple(law.get((0, token), 0.0) for token in range(3))
    return Demonstration("law at a position after an acceptance", names(3), P, after, (0.875, 0.075, 0.05))


def shared_noise() -> Demonstration:
    p, q = (0.4, 0.3, 0.1, 0.2), (0.3, 0.05, 0.6, 0.05)
    right, wrong = separate_noise_law(p, q).tolist(), shared_noise_law(p, q).tolist()
    return Demonstration("law of the first token", names(4), tuple(right), tuple(wrong), (0.35, 0.34, 0.10, 0.21), 2)


def reused_uniform() -> Demonstration:
    """d ~ q by the inverse CDF of u, accepted if u < p/q: the law by walking u through [0, 1) in tenths.

    All places where a decision changes (.2, .4 and .5) are tenths, so the middle of each stands for all of it.
    """
    draws = doubles([0.05 + 0.1 * i for i in range(10)])
    target = doubles([P, P]).expand(10, 2, 3)
    tokens = torch.searchsorted(doubles(Q).cumsum(0), draws, right=True)[:, None]
    draft = Draft(tokens, doubles([Q]).expand(10, 1, 3))

    def law(coin: Tensor) -> tuple[float, ...]:
        uniforms = torch.zeros(10, 2, 2, dtype=torch.float64)
        uniforms[:, 0, 0] = coin
        found = verify("rejection", draft, target, uniforms).tokens[:, 0]
        return tuple((found.bincount(minlength=3).double() / 10).tolist())

    right = torch.stack([doubles(law(doubles([0.05 + 0.1 * i] * 10))) for i in range(10)]).mean(0)
    return Demonstration("law of the first token", names(3), tuple(right.tolist()), law(draws), (0.7, 0.3, 0.0))


def lossy_by_design(name: str, predicted: Sequence[float]) -> Callable[[], Demonstration]:
    return first_token(RULES[name], greedy_draft(0), predicted)
