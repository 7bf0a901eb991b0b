"""Drafters with a trained head: what they draft, caches through every round, weights on disk, bad input."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
from tiny import COIN, Watch

import mtp_tutorial as mt
from mtp_tutorial.drafters import DRAFTERS, weights
from mtp_tutorial.drafters.draft_model import DraftModelDrafter
from mtp_tutorial.drafters.eagle import EagleDrafter, EagleHead, low_middle_high
from mtp_tutorial.drafters.head import DraftingHead
from mtp_tutorial.drafters.medusa import MedusaDrafter, MedusaHead
from mtp_tutorial.drafters.mtp import MtpDrafter
from mtp_tutorial.drafters.mtp_head import MtpHead
from mtp_tutorial.drafters.small_model import SmallModel
from mtp_tutorial.lab.drafts import draft_after
from mtp_tutorial.models import toys

PROMPTS = [[1, 3, 4, 5], [7], [9, 8, 7, 6, 5, 4, 3, 1]]
DRAFTER = {
    "mtp": (MtpHead, MtpDrafter),
    "eagle": (EagleHead, EagleDrafter),
    "medusa": (MedusaHead, MedusaDrafter),
    "draft": (SmallModel, DraftModelDrafter),
}
FREQUENT = torch.tensor([2, 3, 5, 7, 11, 13, 17])
GREEDY = mt.Sampling(temperature=0)


@pytest.fixture(scope="module")
def target():
    return toys.random_llama(num_layers=4)


@pytest.fixture(scope="module")
def heads(target):
    """A head of each kind, with weights large enough to have opinions."""
    found = {}
    for name, (kind, _) in DRAFTER.items():
        found[name] = kind(target)
        with torch.no_grad():
            for index, weight in enumerate(found[name].parameters()):
                if weight.ndim == 2:
                    weight.normal_(0, 0.4, generator=torch.Generator().manual_seed(index))
    return found


def drafter(target, heads, name, **options):
    argument = "model" if name == "draft" else "head"
    return DRAFTER[name][1](target, **{argument: heads[name]}, **options)


@pytest.mark.parametrize("frequent", [None, FREQUENT], ids=["all tokens", "frequent tokens"])
@pytest.mark.parametrize("name", DRAFTER)
def test_every_draft_is_the_one_made_from_scratch(target, heads, name, frequent):
    lengths = itertools.cycle([4, 2, 0, 1, 4, 3])

    class Changing:
        def choose(self, sequences):
            return [next(lengths)] * len(sequences)

        def observe(self, rounds):
            pass

    used = drafter(target, heads, name, frequent=frequent)
    found = mt.generate(
        target, PROMPTS, used, rule=COIN, num_speculative_tokens=Changing(), max_new_tokens=24, seed=3, ignore_eos=True
    )
    assert {0, 4} <= {one.num_accepted for g in found for one in g.rounds if one.num_drafted == 4}
    fresh = drafter(target, heads, name, frequent=frequent)
    for prompt, g in zip(PROMPTS, found, strict=True):
        said = list(prompt)
        for one in g.rounds:
            if one.num_drafted and g.rounds[-1] is not one:
                drafted = list(one.draft_tokens)
                assert drafted == draft_after(target, fresh, said, len(drafted), GREEDY).tokens[0].tolist()
            said += one.tokens


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", DRAFTER)
def test_greedy_decoding_is_the_plain_one(target, heads, name, temperature):
    used = drafter(target, heads, name, temperature=temperature)
    plain = mt.generate(target, PROMPTS, sampling=GREEDY, max_new_tokens=20)
    for rule in ("greedy", "rejection", "sample_and_match", "target_only", "block"):
        found = mt.generate(target, PROMPTS, used, rule=rule, sampling=GREEDY, max_new_tokens=20)
        assert [g.tokens for g in found] == [g.tokens for g in plain]


@pytest.mark.parametrize("name", DRAFTER)
def test_a_batch_gives_each_sequence_what_it_gets_alone(target, heads, name):
    used = drafter(target, heads, name, temperature="same")
    settings = dict(num_speculative_tokens=3, sampling=mt.Sampling(temperature=0.9, top_k=8), max_new_tokens=20)
    together = mt.generate(target, PROMPTS, used, seed=[5, 6, 7], **settings)
    for prompt, seed, g in zip(PROMPTS, (5, 6, 7), together, strict=True):
        assert mt.generate(target, prompt, used, seed=seed, **settings).tokens == g.tokens


@pytest.mark.parametrize("name", DRAFTER)
def test_sampled_drafts_over_frequent_tokens_are_recorded_exactly(target, heads, name):
    used, watch = drafter(target, heads, name, temperature=1.0, frequent=FREQUENT), Watch()
    mt.generate(target, PROMPTS[0], used, max_new_tokens=12, hooks=watch, ignore_eos=True)
    for _, draft, *_ in watch.seen[1:]:
        assert set(draft.tokens.flatten().tolist()) <= {*FREQUENT.tolist(), -1}
        inside = draft.probs[..., FREQUENT].sum(-1)
        torch.testing.assert_close(inside, torch.ones(draft.tokens.shape, dtype=torch.float64))


def test_medusa_drafts_no_more_than_it_has_heads(target, heads):
    used = drafter(target, heads, "medusa")
    found = mt.generate(target, PROMPTS[0], used, num_speculative_tokens=9, max_new_tokens=12)
    assert max(one.num_drafted for one in found.rounds) == 4


def test_a_drafting_head_scores_as_the_lm_head_does(target):
    hidden = torch.randn(3, 2, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    full = target.model.get_output_embeddings()(hidden).detach()
    torch.testing.assert_close(DraftingHead(target)(hidden), full, rtol=0, atol=0)
    some = DraftingHead(target, FREQUENT)(hidden)
    torch.testing.assert_close(some[..., FREQUENT], full[..., FREQUENT])
    others = [i for i in range(target.vocab_size) if i not in FREQUENT.tolist()]
    assert bool((some[..., others] == -torch.inf).all())


def test_the_depths_that_eagle_reads():
    assert low_middle_high(30) == (2, 15, 27) and low_middle_high(4) == (1, 2, 3)
    with pytest.raises(ValueError, match="2 layers: fused features need three or more"):
        EagleHead(toys.random_llama())


@pytest.mark.parametrize("name", DRAFTER)
def test_weights_hold_nothing_of_the_target_and_come_back(target, heads, name, tmp_path):
    weights.save(tmp_path / "w", heads[name], target, FREQUENT, {"note": "made by a test"})
    assert not any("embed" in key or "lm_head" in key for key in heads[name].state_dict())
    used = mt.load_drafter(name, target, weights=tmp_path / "w", frequent=3)
    allowed = set(FREQUENT[:3].tolist())
    made = mt.generate(target, PROMPTS[0], used, max_new_tokens=12)
    assert {token for one in made.rounds for token in one.draft_tokens} <= allowed
    back, ranked = weights.load(DRAFTER[name][0], target, tmp_path / "w")
    assert torch.equal(ranked, FREQUENT)
    for key, weight in heads[name].state_dict().items():
        assert torch.equal(back.state_dict()[key], weight.float().double())  # stored in float32
    assert json.loads((tmp_path / "w" / "config.json").read_text())["note"] == "made by a test"
    assert not (tmp_path / "w.tmp").exists()


# -- Bad input ------------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(target, heads, tmp_path):
    weights.save(tmp_path / "w", heads["mtp"], target, FREQUENT)
    return tmp_path / "w"


def test_weights_of_another_target_are_refused(target, stored):
    with pytest.raises(ValueError, match="was trained for another target"):
        mt.load_drafter("mtp", toys.random_llama(num_layers=4, seed=1), weights=stored)


def test_weights_of_another_drafter_are_refused(target, stored):
    with pytest.raises(ValueError, match="holds the weights of a 'mtp' drafter, not of a 'eagle' one"):
        mt.load_drafter("eagle", target, weights=stored)


@pytest.mark.parametrize(
    "damage,message",
    [
        (lambda f: f.write_bytes(f.read_bytes()[:-100]), "missing or damaged"),
        (lambda f: f.write_bytes(b"not weights"), "missing or damaged"),
        (lambda f: f.unlink(), "missing or damaged"),
        (lambda f: (f.parent / "config.json").write_text("{"), "config.json is damaged"),
        (lambda f: (f.parent / "config.json").write_text("[]"), "config.json is damaged"),
        (lambda f: (f.parent / "config.json").unlink(), "no weights of a 'mtp' drafter for Llama"),
    ],
)
def test_damaged_files_are_named(target, stored, damage, message):
    damage(stored / "model.safetensors")
    with pytest.raises(ValueError, match=message):
        mt.load_drafter("mtp", target, weights=stored)


@pytest.mark.parametrize(
    "change,message",
    [
        (lambda t: t.pop("layers.0.enorm.weight"), "missing tensors .*enorm"),
        (lambda t: t.update(other=torch.zeros(1)), "unknown tensors .*other"),
        (lambda t: t.update({"layers.0.enorm.weight": torch.zeros(3)}), "has shape"),
        (lambda t: t["layers.0.enorm.weight"].fill_(torch.nan), "holds NaN"),
    ],
)
def test_wrong_tensors_are_named(target, stored, change, message):
    from safetensors.torch import load_file, save_file

    tensors = {key: weight.clone() for key, weight in load_file(stored / "model.safetensors").items()}
    change(tensors)
    save_file(tensors, stored / "model.safetensors")
    with pytest.raises(ValueError, match=message):
        mt.load_drafter("mtp", target, weights=stored)


@pytest.mark.parametrize(
    "options,message",
    [
        ({}, "no weights of a 'mtp' drafter for Llama .*mtp-tutorial train --target Llama --drafter mtp"),
        ({"head": 3}, "head= must be a MtpHead, got int"),
        ({"temperature": -1}, "temperature=-1"),
        ({"weights": "STORED", "frequent": 0}, "use 1 to 7"),
        ({"weights": "STORED", "frequent": 8}, "use 1 to 7"),
        ({"weights": "STORED", "frequent": []}, "at least one"),
        ({"weights": "STORED", "frequent": [1, 1]}, "twice"),
        ({"weights": "STORED", "frequent": [1, 19]}, "holds the id 19; Llama knows ids 0 to 18"),
        ({"weights": "STORED", "frequent": [-1, 2]}, "holds the id -1"),
        ({"weights": "STORED", "frequent": [0.5]}, "list of token ids"),
        ({"weights": "STORED", "frequent": "all"}, "None, a number or a list"),
        ({"weights": "STORED", "frequent": True}, "list of token ids"),
    ],
)
def test_bad_options_are_named(target, stored, options, message):
    options = {key: stored if value == "STORED" else value for key, value in options.items()}
    with pytest.raises(ValueError, match=message):
        mt.load_drafter("mtp", target, **options)


def test_a_number_of_frequent_tokens_needs_a_ranking(target, heads):
    with pytest.raises(ValueError, match="rank no tokens"):
        MtpDrafter(target, heads["mtp"], frequent=5)
    with pytest.raises(ValueError, match="not both"):
        MtpDrafter(target, heads["mtp"], weights="somewhere")


def test_a_target_that_is_no_stack_of_layers_is_refused():
    with pytest.raises(ValueError, match="a head cannot borrow its parts"):
        MtpHead(mt.load("toy"))


def test_every_drafter_has_a_name():
    assert {name for name, (_, used) in DRAFTER.items() if DRAFTERS[name] is not used} == set()


# -- The start of training ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mtp", "eagle"])
def test_a_head_starts_by_reading_what_the_targets_last_layers_read(target, name):
    """At the same scale, and for an MTP head in the same direction: the final norm is undone."""
    made = DRAFTER[name][0](target)
    with torch.no_grad():
        gain = made.decoder.norm.weight
        old = gain.clone()
        gain.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(1))  # as training leaves it
        made.start_from_target(torch.Generator().manual_seed(0))
        scale = made.decoder.last_layer_scale(torch.Generator().manual_seed(0))
        before = []
        hook = made.decoder.norm.register_forward_hook(lambda module, inputs, output: before.append(inputs[0]))
        ids = torch.randint(19, (2, 12), generator=torch.Generator().manual_seed(2))
        hidden = target.forward(ids, [12, 12], target.new_cache(2), layers=made.reads)[1]
        hook.remove()
        layer = made.layers[0]
        layer.eh_proj.weight[:, : layer.eh_proj.out_features] = 0
        mixed = layer.mix(made.embed(ids), made.read(hidden))
        gain.copy_(old)
    assert float(mixed.square().mean(-1).sqrt().median()) == pytest.approx(scale, rel=0.25)
    if name == "mtp":
        assert float(torch.cosine_similarity(mixed, before[0], dim=-1).min()) > 0.999
    else:
        high = hidden[-1]
        assert float(torch.cosine_similarity(mixed, high, dim=-1).min()) > 0.999
