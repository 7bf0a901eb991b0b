"""The slot cache: whatever was written and rolled back, what remains equals a fresh prefill."""

from __future__ import annotations

import pytest
import torch
from helpers import STEADY
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import FAMILIES, SLIDING, VOCABULARY, Calls, fresh_prefill, tiny, worst

import mtp_tutorial as mt
from mtp_tutorial.cache import PrefixCache, SlotCache
from mtp_tutorial.models import wrap
from mtp_tutorial.models.toys import random_toy

#: float64 with sdpa. The eager path of most models takes its softmax in float32, whatever the model's dtype.
CLOSE, CLOSE_EAGER = 1e-12, 2e-5


def random_ids(count: int, seed: int) -> list[int]:
    return torch.randint(3, VOCABULARY, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def read_ragged(target, cache, rows: list[list[int]]):
    """One forward call that reads these tokens behind what the cache holds."""
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return target.forward(ids, [len(row) for row in rows], cache)[0]


def plain_logits(target, ids: list[int]) -> torch.Tensor:
    """transformers' own forward of one sequence alone, without any of this library."""
    with torch.no_grad():
        return target.model(input_ids=torch.tensor([ids])).logits[0]


# -- Roll-back ------------------------------------------------------------------------------------------------------


@settings(STEADY, max_examples=25)
@given(st.data())
def test_the_cache_after_any_roll_back_equals_a_fresh_prefill(data):
    target = tiny()
    batch = data.draw(st.integers(1, 4))
    cache = target.new_cache(batch, capacity=3)  # so small that it must grow
    texts: list[list[int]] = [[] for _ in range(batch)]
    for step in range(data.draw(st.integers(1, 7))):
        counts = data.draw(st.lists(st.integers(0, 6), min_size=len(texts), max_size=len(texts)))
        if not any(counts):
            counts[0] = 1
        rows = [random_ids(count, seed=100 * step + row) for row, count in enumerate(counts)]
        logits = read_ragged(target, cache, rows)
        for row, new in enumerate(rows):
            texts[row] = texts[row] + new
            if new:
                expected = plain_logits(target, texts[row])[-len(new) :]
                assert (logits[row, : len(new)] - expected).abs().max() < CLOSE
        back = [data.draw(st.integers(0, len(text))) if data.draw(st.booleans()) else len(text) for text in texts]
        cache.roll_back(back)
        texts = [text[:length] for text, length in zip(texts, back, strict=True)]
        if data.draw(st.booleans()):
            kept = data.draw(st.lists(st.sampled_from(range(len(texts))), min_size=1, max_size=4, unique=True))
            cache.keep(kept)
            texts = [texts[row] for row in kept]
        assert cache.lengths == [len(text) for text in texts]
    for row, text in enumerate(texts):
        if text:
            assert worst(cache.read(row), fresh_prefill(target, text)) < CLOSE


def test_stale_slots_are_left_behind_and_never_matter():
    target = tiny()
    texts = [random_ids(9, 1), random_ids(6, 2)]
    found = []
    for poison in (None, 1e30, -1e30):
        cache = target.new_cache(2, capacity=40)
        read_ragged(target, cache, [text + random_ids(5, 3) for text in texts])
        before = [held.clone() for held in cache.layers[0]]
        cache.roll_back([len(text) for text in texts])
        assert all(torch.equal(*pair) for pair in zip(before, cache.layers[0])), "a roll-back moves counters only"
        if poison is not None:
            for pair in cache.layers:
                for held in pair:
                    for row, text in enumerate(texts):
                        held[row, :, len(text) :] = poison
        found.append(read_ragged(target, cache, [random_ids(3, 4), random_ids(2, 5)]))
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][0], found[2][0])
    assert torch.equal(found[0][1, :2], found[1][1, :2]) and torch.equal(found[0][1, :2], found[2][1, :2])


def test_the_padding_of_a_shorter_sequence_is_not_committed():
    target = tiny()
    long, short = random_ids(8, 1), random_ids(2, 2)
    cache = target.new_cache(2)
    read_ragged(target, cache, [long, short])
    assert cache.lengths == [8, 2]
    assert worst(cache.read(1), fresh_prefill(target, short)) < CLOSE


def test_a_counter_moves_back_only():
    cache = SlotCache(1, 2)
    cache.lengths = [3, 5]
    cache.roll_back([3, 0])
    assert cache.lengths == [3, 0]
    for wrong in ([4, 0], [3, -1]):
        with pytest.raises(ValueError, match="may only move back"):
            cache.roll_back(wrong)


def test_the_mask_shows_each_row_the_slots_up_to_its_own():
    cache = SlotCache(1, 2)
    cache.lengths = [2, 0]
    cache.begin(2)
    seen = cache.mask()[:, 0].int().tolist()
    assert seen == [[[1, 1, 1, 0], [1, 1, 1, 1]], [[1, 0, 0, 0], [1, 1, 0, 0]]]
    assert cache.mask(window=2)[0, 0].int().tolist() == [[0, 1, 1, 0], [0, 0, 1, 1]]


def test_toys_show_every_fault_of_a_cache():
    """A toy reads its context from the slots, so a cache that forgets to roll back changes what it says."""

    class Forgetful(SlotCache):
        def roll_back(self, lengths):
            self.lengths = [min(now, then + 1) for now, then in zip(self.lengths, lengths, strict=True)]

    toy = random_toy(6, order=2, seed=3)
    drafter = mt.load_drafter("oracle", toy, accuracy=0.5)
    greedy = mt.Sampling(temperature=0)
    plain = mt.generate(toy, [1, 2], sampling=greedy, max_new_tokens=20)
    right = mt.generate(toy, [1, 2], drafter=drafter, sampling=greedy, max_new_tokens=20)
    wrong = mt.generate(
        toy, [1, 2], drafter=drafter, sampling=greedy, max_new_tokens=20,
        cache_factory=lambda target, batch, capacity: Forgetful(1, batch, target.device, capacity),
    )  # fmt: skip
    assert right.tokens == plain.tokens
    assert wrong.tokens != plain.tokens


# -- Families -------------------------------------------------------------------------------------------------------


# transformers runs Gemma 2 in eager attention only, as its scores are capped.
PATHS = [(family, way) for family in FAMILIES for way in ("sdpa", "eager") if (family, way) != ("gemma2", "sdpa")]


@pytest.mark.parametrize("family,attention", PATHS)
def test_a_ragged_batch_gets_the_logits_of_each_sequence_alone(family, attention):
    target = tiny(family, attention)
    close = CLOSE if attention == "sdpa" else CLOSE_EAGER
    texts = [random_ids(count, seed) for seed, count in enumerate((14, 9, 17))]
    expected = [plain_logits(target, text) for text in texts]
    cache = target.new_cache(3, capacity=8)
    done = [0, 0, 0]
    # (tokens read, tokens rolled back) of each sequence, call after call
    for counts, back in (
        ((6, 3, 7), (0, 0, 0)),
        ((4, 1, 3), (3, 0, 2)),
        ((5, 4, 2), (1, 2, 0)),
        ((0, 1, 6), (0, 0, 4)),
    ):
        rows = [text[at : at + count] for text, at, count in zip(texts, done, counts, strict=True)]
        logits = read_ragged(target, cache, rows)
        for row, count in enumerate(counts):
            if count:
                difference = (logits[row, :count] - expected[row][done[row] : done[row] + count]).abs().max()
                assert difference < close
        done = [at + count - less for at, count, less in zip(done, counts, back, strict=True)]
        cache.roll_back(done)
    for row, text in enumerate(texts):
        assert worst(cache.read(row), fresh_prefill(target, text[: done[row]])) < close


@pytest.mark.parametrize("family", SLIDING)
def test_a_window_one_slot_too_wide_would_show(family):
    target = tiny(family, "eager")
    text = random_ids(16, 0)
    caller = target._caller()
    cache = target.new_cache(1)
    window = caller.window
    try:
        caller.window = window + 1
        wrong = read_ragged(target, cache, [text])[0]
    finally:
        caller.window = window
    assert (wrong - plain_logits(target, text)).abs().max() > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_speculation_equals_plain_decoding_in_every_family(family):
    target = tiny(family, "eager" if family == "gemma2" else "sdpa")
    prompts = [random_ids(count, count) for count in (3, 7, 5)]
    greedy = mt.Sampling(temperature=0)
    plain = mt.generate(target, prompts, sampling=greedy, max_new_tokens=12)
    drafter = mt.load_drafter("oracle", target, accuracy=0.6)
    fast = mt.generate(target, prompts, drafter=drafter, sampling=greedy, max_new_tokens=12)
    assert [g.tokens for g in fast] == [g.tokens for g in plain]
    assert any(0 < r.num_accepted < r.num_drafted for g in fast for r in g.rounds)


def test_logits_of_the_last_tokens_only_are_those_of_all_rows():
    target = tiny()
    rows = [random_ids(6, 0), random_ids(2, 1), random_ids(4, 2)]
    ids = torch.tensor([row + [0] * (6 - len(row)) for row in rows])
    every, _ = target.forward(ids, [6, 2, 4], target.new_cache(3))
    last, _ = target.forward(ids, [6, 2, 4], target.new_cache(3), last_only=True)
    for row, count in enumerate((6, 2, 4)):
        assert (last[row, 0] - every[row, count - 1]).abs().max() < CLOSE


def test_hidden_states_come_from_the_layers_asked_for():
    target = tiny()
    ids = torch.tensor([random_ids(5, 0)])
    logits, (first, last) = target.forward(ids, [5], target.new_cache(1), layers=(0, -1))
    assert torch.equal(first, target.model.get_input_embeddings()(ids))
    assert (target.model.get_output_embeddings()(last) - logits).abs().max() < CLOSE  # -1 is after the final norm


def test_a_hybrid_model_is_refused_with_its_reason():
    import transformers

    config = transformers.Qwen3NextConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, layer_types=["linear_attention", "full_attention"], num_experts=2,
        num_experts_per_tok=1, moe_intermediate_size=8, shared_expert_intermediate_size=8, linear_num_value_heads=1,
        linear_num_key_heads=1, linear_key_head_dim=8, linear_value_head_dim=8, pad_token_id=0, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    with pytest.raises(ValueError, match="linear_attention.*cannot be rolled back"):
        wrap(transformers.AutoModelForCausalLM.from_config(config), name="hybrid")


def test_a_model_with_alibi_positions_is_refused_with_its_reason():
    import transformers

    config = transformers.BloomConfig(vocab_size=VOCABULARY, hidden_size=16, n_layer=1, n_head=2)
    with pytest.raises(ValueError, match="ALiBi"):
        wrap(transformers.AutoModelForCausalLM.from_config(config), name="bloom")


# -- The prefix cache -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["toy", "llama"])
def test_the_prefix_cache_holds_committed_tokens_only(name):
    target = random_toy(VOCABULARY, order=1, seed=5) if name == "toy" else tiny()
    prefixes = PrefixCache()
    prompts = [random_ids(count, count) for count in (4, 9, 6)]
    runs = []
    for accuracy in (0.0, 0.5, 1.0):
        drafter = mt.load_drafter("oracle", target, accuracy=accuracy)
        for length in (1, 5, 12):
            runs += mt.generate(
                target, prompts, drafter=drafter, sampling=mt.Sampling(temperature=0), max_new_tokens=length,
                prefix_cache=prefixes,
            )  # fmt: skip
    assert sum(r.num_drafted - r.num_accepted for g in runs for r in g.rounds) > 20  # there were rejections to leak
    texts = {g.prompt_tokens + tuple(g.tokens) for g in runs}
    assert prefixes.texts
    for held, pairs in prefixes.texts.items():
        assert any(text[: len(held)] == held for text in texts)
        assert worst(pairs, fresh_prefill(target, list(held))) < CLOSE


@pytest.mark.parametrize("drafter", [None, "ngram"])
def test_a_known_prefix_is_not_read_again_and_changes_nothing(drafter):
    target = tiny()
    sampling = mt.Sampling(temperature=0.8)
    prompt = random_ids(20, 0)
    prompts = [prompt, prompt[:15] + random_ids(4, 1), random_ids(6, 2)]
    prefixes = PrefixCache()
    mt.generate(target, prompt, sampling=sampling, max_new_tokens=6, prefix_cache=prefixes)
    alone = mt.generate(target, prompts, drafter, sampling=sampling, max_new_tokens=8, seed=9)
    with Calls(target) as calls:
        reused = mt.generate(
            target, prompts, drafter, sampling=sampling, max_new_tokens=8, seed=9, prefix_cache=prefixes
        )
    assert [g.tokens for g in reused] == [g.tokens for g in alone]
    assert [g.rounds[0].cache_before for g in reused] == [19, 15, 0]  # the last token of a prompt is always read
    assert calls.widths[0] == 6  # 1, 4 and 6 tokens were left to read


def test_the_longest_shared_prefix_is_found_and_the_oldest_text_goes_first():
    target = random_toy(8, order=1)
    prefixes = PrefixCache(max_texts=2)

    def store(ids):
        cache = target.new_cache(1)
        target.forward(torch.tensor([ids]), [len(ids)], cache)
        prefixes.store(ids, cache, 0)

    store([1, 2, 3])
    store([1, 2, 4, 5])
    assert prefixes.lookup([1, 2, 4, 6])[0] == 3
    assert prefixes.lookup([7])[0] == 0 and prefixes.lookup([])[0] == 0
    assert prefixes.lookup([1, 2, 3])[0] == 3  # used last, so the other one goes
    store([6])
    assert set(prefixes.texts) == {(1, 2, 3), (6,)}


def test_a_prefix_cache_belongs_to_one_target():
    prefixes = PrefixCache()
    mt.generate(random_toy(5, seed=1), [1, 2], max_new_tokens=2, prefix_cache=prefixes)
    with pytest.raises(ValueError, match="another target"):
        mt.generate(random_toy(5, seed=2), [1, 2], max_new_tokens=2, prefix_cache=prefixes)
    with pytest.raises(ValueError, match="1 or more"):
        PrefixCache(max_texts=0)


def test_a_prefix_cache_serves_one_target_even_where_another_has_the_same_model():
    target, prefixes = tiny(), PrefixCache()
    mt.generate(target, [3, 4, 5], max_new_tokens=4, prefix_cache=prefixes)
    with pytest.raises(ValueError, match="another target"):
        mt.generate(wrap(target.model, batch_invariant=True), [3, 4, 5], max_new_tokens=4, prefix_cache=prefixes)
