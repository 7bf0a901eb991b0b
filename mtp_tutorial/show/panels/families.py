"""Panel of real shapes: GPU, batch, k, acceptance, and what a draft step scores.

Takes: where the controls start.  Returns: a ``Panel``.
Must not know: how anything is drawn.
"""

from __future__ import annotations

from ...lab.families import GPUS
from ..panel import Panel, choice, slider
from ..plots_families import draw_families


def families_panel(
    gpu: str = "H100 SXM", batch: int = 1, k: int = 2, alpha: float = 0.8, bits: int = 16, scored: float = 1.0
) -> Panel:
    """The speed-up of real shapes on a GPU of its data sheet, by the roofline.

    Controls: ``gpu``, ``batch`` (sequences), ``k``, ``alpha``, ``bits`` of a weight, ``scored`` (the share of the
    lm_head that a draft step scores), ``layer_overhead`` (microseconds of every layer beyond reading and computing).
    """
    controls = {
        "gpu": choice("GPU", list(GPUS), gpu),
        "batch": choice("batch", [1, 8, 32, 128, 256, 512], batch),
        "k": slider("draft tokens k", 1, 6, int(k)),
        "alpha": slider("acceptance", 0.0, 1.0, float(alpha), 0.05),
        "bits": choice("bits of a weight", [16, 8, 4], bits),
        "scored": slider("share of lm_head scored", 0.05, 1.0, float(scored), 0.05),
        "layer_overhead": slider("overhead a layer, µs", 0, 200, 0, 10),
    }
    return Panel(draw_families, controls, "real shapes on a GPU")
