"""Pictures of trained heads: their parts, the pairs they read, their relatives, how they learn, what is accepted.

Takes: a head's module for its shapes, or plain numbers.  Returns: from each draw function, the numbers drawn.
Must not know: how heads are trained or how drafts are judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .colors import GRID, INK, LOOKS
from .numbers import bars, headline
from .plots_cache import STATES

OWN, TARGET, VALUE = "the head's own", "the target's", "value"
#: who owns a part → (fill, hatch)
_FILLS = {OWN: ("#F7D794", "//"), TARGET: ("#A9D3EE", ""), VALUE: ("#FFFFFF", "")}

#: (colour, marker, line style) of curves side by side.
LINES = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", ":"),
    ("#E69F00", "v", "-"),
    ("#56B4E9", "P", "--"),
    ("#222222", "X", "-."),
    ("#777777", "*", ":"),
)


def head_parts(head: Any) -> list[dict]:
    """The parts of an MTP head's first layer and what it borrows: part, owner, shape, parameters."""
    layer, decoder = head.layers[0], head.decoder
    size = decoder.config.hidden_size
    shapes = {
        "enorm": f"{size} → {size}",
        "hnorm": f"{size} → {size}",
        "eh_proj": f"{2 * size} → {size}",
        "block": f"{size} → {size}",
        "post_norm": f"{size} → {size}",
    }
    rows = [
        {
            "part": name,
            "owner": OWN,
            "shape": shape,
            "parameters": sum(weight.numel() for weight in getattr(layer, name).parameters()),
        }
        for name, shape in shapes.items()
    ]
    vocabulary = decoder.embedding.weight.shape[0]
    borrowed = {
        "embedding": (f"{vocabulary} × {size}", decoder.embedding),
        "lm_head": (f"{size} → {vocabulary}", decoder.lm_head),
    }
    return rows + [
        {"part": name, "owner": TARGET, "shape": shape, "parameters": module.weight.numel()}
        for name, (shape, module) in borrowed.items()
    ]


def _block(
    axes: Any, x: float, y: float, text: str, owner: str, width: float = 1.1, height: float = 0.8, size: float = 9
) -> None:
    from matplotlib.patches import FancyBboxPatch

    fill, hatch = _FILLS[owner]
    shape = FancyBboxPatch(
        (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0,rounding_size=0.06",
        facecolor=fill, hatch=hatch, edgecolor=INK, linewidth=0.9,
    )  # fmt: skip
    axes.add_patch(shape)
    pad = {"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.85} if hatch else None
    axes.text(x, y, text, ha="center", va="center", fontsize=size, linespacing=1.25, bbox=pad)


def _arrow(axes: Any, *points: tuple[float, float], dashed: bool = False, color: str = INK) -> None:
    """A line through the points with a head at the last one."""
    style = "--" if dashed else "-"
    if len(points) > 2:
        axes.plot(*zip(*points[:-1]), color=color, linewidth=1.2, linestyle=style)
    axes.annotate(
        "", points[-1], points[-2],
        arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 1.2, "linestyle": style, "shrinkA": 0,
                    "shrinkB": 0, "mutation_scale": 11},
    )  # fmt: skip


def _owners(fig: Any) -> None:
    from matplotlib.patches import Patch

    words = {OWN: "the head's own part, trained", TARGET: "the target's part, shared", VALUE: "what flows"}
    handles = [Patch(facecolor=f, hatch=h, edgecolor=INK, label=words[name]) for name, (f, h) in _FILLS.items()]
    fig.legend(handles=handles, loc="outside lower center", ncols=3)


def draw_head(fig: Any, parts: Sequence[Mapping[str, Any]]) -> list[dict]:
    """The parts of an MTP head, from the two inputs to the draft token, with shapes and parameter counts.

    parts: what ``head_parts`` returns. Returns the same rows.
    """
    found = {row["part"]: row for row in parts}
    axes = fig.subplots()
    size = found["enorm"]["shape"].split()[0]

    def part(x: float, y: float, name: str, word: str = "", width: float = 1.1) -> None:
        row = found[name]
        count = f"\n{row['parameters']:,} weights" if row["owner"] == OWN else ""
        height = 1.0 if count else 0.8
        _block(axes, x, y, f"{word or name}\n{row['shape']}{count}", row["owner"], width, height)

    top, low, mid = 3.5, 1.9, 2.7
    _block(axes, 0.55, top, "next token\n$t_{i+1}$", VALUE, 0.95)
    part(1.85, top, "embedding", width=1.15)
    _block(axes, 1.2, low, f"hidden state $h_i$\n{size}", VALUE, 1.45)
    part(3.2, top, "enorm")
    part(3.2, low, "hnorm")
    _block(axes, 4.4, mid, f"[e; h]\n2 × {size}", VALUE, 0.95)
    part(5.6, mid, "eh_proj", width=1.15)
    part(6.97, mid, "block", "decoder layer", 1.3)
    _block(axes, 6.95, 1.25, "own KV cache", VALUE, 1.25, 0.5)
    part(8.28, mid, "post_norm")
    part(9.5, mid, "lm_head", width=1.1)
    _block(axes, 9.5, 3.95, "draft token\nguess of $t_{i+2}$", VALUE, 1.1, 0.7)
    _arrow(axes, (1.02, top), (1.27, top))
    _arrow(axes, (2.43, top), (2.65, top))
    _arrow(axes, (1.93, low), (2.65, low))
    _arrow(axes, (3.75, top), (4.4, top), (4.4, mid + 0.4))
    _arrow(axes, (3.75, low), (4.4, low), (4.4, mid - 0.4))
    for left, right in ((4.88, 5.02), (6.18, 6.32), (7.62, 7.73), (8.83, 8.95)):
        _arrow(axes, (left, mid), (right, mid))
    _arrow(axes, (6.95, 1.5), (6.95, mid - 0.5))
    _arrow(axes, (9.5, mid + 0.4), (9.5, 3.6))
    _arrow(axes, (8.25, mid - 0.5), (8.25, 0.65), (1.2, 0.65), (1.2, low - 0.4), dashed=True, color="#8A4B00")
    _arrow(axes, (9.5, 4.3), (9.5, 4.6), (0.55, 4.6), (0.55, top + 0.4), dashed=True, color="#8A4B00")
    note = {"ha": "center", "va": "center", "fontsize": 9.5, "color": "#8A4B00",
            "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 2}}  # fmt: skip
    axes.text(4.4, 0.65, "next step: the output is fed back as the hidden state", **note)
    axes.text(4.4, 4.6, "next step: the own draft token is fed back as the token", **note)
    axes.set_xlim(0, 10.1)
    axes.set_ylim(0.4, 4.85)
    axes.axis("off")
    own = sum(row["parameters"] for row in parts if row["owner"] == OWN)
    headline(fig, f"one MTP head: {own:,} weights of its own; embedding and lm_head are the target's")
    _owners(fig)
    return [dict(row) for row in parts]


draw_head.height = 440


# -- The pairs a head reads ------------------------------------------------------------------------------------------


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


# -- Four ways to look ahead -----------------------------------------------------------------------------------------

RELATIVES = (
    {
        "drafter": "MTP head",
        "reads": "last hidden state\nand next token",
        "calls": "k of one layer",
        "sees": True,
        "cache": "one layer",
    },
    {
        "drafter": "Medusa",
        "reads": "last hidden state",
        "calls": "1, all heads at once",
        "sees": False,
        "cache": "none",
    },
    {
        "drafter": "EAGLE",
        "reads": "three depths, fused,\nand next token",
        "calls": "k of one layer",
        "sees": True,
        "cache": "one layer",
    },
    {
        "drafter": "gated LoRA",
        "reads": "the text, and masks\nbehind it",
        "calls": "1 of the whole target",
        "sees": True,
        "cache": "whole target",
    },
)  # fmt: skip


def draw_relatives(fig: Any) -> list[dict]:
    """MTP, Medusa, EAGLE and gated LoRA side by side: what each reads, what a draft costs, what draft token 2 sees.

    Returns a row a drafter: drafter, reads, calls, sees (whether draft token 2 sees draft token 1), cache.
    """
    columns = fig.subplots(1, len(RELATIVES))
    for axes, row in zip(columns, RELATIVES, strict=True):
        name = row["drafter"]
        if name == "gated LoRA":
            _masked(axes)
        else:
            _on_states(axes, fused=name == "EAGLE", chained=row["sees"])
        axes.set_title(name)
        sees = "yes" if row["sees"] else "no"
        reads = row["reads"].replace("\n", "\n      ")
        words = f"reads: {reads}\nd2 sees d1: {sees}\ncalls: {row['calls']}\ncache: {row['cache']}"
        axes.text(0.0, -0.35, words, ha="left", va="top", fontsize=9.5, linespacing=1.35)
        axes.set_xlim(-0.1, 6.3)
        axes.set_ylim(-4.0, 7.2)
        axes.axis("off")
    headline(fig, "four ways to look ahead: what each reads, and whether draft token 2 sees draft token 1")
    _owners(fig)
    return [{**row, "reads": row["reads"].replace("\n", " ")} for row in RELATIVES]


draw_relatives.height = 470

_DRAFTS = (2.75, 4.15, 5.55)


def _on_states(axes: Any, fused: bool, chained: bool) -> None:
    """A head on the target's hidden states: the stack at the left, three head calls, three draft tokens."""
    read = (0, 1, 2) if fused else (4,)
    for i in range(5):
        name = "norm" if i == 4 else f"layer {i + 1}"
        _block(axes, 0.8, 0.35 + 0.75 * i, name, TARGET if i in read else VALUE, 1.45, 0.6)
    source = (1.55, 3.35)
    if fused:
        _block(axes, 0.8, 4.75, "fuse", OWN, 1.1, 0.7)
        for i in read:
            axes.plot([1.53, 1.75], [0.35 + 0.75 * i] * 2, color=INK, linewidth=1.1)
        _arrow(axes, (1.75, 0.35), (1.75, 4.1), (0.9, 4.1), (0.9, 4.4))
        source = (1.35, 4.75)
    level = 4.0 if not fused else 4.75
    if not chained:
        bend = 1.95
        axes.plot([source[0], bend], [source[1]] * 2, color=INK, linewidth=1.2)
        axes.plot([bend, bend, _DRAFTS[-1]], [source[1], 2.6, 2.6], color=INK, linewidth=1.2)
    for i, x in enumerate(_DRAFTS):
        _block(
            axes,
            x,
            level,
            f"head{'' if chained else f' {i + 1}'}",
            OWN,
            1.05 if chained else 1.3,
            0.85,
            8.5 if chained else 8,
        )
        _block(axes, x, 6.6, f"d{i + 1}", VALUE, 0.8, 0.7)
        _arrow(axes, (x, level + 0.43), (x, 6.25))
        if not chained:
            _arrow(axes, (x, 2.6), (x, level - 0.43))
        elif i:
            _arrow(axes, (x - 0.87, level), (x - 0.53, level))
            token = {"dashed": True, "color": "#8A4B00"}
            _arrow(axes, (x - 1.0, 6.6), (x - 0.75, 6.6), (x - 0.75, level + 0.62), (x - 0.4, level + 0.43), **token)
    if chained:
        _arrow(axes, source, (1.82, source[1]), (1.82, level), (2.22, level))
        axes.text(2.75, level - 1.15, "token $t$", ha="center", va="center", fontsize=9, color="#8A4B00")
        _arrow(axes, (2.75, level - 0.85), (2.75, level - 0.43), dashed=True, color="#8A4B00")


def _masked(axes: Any) -> None:
    """The target once more, with masks behind the text; a small sampler reads the draft token before."""
    places = (1.0, 3.2, 5.4)
    for x, word in zip(places, ("$t$", "mask 1", "mask 2")):
        _block(axes, x, 0.25, word, OWN if "mask" in word else VALUE, 1.75, 0.8, 8.5)
    _block(axes, 3.2, 2.3, "the target again\nLoRA in the masks' rows only", TARGET, 6.0, 1.5)
    for i, x in enumerate(places):
        _arrow(axes, (x, 0.65), (x, 1.55))
        _block(axes, x, 6.6, f"d{i + 1}", VALUE, 0.8, 0.7)
        if i:
            _block(axes, x, 4.6, "sampler", OWN, 1.75, 0.85, 8.5)
            _arrow(axes, (x, 3.05), (x, 4.17))
            _arrow(axes, (x, 5.03), (x, 6.25))
            before = places[i - 1]
            token = {"dashed": True, "color": "#8A4B00"}
            _arrow(axes, (before + 0.4, 6.6), (x - 0.95, 6.6), (x - 0.95, 5.35), (x - 0.6, 5.03), **token)
        else:
            _arrow(axes, (x, 3.05), (x, 6.25))


# -- Learning and acceptance -----------------------------------------------------------------------------------------


def draw_probe(fig: Any, shares: Mapping[str, float]) -> list[dict]:
    """How often a guess of the token after next is right, by what it was made from: name → share. Rows: from, share."""
    axes = fig.subplots()
    names = list(shares)
    for i, name in enumerate(names):
        color, _, _ = LINES[i % len(LINES)]
        hatch = ("", "//", "..", "xx", "\\\\")[i % 5]
        axes.barh(-i, shares[name], color=color, hatch=hatch, edgecolor=INK, linewidth=0.8, height=0.66, alpha=0.75)
        axes.text(shares[name] + 0.01, -i, f"{shares[name]:.2f}", va="center")
    axes.set_yticks([-i for i in range(len(names))], names)
    axes.set_xlim(0, min(1.0, max(shares.values()) * 1.25 + 0.05))
    axes.set_xlabel("share of positions where the guess is the target's own choice")
    best = max(shares, key=shares.get)
    headline(fig, f"who knows the token after next? most: {best}, {shares[best]:.2f}")
    return [{"from": name, "share": float(share)} for name, share in shares.items()]


draw_probe.height = 260


def draw_training(
    fig: Any, log: Sequence[Mapping[str, float]], before: Sequence[float], after: Sequence[float]
) -> dict:
    """The loss of each draft step while a head trains, and acceptance by position before and after.

    log: rows with step, kl1, kl2 …  before, after: the share of rounds in which each draft position was accepted.
    Returns {"log": …, "before": …, "after": …}.
    """
    left, right = fig.subplots(1, 2)
    steps = sorted({name for row in log for name in row if name.startswith("kl")})
    for (color, marker, style), name in zip(LINES, steps):
        points = [(row["step"], row[name]) for row in log if name in row]
        left.plot(*zip(*points), color=color, linestyle=style, marker=marker, markevery=max(1, len(points) // 8),
                  label=f"draft step {name[2:]}")  # fmt: skip
    left.set_title("the loss falls")
    left.set_xlabel("training step")
    left.set_ylabel("KL divergence, nats")
    left.set_ylim(bottom=0)
    left.legend()
    looks = (("before training", before, "#BBBBBB", "xx", -0.2), ("after training", after, "#009E73", "", 0.2))
    for label, shares, color, hatch, shift in looks:
        places = [i + 1 + shift for i in range(len(shares))]
        bars(right, places, list(shares), color, hatch, width=0.38, label=label)
        for x, share in zip(places, shares):
            right.text(x, share + 0.01, f"{share:.2f}", ha="center", va="bottom", fontsize=9)
    right.set_title("and more is accepted")
    right.set_xlabel("draft position")
    right.set_ylabel("share of rounds that accept it")
    right.set_xticks(range(1, max(len(before), len(after)) + 1))
    right.set_ylim(0, max([*before, *after, 0.1]) * 1.25)
    right.legend()
    headline(fig, f"a head trained for {log[-1]['step']} steps: position 1 from {before[0]:.2f} to {after[0]:.2f}")
    return {"log": [dict(row) for row in log], "before": list(before), "after": list(after)}


draw_training.height = 380


def draw_acceptance(
    fig: Any, series: Mapping[str, Sequence[float]], lengths: Mapping[str, float] | None = None
) -> list[dict]:
    """Acceptance by position, a curve a drafter: name → share of rounds in which each draft position was accepted.

    lengths: name → mean acceptance length, shown in the legend. Returns rows: drafter, position, accepted.
    """
    axes = fig.subplots()
    rows = []
    for i, (name, shares) in enumerate(series.items()):
        color, marker, style = LINES[i % len(LINES)]
        places = list(range(1, len(shares) + 1))
        label = name if not lengths or name not in lengths else f"{name} ({lengths[name]:.2f})"
        axes.plot(places, shares, color=color, marker=marker, markersize=8, linestyle=style, linewidth=2, label=label)
        rows += [{"drafter": name, "position": p, "accepted": float(s)} for p, s in zip(places, shares)]
    axes.grid(axis="y", color=GRID)
    axes.set_xticks(range(1, max(len(shares) for shares in series.values()) + 1))
    axes.set_xlabel("draft position")
    axes.set_ylabel("share of rounds that accept it")
    axes.set_ylim(0, min(1.04, max(max(shares) for shares in series.values()) * 1.15))
    fig.legend(loc="outside right upper", title="tokens a round, in brackets" if lengths else None)
    first = {name: shares[0] for name, shares in series.items()}
    best = max(first, key=first.get)
    headline(fig, f"acceptance falls with the position; best at position 1: {best}, {first[best]:.2f}")
    return rows


draw_acceptance.height = 400
