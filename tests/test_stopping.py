"""Drafts that end early, and two drafters in one: the text keeps the target's law."""

from __future__ import annotations

import pytest
import torch
from helpers import prefix_rows

import mtp_tutorial as mt
from mtp_tutorial.drafters.joined import JoinedDrafter
from mtp_tutorial.drafters.mtp import MtpDrafter
from mtp_tutorial.drafters.mtp_head import MtpHead
from mtp_tutorial.lab import exact
from mtp_tutorial.lab.drafts import draft_after
from mtp_tutorial.models import toys
from mtp_tutorial.verify import RULES, Rule

GREEDY = mt.Sampling(temperature=0)
PROMPTS = [[1, 3, 4, 5], [7], [9, 8, 7, 6, 5, 4, 3, 1]]


def stops(name: str, threshold: float, looks_at_token: bool) -> Rule:
    """A lossless rule on the part of the draft before the first row that is not sure."""
    rule = RULES[name]

    def cut(draft: mt.Draft) -> mt.Draft:
        given = draft.probs.gather(2, draft.tokens.clamp_min(0)[..., None])[..., 0]
        sure = (given if looks_at_token else draft.probs.amax(-1)) >= threshold
        return mt.Draft.trusted(draft.tokens.masked_fill(~sure.long().cumprod(1).bool(), -1), draft.probs)

    def decide(draft, target_probs, uniforms):
        return rule.decide(cut(draft), target_probs, uniforms)

    def points(draft, target_probs):
        return rule.breakpoints(cut(draft), target_probs)

    return Rule("stops", decide, True, True, "", "", points)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_stopping_by_the_row_is_lossless_and_by_the_token_it_is_not(rule, seed):
    """By enumeration; rows follow the prefix, so that how many tokens are drafted depends on what was drawn."""
    target, drafts = prefix_rows(seed, 3), prefix_rows(seed + 50, 3)
    draft = mt.Draft(torch.zeros(1, 2, dtype=torch.int64), drafts)
    plain = exact.plain_law(target, 3)
    maxima = sorted(float(drafts(prefix).max()) for prefix in [(0,), (1,), (2,)])
    threshold = (maxima[0] + maxima[1]) / 2  # some drafts of one token go on, others end
    row = exact.output_law(stops(rule, threshold, looks_at_token=False), draft, target)
    assert exact.total_variation(row, plain) < 1e-12
    likeliest = drafts(()).sort(descending=True).values
    threshold = float(likeliest[:2].mean())  # the likeliest token is kept, others are dropped: R19 of the museum
    token = exact.output_law(stops(rule, threshold, looks_at_token=True), draft, target)
    assert exact.total_variation(token, plain) > 1e-3


@pytest.fixture(scope="module")
def target():
    return toys.random_llama(num_layers=4)


@pytest.fixture(scope="module", params=[1, 3], ids=["one layer", "a stack"])
def head(request, target):
    made = MtpHead(target, num_layers=request.param)
    with torch.no_grad():
        for index, weight in enumerate(made.parameters()):
            if weight.ndim == 2:
                weight.normal_(0, 0.4, generator=torch.Generator().manual_seed(index))
    return made


@pytest.mark.parametrize("frequent", [None, [2, 3, 5, 7, 11]])
def test_an_unsure_head_drafts_the_beginning_of_what_it_would_have_drafted(target, head, frequent):
    ends = set()
    whole = MtpDrafter(target, head=head, frequent=frequent)
    for threshold in (0.2, 0.3, 0.45, 0.7):
        used = MtpDrafter(target, head=head, frequent=frequent, min_confidence=threshold)
        found = mt.generate(target, PROMPTS, used, num_speculative_tokens=4, max_new_tokens=16, seed=1, ignore_eos=True)
        for prompt, g in zip(PROMPTS, found, strict=True):
            said = list(prompt)
            for one in g.rounds:
                if not one.is_prefill and one is not g.rounds[-1]:
                    ends.add(one.num_drafted)
                    full = draft_after(target, whole, said, 4, GREEDY).tokens[0].tolist()
                    cut = draft_after(target, used, said, 4, GREEDY).tokens[0].tolist()
                    assert list(one.draft_tokens) == cut == full[: len(cut)]
                said += one.tokens
    assert {0, 4} < ends


def test_a_stopped_draft_leaves_greedy_texts_alone(target, head):
    plain = mt.generate(target, PROMPTS, sampling=GREEDY, max_new_tokens=20)
    used = MtpDrafter(target, head=head, min_confidence=0.4, temperature=1.0)
    assert [g.tokens for g in mt.generate(target, PROMPTS, used, sampling=GREEDY, max_new_tokens=20)] == [
        g.tokens for g in plain
    ]


@pytest.mark.parametrize("value", [-0.1, 1.0, "0.3", True])
def test_a_confidence_out_of_range_is_refused(target, head, value):
    with pytest.raises(ValueError, match="min_confidence="):
        MtpDrafter(target, head=head, min_confidence=value)


# -- Joined ---------------------------------------------------------------------------------------------------------


def joined(target, head, **options) -> JoinedDrafter:
    made = JoinedDrafter.__new__(JoinedDrafter)
    return made.__init__(target, head=head, **options) or made


def test_joined_looks_up_first_and_lets_the_head_guess_otherwise(target, head):
    both = joined(target, head, head_tokens=2, min_ngram=2, max_ngram=2)
    alone = MtpDrafter(target, head=head)
    again = [1, 2, 3, 4, 5, 1, 2]
    assert draft_after(target, both, again, 3).tokens[0].tolist() == [3, 4, 5]
    new = [1, 2, 3, 4, 5, 6, 7]
    guessed = draft_after(target, alone, new, 2).tokens[0].tolist()
    assert draft_after(target, both, new, 4).tokens[0].tolist()[:2] == guessed


def test_a_lookup_goes_on_behind_the_heads_tokens(target, head):
    alone = MtpDrafter(target, head=head)
    # A text that holds what the head will say, and what came after it.
    text = [1, 2, 3, 4, 5, 6, 7]
    for _ in range(3):  # the head reads the text, so that its guesses may move when the text is made longer
        guessed = draft_after(target, alone, text, 2).tokens[0].tolist()
        text = [*guessed, 11, 12, 13, *text[-7:]]
    both = joined(target, head, head_tokens=2, min_ngram=2, max_ngram=2)
    guessed = draft_after(target, alone, text, 2).tokens[0].tolist()
    place = next((i for i in range(len(text) - 2) if text[i : i + 2] == guessed), None)
    drafted = draft_after(target, both, text, 5).tokens[0].tolist()
    assert drafted[:2] == guessed
    assert len(drafted) == (2 if place is None else 5)


def test_joined_texts_are_the_plain_ones(target, head):
    plain = mt.generate(target, PROMPTS, sampling=GREEDY, max_new_tokens=24)
    for k in (1, 4, 6):
        found = mt.generate(
            target, PROMPTS, joined(target, head), num_speculative_tokens=k, sampling=GREEDY, max_new_tokens=24
        )
        assert [g.tokens for g in found] == [g.tokens for g in plain]


def test_joined_gives_a_batch_what_each_gets_alone(target, head):
    settings = dict(sampling=mt.Sampling(temperature=0.9, top_k=8), max_new_tokens=20)
    together = mt.generate(target, PROMPTS, joined(target, head), seed=[5, 6, 7], **settings)
    for prompt, seed, g in zip(PROMPTS, (5, 6, 7), together, strict=True):
        assert mt.generate(target, prompt, joined(target, head), seed=seed, **settings).tokens == g.tokens


def test_joined_by_name_and_its_bad_options():
    nano = mt.load("nano")
    assert mt.generate(nano, "One morning, Lena", drafter="joined", max_new_tokens=6).tokens
    with pytest.raises(ValueError, match="drafts greedily"):
        mt.load_drafter("joined", nano, temperature=0.6)
    with pytest.raises(ValueError, match="head_tokens="):
        mt.load_drafter("joined", nano, head_tokens=0)
    with pytest.raises(ValueError, match="min_ngram"):
        mt.load_drafter("joined", nano, min_ngram=5)


def test_all_or_some_of_a_large_vocabulary():
    """A nucleus found among the likeliest tokens is the one that a full sort finds, equal probabilities included."""
    from mtp_tutorial import sampling

    generator = torch.Generator().manual_seed(0)
    logits = (torch.randn(3, 2, 6000, generator=generator, dtype=torch.float64) * 4).round(decimals=1)  # many ties
    for top_p in (0.1, 0.5, 0.9, 0.999, 1 - 1e-9):
        some = mt.probabilities(logits, mt.Sampling(top_p=top_p))
        few, sampling._LIKELIEST = sampling._LIKELIEST, 6000
        try:
            full = mt.probabilities(logits, mt.Sampling(top_p=top_p))
        finally:
            sampling._LIKELIEST = few
        assert torch.equal(some, full)


def test_few_logits_of_a_large_vocabulary_make_the_same_distribution():
    """Top-k alone takes a short way; ties of the k-th logit, which stay as well, send it the long way."""
    from mtp_tutorial import sampling

    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 3, 6000, generator=generator, dtype=torch.float64) * 4
    for rows in (logits, logits.round(decimals=1)):
        for k in (1, 50, 1000):
            wanted = mt.Sampling(temperature=0.6, top_k=k)
            short = sampling._among_top_k(rows, wanted)
            found = mt.probabilities(rows, wanted)
            few, sampling._LIKELIEST = sampling._LIKELIEST, 6000
            try:
                full = mt.probabilities(rows, wanted)
            finally:
                sampling._LIKELIEST = few
            assert (found - full).abs().max() < 1e-15
            assert short is None or torch.equal((short > 0).sum(-1), torch.full((2, 3), k))
    bad = logits.clone()
    bad[0, 0, 17] = torch.nan
    bad[1, 2] = -torch.inf
    with pytest.raises(ValueError, match=r"rows \[\[0, 0\], \[1, 2\]\]"):
        mt.probabilities(bad, mt.Sampling(temperature=0.6, top_k=50))
