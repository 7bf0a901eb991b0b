"""Laws by enumeration: what is lossless is so to rounding, and what is broken is caught, by the figure expected."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from helpers import LOSSLESS, LOSSY, STEADY, P, doubles, one_hot_rows, prefix_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from mtp_tutorial.lab import exact
from mtp_tutorial.lab.exact import accepted_law, all_sequences, marginal, output_law, plain_law, total_variation
from mtp_tutorial.lab.exact import enumerate as enumerate_
from mtp_tutorial.lab.museum import EXHIBITS
from mtp_tutorial.records import Draft
from mtp_tutorial.sampling import inverse_cdf
from mtp_tutorial.verify import (
    RULES,
    Rule,
    cdf_points,
    full_row,
    points,
    ratio,
    residual,
    row_at,
    verify,
)

SIZES = [(2, 3), (3, 2), (4, 2), (5, 1), (3, 3)]
Q = (0.2, 0.3, 0.5)


def assert_same_law(law, expected):
    assert math.isclose(sum(expected.values()), 1, abs_tol=1e-12)
    assert all(0 <= law.get(key, 0.0) <= 1 + 1e-12 for key in law)
    worst = max(abs(law.get(key, 0.0) - expected.get(key, 0.0)) for key in law.keys() | expected.keys())
    assert worst < 1e-12


def slots(k, k_b=None):
    """(1, k) tokens that only say how many are drafted."""
    k_b = k if k_b is None else k_b
    return torch.tensor([[0] * k_b + [-1] * (k - k_b)], dtype=torch.int64)


def greedy_stream(row, k):
    tokens = ()
    for _ in range(k):
        tokens += (int(row(tokens).argmax()),)
    return tokens


def disjoint_rows(seed, vocabulary, low):
    """Rows that have mass on the lower ids only, or on the upper ids only."""
    row, half = prefix_rows(seed, vocabulary), vocabulary // 2

    def cut(prefix):
        kept = row(prefix).clone()
        kept[slice(half, None) if low else slice(0, half)] = 0
        return kept / kept.sum()

    return cut


def drafts(way, target, vocabulary, k, k_b):
    """Drafts of one kind, ``k_b`` tokens in ``k`` columns."""

    def fixed(tokens):
        return Draft(torch.tensor([[*tokens, *[-1] * (k - k_b)]], dtype=torch.int64))

    if way == "one-hot":  # the target's own best guess
        return [fixed(greedy_stream(target, k_b))]
    if way == "noise":  # any tokens whatever
        every = all_sequences(vocabulary, k_b)
        return [fixed(tokens) for tokens in every[:: max(1, len(every) // 9)]]
    rows = {
        "sampled": prefix_rows(91, vocabulary),
        "sampled with zeros": prefix_rows(92, vocabulary, zeros=0.5),
        "one-hot by prefix": one_hot_rows(93, vocabulary),
        "identical": target,
        "disjoint": disjoint_rows(94, vocabulary, low=False),
    }[way]
    return [Draft(slots(k, k_b), rows)]


WAYS = ("one-hot", "noise", "sampled", "sampled with zeros", "one-hot by prefix", "identical", "disjoint")


# -- Lossless ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", LOSSLESS)
@pytest.mark.parametrize(("vocabulary", "k"), SIZES)
def test_a_lossless_rule_emits_the_targets_own_law(rule, way, vocabulary, k):
    target = disjoint_rows(5, vocabulary, low=True) if way == "disjoint" else prefix_rows(5, vocabulary)
    for draft in drafts(way, target, vocabulary, k, k):
        assert_same_law(output_law(rule, draft, target), plain_law(target, k + 1))


@pytest.mark.parametrize("way", ["noise", "sampled"])
@pytest.mark.parametrize("rule", LOSSLESS)
def test_a_lossless_rule_is_so_on_the_largest_toy(rule, way):
    target = prefix_rows(6, 5, zeros=0.3)
    draft = drafts(way, target, 5, 3, 3)[-1]
    assert_same_law(output_law(rule, draft, target), plain_law(target, 4))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", LOSSLESS)
@pytest.mark.parametrize("k_b", [0, 1, 2])
def test_a_row_that_drafts_less_than_the_batch_is_lossless_too(rule, way, k_b):
    vocabulary, k = 3, 3
    target = disjoint_rows(7, vocabulary, low=True) if way == "disjoint" else prefix_rows(7, vocabulary)
    for draft in drafts(way, target, vocabulary, k, k_b):
        assert_same_law(output_law(rule, draft, target), plain_law(target, k + 1))


@pytest.mark.parametrize("rule", LOSSLESS)
@settings(STEADY, max_examples=12)
@given(seed=st.integers(0, 10_000), vocabulary=st.integers(2, 4), k=st.integers(0, 2), soft=st.booleans())
def test_a_lossless_rule_is_so_whatever_the_rows(rule, seed, vocabulary, k, soft):
    target, q = prefix_rows(seed, vocabulary, zeros=0.4), prefix_rows(seed + 1, vocabulary, zeros=0.4)
    draft = Draft(slots(k), q) if soft else Draft(torch.tensor([greedy_stream(q, k)], dtype=torch.int64).view(1, k))
    assert_same_law(output_law(rule, draft, target), plain_law(target, k + 1))


def test_rows_by_position_and_rows_by_prefix_give_one_law():
    p, q = doubles([P, Q, (0.1, 0.2, 0.7)]), doubles([Q, P])
    by_position = output_law("block", Draft(slots(2), q[None]), p)
    by_prefix = output_law("block", Draft(slots(2), lambda prefix: q[len(prefix)]), lambda prefix: p[len(prefix)])
    assert_same_law(by_position, by_prefix)
    assert_same_law(by_position, output_law("block", Draft(slots(2), q[None]), p[None]))
    assert_same_law(by_position, plain_law(p, 3))


@pytest.mark.parametrize("way", ["one-hot", "noise", "sampled", "one-hot by prefix", "identical"])
@pytest.mark.parametrize("rule", [name for name, rule in RULES.items() if rule.lossless_at_zero])
def test_at_temperature_zero_the_rule_emits_the_greedy_stream(rule, way):
    target = one_hot_rows(8, 3)
    for draft in drafts(way, target, 3, 3, 3):
        assert_same_law(output_law(rule, draft, target), {greedy_stream(target, 4): 1.0})


# -- Lossy ------------------------------------------------------------------------------------------------------------

#: rule, parameters, first-token law given p = (.5, .3, .2) and the draft token 0
LOSSY_LAWS = [
    ("greedy", {}, (1, 0, 0)),
    ("typical", {}, (1, 0, 0)),
    ("relaxed", {}, (1, 0, 0)),
    ("target_only", {"threshold_single": 0.5}, (1, 0, 0)),
    ("target_only", {"threshold_acc": 0.8}, (0.625, 0.225, 0.15)),
]


@pytest.mark.parametrize(("rule", "params", "expected"), LOSSY_LAWS)
def test_each_lossy_rule_differs_on_a_named_input(rule, params, expected):
    law = output_law(rule, Draft(torch.tensor([[0]])), doubles([P, P]), **params)
    assert_same_law(marginal(law), dict(enumerate(expected)))
    assert total_variation(law, plain_law(doubles([P, P]), 2)) > 0.1
    assert not RULES[rule].is_lossless(**params)


def test_every_rule_is_either_shown_lossless_or_shown_lossy():
    assert set(LOSSLESS) | set(LOSSY) == set(RULES)
    assert {name for name, rule in RULES.items() if rule.lossless} == set(LOSSLESS)
    assert set(LOSSY) <= {rule for rule, _, _ in LOSSY_LAWS}


def test_lossy_rules_that_reject_everything_are_the_plain_law():
    # Thresholds no token passes: the full p is drawn, which is plain sampling.
    target = doubles([P, P])
    law = output_law("typical", Draft(torch.tensor([[0]])), target, epsilon=1.0, delta=1.0)
    assert total_variation(law, plain_law(target, 2)) > 0  # .5 > exp(-H) = .357: accepted
    law = output_law("typical", Draft(torch.tensor([[2]])), target, epsilon=1.0, delta=1.0)
    assert_same_law(law, plain_law(target, 2))
    assert_same_law(output_law("relaxed", Draft(torch.tensor([[2]])), target), plain_law(target, 2))


# -- Rules that hide their breakpoints (for broken rules see test_museum) ---------------------------------------------


def broken(name, decide, breakpoints):
    return Rule(name, decide, False, False, "Broken on purpose.", "none", breakpoints)


def ratios(draft, target_probs):
    return ratio(draft, target_probs)[0]


BROKEN = [exhibit.rule for exhibit in EXHIBITS.values() if exhibit.rule is not None and not exhibit.by_design]
ONE_HOT, SAMPLED = Draft(torch.tensor([[0]])), Draft(slots(1), doubles([[Q]]))
SPREAD = Draft(slots(1), doubles([[(0.8, 0.2, 0.0)]]))  # its residual (0, .1, .2) has two tokens to choose from


@pytest.mark.parametrize("draft", [ONE_HOT, SPREAD], ids=["one-hot", "sampled"])
@pytest.mark.parametrize(
    "forgetful",
    [
        points(None, lambda d, p, n: residual(row_at(p, n), d, n)),  # the coin
        points(ratios, None),  # the draw
        points(ratios, full_row),  # the wrong draw: of p instead of the residual
        lambda draft, target_probs: [],  # everything
        lambda draft, target_probs: RULES["rejection"].breakpoints(draft, target_probs)[:1],  # the bonus draw
    ],
    ids=["coin", "draw", "draw of another row", "everything", "bonus draw"],
)
def test_a_forgotten_breakpoint_cannot_go_unnoticed(forgetful, draft):
    rule = broken("forgetful", RULES["rejection"].decide, forgetful)
    with pytest.raises(ValueError, match="'forgetful' is not constant between its breakpoints: it must name every"):
        output_law(rule, draft, doubles([P, P]))
    with pytest.raises(ValueError, match="forgetful"):
        accepted_law(rule, draft, doubles([P, P]))


def test_breakpoints_too_many_do_no_harm():
    def more(draft, target_probs):
        return [
            (torch.cat([c, doubles([0.1, 0.5, 0.5])]), d) for c, d in RULES["block"].breakpoints(draft, target_probs)
        ]

    rule = broken("more", RULES["block"].decide, more)
    target = doubles([P, P])
    assert_same_law(output_law(rule, SAMPLED, target), plain_law(target, 2))


@pytest.mark.parametrize("rule", LOSSLESS)
@pytest.mark.parametrize("small", [1e-4, 1e-9, 1e-13, 1e-15])
def test_breakpoints_close_to_one_another_are_told_apart(rule, small):
    target, q = doubles([(0.5, small, 0.5 - small), P]), doubles([[(0.5 - small, 0.5, small)]])
    for draft in (Draft(torch.tensor([[1]])), Draft(slots(1), q)):
        assert_same_law(output_law(rule, draft, target), plain_law(target, 2))


# -- The enumerator against plain simulation --------------------------------------------------------------------------


def simulated(rule, n=20_000):
    """How often each sequence of three tokens comes out, with two sampled draft tokens and random uniforms."""
    p, q = doubles([P, Q, (0.1, 0.2, 0.7)]), doubles([(0.4, 0.4, 0.2), (0.6, 0.1, 0.3)])
    generator = torch.Generator().manual_seed(11)
    u = torch.rand(4, n, 3, 1, generator=generator, dtype=torch.float64)[..., 0]
    tokens = inverse_cdf(q.expand(n, 2, 3), u[0, :, :2])
    verdict = verify(rule, Draft(tokens, q.expand(n, 2, 3)), p.expand(n, 3, 3), torch.stack([u[1], u[2]], -1))
    rest = inverse_cdf(p.expand(n, 3, 3), u[3])
    emitted = torch.where(verdict.tokens < 0, rest, verdict.tokens)
    counts = (emitted * torch.tensor([9, 3, 1])).sum(1).bincount(minlength=27).tolist()
    return counts, p, Draft(slots(2), q[None])


def fits(counts, law):
    expected = [law.get(key, 0.0) * sum(counts) for key in all_sequences(3, 3)]
    assert all(c == 0 for c, e in zip(counts, expected, strict=True) if e == 0)
    kept = [(c, e) for c, e in zip(counts, expected, strict=True) if e > 0]
    return chisquare([c for c, _ in kept], [e for _, e in kept], sum_check=False).pvalue


@pytest.mark.parametrize("rule", [*RULES.values(), *BROKEN], ids=lambda rule: rule.name)
def test_the_law_is_what_random_uniforms_bring(rule):
    counts, p, draft = simulated(rule)
    law = output_law(rule, draft, p)
    assert fits(counts, law) > 1e-3
    if not rule.lossless:  # negative control: the same counts must not fit the target's own law
        with_floor = {key: max(value, 1e-9) for key, value in plain_law(p, 3).items()}
        assert fits(counts, with_floor) < 1e-6


# -- How many are accepted --------------------------------------------------------------------------------------------


def test_acceptance_by_hand():
    target = doubles([P, P])
    assert accepted_law("rejection", ONE_HOT, target) == pytest.approx({0: 0.5, 1: 0.5}, abs=1e-12)
    overlap = sum(min(a, b) for a, b in zip(P, Q, strict=True))
    assert accepted_law("rejection", SAMPLED, target) == pytest.approx({0: 1 - overlap, 1: overlap}, abs=1e-12)
    match = sum(a * b for a, b in zip(P, Q, strict=True))
    assert accepted_law("sample_and_match", SAMPLED, target) == pytest.approx({0: 1 - match, 1: match}, abs=1e-12)
    assert accepted_law("rejection", Draft(slots(2, 0)), doubles([P, P, P])) == {0: 1.0}


def test_block_accepts_at_least_as_many_as_rejection_and_rejection_as_sample_and_match():
    for seed in range(3):
        target, draft = prefix_rows(seed, 3), Draft(slots(3), prefix_rows(seed + 50, 3))

        def mean(rule, draft=draft, target=target):
            return sum(n * p for n, p in accepted_law(rule, draft, target).items())

        assert mean("block") >= mean("rejection") - 1e-12 >= mean("sample_and_match") - 1e-12
    assert mean("block") > mean("rejection") + 1e-4


def test_all_are_accepted_when_the_drafter_is_the_target():
    target = prefix_rows(3, 4)
    for rule in ("rejection", "block"):
        assert accepted_law(rule, Draft(slots(2), target), target) == pytest.approx({0: 0, 1: 0, 2: 1}, abs=1e-12)


# -- Small tools ------------------------------------------------------------------------------------------------------


def test_a_law_has_plain_integers_as_keys_and_sums_to_one():
    law = output_law("rejection", ONE_HOT, doubles([P, P]))
    assert list(law) == sorted(law) == all_sequences(3, 2)
    assert all(type(token) is int for key in law for token in key) and all(type(p) is float for p in law.values())
    assert math.isclose(sum(law.values()), 1, abs_tol=1e-12)


def test_plain_law_multiplies_the_rows():
    rows = {(): (0.5, 0.5), (0,): (1.0, 0.0), (1,): (0.25, 0.75)}
    assert plain_law(lambda prefix: doubles(rows[prefix]), 2) == {(0, 0): 0.5, (1, 0): 0.125, (1, 1): 0.375}
    assert plain_law(doubles([P]), 0) == {(): 1.0}


def test_total_variation_and_marginal():
    a, b = {(0, 0): 0.5, (0, 1): 0.5}, {(0, 0): 0.25, (1, 0): 0.75}
    assert total_variation(a, b) == 0.75 and total_variation(a, a) == 0
    assert marginal(b) == {0: 0.25, 1: 0.75} and marginal(b, 1) == {0: 1.0}


def test_cdf_points_of_unnormalised_weights():
    assert cdf_points(doubles([1.0, 0.0, 3.0])).tolist() == [0.25, 0.25, 1.0]


BAD = {
    "two sequences": (Draft(torch.tensor([[0], [0]])), doubles([P, P]), r"B = 1\), got B = 2"),
    "two sequences of rows": (ONE_HOT, doubles([[P, P], [P, P]]), r"\(k\+1, V\) for an exact law, got \(2, 2, 3\)"),
    "one row alone": (ONE_HOT, doubles(P), r"\(k\+1, V\) for an exact law, got \(3,\)"),
    "a row too few": (Draft(torch.tensor([[0, 1]])), doubles([P, P]), r"position 2 is needed, but 2 rows were given"),
    "another vocabulary": (Draft(slots(1), torch.ones(1, 1, 4) / 4), doubles([P, P]), r"of 4 tokens, .*one of 3"),
    "an id past the vocabulary": (Draft(torch.tensor([[3]])), doubles([P, P]), r"the id 3, .*vocabulary has 3 tokens"),
    "NaN": (ONE_HOT, doubles([P, (math.nan, 0.5, 0.5)]), r"NaN"),
    "a draft row that is none": (
        Draft(slots(1), lambda prefix: doubles((2.0, 1.0, 0.0))),
        doubles([P, P]),
        r"sum not 1",
    ),
    "a bad row after an early end": (
        Draft(torch.tensor([[0]])),
        lambda prefix: doubles(P if prefix in ((), (0,)) else (0.9, 0.9, 0.9)),
        r"rows\(\(1,\)\) holds a row that is no distribution",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_with_what_was_given(what):
    draft, target, message = BAD[what]
    with pytest.raises(ValueError, match=message):
        output_law("rejection", draft, target)


def test_an_unknown_rule_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'exact'; known: greedy, rejection, sample_and_match, target_only, block"):
        output_law("exact", ONE_HOT, doubles([P, P]))
    with pytest.raises(ValueError, match="no parameter 'threshold'"):
        output_law("target_only", ONE_HOT, doubles([P, P]), threshold=0.5)


# -- What is too much to enumerate ----------------------------------------------------------------------------------


def test_too_many_boxes_are_counted_and_refused_before_they_are_listed():
    """At once they would take 10.9 GB. The recovered token of each of six positions has 11 cells, the bonus 12."""
    rows = torch.rand(7, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    rows /= rows.sum(-1, keepdim=True)
    draft = Draft(torch.zeros(1, 6, dtype=torch.int64))
    with pytest.raises(ValueError, match=f"{2**6 * 11**6 * 12:,} boxes.*fewer draft tokens"):
        exact.output_law("rejection", draft, rows)
    with pytest.raises(ValueError, match="boxes for each of .* drafts"):
        exact.accepted_law("rejection", Draft(draft.tokens, rows[None, :6]), rows)
    with pytest.raises(ValueError, match="drafts"):
        exact.output_law("greedy", Draft(draft.tokens, lambda prefix: torch.ones(12) / 12), rows)


def test_too_many_sequences_are_refused_and_few_possible_ones_are_not(monkeypatch):
    monkeypatch.setattr(enumerate_, "MOST_SEQUENCES", 1000)
    with pytest.raises(ValueError, match="more than 1,000 sequences of 7 tokens"):
        exact.plain_law(lambda prefix: torch.full((12,), 1 / 12), 7)
    with pytest.raises(ValueError, match="more than 1,000 sequences of 4 tokens"):
        exact.output_law("rejection", Draft(torch.zeros(1, 3, dtype=torch.int64)), torch.full((4, 12), 1 / 12))
    certain = torch.nn.functional.one_hot(torch.arange(7), 12).double()
    assert exact.plain_law(certain, 7) == {tuple(range(7)): 1.0}


def test_small_pieces_add_up_to_the_same_distribution(monkeypatch):
    target, draft = exact.drafts()["sampled"]
    whole = exact.output_law("rejection", draft, target)
    monkeypatch.setattr(enumerate_, "_NUMBERS", 60)  # six boxes at a time
    assert exact.total_variation(exact.output_law("rejection", draft, target), whole) < 1e-15


def test_a_rule_that_does_not_say_where_it_changes_is_refused():
    silent = replace(RULES["rejection"], name="mine", breakpoints=None)
    target, draft = exact.drafts()["greedy, right"]
    with pytest.raises(ValueError, match="'mine' has no breakpoints.*points"):
        exact.output_law(silent, draft, target)
