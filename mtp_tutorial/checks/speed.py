"""Checks of notebook 05: tokens a round from rates, rates from a server's counters, the draft length that pays most.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul
from typing import Any

from ..lab import theory
from .base import Exercise, Mistake, Result, check, read_int, read_number, read_row

# -- expected_tokens(rates) -> tokens a round ------------------------------------------------------------------------


def _expected(rates: Sequence[float]) -> float:
    return theory.expected_tokens(rates, len(rates))


def _closed_formula(rates: Sequence[float]) -> float:
    mean = sum(rates) / len(rates)
    return (1 - mean ** (len(rates) + 1)) / (1 - mean)


EXPECTED_TOKENS = Exercise(
    "expected_tokens",
    _expected,
    [([0.8, 0.5],), ([0.5, 0.5, 0.5, 0.5],), ([1.0, 1.0, 1.0],), ([0.0, 0.9],), ([],)],
    read_number,
    [
        Mistake(
            "sum of the rates",
            lambda rates: 1 + sum(rates),
            "You added the rates. Position 2 brings a token only where position 1 was accepted as well: its share of "
            "all rounds is a product.",
        ),
        Mistake(
            "without the target's own",
            lambda rates: _expected(rates) - 1,
            "You forgot the target's own token: each round brings a recovered or bonus token as well.",
        ),
        Mistake(
            "all or nothing",
            lambda rates: 1 + len(rates) * math.prod(rates),
            "You counted rounds in which all are accepted. Those that accept a part of the draft bring something, too.",
        ),
        Mistake(
            "the mean rate",
            lambda rates: theory.expected_tokens(sum(rates) / len(rates), len(rates)) if rates else 1.0,
            "You put the mean rate in each place. The early positions weigh more: they are part of every product.",
        ),
        Mistake(
            "the mean in the closed formula",
            _closed_formula,
            "You put the mean rate into the closed formula, which holds if all positions have the same rate. Here each "
            "has its own, and the early ones weigh more: add the products.",
        ),
        Mistake(
            "the last product only",
            lambda rates: 1 + math.prod(rates),
            "You added the last product only: the share of rounds in which all are accepted. Add the share of each "
            "position: a₁, a₁a₂, …",
        ),
        Mistake(
            "the last product alone",
            lambda rates: math.prod(rates),
            "That is the last product: the share of rounds in which all are accepted. Add the share of each position, "
            "and 1 for the target's own token.",
        ),
        Mistake(
            "one position short",
            lambda rates: _expected(rates[:-1]),
            "You stop one position short: the last draft token brings something, too.",
        ),
        Mistake(
            "the most",
            lambda rates: len(rates) + 1,
            "That is the most that a round can bring. Wanted is the mean.",
        ),
    ],
    "1 + a₁ + a₁a₂ + …: the target's own token, and what each position adds.",
    argument_names=("rates",),
    hints={4: "Without draft tokens a round brings the target's own token.", 3: "Behind a rejection nothing counts."},
)


def check_expected_tokens(function: Callable[[list[float]], Any]) -> Result:
    """``expected_tokens(rates)``: the acceptance rate of each position, once judged → mean acceptance length."""
    return check(EXPECTED_TOKENS, function)


# -- conditional_rates(num_drafts, accepted_per_pos) -> rates --------------------------------------------------------


def _rates(drafts: int, accepted: Sequence[int]) -> list[float]:
    before = [drafts, *accepted]
    return [now / last if last else 0.0 for last, now in zip(before, accepted)]


CONDITIONAL = Exercise(
    "conditional_rates",
    _rates,
    [(1000, [800, 400, 100]), (50, [50, 50]), (200, [120]), (10, [4, 0, 0])],
    read_row,
    [
        Mistake(
            "of all rounds",
            lambda n, accepted: [x / n for x in accepted],
            "You divided by all rounds: that is what an engine's log shows. Position 2 is judged only in the rounds "
            "that accepted position 1, so divide by those.",
        ),
        Mistake(
            "no judged rounds",
            lambda n, accepted: [now / last for last, now in zip([n, *accepted], accepted)],
            "Nearly: it divides by zero when no round got as far. Return 0 there.",
        ),
        Mistake(
            "the first one twice",
            lambda n, accepted: [x / accepted[0] for x in accepted],
            "You divided by the count of position 1 everywhere. Position 1 is judged in every round, position 3 where "
            "position 2 was accepted.",
        ),
        Mistake(
            "rejected shares",
            lambda n, accepted: [1 - rate for rate in _rates(n, accepted)],
            "Those are the shares that were rejected.",
        ),
        Mistake(
            "differences",
            lambda n, accepted: [(now - later) / n for now, later in zip(accepted, [*accepted[1:], 0])],
            "Those are the shares of rounds that accept exactly so many. Wanted: of the rounds that judged a position, "
            "how many accepted it.",
        ),
    ],
    "Each count divided by the one before it: what the controllers work with.",
    argument_names=("num_drafts", "accepted_per_pos"),
    hints={3: "No round judged position 3."},
)


def check_conditional_rates(function: Callable[[int, list[int]], Any]) -> Result:
    """``conditional_rates(num_drafts, accepted_per_pos)``: a server's counters → acceptance rates, once judged."""
    return check(CONDITIONAL, function)


# -- best_length(rates, seconds) -> k --------------------------------------------------------------------------------


def _tokens(rates: Sequence[float]) -> list[float]:
    """Tokens a round at k = 0, 1, …"""
    return list(accumulate(accumulate(rates, mul), initial=1.0))


def _best(score: Callable[[float, float], float]) -> Callable[[Sequence[float], Sequence[float]], int]:
    def choose(rates: Sequence[float], seconds: Sequence[float]) -> int:
        scores = [score(n, s) for n, s in zip(_tokens(rates), seconds)]
        return scores.index(max(scores))

    return choose


def _first_that_is_worse(rates: Sequence[float], seconds: Sequence[float]) -> int:
    speeds = [n / s for n, s in zip(_tokens(rates), seconds)]
    return next((k - 1 for k in range(1, len(speeds)) if speeds[k] < speeds[k - 1]), len(speeds) - 1)


_ONE_LOW = (
    "Your k is one too low. Let the list of speeds start with k = 0, which is 1 ÷ seconds[0]: then the place in the "
    "list is k itself."
)

BEST_LENGTH = Exercise(
    "best_length",
    _best(lambda tokens, seconds: tokens / seconds),
    [
        ([0.8, 0.8, 0.8, 0.8], [1.0, 1.1, 1.2, 1.3, 1.4]),
        ([0.8, 0.8, 0.8, 0.8], [1.0, 1.7, 2.4, 3.1, 3.8]),
        ([0.9, 0.1, 0.1], [1.0, 1.1, 1.2, 1.3]),
        ([0.05, 0.05], [1.0, 1.1, 1.2]),
        ([0.6, 0.6, 0.6], [1.0, 1.0, 1.6, 1.7]),
        ([0.1, 0.1], [0.02, 0.024, 0.03]),
        ([0.9, 0.9, 0.9], [1.0, 1.0, 1.6, 1.7]),
    ],
    read_int,
    [
        Mistake(
            "never off",
            lambda rates, seconds: 1 + max(range(len(rates)), key=lambda i: _tokens(rates)[i + 1] / seconds[i + 1]),
            "You left out k = 0. Where drafting does not pay, the right length is none.",
        ),
        Mistake(
            "most tokens",
            _best(lambda tokens, seconds: tokens),
            "You took the k with the most tokens a round. A longer round takes longer, too: divide by its seconds.",
        ),
        Mistake(
            "shortest round",
            _best(lambda tokens, seconds: -seconds),
            "You took the shortest round. It brings the fewest tokens: divide tokens by seconds.",
        ),
        Mistake(
            "one beyond",
            lambda rates, seconds: min(_best(lambda n, s: n / s)(rates, seconds) + 1, len(rates)),
            "One too long: seconds[0] is the round without a draft, so the place in the list is k itself.",
        ),
        Mistake(
            "an index from k = 1",
            lambda rates, seconds: max(range(len(rates)), key=lambda i: _tokens(rates)[i + 1] / seconds[i + 1]),
            _ONE_LOW,
        ),
        Mistake("one too low", lambda rates, seconds: max(_best(lambda n, s: n / s)(rates, seconds) - 1, 0), _ONE_LOW),
        Mistake(
            "stops early",
            _first_that_is_worse,
            "You stop at the first k that is worse than the one before. With steps in the costs a longer draft may pay "
            "again: compare all k.",
        ),
        Mistake(
            "the round counted k times",
            lambda rates, seconds: max(range(len(seconds)), key=lambda k: _tokens(rates)[k] / (1 + k * seconds[k])),
            "You divided by 1 + k · seconds[k]. seconds[k] is no draft step: it is the whole round, drafts and verify "
            "call together. Divide by it alone.",
        ),
        Mistake(
            "plain speed taken as 1",
            lambda rates, seconds: _best(lambda n, s: n / s)(rates, [1.0, *seconds[1:]]),
            "You took one token a second for k = 0. That round takes seconds[0], and it need not be 1.",
        ),
        Mistake(
            "rates added",
            lambda rates, seconds: max(range(len(seconds)), key=lambda k: (1 + sum(rates[:k])) / seconds[k]),
            "You added the rates. Position 2 counts only where position 1 was accepted: multiply (exercise 1).",
        ),
    ],
    "Tokens a round ÷ seconds a round, k = 0 included: the whole of a controller's decision.",
    argument_names=("rates", "seconds"),
    hints={
        3: "Drafting does not pay here.",
        5: "A fast model: here all times are far below a second.",
        6: "Here the costs go up in steps.",
    },
)


def check_best_length(function: Callable[[list[float], list[float]], Any]) -> Result:
    """``best_length(rates, seconds)``: acceptance once judged, seconds of a round with k = 0, 1, … → the best k."""
    return check(BEST_LENGTH, function)
