"""The museum: each broken twin shows the numbers that were predicted for it, and each is caught by an instrument."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from helpers import P, doubles, prefix_rows
from typer.testing import CliRunner

import mtp_tutorial as mt
from mtp_tutorial import cli
from mtp_tutorial.lab import bench, instruments
from mtp_tutorial.lab.exact import (
    drafts,
    output_law,
    plain_law,
    separate_noise_law,
    shared_noise_law,
    table,
    total_variation,
)
from mtp_tutorial.lab.museum import EXHIBITS, NOT_BUGS, article_law, article_round, get
from mtp_tutorial.lab.museum.engine_bugs import ArgmaxOfSoft
from mtp_tutorial.lab.stats import chi_square
from mtp_tutorial.models import toys
from mtp_tutorial.verify import RULES, Rule

NAMES = list(EXHIBITS)
RULE_NAMES = [name for name, exhibit in EXHIBITS.items() if exhibit.rule is not None]

#: The mutation table: which instruments of this test file fail when the exhibit is switched in.
CAUGHT_BY = {
    "R1": ["law by enumeration", "samples against the law"],
    "R1b": ["law by enumeration"],
    "R2": ["law by enumeration"],
    "R3": ["law by enumeration", "samples against the law"],
    "R4": ["law by enumeration"],
    "R5": ["law by enumeration"],
    "R6": ["law by enumeration", "samples against the law"],
    "R7": ["law by enumeration"],
    "R8": ["law by enumeration"],
    "R9": ["law by enumeration"],
    "R10": ["law by enumeration"],
    "R11": ["law by enumeration"],
    "R12": ["law by enumeration"],
    "R13": ["law by enumeration"],
    "R14a": ["rows against recomputed", "greedy against plain", "cache against a prefill"],
    "R14b": ["rows against recomputed", "greedy against plain", "cache against a prefill"],
    "R15": ["rows against recomputed"],
    "R16": ["law by enumeration"],
    "R17": ["law by enumeration"],
    "R18": ["law by enumeration"],
    "R19": ["law by enumeration"],
    "next_row": ["law by enumeration", "greedy against plain"],
    "shifted_rows": ["law by enumeration", "greedy against plain"],
    "drafter_cache_short": ["drafts against scratch"],
    "stale_hidden": ["drafts against scratch"],
    "uniform_reused": ["uniforms used twice"],
    "reseeded_generator": ["uniforms used twice"],
    "nan_row": ["NaN passed over"],
    "past_eos": ["tokens after the end"],
    "filter_order": ["rows against recomputed"],
}


# -- The collection ---------------------------------------------------------------------------------------------------


def test_the_museum_is_complete():
    assert len(EXHIBITS) >= 25
    assert {f"R{i}" for i in range(1, 20) if i != 14} | {"R1b", "R14a", "R14b"} <= set(NAMES)
    assert EXHIBITS["R16"].rule is RULES["relaxed"] and EXHIBITS["R17"].rule is RULES["greedy"]
    assert set(NOT_BUGS) == {"L1", "L2", "L3", "L4"}


@pytest.mark.parametrize("name", NAMES)
def test_an_exhibit_says_what_it_is(name):
    exhibit = EXHIBITS[name]
    assert exhibit.name == name and (exhibit.rule is not None or exhibit.engine_bug is not None)
    for text in (exhibit.title, exhibit.story, exhibit.report, exhibit.fix):
        assert text.strip() == text and text
    assert len(exhibit.story.split()) < 80  # reading one takes a minute
    assert "def " in exhibit.source() or "class " in exhibit.source()
    assert exhibit.rule is None or isinstance(exhibit.rule, Rule)


def test_an_unknown_exhibit_is_refused_with_the_known_names():
    with pytest.raises(ValueError, match="no exhibit 'R99'; it has: R1, R1b"):
        get("R99")


@pytest.mark.parametrize("name", ["R1b", "R11"])
def test_a_fault_with_its_own_loop_cannot_be_switched_in(name):
    with pytest.raises(ValueError, match=f"exhibit {name} replaces the loop itself"):
        EXHIBITS[name].options(None)


# -- The numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_twin_shows_what_was_predicted(name):
    shown = EXHIBITS[name].demonstrate()
    assert len(shown.labels) == len(shown.right) == len(shown.wrong)
    assert max(abs(a - b) for a, b in zip(shown.right, shown.wrong, strict=True)) > 0.01
    if shown.predicted is not None:
        assert shown.as_predicted, (shown.wrong, shown.predicted)
    if shown.what.startswith("law of the first token"):
        assert math.isclose(sum(shown.wrong), 1, abs_tol=1e-12) and math.isclose(sum(shown.right), 1, abs_tol=1e-12)
    if EXHIBITS[name].lossless:
        assert shown.labels == ("acceptance rate",) and shown.wrong < shown.right


def test_a_prediction_that_is_off_is_noticed():
    shown = EXHIBITS["R1"].demonstrate()
    assert not replace(shown, predicted=(0.751, 0.149, 0.1)).as_predicted
    assert replace(shown, predicted=None).as_predicted is None


def test_the_table_over_all_rules_keeps_the_claims():
    rows = table()
    assert {row["rule"] for row in rows} == set(RULES)
    for name, rule in RULES.items():
        worst = max(row["total_variation"] for row in rows if row["rule"] == name)
        assert (worst < 1e-12) == rule.lossless
        assert rule.lossless or worst > 0.05


@pytest.mark.parametrize("name", [name for name in RULE_NAMES if EXHIBITS[name].rule.lossless_at_zero])
def test_a_twin_that_is_right_at_temperature_zero_is_so(name):
    soft = prefix_rows(8, 3)
    # R6 says another token than the one that was drawn, so for the enumeration its rows may follow the place only.
    row = (lambda prefix: soft((0,) * len(prefix))) if name == "R6" else soft
    one_hot = lambda prefix: torch.nn.functional.one_hot(row(prefix).argmax(), 3).double()  # noqa: E731
    for way, (_, draft) in drafts().items():
        law = output_law(EXHIBITS[name].rule, draft, one_hot)
        assert total_variation(law, plain_law(one_hot, 3)) < 1e-12, way


# -- Loops of their own -----------------------------------------------------------------------------------------------


def test_the_article_to_the_letter_does_what_its_law_says():
    rows, k = {(): P, (0,): (0.2, 0.7, 0.1)}, 2
    target = lambda prefix: doubles(rows.get(prefix, (0.6, 0.3, 0.1)))  # noqa: E731
    guess = lambda prefix: len(prefix) % 2  # noqa: E731
    law = article_law(target, guess, k, length=2)
    assert math.isclose(sum(law.values()), 1, abs_tol=1e-12)
    generator = torch.Generator().manual_seed(3)
    counts = dict.fromkeys(law, 0)
    for _ in range(8_000):
        said = ()
        while len(said) < 2:
            draft, prefix = [], said
            for _ in range(k):
                draft.append(guess(prefix))
                prefix = (*prefix, draft[-1])
            seen = [target((*said, *draft[:i])) for i in range(k)]
            coins = torch.rand(k + 1, generator=generator, dtype=torch.float64).tolist()
            said = (*said, *article_round(draft, seen, coins[:k], coins[k]))
        counts[said[:2]] += 1
    assert chi_square(counts, law).p_value > 1e-3
    assert chi_square(counts, plain_law(target, 2)).p_value < 1e-9  # and is not the right law


def test_noise_of_its_own_gives_the_right_law_and_shared_noise_gives_what_races_bring():
    p, q = doubles([0.4, 0.3, 0.1, 0.2]), doubles([0.3, 0.05, 0.6, 0.05])
    torch.testing.assert_close(separate_noise_law(p, q), p, atol=1e-14, rtol=0)
    law = shared_noise_law(p, q)
    n, generator = 200_000, torch.Generator().manual_seed(7)
    clocks = torch.empty(n, 4, dtype=torch.float64).exponential_(generator=generator)
    drafted, recovered = (clocks / q).argmin(1), (clocks / (p - q).clamp_min(0)).argmin(1)
    kept = torch.rand(n, generator=generator, dtype=torch.float64) < (p / q)[drafted]
    counts = torch.where(kept, drafted, recovered).bincount(minlength=4).tolist()
    assert chi_square(counts, law.tolist()).p_value > 1e-3
    assert chi_square(counts, p.tolist()).p_value < 1e-9


@pytest.mark.parametrize("q", [(0.4, 0.3, 0.1, 0.2), (1.0, 0.0, 0.0, 0.0), (0.25, 0.25, 0.25, 0.25)])
def test_shared_noise_always_makes_a_distribution(q):
    law = shared_noise_law((0.4, 0.3, 0.1, 0.2), q)
    assert math.isclose(float(law.sum()), 1, abs_tol=1e-12) and bool((law >= 0).all())


def test_rows_that_are_no_distribution_are_refused():
    with pytest.raises(ValueError, match="rows of one size"):
        shared_noise_law((0.5, 0.5), (1.0,))
    with pytest.raises(ValueError, match="q holds a row that is no distribution"):
        shared_noise_law((0.5, 0.5), (0.9, 0.9))


# -- The mutation table -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [name for name, rule in RULES.items() if rule.lossless])
def test_the_right_code_is_caught_by_no_instrument(rule):
    found = instruments.examine(instruments.right(rule))
    assert len(found) == len(instruments.INSTRUMENTS)
    assert [one for one in found if one.caught] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_exhibit_is_caught(name):
    found = instruments.examine(instruments.subject(EXHIBITS[name]), CAUGHT_BY[name])
    assert found and all(one.caught for one in found), found


def test_the_mutation_table_names_every_exhibit_and_uses_every_instrument():
    assert set(CAUGHT_BY) == set(EXHIBITS)
    assert {one for names in CAUGHT_BY.values() for one in names} == set(instruments.INSTRUMENTS)


def test_faults_that_only_cost_speed_leave_the_law_alone():
    for name, exhibit in EXHIBITS.items():
        if exhibit.lossless:
            found = instruments.examine(
                instruments.subject(exhibit), ["law by enumeration", "greedy against plain", "rows against recomputed"]
            )
            assert not any(one.caught for one in found), name


# -- In the engine ----------------------------------------------------------------------------------------------------


def test_an_argmax_draft_hands_over_its_soft_distribution():
    target = toys.random_toy(5, order=2, seed=1)
    drafter = mt.load_drafter("draft", target, model=toys.random_toy(5, order=2, seed=2), temperature=0.6)
    options = EXHIBITS["R6"].options(drafter)
    assert isinstance(options["drafter"], ArgmaxOfSoft)
    seen = []

    class Keep(mt.Hooks):
        def observe(self, sequences, draft, target_probs, uniforms, verdict):
            seen.append(draft)

    mt.generate(target, [1, 2], **options, hooks=Keep(), num_speculative_tokens=3, max_new_tokens=20)
    drafts = [draft for draft in seen if draft.tokens.shape[1]]
    assert drafts
    for draft in drafts:
        assert torch.equal(draft.tokens, draft.probs.argmax(-1))
        assert float(draft.probs.amax(-1).min()) < 1  # soft, not one-hot
    assert "choice" not in vars(drafter)  # the drafter is as it was


def test_faults_that_need_another_drafter_say_so():
    target = toys.random_toy(5, order=2, seed=1)
    with pytest.raises(ValueError, match="R6 needs a drafter with logits of its own"):
        EXHIBITS["R6"].options(mt.load_drafter("ngram", target))
    for name in ("drafter_cache_short", "stale_hidden", "uniform_reused", "R6"):
        with pytest.raises(ValueError, match="this fault lies in the drafter: pass one that"):
            EXHIBITS[name].options(None)


# -- The command line -------------------------------------------------------------------------------------------------


def run(*words):
    return CliRunner().invoke(cli.app, list(words))


def test_rules_lists_every_rule_with_its_distance():
    found = json.loads(run("rules", "--json").stdout)
    assert [one["rule"] for one in found] == list(RULES)
    for one in found:
        assert (one["total_variation"] < 1e-12) == one["lossless"] and one["reference"]
        assert len(one["total_variation_by_way"]) == 6
    shown = run("rules").stdout
    assert all(name in shown for name in RULES) and "total variation: to plain sampling" in shown


def test_rules_can_be_timed(monkeypatch):
    rates = {"per_second": 1e5, "k": 4, "vocabulary": 64, "batch": 16}
    monkeypatch.setattr(bench, "judged_per_second", lambda rule: rates)
    assert all(one["speed"] == rates for one in json.loads(run("rules", "--speed", "--json").stdout))
    assert "100,000" in run("rules", "--speed").stdout


def test_a_rate_is_measured_for_every_rule():
    for rule in RULES:
        found = bench.judged_per_second(rule, batch=8, k=2, vocabulary=5, repeats=3)
        assert 0 < found["lowest"] <= found["per_second"] <= found["highest"]
    with pytest.raises(ValueError, match="batch=0, k=4"):
        bench.judged_per_second("rejection", batch=0)


def test_museum_lists_and_shows_exhibits():
    listing = run("museum").stdout
    assert all(name in listing for name in EXHIBITS)
    shown = run("museum", "R1").stdout
    assert "0.7500" in shown and "def resample_full" in shown and "fix:" in shown
    found = json.loads(run("museum", "R1", "--json").stdout)
    assert found["demonstration"]["as_predicted"] is True and "def resample_full" in found["source"]


def test_museum_refuses_an_unknown_exhibit():
    result = run("museum", "R99")
    assert isinstance(result.exception, ValueError) and "no exhibit 'R99'" in str(result.exception)


def test_museum_table_fits_80_columns(monkeypatch):
    names = ("none", *EXHIBITS)
    every = [{"exhibit": name, "instrument": one, "caught": True} for name in names for one in instruments.INSTRUMENTS]
    monkeypatch.setattr(instruments, "mutations", lambda: every)
    monkeypatch.setenv("COLUMNS", "80")
    said = run("museum", "--table").stdout
    assert "…" not in said and max(map(len, said.splitlines())) <= 80
    assert all(name in said for name in (*EXHIBITS, *instruments.INSTRUMENTS)), "every name is whole"


def test_museum_table_prints_what_catches_what(monkeypatch):
    monkeypatch.setattr(instruments, "EXHIBITS", {name: EXHIBITS[name] for name in ("R1", "R1b", "past_eos")})
    few = ("law by enumeration", "tokens after the end")
    monkeypatch.setattr(instruments, "INSTRUMENTS", {name: instruments.INSTRUMENTS[name] for name in few})
    found = json.loads(run("museum", "--table", "--json").stdout)
    caught = {(one["exhibit"], one["instrument"]) for one in found if one["caught"]}
    assert caught == {("R1", few[0]), ("R1b", few[0]), ("past_eos", few[1])}
    assert "the right code" in run("museum", "--table").stdout
