"""Pictures of a recorded generation: one round at a time, and all rounds in a row.

Takes: a ``Generation``.  Returns: from each draw function, the numbers drawn.
Must not know: models, verify rules beyond their names, widgets.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .colors import INK, LOOKS, look
from .numbers import Labels, bars, headline, namer, short
from .plots_cache import DRAFT, UNUSED, cache_stages, slot_box

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..records import Generation, Round


def verdicts(one: Round) -> list[str]:
    """For each draft token of a round: "accepted", "rejected", or "not judged" (it came after a rejection)."""
    n = one.num_accepted
    return ["accepted" if i < n else "rejected" if i == n else "not judged" for i in range(one.num_drafted)]


def _bar_to_beat(one: Round, rule: str) -> list[float] | None:
    """What the coin of each draft token must stay below, or None for a rule that reads no coin."""
    if rule == "target_only":
        return list(one.target_probs)
    if rule == "rejection":
        return [min(1.0, p / q) if q > 0 else 0.0 for p, q in zip(one.target_probs, one.draft_probs)]
    return None


def draw_round(
    fig: Any, generation: Generation, step: int = 0, labels: Labels = None, rule: str = "rejection"
) -> list[dict]:
    """One round: the draft tokens with q and p, the coins, the verdict, what was emitted, and the cache counter.

    step: which round (0 is the prefill; clamped).  labels: names of the token ids.
    rule: the verify rule it ran under. Coins are drawn for "rejection" and "target_only", the rules that compare
        each with one number.
    Returns one row a draft token: position, token, q, p, threshold, coin, verdict.
    """
    step = max(0, min(int(step), len(generation.rounds) - 1))
    one = generation.rounds[step]
    name = namer(labels, dict(zip(generation.tokens, generation.pieces)))
    limits = _bar_to_beat(one, rule)
    rows = [
        {
            "position": i + 1,
            "token": name(token),
            "q": _at(one.draft_probs, i),
            "p": _at(one.target_probs, i),
            "threshold": _at(limits or (), i),
            "coin": _at(one.coins, i) if limits else math.nan,
            "verdict": verdict,
        }
        for i, (token, verdict) in enumerate(zip(one.draft_tokens, verdicts(one)))
    ]
    top, middle, bottom = fig.subplots(3, 1, height_ratios=[1, 3.2, 0.9])
    _strip(top, generation, step, name)
    if rows:
        _judgement(middle, rows, limits is not None, rule)
    else:
        middle.axis("off")
        words = "the prompt's own forward call: no draft yet" if one.is_prefill else "nothing was drafted in this round"
        middle.text(0.5, 0.5, words, ha="center", va="center", transform=middle.transAxes)
    headline(fig, _headline(generation, one, name, drawn=rule != "greedy"))
    _cache_strip(bottom, generation, step, name)
    return rows


draw_round.height = 520


def _at(values: Any, i: int) -> float:
    return values[i] if i < len(values) else math.nan


def _headline(generation: Generation, one: Round, name: Callable[[int], str], drawn: bool) -> str:
    where = f"round {one.index} of {len(generation.rounds) - 1}"
    if not one.tokens:
        return f"{where}: nothing emitted"
    end = f"{one.kinds[-1]} “{short(name(one.tokens[-1]), 16)}”"
    if one.is_prefill or not one.num_drafted:
        return f"{where}: {end}"
    if one.kinds[-1] == "accepted":
        return f"{where}: {one.num_accepted} of {one.num_drafted} accepted, and the text ends there"
    u = f" (drawn with u = {one.draws[one.num_accepted]:.2f})" if drawn and one.num_accepted < len(one.draws) else ""
    return f"{where}: {one.num_accepted} of {one.num_drafted} accepted, then {end}{u}"


def _strip(axes: Any, generation: Generation, step: int, name: Callable[[int], str], room: int = 12) -> None:
    """The last tokens of the text as boxes, those of this round in the colours of their kinds."""
    one = generation.rounds[step]
    before = [t for r in generation.rounds[:step] for t in r.tokens]
    before = [*generation.prompt_tokens, *before][-max(room - len(one.tokens), 0) :]
    boxes = [(t, "prompt") for t in before] + list(zip(one.tokens, one.kinds))
    for x, (token, kind) in enumerate(boxes[-room:]):
        style = look(kind)
        bars(axes, x + 0.5, 0.6, style.color, style.hatch, width=0.92, alpha=0.3 if kind == "prompt" else 0.75)
        pad = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.85}
        axes.text(x + 0.5, 0.3, short(name(token), 8), ha="center", va="center", fontsize=9, bbox=pad)
        if kind != "prompt":
            axes.text(x + 0.5, 0.66, kind, ha="center", va="bottom", fontsize=9)
    axes.set_xlim(0, room)
    axes.set_ylim(0, 1)
    axes.axis("off")


def _cache_strip(axes: Any, generation: Generation, step: int, name: Callable[[int], str], room: int = 15) -> None:
    """The last slots of the KV cache after the round: what the call wrote, and where the counter stands."""
    one = generation.rounds[step]
    stage = [stage for stage in cache_stages(generation) if stage.round == one.index][-1]
    end = max(len(stage.tokens), one.cache_written)
    first = max(0, end - room)
    for slot in range(first, first + room):
        if slot >= len(stage.tokens):
            slot_box(axes, slot, 0, UNUSED, linestyle=":")
            continue
        fresh = one.cache_before <= slot < one.cache_after and not one.is_prefill
        token = stage.tokens[slot]
        slot_box(axes, slot, 0, DRAFT if fresh else stage.states[slot], short(name(token), 6) if token >= 0 else "…")
    for place, look_of_line in (
        (one.cache_before, {"linewidth": 1.8, "linestyle": (0, (2, 1.5))}),
        (one.cache_after, {"linewidth": 3.5, "solid_capstyle": "butt"}),
    ):
        if place >= first:
            axes.plot([place] * 2, [-0.55, 0.55], color=INK, **look_of_line)
    axes.set_xlim(first - 0.1, first + room + 0.1)
    axes.set_ylim(-0.6, 0.6)
    axes.set_xticks([i + 0.5 for i in range(first, first + room)], range(first, first + room), fontsize=9)
    axes.tick_params(length=0, pad=1)
    axes.set_xlabel("slot (hatched: written by this call and kept; crossed: rejected, still there)", fontsize=9.5)
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title(
        f"KV cache: {one.cache_before} slots before (dashed line), {one.cache_written} after the call, "
        f"{one.cache_after} kept (thick line)"
    )


def _judgement(axes: Any, rows: list[dict], coins: bool, rule: str) -> None:
    """For each draft token: q, p, what the coin must stay below, the coin, the verdict."""
    for i, row in enumerate(rows):
        alpha = 0.3 if row["verdict"] == "not judged" else 1.0
        series = [("q", "draft", -0.27), ("p", "target", 0.0)]
        words = {"q": "q(d), drafter", "p": "p(d), target"}
        for key, kind, shift in series:
            style = LOOKS[kind]
            label = words[key] if i == 0 else None
            bars(axes, i + shift, row[key], style.color, style.hatch, width=0.25, alpha=alpha, label=label)
        if coins:
            limit = "p(d)" if rule == "target_only" else "min(1, p/q)"
            bars(
                axes,
                i + 0.27,
                row["threshold"],
                "#FFFFFF",
                "",
                width=0.25,
                alpha=alpha,
                label=limit if i == 0 else None,
            )
            if not math.isnan(row["coin"]):
                axes.plot(
                    [i + 0.27], [row["coin"]], marker="D", markersize=9, color=INK, alpha=alpha, linestyle="none",
                    label="coin: accepted when below the hollow bar's top" if i == 0 else None,
                )  # fmt: skip
        mark = {"accepted": "✓ accepted", "rejected": "✗ rejected"}.get(row["verdict"], "not judged")
        color = {"accepted": LOOKS["accepted"].color, "rejected": LOOKS["rejected"].color}.get(row["verdict"], INK)
        axes.text(i, 1.06, mark, ha="center", va="bottom", color=color, fontweight="bold" if alpha == 1 else "normal")
    axes.set_xticks(range(len(rows)), [f"d{r['position']}: {short(r['token'], 12)}" for r in rows])
    axes.set_xlim(-0.6, max(len(rows), 2) - 0.4)
    axes.set_ylim(0, 1.22)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_ylabel("probability")
    axes.figure.legend(loc="outside lower center", ncols=4)


def draw_timeline(fig: Any, generation: Generation) -> list[dict]:
    """Tokens of each round, by kind, with the mean acceptance length.

    Returns one row a round: round, drafted, accepted, tokens, last (the kind of the last token).
    """
    axes = fig.subplots()
    rows, used = [], []
    for one in generation.rounds:
        height = 0
        for kind in ("prefill", "plain", "accepted", "recovered", "bonus"):
            count = one.kinds.count(kind)
            if count:
                style = look(kind)
                label = kind if kind not in used else None
                used.append(kind)
                bars(axes, one.index, count, style.color, style.hatch, width=0.8, bottom=height, label=label)
                height += count
        rows.append(
            {
                "round": one.index,
                "drafted": one.num_drafted,
                "accepted": one.num_accepted,
                "tokens": len(one.tokens),
                "last": one.kinds[-1] if one.kinds else "",
            }
        )
    drafted = [(r["round"], r["drafted"] + 1) for r in rows if r["drafted"]]
    if drafted:
        axes.plot(*zip(*drafted), color=INK, marker="_", markersize=9, linestyle="none", label="drafted + 1")
    mean = generation.mean_acceptance_length
    axes.set_title(f"{len(generation.tokens)} tokens in {generation.target_calls} target calls")
    if not math.isnan(mean):
        axes.axhline(mean, color=INK, linestyle="--", linewidth=1.2, label=f"mean acceptance length {mean:.2f}")
        rate = generation.acceptance_rate
        if not math.isnan(rate):
            axes.set_title(axes.get_title("left") + f"; acceptance rate {rate:.2f}")
    axes.set_xlabel("round (0: prefill)")
    axes.set_ylabel("tokens emitted")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_xlim(-0.6, len(rows) - 0.4)
    fig.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, columnspacing=1.2)
    return rows


draw_timeline.height = 280
