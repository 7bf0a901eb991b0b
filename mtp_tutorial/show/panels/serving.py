"""The panel of a server: draft or not, at your acceptance, k and load.

Takes: the few things a lesson wants to vary.  Returns: a ``Panel``.
Must not know: how anything is drawn.
"""

from __future__ import annotations

from ..panel import Panel, slider
from ..plots_serving import draw_switch


def switch_panel(alpha: float = 0.8, k: int = 2, batch: int = 1, draft_share: float = 0.06) -> Panel:
    """Draft or not? Controls: ``alpha`` (acceptance once judged), ``k``, ``batch`` (live requests), ``draft_share``
    (a draft step's weights ÷ the target's)."""
    controls = {
        "alpha": slider("acceptance, once judged", 0.0, 1.0, float(alpha), 0.05),
        "k": slider("draft tokens k", 1, 8, int(k)),
        "batch": slider("live requests", 1, 512, int(batch)),
        "draft_share": slider("draft step ÷ target", 0.0, 0.5, float(draft_share), 0.02),
    }
    return Panel(draw_switch, controls, "draft or not")
