"""Pictures of what losslessness is and what it is not: distances, p-values, guesses behind a wrong one, near-ties.

Takes: rows that the lab made.  Returns: the numbers drawn.
Must not know: models, rules, widgets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .colors import GRID, INK, LOOKS
from .numbers import bars, headline

_SURE, _LOSSY = ("#0072B2", "o"), ("#D55E00", "X")
#: (colour, hatch) of bars side by side
_PAIR = ((LOOKS["accepted"].color, ""), (LOOKS["recovered"].color, "\\\\"))
#: (colour, marker) of number formats or targets
_SERIES = (("#0072B2", "o"), ("#E69F00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))
_FLOOR = 1e-17  # where a distance of 0 is drawn
_TIE, _STILL = 1e-5, 1e-16  # where a margin of 0 is drawn, and a change of 0


def draw_distances(fig: Any, rows: Sequence[Mapping], largest: float = 1e-12) -> list[dict]:
    """How far each rule's law lies from plain sampling: a mark for each way of drafting, on a logarithmic axis.

    rows: rule, lossless, way, total_variation, as ``lab.exact.table`` makes them.  largest: up to here it is rounding.
    Returns a row a rule: rule, lossless, worst (its largest distance).
    """
    rules = list(dict.fromkeys(row["rule"] for row in rows))
    if not rules:
        raise ValueError("no rows: give what lab.exact.table returns")
    axes = fig.subplots()
    found = []
    for place, rule in enumerate(rules):
        mine = [row for row in rows if row["rule"] == rule]
        color, marker = _SURE if mine[0]["lossless"] else _LOSSY
        x = [max(row["total_variation"], _FLOOR) for row in mine]
        axes.plot(x, [place] * len(x), marker, color=color, markersize=8, markeredgecolor=INK, markeredgewidth=0.6)
        worst = max(row["total_variation"] for row in mine)
        found.append({"rule": rule, "lossless": mine[0]["lossless"], "worst": worst})
    axes.axvspan(_FLOOR / 3, largest, color=GRID, alpha=0.5)
    axes.text(largest / 2, -0.75, "rounding", ha="right", va="center", fontsize=10)
    axes.set_xscale("log")
    axes.set_xlim(_FLOOR / 3, 3)
    axes.set_ylim(len(rules) - 0.4, -1.1)
    axes.set_yticks(range(len(rules)), rules)
    axes.set_xlabel("total variation to plain sampling (a mark for each way of drafting; 0 is drawn at the left edge)")
    axes.grid(axis="x", color=GRID)
    sure = [row["rule"] for row in found if row["worst"] <= largest]
    lossy = [f"{row['rule']} up to {row['worst']:.2f}" for row in found if row["worst"] > largest]
    headline(fig, f"the plain law to rounding: {', '.join(sure) or 'none'}; another law: {', '.join(lossy) or 'none'}")
    return found


draw_distances.height = 380


def draw_p_values(fig: Any, rows: Sequence[Mapping]) -> list[dict]:
    """The p-values of a table of tests: a mark a test, lossless rules above, the control below.

    rows: drafter, rule, lossless, p_value, as ``lab.losslessness`` writes them.
    Returns a row a rule: rule, lossless, tests, smallest and largest p-value.
    """
    rules = list(dict.fromkeys(row["rule"] for row in rows))
    if not rules:
        raise ValueError("no rows: give what lab.losslessness wrote")
    axes = fig.subplots()
    found = []
    for place, rule in enumerate(rules):
        mine = [row for row in rows if row["rule"] == rule]
        color, marker = _SURE if mine[0]["lossless"] else _LOSSY
        p = [row["p_value"] for row in mine]
        axes.plot(
            p, [place] * len(p), marker, color=color, markersize=8, markeredgecolor=INK, markeredgewidth=0.6,
            clip_on=False,
        )  # fmt: skip
        found.append(
            {"rule": rule, "lossless": mine[0]["lossless"], "tests": len(p), "smallest": min(p), "largest": max(p)}
        )
    axes.set_xlim(-0.02, 1)
    axes.set_ylim(len(rules) - 0.5, -0.5)
    axes.set_yticks(range(len(rules)), [f"{row['rule']} ({row['tests']} tests)" for row in found])
    axes.set_xlabel("p-value: how often a right sampler strays at least that far")
    axes.grid(axis="x", color=GRID)
    right = [row["smallest"] for row in found if row["lossless"]]
    wrong = [row["largest"] for row in found if not row["lossless"]]
    words = f"lossless rules: smallest p-value {min(right):.3f}" if right else "no lossless rule"
    headline(fig, words + (f"; control: at most {max(wrong):.1g}" if wrong else "; no control"))
    return found


draw_p_values.height = 320


def draw_fits(fig: Any, groups: Mapping[str, Mapping[str, Sequence[float]]]) -> list[dict]:
    """How well later draft tokens fit what was drafted before them, after a right first guess and after a wrong one.

    groups: drafter → {"first guess right": shares, "first guess wrong": shares}, for draft tokens 2, 3, …
    Returns a row a bar: drafter, after, position, share.
    """
    if not groups:
        raise ValueError("give at least one drafter: name → shares after a right and after a wrong first guess")
    found = []
    for axes, (name, pair) in zip(fig.subplots(1, len(groups), sharey=True, squeeze=False)[0], groups.items()):
        for i, (after, shares) in enumerate(pair.items()):
            x = [position + 2 + (i - 0.5) * 0.4 for position in range(len(shares))]
            drawn = bars(axes, x, shares, *_PAIR[i], width=0.4, label=after)
            axes.bar_label(drawn, [f"{share:.2f}" for share in shares], padding=2, fontsize=9)
            found += [
                {"drafter": name, "after": after, "position": position, "share": share}
                for position, share in enumerate(shares, 2)
            ]
        axes.set_title(name)
        axes.set_ylim(0, 1.12)
        axes.set_xticks(range(2, len(shares) + 2))
        axes.set_xlabel("draft token")
    fig.axes[0].set_ylabel("share that fits the draft so far")
    fig.legend(*fig.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    second = [row for row in found if row["position"] == 2]
    words = [f"{row['drafter']} {row['share']:.2f} ({row['after'].split()[-1]})" for row in second]
    headline(fig, "draft token 2 fits draft token 1: " + ", ".join(words))
    return found


draw_fits.height = 360


def draw_same_word(fig: Any, series: Mapping[str, Sequence[float]], word: str = "the same word") -> list[dict]:
    """How probable it is that a text has said one word only, by its length, on a logarithmic axis.

    series: name → probabilities for texts of 1, 2, … words.  Returns rows: name, length, probability.
    """
    if not series:
        raise ValueError("give at least one series: name → probabilities")
    axes = fig.subplots()
    found = []
    for (name, values), (color, marker), style in zip(series.items(), _SERIES, ("-", "--", "-.", ":"), strict=False):
        x = range(1, len(values) + 1)
        axes.plot(x, values, style, marker=marker, color=color, label=name, markeredgecolor=INK, markeredgewidth=0.6)
        found += [{"name": name, "length": i, "probability": value} for i, value in zip(x, values)]
    axes.set_yscale("log")
    axes.set_xlabel("words")
    axes.set_ylabel(f"P(text is {word} only)")
    axes.grid(color=GRID)
    fig.legend(*axes.get_legend_handles_labels(), loc="outside right center")
    last = max(row["length"] for row in found)
    words = [f"{row['name']} {row['probability']:.3f}" for row in found if row["length"] == last]
    headline(fig, f"{last} times {word}: " + ", ".join(words))
    return found


draw_same_word.height = 360


def draw_near_ties(fig: Any, runs: Mapping[str, Sequence[Any]]) -> list[dict]:
    """Margins against changes: how close the two best tokens are, and by how much the verify call moves them.

    runs: name → ``Compared`` records of ``lab.near_ties``. Margins and changes of 0 are drawn at the edges.
    On and above the dashed line a token may flip; those that did are marked. Returns a row a run: run, tokens, flipped,
    largest_change, smallest_margin, widest (the largest margin that flipped; None without one).
    """
    if not runs or not all(runs.values()):
        raise ValueError("give at least one run with tokens in it: name → records")
    axes = fig.subplots()
    found = []
    for (name, records), (color, marker) in zip(runs.items(), _SERIES, strict=False):
        known = [one for one in records if one.change < float("inf")]
        x, y = [max(one.margin, _TIE) for one in known], [max(one.change, _STILL) for one in known]
        axes.plot(x, y, marker, color=color, markersize=4, alpha=0.45, label=name, linestyle="none")
        flips = [one for one in records if one.flipped]
        axes.plot(
            [max(one.margin, _TIE) for one in flips], [max(min(one.change, 5), _STILL) for one in flips], "X",
            color="#D55E00", markersize=11, markeredgecolor=INK,
        )  # fmt: skip
        found.append(
            {
                "run": name,
                "tokens": len(records),
                "flipped": len(flips),
                "largest_change": max((one.change for one in known), default=0.0),
                "smallest_margin": min(one.margin for one in records),
                "widest": max((one.margin for one in flips), default=None),
            }
        )
    axes.plot([_TIE, 10], [_TIE, 10], "--", color=INK, linewidth=1)
    axes.plot([], [], "X", color="#D55E00", markeredgecolor=INK, markersize=10, label="flipped")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(_TIE / 2, 60)
    axes.set_ylim(_STILL / 3, 10)
    axes.set_xlabel("margin: largest logit minus the second, one-row call (0: at the left edge)")
    axes.set_ylabel("change of it (0: at the bottom)")
    axes.grid(color=GRID)
    fig.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(runs) + 1)
    headline(fig, "flipped: " + ", ".join(f"{row['run']} {row['flipped']} of {row['tokens']}" for row in found))
    return found


draw_near_ties.height = 480
