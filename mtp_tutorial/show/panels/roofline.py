"""The roofline with sliders: model, weights, machine, and what one call reads.

Takes: where the sliders start.  Returns: a ``Panel``.
Must not know: how anything is drawn.
"""

from __future__ import annotations

from typing import Any

from ...lab.theory import Machine, Weights
from ..panel import Panel, choice, slider
from ..plots_roofline import draw_roofline

#: name → (parameters, layers, key heads, head size), from the models' config files; the 70 B one is the article's.
SHAPES = {
    "70 B (as Llama-3-70B)": (70e9, 80, 8, 128),
    "8 B (as Llama-3-8B)": (8.03e9, 32, 8, 128),
    "SmolLM2-135M": (134.5e6, 30, 3, 64),
}
KV_BYTES = 2  # keys and values stay in 16 bits, whatever the weights have


def shape(model: str, bits: int) -> Weights:
    """The sizes of one of ``SHAPES`` with weights of ``bits`` bits. Raises ValueError for another name."""
    if model not in SHAPES:
        raise ValueError(f"no model {model!r}; there are: {', '.join(SHAPES)}")
    parameters, layers, heads, size = SHAPES[model]
    return Weights(parameters, bits / 8, kv_bytes=2 * layers * heads * size * KV_BYTES)


def draw_case(
    fig: Any, model: str, bits: int, terabytes: float, teraflops: float, sequences: int, tokens: int, context: int
) -> dict[str, Any]:
    """``draw_roofline`` in the units of data sheets. sequences · tokens rows are marked."""
    machine = Machine(terabytes * 1e12, teraflops * 1e12)
    return draw_roofline(fig, shape(model, bits), machine, (sequences * tokens,), tokens, context)


draw_case.height = draw_roofline.height


def roofline_panel(
    model: str = "70 B (as Llama-3-70B)",
    bits: int = 16,
    terabytes: float = 3.0,
    teraflops: int = 989,
    sequences: int = 1,
    tokens: int = 1,
    context: int = 0,
) -> Panel:
    """One call on the roofline. It starts at the article's model and GPU.

    Controls: ``model``, ``bits`` of a weight, ``terabytes`` (TB/s) and ``teraflops`` of the machine, ``sequences`` in
    the batch, ``tokens`` of each in the call (1: a plain step; k + 1: a verify call), ``context`` (tokens of each in
    the KV cache).
    """
    controls = {
        "model": choice("model", list(SHAPES), model),
        "bits": choice("bits of a weight", [16, 8, 4], bits),
        "terabytes": slider("memory, TB/s", 0.1, 8.0, float(terabytes), 0.1),
        "teraflops": slider("arithmetic, TFLOPS", 1, 2500, int(teraflops)),
        "sequences": slider("sequences", 1, 512, int(sequences)),
        "tokens": slider("tokens of each", 1, 8, int(tokens)),
        "context": slider("context of each", 0, 32000, int(context), 500),
    }
    return Panel(draw_case, controls, "one call on the roofline")
