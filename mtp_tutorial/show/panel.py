"""The one kind of interactive picture: controls above, a PNG below.

Takes: a draw function (see ``picture``) and a control for each value that a reader may change.
Returns: a ``Panel``: a widget where there is a kernel, a still picture where there is none.
Must not know: what is drawn.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from .picture import HEIGHT, WIDTH, Draw, Drawing, mime, name_of, publish, render

_WIDE = {"description_width": "185px"}  # room for 26 letters
_CONTROL = {"width": "495px", "max_width": "100%"}
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
SETTLED = 0.3  # seconds after the last move of a slider


def slider(label: str, low: float, high: float, value: float, step: float | None = None) -> widgets.Widget:
    """A slider: of whole numbers when all its numbers are whole, of decimals otherwise. Arrow keys move it."""
    whole = all(isinstance(x, int) for x in (low, high, value)) and isinstance(step, int | None)
    kind = widgets.IntSlider if whole else widgets.FloatSlider
    return kind(
        value=value, min=low, max=high, step=step or (1 if whole else 0.05), description=label,
        continuous_update=True, style=_WIDE, layout=widgets.Layout(**_CONTROL),
    )  # fmt: skip


def choice(label: str, options: Sequence[Any] | Mapping[str, Any], value: Any = None) -> widgets.Dropdown:
    """A dropdown. ``options``: values, or words → values."""
    pairs = list(options.items()) if isinstance(options, Mapping) else list(options)
    first = pairs[0][1] if isinstance(options, Mapping) else pairs[0]
    return widgets.Dropdown(
        options=pairs, value=first if value is None else value, description=label,
        style=_WIDE, layout=widgets.Layout(**_CONTROL),
    )  # fmt: skip


def switch(label: str, value: bool = False) -> widgets.Checkbox:
    """A checkbox; the space bar flips it."""
    return widgets.Checkbox(value=value, description=label, indent=False, layout=widgets.Layout(**_CONTROL))


class Panel(widgets.VBox):
    """A picture with controls.

    draw: ``draw(fig, **values)`` returns the numbers it drew.
    controls: value name → widget from ``slider``, ``choice`` or ``switch`` (any widget with a ``value`` will do).
    title: a few words, for the text shown where there is neither picture nor widget.
    fixed: further values that have no control.
    width, height: CSS pixels.

    If ``draw`` raises, the message appears below the picture, which stays as it was. At construction the error is
    raised: a panel that cannot draw its first state is a mistake of its author.
    """

    def __init__(
        self,
        draw: Draw,
        controls: Mapping[str, widgets.Widget],
        title: str | None = None,
        fixed: Mapping[str, Any] | None = None,
        width: int = WIDTH,
        height: int | None = None,
    ) -> None:
        self._draw, self._controls, self._fixed = draw, dict(controls), dict(fixed or {})
        self._title = title or name_of(draw)
        self._size = (width, height or getattr(draw, "height", HEIGHT))
        self._drawn = self.values
        self._drawing: Drawing = render(draw, {**self._fixed, **self._drawn}, *self._size)
        self._exact, self._settling, self._holding = True, None, False
        # The ratio keeps the page from jumping between two pictures, and shrinks with a narrow window.
        box = widgets.Layout(width=f"{width}px", max_width="100%", height="auto")
        self.image = widgets.Image(format="png", width=str(width), height=str(self._size[1]), layout=box)
        self.image.add_class("mtp-picture")
        # ipywidgets gives its images no alternative text: a screen reader reads these unseen words after each change.
        self.words = widgets.HTML(layout=widgets.Layout(height="1px", margin="0", overflow="hidden"))
        self.errors = widgets.Output()
        super().__init__([*self._controls.values(), self.image, self.words, self.errors])
        self.add_class("mtp-panel")
        self._show()
        for control in self._controls.values():
            control.observe(self._changed, names="value")

    @property
    def values(self) -> dict[str, Any]:
        """What the controls say now."""
        return {name: control.value for name, control in self._controls.items()}

    @property
    def alt(self) -> str:
        """The picture in words."""
        return self._drawing.alt

    @property
    def png(self) -> bytes:
        """The bytes of the picture as it is now."""
        return self._drawing.png

    def data(self) -> Any:
        """The numbers behind the picture as it is now."""
        return self._drawing.rows

    def set(self, **values: Any) -> None:
        """Move several controls and draw once. Raises ValueError on an unknown name, or a value out of range."""
        for name in values:
            if name not in self._controls:
                raise ValueError(f"no control named {name!r}; this panel has: {', '.join(self._controls) or 'none'}")
        before = self.values
        self._holding = True
        try:
            for name, value in values.items():
                self._move(name, value)
        except ValueError:
            for name, value in before.items():
                self._controls[name].value = value
            raise
        finally:
            self._holding = False
        self.redraw()

    def _move(self, name: str, value: Any) -> None:
        control = self._controls[name]
        low, high = getattr(control, "min", None), getattr(control, "max", None)
        if low is not None and not low <= value <= high:  # ipywidgets would clamp without a word
            raise ValueError(f"{name}={value!r}: use a number from {low:g} to {high:g}")
        try:
            control.value = value
        except Exception as error:  # traitlets raises its own kinds
            raise ValueError(f"{name}={value!r}: {error}") from error

    def redraw(self) -> None:
        """Draw the state of the controls, unless it is drawn already; if it cannot be drawn, say why."""
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        self._redraw()

    def _redraw(self, exact: bool = True) -> None:
        values = self.values
        if values == self._drawn and (self._exact or not exact) and not self.errors.outputs:
            return
        places = () if exact else self._drawing.places
        try:
            self._drawing = render(self._draw, {**self._fixed, **values}, *self._size, places)
        except Exception as error:
            said = (
                f"{type(error).__name__}: {error}\nThe picture above still shows the last state that could be drawn.\n"
            )
            self.errors.outputs = ({"output_type": "stream", "name": "stderr", "text": said},)
            return
        self._drawn, self._exact = values, exact
        self._show()

    def _changed(self, change: Any = None) -> None:
        """The callback of every control. The front end merges a burst of changes; ``set`` merges its own.

        While a slider moves, the axes keep their places; once it rests, the picture is laid out anew, so that what
        stays in view depends on the controls alone. Without an event loop nothing could wait for that rest.
        """
        if self._holding:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is None or not getattr(getattr(change, "owner", None), "continuous_update", False):
            self.redraw()
            return
        if self._settling is not None:
            self._settling.cancel()
        self._redraw(exact=False)
        self._settling = loop.call_later(SETTLED, self.redraw)

    def _show(self) -> None:
        if self.errors.outputs:
            self.errors.outputs = ()
        self.words.value = f'<div role="status">{escape(self._drawing.alt)}</div>'
        self.image.value = self._drawing.png

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        text = f"<Panel {self._title}: {said}>"
        return text if len(text) <= 110 else text[:108] + "…>"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data = dict(super()._repr_mimebundle_(**kwargs))
        picture, metadata = mime(self._drawing, *self._size)
        return {**data, "text/plain": repr(self), **picture}, metadata

    def _ipython_display_(self) -> None:
        """The picture and the widget as two outputs: a page that cannot revive the widget still has the picture.

        As one output they would be a choice, which JupyterLab makes for the widget, alive or not. VS Code and Colab
        get that one output all the same, as their pages cannot hide the picture behind a living widget.
        """
        data, metadata = self._repr_mimebundle_()
        if "VSCODE_PID" in os.environ or "google.colab" in sys.modules:
            publish((data, metadata))
            return
        view = {WIDGET_VIEW: data.pop(WIDGET_VIEW)}
        publish((data, metadata), (view, {}))
