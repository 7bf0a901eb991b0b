"""Intervals: what shares and means could be, given what was seen.

Takes: successes and trials, or numbers with their clusters.  Returns: an ``Interval``.
Must not know: what was counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .numbers import grouped, numbers, share, whole, yes_no_pairs


class Interval(NamedTuple):
    """From ``low`` to ``high``, both in it."""

    low: float
    high: float


def exact_interval(successes: int, trials: int, level: float = 0.95) -> Interval:
    """Clopper and Pearson's interval of a share: it holds the true share at least so often, at any sample size.

    Raises ValueError unless 0 ≤ successes ≤ trials, trials ≥ 1 and 0 < level < 1.  Ref: Biometrika 26 (1934), 404.

    >>> [round(x, 4) for x in exact_interval(0, 325)]
    [0.0, 0.0113]
    """
    from scipy.stats import beta

    k, n, tail = *_counted(successes, trials), (1 - share("level", level)) / 2
    low = float(beta.ppf(tail, k, n - k + 1)) if k else 0.0
    high = float(beta.isf(tail, k + 1, n - k)) if k < n else 1.0
    return Interval(low, high)


def wilson_interval(successes: int, trials: int, level: float = 0.95) -> Interval:
    """Wilson's interval of a share: shorter than the exact one, right on average. Arguments and errors as there.

    Ref: Journal of the American Statistical Association 22 (1927), 209.
    """
    from scipy.stats import binomtest

    share("level", level)
    found = binomtest(*_counted(successes, trials)).proportion_ci(level, "wilson")
    return Interval(float(found.low), float(found.high))


def paired_share_interval(baseline: Sequence[bool], arm: Sequence[bool], level: float = 0.95) -> Interval:
    """The interval of the difference of two shares, arm minus baseline, from yes and no under both for each pair.

    Unlike the bootstrap it has a width where no pair differs. Two Wilson intervals, put together with the correlation
    of the pairs. Raises ValueError as ``mcnemar`` does.
    Ref: Newcombe, Statistics in Medicine 17 (1998), 2635, method 10.
    """
    share("level", level)
    a, b = yes_no_pairs(baseline, arm)
    n, both = len(a), int((a * b).sum())
    (k_a, k_b), neither = (int(a.sum()), int(b.sum())), int(((1 - a) * (1 - b)).sum())
    margins = k_a * (n - k_a) * k_b * (n - k_b)
    product = both * neither - (k_a - both) * (k_b - both)
    corrected = max(product - n / 2, 0) if product > 0 else product
    correlation = corrected / margins**0.5 if margins else 0.0
    below, above = [], []  # from each share to the ends of its own interval
    for k in (k_a, k_b):
        low, high = wilson_interval(k, n, level)
        below.append(k / n - low)
        above.append(high - k / n)

    def joined(x: float, y: float) -> float:
        return max(x * x - 2 * correlation * x * y + y * y, 0) ** 0.5

    difference = (k_b - k_a) / n
    return Interval(difference - joined(below[1], above[0]), difference + joined(above[1], below[0]))


def bootstrap_interval(
    values: Sequence[float],
    clusters: Sequence | None = None,
    weights: Sequence[float] | None = None,
    level: float = 0.95,
    resamples: int = 9_999,
    seed: int = 0,
) -> Interval:
    """The percentile bootstrap interval of Σ values ÷ Σ weights: of a mean, when there are no weights.

    clusters: which number belongs together, such as the prompt of each. Whole clusters are drawn, as numbers of one
        prompt are alike: as many of one prompt are worth less than as many of many.
    weights: for ratios, such as tokens (values) a round (weights).
    Raises ValueError for fewer than two numbers or clusters, NaN, negative weights, lengths that do not match.
    """
    share("level", level)
    whole("resamples", resamples, 100)
    found = numbers("values", values)
    parts = np.ones_like(found) if weights is None else numbers("weights", weights)
    if len(parts) != len(found) or (parts < 0).any() or not parts.sum():
        raise ValueError("weights must be as many as values, none negative, not all 0")
    tops, bottoms = grouped(clusters, found, parts)
    if len(tops) < 2:
        raise ValueError(f"{len(tops)} cluster{'s' * (len(tops) != 1)}: two or more are needed to see how they differ")
    source = np.random.default_rng(seed)
    ratios = np.empty(resamples)
    for start in range(0, resamples, 1000):  # a thousand at a time: memory stays small
        drawn = source.integers(0, len(tops), (min(1000, resamples - start), len(tops)))
        top, bottom = tops[drawn].sum(1), bottoms[drawn].sum(1)
        ratios[start : start + 1000] = np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
    low, high = np.nanquantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _counted(successes: int, trials: int) -> tuple[int, int]:
    n, k = whole("trials", trials), whole("successes", successes, 0)
    if k > n:
        raise ValueError(f"{k} successes in {n} trials: there cannot be more of them than trials")
    return k, n
