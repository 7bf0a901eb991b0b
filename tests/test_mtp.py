"""The MTP drafter: what it drafts, and that its caches stay right through every round."""

from __future__ import annotations

import pytest
import torch
from tiny import COIN, Watch
from transformers import LlamaConfig, LlamaForCausalLM

import mtp_tutorial as mt
from mtp_tutorial.drafters.mtp import MtpDrafter
from mtp_tutorial.drafters.mtp_head import MtpHead
from mtp_tutorial.lab.drafts import draft_after
from mtp_tutorial.models import wrap

PROMPTS = [[1, 2, 3, 4, 5], [7], [9, 8, 7, 6, 5, 4, 3, 2, 1]]


class Numbers:
    """A tokenizer whose words are numbers."""

    chat_template = None

    def decode(self, ids, **options):
        return " ".join(map(str, ids))


@pytest.fixture(scope="module")
def target():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=24, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return wrap(LlamaForCausalLM(config).double(), Numbers(), "tiny llama")


def head(target, layers):
    """A head with weights large enough to have opinions."""
    made = MtpHead(target, layers)
    generator = torch.Generator().manual_seed(layers)
    with torch.no_grad():
        for layer in made.layers:
            layer.eh_proj.weight.normal_(0, 0.3, generator=generator)
    return made


@pytest.mark.parametrize("frequent", [None, torch.arange(0, 24, 2)], ids=["all tokens", "frequent tokens"])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_every_draft_is_the_one_made_from_scratch(target, layers, frequent):
    made = head(target, layers)
    lengths = iter([4, 2, 0, 1, 4, 3] * 20)

    class Changing:  # shorter and longer than the stack, and none at all
        def choose(self, sequences):
            return [next(lengths)] * len(sequences)

        def observe(self, rounds):
            pass

    drafter, fresh = (MtpDrafter(target, made, frequent=frequent) for _ in range(2))
    found = mt.generate(
        target, PROMPTS, drafter, rule=COIN, num_speculative_tokens=Changing(), max_new_tokens=24, seed=3
    )
    assert {0, 4} <= {one.num_accepted for g in found for one in g.rounds if one.num_drafted == 4}
    for prompt, g in zip(PROMPTS, found, strict=True):
        said = list(prompt)
        for one in g.rounds:
            if one.num_drafted and g.rounds[-1] is not one:
                drafted = list(one.draft_tokens)
                assert (
                    drafted
                    == draft_after(target, fresh, said, len(drafted), mt.Sampling(temperature=0)).tokens[0].tolist()
                )
            said += one.tokens


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("layers", [1, 2])
def test_greedy_decoding_is_the_plain_one(target, layers, temperature):
    drafter = MtpDrafter(target, head(target, layers), temperature=temperature)
    greedy = mt.Sampling(temperature=0)
    plain = mt.generate(target, PROMPTS, sampling=greedy, max_new_tokens=20)
    for rule in ("greedy", "rejection", "sample_and_match", "target_only", "block"):
        found = mt.generate(target, PROMPTS, drafter, rule=rule, sampling=greedy, max_new_tokens=20)
        assert [g.tokens for g in found] == [g.tokens for g in plain]


def test_a_batch_gives_each_sequence_what_it_gets_alone(target):
    drafter = MtpDrafter(target, head(target, 2), temperature="same")
    settings = dict(num_speculative_tokens=3, sampling=mt.Sampling(temperature=0.9, top_k=8), max_new_tokens=20)
    together = mt.generate(target, PROMPTS, drafter, seed=[5, 6, 7], **settings)
    for prompt, seed, g in zip(PROMPTS, (5, 6, 7), together, strict=True):
        assert mt.generate(target, prompt, drafter, seed=seed, **settings).tokens == g.tokens


def test_sampled_drafts_over_frequent_tokens_are_recorded_exactly(target):
    frequent = torch.tensor([2, 3, 5, 7, 11])
    drafter, watch = MtpDrafter(target, head(target, 1), temperature=1.0, frequent=frequent), Watch()
    mt.generate(target, PROMPTS[0], drafter, max_new_tokens=12, hooks=watch)
    for _, draft, *_ in watch.seen[1:]:
        assert set(draft.tokens.flatten().tolist()) <= {*frequent.tolist(), -1}
        torch.testing.assert_close(draft.probs.sum(-1), torch.ones(draft.tokens.shape, dtype=torch.float64))
        assert float(draft.probs[..., frequent].sum(-1).min()) == pytest.approx(1.0)


def test_the_heads_weights_hold_nothing_of_the_target(target):
    names = set(MtpHead(target, 1).state_dict())
    assert not any("embed" in name or "lm_head" in name for name in names)
    assert {"layers.0.enorm.weight", "layers.0.eh_proj.weight", "layers.0.post_norm.weight"} <= names
    assert MtpHead(target).layers[0].block.self_attn.q_proj.weight.dtype == torch.float64


def test_a_layer_gives_what_transformers_own_mtp_layer_gives(target):
    """The same random weights in transformers' MtpLayer, over a whole text at once."""
    from transformers.modeling_layers import MtpLayer as Reference

    made = head(target, 1)
    decoder, mine = made.decoder, made.layers[0]
    with torch.no_grad():
        for norm in (mine.enorm, mine.hnorm, mine.post_norm):
            norm.weight.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(5))
        theirs = Reference(decoder.config, type(decoder.layers[-1]), type(decoder.norm), 0).double().eval()
        theirs.load_state_dict({name.replace("block.", "mtp_block."): w for name, w in mine.state_dict().items()})
        ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
        hidden = target.forward(ids, [8], target.new_cache(1), layers=(-1,))[1][0]
        embedded, positions = made.embed(ids[:, 1:]), torch.arange(7)[None]
        seen = torch.ones(7, 7, dtype=torch.bool).tril()[None, None]
        rotary = decoder.rotary(embedded, positions)
        expected = theirs(embedded, hidden[:, :-1], rotary, seen, positions, None)
        found = made(0, ids[:, 1:], hidden[:, :-1], mt.SlotCache(1, 1))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
