"""Gated LoRA: the target stays what it is bit for bit, drafts are right through every round, training sees the same."""

from __future__ import annotations

import pytest
import torch
from tiny import COIN, tiny
from transformers import LlamaConfig, LlamaForCausalLM

import mtp_tutorial as mt
from mtp_tutorial.drafters import gated_lora, weights
from mtp_tutorial.drafters.gated_lora import GatedLora, GatedLoraDrafter
from mtp_tutorial.models import toys, wrap
from mtp_tutorial.training.loop import Batch, Schedule, train
from mtp_tutorial.training.objective_gated_lora import GatedLoraObjective, choose_anchors, read_masks
from mtp_tutorial.training.selfdistill import Text

PROMPTS = [[1, 2, 3, 4, 5], [7], [9, 8, 7, 6, 5, 4, 3, 2, 1]]
FAMILIES = ["llama", "qwen3", "mistral", "qwen2-mixed", "gemma3"]


def small(dtype=torch.float64):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=24, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=None, eos_token_id=None, pad_token_id=None,
        initializer_range=0.3,
    )  # fmt: skip
    return wrap(LlamaForCausalLM(config).to(dtype), name="tiny llama")


@pytest.fixture(scope="module")
def target():
    return small()


def lively(target, num_masks=3, seed=1):
    """A head whose every weight is random and large enough to matter."""
    made = GatedLora(target, rank=4, num_masks=num_masks)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_(0, 0.3, generator=generator)
    return made


# -- The target stays what it is --------------------------------------------------------------------------------------


def with_and_without_masks(target, made):
    """Hidden states of a text's rows: in the target, other tokens behind them; in the gated copy, masks behind them."""
    ids = torch.randint(0, target.vocab_size, (2, 12), generator=torch.Generator().manual_seed(3))
    masked = ids.clone()
    masked[:, 9:] = torch.tensor(made.mask_ids)
    plain = target.forward(ids, [12] * 2, target.new_cache(2), layers=(-1,))
    gated = made.gated.forward(masked, [12] * 2, made.gated.new_cache(2), layers=(-1,))
    logits = target.model.get_output_embeddings()(gated[1][0])
    return (plain[1][0][:, :9], plain[0][:, :9]), (gated[1][0][:, :9], logits[:, :9])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_next_token_outputs_are_unchanged_bit_for_bit(dtype):
    target = small(dtype)
    (hidden, logits), (gated_hidden, gated_logits) = with_and_without_masks(target, lively(target))
    assert hidden.dtype == dtype and torch.equal(hidden, gated_hidden) and torch.equal(logits, gated_logits)


@pytest.mark.parametrize("family", FAMILIES)
def test_so_they_are_in_every_family(family):
    target = tiny(family)
    made = lively(target)
    (hidden, _), (gated_hidden, _) = with_and_without_masks(target, made)
    assert torch.equal(hidden, gated_hidden)
    assert len(made.loras[0]) == 7  # q, k, v, o and three of the MLP


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_with_the_gate_held_open_they_change(dtype, monkeypatch):
    def hold_open(gate, rows):
        vars(gate)["held"] = torch.ones_like(rows)

    monkeypatch.setattr(gated_lora.Gate, "rows", property(lambda gate: vars(gate)["held"], hold_open), raising=False)
    target = small(dtype)
    (hidden, _), (gated_hidden, _) = with_and_without_masks(target, lively(target))
    assert float((hidden - gated_hidden).abs().max()) > 0.1


def test_a_closed_gate_passes_signed_zeros_and_infinities_on():
    linear, gate = torch.nn.Linear(3, 2, bias=False), gated_lora.Gate()
    made = gated_lora.GatedLinear(linear, gated_lora.Lora(linear, 1), gate)
    gate.rows = torch.tensor([[[False], [False], [True]]])
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0, 0, 0], [0, 1.0, 0]]))
        made.lora.up.weight.fill_(torch.inf)
        x = torch.tensor([[[-0.0, -0.0, -0.0], [1.0, -2.0, 0.5], [1.0, -2.0, 0.5]]])
        found, plain = made(x), linear(x)
    assert torch.equal(found[0, :2], plain[0, :2]) and torch.equal(found[0, :2].signbit(), plain[0, :2].signbit())
    assert not found[0, 2].isfinite().all()


def test_the_target_is_left_alone(target):
    before = {name: weight.clone() for name, weight in target.model.state_dict().items()}
    kinds = [type(module) for module in target.model.modules()]
    made = lively(target)
    ids = torch.tensor([[1, 2, 3, *made.mask_ids]])
    read_masks(made, ids[:, :3], torch.tensor([[0, 1]])).sum().backward()
    assert made.loras[0]["self_attn_q_proj"].up.weight.grad.abs().sum() > 0
    assert [type(module) for module in target.model.modules()] == kinds
    assert before.keys() == target.model.state_dict().keys()
    assert all(torch.equal(before[name], weight) for name, weight in target.model.state_dict().items())
    assert all(weight.grad is None for weight in target.model.parameters())
    assert type(target.model.get_input_embeddings()) is torch.nn.Embedding


def test_the_copy_shares_the_targets_memory(target):
    made = GatedLora(target)
    mine = made.gated.model.get_decoder().layers[0].self_attn.q_proj.weight
    assert mine.data_ptr() == target.model.get_decoder().layers[0].self_attn.q_proj.weight.data_ptr()
    assert not mine.requires_grad and target.model.get_decoder().layers[0].self_attn.q_proj.weight.requires_grad


def test_the_heads_weights_hold_nothing_of_the_target(target, tmp_path):
    made = lively(target, 2)
    names = set(made.state_dict())
    assert {name.split(".")[0] for name in names} == {"masks", "loras", "sampler"}
    assert not any(word in name for name in names for word in ("linear.", "embed", "lm_head", "norm"))
    linears = sum(
        sum(module.weight.shape) for module in target.model.get_decoder().modules() if type(module) is torch.nn.Linear
    )
    assert sum(weight.numel() for weight in made.parameters()) == 4 * linears + 2 * 32 + (64 * 32 + 32) + (32 * 32 + 32)
    weights.save(tmp_path / "w", made, target)
    again = GatedLoraDrafter(target, weights=tmp_path / "w").head
    assert again.settings == {"rank": 4, "num_masks": 2}
    for name, weight in made.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight.float().double())


@pytest.mark.parametrize("options", [{"rank": 0}, {"num_masks": 0}])
def test_bad_sizes_are_refused(target, options):
    with pytest.raises(ValueError, match="at least"):
        GatedLora(target, **options)


def test_a_target_without_decoder_layers_is_refused():
    with pytest.raises(ValueError, match="a head cannot borrow its parts"):
        GatedLora(toys.random_toy())


# -- Drafting ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def from_scratch(made, text, k, frequent=None):
    """The draft by the definition: the whole text and k - 1 masks in one call of the gated model, without a cache."""
    ids = torch.tensor([[*text, *made.mask_ids[: k - 1]]])
    hidden = made.gated.forward(ids, [ids.shape[1]], made.gated.new_cache(1), layers=(-1,))[1][0][0, len(text) - 1 :]
    lm_head, embedding = made.decoder.lm_head, made.decoder.embedding
    allowed = range(24) if frequent is None else frequent.tolist()
    drafted = []
    for row in hidden:
        if drafted:
            row = row + made.sampler(torch.cat([row, embedding(torch.tensor(drafted[-1]))]))
        logits = lm_head(row)
        drafted.append(max(allowed, key=lambda token: float(logits[token])))
    return drafted


@pytest.mark.parametrize("frequent", [None, torch.arange(0, 24, 2)], ids=["all tokens", "frequent tokens"])
@pytest.mark.parametrize("num_masks", [1, 3])
def test_every_draft_is_the_one_made_from_scratch(target, num_masks, frequent):
    made = lively(target, num_masks)
    lengths = iter([4, 2, 0, 1, 4, 3, 0, 0, 4] * 20)

    class Changing:  # another length for each sequence, and none at all
        def choose(self, sequences):
            longest = next(lengths)
            return [(longest + index) % 5 if longest else 0 for index in sequences]

        def observe(self, rounds):
            pass

    drafter = GatedLoraDrafter(target, made, frequent=frequent)
    found = mt.generate(
        target, PROMPTS, drafter, rule=COIN, num_speculative_tokens=Changing(), max_new_tokens=30, seed=5
    )
    assert {0, num_masks + 1} <= {one.num_accepted for g in found for one in g.rounds if one.num_drafted > num_masks}
    compared = 0
    for prompt, g in zip(PROMPTS, found, strict=True):
        said = list(prompt)
        for one in g.rounds:
            if one.num_drafted and g.rounds[-1] is not one:
                drafted = list(one.draft_tokens)
                assert drafted == from_scratch(made, said, len(drafted), frequent)
                compared += 1
            said += one.tokens
    assert compared > 10


@pytest.mark.parametrize("family", FAMILIES)
def test_so_it_is_in_every_family(family):
    target = tiny(family)
    made = lively(target)
    found = mt.generate(
        target, PROMPTS, GatedLoraDrafter(target, made), rule=COIN, num_speculative_tokens=4, max_new_tokens=20,
        ignore_eos=True,
    )  # fmt: skip
    for prompt, g in zip(PROMPTS, found, strict=True):
        said = list(prompt)
        for one in g.rounds[:-1]:
            if one.num_drafted:
                assert list(one.draft_tokens) == from_scratch(made, said, 4)
            said += one.tokens


def test_no_more_is_drafted_than_masks_and_one(target):
    drafter = GatedLoraDrafter(target, lively(target, 2))
    found = mt.generate(target, PROMPTS, drafter, num_speculative_tokens=6, max_new_tokens=20)
    assert {one.num_drafted for g in found for one in g.rounds[1:-1]} == {3}


def test_draft_token_1_is_the_targets_own(target):
    drafter = GatedLoraDrafter(target, lively(target))
    greedy = mt.Sampling(temperature=0)
    found = mt.generate(target, PROMPTS, drafter, sampling=greedy, num_speculative_tokens=4, max_new_tokens=40)
    later = [one for g in found for one in g.rounds[1:]]
    assert all(one.num_accepted >= 1 for one in later if one.num_drafted)
    assert any(one.num_accepted < one.num_drafted for one in later)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_greedy_decoding_is_the_plain_one(target, temperature):
    drafter = GatedLoraDrafter(target, lively(target), temperature=temperature)
    greedy = mt.Sampling(temperature=0)
    plain = mt.generate(target, PROMPTS, sampling=greedy, max_new_tokens=20)
    for rule in ("greedy", "rejection", "sample_and_match", "target_only", "block"):
        found = mt.generate(target, PROMPTS, drafter, rule=rule, sampling=greedy, max_new_tokens=20)
        assert [g.tokens for g in found] == [g.tokens for g in plain]


def test_a_batch_gives_each_sequence_what_it_gets_alone(target):
    drafter = GatedLoraDrafter(target, lively(target), temperature="same")
    settings = dict(num_speculative_tokens=3, sampling=mt.Sampling(temperature=0.9, top_k=8), max_new_tokens=20)
    together = mt.generate(target, PROMPTS, drafter, seed=[5, 6, 7], **settings)
    for prompt, seed, g in zip(PROMPTS, (5, 6, 7), together, strict=True):
        assert mt.generate(target, prompt, drafter, seed=seed, **settings).tokens == g.tokens


def test_it_drafts_up_to_the_longest_sequence(target):
    prompt = [3] * (target.max_length - 4)
    found = mt.generate(target, prompt, GatedLoraDrafter(target, lively(target)), max_new_tokens=20)
    assert len(found.tokens) == 4 and found.finish_reason == "length"


# -- Training ---------------------------------------------------------------------------------------------------------


def recorded(target, count=4, length=20):
    """Random texts with the target's hidden states, as self-distillation writes them."""
    texts = []
    for seed in range(count):
        ids = torch.randint(0, target.vocab_size, (length + seed,), generator=torch.Generator().manual_seed(seed))
        hidden = target.forward(ids[None], [len(ids)], target.new_cache(1), layers=(-1,))[1][0][0]
        texts.append((ids, hidden[:-1]))
    return texts


def batch_of(texts, prompt=4):
    width = max(len(ids) for ids, _ in texts)
    ids = torch.stack([torch.nn.functional.pad(ids, (0, width - len(ids))) for ids, _ in texts])
    states = torch.stack([torch.nn.functional.pad(s, (0, 0, 0, width - len(s))) for _, s in texts])
    wanted = torch.zeros(ids.shape, dtype=torch.bool)
    for row, (text, _) in enumerate(texts):
        wanted[row, prompt - 1 : len(text) - 1] = True
    return Batch(ids, states, wanted)


def test_anchors_are_wanted_positions_at_random_none_twice():
    wanted = torch.zeros(3, 12, dtype=torch.bool)
    wanted[0, 3:11], wanted[1, 5:8], wanted[2, 4] = True, True, True
    found = choose_anchors(wanted, 5, torch.Generator().manual_seed(0)).tolist()
    assert set(found[0]) <= set(range(3, 10)) and len(set(found[0])) == 5
    assert sorted(found[1]) == [-1, -1, -1, 5, 6] and found[2] == [-1] * 5
    assert found == choose_anchors(wanted, 5, torch.Generator().manual_seed(0)).tolist()
    assert found[0] != choose_anchors(wanted, 5, torch.Generator().manual_seed(1)).tolist()[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_masks_give_in_training_what_they_give_in_drafting(family):
    target = tiny(family)
    made = lively(target)
    batch = batch_of(recorded(target, 2))
    anchors = torch.tensor([[9, 0, 17], [3, 12, 4]])
    with torch.no_grad():
        found = read_masks(made, batch.ids, anchors)
    for row in range(2):
        for column, anchor in enumerate(anchors[row].tolist()):
            ids = torch.tensor([[*batch.ids[row, : anchor + 1].tolist(), *made.mask_ids]])
            alone = made.gated.forward(ids, [ids.shape[1]], made.gated.new_cache(1), layers=(-1,))[1][0]
            torch.testing.assert_close(found[row, column], alone[0, anchor + 1 :], rtol=0, atol=1e-10)


def test_an_anchors_masks_do_not_see_another_anchors(target):
    made, ids = lively(target), recorded(target, 1)[0][0][None]
    with torch.no_grad():
        one = read_masks(made, ids, torch.tensor([[9, 5, 12]]))
        other = read_masks(made, ids, torch.tensor([[9, 11, 2]]))
        cut = read_masks(made, ids[:, :10], torch.tensor([[9, 5, 1]]))
    assert torch.equal(one[0, 0], other[0, 0]) and not torch.equal(one[0, 1], other[0, 1])
    torch.testing.assert_close(cut[0, :2], one[0, :2], rtol=0, atol=1e-12)  # nor tokens behind their anchor


def test_a_head_that_says_what_the_target_says_has_no_loss(target, monkeypatch):
    """Mask j of an anchor at i is asked for the target's state at i + 1 + j."""
    from mtp_tutorial.training import objective_gated_lora

    made, batch = GatedLora(target, num_masks=3), batch_of(recorded(target))
    made.start_from_target(torch.Generator().manual_seed(0))
    objective = GatedLoraObjective(made, [-1], torch.arange(24), anchors=6)

    def perfect(head, ids, anchors, shift=1):
        places = (anchors[..., None] + shift + torch.arange(3)).clamp(0, ids.shape[1] - 1)
        return batch.states[torch.arange(len(ids))[:, None, None], places]

    monkeypatch.setattr(objective_gated_lora, "read_masks", perfect)
    loss, row = objective.loss(batch, torch.Generator().manual_seed(0))
    assert float(loss.detach()) == pytest.approx(0, abs=1e-5)
    assert row.keys() == {"kl1", "match1", "kl2", "match2", "kl3", "match3", "consistency"}
    assert all(row[f"match{j}"] == 1 for j in (1, 2, 3))
    monkeypatch.setattr(objective_gated_lora, "read_masks", lambda *args: perfect(*args, shift=0))
    assert float(objective.loss(batch, torch.Generator().manual_seed(0))[0].detach()) > 1


def test_later_masks_weigh_less(target):
    made, batch = lively(target), batch_of(recorded(target))
    objective = GatedLoraObjective(made, [-1], torch.arange(24), decay=0.5, weights=(1.0, 0.0, 0.0))
    loss, row = objective.loss(batch, torch.Generator().manual_seed(0))
    assert float(loss.detach()) == pytest.approx(row["kl1"] + row["kl2"] / 2 + row["kl3"] / 4)


def test_the_sampler_is_told_the_true_token_at_the_masks_place(target, monkeypatch):
    made, batch = lively(target), batch_of(recorded(target, 1))
    seen = []
    real = made.sample
    monkeypatch.setattr(made, "sample", lambda hidden, previous: seen.append(previous) or real(hidden, previous))
    generator = torch.Generator().manual_seed(0)
    GatedLoraObjective(made, [-1], torch.arange(24), anchors=4).loss(batch, generator)
    anchors = choose_anchors(batch.wanted, 4, torch.Generator().manual_seed(0))[0]
    for j, previous in enumerate(seen):
        places = [int(i) + 1 + j for i in anchors if batch.wanted[0, min(int(i) + 1 + j, batch.ids.shape[1] - 1)]]
        assert previous.tolist() == batch.ids[0, places].tolist()


def test_a_batch_without_wanted_masks_has_no_loss_and_no_gradient(target):
    made, batch = lively(target), batch_of(recorded(target, 2))
    batch.wanted.zero_()
    batch.wanted[:, 0] = True  # where a mask behind an anchor of -1 would stand
    loss, row = GatedLoraObjective(made, [-1], torch.arange(24)).loss(batch, torch.Generator().manual_seed(0))
    loss.backward()
    assert float(loss.detach()) == 0 and row == {}
    assert all(float(w.grad.abs().sum()) == 0 for w in made.parameters() if w.grad is not None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_training_lowers_the_loss_and_leaves_the_target_alone(dtype):
    target = small(dtype)
    before = {name: weight.clone() for name, weight in target.model.state_dict().items()}
    texts = [Text("one", "any", ids, states.bfloat16(), 4) for ids, states in recorded(target, 8)]
    made = GatedLora(target, rank=4, num_masks=2)
    made.start_from_target(torch.Generator().manual_seed(0))
    objective = GatedLoraObjective(made, [-1], torch.arange(24), anchors=8)
    log = train(objective, texts, Schedule(steps=30, batch=8, warmup=2, lr_matrices=3e-2, lr_rest=1e-2), None)
    for name in ("kl1", "kl2", "consistency"):
        first, last = (sum(row[name] for row in rows) / len(rows) for rows in (log[:3], log[-3:]))
        assert last < 0.85 * first
    assert {weight.dtype for weight in made.parameters()} == {dtype}
    assert all(torch.equal(before[name], weight) for name, weight in target.model.state_dict().items())
    assert all(weight.grad is None for weight in target.model.parameters())
    assert len(mt.generate(target, PROMPTS, GatedLoraDrafter(target, made), max_new_tokens=6)) == 3


def test_every_weight_is_trained(target):
    made, batch = lively(target), batch_of(recorded(target))
    loss, _ = GatedLoraObjective(made, [-1], torch.arange(24)).loss(batch, torch.Generator().manual_seed(0))
    loss.backward()
    for name, weight in made.named_parameters():
        assert weight.grad is not None and float(weight.grad.abs().sum()) > 0, name


def test_autocast_does_not_lose_the_loras_gradients():
    target = small(torch.float32)
    made, batch = lively(target), batch_of(recorded(target))
    objective = GatedLoraObjective(made, [-1], torch.arange(24))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = objective.loss(batch, torch.Generator().manual_seed(0))
    loss.backward()
    assert all(float(weight.grad.abs().sum()) > 0 for weight in made.parameters())


@pytest.mark.parametrize("recorded_layers", [[], [-1, 4], [4]])
def test_texts_without_final_states_are_refused(target, recorded_layers):
    with pytest.raises(ValueError, match="make the answers again"):
        GatedLoraObjective(GatedLora(target), recorded_layers, torch.arange(24))
