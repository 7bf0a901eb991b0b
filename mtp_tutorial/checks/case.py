"""Checks of notebook 08: how many clean runs it takes, a detector of loops, and what a server's measurements point to.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..lab import repetition, stats
from .base import Exercise, Mistake, Result, check, read_flag, read_int, word_reader

# -- clean_runs(rate) -> a number of runs ----------------------------------------------------------------------------

CLEAN_RUNS = Exercise(
    "clean_runs",
    stats.clean_runs,
    [(0.0092,), (0.3,), (0.5,), (0.05,), (0.96,)],
    read_int,
    [
        Mistake(
            "one case expected",
            lambda rate: math.ceil(1 / rate),
            "After 1 ÷ rate runs one case is expected, and still none is seen in more than a third of all trials.",
        ),
        Mistake(
            "rule of three",
            lambda rate: math.ceil(3 / rate),
            "3 ÷ rate is the rule of thumb, and nearly right for small rates. Solve (1 - rate)^n ≤ 0.05 exactly.",
        ),
        Mistake(
            "rounded down",
            lambda rate: max(1, math.floor(math.log(0.05) / math.log(1 - rate))),
            "Round up: with one run fewer than needed, none is seen in more than 5 of 100 trials.",
        ),
        Mistake(
            "the wrong tail",
            lambda rate: math.ceil(math.log(0.95) / math.log(1 - rate)),
            "So many runs are all clean in up to 95 of 100 trials. To exclude the rate it must be 5 at most.",
        ),
    ],
    "Two outputs exclude nothing below a rate of 78 %.",
    argument_names=("rate",),
    hints={4: "One clean run is enough to exclude a rate of 96 %."},
)


def check_clean_runs(function: Callable[[float], Any]) -> Result:
    """``clean_runs(rate)``: the smallest n such that n clean runs exclude that rate at 95 %."""
    return check(CLEAN_RUNS, function)


# -- has_tail_loop(ids, min_period, max_period, repeats) -> a boolean ------------------------------------------------

_A = [1, 2, 3, 4, 5]


def _loops(ids: Sequence[int], low: int, high: int, repeats: int) -> bool:
    return repetition.has_tail_loop(list(ids), low, high, repeats)


LOOP = Exercise(
    "has_tail_loop",
    _loops,
    [
        ([9, 8, 7, *_A, *_A, *_A], 4, 10, 3),
        ([*_A, *_A, *_A, 9], 4, 10, 3),
        ([9, 8, 7, *_A, *_A], 4, 10, 3),
        ([9, *_A, *_A, *_A], 4, 4, 3),
        ([9, *_A, *_A, *_A, 1, 2], 4, 10, 3),
        ([7, 6, 5, 3, 3, 3], 4, 10, 3),
        ([7] + 12 * [3], 4, 10, 3),
        ([1, 2], 4, 10, 3),
        ([1, 2, 1, 2], 1, 10, 2),
    ],
    read_flag,
    [
        Mistake(
            "anywhere",
            lambda ids, low, high, repeats: any(_loops(ids[:end], low, high, repeats) for end in range(len(ids) + 1)),
            "You found a loop in the middle. A text that gets out of it again has not ended in one.",
        ),
        Mistake(
            "once too few",
            lambda ids, low, high, repeats: _loops(ids, low, high, max(repeats - 1, 1)),
            "Nearly: `repeats` counts the first time as well. Three times the same block is repeats = 3.",
        ),
        Mistake(
            "smallest period only",
            lambda ids, low, high, repeats: low <= next(
                (p for p in range(1, len(ids)) if len(ids) >= p * repeats and _loops(ids, p, p, repeats)), 0
            ) <= high,
            "One token said twelve times has period 4 as well as 1: any period in the range will do, smallest or not.",
        ),
        Mistake(
            "whole text",
            lambda ids, low, high, repeats: any(
                len(ids) >= p * repeats and all(ids[i] == ids[i + p] for i in range(len(ids) - p))
                for p in range(low, high + 1)
            ),
            "You asked the whole text to be periodic. Only its last repeats · P ids need be.",
        ),
        Mistake(
            "smallest allowed only",
            lambda ids, low, high, repeats: _loops(ids, low, low, repeats),
            "You tried one period. Try every P from min_period to max_period.",
        ),
    ],
    "The last repeats · P ids, compared with themselves P places earlier, for each P.",
    argument_names=("ids", "min_period", "max_period", "repeats"),
    hints={
        4: "The loop may stop in the middle of a round: from the end, the last 15 ids still have period 5.",
        5: "A period below min_period is a stutter, not a loop.",
        7: "A text too short for the loop has none.",
    },
)  # fmt: skip


def check_has_tail_loop(function: Callable[[list[int], int, int, int], Any]) -> Result:
    """``has_tail_loop(ids, min_period, max_period, repeats)``: do the last repeats · P ids have such a period P?"""
    return check(LOOP, function)


# -- suspect(by_position, one_text, moves) -> a word -----------------------------------------------------------------

WORDS = ("argmax", "coin", "other", "none")


def _suspect(by_position: Sequence[float], one_text: bool, moves: bool) -> str:
    if one_text:
        return "argmax"
    if not moves:
        return "none"
    return "coin" if min(by_position) >= 0.98 else "other"


SUSPECT = Exercise(
    "suspect",
    _suspect,
    [
        ([0.72, 0.53, 0.40], False, False),
        ([1.0, 1.0, 0.99], False, True),
        ([0.72, 0.53, 0.40], False, True),
        ([0.70, 0.55, 0.45], True, False),
        ([0.99, 0.985, 0.98], False, False),
        ([0.99, 0.985, 0.98], True, False),
        ([0.99, 0.60, 0.40], False, True),
    ],
    word_reader(WORDS),
    [
        Mistake(
            "flat is enough",
            lambda a, one, moves: "coin" if min(a) >= 0.98 else _suspect(a, one, moves),
            "Flat acceptance alone convicts nobody: a text that copies a table, or is caught in a loop, is foreseen at "
            "every position. If the output stays the same with a random drafter, the coin works.",
        ),
        Mistake(
            "argmax needs the swap",
            lambda a, one, moves: "argmax" if one and moves else "none" if not moves else _suspect(a, False, moves),
            "Argmax match follows the target; a random drafter moves nothing. One text for many seeds gives it away.",
        ),
        Mistake(
            "first position only",
            lambda a, one, moves: _suspect(a[:1], one, moves),
            "Look at every position. A good drafter may well be right at the first one.",
        ),
        Mistake(
            "every move is the coin",
            lambda a, one, moves: "argmax" if one else "coin" if moves else "none",
            "Whatever is handed over wrongly from the drafter moves with it: q, the residual, hidden states, the "
            "cache. A stuck coin also accepts nearly everything, at every position.",
        ),
        Mistake(
            "a move is harmless",
            lambda a, one, moves: "argmax" if one else "coin" if moves and min(a) >= 0.98 else "none",
            "Under a lossless rule the output law does not depend on the drafter. If it moves, something is wrong.",
        ),
    ],
    "One text: argmax. A move: a fault; with everything accepted, the coin. No move: none of these.",
    argument_names=("by_position", "one_text", "moves"),
)


def check_suspect(function: Callable[[list[float], bool, bool], Any]) -> Result:
    """``suspect(by_position, one_text, moves)``: three measurements → "argmax", "coin", "other" or "none"."""
    return check(SUSPECT, function)
