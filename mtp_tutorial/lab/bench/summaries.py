"""What the rows say: speed, ratio to plain decoding, where the seconds go, and what was predicted.

Takes: the first line of a file and its rows.  Returns: tidy rows, one an arm, kind, temperature and batch size.
Must not know: models, clocks.

A ratio is paired: the plain seconds a token of one group of prompts ÷ the arm's seconds a token of the same group in
the same repeat. A group's ratio is the median over repeats; ``ratio`` is the median over groups, with a 95 % interval
by drawing groups anew; ``lowest`` and ``highest`` are those of single groups. The same against transformers:
``hf_plain`` and, of its ways to speculate, the one with the best median over all kinds, ``hf_best``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from ..stats import Interval
from .arms import PLAIN, THEIRS
from .measure import PARTS
from .plan import COSTS, MEASURED
from .prediction import conditional_rates, speed_up

OVERALL = "all kinds"


def summary(header: dict, rows: Sequence[dict]) -> list[dict]:
    """A row for each arm, kind of prompt (and all of them), temperature and batch size, in the order of the run."""
    found = []
    settings = list(dict.fromkeys((row["batch"], row["temperature"]) for row in rows))
    arms = list(dict.fromkeys(row["arm"] for row in sorted(rows, key=lambda row: row["arm"] != "plain")))
    for batch, temperature in sorted(settings):
        here = [row for row in rows if (row["batch"], row["temperature"]) == (batch, temperature)]
        best = best_of_theirs(here)
        for kind in (OVERALL, *dict.fromkeys(row["kind"] for row in here)):
            mine = [row for row in here if kind in (OVERALL, row["kind"])]
            plain = _of(mine, "plain", MEASURED)
            for arm in arms:
                texts = _of(mine, arm, MEASURED)
                if texts:
                    costs = {name: _of(here, name, COSTS) for name in (arm, "plain")}  # a price is of any kind
                    found.append(
                        {
                            "arm": arm, "kind": kind, "temperature": temperature, "batch": batch,
                            **speeds(texts), **ratios(texts, plain), **against(texts, mine, best), **acceptance(texts),
                            **seconds(texts), **traffic(texts, header),
                            **predicted(texts, plain, costs[arm], costs["plain"]),
                        }
                    )  # fmt: skip
    return found


def speeds(texts: Sequence[dict]) -> dict:
    """All tokens over all seconds; the median group's; and the rate after the prefill."""
    rates = [row["tokens"] / row["seconds"] for row in texts]
    return {
        "texts": len(texts),
        "tokens": sum(row["tokens"] for row in texts),
        "tokens_per_second": sum(row["tokens"] for row in texts) / sum(row["seconds"] for row in texts),
        "median": statistics.median(rates),
        "slowest": min(rates),
        "fastest": max(rates),
        "tokens_per_second_later": _rate_later(texts),
    }


def ratios(texts: Sequence[dict], plain: Sequence[dict]) -> dict:
    """How many times as fast as our own plain decoding, paired by group and repeat."""
    base = {(row["group"], row["repeat"]): row["seconds"] / row["tokens"] for row in plain}
    by_group: dict[str, list[float]] = {}
    for row in texts:
        if (key := (row["group"], row["repeat"])) in base:
            by_group.setdefault(row["group"], []).append(base[key] * row["tokens"] / row["seconds"])
    if not by_group:
        return dict.fromkeys(("ratio", "ratio_low", "ratio_high", "lowest", "highest", "ratio_total"))
    each = [statistics.median(found) for found in by_group.values()]
    interval = median_interval(each) if len(each) > 2 else Interval(math.nan, math.nan)
    pairs = [row for row in texts if (row["group"], row["repeat"]) in base]
    slow = sum(base[row["group"], row["repeat"]] * row["tokens"] for row in pairs)
    return {
        "ratio": statistics.median(each),
        "ratio_low": _or_none(interval.low),
        "ratio_high": _or_none(interval.high),
        "lowest": min(each),
        "highest": max(each),
        "ratio_total": slow / sum(row["seconds"] for row in pairs),
    }


def best_of_theirs(rows: Sequence[dict]) -> str | None:
    """Of the arms with which transformers speculates, the one with the best median ratio to plain decoding."""
    plain = _of(rows, "plain", MEASURED)
    theirs = {row["arm"] for row in rows if row["arm"].startswith(THEIRS) and row["arm"] != THEIRS + PLAIN}
    found = {arm: ratios(_of(rows, arm, MEASURED), plain)["ratio"] for arm in sorted(theirs)}
    return max((arm for arm in found if found[arm] is not None), key=lambda arm: found[arm], default=None)


def against(texts: Sequence[dict], rows: Sequence[dict], best: str | None) -> dict:
    """The arm's ratios to two arms of transformers: ``hf_plain`` and ``hf_best``, each None or a dict as ``ratios``."""
    found: dict[str, object] = {"hf_best_arm": best}
    for column, arm in (("hf_plain", THEIRS + PLAIN), ("hf_best", best)):
        theirs = _of(rows, arm, MEASURED)
        found[column] = ratios(texts, theirs) if theirs else None
    return found


def median_interval(values: Sequence[float], level: float = 0.95, resamples: int = 9_999, seed: int = 0) -> Interval:
    """The percentile bootstrap interval of a median. It is narrow by chance where the values are few."""
    drawn = np.random.default_rng(seed).choice(np.asarray(values), (resamples, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def acceptance(texts: Sequence[dict]) -> dict:
    """Target calls a text, acceptance rate, by position (conditional), mean acceptance length (tokens a round)."""
    calls = sum(row["target_calls"] for row in texts)
    rounds = sum(row["rounds"] for row in texts)
    if "accepted" not in texts[0]:  # transformers does not tell; its first call may hold drafts, so it counts here
        return {
            "target_calls": calls / len(texts),
            "acceptance_rate": None,
            "acceptance_by_position": None,
            "mean_acceptance_length": sum(row["tokens"] for row in texts) / (calls * texts[0]["batch"]),
        }
    drafted = sum(sum(row["drafted"]) for row in texts)
    accepted = sum(sum(row["accepted"]) for row in texts)
    return {
        "target_calls": calls / len(texts),
        "acceptance_rate": accepted / drafted if drafted else None,
        "acceptance_by_position": conditional_rates(texts),
        "mean_acceptance_length": sum(row["tokens_later"] for row in texts) / rounds if rounds else None,
    }


def seconds(texts: Sequence[dict]) -> dict:
    """Seconds a text: the prefill, and drafting, verifying and elsewhere of the rounds; elsewhere's share of them."""
    if any(row[part] is None for row in texts for part in PARTS):
        return dict.fromkeys(("prefill_seconds", *(f"{part}_seconds" for part in PARTS), "elsewhere_share"))
    found = {part: sum(row[part] for row in texts) / len(texts) for part in PARTS}
    whole = sum(found.values())
    return {
        "prefill_seconds": sum(_prefill(row) for row in texts) / len(texts),
        **{f"{part}_seconds": value for part, value in found.items()},
        "elsewhere_share": found["elsewhere"] / whole if whole else None,
    }


def traffic(texts: Sequence[dict], header: dict) -> dict:
    """Bytes read for each token after the first, and the share of the measured memory bandwidth that makes."""
    if "bytes_target" not in texts[0]:
        return dict.fromkeys(("bytes_per_token", "gb_per_second", "bandwidth_share"))
    read = sum(row["bytes_target"] + row["bytes_drafter"] for row in texts)
    later, spent = sum(row["tokens_later"] for row in texts), sum(row[part] for row in texts for part in PARTS)
    rate = read / spent / 1e9 if spent else None
    bandwidth = (header.get("bandwidth") or {}).get("gb_per_s")
    return {
        "bytes_per_token": read / later if later else None,
        "gb_per_second": rate,
        "bandwidth_share": rate / bandwidth if rate and bandwidth else None,
    }


def predicted(texts: Sequence[dict], plain: Sequence[dict], costs: Sequence[dict], plain_costs: Sequence[dict]) -> dict:
    """Predicted and measured speed-up over plain decoding, both after the prefill, and how far they are apart."""
    nothing = {"predicted": None, "measured": None, "predicted_off": None}
    if not plain or "shapes" not in texts[0]:
        return nothing
    measured = _rate_later(texts) / _rate_later(plain)
    found = speed_up(texts, plain, costs, plain_costs)
    if math.isnan(found):
        return {**nothing, "measured": measured}
    return {"predicted": found, "measured": measured, "predicted_off": found / measured - 1}


# -- Inside ---------------------------------------------------------------------------------------------------------


def _of(rows: Sequence[dict], arm: str | None, part: str) -> list[dict]:
    return [row for row in rows if row["arm"] == arm and row["part"] == part]


def _rate_later(texts: Sequence[dict]) -> float | None:
    """Tokens a second after the prefill."""
    if any(row[part] is None for row in texts for part in PARTS):
        return None
    tokens = sum(row.get("tokens_later", row["tokens"] - row["batch"]) for row in texts)
    spent = sum(row[part] for row in texts for part in PARTS)
    return tokens / spent if spent else None


def _prefill(row: dict) -> float:
    return sum(value or 0.0 for value in row["prefill"].values())


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
