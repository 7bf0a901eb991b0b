"""The parts of an MTP head, from its two inputs to the draft token: all at once, or one step after the other.

Takes: a head's module for its shapes.  Returns: from the draw function, the numbers drawn.
Must not know: how heads are trained or how drafts are judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .colors import INK, LOOKS
from .numbers import headline

OWN, TARGET, VALUE = "the head's own", "the target's", "value"
#: who owns a part → (fill, hatch)
_FILLS = {OWN: ("#F7D794", "//"), TARGET: ("#A9D3EE", ""), VALUE: ("#FFFFFF", "")}
_BACK = "#8A4B00"  # what is fed back for the next step

#: the steps of one call, from 1: which parts work in it, and what it does
STEPS = (
    ((), "given: the token just said, and the target's hidden state of the place before it"),
    (("embedding",), "the target's embedding turns the token into a vector"),
    (("enorm", "hnorm"), "each is scaled to a common size, by a norm of its own"),
    ((), "both side by side: [e; h], twice as wide"),
    (("eh_proj",), "a matrix mixes the two and halves the width again"),
    (("block",), "one decoder layer, with attention over the pairs in its own KV cache"),
    (("post_norm",), "a last norm: this output is h′, made like a hidden state of the target"),
    (("lm_head",), "the target's lm_head gives logits; the draft token is chosen from them"),
    ((), "next step: h′ comes back as the hidden state, the draft token as the token"),
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


def block(
    axes: Any, x: float, y: float, text: str, owner: str, width: float = 1.1, height: float = 0.8, size: float = 9,
    alpha: float = 1.0, lit: bool = False,
) -> None:  # fmt: skip
    """A box with words, filled in the colour of its owner; ``lit``: with a thick border."""
    from matplotlib.patches import FancyBboxPatch

    fill, hatch = _FILLS[owner]
    shape = FancyBboxPatch(
        (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0,rounding_size=0.06",
        facecolor=fill, hatch=hatch, edgecolor=LOOKS["recovered"].color if lit else INK,
        linewidth=2.4 if lit else 0.9, alpha=alpha,
    )  # fmt: skip
    axes.add_patch(shape)
    pad = {"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.85 * alpha} if hatch else None
    axes.text(x, y, text, ha="center", va="center", fontsize=size, linespacing=1.25, bbox=pad, alpha=max(alpha, 0.4))


def arrow(axes: Any, *points: tuple[float, float], dashed: bool = False, color: str = INK, alpha: float = 1.0) -> None:
    """A line through the points with a head at the last one."""
    style = "--" if dashed else "-"
    if len(points) > 2:
        axes.plot(*zip(*points[:-1]), color=color, linewidth=1.2, linestyle=style, alpha=alpha)
    axes.annotate(
        "", points[-1], points[-2],
        arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 1.2, "linestyle": style, "shrinkA": 0,
                    "shrinkB": 0, "mutation_scale": 11, "alpha": alpha},
    )  # fmt: skip


def owners(fig: Any) -> None:
    """The legend of the three fills."""
    from matplotlib.patches import Patch

    words = {OWN: "the head's own part, trained", TARGET: "the target's part, shared", VALUE: "what flows"}
    handles = [Patch(facecolor=f, hatch=h, edgecolor=INK, label=words[name]) for name, (f, h) in _FILLS.items()]
    fig.legend(handles=handles, loc="outside lower center", ncols=3)


def draw_head(fig: Any, parts: Sequence[Mapping[str, Any]], step: int = 0) -> list[dict]:
    """The parts of an MTP head, from the two inputs to the draft token, with shapes and parameter counts.

    parts: what ``head_parts`` returns.
    step: 0 shows the whole head; 1 … 9 one step of a call, with what comes later pale (clamped).
    Returns the same rows with ``step`` (in which the part works) and ``works`` (in the step shown; in 0 all do).
    """
    step = max(0, min(int(step), len(STEPS)))
    found = {row["part"]: row for row in parts}
    when = {name: i for i, (names, _) in enumerate(STEPS, 1) for name in names}
    axes = fig.subplots()
    size = int(found["enorm"]["shape"].split()[0])

    def seen(at: int) -> dict[str, Any]:
        return {"alpha": 1.0 if not step or at <= step else 0.2, "lit": at == step}

    def value(at: int, x: float, y: float, text: str, width: float, height: float = 0.8) -> None:
        block(axes, x, y, text, VALUE, width, height, **seen(at))

    def part(x: float, y: float, name: str, word: str = "", width: float = 1.1) -> None:
        row = found[name]
        count = f"\n{row['parameters']:,} weights" if row["owner"] == OWN else ""
        height = 1.0 if count else 0.8
        text = f"{word or name}\n{row['shape']}{count}"
        block(axes, x, y, text, row["owner"], width, height, **seen(when[name]))

    def line(at: int, *points: tuple[float, float], **look: Any) -> None:
        arrow(axes, *points, alpha=seen(at)["alpha"], **look)

    top, low, mid = 3.5, 1.9, 2.7
    value(1, 0.55, top, "next token\n$t_{i+1}$", 0.95)
    value(1, 1.2, low, f"hidden state $h_i$\n{size}", 1.45)
    part(1.85, top, "embedding", width=1.15)
    part(3.2, top, "enorm")
    part(3.2, low, "hnorm")
    value(4, 4.4, mid, f"[e; h]\n2 × {size}", 0.95)
    part(5.6, mid, "eh_proj", width=1.15)
    part(6.97, mid, "block", "decoder layer", 1.3)
    value(6, 6.95, 1.25, "own KV cache", 1.25, 0.5)
    part(8.28, mid, "post_norm")
    part(9.5, mid, "lm_head", width=1.1)
    value(8, 9.5, 3.95, "draft token\nguess of $t_{i+2}$", 1.1, 0.7)
    line(2, (1.02, top), (1.27, top))
    line(3, (2.43, top), (2.65, top))
    line(3, (1.93, low), (2.65, low))
    line(4, (3.75, top), (4.4, top), (4.4, mid + 0.4))
    line(4, (3.75, low), (4.4, low), (4.4, mid - 0.4))
    for at, left, right in ((5, 4.88, 5.02), (6, 6.18, 6.32), (7, 7.62, 7.73), (8, 8.83, 8.95)):
        line(at, (left, mid), (right, mid))
    line(6, (6.95, 1.5), (6.95, mid - 0.5))
    line(8, (9.5, mid + 0.4), (9.5, 3.6))
    back = {"dashed": True, "color": _BACK}
    line(9, (8.25, mid - 0.5), (8.25, 0.65), (1.2, 0.65), (1.2, low - 0.4), **back)
    line(9, (9.5, 4.3), (9.5, 4.6), (0.55, 4.6), (0.55, top + 0.4), **back)
    note = {"ha": "center", "va": "center", "fontsize": 9.5, "color": _BACK, "alpha": max(seen(9)["alpha"], 0.4),
            "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 2}}  # fmt: skip
    axes.text(4.4, 0.65, "next step: the output is fed back as the hidden state", **note)
    axes.text(4.4, 4.6, "next step: the own draft token is fed back as the token", **note)
    axes.set_xlim(0, 10.1)
    axes.set_ylim(0.4, 4.85)
    axes.axis("off")
    own = sum(row["parameters"] for row in parts if row["owner"] == OWN)
    whole = f"one MTP head: {own:,} weights of its own; embedding and lm_head are the target's"
    headline(fig, f"step {step} of {len(STEPS)}. {STEPS[step - 1][1]}" if step else whole)
    owners(fig)
    return [{**row, "step": when[row["part"]], "works": step in (0, when[row["part"]])} for row in parts]


draw_head.height = 440
