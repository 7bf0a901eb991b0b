"""Panels of sampling: temperature and the segment, the filters, three samplers.

Takes: the few things a lesson wants to vary.  Returns: a ``Panel``.
Must not know: how anything is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..numbers import as_list
from ..panel import Panel, slider
from ..plots_sampling import draw_filters, draw_samplers, draw_segment


def segment_panel(
    logits: Any = (3.0, 2.0), labels: Sequence[str] | None = None, temperature: float = 0.6, u: float = 0.30
) -> Panel:
    """Temperature and the segment [0, 1): controls ``temperature`` (0 … 3) and ``u`` (0 … 0.99)."""
    controls = {
        "temperature": slider("temperature T", 0.0, 3.0, float(temperature), 0.1),
        "u": slider("uniform number u", 0.0, 0.99, float(u), 0.01),
    }
    return Panel(draw_segment, controls, "temperature and the segment", {"logits": as_list(logits), "labels": labels})


def filter_panel(
    logits: Any,
    labels: Sequence[str] | None = None,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> Panel:
    """top-k, top-p and min-p: controls ``temperature``, ``top_k`` (0: off), ``top_p`` (1: off), ``min_p`` (0: off)."""
    logits = as_list(logits)
    controls = {
        "temperature": slider("temperature T", 0.1, 3.0, float(temperature), 0.1),
        "top_k": slider("top-k (0: off)", 0, len(logits), int(top_k)),
        "top_p": slider("top-p (1: off)", 0.05, 1.0, float(top_p), 0.05),
        "min_p": slider("min-p (0: off)", 0.0, 1.0, float(min_p), 0.05),
    }
    return Panel(draw_filters, controls, "top-k, top-p, min-p", {"logits": logits, "labels": labels})


def sampler_panel(probs: Any, labels: Sequence[str] | None = None, n: int = 1000, seed: int = 1) -> Panel:
    """Three samplers against the exact law: controls ``n`` (draws) and ``seed``."""
    controls = {"n": slider("draws", 100, 10_000, int(n), 100), "seed": slider("seed", 0, 20, int(seed))}
    return Panel(draw_samplers, controls, "three samplers, one law", {"probs": as_list(probs), "labels": labels})
