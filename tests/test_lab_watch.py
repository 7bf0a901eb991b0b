"""The watcher's rows agree with what the rounds record, and change nothing."""

import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial.lab.watch import Watch
from mtp_tutorial.models import toys


@pytest.fixture(scope="module")
def toy():
    return toys.random_toy(vocab_size=3, order=2, seed=3)


def runs(toy, temperature, rule="rejection", drafting=0):
    drafter = mt.load_drafter("draft", toy, model=toys.random_toy(vocab_size=3, order=1, seed=4), temperature=drafting)
    settings = {
        "drafter": drafter,
        "rule": rule,
        "sampling": mt.Sampling(temperature=temperature),
        "num_speculative_tokens": 3,
        "max_new_tokens": 20,
    }
    watch, prompts = Watch(), [[1], [2, 0], [0]]
    watched = mt.generate(toy, prompts, hooks=watch, **settings)
    assert [g.tokens for g in watched] == [g.tokens for g in mt.generate(toy, prompts, **settings)]
    return watched, watch.judged(watched)


@pytest.mark.parametrize("drafting", [0, "same"])
@pytest.mark.parametrize("rule", ["rejection", "greedy"])
def test_a_row_for_each_judged_draft_token(toy, rule, drafting):
    watched, rows = runs(toy, 0.7, rule, drafting)
    expected = {
        (r.sequence, r.index, i + 1): (token, p, q, coin, i < r.num_accepted)
        for g in watched
        for r in g.rounds
        for i, (token, p, q, coin) in enumerate(zip(r.draft_tokens, r.target_probs, r.draft_probs, r.coins))
        if i <= r.num_accepted
    }
    found = {(x.sequence, x.round, x.position): (x.token, x.p, x.q, x.coin, x.accepted) for x in rows}
    assert found == expected and len(rows) == len(found)


def test_each_rule_did_what_the_rows_say(toy):
    _, rows = runs(toy, 0.7, "greedy")
    assert all(x.accepted == x.match for x in rows) and any(x.match for x in rows)
    _, rows = runs(toy, 0.7)
    assert all(x.accepted == (x.coin < x.p) for x in rows)
    assert any(x.match != x.accepted for x in rows)


def test_a_draft_chosen_without_randomness_overlaps_with_p(toy):
    _, rows = runs(toy, 0.7)
    assert all(x.q == 1 and x.overlap == pytest.approx(x.p) and x.greedy == pytest.approx(x.p) for x in rows)
    _, rows = runs(toy, 0)
    assert {x.p for x in rows} == {0.0, 1.0}


def test_a_sampled_draft_overlaps_with_the_smaller_of_both_rows(toy):
    _, rows = runs(toy, 0.7, drafting="same")
    assert all(0 < x.q < 1 and min(x.p, x.q) <= x.overlap <= 1 for x in rows)
    assert any(abs(x.overlap - x.greedy) > 0.01 for x in rows)


def test_by_hand():
    watch = Watch()
    draft = mt.Draft(torch.tensor([[2, 0]]), torch.tensor([[[0.3, 0.1, 0.6], [0.8, 0.1, 0.1]]]))
    probs = torch.tensor([[[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [1.0, 0.0, 0.0]]])
    coins = torch.tensor([[[0.9, 0.5], [0.1, 0.5], [0.0, 0.5]]], dtype=torch.float64)
    watch.observe([0], draft, probs, coins, mt.verify("rejection", draft, probs, coins))
    (row,) = watch._rows  # the second draft token was never judged
    assert (row.round, row.position, row.token, row.favourite, row.accepted) == (0, 1, 2, 0, False)
    assert (row.p, row.q, row.greedy, row.overlap) == pytest.approx((0.2, 0.6, 0.2, 0.6))
