"""Pictures of a server: acceptance by position as it was counted, and whether to draft at a load.

Takes: counters of ``serving``; acceptance, k, batch, the drafter's size.  Returns: from each draw function, numbers.
Must not know: where counters come from; real machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..lab import theory
from ..lab.server_sim import TARGET
from ..serving import Counters
from .colors import GRID, INK, LINES, LOOKS
from .numbers import bars, headline

BATCHES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512)


def draw_counted(fig: Any, readings: Mapping[str, Counters]) -> list[dict]:
    """Acceptance by position with 95 % intervals: of all rounds on the left, once judged on the right.

    readings: name → counters.
    Returns a row for each mark: name, position, of ("all rounds", "judged"), rate, low, high, trials.
    """
    if not readings:
        raise ValueError("no readings: give name → counters")
    left, right = fig.subplots(1, 2, sharey=True)
    rows: list[dict] = []
    for i, (name, one) in enumerate(readings.items()):
        color, marker, _ = LINES[i % len(LINES)]
        shift = 0.12 * (i - (len(readings) - 1) / 2)
        places = range(1, len(one.accepted) + 1)
        for axes, words, rates, trials, spans in (
            (left, "all rounds", one.by_position, [one.drafts] * len(one.accepted), one.intervals()),
            (right, "judged", one.conditional, one.judged, one.intervals(conditional=True)),
        ):
            look = {"color": color, "marker": marker, "markersize": 8, "linestyle": "none", "capsize": 4}
            errors = [[r - low for r, (low, _) in zip(rates, spans)], [high - r for r, (_, high) in zip(rates, spans)]]
            label = f"{name}: {one.mean_acceptance_length:.2f} tokens a round" if axes is left else None
            axes.errorbar([x + shift for x in places], rates, errors, label=label, **look)
            for x, rate, n, (low, high) in zip(places, rates, trials, spans):
                rows.append({"name": name, "position": x, "of": words, "rate": rate, "low": low, "high": high,
                             "trials": n})  # fmt: skip
                axes.annotate(f"{n:,}", (x + shift, high), xytext=(0, 4), textcoords="offset points", ha="center",
                              fontsize=8, color=color)  # fmt: skip
    most = max(len(one.accepted) for one in readings.values())
    for axes, title in ((left, "share of all rounds that drafted"), (right, "share of the rounds that judged it")):
        axes.set_title(title)
        axes.set_xticks(range(1, most + 1))
        axes.set_xlim(0.5, most + 0.5)
        axes.set_ylim(0, 1.08)
        axes.set_xlabel("draft position")
        axes.grid(axis="y", color=GRID)
    left.set_ylabel("accepted")
    fig.legend(loc="outside lower center", ncols=min(len(readings), 3))
    headline(fig, "acceptance by position, 95 % as if rounds were independent; small numbers: of so many rounds")
    return rows


draw_counted.height = 420


def draw_switch(
    fig: Any,
    alpha: float = 0.8,
    k: int = 2,
    batch: int = 1,
    draft_share: float = 0.06,
    context: float = 500,
    target: theory.Weights = TARGET,
    machine: theory.Machine = theory.GPU,
) -> dict[str, Any]:
    """Draft or not? The gain of k over the load, and of each k at one load; by the roofline, not measured.

    alpha: acceptance once judged.  batch: live requests.  draft_share: a draft step's weights ÷ the target's.
    context: tokens each request has in the cache.
    Returns ``gain`` (of k at this batch), ``best_k``, ``best_gain``, ``verdict``, ``loses_from`` (the first batch up to
    512 at which k is slower than no drafts, or None), ``by_k``: rows (k, gain).
    """
    drafter = theory.Weights(draft_share * target.parameters, target.bytes_each)

    def gain(batch: int, k: int) -> float:
        plain, drafted = (theory.tokens_per_second(alpha, target, drafter, machine, batch, x, context) for x in (0, k))
        return drafted / plain

    def best(batch: int) -> int:
        return theory.best_k_under_load(alpha, target, drafter, machine, batch, context, max_k=8)

    here, most = gain(batch, k), best(batch)
    loses_from = next((b for b in range(1, 513) if gain(b, k) < 1), None)
    left, right = fig.subplots(1, 2)
    color, marker, _ = LINES[0]
    left.plot(BATCHES, [gain(b, k) for b in BATCHES], color=color, marker=marker, label=f"k = {k}, fixed")
    color, marker, style = LINES[2]
    left.plot(BATCHES, [gain(b, best(b)) for b in BATCHES], color=color, marker=marker, linestyle=style,
              label="the best k at each load")  # fmt: skip
    left.axhspan(0, 1, color="#F5C77E", alpha=0.25)
    left.axhline(1, color=INK, linewidth=1)
    left.axvline(batch, color=INK, linewidth=1.2, linestyle=":")
    left.plot([batch], [here], marker="*", markersize=17, color=LINES[1][0], linestyle="none", label="your server")
    left.set_xscale("log", base=2)
    ticks = [b for b in BATCHES if b & (b - 1) == 0]
    left.set_xticks(ticks, [str(b) for b in ticks])
    left.minorticks_off()
    left.set_ylim(bottom=0)
    left.set_xlabel("live requests (batch)")
    left.set_ylabel("tokens a second ÷ those without drafts")
    left.set_title("below the line drafts make it slower")
    by_k = [{"k": x, "gain": gain(batch, x)} for x in range(9)]
    for row in by_k:
        kind = "accepted" if row["k"] == most else "draft" if row["k"] == k else "prompt"
        bars(right, [row["k"]], [row["gain"]], LOOKS[kind].color, LOOKS[kind].hatch)
        right.text(row["k"], row["gain"], f"{row['gain']:.2f}", ha="center", va="bottom", fontsize=9)
    right.axhline(1, color=INK, linewidth=1)
    right.set_xticks(range(9))
    right.set_ylim(0, 1.12 * max(row["gain"] for row in by_k))
    right.set_xlabel("draft tokens a round, k")
    right.set_title(f"each k at {batch} live; green: best, hatched: yours")
    fig.legend(loc="outside lower center", ncols=3)
    verdict = "off" if most == 0 else "on" if most == k else f"on, with k = {most}"
    headline(fig, f"acceptance {alpha:.2f}, {batch} live: k = {k} gains {here:.2f}×; the best k is {most} "
                  f"({gain(batch, most):.2f}×): {verdict}")  # fmt: skip
    return {"gain": here, "best_k": most, "best_gain": gain(batch, most), "verdict": verdict, "loses_from": loses_from,
            "by_k": by_k}  # fmt: skip


draw_switch.height = 440
