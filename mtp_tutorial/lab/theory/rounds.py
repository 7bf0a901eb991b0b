"""What follows from acceptance: tokens a round, speed-up, break-even, the best draft length.

Takes: acceptance rates, draft lengths, costs in target calls.  Returns: plain numbers.
Must not know: what a call costs in seconds, models.

Everywhere ``alpha`` is the *conditional* acceptance rate: the probability that a draft token is accepted, given that
all before it in its round were. A number holds for every position, which makes the verdicts independent (Leviathan et
al., arXiv 2211.17192, section 3.1). A sequence gives position 1, 2, … a rate each, ``accepted[i] / accepted[i - 1]`` of
a measurement. Engines report the other kind, the share of *all* rounds that accepts position i: the product of the
first i rates.
"""

from __future__ import annotations

import itertools
import math

from .numbers import Alpha, number, plain, positive, rates, whole

#: The engine's own limit: ``decode.MAX_DRAFT``.
MAX_K = 64


def survival(alpha: Alpha, k: int) -> list[float]:
    """For each draft position 1 … k: the share of all rounds that accepts it, the product of the rates so far.

    >>> survival([0.8, 0.5], 2)
    [0.8, 0.4]
    """
    return list(itertools.accumulate(rates(alpha, whole("k", k)), lambda before, rate: before * rate))


def expected_tokens(alpha: Alpha, k: int) -> float:
    """Mean acceptance length, in tokens: the target's own token, and each draft position's share of accepting rounds.

    alpha: the conditional acceptance rate, from 0 to 1: one number for all positions, or a sequence with at least k of
        them, one for each position (given that all before it were accepted).
    k: draft tokens a round, 0 or more.
    For one number this is (1 - alpha^(k+1)) / (1 - alpha), and k + 1 at alpha = 1.
    Raises ValueError for a rate outside [0, 1], a k that is no whole number, a sequence shorter than k.
    Ref: arXiv 2211.17192, equation 1.

    >>> expected_tokens(0.5, 2), expected_tokens(1, 4), expected_tokens(0.9, 0), expected_tokens([0.5, 0.5], 2)
    (1.75, 5.0, 1.0, 1.75)
    """
    return 1.0 + math.fsum(survival(alpha, k))


def tokens_law(alpha: Alpha, k: int) -> list[float]:
    """The probabilities that a round brings 1, 2, … k + 1 tokens. Arguments as in ``expected_tokens``.

    >>> tokens_law(0.5, 2)
    [0.5, 0.25, 0.25]
    """
    reached = [1.0, *survival(alpha, k)]
    return [here - after for here, after in zip(reached, [*reached[1:], 0.0])]


def break_even_tokens(k: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """What a round costs in plain target calls, k · draft_cost + verify_cost: so many tokens must it bring to pay.

    draft_cost: one draft step, in target calls.
    verify_cost: the target's call on k + 1 rows, in calls on one row; 1 where memory sets the pace.
    """
    verify = positive("verify_cost", verify_cost, "a number above 0, as a round has one call of the target")
    return verify + whole("k", k) * number("draft_cost", draft_cost)


def speedup(alpha: Alpha, k: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """How many times as fast as plain decoding: tokens a round ÷ cost of a round. Below 1, drafting makes it slower.

    ``expected_tokens(alpha, k) / (1 + k · draft_cost)`` with ``verify_cost`` left at 1. k = 0 is plain decoding: 1.
    alpha, k: as in ``expected_tokens``.  draft_cost, verify_cost: as in ``break_even_tokens``.
    Raises ValueError for costs that are negative or not finite. Ref: arXiv 2211.17192, theorem 3.8.

    >>> round(speedup(1, 4, 0.1), 3), round(speedup(0, 4, 0.1), 3)
    (3.571, 0.714)
    """
    cost = break_even_tokens(k, draft_cost, verify_cost)
    tokens = expected_tokens(alpha, k)
    return tokens / cost if k else 1.0  # k = 0 is plain decoding, whatever verify_cost says of longer rounds


def best_k(alpha: Alpha, draft_cost: float, max_k: int = MAX_K, verify_cost: float = 1.0) -> int:
    """The draft length, 0 to ``max_k``, with the largest ``speedup``; the shorter one at ties; 0: do not speculate.

    For a sequence ``alpha`` no more than its length. With draft_cost = 0 each further draft token that may be accepted
    gains a little, so there is no best: the answer is ``max_k``, or the last position whose rate is above 0.

    >>> best_k(0.8, 0.1), best_k(0.05, 0.1), best_k(1, 0)
    (6, 0, 64)
    """
    longest, rate = whole("max_k", max_k), plain(alpha)
    if isinstance(rate, (list, tuple)):
        rates(alpha, 0)  # those beyond max_k should be rates, too
        longest = min(longest, len(rate))
    shares = survival(alpha, longest)
    if number("draft_cost", draft_cost) == 0:  # in floats the last gains would be lost in rounding
        longest = sum(share > 0 for share in shares)
        return longest if speedup(alpha, longest, 0, verify_cost) > 1 else 0
    tokens = list(itertools.accumulate(shares, initial=1.0))
    gains = [1.0, *(tokens[k] / break_even_tokens(k, draft_cost, verify_cost) for k in range(1, longest + 1))]
    return gains.index(max(gains))


def acceptance_for(tokens: float, k: int) -> float:
    """The independent acceptance rate at which a round brings so many tokens: the inverse of ``expected_tokens``.

    tokens: from 1 to k + 1, else ValueError. k = 0 asks for 1 token and gives 0.

    >>> round(acceptance_for(1.75, 2), 6)
    0.5
    """
    k = whole("k", k)
    tokens = number("tokens", tokens, 1, k + 1, f"a number from 1 to k + 1 = {k + 1}")
    low, high = 0.0, 1.0
    if tokens == 1:
        return low
    if tokens == k + 1:
        return high
    from scipy.optimize import brentq

    return float(brentq(lambda alpha: expected_tokens(alpha, k) - tokens, low, high, xtol=1e-14))


def break_even_acceptance(k: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """The independent acceptance rate at which drafting neither gains nor loses; inf when no rate is high enough.

    Arguments as in ``break_even_tokens``. At k = 1 it is draft_cost itself (verify_cost 1): drafts pay when they are
    accepted more often than they cost (arXiv 2211.17192, corollary 3.9).

    >>> round(break_even_acceptance(1, 0.1), 6), break_even_acceptance(4, 0), break_even_acceptance(2, 1.5)
    (0.1, 0.0, inf)
    """
    k, cost = whole("k", k), break_even_tokens(k, draft_cost, verify_cost)
    if k == 0 or cost <= 1:
        return 0.0
    return acceptance_for(cost, k) if cost <= k + 1 else math.inf
