"""What is stored: the READMEs say what lies there, it is small, and every folder of weights loads for its target."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import mtp_tutorial as mt

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "data"
WEIGHTS = {
    target: sorted(
        p.parent.name for p in (DATA / target).glob("*/config.json") if "drafter" in json.loads(p.read_text())
    )
    for target in ("nano", "smollm2")
}


def test_the_tables_of_the_readmes_are_those_of_the_files():
    command = [sys.executable, str(ROOT / "tools" / "data_tables.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


def test_weights_are_small():
    stored = sum(p.stat().st_size for name in ("nano", "smollm2") for p in (DATA / name).rglob("*") if p.is_file())
    assert stored < 60e6


def test_the_drafters_that_are_promised_are_there():
    assert {"draft", "eagle", "gated_lora", "medusa", "mtp", "mtp-one-step", "mtp-stack"} <= set(WEIGHTS["nano"])
    assert {"draft", "medusa", "mtp"} <= set(WEIGHTS["smollm2"])


@pytest.mark.parametrize("name", WEIGHTS["nano"])
def test_nanos_drafters_load_and_are_right_now_and_then(name):
    target = mt.load("nano")
    drafter = mt.load_drafter(name.partition("-")[0], target, weights=DATA / "nano" / name)
    found = mt.generate(target, "[\n  {", drafter, sampling=mt.Sampling(temperature=0), max_new_tokens=40)
    assert found.num_accepted > 5


@pytest.mark.smollm2
@pytest.mark.parametrize("name", WEIGHTS["smollm2"])
def test_smollm2s_drafters_load_over_all_tokens_and_over_the_frequent_ones(smollm2, name):
    for frequent in (None, 1000):
        drafter = mt.load_drafter(name, smollm2, frequent=frequent)
        found = mt.generate(
            smollm2, "Count from one to twenty.", drafter, sampling=mt.Sampling(temperature=0), max_new_tokens=24
        )
        assert found.num_accepted > 0


def acceptance(target: str) -> list[dict]:
    path = DATA / target / "acceptance.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def overall(target: str, **wanted) -> dict:
    found = [
        row
        for row in acceptance(target)
        if row["kind"] == "all kinds" and all(row[name] == value for name, value in wanted.items())
    ]
    assert len(found) == 1
    return found[0]


def length(row: dict) -> float:
    return row["tokens"] / row["rounds"]


#: Measured behind n-gram look-up at T = 0 and 0.6, as its README says: blind to the last token, no lm_head of its own.
BEHIND = {("smollm2", "medusa")}


@pytest.mark.parametrize("temperature", [0, 0.6, 1])
@pytest.mark.parametrize("target", ["nano", "smollm2"])
def test_each_trained_drafter_was_measured_ahead_of_ngram(target, temperature):
    settings = {"drafting": "greedy", "temperature": temperature, "k": 4}
    base = length(overall(target, drafter="ngram", **settings))
    measured = {row["drafter"] for row in acceptance(target)} - {"ngram"}
    assert {"mtp", "draft"} <= measured
    for name in measured:
        ahead = length(overall(target, drafter=name, **settings)) > base
        assert ahead or ((target, name) in BEHIND and temperature < 1), name
        assert not (ahead and temperature == 0 and (target, name) in BEHIND), f"{name} is ahead now: say so"


def test_unrolled_training_holds_up_at_positions_2_and_3():
    settings = {"drafting": "greedy", "temperature": 0, "k": 4}
    unrolled, one_step = (overall("nano", drafter=name, **settings) for name in ("mtp", "mtp-one-step"))
    for position in (1, 2):
        assert unrolled["accepted"][position] / unrolled["rounds"] > one_step["accepted"][position] / one_step["rounds"]
