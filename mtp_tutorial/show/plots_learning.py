"""How heads learn, what a hidden state knows, and what is accepted, by position.

Takes: plain numbers.  Returns: from each draw function, the numbers drawn.
Must not know: how heads are trained or how drafts are judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .colors import GRID, INK, LINES
from .numbers import bars, headline


def draw_probe(fig: Any, shares: Mapping[str, float]) -> list[dict]:
    """How often a guess of the token after next is right, by what it was made from: name → share. Rows: from, share."""
    axes = fig.subplots()
    names = list(shares)
    for i, name in enumerate(names):
        color, _, _ = LINES[i % len(LINES)]
        hatch = ("", "//", "..", "xx", "\\\\")[i % 5]
        axes.barh(-i, shares[name], color=color, hatch=hatch, edgecolor=INK, linewidth=0.8, height=0.66, alpha=0.75)
        axes.text(shares[name] + 0.01, -i, f"{shares[name]:.2f}", va="center")
    axes.set_yticks([-i for i in range(len(names))], names)
    axes.set_xlim(0, min(1.0, max(shares.values()) * 1.25 + 0.05))
    axes.set_xlabel("share of positions where the guess is the target's own choice")
    best = max(shares, key=shares.get)
    headline(fig, f"who knows the token after next? most: {best}, {shares[best]:.2f}")
    return [{"from": name, "share": float(share)} for name, share in shares.items()]


draw_probe.height = 260


def draw_training(
    fig: Any, log: Sequence[Mapping[str, float]], before: Sequence[float], after: Sequence[float]
) -> dict:
    """The loss of each draft step while a head trains, and acceptance by position before and after.

    log: rows with step, kl1, kl2 …  before, after: the share of rounds in which each draft position was accepted.
    Returns {"log": …, "before": …, "after": …}.
    """
    left, right = fig.subplots(1, 2)
    steps = sorted({name for row in log for name in row if name.startswith("kl")})
    for (color, marker, style), name in zip(LINES, steps):
        points = [(row["step"], row[name]) for row in log if name in row]
        left.plot(*zip(*points), color=color, linestyle=style, marker=marker, markevery=max(1, len(points) // 8),
                  label=f"draft step {name[2:]}")  # fmt: skip
    left.set_title("the loss falls")
    left.set_xlabel("training step")
    left.set_ylabel("KL divergence, nats")
    left.set_ylim(bottom=0)
    left.legend()
    looks = (("before training", before, "#BBBBBB", "xx", -0.2), ("after training", after, "#009E73", "", 0.2))
    for label, shares, color, hatch, shift in looks:
        places = [i + 1 + shift for i in range(len(shares))]
        bars(right, places, list(shares), color, hatch, width=0.38, label=label)
        for x, share in zip(places, shares):
            right.text(x, share + 0.01, f"{share:.2f}", ha="center", va="bottom", fontsize=9)
    right.set_title("and more is accepted")
    right.set_xlabel("draft position")
    right.set_ylabel("share of rounds that accept it")
    right.set_xticks(range(1, max(len(before), len(after)) + 1))
    right.set_ylim(0, max([*before, *after, 0.1]) * 1.25)
    right.legend()
    headline(fig, f"a head trained for {log[-1]['step']} steps: position 1 from {before[0]:.2f} to {after[0]:.2f}")
    return {"log": [dict(row) for row in log], "before": list(before), "after": list(after)}


draw_training.height = 380


def draw_acceptance(
    fig: Any, series: Mapping[str, Sequence[float]], lengths: Mapping[str, float] | None = None
) -> list[dict]:
    """Acceptance by position, a curve a drafter: name → share of rounds in which each draft position was accepted.

    lengths: name → mean acceptance length, shown in the legend. Returns rows: drafter, position, accepted.
    """
    axes = fig.subplots()
    rows = []
    for i, (name, shares) in enumerate(series.items()):
        color, marker, style = LINES[i % len(LINES)]
        places = list(range(1, len(shares) + 1))
        label = name if not lengths or name not in lengths else f"{name} ({lengths[name]:.2f})"
        axes.plot(places, shares, color=color, marker=marker, markersize=8, linestyle=style, linewidth=2, label=label)
        rows += [{"drafter": name, "position": p, "accepted": float(s)} for p, s in zip(places, shares)]
    axes.grid(axis="y", color=GRID)
    axes.set_xticks(range(1, max(len(shares) for shares in series.values()) + 1))
    axes.set_xlabel("draft position")
    axes.set_ylabel("share of rounds that accept it")
    axes.set_ylim(0, min(1.04, max(max(shares) for shares in series.values()) * 1.15))
    fig.legend(loc="outside right upper", title="tokens a round, in brackets" if lengths else None)
    first = {name: shares[0] for name, shares in series.items()}
    best = max(first, key=first.get)
    headline(fig, f"acceptance falls with the position; best at position 1: {best}, {first[best]:.2f}")
    return rows


draw_acceptance.height = 400
