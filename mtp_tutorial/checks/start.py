"""Checks of notebook 00: rates read from rounds; and ``check_answer``, the quiz of every notebook.

Takes: the reader's function, or an answer.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..records import Generation, Round
from .base import FAILED, NOT_ATTEMPTED, PASSED, Exercise, Mistake, Result, check, read_number, report, show
from .quiz import QUESTIONS


def _round(index: int, drafted: int, accepted: int, last: str | None = "") -> Round:
    """A round in numbers alone; ``last`` None: the text ended inside the draft, so no token follows it."""
    kinds = ["accepted"] * accepted
    if last is not None:
        kinds.append(last or ("plain" if not drafted else "bonus" if accepted == drafted else "recovered"))
    return Round(0, index, tuple(range(len(kinds))), tuple(kinds), tuple(range(drafted)), num_accepted=accepted)


def _rounds(*numbers: tuple[int, int], ends_inside: bool = False) -> list[Round]:
    rounds = [Round(0, 0, (0,), ("prefill",))]
    for i, (drafted, accepted) in enumerate(numbers, 1):
        last = None if ends_inside and i == len(numbers) else ""
        rounds.append(_round(i, drafted, accepted, last))
    return rounds


def _describe(case: tuple) -> str:
    rounds = [r for r in case[0] if not r.is_prefill]
    drafted, accepted = [r.num_drafted for r in rounds], [r.num_accepted for r in rounds]
    emitted = [len(r.tokens) for r in rounds]
    return f"a prefill and rounds that drafted {drafted}, accepted {accepted}, emitted {emitted}"


def _generation(rounds: Sequence[Round]) -> Generation:
    return Generation([t for r in rounds for t in r.tokens], "", tuple(rounds))


def _after_prefill(rounds: Sequence[Round]) -> list[Round]:
    return [r for r in rounds if not r.is_prefill]


def _emitted(rounds: Sequence[Round]) -> int:
    return sum(len(r.tokens) for r in rounds)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_CASES = [
    (_rounds((4, 4), (4, 0), (2, 1)),),
    (_rounds((3, 0), (3, 0)),),
    (_rounds((4, 2), (1, 1), (4, 3), (4, 4)),),
    (_rounds((4, 2), (3, 3), ends_inside=True),),
]


def _rate(rounds: Sequence[Round]) -> float:
    """As the library's, but 0 where nothing was drafted, as the exercise asks."""
    one = _generation(rounds)
    return one.acceptance_rate if one.num_drafted else 0.0


RATE = Exercise(
    "acceptance_rate",
    _rate,
    [*_CASES, (_rounds((0, 0), (0, 0)),)],
    read_number,
    [
        Mistake(
            "no draft",
            lambda rs: sum(r.num_accepted for r in rs) / sum(r.num_drafted for r in rs),
            "Nearly: it divides by zero when nothing was drafted. Return 0 then.",
        ),
        Mistake(
            "stops at the prefill",
            lambda rs: [r.num_accepted / r.num_drafted for r in rs],
            "You divide in each round, and the prefill drafts nothing. Sum over all rounds first, then divide once.",
        ),
        Mistake(
            "per cent",
            lambda rs: 100 * _rate(rs),
            "That is per cent. Return the share itself, a number from 0 to 1.",
        ),
        Mistake(
            "per cent, no draft",
            lambda rs: 100 * sum(r.num_accepted for r in rs) / sum(r.num_drafted for r in rs),
            "That is per cent. Return the share itself, a number from 0 to 1.",
        ),
        Mistake(
            "mean of rates",
            lambda rs: _mean([r.num_accepted / (r.num_drafted or 1) for r in _after_prefill(rs)]),
            "You averaged the rate of each round: a round with one draft token then weighs as much as one "
            "with four. Sum first, then divide.",
        ),
        Mistake(
            "counts the target's tokens",
            lambda rs: (
                _emitted(_after_prefill(rs)) / sum(r.num_drafted for r in rs) if sum(r.num_drafted for r in rs) else 0
            ),
            "You counted recovered and bonus tokens as accepted. They are the target's own.",
        ),
        Mistake(
            "by emitted tokens",
            lambda rs: sum(r.num_accepted for r in rs) / _emitted(rs),
            "You divided by the tokens emitted. Divide by the draft tokens.",
        ),
        Mistake(
            "by rounds",
            lambda rs: sum(r.num_accepted for r in rs) / len(_after_prefill(rs)),
            "You divided by the number of rounds. Divide by the draft tokens.",
        ),
        Mistake(
            "by rounds, the prefill counted",
            lambda rs: sum(r.num_accepted for r in rs) / len(rs),
            "You divided by the number of rounds, the prefill among them. Divide by the draft tokens.",
        ),
    ],
    "Accepted draft tokens ÷ draft tokens.",
    describe=_describe,
)


def check_acceptance_rate(function: Callable[[list[Round]], Any]) -> Result:
    """``acceptance_rate(rounds)``: Round records, the prefill first → accepted draft tokens ÷ draft tokens."""
    return check(RATE, function)


LENGTH = Exercise(
    "mean_acceptance_length",
    lambda rounds: _generation(rounds).mean_acceptance_length,
    _CASES,
    read_number,
    [
        Mistake(
            "with the prefill",
            lambda rs: _mean([len(r.tokens) for r in rs]),
            "You counted the prefill as a round. No draft had a chance at its token: leave it out.",
        ),
        Mistake(
            "rounds with the prefill",
            lambda rs: _emitted(_after_prefill(rs)) / len(rs),
            "You left the prefill's token out but counted it as a round.",
        ),
        Mistake(
            "adds up tokens",
            lambda rs: sum(r.tokens for r in rs),
            "r.tokens holds the tokens themselves; how many they are is len(r.tokens).",
        ),
        Mistake(
            "accepted only",
            lambda rs: _mean([r.num_accepted for r in _after_prefill(rs)]),
            "You counted accepted tokens only. The recovered or bonus token belongs to the round, too.",
        ),
        Mistake(
            "accepted plus one",
            lambda rs: _mean([r.num_accepted + 1 for r in _after_prefill(rs)]),
            "Nearly: when the text ends inside the draft, no token follows. Count the tokens of the round.",
        ),
        Mistake(
            "prefill's token counted",
            lambda rs: _emitted(rs) / len(_after_prefill(rs)),
            "You left the prefill out of the rounds but counted its token.",
        ),
    ],
    "Tokens a round, the target's own included.",
    describe=_describe,
)


def check_mean_acceptance_length(function: Callable[[list[Round]], Any]) -> Result:
    """``mean_acceptance_length(rounds)``: Round records, the prefill first → tokens a round, without the prefill."""
    return check(LENGTH, function)


def check_answer(question: str, value: Any) -> Result:
    """An answer to a question of the quiz; None or ... is "not attempted".

    Raises ValueError, with the known names, for an unknown question.

    >>> check_answer("00-most", 5).status
    ✓ 00-most: passed. Four accepted tokens and a bonus.
    'passed'
    """
    if question not in QUESTIONS:
        raise ValueError(f"unknown question {question!r}; known: {', '.join(QUESTIONS)}")
    asked = QUESTIONS[question]
    if value is None or value is Ellipsis:
        return report(question, NOT_ATTEMPTED, asked.text)
    try:
        given = read_number(value)
    except Exception:
        return report(question, FAILED, f"Answer with a number, not {show(value)}. {asked.text}")
    if abs(given - asked.answer) <= asked.tolerance:
        return report(question, PASSED, asked.why)
    for wrong, reason in asked.wrong.items():
        if abs(given - wrong) <= asked.tolerance:
            return report(question, FAILED, reason)
    return report(question, FAILED, f"{show(given)} is not it. {asked.text}")
