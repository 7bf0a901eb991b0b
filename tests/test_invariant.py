"""With batch_invariant=True a token's logits are the same, bit for bit, whatever else a call reads."""

from __future__ import annotations

import pytest
import torch
from test_fast import made
from tiny import tiny

import mtp_tutorial as mt
from mtp_tutorial.cache import PrefixCache
from mtp_tutorial.models import wrap
from mtp_tutorial.models.invariant import WIDTH

TEXTS = [[3 + (7 * i + j) % 20 for i in range(n)] for j, n in enumerate((37, 5, 16, 20))]


def logits(target, steps: list[list[list[int]]]) -> list[torch.Tensor]:
    """The logits of every token of each text, read in these steps."""
    cache, found = target.new_cache(len(steps[0]), 1), [[] for _ in steps[0]]
    for rows in steps:
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        for text, row, scores in zip(found, rows, target.forward(ids, list(map(len, rows)), cache)[0], strict=True):
            text.append(scores[: len(row)])
    return [torch.cat(parts) for parts in found]


def cut(size: int) -> list[list[list[int]]]:
    """The texts in steps of up to ``size`` tokens; those that have ended read nothing more."""
    longest = max(map(len, TEXTS))
    return [[text[at : at + size] for text in TEXTS] for at in range(0, longest, size)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_logits_do_not_depend_on_the_shape_of_a_call(dtype):
    target = wrap(made("llama", dtype), batch_invariant=True)
    alone = [logits(target, [[text]])[0] for text in TEXTS]
    for size in (1, 3, 7, 64):
        assert all(map(torch.equal, logits(target, cut(size)), alone)), size
    one_by_one = logits(target, [[[token]] for token in TEXTS[0]])[0]
    assert torch.equal(one_by_one, alone[0])
    plain = wrap(target.model)
    close = [(a.float() - b.float()).abs().max() < 0.02 for a, b in zip(logits(plain, cut(64)), alone, strict=True)]
    assert all(close)


@pytest.mark.parametrize("family", ["mistral", "gemma2", "gemma3", "gpt2"])
def test_windows_and_learned_positions(family):
    """float64, so that a wrong mask or position can't hide behind rounding."""
    plain = tiny(family, "eager" if family == "gemma2" else "sdpa")
    target = wrap(plain.model, batch_invariant=True)
    for ours, theirs in zip(logits(target, cut(7)), logits(plain, cut(64)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_hidden_states_and_last_rows_are_those_of_the_model():
    model = made("llama")
    found = []
    for target in (wrap(model), wrap(model, batch_invariant=True)):
        cache = target.new_cache(4, 1)
        ids = torch.tensor([text + [0] * (37 - len(text)) for text in TEXTS])
        scores, hidden = target.forward(ids, list(map(len, TEXTS)), cache, last_only=True, layers=(0, 2, -1))
        found.append([scores, *(h[b, : len(text)] for h in hidden for b, text in enumerate(TEXTS))])
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_every_call_of_the_model_has_one_shape():
    target = wrap(made("llama", torch.float32), batch_invariant=True)
    shapes = set()
    target.model.register_forward_pre_hook(lambda m, i, k: shapes.add(tuple(k["input_ids"].shape)), with_kwargs=True)
    logits(target, cut(5))
    assert shapes == {(1, WIDTH)}


def test_texts_are_the_same_alone_in_a_batch_speculatively_and_with_a_prefix_cache():
    target = mt.load("nano", batch_invariant=True)
    prompts, seeds = ["One morning, Lena went", "3 x 4 =", "The cat"], [3, 4, 5]
    for temperature in (0, 0.8):
        options = {"sampling": mt.Sampling(temperature=temperature), "max_new_tokens": 12, "ignore_eos": True}
        alone = [mt.generate(target, p, seed=s, **options).tokens for p, s in zip(prompts, seeds, strict=True)]
        prefix = PrefixCache()
        for _ in range(2):
            together = mt.generate(target, prompts, seed=seeds, prefix_cache=prefix, **options)
            assert [g.tokens for g in together] == alone
        if temperature == 0:
            drafted = mt.generate(target, prompts, "mtp", num_speculative_tokens=3, seed=seeds, **options)
            assert [g.tokens for g in drafted] == alone


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ValueError, match="batch_invariant"):
        wrap(made("llama"), compile=True, batch_invariant=True)
    with pytest.raises(ValueError, match="not batch_invariant"):
        mt.load("toy", batch_invariant=True)
