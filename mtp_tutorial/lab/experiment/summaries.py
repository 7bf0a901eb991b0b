"""What the rows say: means with intervals, paired differences with tests, verdicts, and what could have been seen.

Takes: the header and rows of an experiment.  Returns: a dict of plain numbers and words.
Must not know: targets, how the rows were made.

Each prompt counts once: with several seeds its texts are averaged first. An arm is compared with plain decoding at its
own temperature, on the same prompts and seeds. All p-values that verdicts rest on are adjusted together (Holm).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...longrun import seed_scheme
from .. import repetition, stats
from .arms import RANDOM, Arm
from .verdict import verdict

LEVEL, ALPHA, POWER, RESAMPLES = 0.95, 0.05, 0.8, 2_000
#: A text ends in a loop when its last 3 × P tokens have a period P of 4 to 64: 12 tokens at least, 192 at most.
LOOP = {"min_period": 4, "max_period": 64, "repeats": 3}

#: name → measure of a row. All rows have the same number of tokens.
MEASURES: Mapping[str, Callable[[dict], float]] = {
    "seq_rep_4": lambda row: repetition.seq_rep_n(row["ids"], 4),
    "tail_loop": lambda row: float(repetition.has_tail_loop(row["ids"], **LOOP)),
    "sentence_repeats": lambda row: repetition.repeated_sentence_share(row["text"]),
    "distinct_2": lambda row: repetition.distinct_n(row["ids"], 2),
    "longest_repeat": lambda row: float(repetition.longest_repeated_substring(row["ids"])),
}
#: What a verdict rests on; the others are described only.
TESTED = ("seq_rep_4", "tail_loop", "sentence_repeats")


@dataclass(frozen=True)
class Measured:
    """The rows of one arm. values: measure → (n,), in the order of ``keys``, (prompt, seed) each."""

    arm: Arm
    rows: list[dict]
    keys: list[tuple]
    values: dict[str, np.ndarray]

    @functools.cached_property
    def places(self) -> dict[tuple, int]:
        return {key: place for place, key in enumerate(self.keys)}

    @property
    def prompts(self) -> list[str]:
        return [prompt for prompt, _ in self.keys]


def summary(header: Mapping, rows: Sequence[dict]) -> dict:
    """Everything that the rows say, in numbers that JSON knows (what does not exist is None).

    Raises ValueError for no rows, for rows of different lengths, and for fewer than two prompts in an arm.
    """
    arms = _measured(header, rows)
    by_name = {one.arm.name: one for one in arms}
    pairs = {one.arm.name: base.arm.name for one in arms if (base := _baseline(one, arms)) is not None}
    swaps = _swaps(arms)
    compared = {name: _differences(by_name[name], by_name[base]) for name, base in pairs.items()}
    swapped = {names: _differences(*(by_name[name] for name in names)) for names in swaps}
    _adjust(list(compared.values()))
    _adjust(list(swapped.values()))
    found = []
    for one in arms:
        differences = compared.get(one.arm.name)
        base = pairs.get(one.arm.name)
        same = _same_texts(one, by_name[base]) if base is not None and one.arm.temperature == 0 else None
        found.append(
            {
                **{name: value for name, value in one.arm.as_dict().items() if value not in ({}, None)},
                "texts": len(one.rows),
                "prompts": len(set(one.prompts)),
                "measures": {name: _mean(one, name) for name in MEASURES},
                **_acceptance(one),
                "against": base,
                "differences": differences,
                "same_texts": same,
                "as_at_zero": _as_at_zero(one, arms),
                "verdict": "the baseline" if one.arm.is_plain else verdict(differences, same, ALPHA, POWER),
            }
        )
    return {
        "target": header["target"],
        "max_new_tokens": header["max_new_tokens"],
        "texts": len(rows),
        "seed_scheme": seed_scheme(header),
        "settings": {"level": LEVEL, "alpha": ALPHA, "power": POWER, "loop": LOOP, "tested": list(TESTED)},
        "arms": found,
        "swaps": [
            {"arm": a, "other": b, "differences": each, "verdict": verdict(each, None, ALPHA, POWER)}
            for (a, b), each in swapped.items()
        ],
    }


# -- Inside ---------------------------------------------------------------------------------------------------------


def _measured(header: Mapping, rows: Sequence[dict]) -> list[Measured]:
    if not rows:
        raise ValueError("no rows: run the experiment first")
    length = header["max_new_tokens"]
    found = []
    for name in dict.fromkeys(row["arm"] for row in rows):
        mine = [row for row in rows if row["arm"] == name]
        short = [row for row in mine if len(row["ids"]) != length]
        if short:
            raise ValueError(
                f"arm {name!r}, prompt {short[0]['prompt']!r}: {len(short[0]['ids'])} tokens instead of {length}; "
                "measures drift with length, so all texts must have one"
            )
        if len({row["prompt"] for row in mine}) < 2:
            raise ValueError(f"arm {name!r} has one prompt only: two or more are needed")
        values = {measure: np.array([of(row) for row in mine]) for measure, of in MEASURES.items()}
        keys = [(row["prompt"], row["seed"]) for row in mine]
        found.append(Measured(Arm.of_row(mine[0]), mine, keys, values))
    return found


def _baseline(one: Measured, arms: Sequence[Measured]) -> Measured | None:
    """Plain decoding at the same temperature."""
    same = [a for a in arms if a.arm.is_plain and a.arm.temperature == one.arm.temperature]
    return same[0] if same and not one.arm.is_plain else None


def _swaps(arms: Sequence[Measured]) -> list[tuple[str, str]]:
    """Arms that differ in the drafter only, a random one against another: what moves follows the drafter."""
    speculative = [one.arm for one in arms if not one.arm.is_plain]
    return [
        (a.name, b.name)
        for a in speculative
        for b in speculative
        if a.drafter == RANDOM and b.drafter != RANDOM and a.way == b.way
    ]


def _mean(one: Measured, measure: str) -> dict:
    """Mean and interval over prompts; for yes and no, with one text a prompt, the exact interval."""
    values = one.values[measure]
    clusters = one.prompts
    if measure == "tail_loop" and len(set(clusters)) == len(values):
        interval, kind = stats.exact_interval(int(values.sum()), len(values), LEVEL), "exact"
    else:
        interval, kind = _bootstrap(values, clusters), "bootstrap"
    return {"mean": float(values.mean()), "low": interval.low, "high": interval.high, "interval": kind}


def _bootstrap(values: Sequence[float], clusters: Sequence[str] | None = None, weights: Sequence[float] | None = None):
    return stats.bootstrap_interval(values, clusters, weights, LEVEL, RESAMPLES)


def _ratio(tops: Sequence[float], bottoms: Sequence[float], prompts: Sequence[str]) -> dict | None:
    if not sum(bottoms):
        return None
    interval = _bootstrap(tops, prompts, bottoms)
    return {"mean": sum(tops) / sum(bottoms), "low": interval.low, "high": interval.high}


def _acceptance(one: Measured) -> dict:
    """Tokens a round; and for each draft position the share of rounds that drafted it in which it was accepted."""
    if one.arm.is_plain:
        return {"mean_acceptance_length": None, "acceptance_by_position": []}
    rows, prompts = one.rows, one.prompts
    lengths = _ratio([len(row["ids"]) - 1 for row in rows], [row["rounds"] for row in rows], prompts)
    positions = [
        _ratio([row["accepted"][i] for row in rows], [row["drafted"][i] for row in rows], prompts)
        for i in range(one.arm.k)
    ]
    return {"mean_acceptance_length": lengths, "acceptance_by_position": positions}


def _differences(one: Measured, base: Measured) -> dict | None:
    """measure → the mean difference over prompts, its interval, its p-value. None without two prompts in common."""
    keys = [key for key in one.keys if key in base.places]
    prompts = [prompt for prompt, _ in keys]
    if len(set(prompts)) < 2:
        return None
    mine, theirs = ([of.places[key] for key in keys] for of in (one, base))
    found = {}
    for measure in TESTED:
        a, b = one.values[measure][mine], base.values[measure][theirs]
        each = [float((a - b)[[p == prompt for p in prompts]].mean()) for prompt in dict.fromkeys(prompts)]
        yes_no = measure == "tail_loop" and len(each) == len(keys)
        interval = stats.paired_share_interval(b, a, LEVEL) if yes_no else _bootstrap(each)
        found[measure] = {
            "mean": float(np.mean(each)),
            "low": interval.low,
            "high": interval.high,
            "up": sum(x > 0 for x in each),
            "down": sum(x < 0 for x in each),
            "p_value": stats.mcnemar(b, a) if yes_no else stats.sign_flip(each),
            "test": "McNemar, exact" if yes_no else "sign flips",
            "spread": float(np.std(each, ddof=1)),
            "pairs": len(each),
        }
    return found


def _adjust(comparisons: Sequence[dict | None]) -> None:
    """Add Holm's p-values over all comparisons, and what each could have seen at the strictest of its levels."""
    cells = [cell for one in comparisons if one is not None for cell in one.values()]
    if not cells:
        return
    for cell, p_value in zip(cells, stats.holm([cell["p_value"] for cell in cells]), strict=True):
        cell["p_adjusted"] = p_value
        cell["detectable"] = _detectable(cell, ALPHA / len(cells))


def _detectable(cell: Mapping, alpha: float) -> float | None:
    """The mean difference that would have been found with power POWER; None when no difference could have been.

    All tested measures lie between 0 and 1, so none can differ by more than 1.
    """
    seen = stats.detectable_difference(cell["spread"], cell["pairs"], alpha, POWER)
    if cell["test"].startswith("McNemar"):  # a spread of 0 says little about yes and no: some pairs have to turn
        seen = max(seen, stats.detectable_share(cell["pairs"], alpha, POWER))
    return seen if seen <= 1 else None


def _as_at_zero(one: Measured, arms: Sequence[Measured]) -> dict | None:
    """Of the texts of an arm with a temperature, those that begin as plain decoding at 0 does; and how many go on so.

    The first token comes from the prefill, which no rule touches. A verifier that ignores the temperature says from
    there on what greedy decoding says. None without an arm of plain decoding at 0.
    """
    zero = [a for a in arms if a.arm.is_plain and a.arm.temperature == 0]
    if not zero or one.arm.temperature == 0:
        return None
    greedy = {row["prompt"]: row["ids"] for row in zero[0].rows}
    pairs = [(row["ids"], greedy[row["prompt"]]) for row in one.rows if row["prompt"] in greedy]
    begun = [(a, b) for a, b in pairs if a[0] == b[0]]
    return {"begin_alike": len(begun), "equal": sum(a == b for a, b in begun)}


def _same_texts(one: Measured, base: Measured) -> dict:
    """At temperature 0: on how many prompts both say the same; where the others part first (token 1 is the first)."""
    mine = {key: row["ids"] for key, row in zip(one.keys, one.rows, strict=True)}
    theirs = {key: row["ids"] for key, row in zip(base.keys, base.rows, strict=True)}
    common = [key for key in mine if key in theirs]
    parted = [
        next(i for i, (a, b) in enumerate(zip(mine[key], theirs[key], strict=True), 1) if a != b)
        for key in common
        if mine[key] != theirs[key]
    ]
    return {"prompts": len(common), "different": len(parted), "first_difference": min(parted, default=None)}
