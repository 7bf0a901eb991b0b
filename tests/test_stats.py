"""The lab's statistics: against scipy, against enumeration, against published numbers; and that they can fail."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from helpers import STEADY, P
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

import mtp_tutorial as mt
from mtp_tutorial.lab import stats

R1 = (0.75, 0.15, 0.10)
TESTS = [stats.chi_square, stats.g_test]
TWO = [stats.chi_square_two, stats.g_test_two]

# -- χ² and G ---------------------------------------------------------------------------------------------------------


def test_without_small_cells_they_are_scipys():
    counts = [48, 35, 17]
    for test, kind in zip(TESTS, ("pearson", "log-likelihood"), strict=True):
        statistic, p_value = scipy_stats.power_divergence(counts, 100 * np.array(P), lambda_=kind)
        found = test(counts, P)
        assert (found.statistic, found.p_value) == pytest.approx((statistic, p_value))
        assert (found.freedom, found.cells) == (2, 3)
    other = [60, 20, 30]
    for test, kind in zip(TWO, ("pearson", "log-likelihood"), strict=True):
        expected = scipy_stats.chi2_contingency([counts, other], correction=False, lambda_=kind)
        found = test(counts, other)
        assert (found.statistic, found.freedom, found.p_value) == pytest.approx(
            (expected.statistic, 2, expected.pvalue)
        )


def test_small_cells_are_merged():
    found = stats.chi_square([50, 44, 2, 2, 2], [0.5, 0.44, 0.02, 0.02, 0.02])  # three of 2 make one of 6
    assert (found.cells, found.freedom, found.statistic) == (3, 2, 0)
    found = stats.chi_square([50, 48, 2], [0.5, 0.48, 0.02])  # one of 2 joins the smallest other
    assert (found.cells, found.statistic) == (2, 0)
    observed, expected = stats.merge_small(np.array([3, 9, 1]), np.array([2.0, 10.0, 1.0]), 5)
    assert observed.tolist() == [[13]] and expected.tolist() == [[13]]
    assert stats.chi_square_two([50, 40, 4, 2], [40, 50, 2, 4]).cells == 3


@STEADY
@given(st.lists(st.integers(0, 30), min_size=2, max_size=8), st.integers(0, 99))
def test_merging_loses_nothing_and_leaves_no_small_cell(counts, seed):
    expected = np.random.default_rng(seed).dirichlet(np.ones(len(counts))) * 60
    observed_cells, expected_cells = stats.merge_small(np.array(counts, dtype=float), expected, 5)
    assert observed_cells.sum() == sum(counts) and expected_cells.sum() == pytest.approx(60)
    assert expected_cells.shape[1] == 1 or expected_cells.min() >= 5


def test_dicts_are_matched_by_outcome():
    law = {(0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.5}
    assert stats.chi_square({(1, 1): 50, (0, 1): 30, (1, 0): 20}, law) == stats.chi_square(
        [30, 20, 50], [0.25, 0.25, 0.5]
    )
    assert stats.chi_square_two({"a": 30, "b": 20}, {"b": 25, "c": 25}) == stats.chi_square_two(
        [30, 20, 0], [0, 25, 25]
    )


def test_an_impossible_outcome_decides_at_once():
    for test in TESTS:
        assert test([99, 0, 1], [0.5, 0.5, 0]).p_value == 0
    assert stats.chi_square([100, 0], [1.0, 0.0]).p_value == 1  # a law without randomness, kept
    assert stats.chi_square_two([5, 0], [7, 0]).p_value == 1


@pytest.mark.parametrize("test", TESTS)
def test_right_samples_pass_and_wrong_ones_fail(test):
    """p-values under the right law are uniform; under R1's law, the negative control, they are tiny."""
    source = np.random.default_rng(0)
    right = [test(source.multinomial(400, P), P).p_value for _ in range(300)]
    assert scipy_stats.kstest(right, "uniform").pvalue > 1e-3
    wrong = [test(source.multinomial(400, R1), P).p_value for _ in range(50)]
    assert max(wrong) < 1e-6


@pytest.mark.parametrize("test", TWO)
def test_two_samples_of_one_law_pass_and_of_two_laws_fail(test):
    source = np.random.default_rng(1)
    same = [test(*source.multinomial(400, P, 2)).p_value for _ in range(300)]
    assert scipy_stats.kstest(same, "uniform").pvalue > 1e-3
    assert test(source.multinomial(800, P), source.multinomial(800, R1)).p_value < 1e-6


# -- Intervals --------------------------------------------------------------------------------------------------------


def test_exact_and_wilson_against_their_definitions():
    low, high = stats.exact_interval(12, 1300)
    assert scipy_stats.binom.sf(11, 1300, low) == pytest.approx(0.025)
    assert scipy_stats.binom.cdf(12, 1300, high) == pytest.approx(0.025)
    assert stats.exact_interval(0, 10).low == 0 and stats.exact_interval(10, 10).high == 1
    z, n, p = scipy_stats.norm.isf(0.025), 50, 0.2
    middle, half = (
        (p + z * z / 2 / n) / (1 + z * z / n),
        z * math.sqrt(p * (1 - p) / n + z * z / 4 / n**2) / (1 + z * z / n),
    )
    assert stats.wilson_interval(10, 50) == pytest.approx((middle - half, middle + half))


def test_exact_intervals_hold_the_truth_often_enough():
    for n, p in itertools.product((5, 40), (0.01, 0.3)):
        holds = [interval.low <= p <= interval.high for interval in (stats.exact_interval(k, n) for k in range(n + 1))]
        assert scipy_stats.binom.pmf(range(n + 1), n, p) @ holds >= 0.95


def test_paired_shares_hold_their_difference_and_have_a_width_where_no_pair_differs():
    baseline, arm = [1] * 36 + [1] * 12 + [0] * 2, [1] * 36 + [0] * 12 + [1] * 2
    low, high = stats.paired_share_interval(arm, baseline)
    assert (low, high) == pytest.approx((0.0569, 0.3404), abs=5e-5)  # the paper's own example
    assert low < 0.2 < high and (-high, -low) == pytest.approx(stats.paired_share_interval(baseline, arm))
    low, high = stats.paired_share_interval([0] * 200, [0] * 200)
    assert high == -low == pytest.approx(stats.wilson_interval(0, 200).high)
    source, held = np.random.default_rng(8), 0
    for _ in range(400):
        a = source.random(100) < 0.1
        b = np.where(source.random(100) < 0.5, a, source.random(100) < 0.2)
        low, high = stats.paired_share_interval(a, b)
        held += low <= 0.05 <= high
    assert 0.92 < held / 400


def test_bootstrap_intervals_hold_the_mean_about_as_often_as_they_say():
    source = np.random.default_rng(2)
    found = [stats.bootstrap_interval(source.exponential(1, 60), resamples=499, seed=i) for i in range(200)]
    assert 0.87 < np.mean([low <= 1 <= high for low, high in found]) < 0.98


def test_copies_of_one_prompt_do_not_make_an_interval_shorter():
    values = np.random.default_rng(3).normal(size=40)
    copies, prompts = np.repeat(values, 5), np.repeat(np.arange(40), 5)
    once = stats.bootstrap_interval(values)
    assert stats.bootstrap_interval(copies, prompts) == pytest.approx(once)
    low, high = stats.bootstrap_interval(copies)  # taken for independent, they make it too short
    assert high - low < 0.6 * (once.high - once.low)


def test_a_ratio_is_that_of_the_sums():
    tokens, rounds = [300.0, 10.0], [100.0, 10.0]  # 3 and 1 a round; together 310/110
    low, high = stats.bootstrap_interval(tokens, weights=rounds)
    assert (low, high) == (1, 3)
    assert stats.bootstrap_interval([2.0, 4.0, 6.0], weights=[1, 2, 3]) == (2, 2)


def test_seeds_are_explicit():
    values = np.random.default_rng(4).normal(size=30)
    assert stats.bootstrap_interval(values, seed=1) == stats.bootstrap_interval(values, seed=1)
    assert stats.bootstrap_interval(values, seed=1) != stats.bootstrap_interval(values, seed=2)
    assert stats.sign_flip(values, seed=1) == stats.sign_flip(values, seed=1)


# -- Pairs ------------------------------------------------------------------------------------------------------------


def test_sign_flips_are_exact_where_they_can_be():
    differences = [0.5, -0.1, 0.3, 0.2]
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product((1, -1), repeat=4)]
    assert stats.sign_flip(differences) == np.mean([s >= 0.9 - 1e-12 for s in sums])
    assert stats.sign_flip([0.0, 0.0]) == 1
    assert stats.sign_flip([1, 1]) == 0.5  # two outputs an arm can never show anything


def test_sign_flips_at_random_agree_with_scipys():
    differences = np.random.default_rng(5).normal(0.15, 1, 100)
    p = scipy_stats.ttest_1samp(differences, 0).pvalue
    assert stats.sign_flip(differences) == pytest.approx(p, abs=0.015)
    assert stats.sign_flip(differences + 1) == pytest.approx(1e-4)  # as small as 9 999 resamples can say


def test_sign_flips_of_pairs_without_a_difference_are_uniform_and_clustered_copies_change_nothing():
    source = np.random.default_rng(6)
    found = [stats.sign_flip(source.normal(size=40), resamples=199, seed=i) for i in range(200)]
    assert 0.01 < np.mean(np.array(found) <= 0.05) < 0.1
    values = source.normal(0.3, 1, 30)
    copies, prompts = np.repeat(values, 6), np.repeat(np.arange(30), 6)
    assert stats.sign_flip(copies, prompts) == stats.sign_flip(values)
    assert stats.sign_flip(copies) < stats.sign_flip(values) / 5  # the error that clusters are there to avoid


def test_mcnemar_counts_pairs_that_differ():
    baseline = [0] * 90 + [1] * 2 + [0] * 8
    arm = [0] * 90 + [0] * 2 + [1] * 8
    assert stats.mcnemar(baseline, arm) == pytest.approx(scipy_stats.binomtest(2, 10).pvalue)
    assert stats.mcnemar([True, False], [True, False]) == 1
    assert stats.mcnemar(torch.tensor([0, 0]), torch.tensor([1, 0])) == 1


@STEADY
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_against_its_step_by_step_form(p_values):
    """Going up from the smallest: reject while p ≤ α/(how many are left); the first that fails ends it."""
    adjusted = stats.holm(p_values)
    for alpha in (0.01, 0.05, 0.3):
        rejected, order = set(), sorted(range(len(p_values)), key=p_values.__getitem__)
        for step, place in enumerate(order):
            if p_values[place] * (len(p_values) - step) > alpha:
                break
            rejected.add(place)
        assert {i for i, p in enumerate(adjusted) if p <= alpha} == rejected


# -- Power ------------------------------------------------------------------------------------------------------------


def museum_laws():
    p = np.array(P)
    cooled = p ** (1 / 0.6) / (p ** (1 / 0.6)).sum()
    residual = np.array([0, 0.3, 0.2]) / 0.5
    r9 = np.array([cooled[0], 0, 0]) + (1 - cooled[0]) * residual
    return {
        "R1": (R1, P, 274), "R8": ((0.35, 0.39, 0.26), P, 761), "R7": ((0.3875, 0.4125, 0.2), P, 1014),
        "R9": (r9, cooled, 9899),
    }  # fmt: skip


@pytest.mark.parametrize("name", museum_laws())
def test_sample_sizes_of_broken_rules(name):
    """3 tokens, α = 1e-6, power .999: about 270, 760, 1 000 and 10 000."""
    law, right, wanted = museum_laws()[name]
    n = stats.chi_square_samples(law, right)
    assert n == wanted
    assert stats.chi_square_power(law, right, n) >= 0.999 > stats.chi_square_power(law, right, n - 1)


def test_small_total_variations_need_many_samples():
    sizes = [
        stats.chi_square_samples(np.add(P, shift), P)
        for shift in ([0.01, -0.01, 0], [0.01, 0, -0.01], [0, 0.01, -0.01])
    ]
    assert 80_000 < min(sizes) and max(sizes) < 170_000
    assert stats.chi_square_samples(np.add(P, [0.001, -0.001, 0]), P) == pytest.approx(100 * sizes[0], rel=0.01)


def test_power_is_what_simulation_finds():
    source = np.random.default_rng(7)
    law, n, alpha = (0.55, 0.27, 0.18), 600, 0.05
    hits = np.mean([stats.chi_square(source.multinomial(n, law), P).p_value < alpha for _ in range(1000)])
    assert hits == pytest.approx(stats.chi_square_power(law, P, n, alpha), abs=0.05)
    n, shift = 30, stats.detectable_difference(2.0, 30, 0.05, 0.8)
    hits = np.mean(scipy_stats.ttest_1samp(source.normal(shift, 2.0, (2000, n)), 0, axis=1).pvalue < 0.05)
    assert hits == pytest.approx(0.8, abs=0.03)
    rate = stats.detectable_share(200, 0.05, 0.8)
    hits = np.mean([scipy_stats.binomtest(k, k).pvalue <= 0.05 if k else 0 for k in source.binomial(200, rate, 2000)])
    assert hits == pytest.approx(0.8, abs=0.03)


def test_power_where_an_outcome_cannot_be():
    assert stats.chi_square_samples([0.9, 0.1], [1, 0], power=0.999) == 66  # 0.9^66 < 0.001
    assert stats.chi_square_power([0.9, 0.1], [1, 0], 66) >= 0.999
    assert stats.chi_square_power(P, P, 100, 0.01) == 0.01


@pytest.mark.parametrize("n", [10**9, 10**15, 2**53])
def test_intervals_of_very_many_trials(n):
    assert stats.exact_interval(0, n).high == pytest.approx(-math.log(0.025) / n, rel=1e-6, abs=0)
    assert stats.wilson_interval(0, n).high == pytest.approx(1.96**2 / n, rel=1e-3, abs=0)
    assert stats.exact_interval(n, n).high == 1 and stats.wilson_interval(n // 2, n).low == pytest.approx(0.5, abs=1e-4)


def test_clean_runs_exclude_a_rate():
    assert stats.clean_runs(0.0092) == 325
    assert stats.clean_runs(0.01) == 299  # the rule of three says 300
    assert stats.clean_runs(0.5) == 5 and stats.clean_runs(0.99) == 1
    assert stats.rate_excluded(2) == pytest.approx(1 - math.sqrt(0.05))
    for runs in (1, 7, 325):
        assert stats.clean_runs(stats.rate_excluded(runs)) == runs
    # A tiny rate takes more runs than a float can count: -ln 0.05 ÷ rate of them.
    assert stats.clean_runs(5e-324) / 10**323 == pytest.approx(-10 * math.log(0.05) / 4.94066)


def test_pairs_needed_is_the_other_way_round():
    n = stats.pairs_needed(0.2, 1.0)
    assert n == 199  # the tables' 198 or 199 for a difference of a fifth of the spread
    assert stats.detectable_difference(1.0, n) <= 0.2 < stats.detectable_difference(1.0, n - 1)
    assert stats.pairs_needed(100, 1.0) >= 2 and stats.detectable_difference(0, 5) == 0
    assert stats.detectable_share(5) == math.inf  # 2 · (1/2)^5 is above 0.05


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: stats.chi_square([], []), "has 0 numbers"),
        (lambda: stats.chi_square([1, -1], [0.5, 0.5]), "whole numbers from 0"),
        (lambda: stats.chi_square([1.5, 1], [0.5, 0.5]), "whole numbers from 0"),
        (lambda: stats.chi_square([1, math.nan], [0.5, 0.5]), "holds nan"),
        (lambda: stats.chi_square([0, 0], [0.5, 0.5]), "are all 0"),
        (lambda: stats.chi_square([10, 10], [0.5, 0.6]), "sum to 1.1"),
        (lambda: stats.chi_square([10, 10], [1.0]), "2 counts and 1 numbers"),
        (lambda: stats.chi_square({0: 9}, [1.0]), "not one of each"),
        (lambda: stats.chi_square([4, 4], [0.5, 0.5]), "take more samples"),
        (lambda: stats.chi_square([9, 9], [0.5, 0.5], least=0), "least=0"),
        (lambda: stats.chi_square_two([1, 1], [1, 1]), "take more samples"),
        (lambda: stats.chi_square("ab", [0.5, 0.5]), "list of numbers"),
        (lambda: stats.exact_interval(3, 2), "3 successes in 2 trials"),
        (lambda: stats.exact_interval(0, 0), "trials=0"),
        (lambda: stats.wilson_interval(1, 2, level=95), "level=95"),
        (lambda: stats.bootstrap_interval([1.0]), "1 cluster:"),
        (lambda: stats.bootstrap_interval([1.0, 2.0], ["a", "a"]), "1 cluster:"),
        (lambda: stats.bootstrap_interval([1.0, 2.0], ["a"]), "1 clusters for 2 numbers"),
        (lambda: stats.bootstrap_interval([1.0, 2.0], weights=[1, -1]), "none negative"),
        (lambda: stats.bootstrap_interval([[1.0], [2.0]]), "one row of numbers"),
        (lambda: stats.sign_flip([1.0]), "1 pair of different prompts"),
        (lambda: stats.sign_flip([]), "has 0 numbers"),
        (lambda: stats.mcnemar([0, 1], [1]), "2 and 1 answers"),
        (lambda: stats.mcnemar([0, 2], [1, 0]), "yes and no"),
        (lambda: stats.holm([]), "has 0 numbers"),
        (lambda: stats.holm([1.2]), "between 0 and 1"),
        (lambda: stats.chi_square_samples(P, P), "no number of samples"),
        (lambda: stats.chi_square_power(P, P, 0), "samples=0"),
        (lambda: stats.clean_runs(0), "rate=0"),
        (lambda: stats.wilson_interval(1, 10**30), "trials=10+: use a whole number up to"),
        (lambda: stats.exact_interval(10**30, 10**30), "use a whole number up to"),
        (lambda: stats.rate_excluded(10**400), "use a whole number up to"),
        (lambda: stats.rate_excluded(0), "runs=0"),
        (lambda: stats.detectable_difference(-1, 10), "spread=-1"),
        (lambda: stats.detectable_difference(1, 1), "pairs=1"),
        (lambda: stats.detectable_share(10, power=1), "power=1"),
        (lambda: stats.pairs_needed(0, 1), "difference=0"),
    ],
)
def test_bad_input(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_the_module_is_found_where_it_is_named():
    assert mt.lab.stats.holm([0.5]) == [0.5]
