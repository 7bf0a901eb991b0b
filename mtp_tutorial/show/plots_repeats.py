"""The repetition explorer: two arms on one prompt, their measures with intervals, their texts with the repeats marked.

Takes: the summary and the rows of an experiment.  Returns: the numbers drawn.
Must not know: models, tokenizers, how texts were made.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from .colors import GRID, INK
from .numbers import headline
from .plots_case import MEASURES, arm_name
from .repeats import AGAIN, LOOKS, LOOPING, NEW, repeated_pieces, share_repeated

#: (colour, marker) of the left and the right arm
SIDES = (("#0072B2", "o"), ("#D55E00", "s"))
_FONT, _SIZE = "DejaVu Sans Mono", 8.77  # at this size a character is a whole number of pixels wide
_WIDE, _HIGH = 0.602 * _SIZE / 72, 1.4 * _SIZE / 72  # inches of a character, of a line


def row_of(rows: Sequence[Mapping], arm: str, prompt: str) -> Mapping:
    """The first text of an arm on a prompt. Raises ValueError when there is none."""
    for row in rows:
        if row["arm"] == arm and row["prompt"] == prompt:
            return row
    raise ValueError(f"no text of arm {arm!r} on prompt {prompt!r}")


def draw_repeats(
    fig: Any, found: Mapping, rows: Sequence[Mapping], prompt: str, left: str, right: str, words: int = 4
) -> list[dict]:
    """Two arms side by side. Above: each measure of both arms over all prompts, ◆ for this text. Below: the texts.

    found: summary of ``lab.experiment``; rows: its rows.  words: so many words said before are marked.
    Returns a row an arm: arm, prompt, the measures of its text, and marked (the share of its characters).
    """
    from ..lab.experiment import MEASURES as measure_of

    arms = {one["arm"]: one for one in found["arms"]}
    fig.set_layout_engine("none")  # the places of the texts are counted in characters
    drawn = []
    for i, arm in enumerate((left, right)):
        row = row_of(rows, arm, prompt)
        pieces = repeated_pieces(row["text"], words)
        here = {name: measure_of[name](row) for name in MEASURES}
        drawn.append({"arm": arm, "prompt": prompt, **here, "marked": share_repeated(pieces)})
        axes = fig.add_axes((0.015 + 0.495 * i, 0.055, 0.48, 0.575))
        _text(axes, fig, pieces)
        loop = "; ends in a loop" if here["tail_loop"] else ""
        axes.set_title(f"{arm_name(arm)} ({100 * drawn[-1]['marked']:.0f} % marked{loop})", color=SIDES[i][0],
                       fontsize=10.5)  # fmt: skip
    for i, name in enumerate(MEASURES):
        axes = fig.add_axes((0.17 + 0.28 * i, 0.755, 0.24, 0.12))
        _measure(axes, name, [arms[one["arm"]]["measures"][name] for one in drawn], [one[name] for one in drawn])
        if i == 0:
            axes.set_yticks([0, -1], [arm_name(one["arm"], short=True) for one in drawn])
    _legend(fig, words)
    said = ", ".join(f"{arm_name(one['arm'], short=True)} {one['seq_rep_4']:.2f}" for one in drawn)
    headline(fig, f"{found['target']}, prompt {prompt}; seq-rep-4: {said}")
    return drawn


draw_repeats.height = 680


# -- Inside ---------------------------------------------------------------------------------------------------------


def _measure(axes: Any, name: str, cells: Sequence[Mapping], here: Sequence[float]) -> None:
    title, unit, scale = MEASURES[name]
    for i, (cell, value) in enumerate(zip(cells, here)):
        color, marker = SIDES[i]
        mean, low, high = (scale * cell[part] for part in ("mean", "low", "high"))
        axes.plot([low, high], [-i, -i], color=color, linewidth=2.5)
        axes.plot([mean], [-i], color=color, marker=marker, markersize=8)
        axes.plot([scale * value], [-i], color=INK, marker="D", markersize=6, linestyle="none", zorder=3)
    axes.set_title(title + (unit and f", {unit}"), fontsize=10)
    axes.set_yticks([0, -1], ["", ""])
    axes.set_ylim(-1.6, 0.6)
    axes.set_xlim(left=-0.04 * max(axes.get_xlim()[1], 1e-9))
    axes.grid(axis="x", color=GRID)
    axes.tick_params(axis="y", length=0)


def _text(axes: Any, fig: Any, pieces: Sequence[tuple[str, str]]) -> None:
    """Monospaced text, one unit of x a character, one of y a line; ↵ stands for line breaks."""
    from matplotlib.patches import Rectangle

    wide, high = fig.get_size_inches() * axes.get_position().size
    columns, most = int(wide / _WIDE), int(high / _HIGH)
    axes.set_xlim(0, wide / _WIDE)
    axes.set_ylim(high / _HIGH, 0)
    axes.axis("off")
    lines = _lines(pieces, columns)
    for y, line in enumerate(lines[:most]):
        x = 0
        for piece, kind in line:
            look = LOOKS[kind]
            if kind != NEW and piece.strip():
                axes.add_patch(Rectangle((x, y + 0.05), len(piece), 0.86, facecolor=look.color, edgecolor="none"))
                for i in range(look.lines):
                    axes.plot([x, x + len(piece)], [y + 0.88 + 0.11 * i] * 2, color=INK, linewidth=0.9)
            style = {"family": _FONT, "fontsize": _SIZE, "va": "center", "parse_math": False}
            axes.text(x, y + 0.48, piece, color=INK, **style)
            x += len(piece)
    if len(lines) > most:
        axes.text(columns, most + 0.5, f"… {len(lines) - most} more lines", ha="right", fontsize=9)


def _lines(pieces: Sequence[tuple[str, str]], columns: int) -> list[list[tuple[str, str]]]:
    """Wrapped after ``columns`` characters, between words where possible."""
    letters = [(_shown(c), kind) for piece, kind in pieces for c in piece]
    cells: list[tuple[str, str]] = []
    for c, kind in letters:  # blanks and line breaks that follow one another take one cell
        if c in " ↵" and cells and cells[-1][0] in " ↵":
            cells[-1] = ("↵" if "↵" in (c, cells[-1][0]) else " ", kind)
        else:
            cells.append((c, kind))
    lines, start = [], 0
    while start < len(cells):
        end = min(start + columns, len(cells))
        if end < len(cells):
            blank = next((i for i in range(end, start + columns // 2, -1) if cells[i - 1][0] in " ↵"), end)
            end = blank
        lines.append(_grouped(cells[start:end]))
        start = end
    return lines


def _grouped(cells: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for c, kind in cells:
        if found and found[-1][1] == kind:
            found[-1] = (found[-1][0] + c, kind)
        else:
            found.append((c, kind))
    return found


@functools.cache
def _shown(c: str) -> str:
    """The character, or what stands for it: the font of the pictures does not know every script."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    if c.isspace():
        return "↵" if c == "\n" else " "
    return c if get_font(findfont(FontProperties(family=_FONT))).get_char_index(ord(c)) else "□"


def _legend(fig: Any, words: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=LOOKS[AGAIN].color, label=f"{words} words said before (one line)"),
        Patch(facecolor=LOOKS[LOOPING].color, label="a loop up to the end (two lines)"),
        Line2D([], [], color=INK, marker="D", linestyle="none", label="this text"),
        Line2D([], [], color="#777777", marker="o", linewidth=2.5, label="all prompts, 95 %"),
    ]
    fig.legend(handles=handles, loc="lower center", ncols=4, columnspacing=1.2)
