"""The pipeline from logits to probabilities, against transformers' own; samplers and random streams."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers import STEADY, P, doubles
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from mtp_tutorial.longrun import SEED_SCHEME
from mtp_tutorial.records import Draft, Sampling
from mtp_tutorial.sampling import (
    DRAFTING,
    VERIFYING,
    exponential_noise,
    exponential_race,
    generator,
    gumbel_max,
    gumbel_noise,
    inverse_cdf,
    probabilities,
    probabilities_unchecked,
)


def random_logits(*shape, seed=0, dtype=torch.float64):
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def kept(probs):
    return probs.gt(0).nonzero()[:, 0].tolist()


# -- Against transformers ---------------------------------------------------------------------------------------------


def transformers_probabilities(logits, sampling, ids):
    """The same settings through transformers' processors, in the order in which its generate() lines them up."""
    chain = LogitsProcessorList()
    if sampling.repetition_penalty != 1:
        chain.append(RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty)))
    if sampling.temperature != 1:
        chain.append(TemperatureLogitsWarper(float(sampling.temperature)))
    if sampling.top_k:
        chain.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        chain.append(TopPLogitsWarper(float(sampling.top_p)))
    if sampling.min_p:
        chain.append(MinPLogitsWarper(float(sampling.min_p)))
    return chain(ids, logits.clone()).softmax(-1)


SETTINGS = [
    {},
    {"temperature": 0.6},
    {"temperature": 2.5},
    {"top_k": 1},
    {"top_k": 7},
    {"top_k": 10_000},
    {"top_p": 0.9},
    {"top_p": 0.05},
    {"min_p": 0.1},
    {"min_p": 1.0},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.7},
    {"temperature": 0.6, "top_k": 20, "top_p": 0.95},
    {"temperature": 1.4, "top_k": 12, "top_p": 0.8, "min_p": 0.08, "repetition_penalty": 1.2},
]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("given_settings", SETTINGS, ids=str)
def test_probabilities_are_those_of_transformers(given_settings, dtype, tolerance):
    sampling = Sampling(**given_settings)
    for seed in range(5):
        logits = random_logits(4, 50, seed=seed, dtype=dtype)
        ids = torch.randint(0, 50, (4, 12), generator=torch.Generator().manual_seed(seed))
        ours = probabilities(logits, sampling, history=ids)
        theirs = transformers_probabilities(logits, sampling, ids)
        assert ours.dtype == dtype
        assert torch.equal(ours > 0, theirs > 0), "another set of tokens was kept"
        assert (ours - theirs).abs().max() < tolerance


@settings(STEADY, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    temperature=st.floats(0.2, 3),
    top_k=st.integers(0, 12),
    top_p=st.floats(0.05, 1),
    min_p=st.floats(0, 0.5),
)
def test_any_combination_is_that_of_transformers(seed, temperature, top_k, top_p, min_p):
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    logits = random_logits(2, 10, seed=seed)
    theirs = transformers_probabilities(logits, sampling, torch.zeros(2, 1, dtype=torch.int64))
    assert (probabilities(logits, sampling) - theirs).abs().max() < 1e-12


# -- Each filter by hand ----------------------------------------------------------------------------------------------


def filtered(probs, **given_settings):
    return probabilities(doubles(probs).log(), Sampling(**given_settings))


def test_top_k_keeps_the_k_largest_and_what_ties_with_the_last():
    assert kept(filtered((0.4, 0.3, 0.2, 0.1), top_k=2)) == [0, 1]
    assert kept(filtered((0.2, 0.4, 0.2, 0.2), top_k=2)) == [0, 1, 2, 3]


def test_top_p_keeps_the_smallest_set_whose_mass_reaches_it():
    assert kept(filtered((0.1, 0.2, 0.3, 0.4), top_p=0.69)) == [2, 3]
    assert kept(filtered((0.1, 0.2, 0.3, 0.4), top_p=0.71)) == [1, 2, 3]
    assert kept(filtered((0.5, 0.25, 0.25), top_p=0.5)) == [0]  # reached exactly: no token more
    assert kept(filtered((0.25, 0.25, 0.25, 0.25), top_p=0.5)) == [0, 1]  # ties: the lower ids


def test_min_p_is_a_share_of_the_largest():
    assert kept(filtered((0.5, 0.3, 0.15, 0.05), min_p=0.4)) == [0, 1]
    assert kept(filtered((0.5, 0.25, 0.125, 0.125), min_p=0.5)) == [0, 1]  # just at the limit: kept


def test_at_least_one_token_stays_whatever_the_settings():
    for given_settings in ({"top_k": 1}, {"top_p": 1e-300}, {"min_p": 1.0}, {"temperature": 1e-300}):
        for dtype in (torch.float32, torch.float64):
            probs = probabilities(doubles((1.0, 2.0, 1.5)).to(dtype), Sampling(**given_settings))
            assert probs.tolist() == [0, 1, 0]


def test_top_k_comes_before_top_p():
    # Of (.4, .3) renormalised the first alone reaches .55; of the whole row it does not.
    assert kept(filtered((0.4, 0.3, 0.2, 0.1), top_k=2, top_p=0.55)) == [0]
    assert kept(filtered((0.4, 0.3, 0.2, 0.1), top_p=0.55)) == [0, 1]


def test_min_p_comes_after_top_p():
    # vLLM's order would leave (.5, .2) of min-p, renormalised (.71, .29), and then the first alone.
    assert kept(filtered((0.5, 0.2, 0.15, 0.15), min_p=0.35, top_p=0.69)) == [0, 1]


def test_temperature_comes_before_top_p():
    assert kept(filtered((0.4, 0.3, 0.2, 0.1), temperature=0.5, top_p=0.5)) == [0]  # squared: 16/30 of the mass
    assert kept(filtered((0.4, 0.3, 0.2, 0.1), top_p=0.5)) == [0, 1]


def test_penalties_come_before_temperature():
    row = probabilities(
        doubles([[2.0, 1.0]]), Sampling(temperature=0.5, frequency_penalty=0.5), history=torch.tensor([[0]])
    )
    assert row[0].tolist() == pytest.approx(doubles([(2.0 - 0.5) / 0.5, 1.0 / 0.5]).softmax(-1).tolist(), abs=1e-15)


# -- Temperature ------------------------------------------------------------------------------------------------------


def test_temperature_zero_is_one_hot_at_the_lowest_id_among_the_largest():
    logits = doubles([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [-torch.inf, -7.0, -torch.inf, -7.0]])
    expected = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
    assert probabilities(logits, Sampling(temperature=0)).tolist() == expected
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        assert probabilities(logits.to(dtype), Sampling(temperature=0)).tolist() == expected


def test_temperature_zero_is_greedy_after_the_penalties():
    sampling = Sampling(temperature=0, presence_penalty=2.0)
    assert probabilities(doubles([[3.0, 2.0]]), sampling, history=torch.tensor([[0]])).tolist() == [[0, 1]]


def test_temperature_zero_on_a_real_vocabulary_takes_the_first_of_many_ties():
    logits = torch.zeros(3, 50_000)
    for row, first in enumerate((0, 17, 33_333)):
        logits[row, first:] = 1.0
    assert probabilities(logits, Sampling(temperature=0)).argmax(-1).tolist() == [0, 17, 33_333]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-310, 1e-50, 1e-40, 1e-10])
def test_a_tiny_temperature_is_greedy_and_overflows_nowhere(temperature, dtype):
    logits = torch.tensor([[6e4, 5e4, -6e4, -torch.inf]], dtype=dtype)
    assert probabilities(logits, Sampling(temperature=temperature)).tolist() == [[1, 0, 0, 0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_huge_temperature_is_uniform_over_what_is_possible(dtype):
    logits = torch.tensor([[4.0, 2.0, -torch.inf, 1.0, 0.0]], dtype=dtype)
    assert probabilities(logits, Sampling(temperature=1e300)).tolist() == [[0.25, 0.25, 0, 0.25, 0.25]]


# -- Types and shapes -------------------------------------------------------------------------------------------------

EVERYTHING = Sampling(0.8, 6, 0.9, 0.05, 1.2, 0.3, 0.2)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0), EVERYTHING], ids=["plain", "greedy", "all"])
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_probabilities_are_float32_at_least_and_float64_stays(sampling, dtype, expected):
    logits, history = random_logits(2, 3, 20, dtype=dtype), torch.tensor([[1, 2], [3, -1]])
    probs = probabilities(logits, sampling, history, torch.tensor([1, 0]), torch.tensor([[4, 5], [6, -1]]))
    assert probs.dtype == expected and probs.shape == logits.shape
    assert torch.allclose(probs.sum(-1), torch.ones(2, 3, dtype=expected), atol=1e-6)
    # The work is done in the wider type, not in half precision.
    wide = probabilities(logits.to(expected), sampling, history, torch.tensor([1, 0]), torch.tensor([[4, 5], [6, -1]]))
    assert torch.equal(probs, wide)


def test_float64_penalties_are_not_rounded_to_float32():
    probs = probabilities(
        doubles([[1.0, 0.0]]), Sampling(frequency_penalty=0.1, presence_penalty=0.3), history=torch.tensor([[0, 0]])
    )
    assert probs[0, 0].item() == pytest.approx(1 / (1 + math.exp(-(1.0 - 2 * 0.1 - 0.3))), abs=1e-15)


def test_any_number_of_leading_dimensions_without_history():
    logits = random_logits(2, 3, 4, 10)
    sampling = Sampling(0.7, 5, 0.9, 0.02)
    probs = probabilities(logits, sampling)
    for where in ((0, 0, 0), (1, 2, 3), (0, 1, 2)):
        assert torch.equal(probs[where], probabilities(logits[where], sampling))
    assert probabilities(torch.zeros(0, 3, 5), sampling).shape == (0, 3, 5)


def test_logits_are_left_as_they_were_and_may_be_strided_or_need_gradients():
    logits = random_logits(3, 20, 2).transpose(1, 2)
    before, history, draft = logits.clone(), torch.tensor([[1], [2], [3]]), torch.tensor([[4], [5], [6]])
    strided = probabilities(logits, EVERYTHING, history, draft=draft)
    assert torch.equal(logits, before)
    learning = logits.contiguous().requires_grad_()
    probs = probabilities(learning, EVERYTHING, history, draft=draft)
    assert torch.allclose(probs, strided, atol=1e-15)
    probs[..., 0].sum().backward()
    assert bool(learning.grad.isfinite().all())


def test_a_row_does_not_depend_on_its_neighbours():
    logits, history = random_logits(4, 3, 30), torch.randint(0, 30, (4, 6), generator=torch.Generator().manual_seed(1))
    draft, lengths = torch.tensor([[1, 2], [3, 3], [4, -1], [-1, -1]]), torch.tensor([0, 2, 6, 1])
    together = probabilities(logits, EVERYTHING, history, lengths, draft)
    for b in range(4):
        one = slice(b, b + 1)
        assert torch.equal(
            together[one], probabilities(logits[one], EVERYTHING, history[one], lengths[one], draft[one])
        )


# -- Penalties --------------------------------------------------------------------------------------------------------


def slow_penalties(logits, sampling, prompt, output):
    """One row: the logits after the penalties, by counting."""
    row = []
    for token, x in enumerate(logits):
        if token in prompt or token in output:
            x = x / sampling.repetition_penalty if x > 0 else x * sampling.repetition_penalty
        n = output.count(token)
        row.append(x - sampling.frequency_penalty * n - sampling.presence_penalty * (n > 0))
    return row


@settings(STEADY, max_examples=60)
@given(data=st.data())
def test_each_row_counts_the_prompt_the_output_and_the_draft_tokens_before_it(data):
    vocabulary, rows = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 4))
    some_ids = st.lists(st.integers(0, vocabulary - 1), max_size=5)
    prompts, outputs = data.draw(st.lists(st.tuples(some_ids, some_ids), min_size=2, max_size=2).map(lambda x: zip(*x)))
    drafts = [data.draw(st.lists(st.integers(0, vocabulary - 1), max_size=rows - 1)) for _ in range(2)]
    penalty = st.sampled_from([-0.5, 0.0, 0.3, 1.7])
    sampling = Sampling(
        repetition_penalty=data.draw(st.sampled_from([0.5, 1.0, 1.3])),
        frequency_penalty=data.draw(penalty),
        presence_penalty=data.draw(penalty),
    )
    logits = random_logits(2, rows, vocabulary, seed=data.draw(st.integers(0, 99)))

    def padded(lists, width):
        return torch.tensor([[*x, *[-1] * (width - len(x))] for x in lists], dtype=torch.int64).view(2, width)

    history = padded([[*p, *o] for p, o in zip(prompts, outputs)], 10)
    lengths = torch.tensor([len(p) for p in prompts])
    probs = probabilities(logits, sampling, history, lengths, padded(drafts, rows - 1))
    for b in range(2):
        for i in range(rows):
            row = slow_penalties(logits[b, i].tolist(), sampling, prompts[b], [*outputs[b], *drafts[b][:i]])
            assert (probs[b, i] - doubles(row).softmax(-1)).abs().max() < 1e-12


def test_repetition_counts_the_prompt_and_frequency_and_presence_the_output_only():
    logits, history = doubles([[1.0, 1.0, 1.0]]), torch.tensor([[0, 1]])
    prompt_only = torch.tensor([1])  # id 0 is the prompt, id 1 the output

    def after(**penalty):
        return probabilities(logits, Sampling(**penalty), history, prompt_only)[0].log()

    repetition = after(repetition_penalty=2.0)
    assert repetition[0] == repetition[1] < repetition[2]
    for name in ("frequency_penalty", "presence_penalty"):
        row = after(**{name: 1.0})
        assert row[1] < row[0] == row[2]


def test_without_prompt_lengths_all_of_the_history_is_output():
    logits, history = doubles([[1.0, 1.0, 1.0]]), torch.tensor([[0, 1]])
    row = probabilities(logits, Sampling(presence_penalty=1.0), history)[0]
    assert row[0] == row[1] < row[2]


def test_repetition_divides_positive_logits_and_multiplies_negative_ones():
    row = probabilities(doubles([[2.0, -2.0, 0.5]]), Sampling(repetition_penalty=2.0), torch.tensor([[0, 1]]))[0]
    assert torch.allclose(row, doubles([1.0, -4.0, 0.5]).softmax(-1), atol=1e-15)


def test_frequency_grows_with_the_count_and_presence_does_not():
    logits, history = doubles([[0.0, 0.0, 0.0]]), torch.tensor([[0, 0, 0, 1]])
    frequency = probabilities(logits, Sampling(frequency_penalty=0.5), history)[0]
    assert torch.allclose(frequency, doubles([-1.5, -0.5, 0.0]).softmax(-1), atol=1e-15)
    presence = probabilities(logits, Sampling(presence_penalty=0.5), history)[0]
    assert torch.allclose(presence, doubles([-0.5, -0.5, 0.0]).softmax(-1), atol=1e-15)


def test_a_repeat_inside_the_draft_is_penalised_from_the_next_row_on():
    # The fault this guards against: counts frozen for the whole round.
    probs = probabilities(torch.zeros(1, 3, 4), Sampling(presence_penalty=1.0), draft=torch.tensor([[2, 2]]))[0]
    assert probs[0, 2] == probs[0, 0] and probs[1, 2] < probs[1, 0]
    twice = probabilities(torch.zeros(1, 3, 4), Sampling(frequency_penalty=1.0), draft=torch.tensor([[2, 2]]))[0]
    assert twice[2, 2] < twice[1, 2] < twice[0, 2]


def test_a_draft_record_does_as_well_as_its_tokens_and_padding_counts_for_nothing():
    logits, tokens = random_logits(1, 4, 6), torch.tensor([[2, 3, -1]])
    plain = probabilities(logits, EVERYTHING, torch.tensor([[-1, 5, -1, 2]]), draft=tokens)
    record = probabilities(logits, EVERYTHING, torch.tensor([[5, 2]]), draft=Draft(tokens))
    assert torch.equal(plain, record)


def test_one_position_needs_no_axis_of_its_own():
    logits, history = random_logits(2, 1, 6), torch.tensor([[1, 2], [3, -1]])
    assert torch.equal(
        probabilities(logits, EVERYTHING, history)[:, 0], probabilities(logits[:, 0], EVERYTHING, history)
    )


def test_a_token_that_is_ruled_out_stays_so_under_penalties():
    logits = doubles([[1.0, -torch.inf, 0.0]])
    assert probabilities(logits, EVERYTHING, torch.tensor([[1, 1, 0]]))[0, 1] == 0


# -- Bad input --------------------------------------------------------------------------------------------------------

NOT_FLOAT, PENALTY = torch.zeros(1, 2, 3, dtype=torch.int64), Sampling(presence_penalty=1.0)
ZEROS, IDS = torch.zeros(2, 3, 4), torch.tensor([[0], [1]])
BAD = {
    "integers": ((NOT_FLOAT, Sampling()), r"floating point tensor of shape \(…, V\), got torch.int64 \(1, 2, 3\)"),
    "a list": (([0.0, 1.0], Sampling()), r"\(…, V\), got list"),
    "a number": ((torch.tensor(1.0), Sampling()), r"\(…, V\), got torch.float32 \(\)"),
    "no vocabulary": ((torch.zeros(2, 0), Sampling()), r"\(…, V\), got torch.float32 \(2, 0\)"),
    "penalties without history": ((ZEROS, PENALTY), r"neither history nor draft .*pass history=.*or turn them off"),
    "history of another batch": ((ZEROS, PENALTY, IDS[:1]), r"\(B, N\) with B = 2, got torch.int64 \(1, 1\)"),
    "history that is flat": ((ZEROS, PENALTY, IDS[:, 0]), r"\(B, N\) with B = 2, got torch.int64 \(2,\)"),
    "history that is a list": ((ZEROS, PENALTY, [[0], [1]]), r"\(B, N\) with B = 2, got list"),
    "history past the vocabulary": ((ZEROS, PENALTY, IDS + 3), r"the id 4, but the vocabulary has 4 tokens"),
    "prompt lengths of another batch": ((ZEROS, PENALTY, IDS, torch.tensor([1])), r"\(B,\) with B = 2, got \(1,\)"),
    "a draft too short": ((ZEROS, PENALTY, IDS, None, IDS), r"with B = 2 and k >= 2, got torch.int64 \(2, 1\)"),
    "a draft of another batch": (
        (ZEROS, PENALTY, IDS, None, IDS[:1]),
        r"\(B, k\) with B = 2 and k >= 2, got torch.int64 \(1, 1\)",
    ),
    "a draft past the vocabulary": ((ZEROS, PENALTY, IDS, None, torch.full((2, 2), 9)), r"the id 9, but .* 4 tokens"),
    "too many dimensions": ((ZEROS[None], PENALTY, IDS), r"\(B, L, V\) or \(B, V\), got \(1, 2, 3, 4\)"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_with_what_was_given(what):
    arguments, message = BAD[what]
    with pytest.raises(ValueError, match=message):
        probabilities(*arguments)


SPOILED = {
    "NaN": (math.nan, 1.0, 2.0),
    "+inf": (1.0, math.inf, 2.0),
    "+inf beside -inf": (-math.inf, math.inf, 2.0),
    "all -inf": (-math.inf,) * 3,
    "NaN in a forbidden row": (math.nan, -math.inf, -math.inf),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0), EVERYTHING], ids=["plain", "greedy", "all"])
@pytest.mark.parametrize("what", SPOILED)
def test_a_row_no_distribution_can_be_made_of_is_refused_and_named(what, sampling, dtype):
    logits = torch.tensor([[P, P], [P, SPOILED[what]]], dtype=dtype)
    history, draft = torch.tensor([[0], [1]]), torch.tensor([[0], [1]])
    with pytest.raises(ValueError, match=r"NaN or \+inf, or a row that is all -inf \(rows \[\[1, 1\]\]\).*wider dtype"):
        probabilities(logits, sampling, history, draft=draft)
    unchecked = probabilities_unchecked(logits, sampling, history, draft=draft)
    assert unchecked.isnan().all(-1).tolist() == [[False, False], [False, True]]  # the row, and no other


# -- Inverse CDF ------------------------------------------------------------------------------------------------------


def test_inverse_cdf_stretches_are_half_open():
    u = doubles([0.0, math.nextafter(0.5, 0), 0.5, math.nextafter(0.75, 0), 0.75, math.nextafter(1, 0)])
    assert inverse_cdf(doubles([0.5, 0.25, 0.25]).expand(6, 3), u).tolist() == [0, 0, 1, 1, 2, 2]


def test_inverse_cdf_takes_a_plain_number():
    assert int(inverse_cdf(doubles([0.84, 0.16]), 0.30)) == 0 and int(inverse_cdf(doubles([0.84, 0.16]), 0.90)) == 1


def test_inverse_cdf_never_lands_on_a_token_without_mass():
    weights = doubles([0.0, 0.5, 0.0, 0.0, 0.5, 0.0, 0.0])
    u = doubles([0.0, 0.25, 0.5, 0.75, math.nextafter(1, 0)])
    assert inverse_cdf(weights.expand(5, 7), u).tolist() == [1, 1, 4, 4, 4]


def test_inverse_cdf_needs_no_normalised_weights():
    u = torch.rand(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = doubles(P)
    for scale in (2.0**-60, 2.0**-1040, 2.0**60):
        assert torch.equal(inverse_cdf((weights * scale).expand(1000, 3), u), inverse_cdf(weights.expand(1000, 3), u))


def test_inverse_cdf_stays_inside_where_the_product_rounds_up():
    smallest = 5e-324  # .75 times the smallest number there is rounds to that number itself
    assert inverse_cdf(doubles([0.0, smallest, 0.0]), doubles(0.75)).item() == 1
    assert inverse_cdf(doubles([0.0, 0.0]), doubles(0.75)).item() == 0  # no mass at all


def test_inverse_cdf_adds_up_in_float64_whatever_the_weights():
    generator_ = torch.Generator().manual_seed(3)
    weights = (4 * torch.randn(4, 50_000, generator=generator_)).softmax(-1)
    u = torch.rand(200, 4, generator=generator_, dtype=torch.float64)
    for dtype in (torch.float32, torch.bfloat16):
        w = weights.to(dtype)
        assert torch.equal(inverse_cdf(w.expand(200, -1, -1), u), inverse_cdf(w.double().expand(200, -1, -1), u))


# -- Samplers equal in law --------------------------------------------------------------------------------------------

FIVE = doubles([0.4, 0.3, 0.0, 0.2, 0.1])
N = 40_000


def p_value(tokens):
    """χ² of drawn tokens against FIVE; a token without mass must never be drawn."""
    counts = tokens.bincount(minlength=5)
    assert counts[2] == 0
    return chisquare(counts[FIVE > 0].tolist(), (N * FIVE[FIVE > 0]).tolist()).pvalue


def stream(seed):
    return torch.Generator().manual_seed(seed)


def test_the_three_samplers_draw_from_one_law():
    u = torch.rand(N, generator=stream(0), dtype=torch.float64)
    rows = FIVE.expand(N, 5)
    assert p_value(inverse_cdf(rows, u)) > 1e-3
    assert p_value(exponential_race(rows, exponential_noise((N, 5), stream(1)))) > 1e-3
    assert p_value(gumbel_max(rows.log(), gumbel_noise((N, 5), stream(2)))) > 1e-3


def test_the_same_check_rejects_the_wrong_noise():
    uniform = torch.rand(N, 5, generator=stream(3), dtype=torch.float64)
    normal = torch.randn(N, 5, generator=stream(4), dtype=torch.float64)
    rows = FIVE.expand(N, 5)
    assert p_value(exponential_race(rows, uniform)) < 1e-6
    assert p_value(gumbel_max(rows.log(), normal)) < 1e-6
    assert p_value(gumbel_max(rows.log(), exponential_noise((N, 5), stream(5)))) < 1e-6
    assert p_value(gumbel_max(rows.log() / 1.1, gumbel_noise((N, 5), stream(6)))) < 1e-6  # another temperature
    # One noise for the whole batch: each draw is fair, all of them together are not.
    assert p_value(exponential_race(rows, exponential_noise((1, 5), stream(7)))) < 1e-6


def test_the_race_in_closed_form():
    """Runner i finishes at Exp(1)/p_i. It wins with probability ∫ p_i·exp(-p_i·t)·Π exp(-p_j·t) dt = p_i; two runners
    with uniform times instead would give the stronger one 1 - p₂/(2·p₁)."""
    t = (torch.arange(200_000, dtype=torch.float64) + 0.5) * 5e-4
    for i, p in enumerate(FIVE.tolist()):
        others = [q for j, q in enumerate(FIVE.tolist()) if j != i]
        density = p * (-p * t).exp() * torch.stack([(-q * t).exp() for q in others]).prod(0)
        assert float(density.sum() * 5e-4) == pytest.approx(p, abs=1e-7)
    two = doubles([0.6, 0.4]).expand(N, 2)
    wins = 1 - exponential_race(two, torch.rand(N, 2, generator=stream(8), dtype=torch.float64)).double().mean()
    assert float(wins) == pytest.approx(1 - 0.4 / (2 * 0.6), abs=0.01)  # .667, not .6


def test_gumbel_max_is_the_race_seen_through_a_logarithm():
    race, gumbel = exponential_noise((N, 5), stream(9)), gumbel_noise((N, 5), stream(9))
    assert torch.allclose(gumbel, -race.log())
    rows = FIVE.expand(N, 5)
    assert torch.equal(exponential_race(rows, race), gumbel_max(rows.log(), gumbel))


def test_the_noise_is_what_it_says():
    assert kstest(exponential_noise((20_000,), stream(10)).numpy(), "expon").pvalue > 1e-3
    assert kstest(gumbel_noise((20_000,), stream(11)).numpy(), "gumbel_r").pvalue > 1e-3
    assert kstest(gumbel_noise((20_000,), stream(11)).numpy(), "norm").pvalue < 1e-6
    assert exponential_noise((2, 3), stream(0)).dtype == torch.float64
    assert exponential_noise((2, 3), stream(0), torch.float32).dtype == torch.float32


def test_noise_of_zero_breaks_no_sampler():
    for dtype in (torch.float32, torch.float64):
        zero = torch.tensor([1.0, 0.0, 0.0], dtype=dtype)
        assert exponential_race(torch.tensor([0.5, 0.3, 0.2], dtype=dtype), zero).item() == 1
        assert exponential_race(torch.tensor([1.0, 0.0, 0.0], dtype=dtype), zero).item() == 0  # 0/0 would be NaN


# -- Random streams ---------------------------------------------------------------------------------------------------


def numbers(seed, role, n=4000):
    return torch.rand(n, generator=generator(seed, role), dtype=torch.float64)


def test_a_stream_can_be_repeated_and_is_no_business_of_the_global_seed():
    torch.manual_seed(1)
    first = numbers(7, VERIFYING)
    torch.manual_seed(2)
    assert torch.equal(first, numbers(7, VERIFYING))


def test_streams_of_roles_and_neighbouring_seeds_are_independent():
    streams = [numbers(seed, role) for seed in (0, 1, 2, 2**40) for role in (VERIFYING, DRAFTING)]
    for x in streams:
        assert kstest(x.numpy(), "uniform").pvalue > 1e-3
    correlation = torch.corrcoef(torch.stack(streams)) - torch.eye(len(streams), dtype=torch.float64)
    assert correlation.abs().max() < 5 / math.sqrt(4000)
    assert len({x[0].item() for x in streams}) == len(streams)
    keys = [(seed, i) for seed in range(16) for i in range(16)]
    keys += [(2**32 * a + b, c) for a in (1, 2) for b, c in ((0, 0), (0, 1), (1, 0))]  # seeds of more than one word
    firsts = {numbers(key, role, 2)[0].item() for key in keys for role in (VERIFYING, DRAFTING)}
    assert len(firsts) == 2 * len(keys)  # s + i gave 31 streams for the first 256 keys
    # Negative control: the same role gives the same numbers, which this check must notice.
    same = torch.corrcoef(torch.stack([numbers(0, VERIFYING), numbers(0, VERIFYING)]))
    assert same[0, 1] > 0.99


def test_files_record_the_scheme_by_which_streams_are_seeded():
    sequence = eval(SEED_SCHEME, {"SeedSequence": np.random.SeedSequence, "seed": 5, "sequence": 2, "role": DRAFTING})
    assert int(sequence.generate_state(1, np.uint64)[0]) == generator((5, 2), DRAFTING).initial_seed()


def test_a_stream_is_on_the_cpu_and_takes_large_and_numpy_seeds():
    assert generator(0, VERIFYING).device.type == "cpu"
    assert torch.equal(numbers(np.int64(5), DRAFTING), numbers(5, DRAFTING))
    assert torch.equal(numbers(5, DRAFTING), numbers((5, 0), DRAFTING))
    numbers(2**128 - 1, DRAFTING)


@pytest.mark.parametrize("seed", [-1, 1.0, True, None, "0", math.nan, 2**128, (1, -1), (1, 2, 3), (1.0, 2)])
def test_a_bad_seed_is_refused_with_what_was_given(seed):
    with pytest.raises(ValueError, match="use a whole number, 0 or more") as error:
        generator(seed, VERIFYING)
    assert f"seed={seed!r}" in str(error.value)


def test_one_row_serves_many_points_and_one_point_many_rows():
    weights = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    points = torch.tensor([0.0, 0.19, 0.2, 0.49, 0.5, 0.99], dtype=torch.float64)
    for row in (weights, weights[None]):
        assert inverse_cdf(row, points).tolist() == [0, 0, 1, 1, 2, 2]
    rows = torch.stack([weights, weights.flip(0)])
    assert inverse_cdf(rows, 0.45).tolist() == [1, 0]
    assert inverse_cdf(rows[:, None], points).shape == (2, 6)
    assert inverse_cdf(torch.tensor([0.5, float("nan"), 0.5]), 0.7).tolist() == 0
