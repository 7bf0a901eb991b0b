"""Ready panels: each picture of the course with the controls that suit it.

Takes: the few things a lesson wants to vary.  Returns: a ``Panel``.
Must not know: how anything is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .numbers import Labels, as_list, as_probs, names
from .panel import Panel, choice, slider
from .plots_cache import cache_stages, draw_cache, draw_mask
from .plots_case import arm_name, draw_clean_runs
from .plots_heads import draw_steps
from .plots_laws import draw_laws
from .plots_museum import draw_exhibit
from .plots_repeats import draw_repeats
from .plots_rounds import draw_round
from .plots_sampling import draw_filters, draw_samplers, draw_segment
from .plots_speed import draw_loads, draw_speed_up
from .plots_verify import draw_accept

if TYPE_CHECKING:
    from ..records import Generation


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


def steps_panel(step: int = 1, layers: int = 1, k: int = 3, accepted: int = 2) -> Panel:
    """The pairs a head reads, call by call: controls ``step``, ``layers`` (one head, or a stack) and ``accepted``."""
    controls = {
        "step": slider("moment", 1, k + 2, int(step)),
        "layers": choice("heads", {f"one, applied {k} times": 1, f"a stack of {k}": k}, int(layers)),
        "accepted": slider("draft tokens kept", 0, k, int(accepted)),
    }
    return Panel(draw_steps, controls, "the pairs a head reads", {"k": k})


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

    controls = {
        "rule": choice("verify rule", rules, rule),
        "temperature": choice("temperature T", {f"{t:g}": t for t in temperatures}, temperature),
        "step": slider("round (0: prefill)", 0, max(len(g.rounds) for g in runs.values()) - 1, int(step)),
    }
    return Panel(draw_decoding, controls, "one head, two rules, round by round")


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
    from ..lab.server_sim import TARGET
    from ..lab.theory import Weights

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
    from ..lab.museum import EXHIBITS, get

    get(exhibit)
    titles = {f"{name} · {one.title}": name for name, one in EXHIBITS.items()}
    return Panel(draw_exhibit, {"exhibit": choice("exhibit", titles, exhibit)}, "the bug museum")
