"""The numbers behind the pictures of speed and control: theory's own, the table's own, the rounds' own."""

import math

import numpy as np
import pytest

import mtp_tutorial as mt
from mtp_tutorial import show
from mtp_tutorial.lab import server_sim, theory
from mtp_tutorial.lab.controllers import ByAcceptance, Fixed
from mtp_tutorial.models import toys
from mtp_tutorial.show.picture import figure
from mtp_tutorial.show.plots_control import FORMAL, FREE, OTHER, draw_kinds, draw_trace, length_with_error
from mtp_tutorial.show.plots_speed import draw_calls, draw_loads, draw_server, draw_speed_up


def test_the_surface_is_theorys_and_marks_the_articles_points():
    picture = figure(draw_speed_up)
    for row in picture.data["grid"][::37]:
        assert row["speed_up"] == theory.speedup(row["alpha"], row["k"], 0.1)
    assert len(picture.data["grid"]) == 51 * 13
    points = picture.data["points"]
    assert [round(100 / point["speed_up"]) for point in points] == [28, 70, 140]
    assert [point["tokens"] for point in points] == [5, 2, 1] and {point["k"] for point in points} == {4}
    assert all(row["k"] == theory.best_k(row["alpha"], 0.1, 12) for row in picture.data["best"])
    assert "3.57×, 1.43×, 0.71×" in picture.alt


@pytest.mark.parametrize("values", [{"draft_cost": 0}, {"draft_cost": 1.0, "verify_cost": 4.0}, {"article_k": 1}])
def test_the_surface_can_be_drawn_at_the_edges(values):
    picture = figure(draw_speed_up, **values)
    assert len(picture.data["points"]) == 3 and picture.png


def test_calls_say_what_sets_the_pace():
    rows = figure(draw_calls).data
    assert [(row["rows"], row["bound"]) for row in rows] == [
        (1, "memory"), (5, "memory"), (256, "memory"), (1280, "arithmetic")
    ]  # fmt: skip
    assert round(rows[2]["arithmetic"]) == 36 and round(rows[3]["arithmetic"]) == 181
    assert "up to 330 rows" in figure(draw_calls).alt


def test_loads_show_the_best_k_and_what_it_gains():
    picture = figure(draw_loads, alphas=(0.8, 0.3), batches=(1, 64, 512))
    assert [(row["alpha"], row["batch"]) for row in picture.data] == [
        (alpha, batch) for alpha in (0.8, 0.3) for batch in (1, 64, 512)
    ]
    assert all(row["gain_best"] >= max(row["gain_fixed"], 1) for row in picture.data)
    assert "from 6 at batch 1 to 0 at batch 512" in picture.alt


@pytest.fixture(scope="module")
def server_rows():
    policies, rows = {"k = 0": lambda: Fixed(0), "k = 4": lambda: Fixed(4)}, []
    for batch in (1, 4):
        requests = server_sim.make_requests(6, np.random.default_rng(0), {"a": 0.9}, new_tokens=(20, 30))
        rows += server_sim.compare(requests, policies, {"max_batch": batch}, max_batch=batch)
    return rows


def test_the_server_is_compared_with_a_policy(server_rows):
    picture = figure(draw_server, rows=server_rows)
    assert [(row["policy"], row["load"]) for row in picture.data] == [
        ("k = 0", 1), ("k = 0", 4), ("k = 4", 1), ("k = 4", 4)
    ]  # fmt: skip
    assert [row["gain"] for row in picture.data[:2]] == [1, 1] and picture.data[2]["gain"] > 1.5
    assert "k = 4 at 1" in picture.alt
    other = figure(draw_server, rows=server_rows, plain="k = 4").data
    assert other[0]["gain"] == pytest.approx(1 / picture.data[2]["gain"])


def test_the_length_and_its_error_are_those_of_the_rounds():
    accepted = np.random.default_rng(0).integers(0, 4, 500)  # 0 to 3 of 3 draft tokens
    row = {
        "rounds": 500,
        "tokens": int(accepted.sum()) + 500,
        "accepted": [int((accepted > i).sum()) for i in range(3)],
    }
    length, error = length_with_error(row)
    assert length == pytest.approx(1 + accepted.mean()) and error == pytest.approx(accepted.std() / math.sqrt(500))
    assert all(map(math.isnan, length_with_error({"rounds": 0, "tokens": 0, "accepted": [0]})))


def test_kinds_are_sorted_and_parted_by_family():
    def rows(*lengths):
        kinds = ("all kinds", "json", "chat", "factual")
        return [{"kind": kind, "rounds": 100, "tokens": 100 + n, "accepted": [n, 0]} for kind, n in zip(kinds, lengths)]

    picture = figure(draw_kinds, groups={"T = 0": rows(50, 80, 30, 40), "T = 0.6": rows(40, 20, 30, 40)})
    assert [(row["kind"], row["family"], row["length"]) for row in picture.data[:4]] == [
        ("all kinds", OTHER, 1.5), ("json", FORMAL, 1.8), ("chat", FREE, 1.3), ("factual", OTHER, 1.4)
    ]  # fmt: skip
    assert "T = 0: most json, least chat" in picture.alt


def test_the_trace_shows_each_round():
    toy = toys.random_toy(vocab_size=5, order=2, seed=3)
    run = mt.generate(toy, [1], "ngram", num_speculative_tokens=ByAcceptance(max_k=4), max_new_tokens=30)
    plain = mt.generate(toy, [1], "ngram", num_speculative_tokens=0, max_new_tokens=5)
    picture = figure(draw_trace, runs={"by acceptance": run.rounds, "k = 0": plain.rounds})
    mine = [row for row in picture.data if row["run"] == "by acceptance"]
    assert [(row["drafted"], row["accepted"]) for row in mine] == [
        (one.num_drafted, one.num_accepted) for one in run.rounds[1:]
    ]
    assert f"{run.num_drafted} drafted, {run.num_accepted} accepted" in picture.alt


@pytest.mark.parametrize(
    ("draw", "values", "words"),
    [
        (draw_server, {"rows": []}, "no rows"),
        (draw_server, {"rows": [{"policy": "a", "max_batch": 1, "tokens_per_second": 1}], "plain": "b"}, "plain='b'"),
        (draw_kinds, {"groups": {}}, "give rows"),
        (draw_kinds, {"groups": {"T = 0": []}}, "give rows"),
        (draw_trace, {"runs": {}}, "at least one run"),
        (draw_speed_up, {"draft_cost": -1}, "draft_cost"),
    ],
)
def test_bad_input_is_explained(draw, values, words):
    with pytest.raises(ValueError, match=words):
        figure(draw, **values)


def test_panels_move():
    panel = show.speed_panel()
    panel.set(draft_cost=0.5, verify_cost=2.0)
    assert panel.data()["points"][0]["speed_up"] == 5 / 4 and not panel.errors.outputs
    panel.set(draft_cost=0.0, article_k=12)
    assert panel.data()["points"][0]["tokens"] == 13 and not panel.errors.outputs
    loads = show.load_panel()
    before = [row["best_k"] for row in loads.data()]
    loads.set(draft_share=0.3)
    assert all(after <= k for after, k in zip([row["best_k"] for row in loads.data()], before))
    loads.set(draft_share=0.0, context=8000)
    assert not loads.errors.outputs


def test_by_position_adds_up_to_the_tokens_of_a_round():
    panel = show.position_panel([0.81, 0.64, 0.53, 0.44], name="oracle")
    found = panel.data()
    assert [row["shares"] for row in found["rows"]] == theory.survival(0.8, 4)
    assert found["length"] == theory.expected_tokens(0.8, 4) and found["measured"] == pytest.approx(3.42)
    assert found["rate"] == pytest.approx((found["length"] - 1) / 4)
    panel.set(alpha=0.9, fall=0.2)
    assert panel.data()["length"] == pytest.approx(theory.expected_tokens([0.9, 0.7, 0.5, 0.3], 4))
    panel.set(alpha=0.3, fall=0.4, k=8)
    assert [row["judged"] for row in panel.data()["rows"]] == [0.3] + [0] * 7 and not panel.errors.outputs
    with pytest.raises(ValueError, match="from 0 to 1"):
        show.position_panel([1.2])
    with pytest.raises(ValueError, match="k=9"):
        show.figure(show.draw_by_position, k=9)
