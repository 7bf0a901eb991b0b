"""What rounds cost: the record on a tiny model, the lines between its sizes, and what it says of the controller.

Nothing here is timed: the claims are held on the stored record.
"""

import hashlib
import json
import random
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mtp_tutorial as mt
from mtp_tutorial.cli import app
from mtp_tutorial.lab import theory
from mtp_tutorial.lab.bench import Costs, costs, sweep
from mtp_tutorial.lab.controllers import Fixed
from mtp_tutorial.lab.server_sim import Request, simulate
from mtp_tutorial.show.picture import figure
from mtp_tutorial.show.plots_costs import draw_costs

TRACES = Path(__file__).resolve().parents[1] / "data" / "traces"
STORED = TRACES / "costs-smollm2-cpu.json"
BEYOND = (128, 256)


def paper(seconds, batches=(1, 2, 4), lengths=(0, 1, 3), temperature=0.0, spread=0.0):
    """A record in which a round takes what ``seconds(batch, k)`` = (drafting, verifying, elsewhere) says."""

    def around(value):
        return {"median": value, "lowest": value * (1 - spread), "highest": value * (1 + spread)}

    rows = [
        {
            "temperature": temperature, "batch": b, "k": k, "rows": b * (k + 1), "rounds": 3,
            **dict(zip(("drafting", "verifying", "elsewhere"), map(around, seconds(b, k)))),
        }
        for b in batches for k in lengths
    ]  # fmt: skip
    return {"costs-format": 1, "target": "nano", "drafter": "mtp", "rows": rows}


def plane(batch, k):
    return 0.5 * k, 2.0 + batch * (k + 1), 0.25 * batch


# -- The record -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nano():
    target = mt.load("nano")
    options = {"batches": (2, 1), "lengths": (2, 0, 1), "temperatures": (0.0, 0.6), "walks": 2, "context": 8}
    return costs.record(target, mt.load_drafter("mtp", target), "mtp", progress=False, **options)


def test_a_record_has_a_row_for_each_size(nano):
    sizes = [(row["temperature"], row["batch"], row["k"]) for row in nano["rows"]]
    assert sizes == [(t, b, k) for t in (0.0, 0.6) for b in (1, 2) for k in (0, 1, 2)]
    for row in nano["rows"]:
        assert row["rounds"] == 2 and row["rows"] == row["batch"] * (row["k"] + 1)
        parts = [row[part] for part in ("drafting", "verifying", "elsewhere", "seconds")]
        assert all(0 <= part["lowest"] <= part["median"] <= part["highest"] for part in parts)
        assert row["seconds"]["highest"] <= sum(part["highest"] for part in parts[:3]) + 1e-6
    assert {"machine", "versions", "threads", "fingerprint", "date"} <= set(nano)


def test_each_walk_takes_each_length_once_in_an_order_of_its_own():
    target = mt.load("nano")
    turns = costs.Turns((0, 1, 4), 30, random.Random(0))
    walks = [tuple(turns.order[i : i + 3]) for i in range(0, 90, 3)]
    assert all(sorted(walk) == [0, 1, 4] for walk in walks) and len(set(walks)) == 6
    found = []
    for one in mt.stream(target, "[", mt.load_drafter("ngram", target), num_speculative_tokens=turns,
                         max_new_tokens=300, ignore_eos=True):  # fmt: skip
        found.append(one)
        if turns.is_over:
            break
    kept = [turns.timed[k].pop(0) for k in turns.order]
    assert kept == found[1:]  # each round is filed under the length that was asked for


def test_a_record_comes_back_from_its_file(nano, tmp_path):
    costs.write(nano, tmp_path / "record.json")
    assert costs.read(tmp_path / "record.json") == json.loads(json.dumps(nano))
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


# -- Between and beyond its sizes -----------------------------------------------------------------------------------


def test_a_plane_comes_back_as_a_plane():
    found = Costs(paper(plane))
    for batch, k in ((1, 0), (2, 3), (3, 1), (8, 3)):  # bilinear in batch and k between recorded sizes
        cost = found.of_round(batch, k)
        assert (cost.drafting, cost.verifying, cost.elsewhere) == pytest.approx(plane(batch, k))
        assert cost.seconds == pytest.approx(sum(plane(batch, k)))
    assert found.of_round(2, 2).verifying == pytest.approx(2 + 2 * 3) and found.of_round(1, 6).drafting == 3
    measured = {size: found.of_round(*size).is_measured for size in ((1, 0), (3, 2), (4, 3), (5, 0), (4, 4))}
    assert measured == {(1, 0): True, (3, 2): True, (4, 3): True, (5, 0): False, (4, 4): False}


def test_noise_makes_no_round_cheaper_beyond_the_record():
    found = Costs(paper(lambda batch, k: (0.1, 5.0 - batch, 0.1), batches=(1, 2)))
    assert found.of_round(64, 1).seconds == pytest.approx(found.of_round(2, 1).seconds) == pytest.approx(3.2)


def test_a_round_is_padded_and_a_prompt_pays_for_its_rows():
    found = Costs(paper(plane))
    ragged = found.round_seconds([0, 3, 1], context=99)
    assert ragged.seconds == pytest.approx(sum(plane(3, 3)))
    assert found.row == 1 and found.round_seconds([0], 0, 7).verifying == pytest.approx(plane(1, 0)[1] + 7)
    assert found.round_seconds([], 0, 5).seconds == 5


def test_the_simulated_server_takes_its_times_from_the_record():
    (one,) = simulate([Request(0, 1, 9, 1.0)], Fixed(3), costs=Costs(paper(plane))).served
    assert one.finished == pytest.approx(1 + 2 * sum(plane(1, 3)))  # one row of prompt, then two rounds of 4 tokens


# -- What follows ---------------------------------------------------------------------------------------------------

ACCEPTED = [
    {"drafter": "mtp", "temperature": 0, "drafting": "greedy", "k": 4, "kind": kind, "rounds": 100, "accepted": counts}
    for kind, counts in (("all kinds", [60, 30, 15, 0]), ("code", [80, 60, 30, 0]), ("chat", [40, 0, 0, 0]))
]


def test_rates_are_once_judged():
    found = sweep.acceptance_rates(ACCEPTED)
    assert found == {"all kinds": [0.6, 0.5, 0.5, 0.0], "code": [0.8, 0.75, 0.5, 0.0], "chat": [0.4, 0, 0, 0]}
    assert sweep.longer([0.6, 0.5], 4) == [0.6, 0.5, 0.5, 0.5] and sweep.longer([0.6, 0.5], 1) == [0.6]
    with pytest.raises(ValueError, match="no acceptance is recorded"):
        sweep.acceptance_rates(ACCEPTED, temperature=0.7)


def test_curves_are_tokens_over_seconds_with_the_range_of_the_rounds():
    found = paper(plane, spread=0.1)
    every = {which: Costs(found, 0.0, which) for which in ("median", "lowest", "highest")}
    rows = {(row["k"], row["batch"]): row for row in sweep.curves(every, [0.6, 0.5], (1, 8), (0, 1, 3))}
    speed = 8 * 1.6 / sum(plane(8, 1))
    assert rows[1, 8]["tokens_per_second"] == pytest.approx(speed) == every["median"].tokens_per_second([0.6], 8, 1)
    assert (rows[1, 8]["low"], rows[1, 8]["high"]) == pytest.approx((speed / 1.1, speed / 0.9))
    assert rows[1, 8]["ratio"] == pytest.approx(1.6 * sum(plane(8, 0)) / sum(plane(8, 1)))
    assert rows[0, 1]["ratio"] == 1 and rows[1, 1]["is_measured"] and not rows[1, 8]["is_measured"]


def test_the_crossover_is_where_a_draft_costs_what_it_brings():
    def call(batch, k):  # free up to 12 rows, then by the row
        return 0.0, max(12.0, batch * (k + 1.0)), 0.0

    found = Costs(paper(call, batches=(*range(1, 33),), lengths=(0, 1, 3)))
    assert sweep.crossover(found, [0.5], 1) == 10  # 1.5 tokens: 18 rows ÷ 12 at batch 9, 20 ÷ 12 at 10
    assert sweep.crossover(found, [1.0], 1) is None and sweep.crossover(found, [0.0], 1) == 7


# -- The stored record ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored():
    found = costs.read(STORED)
    return {temperature: sweep.report(found, temperature, BEYOND) for temperature in (0.0, 0.6)}


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_the_controller_is_near_the_best_k_at_every_batch_and_ahead_of_every_k_over_the_sweep(stored, temperature):
    said = stored[temperature]
    measured = [row for row in said["table"] if row["is_measured"]]
    assert [row["batch"] for row in measured] == [1, 2, 4, 8, 16, 32, 64]
    assert all(row["adaptive_of_best"] > 0.95 for row in measured), measured
    assert max(said["sweep"], key=said["sweep"].get) == "adaptive", said["sweep"]
    assert max(row["adaptive_of_best"] for row in measured) < 1.1  # the fixed ones are no straw men


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_k_4_pays_alone_and_not_in_a_crowd(stored, temperature):
    ratio = {(row["k"], row["batch"]): row["ratio"] for row in stored[temperature]["curves"]}
    assert ratio[4, 1] > 1 > ratio[4, 64] and 1 < stored[temperature]["crossovers"][4] <= 64
    crossed = stored[temperature]["crossovers"][4]
    assert (ratio[4, 64] < 1) == (crossed <= 64) and (ratio[4, 1] < 1) == (crossed <= 1)


def test_the_readme_says_what_the_record_says(stored):
    readme = (TRACES / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(STORED.read_bytes()).hexdigest() in readme
    section = readme.split("## costs-smollm2-cpu")[1].split("\n## ")[0]
    for temperature, said in stored.items():
        line = next(line for line in section.splitlines() if line.startswith(f"| T = {temperature:g} |"))
        cells = [cell.strip() for cell in line.split("|")[2:-1]]
        sizes = {row["batch"]: row for row in said["table"]}
        speeds = [
            f"{sizes[b]['tokens_per_second'][way]:.0f}" for b in (1, 64) for way in ("k = 0", "k = 4", "adaptive")
        ]
        least = min(row["adaptive_of_best"] for row in said["table"] if row["is_measured"])
        assert cells == [*speeds, str(said["crossovers"][4]), f"{least:.3f}"]


def test_the_picture_marks_what_is_modelled(stored):
    said = stored[0.0]
    one = {"kind": "all kinds", "batch": 4, "median": 50.0, "slowest": 40.0, "fastest": 60.0}
    one |= {"ratio": 1.1, "lowest": 0.9, "highest": 1.2}
    live = [{"arm": arm, **one} for arm in ("plain", "mtp:k=4", "mtp:adaptive", "mtp:k=7")]
    picture = figure(draw_costs, rows=said["curves"], adaptive=said["adaptive"], live=live)
    ways = list(dict.fromkeys(row["way"] for row in picture.data))
    assert ways == ["plain", "k = 1", "k = 2", "k = 4", "adaptive", "live plain", "live k = 4", "live adaptive"]
    assert {row["batch"] for row in picture.data if not row["is_measured"]} == set(BEYOND)
    gains = [row["batch"] for row in said["curves"] if row["k"] == 4 and row["ratio"] >= 1]
    assert f"k = 4 still pays at batch {max(gains)}" in picture.alt
    with pytest.raises(ValueError, match="no rows"):
        figure(draw_costs, rows=[])
    with pytest.raises(ValueError, match="k = 5 is not among the rows"):
        figure(draw_costs, rows=said["curves"], lengths=(0, 5))


# -- The command ----------------------------------------------------------------------------------------------------


def test_the_command_measures_and_reads(tmp_path):
    path, image = tmp_path / "mine.json", tmp_path / "mine.png"
    words = "--batch 1 --batch 2 --k 0 --k 1 --k 2 --k 4 --walks 1 -t 0".split()
    result = CliRunner().invoke(app, ["costs", "--out", str(path), *words, "--picture", str(image)])
    assert result.exit_code == 0, result.output
    assert "k = 4 pays" in result.output and image.read_bytes()[:4] == b"\x89PNG"
    again = CliRunner().invoke(app, ["costs", "--show", str(path), "--json"])
    (said,) = json.loads(again.output)["reports"]
    assert [row["batch"] for row in said["table"]] == [1, 2, 128, 256]
    assert re.search(r"T = 0: tokens a second", result.output)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--batch 1", "batches=.*two or more"),
        ("-t 0.3", "no acceptance is recorded"),
        ("--drafter oracle", "no acceptance is recorded"),
        ("--out .", "ends in .json"),
        ("--out mine.jsonl", "ends in .json"),
        ("--out file/mine.json", "cannot be written"),
        ("--picture file/mine.png", "cannot be written"),
    ],
)
def test_the_command_refuses_before_it_measures(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(costs, "stream", lambda *args, **options: pytest.fail("measured"))
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["costs", *words.split()])
    assert isinstance(result.exception, ValueError) and re.search(said, str(result.exception)), result.exception
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# -- Bad input ------------------------------------------------------------------------------------------------------

BAD = [
    (lambda: costs.record(mt.load("nano"), None, "mtp", lengths=(1, 2)), "0 must be among them"),
    (lambda: costs.record(mt.load("nano"), None, "mtp", batches=(2, 2)), "each once"),
    (lambda: costs.record(mt.load("nano"), None, "mtp", walks=0), "walks=0"),
    (lambda: costs.record(mt.load("nano"), None, "mtp", walks=9999), "reads at most"),
    (lambda: Costs(paper(plane), 0.6), "the record has 0"),
    (lambda: Costs(paper(plane, batches=(1,))), "two batches"),
    (lambda: Costs(paper(plane)).of_round(0, 1), "batch=0"),
    (lambda: costs.read(__file__), "no JSON"),
    (lambda: costs.read(TRACES.parent / "nano" / "mtp" / "config.json"), "no record of costs"),
    (lambda: sweep.recorded_acceptance("gpt"), "no acceptance comes with"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_the_roofline_prices_what_is_asked_for():
    big, small = theory.Weights(10, 1), theory.Weights(1, 1)
    cost = theory.Roofline(big, small, theory.Machine(1e9, 2.0)).round_seconds([3, 1])
    assert (cost.drafting, cost.verifying, cost.is_measured) == (4, 60, False)
