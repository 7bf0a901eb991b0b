"""The numbers behind the pictures of one draw; each picture is drawn once."""

import math

import pytest

from mtp_tutorial import show
from mtp_tutorial.show.picture import figure
from mtp_tutorial.show.plots_race import draw_race
from mtp_tutorial.show.plots_sampling import chi_square, draw_filters, draw_histogram, draw_segment, sampler_draws


def column(rows, name):
    return [row[name] for row in rows]


def test_the_articles_example_of_temperature_and_segment():
    rows = figure(draw_segment, logits=[3, 2], labels=["hǎo", "de"], temperature=0.6, u=0.30).data
    assert [round(x, 2) for x in column(rows, "scaled")] == [5.0, 3.33]
    assert [round(x, 2) for x in column(rows, "probability")] == [0.84, 0.16]
    assert column(rows, "chosen") == [True, False]
    assert rows[0]["start"] == 0 and math.isclose(rows[1]["end"], 1)
    assert column(figure(draw_segment, temperature=0.6, u=0.90).data, "chosen") == [False, True]
    assert [round(x, 2) for x in column(figure(draw_segment).data, "probability")] == [0.73, 0.27]


def test_temperature_zero_is_one_hot_and_draws_nothing():
    picture = figure(draw_segment, logits=[3, 2, 3], temperature=0, u=0.9)
    assert column(picture.data, "probability") == [1, 0, 0]
    assert column(picture.data, "chosen") == [True, False, False]


def test_filters_keep_what_the_pipeline_keeps():
    rows = figure(draw_filters, logits=[0, 3, 1, 2], labels="abcd", top_k=3, top_p=0.9, min_p=0.2).data
    assert column(rows, "token") == ["b", "d", "c", "a"]
    assert column(rows, "kept") == [True, True, False, False]
    assert math.isclose(sum(column(rows, "after")), 1)
    assert math.isclose(rows[2]["cumulative"], 1), "top-p looks at what top-k left"


def test_the_histogram_tells_a_right_sampler_from_a_wrong_one():
    p = [0.5, 0.3, 0.2]
    picture = figure(draw_histogram, probs=p, draws={**sampler_draws(p, 2000, seed=1), "always 0": [0] * 2000})
    rows = picture.data
    assert "p-value below 0.001" in picture.alt and "p-value 0.00," not in picture.alt
    assert [sum(row["counts"]) for row in rows] == [2000] * 4
    assert all(row["p_value"] > 0.001 for row in rows[:3]) and rows[3]["p_value"] < 1e-9
    assert sampler_draws(p, 50, seed=1) == sampler_draws(p, 50, seed=1) != sampler_draws(p, 50, seed=2)


def test_the_race_and_gumbel_max_have_one_winner():
    rows = figure(draw_race, probs=[0.5, 0.3, 0.2], noise=[0.9, 0.3, 0.5]).data
    assert [round(x, 2) for x in column(rows, "time")] == [1.8, 1.0, 2.5]
    assert column(rows, "wins") == [False, True, False]
    assert max(rows, key=lambda row: row["score"])["wins"]
    for noise in ([0.9, 0.3], [0.9, 0.3, 0.0]):
        with pytest.raises(ValueError, match="above 0"):
            figure(draw_race, probs=[0.5, 0.3, 0.2], noise=noise)


def test_chi_square():
    assert chi_square([60, 40], [50, 50]) == pytest.approx((4.0, 0.0455), abs=1e-4)
    assert chi_square([1, 9], [0, 10]) == (math.inf, 0.0)
    assert chi_square([10, 0], [10, 0]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"logits": [[1, 2]]}, "one row"),
        ({"logits": []}, "one row"),
        ({"logits": [1, 2], "labels": ["a"]}, "1 labels for 2 tokens"),
    ],
)
def test_bad_input_is_explained(values, words):
    with pytest.raises(ValueError, match=words):
        figure(draw_segment, **values)


def test_a_histogram_needs_a_distribution():
    with pytest.raises(ValueError, match="sum is 2"):
        figure(draw_histogram, probs=[1, 1], draws={"x": [0]})


def test_the_panels_move():
    segment = show.segment_panel(labels=["hǎo", "de"])
    segment.set(u=0.9)
    assert segment.data()[1]["chosen"] is True
    segment.set(temperature=0.0)
    assert segment.data()[0]["chosen"] is True
    filters = show.filter_panel([3, 2, 1, 0], top_p=0.9)
    assert sum(column(filters.data(), "kept")) == 3
    filters.set(top_k=1)
    assert sum(column(filters.data(), "kept")) == 1
    samplers = show.sampler_panel([0.5, 0.3, 0.2])
    samplers.set(n=300)
    assert sum(samplers.data()[0]["counts"]) == 300
    assert not any(panel.errors.outputs for panel in (segment, filters, samplers))
