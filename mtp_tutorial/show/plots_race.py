"""Picture of one draw as a race: finishing times, and the same draw as Gumbel-max.

Takes: probabilities and the noise of each token.  Returns: the numbers drawn.
Must not know: models, verify rules, widgets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .colors import INK, token_look
from .numbers import as_list, as_probs, bars, headline, names


def draw_race(fig: Any, probs: Any, noise: Any, labels: Sequence[str] | None = None) -> list[dict]:
    """Left: when each token arrives, noise ÷ p. Right: log p minus log noise. The first on the left leads on the right.

    Returns one row a token: token, probability, noise, time, score, wins.
    Raises ValueError when a probability or a noise number is not above 0, or there is not one of it for each token.
    """
    probs, noise = as_probs(probs), as_list(noise)
    labels = names(labels, len(probs))
    if len(noise) != len(probs) or min(probs) <= 0 or min(noise) <= 0:
        raise ValueError("give each token a probability and a noise number, all above 0")
    times = [e / p for e, p in zip(noise, probs)]
    scores = [-math.log(t) for t in times]
    winner = min(range(len(times)), key=times.__getitem__)
    left, right = fig.subplots(1, 2, width_ratios=[1.25, 1])
    for i, time in enumerate(times):
        color, hatch = token_look(i)
        left.barh(i, time, height=0.6, color=color, hatch=hatch, edgecolor=INK, linewidth=2.5 if i == winner else 0.8)
        left.annotate(
            f"{noise[i]:.2f} ÷ {probs[i]:.2f} = {time:.2f}", (time, i), xytext=(6, 0), textcoords="offset points",
            va="center",
        )  # fmt: skip
        bars(right, i, scores[i], color, hatch, width=0.6).patches[0].set_linewidth(2.5 if i == winner else 0.8)
        below = scores[i] < 0
        right.annotate(
            f"{round(scores[i], 2) + 0:.2f}", (i, scores[i]), xytext=(0, -4 if below else 4),
            textcoords="offset points", ha="center", va="top" if below else "bottom",
        )  # fmt: skip
    left.axvline(times[winner], color=INK, linestyle="--", linewidth=1.2)
    left.set_yticks(range(len(probs)), labels)
    left.invert_yaxis()
    left.set_xlim(0, 1.6 * max(times))
    left.set_xlabel("finishing time = noise ÷ p")
    left.set_title(f"race: {labels[winner]} arrives first")
    right.axhline(0, color=INK, linewidth=0.8)
    room = 0.2 * (max(*scores, 0.5) - min(*scores, -0.5))
    right.set_ylim(min(*scores, 0) - room, max(*scores, 0) + room)
    right.set_xticks(range(len(probs)), labels)
    right.set_ylabel("log p - log noise")
    right.set_title(f"Gumbel-max: {labels[winner]} is highest")
    headline(fig, f"one draw, two views: the token is {labels[winner]}")
    return [
        {
            "token": label, "probability": probs[i], "noise": noise[i], "time": times[i], "score": scores[i],
            "wins": i == winner,
        }
        for i, label in enumerate(labels)
    ]  # fmt: skip
