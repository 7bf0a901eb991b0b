"""What every function of this folder asks of the numbers it is given.

Takes: lists, arrays, tensors, numbers.  Returns: the same as arrays, looked at.
Must not know: statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np


def numbers(name: str, values: object, least: int = 1) -> np.ndarray:
    """(n,) float64. Raises ValueError for fewer than ``least`` of them, and for NaN or infinity."""
    try:
        found = np.asarray(values.tolist() if hasattr(values, "tolist") else list(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a list of numbers, got {type(values).__name__}") from error
    if found.ndim != 1:
        raise ValueError(f"{name} must be one row of numbers, got the shape {found.shape}")
    if len(found) < least:
        raise ValueError(f"{name} has {len(found)} numbers: {least} or more are needed")
    if not np.isfinite(found).all():
        raise ValueError(f"{name} holds {found[~np.isfinite(found)][0]}: leave out what was not measured")
    return found


def share(name: str, value: object, low: float = 0.0, high: float = 1.0) -> float:
    """A number strictly between ``low`` and ``high``."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low < value < high:
        raise ValueError(f"{name}={value!r}: use a number between {low:g} and {high:g}, neither of them allowed")
    return float(value)


def positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < math.inf:
        raise ValueError(f"{name}={value!r}: use a finite number above 0")
    return float(value)


def whole(name: str, value: object, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}={value!r}: use a whole number, {least} or more")
    if value > 2**53:
        raise ValueError(f"{name}={value!r}: use a whole number up to 2^53, beyond which floats do not count")
    return int(value)


def grouped(clusters: Sequence | None, *columns: np.ndarray) -> list[np.ndarray]:
    """The sums of each column over each cluster; without clusters the columns themselves."""
    if clusters is None:
        return list(columns)
    labels = list(clusters.tolist() if hasattr(clusters, "tolist") else clusters)
    if len(labels) != len(columns[0]):
        raise ValueError(f"{len(labels)} clusters for {len(columns[0])} numbers: name the cluster of each number")
    places = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    index = [places[label] for label in labels]
    return [np.bincount(index, weights=column, minlength=len(places)) for column in columns]


def yes_no_pairs(baseline: object, arm: object) -> tuple[np.ndarray, np.ndarray]:
    """Two (n,) arrays of 0 and 1. Raises ValueError for different lengths, empty lists, anything but yes and no."""
    a, b = numbers("baseline", baseline), numbers("arm", arm)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} answers: pairs need as many of one as of the other")
    if not (np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()):
        raise ValueError("baseline and arm hold yes and no: True and False, or 1 and 0")
    return a, b
