"""Training heads: what they see in training is what they see when they draft; a run resumes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial.cache import SlotCache
from mtp_tutorial.drafters.eagle import EagleHead
from mtp_tutorial.drafters.medusa import MedusaHead
from mtp_tutorial.drafters.mtp_head import MtpHead
from mtp_tutorial.drafters.small_model import SmallModel
from mtp_tutorial.models import toys
from mtp_tutorial.training import selfdistill
from mtp_tutorial.training.loop import Schedule, padded, train
from mtp_tutorial.training.objectives import (
    MedusaObjective,
    MtpObjective,
    SmallModelObjective,
    chain_mask,
    most_frequent_tokens,
    unrolled,
)

ANSWERS = selfdistill.Settings(temperature=1.0, max_new_tokens=16, samples=4, batch=8)
LAYERS = (1, 2, 3, -1)
QUICK = Schedule(steps=30, batch=4, warmup=2)
KINDS = {
    "mtp": (MtpHead, MtpObjective),
    "eagle": (EagleHead, MtpObjective),
    "medusa": (MedusaHead, MedusaObjective),
    "draft": (SmallModel, SmallModelObjective),
}


@pytest.fixture(scope="module")
def target():
    return toys.random_llama(num_layers=4)


@pytest.fixture(scope="module")
def texts(target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    prompts = [{"id": f"p{i}", "kind": "any", "prompt": [i + 1, 2, 3, 4]} for i in range(4)]
    selfdistill.make_answers(target, prompts, folder, ANSWERS, LAYERS)
    return selfdistill.read_texts(folder)


def lively(target, layers=1, seed=1):
    head = MtpHead(target, layers)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in head.layers:
            layer.eh_proj.weight.normal_(0, 0.3, generator=generator)
    return head


def made(target, texts, name, seed=0):
    """A head of that kind as training starts with it, and its objective."""
    kind, objective = KINDS[name]
    head = kind(target)
    head.start_from_target(torch.Generator().manual_seed(seed))
    return objective(head, LAYERS, most_frequent_tokens(texts, 12))


def no_random():
    return torch.Generator().manual_seed(0)


def test_the_mask_shows_true_pairs_up_to_here_and_the_own_chain_only():
    assert chain_mask(4, 1)[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert chain_mask(4, 2)[0, 0].int().tolist() == [[1, 0, 0, 1, 0], [1, 1, 0, 0, 1]]
    assert chain_mask(4, 3)[0, 0].int().tolist() == [[1, 0, 0, 1, 0, 1]]


def test_unrolled_outputs_are_those_of_drafting(target):
    head = lively(target)
    ids = torch.tensor([[5, 3, 8, 1, 9, 2, 7]])
    hidden = target.forward(ids, [7], target.new_cache(1), layers=(-1,))[1][0]
    with torch.no_grad():
        found = unrolled(head, ids, hidden, 3)
        for i in range(4):
            cache = SlotCache(1, 1)
            out = head(0, ids[:, 1 : i + 2], hidden[:, : i + 1], cache)[:, -1:]
            cache.advance([i + 1])
            torch.testing.assert_close(found[0][:, i : i + 1], out)
            for step in (2, 3):  # the drafted tokens happen to be the text's own
                out = head(step - 1, ids[:, i + step : i + step + 1], out, cache)
                cache.advance([1])
                torch.testing.assert_close(found[step - 1][:, i : i + 1], out)


@pytest.mark.parametrize("name", KINDS)
def test_a_head_that_says_what_the_target_says_has_no_loss(target, texts, name):
    """The teacher of a guess with shift s at position i is the target's row of position i + s."""
    objective, batch = made(target, texts, name), padded(texts[:3])
    (final,) = objective.states(batch, (-1,))
    real = objective.guesses
    shifts = [shift for shift, _ in real(batch)]
    objective.guesses = lambda batch: [(shift, final[:, shift:].double()) for shift in shifts]
    with torch.no_grad():
        loss, row = objective.loss(batch, no_random())
        assert float(loss) == pytest.approx(0, abs=1e-5)
        assert all(value == 1 for key, value in row.items() if key.startswith("match"))
        objective.guesses = lambda batch: [(shift, final[:, : final.shape[1] - shift].double()) for shift in shifts]
        loss, _ = objective.loss(batch, no_random())
        assert (float(loss) > 0.01) == (name != "draft")  # a draft model's guess has no shift: the control is the same


def test_a_draft_model_is_trained_on_what_it_computes_when_it_drafts(target, texts):
    head = SmallModel(target, 2)
    head.start_from_target(no_random())
    ids = texts[0].ids[None]
    small = head.as_target(target)
    with torch.no_grad():
        _, (states,) = small.forward(ids, [ids.shape[1]], small.new_cache(1), layers=(-1,))
        torch.testing.assert_close(head(ids), states)


def test_only_answers_are_asked_for(texts):
    batch = padded(texts[:4])
    for row, text in enumerate(texts[:4]):
        n = len(text.ids)
        assert batch.wanted[row].nonzero().flatten().tolist() == list(range(text.prompt - 1, n - 1))
        assert torch.equal(batch.ids[row, :n], text.ids) and not batch.states[row, n - 1 :].any()


def test_frequent_tokens_come_first(texts):
    said = torch.cat([text.ids[text.prompt :] for text in texts])
    counts = [int((said == token).sum()) for token in most_frequent_tokens(texts, 10).tolist()]
    assert counts == sorted(counts, reverse=True) and counts[0] == int(said.bincount().max())


def test_texts_without_the_layers_that_a_head_reads_are_refused(target, texts):
    head = EagleHead(target)
    with pytest.raises(ValueError, match=r"layers \[-1\]; a 'eagle' head needs \[1, 2, 3, -1\]"):
        MtpObjective(head, (-1,), most_frequent_tokens(texts, 4))


@pytest.mark.parametrize("name", KINDS)
def test_training_lowers_the_loss_and_resumes(target, texts, tmp_path, name):
    whole = made(target, texts, name)
    log = train(whole, texts, QUICK, tmp_path / "whole.pt")
    assert len(log) == 30 and sum(r["kl1"] for r in log[-5:]) < sum(r["kl1"] for r in log[:5])
    again = made(target, texts, name, seed=1)
    assert train(again, texts, QUICK, tmp_path / "whole.pt") == log
    for key, weight in whole.head.state_dict().items():
        torch.testing.assert_close(again.head.state_dict()[key], weight)


def test_an_interrupted_run_ends_the_same(target, texts, tmp_path):
    whole = made(target, texts, "mtp")
    log = train(whole, texts, QUICK, None)
    half = made(target, texts, "mtp")
    real, calls = half.loss, []

    def dies(batch, generator):
        calls.append(1)
        if len(calls) == 13:
            raise KeyboardInterrupt
        return real(batch, generator)

    half.loss = dies
    often = replace(QUICK, minutes_between_checkpoints=0)
    with pytest.raises(KeyboardInterrupt):
        train(half, texts, often, tmp_path / "half.pt")
    rest = made(target, texts, "mtp", seed=1)
    assert train(rest, texts, often, tmp_path / "half.pt") == log
    for key, weight in whole.head.state_dict().items():
        torch.testing.assert_close(rest.head.state_dict()[key], weight)


def test_a_checkpoint_of_another_run_is_refused_and_left_alone(target, texts, tmp_path):
    path = tmp_path / "x.pt"
    train(made(target, texts, "medusa"), texts, QUICK, path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="checkpoint of another run"):
        train(made(target, texts, "mtp"), texts, QUICK, path)
    with pytest.raises(ValueError, match="checkpoint of another run"):
        train(made(target, texts, "medusa"), texts, replace(QUICK, steps=40), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", KINDS)
def test_training_leaves_the_target_alone(target, texts, name):
    before = {key: weight.clone() for key, weight in target.model.state_dict().items()}
    train(made(target, texts, name), texts, replace(QUICK, steps=3), None)
    assert all(torch.equal(before[key], weight) for key, weight in target.model.state_dict().items())
    assert all(p.grad is None for p in target.model.parameters())
    assert mt.generate(target, [1, 2, 3], max_new_tokens=2).tokens
