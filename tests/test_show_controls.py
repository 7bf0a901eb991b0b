"""Every panel, every control: operable by keyboard, moved to its ends, another picture and other numbers each time."""

from functools import cache
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import ipywidgets as widgets
import nbformat
import pytest

import mtp_tutorial as mt
from mtp_tutorial import show
from mtp_tutorial.drafters.mtp_head import MtpHead
from mtp_tutorial.lab import experiment as ex
from mtp_tutorial.models import toys
from mtp_tutorial.show import picture

#: Sliders take arrow keys, dropdowns too, and the space bar flips a checkbox.
BY_KEYBOARD = (widgets.IntSlider, widgets.FloatSlider, widgets.Dropdown, widgets.Checkbox)
PANELS = [name for name in show.__all__ if name.endswith("_panel")]


@cache
def generation(rule="rejection", temperature=1.0):
    toy = mt.load("toy")
    drafter = mt.load_drafter("draft", toy, model=toys.make("1 word", toy.tokenizer.words, toy.model.table[-1]))
    options = {"sampling": mt.Sampling(temperature=temperature), "max_new_tokens": 24, "ignore_eos": True}
    return mt.generate(toy, "the cat", drafter, rule, seed=3, **options)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A small run of the repetition case on a toy: (summary, rows)."""
    out = tmp_path_factory.mktemp("case") / "rows.jsonl"
    prompts = [{"id": f"p-{i}", "kind": "toy", "prompt": f"the {word}"} for i, word in enumerate(["cat", "dog"])]
    arms = ex.chosen(ex.repetition_case("ngram"), ["off", "rejection", "R3"])
    rows = ex.run(mt.load("toy"), arms, prompts, out, max_new_tokens=24)
    return ex.summary(*ex.read(out)), rows


def standing(name, tokens, rows, weights):
    """A line of the capstone's board: ``tokens`` a round for so many further rows and so much weight read."""

    def at(row, price):
        return tokens / (1 + rows * row + weights * price)

    score = SimpleNamespace(
        entry=SimpleNamespace(name=name), at=at, interval=lambda *prices: (0.9 * at(*prices), 1.1 * at(*prices))
    )
    return SimpleNamespace(score=score, ruling=None, accepted=True)


#: What a panel needs beside its defaults, and a state in which each of its controls matters.
READY = {
    "segment_panel": lambda case: show.segment_panel(u=0.8),
    "filter_panel": lambda case: show.filter_panel([3, 2, 1, 0], top_k=3, top_p=0.9),
    "sampler_panel": lambda case: show.sampler_panel([0.5, 0.3, 0.2]),
    "mask_panel": lambda case: show.mask_panel(step=1),
    "cache_panel": lambda case: show.cache_panel(generation()),
    "round_panel": lambda case: show.round_panel(generation()),
    "decoding_panel": lambda case: show.decoding_panel(
        {(rule, t): generation(rule, t) for rule in ("rejection", "greedy") for t in (0, 0.6)}
    ),
    "accept_panel": lambda case: show.accept_panel([0.5, 0.3, 0.2], [0.3, 0.1, 0.6], draft=2, coin=0.6),
    "law_panel": lambda case: show.law_panel({"plain": {0: 0.5, 1: 0.5}, "a": {0: 0.7, 1: 0.3}, "b": {0: 1.0}}),
    "head_panel": lambda case: show.head_panel(MtpHead(toys.random_llama(num_layers=1))),
    "steps_panel": lambda case: show.steps_panel(step=5),
    "position_panel": lambda case: show.position_panel([0.8, 0.6, 0.5], alpha=0.7),
    "price_panel": lambda case: show.price_panel([standing("ngram", 1.8, 4, 0.0), standing("mtp", 3.2, 4, 0.6)]),
    "repetition_panel": lambda case: show.repetition_panel(*case, words=2),
}


@pytest.fixture(scope="module", params=PANELS)
def panel(request, case):
    """One panel after the other, each made once; a test leaves it as it was."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picture, "SHARPNESS", 0.5)  # small pictures are drawn sooner
        make = READY.get(request.param)
        yield make(case) if make else getattr(show, request.param)()


def ends(control):
    """The values at both ends of a control, and in the middle of a slider."""
    if isinstance(control, widgets.Checkbox):
        return [False, True]
    if isinstance(control, widgets.Dropdown):
        values = [value for _, value in control._options_full]
        return [values[0], values[-1]]
    steps = round((control.max - control.min) / control.step)
    return [control.min, control.max, control.min + control.step * (steps // 2)]


def moved(panel, name, value):
    """Move a control as the front end does, whose callback draws: the picture and its numbers."""
    panel._controls[name].value = value
    assert not panel.errors.outputs, (name, value, panel.errors.outputs)
    assert panel.values[name] == value and bytes(panel.image.value) == panel.png
    assert panel.alt and panel.alt.split(".")[0] in unescape(panel.words.value)
    return panel.png, repr(panel.data())


def back(panel, name, value):
    """Put a control back without a picture: the next one is drawn from there."""
    panel._holding = True
    panel._controls[name].value = value
    panel._holding = False


def test_each_control_moves_the_picture_and_its_numbers(panel):
    for name, start in panel.values.items():
        low, high, *middle = ends(panel._controls[name])
        (png, numbers), (other, others) = moved(panel, name, low), moved(panel, name, high)
        if middle and (png == other or numbers == others):  # "off" lies at one end of some, "all" at the other
            other, others = moved(panel, name, *middle)
        assert png != other, f"the picture stays when {name} moves from end to end"
        assert numbers != others, f"the numbers stay when {name} moves from end to end"
        back(panel, name, start)


def test_a_control_without_effect_would_be_found():
    def draw_nothing(fig, a):
        fig.suptitle("the same words")
        return []

    with pytest.raises(AssertionError, match="the picture stays when a moves"):
        test_each_control_moves_the_picture_and_its_numbers(show.Panel(draw_nothing, {"a": show.slider("a", 0, 4, 1)}))


def test_each_control_says_what_it_is_and_takes_keys(panel):
    words = [control.description for control in panel._controls.values()]
    assert panel._controls and all(words) and len(set(words)) == len(words), words
    for control in panel._controls.values():
        assert isinstance(control, BY_KEYBOARD) and not control.disabled
        assert len(control.description) <= 26, f"cut off on the page: {control.description!r}"
    assert list(panel.children[: len(words)]) == list(panel._controls.values()), "Tab goes through them from above"


def test_without_a_kernel_there_is_the_picture_and_its_words(panel):
    data, metadata = panel._repr_mimebundle_()
    assert data["image/png"] and metadata["image/png"]["alt"] == panel.alt and metadata["image/png"]["width"] <= 900


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[1].glob("notebooks/*.ipynb")), ids=lambda p: p.stem[:2])
def test_stored_panels_have_their_default_picture(path):
    outputs = [out for cell in nbformat.read(path, as_version=4).cells for out in cell.get("outputs", [])]
    panels = [out for out in outputs if str(out.get("data", {}).get("text/plain", "")).startswith("<Panel")]
    assert panels, "a notebook of the course has a picture to explore"
    for out in panels:
        assert len(out.data["image/png"]) > 1000 and out.metadata["image/png"]["alt"].strip()
