"""Pictures of the capstone: the leaderboard, the same board under other prices, a controller through a rush.

Takes: rows and scores that ``lab.capstone`` made.  Returns: the numbers drawn.
Must not know: how scores come about, widgets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .colors import GRID, INK, LOOKS, PALE
from .numbers import headline

#: Word of the gate → (colour, marker, words of the legend).
GATES = {
    "shipped": ("#0072B2", "o", "shipped"),
    "passed": (LOOKS["accepted"].color, "^", "a guest that passed the gate"),
    "refused": (LOOKS["recovered"].color, "X", "refused"),
}
#: Lines that follow each other through the trace: (colour, dashes).
_LINES = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."))


def draw_leaderboard(
    fig: Any, rows: Sequence[Mapping], what: str = "tokens for each target call's worth of cost"
) -> list[dict]:
    """A mark an entry with its 95 % interval, best on top; the line is plain decoding.

    rows: name, score, low, high; ``gate`` where there is one ("shipped", "passed", "refused: …"), else "shipped".
    Returns a row an entry, from the top: name, score, low, high, gate.
    """
    if not rows:
        raise ValueError("no rows: give those of capstone.table")
    found = [
        {**{key: row[key] for key in ("name", "score", "low", "high")}, "gate": row.get("gate", "shipped")}
        for row in rows
    ]
    axes = fig.subplots()
    seen = []
    widest = max(row["high"] for row in found)
    for place, row in enumerate(found):
        color, marker, words = GATES[row["gate"].split(":")[0]]
        error = [[max(row["score"] - row["low"], 0)], [max(row["high"] - row["score"], 0)]]
        axes.errorbar(row["score"], place, xerr=error, color=color, marker=marker, markersize=9, capsize=4, linewidth=2,
                      markeredgecolor=INK, markeredgewidth=0.6, label=None if words in seen else words)  # fmt: skip
        seen.append(words)
        end = f"{row['score']:.2f}" + (f"  {row['gate']}" if row["gate"].startswith("refused") else "")
        axes.text(row["high"] + 0.015 * widest, place, end, va="center", fontsize=10)
    axes.axvline(1, color=INK, linestyle=":", linewidth=1.5)
    axes.set_yticks(range(len(found)), [row["name"] for row in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlim(
        min(0.9, min(row["low"] for row in found) - 0.05),
        widest * (1.25 if any(row["gate"].startswith("refused") for row in found) else 1.14),
    )
    axes.set_xlabel(f"{what}; plain decoding: 1; bars: 95 %")
    axes.grid(axis="x", color=GRID)
    axes.tick_params(axis="y", length=0)
    if len(set(seen)) > 1:
        fig.legend(loc="outside lower center", ncols=3)
    first = [row for row in found if not row["gate"].startswith("refused")]
    refused = len(found) - len(first)
    words = ", ".join(f"{row['name']} {row['score']:.2f}" for row in first[:3])
    headline(fig, f"the first three: {words}" + (f"; refused: {refused}" if refused else ""))
    return found


draw_leaderboard.height = 440


def draw_prices(fig: Any, standings: Sequence[Any], row: float = 0.03, weights: float = 1.0) -> list[dict]:
    """The leaderboard under another price list; nothing is decoded again.

    standings: of ``capstone.leaderboard``.  row: of a further row of a target call, in calls.
    weights: what reading as many weights as the target has costs a drafter, in calls.
    Returns rows as ``draw_leaderboard`` does.
    """
    found = []
    for one in standings:
        low, high = one.score.interval(row, weights)
        gate = "shipped" if one.ruling is None else "passed" if one.accepted else f"refused: {one.ruling.exhibit}"
        found.append(
            {"name": one.score.entry.name, "score": one.score.at(row, weights), "low": low, "high": high, "gate": gate}
        )
    return draw_leaderboard(fig, sorted(found, key=lambda one: (one["gate"].startswith("refused"), -one["score"])))


draw_prices.height = 460


def draw_rush(fig: Any, runs: Sequence[Any], limit: float = 330) -> list[dict]:
    """Controllers on the trace: live requests above, draft tokens a request below, both against the clock.

    runs: ``LoadScore`` of ``capstone.play_load``.  limit: the rows at which computing takes as long as reading.
    Returns a row a run: name, score, most live requests, mean k while more than half of that are live, and below.
    """
    if not runs:
        raise ValueError("no runs: give what capstone.play_load returns")
    upper, lower = fig.subplots(2, 1, sharex=True)
    found = []
    for run, (color, dashes) in zip(runs, _LINES):
        steps = [step for step in run.outcome.steps if step[1]]
        clock, live = [step[0] for step in steps], [step[1] for step in steps]
        k = [asked / many for _, many, asked, _ in steps]
        smooth = [sum(k[max(i - 7, 0) : i + 8]) / len(k[max(i - 7, 0) : i + 8]) for i in range(len(k))]
        upper.plot(clock, live, color=color, linestyle=dashes, linewidth=1.8, label=f"{run.name}: {float(run):.2f}")
        lower.plot(clock, smooth, color=color, linestyle=dashes, linewidth=1.8)
        half = max(live) / 2
        crowd = [x for x, many in zip(k, live) if many > half]
        alone = [x for x, many in zip(k, live) if many <= half]
        means = {"k_crowd": sum(crowd) / len(crowd), "k_alone": sum(alone) / len(alone) if alone else None}
        found.append({"name": run.name, "score": float(run), "most": max(live), **means})
    upper.set_ylabel("live requests")
    lower.set_ylabel("draft tokens each")
    lower.set_xlabel("seconds")
    for axes in (upper, lower):
        axes.grid(color=GRID)
        axes.set_ylim(0, None)
    upper.axhspan(limit / 3, upper.get_ylim()[1], color=PALE, zorder=0)
    upper.text(
        0.99, 0.94, f"k = 2 needs more than {limit:.0f} rows here", transform=upper.transAxes, ha="right", va="top"
    )
    fig.legend(*upper.get_legend_handles_labels(), loc="outside lower center", ncols=len(runs))
    headline(fig, "a rush: " + ", ".join(f"“{row['name']}” {row['score']:.2f}" for row in found))
    return found


draw_rush.height = 480
