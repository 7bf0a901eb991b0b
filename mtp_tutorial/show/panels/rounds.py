"""Panels of a round: the mask, the cache, the round player, accept and residual, exact laws.

Takes: the few things a lesson wants to vary.  Returns: a ``Panel``.
Must not know: how anything is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..numbers import Labels, as_probs, names
from ..panel import Panel, choice, slider
from ..plots_cache import cache_stages, draw_cache, draw_mask
from ..plots_laws import draw_laws
from ..plots_rounds import draw_round
from ..plots_verify import draw_accept

if TYPE_CHECKING:
    from ...records import Generation


def mask_panel(length: int = 5, k: int = 4, step: int = 0) -> Panel:
    """The verify call's mask: controls ``length``, ``k`` and ``step`` (0: the whole call, i: its i-th row)."""
    controls = {
        "step": slider("row (0: all)", 0, 9, int(step)),
        "k": slider("draft tokens k", 0, 8, int(k)),
        "length": slider("committed slots", 0, 10, int(length)),
    }
    return Panel(draw_mask, controls, "the mask of the verify call")


def cache_panel(generation: Generation, labels: Labels = None, step: int = 0) -> Panel:
    """The KV cache moment by moment: control ``step``, from the prefill to the last roll-back."""
    controls = {"step": slider("moment", 0, max(len(cache_stages(generation)) - 1, 1), int(step))}
    return Panel(draw_cache, controls, "the KV cache and its counter", {"generation": generation, "labels": labels})


def round_panel(generation: Generation, labels: Labels = None, step: int = 1, rule: str = "rejection") -> Panel:
    """The rounds of a generation one by one: control ``step`` (0 is the prefill)."""
    last = max(len(generation.rounds) - 1, 1)
    controls = {"step": slider("round (0: prefill)", 0, last, min(int(step), last))}
    fixed = {"generation": generation, "labels": labels, "rule": rule}
    return Panel(draw_round, controls, "round by round", fixed)


def decoding_panel(
    runs: Mapping[tuple[str, float], Generation],
    labels: Labels = None,
    rule: str = "rejection",
    temperature: float = 0.6,
    step: int = 1,
) -> Panel:
    """Runs of one prompt under several rules and temperatures: controls ``rule``, ``temperature``, ``step`` (a round).

    runs: (rule, temperature) → what it generated; every pair of the two must be there.
    """
    rules, temperatures = (list(dict.fromkeys(key[i] for key in runs)) for i in (0, 1))
    missing = [(r, t) for r in rules for t in temperatures if (r, t) not in runs]
    if missing:
        raise ValueError(f"runs lacks {missing[0]}: give one for each rule at each temperature")

    def draw_decoding(fig: Any, rule: str, temperature: float, step: int) -> list[dict]:
        return draw_round(fig, runs[rule, temperature], step, labels, rule)

    draw_decoding.height = draw_round.height
    controls = {
        "rule": choice("verify rule", rules, rule),
        "temperature": choice("temperature T", {f"{t:g}": t for t in temperatures}, temperature),
        "step": slider("round (0: prefill)", 0, max(len(g.rounds) for g in runs.values()) - 1, int(step)),
    }
    return Panel(draw_decoding, controls, "one head, two rules, round by round")


def accept_panel(
    p: Any = (0.5, 0.3, 0.2),
    q: Any = None,
    labels: Sequence[str] | None = None,
    draft: int = 0,
    coin: float = 0.3,
    draw: float = 0.5,
) -> Panel:
    """Accept and residual areas: controls ``draft`` (a token), ``coin`` and ``draw``. q None: one-hot at the draft."""
    p = as_probs(p, "p")
    words = {name: i for i, name in enumerate(names(labels, len(p)))}
    controls = {
        "draft": choice("draft token", words, int(draft)),
        "coin": slider("coin", 0.0, 0.99, float(coin), 0.01),
        "draw": slider("draw", 0.0, 0.99, float(draw), 0.01),
    }
    fixed = {"p": p, "q": None if q is None else as_probs(q, "q"), "labels": labels}
    return Panel(draw_accept, controls, "accept or resample", fixed)


def law_panel(laws: Mapping[str, Mapping[Any, float]], reference: str | None = None, labels: Labels = None) -> Panel:
    """One law at a time beside the reference (the first law when None): control ``law``, a dropdown of the others."""
    reference = next(iter(laws)) if reference is None else reference
    others = [name for name in laws if name != reference]

    def draw_law(fig: Any, law: str) -> list[dict]:
        return draw_laws(fig, {reference: laws[reference], law: laws[law]}, reference, labels)

    draw_law.height = draw_laws.height
    return Panel(draw_law, {"law": choice("law", others)}, "exact laws")
