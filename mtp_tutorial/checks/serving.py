"""Checks of notebook 11: tokens a round from raw counters, two readings, a k for each load.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures, servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import Any

from .base import Exercise, Mistake, Result, check, read_int, read_number

# -- length_from_counters(counters) -> tokens a round ------------------------------------------------------------------


def _counters(drafts: int, draft_tokens: int, accepted_tokens: int) -> tuple[dict[str, int]]:
    return ({"drafts": drafts, "draft_tokens": draft_tokens, "accepted_tokens": accepted_tokens},)


def _length(counters: Mapping[str, int]) -> float:
    return 1 + counters["accepted_tokens"] / counters["drafts"] if counters["drafts"] else 0.0


def _by(words: str) -> Callable[[Mapping[str, int]], float]:
    return lambda counters: counters["accepted_tokens"] / counters[words] if counters[words] else 0.0


LENGTH = Exercise(
    "length_from_counters",
    _length,
    [_counters(1000, 2000, 1250), _counters(50, 150, 150), _counters(400, 1100, 0), _counters(0, 0, 0)],
    read_number,
    [
        Mistake(
            "without the bonus",
            _by("drafts"),
            "You forgot the target's own token. Each round also says a recovered or a bonus token, which is no draft "
            "token, so no counter of drafts has it: add 1.",
        ),
        Mistake(
            "the acceptance rate",
            _by("draft_tokens"),
            "That is the acceptance rate, accepted ÷ drafted. A length is counted by rounds: divide by drafts.",
        ),
        Mistake(
            "one plus the acceptance rate",
            lambda c: 1 + c["accepted_tokens"] / c["draft_tokens"] if c["draft_tokens"] else 0.0,
            "You divided by draft tokens. Divide by drafts, the number of rounds.",
        ),
        Mistake(
            "drafted a round",
            lambda c: 1 + c["draft_tokens"] / c["drafts"] if c["drafts"] else 0.0,
            "That is what a round would bring if all were accepted. Count the accepted ones.",
        ),
        Mistake(
            "one before the first round",
            lambda c: 1 + c["accepted_tokens"] / max(c["drafts"], 1),
            "Nearly: without any round there is no length. Return 0 there, so that nobody takes it for a measurement.",
        ),
        Mistake(
            "no round yet",
            lambda c: 1 + c["accepted_tokens"] / c["drafts"],
            "Nearly: it divides by zero on a server that has just started. Return 0 there.",
        ),
    ],
    "1 + accepted ÷ drafts, as vLLM's own log line has it.",
    argument_names=("counters",),
    hints={3: "A server that has just started has counted nothing."},
)


def check_length_from_counters(function: Callable[[dict[str, int]], Any]) -> Result:
    """``length_from_counters(counters)``: drafts, draft_tokens, accepted_tokens → mean acceptance length."""
    return check(LENGTH, function)


# -- rate_between(before, after) -> acceptance rate of the time between -----------------------------------------------


def _two(before: tuple[int, int], after: tuple[int, int]) -> tuple[dict[str, int], dict[str, int]]:
    return tuple({"draft_tokens": drafted, "accepted_tokens": kept} for drafted, kept in (before, after))


def _between(before: Mapping[str, int], after: Mapping[str, int]) -> float:
    fell = any(after[name] < before[name] for name in after)
    drafted, kept = (after[name] - (0 if fell else before[name]) for name in ("draft_tokens", "accepted_tokens"))
    return kept / drafted if drafted else 0.0


def _plain_difference(before: Mapping[str, int], after: Mapping[str, int]) -> float:
    drafted = after["draft_tokens"] - before["draft_tokens"]
    return (after["accepted_tokens"] - before["accepted_tokens"]) / drafted if drafted else 0.0


def _each(before: Mapping[str, int], after: Mapping[str, int]) -> float:
    drafted, kept = (
        after[name] - before[name] if after[name] >= before[name] else after[name]
        for name in ("draft_tokens", "accepted_tokens")
    )
    return kept / drafted if drafted else 0.0


RATE_BETWEEN = Exercise(
    "rate_between",
    _between,
    [
        _two((1000, 700), (3000, 1300)),
        _two((0, 0), (400, 100)),
        _two((5000, 3000), (600, 450)),
        _two((500, 300), (500, 300)),
        _two((900, 100), (2000, 60)),
    ],
    read_number,
    [
        Mistake(
            "since the start",
            lambda before, after: after["accepted_tokens"] / after["draft_tokens"],
            "That is the rate since the server's start. What was counted before the first reading must go: subtract.",
        ),
        Mistake(
            "difference of the rates",
            lambda before, after: (
                (after["accepted_tokens"] / after["draft_tokens"] if after["draft_tokens"] else 0.0)
                - (before["accepted_tokens"] / before["draft_tokens"] if before["draft_tokens"] else 0.0)
            ),
            "You subtracted two rates. Subtract the counts first, then divide.",
        ),
        Mistake(
            "a restart unseen",
            _plain_difference,
            "Nearly. A count that fell means that the server was started anew: then the second reading alone is what "
            "was counted since.",
        ),
        Mistake(
            "each counter by itself",
            _each,
            "Nearly: if one counter fell, the server was started anew, and all of them began at 0. Take both from the "
            "second reading, even the one that looks as if it grew.",
        ),
    ],
    "Counts first, then rates; and a fallen count is a restart.",
    argument_names=("before", "after"),
    hints={
        2: "The counts fell: the server was started anew in between.",
        3: "Nothing was drafted in between: return 0.",
        4: "One count fell, so the server was started anew, and both began at 0.",
    },
)


def check_rate_between(function: Callable[[dict[str, int], dict[str, int]], Any]) -> Result:
    """``rate_between(before, after)``: readings of draft_tokens and accepted_tokens → the rate of the time between."""
    return check(RATE_BETWEEN, function)


# -- choose_k(rates, free_rows, draft_cost, batch) -> k ---------------------------------------------------------------


def _speeds(rates: Sequence[float], free_rows: int, draft_cost: float, batch: int) -> list[float]:
    """Tokens a target call's time at k = 0, 1, …: tokens a round ÷ (draft steps + verify call)."""
    tokens = accumulate(accumulate(rates, mul), initial=1.0)
    return [n / (k * draft_cost + max(1.0, batch * (k + 1) / free_rows)) for k, n in enumerate(tokens)]


def _choose(rates: Sequence[float], free_rows: int, draft_cost: float, batch: int) -> int:
    speeds = _speeds(rates, free_rows, draft_cost, batch)
    return speeds.index(max(speeds))


def _never_off(rates: Sequence[float], free_rows: int, draft_cost: float, batch: int) -> int:
    speeds = _speeds(rates, free_rows, draft_cost, batch)[1:]
    return 1 + speeds.index(max(speeds))


def _with(cost: Callable[[int, int, float, int], float], added: bool = False) -> Callable[..., int]:
    def choose(rates: Sequence[float], free_rows: int, draft_cost: float, batch: int) -> int:
        tokens = accumulate(rates, initial=1.0) if added else accumulate(accumulate(rates, mul), initial=1.0)
        speeds = [n / cost(k, free_rows, draft_cost, batch) for k, n in enumerate(tokens)]
        return speeds.index(max(speeds))

    return choose


CHOOSE_K = Exercise(
    "choose_k",
    _choose,
    [
        ([0.9, 0.8, 0.7, 0.6], 320, 0.06, 1),
        ([0.9, 0.8, 0.7, 0.6], 320, 0.06, 128),
        ([0.9, 0.8, 0.7, 0.6], 320, 0.06, 320),
        ([0.3, 0.2], 320, 0.35, 1),
        ([0.8, 0.8, 0.8, 0.8], 320, 0.2, 90),
        ([0.95, 0.5, 0.5], 320, 0.1, 240),
        ([0.6, 0.5, 0.4], 320, 0.1, 8),
        ([0.9, 0.8, 0.7], 2, 0.06, 4),
    ],
    read_int,
    [
        Mistake(
            "never off",
            _never_off,
            "You left out k = 0. On a full server, or with a poor drafter, the right number of drafts is none.",
        ),
        Mistake(
            "the load unseen",
            _with(lambda k, free, cost, batch: k * cost + 1),
            "You took the verify call to cost 1 at any load. With more than free_rows rows it costs rows ÷ free_rows, "
            "and a batch of b requests has b · (k + 1) rows.",
        ),
        Mistake(
            "rows of one request",
            _with(lambda k, free, cost, batch: k * cost + max(1.0, (k + 1) / free)),
            "You counted the rows of one request. The call carries those of all: batch · (k + 1).",
        ),
        Mistake(
            "k rows",
            _with(lambda k, free, cost, batch: k * cost + max(1.0, batch * k / free)),
            "You counted k rows for each request. There are k + 1: the last committed token needs its row, too.",
        ),
        Mistake(
            "drafts for nothing",
            _with(lambda k, free, cost, batch: max(1.0, batch * (k + 1) / free)),
            "You left out the drafter: each draft token costs draft_cost.",
        ),
        Mistake(
            "rates added",
            _with(lambda k, free, cost, batch: k * cost + max(1.0, batch * (k + 1) / free), added=True),
            "You added the rates. Position 2 counts only where position 1 was accepted: multiply.",
        ),
        Mistake(
            "most tokens",
            lambda rates, free_rows, draft_cost, batch: len(rates),
            "You took the longest draft, which brings the most tokens a round. Divide by what the round costs.",
        ),
    ],
    "The whole of the decision: tokens a round ÷ cost of a round at this load, k = 0 included.",
    argument_names=("rates", "free_rows", "draft_cost", "batch"),
    hints={2: "At this load each further row costs.", 3: "A poor and dear drafter.", 7: "A slow machine."},
)


def check_choose_k(function: Callable[[list[float], int, float, int], Any]) -> Result:
    """``choose_k(rates, free_rows, draft_cost, batch)``: the k with the most tokens for its time at this load."""
    return check(CHOOSE_K, function)
