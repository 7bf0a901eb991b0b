"""The simulated server: times by hand where they can be worked out, theory where they can't, and who wins where."""

import math

import numpy as np
import pytest
from helpers import STEADY
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mtp_tutorial.lab import theory
from mtp_tutorial.lab.controllers import ByAcceptance, ByBatchSize, ByThroughput, Fixed
from mtp_tutorial.lab.server_sim import DRAFTER, TARGET, Request, compare, make_requests, simulate

ONE = theory.Machine(bandwidth=1.0, peak=1e9)  # a call takes as many seconds as bytes are read
BIG, SMALL = theory.Weights(10, 1), theory.Weights(1, 1)  # 10 s and 1 s
PAPER = {"target": BIG, "drafter": SMALL, "machine": ONE}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# -- By hand --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "k", "calls", "steps"), [(0.5, 0, 9, 0), (1, 4, 1 + 2, 8), (1, 3, 1 + 2, 6), (0, 4, 1 + 8, 32)]
)
def test_one_request_alone(alpha, k, calls, steps):
    outcome = simulate([Request(5.0, 3, 9, alpha)], Fixed(k), **PAPER)
    (one,) = outcome.served
    assert one.started == 5 and one.first_token == 15 and one.finished == 5 + 10 * calls + steps
    assert one.tokens == 9 and one.rounds == calls - 1
    assert one.latency == 10 * calls + steps and one.time_per_token == (one.latency - 10) / 8


def test_first_come_first_served_and_never_more_than_the_limit():
    outcome = simulate([Request(t, 1, 4, 0.5) for t in (0.0, 1.0, 2.0)], Fixed(0), max_batch=2, **PAPER)
    # 0-10 the first alone; 10-40 with the second; the third enters when the first one has left, at 40
    assert [(s.started, s.finished) for s in outcome.served] == [(0, 40), (10, 50), (40, 80)]
    assert [live for _, live, _, _ in outcome.steps] == [1, 2, 2, 2, 2, 1, 1, 1]


def test_a_prompt_is_rows_of_the_call_and_context_of_the_next():
    machine, weights = theory.Machine(1e9, 1.0), theory.Weights(0.5, 1, kv_bytes=1e9)  # a row is a second, as is a slot
    (one,) = simulate([Request(0, 7, 2, 0.5)], Fixed(0), weights, SMALL, machine).served
    assert one.first_token == 7 and one.finished == 7 + (0.5 + 8e9) / 1e9  # 7 of the prompt, 1 emitted


def test_a_draft_step_reads_the_drafter_once_for_those_who_still_draft():
    class Ragged:
        def choose(self, sequences):
            return [3 if s == 0 else 1 for s in sequences]

        def observe(self, rounds):
            pass

    machine = theory.Machine(1e9, 2.0)  # a row of a weight is a second
    outcome = simulate([Request(0, 1, 2, 0.5)] * 2, Ragged(), theory.Weights(10), theory.Weights(1), machine)
    assert [took for *_, took in outcome.steps] == [20, (2 + 1 + 1) + 10 * (4 + 2)]


# -- Against theory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.7, [0.9, 0.5, 0.3]])
def test_tokens_a_round_are_those_of_theory(alpha):
    (one,) = simulate([Request(0, 1, 20_000, alpha, seed=3)], Fixed(3), **PAPER).served
    mean, spread = one.tokens / one.rounds, 2 / math.sqrt(one.rounds)
    wrong = theory.survival(alpha, 3)  # shares of all rounds taken for conditional rates
    assert abs(mean - theory.expected_tokens(alpha, 3)) < 3 * spread
    assert abs(mean - theory.expected_tokens(wrong, 3)) > 5 * spread
    speed = theory.tokens_per_second(alpha, BIG, SMALL, ONE, 1, 3)
    assert one.tokens / one.latency == pytest.approx(speed, rel=0.03)


def test_arrivals_are_a_poisson_process():
    def p_value(rate):
        times = [r.arrival for r in make_requests(2000, rng(1), {"a": 0.5}, rate=4.0)]
        return stats.kstest(np.diff(times), "expon", args=(0, 1 / rate)).pvalue

    assert p_value(4.0) > 1e-3 and p_value(5.0) < 1e-6


# -- Invariants -----------------------------------------------------------------------------------------------------

POLICIES = {
    "k = 0": lambda: Fixed(0),
    "k = 4": lambda: Fixed(4),
    "by acceptance": ByAcceptance,
    "by batch size": lambda: ByBatchSize([(1, 2, 4), (3, 9, 1)]),
    "by throughput": lambda: ByThroughput(candidates=(0, 1, 3)),
}


class Spy:
    """Looks at everything a controller is told."""

    def __init__(self, controller) -> None:
        self.controller, self.index, self.tokens, self.asked = controller, {}, {}, {}

    def choose(self, sequences):
        self.asked = dict(zip(sequences, self.controller.choose(sequences)))
        return list(self.asked.values())

    def observe(self, rounds):
        for one in rounds:
            assert one.index == self.index.get(one.sequence, -1) + 1 and one.seconds > 0
            assert len(one.kinds) == len(one.tokens) > 0 and one.num_accepted <= one.num_drafted
            assert one.num_drafted <= (0 if one.is_prefill else self.asked[one.sequence])
            assert one.kinds.count("accepted") == one.num_accepted
            self.index[one.sequence] = one.index
            self.tokens[one.sequence] = self.tokens.get(one.sequence, 0) + len(one.tokens)
        self.controller.observe(rounds)


@STEADY
@given(st.data())
def test_every_request_gets_its_tokens_in_order(data):
    seed, limit = data.draw(st.integers(0, 100)), data.draw(st.integers(1, 5))
    rate = data.draw(st.sampled_from([None, 0.01, 0.1]))
    requests = make_requests(8, rng(seed), {"a": 0.9, "b": [0.5, 0.1]}, rate, prompt_tokens=3, new_tokens=(1, 12))
    spy = Spy(POLICIES[data.draw(st.sampled_from(list(POLICIES)))]())
    outcome = simulate(requests, spy, max_batch=limit, **PAPER)
    assert [s.tokens for s in outcome.served] == [r.new_tokens for r in requests] == [spy.tokens[i] for i in range(8)]
    assert all(s.request.arrival <= s.started < s.first_token <= s.finished for s in outcome.served)
    assert all(live <= limit for _, live, _, _ in outcome.steps)
    begins = [begin for begin, *_ in outcome.steps]
    assert all(b >= a + took - 1e-9 for (a, _, _, took), b in zip(outcome.steps, begins[1:]))
    order = sorted(outcome.served, key=lambda s: s.request.arrival)
    assert [s.started for s in order] == sorted(s.started for s in order)


def test_the_same_again_gives_the_same():
    requests = make_requests(20, rng(5), {"a": 0.7}, rate=1.0)
    assert (
        requests == make_requests(20, rng(5), {"a": 0.7}, rate=1.0) != make_requests(20, rng(6), {"a": 0.7}, rate=1.0)
    )
    rows = compare(requests, POLICIES, {"load": "low"})
    assert repr(rows) == repr(compare(requests, POLICIES, {"load": "low"}))  # NaN equals NaN in words
    assert [row["policy"] for row in rows] == list(POLICIES) and {row["load"] for row in rows} == {"low"}


def test_a_row_is_tidy():
    outcome = simulate(make_requests(10, rng(), {"a": 0.7}), Fixed(2), max_batch=4)
    row = outcome.row(policy="k = 2", batch=4)
    assert row["tokens_per_second"] == pytest.approx(row["tokens"] / outcome.seconds) and row["mean_k"] > 1.8
    assert row["latency_p50"] <= row["latency_p95"] <= row["latency_p99"] and 1 < row["mean_batch"] <= 4
    assert 0 < row["acceptance_rate"] < 0.7  # of *all* drafted, those behind a rejection included
    assert math.isnan(simulate([Request(0, 1, 1, 1)], Fixed(2)).row()["acceptance_rate"])


# -- Who wins where (C9, C11) ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    table = theory.batch_table(0.7, TARGET, DRAFTER, theory.GPU, 256, context=160, max_k=8)
    policies = {"k = 0": lambda: Fixed(0), "k = 4": lambda: Fixed(4), "acceptance": ByAcceptance,
                "batch size": lambda: ByBatchSize(table), "throughput": ByThroughput}  # fmt: skip
    options = {"kinds": {"code": 0.8, "chat": 0.6}, "prompt_tokens": 20}
    found = []
    for batch, count, lengths in ((1, 4, (300, 400)), (256, 512, (100, 200))):
        requests = make_requests(count, rng(1), new_tokens=lengths, **options)
        found += compare(requests, policies, {"batch": batch}, max_batch=batch)
    return {(row["batch"], row["policy"]): row["tokens_per_second"] for row in found}


def test_alone_drafts_win_and_in_a_crowd_they_lose(rows):
    assert rows[1, "k = 4"] > 1.6 * rows[1, "k = 0"]
    assert rows[256, "k = 4"] < 0.95 * rows[256, "k = 0"]


def test_a_table_and_measured_throughput_follow_the_load(rows):
    for batch in (1, 256):
        best = max(rows[batch, "k = 0"], rows[batch, "k = 4"])
        assert rows[batch, "batch size"] > 0.99 * best and rows[batch, "throughput"] > 0.9 * best
    assert rows[256, "throughput"] > rows[256, "acceptance"]  # acceptance alone does not see the load


# -- Bad input ------------------------------------------------------------------------------------------------------

BAD = [
    (lambda: Request(-1, 1, 1, 0.5), "arrival=-1"),
    (lambda: Request(0, 0, 1, 0.5), "prompt_tokens=0"),
    (lambda: Request(0, 1, 0, 0.5), "new_tokens=0"),
    (lambda: Request(0, 1, 1, 2), "alpha=2"),
    (lambda: Request(0, 1, 1, []), "alpha is empty"),
    (lambda: make_requests(3, 0, {"a": 0.5}), "default_rng"),
    (lambda: make_requests(0, rng(), {"a": 0.5}), "count=0"),
    (lambda: make_requests(3, rng(), {}), "at least one kind"),
    (lambda: make_requests(3, rng(), {"a": 0.5}, rate=0), "rate=0"),
    (lambda: make_requests(3, rng(), {"a": 0.5}, new_tokens=(5, 4)), "least, most"),
    (lambda: simulate([], Fixed(0)), "requests is empty"),
    (lambda: simulate([Request(0, 1, 1, 0.5)], Fixed(0), max_batch=0), "max_batch=0"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
