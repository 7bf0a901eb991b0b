"""Looks at the numbers a caller gave, before anything is computed with them.

Takes: anything.  Returns: plain Python numbers, or raises ValueError saying what would do.
Must not know: what the numbers are for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real

#: One rate for all draft positions, or one for each.
Alpha = float | Sequence[float]


def plain(value: object) -> object:
    """Arrays and tensors as Python numbers or lists of them; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def number(name: str, value: object, low: float = 0.0, high: float = math.inf, what: str = "") -> float:
    """A finite number from ``low`` to ``high``, as a float."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or not low <= value <= high:
        raise ValueError(f"{name}={value!r}: use {what or f'a finite number, {low:g} or more'}")
    return float(value)


def positive(name: str, value: object, what: str = "a number above 0") -> float:
    """A finite number above 0."""
    if number(name, value, what=what) == 0:
        raise ValueError(f"{name}=0: use {what}")
    return float(plain(value))


def whole(name: str, value: object, low: int = 0) -> int:
    """A whole number, ``low`` or more."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise ValueError(f"{name}={value!r}: use a whole number, {low} or more")
    return int(value)


def rates(alpha: Alpha, k: int) -> list[float]:
    """k conditional acceptance rates: one number k times, or the first k of a sequence."""
    alpha = plain(alpha)
    share = "a rate from 0 to 1, or a sequence of those"
    if not isinstance(alpha, (list, tuple)):
        return [number("alpha", alpha, 0, 1, share)] * k
    found = [number(f"alpha[{i}]", one, 0, 1, share) for i, one in enumerate(alpha)]
    if len(found) < k:
        raise ValueError(f"alpha has {len(found)} positions for k={k}: give one for each, or a single number")
    return found[:k]
