"""Picture of real shapes: what a round costs in plain calls, beside the tokens that it brings.

Takes: a GPU, a batch, k, acceptance.  Returns: the numbers drawn, a row a family.
Must not know: how anything is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..lab import families, theory
from .colors import GRID, INK, look
from .numbers import headline

_VERIFY, _DRAFT = look("target"), look("draft")


def draw_families(
    fig: Any,
    gpu: str = "H100 SXM",
    batch: int = 1,
    k: int = 2,
    alpha: float = 0.8,
    bits: int = 16,
    scored: float = 1.0,
    layer_overhead: float = 0.0,
    names: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """A bar a family: the verify call and k draft steps, in plain calls; the line is the tokens that a round brings.

    A bar that ends left of the line is a gain. Arguments as in ``lab.families.predict``; layer_overhead: microseconds.
    Returns a row each: family, gpus, plain (milliseconds of a call), verify_cost, draft_cost, tokens, speed_up, bound.
    """
    chosen = list(names or families.FAMILIES)
    found = [families.predict(name, gpu, k, alpha, batch, bits, scored, layer_overhead * 1e-6) for name in chosen]
    axes = fig.subplots()
    tokens = theory.expected_tokens(alpha, k)
    right = max(tokens, *(one.round_cost for one in found)) * 1.05
    for y, one in enumerate(found):
        style = {"edgecolor": INK, "linewidth": 0.8, "height": 0.6}
        axes.barh(-y, one.verify_cost, color=_VERIFY.color, label="the verify call" if not y else None, **style)
        axes.barh(-y, k * one.draft_cost, left=one.verify_cost, color=_DRAFT.color, hatch=_DRAFT.hatch,
                  label="draft steps" if not y else None, **style)  # fmt: skip
        words = f"{one.speed_up:.2f}×   plain: {1000 * one.plain:.3g} ms, {one.gpus} GPU{'s' * (one.gpus > 1)}"
        axes.text(right * 1.02, -y, words, va="center", fontsize=10)
    axes.axvline(tokens, color=INK, linewidth=2, label="tokens a round")
    axes.axvline(1, color=INK, linewidth=1, linestyle=":")
    axes.set_xlim(0, right)
    axes.set_yticks([-y for y in range(len(found))], chosen)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("cost of a round, in plain calls")
    axes.grid(axis="x", color=GRID)
    fig.legend(loc="outside lower center", ncols=3)
    best = max(found, key=lambda one: one.speed_up)
    least = min(found, key=lambda one: one.speed_up)
    headline(
        fig,
        f"{gpu}, batch {batch}, k = {k}, α = {alpha:g}: {least.speed_up:.2f}× for {least.family} to "
        f"{best.speed_up:.2f}× for {best.family}",
    )
    return [
        {"family": one.family, "gpus": one.gpus, "plain": 1000 * one.plain, "verify_cost": one.verify_cost,
         "draft_cost": one.draft_cost, "tokens": one.tokens, "speed_up": one.speed_up, "bound": one.bound}
        for one in found
    ]  # fmt: skip


draw_families.height = 430
