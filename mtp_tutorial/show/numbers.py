"""Small helpers of the draw functions: numbers from lists, arrays or tensors, names for tokens, bars with borders.

Takes: what a notebook author has at hand.  Returns: plain lists and strings.
Must not know: what a picture shows.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
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
        return [f"#{i}" for i in range(count)]
    if len(labels) < count:
        raise ValueError(f"{len(labels)} labels for {count} tokens: give one for each token")
    return [str(label) for label in labels[:count]]


Labels = Mapping[int, str] | Sequence[str] | Callable[[int], str] | None


def namer(labels: Labels, known: Mapping[int, str] | None = None) -> Callable[[int], str]:
    """A function id → name for pictures.

    labels: ids → words, a list of words by id, or a function; what it does not name is looked up in ``known``.
    The font of the pictures has no Chinese: such a name is replaced by the id, so give an English gloss there.
    """

    def name(token: int) -> str:
        found: str | None
        if callable(labels):
            found = labels(token)
        elif isinstance(labels, Mapping):
            found = labels.get(token)
        else:
            found = labels[token] if labels is not None and 0 <= token < len(labels) else None
        found = found if found is not None else (known or {}).get(token, "")
        shown = short(found.strip(" ") or "␣" * len(found), 40)  # a token of blanks shows as such
        return shown if shown and max(map(ord, shown)) < 0x2E80 else f"#{token}"

    return name


def headline(fig: Any, text: str) -> None:
    """The sentence on top of a picture, broken where it would not fit."""
    fig.suptitle("\n".join(textwrap.wrap(text, 96)), x=0.01, ha="left")


def bars(axes: Any, x: Any, height: Any, color: str, hatch: str = "", **kwargs: Any) -> Any:
    """Bars with a dark border, so that the hatch shows."""
    return axes.bar(x, height, color=color, hatch=hatch, edgecolor=INK, linewidth=0.8, **kwargs)


def short(text: str, width: int = 9) -> str:
    """The text on one line, cut to ``width`` characters."""
    text = text.replace("\n", "↵").replace("\t", "→").replace("$", r"\$")
    return text if len(text) <= width else text[: width - 1] + "…"
