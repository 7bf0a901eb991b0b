"""Panels and still pictures: same bytes each time, numbers beside the picture, errors shown and survived."""

import asyncio
import base64
import hashlib
import io
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from mtp_tutorial.show.panel import SETTLED, Panel, choice, slider, switch
from mtp_tutorial.show.picture import describe, figure, name_of, png, render
from mtp_tutorial.show.plots_cache import draw_mask


def draw_line(fig, a=1, power=2, grid=False):
    if a < 0:
        raise ValueError("a must not be negative")
    axes = fig.subplots()
    rows = [{"x": x, "y": a * x**power} for x in range(5)]
    axes.plot([r["x"] for r in rows], [r["y"] for r in rows])
    axes.grid(grid)
    axes.set_title(f"a = {a}")
    return rows


@pytest.fixture
def panel():
    controls = {"a": slider("a", -3, 9, 1), "power": choice("power", {"one": 1, "two": 2}, 2), "grid": switch("grid")}
    return Panel(draw_line, controls, "a line", width=400, height=300)


def test_png_bytes_are_the_same_each_time_and_in_another_process():
    first, again = render(draw_line, {"a": 2}), render(draw_line, {"a": 2})
    assert first.png == again.png and first.png.startswith(b"\x89PNG")
    code = (
        "import hashlib, matplotlib; matplotlib.rcParams['font.size'] = 30\n"
        "from mtp_tutorial.show import figure, draw_mask\n"
        "print(hashlib.sha256(figure(draw_mask).png).hexdigest())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == hashlib.sha256(figure(draw_mask).png).hexdigest()


def test_rendering_leaves_the_readers_own_settings_alone():
    import matplotlib

    with matplotlib.rc_context({"font.size": 30}):
        render(draw_line, {})
        assert matplotlib.rcParams["font.size"] == 30


def test_a_still_picture_shows_itself_once_with_its_numbers():
    picture = figure(draw_line, a=3, width=400, height=300)
    data, metadata = picture._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/png"}
    assert data["text/plain"] == "<Picture line>"
    assert base64.b64decode(data["image/png"]) == picture.png
    assert metadata["image/png"] == {"width": 400, "height": 300, "alt": "a = 3."}
    assert metadata["needs_background"] == "light", "by which the page's style finds it in a dark theme"
    assert picture.data[2] == {"x": 2, "y": 12}


def test_a_panel_is_widget_picture_and_text_at_once(panel):
    data, metadata = panel._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"}
    assert data["text/plain"] == "<Panel a line: a=1, power=2, grid=False>" == repr(panel)
    assert base64.b64decode(data["image/png"]) == panel.png == bytes(panel.image.value)
    assert metadata["image/png"]["alt"] == panel.alt == "a = 1."
    assert panel.words.value == '<div role="status">a = 1.</div>'
    assert panel.image.tooltip is None, "ipywidgets 8 cannot show an image that has a tooltip"
    assert (panel.image.width, panel.image.height) == ("400", "300"), "room is kept before the first picture is there"
    assert panel.image.layout.max_width == "100%" and panel.image.layout.height == "auto", "it shrinks as a whole"


def test_moving_a_control_draws_anew(panel):
    before = panel.png
    panel.children[0].value = 4
    assert panel.values == {"a": 4, "power": 2, "grid": False}
    assert panel.data()[2]["y"] == 16
    assert panel.png != before and panel.alt == "a = 4."
    panel.set(a=1)
    assert panel.png == before


def test_several_changes_draw_once(panel, monkeypatch):
    calls = []
    monkeypatch.setattr(panel, "_draw", lambda fig, **values: calls.append(values))
    panel.set(a=5, power=1, grid=True)
    assert calls == [{"a": 5, "power": 1, "grid": True}]
    panel.set(a=5)
    assert len(calls) == 1, "nothing changed, nothing to draw"


def test_an_error_is_shown_below_and_the_picture_stays(panel):
    before = panel.png
    panel.set(a=-1)
    assert panel.png == before == bytes(panel.image.value)
    (said,) = panel.errors.outputs
    assert said["name"] == "stderr"
    assert said["text"].startswith("ValueError: a must not be negative") and "Traceback" not in said["text"]
    panel.set(a=1)
    assert panel.errors.outputs == ()


def test_set_refuses_what_no_control_can_hold(panel):
    with pytest.raises(ValueError, match="this panel has: a, power, grid"):
        panel.set(b=1)
    with pytest.raises(ValueError, match="from -3 to 9"):
        panel.set(grid=True, a=99)
    with pytest.raises(ValueError, match="power"):
        panel.set(a=2, power=7)
    assert panel.values == {"a": 1, "power": 2, "grid": False}, "a refused set moves nothing"


def test_a_panel_that_cannot_draw_its_first_state_says_so_at_once():
    with pytest.raises(ValueError, match="negative"):
        Panel(draw_line, {"a": slider("a", -3, 9, -1)})


@pytest.fixture
def published(monkeypatch):
    """What a cell would store: the data of each output."""
    outputs = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: outputs.append(data))
    monkeypatch.delenv("VSCODE_PID", raising=False)
    return outputs


def test_the_stored_picture_does_not_depend_on_a_living_widget(panel, published):
    panel._ipython_display_()
    style, picture, view = published
    assert "<style>" in style["text/html"] and list(style) == ["text/html"]
    assert set(picture) == {"image/png", "text/plain"} and picture["text/plain"] == repr(panel)
    assert list(view) == ["application/vnd.jupyter.widget-view+json"], "nothing for nbval to compare"


def test_where_pages_cannot_hide_the_picture_there_is_one_output(panel, published, monkeypatch):
    monkeypatch.setenv("VSCODE_PID", "1")
    panel._ipython_display_()
    assert {"image/png", "application/vnd.jupyter.widget-view+json"} < set(published[-1]) and len(published) == 2


def test_a_still_picture_brings_the_style_along(published):
    figure(draw_line)._ipython_display_()
    assert [list(one) for one in published] == [["text/html"], ["text/plain", "image/png"]]


def test_a_moving_slider_keeps_the_axes_in_place_and_rests_in_the_exact_picture(panel):
    async def drag():
        panel.children[0].value = 8  # wider numbers at the axis
        moving = panel.png
        await asyncio.sleep(SETTLED + 0.05)
        return moving

    start = panel._drawing.places
    exact = render(draw_line, {"a": 8, "power": 2, "grid": False}, 400, 300)
    moving = asyncio.run(drag())
    assert exact.places != start and moving == render(draw_line, {"a": 8}, 400, 300, start).png
    assert panel.png == exact.png == bytes(panel.image.value) != moving
    assert panel.data()[2]["y"] == 32


def test_places_are_for_figures_of_the_same_axes():
    two = render(lambda fig: fig.subplots(1, 2) is None, {}, 400, 300)
    assert len(two.places) == 2
    assert render(draw_line, {}, 400, 300, two.places).png == render(draw_line, {}, 400, 300).png


def test_the_png_holds_the_pixels():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert (np.asarray(Image.open(io.BytesIO(png(pixels)))) == pixels).all()


def test_sliders_follow_and_know_whole_numbers():
    assert type(slider("k", 0, 4, 2)).__name__ == "IntSlider"
    assert type(slider("T", 0.0, 2.0, 1.0)).__name__ == "FloatSlider"
    assert slider("k", 0, 4, 2).continuous_update is True
    assert choice("rule", ["a", "b"]).value == "a"


def test_a_long_repr_is_cut():
    panel = Panel(lambda fig, text: [], {"text": choice("text", ["x" * 200])}, "words", width=200, height=100)
    assert len(repr(panel)) <= 110 and repr(panel).endswith("…>")


def test_words_for_those_who_cannot_see():
    fig = Figure()
    fig.suptitle("Above.")
    left, right = fig.subplots(1, 2)
    left.set_title("left\none", loc="left")
    right.set_title("right")
    assert describe(fig) == "Above. left one. right."
    assert describe(Figure()) == ""


def test_names():
    from functools import partial

    assert name_of(draw_line) == name_of(partial(draw_line, a=2)) == "line"


def test_importing_show_is_light():
    code = (
        "import sys; from mtp_tutorial.show import rich_tokens, show_tokens; "
        "print([m for m in ('torch', 'matplotlib', 'ipywidgets') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_every_public_name_resolves():
    from mtp_tutorial import show

    for name in show.__all__:
        assert getattr(show, name) is not None
    assert set(show.__all__) <= set(dir(show))
    with pytest.raises(AttributeError, match="nonsense"):
        show.nonsense  # noqa: B018
