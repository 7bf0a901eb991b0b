"""Sliders for the site: every picture they can choose is drawn beforehand, by the panels of the notebooks.

Takes: a panel and the values its controls run through.  Returns: frames (PNG and words), and HTML that chooses among
them without a kernel and without network.
Must not know: the pages around it. To give a notebook one more slider, add a line to ``SLIDERS``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2


def steps(low: float, high: float, step: float) -> list[float]:
    """Numbers from ``low`` to ``high``, both included, free of rounding dust.

    >>> steps(0.0, 0.6, 0.2)
    [0.0, 0.2, 0.4, 0.6]
    """
    return [round(low + i * step, 6) for i in range(round((high - low) / step) + 1)]


@dataclass(frozen=True)
class Slider:
    """Where a slider goes and what it shows.

    find: what the notebook's cell contains.  panel: makes the panel of that cell, in the state the cell shows.
    values: control name → the values it runs through; the panel's own value is added where it is missing. A control
    that is not named keeps its value; without any name, each control runs through all of its values.
    run: the panel shows a run of the real model. Where that model is not at hand, or generates another text than the
    stored one, the stored picture stays.
    """

    find: str
    panel: Callable[[], Any]
    values: dict[str, Sequence[Any]] = field(default_factory=dict)
    run: bool = False


def _rounds() -> Any:
    import mtp_tutorial as mt
    from mtp_tutorial import show

    target = mt.load("smollm2")
    drawn = mt.generate(
        target, "Write a multiplication table for 3, from 3 x 1 to 3 x 8.", drafter="ngram", num_speculative_tokens=4,
        sampling=mt.Sampling(temperature=0.6), max_new_tokens=64, seed=7,
    )  # fmt: skip
    tokens = {*drawn.prompt_tokens, *(i for one in drawn.rounds for i in (*one.tokens, *one.draft_tokens))}
    mixed = next((one.index for one in drawn.rounds if 0 < one.num_accepted < one.num_drafted), 1)
    return show.round_panel(drawn, labels={i: target.tokenizer.decode([i]) for i in tokens}, step=mixed)


def _segment() -> Any:
    from mtp_tutorial import show

    return show.segment_panel([3, 2], ["hǎo", "de"], temperature=1.0, u=0.80)


def _accept() -> Any:
    from mtp_tutorial import show

    words = ["tea", "coffee", "water"]
    return show.accept_panel([0.5, 0.3, 0.2], [0.3, 0.1, 0.6], labels=words, draft=2, coin=0.60, draw=0.20)


def _speed() -> Any:
    from mtp_tutorial import show

    panel = show.speed_panel()
    panel.set(verify_cost=2.0)
    return panel


def _pairs() -> Any:
    from mtp_tutorial import show

    return show.steps_panel(step=2)


#: Notebook → its sliders. tests/test_site.py holds each to the picture that the notebook stores.
SLIDERS: dict[str, list[Slider]] = {
    "00_start_here": [Slider("show.round_panel(", _rounds, run=True)],
    "01_logits_temperature_sampling": [
        Slider("show.segment_panel(", _segment, {
            "temperature": [*steps(0, 1.2, 0.2), 1.5, 2, 2.5, 3], "u": [0.1, 0.3, 0.5, 0.7, 0.8, 0.9],
        }),
    ],
    "04_lossless_sampling": [
        Slider("show.accept_panel(", _accept, {"draft": [0, 1, 2], "coin": steps(0, 0.9, 0.1)}),
    ],
    "05_acceptance_and_speedup": [
        Slider("show.speed_panel(", _speed, {
            "draft_cost": [0, *steps(0.1, 0.5, 0.1), 0.75, 1], "verify_cost": [1, 1.5, 2, 3, 4],
        }),
    ],
    "06_mtp_heads": [
        Slider("show.steps_panel(", _pairs, {"step": [1, 2, 3, 4, 5], "accepted": [0, 1, 2, 3]}),
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Control:
    """One slider of the page: its words, one for each stop, and the stop where it starts."""

    name: str
    label: str
    values: tuple[Any, ...]
    words: tuple[str, ...]
    at: int


def controls(panel: Any, values: dict[str, Sequence[Any]]) -> list[Control]:
    """The controls of ``values`` with the panel's own value among their stops. ValueError on a name it lacks."""
    found = []
    for name, stops in (values or {name: whole(control) for name, control in panel._controls.items()}).items():
        if name not in panel.values:
            raise ValueError(f"no control named {name!r}; this panel has: {', '.join(panel.values)}")
        widget, start = panel._controls[name], panel.values[name]
        # A dropdown keeps its options in order and gives each a word of its own.
        said = {value: str(word) for word, value in getattr(widget, "_options_full", ())}
        stops = list(stops) if start in stops else sorted([*stops, start])
        words = tuple(
            said.get(value, f"{value:g}" if isinstance(value, int | float) else str(value)) for value in stops
        )
        found.append(Control(name, widget.description, tuple(stops), words, stops.index(start)))
    return found


def whole(control: Any) -> list[Any]:
    """Every value of a slider of whole numbers, or of a dropdown."""
    options = getattr(control, "_options_full", None)
    return [value for _, value in options] if options else list(range(control.min, control.max + 1, control.step))


def write(panel: Any, values: dict[str, Sequence[Any]], folder: Path, at: str, key: str, page: jinja2.Template) -> str:
    """Draw every setting into ``folder`` and return the figure's HTML.

    at: the folder as the page links to it.  key: a word for ids and file names, unique on the page.
    The frames are ordered like the digits of a number: the last control turns fastest.
    """
    chosen = controls(panel, values)
    start, frames = tuple(control.at for control in chosen), []
    folder.mkdir(parents=True, exist_ok=True)
    default = 0
    for number, stops in enumerate(itertools.product(*(range(len(control.values)) for control in chosen))):
        panel.set(**{control.name: control.values[i] for control, i in zip(chosen, stops)})
        if panel.errors.outputs:  # the panel would keep its last picture, which would be the wrong one here
            raise ValueError(f"{key} cannot be drawn at {panel.values}: {panel.errors.outputs[0]['text']}")
        name = f"{key}-{number:03d}.png"
        (folder / name).write_bytes(panel.png)
        frames.append({"src": f"{at}/{name}", "alt": panel.alt})
        if stops == start:
            default = number
    width, height = panel._size
    data = json.dumps(frames, ensure_ascii=False).replace("<", "\\u003c")
    return page.render(
        title=panel._title, controls=chosen, frames=frames, at=default, key=key, data=data, width=width, height=height
    )  # fmt: skip
