"""Four ways to look ahead side by side: MTP head, Medusa, EAGLE, gated LoRA.

Takes: nothing.  Returns: from each draw function, the numbers drawn.
Must not know: how heads are trained or how drafts are judged.
"""

from __future__ import annotations

from typing import Any

from .colors import INK
from .numbers import headline
from .plots_head import OWN, TARGET, VALUE, arrow, block, owners

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
    owners(fig)
    return [{**row, "reads": row["reads"].replace("\n", " ")} for row in RELATIVES]


draw_relatives.height = 470

_DRAFTS = (2.75, 4.15, 5.55)


def _on_states(axes: Any, fused: bool, chained: bool) -> None:
    """A head on the target's hidden states: the stack at the left, three head calls, three draft tokens."""
    read = (0, 1, 2) if fused else (4,)
    for i in range(5):
        name = "norm" if i == 4 else f"layer {i + 1}"
        block(axes, 0.8, 0.35 + 0.75 * i, name, TARGET if i in read else VALUE, 1.45, 0.6)
    source = (1.55, 3.35)
    if fused:
        block(axes, 0.8, 4.75, "fuse", OWN, 1.1, 0.7)
        for i in read:
            axes.plot([1.53, 1.75], [0.35 + 0.75 * i] * 2, color=INK, linewidth=1.1)
        arrow(axes, (1.75, 0.35), (1.75, 4.1), (0.9, 4.1), (0.9, 4.4))
        source = (1.35, 4.75)
    level = 4.0 if not fused else 4.75
    if not chained:
        bend = 1.95
        axes.plot([source[0], bend], [source[1]] * 2, color=INK, linewidth=1.2)
        axes.plot([bend, bend, _DRAFTS[-1]], [source[1], 2.6, 2.6], color=INK, linewidth=1.2)
    for i, x in enumerate(_DRAFTS):
        block(
            axes,
            x,
            level,
            f"head{'' if chained else f' {i + 1}'}",
            OWN,
            1.05 if chained else 1.3,
            0.85,
            8.5 if chained else 8,
        )
        block(axes, x, 6.6, f"d{i + 1}", VALUE, 0.8, 0.7)
        arrow(axes, (x, level + 0.43), (x, 6.25))
        if not chained:
            arrow(axes, (x, 2.6), (x, level - 0.43))
        elif i:
            arrow(axes, (x - 0.87, level), (x - 0.53, level))
            token = {"dashed": True, "color": "#8A4B00"}
            arrow(axes, (x - 1.0, 6.6), (x - 0.75, 6.6), (x - 0.75, level + 0.62), (x - 0.4, level + 0.43), **token)
    if chained:
        arrow(axes, source, (1.82, source[1]), (1.82, level), (2.22, level))
        axes.text(2.75, level - 1.15, "token $t$", ha="center", va="center", fontsize=9, color="#8A4B00")
        arrow(axes, (2.75, level - 0.85), (2.75, level - 0.43), dashed=True, color="#8A4B00")


def _masked(axes: Any) -> None:
    """The target once more, with masks behind the text; a small sampler reads the draft token before."""
    places = (1.0, 3.2, 5.4)
    for x, word in zip(places, ("$t$", "mask 1", "mask 2")):
        block(axes, x, 0.25, word, OWN if "mask" in word else VALUE, 1.75, 0.8, 8.5)
    block(axes, 3.2, 2.3, "the target again\nLoRA in the masks' rows only", TARGET, 6.0, 1.5)
    for i, x in enumerate(places):
        arrow(axes, (x, 0.65), (x, 1.55))
        block(axes, x, 6.6, f"d{i + 1}", VALUE, 0.8, 0.7)
        if i:
            block(axes, x, 4.6, "sampler", OWN, 1.75, 0.85, 8.5)
            arrow(axes, (x, 3.05), (x, 4.17))
            arrow(axes, (x, 5.03), (x, 6.25))
            before = places[i - 1]
            token = {"dashed": True, "color": "#8A4B00"}
            arrow(axes, (before + 0.4, 6.6), (x - 0.95, 6.6), (x - 0.95, 5.35), (x - 0.6, 5.03), **token)
        else:
            arrow(axes, (x, 3.05), (x, 6.25))
