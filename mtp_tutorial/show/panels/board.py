"""The panel of the capstone: the leaderboard under other prices.

Takes: standings of ``lab.capstone``.  Returns: a ``Panel``.
Must not know: how scores come about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..panel import Panel, slider
from ..plots_capstone import draw_prices


def price_panel(standings: Sequence[Any], row: float = 0.03, weights: float = 1.0) -> Panel:
    """Controls ``row`` (the price of a further row) and ``weights`` (of as many weights as the target's), in calls."""
    controls = {
        "weights": slider("price of weights", 0.0, 1.0, float(weights), 0.05),
        "row": slider("price of a row", 0.0, 0.3, float(row), 0.01),
    }
    return Panel(draw_prices, controls, "the leaderboard under other prices", {"standings": list(standings)})
