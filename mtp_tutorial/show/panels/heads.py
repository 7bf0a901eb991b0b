"""Panels of the MTP head: its parts one by one, and the pairs it reads.

Takes: the few things a lesson wants to vary.  Returns: a ``Panel``.
Must not know: how anything is drawn.
"""

from __future__ import annotations

from typing import Any

from ..panel import Panel, choice, slider
from ..plots_head import STEPS, draw_head, head_parts
from ..plots_pairs import draw_steps


def steps_panel(step: int = 1, layers: int = 1, k: int = 3, accepted: int = 2) -> Panel:
    """The pairs a head reads, call by call: controls ``step``, ``layers`` (one head, or a stack) and ``accepted``."""
    controls = {
        "step": slider("moment", 1, k + 2, int(step)),
        "layers": choice("heads", {f"one, applied {k} times": 1, f"a stack of {k}": k}, int(layers)),
        "accepted": slider("draft tokens kept", 0, k, int(accepted)),
    }
    return Panel(draw_steps, controls, "the pairs a head reads", {"k": k})


def head_panel(head: Any, step: int = 0) -> Panel:
    """The parts of an MTP head, one step of a call after the other: control ``step`` (0: all of it)."""
    controls = {"step": slider("step (0: all)", 0, len(STEPS), int(step))}
    return Panel(draw_head, controls, "an MTP head, step by step", {"parts": head_parts(head)})
