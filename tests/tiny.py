"""Tiny random models in float64 and the instruments that several tests of the engine share."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from mtp_tutorial.decode import Hooks
from mtp_tutorial.models import Target, wrap
from mtp_tutorial.sampling import inverse_cdf
from mtp_tutorial.verify import Rule, conclude, draw_at, full_row, leading

VOCABULARY = 24
_SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 160,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    # Wide enough that every token matters to what follows: a wrong mask must show.
    "initializer_range": 0.4,
}  # fmt: skip
WINDOW = 5
#: family → config class and what it has beside _SIZES. Windows are short, so that they slide in a short test.
FAMILIES = {
    "llama": ("LlamaConfig", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 8}),
    "mistral": ("MistralConfig", {"sliding_window": WINDOW}),
    "qwen2-mixed": ("Qwen2Config", {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}),
    "gemma2": ("Gemma2Config", {"head_dim": 8, "sliding_window": WINDOW, "query_pre_attn_scalar": 8}),
    "gemma3": (
        "Gemma3TextConfig",
        {"head_dim": 8, "sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "gpt2": ("GPT2Config", {}),
}
SLIDING = ("mistral", "qwen2-mixed", "gemma2", "gemma3")
_GPT2 = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
         "max_position_embeddings": "n_positions"}  # fmt: skip


@functools.cache
def tiny(family: str = "llama", attention: str = "sdpa", seed: int = 0) -> Target:
    """A random model of that family as a target without tokenizer."""
    import transformers

    name, more = FAMILIES[family]
    settings = {**_SIZES, **more}
    if family == "gpt2":
        settings = {_GPT2.get(key, key): value for key, value in settings.items()}
        del settings["num_key_value_heads"], settings["intermediate_size"]
    config = getattr(transformers, name)(**settings, attn_implementation=attention)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(config)
    return wrap(model.double(), name=f"tiny {family} {seed}")


class Calls:
    """The widths and batches of each forward call of a model, and of each the ids."""

    def __init__(self, target: Target) -> None:
        self.ids: list[Tensor] = []
        self.handle = target.model.register_forward_pre_hook(self._see, with_kwargs=True)

    def _see(self, module, args, kwargs) -> None:
        self.ids.append(kwargs["input_ids"].clone())

    def __enter__(self) -> Calls:
        return self

    def __exit__(self, *error) -> None:
        self.handle.remove()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def widths(self) -> list[int]:
        return [ids.shape[1] for ids in self.ids]


def coin(draft, target_probs, uniforms):
    """Accept by the coin alone, so that rounds of every kind occur, whatever an untrained head says."""
    n = leading(uniforms[:, :-1, 0] < 0.7, draft)
    return conclude(draft, n, inverse_cdf(full_row(draft, target_probs, n), draw_at(uniforms, n)))


COIN = Rule("coin", coin, False, False, "Accept with probability 0.7.", "these tests", lambda *args: [])


class Watch(Hooks):
    """Keeps what each round was decided from."""

    def __init__(self) -> None:
        self.seen = []

    def observe(self, sequences, draft, target_probs, uniforms, verdict) -> None:
        self.seen.append((list(sequences), draft, target_probs, uniforms, verdict))


def worst(pairs_a, pairs_b) -> float:
    """The largest absolute difference between two lists of (keys, values)."""
    assert len(pairs_a) == len(pairs_b)
    return max(float((a - b).abs().max()) for one, two in zip(pairs_a, pairs_b, strict=True) for a, b in zip(one, two))


def fresh_prefill(target: Target, ids: list[int]):
    """The keys and values of ``ids`` read in one go, alone."""
    cache = target.new_cache(1, len(ids))
    target.forward(torch.tensor([ids], device=target.device), [len(ids)], cache)
    return cache.read(0)
