"""Pictures of measured acceptance by kind of text, and of a controller at work.

Takes: rows of an acceptance table, rounds.  Returns: from each draw function, the numbers drawn.
Must not know: how acceptance is measured, how a controller decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .colors import GRID, INK, LOOKS, PALE
from .numbers import headline

if TYPE_CHECKING:
    from ..records import Round

FORMAL, FREE, OTHER = "formal text", "free text", "other kinds"
#: family → (colour, marker)
FAMILIES = {FORMAL: ("#0072B2", "s"), FREE: ("#D55E00", "o"), OTHER: ("#777777", "D")}
#: kind of prompt → family; the article sets code and JSON against chat and creative writing
KINDS = {
    "code": FORMAL, "json": FORMAL, "python": FORMAL, "sql": FORMAL,
    "chat": FREE, "fiction": FREE, "dialogue": FREE, "prose": FREE,
}  # fmt: skip


def length_with_error(row: Mapping[str, Any]) -> tuple[float, float]:
    """(mean acceptance length, its standard error) of one row of an acceptance table: rounds, tokens, accepted.

    The error counts rounds as independent. Those of one text are not quite, so it is a little too small.
    """
    n = row["rounds"]
    if not n:
        return math.nan, math.nan
    reached = [share / n for share in row["accepted"]]  # P(at least i accepted)
    mean = sum(reached)
    square = sum((2 * i + 1) * share for i, share in enumerate(reached))  # Σ (2i - 1) P(at least i) = E[accepted²]
    return row["tokens"] / n, math.sqrt(max(square - mean**2, 0) / n)


def draw_kinds(fig: Any, groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict]:
    """Mean acceptance length by kind of prompt, with ± 2 standard errors; formal text and free text set apart.

    groups: title → rows of one drafter and temperature, as ``training.acceptance`` writes them; "all kinds" becomes a
        line. Kinds are sorted by the first group.
    Returns a row each: group, kind, family, length, error.
    """
    if not groups or not all(groups.values()):
        raise ValueError("give rows for each group: those of an acceptance table, for one drafter and temperature")
    columns = fig.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    found = []
    for title, rows in groups.items():
        for row in rows:
            length, error = length_with_error(row)
            family = KINDS.get(row["kind"], OTHER)
            found.append({"group": title, "kind": row["kind"], "family": family, "length": length, "error": error})
    first = [row for row in found if row["group"] == next(iter(groups)) and row["kind"] != "all kinds"]
    order = [row["kind"] for row in sorted(first, key=lambda row: row["length"])]
    widest = max(row["length"] + 2 * row["error"] for row in found)
    for axes, title in zip(columns, groups):
        for row in (row for row in found if row["group"] == title):
            if row["kind"] == "all kinds":
                axes.axvline(row["length"], color=INK, linestyle=":", linewidth=1.5)
                continue
            color, marker = FAMILIES[row["family"]]
            axes.errorbar(row["length"], order.index(row["kind"]), xerr=2 * row["error"], color=color, marker=marker,
                          markersize=9, capsize=4, linewidth=2)  # fmt: skip
            place = row["length"] + 2 * row["error"] + 0.02 * (widest - 1)
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
            axes.text(place, order.index(row["kind"]), f"{row['length']:.2f}", va="center", bbox=box)
        axes.set_title(title)
        axes.set_xlabel("tokens a round")
        axes.grid(axis="x", color=GRID)
    columns[0].set_yticks(range(len(order)), order)
    for axes in columns:
        axes.set_xlim(1, 1 + 1.2 * (widest - 1))
        axes.tick_params(axis="y", length=0)
    _families(fig, {row["family"] for row in found if row["kind"] != "all kinds"})
    headline(fig, f"mean acceptance length by kind of prompt; {next(iter(groups))}: most {order[-1]}, least {order[0]}")
    return found


draw_kinds.height = 430


def _families(fig: Any, there: set[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=color, marker=marker, linewidth=2, markersize=9, label=family)
        for family, (color, marker) in FAMILIES.items()
        if family in there
    ]
    handles.append(Line2D([], [], color=INK, linestyle=":", linewidth=1.5, label="all kinds together"))
    fig.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def draw_trace(fig: Any, runs: Mapping[str, Sequence[Round]]) -> list[dict]:
    """What a controller did: each round's draft tokens, the accepted ones filled. One strip a run.

    runs: title → the rounds of one sequence.  Returns a row a round: run, round, drafted, accepted.
    """
    if not runs:
        raise ValueError("give at least one run: title → rounds")
    strips = fig.subplots(len(runs), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    found = []
    for axes, (title, rounds) in zip(strips, runs.items()):
        mine = [one for one in rounds if not one.is_prefill]
        places, drafted = [one.index for one in mine], [one.num_drafted for one in mine]
        accepted, tokens = [one.num_accepted for one in mine], sum(len(one.tokens) for one in mine)
        axes.bar(places, drafted, width=0.85, color=PALE, edgecolor=INK, linewidth=0.6, label="drafted")
        style = {"color": LOOKS["accepted"].color, "hatch": "//", "edgecolor": INK, "linewidth": 0.6}
        axes.bar(places, accepted, width=0.85, label="accepted", **style)
        none = [place for place, k in zip(places, drafted) if k == 0]
        axes.plot(none, [0.15] * len(none), linestyle="none", marker="|", markersize=7, color=INK, label="k = 0")
        per = tokens / len(mine) if mine else math.nan
        axes.set_title(
            f"{title}: {sum(drafted)} drafted, {sum(accepted)} accepted, {per:.2f} tokens a round", fontsize=11
        )
        axes.set_ylabel("tokens")
        found += [{"run": title, "round": p, "drafted": d, "accepted": a} for p, d, a in zip(places, drafted, accepted)]
    strips[-1].set_xlabel("round")
    strips[-1].xaxis.get_major_locator().set_params(integer=True)
    highest = max((row["drafted"] for row in found), default=1)
    strips[0].set_yticks(range(0, highest + 1, 2 if highest > 4 else 1))
    fig.legend(*strips[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return found


draw_trace.height = 420
