"""The speed-up that theory predicts, from what a round costs on *other* prompts.

Takes: rows of a bench.  Returns: predicted tokens a second.
Must not know: the seconds of the rows it predicts.

tokens a round (by acceptance at each position, as measured) ÷ seconds a round. The seconds are those of the rows
"costs": other prompts, decoded in between the measured ones. A round is priced by its shape, live sequences and
draft tokens, as an n-gram drafter that finds nothing makes a plain round and a controller changes k: shape by shape,
drafting + verifying + elsewhere, times how often the measured texts had that shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..theory import expected_tokens
from .measure import PARTS


def price(costs: Sequence[dict]) -> dict[tuple[int, int], float]:
    """(live sequences, draft tokens) → seconds of such a round, the mean over texts of their medians."""
    seconds: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for row in costs:
        for shape in row["shapes"]:
            whole = sum(shape[part] for part in PARTS)
            seconds.setdefault((shape["live"], shape["drafted"]), []).append((whole, shape["count"]))
    return {key: sum(s * n for s, n in found) / sum(n for _, n in found) for key, found in seconds.items()}


def seconds_a_round(rows: Sequence[dict], prices: dict[tuple[int, int], float]) -> float:
    """What a round of these rows costs on average, by its shape. A shape without a price takes the nearest one's."""
    total = count = 0.0
    for row in rows:
        for shape in row["shapes"]:
            total += shape["count"] * _nearest(prices, shape["live"], shape["drafted"])
            count += shape["count"]
    return total / count if count else math.nan


def conditional_rates(rows: Sequence[dict]) -> list[float]:
    """Of the rounds whose earlier draft tokens were all accepted, the share that accepts position 1, 2, …

    A round that drafts less counts as one that accepts less.
    """
    k = max((len(row["accepted"]) for row in rows), default=0)
    accepted = [sum(row["accepted"][i] for row in rows if i < len(row["accepted"])) for i in range(k)]
    before = [sum(row["rounds"] for row in rows), *accepted]
    return [part / whole if whole else 0.0 for whole, part in zip(before, accepted)]


def predicted_rate(rows: Sequence[dict], costs: Sequence[dict]) -> float:
    """Tokens a second after the prefill: live sequences · expected tokens ÷ seconds a round; NaN without costs."""
    prices = price(costs)
    rounds = sum(row["rounds"] for row in rows)
    calls = sum(shape["count"] for row in rows for shape in row["shapes"])
    if not prices or not calls:
        return math.nan
    rates = conditional_rates(rows)
    return rounds / calls * expected_tokens(rates, len(rates)) / seconds_a_round(rows, prices)


def _nearest(prices: dict[tuple[int, int], float], live: int, drafted: int) -> float:
    if (live, drafted) in prices:
        return prices[live, drafted]
    return prices[min(prices, key=lambda key: (abs(math.log(key[0] / live)), abs(key[1] - drafted)))]
