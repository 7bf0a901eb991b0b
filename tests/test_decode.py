"""The loop: speculation changes neither what is said nor its law, and each round is counted as it happened."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import LOSSLESS, STEADY
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tiny import Calls, Watch, tiny

import mtp_tutorial as mt
from mtp_tutorial.lab.drafts import Says
from mtp_tutorial.models import toys
from mtp_tutorial.models.toys import random_toy
from mtp_tutorial.sampling import inverse_cdf
from mtp_tutorial.verify import RULES, Rule, conclude, draw_at, full_row, leading, points, row_at

GREEDY = mt.Sampling(temperature=0)
TOY = random_toy(6, order=2, seed=1)
OTHER = random_toy(6, order=2, seed=2)
ENDING = random_toy(6, order=2, seed=4, eos=True)
ENDING_OTHER = random_toy(6, order=2, seed=5, eos=True)
PROMPTS = [[0], [1, 2, 3, 1, 2], [5, 4, 4, 0, 1, 2, 3, 5], [2, 2]]


def drafters(target, other) -> dict:
    load = mt.load_drafter
    return {
        "ngram": load("ngram", target),
        "draft": load("draft", target, model=other),
        "self": load("draft", target, model=target),
        "sampled": load("draft", target, model=other, temperature=1.0),
        "sampled self": load("draft", target, model=target, temperature=0.7),
        "same": load("draft", target, model=other, temperature="same"),
        "oracle 0": load("oracle", target, accuracy=0.0),
        "oracle 0.5": load("oracle", target, accuracy=0.5),
        "oracle 1": load("oracle", target, accuracy=1.0),
    }


class Changing:
    """A controller whose k follows a list, each sequence at its own place in it."""

    def __init__(self, lengths) -> None:
        self.lengths, self.rounds = lengths, []

    def choose(self, sequences):
        return [self.lengths[(len(self.rounds) + 3 * i) % len(self.lengths)] for i in sequences]

    def observe(self, rounds):
        self.rounds.append(rounds)


def cycle(length: int = 5, eos: str | None = None):
    """A toy that always says a, b, c, … in turn; ``eos`` is the word that ends its text."""
    words = ["<eos>" if chr(97 + i) == eos else chr(97 + i) for i in range(length)]
    rules = {word: {words[(i + 1) % length]: 1} for i, word in enumerate(words)}
    return toys.make("cycle", words, toys.table_from_rules(words, {"": {words[0]: 1}, **rules}, 1))


# -- Temperature 0 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_at_temperature_zero_every_rule_and_drafter_says_what_plain_decoding_says(rule):
    for target, other in ((TOY, OTHER), (ENDING, ENDING_OTHER)):
        plain = mt.generate(target, PROMPTS, sampling=GREEDY, max_new_tokens=20)
        for name, drafter in drafters(target, other).items():
            fast = mt.generate(target, PROMPTS, drafter, rule, sampling=GREEDY, max_new_tokens=20)
            assert [g.tokens for g in fast] == [g.tokens for g in plain], name
            assert [g.finish_reason for g in fast] == [g.finish_reason for g in plain], name
            assert [g.text for g in fast] == [g.text for g in plain], name


@settings(STEADY, max_examples=60)
@given(st.data())
def test_at_temperature_zero_no_setting_of_the_loop_changes_the_text(data):
    target = random_toy(5, order=data.draw(st.integers(1, 3)), seed=data.draw(st.integers(0, 30)), eos=True)
    other = random_toy(5, order=1, seed=data.draw(st.integers(0, 30)), eos=True)
    ids = st.lists(st.integers(0, 4), min_size=1, max_size=6)
    prompts = data.draw(st.lists(ids, min_size=1, max_size=4))
    penalty = data.draw(st.sampled_from([0.0, 0.4]))
    same = {
        "sampling": mt.Sampling(temperature=0, frequency_penalty=penalty),
        "max_new_tokens": data.draw(st.integers(1, 14)),
        "stop": data.draw(st.sampled_from([(), "t1 t2", ("t3", "t0 t0")])),
        "ignore_eos": data.draw(st.booleans()),
    }
    plain = mt.generate(target, prompts, **same)
    name = data.draw(st.sampled_from(sorted(drafters(target, other))))
    lengths = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=5))
    fast = mt.generate(
        target, prompts, drafters(target, other)[name], data.draw(st.sampled_from(sorted(RULES))),
        num_speculative_tokens=Changing(lengths), seed=data.draw(st.integers(0, 99)), **same,
    )  # fmt: skip
    assert [(g.tokens, g.text, g.finish_reason) for g in fast] == [(g.tokens, g.text, g.finish_reason) for g in plain]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("wrong_at", [0, 1, 2, 3, None], ids=["first", "second", "middle", "last", "none"])
def test_a_rejection_at_any_place_of_the_draft(rule, wrong_at):
    plain = mt.generate(TOY, PROMPTS[1], sampling=GREEDY, max_new_tokens=17)

    def plan(said, k):
        draft = plain.tokens[len(said) : len(said) + k]
        return [(token + 1) % 6 if place == wrong_at else token for place, token in enumerate(draft)]

    fast = mt.generate(TOY, PROMPTS[1], Says(plan), rule, sampling=GREEDY, max_new_tokens=17)
    assert fast.tokens == plain.tokens
    accepted = 4 if wrong_at is None else wrong_at
    whole = fast.rounds[1:-1]
    assert whole and all(r.num_accepted == accepted and len(r.tokens) == accepted + 1 for r in whole)
    last = "bonus" if wrong_at is None else "recovered"
    assert all(r.kinds == ("accepted",) * accepted + (last,) for r in whole)
    assert all(r.bonus == (wrong_at is None) for r in whole)


def test_eos_inside_the_draft_ends_the_text_there():
    target = cycle(6, eos="e")  # a b c d <eos> f
    draft = Says(lambda said, k: [(said[-1] + 1 + i) % 6 for i in range(k)])
    plain = mt.generate(target, "a", sampling=GREEDY, max_new_tokens=20)
    assert plain.tokens == [1, 2, 3, 4] and plain.finish_reason == "eos" and plain.text == "b c d"
    for k in range(1, 8):
        fast = mt.generate(target, "a", draft, num_speculative_tokens=k, sampling=GREEDY, max_new_tokens=20)
        assert fast.tokens == plain.tokens and fast.finish_reason == "eos" and fast.text == plain.text
        assert sum(r.num_drafted for r in fast.rounds) == sum(r.num_accepted for r in fast.rounds)
        assert fast.rounds[-1].tokens[-1] == 4 and 5 not in fast.rounds[-1].draft_tokens
    fast = mt.generate(target, "a", draft, num_speculative_tokens=5, sampling=GREEDY, max_new_tokens=20)
    last = fast.rounds[-1]
    assert last.draft_tokens == (2, 3, 4) and last.num_accepted == 3 and last.kinds == ("accepted",) * 3
    assert last.cache_written == 1 + 1 + 5 and last.cache_after == len(fast.prompt_tokens) + len(fast.tokens)
    assert fast.acceptance_rate == 1.0


def test_ignored_eos_does_not_end_the_text():
    target = cycle(6, eos="e")
    g = mt.generate(target, "a", "oracle", sampling=GREEDY, max_new_tokens=9, ignore_eos=True)
    assert g.tokens == [1, 2, 3, 4, 5, 0, 1, 2, 3] and g.finish_reason == "length"


@pytest.mark.parametrize("k", [0, 1, 2, 5, 8])
def test_the_budget_ends_the_text_inside_the_draft(k):
    plain = mt.generate(TOY, PROMPTS, sampling=GREEDY, max_new_tokens=11)
    for budget in range(1, 12):
        fast = mt.generate(
            TOY, PROMPTS, "oracle", num_speculative_tokens=k, sampling=GREEDY, max_new_tokens=budget
        )  # fmt: skip
        for g, whole in zip(fast, plain, strict=True):
            assert g.tokens == whole.tokens[:budget] and g.finish_reason == "length"
            assert g.num_drafted == g.num_accepted
            last = g.rounds[-1]
            assert last.cache_after <= len(g.prompt_tokens) + len(g.tokens)


def test_a_stop_string_inside_the_draft_ends_the_text_there():
    target = cycle(8)
    draft = Says(lambda said, k: [(said[-1] + 1 + i) % 8 for i in range(k)])
    plain = mt.generate(target, "a", sampling=GREEDY, max_new_tokens=30, stop="d e")
    assert plain.tokens == [1, 2, 3, 4] and plain.text == "b c " and plain.finish_reason == "stop"
    for k in range(1, 9):
        fast = mt.generate(
            target, "a", draft, num_speculative_tokens=k, sampling=GREEDY, max_new_tokens=30, stop=("z", "d e")
        )  # fmt: skip
        assert (fast.tokens, fast.text, fast.finish_reason) == (plain.tokens, plain.text, "stop")
        assert all(token <= 4 for r in fast.rounds for token in r.draft_tokens)


def test_k_may_change_from_round_to_round_and_from_sequence_to_sequence():
    controller = Changing([0, 3, 1, 7, 0, 2])
    plain = mt.generate(TOY, PROMPTS, sampling=GREEDY, max_new_tokens=25)
    fast = mt.generate(TOY, PROMPTS, "oracle", num_speculative_tokens=controller, sampling=GREEDY, max_new_tokens=25)
    assert [g.tokens for g in fast] == [g.tokens for g in plain]
    assert {r.num_drafted for g in fast for r in g.rounds} >= {0, 1, 2, 3, 7}
    told = [r for rounds in controller.rounds for r in rounds]
    assert sorted(told, key=lambda r: (r.sequence, r.index)) == [r for g in fast for r in g.rounds]
    assert {r.kinds for g in fast for r in g.rounds if not r.num_drafted and not r.is_prefill} == {("plain",)}


def test_k_zero_is_plain_decoding():
    for sampling in (GREEDY, mt.Sampling()):
        plain = mt.generate(TOY, PROMPTS, sampling=sampling, max_new_tokens=9, seed=3)
        for name, drafter in drafters(TOY, OTHER).items():
            fast = mt.generate(
                TOY, PROMPTS, drafter, num_speculative_tokens=0, sampling=sampling, max_new_tokens=9, seed=3
            )  # fmt: skip
            assert [g.tokens for g in fast] == [g.tokens for g in plain], name
            assert [g.target_calls for g in fast] == [9] * 4, name


@pytest.mark.parametrize("name", ["oracle", "ngram", "draft"])
def test_a_draft_never_reaches_past_the_context(name):
    short = replace(TOY, max_length=14)
    options = {"draft": {"model": OTHER}}.get(name, {})
    plain = mt.generate(short, PROMPTS, sampling=GREEDY, max_new_tokens=99)
    with Calls(short) as calls:
        fast = mt.generate(
            short, PROMPTS, mt.load_drafter(name, short, **options), num_speculative_tokens=64, sampling=GREEDY,
            max_new_tokens=99,
        )  # fmt: skip
    assert [g.tokens for g in fast] == [g.tokens for g in plain]
    assert all(len(g.prompt_tokens) + len(g.tokens) == 14 and g.finish_reason == "length" for g in fast)
    assert all(r.cache_written <= 14 for g in fast for r in g.rounds)
    assert len(calls)


def test_speculation_on_a_transformers_model_says_what_plain_decoding_says():
    target, other = tiny(), tiny(seed=1)
    prompts = [[3, 4, 5, 3, 4], [7], [8, 9, 10, 11, 12, 13, 8, 9]]
    plain = mt.generate(target, prompts, sampling=GREEDY, max_new_tokens=16, ignore_eos=True)
    for name, drafter in drafters(target, other).items():
        fast = mt.generate(target, prompts, drafter, sampling=GREEDY, max_new_tokens=16, ignore_eos=True)
        assert [g.tokens for g in fast] == [g.tokens for g in plain], name


# -- Seeds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", LOSSLESS)
def test_a_seed_gives_the_same_text_in_any_company(rule):
    for name, drafter in drafters(ENDING, ENDING_OTHER).items():

        def run(prompts, seeds, drafter=drafter):
            return mt.generate(ENDING, prompts, drafter, rule, max_new_tokens=15, seed=seeds)

        seeds = [7, 100, 3, 55]
        together = run(PROMPTS, seeds)
        assert len({len(g.tokens) for g in together}) > 1  # some left the batch before others
        alone = [run(prompt, seed) for prompt, seed in zip(PROMPTS, seeds, strict=True)]
        assert [g.tokens for g in together] == [g.tokens for g in alone], name
        order = [2, 0, 3, 1]
        turned = run([PROMPTS[i] for i in order], [seeds[i] for i in order])
        assert [g.tokens for g in turned] == [together[i].tokens for i in order], name
        # Everything but the clock and the place in the batch is the same.
        still = {"sequence": 0, "seconds_drafting": 0, "seconds_verifying": 0, "seconds_elsewhere": 0}
        for g, one in zip(together, alone, strict=True):
            assert [replace(r, **still) for r in g.rounds] == [replace(r, **still) for r in one.rounds], name


def test_a_transformers_model_gives_the_same_text_in_any_company():
    target, other = tiny(), tiny(seed=1)
    prompts = [[3, 4, 5, 3, 4], [7], [8, 9, 10, 11, 12, 13, 8, 9]]
    for name in ("ngram", "draft", "sampled", "oracle 0.5"):
        drafter = drafters(target, other)[name]
        together = mt.generate(target, prompts, drafter, max_new_tokens=10, seed=[1, 2, 3])
        alone = [mt.generate(target, p, drafter, max_new_tokens=10, seed=s) for p, s in zip(prompts, (1, 2, 3))]
        assert [g.tokens for g in together] == [g.tokens for g in alone], name


def test_a_whole_number_as_seed_keys_each_sequence_by_seed_and_place():
    drafter = drafters(TOY, OTHER)["sampled"]

    def run(prompts, seed):
        found = mt.generate(TOY, prompts, drafter, max_new_tokens=8, seed=seed)
        return [g.tokens for g in found] if isinstance(found, list) else found.tokens

    together = run(PROMPTS, 5)
    assert together == run(PROMPTS, [(5, 0), (5, 1), (5, 2), (5, 3)]) == run(PROMPTS, [5, (5, 1), [5, 2], (5, 3)])
    assert together == run(PROMPTS, torch.tensor([[5, i] for i in range(4)]))
    assert together != run(PROMPTS, 50)
    for i, prompt in enumerate(PROMPTS):
        for seed in ((5, i), [(5, i)], [[5, i]], (np.int64(5), i)):
            assert run(prompt, seed) == together[i]
        assert run([prompt], [(5, i)]) == [together[i]]
    # Two prompts and two numbers: a seed each, whether in a tuple or in a list.
    assert run(PROMPTS[:2], (7, 2)) == run(PROMPTS[:2], [7, 2]) == [run(PROMPTS[0], 7), run(PROMPTS[1], 2)]


def test_a_loop_over_seeds_repeats_no_text():
    """Sequence i of seed s once had the stream s + i, so that 16 texts of four seeds were 7 different ones."""
    texts = [tuple(g.tokens) for s in range(4) for g in mt.generate(TOY, [[1]] * 4, max_new_tokens=32, seed=s)]
    assert len(texts) == len(set(texts)) == 16


@pytest.mark.parametrize("rule", LOSSLESS)
def test_a_shorter_budget_gives_a_prefix(rule):
    for name, drafter in drafters(TOY, OTHER).items():
        long = mt.generate(TOY, PROMPTS, drafter, rule, max_new_tokens=14, seed=11)
        for budget in (1, 2, 3, 6, 13):
            short = mt.generate(TOY, PROMPTS, drafter, rule, max_new_tokens=budget, seed=11)
            assert [g.tokens for g in short] == [g.tokens[:budget] for g in long], name


def test_drafts_and_coins_come_from_different_streams():
    drafting, verifying = set(), set()

    class Sampled(Says):
        def propose(self, k, sampling, uniforms):
            drafting.update(uniforms.flatten().tolist())
            return super().propose(k, sampling, uniforms)

    class Coins(mt.Hooks):
        def uniforms(self, generators, drafted):
            found = super().uniforms(generators, drafted)
            verifying.update(found.flatten().tolist())
            return found

    mt.generate(TOY, [[0]] * 20, Sampled(lambda said, k: [1] * k), max_new_tokens=20, hooks=Coins())
    assert len(drafting) > 500 and len(verifying) > 1000
    assert not (drafting & verifying) - {0.0}  # 0 fills the rows of sequences that draw fewer


# -- Accounting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sampling", [GREEDY, mt.Sampling(temperature=0.8)], ids=["greedy", "sampled"])
def test_rounds_add_up_to_the_text_and_to_the_model_calls(rule, sampling):
    for target, other in ((TOY, OTHER), (ENDING, ENDING_OTHER)):
        for name in ("ngram", "draft", "sampled"):
            with Calls(target) as calls:
                g = mt.generate(
                    target, PROMPTS[1], drafters(target, other)[name], rule, sampling=sampling, seed=2,
                    max_new_tokens=21,
                )  # fmt: skip
            assert [token for r in g.rounds for token in r.tokens] == g.tokens
            assert g.target_calls == len(calls) == len(g.rounds)
            assert calls.widths[0] == len(PROMPTS[1])
            for r, ids in zip(g.rounds[1:-1], calls.ids[1:-1], strict=True):
                # One row for the last token and one for each draft token: nothing is read twice.
                assert ids.shape == (1, r.num_drafted + 1)
                assert ids[0, 1:].tolist() == list(r.draft_tokens)
            text = list(g.prompt_tokens) + g.tokens
            for r, ids in zip(g.rounds[1:], calls.ids[1:], strict=True):
                assert ids[0, 0] == text[r.cache_before]
            for one, two in itertools.pairwise(g.rounds):
                assert one.cache_after == two.cache_before
            for r in g.rounds[1:]:
                assert r.cache_written == r.cache_before + calls.widths[r.index]
                assert r.cache_after == r.cache_before + 1 + r.num_accepted
                assert len(r.kinds) == len(r.tokens) and r.tokens[: r.num_accepted] == r.draft_tokens[: r.num_accepted]
                assert len(r.draft_probs) == len(r.target_probs) == len(r.coins) == r.num_drafted
            assert g.rounds[-1].cache_after <= len(text)
            assert g.kinds == [kind for r in g.rounds for kind in r.kinds] and g.kinds[0] == "prefill"


def test_a_ragged_batch_is_one_model_call_a_round():
    drafter = drafters(TOY, OTHER)["ngram"]
    with Calls(TOY) as calls:
        fast = mt.generate(TOY, PROMPTS, drafter, sampling=GREEDY, max_new_tokens=12)
    assert len(calls) == max(g.target_calls for g in fast)
    assert calls.widths[0] == max(map(len, PROMPTS))
    for index, ids in enumerate(calls.ids[1:], 1):
        live = [g.rounds[index] for g in fast if len(g.rounds) > index]
        assert len(ids) == len(live)
        assert ids.shape[1] == max(r.cache_written - r.cache_before for r in live)


def test_rates_against_a_count_by_hand():
    # The toy says b c d e f g h a …; the drafts below are right for 2, 0, 3 and 1 tokens.
    target = cycle(8)
    right = iter([2, 0, 3, 1])

    def plan(said, k):
        n = next(right)
        return [(said[-1] + 1 + i) % 8 if i < n else said[-1] for i in range(k)]

    g = mt.generate(target, "a", Says(plan), num_speculative_tokens=3, sampling=GREEDY, max_new_tokens=11)
    assert g.tokens == [(1 + i) % 8 for i in range(11)]
    assert [r.tokens for r in g.rounds] == [(1,), (2, 3, 4), (5,), (6, 7, 0, 1), (2, 3)]
    assert [r.num_accepted for r in g.rounds] == [0, 2, 0, 3, 1]
    assert [r.kinds[-1] for r in g.rounds] == ["prefill", "recovered", "recovered", "bonus", "recovered"]
    # The text ended with the last round's recovered token: its third draft token lies past the end and doesn't count.
    assert [r.num_drafted for r in g.rounds] == [0, 3, 3, 3, 2]
    assert g.target_calls == 5 and g.num_drafted == 11 and g.num_accepted == 6
    assert g.acceptance_rate == pytest.approx(6 / 11)
    assert g.mean_acceptance_length == pytest.approx(10 / 4)
    assert g.acceptance_by_position == pytest.approx([3 / 4, 2 / 4, 1 / 3])


def test_rates_of_a_plain_text_are_not_a_number():
    g = mt.generate(TOY, [1], max_new_tokens=4)
    assert math.isnan(g.acceptance_rate) and g.mean_acceptance_length == 1.0
    assert math.isnan(mt.generate(TOY, [1], max_new_tokens=1).mean_acceptance_length)


def test_stream_yields_the_rounds_that_generate_keeps():
    seen = list(mt.stream(TOY, PROMPTS, "oracle", max_new_tokens=9, seed=4))
    kept = mt.generate(TOY, PROMPTS, "oracle", max_new_tokens=9, seed=4)
    still = {"seconds_drafting": 0, "seconds_verifying": 0, "seconds_elsewhere": 0}
    ordered = sorted(seen, key=lambda r: (r.sequence, r.index))
    assert [replace(r, **still) for r in ordered] == [replace(r, **still) for g in kept for r in g.rounds]
    assert [r.sequence for r in seen[:4]] == [0, 1, 2, 3] and all(r.is_prefill for r in seen[:4])
    assert all(r.seconds >= 0 for r in seen)
    with pytest.raises(ValueError, match="unknown verify rule"):  # before the first round is asked for
        mt.stream(TOY, [1], rule="no such rule")
    with pytest.raises(ValueError, match="stream has no option 'nope'.*max_new_tokens"):
        mt.stream(TOY, [1], nope=1)


# -- What a round records -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_what_observe_sees_reproduces_the_verdict_and_is_what_rounds_record(rule):
    for name in ("draft", "sampled", "ngram"):
        watch = Watch()
        found = mt.generate(
            TOY, PROMPTS, drafters(TOY, OTHER)[name], rule, max_new_tokens=12, seed=8, hooks=watch,
            sampling=mt.Sampling(temperature=0.9, top_p=0.95),
        )  # fmt: skip
        assert [len(seen[0]) for seen in watch.seen][0] == 4
        for index, (sequences, draft, target_probs, uniforms, verdict) in enumerate(watch.seen):
            checked = mt.Draft(draft.tokens, draft.probs)
            again = mt.verify("rejection" if index == 0 else rule, checked, target_probs, uniforms)
            assert torch.equal(again.tokens, verdict.tokens)
            assert torch.equal(again.num_accepted, verdict.num_accepted) and torch.equal(again.bonus, verdict.bonus)
            for row, sequence in enumerate(sequences):
                r = found[sequence].rounds[index]
                assert list(r.tokens) == verdict.tokens[row, : len(r.tokens)].tolist()
                k = r.num_drafted
                assert list(r.draft_tokens) == draft.tokens[row, :k].tolist()
                assert list(r.coins) == uniforms[row, :k, 0].tolist()
                assert list(r.draws)[: k + 1] == uniforms[row, : k + 1, 1].tolist()[: len(r.draws)]
                for i, token in enumerate(r.draft_tokens):
                    assert r.target_probs[i] == target_probs[row, i, token]
                    assert r.draft_probs[i] == (1.0 if draft.probs is None else draft.probs[row, i, token])


def test_a_round_alone_tells_why_each_draft_token_was_accepted():
    found = mt.generate(TOY, PROMPTS, drafters(TOY, OTHER)["sampled"], max_new_tokens=40, seed=1)
    outcomes = set()
    for r in (r for g in found for r in g.rounds):
        passed = [coin < min(1, p / q) for coin, p, q in zip(r.coins, r.target_probs, r.draft_probs, strict=True)]
        accepted = passed.index(False) if False in passed else len(passed)
        assert r.num_accepted == accepted
        outcomes.add((r.num_drafted, accepted))
    assert len(outcomes) > 3


def test_a_neighbour_does_not_change_how_many_numbers_a_sequence_draws():
    drafted_lengths = set()

    class Count(mt.Hooks):
        def uniforms(self, generators, drafted):
            before = [source.get_state() for source in generators]
            found = super().uniforms(generators, drafted)
            for row, (source, state, k) in enumerate(zip(generators, before, drafted, strict=True)):
                drafted_lengths.add(k)
                again = torch.Generator()
                again.set_state(state)
                numbers = torch.rand(2 * k + 1, generator=again, dtype=torch.float64)  # k coins, then k + 1 draws
                assert torch.equal(again.get_state(), source.get_state())
                assert torch.equal(found[row, :k, 0], numbers[:k]) and torch.equal(found[row, : k + 1, 1], numbers[k:])
            return found

    mt.generate(TOY, PROMPTS, "ngram", max_new_tokens=10, hooks=Count())
    assert len(drafted_lengths) > 1


# -- Hooks ----------------------------------------------------------------------------------------------------------


class Spoil(mt.Hooks):
    """Puts a value into the logits of one row, in one round."""

    def __init__(self, value: float, row: int, everywhere: bool = False) -> None:
        self.value, self.row, self.everywhere, self.calls = value, row, everywhere, 0

    def probabilities(self, logits, *rest):
        self.calls += 1
        if self.calls == 3:
            logits = logits.clone()
            if self.everywhere:
                logits[0, self.row] = self.value
            else:
                logits[0, self.row, 2] = self.value
        return super().probabilities(logits, *rest)


@pytest.mark.parametrize("row", [0, 1, 3])
@pytest.mark.parametrize("value,everywhere", [(math.nan, False), (math.inf, False), (-math.inf, True)])
@pytest.mark.parametrize("sampling", [GREEDY, mt.Sampling()], ids=["greedy", "sampled"])
def test_bad_logits_in_a_used_row_raise(row, value, everywhere, sampling):
    with pytest.raises(ValueError, match="no distribution"):
        mt.generate(
            TOY, [1, 2], "oracle", num_speculative_tokens=3, sampling=sampling, max_new_tokens=30,
            hooks=Spoil(value, row, everywhere),
        )  # fmt: skip


def test_bad_logits_in_a_padding_row_do_not_matter():
    # Sequence 0 drafts nothing, so rows 1 and 2 of the batch are padding for it.
    for row in (1, 2):
        drafter = Says(None)
        drafter.propose = lambda k, sampling, uniforms: mt.Draft(torch.tensor([[-1, -1], [1, 1]]))
        clean = mt.generate(TOY, [[1], [2]], drafter, max_new_tokens=3)
        spoilt = mt.generate(TOY, [[1], [2]], drafter, max_new_tokens=3, hooks=Spoil(math.nan, row))
        assert [g.tokens for g in clean] == [g.tokens for g in spoilt]


def test_a_drafter_whose_probabilities_are_nan_is_reported():
    broken = random_toy(6, order=2, seed=2)
    broken.model.lm_head.weight[:] = math.nan
    with pytest.raises(ValueError, match="drafter gave probabilities that hold NaN"):
        mt.generate(TOY, [1, 2], mt.load_drafter("draft", TOY, model=broken, temperature=1.0), max_new_tokens=5)


def test_hooks_may_change_when_a_text_ends():
    class Never(mt.Hooks):
        def ends(self, token, eos_ids, accepted):
            return False

    target = cycle(4, eos="c")
    assert mt.generate(target, "a", sampling=GREEDY, max_new_tokens=9).tokens == [1, 2]
    assert len(mt.generate(target, "a", sampling=GREEDY, max_new_tokens=9, hooks=Never()).tokens) == 9


# -- Penalties ------------------------------------------------------------------------------------------------------

PENALTIES = [{"repetition_penalty": 1.7}, {"frequency_penalty": 0.6}, {"presence_penalty": 0.9},
             {"repetition_penalty": 1.3, "frequency_penalty": 0.3, "presence_penalty": -0.2}]  # fmt: skip


def penalised_by_hand(target, prompt, steps, repetition_penalty=1.0, frequency_penalty=0.0, presence_penalty=0.0):
    """Greedy decoding with penalties, one token after the other and without any of the loop."""
    text = list(prompt)
    for _ in range(steps):
        logits = target.model(input_ids=torch.tensor([text])).logits[0, -1].tolist()
        output = text[len(prompt) :]
        for token in range(len(logits)):
            if token in text:
                logits[token] *= 1 / repetition_penalty if logits[token] > 0 else repetition_penalty
            logits[token] -= frequency_penalty * output.count(token) + presence_penalty * (token in output)
        text.append(logits.index(max(logits)))
    return text[len(prompt) :]


@pytest.mark.parametrize("penalties", PENALTIES)
def test_penalties_count_the_draft_tokens_before_each_row(penalties):
    sampling = mt.Sampling(temperature=0, **penalties)
    by_hand = [penalised_by_hand(TOY, prompt, 16, **penalties) for prompt in PROMPTS]
    unpenalised = mt.generate(TOY, PROMPTS, sampling=GREEDY, max_new_tokens=16)
    assert by_hand != [g.tokens for g in unpenalised]  # they bite
    plain = mt.generate(TOY, PROMPTS, sampling=sampling, max_new_tokens=16)
    assert [g.tokens for g in plain] == by_hand
    recorded = mt.load_drafter("oracle", TOY, continuation=plain)  # all accepted, so rows late in a draft count
    for name, drafter in {**drafters(TOY, OTHER), "recorded": recorded}.items():
        fast = mt.generate(TOY, PROMPTS, drafter, sampling=sampling, max_new_tokens=16)
        assert [g.tokens for g in fast] == by_hand, name


def test_penalties_that_forget_the_draft_would_show():
    class Forget(mt.Hooks):
        def probabilities(self, logits, sampling, history, prompt_lengths, draft):
            return super().probabilities(logits, sampling, history, prompt_lengths, None)

    sampling = mt.Sampling(temperature=0, frequency_penalty=0.6)
    plain = mt.generate(TOY, PROMPTS, sampling=sampling, max_new_tokens=16)
    recorded = mt.load_drafter("oracle", TOY, continuation=plain)
    wrong = mt.generate(TOY, PROMPTS, recorded, sampling=sampling, max_new_tokens=16, hooks=Forget())
    assert [g.tokens for g in wrong] != [g.tokens for g in plain]


def test_a_draft_model_applies_the_penalties_to_its_own_rows():
    self_draft = mt.load_drafter("draft", TOY, model=TOY, temperature="same")
    for temperature, penalties in itertools.product((0, 0.7), PENALTIES):
        sampling = mt.Sampling(temperature=temperature, **penalties)
        found = mt.generate(
            TOY, PROMPTS, self_draft, num_speculative_tokens=7, sampling=sampling, max_new_tokens=25
        )  # fmt: skip
        assert [g.acceptance_rate for g in found] == [1.0] * 4  # it drafts just what the penalised target says


# -- The law, end to end --------------------------------------------------------------------------------------------

LAW_TOY = random_toy(3, order=2, seed=7, spread=0.8)
LAW_DRAFT = random_toy(3, order=2, seed=8, spread=0.8)
LAW_PROMPT = [0, 1]
LENGTH = 4  # the prefill's token, then rounds of up to three
ALPHA = 1e-4

R1 = Rule(
    "R1", lambda draft, p, u: _resample_from_the_full_row(draft, p, u), False, True,
    "After a rejection it draws from the full p: the draft token gets a second chance.", "a known fault",
    points(None, full_row),
)  # fmt: skip


def _resample_from_the_full_row(draft, target_probs, uniforms):
    p = target_probs[:, :-1].gather(2, draft.tokens.clamp_min(0)[..., None])[..., 0]
    q = (
        torch.ones_like(p)
        if draft.probs is None
        else draft.probs.gather(2, draft.tokens.clamp_min(0)[..., None])[..., 0]
    )
    n = leading(uniforms[:, :-1, 0] * q < p, draft)
    return conclude(draft, n, inverse_cdf(row_at(target_probs, n), draw_at(uniforms, n)))


def exact_law(sampling) -> dict[tuple[int, ...], float]:
    """The law of LENGTH tokens of plain decoding, by enumeration."""
    law = {(): 1.0}
    for _ in range(LENGTH):
        longer = {}
        for said, weight in law.items():
            logits = LAW_TOY.model(input_ids=torch.tensor([LAW_PROMPT + list(said)])).logits[:, -1]
            history = torch.tensor([LAW_PROMPT + list(said)])
            row = mt.probabilities(logits, sampling, history, torch.tensor([len(LAW_PROMPT)]))[0]
            for token, p in enumerate(row.tolist()):
                if p > 0:
                    longer[(*said, token)] = weight * p
        law = longer
    return law


def enough_samples() -> int:
    """How many samples the joint test needs to find R1 with near certainty, from R1's exact law of token 2.

    The joint law is at least as far from the right one as the law of tokens 1 and 2 alone.
    """
    distance = 0.0
    for first in range(3):
        logits = LAW_TOY.model(input_ids=torch.tensor([[*LAW_PROMPT], [LAW_PROMPT[1], first]])).logits[:, -1]
        p_first, p = logits.softmax(-1)
        draft = LAW_DRAFT.model(input_ids=torch.tensor([[LAW_PROMPT[1], first]])).logits[0, -1].argmax()
        biased = (1 - p[draft]) * p
        biased[draft] += p[draft]
        distance += float(p_first[first] * ((biased - p) ** 2 / p).sum())
    cells = 3**LENGTH
    critical = stats.chi2.isf(ALPHA, cells - 1)
    return next(n for n in range(100, 100_000, 100) if stats.ncx2.sf(critical, cells - 1, n * distance) > 1 - 1e-6)


SAMPLES = enough_samples()


def p_value(samples: list[tuple[int, ...]], law: dict[tuple[int, ...], float]) -> float:
    """χ² of the samples against the law; cells that expect fewer than 5 are pooled."""
    counts = dict.fromkeys(law, 0)
    for sample in samples:
        if sample not in counts:
            return 0.0
        counts[sample] += 1
    observed, expected, rest = [], [], [0, 0.0]
    for sample, p in law.items():
        if p * len(samples) >= 5:
            observed.append(counts[sample])
            expected.append(p * len(samples))
        else:
            rest = [rest[0] + counts[sample], rest[1] + p * len(samples)]
    if rest[1]:
        observed.append(rest[0])
        expected.append(rest[1])
    return float(stats.chisquare(observed, expected, sum_check=False).pvalue)


def sampled(rule, drafter, sampling, seed) -> list[tuple[int, ...]]:
    found = mt.generate(
        LAW_TOY, [LAW_PROMPT] * SAMPLES, drafter, rule, num_speculative_tokens=2, sampling=sampling,
        max_new_tokens=LENGTH, seed=seed,
    )  # fmt: skip
    return [tuple(g.tokens) for g in found]


def law_drafter(way: str):
    if way == "ngram":
        return mt.load_drafter("ngram", LAW_TOY)
    if way == "greedy":
        return mt.load_drafter("draft", LAW_TOY, model=LAW_DRAFT)
    return mt.load_drafter("draft", LAW_TOY, model=LAW_DRAFT, temperature=1.3)


SHAPED = {
    "plain": mt.Sampling(),
    "penalties": mt.Sampling(temperature=0.9, repetition_penalty=1.4, frequency_penalty=0.5),
    "cut": mt.Sampling(temperature=1.2, top_k=2),
}


def test_the_number_of_samples_finds_the_known_fault():
    assert 200 < SAMPLES < 20_000


@pytest.mark.parametrize("way", ["ngram", "greedy", "sampled"])
@pytest.mark.parametrize("rule", LOSSLESS)
def test_the_joint_law_of_a_text_is_that_of_plain_decoding(rule, way):
    seed = 1 + LOSSLESS.index(rule) * 3 + ["ngram", "greedy", "sampled"].index(way)
    assert p_value(sampled(rule, law_drafter(way), mt.Sampling(), seed), exact_law(mt.Sampling())) > ALPHA


@pytest.mark.parametrize("shape", ["penalties", "cut"])
@pytest.mark.parametrize("way", ["greedy", "sampled"])
def test_the_joint_law_holds_under_penalties_and_cuts(way, shape):
    seed = 20 + ["greedy", "sampled"].index(way) * 2 + ["penalties", "cut"].index(shape)
    samples = sampled("rejection", law_drafter(way), SHAPED[shape], seed)
    assert p_value(samples, exact_law(SHAPED[shape])) > ALPHA
    assert p_value(samples, exact_law(mt.Sampling())) < ALPHA  # and it is not the law without them


def test_the_same_test_finds_a_broken_rule():
    assert p_value(sampled(R1, law_drafter("greedy"), mt.Sampling(), 30), exact_law(mt.Sampling())) < ALPHA
    assert p_value(sampled("greedy", law_drafter("greedy"), mt.Sampling(), 32), exact_law(mt.Sampling())) < ALPHA


# -- Bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options,message",
    [
        ({"num_speculative_tokens": -1}, "from 0 to 64"),
        ({"num_speculative_tokens": 65}, "from 0 to 64"),
        ({"num_speculative_tokens": True}, "from 0 to 64"),
        ({"num_speculative_tokens": "4"}, "from 0 to 64"),
        ({"rule": "no such rule"}, "known: greedy, rejection"),
        ({"rule_params": {"delta": 0.5}}, "no parameter 'delta'"),
        ({"rule": "relaxed", "rule_params": {"delta": 2}}, "from 0 to 1"),
        ({"drafter": "no such drafter"}, "known: ngram, draft, oracle"),
        ({"drafter": 3}, "a name that load_drafter knows"),
        ({"max_new_tokens": 0}, "1 or more"),
        ({"max_new_tokens": 2.5}, "1 or more"),
        ({"stop": ""}, "not empty"),
        ({"stop": ["a", 3]}, "not empty"),
        ({"stop": 3}, "not empty"),
        ({"seed": -1}, "0 or more"),
        ({"seed": 1.5}, "whole number"),
        ({"seed": [1, 2]}, r"2 seeds for 1 prompts.*\[\(s, i\)\]"),
        ({"seed": (1, -2)}, r"seed=\(1, -2\).*0 or more"),
        ({"seed": (1, 2, 3)}, "3 seeds for 1 prompts"),
        ({"seed": [(1, 2, 3)]}, r"pair \(seed, sequence\)"),
        ({"seed": 2**128}, r"below 2\*\*128"),
        ({"sampling": 0.6}, "mt.Sampling"),
        ({"prompts": []}, "empty"),
        ({"prompts": ""}, "empty"),
        ({"prompts": [[]]}, "empty"),
        ({"prompts": [1.0, 2.0]}, "a list of ids"),
        ({"prompts": [None]}, "a list of ids"),
        ({"prompts": None}, "a list of ids"),
        ({"prompts": {"role": "user"}}, "a list of ids"),
        ({"prompts": [0, 6]}, "ids 0 to 5"),
        ({"prompts": [-1]}, "ids 0 to 5"),
        ({"prompts": [0] * 70000}, "shorten it"),
        ({"target": "toy"}, "what mt.load returned"),
    ],
)
def test_bad_input_raises_before_anything_is_decoded(options, message):
    options = {"target": TOY, "prompts": [1, 2], "max_new_tokens": 3, **options}
    with Calls(TOY) as calls, pytest.raises(ValueError, match=message):
        mt.generate(**options)
    assert not len(calls)


def test_a_drafter_for_another_vocabulary_is_refused():
    drafter = mt.load_drafter("oracle", random_toy(5))
    with pytest.raises(ValueError, match="vocabulary of 5 tokens, random toy .* one of 6"):
        mt.generate(TOY, [1, 2], drafter)


def test_a_controller_must_choose_for_each_sequence():
    class Short:
        def choose(self, sequences):
            return [1]

        def observe(self, rounds):
            pass

    with pytest.raises(ValueError, match="1 draft lengths for 2"):
        mt.generate(TOY, [[1], [2]], "oracle", num_speculative_tokens=Short())
    with pytest.raises(ValueError, match="from 0 to 64"):
        mt.generate(TOY, [[1], [2]], "oracle", num_speculative_tokens=Changing([99]))


def test_prompts_in_every_form():
    cat = mt.load("toy")
    ids = cat.tokenizer("the cat")["input_ids"]
    one = mt.generate(cat, "the cat", max_new_tokens=5)
    for prompt in (ids, tuple(ids), torch.tensor(ids)):
        assert mt.generate(cat, prompt, max_new_tokens=5).tokens == one.tokens
    several = mt.generate(cat, ["the cat", ids, tuple(ids)], max_new_tokens=5, seed=[0, 0, 0])
    assert [g.tokens for g in several] == [one.tokens] * 3
    batch = mt.generate(cat, torch.tensor([ids, ids]), max_new_tokens=5)
    assert isinstance(batch, list) and len(batch) == 2 and batch[0].tokens == one.tokens
