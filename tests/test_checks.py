"""The exercise checkers: the solution passes, each known mistake is named, a stub and garbage are met kindly."""

import importlib

import pytest

from mtp_tutorial.checks.base import Exercise, check, show

ROOMS = ["sampling"]
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
    assert capsys.readouterr().out == f"{result}\n"
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
