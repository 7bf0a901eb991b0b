"""Panels of the repetition case and the bug museum.

Takes: the few things a lesson wants to vary.  Returns: a ``Panel``.
Must not know: how anything is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..panel import Panel, choice, slider
from ..plots_case import arm_name, draw_clean_runs
from ..plots_museum import draw_exhibit
from ..plots_repeats import draw_repeats


def clean_runs_panel(runs: int = 2, percent: float = 0.92) -> Panel:
    """What clean outputs can show: controls ``runs`` (looked at) and ``percent`` (of all runs that loop)."""

    def draw_runs(fig: Any, runs: int, percent: float) -> list[dict]:
        return draw_clean_runs(fig, runs, percent / 100)

    draw_runs.height = draw_clean_runs.height
    controls = {
        "runs": slider("runs looked at", 1, 500, int(runs)),
        "percent": slider("% of runs that loop", 0.01, 50.0, float(percent), 0.01),
    }
    return Panel(draw_runs, controls, "what clean outputs can show")


def repetition_panel(
    found: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    prompt: str | None = None,
    left: str = "off",
    right: str = "rejection",
    words: int = 4,
) -> Panel:
    """The texts of two arms with their repeats marked: controls ``prompt``, ``left``, ``right`` (arms), ``words``.

    found: summary of ``lab.experiment``; rows: its rows.  Only prompts that every arm answered can be chosen.
    Raises ValueError when there is none.
    """
    arms = [one["arm"] for one in found["arms"]]
    answered = [{row["prompt"] for row in rows if row["arm"] == arm} for arm in arms]
    prompts = sorted(set.intersection(*answered), key=_by_number)
    if not prompts:
        raise ValueError("no prompt was answered by every arm: give the rows of a finished run")
    named = {arm_name(arm): arm for arm in arms}
    controls = {
        "prompt": choice("prompt", prompts, prompt),
        "left": choice("left", named, left),
        "right": choice("right", named, right),
        "words": slider("words said before", 2, 12, int(words)),
    }
    return Panel(draw_repeats, controls, "repetition explorer", {"found": found, "rows": rows})


def _by_number(name: str) -> tuple[str, int]:
    """``code-9`` before ``code-10``."""
    kind, _, number = name.rpartition("-")
    return (kind, int(number)) if number.isdigit() else (name, 0)


def museum_panel(exhibit: str = "R1") -> Panel:
    """The bug museum, an exhibit at a time: control ``exhibit``, a dropdown of all of them."""
    from ...lab.museum import EXHIBITS, get

    get(exhibit)
    titles = {f"{name} · {one.title}": name for name, one in EXHIBITS.items()}
    return Panel(draw_exhibit, {"exhibit": choice("exhibit", titles, exhibit)}, "the bug museum")
