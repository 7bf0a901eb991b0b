"""The exercise checkers: the solution passes, each known mistake is named, a stub and garbage are met kindly."""

import functools
import importlib
import math

import numpy as np
import pytest
import torch

from mtp_tutorial import checks
from mtp_tutorial.checks.base import Exercise, check, show
from mtp_tutorial.checks.quiz import QUESTIONS
from mtp_tutorial.records import Sampling
from mtp_tutorial.sampling import probabilities

ROOMS = ["sampling", "start", "drafting", "lossless", "laws", "heads", "decoding", "slow", "speed", "case", "accuracy"]
ROOMS += ["models", "serving"]
EXERCISES = [
    value
    for room in ROOMS
    for value in vars(importlib.import_module(f"mtp_tutorial.checks.{room}")).values()
    if isinstance(value, Exercise)
]
MISTAKES = [(exercise, mistake) for exercise in EXERCISES for mistake in exercise.mistakes]
by_name = {"ids": lambda exercise: exercise.name}


@pytest.mark.parametrize("exercise", EXERCISES, **by_name)
def test_the_solution_passes(exercise, capsys):
    result = check(exercise, exercise.solution)
    assert result.status == "passed", result
    assert capsys.readouterr().out.split() == str(result).split()
    assert repr(result) == f"<{exercise.name}: passed>"


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES, ids=[f"{e.name}-{m.name}" for e, m in MISTAKES])
def test_a_known_mistake_is_named(exercise, mistake):
    result = check(exercise, mistake.function)
    assert result.status == "failed"
    assert result.message.startswith(mistake.message)
    assert "Wanted" in result.message


def raises(*_):
    raise NotImplementedError


@pytest.mark.parametrize("stub", [lambda *_: None, lambda *_: ..., raises, None, ...])
@pytest.mark.parametrize("exercise", EXERCISES, **by_name)
def test_a_stub_is_not_attempted(exercise, stub):
    assert check(exercise, stub).status == "not attempted"


def explodes(*_):
    raise RuntimeError("boom")


GARBAGE = [lambda *_: "text", lambda *_: object(), lambda *_: [], lambda *_: float("nan"), lambda *_: [[[1]]],
           lambda *_: {}, lambda: 1, lambda *_: -10**9, explodes, 7, "text"]  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("exercise", EXERCISES, **by_name)
def test_garbage_fails_kindly(exercise, garbage):
    result = check(exercise, garbage)
    assert result.status == "failed"
    assert "Traceback" not in result.message and "object at 0x" not in result.message
    assert len(result.message) < 700


@pytest.mark.parametrize("exercise", EXERCISES, **by_name)
def test_the_line_is_the_same_each_time(exercise):
    for function in (exercise.solution, *(m.function for m in exercise.mistakes)):
        assert str(check(exercise, function)) == str(check(exercise, function))


def test_a_wrong_case_without_a_known_mistake_says_what_is_special():
    result = checks.check_greedy_verify(lambda draft, best: ([*draft, best[-1]], len(draft)))
    assert result.message.startswith("Three draft tokens match") and "Wanted: ([7, 8, 9, 11], 3)" in result.message
    result = checks.check_pick(lambda p, u: int((p.cumsum(0) <= u).sum()) % 10)
    assert "u=0.9999999999999999" in result.message  # 1 would be no number of [0, 1)


def test_a_known_mistake_is_known_where_it_trips_over_one_case():
    result = checks.check_expected_tokens(lambda rates: 1 + rates[0] + sum(rates[1:]))  # fails on []
    assert result.message.startswith("You added the rates")
    result = checks.check_expected_tokens(lambda rates: 1 + np.cumprod(rates)[-1])
    assert result.message.startswith("You added the last product only")


def test_a_single_answer_in_common_makes_no_known_mistake():
    result = checks.check_expected_tokens(lambda rates: {(0.8, 0.5): 2.3}[tuple(rates)])  # 1 + the sum, once
    assert result.message.startswith("For expected_tokens(rates=[0.8, 0.5]) it gave 2.3.")


def test_right_but_for_the_empty_list_is_told_so():
    result = checks.check_expected_tokens(lambda rates: 1 + rates[0] + sum(np.cumprod(rates)[1:]))
    assert result.message.startswith("Without draft tokens a round brings the target's own token.")


def test_a_mask_may_be_made_of_ones_and_zeros():
    assert checks.check_verification_mask(lambda n, k: torch.ones(k + 1, n + k + 1).tril(n)).passed


def test_a_function_that_sometimes_returns_nothing_has_failed():
    exercise = EXERCISES[0]
    result = check(exercise, lambda x, t: exercise.solution(x, t) if t else None)
    assert result.status == "failed" and "returned nothing" in result.message


def test_arguments_changed_in_place_spoil_nothing():
    exercise = EXERCISES[0]
    check(exercise, lambda x, t: x.zero_())
    assert check(exercise, exercise.solution).passed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        ([1, 0.25], "[1, 0.25]"),
        ((1, [2]), "(1, [2])"),
        (True, "True"),
        (object(), "a object"),
        (2.0, "2"),
    ],
)
def test_values_are_shown_short(value, text):
    assert show(value) == text


def python_softmax(logits, temperature):
    if temperature == 0:
        best = max(range(len(logits)), key=lambda i: logits[i])
        return [float(i == best) for i in range(len(logits))]
    weights = [math.exp((x - max(logits)) / temperature) for x in logits]
    return [w / sum(weights) for w in weights]


def python_pick(probs, u):
    total = 0.0
    for i, p in enumerate(probs):
        total += p
        if u < total:
            return i
    return len(probs) - 1


def python_greedy(draft_tokens, target_argmax):
    n = 0
    while n < len(draft_tokens) and draft_tokens[n] == target_argmax[n]:
        n += 1
    return target_argmax[: n + 1], n


@pytest.mark.parametrize(
    ("checker", "function"),
    [
        (checks.check_softmax_with_temperature, python_softmax),
        (checks.check_pick, python_pick),
        (checks.check_exponential_race, lambda p, e: np.argmax(p.numpy() / e.numpy())),
        (checks.check_top_p_mask, lambda p, t: [bool(x) for x in probabilities(p.log(), Sampling(top_p=t)) > 0]),
        (checks.check_greedy_verify, python_greedy),
        (checks.check_roll_back, lambda length, num_drafted, num_accepted: length - num_drafted + num_accepted),
        (checks.check_tokens_per_round, lambda n: n + 1),
        (checks.check_verification_mask, lambda n, k: np.tril(np.ones((k + 1, n + k + 1), dtype=bool), n)),
        (checks.check_accept_probability, lambda p, q: min(p / q, 1)),
        (checks.check_acceptance, lambda p, q: torch.minimum(p, q).float().sum()),
        (checks.check_residual, lambda p, q: (p - q).clip(0) / (p - q).clip(0).sum()),
        (checks.check_one_hot_law, lambda p, d: [[x if i == d else 0 for i, x in enumerate(p)],
                                                 [0 if i == d else x for i, x in enumerate(p)]]),
        (checks.check_full_p_law, lambda p, d: [(2 - x) * x if i == d else (1 - p[d]) * x for i, x in enumerate(p)]),
        (checks.check_acceptance_rate,
         lambda rs: sum(r.num_accepted for r in rs) / max(sum(r.num_drafted for r in rs), 1)),
        (checks.check_predicted_position, lambda row, step: 1 + step + row),
        (checks.check_mix, lambda e, h, enorm, hnorm, w: w[:, : len(e)] @ enorm(e) + w[:, len(e) :] @ hnorm(h)),
        (checks.check_shifted_kl,
         lambda t, s, shift: torch.nn.functional.kl_div(s, t[shift:], log_target=True, reduction="batchmean")),
        (checks.check_expected_acceptance,
         lambda rs: np.mean([p for r in rs for p in r.target_probs[: r.num_accepted + 1]])),
        (checks.check_speed_up, lambda tokens, k, draft, verify, plain: plain / ((verify + k * draft) / tokens)),
        (checks.check_follows_the_coin,
         lambda rs: np.all([(c < p) == (i < r.num_accepted) for r in rs
                            for i, (p, c) in list(enumerate(zip(r.target_probs, r.coins)))[: r.num_accepted + 1]])),
        (checks.check_expected_tokens, lambda rates: 1 + np.cumprod(rates).sum()),
        (checks.check_conditional_rates, lambda n, accepted: np.array(accepted) / np.maximum([n, *accepted[:-1]], 1)),
        (checks.check_best_length,
         lambda rates, seconds: np.argmax(np.cumsum(np.cumprod([1, *rates])) / np.array(seconds))),
        (checks.check_length_from_counters,
         lambda c: (c["drafts"] + c["accepted_tokens"]) / max(c["drafts"], 1) if c["drafts"] else 0),
        (checks.check_token_milliseconds, lambda billions, bits, tb: np.float64(billions) * bits / 8 / tb),
        (checks.check_free_rows, lambda size, bandwidth, peak: torch.tensor(size) * peak / 2 / bandwidth),
        (checks.check_call_seconds,
         lambda w, kv, flops, bandwidth, peak: np.maximum((w + kv) / bandwidth, flops / peak)),
        (checks.check_mean_acceptance_length, lambda rs: np.mean([len(r.tokens) for r in rs[1:]])),
        (checks.check_clean_runs, lambda rate: np.ceil(np.log(0.05) / np.log1p(-rate))),
        (checks.check_has_tail_loop,
         lambda ids, low, high, n: any(len(ids) >= n * p and ids[-n * p :] == ids[-p:] * n
                                       for p in range(low, high + 1))),
        (checks.check_suspect,
         lambda a, one, moves: "argmax" if one else "none" if not moves else "coin" if min(a) > 0.97 else "other"),
    ],
)  # fmt: skip
def test_right_answers_in_python_numpy_and_torch_pass(checker, function):
    assert checker(function).passed


def test_the_lesson_of_bug_r1_is_in_its_message():
    def sample(draft_token, p, q, coin, draw):
        return draft_token if coin < p[draft_token] / q[draft_token] else python_pick(p, draw)

    result = checks.check_rejection_sample(sample)
    assert "full p: that is bug R1" in result.message and "2p - p²" in result.message


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_quiz_knows_right_wrong_and_unanswered(name):
    asked = QUESTIONS[name]
    assert checks.check_answer(name, asked.answer).passed
    for wrong, reason in asked.wrong.items():
        assert str(checks.check_answer(name, wrong)) == f"✗ {name}: failed. {reason}"
    assert checks.check_answer(name, ...).status == checks.check_answer(name, None).status == "not attempted"
    assert checks.check_answer(name, 12345).message == f"12345 is not it. {asked.text}"
    assert "Answer with a number" in checks.check_answer(name, "many").message


def test_an_unknown_question_names_the_known_ones():
    with pytest.raises(ValueError, match="00-most"):
        checks.check_answer("99-none", 1)


def test_a_result_is_printed_once_in_a_notebook(capsys):
    result = checks.check_answer("00-most", 5)
    capsys.readouterr()
    assert result._ipython_display_() is None
    assert capsys.readouterr().out == ""


def test_every_checker_is_public():
    assert all(hasattr(checks, name) for name in checks.__all__)
    elsewhere = {"check_answer", *vars(checks.capstone)}  # the capstone's run games: tests/test_checks_capstone.py
    assert {f"check_{e.name}" for e in EXERCISES} == {n for n in checks.__all__ if n.startswith("check_")} - elsewhere


def test_an_exception_comes_with_the_line_of_the_readers_code():
    def mine(length, num_drafted, num_accepted):
        kept = length - num_drafted
        return [kept][num_accepted]  # wrong here

    result = checks.check_roll_back(mine)
    line = mine.__code__.co_firstlineno + 2
    assert f"raised IndexError: list index out of range (line {line}: return [kept][num_accepted]" in result.message
    result = checks.check_roll_back(lambda length: length)  # called with three: no line of it has run
    assert "raised TypeError" in result.message and "(line" not in result.message

    def deep(length, num_drafted, num_accepted):
        return functools.reduce(lambda a, b: a + b, [])  # raised by a library

    result = checks.check_roll_back(deep)
    assert f"(line {deep.__code__.co_firstlineno + 1}: return functools" in result.message


def test_results_are_printed_in_lines_that_break_between_words(capsys):
    result = checks.check_roll_back(lambda *_: -1)
    lines = capsys.readouterr().out.splitlines()
    assert len(str(result)) > 80 and len(lines) > 1 and max(map(len, lines)) <= 80
    assert " ".join(line.strip() for line in lines) == str(result)
