"""What is asked for: every argument of ``generate`` looked at, before anything is decoded.

Takes: the arguments as a caller writes them.  Returns: a ``Request`` that the loop can rely on.
Must not know: the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ..cache import PrefixCache, SlotCache
from ..drafters import Drafter, check_drafter, load_drafter
from ..models import Target
from ..models.target import GrowingText
from ..records import Controller, Round, Sampling
from ..sampling import DRAFTING, VERIFYING, generator, stream_key
from ..verify import Rule, get_rule
from .hooks import Hooks

MAX_DRAFT = 64

Messages = list[dict[str, str]]
Prompt = str | Messages | Sequence[int]


@dataclass
class TextInMaking:
    """One text in the making."""

    index: int
    prompt: list[int]
    verifying: torch.Generator
    drafting: torch.Generator
    growing: GrowingText  # the text of the tokens, as far as the rounds have told it
    tokens: list[int] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    text: str | None = None  # set when it has ended
    finish_reason: str | None = None
    waiting: str = ""  # the end of the text so far, where it may become a stop string
    shown: int = 0  # how many characters the rounds have told

    @property
    def ids(self) -> list[int]:
        return self.prompt + self.tokens


class Request:
    """The arguments of ``generate``, checked and completed. See there for what each means."""

    def __init__(
        self,
        target: Target,
        prompts: Prompt | Sequence[Prompt],
        drafter: Drafter | str | None = None,
        rule: str | Rule = "rejection",
        rule_params: Mapping[str, float] | None = None,
        num_speculative_tokens: int | Controller = 4,
        sampling: Sampling | None = None,
        max_new_tokens: int = 128,
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
        seed: int | tuple[int, int] | Sequence[int | tuple[int, int]] = 0,
        chat: bool = True,
        cache_factory: Callable[[Target, int, int], SlotCache] | None = None,
        hooks: Hooks | None = None,
        prefix_cache: PrefixCache | None = None,
    ) -> None:
        if not isinstance(target, Target):
            raise ValueError(f"target must be what mt.load returned, not {type(target).__name__}")
        if target.model.training:
            raise ValueError(
                f"{target.name} is in training mode, where dropout makes it another model at each call: "
                "run target.model.eval() first"
            )
        self.target = target
        self.rule = get_rule(rule)
        if not isinstance(rule_params or {}, Mapping):
            raise ValueError(f"rule_params={rule_params!r}: use a dict of names and numbers such as {{'delta': 0.2}}")
        self.rule_params = self.rule.check_params(rule_params or {})
        self.controller = _controller(num_speculative_tokens)
        self.sampling = Sampling() if sampling is None else sampling
        if not isinstance(self.sampling, Sampling):
            raise ValueError(f"sampling must be an mt.Sampling, got {type(sampling).__name__}")
        if not _is_whole(max_new_tokens) or max_new_tokens < 1:
            raise ValueError(f"max_new_tokens={max_new_tokens!r}: use a whole number, 1 or more")
        self.max_new_tokens = int(max_new_tokens)
        stop = () if stop is None else stop
        self.stop = tuple(stop) if isinstance(stop, (list, tuple)) else (stop,)
        if any(not isinstance(text, str) or not text for text in self.stop):
            raise ValueError(f"stop={stop!r}: use a string that is not empty, or a list of those; () for none")
        self.eos_ids = frozenset() if ignore_eos else target.eos_ids
        self.hooks = Hooks() if hooks is None else hooks
        if not isinstance(self.hooks, Hooks):
            raise ValueError(f"hooks={hooks!r:.60}: use mt.Hooks() or an object of a class that extends it")
        self.drafter = load_drafter(drafter, target) if isinstance(drafter, str) else drafter
        if self.drafter is not None:
            check_drafter(self.drafter)
        width = getattr(self.drafter, "vocab_size", None)
        if width not in (None, target.vocab_size):
            raise ValueError(
                f"the drafter has a vocabulary of {width} tokens, {target.name} one of "
                f"{target.vocab_size}: load a drafter for this target with mt.load_drafter(name, target)"
            )
        self.is_batch = _is_batch(prompts)
        prompts = list(prompts) if self.is_batch else [prompts]
        if not prompts:
            raise ValueError("the list of prompts is empty: give at least one")
        keys = _keys(seed, len(prompts), self.is_batch)
        self.sequences = [
            TextInMaking(
                i,
                target.encode(prompt, chat),
                generator(key, VERIFYING),
                generator(key, DRAFTING),
                GrowingText(target.decode),
            )
            for i, (prompt, key) in enumerate(zip(prompts, keys, strict=True))
        ]
        room = max(len(s.prompt) for s in self.sequences) + min(max_new_tokens, 4096) + MAX_DRAFT + 1
        capacity = min(room, target.max_length + MAX_DRAFT + 1)
        if not (cache_factory is None or callable(cache_factory)):
            raise ValueError(f"cache_factory={cache_factory!r:.60}: use a function of (target, batch, capacity)")
        target.check_batch(len(self.sequences))
        make = cache_factory or Target.new_cache
        self.cache = make(target, len(self.sequences), capacity)
        self._check_cache()
        self.prefix_cache = prefix_cache
        if prefix_cache is not None:
            if not isinstance(prefix_cache, PrefixCache):
                raise ValueError(f"prefix_cache={prefix_cache!r:.60}: use an mt.PrefixCache(), or None")
            prefix_cache.claim(target)  # not its model: a batch-invariant target's keys have other roundings
        self.layers = tuple(getattr(self.drafter, "needs_hidden", ()))
        if not all(_is_whole(layer) and -1 <= layer <= target.num_layers for layer in self.layers):
            raise ValueError(
                f"the drafter wants the hidden states of the layers {self.layers}; {target.name} has -1 (after the "
                f"final norm) and 0 (the embedding) to {target.num_layers}"
            )

    def _check_cache(self) -> None:
        """Raise ValueError when what ``cache_factory`` made cannot hold this batch."""
        batch, layers = len(self.sequences), self.target.num_layers
        if not isinstance(self.cache, SlotCache) or (self.cache.batch, len(self.cache.layers)) != (batch, layers):
            raise ValueError(f"cache_factory must return a SlotCache for {batch} sequences and {layers} layers")
        if any(held >= len(s.prompt) for held, s in zip(self.cache.lengths, self.sequences, strict=True)):
            raise ValueError("cache_factory returned a cache that holds a text already: make a new one at each call")


class _Fixed:
    """The Controller behind a plain number."""

    def __init__(self, k: int) -> None:
        self.k = k

    def choose(self, sequences: Sequence[int]) -> list[int]:
        return [self.k] * len(sequences)

    def observe(self, rounds: Sequence[Round]) -> None:
        pass


def check_k(k: int) -> None:
    """Raise ValueError unless k is a draft length: 0 to 64."""
    if not _is_whole(k) or not 0 <= k <= MAX_DRAFT:
        raise ValueError(f"num_speculative_tokens={k!r}: use a whole number from 0 to {MAX_DRAFT}")


def _controller(k: int | Controller) -> Controller:
    if hasattr(k, "choose") and hasattr(k, "observe") and not isinstance(k, type):
        return k
    check_k(k)
    return _Fixed(int(k))


def _is_batch(prompts: Prompt | Sequence[Prompt]) -> bool:
    """True for a list of prompts, False for one: a string, a list of messages (dicts), or a list of ids."""
    if isinstance(prompts, (Tensor, np.ndarray)):
        return prompts.ndim == 2
    if isinstance(prompts, str):
        return False
    if not isinstance(prompts, (list, tuple)):
        raise ValueError(f"a prompt is a string, messages, or a list of ids; got {type(prompts).__name__}")
    return bool(prompts) and not isinstance(prompts[0], (dict, int, np.integer))


def _keys(seed: int | tuple[int, int] | Sequence[int | tuple[int, int]], count: int, is_batch: bool) -> list:
    """For each prompt what ``sampling.generator`` takes: a number, or a pair (seed, sequence)."""
    seed = plain_numbers(seed)
    if _is_whole(seed):
        number, _ = stream_key(seed)
        return [(number, i) for i in range(count)]
    if not is_batch and isinstance(seed, tuple) and len(seed) == 2 and all(_is_whole(number) for number in seed):
        return [seed]
    try:
        keys = list(seed)
    except TypeError as error:
        raise ValueError(f"seed={seed!r}: use a whole number, or one for each prompt") from error
    if len(keys) != count:
        raise ValueError(
            f"{len(keys)} seeds for {count} prompts: give one each, or a single number; the key of sequence i under "
            "seed s is the pair (s, i), in a list [(s, i)]"
        )
    return keys


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def plain_numbers(value: object) -> object:
    """Tensors and arrays as Python numbers or lists of them; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value
