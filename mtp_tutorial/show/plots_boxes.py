"""The boxes of uniforms: a verify rule as a map of the unit square, coin to the right, draw upwards.

Takes: the target's row p, the drafter's row q, rules, draft tokens.  Returns: the boxes drawn.
Must not know: models, widgets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .colors import INK, token_look
from .numbers import as_probs, headline, names

_MOST = 4  # squares side by side


def boxes(rule: Any, p: list[float], q: list[float] | None, draft: int) -> list[dict]:
    """The boxes of the square (coin, draw) in which one draft token's fate is the same, and the token emitted there.

    rule: a name or a ``Rule``; the breakpoints are its own.  q None: the draft was chosen without randomness.
    Returns rows: token, coin and draw as (low, high), area, accepted. Neighbours that emit the same are one box.
    """
    import torch

    from ..records import Draft
    from ..verify import get_rule, verify

    rule = get_rule(rule)
    target = torch.tensor([[p, p]], dtype=torch.float64)
    probs = None if q is None else torch.tensor([[q]], dtype=torch.float64)
    coin, draw = rule.breakpoints(Draft(torch.tensor([[draft]]), probs), target, **rule.params)[0]
    columns, rows = _cells(coin.tolist()), _cells(draw.tolist())
    centres = torch.tensor([[sum(c) / 2, sum(r) / 2] for c in columns for r in rows], dtype=torch.float64)
    n = len(centres)
    uniforms = torch.stack([centres, torch.full((n, 2), 0.5, dtype=torch.float64)], 1)
    drafts = Draft(torch.full((n, 1), draft), None if probs is None else probs.expand(n, -1, -1))
    verdict = verify(rule, drafts, target.expand(n, -1, -1), uniforms)
    cells = list(zip(verdict.tokens[:, 0].tolist(), verdict.num_accepted.tolist()))
    stacks = [_merged(rows, cells[i * len(rows) : (i + 1) * len(rows)]) for i in range(len(columns))]
    return [
        {
            "token": token,
            "coin": across,
            "draw": up,
            "area": (across[1] - across[0]) * (up[1] - up[0]),
            "accepted": bool(accepted),
        }
        for across, stack in _merged(columns, stacks)
        for up, (token, accepted) in stack
    ]


def _cells(points: list[float]) -> list[tuple[float, float]]:
    inner = sorted({round(x, 12) for x in points if 1e-12 < x < 1 - 1e-12})
    ends = [0.0, *inner, 1.0]
    return list(zip(ends, ends[1:]))


def _merged(cells: list[tuple[float, float]], contents: list) -> list[tuple[tuple[float, float], Any]]:
    """Neighbouring cells with the same content as one."""
    found: list[tuple[tuple[float, float], Any]] = []
    for (low, high), content in zip(cells, contents):
        if found and found[-1][1] == content:
            found[-1] = ((found[-1][0][0], high), content)
        else:
            found.append(((low, high), content))
    return found


def draw_boxes(
    fig: Any,
    p: Any = (0.5, 0.3, 0.2),
    q: Any = None,
    rules: str | Mapping[str, Any] = "rejection",
    drafts: Sequence[int] = (0,),
    labels: Sequence[str] | None = None,
) -> list[dict]:
    """One unit square for each rule and draft token: where the two uniforms fall decides which token is emitted.

    q: None for draft tokens chosen without randomness; otherwise a square counts with q of its draft token.
    rules: a rule's name, or names to show → rules.  drafts: the draft tokens shown; at most four squares in all.
    Returns one row a square: rule, draft, boxes (see ``boxes``), law (each token's area), accepted (area).
    """
    p = as_probs(p, "p")
    q = None if q is None else as_probs(q, "q")
    labels = names(labels, len(p))
    if q is not None and len(q) != len(p):
        raise ValueError(f"p has {len(p)} tokens, q has {len(q)}: both must number the same tokens alike")
    if any(not 0 <= d < len(p) for d in drafts):
        raise ValueError(f"drafts={tuple(drafts)}: use token ids from 0 to {len(p) - 1}")
    rules = {str(rules): rules} if not isinstance(rules, Mapping) else rules
    pairs = [(name, rule, int(d)) for name, rule in rules.items() for d in drafts]
    if not 1 <= len(pairs) <= _MOST:
        raise ValueError(f"{len(pairs)} squares: show between one and {_MOST}")
    squares = []
    for name, rule, d in pairs:
        found = boxes(rule, p, q, d)
        law = [sum(box["area"] for box in found if box["token"] == i) for i in range(len(p))]
        kept = sum(box["area"] for box in found if box["accepted"])
        squares.append({"rule": name, "draft": d, "boxes": found, "law": law, "accepted": kept})
    for i, (axes, square) in enumerate(zip(fig.subplots(1, len(squares), squeeze=False)[0], squares)):
        _square(axes, square, labels)
        weight = "" if q is None else f" (q = {q[square['draft']]:.2f})"
        title = f"draft “{labels[square['draft']]}”{weight}" if len(rules) == 1 else square["rule"]
        axes.set_title(title)
        axes.set_xlabel("coin")
        if not i:
            axes.set_ylabel("draw")
    headline(fig, _said(squares, q, labels, len(p)))
    return squares


draw_boxes.height = 400


def _square(axes: Any, square: dict, labels: list[str]) -> None:
    for box in square["boxes"]:
        (left, right), (low, high) = box["coin"], box["draw"]
        color, hatch = token_look(box["token"])
        axes.bar(
            left, high - low, bottom=low, width=right - left, align="edge", color=color, hatch=hatch, edgecolor=INK
        )
        words = f"{labels[box['token']]}\n{box['area']:.2f}"
        patch = {"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.85}
        if box["area"] >= 0.03:
            thin = right - left < 0.2
            axes.text(
                (left + right) / 2, (low + high) / 2, words.replace("\n", " ") if thin or high - low < 0.2 else words,
                ha="center", va="center", fontsize=10, rotation=90 if thin and high - low > 0.2 else 0, bbox=patch,
            )  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    ticks = [0.0]
    for x in sorted({box["coin"][0] for box in square["boxes"]}):
        ticks += [x] if 0.15 < x - ticks[-1] and x < 0.85 else []  # their numbers need room
    axes.set_xticks([*ticks, 1.0], [f"{x:.2g}" for x in [*ticks, 1.0]])
    axes.set_yticks([0, 0.5, 1])


def _said(squares: list[dict], q: list[float] | None, labels: list[str], size: int) -> str:
    def words(law: list[float]) -> str:
        return ", ".join(f"{labels[i]} {law[i]:.2f}" for i in range(size) if law[i] > 0)

    if q is None:
        return "areas: " + "; ".join(f"“{s['rule']}” {words(s['law'])}" for s in squares)
    one_rule = len({s["rule"] for s in squares}) == 1
    if not one_rule or {s["draft"] for s in squares} != {i for i in range(size) if q[i] > 0}:
        return "areas: " + "; ".join(words(s["law"]) for s in squares)
    law = [sum(q[s["draft"]] * s["law"][i] for s in squares) for i in range(size)]
    return f"areas, each square weighted with its q: {words(law)}"
