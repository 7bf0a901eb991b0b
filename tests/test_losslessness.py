"""Real drafters on nano: at T = 0 the plain continuation, at T = 1 the target's law; a lossy rule is found out."""

from __future__ import annotations

import json
import random

import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial.drafters import DRAFTERS
from mtp_tutorial.lab import losslessness
from mtp_tutorial.lab.losslessness import CONTROL, SAMPLING, law, p_value, samples
from mtp_tutorial.models import toys
from mtp_tutorial.verify import RULES

LOSSLESS = [name for name, rule in RULES.items() if rule.lossless]
PROMPTS = ["One morning, Lena", "Max: Good morning, Emil.\nEmil:", "[\n  {", "def first_and_last(items):\n"]
#: Each rule with another drafter; the whole table is in data/nano/losslessness.jsonl.
PAIRS = [("rejection", "mtp"), ("sample_and_match", "medusa"), ("target_only", "eagle"), ("block", "draft")]
CI_SAMPLES = 3000


@pytest.fixture(scope="module")
def nano():
    return mt.load("nano", dtype="float64")


@pytest.mark.parametrize("name", DRAFTERS)
def test_at_temperature_0_every_drafter_gives_the_plain_continuation(nano, name):
    greedy = mt.Sampling(temperature=0)
    plain = mt.generate(nano, PROMPTS, sampling=greedy, max_new_tokens=32, chat=False)
    drafter = mt.load_drafter(name, nano)
    for rule in LOSSLESS:
        found = mt.generate(nano, PROMPTS, drafter, rule, sampling=greedy, max_new_tokens=32, chat=False)
        assert [g.tokens for g in found] == [g.tokens for g in plain]
        assert name == "ngram" or sum(g.num_accepted for g in found) > 0


@pytest.fixture(scope="module")
def expected(nano):
    return law(nano, nano.encode(losslessness.PROMPT), SAMPLING, 4)


@pytest.mark.parametrize("rule,name", PAIRS)
def test_at_temperature_1_samples_follow_the_targets_law(nano, expected, rule, name):
    ids = nano.encode(losslessness.PROMPT)
    drafter = mt.load_drafter(name, nano, temperature="same")
    assert p_value(list(samples(nano, ids, drafter, rule, count=CI_SAMPLES)), expected) > 1e-4


def test_a_lossy_rule_is_found_out(nano, expected):
    ids, drafter = nano.encode(losslessness.PROMPT), mt.load_drafter("mtp", nano)
    assert p_value(list(samples(nano, ids, drafter, CONTROL, count=CI_SAMPLES)), expected) < 1e-9


def test_the_law_is_that_of_the_table():
    toy = mt.load("toy")
    ids = toy.encode("the cat")
    found = law(toy, ids, mt.Sampling(temperature=0.7, top_k=3), 3)
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    for one, p in found.items():
        product, text = 1.0, list(ids)
        for token in one:
            logits, _ = toy.forward(torch.tensor([text]), [len(text)], toy.new_cache(1), last_only=True)
            product *= float(mt.probabilities(logits[0, -1], mt.Sampling(temperature=0.7, top_k=3))[token])
            text.append(token)
        assert p == pytest.approx(product, abs=1e-12)
        assert len(one) == 3 or one[-1] in toy.eos_ids


def test_p_values_of_right_and_wrong_samples():
    expected = law(toys.random_toy(4, seed=1), [1], mt.Sampling(), 3)
    source = random.Random(0)
    right = source.choices(list(expected), expected.values(), k=20_000)
    assert p_value(right, expected) > 0.001
    flatter = [p**0.9 for p in expected.values()]
    assert p_value(source.choices(list(expected), flatter, k=20_000), expected) < 0.001
    assert p_value([*right, (9, 9, 9)], expected) == 0.0


def test_the_first_tokens_own_share_does_not_matter():
    """It comes from the prefill; only what follows is the drafter's and the rule's doing."""
    expected = {(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.25}
    assert p_value([(0, 0), (0, 1)] * 500, expected) == 1.0
    assert p_value([(0, 0)] * 500, expected) < 1e-9


def test_a_sweep_measures_only_what_the_file_lacks(tmp_path):
    toy, out = mt.load("toy"), tmp_path / "rows.jsonl"
    rows = losslessness.sweep(toy, ["ngram"], ["rejection"], out, count=40, prompt="the cat")
    more = losslessness.sweep(toy, ["ngram"], ["rejection", CONTROL], out, count=40, prompt="the cat")
    assert more[:1] == rows and len(more) == 2 and losslessness.read_rows(out) == more
    assert losslessness.markdown(more).splitlines()[0] == "| drafter | rejection | greedy |"
    out.write_text("".join(json.dumps({k: v for k, v in row.items() if k != "seed_scheme"}) + "\n" for row in more))
    with pytest.raises(ValueError, match=r"drawn with the seed scheme SeedSequence\(\[seed \+ sequence, role\]\)"):
        losslessness.sweep(toy, ["ngram"], ["rejection", CONTROL], out, count=40, prompt="the cat")
