"""The numbers behind the pictures of MTP decoding: two verdicts a draft token, tokens a round, seconds a round."""

import pytest

import mtp_tutorial as mt
from mtp_tutorial import show
from mtp_tutorial.lab.watch import Judged, Watch
from mtp_tutorial.models import toys
from mtp_tutorial.show.picture import figure
from mtp_tutorial.show.plots_decoding import agreement, draw_coins, draw_lengths, draw_overlap, draw_seconds


def judged(place, p, coin, match, greedy=0.5, overlap=0.5):
    return Judged(0, place, 1, 3, 3 if match else 4, p, 1.0, overlap, greedy, coin, coin < p)


ROWS = [judged(1, 0.9, 0.2, True), judged(2, 0.6, 0.7, True), judged(3, 0.3, 0.1, False), judged(4, 0.1, 0.4, False)]


def test_two_verdicts_for_each_draft_token():
    assert list(agreement(ROWS).values()) == [1, 1, 1, 1]
    picture = figure(draw_coins, judged=ROWS, labels={3: "tea"})
    assert [(row["match"], row["kept"]) for row in picture.data] == [
        (True, True),
        (True, False),
        (False, True),
        (False, False),
    ]
    assert {row["token"] for row in picture.data} == {"tea"}
    assert "4 draft tokens" in picture.alt and "differ on 2" in picture.alt
    assert len(figure(draw_coins, judged=ROWS, most=2).data) == 2


def test_an_empty_list_is_named():
    for draw in (draw_coins, draw_overlap):
        with pytest.raises(ValueError, match="no draft token was judged"):
            figure(draw, judged=[])


@pytest.mark.parametrize(
    ("greedy", "overlap", "words"), [(0.5, 0.4, "greedy drafts"), (0.4, 0.5, "sampled drafts"), (0.5, 0.5, "equally")]
)
def test_the_means_are_compared(greedy, overlap, words):
    rows = [judged(i, 0.5, 0.5, True, greedy + x, overlap + x) for i, x in enumerate((-0.1, 0.1))]
    picture = figure(draw_overlap, judged=rows)
    assert picture.data == pytest.approx({"greedy": greedy, "sampled": overlap})
    assert words in picture.alt


def test_lengths_are_one_and_the_shares():
    groups = {"T = 0": {"mtp": [0.5, 0.25], "n-gram": [0.25]}, "T = 0.6": {"mtp": [0.5, 0.125], "n-gram": [0.0]}}
    picture = figure(draw_lengths, groups=groups)
    assert [(row["group"], row["name"], row["length"]) for row in picture.data] == [
        ("T = 0", "mtp", 1.75),
        ("T = 0", "n-gram", 1.25),
        ("T = 0.6", "mtp", 1.625),
        ("T = 0.6", "n-gram", 1.0),
    ]
    assert "most 1.75 (mtp, T = 0)" in picture.alt


def test_seconds_become_a_speed_up():
    plain = {"name": "plain", "verifying": 0.018, "drafting": 0.0, "elsewhere": 0.002, "tokens": 1.0}
    quick = {"name": "mtp", "verifying": 0.02, "drafting": 0.004, "elsewhere": 0.001, "tokens": 1.75}
    rows = figure(draw_seconds, rows=[plain, quick]).data
    assert [row["round"] for row in rows] == pytest.approx([20, 25])
    assert [row["speed_up"] for row in rows] == pytest.approx([1, 1.4])
    assert "mtp is 1.40 times as fast as plain" in figure(draw_seconds, rows=[plain, quick]).alt
    slow = {**quick, "tokens": 1.0}
    assert "nothing is faster than plain" in figure(draw_seconds, rows=[plain, slow]).alt


def test_the_panel_changes_rule_temperature_and_round():
    toy = toys.random_toy(vocab_size=3, order=2, seed=3)
    drafter = mt.load_drafter("draft", toy, model=toys.random_toy(vocab_size=3, order=1, seed=4))
    runs = {
        (rule, t): mt.generate(toy, [1], drafter, rule, sampling=mt.Sampling(temperature=t), max_new_tokens=12)
        for rule in ("rejection", "greedy")
        for t in (0, 0.6)
    }
    panel = show.decoding_panel(runs, step=2)
    one = runs["rejection", 0.6].rounds[2]
    assert [row["p"] for row in panel.data()] == list(one.target_probs)
    panel.set(rule="greedy", temperature=0, step=1)
    assert {row["p"] for row in panel.data()} <= {0.0, 1.0}
    panel.set(step=panel._controls["step"].max)
    assert not panel.errors.outputs
    with pytest.raises(ValueError, match="lacks"):
        show.decoding_panel({("rejection", 0): 1, ("greedy", 0.6): 1})


def test_the_watcher_feeds_the_pictures():
    toy = toys.random_toy(vocab_size=3, order=2, seed=3)
    drafter = mt.load_drafter("draft", toy, model=toys.random_toy(vocab_size=3, order=1, seed=4))
    watch = Watch()
    run = mt.generate(toy, [1], drafter, sampling=mt.Sampling(temperature=0.6), max_new_tokens=12, hooks=watch)
    rows = watch.judged(run)
    drawn = figure(draw_coins, judged=rows).data
    assert [row["kept"] for row in drawn] == [one.accepted for one in rows][: len(drawn)]
