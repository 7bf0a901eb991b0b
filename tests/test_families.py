"""Real shapes: the counts are those the makers publish, experts by enumeration, predictions by hand."""

import itertools
import math

import pytest

from mtp_tutorial.lab import families, theory
from mtp_tutorial.show.picture import figure
from mtp_tutorial.show.plots_families import draw_families


@pytest.mark.parametrize("family", families.FAMILIES.values(), ids=lambda one: one.name)
def test_the_counts_are_the_published_ones(family):
    counts = families.sizes(family.name)
    total, active = (counts.total + family.has_mtp * counts.head) / 1e9, counts.active / 1e9
    assert total == pytest.approx(family.published[0], rel=0.03)  # they round; some count the MTP layer, some do not
    assert active == pytest.approx(family.published[1], rel=0.2 if family.published[1] == 3 else 0.08)
    assert counts.head_dense < counts.head + 1 and counts.step() < counts.read(1)


def test_deepseeks_own_numbers():
    counts = families.sizes("DeepSeek-V3")
    assert f"{counts.total / 1e9:.0f} {counts.active / 1e9:.1f}" == "671 36.6"
    assert (counts.experts, counts.chosen, counts.expert_layers, counts.layers) == (256, 8, 58, 61)
    assert counts.expert == 3 * 7168 * 2048 and counts.lm_head == 129280 * 7168
    assert counts.head == pytest.approx(11.6e9, rel=0.01)


def test_a_dense_model_reads_the_same_for_any_number_of_rows():
    counts = families.sizes("8 B (as Llama-3-8B)")
    assert counts.read(1) == counts.read(300) == counts.active == counts.total - 128256 * 4096
    assert counts.head_dense == counts.head
    assert families.sizes("SmolLM2-135M").active == families.sizes("SmolLM2-135M").total  # tied: read as lm_head


@pytest.mark.parametrize(("experts", "chosen", "rows"), [(4, 2, 1), (4, 2, 2), (5, 2, 3), (3, 3, 2)])
def test_distinct_experts_by_enumeration(experts, chosen, rows):
    choices = list(itertools.combinations(range(experts), chosen))
    read = [len(set(itertools.chain(*rows_choice))) for rows_choice in itertools.product(choices, repeat=rows)]
    assert families.distinct_experts(experts, chosen, rows) == pytest.approx(sum(read) / len(read))


def test_a_prediction_by_hand():
    one, counts = (
        families.predict("70 B (as Llama-3-70B)", "H200 SXM", k=2, alpha=0.8),
        families.sizes("70 B (as Llama-3-70B)"),
    )
    assert one.gpus == 2 and one.bound == "memory"  # 1.2 · 143 GB
    assert one.plain == pytest.approx(2 * counts.active / 9.6e12)
    assert one.verify_cost == pytest.approx(1) and one.draft_cost == pytest.approx(counts.step() / counts.active)
    assert one.speed_up == pytest.approx(theory.speedup(0.8, 2, one.draft_cost))
    assert families.predict("70 B (as Llama-3-70B)", "H200 SXM", k=0).speed_up == 1


def test_what_moves_a_prediction():
    def gain(family, **options):
        return families.predict(family, "H200 SXM", **options).speed_up

    dense, experts = "70 B (as Llama-3-70B)", "DeepSeek-V3"
    assert gain(dense, batch=1) > 2 > 1 > gain(dense, batch=256)  # arithmetic sets the pace
    assert gain(experts, batch=1) < 1.3 < 2 < gain(experts, batch=256)  # all experts are read anyway
    assert gain(dense, bits=8) == pytest.approx(gain(dense)) and gain(dense, alpha=0) < 1
    assert gain("SmolLM2-135M", scored=1 / 12) > gain("SmolLM2-135M")
    assert families.predict("SmolLM2-135M", layer_overhead=1e-4).draft_cost < 0.05  # one layer of thirty


def test_what_is_not_there_is_named():
    with pytest.raises(ValueError, match="no family 'GPT'; there are: SmolLM2"):
        families.of("GPT")
    with pytest.raises(ValueError, match="no GPU 'T4'; there are: RTX 4090"):
        families.predict("GLM-4.5", "T4")
    with pytest.raises(ValueError, match="batch=0"):
        families.predict("GLM-4.5", batch=0)


def test_the_picture_has_the_numbers_of_the_predictions():
    picture = figure(draw_families, gpu="H200 SXM", batch=256)
    assert [row["family"] for row in picture.data] == list(families.FAMILIES)
    for row in picture.data:
        one = families.predict(row["family"], "H200 SXM", batch=256)
        assert row["speed_up"] == one.speed_up and math.isclose(row["plain"], 1000 * one.plain)
    assert "H200 SXM, batch 256, k = 2, α = 0.8: 0.70× for SmolLM2-135M" in picture.alt
