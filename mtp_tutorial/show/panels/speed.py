"""Panels of speed: acceptance by position, speed-up over acceptance and k, the best k over the batch.

Takes: the few things a lesson wants to vary.  Returns: a ``Panel``.
Must not know: how anything is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..numbers import as_list
from ..panel import Panel, slider
from ..plots_position import MOST, draw_by_position
from ..plots_speed import draw_loads, draw_speed_up


def position_panel(
    measured: Sequence[float] | None = None, name: str = "recorded", alpha: float = 0.8, fall: float = 0.0, k: int = 4
) -> Panel:
    """Acceptance by position and the tokens it brings: controls ``alpha``, ``fall`` (what each position loses), ``k``.

    measured: shares of all rounds at positions 1, 2, … of a recorded run called ``name``.
    """
    controls = {
        "alpha": slider("acceptance, once judged", 0.0, 1.0, float(alpha), 0.05),
        "fall": slider("each position loses", 0.0, 0.4, float(fall), 0.05),
        "k": slider("draft tokens k", 1, MOST, int(k)),
    }
    fixed = {"measured": None if measured is None else as_list(measured), "name": name}
    return Panel(draw_by_position, controls, "acceptance by position", fixed)


def speed_panel(draft_cost: float = 0.1, verify_cost: float = 1.0, article_k: int = 4) -> Panel:
    """Speed-up over acceptance and k: controls ``draft_cost`` and ``verify_cost`` (target calls), ``article_k``."""
    controls = {
        "draft_cost": slider("a draft step costs", 0.0, 1.0, float(draft_cost), 0.05),
        "verify_cost": slider("the verify call costs", 1.0, 4.0, float(verify_cost), 0.25),
        "article_k": slider("k of the three marks", 1, 12, int(article_k)),
    }
    return Panel(draw_speed_up, controls, "speed-up over acceptance and k")


def load_panel(draft_share: float = 0.1, context: int = 0, fixed_k: int = 4) -> Panel:
    """The best k over the batch, for the article's model and GPU with the KV cache of Llama-3-70B.

    Controls: ``draft_share`` (the drafter's size ÷ the target's), ``context`` (tokens of each sequence in the cache),
    ``fixed_k``.
    """
    from ...lab.server_sim import TARGET
    from ...lab.theory import Weights

    def draw_load(fig: Any, draft_share: float, context: int, fixed_k: int) -> list[dict]:
        drafter = Weights(draft_share * TARGET.parameters, TARGET.bytes_each)
        return draw_loads(fig, fixed_k=fixed_k, target=TARGET, drafter=drafter, context=context)

    draw_load.height = draw_loads.height
    controls = {
        "draft_share": slider("drafter ÷ target", 0.0, 0.5, float(draft_share), 0.02),
        "context": slider("tokens in the KV cache", 0, 8000, int(context), 500),
        "fixed_k": slider("k of the pale curves", 1, 12, int(fixed_k)),
    }
    return Panel(draw_load, controls, "best k over the batch")
