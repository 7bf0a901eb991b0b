"""The short way of a forward call does what the model itself does, and steps aside where it can't."""

from __future__ import annotations

import pytest
import torch
from tiny import VOCABULARY, tiny

import mtp_tutorial as mt
from mtp_tutorial.models import fast, wrap

#: Families that the short way knows, and what is special about each.
KNOWN = {
    "llama": ("LlamaConfig", {}),
    "llama with biases": ("LlamaConfig", {"attention_bias": True, "mlp_bias": True}),
    "mistral without a window": ("MistralConfig", {"sliding_window": None}),
    "qwen2 (biases on queries, keys and values)": ("Qwen2Config", {}),
    "qwen3 (norms on queries and keys)": ("Qwen3Config", {"head_dim": 8}),
}


def made(kind: str, dtype: torch.dtype = torch.float64, seed: int = 0):
    import transformers

    name, options = KNOWN[kind]
    config = getattr(transformers, name)(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=False,
        **options,
    )
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    for name, weight in model.named_parameters():  # biases and gains start as zeros and ones, which would hide mistakes
        if name.endswith("bias") or "norm" in name:
            torch.nn.init.normal_(weight, 1.0 if "norm" in name else 0.0, 0.3)
    return model.to(dtype)


def read(target, batches: list[list[list[int]]], back: int = 1):
    """Logits and hidden states of forward calls on ragged batches, with a roll-back after each."""
    cache, found = target.new_cache(len(batches[0]), capacity=4), []
    for rows in batches:
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        logits, hidden = target.forward(ids, [len(row) for row in rows], cache, layers=(0, 1, -1))
        for row, tokens in enumerate(rows):
            found.append(logits[row, : len(tokens)])
            found += [states[row, : len(tokens)] for states in hidden]
        cache.roll_back([max(length - back, 0) for length in cache.lengths])
    return found


RAGGED = [[[3, 4, 5, 6], [7, 8], [9]], [[1, 2], [3], [4, 5, 6]], [[1], [2], [3]]]
ALONE = [[[3, 4, 5, 6]], [[7]], [[8, 9, 10]]]


@pytest.mark.parametrize("batches", [RAGGED, ALONE], ids=["ragged", "alone"])
@pytest.mark.parametrize("kind", KNOWN)
def test_the_short_way_gives_the_models_own_numbers(kind, batches):
    model = made(kind)
    for ours, theirs in zip(
        read(wrap(model, short=True), batches), read(wrap(model, short=False), batches), strict=True
    ):
        assert (ours - theirs).abs().max() < 2e-6  # norms and angles are float32, whatever the model's dtype


def test_in_bf16_the_short_way_is_a_rounding_away():
    model = made("llama with biases", torch.bfloat16)
    ours, theirs = read(wrap(model, short=True), RAGGED), read(wrap(model, short=False), RAGGED)
    widest = max((a.float() - b.float()).abs().max() / b.float().abs().max() for a, b in zip(ours, theirs, strict=True))
    assert widest < 0.03


def test_half_precision_takes_the_short_way_and_others_do_not():
    assert wrap(made("llama", torch.bfloat16)).takes_short_way
    assert not wrap(made("llama", torch.float32)).takes_short_way
    assert not mt.load("nano").takes_short_way
    assert mt.load("nano", short=True).takes_short_way


@pytest.mark.parametrize("family", ["mistral", "qwen2-mixed", "gpt2"])
def test_a_model_it_does_not_know_is_refused(family):
    target = tiny(family)
    assert not fast.supports(target.model)
    with pytest.raises(ValueError, match="short=True: there is a short way for"):
        wrap(target.model, short=True)


def test_toys_have_no_short_way():
    with pytest.raises(ValueError, match="toys take"):
        mt.load("toy", short=True)


def test_weights_changed_in_place_are_noticed():
    model = made("llama")
    target = wrap(model, short=True)
    before = read(target, ALONE)
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight.mul_(3)
    after, expected = read(target, ALONE), read(wrap(model, short=False), ALONE)
    assert (after[0] - before[0]).abs().max() > 1e-3
    assert all((a - b).abs().max() < 2e-6 for a, b in zip(after, expected, strict=True))


def test_a_hooked_model_is_called_itself():
    model, calls = made("llama"), []
    target = wrap(model, short=True)
    read(target, ALONE)
    handle = model.register_forward_hook(lambda *args: calls.append(1))
    read(target, ALONE)
    assert len(calls) == len(ALONE)
    handle.remove()
    read(target, ALONE)
    assert len(calls) == len(ALONE)


def test_nano_says_the_same_either_way():
    """float64, greedily: whole texts token for token."""
    texts = [
        mt.generate(
            mt.load("nano", dtype="float64", short=short),
            ["One morning, Lena", "3 x 4 ="],
            drafter="ngram",
            sampling=mt.Sampling(temperature=0),
            max_new_tokens=24,
        )
        for short in (False, True)
    ]
    assert [g.tokens for g in texts[0]] == [g.tokens for g in texts[1]]


@pytest.mark.parametrize("kind", ["llama with biases", "qwen3 (norms on queries and keys)"])
def test_the_compiled_way_gives_the_models_own_numbers(kind):
    """Through torch.compile's tracing; inductor's code is left out, as it takes a minute a shape."""
    from mtp_tutorial.models.compiled import CompiledCaller

    model = made(kind)
    target = wrap(model, compile=True)
    target._calls = CompiledCaller(model, backend="eager")
    for ours, theirs in zip(read(target, RAGGED), read(wrap(model, short=False), RAGGED), strict=True):
        assert (ours - theirs).abs().max() < 2e-6


def test_caches_of_a_compiled_target_come_in_few_sizes():
    target = wrap(made("llama"), compile=True)
    assert [target.new_cache(1, slots).capacity for slots in (1, 256, 257)] == [256, 256, 512]


def test_compile_without_a_short_way_is_refused():
    with pytest.raises(ValueError, match="compile=True: there is a short way for"):
        wrap(tiny("gpt2").model, compile=True)
    with pytest.raises(ValueError, match="leave short=False out"):
        wrap(made("llama"), short=False, compile=True)
    with pytest.raises(ValueError, match="not compile"):
        mt.load("toy", compile=True)
