"""Checks of notebook 09: the distance of two laws, article B's code behind an acceptance, and two greedy texts.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from ..lab.exact import total_variation
from .base import Exercise, Mistake, Result, check, read_number, read_row, word_reader
from .lossless import P, row

Law = dict[tuple[int, ...], float]

# -- total_variation(law_a, law_b) -> a number -----------------------------------------------------------------------


def _over(keys: Callable[[Law, Law], set], each: Callable[[float], float], factor: float = 0.5):
    return lambda a, b: factor * sum(each(a.get(key, 0.0) - b.get(key, 0.0)) for key in keys(a, b))


def _either(a: Law, b: Law) -> set:
    return a.keys() | b.keys()


def _largest(a: Law, b: Law) -> float:
    return max(abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in _either(a, b))


_FAIR: Law = {(0,): 0.5, (1,): 0.3, (2,): 0.2}

TOTAL_VARIATION = Exercise(
    "total_variation",
    total_variation,
    [
        (_FAIR, {(0,): 0.75, (1,): 0.15, (2,): 0.10}),
        ({(0, 0): 0.2, (0, 1): 0.3, (1, 1): 0.5}, {(0, 0): 0.3, (0, 1): 0.1, (1, 0): 0.6}),
        (_FAIR, dict(_FAIR)),
        ({(0,): 1.0}, {(1,): 1.0}),
        ({(0,): 1.0}, {(0,): 0.25, (1,): 0.25, (2,): 0.5}),
    ],
    read_number,
    [
        Mistake(
            "not halved",
            _over(_either, abs, 1.0),
            "Halve the sum: what one sequence gains another loses, so each difference is counted twice.",
        ),
        Mistake("largest", _largest, "That is the largest single difference. An event may gather several sequences."),
        Mistake(
            "first law's sequences",
            _over(lambda a, b: set(a), abs),
            "A sequence that only the second law can say counts, too.",
        ),
        Mistake(
            "common sequences",
            _over(lambda a, b: a.keys() & b.keys(), abs),
            "A sequence that only one of the laws can say counts, too: the other gives it 0.",
        ),
        Mistake(
            "signed", _over(_either, float), "Without the absolute value the differences cancel: both laws sum to 1."
        ),
        Mistake("squared", _over(_either, lambda x: x * x), "Take the absolute differences, not their squares."),
    ],
    "No event's probability differs by more.",
    hints={3: "Two laws that share no sequence are as far apart as can be: 1."},
    argument_names=("law_a", "law_b"),
    describe=lambda case: f"total_variation({case[0]}, {case[1]})",
)


def check_total_variation(function: Callable[[Law, Law], Any]) -> Result:
    """``total_variation(law_a, law_b)``: two dicts, sequence → probability → a number from 0 to 1."""
    return check(TOTAL_VARIATION, function)


# -- after_acceptance(target_probs, d): the law of article B's code --------------------------------------------------


def _chances(p: Tensor, d: int, times: int) -> Tensor:
    """``times`` chances for token d; if all fail, each other token in the proportion of p, out of what is left."""
    law = p * (1 - p[d]) ** (times - 1)
    law[d] = 1 - (1 - p[d]) ** times
    return law


def _rest_shared(p: Tensor, d: int) -> Tensor:
    law = p.clone()
    law[d] = 0
    law = law / law.sum() * (1 - p[d]) ** 2
    law[d] = 1 - (1 - p[d]) ** 2
    return law


def _only_d(p: Tensor, d: int) -> Tensor:
    law = p.clone()
    law[d] = 1 - (1 - p[d]) ** 3
    return law


AFTER_ACCEPTANCE = Exercise(
    "after_acceptance",
    lambda p, d: _chances(p, d, 3),
    [(P, 0), (P, 2), (row(0.1, 0.2, 0.3, 0.4), 1), (row(1.0, 0.0, 0.0), 0), (row(1.0, 0.0, 0.0), 1)],
    read_row,
    [
        Mistake(
            "two chances (R1)",
            lambda p, d: _chances(p, d, 2),
            "That is the first position of a round, R1. Here the first rejection emits nothing, and a new round drafts "
            "d at the same place.",
        ),
        Mistake(
            "residual at the end",
            _rest_shared,
            "generate_single_token draws from the full row, d included: a third chance.",
        ),
        Mistake("p", lambda p, d: p, "That is the right law. How many chances does d have here?"),
        Mistake(
            "others untouched",
            _only_d,
            "Your numbers do not sum to 1: another token is reached after two rejections only.",
        ),
        Mistake(
            "as often as d fails",
            lambda p, d: _chances(p, d, 4),
            "One chance too many: two drafts, then one draw from the full row.",
        ),
    ],
    "The draft token gets 1 - (1 - p)³, everything else (1 - p)² of its share.",
    hints={3: "A draft token that is certain stays certain: at temperature 0 the code is right."},
    argument_names=("target_probs", "d"),
)


def check_after_acceptance(function: Callable[[Tensor, int], Any]) -> Result:
    """``after_acceptance(p, d)``: the law at a position behind an accepted token, under the article's code (R1b)."""
    return check(AFTER_ACCEPTANCE, function)


# -- judge_texts(plain, drafted, margins, tolerance): are two greedy texts the same up to near-ties? ------------------

WORDS = ("same", "near-tie", "different")


def _first(plain: Sequence[int], drafted: Sequence[int]) -> int | None:
    """The place of the first difference, or of the first missing token when one text is a beginning of the other."""
    for i, (a, b) in enumerate(zip(plain, drafted)):
        if a != b:
            return i
    return None if len(plain) == len(drafted) else min(len(plain), len(drafted))


def _judge(plain: list[int], drafted: list[int], margins: list[float], tolerance: float) -> str:
    place = _first(plain, drafted)
    if place is None:
        return "same"
    return "near-tie" if place < len(margins) and margins[place] <= tolerance else "different"


def _any_difference(plain: list[int], drafted: list[int], margins: list[float], tolerance: float) -> str:
    places = [i for i, (a, b) in enumerate(zip(plain, drafted)) if a != b]
    if not places:
        return _judge(plain, drafted, margins, tolerance)
    return "near-tie" if all(margins[i] <= tolerance for i in places) else "different"


def _smallest(plain: list[int], drafted: list[int], margins: list[float], tolerance: float) -> str:
    return "same" if plain == drafted else "near-tie" if min(margins) <= tolerance else "different"


def _zip_only(plain: list[int], drafted: list[int], margins: list[float], tolerance: float) -> str:
    n = min(len(plain), len(drafted))
    return _judge(plain[:n], drafted[:n], margins[:n], tolerance)


JUDGE = Exercise(
    "judge_texts",
    _judge,
    [
        ([5, 6, 7, 8], [5, 6, 7, 8], [2.0, 0.001, 3.0, 1.0], 0.01),
        ([5, 6, 7, 8], [5, 9, 1, 2], [2.0, 0.001, 3.0, 1.0], 0.01),
        ([5, 6, 7, 8], [5, 6, 1, 8], [2.0, 0.001, 3.0, 1.0], 0.01),
        ([5, 6, 7, 8], [5, 9, 7, 8], [0.001, 2.0, 3.0, 1.0], 0.01),
        ([5, 6, 7], [5, 6], [2.0, 1.0, 3.0], 0.01),
        ([5, 6, 7, 8], [5, 6, 1, 8], [2.0, 1.0, 0.5, 1.0], 0.5),
        ([5, 6], [5, 6, 7], [2.0, 1.0], 0.01),
    ],
    word_reader(WORDS),
    [
        Mistake(
            "every difference",
            _any_difference,
            "Judge the first difference only. Behind it the two texts have different beginnings, and nothing that they "
            "say can be compared any more.",
        ),
        Mistake(
            "the smallest margin anywhere",
            _smallest,
            "A near-tie elsewhere excuses nothing: look at the margin where the texts part.",
        ),
        Mistake(
            "the common length",
            _zip_only,
            "One text ends earlier. That is a difference, too, and no margin excuses it here.",
        ),
        Mistake(
            "no tolerance",
            lambda a, b, m, t: "same" if a == b else "different",
            "Rounding may decide where the margin is at most the tolerance: call that a near-tie.",
        ),
        Mistake(
            "strict",
            lambda a, b, m, t: (
                "different" if (i := _first(a, b)) is not None and i < len(m) and m[i] == t else _judge(a, b, m, t)
            ),
            "A margin that equals the tolerance can just be made up for: call it a near-tie.",
        ),
    ],
    "The first difference decides, and the margin where it happens.",
    argument_names=("plain", "drafted", "margins", "tolerance"),
)


def check_judge_texts(function: Callable[[list[int], list[int], list[float], float], Any]) -> Result:
    """``judge_texts(plain, drafted, margins, tolerance)`` → "same", "near-tie" or "different"."""
    return check(JUDGE, function)
