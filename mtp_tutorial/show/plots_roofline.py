"""Pictures of one call: its time over the tokens it reads, by the roofline and as measured.

Takes: sizes of a model and a machine, or rows of ``lab.bench.forward_cost``.
Returns: from each draw function, the numbers drawn.
Must not know: models, clocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..lab import theory
from .colors import GRID, INK, LOOKS
from .numbers import headline
from .plots_speed import ARITHMETIC, MEMORY

MOST_ROWS = 4096
_CURVES = (
    (LOOKS["target"].color, "o", "-"),
    (LOOKS["recovered"].color, "s", "--"),
    (LOOKS["accepted"].color, "^", "-."),
)


def draw_roofline(
    fig: Any,
    weights: theory.Weights = theory.MODEL_70B,
    machine: theory.Machine = theory.GPU,
    marks: Sequence[int] = (1, 5, 256, 1280),
    tokens: int = 1,
    context: int = 0,
) -> dict[str, Any]:
    """A call's milliseconds over its rows, and beside it the roofline: the share of the peak that is used.

    marks: rows to be marked.  tokens: how many rows belong to one sequence.  context: tokens of each sequence in the
    KV cache, which are read as well.
    Returns ``edge`` (rows up to which further ones are free; None where there is no such point), and ``points``: rows,
    memory and arithmetic in milliseconds, bound ("memory" or "arithmetic"), tokens_per_second, share (of the peak).
    """
    if tokens < 1 or not marks or min(marks) < 1:
        raise ValueError(f"tokens={tokens}, marks={tuple(marks)}: use whole numbers, 1 or more")
    edge = _edge(weights, machine, tokens, context)
    grid = [2 ** (i / 4) for i in range(4 * int(math.log2(MOST_ROWS)) + 1)]
    grid = sorted([*grid, *([edge] if edge is not None and 1 < edge < MOST_ROWS else [])])  # the corner stays sharp
    curve = [_at(rows, weights, machine, tokens, context) for rows in grid]
    points = [_at(rows, weights, machine, tokens, context) for rows in marks]
    left, right = fig.subplots(1, 2)
    for name, (color, _), words in (("memory", MEMORY, "reading"), ("arithmetic", ARITHMETIC, "arithmetic")):
        left.plot(grid, [row[name] for row in curve], color=color, linewidth=5, solid_capstyle="butt", label=words)
    style = {"color": INK, "linewidth": 1.6}
    left.plot(grid, [max(row["memory"], row["arithmetic"]) for row in curve], label="the call: the longer one", **style)
    right.plot(grid, [row["share"] for row in curve], **style)
    for point in points:
        look = {"marker": "o", "markersize": 9, "color": "white", "markeredgecolor": INK, "zorder": 5}
        words = f" {point['rows']:g} "
        side = {"textcoords": "offset points", "xytext": (4, -16), "fontsize": 10}
        for axes, y in ((left, max(point["memory"], point["arithmetic"])), (right, point["share"])):
            axes.plot([point["rows"]], [y], linestyle="none", **look)
            axes.annotate(words, (point["rows"], y), **side)
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks([4**i for i in range(7)], [str(4**i) for i in range(7)])
        axes.minorticks_off()
        axes.set_xlabel("rows (tokens) in one call")
        axes.grid(color=GRID)
        if edge is not None and edge <= MOST_ROWS:
            axes.axvline(edge, color=INK, linewidth=1, linestyle=":")
    left.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    left.set_title("milliseconds of one call")
    right.set_title("share of the peak arithmetic in use")
    ticks = [10**i for i in range(-5, 1) if 10**i >= min(row["share"] for row in curve) / 5]
    right.set_yticks(ticks, [f"{100 * tick:g} %" for tick in ticks])
    right.set_ylim(top=1.6)
    fig.legend(loc="outside lower center", ncols=3)
    headline(fig, _words(edge, points[0]))
    return {"edge": edge, "points": points}


draw_roofline.height = 430


def _at(rows: float, weights: theory.Weights, machine: theory.Machine, tokens: int, context: float) -> dict[str, Any]:
    seen = rows / tokens * context
    memory = theory.memory_seconds(weights, machine, seen)
    arithmetic = theory.compute_seconds(weights, machine, rows)
    seconds = theory.forward_seconds(weights, machine, rows, seen)
    return {
        "rows": rows,
        "memory": 1000 * memory,
        "arithmetic": 1000 * arithmetic,
        "bound": "memory" if memory >= arithmetic else "arithmetic",
        "tokens_per_second": rows / seconds,
        "share": arithmetic / seconds,
    }


def _edge(weights: theory.Weights, machine: theory.Machine, tokens: int, context: float) -> float | None:
    """The rows at which arithmetic catches up with reading. Reading grows with the sequences; it may stay ahead."""
    row = theory.compute_seconds(weights, machine, 1) - context / tokens * weights.kv_bytes / machine.bandwidth
    return theory.memory_seconds(weights, machine) / row if row > 0 else None


def _words(edge: float | None, point: Mapping[str, Any]) -> str:
    first = f"{point['rows']:g} row{'s' * (point['rows'] != 1)}: {max(point['memory'], point['arithmetic']):.3g} ms, "
    first += f"{100 * point['share']:.2g} % of the peak; "
    if edge is None:
        return first + "reading sets the pace at any number of rows"
    return first + f"reading sets the pace up to {edge:.0f} rows"


def draw_cost(
    fig: Any, groups: Mapping[str, Sequence[Mapping[str, Any]]], words: str = "rows (tokens) in one call"
) -> list[dict[str, Any]]:
    """What calls of several sizes cost, as measured: in calls of the smallest size, and in tokens a second.

    groups: name → rows of ``lab.bench.forward_cost``.  The bars are the lowest and highest of the repeats.
    Returns a row each: group, tokens (batch · rows), milliseconds, cost (in calls of the group's first row),
    tokens_per_second.
    """
    if not groups or not all(groups.values()):
        raise ValueError("give rows of lab.bench.forward_cost for each group")
    left, right = fig.subplots(1, 2)
    found: list[dict[str, Any]] = []
    for (name, rows), (color, marker, style) in zip(groups.items(), _CURVES, strict=False):
        one = rows[0]["seconds"]
        mine = [
            {"group": name, "tokens": row["batch"] * row["rows"], "milliseconds": 1000 * row["seconds"],
             "cost": row["seconds"] / one, "tokens_per_second": row["tokens_per_second"]}
            for row in rows
        ]  # fmt: skip
        x = [row["tokens"] for row in mine]
        spread = [
            [(r["seconds"] - r["lowest"]) / one for r in rows],
            [(r["highest"] - r["seconds"]) / one for r in rows],
        ]
        look = {"color": color, "marker": marker, "linestyle": style, "markersize": 7, "linewidth": 2}
        left.errorbar(x, [row["cost"] for row in mine], spread, capsize=3, elinewidth=1, label=name, **look)
        right.plot(x, [row["tokens_per_second"] for row in mine], **look)
        found += mine
    sizes = sorted({row["tokens"] for row in found})
    left.plot(sizes, [size / sizes[0] for size in sizes], color=INK, linestyle=":", label="if each had its price")
    left.axhline(1, color=INK, linewidth=1, label="if further ones were free")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel(words)
        axes.grid(axis="y", color=GRID)
    left.set_title(f"time of a call, in calls on {sizes[0]}")
    right.set_title("tokens a second")
    fig.legend(loc="outside lower center", ncols=len(groups) + 2, columnspacing=1.2)
    ends = [[row for row in found if row["group"] == name][-1] for name in groups]
    headline(
        fig,
        "; ".join(f"{row['group']}: {row['tokens']} at the price of {row['cost']:.1f}" for row in ends),
    )
    return found


draw_cost.height = 430
