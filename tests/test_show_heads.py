"""The numbers behind the pictures of heads: their parts, the pairs they read, their relatives, what is accepted."""

import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial import show
from mtp_tutorial.drafters.mtp import MtpDrafter
from mtp_tutorial.drafters.mtp_head import MtpHead
from mtp_tutorial.models import toys
from mtp_tutorial.show.picture import figure
from mtp_tutorial.show.plots_head import STEPS, draw_head, head_parts
from mtp_tutorial.show.plots_learning import draw_acceptance, draw_probe, draw_training
from mtp_tutorial.show.plots_pairs import draw_steps, head_moments
from mtp_tutorial.show.plots_relatives import RELATIVES, draw_relatives


@pytest.fixture(scope="module")
def target():
    return toys.random_llama(num_layers=4)


def said(pair):
    return f"{pair.hidden} {pair.token}"


def fresh(moment):
    return [said(pair) for pair in moment.pairs if pair.fresh]


def test_the_parts_count_every_weight_of_the_head_once(target):
    head = MtpHead(target)
    rows = figure(draw_head, parts=head_parts(head)).data
    own = {row["part"]: row["parameters"] for row in rows if row["owner"] == "the head's own"}
    assert list(own) == ["enorm", "hnorm", "eh_proj", "block", "post_norm"]
    assert sum(own.values()) == sum(weight.numel() for weight in head.parameters())
    shapes = {row["part"]: row["shape"] for row in rows}
    assert shapes["eh_proj"] == "64 → 32" and shapes["embedding"] == "19 × 32" and shapes["lm_head"] == "32 → 19"
    assert f"{sum(own.values()):,} weights of its own" in figure(draw_head, parts=rows).alt


def test_the_head_works_step_by_step_and_each_part_once(target):
    panel = show.head_panel(MtpHead(target))
    assert all(row["works"] for row in panel.data()), "step 0 shows the whole head"
    seen = []
    for step in range(1, len(STEPS) + 1):
        panel.set(step=step)
        assert f"step {step} of 9" in panel.alt
        seen += [row["part"] for row in panel.data() if row["works"]]
    assert seen == ["embedding", "enorm", "hnorm", "eh_proj", "block", "post_norm", "lm_head"]


def test_one_head_reads_true_pairs_first_and_then_its_own():
    one, two, three, back, after = head_moments(layers=1, k=3, accepted=2)
    assert fresh(one) == ["h4 t5", "h5 t6"] and fresh(two) == ["h′5 d1"] and fresh(three) == ["h′6 d2"]
    assert [pair.gives for pair in one.pairs + two.pairs + three.pairs if pair.gives] == ["d1", "d2", "d3"]
    assert [one.counters for one in (one, two, three, back, after)] == [(5,), (6,), (7,), (5,), (8,)]
    assert [pair.state for pair in back.pairs] == ["committed"] * 5 + ["stale"] * 2
    assert fresh(after) == ["h6 t7", "h7 t8", "h8 t9"]
    assert {pair.state for pair in after.pairs} == {"committed"}


def test_after_an_all_accepted_round_no_pair_is_missing():
    after = head_moments(accepted=3)[-1]
    assert fresh(after) == ["h6 t7", "h7 t8", "h8 t9", "h9 t10"]
    assert [said(pair) for pair in after.pairs] == [f"h{i} t{i + 1}" for i in range(1, 10)]
    nothing = head_moments(accepted=0)[-1]
    assert fresh(nothing) == ["h6 t7"] and nothing.pairs[-1].state == "stale"


def test_a_stack_gives_each_layer_pairs_of_its_own():
    one, two, three, back, _ = head_moments(layers=3, k=3)
    assert fresh(one) == ["h4 t5", "h5 t6"]
    assert fresh(two) == ["h′3 t5", "h′4 t6", "h′5 d1"]
    assert fresh(three) == ["h′′2 t5", "h′′3 t6", "h′′4 d1", "h′′5 d2"]
    assert back.counters == (5, 4, 3)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_picture_counts_as_the_drafter_does(target, layers):
    """Pairs read, guesses and counters of a real drafter, in a round with the same numbers as the picture's."""
    drafter = MtpDrafter(target, MtpHead(target, layers))
    calls = []
    run = drafter.head.forward

    def watched(step, ids, hidden, cache):
        calls.append((step, ids.shape[1]))
        return run(step, ids, hidden, cache)

    drafter.head.forward = watched
    text = [1, 2, 3]
    hidden = target.forward(torch.tensor([text]), [3], target.new_cache(1), layers=(-1,))[1]
    drafter.start(target, [text], hidden)
    drafter.commit(mt.Verdict(torch.tensor([[4]]), torch.tensor([0]), torch.tensor([True])), (hidden[0][:, -1:],))
    propose = (torch.tensor([3]), mt.Sampling(), torch.zeros(1, 3))
    drafter.propose(*propose)  # three settled pairs: h1 t2, h2 t3, h3 t4
    drafter.commit(
        mt.Verdict(torch.tensor([[5, 6]]), torch.tensor([1]), torch.tensor([False])), (torch.randn(1, 4, 32),)
    )
    calls.clear()
    drafter.propose(*propose)
    moments = head_moments(layers, k=3)
    assert [width for _, width in calls] == [len(fresh(moment)) for moment in moments[:3]]
    assert [cache.lengths[0] for cache in drafter.caches] == list(moments[3].counters)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("step", [-3, 1, 2, 3, 4, 5, 99])
def test_every_moment_is_drawn(layers, step):
    picture = figure(draw_steps, step=step, layers=layers)
    moment = head_moments(layers)[max(1, min(step, 5)) - 1]
    assert picture.data == [pair._asdict() for pair in moment.pairs]
    assert moment.words in picture.alt


def test_bad_numbers_of_pairs_are_named():
    for bad in ({"layers": 0}, {"k": 0}, {"accepted": 4}, {"layers": 4}, {"waiting": 0}):
        with pytest.raises(ValueError, match="at most k accepted"):
            head_moments(**bad)


def test_the_panel_moves_through_the_moments():
    panel = show.steps_panel()
    panel.set(step=5, accepted=3)
    assert [row["token"] for row in panel.data() if row["fresh"]] == ["t7", "t8", "t9", "t10"]
    panel.set(layers=3, step=3)
    assert "layer 3 reads 4 pairs, 2 of them with a draft token" in panel.alt
    assert show.steps_panel(layers=3).values["layers"] == 3


def test_only_medusa_is_blind_to_draft_token_1():
    rows = figure(draw_relatives).data
    assert [row["drafter"] for row in rows] == [row["drafter"] for row in RELATIVES]
    assert [row["drafter"] for row in rows if not row["sees"]] == ["Medusa"]
    assert "Medusa" in figure(draw_relatives).alt


def test_shares_are_drawn_as_given():
    rows = figure(draw_probe, shares={"nothing": 0.05, "both": 0.5}).data
    assert rows == [{"from": "nothing", "share": 0.05}, {"from": "both", "share": 0.5}]
    assert "both, 0.50" in figure(draw_probe, shares={"nothing": 0.05, "both": 0.5}).alt


def test_a_log_with_gaps_is_drawn():
    log = [{"step": 4, "kl1": 2.0, "kl2": 3.0}, {"step": 8, "kl1": 1.0}]
    picture = figure(draw_training, log=log, before=[0.1, 0.0], after=[0.4, 0.2])
    assert picture.data == {"log": log, "before": [0.1, 0.0], "after": [0.4, 0.2]}
    assert "from 0.10 to 0.40" in picture.alt and "8 steps" in picture.alt


def test_acceptance_has_a_row_a_drafter_and_position():
    series = {"mtp": [0.5, 0.25], "n-gram": [0.1]}
    rows = figure(draw_acceptance, series=series, lengths={"mtp": 1.75}).data
    assert rows == [
        {"drafter": "mtp", "position": 1, "accepted": 0.5},
        {"drafter": "mtp", "position": 2, "accepted": 0.25},
        {"drafter": "n-gram", "position": 1, "accepted": 0.1},
    ]
    assert "best at position 1: mtp, 0.50" in figure(draw_acceptance, series=series).alt
