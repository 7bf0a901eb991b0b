"""Drafts from scratch, the probe of what a hidden state knows, and whether a gate leaks."""

import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial.drafters.medusa import MedusaDrafter, MedusaHead
from mtp_tutorial.drafters.mtp import MtpDrafter
from mtp_tutorial.drafters.mtp_head import MtpHead
from mtp_tutorial.lab.drafts import draft_after
from mtp_tutorial.lab.gate import leak
from mtp_tutorial.lab.probe import READS, pairs, share_right, token_after_next
from mtp_tutorial.models import toys


@pytest.fixture(scope="module")
def target():
    return toys.random_llama(num_layers=4)


def lively(head):
    with torch.no_grad():
        for index, weight in enumerate(head.parameters()):
            if weight.ndim == 2:
                weight.normal_(0, 0.4, generator=torch.Generator().manual_seed(index))
    return head


@pytest.mark.parametrize(("kind", "head"), [(MtpDrafter, MtpHead), (MedusaDrafter, MedusaHead)])
def test_a_draft_from_scratch_is_the_one_of_the_run(target, kind, head):
    head = lively(head(target))
    used, fresh, said = kind(target, head), kind(target, head), [3, 1, 4]
    for one in mt.stream(target, said, used, num_speculative_tokens=3, max_new_tokens=16, ignore_eos=True):
        if one.num_drafted == 3:
            assert draft_after(target, fresh, said, 3).tokens[0].tolist() == list(one.draft_tokens)
        said += one.tokens


def test_uniforms_choose_a_sampled_draft(target):
    drafter = MtpDrafter(target, lively(MtpHead(target)), temperature=1.0)
    low, high = (draft_after(target, drafter, [3, 1, 4], 2, uniforms=(u, 0.5)) for u in (0.0, 0.999))
    assert low.tokens[0, 0] < high.tokens[0, 0] and low.probs.shape == (1, 2, target.vocab_size)
    torch.testing.assert_close(low.probs[0, 0], high.probs[0, 0], rtol=0, atol=0)


def test_a_drafter_without_hidden_states_drafts_too(target):
    assert draft_after(target, mt.load_drafter("ngram", target), [3, 1, 4, 3, 1], 2).tokens.tolist() == [[4, 3]]


def test_bad_input_is_named(target):
    drafter = MtpDrafter(target, MtpHead(target))
    with pytest.raises(ValueError, match="at least two"):
        draft_after(target, drafter, [3], 2)
    with pytest.raises(ValueError, match="3 uniforms for k=2"):
        draft_after(target, drafter, [3, 1], 2, uniforms=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="at least one each"):
        token_after_next(target, [], ["text"])


def test_a_matrix_finds_what_is_linear_and_nothing_else():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 6, generator=generator, dtype=torch.float64)
    y = x @ torch.randn(6, 6, generator=generator, dtype=torch.float64) + 1
    lm_head = torch.randn(9, 6, generator=generator, dtype=torch.float64)
    assert share_right(x[:300], y[:300], x[300:], y[300:], lm_head) == 1.0
    noise = torch.randn(400, 6, generator=generator, dtype=torch.float64)
    assert share_right(noise[:300], y[:300], noise[300:], y[300:], lm_head) < 0.5


def test_pairs_hold_the_next_token_and_the_next_state():
    target = mt.load("nano")
    text = "It was a warm evening"
    embedding, hidden, following = pairs(target, [text, text], length=5)
    assert embedding.shape == hidden.shape == following.shape == (8, 128)
    torch.testing.assert_close(hidden[1:4], following[:3])
    ids = target.encode(text)[:5]
    torch.testing.assert_close(embedding[0], target.model.get_input_embeddings().weight[ids[1]].double())


def test_the_probe_answers_for_every_reader():
    target = mt.load("nano")
    found = token_after_next(target, ["It was a warm evening, and Tom sat alone."] * 2, ["Lena carried some rice."])
    assert list(found) == list(READS) and all(0 <= share <= 1 for share in found.values())


def test_a_gate_does_not_leak_and_held_open_it_does():
    target = mt.load("nano", dtype=torch.float64)
    head, text = mt.load_drafter("gated_lora", target).head, target.encode("One morning, Lena")
    assert leak(target, head, text) == 0 == leak(target, head, text)
    assert leak(target, head, text, held_open=True) > 0.1
    assert leak(target, head, text) == 0  # the gate works again
