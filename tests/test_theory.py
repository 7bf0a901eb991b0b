"""The arithmetic of speculation: closed forms against enumeration and simulation, the articles' sums, bad input."""

import itertools
import math

import numpy as np
import pytest
import torch
from helpers import STEADY
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import mtp_tutorial as mt
from mtp_tutorial.decode import MAX_DRAFT
from mtp_tutorial.lab import theory

RATE = st.floats(0, 1)
COST = st.floats(0, 3)
LENGTH = st.integers(0, 12)
GPU, BIG, SMALL = theory.GPU, theory.MODEL_70B, theory.DRAFTER_7B


def enumerated(rates) -> list[float]:
    """P(1 token), P(2), … by going through every pattern of verdicts."""
    law = [0.0] * (len(rates) + 1)
    for verdicts in itertools.product((True, False), repeat=len(rates)):
        kept = next((i for i, good in enumerate(verdicts) if not good), len(rates))
        law[kept] += math.prod(rate if good else 1 - rate for rate, good in zip(rates, verdicts))
    return law


# -- Tokens a round -------------------------------------------------------------------------------------------------


@STEADY
@given(st.lists(RATE, max_size=7))
def test_the_law_is_that_of_the_enumeration(rates):
    law = enumerated(rates)
    assert theory.tokens_law(rates, len(rates)) == pytest.approx(law, abs=1e-12)
    assert theory.expected_tokens(rates, len(rates)) == pytest.approx(sum(n * p for n, p in enumerate(law, 1)))


@STEADY
@given(RATE, LENGTH)
def test_one_number_is_the_same_rate_at_every_position(alpha, k):
    tokens = theory.expected_tokens(alpha, k)
    assert tokens == theory.expected_tokens([alpha] * k, k)
    if alpha < 0.999:  # the textbook's form loses digits near 1
        assert tokens == pytest.approx((1 - alpha ** (k + 1)) / (1 - alpha))
    assert 1 <= tokens <= k + 1 and isinstance(tokens, float)


@pytest.mark.parametrize(("alpha", "k", "tokens"), [(0, 5, 1), (1, 5, 6), (0.7, 0, 1), (1, 0, 1), ([], 0, 1)])
def test_edges(alpha, k, tokens):
    assert theory.expected_tokens(alpha, k) == tokens


def test_a_sequence_is_conditional_and_may_be_longer_than_k():
    assert theory.expected_tokens([0.8, 0.5, 0.1], 2) == pytest.approx(1 + 0.8 + 0.8 * 0.5)
    assert theory.survival([0.8, 0.5, 0.1], 3) == pytest.approx([0.8, 0.4, 0.04])


@pytest.mark.parametrize("make", [np.array, torch.tensor, tuple, list])
def test_arrays_tensors_and_lists_are_alike(make):
    rates = [0.5, 0.25]
    assert theory.expected_tokens(make(rates), 2) == 1.625
    assert theory.best_k(make(rates), 0.05) == 2


@pytest.mark.parametrize("kind", [np.float32, np.float64, torch.tensor])
def test_numbers_of_numpy_and_torch(kind):
    assert theory.expected_tokens(kind(0.5), np.int64(2)) == 1.75
    assert theory.speedup(kind(0.5), 2, kind(0.25)) == pytest.approx(1.75 / 1.5)
    assert isinstance(theory.best_k(kind(0.5), kind(0.25)), int)


def simulated(rates, rounds: int, seed: int) -> np.ndarray:
    """Tokens of each round, coin by coin."""
    coins = np.random.default_rng(seed).random((rounds, len(rates)))
    return 1 + np.cumprod(coins < np.array(rates), axis=1).sum(1)


@pytest.mark.parametrize("rates", [[0.8] * 4, [0.9, 0.5, 0.2]])
def test_the_law_is_that_of_coins(rates):
    counts = np.bincount(simulated(rates, 40_000, 1), minlength=len(rates) + 2)[1:]

    def p_value(law):
        return stats.chisquare(counts, 40_000 * np.array(law)).pvalue

    assert p_value(theory.tokens_law(rates, len(rates))) > 1e-4
    # The share of *all* rounds taken for a conditional rate: the mistake this module's docstring warns of.
    assert p_value(theory.tokens_law(theory.survival(rates, len(rates)), len(rates))) < 1e-9


def test_the_law_is_that_of_the_engine():
    toy = mt.load("toy")
    plain = mt.generate(toy, [[0]], sampling=mt.Sampling(temperature=0), max_new_tokens=60, ignore_eos=True)[0]
    drafter = mt.load_drafter("oracle", toy, continuation=plain, accuracy=0.7)
    rounds = [
        one
        for g in mt.generate(toy, [[0]] * 200, drafter, num_speculative_tokens=3, ignore_eos=True, max_new_tokens=60,
                             sampling=mt.Sampling(temperature=0))
        for one in g.rounds[1:-1]  # the last one may be cut short
    ]  # fmt: skip
    counts = np.bincount([len(one.tokens) for one in rounds], minlength=5)[1:]

    def p_value(alpha):
        return stats.chisquare(counts, len(rounds) * np.array(theory.tokens_law(alpha, 3))).pvalue

    assert p_value(0.7) > 1e-4 and p_value(0.6) < 1e-9


# -- Speed-up, break-even, best k -----------------------------------------------------------------------------------


@STEADY
@given(RATE, LENGTH, COST, st.floats(0.5, 3))
def test_speed_up_is_tokens_over_cost(alpha, k, cost, verify):
    if k:
        assert theory.speedup(alpha, k, cost) == theory.expected_tokens(alpha, k) / (1 + k * cost)
        assert theory.speedup(alpha, k, cost, verify) == theory.expected_tokens(alpha, k) / (verify + k * cost)
    else:
        assert theory.speedup(alpha, k, cost, verify) == 1


@STEADY
@given(st.one_of(RATE, st.lists(RATE, min_size=1, max_size=8)), st.floats(1e-6, 3), st.integers(0, 20))
def test_best_k_is_the_best(alpha, cost, max_k):
    best = theory.best_k(alpha, cost, max_k)
    longest = min(max_k, len(alpha)) if isinstance(alpha, list) else max_k
    speeds = [theory.speedup(alpha, k, cost) for k in range(longest + 1)]
    assert 0 <= best <= longest and speeds[best] == pytest.approx(max(speeds), rel=1e-12)


def test_best_k_when_drafts_are_free():
    assert theory.best_k(1, 0) == theory.best_k(0.5, 0) == theory.best_k(0.01, 0) == MAX_DRAFT
    assert theory.best_k(1, 0, max_k=7) == 7 and theory.best_k(0, 0) == 0
    assert theory.best_k([0.9, 0.4, 0, 0.9], 0) == 2
    assert theory.best_k(0.5, 0, verify_cost=3) == 0


def test_best_k_may_be_not_to_speculate():
    assert theory.best_k(0, 0.1) == theory.best_k(0.05, 0.1) == theory.best_k(0.9, 1) == theory.best_k([], 0.1) == 0
    assert theory.best_k(0.11, 0.1) == 1
    assert theory.best_k(1, 0.5) == MAX_DRAFT  # all accepted: each further token costs half a call


@STEADY
@given(st.floats(0.01, 0.95), st.integers(1, 10))
def test_break_even_is_where_the_gain_is_none(cost, k):
    alpha = theory.break_even_acceptance(k, cost)
    assert theory.speedup(alpha, k, cost) == pytest.approx(1, abs=1e-9)
    assert theory.speedup(min(alpha + 0.01, 1), k, cost) > 1 > theory.speedup(max(alpha - 0.01, 0), k, cost)
    assert theory.expected_tokens(alpha, k) == pytest.approx(theory.break_even_tokens(k, cost))


def test_break_even_at_the_edges():
    assert theory.break_even_acceptance(1, 0.3) == pytest.approx(0.3)  # corollary 3.9: it pays above its cost
    assert theory.break_even_acceptance(3, 0) == theory.break_even_acceptance(0, 0.5) == 0
    assert theory.break_even_acceptance(3, 1) == 1 and theory.break_even_acceptance(3, 1.01) == math.inf


@STEADY
@given(RATE, st.integers(1, 12))
def test_acceptance_for_is_the_inverse(alpha, k):
    assert theory.acceptance_for(theory.expected_tokens(alpha, k), k) == pytest.approx(alpha, abs=1e-7)


BAD = [
    (lambda: theory.expected_tokens(1.1, 2), "alpha=1.1"),
    (lambda: theory.expected_tokens(-0.1, 2), "from 0 to 1"),
    (lambda: theory.expected_tokens(math.nan, 2), "from 0 to 1"),
    (lambda: theory.expected_tokens("0.5", 2), "from 0 to 1"),
    (lambda: theory.expected_tokens(None, 2), "from 0 to 1"),
    (lambda: theory.expected_tokens(True, 2), "from 0 to 1"),
    (lambda: theory.expected_tokens([0.5, 2], 2), r"alpha\[1\]=2"),
    (lambda: theory.expected_tokens([[0.5]], 1), r"alpha\[0\]"),
    (lambda: theory.expected_tokens([0.5], 2), "1 positions for k=2"),
    (lambda: theory.expected_tokens(0.5, -1), "k=-1"),
    (lambda: theory.expected_tokens(0.5, 1.5), "whole number"),
    (lambda: theory.expected_tokens(0.5, True), "whole number"),
    (lambda: theory.speedup(0.5, 2, -0.1), "draft_cost=-0.1"),
    (lambda: theory.speedup(0.5, 0, -0.1), "draft_cost=-0.1"),
    (lambda: theory.speedup(2, 0, 0.1), "alpha=2"),
    (lambda: theory.speedup(0.5, 2, math.inf), "finite"),
    (lambda: theory.speedup(0.5, 2, 0.1, 0), "verify_cost=0"),
    (lambda: theory.best_k(1.5, 0.1), "alpha=1.5"),
    (lambda: theory.best_k(0.5, -1), "draft_cost"),
    (lambda: theory.best_k(0.5, 0.1, max_k=-1), "max_k=-1"),
    (lambda: theory.best_k([0.5, 7], 0.1, max_k=1), r"alpha\[1\]=7"),
    (lambda: theory.acceptance_for(6, 4), "from 1 to k"),
    (lambda: theory.milliseconds_a_token(0), "from 1 to k"),
    (lambda: theory.Machine(0, 1), "bandwidth=0"),
    (lambda: theory.Weights(-1), "parameters=-1"),
    (lambda: theory.round_seconds(BIG, SMALL, GPU, 0, 1), "batch=0"),
    (lambda: theory.compute_seconds(BIG, GPU, -1), "rows=-1"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# -- The article's sums ---------------------------------------------------------------------------------------------


def test_c1_weights_in_47_milliseconds():
    assert theory.weights_milliseconds() == pytest.approx(140 / 3)
    assert round(theory.weights_milliseconds()) == 47


def test_c7_28_70_140_and_where_it_begins_to_pay():
    k, cost = theory.ARTICLE.k, theory.ARTICLE.draft_cost
    assert [theory.milliseconds_a_token(n) for n in (5, 2, 1)] == [28, 70, 140]
    assert theory.speedup(1, k, cost) == pytest.approx(100 / 28) and theory.speedup(0, k, cost) == pytest.approx(
        1 / 1.4
    )
    half = theory.acceptance_for(2, k)
    assert round(theory.speedup(half, k, cost), 2) == 1.43  # 70 ms: no narrow gain
    assert theory.break_even_tokens(k, cost) == pytest.approx(1.4)
    assert round(theory.break_even_acceptance(k, cost), 2) == 0.29


@pytest.mark.parametrize(
    ("batch", "k", "memory", "arithmetic"), [(1, 0, 47, 0), (1, 4, 47, 1), (256, 0, 47, 36), (256, 4, 47, 181)]
)
def test_c8_c9_memory_against_arithmetic(batch, k, memory, arithmetic):
    assert tuple(map(round, theory.memory_and_arithmetic(batch, k))) == (memory, arithmetic)


def test_c9_the_drafts_tip_it():
    assert theory.critical_rows(BIG, GPU) == pytest.approx(989 / 3)  # between 256 and 256 · 5


# -- Roofline -------------------------------------------------------------------------------------------------------

SIZES = st.floats(1e3, 1e12)


@STEADY
@given(SIZES, SIZES, SIZES, st.integers(1, 512), st.floats(0, 1e6))
def test_a_call_takes_the_slower_of_two(parameters, bandwidth, peak, rows, context):
    weights, machine = theory.Weights(parameters, 2, kv_bytes=100), theory.Machine(bandwidth, peak, 0.5)
    memory, arithmetic = (2 * parameters + 100 * context) / bandwidth, 2 * parameters * rows / peak
    assert theory.forward_seconds(weights, machine, rows, context) == pytest.approx(max(memory, arithmetic) + 0.5)
    edge = theory.critical_rows(weights, machine, context)
    assert theory.compute_seconds(weights, machine, edge) == pytest.approx(memory)


def test_a_round_is_k_draft_steps_and_one_call():
    round_ = theory.round_seconds(BIG, SMALL, GPU, 1, 4)
    assert round_ == pytest.approx(1.4 * theory.round_seconds(BIG, SMALL, GPU, 1, 0))  # the article's 140 and 100
    assert theory.critical_rows(theory.Weights(0), GPU) == math.inf


def test_best_k_falls_with_the_batch():
    found = [theory.best_k_under_load(0.8, BIG, SMALL, GPU, batch) for batch in (1, 64, 256, 320)]
    assert found[0] == theory.best_k(0.8, 0.1) and sorted(found, reverse=True) == found and found[-1] == 0
    speeds = [theory.tokens_per_second(0.8, BIG, SMALL, GPU, 64, k) for k in range(17)]
    assert found[1] == speeds.index(max(speeds))


def test_a_bound_of_the_sequence_bounds_best_k():
    assert theory.best_k_under_load([0.9, 0.9], BIG, SMALL, GPU, 1) == 2
    assert theory.best_k_under_load(0.9, BIG, SMALL, GPU, 1, max_k=1) == 1


def test_keys_and_values_make_memory_slower():
    with_kv = theory.Weights(70e9, 2, kv_bytes=327_680)
    assert theory.forward_seconds(with_kv, GPU, 1, 1e6) > theory.forward_seconds(BIG, GPU, 1, 1e6)
    assert theory.critical_rows(with_kv, GPU, 256 * 1000) > theory.critical_rows(with_kv, GPU)
