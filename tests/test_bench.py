"""The bench: its arms, its other side, its arithmetic, its file. No test here asks how fast anything is."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import mtp_tutorial as mt
from mtp_tutorial import cli
from mtp_tutorial.lab import bench
from mtp_tutorial.lab.bench import prediction, report, traffic
from mtp_tutorial.lab.bench.measure import Bench, batch_rounds, of_generations
from mtp_tutorial.lab.bench.plan import COSTS, MEASURED, Group, groups
from mtp_tutorial.lab.bench.summaries import median_interval, ratios

TINY = {"kinds": ("json", "prose"), "prompts": 1, "repeats": 1, "max_new_tokens": 6, "temperatures": (0.0,)}


@pytest.fixture(scope="module")
def nano():
    return mt.load("nano")


@pytest.fixture(scope="module")
def done(nano, tmp_path_factory):
    """(path, header, rows) of one small run of every kind of arm."""
    path = tmp_path_factory.mktemp("bench") / "rows.jsonl"
    arms = bench.parse_all(["mtp:k=2", "ngram:k=3", "mtp:adaptive", "hf-plain", "hf-assistant:k=2", "hf-lookup:k=3"])
    return path, *bench.run(nano, arms, bench.Plan(**TINY), path)


# -- Arms -----------------------------------------------------------------------------------------------------------


def test_an_arm_is_read_from_its_line():
    arm = bench.parse("mtp:k=2,frequent=512,temperature=same")
    assert (arm.who, arm.k, arm.options) == ("mtp", 2, {"frequent": 512, "temperature": "same"})
    assert bench.parse("ngram").k == 4 and bench.parse("mtp:adaptive").k == "adaptive"
    assert bench.parse("mtp:k=adaptive").k == "adaptive" and bench.parse("hf-lookup").k == 10
    assert bench.parse("hf-assistant").k is None and bench.parse("hf-plain").theirs


def test_plain_decoding_comes_first_and_is_never_missing():
    assert [arm.name for arm in bench.parse_all(["ngram", "plain"])] == ["plain", "ngram"]
    assert [arm.name for arm in bench.parse_all(["ngram"])] == ["plain", "ngram"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("magic", "known are plain, ngram"),
        ("hf-magic", "hf-assistant, hf-lookup"),
        ("", "write plain"),
        ("mtp:k=two", "use a whole number, or adaptive"),
        ("mtp:k=65", "0 to 64"),
        ("mtp:frequent", "write key=value"),
        ("mtp:k=1,k=2", "given twice"),
        ("plain:k=2", "takes no options"),
        ("hf-plain:k=2", "takes no options"),
        ("hf-lookup:frequent=4", "takes k only"),
        ("hf-lookup:adaptive", "no such controller"),
    ],
)
def test_bad_arms_are_explained(words, said):
    with pytest.raises(ValueError, match=said):
        bench.parse(words)


def test_an_arm_may_not_occur_twice():
    with pytest.raises(ValueError, match="'ngram' occurs twice"):
        bench.parse_all(["ngram", "mtp", "ngram"])


# -- The other side -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["plain", "assistant", "lookup"])
def test_transformers_says_what_we_say_at_temperature_0(mode, nano):
    prompt = nano.encode('{"name": "Lena", "age": 3')
    options = {"sampling": mt.Sampling(temperature=0), "max_new_tokens": 24}
    ours = mt.generate(nano, prompt, ignore_eos=True, **options)
    answer = bench.Baseline(nano, mode)([prompt], **options)
    assert answer.tokens == [ours.tokens]
    if mode == "plain":
        assert len(answer.target.rows) == len(ours.tokens) and answer.target.rows[0] == len(prompt)
    else:
        assert len(answer.target.rows) < len(ours.tokens)
    assert len(answer.target.seconds) == len(answer.target.rows)
    assert bool(answer.assistant.rows) == (mode == "assistant")


def test_transformers_in_a_batch_says_the_same(nano):
    prompts = [nano.encode("One morning, Lena"), nano.encode("def first")]
    options = {"sampling": mt.Sampling(temperature=0), "max_new_tokens": 12}
    ours = mt.generate(nano, prompts, ignore_eos=True, **options)
    assert bench.Baseline(nano)(prompts, **options).tokens == [one.tokens for one in ours]


def test_a_baseline_leaves_everything_as_it_was(nano):
    config, state = nano.model.generation_config, torch.get_rng_state()
    sampling, prompt = mt.Sampling(temperature=1.0, top_k=5), nano.encode("One morning, Lena")
    base = bench.Baseline(nano, "lookup", 3)
    one, two = (base([prompt], sampling, 10, seed=4).tokens for _ in range(2))
    assert one == two != base([prompt], sampling, 10, seed=5).tokens
    assert nano.model.generation_config is config and torch.equal(torch.get_rng_state(), state)
    assert not nano.model._forward_hooks and not nano.model._forward_pre_hooks


def test_transformers_draws_from_the_same_law(nano):
    """The first token of many seeds follows our own law of the same settings, and not that of another temperature."""
    prompt = nano.encode("One morning, Lena")
    logits, _ = nano.forward(torch.tensor([prompt]), [len(prompt)], nano.new_cache(1), last_only=True)
    laws = [mt.probabilities(logits, mt.Sampling(temperature=t, top_k=3))[0, 0].tolist() for t in (4.0, 50.0)]
    base = bench.Baseline(nano)
    drawn = [base([prompt], mt.Sampling(temperature=4.0, top_k=3), 1, seed=seed).tokens[0][0] for seed in range(80)]
    counts = [drawn.count(token) for token in range(nano.vocab_size)]
    assert mt.lab.stats.chi_square(counts, laws[0]).p_value > 1e-3
    assert mt.lab.stats.chi_square(counts, laws[1]).p_value < 1e-3


def test_the_end_of_text_is_passed_over_alike(nano):
    """The end made the likeliest token: passed over when it is ignored, the last token when not."""
    prompt = nano.encode("One morning, Lena")
    says = bench.Baseline(nano)([prompt], mt.Sampling(temperature=0), 8).tokens[0]
    ends = nano.eos_ids
    nano.eos_ids = frozenset({says[3]})
    try:
        base = bench.Baseline(nano)
        assert base([prompt], mt.Sampling(temperature=0), 8, ignore_eos=True).tokens[0] == says
        stopped = base([prompt], mt.Sampling(temperature=0), 8, ignore_eos=False).tokens[0]
        assert stopped == says[: says.index(says[3]) + 1]
    finally:
        nano.eos_ids = ends


def test_what_transformers_cannot_do_is_said(nano):
    with pytest.raises(ValueError, match="batch size 1, not 2"):
        bench.Baseline(nano, "lookup")([[1], [2]], mt.Sampling(), 2)
    with pytest.raises(ValueError, match="no frequency or presence"):
        bench.Baseline(nano)([[1]], mt.Sampling(presence_penalty=1), 2)
    with pytest.raises(ValueError, match="no model of transformers"):
        bench.Baseline(mt.load("toy"))
    with pytest.raises(ValueError, match="use plain, assistant or lookup"):
        bench.Baseline(nano, "magic")


# -- Counting -------------------------------------------------------------------------------------------------------


def test_the_columns_are_those_of_the_rounds(nano):
    prompts = [nano.encode("One morning, Lena"), nano.encode('{"name":')]
    found = mt.generate(
        nano, prompts, "mtp", num_speculative_tokens=2, max_new_tokens=20, ignore_eos=True, sampling=mt.Sampling(0.6)
    )
    row = of_generations(found, traffic.reading(nano))
    later = [one for g in found for one in g.rounds[1:]]
    assert row["tokens"] == 40 and row["tokens_later"] == 38 == sum(len(one.tokens) for one in later)
    assert row["target_calls"] == max(g.target_calls for g in found) and row["rounds"] == len(later)
    assert (sum(row["drafted"]), sum(row["accepted"])) == tuple(
        sum(getattr(one, name) for one in later) for name in ("num_drafted", "num_accepted")
    )
    longest = max(found, key=lambda g: g.target_calls)
    assert row["verifying"] == pytest.approx(sum(one.seconds_verifying for one in longest.rounds[1:]))
    assert sum(shape["count"] for shape in row["shapes"]) == row["target_calls"] - 1
    assert sum(shape["count"] * shape["live"] for shape in row["shapes"]) == row["rounds"]


def test_bytes_are_the_weights_once_a_call_and_the_visible_slots(nano):
    found = mt.generate(nano, [nano.encode("One morning, Lena")], max_new_tokens=5, ignore_eos=True)
    read = traffic.reading(nano)
    config = nano.model.config
    size = config.hidden_size // config.num_attention_heads
    assert read.slot == 2 * config.num_hidden_layers * config.num_key_value_heads * size * 4
    assert read.target == sum(w.nbytes for w in nano.model.parameters())  # tied: the embedding is the lm_head
    slots = sum(one.cache_written for one in found[0].rounds[1:])
    assert read.of_rounds(batch_rounds(found)[1:]) == (4 * read.target + slots * read.slot, 0)


@pytest.mark.parametrize("name", ["mtp", "draft", "medusa"])
def test_a_trimmed_drafting_head_reads_less(name, nano):
    full, trimmed = (
        traffic.reading(nano, mt.load_drafter(name, nano, **options)).step for options in ({}, {"frequent": 64})
    )
    head = nano.model.get_output_embeddings().weight
    assert full - trimmed == (nano.vocab_size - 64) * head.shape[1] * 4
    assert traffic.reading(nano, mt.load_drafter("ngram", nano)).step == 0


def test_the_steps_of_a_head_are_counted(nano):
    for name, options, least in (("mtp", {}, 2), ("joined", {"head_tokens": 1}, 0)):
        drafter = mt.load_drafter(name, nano, **options)
        with traffic.counted(drafter) as steps:
            found = mt.generate(nano, ['{"name": "Le'], drafter, num_speculative_tokens=2, max_new_tokens=12)
        rounds = found[0].target_calls - 1
        assert least * rounds <= steps[0] <= (2 if name == "mtp" else 1) * rounds
        assert not traffic.reading(nano, drafter).step == 0
    with traffic.counted(mt.load_drafter("ngram", nano)) as steps:
        assert steps == []
    read = traffic.Reading(target=100, slot=1, step=10, draft_slot=2)
    assert read.of_rounds([], 3) == (0, 0)


def test_a_prediction_is_expected_tokens_over_prices_of_other_rounds():
    def texts(group: str, weather: float, **seconds_of) -> dict:
        """One text of costs: seconds of a round by draft tokens; bad weather slows down everything alike."""
        shapes = [
            {"live": 1, "drafted": int(n[1:]), "count": 5, "drafting": 0.0, "verifying": s * weather, "elsewhere": 0.0}
            for n, s in seconds_of.items()
        ]
        return {"group": group, "repeat": 0, "shapes": shapes}

    plain_costs = [texts("a", 1, k0=0.5), texts("b", 7, k0=0.5)]
    costs = [texts("a", 1, k2=1.0), texts("b", 7, k2=1.0)]
    plain = [{"rounds": 9, "accepted": [], "shapes": [{"live": 1, "drafted": 0, "count": 9}]}]
    rows = [{"rounds": 10, "accepted": [8, 4], "shapes": [{"live": 1, "drafted": 2, "count": 10}]}]
    assert prediction.price(costs, plain_costs) == {(1, 2): pytest.approx(2)}
    assert prediction.conditional_rates(rows) == [0.8, 0.5]
    by_theory = mt.lab.theory.speedup([0.8, 0.5], 2, draft_cost=0, verify_cost=2)
    assert prediction.speed_up(rows, plain, costs, plain_costs) == pytest.approx(by_theory) == pytest.approx(2.2 / 2)
    half = [{"rounds": 10, "accepted": [5], "shapes": [{"live": 1, "drafted": n, "count": 5} for n in (0, 2)]}]
    mixed = [texts("a", 1, k0=0.6, k2=1.0), texts("b", 7, k0=0.6, k2=1.0)]
    assert prediction.speed_up(half, plain, mixed, plain_costs) == pytest.approx(1.5 / (0.5 * 1.2 + 0.5 * 2.0))
    assert math.isnan(prediction.speed_up(rows, plain, [], plain_costs))


def test_ratios_are_paired_by_prompt():
    """An arm twice as fast on each prompt, though the prompts and repeats differ by far more than that."""
    plain = [
        {"group": g, "repeat": r, "tokens": 10, "seconds": s}
        for g, r, s in (("a", 0, 1), ("a", 1, 9), ("b", 0, 50), ("c", 0, 2))
    ]
    found = ratios([{**row, "seconds": row["seconds"] / 2} for row in plain], plain)
    assert all(value == pytest.approx(2) for value in found.values())
    other = ratios([{**row, "seconds": 1} for row in plain], plain)
    assert (other["ratio"], other["lowest"], other["highest"]) == (5, 2, 50)
    assert ratios([{"group": "d", "repeat": 0, "tokens": 1, "seconds": 1}], plain)["ratio"] is None


def test_the_interval_of_a_median_holds_it():
    low, high = median_interval([1.0, 1.2, 1.4, 1.6, 5.0])
    assert 1.0 <= low < 1.4 < high <= 5.0 and median_interval([2.0, 2.0, 2.0]) == (2.0, 2.0)


# -- The run --------------------------------------------------------------------------------------------------------


def test_every_arm_decodes_every_prompt_as_many_tokens(done):
    _, header, rows = done
    measured = [row for row in rows if row["part"] == MEASURED]
    assert len(measured) == 7 * 2 and {row["tokens"] for row in measured} == {6}
    assert {row["arm"] for row in rows if row["part"] == COSTS} == {"plain", "mtp:k=2", "ngram:k=3", "mtp:adaptive"}
    assert header["bandwidth"]["gb_per_s"] > 0 and header["machine"]["memory_gb"] > 0
    places = {row["group"]: [r["place"] for r in measured if r["arm"] == "plain"] for row in measured}
    assert len({tuple(order) for order in places.values()}) == 1  # both groups are in each list
    assert len(set(next(iter(places.values())))) == 2  # the order is turned


def test_prompts_that_price_rounds_are_other_ones(nano):
    made = groups(nano, bench.Plan(kinds=("json",), prompts=2, costs=1, batches=(1, 4)))
    texts = {part: {p for group in made[part][1] for p in group.prompts} for part in (MEASURED, COSTS)}
    assert len(texts[MEASURED]) == 2 and len(texts[COSTS]) == 1 and not texts[MEASURED] & texts[COSTS]
    assert [len(group.prompts) for group in made[MEASURED][4]] == [4]


def test_a_second_run_does_what_is_missing_only(done, nano, tmp_path):
    path, _, rows = done
    copy = tmp_path / "rows.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # killed while it wrote its last row
    arms = bench.parse_all(["mtp:k=2", "ngram:k=3", "mtp:adaptive", "hf-plain", "hf-assistant:k=2", "hf-lookup:k=3"])
    _, again = bench.run(nano, arms, bench.Plan(**TINY), copy)
    assert copy.read_bytes().startswith(b"".join(lines[:-1]))
    key = ("part", "group", "arm")
    assert sorted([row[k] for k in key] for row in again) == sorted([row[k] for k in key] for row in rows)


def test_a_file_of_another_run_or_machine_is_refused(done, nano, tmp_path):
    path, header, _ = done
    arms = bench.parse_all(["plain"])
    with pytest.raises(ValueError, match="max_new_tokens"):
        bench.run(nano, arms, bench.Plan(**TINY | {"max_new_tokens": 7}), path)
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({**header, "machine": {"cpu": "abacus"}}) + "\n")
    with pytest.raises(ValueError, match="another machine .abacus"):
        bench.run(nano, arms, bench.Plan(**TINY), other)
    other.write_text(json.dumps({key: value for key, value in header.items() if key != "seed_scheme"}) + "\n")
    with pytest.raises(ValueError, match=r"its seed_scheme is 'SeedSequence\(\[seed \+ sequence, role\]\)'"):
        bench.run(nano, arms, bench.Plan(**TINY), other)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"prompts": 0}, "prompts=0"),
        ({"batches": (0,)}, "batch=0"),
        ({"temperatures": ()}, "give at least one"),
        ({"temperatures": (-1.0,)}, "temperature=-1"),
        ({"kinds": ("magic",)}, "unknown kind of prompt 'magic'; for nano: prose"),
        ({"max_new_tokens": 600}, "leaves room for"),
        ({"batches": (2,)}, "batch size 1"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_bad_plans_are_explained_and_nothing_is_written(settings, said, nano, tmp_path):
    with pytest.raises(ValueError, match=said):
        bench.run(nano, bench.parse_all(["hf-lookup"]), bench.Plan(**TINY | settings), tmp_path / "rows.jsonl")
    assert not list(tmp_path.iterdir())


def test_an_adaptive_arm_keeps_what_it_learnt(nano):
    arm = bench.parse("mtp:adaptive")
    one = Bench(nano, [arm])
    group = Group("json#0", "json", (tuple(nano.encode('{"name":')),), (0,))
    for _ in range(2):
        one.run(arm, group, mt.Sampling(temperature=0), 8)
    (controller,) = one.controllers.values()
    assert sum(map(len, controller.seconds.values())) > 8 / 3


# -- What is shown --------------------------------------------------------------------------------------------------


def test_the_summary_has_a_row_for_each_arm_and_kind(done):
    _, header, rows = done
    found = bench.summary(header, rows)
    assert [(row["arm"], row["kind"]) for row in found[:2]] == [("plain", "all kinds"), ("mtp:k=2", "all kinds")]
    assert len(found) == 7 * 3
    plain, mtp = found[:2]
    assert plain["ratio"] == plain["ratio_total"] == plain["measured"] == 1 and plain["predicted"] == pytest.approx(1)
    assert plain["mean_acceptance_length"] == 1 and 1 <= mtp["mean_acceptance_length"] <= 3
    assert mtp["predicted"] > 0 and mtp["bytes_per_token"] > 0 and 0 < mtp["elsewhere_share"] < 1
    theirs = next(row for row in found if row["arm"] == "hf-plain")
    assert theirs["hf_plain"]["ratio"] == 1 and mtp["hf_best_arm"] in ("hf-assistant:k=2", "hf-lookup:k=3")
    best = next(row for row in found if row["arm"] == mtp["hf_best_arm"])
    others = ("hf-assistant:k=2", "hf-lookup:k=3")
    assert best["hf_best"]["ratio"] == 1
    assert best["ratio"] == max(row["ratio"] for row in found[:7] if row["arm"] in others)
    assert theirs["mean_acceptance_length"] == 1 and theirs["target_calls"] == 6 and theirs["predicted"] is None
    json.dumps(found, allow_nan=False)
    text = report.markdown(header, found)
    assert "hf-assistant:k=2" in text and "nano in float32" in text


def test_pictures_return_what_they_draw(done):
    from mtp_tutorial.show.picture import figure
    from mtp_tutorial.show.plots_bench import draw_batches, draw_bench

    _, header, rows = done
    found = bench.summary(header, rows)
    picture = figure(draw_bench, rows=found, arms=("mtp:k=2", "hf-plain"))
    assert [(row["arm"], row["kind"]) for row in picture.data] == [
        (arm, kind) for kind in ("all kinds", "json", "prose") for arm in ("mtp:k=2", "hf-plain")
    ]
    assert picture.data[0]["ratio"] == next(row["ratio"] for row in found if row["arm"] == "mtp:k=2")
    assert "T = 0: " in picture.alt
    more = [{"arm": arm, "batch": 8, "tokens_per_second": rate} for arm, rate in (("plain", 100), ("mtp:k=2", 50))]
    batches = figure(draw_batches, rows=found, modelled=more, arms=("plain", "mtp:k=2"))
    assert [(row["arm"], row["ratio"]) for row in batches.data if not row["measured"]] == [
        ("plain", 1),
        ("mtp:k=2", 0.5),
    ]
    assert "modelled" in batches.alt
    for draw in (draw_bench, draw_batches):
        with pytest.raises(ValueError, match="no rows"):
            figure(draw, rows=[])


def speeds(**ratios):
    """Rows of a summary: each arm's median ratio, and an interval around it."""
    common = {"batch": 1, "temperature": 0.0, "kind": "all kinds", "predicted": None, "lowest": None, "highest": None}
    plain = {**common, "arm": "plain", "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0}
    rows = [{**common, "arm": a, "ratio": r, "ratio_low": 0.9 * r, "ratio_high": 1.1 * r} for a, r in ratios.items()]
    return [plain, *rows]


def test_the_picture_names_plain_decoding_where_nothing_beats_it():
    from mtp_tutorial.show.picture import figure
    from mtp_tutorial.show.plots_bench import draw_bench

    assert "T = 0: plain (next ngram, 0.94×)" in figure(draw_bench, rows=speeds(ngram=0.94, mtp=0.8)).alt
    assert "T = 0: mtp, 1.40×" in figure(draw_bench, rows=speeds(ngram=0.94, mtp=1.4)).alt


def test_every_mark_lies_inside_the_picture():
    from matplotlib.figure import Figure

    from mtp_tutorial.show.plots_bench import draw_bench

    for ratio in (0.3, 1.0, 5.0):
        fig = Figure()
        draw_bench(fig, speeds(mtp=ratio))
        low, high = fig.axes[0].get_xlim()
        assert low == 0 and high >= 1.04 * max(1, 1.1 * ratio), "with room for half a marker"


def test_the_command_measures_shows_and_draws(done, tmp_path):
    path, picture = done[0], tmp_path / "speed.png"
    shown = CliRunner().invoke(cli.app, ["bench", "--show", str(path), "--picture", str(picture)])
    assert shown.exit_code == 0, shown.exception
    assert "÷ plain" in shown.stdout and "memory bandwidth" in shown.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    words = "bench -a ngram:k=2 --kinds json --prompts 1 --repeats 1 --tokens 4 -t 0 --costs 0 --json".split()
    made = CliRunner().invoke(cli.app, [*words, "--out", str(tmp_path / "new.jsonl")])
    assert made.exit_code == 0, made.exception
    assert [row["arm"] for row in json.loads(made.stdout)["rows"]][:2] == ["plain", "ngram:k=2"]
    bad = CliRunner().invoke(cli.app, ["bench", "--show", str(path), "--picture", "speed.gif"])
    assert "ends in .png" in str(bad.exception)


# -- The script for a GPU -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script():
    path = Path(__file__).parents[1] / "tools" / "gpu_bench.py"
    spec = importlib.util.spec_from_file_location("gpu_bench", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gpu_script_runs_whole_at_a_tiny_size(script, tmp_path, capsys):
    out = tmp_path / "trace.json"
    assert script.main(["--tiny", "--out", str(out)]) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert [one["passed"] for one in found["checks"]] == [True] * 3 and found["skipped"] == []
    random, real = found["timings"]
    assert {row["batch"] for row in random["rows"]} == {1, 2}
    assert {"plain", "oracle:k=2", "oracle:k=4", "hf-plain"} == {row["arm"] for row in random["rows"]}
    assert all(row["predicted"] > 0 for row in random["rows"] if row["arm"].startswith("oracle"))
    assert real["header"]["target"] == "nano" and "passed: greedy equality" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def test_what_does_not_fit_into_the_minutes_is_skipped_and_said(script):
    budget = script.Budget(minutes=1)
    assert budget.allows("a", 50) and not budget.allows("b", 70)
    (said,) = budget.skipped
    assert said.startswith("b: ") and "70 are wanted" in said


def test_the_checks_can_fail(script, nano):
    """A cache that forgets to roll back, and a flip far from a tie."""
    prompt = nano.encode("One morning, Lena")
    assert script.cache_against_prefill(nano, prompt)["passed"]
    forward = nano.model.forward

    def shifted(*args, **options):  # every call on four rows is off: those that carry a draft
        output = forward(*args, **options)
        if options["input_ids"].shape[1] == 4:
            output.logits = output.logits.roll(1, -1)
        return output

    nano.model.forward = shifted
    try:
        assert not script.cache_against_prefill(nano, prompt)["passed"]
    finally:
        del nano.model.forward


def test_the_gpu_script_says_what_it_needs(script, capsys):
    with pytest.raises(SystemExit):
        script.main(["--tiny"])
    assert "--tiny needs --out" in capsys.readouterr().err
