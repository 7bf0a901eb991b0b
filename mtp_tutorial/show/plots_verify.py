"""Pictures of the verify rule of speculative sampling: what is accepted, what is left over, where coins land.

Takes: the target's row p, the drafter's row q, a draft token, the two uniforms.  Returns: the numbers drawn.
Must not know: models, widgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .colors import INK, LOOKS, token_look
from .numbers import as_probs, bars, headline, names, short


class Judged(NamedTuple):
    """One draft token judged: its coin's limit, whether it stands, the residual law, and the token emitted."""

    limit: float
    accepted: bool
    residual: list[float]
    emitted: int


def judge(p: list[float], q: list[float] | None, draft: int, coin: float, draw: float) -> Judged:
    """The rejection rule on one draft token, by ``verify``. q None: the draft was chosen without randomness."""
    import torch

    from ..records import Draft
    from ..verify import residual, verify

    row = torch.tensor([p], dtype=torch.float64)
    probs = None if q is None else torch.tensor([[q]], dtype=torch.float64)
    drafted = Draft(torch.tensor([[draft]]), probs)
    uniforms = torch.tensor([[[coin, draw], [0.0, draw]]], dtype=torch.float64)
    verdict = verify("rejection", drafted, torch.stack([row, row], 1), uniforms)
    weights = residual(row, drafted, torch.tensor([0]))[0]
    limit = p[draft] / (1.0 if q is None else q[draft]) if q is None or q[draft] else 0.0
    accepted = bool(verdict.num_accepted[0])
    return Judged(min(1.0, limit), accepted, (weights / weights.sum()).tolist(), int(verdict.tokens[0, 0]))


def draw_accept(
    fig: Any,
    p: Any = (0.5, 0.3, 0.2),
    q: Any = None,
    labels: Sequence[str] | None = None,
    draft: int = 0,
    coin: float = 0.3,
    draw: float = 0.5,
) -> list[dict]:
    """Target p and drafter q as areas: what both share is accepted, what only p has is the residual.

    q: None for a draft token chosen without randomness (all its mass on ``draft``).
    coin: accept when below min(1, p/q).  draw: picks from the residual after a rejection.
    Returns one row a token: token, p, q, accepted (min of both), residual (normalised), rejected, emitted.
    """
    p = as_probs(p, "p")
    labels = names(labels, len(p))
    draft = int(draft)
    if not 0 <= draft < len(p):
        raise ValueError(f"draft={draft}: use a token id from 0 to {len(p) - 1}")
    one_hot = [float(i == draft) for i in range(len(p))]
    shown_q = one_hot if q is None else as_probs(q, "q")
    if len(shown_q) != len(p):
        raise ValueError(f"p has {len(p)} tokens, q has {len(shown_q)}: both must number the same tokens alike")
    judged = judge(p, None if q is None else shown_q, draft, coin, draw)
    rows = [
        {
            "token": labels[i],
            "p": p[i],
            "q": shown_q[i],
            "accepted": min(p[i], shown_q[i]),
            "residual": judged.residual[i],
            "rejected": max(shown_q[i] - p[i], 0.0),
            "emitted": i == judged.emitted,
        }
        for i in range(len(p))
    ]
    axes = fig.subplot_mosaic([["areas", "areas"], ["coin", "draw"]], height_ratios=[2.1, 1])
    _areas(axes["areas"], rows)
    _coin(axes["coin"], judged, labels[draft], coin, shown_q[draft] > 0)
    _residual(axes["draw"], judged, labels, draw)
    how = "accepted" if judged.accepted else "recovered"
    headline(fig, f"emitted: “{labels[judged.emitted]}” ({how})")
    return rows


draw_accept.height = 480


def _areas(axes: Any, rows: list[dict]) -> None:
    alpha = sum(r["accepted"] for r in rows)
    kept, left, cut = LOOKS["accepted"], LOOKS["recovered"], LOOKS["rejected"]
    for i, row in enumerate(rows):
        first = i == 0
        bars(
            axes,
            i - 0.2,
            row["accepted"],
            kept.color,
            kept.hatch,
            width=0.36,
            label="min(p, q): accepted" if first else None,
        )
        bars(
            axes, i - 0.2, row["p"] - row["accepted"], left.color, left.hatch, width=0.36, bottom=row["accepted"],
            label="p - q: the residual, recovered" if first else None,
        )  # fmt: skip
        bars(axes, i + 0.2, row["accepted"], kept.color, kept.hatch, width=0.36)
        bars(
            axes, i + 0.2, row["rejected"], cut.color, cut.hatch, width=0.36, bottom=row["accepted"],
            label="q - p: rejected" if first else None,
        )  # fmt: skip
        for shift, name in ((-0.2, "p"), (0.2, "q")):
            axes.annotate(
                f"{name} = {row[name]:.2f}", (i + shift, row[name]), xytext=(0, 3), textcoords="offset points",
                ha="center", va="bottom", fontsize=10 if len(rows) <= 5 else 8,
            )  # fmt: skip
    axes.set_xticks(range(len(rows)), [r["token"] for r in rows])
    axes.set_ylim(0, 1.15 * max(max(r["p"], r["q"]) for r in rows))
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_ylabel("probability")
    axes.set_title(
        f"α = Σ min(p, q) = {alpha:.2f} is accepted; the rest of q, {1 - alpha:.2f}, is as large as the rest of p"
    )
    axes.figure.legend(loc="outside lower center", ncols=3)


def _marker(axes: Any, u: float, words: str) -> None:
    """A uniform number on a segment."""
    axes.plot([u, u], [-0.35, 0.6], color=INK, linewidth=2)
    axes.plot([u], [0.6], marker="v", color=INK, markersize=9, clip_on=False)
    side = "left" if u < 0.7 else "right"
    shift = 8 if side == "left" else -8
    axes.annotate(words, (u, 0.6), xytext=(shift, 0), textcoords="offset points", ha=side, va="center", fontsize=10)


def _line(axes: Any, words: str) -> None:
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.36, 0.9)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(words)


def _coin(axes: Any, judged: Judged, name: str, coin: float, possible: bool) -> None:
    parts = ((0.0, judged.limit, "accepted", "accept"), (judged.limit, 1.0, "rejected", "reject"))
    for start, end, kind, words in parts:
        style = LOOKS[kind]
        axes.barh(
            0, end - start, left=start, height=0.7, color=style.color, hatch=style.hatch, edgecolor=INK, alpha=0.8
        )
        if end - start > 0.18:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.85}
            axes.text((start + end) / 2, 0, words, ha="center", va="center", bbox=box)
    _marker(axes, coin, f"coin = {coin:.2f}")
    sign = "<" if coin < judged.limit else "≥"
    if possible:
        end = "kept" if judged.accepted else "rejected"
        axes.set_title(f"draft “{short(name)}”: {coin:.2f} {sign} min(1, p/q) = {judged.limit:.2f}, {end}")
    else:
        axes.set_title(f"draft “{short(name)}”: q is 0 there, so this draft never comes")
    _line(axes, "the coin's segment [0, 1)")


def _residual(axes: Any, judged: Judged, labels: list[str], draw: float) -> None:
    start, faded = 0.0, 0.3 if judged.accepted else 1.0
    for i, width in enumerate(judged.residual):
        color, hatch = token_look(i)
        chosen = i == judged.emitted and not judged.accepted
        axes.barh(
            0,
            width,
            left=start,
            height=0.7,
            color=color,
            hatch=hatch,
            edgecolor=INK,
            alpha=faded,
            linewidth=2 if chosen else 0.8,
        )
        if width > 0.02 * len(labels[i]) + 0.04:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.85}
            axes.text(start + width / 2, 0, labels[i], ha="center", va="center", bbox=box, alpha=max(faded, 0.5))
        start += width
    if judged.accepted:
        axes.set_title("the residual is not needed: the draft stands")
    else:
        _marker(axes, draw, f"draw = {draw:.2f}")
        axes.set_title(f"draw {draw:.2f} picks “{short(labels[judged.emitted])}” from the residual")
    _line(axes, "the residual max(p - q, 0), normalised")
