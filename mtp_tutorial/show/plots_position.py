"""Acceptance by draft position and the tokens a round it brings: a drafter of your choice beside a recorded one.

Takes: an acceptance rate, how fast it falls with the position, k; recorded shares.  Returns: the numbers drawn.
Must not know: how the shares were measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..lab import theory
from .colors import GRID, INK, LOOKS
from .numbers import bars, headline
from .plots_decoding import PARTS

MOST = 8  # draft positions on the axis, so that bars do not jump when k moves


def draw_by_position(
    fig: Any,
    alpha: float = 0.8,
    fall: float = 0.0,
    k: int = 4,
    measured: Sequence[float] | None = None,
    name: str = "recorded",
) -> dict[str, Any]:
    """Each draft position's acceptance once judged, its share of all rounds, and the tokens a round they add up to.

    alpha: the acceptance rate of position 1.  fall: what each further position loses.  k: draft tokens a round.
    measured: shares of all rounds at positions 1, 2, … of a recorded run, shown as marks and as a second bar.
    Returns ``rows`` (position, judged, shares), ``rate`` (accepted ÷ drafted), ``length`` (tokens a round) and
    ``measured`` (the tokens a round of the recorded run, or None).
    Raises ValueError when a rate or a share lies outside 0 … 1, or k outside 1 … 8.
    """
    shares = [float(share) for share in measured or ()]
    if not 0 <= alpha <= 1 or fall < 0 or not all(0 <= share <= 1 for share in shares):
        raise ValueError(f"alpha={alpha}, fall={fall}, measured={shares}: rates and shares lie from 0 to 1")
    if not 1 <= k <= MOST:
        raise ValueError(f"k={k}: use a whole number from 1 to {MOST}")
    judged = [max(0.0, alpha - i * fall) for i in range(k)]
    kept = theory.survival(judged, k)
    length = theory.expected_tokens(judged, k)
    left, right = fig.subplots(1, 2, width_ratios=[1.25, 1])
    places = range(1, k + 1)
    pale, full = LOOKS["draft"], LOOKS["accepted"]
    bars(left, [x - 0.2 for x in places], judged, pale.color, pale.hatch, width=0.38, alpha=0.55, label="once judged")
    bars(left, [x + 0.2 for x in places], kept, full.color, full.hatch, width=0.38, label="of all rounds: accepted")
    if shares:
        marks = {"marker": "D", "markersize": 8, "color": INK, "markerfacecolor": "white", "linestyle": "none"}
        left.plot([x + 1.2 for x in range(len(shares))], shares, label=f"{name}, of all rounds", **marks)
    numbers = [*(f"{share:.2f}" for share in kept), *[""] * (MOST - k)]  # below the bars: no mark can hide them
    left.set_xticks(range(1, MOST + 1), [f"{x}\n{number}" for x, number in enumerate(numbers, 1)])
    left.set_xlim(0.4, MOST + 0.6)
    left.set_ylim(0, 1.12)
    left.set_yticks([0, 0.25, 0.5, 0.75, 1])
    left.grid(axis="y", color=GRID)
    left.set_xlabel("draft position, and below it the share of all rounds that accept it")
    left.set_ylabel("share accepted")
    left.set_title("acceptance by position")
    _sums(right, {"this drafter": kept, **({name: shares} if shares else {})})
    fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    rate = sum(kept) / k
    headline(fig, f"k = {k}: {length:.2f} tokens a round; acceptance rate, accepted ÷ drafted, {rate:.2f}")
    rows = [{"position": i, "judged": a, "shares": s} for i, a, s in zip(places, judged, kept)]
    return {"rows": rows, "rate": rate, "length": length, "measured": 1 + sum(shares) if shares else None}


draw_by_position.height = 410


def _sums(axes: Any, series: dict[str, Sequence[float]]) -> None:
    """A bar each: the target's own token, then each position's share, laid end to end."""
    for y, shares in enumerate(series.values()):
        left = 0.0
        for i, width in enumerate((1.0, *shares)):
            color, hatch = PARTS[min(i, len(PARTS) - 1)]
            axes.barh(-y, width, left=left, height=0.5, color=color, hatch=hatch, edgecolor=INK, linewidth=0.8)
            left += width
        axes.text(left + 0.06, -y, f"{left:.2f}", va="center", fontweight="bold" if y == 0 else "normal")
    axes.set_yticks([-y for y in range(len(series))], list(series))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-1.6, 0.6)
    axes.set_xlim(0, MOST + 2)
    axes.set_xlabel("1 + the share of each position")
    axes.set_title("tokens a round")
