"""An exhibit of the bug museum on one page: its numbers beside the right ones, its story, its report, its code.

Takes: the name of an exhibit.  Returns: the numbers drawn.
Must not know: how an exhibit works, widgets.
"""

from __future__ import annotations

import functools
import textwrap
from typing import Any

from .colors import INK, LOOKS, PALE
from .numbers import bars, headline

_RIGHT, _BROKEN = (LOOKS["target"].color, ""), (LOOKS["draft"].color, "//")
_LINE = 62  # characters of a line of prose, beside the bars
_LINE_HEIGHT = 14  # pixels of a line of code
_MONO = "DejaVu Sans Mono"


@functools.cache
def _shown(name: str) -> Any:
    """The demonstration of an exhibit; it is run once, as some decode a text."""
    from ..lab.museum import get

    return get(name).demonstrate()


def draw_exhibit(fig: Any, exhibit: str) -> list[dict]:
    """What the right code gives and what the broken twin gives; below, the broken code.

    exhibit: a name, such as "R1".  Raises ValueError listing the known ones.
    Returns a row a number: exhibit, label, right, broken, predicted (None where nothing was).
    """
    from ..lab.museum import get

    one, shown = get(exhibit), _shown(exhibit)
    predicted = shown.predicted or (None,) * len(shown.labels)
    rows = [
        {"exhibit": exhibit, "label": label, "right": right, "broken": wrong, "predicted": guess}
        for label, right, wrong, guess in zip(shown.labels, shown.right, shown.wrong, predicted, strict=True)
    ]
    source = one.source()
    code = 34 + _LINE_HEIGHT * len(source.splitlines())  # pixels
    above, below = fig.subfigures(2, 1, height_ratios=[draw_exhibit.height - 40 - code, code])
    left, right = above.subplots(1, 2, width_ratios=[1, 1.12])
    _bars(left, rows, shown)
    above.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=3)
    _prose(right, one)
    _code(below.subplots(), source)
    headline(fig, f"{exhibit} · {one.title}. {_said(rows)}")
    return rows


draw_exhibit.height = 720


def _bars(axes: Any, rows: list[dict], shown: Any) -> None:
    for i, (key, label, look) in enumerate((("right", "right code", _RIGHT), ("broken", "broken twin", _BROKEN))):
        x = [place + (i - 0.5) * 0.4 for place in range(len(rows))]
        drawn = bars(axes, x, [row[key] for row in rows], *look, width=0.4, label=label)
        axes.bar_label(drawn, [_number(row[key]) for row in rows], padding=2, fontsize=9)
    known = [(place, row["predicted"]) for place, row in enumerate(rows) if row["predicted"] is not None]
    if known:
        places, values = zip(*known)
        axes.plot([p + 0.2 for p in places], values, "D", color=INK, markersize=5, label="predicted", clip_on=False)
    top = max(max(row["right"], row["broken"]) for row in rows)
    axes.set_ylim(0, 1.18 * max(top, 0.01))
    axes.set_xlim(-0.7, len(rows) - 0.3)
    axes.set_xticks(range(len(rows)), [textwrap.fill(row["label"], max(40 // len(rows), 9)) for row in rows])
    axes.set_title("\n".join(textwrap.wrap(shown.what, 46)))


def _prose(axes: Any, exhibit: Any) -> None:
    axes.set_axis_off()
    kind = (
        "By design, and lossy." if exhibit.by_design else
        "The law stays right; only speed suffers." if exhibit.lossless else ""
    )  # fmt: skip
    parts = (("What happens", f"{exhibit.story} {kind}".strip()), ("Seen in", exhibit.report), ("Right", exhibit.fix))
    down = 0.0  # points below the top
    for title, text in parts:
        words = "\n".join(textwrap.wrap(_plain(text), _LINE, break_on_hyphens=False))
        for shown, size, weight in ((title, 10.5, "bold"), (words, 9.5, "normal")):
            axes.annotate(
                shown, (0, 1), (0, -down), "axes fraction", "offset points", va="top", fontsize=size,
                fontweight=weight, linespacing=1.25, annotation_clip=False,
            )  # fmt: skip
            down += size * 1.35 * (shown.count("\n") + 1) + 1
        down += 6


def _code(axes: Any, source: str) -> None:
    axes.set_axis_off()
    axes.set_title("The broken code", fontsize=10.5, fontweight="bold")
    axes.text(
        0.0, 0.99, _plain(source), transform=axes.transAxes, va="top", fontsize=8.4, family=_MONO, linespacing=1.15,
        bbox={"facecolor": PALE, "edgecolor": "none", "pad": 4},
    )  # fmt: skip


def _plain(text: str) -> str:
    return text.replace("$", r"\$")


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") or "0"


def _said(rows: list[dict]) -> str:
    """The largest difference, in words."""
    worst = max(rows, key=lambda row: abs(row["broken"] - row["right"]))
    return f"{worst['label']}: {_number(worst['broken'])} instead of {_number(worst['right'])}"
