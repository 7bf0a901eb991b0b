"""The numbers behind the pictures of rounds, caches, verify rules and laws, on a hand-written generation."""

import math

import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial import show
from mtp_tutorial.lab.exact import output_law, plain_law
from mtp_tutorial.records import Draft, Generation, Round
from mtp_tutorial.show.numbers import namer, short
from mtp_tutorial.show.picture import figure
from mtp_tutorial.show.plots_cache import cache_stages, draw_cache, draw_mask
from mtp_tutorial.show.plots_laws import compare, draw_laws
from mtp_tutorial.show.plots_rounds import draw_round, draw_timeline, verdicts
from mtp_tutorial.show.plots_verify import draw_accept, judge
from mtp_tutorial.show.tokens import show_tokens


def column(rows, name):
    return [row[name] for row in rows]


@pytest.fixture(scope="module")
def generation():
    """Three committed slots; a round with one of two accepted; one with all accepted; one without a draft."""
    rounds = (
        Round(0, 0, (5,), ("prefill",), cache_before=0, cache_written=3, cache_after=3),
        Round(0, 1, (6, 8), ("accepted", "recovered"), (6, 7), (0.5, 0.8), (0.25, 0.2), (0.4, 0.9),
              (0.1, 0.2, 0.3), 1, 3, 6, 5),
        Round(0, 2, (9, 10, 11), ("accepted", "accepted", "bonus"), (9, 10), (1.0, 1.0), (1.0, 1.0), (0.5, 0.5),
              (0.1, 0.2, 0.3), 2, 5, 8, 8),
        Round(0, 3, (12,), ("plain",), cache_before=8, cache_written=9, cache_after=9),
    )  # fmt: skip
    tokens = [t for r in rounds for t in r.tokens]
    pieces = tuple(chr(92 + t) for t in tokens)
    return Generation(tokens, "".join(pieces), rounds, (1, 2, 3), pieces=pieces)


def test_each_row_of_the_mask_sees_what_came_before_and_itself():
    rows = figure(draw_mask, length=3, k=2).data
    assert column(rows, "sees") == [[0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5]]
    assert column(rows, "judges") == ["d1", "d2", "bonus"]
    assert "row 1 sees slots 0 … 4" in figure(draw_mask, length=3, k=2, step=2).alt
    assert "bonus" in figure(draw_mask, length=3, k=2, step=99, labels=["x", "y", "z"]).alt
    assert len(figure(draw_mask, length=0, k=0).data) == 1
    for bad in ({"length": -1}, {"k": -1}, {"k": 2, "labels": ["a"]}):
        with pytest.raises(ValueError, match="use whole numbers|name the last token"):
            figure(draw_mask, **bad)


def test_the_cache_goes_through_call_and_roll_back(generation):
    stages = cache_stages(generation)
    assert [s.counter for s in stages] == [3, 3, 5, 5, 8, 8, 9]
    assert stages[1].tokens == (1, 2, 3, 5, 6, 7)
    assert stages[1].states == ("committed",) * 3 + ("draft",) * 3
    assert stages[2].states == ("committed",) * 5 + ("stale",)
    assert stages[3].overwritten == {5} and stages[3].tokens == (1, 2, 3, 5, 6, 8, 9, 10)
    assert stages[-1].tokens == (1, 2, 3, 5, 6, 8, 9, 10, 11)


def test_the_cache_picture_tells_the_moment(generation):
    rows = figure(draw_cache, generation=generation, step=2).data
    assert column(rows, "state")[-1] == "stale" and column(rows, "committed") == [True] * 5 + [False]
    assert "holds a rejected token" in figure(draw_cache, generation=generation, step=2).alt
    assert "1 of them over rejected tokens" in figure(draw_cache, generation=generation, step=3).alt
    assert len(figure(draw_cache, generation=generation, step=99, window=4).data) == 9


def test_drafts_past_the_end_of_the_text_leave_unnamed_slots():
    rounds = (
        Round(0, 0, (5,), ("prefill",), cache_written=1, cache_after=1),
        Round(0, 1, (6,), ("accepted",), (6,), (1.0,), (1.0,), (0.5,), (0.1, 0.2), 1, 1, 5, 3),
    )
    stages = cache_stages(Generation([5, 6], "ab", rounds, (1,)))
    assert stages[1].tokens == (1, 5, 6, -1, -1) and stages[2].states[3:] == ("stale", "stale")
    assert figure(draw_cache, generation=Generation([5, 6], "ab", rounds, (1,)), step=2).data[3]["token"] == -1


@pytest.mark.parametrize("seed", range(4))
def test_the_committed_slots_of_a_real_run_are_the_text(seed):
    target = mt.load("toy")
    drafter = mt.load_drafter("ngram", target)
    g = mt.generate(target, "the cat sat on the mat . the", drafter=drafter, max_new_tokens=12, seed=seed)
    said = [*g.prompt_tokens, *g.tokens]
    for stage in cache_stages(g):
        assert list(stage.tokens[: stage.counter]) == said[: stage.counter]
    for step, one in enumerate(g.rounds):
        rows = figure(draw_round, generation=g, step=step, labels=target.tokenizer.words).data
        assert len(rows) == one.num_drafted
    assert len(str(show_tokens(g))) >= len(g.text)


def test_a_round_with_its_coins(generation):
    rows = figure(draw_round, generation=generation, step=1).data
    assert column(rows, "token") == ["b", "#7"]
    assert column(rows, "threshold") == [0.5, 0.25] and column(rows, "coin") == [0.4, 0.9]
    assert column(rows, "verdict") == ["accepted", "rejected"]
    assert (
        "1 of 2 accepted, then recovered “d” (drawn with u = 0.20)"
        in figure(draw_round, generation=generation, step=1).alt
    )
    greedy = figure(draw_round, generation=generation, step=1, rule="greedy").data
    assert all(math.isnan(row["coin"]) for row in greedy)
    assert column(figure(draw_round, generation=generation, step=1, rule="target_only").data, "threshold") == [
        0.25,
        0.2,
    ]


def test_rounds_without_a_draft_are_drawn_too(generation):
    for step in (0, 3, -5, 99):
        assert figure(draw_round, generation=generation, step=step).data == []


def test_tokens_after_a_rejection_are_not_judged():
    assert verdicts(Round(0, 1, (1,), ("recovered",), (4, 5, 6), num_accepted=0)) == [
        "rejected",
        "not judged",
        "not judged",
    ]


def test_a_text_that_ends_inside_the_draft():
    rounds = (
        Round(0, 0, (5,), ("prefill",), cache_written=1, cache_after=1),
        Round(0, 1, (6,), ("accepted",), (6,), (1.0,), (1.0,), (0.5,), (0.1, 0.2), 1, 1, 5, 3),
    )
    g = Generation([5, 6], "ab", rounds, (1,), "eos", pieces=("a", "b"))
    assert "the text ends there" in figure(draw_round, generation=g, step=1).alt


def test_the_timeline(generation):
    picture = figure(draw_timeline, generation=generation)
    assert column(picture.data, "tokens") == [1, 2, 3, 1]
    assert column(picture.data, "last") == ["prefill", "recovered", "bonus", "plain"]
    assert picture.alt == "7 tokens in 4 target calls; acceptance rate 0.75."
    assert picture.height == 280


def test_accept_and_residual_areas():
    picture = figure(draw_accept, p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5], draft=2, coin=0.5, draw=0.1)
    assert [round(x, 12) for x in column(picture.data, "accepted")] == [0.2, 0.3, 0.2]
    assert [round(x, 12) for x in column(picture.data, "residual")] == [1, 0, 0]
    assert column(picture.data, "emitted") == [True, False, False]
    assert "α = Σ min(p, q) = 0.70" in picture.alt and "(recovered)" in picture.alt
    kept = figure(draw_accept, p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5], draft=2, coin=0.39)
    assert column(kept.data, "emitted") == [False, False, True] and "(accepted)" in kept.alt


def test_judging_one_hot_drafts_and_the_border_of_the_coin():
    assert judge([0.5, 0.3, 0.2], None, 0, 0.5, 0.0) == (0.5, False, [0.0, 0.6, 0.4], 1)
    assert judge([0.5, 0.3, 0.2], None, 0, 0.49, 0.0).accepted
    assert judge([0.5, 0.5], [0.0, 1.0], 0, 0.1, 0.0).limit == 0.0
    assert "never comes" in figure(draw_accept, p=[0.5, 0.5], q=[0.0, 1.0], draft=0).alt


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"draft": 3}, "from 0 to 2"),
        ({"q": [0.5, 0.5]}, "same tokens"),
        ({"q": [0.5, 0.5, 0.5]}, "sum is 1.5"),
        ({"p": [0.5, 0.3, -0.2]}, "distribution"),
    ],
)
def test_bad_rows_are_explained(values, words):
    with pytest.raises(ValueError, match=words):
        figure(draw_accept, **values)


@pytest.fixture(scope="module")
def laws():
    p = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], dtype=torch.float64)
    draft = Draft(torch.tensor([[0]]))
    rules = {name: output_law(name, draft, p[None]) for name in ("rejection", "relaxed")}
    return {"plain": plain_law(p, 2), **rules}


def test_laws_side_by_side(laws):
    rows, distances = compare(laws)
    assert len(rows) == 9 and distances["rejection"] < 1e-12
    assert distances["relaxed"] == pytest.approx(0.5)
    picture = figure(draw_laws, laws=laws, labels=["the", "a", "cat"])
    assert picture.data == rows
    assert picture.alt.startswith("total variation from “plain”: “rejection” 0, “relaxed” 0.500.")
    assert len(figure(draw_laws, laws=laws, reference="relaxed", top=4).data) == 9
    assert compare({"a": {0: 0.5, 1: 0.5}, "b": {0: 1.0}})[1] == {"b": 0.5}, "laws of one token may use plain ids"


def test_bad_laws_are_explained(laws):
    with pytest.raises(ValueError, match="at least one"):
        compare({})
    with pytest.raises(ValueError, match="plain, rejection, relaxed"):
        compare(laws, "greedy")
    with pytest.raises(ValueError, match="at most 4"):
        figure(draw_laws, laws=dict.fromkeys("abcde", {0: 1.0}))


def test_names_of_tokens():
    assert namer(["the", "看"])(0) == "the"
    assert namer(["the", "看"])(1) == "#1", "the font has no Chinese"
    assert namer({3: "x"}, {4: "y"})(4) == "y" and namer(None)(7) == "#7"
    assert namer(lambda i: f"<{i}>")(2) == "<2>"
    assert namer(["\n", "  "])(0) == "↵" and namer(["\n", "  "])(1) == "␣␣"
    assert short("a long word", 6) == "a lon…" and short("$x$") == r"\$x\$"


def test_the_panels_step(generation, laws):
    made = {
        "mask": show.mask_panel(),
        "cache": show.cache_panel(generation),
        "round": show.round_panel(generation),
        "accept": show.accept_panel(),
        "law": show.law_panel(laws),
    }
    made["mask"].set(step=9, k=1, length=2)
    assert made["mask"].data()[1]["sees"] == [0, 1, 2, 3]
    made["cache"].set(step=6)
    assert made["cache"].data()[-1]["token"] == 11
    made["round"].set(step=2)
    assert made["round"].data()[0]["verdict"] == "accepted"
    made["accept"].set(coin=0.9, draw=0.9)
    assert made["accept"].data()[2]["emitted"]
    made["law"].set(law="relaxed")
    assert set(made["law"].data()[0]) == {"sequence", "plain", "relaxed"}
    assert not any(panel.errors.outputs for panel in made.values())
