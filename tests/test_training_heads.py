"""Training an MTP head: what it sees in training is what it sees when it drafts; a run resumes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial.cache import SlotCache
from mtp_tutorial.drafters.mtp_head import MtpHead
from mtp_tutorial.models import toys
from mtp_tutorial.training import heads, selfdistill, states
from mtp_tutorial.training.heads import Schedule, chain_mask, frequent_tokens, losses, train, unrolled

ANSWERS = selfdistill.Settings(temperature=1.0, max_new_tokens=16, samples=4, batch=8)
QUICK = Schedule(steps=6, batch=4, unroll=2, warmup=2)


@pytest.fixture(scope="module")
def target():
    return toys.random_llama()


@pytest.fixture(scope="module")
def texts(target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    prompts = [{"id": f"p{i}", "kind": "any", "prompt": [i + 1, 2, 3]} for i in range(4)]
    selfdistill.make_answers(target, prompts, folder / "answers", ANSWERS)
    states.make_states(target, folder / "answers", folder / "states", batch=3)
    return folder


def lively(target, layers=1, seed=1):
    head = MtpHead(target, layers)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in head.layers:
            layer.eh_proj.weight.normal_(0, 0.3, generator=generator)
    return head


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


def test_a_head_that_says_what_the_target_says_has_no_loss(target, texts):
    """The teacher of step s at position i is the target's row after the token at i + s."""
    one = states.read_texts(texts / "answers", texts / "states")[0]
    ids, hidden = one.ids[None], one.states[None].double()
    head = lively(target)
    rows = target.model.get_output_embeddings().weight.detach()
    wanted = torch.ones(1, len(one.ids), dtype=torch.bool)
    real = heads.unrolled
    try:
        heads.unrolled = lambda head, ids, states, unroll: [hidden[:, s:] for s in range(1, unroll + 1)]
        for kl, match in losses(head, ids, hidden, wanted, rows, 3):
            assert float(kl.detach()) == pytest.approx(0, abs=1e-6) and match == 1
    finally:
        heads.unrolled = real
    assert all(float(kl.detach()) > 0.01 for kl, _ in losses(head, ids, hidden, wanted, rows, 3))


def test_states_are_those_of_a_call_alone(target, texts):
    for one in states.read_texts(texts / "answers", texts / "states")[:3]:
        ids = one.ids[None]
        alone = target.forward(ids, [ids.shape[1]], target.new_cache(1), layers=(-1,))[1][0][0]
        torch.testing.assert_close(one.states, alone.to(torch.bfloat16))


def test_states_of_another_target_are_refused(texts):
    other = toys.random_llama(seed=9)
    with pytest.raises(ValueError, match="hidden states of another target"):
        states.make_states(other, texts / "answers", texts / "states")


def test_training_lowers_the_loss_and_resumes(target, texts, tmp_path):
    found = states.read_texts(texts / "answers", texts / "states")
    frequent = frequent_tokens(found, 8)
    whole = MtpHead(target)
    whole.start_from_target(torch.Generator().manual_seed(0))
    log = train(whole, found, frequent, Schedule(steps=30, batch=4, unroll=2, warmup=2), tmp_path / "whole.pt")
    assert log[-1]["kl1"] < log[0]["kl1"] and log[-1]["kl2"] < log[0]["kl2"]
    again = MtpHead(target)
    assert train(again, found, frequent, Schedule(steps=30), tmp_path / "whole.pt") == log
    for name, weight in whole.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight)


def test_training_leaves_the_target_alone(target, texts, tmp_path):
    before = {name: weight.clone() for name, weight in target.model.state_dict().items()}
    found = states.read_texts(texts / "answers", texts / "states")
    train(MtpHead(target), found, frequent_tokens(found, 8), QUICK, Path(tmp_path / "x.pt"))
    assert all(torch.equal(before[name], weight) for name, weight in target.model.state_dict().items())
    assert mt.generate(target, [1, 2, 3], max_new_tokens=2).tokens
