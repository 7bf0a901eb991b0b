"""Pictures of the repetition case: differences of all arms, acceptance by position, what a few clean outputs can show.

Takes: summaries of ``lab.experiment``, shares, rates.  Returns: from each draw function, the numbers drawn.
Must not know: how an experiment is run or tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .colors import GRID, INK, LINES, PALE
from .numbers import headline

#: arm of the case → what it is called in pictures
ARMS = {
    "off": "no drafts",
    "rejection": "rejection",
    "greedy": "argmax match",
    "R1": "R1: redraw from full p",
    "R3": "R3: coin always 0",
    "R6": "R6: argmax draft, soft q",
    "R13": "R13: bonus from row before",
    "R14b": "R14b: rejected KV stays",
    "off-T0": "no drafts, T = 0",
    "on-T0": "rejection, T = 0",
}
#: measure → (title, unit, what its numbers are multiplied with)
MEASURES = {
    "seq_rep_4": ("seq-rep-4", "", 1),
    "tail_loop": ("texts ending in a loop", "%", 100),
    "sentence_repeats": ("sentences said twice", "%", 100),
}
#: group of arms → the line above it
_GROUPS = {"drafter": "the drafter's arms", "random": "random drafter", "zero": "temperature 0"}
#: (colour, marker) of the targets, in the order they are given
_TARGETS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"))


def arm_name(arm: str, short: bool = False) -> str:
    """``random-R3`` → "random drafter, R3: coin always 0"; short: "random, R3"."""
    inner = arm.removeprefix("random-")
    name = ARMS.get(inner, inner)
    before = "" if inner == arm else "random, " if short else "random drafter, "
    return before + (name.partition(":")[0] if short else name)


def draw_forest(
    fig: Any, found: Mapping[str, Mapping], measures: Sequence[str] = tuple(MEASURES), alpha: float = 0.05
) -> list[dict]:
    """Each arm's difference to plain decoding at its temperature, with its interval; a column a measure.

    found: target → summary of ``lab.experiment``.  A filled mark: p < ``alpha`` after Holm's correction; hollow: not.
    Returns a row a mark: target, arm, measure, mean, low, high (in the units of the picture), seen.
    """
    if not found:
        raise ValueError("give at least one summary: target → summary")
    arms = list(dict.fromkeys(arm["arm"] for one in found.values() for arm in one["arms"] if arm["differences"]))
    if not arms:
        raise ValueError("no arm was compared: the summary needs plain decoding at the same temperature")
    places, heads = _with_gaps(arms)
    columns = fig.subplots(1, len(measures), sharey=True, squeeze=False)[0]
    rows = []
    for i, (target, one) in enumerate(found.items()):
        shift = (i - (len(found) - 1) / 2) * 0.32
        for arm in (arm for arm in one["arms"] if arm["differences"]):
            for axes, measure in zip(columns, measures):
                rows.append(_mark(axes, target, arm, measure, places[arm["arm"]] - shift, i, alpha))
    for axes, measure in zip(columns, measures):
        axes.axvline(0, color=INK, linewidth=1)
        axes.grid(axis="x", color=GRID)
        title, unit, _ = MEASURES[measure]
        axes.set_title(title, fontsize=11)
        axes.set_xlabel("points" if unit else "difference")
        axes.tick_params(axis="y", length=0)
        for place in (place for arm, place in places.items() if arm in ("rejection", "random-rejection", "on-T0")):
            axes.axhspan(place - 0.5, place + 0.5, color=PALE, zorder=0)
        _symmetric(axes)
    names = [ARMS.get(inner, inner) for inner in (arm.removeprefix("random-") for arm in arms)]
    columns[0].set_yticks([*places.values(), *heads], [*names, *(f"{name}:" for name in heads.values())])
    for label in columns[0].get_yticklabels()[len(places) :]:
        label.set_fontstyle("italic")
    _forest_legend(fig, list(found), alpha)
    headline(fig, "difference to plain decoding, 95 % intervals; grey: the lossless rule")
    return rows


draw_forest.height = 580


def draw_positions(
    fig: Any, series: Mapping[str, Sequence[float]], reported: Mapping[str, Sequence[float]] | None = None
) -> list[dict]:
    """Acceptance by position, as engines log it: the share of all rounds in which that draft position was accepted.

    series: name → shares at positions 1, 2, …  reported: the same, from somebody else's report, drawn thin and grey.
    Returns rows: name, position, accepted.
    """
    axes, rows = fig.subplots(), []
    for i, (name, shares) in enumerate(series.items()):
        color, marker, style = LINES[i % len(LINES)]
        places = list(range(1, len(shares) + 1))
        axes.plot(places, shares, color=color, marker=marker, markersize=9, linestyle=style, linewidth=2, label=name)
        rows += [{"name": name, "position": p, "accepted": float(s)} for p, s in zip(places, shares)]
    for (name, shares), marker in zip((reported or {}).items(), "x+1"):
        places = list(range(1, len(shares) + 1))
        axes.plot(places, shares, color="#777777", marker=marker, markersize=8, linewidth=1, label=name)
        rows += [{"name": name, "position": p, "accepted": float(s)} for p, s in zip(places, shares)]
    axes.set_xticks(range(1, max(row["position"] for row in rows) + 1))
    axes.set_ylim(0, 1.04)
    axes.grid(axis="y", color=GRID)
    axes.set_xlabel("draft position")
    axes.set_ylabel("share of rounds that accept it")
    fig.legend(loc="outside lower center", ncols=3)
    flat = [name for name, shares in series.items() if min(shares) > 0.98]
    headline(fig, f"accepted at every position: {', '.join(flat) or 'none of these'}")
    return rows


draw_positions.height = 400


def draw_clean_runs(fig: Any, runs: int = 2, rate: float = 0.0092, level: float = 0.95) -> list[dict]:
    """How probable it is that so many runs are all clean, if a share of all runs loops.

    runs: how many were looked at.  rate: the true share of runs that loop.
    Returns a row: runs, rate, all_clean (probability), needed (clean runs that exclude the rate), excluded (the rate
    that ``runs`` clean runs exclude).
    """
    from ..lab import stats

    axes, needed = fig.subplots(), stats.clean_runs(rate, level)
    most = max(1000, 2 * needed, 2 * runs)
    counts = sorted({*range(1, 40), *(round(most ** (i / 200)) for i in range(201))})
    for i, other in enumerate((0.3, 0.05)):
        color, _, style = LINES[i + 1]
        axes.plot(counts, [(1 - other) ** n for n in counts], color=color, linestyle=style, linewidth=1.5,
                  label=f"{_percent(other)} of all runs loop")  # fmt: skip
    axes.plot(counts, [(1 - rate) ** n for n in counts], color="#0072B2", linewidth=3, alpha=0.6,
              label=f"your rate: {_percent(rate)}")  # fmt: skip
    clean = (1 - rate) ** runs
    axes.plot([runs], [clean], marker="o", markersize=11, color=INK, linestyle="none", clip_on=False, zorder=5,
              label="your runs")  # fmt: skip
    axes.axhline(1 - level, color=INK, linewidth=1, linestyle=":")
    axes.text(1.05, 1 - level + 0.015, f"below {_percent(1 - level)}: excluded", fontsize=9)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlim(0.93, most)
    axes.set_ylim(0, 1.03)
    axes.set_xlabel("runs looked at")
    axes.set_ylabel("chance that all are clean")
    fig.legend(loc="outside lower center", ncols=4)
    excluded = stats.rate_excluded(runs, level)
    headline(fig, f"{_percent(rate)} of all runs loop: {runs} runs are all clean in {100 * clean:.1f} % of cases; "
                  f"{needed} clean ones exclude it")  # fmt: skip
    return [{"runs": runs, "rate": rate, "all_clean": clean, "needed": needed, "excluded": excluded}]


draw_clean_runs.height = 400


# -- Inside ---------------------------------------------------------------------------------------------------------


def _percent(rate: float) -> str:
    return f"{100 * rate:.3g} %"


def _with_gaps(arms: Sequence[str]) -> tuple[dict[str, float], dict[float, str]]:
    """arm → y, and y → the group whose arms follow below."""
    places, heads, y, before = {}, {}, 0.0, None
    for arm in arms:
        group = "random" if arm.startswith("random-") else "zero" if arm.endswith("-T0") else "drafter"
        if group != before:
            y -= 1.2 if before else 0
            heads[y] = _GROUPS[group]
        y -= 1.0
        places[arm], before = y, group
    return places, heads


def _mark(axes: Any, target: str, arm: Mapping, measure: str, y: float, i: int, alpha: float) -> dict:
    color, marker = _TARGETS[i % len(_TARGETS)]
    cell, scale = arm["differences"][measure], MEASURES[measure][2]
    mean, low, high = (scale * cell[part] for part in ("mean", "low", "high"))
    seen = cell["p_adjusted"] <= alpha
    axes.plot([low, high], [y, y], color=color, linewidth=2)
    axes.plot([mean], [y], marker=marker, markersize=8, color=color, markerfacecolor=color if seen else "white",
              markeredgewidth=1.6)  # fmt: skip
    return {"target": target, "arm": arm["arm"], "measure": measure, "mean": mean, "low": low, "high": high,
            "seen": seen}  # fmt: skip


def _symmetric(axes: Any) -> None:
    """The zero stays inside, with some room on its emptier side."""
    low, high = axes.get_xlim()
    room = 0.12 * max(abs(low), abs(high))
    axes.set_xlim(min(low, -room), max(high, room))


def _forest_legend(fig: Any, targets: Sequence[str], alpha: float) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for i, target in enumerate(targets):
        color, marker = _TARGETS[i % len(_TARGETS)]
        handles.append(Line2D([], [], color=color, marker=marker, markersize=8, linewidth=2, label=target))
    grey = {"color": "#555555", "marker": "o", "markersize": 8, "linestyle": "none"}
    handles.append(Line2D([], [], **grey, label=f"filled: p < {alpha:g} after Holm"))
    handles.append(Line2D([], [], **grey, markerfacecolor="white", label="hollow: no difference seen"))
    fig.legend(handles=handles, loc="outside lower center", ncols=len(handles))
