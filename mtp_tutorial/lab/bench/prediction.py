"""The speed-up that theory predicts, from what a round costs on *other* prompts.

Takes: rows of a bench.  Returns: a predicted speed-up over plain decoding.
Must not know: the seconds of the rows it predicts.

tokens a round (by acceptance at each position, as measured) ÷ cost of a round, in plain rounds. The cost is that of the
rows "costs": other prompts, decoded in between the measured ones. A round is priced by its shape, live sequences and
draft tokens, as an n-gram drafter that finds nothing makes a plain round and a controller changes k: shape by shape,
drafting + verifying + elsewhere, times how often the measured texts had that shape. The unit is a plain round of the
same prompts, decoded a moment before or after, so that the machine's moods are in both.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ..theory import expected_tokens
from .measure import PARTS

Prices = dict[tuple[int, int], float]


def price(costs: Sequence[dict], plain_costs: Sequence[dict]) -> Prices:
    """(live sequences, draft tokens) → such a round in plain rounds of a full batch; the median over texts."""
    units = {(row["group"], row["repeat"]): _plain_round(row) for row in plain_costs if row["shapes"]}
    found: dict[tuple[int, int], list[float]] = {}
    for row in costs:
        if unit := units.get((row["group"], row["repeat"])):
            for shape in row["shapes"]:
                found.setdefault((shape["live"], shape["drafted"]), []).append(_seconds(shape) / unit)
    return {key: statistics.median(each) for key, each in found.items()}


def cost_of_a_round(rows: Sequence[dict], prices: Prices) -> float:
    """What a round of these rows costs on average, by its shape. A shape without a price takes the nearest one's."""
    shapes = [shape for row in rows for shape in row["shapes"]]
    total = sum(shape["count"] * _nearest(prices, shape["live"], shape["drafted"]) for shape in shapes)
    return total / sum(shape["count"] for shape in shapes)


def conditional_rates(rows: Sequence[dict]) -> list[float]:
    """Of the rounds whose earlier draft tokens were all accepted, the share that accepts position 1, 2, …

    A round that drafts less counts as one that accepts less.
    """
    k = max((len(row["accepted"]) for row in rows), default=0)
    accepted = [sum(row["accepted"][i] for row in rows if i < len(row["accepted"])) for i in range(k)]
    before = [sum(row["rounds"] for row in rows), *accepted]
    return [part / whole if whole else 0.0 for whole, part in zip(before, accepted)]


def speed_up(rows: Sequence[dict], plain: Sequence[dict], costs: Sequence[dict], plain_costs: Sequence[dict]) -> float:
    """Predicted times as fast as plain decoding, after the prefill; NaN without costs or rounds.

    (live sequences a call · expected tokens ÷ cost of a round) ÷ the same of plain decoding.
    """
    found = []
    for texts, paid in ((rows, costs), (plain, plain_costs)):
        prices = price(paid, plain_costs)
        calls = sum(shape["count"] for row in texts for shape in row["shapes"])
        if not prices or not calls:
            return math.nan
        rates = conditional_rates(texts)
        live = sum(row["rounds"] for row in texts) / calls
        found.append(live * expected_tokens(rates, len(rates)) / cost_of_a_round(texts, prices))
    return found[0] / found[1]


# -- Inside ---------------------------------------------------------------------------------------------------------


def _seconds(shape: dict) -> float:
    return sum(shape[part] for part in PARTS)


def _plain_round(row: dict) -> float:
    """Seconds of a plain round of the full batch."""
    return _seconds(max(row["shapes"], key=lambda shape: shape["live"]))


def _nearest(prices: Prices, live: int, drafted: int) -> float:
    if (live, drafted) in prices:
        return prices[live, drafted]
    return prices[min(prices, key=lambda key: (abs(math.log(key[0] / live)), abs(key[1] - drafted)))]
