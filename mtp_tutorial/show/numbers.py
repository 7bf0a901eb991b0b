"""Small helpers of the draw functions: numbers from lists, arrays or tensors, names for tokens, bars with borders.

Takes: what a notebook author has at hand.  Returns: plain lists and strings.
Must not know: what a picture shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .colors import INK


def as_list(values: Any) -> list[float]:
    """A flat list of floats from a list, a numpy array or a tensor. Raises ValueError when it is not one row."""
    values = values.tolist() if hasattr(values, "tolist") else list(values)
    if not values or any(isinstance(v, (list, tuple)) for v in values):
        raise ValueError("give one row of numbers, one for each token")
    return [float(v) for v in values]


def as_probs(values: Any, name: str = "probs") -> list[float]:
    """As ``as_list``, and a distribution: not negative, sum 1. Raises ValueError otherwise."""
    row = as_list(values)
    if min(row) < 0 or abs(sum(row) - 1) > 1e-3:
        raise ValueError(f"{name} must be a distribution (not negative, sum 1), its sum is {sum(row):.4g}")
    return row


def names(labels: Sequence[str] | None, count: int) -> list[str]:
    """A name for each of ``count`` tokens: the labels, or the ids. Raises ValueError when there are too few labels."""
    if labels is None:
        return [str(i) for i in range(count)]
    if len(labels) < count:
        raise ValueError(f"{len(labels)} labels for {count} tokens: give one for each token")
    return [str(label) for label in labels[:count]]


def bars(axes: Any, x: Any, height: Any, color: str, hatch: str = "", **kwargs: Any) -> Any:
    """Bars with a dark border, so that the hatch shows."""
    return axes.bar(x, height, color=color, hatch=hatch, edgecolor=INK, linewidth=0.8, **kwargs)


def short(text: str, width: int = 9) -> str:
    """The text on one line, cut to ``width`` characters."""
    text = text.replace("\n", "↵").replace("\t", "→").replace("$", r"\$")
    return text if len(text) <= width else text[: width - 1] + "…"
