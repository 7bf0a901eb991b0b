"""Pictures of losslessness and of the museum, and a table: the numbers drawn, the words, bad input, the picker."""

from __future__ import annotations

import math

import pytest

from mtp_tutorial import show
from mtp_tutorial.lab.museum import EXHIBITS
from mtp_tutorial.lab.near_ties import Compared
from mtp_tutorial.show import figure, plots_lossless, plots_museum

# -- The museum -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["R1", "R15", "R14b"])
def test_an_exhibit_shows_its_own_numbers(name):
    picture, shown = figure(show.draw_exhibit, exhibit=name), EXHIBITS[name].demonstrate()
    assert [row["right"] for row in picture.data] == list(shown.right)
    assert [row["broken"] for row in picture.data] == list(shown.wrong)
    assert [row["predicted"] for row in picture.data] == list(shown.predicted)
    assert picture.alt.startswith(f"{name} · {EXHIBITS[name].title}. ") and "instead of" in picture.alt


def test_every_exhibit_fits_the_page():
    for exhibit in EXHIBITS.values():
        lines = exhibit.source().splitlines()
        height = 34 + plots_museum._LINE_HEIGHT * len(lines)
        assert height <= 0.6 * show.draw_exhibit.height and max(map(len, lines)) <= 120, exhibit.name
        words = len(exhibit.story) + len(exhibit.report) + len(exhibit.fix)
        assert words / plots_museum._LINE * 12.5 + 90 < show.draw_exhibit.height - 40 - height, exhibit.name


def test_the_picker_moves():
    panel = show.museum_panel("R1")
    assert panel.data()[0]["broken"] == 0.75
    panel.set(exhibit="R3")
    assert [row["broken"] for row in panel.data()] == [1, 0, 0] and not panel.errors.outputs
    panel.set(exhibit="nan_row")  # has no prediction
    assert panel.data()[0]["predicted"] is None and not panel.errors.outputs
    with pytest.raises(ValueError, match="no exhibit 'R99'"):
        show.museum_panel("R99")


# -- Losslessness -----------------------------------------------------------------------------------------------------

LAWS = [
    {"rule": "a", "lossless": True, "way": "x", "total_variation": 0.0},
    {"rule": "a", "lossless": True, "way": "y", "total_variation": 3e-16},
    {"rule": "b", "lossless": False, "way": "x", "total_variation": 0.25},
]


def test_distances_say_which_laws_are_right():
    picture = figure(show.draw_distances, rows=LAWS)
    assert picture.data == [
        {"rule": "a", "lossless": True, "worst": 3e-16}, {"rule": "b", "lossless": False, "worst": 0.25}
    ]  # fmt: skip
    assert picture.alt == "the plain law to rounding: a; another law: b up to 0.25."


def test_p_values_show_the_control():
    rows = [
        {"drafter": d, "rule": r, "lossless": r == "a", "p_value": p}
        for d, r, p in (("m", "a", 0.4), ("n", "a", 0.07), ("m", "c", 0.0))
    ]
    picture = figure(show.draw_p_values, rows=rows)
    assert [(row["rule"], row["tests"], row["smallest"]) for row in picture.data] == [("a", 2, 0.07), ("c", 1, 0.0)]
    assert "smallest p-value 0.070; control: at most 0" in picture.alt
    assert "no control" in figure(show.draw_p_values, rows=rows[:2]).alt


def test_fits_and_same_words():
    groups = {"MTP": {"first guess right": [0.8, 0.7], "first guess wrong": [0.9, 0.6]}}
    picture = figure(show.draw_fits, groups=groups)
    assert [(row["after"].split()[-1], row["position"], row["share"]) for row in picture.data] == [
        ("right", 2, 0.8), ("right", 3, 0.7), ("wrong", 2, 0.9), ("wrong", 3, 0.6)
    ]  # fmt: skip
    assert "MTP 0.80 (right), MTP 0.90 (wrong)" in picture.alt
    picture = figure(show.draw_same_word, series={"plain": [0.5, 0.2], "code": [0.5, 0.4]}, word="tea")
    assert picture.data[-1] == {"name": "code", "length": 2, "probability": 0.4}
    assert "2 times tea: plain 0.200, code 0.400" in picture.alt


def test_near_ties_name_what_flipped():
    records = [Compared(0, 1, 5, 5, 1.0, 0.1), Compared(0, 2, 5, 6, 0.0, 0.1), Compared(0, 3, 5, 7, 0.1, math.inf)]
    picture = figure(show.draw_near_ties, runs={"16 bits": records, "64 bits": records[:1]})
    assert picture.data == [
        {"run": "16 bits", "tokens": 3, "flipped": 2, "largest_change": 0.1, "smallest_margin": 0.0, "widest": 0.1},
        {"run": "64 bits", "tokens": 1, "flipped": 0, "largest_change": 0.1, "smallest_margin": 1.0, "widest": None},
    ]
    assert "16 bits 2 of 3, 64 bits 0 of 1" in picture.alt


@pytest.mark.parametrize(
    ("draw", "values", "words"),
    [
        (plots_lossless.draw_distances, {"rows": []}, "no rows"),
        (plots_lossless.draw_p_values, {"rows": []}, "no rows"),
        (plots_lossless.draw_fits, {"groups": {}}, "at least one drafter"),
        (plots_lossless.draw_same_word, {"series": {}}, "at least one series"),
        (plots_lossless.draw_near_ties, {"runs": {"a": []}}, "at least one run"),
        (plots_museum.draw_exhibit, {"exhibit": "R99"}, "no exhibit 'R99'"),
    ],
)
def test_bad_input_is_explained(draw, values, words):
    with pytest.raises(ValueError, match=words):
        figure(draw, **values)


# -- Tables -----------------------------------------------------------------------------------------------------------


def test_a_table_is_html_and_escapes():
    table = show.show_table([{"a": "**x < y**: why", "b": ["04", "09"], "c": 1}], {"a": "", "b": "where", "c": "n"})
    html = table._repr_html_()
    assert "<b>x &lt; y</b>: why" in html and ">04, 09<" in html and ">1<" in html
    assert repr(table) == "<Table of 1 rows: where, n>"
    with pytest.raises(ValueError, match="has no 'd'; it has: a"):
        show.show_table([{"a": 1}], {"d": "d"})
