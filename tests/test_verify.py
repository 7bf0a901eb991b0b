"""Each verify rule against a slow verifier written from the rules' table, and what every verdict must keep to."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from helpers import LOSSLESS, STEADY, P, cases, doubles
from hypothesis import given, settings
from hypothesis import strategies as st

from mtp_tutorial.records import Draft
from mtp_tutorial.verify import RULES, Rule, block_quantities, get_rule, verify

TABLE = {  # rule → lossless, lossless at temperature 0, parameters
    "greedy": (False, True, {}),
    "rejection": (True, True, {}),
    "sample_and_match": (True, True, {}),
    "target_only": (True, True, {"threshold_single": 1.0, "threshold_acc": 1.0}),
    "block": (True, True, {}),
    "typical": (False, True, {"epsilon": 0.09, "delta": 0.3}),
    "relaxed": (False, True, {"delta": 0.1}),
}
#: Settings each rule is tried with beside its defaults; binary fractions, so that boundaries are hit exactly.
SETTINGS = {
    "target_only": [
        {"threshold_single": 0.5},
        {"threshold_acc": 0.5},
        {"threshold_single": 0.25, "threshold_acc": 0.75},
    ],
    "typical": [{"epsilon": 0.25, "delta": 1.0}, {"epsilon": 0.0}],
    "relaxed": [{"delta": 0.25}, {"delta": 0.0}, {"delta": 1.0}],
}
TRIED = [(rule, params) for rule in RULES for params in [{}, *SETTINGS.get(rule, [])]]


def one(tokens, target, uniforms, probs=None, rule="rejection", **params):
    """The tokens emitted for one sequence."""
    probs = None if probs is None else doubles([probs])
    verdict = verify(
        rule, Draft(torch.tensor([tokens], dtype=torch.int64), probs), doubles([target]), doubles([uniforms]), **params
    )
    return [token for token in verdict.tokens[0].tolist() if token >= 0]


# -- The table --------------------------------------------------------------------------------------------------------


def test_the_rules_are_those_of_the_table_and_say_what_they_keep():
    found = {name: (rule.lossless, rule.lossless_at_zero, dict(rule.params)) for name, rule in RULES.items()}
    assert found == TABLE
    assert all(rule.sentence and rule.reference and rule.name == name for name, rule in RULES.items())


def test_target_only_is_lossless_at_thresholds_one_and_one_only():
    rule = RULES["target_only"]
    assert rule.is_lossless() and rule.is_lossless(threshold_single=1, threshold_acc=1)
    assert not rule.is_lossless(threshold_single=0.9)
    assert not rule.is_lossless(threshold_acc=0.9)
    assert not RULES["greedy"].is_lossless()


@pytest.mark.parametrize(("rule", "params"), TRIED)
@settings(STEADY, max_examples=60)
@given(case=cases(exact=True))
def test_each_rule_is_its_table_row_also_with_uniforms_on_a_boundary(rule, params, case):
    check_against_slow(rule, params, case, exact=True)


@pytest.mark.parametrize(("rule", "params"), TRIED)
@settings(STEADY, max_examples=40)
@given(case=cases(exact=False))
def test_each_rule_is_its_table_row_on_arbitrary_numbers(rule, params, case):
    check_against_slow(rule, params, case, exact=False)


def check_against_slow(rule, params, case, exact):
    verdict = verify(rule, Draft(case.tokens, case.probs), case.target, case.uniforms, **params)
    for b in range(len(case.tokens)):
        slow = case.slow(b)
        emitted, n, bonus = slow.judge(rule, **params)
        # Sixteenths are free of rounding except in block's products of ratios and typical's entropy.
        # The largest uniform below 1 is within rounding of the end of the last stretch, and must still be inside it.
        rounds = not exact or rule in ("block", "typical")
        if rounds and slow.margin < 1e-12:
            continue
        padded = emitted + [-1] * (case.tokens.shape[1] + 1 - len(emitted))
        assert (verdict.tokens[b].tolist(), int(verdict.num_accepted[b]), bool(verdict.bonus[b])) == (padded, n, bonus)


# -- Every verdict ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rule", RULES)
@settings(STEADY, max_examples=15)
@given(exact=st.booleans(), data=st.data())
def test_verdicts_are_well_formed(rule, dtype, exact, data):
    case = data.draw(cases(exact=exact))
    probs = None if case.probs is None else case.probs.to(dtype)
    draft, target = Draft(case.tokens, probs), case.target.to(dtype)
    verdict = verify(rule, draft, target, case.uniforms)
    k, vocabulary = case.tokens.shape[1], case.target.shape[2]
    assert verdict.tokens.dtype == verdict.num_accepted.dtype == torch.int64 and verdict.bonus.dtype == torch.bool
    for b, row in enumerate(verdict.tokens.tolist()):
        n, k_b = int(verdict.num_accepted[b]), int(draft.lengths[b])
        assert 0 <= n <= k_b
        assert bool(verdict.bonus[b]) == (n == k_b)
        assert row[:n] == case.tokens[b, :n].tolist()  # the accepted draft tokens come first …
        assert 0 <= row[n] < vocabulary  # … then one token more …
        assert row[n + 1 :] == [-1] * (k - n)  # … and padding
        if rule in LOSSLESS:
            assert all(target[b, i, row[i]] > 0 for i in range(n + 1)), "a token the target would never say"


@pytest.mark.parametrize("rule", RULES)
@settings(STEADY, max_examples=10)
@given(exact=st.booleans(), data=st.data())
def test_a_batch_gives_each_row_what_it_gets_alone(rule, exact, data):
    case = data.draw(cases(exact=exact))
    together = verify(rule, Draft(case.tokens, case.probs), case.target, case.uniforms)
    for b in range(len(case.tokens)):
        k_b = int((case.tokens[b] >= 0).sum())
        alone = verify(
            rule,
            Draft(case.tokens[b : b + 1, :k_b], None if case.probs is None else case.probs[b : b + 1, :k_b]),
            case.target[b : b + 1, : k_b + 1],
            case.uniforms[b : b + 1, : k_b + 1],
        )
        assert together.tokens[b, : k_b + 1].tolist() == alone.tokens[0].tolist()
        assert bool(together.bonus[b]) == bool(alone.bonus[0])


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_batch_and_an_empty_draft_are_fine(rule):
    nobody = verify(
        rule, Draft(torch.zeros(0, 2, dtype=torch.int64), torch.ones(0, 2, 3)), torch.ones(0, 3, 3), torch.ones(0, 3, 2)
    )
    assert nobody.tokens.shape == (0, 3)
    plain = verify(rule, Draft(torch.zeros(1, 0, dtype=torch.int64)), doubles([[P]]), doubles([[[0.9, 0.6]]]))
    assert plain.tokens.tolist() == [[0 if rule == "greedy" else 1]]
    assert plain.num_accepted.tolist() == [0] and plain.bonus.tolist() == [True]


@pytest.mark.parametrize("rule", RULES)
def test_inputs_are_left_as_they_were_and_layout_does_not_matter(rule):
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(3, 4, 5, generator=generator, dtype=torch.float64).softmax(-1)
    probs = torch.rand(3, 3, 5, generator=generator, dtype=torch.float64).softmax(-1)
    uniforms = torch.rand(3, 4, 2, generator=generator, dtype=torch.float64)
    tokens = torch.tensor([[0, 1, 2], [3, 4, -1], [-1, -1, -1]])
    first = verify(rule, Draft(tokens, probs), target, uniforms)
    copies = [x.clone() for x in (tokens, probs, target, uniforms)]

    def strided(x):
        return x.transpose(0, -1).contiguous().transpose(0, -1)

    second = verify(rule, Draft(strided(tokens), strided(probs)), strided(target).requires_grad_(), strided(uniforms))
    assert first.tokens.tolist() == second.tokens.tolist()
    assert all(torch.equal(a, b) for a, b in zip(copies, (tokens, probs, target, uniforms), strict=True))


# -- Boundaries, by hand ----------------------------------------------------------------------------------------------


def test_acceptance_is_strict_so_a_token_without_mass_is_never_accepted():
    assert one([0], [P, P], [[0.5, 0.0], [0.0, 0.0]]) == [1]  # u = p(d): rejected
    assert one([0], [P, P], [[math.nextafter(0.5, 0), 0.0], [0.0, 0.0]]) == [0, 0]
    for rule in LOSSLESS:
        assert one([0], [(0.0, 0.5, 0.5), P], [[0.0, 0.0], [0.0, 0.0]], rule=rule) == [1]


def test_a_certain_draft_is_always_accepted():
    for rule in RULES:
        sure, end = (0.0, 1.0, 0.0), math.nextafter(1, 0)
        assert one([1], [sure, sure], [[end, end], [end, end]], rule=rule) == [1, 1]


def test_a_draft_drawn_from_the_target_itself_is_always_accepted():
    end = math.nextafter(1, 0)
    for rule in ("rejection", "block"):
        assert one([2, 0], [P, P, P], [[end, 0.9], [end, 0.9], [0, 0.9]], [P, P], rule=rule) == [2, 0, 2]


def test_a_draft_token_its_own_distribution_could_not_have_drawn_is_rejected():
    for rule in ("rejection", "block"):
        assert one([0], [P, P], [[0.0, 0.0], [0.0, 0.0]], [(0.0, 0.5, 0.5)], rule=rule) == [0]  # recovered from p - q


def test_the_recovered_token_is_drawn_by_the_second_uniform_of_the_rejected_position():
    uniforms = [[0.0, 0.99], [0.9, 0.59], [0.0, 0.0]]
    assert one([0, 0], [P, P, P], uniforms) == [0, 1]  # p without 0 is (0, .6, .4)
    uniforms[1][1] = 0.61
    assert one([0, 0], [P, P, P], uniforms) == [0, 2]


def test_block_keeps_the_largest_prefix_that_passes_not_the_first_failure():
    # The first position fails, the second passes: both draft tokens stay.
    p, q = [(0.5, 0.5), (1.0, 0.0), (0.5, 0.5)], [(1.0, 0.0), (0.25, 0.75)]
    draft = Draft(torch.tensor([[0, 0]]), doubles([q]))
    r, h = block_quantities(draft, doubles([p]))
    assert r.tolist() == [[1.0, 0.5, 1.0]]  # min(.5 · 4, 1)
    assert h.tolist() == [[0.25 / 0.75, 1.0]]  # S = max(.5 - .25, 0)
    assert one([0, 0], p, [[0.4, 0.0], [0.9, 0.0], [0.0, 0.7]], q, rule="block") == [0, 0, 1]
    assert one([0, 0], p, [[0.4, 0.0], [0.9, 0.0], [0.0, 0.7]], q, rule="rejection") == [0, 0, 1]
    assert one([0, 0], p, [[0.6, 0.9], [0.9, 0.0], [0.0, 0.7]], q, rule="rejection") == [1]
    assert one([0, 0], p, [[0.6, 0.9], [0.9, 0.0], [0.0, 0.7]], q, rule="block") == [0, 0, 1]


def test_block_recovers_from_the_target_row_scaled_by_what_the_prefix_is_worth():
    p, q = [(0.5, 0.25, 0.25), (0.5, 0.25, 0.25), P], [(1.0, 0.0, 0.0), (0.1, 0.2, 0.7)]
    r, h = block_quantities(Draft(torch.tensor([[0, 2]]), doubles([q])), doubles([p]))
    assert r[0, 1] == 0.5 and h[0, 0] == pytest.approx(0.15 / (0.15 + 0.5))
    # The first passes and the second does not. .5·p - q leaves token 0 alone; p - q would leave token 1 from .89 on.
    assert one([0, 2], p, [[0.1, 0.0], [0.9, 0.95], [0.0, 0.0]], q, rule="block") == [0, 0]


def test_block_does_not_accept_after_a_token_without_mass_even_when_a_ratio_overflows():
    tiny = 1e-45  # float32: 1 / tiny is inf, and 0 · inf is NaN
    q = torch.tensor([[[1.0, 0.0], [1.0, tiny], [0.0, 1.0]]])
    p = torch.tensor([[[0.0, 1.0], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]])
    verdict = verify("block", Draft(torch.tensor([[0, 1, 1]]), q), p, torch.full((1, 4, 2), 0.3))
    assert verdict.tokens.tolist() == [[1, -1, -1, -1]]


def test_a_residual_that_rounding_emptied_falls_back_to_the_target():
    q = torch.tensor([[[0.5, 0.5 + 1e-7, 0.0]]])  # float32: above p everywhere
    p = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]])
    uniforms = torch.full((1, 2, 2), math.nextafter(1, 0), dtype=torch.float64)
    verdict = verify("rejection", Draft(torch.tensor([[1]]), q), p, uniforms)
    assert verdict.tokens.tolist() == [[1, -1]] and verdict.num_accepted.tolist() == [0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rule", RULES)
def test_a_real_vocabulary_size_never_yields_a_token_without_mass(rule, dtype):
    generator = torch.Generator().manual_seed(1)
    vocabulary, k = 50_000, 2
    logits = torch.randn(2, k + 1, vocabulary, generator=generator, dtype=dtype) * 4
    logits[:, :, -1_000:] = -torch.inf  # a tail without mass, where the largest uniform must not land
    target = logits.softmax(-1)
    probs = (logits[:, :k] + torch.randn(2, k, vocabulary, generator=generator, dtype=dtype)).softmax(-1)
    tokens = probs.flatten(0, 1).multinomial(1, generator=generator).view(2, k)
    for u in (0.0, 0.5, math.nextafter(1, 0)):
        uniforms = torch.full((2, k + 1, 2), u, dtype=torch.float64)
        for given_probs in (None, probs):
            verdict = verify(rule, Draft(tokens, given_probs), target, uniforms)
            last = verdict.tokens.gather(1, verdict.num_accepted[:, None])
            rows = target[torch.arange(2), verdict.num_accepted]
            assert bool((rows.gather(1, last) > 0).all())


@pytest.mark.parametrize("rule", RULES)
def test_half_precision_is_judged_without_nan(rule):
    target = torch.rand(2, 3, 50, generator=torch.Generator().manual_seed(2)).softmax(-1)
    for dtype in (torch.float16, torch.bfloat16):
        probs = target[:, :2].flip(2).to(dtype)
        verdict = verify(rule, Draft(torch.tensor([[0, 1], [2, -1]]), probs), target.to(dtype), torch.rand(2, 3, 2))
        assert bool((verdict.tokens.gather(1, verdict.num_accepted[:, None]) >= 0).all())


# -- Bad input --------------------------------------------------------------------------------------------------------

GOOD = {
    "draft": Draft(torch.tensor([[0, 1], [2, -1]]), doubles([[P, P], [P, P]])),
    "target_probs": doubles([[P, P, P], [P, P, P]]),
    "uniforms": torch.full((2, 3, 2), 0.5, dtype=torch.float64),
}


def spoiled(name, where, value):
    changed = GOOD[name].clone()
    changed[where] = value
    return {name: changed}


BAD = {
    "an unknown rule": ({"rule": "rejecton"}, r"'rejecton'.*known: greedy, rejection, sample_and_match"),
    "a rule that is no rule": ({"rule": None}, r"None.*known: greedy"),
    "an unknown parameter": (
        {"rule": "typical", "gamma": 1},
        r"'typical' has no parameter 'gamma'; it has: epsilon, delta",
    ),
    "a parameter of a rule without any": ({"delta": 1}, r"'rejection' has no parameter 'delta'; it has: none"),
    "a parameter out of range": ({"rule": "relaxed", "delta": 1.5}, r"delta=1.5 .*'relaxed'.*from 0 to 1"),
    "a parameter that is NaN": ({"rule": "relaxed", "delta": math.nan}, r"delta=nan .*from 0 to 1"),
    "a parameter that is a bool": ({"rule": "relaxed", "delta": True}, r"delta=True .*use a number"),
    "a threshold of zero": ({"rule": "target_only", "threshold_acc": 0}, r"threshold_acc=0 .*from 1e-09 to 1"),
    "tokens instead of a Draft": ({"draft": torch.tensor([[0, 1]])}, r"got Tensor: use Draft\(tokens, probs\)"),
    "callable draft probs": (
        {"draft": Draft(GOOD["draft"].tokens, lambda prefix: P)},
        r"callable is for lab.exact only",
    ),
    "another vocabulary": ({"draft": Draft(GOOD["draft"].tokens, torch.ones(2, 2, 4) / 4)}, r"of 4 tokens, .*one of 3"),
    "an id past the vocabulary": ({"draft": Draft(torch.tensor([[3, 1], [2, -1]]))}, r"the id 3, .*vocabulary has 3"),
    "one target row too few": ({"target_probs": doubles([[P, P], [P, P]])}, r"shape \(2, 3, 'V'\), got \(2, 2, 3\)"),
    "target rows of integers": ({"target_probs": torch.ones(2, 3, 3, dtype=torch.int64)}, r"floating point"),
    "target rows of another rank": ({"target_probs": doubles([P])}, r"\(B, k\+1, V\)"),
    "too few uniforms": ({"uniforms": torch.zeros(2, 2, 2)}, r"shape \(2, 3, 2\), got \(2, 2, 2\)"),
    "uniforms that are no tensor": ({"uniforms": [[0.5]]}, r"shape \(2, 3, 2\), got list"),
    "a uniform of one": (spoiled("uniforms", (0, 1, 0), 1.0), r"\[0, 1\)"),
    "a negative uniform": (spoiled("uniforms", (0, 1, 1), -0.1), r"\[0, 1\)"),
    "a uniform that is NaN": (spoiled("uniforms", (0, 0, 0), math.nan), r"\[0, 1\)"),
    "NaN in a target row": (
        spoiled("target_probs", (0, 2, 1), math.nan),
        r"target_probs holds NaN in a row that is used",
    ),
    "logits instead of probabilities": (spoiled("target_probs", (0, 1, 1), 4.0), r"target_probs .*not logits"),
    "a negative probability": (spoiled("target_probs", (0, 1), doubles((-0.1, 0.6, 0.5))), r"no distribution"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_with_a_message_that_says_what_would_do(what):
    changes, message = BAD[what]
    arguments = {"rule": "rejection", **GOOD, **changes}
    with pytest.raises(ValueError, match=message):
        verify(arguments.pop("rule"), **arguments)


@pytest.mark.parametrize("rule", RULES)
def test_nan_is_refused_in_used_rows_of_either_distribution_and_ignored_elsewhere(rule):
    def with_nan(name, where):
        probs, target = GOOD["draft"].probs.clone(), GOOD["target_probs"].clone()
        (probs if name == "draft.probs" else target)[where] = math.nan
        return verify(rule, Draft(GOOD["draft"].tokens, probs), target, GOOD["uniforms"])

    expected = verify(rule, **GOOD)
    for name, where in (("draft.probs", (0, 1, 2)), ("target_probs", (0, 2, 0)), ("target_probs", (1, 1, 0))):
        with pytest.raises(ValueError, match=f"{name} holds NaN"):
            with_nan(name, where)
    for name, where in (("draft.probs", (1, 1)), ("target_probs", (1, 2))):  # row 1 drafts one token
        assert with_nan(name, where).tokens.tolist() == expected.tokens.tolist()


def test_uniforms_past_the_draft_are_ignored():
    uniforms = GOOD["uniforms"].clone()
    uniforms[1, 2] = math.nan
    assert verify("rejection", GOOD["draft"], GOOD["target_probs"], uniforms).tokens.shape == (2, 3)


def test_a_rule_of_ones_own_can_be_passed():
    def never(draft, target_probs, uniforms):
        return RULES["rejection"].decide(draft, target_probs, torch.where(uniforms >= 0, 0.999, 0.0))

    mine = Rule("never", never, False, False, "Reject.", "none", RULES["rejection"].breakpoints)
    assert get_rule(mine) is mine
    assert verify(mine, **GOOD).num_accepted.tolist() == [2, 1]  # p = q here: a coin of .999 still accepts


def test_what_is_known_of_a_rule_is_not_handed_on_to_another_function():
    rule = RULES["rejection"]
    assert dataclasses.replace(rule, name="renamed").lossless  # still the same function
    other = dataclasses.replace(rule, decide=RULES["typical"].decide)
    assert (other.lossless, other.lossless_at_zero, other.is_lossless()) == (None, None, False)
    assert dataclasses.replace(other, name="renamed").lossless is None
