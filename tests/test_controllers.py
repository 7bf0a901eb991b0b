"""Controllers: each decides as it says, leaves every text exactly or in law as it was, and sees only the past."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

import mtp_tutorial as mt
from mtp_tutorial.lab import theory
from mtp_tutorial.lab.controllers import ByAcceptance, ByBatchSize, ByThroughput, Fixed
from mtp_tutorial.models import toys
from mtp_tutorial.models.toys import random_toy
from mtp_tutorial.records import Draft, Round

GREEDY = mt.Sampling(temperature=0)
TABLE = [(1, 1, 5), (2, 3, 2), (4, 9, 0)]


class Clocked:
    """Another controller, told of seconds that are a function of batch and k: nothing depends on the machine."""

    def __init__(self, controller, seconds=lambda batch, k: 1 + 0.1 * k) -> None:
        self.controller, self.seconds, self.lengths = controller, seconds, []

    def choose(self, sequences):
        self.lengths.append(list(self.controller.choose(sequences)))
        return self.lengths[-1]

    def observe(self, rounds):
        k = 0 if rounds[0].is_prefill else max(self.lengths[-1])
        seconds = {"seconds_drafting": 0.0, "seconds_verifying": self.seconds(len(rounds), k), "seconds_elsewhere": 0.0}
        self.controller.observe([replace(one, **seconds) for one in rounds])


CONTROLLERS = {
    "fixed": lambda: Fixed(3),
    "acceptance": lambda: ByAcceptance(max_k=6),
    "batch size": lambda: ByBatchSize(TABLE),
    "throughput": lambda: Clocked(ByThroughput(explore_every=5)),
}
each = pytest.mark.parametrize("make", CONTROLLERS.values(), ids=CONTROLLERS)


def round_(accepted: int, drafted: int, sequence: int = 0, index: int = 1, seconds: float = 1.0) -> Round:
    last = "plain" if not drafted else "bonus" if accepted == drafted else "recovered"
    kinds = ("accepted",) * accepted + (last if index else "prefill",)
    return Round(sequence, index, (0,) * len(kinds), kinds, (0,) * drafted, num_accepted=accepted,
                 seconds_verifying=seconds)  # fmt: skip


# -- Lossless -------------------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("rule", ["rejection", "greedy", "block"])
def test_at_temperature_zero_the_text_is_that_of_plain_decoding(make, rule):
    target, other = random_toy(6, order=2, seed=4, eos=True), random_toy(6, order=2, seed=5, eos=True)
    prompts = [[0], [1, 2, 3, 1, 2], [5, 4, 4, 0, 1], [2, 2]]
    plain = mt.generate(target, prompts, sampling=GREEDY, max_new_tokens=20)
    for drafter in (mt.load_drafter("ngram", target), mt.load_drafter("draft", target, model=other)):
        fast = mt.generate(target, prompts, drafter, rule, num_speculative_tokens=make(), sampling=GREEDY,
                           max_new_tokens=20)  # fmt: skip
        assert [g.tokens for g in fast] == [g.tokens for g in plain]


P, Q = (0.5, 0.3, 0.2), (0.2, 0.3, 0.5)


def same_row(probs):
    """A toy that says the same row after any text."""
    return toys.make("row", ["a", "b", "c"], torch.tensor([probs] * 4, dtype=torch.float64))


class Dropping:
    """Bug R19: drafts what another drafter draws, but stops before a token that is improbable under its own q."""

    needs_hidden = ()

    def __init__(self, drafter) -> None:
        self.drafter = drafter
        self.start, self.commit, self.keep = drafter.start, drafter.commit, drafter.keep

    def propose(self, k, sampling, uniforms):
        draft = self.drafter.propose(k, sampling, uniforms)
        q = draft.probs.gather(2, draft.tokens.clamp_min(0)[..., None])[..., 0]
        bad = ((draft.tokens < 0) | (q < 0.25)).cumsum(1) > 0
        return Draft(draft.tokens.masked_fill(bad, -1), draft.probs)


def p_value(controller, spoil=lambda drafter: drafter, runs: int = 3000) -> float:
    """χ² of the law of tokens 2 and 3 (the first comes from the prefill) against p · p."""
    target = same_row(P)
    drafter = spoil(mt.load_drafter("draft", target, model=same_row(Q), temperature=1.0))
    made = mt.generate(target, [[0]] * runs, drafter, num_speculative_tokens=controller, max_new_tokens=3, seed=7)
    counts = Counter(tuple(g.tokens[1:]) for g in made)
    pairs = [(a, b) for a in range(3) for b in range(3)]
    return stats.chisquare([counts[pair] for pair in pairs], [runs * P[a] * P[b] for a, b in pairs]).pvalue


@each
def test_the_law_is_the_targets(make):
    assert p_value(make()) > 1e-3


def test_the_test_of_the_law_finds_a_decision_that_looks_at_the_token():
    assert p_value(Fixed(2), Dropping) < 1e-9


class Order:
    """Writes down who is called when, and what the controller is given."""

    def __init__(self, controller, drafter) -> None:
        self.controller, self.drafter, self.calls, self.seen = controller, drafter, [], {}
        self.needs_hidden, self.commit, self.keep = drafter.needs_hidden, drafter.commit, drafter.keep
        self.start = drafter.start

    def choose(self, sequences):
        self.calls.append("choose")
        assert all(type(i) is int for i in sequences)  # numbers of sequences, nothing else
        return self.controller.choose(sequences)

    def observe(self, rounds):
        self.calls.append("observe")
        for one in rounds:  # each round once, in order, after it is over
            assert one.index == self.seen.get(one.sequence, -1) + 1 and one.tokens
            self.seen[one.sequence] = one.index
        self.controller.observe(rounds)

    def propose(self, k, sampling, uniforms):
        self.calls.append("propose")
        return self.drafter.propose(k, sampling, uniforms)


@each
def test_a_controller_is_asked_before_anything_is_drafted(make):
    target = random_toy(5, order=2, seed=1)
    spy = Order(make(), mt.load_drafter("draft", target, model=random_toy(5, order=1, seed=2), temperature=1.0))
    mt.generate(target, [[0], [1, 2]], spy, num_speculative_tokens=spy, max_new_tokens=12)
    assert spy.calls[0] == "observe"  # the prefill
    assert spy.calls[1:] == ["choose", "propose", "observe"] * ((len(spy.calls) - 1) // 3)


# -- By recent acceptance -------------------------------------------------------------------------------------------


def test_acceptance_goes_up_and_down_one_step_beyond_what_was_accepted():
    controller = ByAcceptance(max_k=8, start=2, smoothing=0.5)
    assert controller.choose([0, 1]) == [3, 3]
    for _ in range(20):
        k = controller.choose([0, 1])
        controller.observe([round_(k[0], k[0], 0), round_(0, k[1], 1)])
    assert controller.choose([0, 1]) == [8, 1]


def test_acceptance_begins_anew_with_a_new_text_and_forgets_those_that_left():
    controller = ByAcceptance(start=2)
    controller.observe([round_(0, 3, 0), round_(0, 3, 1)] * 20)
    assert controller.choose([0, 1]) == [1, 1]
    controller.observe([round_(0, 0, 1, index=0)])
    assert controller.choose([1]) == [3] and set(controller.average) == {1}


def test_rounds_without_a_draft_teach_nothing():
    controller = ByAcceptance()
    before = controller.choose([0])
    controller.observe([round_(0, 0)] * 50)
    assert controller.choose([0]) == before


# -- By batch size --------------------------------------------------------------------------------------------------


def test_table_as_in_vllm():
    controller = ByBatchSize([[129, 512, 0], [1, 64, 3], [70, 128, 1]])
    found = {batch: controller.k_for(batch) for batch in (1, 64, 65, 69, 70, 128, 129, 512, 4096)}
    assert found == {1: 3, 64: 3, 65: 3, 69: 3, 70: 1, 128: 1, 129: 0, 512: 0, 4096: 0}
    assert controller.choose(range(70)) == [1] * 70 and controller.choose([]) == []


def test_the_engines_batch_shrinks_as_texts_end():
    toy = random_toy(6, order=2, seed=7, eos=True)
    watch = Clocked(ByBatchSize([(1, 1, 4), (2, 2, 2), (3, 9, 0)]))
    mt.generate(toy, [[0], [1], [2]], "ngram", num_speculative_tokens=watch, max_new_tokens=30)
    assert {len(row): set(row) for row in watch.lengths} == {3: {0}, 2: {2}, 1: {4}}


@pytest.mark.parametrize("alpha", [0.3, 0.8, [0.9, 0.5, 0.2]])
def test_a_table_made_from_the_roofline_is_its_best_k(alpha):
    sizes = theory.MODEL_70B, theory.DRAFTER_7B, theory.GPU
    controller = ByBatchSize(theory.batch_table(alpha, *sizes, limit=400, max_k=8))
    for batch in (1, 2, 7, 40, 66, 67, 82, 83, 150, 165, 200, 256, 300, 329, 330, 400):
        assert controller.k_for(batch) == theory.best_k_under_load(alpha, *sizes, batch, max_k=8)


# -- By throughput --------------------------------------------------------------------------------------------------


def play(controller, rates, seconds, batch: int, rounds: int, seed: int = 0) -> list[int]:
    """Rounds whose drafts are accepted with the given conditional rates; what was chosen in each."""
    rng, chosen = np.random.default_rng(seed), []
    for index in range(1, rounds + 1):
        lengths = controller.choose(list(range(batch)))
        chosen.append(lengths[0])
        made = []
        for s, k in enumerate(lengths):
            coins = rng.random(k) < np.array(rates[:k])
            made.append(round_(int(np.cumprod(coins).sum()), k, s, index, seconds(batch, lengths[0])))
        controller.observe(made)
    return chosen


@pytest.mark.parametrize(
    ("alpha", "cost", "best"), [(0.9, 0.1, 8), (0.5, 0.1, 2), (0.05, 0.1, 0), (0.9, 1.5, 0), (0.0, 0.05, 0)]
)
def test_throughput_comes_near_the_best_candidate(alpha, cost, best):
    controller = ByThroughput(candidates=(0, 1, 2, 4, 8))
    speeds = {k: theory.speedup(alpha, k, cost) for k in controller.candidates}
    assert speeds[best] == max(speeds.values())
    chosen = play(controller, [alpha] * 8, lambda batch, k: 1 + cost * k, batch=4, rounds=600)[200:]
    assert sum(speeds[k] for k in chosen) / len(chosen) > 0.96 * speeds[best]
    assert sum(speeds.values()) / len(speeds) < 0.9 * speeds[best]  # what choosing at random would bring


def test_throughput_switches_off_when_the_load_rises_and_on_again():
    def seconds(batch, k):
        return theory.round_seconds(theory.MODEL_70B, theory.DRAFTER_7B, theory.GPU, batch, k)

    controller = ByThroughput()
    alone = play(controller, [0.8] * 8, seconds, 1, 80)
    loaded = play(controller, [0.8] * 8, seconds, 400, 40)
    again = play(controller, [0.8] * 8, seconds, 1, 20)
    assert [Counter(x[-15:]).most_common(1)[0][0] for x in (alone, loaded, again)] == [4, 0, 4]


def test_throughput_follows_a_change_of_acceptance():
    controller = ByThroughput(decay=0.9)
    play(controller, [0.95] * 8, lambda batch, k: 1 + 0.1 * k, 2, 80)
    later = play(controller, [0.02] * 8, lambda batch, k: 1 + 0.1 * k, 2, 80)
    back = play(controller, [0.95] * 8, lambda batch, k: 1 + 0.1 * k, 2, 200)  # only exploring rounds can tell
    assert Counter(later[-20:]).most_common(1)[0][0] == 0 and Counter(back[-20:]).most_common(1)[0][0] == 8


def test_throughput_tries_each_candidate_at_each_class_of_batch_sizes():
    controller = ByThroughput(candidates=(0, 2, 5), tries=2)
    assert play(controller, [0.5] * 8, lambda batch, k: 1, 2, 6) == [0, 2, 5, 0, 2, 5]
    assert play(controller, [0.5] * 8, lambda batch, k: 1, 4, 6) == [0, 2, 5, 0, 2, 5]
    assert set(controller.predicted(3)) == {0, 2, 5} and controller.predicted(64) == {}


def test_throughput_rates_are_conditional_and_fall_back_on_the_position_before():
    controller = ByThroughput(candidates=(4,), decay=1.0)
    play(controller, [0.8, 0.5, 0.5, 0.5], lambda batch, k: 1, 50, 100)
    assert controller.rates(4) == pytest.approx([0.8, 0.5, 0.5, 0.5], abs=0.05)
    assert controller.rates(6)[4:] == [controller.rates(4)[3]] * 2
    assert ByThroughput().rates(2) == [0.5, 0.5]


def test_throughput_counts_what_a_drafter_did_not_propose_as_rejected():
    controller = ByThroughput(candidates=(4,), decay=1.0)
    controller.choose([0])
    controller.observe([round_(1, 1)])  # asked for 4, got 1
    assert controller.judged[:3] == [1, 1, 0] and controller.kept[:3] == [1, 0, 0]
    ended = replace(round_(1, 1), kinds=("accepted",), tokens=(0,))
    controller.observe([ended])  # the text ended inside its draft: position 2 was not judged
    assert controller.judged[:3] == [2, 1, 0]


# -- Bad input ------------------------------------------------------------------------------------------------------

BAD = [
    (lambda: Fixed(-1), "0 to 64"),
    (lambda: Fixed(65), "0 to 64"),
    (lambda: ByAcceptance(max_k=2, min_k=3), "not above max_k"),
    (lambda: ByAcceptance(smoothing=0), "above 0"),
    (lambda: ByAcceptance(smoothing=1.5), "at most 1"),
    (lambda: ByAcceptance(start=-1), "start=-1"),
    (lambda: ByBatchSize([]), "start at batch size 1"),
    (lambda: ByBatchSize([(2, 5, 1)]), "start at batch size 1"),
    (lambda: ByBatchSize([(1, 5, 1), (5, 9, 0)]), "batch size 5"),
    (lambda: ByBatchSize([(1, 5, 1), (7, 6, 0)]), "ends before"),
    (lambda: ByBatchSize([(1, 5, -1)]), "k=-1"),
    (lambda: ByBatchSize([(1, 5, 65)]), "0 to 64"),
    (lambda: ByBatchSize([(1, 5)]), "three numbers"),
    (lambda: ByBatchSize(3), "three numbers"),
    (lambda: ByThroughput(candidates=()), "empty"),
    (lambda: ByThroughput(candidates=(1, 99)), "0 to 64"),
    (lambda: ByThroughput(tries=0), "tries=0"),
    (lambda: ByThroughput(explore_every=1), "explore_every=1"),
    (lambda: ByThroughput(decay=2), "decay=2"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
