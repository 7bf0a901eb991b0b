"""Near-ties: float64 shows none, planted rounding shows the ones that it must; what fits behind a wrong guess."""

from __future__ import annotations

import math

import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial.lab import near_ties
from mtp_tutorial.lab.guesses import Guessed, Guesses, first_after, fit_after
from mtp_tutorial.lab.near_ties import Compared, compare, row_difference
from mtp_tutorial.models import toys

PROMPTS = [[3, 1, 4, 1, 5], [9, 2, 6], [5, 3, 5, 8, 9, 7, 9], [2, 7]]
GREEDY = mt.Sampling(temperature=0)


@pytest.fixture(scope="module")
def target():
    return toys.random_llama()


@pytest.fixture
def shaken(monkeypatch):
    """The target again, whose calls on several rows are off by up to .3, as a coarser number format would have it."""
    target = toys.random_llama()
    forward = target.forward

    def rough(ids, *rest, **options):
        logits, hidden = forward(ids, *rest, **options)
        if ids.shape[1] > 1 and not options.get("last_only"):
            noise = torch.rand(logits.shape, generator=torch.Generator().manual_seed(0), dtype=logits.dtype)
            logits = logits + 0.6 * noise - 0.3
        return logits, hidden

    monkeypatch.setattr(target, "forward", rough)
    return target


def drafter_of(target):
    return mt.load_drafter("draft", target, model=toys.random_llama(seed=0, num_layers=1))


def test_in_float64_nothing_flips(target):
    found = compare(target, drafter_of(target), PROMPTS, 3, 24, ignore_eos=True)
    assert [one.position for one in found] == list(range(1, 24)) * 4
    assert not any(one.flipped for one in found)
    assert max(one.change for one in found) < 1e-9 < min(one.margin for one in found)
    assert row_difference(target, PROMPTS[2]) < 1e-9


def test_rounding_that_is_planted_flips_what_it_must(shaken):
    found = compare(shaken, drafter_of(shaken), PROMPTS, 3, 24, ignore_eos=True)
    flipped = [one for one in found if one.flipped]
    assert flipped and len(flipped) <= len(PROMPTS)  # a text is compared up to its first difference
    assert all(one.change >= one.margin for one in flipped)
    assert all(one.change <= 0.6 for one in found) and max(one.change for one in found) > 0.1
    assert 0.1 < row_difference(shaken, PROMPTS[2]) <= 0.3
    assert min(one.margin for one in flipped) < 0.3  # where two tokens were near to one another
    plain = mt.generate(shaken, PROMPTS, sampling=GREEDY, max_new_tokens=24, ignore_eos=True)
    drafted = mt.generate(
        shaken,
        PROMPTS,
        drafter_of(shaken),
        num_speculative_tokens=3,
        sampling=GREEDY,
        max_new_tokens=24,
        ignore_eos=True,
    )
    assert {one.sequence for one in flipped} == {i for i in range(4) if plain[i].tokens != drafted[i].tokens}


def test_a_token_is_compared_with_the_token_at_its_place(target):
    plain = mt.generate(target, PROMPTS, sampling=GREEDY, max_new_tokens=10, ignore_eos=True)
    found = compare(target, drafter_of(target), PROMPTS, 3, 10, ignore_eos=True)
    assert [one.token for one in found] == [token for g in plain for token in g.tokens[1:]]
    one = found[4]
    text = PROMPTS[0] + plain[0].tokens[: one.position]
    logits = target.forward(torch.tensor([text]), [len(text)], target.new_cache(1))[0][0, -1]
    top, second = logits.topk(2).values.tolist()
    assert one.margin == pytest.approx(top - second, abs=1e-9)


@pytest.mark.parametrize("prompts", ["text", [[1, 2]]])
def test_one_prompt_is_refused(target, prompts):
    with pytest.raises(ValueError, match="two prompts or more"):
        compare(target, drafter_of(target), prompts)


@pytest.mark.parametrize("rows", [0, 2])
def test_rows_must_leave_a_text_before_them(target, rows):
    with pytest.raises(ValueError, match="the text has 2 tokens"):
        row_difference(target, [1, 2], rows)


def test_a_tie_is_a_margin_of_0_whichever_of_the_two_comes_first():
    for ids in ([7, 4, 1], [4, 7, 1]):
        assert near_ties._margins((ids, [2.0, 2.0, 0.5]), ([7, 4, 1], [2.5, 2.0, 0.5]), 4, 4) == (0, 0.5)
    assert near_ties._margins(([7, 4, 1], [2.0, 1.9, 1.0]), ([1, 7, 4], [2.5, 2.0, 0.5]), 7, 1) == (1.0, 1.5)
    assert near_ties._margins(([7, 4, 1], [2.0, 1.9, 1.0]), ([9, 7, 4], [2.5, 2.0, 0.5]), 7, 9) == (math.inf, math.inf)
    assert near_ties._margins(([7, 4, 1], [2.0, 1.5, 1.0]), ([7, 9, 8], [2.5, 2.0, 0.5]), 7, 7) == (0.5, math.inf)


def test_flipped_is_another_token():
    assert Compared(0, 1, 5, 6, 0.1, 0.2).flipped and not Compared(0, 1, 5, 5, 0.1, 0.2).flipped


# -- Guesses ----------------------------------------------------------------------------------------------------------


def test_guesses_are_what_the_rounds_say(target):
    notes = Guesses()
    found = mt.generate(
        target, PROMPTS, drafter_of(target), num_speculative_tokens=3, sampling=GREEDY, max_new_tokens=20, hooks=notes
    )
    drafted = {(r.sequence, r.index): r for g in found for r in g.rounds if r.num_drafted}
    assert drafted.keys() == {(one.sequence, one.round) for one in notes.rounds}
    for one in notes.rounds:
        done = drafted[one.sequence, one.round]
        assert one.num_accepted >= done.num_accepted  # more only where the text ended inside the draft
        if found[one.sequence].rounds[-1] is not done:
            assert one.num_accepted == done.num_accepted


def test_a_draft_token_is_judged_behind_the_guesses_before_it(target):
    notes = Guesses()
    found = mt.generate(
        target, PROMPTS[0], drafter_of(target), num_speculative_tokens=3, sampling=GREEDY, max_new_tokens=20,
        hooks=notes, ignore_eos=True,
    )  # fmt: skip
    text, compared = list(PROMPTS[0]), 0
    for done in found.rounds[:-1]:
        one = next((one for one in notes.rounds if one.round == done.index), None)
        for i, token in enumerate(done.draft_tokens if one else ()):
            seen = text + list(done.draft_tokens[:i])
            logits = target.forward(torch.tensor([seen]), [len(seen)], target.new_cache(1))[0][0, -1]
            assert one.fits[i] == (int(logits.argmax()) == token)
            compared += 1
        text += done.tokens
    assert compared > 10


ROUNDS = [
    Guessed(0, 1, (True, False, True)), Guessed(0, 2, (False, True, True)), Guessed(0, 3, (True, True, True)),
    Guessed(0, 4, (True, True, False)), Guessed(1, 1, (False, False, True)), Guessed(1, 3, (True, True)),
]  # fmt: skip


def test_shares_by_hand():
    assert [one.num_accepted for one in ROUNDS] == [1, 0, 3, 2, 0, 2]
    assert fit_after(ROUNDS, True, 3) == pytest.approx([2 / 3, 2 / 3])
    assert fit_after(ROUNDS, False, 3) == pytest.approx([1 / 2, 1])
    # Rounds 2 and 3 of text 0 follow a rejection, round 4 does not; round 2 of text 1 drafted nothing.
    assert first_after(ROUNDS, rejected=True) == 1 / 2 and first_after(ROUNDS, rejected=False) == 1
    assert all(map(math.isnan, [*fit_after([], True, 3), first_after([], True)]))
