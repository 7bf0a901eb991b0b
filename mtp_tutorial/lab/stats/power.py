"""Power: what a test would have seen, and how many samples it needs.

Takes: laws, spreads, rates, levels.  Returns: probabilities, sample sizes, smallest differences.
Must not know: what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from .counts import Counts, aligned
from .numbers import positive, share, whole


def chi_square_power(law: Counts, expected: Counts, samples: int, alpha: float = 1e-6) -> float:
    """How often χ² at level ``alpha`` finds out that samples of ``law`` do not follow ``expected``.

    Both are probabilities, lists in one order or dicts by outcome. By the non-central χ² with n · Σ (p - e)²/e.
    Raises ValueError for laws that do not sum to 1, samples < 1, alpha outside (0, 1).
    """
    from scipy.stats import chi2, ncx2

    effect, cells, impossible = _effect(law, expected)
    n, alpha = whole("samples", samples), share("alpha", alpha)
    if impossible:  # an outcome that cannot be: one sighting is enough
        return 1 - (1 - impossible) ** n
    return float(ncx2.sf(chi2.isf(alpha, cells - 1), cells - 1, n * effect)) if effect else alpha


def chi_square_samples(law: Counts, expected: Counts, alpha: float = 1e-6, power: float = 0.999) -> int:
    """The smallest number of samples with which χ² at level ``alpha`` finds the difference with that power.

    Raises ValueError as ``chi_square_power``, and for equal laws: no number of samples tells them apart.

    >>> chi_square_samples([0.75, 0.15, 0.10], [0.5, 0.3, 0.2])  # rule R1 of the museum
    274
    """
    from scipy.optimize import brentq
    from scipy.stats import chi2, ncx2

    effect, cells, impossible = _effect(law, expected)
    alpha, power = share("alpha", alpha), share("power", power)
    if impossible:
        return _runs_until(impossible, power)
    if effect < 1e-15:
        raise ValueError("the two laws are equal: no number of samples tells them apart")
    if power <= alpha:
        return 1
    edge, freedom = chi2.isf(alpha, cells - 1), cells - 1
    needed = brentq(lambda x: ncx2.sf(edge, freedom, x) - power, 0, 10 * edge + 1000, xtol=1e-10)
    return math.ceil(needed / effect)


def clean_runs(rate: float, level: float = 0.95) -> int:
    """How many runs without a single case it takes to exclude a rate: (1 - rate)^n ≤ 1 - level. About 3 ÷ rate at 95 %.

    Raises ValueError unless rate and level lie between 0 and 1.

    >>> clean_runs(0.0092)
    325
    """
    return _runs_until(share("rate", rate), share("level", level))


def rate_excluded(runs: int, level: float = 0.95) -> float:
    """The smallest rate that so many clean runs exclude: 1 - (1 - level)^(1/runs). After two runs: 78 %.

    Raises ValueError unless runs ≥ 1 and 0 < level < 1.
    """
    return -math.expm1(math.log1p(-share("level", level)) / whole("runs", runs))


def detectable_difference(spread: float, pairs: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """The mean difference that a paired t test, two-sided, finds with that power.

    spread: the standard deviation of the paired differences (n - 1 below the line).
    Raises ValueError for fewer than two pairs, a negative spread, alpha or power outside (0, 1).
    """
    if spread == 0:
        return 0.0
    spread, pairs = positive("spread", spread), whole("pairs", pairs, 2)
    found = _paired_power(pairs, share("alpha", alpha))
    return _solve(found, share("power", power)) * spread / math.sqrt(pairs)


def pairs_needed(difference: float, spread: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """How many pairs a paired t test needs to find that mean difference with that power.

    Raises ValueError unless difference and spread are above 0, alpha and power inside (0, 1).
    """
    positive("difference", difference), positive("spread", spread), share("alpha", alpha), share("power", power)
    low, high = 1, 2
    while detectable_difference(spread, high, alpha, power) > difference:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        enough = detectable_difference(spread, middle, alpha, power) <= difference
        low, high = (low, middle) if enough else (middle, high)
    return high


def detectable_share(pairs: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """The share of pairs that must turn from no to yes, none the other way, for McNemar's exact test to find it.

    inf when even all of them are not enough. Raises ValueError for pairs < 1, alpha or power outside (0, 1).
    """
    from scipy.optimize import brentq
    from scipy.stats import binom

    n = whole("pairs", pairs)
    needed = math.ceil(1 - math.log2(share("alpha", alpha)) - 1e-9)  # 2 · (1/2)^m ≤ alpha
    share("power", power)
    if needed > n:
        return math.inf
    return float(brentq(lambda rate: binom.sf(needed - 1, n, rate) - power, 0, 1, xtol=1e-12))


# -- Inside ---------------------------------------------------------------------------------------------------------


def _effect(law: Counts, expected: Counts) -> tuple[float, int, float]:
    """Σ (p - e)²/e, the number of cells with e > 0, and the mass of ``law`` where e = 0."""
    p, e = aligned(law, expected, "expected")
    for name, one in (("law", p), ("expected", e)):
        if (one < 0).any() or abs(one.sum() - 1) > 1e-6:
            raise ValueError(f"{name} must be probabilities that sum to 1; they sum to {one.sum():.6g}")
    possible = e > 0
    return float(((p - e)[possible] ** 2 / e[possible]).sum()), int(possible.sum()), float(p[~possible].sum())


def _runs_until(rate: float, level: float) -> int:
    """The smallest n with 1 - (1 - rate)^n ≥ level."""
    if rate >= level:
        return 1
    runs = Fraction(math.log1p(-level)) / Fraction(math.log1p(-rate))  # of a tiny rate too large for a float
    return math.ceil(runs - Fraction(1e-9))


def _paired_power(pairs: int, alpha: float) -> Callable[[float], float]:
    """Non-centrality (mean difference in standard errors) → power of the paired t test, two-sided.

    What is found on the wrong side of 0 does not count.
    """
    from scipy.stats import nct, t

    freedom = pairs - 1
    edge = t.isf(alpha / 2, freedom)
    return lambda shift: float(nct.sf(edge, freedom, shift))


def _solve(found: Callable[[float], float], power: float) -> float:
    from scipy.optimize import brentq

    high = 1.0
    while found(high) < power:
        high *= 2
    return float(brentq(lambda shift: found(shift) - power, 0, high, xtol=1e-10)) if found(0) < power else 0.0
