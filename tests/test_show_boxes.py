"""The boxes of uniforms: their areas are the rule's own law."""

import pytest
import torch

from mtp_tutorial.lab.exact import accepted_law, marginal, output_law
from mtp_tutorial.records import Draft
from mtp_tutorial.show.picture import figure
from mtp_tutorial.show.plots_boxes import boxes, draw_boxes
from mtp_tutorial.verify import RULES

P, Q = [0.5, 0.3, 0.2], [0.3, 0.1, 0.6]
WORDS = ["tea", "coffee", "water"]


@pytest.mark.parametrize("q", [None, Q], ids=["one-hot", "sampled"])
@pytest.mark.parametrize("rule", RULES)
def test_areas_are_the_law_of_the_first_token(rule, q):
    rows = torch.tensor([P, P], dtype=torch.float64)
    law, kept = [0.0] * 3, 0.0
    for d, weight in enumerate([1.0, 0, 0] if q is None else q):
        found = boxes(rule, P, q, d)
        assert sum(box["area"] for box in found) == pytest.approx(1, abs=1e-9)
        kept += weight * sum(box["area"] for box in found if box["accepted"])
        for box in found:
            law[box["token"]] += weight * box["area"]
    draft = Draft(torch.tensor([[0]]), None if q is None else torch.tensor([[q]], dtype=torch.float64))
    exact = marginal(output_law(rule, draft, rows))
    assert law == pytest.approx([exact.get(i, 0.0) for i in range(3)], abs=1e-9)
    assert kept == pytest.approx(accepted_law(rule, draft, rows)[1], abs=1e-9)


def test_neighbours_that_emit_the_same_are_one_box():
    found = boxes("rejection", P, None, 0)
    assert [(box["token"], box["coin"], box["draw"]) for box in found] == [
        (0, (0.0, 0.5), (0.0, 1.0)),
        (1, (0.5, 1.0), (0.0, 0.6)),
        (2, (0.5, 1.0), (0.6, 1.0)),
    ]
    assert len(boxes("greedy", P, Q, 1)) == 1
    assert [box["coin"] for box in boxes("sample_and_match", P, None, 2)] == [(0.0, 1.0)] * 3


def test_one_square_a_draft_or_one_a_rule():
    three = figure(draw_boxes, p=P, q=Q, drafts=(0, 1, 2), labels=WORDS)
    assert [square["draft"] for square in three.data] == [0, 1, 2]
    assert three.alt.startswith("areas, each square weighted with its q: tea 0.50, coffee 0.30, water 0.20.")
    both = figure(draw_boxes, p=P, rules={"right": "rejection", "wrong": "greedy"}, labels=WORDS)
    assert [square["accepted"] for square in both.data] == pytest.approx([0.5, 1.0])
    assert "“right” tea 0.50, coffee 0.30, water 0.20; “wrong” tea 1.00" in both.alt
    assert figure(draw_boxes, p=P, q=Q, drafts=(2,)).alt.startswith("areas: #0 0.33")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"drafts": (3,)}, "from 0 to 2"),
        ({"q": [0.5, 0.5]}, "same tokens"),
        ({"drafts": ()}, "0 squares"),
        ({"drafts": (0, 1, 2), "rules": {"a": "rejection", "b": "greedy"}}, "6 squares"),
        ({"rules": "no such rule"}, "unknown verify rule"),
    ],
)
def test_bad_input_is_explained(values, words):
    with pytest.raises(ValueError, match=words):
        figure(draw_boxes, p=P, **values)
