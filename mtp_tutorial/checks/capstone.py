"""Checks of notebook 12: a drafter that must beat n-gram, a controller that must beat every fixed k, a conviction.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures.

The first two are judged by playing: any function that scores is right. Scores are those of the bundled nano in float64,
so they are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from ..lab import capstone
from ..models import load
from .base import FAILED, NOT_ATTEMPTED, PASSED, Exercise, Mistake, Result, check, raised, report, show

Guess = Callable[[list[int], int], Sequence[int]]


@cache
def _target():
    return load("nano", dtype="float64")


@cache
def _texts() -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(text) for text in capstone.practice_texts(_target()))


@cache
def _ngram() -> float:
    (entry,) = (one for one in capstone.SHIPPED if one.name == "ngram")
    return float(capstone.play(_target(), entry))


# -- learn(texts) -> guess(ids, k) -----------------------------------------------------------------------------------


class _Unfit(Exception):
    """A guess that is no draft."""


def _guarded(guess: Guess, vocabulary: int) -> Guess:
    def plan(ids: list[int], k: int) -> list[int]:
        try:
            found = guess(ids, k)
        except Exception as error:
            raise _Unfit(f"guess(ids, {k}) {raised(error, guess)}.") from error
        found = found.tolist() if hasattr(found, "tolist") else found
        if not isinstance(found, (list, tuple)) or any(isinstance(x, bool) or not isinstance(x, int) for x in found):
            raise _Unfit(f"guess(ids, {k}) returned {show(found)}: return a list of ids; [] where you know nothing.")
        if any(not 0 <= token < vocabulary for token in found):
            raise _Unfit(f"guess(ids, {k}) returned {show(found)}: ids are whole numbers from 0 to {vocabulary - 1}.")
        return list(found)

    return plan


def check_learn(function: Callable[[list[list[int]]], Guess], k: int = 4) -> Result:
    """``learn(texts)`` → ``guess(ids, k)`` → up to k ids. Plays the scored texts; passes when it beats n-gram."""
    name = "learn"
    if function is None or function is Ellipsis:
        return report(name, NOT_ATTEMPTED, "Write the function, then run this cell again.")
    if not callable(function):
        return report(name, FAILED, f"Pass the function itself, not {show(function)}.")
    try:
        guess = function([[5, 6, 7, 5, 6, 7]])  # a stub shows itself on any text
        if guess is not None and guess is not Ellipsis:
            guess = function([list(text) for text in _texts()])
    except NotImplementedError:
        return report(name, NOT_ATTEMPTED, "It returns nothing yet.")
    except Exception as error:
        return report(name, FAILED, f"learn(texts) {raised(error, function)}.")
    if guess is None or guess is Ellipsis:
        return report(name, NOT_ATTEMPTED, "It returns nothing yet.")
    if not callable(guess):
        return report(name, FAILED, f"It returned {show(guess)}. Return a function: guess(ids, k) → a list of ids.")
    target = _target()
    try:
        played = capstone.play(target, capstone.writes("yours", _guarded(guess, target.vocab_size), k))
    except _Unfit as error:
        return report(name, FAILED, str(error))
    score, rival = float(played), _ngram()
    if not any(play.drafted for play in played.plays):
        return report(name, FAILED, "It drafted nothing at all, and scored 1.00: plain decoding.")
    if score <= rival:
        why = f"n-gram has {rival:.2f}. {_advice(played, k)}"
        return report(name, FAILED, f"It scores {score:.2f}; {why}")
    return report(name, PASSED, f"It scores {score:.2f}: ahead of n-gram ({rival:.2f}).")


def _advice(played: capstone.Score, k: int) -> str:
    rounds = [one for g in played.generations for one in g.rounds if not one.is_prefill]
    drafting = [one for one in rounds if one.num_drafted]
    if len(drafting) < len(rounds) / 2:
        words = f"It drafts in {len(drafting)} of {len(rounds)} rounds only"
        return f"{words}: where a long run is unknown, try a shorter one."
    first = sum(one.num_accepted > 0 for one in drafting) / len(drafting)
    if first < 0.25:
        return f"Its first guess is kept in {first:.0%} of the rounds: does it continue the *end* of ids?"
    mean = sum(one.num_drafted for one in drafting) / len(drafting)
    if mean < 1.5 < k:
        return f"It drafts one token where it could draft {k}: go on from your own guess."
    return "Each draft token costs a row: look at longer runs of ids before you guess."


# -- draft_length(live, rate) -> k -----------------------------------------------------------------------------------

_FIXED = ("k = 1", "k = 2", "k = 4")


@cache
def _served(name: str) -> float:
    return float(capstone.play_load(name, capstone.CONTROLLERS[name]))


def check_draft_length(function: Callable[[int, float], int]) -> Result:
    """``draft_length(live, rate)`` → k. Serves the trace; passes when it beats every fixed k."""
    name = "draft_length"
    if function is None or function is Ellipsis:
        return report(name, NOT_ATTEMPTED, "Write the function, then run this cell again.")
    if not callable(function):
        return report(name, FAILED, f"Pass the function itself, not {show(function)}.")
    asked = [(1, 0.7), (16, 0.7), (64, 0.7), (128, 0.7), (256, 0.7), (256, 0.0)]
    answers = []
    for live, rate in asked:
        try:
            answers.append(function(live, rate))
        except NotImplementedError:
            answers.append(None)
        except Exception as error:
            return report(name, FAILED, f"For live={live}, rate={rate} it {raised(error, function)}.")
    if all(k is None or k is Ellipsis for k in answers):
        return report(name, NOT_ATTEMPTED, "It returns nothing yet.")
    for (live, rate), k in zip(asked, answers):
        if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= 64:
            return report(name, FAILED, f"For live={live}, rate={rate} it gave {show(k)}: a whole number from 0 to 64.")
    try:
        score = float(capstone.play_load("yours", lambda: capstone.from_rule(function)))
    except Exception as error:
        return report(name, FAILED, f"On the trace it {raised(error, function)}.")
    best, by_table = max(_served(one) for one in _FIXED), _served("by batch size")
    if score <= best:
        if len(set(answers[:5])) == 1:
            why = "It drafts as many tokens in a crowd as alone."
        elif answers[0] < answers[4]:
            why = "It drafts more in a crowd than alone: there rows are dear."
        elif answers[4] > 1:
            why = f"With 256 live requests it drafts {answers[4]} tokens each, {256 * (answers[4] + 1)} rows: too many."
        else:
            why = (
                f"Alone it drafts {answers[0]}, among 64 {answers[2]}, among 128 {answers[3]}: try other lengths there."
            )
        return report(name, FAILED, f"It scores {score:.2f}; the best fixed k has {best:.2f}. {why}")
    beside = "ahead of" if score > by_table else "not yet ahead of"
    words = f"ahead of every fixed k ({best:.2f}), {beside} the table by batch size ({by_table:.2f})"
    return report(name, PASSED, f"It scores {score:.3f}: {words}.")


# -- convict(reports) -> (name, exhibit) -----------------------------------------------------------------------------


def _report(first: float, coins: float, law: float, accepted: float) -> dict[str, float]:
    return {"first_token": first, "coins_p": coins, "law_p": law, "accepted": accepted}


_CASES = [
    (
        {
            "oak": _report(0.0, 0.41, 0.30, 0.72),
            "elm": _report(0.44, 0.66, 0.0, 0.83),
            "yew": _report(0.02, 0.08, 0.55, 0.91),
        },
    ),
    (
        {
            "fir": _report(0.0, 1e-13, 1e-9, 0.85),
            "ash": _report(0.0, 0.03, 0.02, 0.99),
            "bay": _report(0.01, 0.5, 0.04, 0.6),
        },
    ),
    (
        {
            "box": _report(0.0, 0.9, 0.62, 1.0),
            "may": _report(0.0, 0.02, 0.35, 0.2),
            "fig": _report(0.97, 0.3, 0.0, 1.0),
        },
    ),
    (
        {
            "tea": _report(0.001, 0.004, 0.011, 0.97),
            "nut": _report(0.21, 0.2, 1e-8, 0.66),
            "rye": _report(0.0, 0.7, 0.001, 0.4),
        },
    ),
]

_LIMIT, _RARE = 0.05, 1e-6


def _convict(reports: Mapping[str, Mapping[str, float]]) -> tuple[str, str] | None:
    for name, one in reports.items():
        if one["coins_p"] < _RARE:
            return name, "uniform_reused"
        if one["first_token"] > _LIMIT:
            return name, "R3" if one["accepted"] >= 1 else "R6"
    return None


def _read_verdict(value: Any) -> tuple[str, str]:
    if not isinstance(value, (tuple, list)) or len(value) != 2 or not all(isinstance(x, str) for x in value):
        raise TypeError("return two words: the entry's name, and the museum's name of the fault")
    return value[0], value[1]


def _most_accepted(reports: Mapping[str, Mapping[str, float]]) -> tuple[str, str]:
    return max(reports, key=lambda name: reports[name]["accepted"]), "R3"


def _five_percent(reports: Mapping[str, Mapping[str, float]]) -> tuple[str, str]:
    for name, one in reports.items():
        if one["coins_p"] < 0.05:
            return name, "uniform_reused"
        if one["first_token"] > _LIMIT or one["law_p"] < 0.05:
            return name, "R3" if one["accepted"] >= 1 else "R6"
    return "", ""


CONVICT = Exercise(
    "convict",
    _convict,
    _CASES,
    _read_verdict,
    [
        Mistake(
            "most accepted",
            _most_accepted,
            "You took the entry that is accepted most. An honest drafter may copy a text that is easy to foresee.",
        ),
        Mistake(
            "five per cent",
            _five_percent,
            "You convict at p = 0.05. One honest entry in twenty has such a number: ask for one in a million.",
        ),
        Mistake(
            "every lie is R6",
            lambda reports: (found[0], "R6") if (found := _convict(reports)) and found[1] == "R3" else found,
            "R6 reports its softmax, and is still rejected now and then. One that is accepted always, with a false "
            "law, behaves as if the coin were 0: R3.",
        ),
        Mistake(
            "law only",
            lambda reports: (min(reports, key=lambda name: reports[name]["law_p"]), "R6"),
            "The law of whole texts says *that* something is wrong. *What* it is, the other two say: the first token "
            "(false draft_probs) or the coins (known beforehand).",
        ),
    ],
    "Coins that are not uniform: peeking. A first token with another law: false draft_probs. High acceptance: nothing.",
    argument_names=("reports",),
    hints={
        1: "The coins of one of them cannot be chance, and its first token is right.",
        2: "One is accepted always and honest: its first token has the right law.",
        3: "Small p-values are no proof among many entries; one figure here is.",
    },
)


def check_convict(function: Callable[[Mapping], tuple[str, str]]) -> Result:
    """``convict(reports)``: name → the gate's figures → (name of the cheat, the museum's exhibit)."""
    return check(CONVICT, function)
