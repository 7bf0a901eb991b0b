"""The numbers behind the pictures of the repetition case: differences, acceptance, clean runs, marked texts."""

import pytest

import mtp_tutorial as mt
from mtp_tutorial import show
from mtp_tutorial.lab import experiment as ex
from mtp_tutorial.lab import repetition, stats
from mtp_tutorial.show.picture import figure
from mtp_tutorial.show.plots_case import ARMS, arm_name, draw_clean_runs, draw_forest, draw_positions
from mtp_tutorial.show.plots_repeats import _lines, draw_repeats
from mtp_tutorial.show.repeats import LOOKS, repeated_pieces, share_repeated

PROMPTS = [{"id": f"p-{i}", "kind": "toy", "prompt": f"the {word}"} for i, word in enumerate(["cat", "dog", "mat"] * 4)]


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A small run on a toy: (summary, rows)."""
    out = tmp_path_factory.mktemp("case") / "rows.jsonl"
    names = ["off", "rejection", "greedy", "R3", "random-rejection", "off-T0", "on-T0"]
    arms = ex.chosen(ex.repetition_case("ngram"), names)
    rows = ex.run(mt.load("toy"), arms, PROMPTS, out, max_new_tokens=24)
    return ex.summary(*ex.read(out)), rows


# -- Words that were said before -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "n", "wanted"),
    [
        ("", 2, []),
        ("one two three", 2, [("one two three", "new")]),
        ("It rains. He reads. It rains.", 2, [("It rains. He reads. ", "new"), ("It rains.", "again")]),
        ("a b a b c", 2, [("a b ", "new"), ("a b", "again"), (" c", "new")]),
        ("İ is. İ is.", 2, [("İ is. ", "new"), ("İ is.", "again")]),
        ("他来了。他来了。", 3, [("他来了。", "new"), ("他来了。", "again")]),
    ],
)
def test_pieces_of_a_text(text, n, wanted):
    assert repeated_pieces(text, n) == wanted


def test_a_loop_is_marked_from_its_second_round():
    text = "So it began:\n" + "He said no more. " * 4
    pieces = repeated_pieces(text, 4)
    assert "".join(piece for piece, _ in pieces) == text
    assert pieces[-1] == ("He said no more. " * 3, "loop")
    assert repeated_pieces("So it began. He said no more. He said no more.", 4)[-1][1] == "again"  # two are no loop
    assert {kind for _, kind in pieces} <= set(LOOKS)


def test_the_share_of_what_is_marked():
    assert share_repeated([]) == 0 and share_repeated([("ab", "new"), ("cd", "again"), ("efgh", "loop")]) == 0.75
    with pytest.raises(ValueError, match="n=0"):
        repeated_pieces("a b", 0)


def test_places_are_those_of_the_words():
    text = "Again, 再来! don't"
    assert [text[a:b].lower() for a, b in repetition.word_places(text)] == repetition.words(text)


def test_lines_are_broken_between_words_and_keep_everything():
    lines = _lines([("one two  three\n\n four ", "new"), ("fivefivefive", "again")], 10)
    assert ["".join(piece for piece, _ in line) for line in lines] == ["one two ", "three↵", "four fivef", "ivefive"]
    assert lines[-1][-1][1] == "again"


# -- The explorer ---------------------------------------------------------------------------------------------------


def test_two_texts_with_their_measures(case):
    found, rows = case
    picture = figure(draw_repeats, found=found, rows=rows, prompt="p-1", left="off", right="R3")
    mine = [next(row for row in rows if row["arm"] == arm and row["prompt"] == "p-1") for arm in ("off", "R3")]
    for drawn, row in zip(picture.data, mine, strict=True):
        assert drawn["seq_rep_4"] == repetition.seq_rep_n(row["ids"], 4)
        assert drawn["tail_loop"] == repetition.has_tail_loop(row["ids"], **ex.LOOP)
        assert drawn["marked"] == share_repeated(repeated_pieces(row["text"], 4))
    assert "prompt p-1" in picture.alt and "R3: coin always 0 (" in picture.alt


def test_the_explorer_is_a_panel(case):
    found, rows = case
    panel = show.repetition_panel(found, rows, "p-10", right="R3")
    assert panel.values == {"prompt": "p-10", "left": "off", "right": "R3", "words": 4}
    assert [one["arm"] for one in panel.data()] == ["off", "R3"]
    before = panel.png
    panel.set(right="random-rejection", words=2)
    assert panel.png != before and panel.data()[1]["arm"] == "random-rejection"
    assert panel._controls["prompt"].options[:4] == ("p-0", "p-1", "p-2", "p-3")
    with pytest.raises(ValueError, match="no prompt was answered by every arm"):
        show.repetition_panel(found, [row for row in rows if row["arm"] != "off"])
    with pytest.raises(ValueError, match="no text of arm 'off' on prompt 'q'"):
        figure(draw_repeats, found=found, rows=rows, prompt="q", left="off", right="R3")


def test_any_text_can_be_drawn(case):
    """Signs that the font lacks, dollars, a text that is too long."""
    found, rows = case
    odd = {**rows[0], "text": "$x^2$ 看 🙂 \t \ufffd " + "word " * 900}
    picture = figure(draw_repeats, found=found, rows=[odd, *rows], prompt=odd["prompt"], left="off", right="off")
    assert picture.data[0]["marked"] > 0.9


# -- The other pictures ---------------------------------------------------------------------------------------------


def test_each_difference_has_its_mark(case):
    found, _ = case
    picture = figure(draw_forest, found={"toy": found})
    assert len(picture.data) == 3 * 5  # every arm but plain decoding, three measures
    by_name = {one["arm"]: one for one in found["arms"]}
    for row in picture.data:
        cell = by_name[row["arm"]]["differences"][row["measure"]]
        scale = 1 if row["measure"] == "seq_rep_4" else 100
        assert row["mean"] == scale * cell["mean"] and row["low"] == scale * cell["low"]
        assert row["seen"] == (cell["p_adjusted"] <= 0.05)
    two = figure(draw_forest, found={"a": found, "b": found}, measures=("seq_rep_4",))
    assert [row["target"] for row in two.data] == ["a"] * 5 + ["b"] * 5
    with pytest.raises(ValueError, match="at least one summary"):
        figure(draw_forest, found={})
    alone = {**found, "arms": [one for one in found["arms"] if one["arm"] == "off"]}
    with pytest.raises(ValueError, match="no arm was compared"):
        figure(draw_forest, found={"toy": alone})


def test_every_arm_of_the_case_has_a_name():
    for arm in ex.repetition_case():
        assert arm.name.removeprefix("random-") in ARMS
    assert arm_name("random-R3") == "random drafter, R3: coin always 0"
    assert arm_name("random-R3", short=True) == "random, R3" and arm_name("mine") == "mine"


def test_acceptance_by_position_names_what_is_flat():
    picture = figure(
        draw_positions, series={"right": [0.7, 0.5], "stuck": [1.0, 0.99]}, reported={"theirs": [0.9, 0.8, 0.7]}
    )
    assert len(picture.data) == 7 and picture.data[-1] == {"name": "theirs", "position": 3, "accepted": 0.7}
    assert "accepted at every position: stuck" in picture.alt
    assert "none of these" in figure(draw_positions, series={"right": [0.7, 0.5]}).alt


def test_clean_runs():
    (row,) = figure(draw_clean_runs).data
    assert row == {"runs": 2, "rate": 0.0092, "all_clean": pytest.approx(0.9817, abs=1e-4), "needed": 325,
                   "excluded": stats.rate_excluded(2)}  # fmt: skip
    panel = show.clean_runs_panel()
    assert "2 runs are all clean in 98.2 % of cases; 325 clean ones exclude it" in panel.alt
    panel.set(runs=325)
    assert panel.data()[0]["all_clean"] < 0.05
    panel.set(percent=30.0, runs=2)
    assert panel.data()[0]["all_clean"] == pytest.approx(0.49)


def test_the_recorded_run_is_there_and_whole():
    header, rows = ex.read(ex.recorded("nano"))
    assert header["target"] == "nano" and header["max_new_tokens"] == 256
    assert {row["arm"] for row in rows} == {arm.name for arm in ex.repetition_case()}
    assert len(rows) == header["prompts"]["count"] * len(ex.repetition_case())
