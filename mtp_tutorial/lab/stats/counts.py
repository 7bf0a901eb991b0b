"""χ² and G: do counts follow a law, or do two samples follow the same one?

Takes: counts, and probabilities or other counts.  Returns: a ``Result`` with its p-value.
Must not know: what was counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .numbers import numbers, positive

Counts = Mapping[object, float] | Sequence[float]


@dataclass(frozen=True)
class Result:
    """statistic: χ² or G.  freedom: degrees of freedom.  cells: how many were left after small ones were merged.

    p_value: how often chance alone gives a statistic at least as large.
    """

    statistic: float
    freedom: int
    p_value: float
    cells: int


def chi_square(counts: Counts, law: Counts, least: float = 5) -> Result:
    """Pearson's χ² of counts against a law: Σ (seen - expected)² / expected.

    counts: how often each outcome was seen; law: its probability. Both lists in one order, or dicts by outcome.
    least: cells that expect fewer are merged, as the approximation needs counts that are not small.
    An outcome that the law excludes gives p = 0. Raises ValueError for counts that are negative, not whole, NaN or all
    0, for a law that does not sum to 1, and when so few samples are left in one cell that no test is possible.

    >>> round(chi_square([60, 40], [0.5, 0.5]).p_value, 4)
    0.0455
    """
    return _against_law(counts, law, least, "pearson")


def g_test(counts: Counts, law: Counts, least: float = 5) -> Result:
    """The likelihood-ratio test of counts against a law: G = 2 Σ seen · ln(seen / expected). As ``chi_square``."""
    return _against_law(counts, law, least, "log-likelihood")


def chi_square_two(counts_a: Counts, counts_b: Counts, least: float = 5) -> Result:
    """Pearson's χ² of two samples: do both follow one law, whatever it is? Lists in one order, or dicts by outcome.

    Raises ValueError as ``chi_square`` does.
    """
    return _two_samples(counts_a, counts_b, least, "pearson")


def g_test_two(counts_a: Counts, counts_b: Counts, least: float = 5) -> Result:
    """The likelihood-ratio test of two samples. As ``chi_square_two``."""
    return _two_samples(counts_a, counts_b, least, "log-likelihood")


def merge_small(observed: np.ndarray, expected: np.ndarray, least: float = 5) -> tuple[np.ndarray, np.ndarray]:
    """(…, cells) counts and what is expected of them, with the small cells merged into one, which comes last.

    A cell is small when any row of it expects fewer than ``least``. If the merged one is still small, it joins the
    smallest of the others.
    """
    observed, expected = np.atleast_2d(observed), np.atleast_2d(expected)
    small = expected.min(0) < least
    kept, rest = (observed[:, ~small], expected[:, ~small]), (observed[:, small].sum(1), expected[:, small].sum(1))
    if small.any() and rest[1].min() < least and kept[1].size:
        smallest = int(kept[1].min(0).argmin())
        for whole, part in zip(kept, rest, strict=True):
            whole[:, smallest] += part
    elif small.any():
        kept = tuple(np.column_stack([whole, part]) for whole, part in zip(kept, rest, strict=True))
    return kept[0], kept[1]


# -- Inside ---------------------------------------------------------------------------------------------------------


def _against_law(counts: Counts, law: Counts, least: float, kind: str) -> Result:
    from scipy.stats import power_divergence

    positive("least", least)
    seen, probs = aligned(counts, law, "law")
    _check_counts("counts", seen)
    if (probs < 0).any() or abs(probs.sum() - 1) > 1e-6:
        raise ValueError(f"law must be probabilities that sum to 1; they sum to {probs.sum():.6g}")
    possible = probs > 0
    if seen[~possible].any():
        return Result(math.inf, max(int(possible.sum()) - 1, 1), 0.0, int(possible.sum()))
    if possible.sum() == 1:  # a law without randomness, kept
        return Result(0.0, 0, 1.0, 1)
    seen, probs = seen[possible], probs[possible] / probs.sum()
    seen_cells, expected = merge_small(seen, probs * seen.sum(), least)
    _check_cells(expected, seen.sum(), least)
    statistic, p_value = power_divergence(seen_cells[0], expected[0], lambda_=kind)
    return Result(float(statistic), expected.shape[1] - 1, float(p_value), expected.shape[1])


def _two_samples(counts_a: Counts, counts_b: Counts, least: float, kind: str) -> Result:
    from scipy.stats import chi2_contingency
    from scipy.stats.contingency import expected_freq

    positive("least", least)
    a, b = aligned(counts_a, counts_b, "counts_b")
    _check_counts("counts_a", a)
    _check_counts("counts_b", b)
    table = np.stack([a, b])[:, (a + b) > 0]
    if table.shape[1] == 1:  # both say one thing only
        return Result(0.0, 0, 1.0, 1)
    table, expected = merge_small(table, expected_freq(table), least)
    _check_cells(expected, table.sum(), least)
    found = chi2_contingency(table, correction=False, lambda_=kind)
    return Result(float(found.statistic), int(found.dof), float(found.pvalue), table.shape[1])


def aligned(a: Counts, b: Counts, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Two dicts by the same outcomes, or two lists as they are."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        outcomes = list(dict.fromkeys([*a, *b]))
        a, b = [a.get(one, 0) for one in outcomes], [b.get(one, 0) for one in outcomes]
    elif isinstance(a, Mapping) or isinstance(b, Mapping):
        raise ValueError("give two dicts by outcome, or two lists in one order, not one of each")
    a, b = numbers("counts", a), numbers(name, b)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} counts and {len(b)} numbers in {name}: give one for each outcome, zeros too")
    return a, b


def _check_counts(name: str, counts: np.ndarray) -> None:
    if (counts < 0).any() or (counts != np.floor(counts)).any():
        raise ValueError(f"{name} must be whole numbers from 0 on: how often each outcome was seen")
    if not counts.sum():
        raise ValueError(f"{name} are all 0: nothing was seen, so nothing can be tested")


def _check_cells(expected: np.ndarray, samples: float, least: float) -> None:
    if expected.shape[1] < 2:
        raise ValueError(
            f"{samples:.0f} samples leave one cell that expects {least:g} or more, so that no test is possible: "
            "take more samples"
        )
