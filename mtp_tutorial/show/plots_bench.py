"""Pictures of a bench: the speed-up by kind of prompt and drafter, and tokens a second over the batch size.

Takes: the rows of ``lab.bench.summary``.  Returns: from each draw function, the numbers drawn.
Must not know: how anything is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..lab.bench import OVERALL
from .colors import GRID, INK, LINES
from .numbers import headline

Rows = Sequence[Mapping[str, Any]]


def draw_bench(fig: Any, rows: Rows, batch: int | None = None, arms: Sequence[str] | None = None) -> list[dict]:
    """Times as fast as plain decoding, by kind of prompt: the median prompt, with its interval or its range.

    rows: of ``bench.summary``.  batch: the smallest measured one when None.  arms: which, and in what order; all but
        plain when None. A picture for each temperature, side by side; "all kinds" on top; the predicted speed-up of all
        kinds as a vertical stroke.
    Returns a row each: temperature, kind, arm, ratio, low, high, predicted.
    """
    if not rows:
        raise ValueError("no rows: give those of lab.bench.summary")
    batch = min(row["batch"] for row in rows) if batch is None else batch
    here = [row for row in rows if row["batch"] == batch and row["arm"] != "plain" and row["ratio"] is not None]
    names = list(dict.fromkeys(row["arm"] for row in here)) if arms is None else list(arms)
    here = [row for row in here if row["arm"] in names]
    if not here:
        known = ", ".join(dict.fromkeys(row["arm"] for row in rows))
        raise ValueError(f"nothing to draw at batch {batch} for {', '.join(names) or 'any arm'}; the rows hold {known}")
    kinds = [OVERALL, *(kind for kind in dict.fromkeys(row["kind"] for row in here) if kind != OVERALL)]
    temperatures = list(dict.fromkeys(row["temperature"] for row in here))
    columns = fig.subplots(1, len(temperatures), sharey=True, sharex=True, squeeze=False)[0]
    step = 0.8 / len(names)
    found = []
    for axes, temperature in zip(columns, temperatures):
        for row in (row for row in here if row["temperature"] == temperature):
            i = names.index(row["arm"])
            y = -kinds.index(row["kind"]) + 0.4 - (i + 0.5) * step
            low = row["lowest"] if row["ratio_low"] is None else row["ratio_low"]
            high = row["highest"] if row["ratio_high"] is None else row["ratio_high"]
            color, marker, _ = LINES[i % len(LINES)]
            error = [[max(row["ratio"] - low, 0)], [max(high - row["ratio"], 0)]]
            axes.errorbar(row["ratio"], y, xerr=error, color=color, marker=marker, markersize=6, capsize=2,
                          linewidth=1.5, linestyle="none",
                          label=row["arm"] if axes is columns[0] and row["kind"] == OVERALL else None)  # fmt: skip
            if row["kind"] == OVERALL and row["predicted"] is not None:
                axes.plot([row["predicted"]] * 2, [y - 0.5 * step, y + 0.5 * step], color=INK, linewidth=1.8)
            found.append({"temperature": temperature, "kind": row["kind"], "arm": row["arm"], "ratio": row["ratio"],
                          "low": low, "high": high, "predicted": row["predicted"]})  # fmt: skip
        axes.axvline(1, color=INK, linewidth=1)
        axes.axhline(-0.5, color=GRID, linewidth=1.5)
        axes.set_title(f"T = {temperature:g}")
        axes.set_xlabel("times as fast as plain decoding")
        axes.grid(axis="x", color=GRID)
    seen = [x for row in found for x in (row["ratio"], row["high"], row["predicted"]) if x is not None]
    columns[0].set_xlim(0, 1.05 * max(1, *seen))  # the marks are as wide as a few per cent of the axis
    columns[0].set_yticks([-i for i in range(len(kinds))], kinds)
    columns[0].set_ylim(0.5 - len(kinds), 0.5)
    for axes in columns:
        axes.tick_params(axis="y", length=0)
    fig.legend(loc="outside lower center", ncols=min(len(names), 4), columnspacing=1.2)
    best = [max((row for row in found if row["temperature"] == t and row["kind"] == OVERALL),
                key=lambda row: row["ratio"], default=None) for t in temperatures]  # fmt: skip
    words = [f"T = {one['temperature']:g}: {_fastest(one)}" for one in best if one]
    note = ". Stroke: predicted, without the prefill"
    headline(fig, f"fastest at batch {batch}, over all kinds: " + "; ".join(words) + note)
    return found


draw_bench.height = 620


def _fastest(best: Mapping[str, Any]) -> str:
    """The arm that beats plain decoding by most, or plain decoding itself."""
    share = f"{best['arm']}, {best['ratio']:.2f}×"
    return share if best["ratio"] > 1 else f"plain (next {share})"


def draw_batches(
    fig: Any, rows: Rows, modelled: Rows = (), temperature: float | None = None, arms: Sequence[str] | None = None
) -> list[dict]:
    """Tokens a second of the whole batch over the batch size, and times as fast as plain decoding.

    rows: of ``bench.summary``, several batch sizes.  modelled: further rows with arm, batch and tokens_per_second that
        nobody measured; they are drawn hollow and dashed.  temperature: the first one when None.
    Returns a row each: arm, batch, tokens_per_second, ratio (to plain decoding at the same batch), measured.
    """
    if not rows:
        raise ValueError("no rows: give those of lab.bench.summary")
    temperature = rows[0]["temperature"] if temperature is None else temperature
    mine = [row for row in rows if row["temperature"] == temperature and row["kind"] == OVERALL]
    every = [(row, True) for row in mine] + [(row, False) for row in modelled]
    names = list(dict.fromkeys(row["arm"] for row, _ in every)) if arms is None else list(arms)
    base = {row["batch"]: row["tokens_per_second"] for row, _ in every if row["arm"] == "plain"}
    found = [
        {"arm": row["arm"], "batch": row["batch"], "tokens_per_second": row["tokens_per_second"],
         "ratio": row["tokens_per_second"] / base[row["batch"]], "measured": is_measured}
        for row, is_measured in every if row["arm"] in names and row["batch"] in base
    ]  # fmt: skip
    if not found:
        raise ValueError(f"nothing to draw at T = {temperature:g}: the rows need the arm plain at each batch size")
    left, right = fig.subplots(1, 2)
    for i, name in enumerate(names):
        color, marker, _ = LINES[i % len(LINES)]
        points = sorted((row for row in found if row["arm"] == name), key=lambda row: row["batch"])
        for axes, column in ((left, "tokens_per_second"), (right, "ratio")):
            axes.plot([row["batch"] for row in points], [row[column] for row in points], color=color, linewidth=1.2,
                      linestyle="--")  # fmt: skip
            seen = [row for row in points if row["measured"]]
            axes.plot([row["batch"] for row in seen], [row[column] for row in seen], color=color, linewidth=2.2,
                      marker=marker, markersize=7, label=name if axes is left else None)  # fmt: skip
            hollow = [row for row in points if not row["measured"]]
            axes.plot([row["batch"] for row in hollow], [row[column] for row in hollow], color=color, linestyle="none",
                      marker=marker, markersize=7, markerfacecolor="white")  # fmt: skip
    sizes = sorted({row["batch"] for row in found})
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel("batch size")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color=GRID)
    right.axhline(1, color=INK, linewidth=1)
    left.set_title("tokens a second, all sequences together")
    right.set_title("times as fast as plain decoding")
    fig.legend(loc="outside lower center", ncols=min(len(names), 4), columnspacing=1.2)
    words = []
    for name in (name for name in names if name != "plain"):
        lost = [row["batch"] for row in found if row["arm"] == name and row["ratio"] < 1]
        words.append(f"{name} " + (f"loses from batch {min(lost)} on" if lost else "gains at each"))
    note = "; hollow: modelled" if any(not row["measured"] for row in found) else ""
    headline(fig, f"T = {temperature:g}: " + ", ".join(words) + note)
    return found


draw_batches.height = 430
