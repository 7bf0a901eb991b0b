"""A picture of recorded costs: tokens a second over the batch, where drafting stops paying, and the controller.

Takes: rows of ``lab.bench.sweep``, and of a live bench.  Returns: from the draw function, the numbers drawn.
Must not know: how anything is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .colors import GRID, INK, LINES
from .numbers import headline

Rows = Sequence[Mapping[str, Any]]


def draw_costs(
    fig: Any,
    rows: Rows,
    adaptive: Rows = (),
    live: Rows = (),
    lengths: Sequence[int] = (0, 1, 2, 4),
    article_k: int = 4,
) -> list[dict]:
    """Tokens a second of the whole batch, and times as fast as plain decoding, over the batch size.

    rows: of ``sweep.curves``. Solid where rounds were timed, with the range of the rounds; dashed where a model goes
        on beyond the largest batch.  adaptive: of ``sweep.adaptive_curve``: the controller's, in the simulated server.
    live: of ``bench.summary`` for arms plain, mtp:k=… and mtp:adaptive: crosses with their range.
    lengths: the k that are drawn.  article_k: the k whose crossover is marked.
    Returns a row each: way ("plain", "k = 4", "adaptive", "live …"), batch, tokens_per_second, low, high, ratio,
    is_measured.
    """
    if not rows:
        raise ValueError("no rows: give those of lab.bench.sweep.curves")
    known = sorted({row["k"] for row in rows})
    if missing := [k for k in (*lengths, article_k) if k not in known]:
        raise ValueError(f"k = {missing[0]} is not among the rows, which have {', '.join(map(str, known))}")
    found = [
        {"way": f"k = {k}" if k else "plain", **{name: row[name] for name in COLUMNS}}
        for k in lengths for row in rows if row["k"] == k
    ]  # fmt: skip
    found += [{"way": "adaptive", **{name: row[name] for name in COLUMNS}} for row in adaptive]
    names = list(dict.fromkeys(row["way"] for row in found))
    left, right = fig.subplots(1, 2)
    for i, name in enumerate(names):
        color, marker, _ = LINES[i % len(LINES)]
        points = sorted((row for row in found if row["way"] == name), key=lambda row: row["batch"])
        for axes, column in ((left, "tokens_per_second"), (right, "ratio")):
            _curve(axes, points, column, color, marker, name if axes is left else None)
    beyond = [row["batch"] for row in found if not row["is_measured"]]
    largest = max(row["batch"] for row in found if row["is_measured"])
    for axes in (left, right):
        if beyond:
            axes.axvspan(largest, max(beyond) * 1.15, color=GRID, alpha=0.4, linewidth=0)
            axes.text(largest * 1.12, 0.02, "modelled", transform=axes.get_xaxis_transform(), fontsize=9, color=INK)
        axes.set_xscale("log", base=2)
        sizes = sorted({row["batch"] for row in found})
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel("batch size")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color=GRID)
    found += _live(left, right, live, names)
    right.axhline(1, color=INK, linewidth=1)
    left.set_title("tokens a second, all sequences together")
    right.set_title("times as fast as plain decoding")
    fig.legend(loc="outside lower center", ncols=min(len(names) + bool(live), 6), columnspacing=1.2)
    headline(fig, _words([row for row in rows if row["k"] == article_k], article_k))
    return found


draw_costs.height = 440
COLUMNS = ("batch", "tokens_per_second", "low", "high", "ratio", "is_measured")


# -- Inside ---------------------------------------------------------------------------------------------------------


def _curve(axes: Any, points: Rows, column: str, color: str, marker: str, label: str | None) -> None:
    """Solid with markers where it was measured, dashed and hollow from there on."""
    seen = [row for row in points if row["is_measured"]]
    later = seen[-1:] + [row for row in points if not row["is_measured"]]
    scale = [row[column] / row["tokens_per_second"] for row in seen]  # the range in the units of this column
    error = [
        [(row["tokens_per_second"] - row["low"]) * by for row, by in zip(seen, scale)],
        [(row["high"] - row["tokens_per_second"]) * by for row, by in zip(seen, scale)],
    ]
    axes.errorbar([row["batch"] for row in seen], [row[column] for row in seen], yerr=error, color=color,
                  marker=marker, markersize=6, linewidth=2, elinewidth=1, capsize=2, label=label)  # fmt: skip
    axes.plot([row["batch"] for row in later], [row[column] for row in later], color=color, linewidth=1.6,
              linestyle="--", marker=marker, markersize=6, markerfacecolor="white", zorder=1)  # fmt: skip


def _live(left: Any, right: Any, live: Rows, names: Sequence[str]) -> list[dict]:
    """A cross for each arm and batch of a bench, in the colour of the curve it belongs to, a little to the right."""
    found = []
    for row in (row for row in live if row["kind"] == "all kinds"):
        _, _, k = row["arm"].partition("k=")
        name = "plain" if row["arm"] == "plain" else "adaptive" if "adaptive" in row["arm"] else f"k = {k}"
        if name not in names:
            continue
        color = LINES[names.index(name) % len(LINES)][0]
        one = {"way": f"live {name}", "batch": row["batch"], "tokens_per_second": row["median"], "low": row["slowest"],
               "high": row["fastest"], "ratio": row["ratio"], "is_measured": True}  # fmt: skip
        look = {"color": color, "marker": "x", "markersize": 8, "markeredgewidth": 2, "linestyle": "none"}
        # a bench's rates are of one group of a batch: all its tokens ÷ its seconds
        label = "live, with the range of the texts" if not found else None
        for axes, column, low, high in (
            (left, "tokens_per_second", row["slowest"], row["fastest"]), (right, "ratio", row["lowest"], row["highest"])
        ):  # fmt: skip
            error = [[max(one[column] - low, 0)], [max(high - one[column], 0)]]
            axes.errorbar(row["batch"] * 1.08, one[column], yerr=error, elinewidth=1,
                          label=label if axes is left else None, **look)  # fmt: skip
        found.append(one)
    return found


def _words(rows: Rows, k: int) -> str:
    """When k draft tokens stop paying, read from the curve."""
    rows = sorted(rows, key=lambda row: row["batch"])
    lost = [row["batch"] for row in rows if row["ratio"] < 1]
    if not lost:
        return f"k = {k} pays at every batch size up to {rows[-1]['batch']}"
    gains = [row["batch"] for row in rows if row["batch"] < min(lost)]
    when = f"still pays at batch {max(gains)} and no longer at {min(lost)}" if gains else f"does not pay at {min(lost)}"
    best, last = max(rows, key=lambda row: row["ratio"]), rows[-1]
    return f"k = {k} {when}: {best['ratio']:.2f}× at batch {best['batch']}, {last['ratio']:.2f}× at {last['batch']}"
