"""The experiment: pairs, files that survive a kill, summaries that find what was planted, and the command."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats
from typer.testing import CliRunner

import mtp_tutorial as mt
from mtp_tutorial import cli
from mtp_tutorial.lab import experiment as ex
from mtp_tutorial.lab import stats
from mtp_tutorial.lab.drafts import RandomDrafter
from mtp_tutorial.lab.experiment import runs
from mtp_tutorial.lab.experiment.arms import chosen
from mtp_tutorial.longrun import EARLIER_SEED_SCHEME, SEED_SCHEME

PROMPTS = [
    {"id": f"p{i}", "kind": "even" if i % 2 == 0 else "odd", "prompt": [2 + i % 15, 2 + i // 15]} for i in range(40)
]
ARMS = [
    ex.Arm("off"),
    ex.Arm("rejection", "ngram"),
    ex.Arm("R3", "ngram", bug="R3"),
    ex.Arm("R14b", "ngram", bug="R14b"),
    ex.Arm("random-rejection", "random"),
    ex.Arm("random-R3", "random", bug="R3"),
    ex.Arm("off-T0", temperature=0),
    ex.Arm("on-T0", "ngram", temperature=0),
]
FEW = {"prompts": PROMPTS[:5], "max_new_tokens": 12, "batch": 2}


@pytest.fixture(scope="module")
def toy():
    return mt.load("toy")


@pytest.fixture(scope="module")
def whole(toy, tmp_path_factory):
    """The toy's own case: a drafter that copies what was said before, right and broken."""
    out = tmp_path_factory.mktemp("whole") / "rows.jsonl"
    rows = ex.run(toy, ARMS, PROMPTS, out, max_new_tokens=64)
    return out, rows, ex.summary(*ex.read(out))


def arm_of(found: dict, name: str) -> dict:
    return next(one for one in found["arms"] if one["arm"] == name)


# -- Rows -------------------------------------------------------------------------------------------------------------


def test_rows_are_pairs_and_a_greedy_arm_has_no_seeds(toy, tmp_path):
    arms = [ARMS[0], ARMS[1], ARMS[-2]]
    rows = ex.run(toy, arms, **FEW, out=tmp_path / "rows.jsonl", seeds=(3, 4))
    seeds = {
        name: [(row["prompt"], row["seed"]) for row in rows if row["arm"] == name] for name in ("off", "rejection")
    }
    assert seeds["off"] == seeds["rejection"] and len(set(seeds["off"])) == 10
    assert {row["seed"] for row in rows if row["arm"] == "off-T0"} == {None}
    assert sum(row["arm"] == "off-T0" for row in rows) == 5
    assert all(len(row["ids"]) == 12 and row["text"] == toy.decode(row["ids"]) for row in rows)
    values = sorted(seed for _, seed in set(seeds["off"]))
    assert min(b - a for a, b in zip(values, values[1:], strict=False)) > len(PROMPTS)  # far apart


def test_a_row_can_be_made_again_by_hand(toy, whole):
    row = next(row for row in whole[1] if row["arm"] == "rejection" and row["prompt"] == "p7")
    found = mt.generate(
        toy, [PROMPTS[7]["prompt"]], "ngram", num_speculative_tokens=2, sampling=mt.Sampling(temperature=0.6),
        max_new_tokens=64, ignore_eos=True, seed=[ex.seed_of("p7", 0)],
    )[0]  # fmt: skip
    assert row["seed"] == ex.seed_of("p7", 0) and row["ids"] == found.tokens
    assert row["rounds"] == found.target_calls - 1
    assert sum(row["drafted"]) == found.num_drafted and sum(row["accepted"]) == found.num_accepted
    assert row["accepted"][0] / row["drafted"][0] == found.acceptance_by_position[0]


def test_a_killed_run_goes_on_and_ends_with_the_same_rows(toy, tmp_path, monkeypatch):
    arms = ARMS[:3]
    expected = ex.run(toy, arms, **FEW, out=tmp_path / "whole.jsonl")
    made, decode = [], runs._decode

    def dies(target, arm, drafter, texts, max_new_tokens):
        if len(made) == 4:
            raise KeyboardInterrupt
        made.append(arm.name)
        return decode(target, arm, drafter, texts, max_new_tokens)

    out = tmp_path / "killed.jsonl"
    monkeypatch.setattr(runs, "_decode", dies)
    with pytest.raises(KeyboardInterrupt):
        ex.run(toy, arms, **FEW, out=out)
    out.write_bytes(out.read_bytes()[:-40])  # as if the machine had died while the last batch was written
    made.clear()
    monkeypatch.setattr(runs, "_decode", lambda *args: made.append(args[1].name) or decode(*args))
    rows = ex.run(toy, arms, **FEW, out=out)
    assert rows == expected and ex.read(out)[1] == expected
    assert made == ["rejection"] * 3 + ["R3"] * 3  # one batch again, then what was missing
    made.clear()
    assert ex.run(toy, arms, **FEW, out=out) == expected and made == []


def test_arms_may_be_added_but_not_changed(toy, tmp_path):
    out = tmp_path / "rows.jsonl"
    ex.run(toy, ARMS[:2], **FEW, out=out)
    rows = ex.run(toy, ARMS[:3], **FEW, out=out)
    assert [row["arm"] for row in rows] == [name for name in ("off", "rejection", "R3") for _ in range(5)]
    with pytest.raises(ValueError, match="another arm 'rejection': its k is 2, this run's 3"):
        ex.run(toy, [replace(ARMS[1], k=3)], **FEW, out=out)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"max_new_tokens": 13}, "max_new_tokens is 12, this run's 13"),
        ({"seeds": (1,)}, r"seeds is \[0\]"),
        ({"prompts": PROMPTS[:4]}, "its prompts is"),
    ],
)
def test_a_file_of_another_run_is_refused_and_left_alone(toy, tmp_path, changed, said):
    out = tmp_path / "rows.jsonl"
    ex.run(toy, ARMS[:1], **FEW, out=out)
    before = out.read_bytes()
    with pytest.raises(ValueError, match=said):
        ex.run(toy, ARMS[:1], **FEW | changed, out=out)
    with pytest.raises(ValueError, match="its target is 'toy'"):
        ex.run(mt.load("toy-beijing"), ARMS[:1], **FEW, out=out)
    assert out.read_bytes() == before


def test_a_file_of_another_seed_scheme_is_shown_but_not_continued(toy, tmp_path):
    out = tmp_path / "rows.jsonl"
    ex.run(toy, ARMS[:1], **FEW, out=out)
    header, rows = ex.read(out)
    assert header["seed_scheme"] == SEED_SCHEME and SEED_SCHEME in ex.markdown(ex.summary(header, rows))
    del header["seed_scheme"]  # as files were before it was recorded
    out.write_text("".join(json.dumps(line) + "\n" for line in [header, *rows]))
    before = out.read_bytes()
    with pytest.raises(ValueError, match=r"its seed_scheme is 'SeedSequence\(\[seed \+ sequence, role\]\)'"):
        ex.run(toy, ARMS[:1], **FEW, out=out)
    assert out.read_bytes() == before
    assert EARLIER_SEED_SCHEME in ex.markdown(ex.summary(*ex.read(out)))


def test_a_file_of_something_else_is_refused_and_left_alone(toy, tmp_path):
    thesis = tmp_path / "thesis.jsonl"
    thesis.write_text('{"dear": "reader"}\n')
    with pytest.raises(ValueError, match="its first line is no header"):
        ex.run(toy, ARMS[:1], **FEW, out=thesis)
    assert thesis.read_text() == '{"dear": "reader"}\n'
    with pytest.raises(ValueError, match="ends in .jsonl"):
        ex.run(toy, ARMS[:1], **FEW, out=tmp_path / "rows.jsonl.gz")


def test_packed_files_read_alike_and_damaged_ones_say_so(whole, tmp_path):
    out = whole[0]
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(out.read_bytes()))
    assert ex.read(packed) == ex.read(out)
    packed.write_bytes(packed.read_bytes()[:-30])
    with pytest.raises(ValueError, match="is damaged"):
        ex.read(packed)
    half = tmp_path / "half.jsonl"
    half.write_bytes(out.read_bytes()[:-5])
    assert ex.read(half)[1] == whole[1][:-1]
    lines = out.read_bytes().split(b"\n")
    half.write_bytes(b"\n".join([lines[0], lines[1][:50], *lines[2:]]))
    with pytest.raises(ValueError, match="line 2 is no JSON"):
        ex.read(half)


def test_a_run_that_fails_before_its_first_rows_leaves_nothing(toy, tmp_path, monkeypatch):
    def fails(*args):
        raise ValueError("this drafter has no more heads")

    with monkeypatch.context() as patched:
        patched.setattr(runs, "_decode", fails)
        with pytest.raises(ValueError, match="no more heads"):
            ex.run(toy, ARMS[:1], **FEW, out=tmp_path / "new" / "rows.jsonl")
    assert list(tmp_path.iterdir()) == []
    ex.run(toy, ARMS[:1], **FEW | {"max_new_tokens": 5}, out=tmp_path / "new" / "rows.jsonl")  # the corrected command
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["rows.jsonl"]


def test_the_header_names_the_weights():
    nano = mt.load("nano")
    arms = ex.repetition_case()
    found = runs.header(nano, arms, PROMPTS, (0,), 8)
    path = arms[1].weights(nano)
    assert found["drafters"] == {"mtp": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert path.parts[-3:] == ("nano", "mtp", "model.safetensors")
    assert found["fingerprint"] == nano.fingerprint() and found["dtype"] == "float32"
    assert "/" not in json.dumps(found)  # no path of this machine


# -- Arms -------------------------------------------------------------------------------------------------------------


def test_the_arms_of_the_case():
    arms = {arm.name: arm for arm in ex.repetition_case()}
    suspects = ["rejection", "greedy", "R1", "R3", "R6", "R13", "R14b"]
    assert list(arms) == [
        "off", *suspects, *(f"random-{name}" for name in suspects if name != "R6"), "off-T0", "on-T0",
    ]  # fmt: skip
    assert {arm.k for arm in arms.values()} == {2}
    assert {arm.temperature for name, arm in arms.items() if not name.endswith("T0")} == {0.6}
    assert arms["R3"].way == arms["random-R3"].way != arms["R1"].way
    assert "R6" not in {arm.name for arm in ex.repetition_case("ngram")}


def test_an_arm_of_a_row_is_the_arm(whole):
    for arm in (*ARMS, ex.Arm("x", "mtp-stack", rule="relaxed", rule_params={"delta": 0.2})):
        assert ex.Arm.of_row(json.loads(json.dumps(arm.as_dict()))) == arm
    assert ex.Arm("x", "mtp", {"weights": "/somewhere/mine"}).as_dict()["drafter_options"] == {"weights": "mine"}


def test_a_bug_that_needs_a_sampled_drafter_gets_one():
    nano = mt.load("nano")
    arms = {arm.name: arm for arm in ex.repetition_case()}
    assert arms["R6"].load(nano).temperature == 0.6 and arms["R1"].load(nano).temperature == 0
    options = arms["R14b"].options(arms["R14b"].load(nano))
    assert options["rule"] == "rejection" and callable(options["cache_factory"])
    stack = ex.Arm("stack", "mtp-stack").load(nano)
    assert stack.head.settings["num_layers"] == 3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ex.Arm("a,b"), "without commas"),
        (lambda: ex.Arm("x", "magic"), "known: random, ngram"),
        (lambda: ex.Arm("x", "mtp", bug="R99"), "unknown bug 'R99'; known: R1"),
        (lambda: ex.Arm("x", bug="R1"), "needs a drafter"),
        (lambda: ex.Arm("x", "mtp", bug="R1b"), "replaces the whole loop"),
        (lambda: ex.Arm("x", temperature=-1), "temperature=-1"),
        (lambda: ex.Arm("x", k=65), "num_speculative_tokens=65"),
        (lambda: ex.Arm("x", "mtp", rule="magic"), "unknown verify rule"),
        (lambda: ex.Arm("x", "mtp", rule_params={"delta": 1}), "has no parameter"),
        (lambda: chosen(ARMS, ["off", "of"]), "unknown arm 'of'; known: off, rejection"),
    ],
)
def test_arms_that_cannot_be(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_runs_that_cannot_be(toy, tmp_path):
    out = tmp_path / "rows.jsonl"
    for said, changed in {
        "'off' occurs twice": {"arms": [ARMS[0], ARMS[0]]},
        "'p0' occurs twice": {"prompts": [PROMPTS[0], PROMPTS[0]]},
        "no prompts": {"prompts": []},
        "no arms": {"arms": []},
        "no seeds": {"seeds": ()},
        "batch=0": {"batch": 0},
        "max_new_tokens=0": {"max_new_tokens": 0},
        "leaves room for": {"max_new_tokens": 1 << 16},
        "no weights of a 'mtp' drafter": {"arms": [ex.Arm("x", "mtp")]},
    }.items():
        with pytest.raises(ValueError, match=said):
            ex.run(toy, **{"arms": ARMS[:1], **FEW, "out": out} | changed)
    assert not out.exists()


# -- The random drafter -----------------------------------------------------------------------------------------------


def test_a_random_drafter_says_every_token_as_often_and_no_more_than_asked(toy):
    drafter = RandomDrafter(toy)
    uniforms = torch.rand(20_000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    draft = drafter.propose(torch.full((20_000,), 2), mt.Sampling(), uniforms)
    assert draft.probs is None
    counts = torch.bincount(draft.tokens.flatten(), minlength=toy.vocab_size).tolist()
    assert stats.chi_square(counts, [1 / toy.vocab_size] * toy.vocab_size).p_value > 1e-3
    ragged = drafter.propose(torch.tensor([2, 0, 1]), mt.Sampling(), torch.tensor([[0.0, 0.999]] * 3))
    assert ragged.tokens.tolist() == [[0, 16], [-1, -1], [0, -1]]


# -- Summary ----------------------------------------------------------------------------------------------------------


def test_a_lossless_rule_does_not_repeat_more_whoever_drafts(whole):
    found = whole[2]
    for name in ("rejection", "random-rejection"):
        arm = arm_of(found, name)
        assert arm["verdict"].startswith("no difference seen; a mean difference of 0.0")
        assert all(cell["p_adjusted"] > 0.05 for cell in arm["differences"].values())
    swap = next(one for one in found["swaps"] if one["other"] == "rejection")
    assert swap["verdict"].startswith("no difference seen")


def test_a_coin_that_is_always_0_repeats_more_with_a_drafter_that_copies(whole):
    """The negative control: the same test, the same drafter, one broken rule."""
    found = whole[2]
    arm = arm_of(found, "R3")
    assert arm["verdict"].startswith("repeats more: seq-rep-4 +0.2")
    assert "repeated sentences +" in arm["verdict"] and "points" in arm["verdict"]
    assert arm["acceptance_by_position"][0]["mean"] > 0.9  # it accepts what it is given
    assert arm_of(found, "random-R3")["verdict"].startswith("repeats less")  # whoever drafts decides
    assert next(one for one in found["swaps"] if one["other"] == "R3")["verdict"].startswith("repeats less")


def test_greedy_arms_are_compared_text_by_text(whole):
    arm = arm_of(whole[2], "on-T0")
    assert arm["same_texts"] == {"prompts": 40, "different": 0, "first_difference": None}
    assert arm["verdict"] == "the same text on all 40 prompts" and arm["against"] == "off-T0"
    assert arm_of(whole[2], "off")["verdict"] == "the baseline"
    header, rows = ex.read(whole[0])
    rows = [dict(row) for row in rows if row["temperature"] == 0]
    changed = next(row for row in rows if row["arm"] == "on-T0")
    changed["ids"] = [*changed["ids"][:30], (changed["ids"][30] + 1) % 17, *changed["ids"][31:]]
    arm = arm_of(ex.summary(header, rows), "on-T0")
    assert arm["same_texts"] == {"prompts": 40, "different": 1, "first_difference": 31}
    assert arm["verdict"].startswith("the same text on 39 of 40 prompts, the others part at token 31 or later; no diff")


def test_a_verifier_that_ignores_the_temperature_says_what_greedy_decoding_says(toy, tmp_path):
    arms = [ARMS[0], ex.Arm("greedy", "ngram", rule="greedy"), ARMS[1], ARMS[-2]]
    ex.run(toy, arms, PROMPTS[:20], tmp_path / "rows.jsonl", max_new_tokens=32)
    found = ex.summary(*ex.read(tmp_path / "rows.jsonl"))
    zero = {name: arm_of(found, name)["as_at_zero"] for name in ("greedy", "rejection", "off")}
    assert zero["greedy"]["equal"] == zero["greedy"]["begin_alike"] > 5
    assert zero["rejection"]["begin_alike"] > 5 and zero["rejection"]["equal"] == zero["off"]["equal"] == 0
    assert arm_of(found, "off-T0")["as_at_zero"] is None
    assert "begin as at temperature 0 are wholly so" in ex.markdown(found)


def test_numbers_are_those_of_the_rows(whole):
    header, rows = ex.read(whole[0])
    found = ex.summary(header, rows)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    values = {name: [ex.MEASURES["seq_rep_4"](row) for row in rows if row["arm"] == name] for name in ("off", "R3")}
    arm = arm_of(found, "R3")
    cell = arm["measures"]["seq_rep_4"]
    assert cell["mean"] == pytest.approx(np.mean(values["R3"])) and cell["low"] < cell["mean"] < cell["high"]
    difference = arm["differences"]["seq_rep_4"]
    assert difference["mean"] == pytest.approx(np.mean(values["R3"]) - np.mean(values["off"]))
    loops = arm["measures"]["tail_loop"]
    assert loops["interval"] == "exact"
    assert (loops["low"], loops["high"]) == stats.exact_interval(round(40 * loops["mean"]), 40)
    mine = [row for row in rows if row["arm"] == "R3"]
    rounds = sum(row["rounds"] for row in mine)
    assert arm["mean_acceptance_length"]["mean"] == pytest.approx(sum(len(row["ids"]) - 1 for row in mine) / rounds)
    tests = [cell for one in found["arms"] if one["differences"] for cell in one["differences"].values()]
    assert [cell["p_adjusted"] for cell in tests] == stats.holm([cell["p_value"] for cell in tests])
    assert difference["detectable"] == stats.detectable_difference(difference["spread"], 40, 0.05 / len(tests))


def planted(shift: float, seed: int, prompts: int = 40, copies: int = 1) -> list[dict]:
    """Rows whose texts repeat as numbers say: one sentence said again with a given probability. No model is needed."""
    source, rows = np.random.default_rng(seed), []
    for arm, add in ((ex.Arm("off"), 0.0), (ex.Arm("rejection", "ngram"), shift)):
        for i in range(prompts):
            again = source.random(7) < 0.2 + add
            text = " ".join(f"Sentence {np.cumsum(~again)[j]}." for j in range(7))
            ids = source.integers(0, 1000, 16).tolist()
            row = {"prompt": f"p{i}", "kind": "x", "rounds": 8, "drafted": [8, 8], "accepted": [4, 2]}
            rows += [{**arm.as_dict(), **row, "seed": copy, "text": text, "ids": ids} for copy in range(copies)]
    return rows


HEADER = {"target": "planted", "max_new_tokens": 16}


def test_too_few_pairs_say_so():
    """Three prompts, like two outputs an arm, cannot show a difference of any size."""
    found = arm_of(ex.summary(HEADER, planted(0.8, 0, prompts=3)), "rejection")
    assert found["verdict"].startswith("no difference seen")
    assert "so few pairs could not have shown any in tail loops" in found["verdict"]
    assert all(cell["detectable"] is None or cell["detectable"] <= 1 for cell in found["differences"].values())


def test_a_planted_difference_is_found_and_its_absence_is_not():
    found = [arm_of(ex.summary(HEADER, planted(0.3, seed)), "rejection") for seed in range(5)]
    assert all(one["verdict"].startswith("repeats more: repeated sentences +") for one in found)
    found = [arm_of(ex.summary(HEADER, planted(0.0, seed)), "rejection") for seed in range(10)]
    assert sum(one["verdict"].startswith("repeats") for one in found) <= 1
    assert all(
        "would have been, with power 0.8" in one["verdict"] for one in found if "no difference" in one["verdict"]
    )


def test_several_seeds_of_a_prompt_do_not_count_as_several_prompts():
    once, copied = (ex.summary(HEADER, planted(0.1, 3, copies=copies)) for copies in (1, 4))
    a, b = (arm_of(one, "rejection")["differences"]["sentence_repeats"] for one in (once, copied))
    assert (a["p_value"], a["low"], a["pairs"]) == (b["p_value"], b["low"], b["pairs"] == 40 and 40)
    assert arm_of(copied, "off")["measures"]["tail_loop"]["interval"] == "bootstrap"


def test_the_power_statement_holds():
    """Experiments in which the difference has the size that one of them says it would have seen: most do see it."""
    arm = arm_of(ex.summary(HEADER, planted(0.0, 0)), "rejection")
    detectable = arm["differences"]["sentence_repeats"]["detectable"]
    seen, level = 0, 0.05 / 3
    source = np.random.default_rng(1)
    spread = arm["differences"]["sentence_repeats"]["spread"]
    for _ in range(300):
        seen += scipy_stats.ttest_1samp(source.normal(detectable, spread, 40), 0).pvalue < level
    assert seen / 300 == pytest.approx(0.8, abs=0.07)


def test_unfinished_files_are_summed_up_as_far_as_they_go(whole):
    header, rows = ex.read(whole[0])
    mine = [row for row in rows if row["arm"] in ("off", "rejection")]
    found = ex.summary(header, mine[:40] + mine[40:50])
    assert arm_of(found, "rejection")["differences"]["seq_rep_4"]["pairs"] == 10
    lonely = arm_of(ex.summary(header, mine[40:]), "rejection")
    assert lonely["differences"] is None and lonely["verdict"] == "nothing to compare with"
    with pytest.raises(ValueError, match="no rows"):
        ex.summary(header, [])
    with pytest.raises(ValueError, match="one prompt only"):
        ex.summary(header, mine[:1])
    with pytest.raises(ValueError, match="63 tokens instead of 64"):
        ex.summary(header, [{**mine[0], "ids": mine[0]["ids"][:-1]}, *mine[1:40]])


def test_the_tables_show_every_arm(whole):
    shown = ex.markdown(whole[2])
    for arm in ARMS:
        assert f"| {arm.name} |" in shown
    assert "- **R3**: repeats more" in shown and "- **random-R3** against **R3**: repeats less" in shown
    assert "95% intervals" in shown and "nan" not in shown


def test_a_sentence_on_top_says_what_was_found(whole):
    first = ex.markdown(whole[2]).splitlines()[0]
    assert "lossless speculation, no difference was seen in any of" in first and first.count(".") == 1
    assert "R3" in first.split("repeats more in")[1].split("and less")[0]
    header, rows = ex.read(whole[0])
    alone = ex.summary(header, [row for row in rows if row["arm"] == "off"])
    assert ex.markdown(alone).startswith("**Nothing to compare")


# -- Prompts ----------------------------------------------------------------------------------------------------------


def test_prompts_of_every_kind_in_turn():
    for name, kinds in (("smollm2", 10), ("nano", 4)):
        found = ex.prompts_for(name, 200)
        assert len({one["id"] for one in found}) == 200
        assert len({one["kind"] for one in found[:kinds]}) == kinds
        assert ex.prompts_for(name, 20) == found[:20]
    assert len(ex.prompts_for("smollm2", 400)) == 400  # held-out ones first, then those of training
    with pytest.raises(ValueError, match="prompts=0"):
        ex.prompts_for("nano", 0)
    with pytest.raises(ValueError, match="there are 3612"):
        ex.prompts_for("smollm2", 5000)


# -- The command ------------------------------------------------------------------------------------------------------


def command(*words: str):
    return CliRunner().invoke(cli.app, ["experiment", *words])


def test_the_command_runs_resumes_and_shows(tmp_path):
    out = str(tmp_path / "rows.jsonl")
    words = ["--prompts", "3", "--tokens", "8", "--arms", "off, rejection,R6", "--out", out]
    result = command(*words, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [one["arm"] for one in found["arms"]] == ["off", "rejection", "R6"] and found["target"] == "nano"
    before = (tmp_path / "rows.jsonl").read_bytes()
    assert json.loads(command(*words, "--json").stdout) == found
    assert (tmp_path / "rows.jsonl").read_bytes() == before
    assert json.loads(command("--show", out, "--json").stdout) == found
    shown = command("--show", out).stdout
    assert "rejection" in shown and "no difference seen" in shown and "seq-rep-4" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--arms", "of"), "unknown arm 'of'"),
        (("--arms", ""), "no arms"),
        (("--drafter", "magic"), "unknown drafter 'magic'"),
        (("--prompts", "0"), "--prompts 0: use 2 or more"),
        (("--prompts", "1"), "--prompts 1: use 2 or more"),
        (("--tokens", "0"), "max_new_tokens=0"),
        (("--out", "rows.json"), "ends in .jsonl"),
        (("--out", "."), "ends in .jsonl"),
        (("--seeds", "0"), "no seeds"),
        (("--tokens", "5000"), "leaves room for"),
        (("--show", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_the_command_refuses_bad_input(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    result = command(*words)
    assert isinstance(result.exception, (ValueError, OSError)) and said in str(result.exception)
    assert list(tmp_path.iterdir()) == []


# -- What is stored ---------------------------------------------------------------------------------------------------


def test_the_stored_rows_say_what_their_readme_says():
    folder = Path(__file__).resolve().parents[1] / "data" / "traces"
    header, rows = ex.read(folder / "repetition-nano.jsonl.gz")
    assert header["fingerprint"] == mt.load("nano").fingerprint()
    counts = Counter(row["arm"] for row in rows)
    assert list(counts) == [arm.name for arm in ex.repetition_case()] and set(counts.values()) == {200}
    some = ("off", "rejection", "greedy", "R3", "off-T0", "on-T0")
    found = ex.summary(header, [row for row in rows if row["arm"] in some])
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for name in ("off", "rejection", "greedy"):
        assert f"{arm_of(found, name)['measures']['seq_rep_4']['mean']:.3f}" in readme
    assert arm_of(found, "rejection")["verdict"].startswith("no difference seen")
    assert arm_of(found, "greedy")["verdict"].startswith("repeats more")
    assert arm_of(found, "greedy")["as_at_zero"] == {"begin_alike": 189, "equal": 189}
    assert arm_of(found, "greedy")["measures"]["tail_loop"]["mean"] * 200 == 13
    assert arm_of(found, "R3")["verdict"].startswith("repeats more: seq-rep-4 +0.031")
    assert arm_of(found, "on-T0")["verdict"] == "the same text on all 200 prompts"


def test_a_slice_of_the_stored_rows_can_be_made_again(tmp_path):
    """A prompt's seed is its own, so a few prompts give the same texts as all of them, but for rounding."""
    nano, few = mt.load("nano"), ex.prompts_for("nano", 4)
    folder = Path(__file__).resolve().parents[1] / "data" / "traces"
    stored = {(row["arm"], row["prompt"]): row for row in ex.read(folder / "repetition-nano.jsonl.gz")[1]}
    rows = ex.run(
        nano, ex.chosen(ex.repetition_case(), ["rejection", "R6"]), few, tmp_path / "few.jsonl", max_new_tokens=8
    )
    assert all(row["seed"] == stored[row["arm"], row["prompt"]]["seed"] for row in rows)
    assert sum(row["ids"] == stored[row["arm"], row["prompt"]]["ids"][:8] for row in rows) >= 7
