"""Pictures of the KV cache: the mask of the verify call, and the counter that moves back.

Takes: lengths, or a recorded ``Generation``.  Returns: from each draw function, the numbers drawn.
Must not know: models, widgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .colors import INK, LOOKS
from .numbers import Labels, headline, namer, short

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..records import Generation

COMMITTED, DRAFT, STALE, UNUSED = "committed", "draft", "stale", "unused"
#: state → (fill, hatch, what the legend says)
STATES = {
    COMMITTED: ("#A9D3EE", "", "committed"),
    DRAFT: ("#F7D794", "//", "just written, not yet judged"),
    STALE: ("#D9D9D9", "xx", "rejected: still there, beyond the counter"),
    UNUSED: ("#FFFFFF", "", "never written"),
}


def slot_box(axes: Any, x: float, y: float, state: str, text: str = "", **kwargs: Any) -> None:
    """One slot of a KV cache, in the look of its state; further arguments go to the rectangle."""
    from matplotlib.patches import Rectangle

    fill, hatch, _ = STATES[state]
    style = {"facecolor": fill, "hatch": hatch, "edgecolor": INK, "linewidth": 0.8, **kwargs}
    axes.add_patch(Rectangle((x + 0.04, y - 0.4), 0.92, 0.8, **style))
    if text:
        pad = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.8} if hatch else None
        axes.text(x + 0.5, y, text, ha="center", va="center", fontsize=9, bbox=pad, alpha=kwargs.get("alpha"))


def _legend(fig: Any, states: Sequence[str], **extra: str) -> None:
    from matplotlib.patches import Patch

    handles = []
    for state in states:
        fill, hatch, words = STATES[state]
        handles.append(Patch(facecolor=fill, hatch=hatch, edgecolor=INK, label=extra.get(state, words)))
    fig.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def draw_mask(fig: Any, length: int = 5, k: int = 4, step: int = 0, labels: Sequence[str] | None = None) -> list[dict]:
    """The k + 1 rows of one verify call, and which slots of the KV cache each row may look at.

    length: slots committed before the call.  k: draft tokens.  step: 0 shows the whole call, i the i-th row alone.
    labels: names of the k + 1 tokens fed: the last token of the text, then the draft tokens.
    Returns one row for each row of the call: row, token, sees (slots), judges, shown (at full strength).
    """
    length, k, step = int(length), int(k), int(step)
    if length < 0 or k < 0:
        raise ValueError(f"length={length}, k={k}: use whole numbers, 0 or more")
    step = min(step, k + 1)
    fed = list(labels) if labels is not None else ["last", *(f"d{i}" for i in range(1, k + 1))]
    if len(fed) < k + 1:
        raise ValueError(f"{len(fed)} labels for {k + 1} rows: name the last token of the text and each draft token")
    axes = fig.subplots()
    rows = []
    for row in range(k + 1):
        judges = fed[row + 1] if row < k else "bonus"
        shown = step in (0, row + 1)
        rows.append(
            {"row": row, "token": fed[row], "sees": list(range(length + row + 1)), "judges": judges, "shown": shown}
        )
        faded = 1.0 if shown else 0.25
        for slot in range(length + k + 1):
            if slot > length + row:
                slot_box(axes, slot, -row, UNUSED, "", alpha=faded, linestyle=":")
            else:
                slot_box(axes, slot, -row, COMMITTED if slot < length else DRAFT, "", alpha=faded)
        words = f"judges {short(judges)}" if row < k else "gives the bonus"
        axes.text(length + k + 1.2, -row, f"→ {words}", va="center", fontsize=10, alpha=max(faded, 0.35))
    tops = [*(str(i) for i in range(length)), *(f"{length + i}\n{short(fed[i], 8)}" for i in range(k + 1))]
    axes.set_xticks([i + 0.5 for i in range(length + k + 1)], tops, fontsize=9)
    axes.xaxis.tick_top()
    axes.set_yticks([-i for i in range(k + 1)], [f"row {i}: {short(fed[i], 8)}" for i in range(k + 1)])
    axes.tick_params(length=0)
    axes.set_xlim(0, length + k + 4.2)
    axes.set_ylim(-k - 0.5, 0.5)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlabel("slot of the KV cache, with the token that this call writes into it")
    axes.xaxis.set_label_position("top")
    if step:
        one = rows[step - 1]
        what = f"so it judges “{one['judges']}”" if step <= k else "so it gives the bonus token"
        headline(fig, f"row {step - 1} sees slots 0 … {length + step - 1}: all that came before, {what}")
    else:
        headline(fig, f"one call, {k + 1} rows: each sees what lies before it, and itself")
    _legend(fig, [COMMITTED, DRAFT, UNUSED], draft="written by this call", unused="hidden by the causal mask")
    return rows


class Stage(NamedTuple):
    """The cache at one moment: what each written slot holds, its state, which slots were written over, the counter."""

    words: str
    round: int
    tokens: tuple[int, ...]
    states: tuple[str, ...]
    overwritten: frozenset[int]
    counter: int


def cache_stages(generation: Generation) -> list[Stage]:
    """Every moment of a generation: for each round the target call, then, where tokens were rejected, the roll-back."""
    said = list(generation.prompt_tokens)
    slots: list[int] = []
    stages = []
    for one in generation.rounds:
        start, end = one.cache_before, one.cache_written
        written = [*said[start:end], *one.draft_tokens][: end - start]
        written += [-1] * (end - start - len(written))  # drafts past the end of the text are not recorded
        over = frozenset(range(start, min(end, len(slots))))
        slots[start:end] = written
        fresh = COMMITTED if one.is_prefill else DRAFT
        states = [COMMITTED] * start + [fresh] * (end - start) + [STALE] * (len(slots) - end)
        words = "prefill" if one.is_prefill else f"round {one.index}: target call"
        stages.append(Stage(words, one.index, tuple(slots), tuple(states), over, start if not one.is_prefill else end))
        said += one.tokens
        if not one.is_prefill:
            after = one.cache_after
            states = [COMMITTED] * after + [STALE] * (len(slots) - after)
            words = f"round {one.index}: counter → {after}"
            stages.append(Stage(words, one.index, tuple(slots), tuple(states), frozenset(), after))
    return stages


def draw_cache(
    fig: Any, generation: Generation, step: int = 0, labels: Labels = None, window: int = 15, history: int = 4
) -> list[dict]:
    """The slots of the KV cache and its counter, moment by moment; the moments before stay visible above.

    step: which moment of ``cache_stages`` (clamped).  labels: names of the token ids.
    window: how many slots are shown.  history: how many moments are shown.
    Returns one row a slot of the last moment: slot, token, state, overwritten, committed.
    """
    stages = cache_stages(generation)
    step = max(0, min(int(step), len(stages) - 1))
    shown = stages[max(0, step + 1 - history) : step + 1]
    known = dict(zip(generation.tokens, generation.pieces))
    name = namer(labels, known)
    last = max(len(s.tokens) for s in shown) + 1
    first = max(0, last - window)
    axes = fig.subplots()
    for y, stage in enumerate(reversed(shown)):
        y = -(len(shown) - 1 - y)
        for slot in range(first, max(last, first + window)):
            if slot >= len(stage.tokens):
                slot_box(axes, slot, y, UNUSED, linestyle=":")
                continue
            edge = {"edgecolor": LOOKS["recovered"].color, "linewidth": 2.2} if slot in stage.overwritten else {}
            slot_box(axes, slot, y, stage.states[slot], _slot_name(stage.tokens[slot], name), **edge)
        axes.plot([stage.counter] * 2, [y - 0.48, y + 0.48], color=INK, linewidth=3.5, solid_capstyle="butt")
    stage = shown[-1]
    axes.set_yticks([-i for i in range(len(shown))], [s.words for s in shown], fontsize=10)
    axes.set_xticks([i + 0.5 for i in range(first, max(last, first + window))], range(first, max(last, first + window)))
    axes.set_xlim(first - 0.1, max(last, first + window) + 0.1)
    axes.set_ylim(0.5 - history, 0.55)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlabel("slot of the KV cache (thick line: the counter; red border: a rejected token's slot written over)")
    headline(fig, _story(stage))
    _legend(fig, list(STATES))
    return [
        {
            "slot": slot,
            "token": token,
            "state": stage.states[slot],
            "overwritten": slot in stage.overwritten,
            "committed": slot < stage.counter,
        }
        for slot, token in enumerate(stage.tokens)
    ]


def _slot_name(token: int, name: Callable[[int], str]) -> str:
    return short(name(token), 6) if token >= 0 else "…"


def _story(stage: Stage) -> str:
    """What the moment shows, in one sentence."""
    fresh, stale = stage.states.count(DRAFT), stage.states.count(STALE)
    if fresh:
        over = f", {len(stage.overwritten)} of them over rejected tokens" if stage.overwritten else ""
        return f"{stage.words}: slots written: {fresh}{over}; the counter still says {stage.counter}"
    if -1 in stage.tokens:
        return f"{stage.words}: the text ends here, and what was drafted past its end is not kept"
    if stale:
        slots = (
            "the slot beyond it holds a rejected token"
            if stale == 1
            else f"{stale} slots beyond it hold rejected tokens"
        )
        return f"{stage.words}: {slots}, and nothing is cleaned"
    return f"{stage.words}: {stage.counter} slots committed"
