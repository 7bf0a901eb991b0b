"""Tests of pairs: the same prompt and seed under two arms; and what many tests at once cost.

Takes: differences, or yes and no under both arms.  Returns: p-values.
Must not know: what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .numbers import grouped, numbers, whole, yes_no_pairs


def sign_flip(
    differences: Sequence[float], clusters: Sequence | None = None, resamples: int = 9_999, seed: int = 0
) -> float:
    """The p-value, two-sided, of "the differences are as often up as down", by flipping their signs at random.

    differences: arm minus baseline, one for each pair.
    clusters: the prompt of each pair, when a prompt has several: their differences are averaged first.
    Up to 2^n ≤ resamples every combination of signs is tried, and the p-value is exact. All differences 0 give 1.
    Raises ValueError for fewer than two differences or clusters, and for NaN.

    >>> sign_flip([1, 2, 3, 4, 5])  # 2 of the 32 combinations are as far from 0
    0.0625
    """
    whole("resamples", resamples, 100)
    found = numbers("differences", differences)
    sums, sizes = grouped(clusters, found, np.ones_like(found))
    means = sums / sizes
    n = len(means)
    if n < 2:
        raise ValueError(f"{n} pair{'s' * (n != 1)} of different prompts: two or more are needed")
    if not means.any():
        return 1.0
    seen = abs(means.sum())
    edge = seen * (1 - 1e-12)  # sums that are equal but for rounding count as equal
    if 2**n <= resamples:
        signs = 1 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float((abs(signs @ means) >= edge).mean())
    source = np.random.default_rng(seed)
    as_far = 0
    for start in range(0, resamples, 1000):
        signs = 1 - 2.0 * source.integers(0, 2, (min(1000, resamples - start), n))
        as_far += int((abs(signs @ means) >= edge).sum())
    return (as_far + 1) / (resamples + 1)  # what was seen is one of the combinations


def mcnemar(baseline: Sequence[bool], arm: Sequence[bool]) -> float:
    """The exact p-value, two-sided, of "as many pairs turn from no to yes as from yes to no".

    Only pairs that differ count: each is a fair coin if nothing changed. No such pair gives 1.
    Raises ValueError for lists of different lengths, empty ones, or anything but yes and no (True, False, 1, 0).

    >>> mcnemar([False] * 6, [True] * 6)
    0.03125
    """
    from scipy.stats import binomtest

    a, b = yes_no_pairs(baseline, arm)
    up, down = int((b > a).sum()), int((a > b).sum())
    return float(binomtest(up, up + down).pvalue) if up + down else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values that can be read side by side: reject those below α, and the chance of any false one is at most α.

    Each is multiplied by how many are at least as large, and never falls below a smaller one's.
    Raises ValueError for an empty list, NaN, or numbers outside 0 … 1.  Ref: Holm, Scand. J. Statist. 6 (1979), 65.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    found = numbers("p_values", p_values)
    if (found < 0).any() or (found > 1).any():
        raise ValueError("p_values must lie between 0 and 1")
    order = found.argsort(kind="stable")
    scaled = np.maximum.accumulate(found[order] * np.arange(len(found), 0, -1))
    adjusted = np.empty_like(found)
    adjusted[order] = scaled.clip(max=1)
    return adjusted.tolist()
