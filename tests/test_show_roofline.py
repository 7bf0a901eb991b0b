"""The numbers behind the pictures of one call: theory's own, and those of the rows given."""

import math

import pytest

from mtp_tutorial import show
from mtp_tutorial.lab import server_sim, theory
from mtp_tutorial.show.panels.roofline import SHAPES, draw_case, shape
from mtp_tutorial.show.picture import figure
from mtp_tutorial.show.plots_roofline import draw_cost, draw_roofline


def test_the_articles_case():
    picture = figure(draw_roofline)
    points = picture.data["points"]
    assert [(p["rows"], round(p["memory"]), round(p["arithmetic"]), p["bound"]) for p in points] == [
        (1, 47, 0, "memory"), (5, 47, 1, "memory"), (256, 47, 36, "memory"), (1280, 47, 181, "arithmetic")
    ]  # fmt: skip
    assert picture.data["edge"] == theory.critical_rows(theory.MODEL_70B, theory.GPU)
    assert "1 row: 46.7 ms, 0.3 % of the peak; reading sets the pace up to 330 rows" in picture.alt
    assert points[0]["share"] == pytest.approx(1 / picture.data["edge"]) and points[-1]["share"] == 1


def test_a_context_moves_the_edge_to_where_both_times_are_equal():
    data = figure(draw_roofline, weights=server_sim.TARGET, tokens=5, context=2000, marks=(1,)).data
    rows = data["edge"]
    memory = theory.memory_seconds(server_sim.TARGET, theory.GPU, rows / 5 * 2000)
    assert memory == pytest.approx(theory.compute_seconds(server_sim.TARGET, theory.GPU, rows))
    assert rows > theory.critical_rows(server_sim.TARGET, theory.GPU)


def test_a_long_context_keeps_reading_ahead_for_ever():
    picture = figure(draw_roofline, weights=server_sim.TARGET, context=30_000, marks=(1, 4096))
    assert picture.data["edge"] is None and "at any number of rows" in picture.alt
    assert {point["bound"] for point in picture.data["points"]} == {"memory"}


def cost(seconds, batch=1):
    return [
        {"batch": batch, "rows": rows, "seconds": s, "lowest": s / 2, "highest": 2 * s, "tokens_per_second": rows / s}
        for rows, s in seconds.items()
    ]


def test_measured_calls_are_compared_with_the_smallest():
    picture = figure(draw_cost, groups={"bf16": cost({1: 0.02, 5: 0.03}), "float32": cost({1: 0.05, 5: 0.2})})
    assert [(row["group"], row["tokens"], round(row["cost"], 9)) for row in picture.data] == [
        ("bf16", 1, 1), ("bf16", 5, 1.5), ("float32", 1, 1), ("float32", 5, 4)
    ]  # fmt: skip
    assert picture.data[1]["milliseconds"] == 30 and math.isclose(picture.data[1]["tokens_per_second"], 5 / 0.03)
    assert "bf16: 5 at the price of 1.5; float32: 5 at the price of 4.0" in picture.alt


def test_shapes_are_those_of_the_models():
    assert shape("70 B (as Llama-3-70B)", 16) == server_sim.TARGET
    assert shape("SmolLM2-135M", 4) == theory.Weights(134.5e6, 0.5, 23040)


@pytest.mark.parametrize(
    ("draw", "values", "words"),
    [
        (draw_roofline, {"marks": ()}, "marks=()"),
        (draw_roofline, {"tokens": 0}, "tokens=0"),
        (draw_cost, {"groups": {}}, "give rows"),
        (draw_cost, {"groups": {"a": []}}, "give rows"),
        (draw_case, {"model": "9 B", "bits": 16, "terabytes": 1, "teraflops": 1, "sequences": 1, "tokens": 1,
                     "context": 0}, "no model '9 B'"),
    ],
)  # fmt: skip
def test_bad_input_is_explained(draw, values, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace(")", r"\)")):
        figure(draw, **values)


def test_the_panel_moves():
    panel = show.roofline_panel()
    (point,) = panel.data()["points"]
    assert (point["rows"], round(point["memory"], 1), point["bound"]) == (1, 46.7, "memory")
    panel.set(sequences=256, tokens=5)
    (point,) = panel.data()["points"]
    assert (point["rows"], round(point["arithmetic"]), point["bound"]) == (1280, 181, "arithmetic")
    edges = []
    for model in SHAPES:
        panel.set(model=model, bits=4)
        edges.append(round(panel.data()["edge"]))
    assert len(set(edges)) == 1 and edges[0] == 82  # the size is not in it; the bits are
    panel.set(terabytes=0.1, teraflops=2500, sequences=512, tokens=8, context=32000)
    panel.set(terabytes=8.0, teraflops=1, sequences=1, tokens=1, context=0)
    assert not panel.errors.outputs
