"""The pairs an MTP head reads, call by call: one head applied k times, or a stack of several.

Takes: how many layers, drafts and accepted tokens.  Returns: from each draw function, the numbers drawn.
Must not know: how heads are trained or how drafts are judged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .colors import INK, LOOKS
from .numbers import headline
from .plots_cache import STATES


class Pair(NamedTuple):
    """One slot of a layer's cache: what it holds, and how it stands at the moment shown."""

    layer: int  # from 1
    place: int  # from 1: the position of its hidden state
    hidden: str
    token: str
    state: str  # a key of plots_cache.STATES
    fresh: bool  # read by the call shown
    gives: str = ""  # the draft token that its output is turned into


class Moment(NamedTuple):
    """All slots at one moment, where each layer's counter stands, and a sentence."""

    words: str
    pairs: tuple[Pair, ...]
    counters: tuple[int, ...]


def head_moments(layers: int = 1, k: int = 3, accepted: int = 2, settled: int = 3, waiting: int = 2) -> list[Moment]:
    """A round of drafting, call by call; then the roll-back; then the first call of the next round.

    layers: 1 applies one layer k times, more are a stack whose layer s makes draft token s.
    settled: pairs that the first layer has read.  waiting: pairs that came since, as the target read more tokens.
    accepted: how many draft tokens the target keeps.
    """
    if layers < 1 or k < 1 or not 0 <= accepted <= k or settled < layers or waiting < 1:
        raise ValueError(
            f"layers={layers}, k={k}, accepted={accepted}, settled={settled}, waiting={waiting}: "
            "use 1 or more, at most k accepted, and at least as many settled pairs as layers"
        )
    n = settled + waiting  # the target has read t1 … tn and said t(n+1)
    held: list[dict[int, Pair]] = []
    for layer in range(layers):
        done = range(1, settled - layer + 1)
        made = "h" + "′" * layer
        held.append({i: Pair(layer + 1, i, f"{made}{i}", f"t{i + 1 + layer}", "committed", False) for i in done})
    counters = [settled - layer for layer in range(layers)]
    moments = []

    def token(index: int) -> str:
        return f"t{index}" if index <= n + 1 else f"d{index - n - 1}"

    def moment(words: str) -> None:
        everything = tuple(pair for slots in held for _, pair in sorted(slots.items()))
        moments.append(Moment(words, everything, tuple(counters)))
        for slots in held:
            for i, pair in slots.items():
                slots[i] = pair._replace(fresh=False, gives="")

    for step in range(1, k + 1):
        layer = (step - 1) % layers
        slots = held[layer]
        if step <= layers:
            for i in range(counters[layer] + 1, n + 1):
                says = token(i + 1 + layer)
                state = "committed" if says.startswith("t") else "draft"
                gives = f"d{step}" if i == n else ""
                slots[i] = Pair(layer + 1, i, "h" + "′" * layer + f"{i}", says, state, True, gives)
            counters[layer] = n
            count = sum(pair.fresh for pair in slots.values())
            guessed = sum(pair.fresh and pair.state == "draft" for pair in slots.values())
            mixed = f", {guessed} of them with a draft token" if guessed else ", all of them from the target"
            who = f"layer {layer + 1}" if layers > 1 else "the head"
            moment(f"call {step}: {who} reads {count} pairs{mixed}; the last output gives d{step}")
        else:
            i = max(slots) + 1
            slots[i] = Pair(layer + 1, i, f"h′{i - 1}", f"d{step - 1}", "draft", True, f"d{step}")
            counters[layer] = i
            moment(
                f"call {step}: one pair, the head's own last output and its draft token d{step - 1}; it gives d{step}"
            )
    for slots in held:
        for i, pair in slots.items():
            if pair.state == "draft":
                slots[i] = pair._replace(state="stale")
    counters = [n - layer if layer < k else counters[layer] for layer in range(layers)]
    moment("the draft is made: the counter moves back, and pairs with draft tokens no longer count")
    more = range(n + 1, n + accepted + 2)
    for i in more:
        held[0][i] = Pair(1, i, f"h{i}", f"t{i + 1}", "committed", True, "d1" if i == more[-1] else "")
    counters[0] = more[-1]
    moment(
        f"next round: the target kept {accepted} of {k} and added one token; call 1 reads {len(more)} true "
        f"pair{'s' if len(more) > 1 else ''}"
    )
    return moments


def draw_steps(fig: Any, step: int = 1, layers: int = 1, k: int = 3, accepted: int = 2) -> list[dict]:
    """One head applied k times, or a stack of several: which pairs each call reads, and what becomes of them.

    step: 1 … k a call, k + 1 the roll-back, k + 2 the first call of the next round (clamped).
    layers, k, accepted: see ``head_moments``.
    Returns one row a slot: layer, place, hidden, token, state, fresh, gives.
    """
    from matplotlib.patches import Patch, Rectangle

    moments = head_moments(layers, k, accepted)
    shown = moments[max(1, min(int(step), len(moments))) - 1]
    columns = max(pair.place for one in moments for pair in one.pairs)
    axes = fig.subplots()
    for layer in range(1, layers + 1):
        y = -1.5 * (layer - 1)
        there = {pair.place: pair for pair in shown.pairs if pair.layer == layer}
        for place in range(1, columns + 1):
            pair = there.get(place)
            state = pair.state if pair else "unused"
            fill, hatch, _ = STATES[state]
            edge = {"edgecolor": LOOKS["recovered"].color, "linewidth": 2.4} if pair and pair.fresh else {}
            style = {"facecolor": fill, "hatch": hatch, "edgecolor": INK, "linewidth": 0.8, **edge}
            if not pair:
                style["linestyle"] = ":"
            axes.add_patch(Rectangle((place - 0.96, y - 0.42), 0.92, 0.84, **style))
            if not pair:
                continue
            pad = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.85} if hatch else None
            axes.text(place - 0.5, y, f"{pair.hidden}\n{pair.token}", ha="center", va="center", fontsize=10, bbox=pad)
            if pair.gives:
                axes.text(place - 0.5, y + 0.47, f"→ {pair.gives}", ha="center", va="bottom", fontsize=11)
        counter = shown.counters[layer - 1]
        axes.plot([counter] * 2, [y - 0.52, y + 0.52], color=INK, linewidth=3.5, solid_capstyle="butt")
    names = ["the head's cache"] if layers == 1 else [f"layer {i}'s cache" for i in range(1, layers + 1)]
    axes.set_yticks([-1.5 * i for i in range(layers)], names)
    axes.set_xticks([i + 0.5 for i in range(columns)], range(1, columns + 1))
    axes.set_xlabel("slot; in it: a hidden state above, a token below (thick line: the counter)")
    axes.set_xlim(-0.1, columns + 0.1)
    low = -1.5 * (layers - 1)
    spare = max(0.0, 0.7 + low)  # a single band keeps its size
    axes.set_ylim(low - 0.75 - spare / 2, 0.9 + spare / 2)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    headline(fig, shown.words)
    words = {
        "committed": "true: the token is in the text",
        "draft": "a guess about a guess",
        "stale": "rolled back",
        "unused": "not read yet",
    }
    handles = [
        Patch(facecolor=STATES[name][0], hatch=STATES[name][1], edgecolor=INK, label=label)
        for name, label in words.items()
    ]
    handles.append(
        Patch(facecolor="white", edgecolor=LOOKS["recovered"].color, linewidth=2.4, label="read by this call")
    )
    fig.legend(handles=handles, loc="outside lower center", ncols=5, columnspacing=1.2)
    return [pair._asdict() for pair in shown.pairs]


draw_steps.height = 430
