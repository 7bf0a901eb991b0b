"""Pictures of a server: the numbers drawn are those of the counters and of the roofline."""

import pytest

from mtp_tutorial.lab import theory
from mtp_tutorial.lab.server_sim import TARGET
from mtp_tutorial.serving import Counters
from mtp_tutorial.show import draw_counted, draw_switch, figure, switch_panel

ONE = Counters({"model_name": "m"}, 1000, 2000, 900, (600, 300))


def test_counted_shows_each_rate_with_its_own_trials():
    picture = figure(draw_counted, readings={"day": ONE, "night": Counters({}, 50, 100, 10, (10, 0))})
    rows = {(row["name"], row["of"], row["position"]): row for row in picture.data}
    assert len(rows) == 8
    assert rows["day", "all rounds", 2]["rate"] == 0.3 and rows["day", "all rounds", 2]["trials"] == 1000
    assert rows["day", "judged", 2]["rate"] == 0.5 and rows["day", "judged", 2]["trials"] == 600
    assert all(row["low"] <= row["rate"] <= row["high"] for row in rows.values())
    assert "independent" in picture.alt
    with pytest.raises(ValueError, match="no readings"):
        figure(draw_counted, readings={})


def test_the_switch_is_the_rooflines():
    found = figure(draw_switch, alpha=0.8, k=4, batch=300).data
    drafter = theory.Weights(0.06 * TARGET.parameters, TARGET.bytes_each)
    plain, four = (theory.tokens_per_second(0.8, TARGET, drafter, theory.GPU, 300, k, 500) for k in (0, 4))
    assert found["gain"] == pytest.approx(four / plain) and found["gain"] < 1
    assert found["best_gain"] == max(row["gain"] for row in found["by_k"]) and found["by_k"][0]["gain"] == 1
    assert 1 < found["loses_from"] <= 300


@pytest.mark.parametrize(
    ("values", "verdict"),
    [({"alpha": 0.0}, "off"), ({"alpha": 0.9, "k": 8}, "on"), ({"batch": 512, "k": 4}, "off")],
)
def test_the_verdict(values, verdict):
    found = figure(draw_switch, **values).data
    assert found["verdict"] == verdict
    assert (found["best_k"] == 0) == (verdict == "off")


def test_the_panel_follows_its_controls():
    panel = switch_panel()
    before = panel.data()["gain"]
    panel.set(batch=400)
    assert panel.data()["gain"] < before
    assert panel.values["batch"] == 400
