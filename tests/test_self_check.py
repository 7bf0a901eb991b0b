"""What a model is allowed, found by calling it; families that take positions or masks in ways of their own."""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path

import pytest
import torch
from tiny import Calls, tiny

import mtp_tutorial as mt
from mtp_tutorial.drafters.draft_model import DraftModelDrafter
from mtp_tutorial.drafters.eagle import EagleHead
from mtp_tutorial.drafters.gated_lora import GatedLora
from mtp_tutorial.drafters.medusa import MedusaDrafter, MedusaHead
from mtp_tutorial.drafters.mtp_head import MtpHead
from mtp_tutorial.drafters.small_model import SmallModel
from mtp_tutorial.models import adapter, self_check, wrap

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
families = importlib.import_module("families_check")


@pytest.fixture
def unknown(monkeypatch):
    """As if no model had been looked at yet."""
    monkeypatch.setattr(self_check, "_found", {})


def test_a_model_without_any_logits_is_no_proof_for_its_class(unknown):
    silent = families.built("gpt_neo")
    with torch.no_grad():
        silent.get_output_embeddings().weight.zero_()
    assert not wrap(silent).batch_refusal
    assert "ragged batch" in wrap(families.built("gpt_neo")).batch_refusal


def test_activations_scaled_by_the_largest_of_the_call_are_refused(unknown):
    model = families.built("llama")

    def quantise(part, inputs):
        scale = inputs[0].abs().amax() / 7
        return ((inputs[0] / scale).round() * scale,)

    for layer in model.model.layers:
        layer.mlp.register_forward_pre_hook(quantise)
    with pytest.raises(ValueError, match="later tokens.*quantised"):
        wrap(model)


# -- Families -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family,verdict,why", [
    ("gpt_neo", "batch 1", "ragged batch"), ("roformer", "batch 1", "ragged batch"),
    ("bart", "batch 1", "ragged batch"), ("bert encoder", "refused", "later tokens"),
    ("t5", "refused", "encoder-decoder"),
    ("openai-gpt", "refused", "cannot be called"), ("mixtral float64", "refused", "dtype='float32'"),
    ("bert", "all", ""), ("roberta", "all", "positions from 0"), ("llama longrope", "all", "32 tokens"),
    ("phi3 longrope", "all", "32 tokens"), ("llama dynamic", "all", ""), ("mpt", "all", ""), ("mistral", "all", ""),
])  # fmt: skip
def test_a_family_decodes_as_in_transformers_or_is_refused(family, verdict, why, monkeypatch):
    monkeypatch.setattr(families, "NEW", 10)
    monkeypatch.setattr(families, "PROMPTS", families.PROMPTS[:2])
    row = families.check(family)
    assert (row.verdict, row.is_wrong) == (verdict, False) and why in row.why
    if verdict != "refused":
        assert row.alone and row.speculative and row.rejected > 5


def test_what_the_check_refuses_does_decode_wrongly(monkeypatch):
    """Without it: a text in a batch is another one, silently."""
    monkeypatch.setattr("mtp_tutorial.models.examine", lambda *_: ("", ""))
    monkeypatch.setattr(families, "NEW", 10)
    assert families.check("gpt_neo").batch is False


def test_the_tool_counts_a_wrong_family_and_a_failing_one():
    assert families.Row("a", "all", alone=True, batch=False).is_wrong and not families.Row("a", "refused").is_wrong
    with pytest.raises(SystemExit):
        families.main(["no such family"])


# -- What is allowed ------------------------------------------------------------------------------------------------


def test_a_batch_is_refused_where_only_single_texts_come_out_right():
    target = wrap(families.built("gpt_neo"), name="neo")
    drafter = mt.load_drafter("draft", target, model=target)
    assert mt.generate(target, [[3]], drafter, max_new_tokens=3)[0].tokens  # a batch of one is none
    for options in ({}, {"cache_factory": mt.Target.new_cache}):
        with pytest.raises(ValueError, match="neo gives other logits in a ragged batch.*one prompt at a time"):
            mt.generate(target, [[3], list(range(3, 12))], max_new_tokens=3, **options)
    with pytest.raises(ValueError, match="one prompt at a time"):
        mt.generate(tiny(seed=4), [[3], [4]], DraftModelDrafter(tiny(seed=4), model=_as_wide(target)), max_new_tokens=3)


def _as_wide(target: mt.Target) -> mt.Target:
    """Another target that says that its vocabulary is tiny()'s; it is refused before it is called."""
    from dataclasses import replace

    return replace(target, vocab_size=tiny().vocab_size)


def test_a_good_model_is_called_five_times_and_once_only(unknown):
    model = tiny("gemma3").model
    self_check._found.clear()
    with Calls(tiny("gemma3")) as calls:
        wrap(model)
        assert len(calls) == 5
        wrap(model, name="the same again")
        assert len(calls) == 5
        model.config._attn_implementation, kept = "eager", model.config._attn_implementation
        try:
            wrap(model)
        finally:
            model.config._attn_implementation = kept
    assert len(calls) == 10


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2"])
def test_good_models_are_allowed_in_every_dtype(unknown, family, dtype):
    import copy

    model = copy.deepcopy(tiny(family).model).to(getattr(torch, dtype))
    assert self_check.examine(model, family, 160) == ("", "")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_does_not_hide_wrong_batches(unknown, dtype):
    assert "ragged batch" in wrap(families.built("roformer").to(dtype)).batch_refusal


def test_a_mixture_of_experts_in_half_precision_is_allowed(unknown):
    target = wrap(families.built("qwen3_moe").bfloat16())
    assert not target.batch_refusal


def test_logits_of_nan_are_left_to_the_loop(unknown):
    model = families.built("llama")
    with torch.no_grad():
        model.lm_head.weight.fill_(torch.nan)
    target = wrap(model)
    with pytest.raises(ValueError, match="NaN"):
        mt.generate(target, [3, 4])


def test_a_mended_model_is_looked_at_again(unknown):
    model = families.built("llama")
    good = model.forward

    def broken(*args, **options):
        raise RuntimeError("out of order\nand more")

    model.forward = broken
    with pytest.raises(ValueError, match=r"cannot be called \(RuntimeError: out of order\)"):
        wrap(model)
    model.forward = good
    assert not wrap(model).batch_refusal


def test_a_model_that_remembers_rejected_drafts_is_found(unknown):
    """Right as long as all that is read is kept; wrong after the first draft that is rolled back."""
    model, read = families.built("llama"), 0
    good = model.forward

    @functools.wraps(good)
    def remembering(*args, **options):
        nonlocal read
        output = good(*args, **options)
        if options["use_cache"]:
            begin = int(options["position_ids"][0, 0])
            read = begin and read
            output.logits = output.logits + (read - begin) * output.logits.roll(1, -1)
            read += options["input_ids"].shape[1]
        return output

    model.forward = remembering
    with pytest.raises(ValueError, match="a cache that is rolled back"):
        wrap(model)


def test_no_global_seed_is_touched(unknown):
    model = families.built("gpt_neo")
    before = torch.get_rng_state()
    wrap(model)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("ends", [torch.tensor(7), torch.tensor([7, 8]), [7, 8], 7])
def test_ends_of_text_may_be_a_tensor(ends):
    model = families.built("llama")
    model.generation_config.eos_token_id = ends
    assert wrap(model).eos_ids - {8} == {7}


# -- Rotary factors that follow the largest position ------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llama longrope", "phi3 longrope", "llama dynamic"])
def test_up_to_its_original_length_a_text_is_the_same_alone_in_a_batch_and_with_drafts(family):
    target = wrap(families.built(family), name=family)
    assert target.max_length == 32 and (not target.notes) == ("dynamic" in family)
    prompts = [list(range(3, 21)), [5, 6, 7]]
    options = {"sampling": families.GREEDY, "max_new_tokens": 40, "ignore_eos": True}
    plain = [mt.generate(target, prompt, **options) for prompt in prompts]
    assert [len(g.tokens) for g in plain] == [14, 29]
    for prompt, g in zip(prompts, plain, strict=True):
        right = families.reference(target.model, prompt, 32)
        assert len(right) >= 14 and g.tokens[: len(right)] == right
    for drafter in (None, "ngram", mt.load_drafter("oracle", target, accuracy=0.5)):
        made = mt.generate(target, prompts, drafter, num_speculative_tokens=8, **options)
        assert [g.tokens for g in made] == [g.tokens for g in plain]
    with pytest.raises(ValueError, match="reads at most 32"):
        mt.generate(target, [3] * 32)


def test_a_heads_padding_does_not_pass_the_original_length():
    target = wrap(families.built("llama longrope"))
    decoder = adapter.Decoder(target.model)
    x, positions = torch.zeros(1, 2, 32, dtype=torch.float64), torch.tensor([[3, 40]])
    near = decoder.turn(x, torch.tensor([[3, 31]]))
    for found, right in zip(decoder.turn(x, positions), near, strict=True):
        assert torch.equal(found, right)


# -- Heads and small models -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["cohere2", "diffllama", "deepseek_v3", "glm4_moe", "gemma2", "qwen2 mixed"])
def test_a_small_model_of_all_layers_is_always_right(family):
    target = wrap(families.built(family), name=family)
    small = SmallModel(target, target.num_layers)
    small.start_from_target(torch.Generator().manual_seed(0))
    drafter = DraftModelDrafter(target, model=small)
    options = {"sampling": families.GREEDY, "max_new_tokens": 12, "ignore_eos": True}
    found = mt.generate(target, families.PROMPTS, drafter, **options)
    assert [g.tokens for g in found] == [g.tokens for g in mt.generate(target, families.PROMPTS, **options)]
    rounds = [one for g in found for one in g.rounds]
    assert sum(one.num_accepted for one in rounds) == sum(one.num_drafted for one in rounds) > 0
    ids = torch.tensor([families.PROMPTS[2]])  # longer than the window: what training sees is what drafting sees
    _, (states,) = target.forward(ids, [ids.shape[1]], target.new_cache(1), layers=(-1,))
    torch.testing.assert_close(small(ids), states, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family,make,why", [
    ("olmo", MtpHead, "borrow a norm"), ("gemma3n_text", MtpHead, "borrow a decoder layer"),
    ("gemma4_text", MtpHead, "borrow a decoder layer"), ("gemma4_text", SmallModel, "borrow a decoder layer"),
    ("longcat_flash", EagleHead, "3 layers, but 6"), ("longcat_flash", SmallModel, "3 layers, but 6"),
    ("gemma3n_text", GatedLora, "gated LoRA cannot"), ("deepseek_v3", GatedLora, "gated LoRA cannot.*DeepSeek"),
])  # fmt: skip
def test_a_head_that_does_not_suit_its_target_is_refused_with_the_reason(family, make, why):
    target = wrap(families.built(family), name=family)
    with pytest.raises(ValueError, match=f"{why}.*(use|Use)"):
        make(target)


def test_hidden_states_of_another_shape_are_refused():
    target = wrap(families.built("gemma3n_text"))
    with pytest.raises(ValueError, match="hidden states"):
        mt.generate(target, [3, 4, 5], MedusaDrafter(target, head=MedusaHead(target)))
