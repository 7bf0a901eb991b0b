"""The capstone: scores repeat exactly, honest entries pass the gate, cheats are refused by name."""

import math
from dataclasses import replace

import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial import show
from mtp_tutorial.lab import capstone
from mtp_tutorial.lab.capstone import entries, meter, referee

TABLE_SIZE = 2


@pytest.fixture(scope="module")
def nano():
    return mt.load("nano", dtype=torch.float64)


@pytest.fixture(scope="module")
def plan(nano):
    """The most common next id, learnt from a few texts of the target."""
    table = capstone.next_words(capstone.practice_texts(nano, 24, 32), TABLE_SIZE)

    def guess(ids, k):
        found = []
        for _ in range(k):
            here = [*ids, *found]
            runs = (tuple(here[-n:]) for n in range(TABLE_SIZE, 0, -1))
            token = next((table[run] for run in runs if run in table), None)
            if token is None:
                break
            found.append(token)
        return found

    return guess


def shipped(name):
    return next(one for one in capstone.SHIPPED if one.name == name)


def test_plain_decoding_scores_exactly_one(nano):
    score = capstone.play(nano, shipped("plain"), texts=3)
    assert float(score) == 1.0 and score.interval() == (1.0, 1.0)


def test_a_score_repeats_and_counts_what_it_says(nano):
    one, two = (capstone.play(nano, shipped("mtp"), texts=2) for _ in range(2))
    assert one.plays == two.plays
    for play in one.plays:
        assert play.tokens == len(play.generation.tokens) and play.calls == play.generation.target_calls
        assert play.cost() == play.calls + capstone.ROW * play.drafted + play.read and play.again == 0
    assert one.at(0, 0) == sum(p.tokens for p in one.plays) / sum(p.calls for p in one.plays)
    assert one.at(weights=0.1) > float(one)


def test_the_meter_counts_the_weights_of_each_product(nano):
    head = mt.load_drafter("mtp", nano)
    products = sum(p.numel() for p in head.head.parameters() if p.ndim == 2) + nano.vocab_size * 128
    metered = capstone.Metered(head, nano)
    mt.generate(nano, "Ben: Have", metered, num_speculative_tokens=1, max_new_tokens=6)
    assert metered.read[1:] == [products / capstone.weights_of_a_call(nano)] * (len(metered.read) - 1)
    with meter.WeightsRead() as free:
        torch.nn.functional.embedding(torch.tensor([1]), torch.zeros(4, 4))
    assert free.elements == 0


def test_running_the_target_inside_a_drafter_costs_a_call(nano):
    metered = capstone.Metered(mt.load_drafter("draft", nano, model=nano), nano)
    mt.generate(nano, "Ben: Have", metered, num_speculative_tokens=1, max_new_tokens=6)
    assert metered.read[1] + metered.again[1] == pytest.approx(1, abs=0.01)
    assert metered.again[1] > 0.8
    lora = capstone.play(nano, replace(shipped("gated_lora"), k=1), texts=1).plays[0]
    assert lora.again > 0.8 * lora.calls


def test_the_meter_leaves_drafts_alone(nano):
    run = {"max_new_tokens": 12, "seed": 1}
    bare = mt.generate(nano, "Ben: Have", "mtp", **run)
    assert (
        mt.generate(nano, "Ben: Have", capstone.Metered(mt.load_drafter("mtp", nano), nano), **run).tokens
        == bare.tokens
    )


@pytest.fixture(scope="module")
def rulings(nano, plan):
    """Everybody on a smaller game, through the whole gate."""
    amber, birch, _ = capstone.submissions()
    found = {}
    for one in (
        capstone.writes("table", plan),
        capstone.always_right(plan),
        entries.argmax_of_soft(),
        dropping(),
        amber,
        birch,
    ):
        texts = 12 if one is birch else 2
        found[one.name] = capstone.examine(nano, one, capstone.play(nano, one, texts), samples=200)
    return found


class Drops(entries.Wrapped):
    """R19: withdraws drawn tokens that it gave little."""

    def propose(self, k, sampling, uniforms):
        draft = super().propose(k, sampling, uniforms)
        if draft.probs is None:
            return draft
        q = draft.probs.gather(2, draft.tokens.clamp_min(0)[..., None])[..., 0]
        keep = (q > 0.3).cumprod(1).bool()
        return mt.Draft(draft.tokens.masked_fill(~keep, -1), draft.probs)


def dropping():
    return capstone.Entry("drops", lambda target: Drops(mt.load_drafter("mtp", target, temperature="same")), 2)


@pytest.mark.parametrize("name", ["table", "amber"])
def test_honest_entries_may_play(rulings, name):
    assert rulings[name].accepted, rulings[name].message
    assert rulings[name].report()["first_token"] <= 0.05


@pytest.mark.parametrize(
    ("name", "exhibit"),
    [("always right", "R3"), ("argmax", "R6"), ("drops", "R19"), ("birch", "uniform_reused")],
)
def test_cheats_are_refused_by_the_museums_name(rulings, name, exhibit):
    ruling = rulings[name]
    assert ruling.exhibit == exhibit, ruling.message
    assert exhibit in ruling.message and "refused" in ruling.message


def test_a_drafter_that_touches_the_target_is_refused(nano):
    class Warms(entries.Writes):
        def start(self, target, prompts, hidden):
            super().start(target, prompts, hidden)
            target.model.get_output_embeddings().weight.data.mul_(1.0001)

    own = mt.load("nano", dtype=torch.float64)
    entry = capstone.Entry("warms", lambda t: Warms(lambda ids, k: []))
    ruling = capstone.examine(own, entry, capstone.play(own, entry, 1), samples=50)
    assert not ruling.accepted and ruling.figure(referee.WEIGHTS) == 1


def test_the_refused_stand_last(nano, plan, rulings):
    cheat, honest = capstone.always_right(plan), capstone.writes("table", plan)
    scores = [capstone.play(nano, one, texts=2) for one in (cheat, honest)]
    standings = [capstone.Standing(s, rulings[s.entry.name]) for s in scores]
    assert float(scores[0]) > float(scores[1])
    rows = capstone.table(standings)
    assert [row["name"] for row in rows] == ["table", "always right"]
    assert [row["place"] for row in rows] == [1, None] and rows[1]["gate"] == "refused: R3"


def test_practice_texts_are_not_the_scored_ones(nano):
    from mtp_tutorial.lab.experiment.prompts import prompts_for

    assert not {one["prompt"] for one in prompts_for("nano", 12)} & set(capstone.practice_prompts(nano, 200))


def test_next_words_takes_the_most_common_and_the_smaller_one_at_ties():
    found = capstone.next_words([[1, 2, 1, 3, 1, 3], [5, 2, 4, 5, 2, 3]], 2)
    assert found[(1,)] == 3 and found[(5, 2)] == 3 and found[(2,)] == 1


def test_a_joined_drafter_asks_the_second_where_the_first_is_silent():
    first = entries.Writes(lambda ids, k: [7] if ids[-1] == 1 else [])
    second = entries.Writes(lambda ids, k: [8] * k)
    joined = capstone.Joined(first, second)
    joined.start(None, [[1], [2]], ())
    draft = joined.propose(torch.tensor([2, 2]), mt.Sampling(), torch.zeros(2, 2))
    assert draft.tokens.tolist() == [[7, -1], [8, 8]]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: capstone.Entry("x", "mtp"), "function of the target"),
        (lambda: capstone.Entry("x", lambda t: None, 65), "0 to 64"),
        (lambda: capstone.play(None, "mtp"), "capstone.Entry"),
        (lambda: capstone.play_load("x", lambda: 3), "choose and observe"),
    ],
)
def test_bad_input_is_named(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_controllers_repeat_and_leave_texts_alone(nano):
    scores = {name: capstone.play_load(name, make) for name, make in capstone.CONTROLLERS.items()}
    assert float(scores["k = 0"]) == 1.0 and math.isclose(float(scores["by batch size"]), 1.448, abs_tol=0.01)
    assert float(scores["by batch size"]) > float(scores["k = 4"])
    again = capstone.play_load("k = 4", capstone.CONTROLLERS["k = 4"])
    assert again.seconds == scores["k = 4"].seconds
    assert capstone.examine_controller(nano, lambda: capstone.from_rule(lambda live, rate: 2)) == 0


def test_tuning_plays_practice_prompts_only(nano):
    found = capstone.tune(nano, replace(shipped("ngram"), k=9), (1, 2), texts=2)
    assert list(found) == [1, 2] and all(score > 0 for score in found.values())


# --- pictures -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def standings(nano, plan):
    scores = [capstone.play(nano, one, texts=2) for one in (shipped("plain"), shipped("mtp"))]
    cheat = capstone.play(nano, capstone.always_right(plan), texts=2)
    refused = capstone.Ruling("always right", (), "R3", "so.", 1.0)
    return [*map(capstone.Standing, scores), capstone.Standing(cheat, refused)]


def test_the_leaderboard_names_the_first_and_the_refused(standings):
    picture = show.figure(show.draw_leaderboard, rows=capstone.table(standings))
    assert [row["name"] for row in picture.data] == ["mtp", "plain", "always right"]
    assert picture.alt.startswith("the first three: mtp") and "refused: 1" in picture.alt
    with pytest.raises(ValueError, match="capstone.table"):
        show.figure(show.draw_leaderboard, rows=[])


def test_the_price_panel_moves_the_board_without_playing_again(standings):
    panel = show.price_panel(standings)
    before = {row["name"]: row["score"] for row in panel.data()}
    panel.set(weights=0.05, row=0.2)
    after = {row["name"]: row["score"] for row in panel.data()}
    assert after["mtp"] == standings[1].score.at(0.2, 0.05) != before["mtp"] and after["plain"] == 1
    assert panel.data()[-1]["name"] == "always right"


def test_the_rush_shows_who_drafts_how_much():
    runs = [capstone.play_load(name, capstone.CONTROLLERS[name]) for name in ("k = 4", "by batch size")]
    fixed, table = show.figure(show.draw_rush, runs=runs).data
    assert fixed["k_crowd"] > 3.5 and table["k_crowd"] < 2 < table["k_alone"]
    with pytest.raises(ValueError, match="play_load"):
        show.figure(show.draw_rush, runs=[])


def test_columns_that_nobody_drafts_in_are_not_read(nano):
    class Wide(entries.Writes):
        def propose(self, k, sampling, uniforms):
            tokens = super().propose(k, sampling, uniforms).tokens
            return mt.Draft(torch.nn.functional.pad(tokens, (0, 3), value=-1))

    run = {"max_new_tokens": 8, "num_speculative_tokens": 2}
    made = mt.generate(nano, "Ben: Have", Wide(lambda ids, k: [ids[-1]] if len(ids) % 2 else []), **run)
    assert made.tokens == mt.generate(nano, "Ben: Have", narrow(), **run).tokens


def narrow():
    return entries.Writes(lambda ids, k: [ids[-1]] if len(ids) % 2 else [])
