"""The checkers of notebook 12: what plays well passes, what does not is told why, a stub is not attempted."""

import pytest

from mtp_tutorial import checks
from mtp_tutorial.checks.base import check
from mtp_tutorial.checks.capstone import CONVICT
from mtp_tutorial.lab.capstone import next_words


def table_of(most):
    def learn(texts):
        table = next_words(texts, most)

        def guess(ids, k):
            found = []
            for _ in range(k):
                here = [*ids, *found]
                token = next((table[run] for n in range(most, 0, -1) if (run := tuple(here[-n:])) in table), None)
                if token is None:
                    break
                found.append(token)
            return found

        return guess

    return learn


def test_a_table_learnt_from_the_targets_texts_passes():
    result = checks.check_learn(table_of(3))
    assert result.passed and "ahead of n-gram" in result.message


@pytest.mark.parametrize(
    ("learn", "words"),
    [
        (lambda texts: lambda ids, k: [], "drafted nothing"),
        (lambda texts: lambda ids, k: [7] * k, "first guess"),
        (lambda texts: lambda ids, k: "x", "list of ids"),
        (lambda texts: lambda ids, k: [5000], "0 to 1023"),
        (lambda texts: lambda ids, k: 1 / 0, "ZeroDivisionError"),
        (lambda texts: 1 / 0, "ZeroDivisionError"),
        (lambda texts: 3, "Return a function"),
        (3, "function itself"),
    ],
)
def test_a_poor_drafter_is_told_why(learn, words):
    result = checks.check_learn(learn)
    assert result.status == "failed" and words in result.message


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda live, rate: 4, "as many tokens in a crowd"),
        (lambda live, rate: 0 if live < 100 else 4, "more in a crowd"),
        (lambda live, rate: 8 if live < 100 else 6, "too many"),
        (lambda live, rate: 0 if live > 2 else 1, "Alone it drafts 1"),
        (lambda live, rate: 2.5, "whole number"),
        (lambda live, rate: -1, "whole number"),
        (lambda live, rate: 1 // (256 - live), "ZeroDivisionError"),
        ("4", "function itself"),
    ],
)
def test_a_poor_controller_is_told_why(rule, words):
    result = checks.check_draft_length(rule)
    assert result.status == "failed" and words in result.message


def test_a_rule_that_spends_the_free_rows_passes():
    result = checks.check_draft_length(lambda live, rate: max(0, min(4, 330 // live - 1)))
    assert result.passed and "ahead of the table" in result.message


def stub(*_):
    raise NotImplementedError


@pytest.mark.parametrize("one", [checks.check_learn, checks.check_draft_length, checks.check_convict])
@pytest.mark.parametrize("function", [None, ..., lambda *_: None, lambda *_: ..., stub])
def test_a_stub_is_not_attempted(one, function):
    assert one(function).status == "not attempted"


def test_the_conviction_passes():
    assert check(CONVICT, CONVICT.solution).passed


@pytest.mark.parametrize("mistake", CONVICT.mistakes, ids=lambda one: one.name)
def test_a_wrong_conviction_is_told_why(mistake):
    result = check(CONVICT, mistake.function)
    assert result.status == "failed" and result.message.startswith(mistake.message)


@pytest.mark.parametrize("garbage", [lambda r: "elm", lambda r: 3, lambda r: ("elm",), lambda r: r["x"], 7])
def test_garbage_fails_kindly(garbage):
    result = checks.check_convict(garbage)
    assert result.status == "failed" and len(result.message) < 700
