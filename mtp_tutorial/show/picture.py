"""Turns a draw function into a PNG whose bytes are the same each time.

Takes: a plain function ``draw(fig, **values)`` that draws and returns the numbers it drew (a list of dicts).
Returns: a ``Picture``, which a notebook shows once, or the ``Drawing`` behind it.
Must not know: widgets, pyplot's state, models.
"""

from __future__ import annotations

import base64
import gc
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
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
    "text.hinting": "none",  # at this sharpness nobody sees the difference, and each glyph is drawn sooner
    "axes.unicode_minus": True,
}

Draw = Callable[..., Any]

#: Goes before each picture in a notebook. In JupyterLab's dark theme it turns white into that theme's background and
#: keeps the hues. It hides the stored picture of a panel while the panel is alive below it, and once the notebook is
#: opened without its kernel it replaces "model not found" by what to do. In a narrow window printed tables scroll where
#: JupyterLab would wrap their lines. Elsewhere it selects nothing.
PAGE_STYLE = """<style>
body[data-jp-theme-light="false"] :is(.mtp-panel, .jp-RenderedImage) img:is(.mtp-picture, .jp-needs-light-background) {
  background: white !important; filter: invert(.933) hue-rotate(180deg); }
.jp-OutputArea-child:has(+ .jp-OutputArea-child .mtp-panel) { display: none; }
.jp-OutputArea-child:has(.jp-needs-light-background) + .jp-OutputArea-child .jupyter-widgets:not(:has(*)) { font-size: 0; }
.jp-OutputArea-child:has(.jp-needs-light-background) + .jp-OutputArea-child .jupyter-widgets:not(:has(*))::after {
  content: "Run this cell again to get its controls."; font-size: 13px; opacity: .75; }
.jp-OutputArea-output.jp-RenderedText pre { white-space: pre; word-break: normal; overflow-x: auto; }
</style>"""  # noqa: E501


@dataclass(frozen=True)
class Drawing:
    """One drawn state: the PNG, the numbers behind it, and words for readers who cannot see it.

    places: where the axes lie, in fractions of the figure: left, bottom, width, height of each.
    """

    png: bytes
    rows: Any
    alt: str
    places: tuple[tuple[float, float, float, float], ...] = ()


def render(
    draw: Draw,
    values: dict[str, Any],
    width: int = WIDTH,
    height: int = HEIGHT,
    places: tuple[tuple[float, float, float, float], ...] = (),
) -> Drawing:
    """Call ``draw`` on a fresh figure of ``width`` × ``height`` CSS pixels. What it raises is passed on.

    A slider waits for this, so the figure is laid out once and drawn once (``savefig`` would draw it twice).
    places: put the axes there instead of laying them out, which takes a third of the time. A label that has grown
    may then be cut off. Ignored when the figure has another number of axes.
    """
    collecting = gc.isenabled()
    gc.disable()  # a figure is thousands of small objects; a collection in their midst frees none of them
    try:
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(STYLE)
            fig = Figure(figsize=(width / DPI, height / DPI), dpi=DPI * SHARPNESS, layout="constrained")
            canvas = FigureCanvasAgg(fig)
            rows = draw(fig, **values)
            engine = fig.get_layout_engine()
            fig.set_layout_engine("none")
            if engine and len(places) == len(fig.axes):
                for axes, place in zip(fig.axes, places):
                    axes.set_position(place)
            elif engine:
                engine.execute(fig)
            places = tuple(axes.get_position(original=True).bounds for axes in fig.axes)
            canvas.draw()
            return Drawing(png(np.asarray(canvas.buffer_rgba())[..., :3]), rows, describe(fig), places)
    finally:
        if collecting:
            gc.enable()


def png(pixels: np.ndarray) -> bytes:
    """The PNG file of ``pixels`` (height, width, 3) uint8: a third of the time that Pillow's choice of filters takes.

    Flat colours compress as well without filters. Ref: PNG specification (ISO/IEC 15948), chapters 5, 9 and 11.
    """
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # the first byte of a line names its filter: 0, none
    lines[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits a channel, red, green and blue
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 4)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


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
    about = {"width": width, "height": height, "alt": drawing.alt}
    return data, {"image/png": about, "needs_background": "light"}  # by which PAGE_STYLE knows it, too


def publish(*bundles: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Show each (data, metadata) as an output of its own, the pages' style before them."""
    from IPython.display import display

    for data, metadata in (({"text/html": PAGE_STYLE}, {}), *bundles):
        display(data, metadata=metadata, raw=True)


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

    def _ipython_display_(self) -> None:
        publish(self._repr_mimebundle_())


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
