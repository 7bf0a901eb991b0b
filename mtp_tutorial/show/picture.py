"""Turns a draw function into a PNG whose bytes are the same each time.

Takes: a plain function ``draw(fig, **values)`` that draws and returns the numbers it drew (a list of dicts).
Returns: a ``Picture``, which a notebook shows once, or the ``Drawing`` behind it.
Must not know: widgets, pyplot's state, models.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .colors import GRID, INK

WIDTH, HEIGHT, DPI = 900, 420, 100  # CSS pixels
SHARPNESS = 1.5  # PNG pixels for each CSS pixel

#: Everything a picture's bytes depend on, so that a reader's own matplotlibrc changes nothing.
STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titleweight": "normal",
    "axes.labelsize": 11,
    "xtick.labelsize": 11,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "figure.titlesize": 13,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "hatch.linewidth": 0.7,
    "text.usetex": False,
    "axes.unicode_minus": True,
}

Draw = Callable[..., Any]


@dataclass(frozen=True)
class Drawing:
    """One drawn state: the PNG, the numbers behind it, and words for readers who cannot see it."""

    png: bytes
    rows: Any
    alt: str


def render(draw: Draw, values: dict[str, Any], width: int = WIDTH, height: int = HEIGHT) -> Drawing:
    """Call ``draw`` on a fresh figure of ``width`` × ``height`` CSS pixels. What it raises is passed on."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        fig = Figure(figsize=(width / DPI, height / DPI), dpi=DPI * SHARPNESS, layout="constrained")
        FigureCanvasAgg(fig)
        rows = draw(fig, **values)
        buffer = io.BytesIO()
        fig.savefig(buffer, format="png", dpi=DPI * SHARPNESS, metadata={"Software": None})
    return Drawing(buffer.getvalue(), rows, describe(fig))


def describe(fig: Figure) -> str:
    """The sentences written on a figure (its title, then each axes' title), joined: the alternative text."""
    titles = [fig.get_suptitle()]
    for axes in fig.axes:
        titles += [axes.get_title("left"), axes.get_title("center")]
    words = [" ".join(t.split()) for t in titles if t.strip()]
    return ". ".join(w.rstrip(".") for w in words) + ("." if words else "")


def mime(drawing: Drawing, width: int, height: int) -> tuple[dict[str, str], dict[str, Any]]:
    """(data, metadata) of a drawing for a notebook's display machinery."""
    data = {"image/png": base64.b64encode(drawing.png).decode("ascii")}
    return data, {"image/png": {"width": width, "height": height, "alt": drawing.alt}}


@dataclass(frozen=True)
class Picture:
    """A still picture. As the last line of a cell it shows itself; ``data`` holds its numbers, ``png`` its bytes."""

    name: str
    drawing: Drawing = field(repr=False)
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def data(self) -> Any:
        return self.drawing.rows

    @property
    def png(self) -> bytes:
        return self.drawing.png

    @property
    def alt(self) -> str:
        return self.drawing.alt

    def __repr__(self) -> str:
        return f"<Picture {self.name}>"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        data, metadata = mime(self.drawing, self.width, self.height)
        return {"text/plain": repr(self), **data}, metadata


def name_of(draw: Draw) -> str:
    """``draw_cache`` → ``cache``; a partial is named after its function."""
    name = getattr(draw, "__name__", None) or getattr(getattr(draw, "func", None), "__name__", "picture")
    return name.removeprefix("draw_")


def figure(
    draw: Draw, /, *, width: int = WIDTH, height: int | None = None, name: str | None = None, **values: Any
) -> Picture:
    """The still picture of ``draw(fig, **values)``. Sizes are CSS pixels; a draw function may carry its own height.

    >>> figure(lambda fig: fig.suptitle("hello") and [], name="greeting")
    <Picture greeting>
    """
    height = height or getattr(draw, "height", HEIGHT)
    return Picture(name or name_of(draw), render(draw, values, width, height), width, height)
