"""The loop: plain decoding is a speculative round that drafts nothing.

Takes: a target, prompts, a drafter, a verify rule.  Returns: rounds as they happen, and finished texts.
Must not know: how a drafter guesses, how a rule judges, the lab.

A round: the drafter proposes k_b tokens for sequence b; one forward call reads the last token and the draft, k_b + 1
rows; the verify rule keeps a prefix and adds one token; the counters of the caches move back to what was kept. Nothing
is computed twice, and the bonus token costs no call of its own.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..cache import PrefixCache, SlotCache
from ..drafters import Drafter
from ..models import Target
from ..records import Controller, Generation, Round, Sampling
from ..verify import Rule
from .engine import Engine
from .hooks import Hooks
from .request import MAX_DRAFT, Prompt, check_k

__all__ = ["MAX_DRAFT", "Hooks", "check_k", "generate", "stream"]


def generate(
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
) -> Generation | list[Generation]:
    """Decode one prompt, or a batch of them with ragged acceptance; return a Generation, or a list of them.

    prompts: a string (one user turn on a chat model; raw text with ``chat=False``), a list of messages, a list of ids,
        or a list of any of these, which returns a list.
    drafter: None decodes plainly; a name that ``load_drafter`` knows; or a drafter.
    rule, rule_params: the verify rule (a name from RULES, or a Rule) and its parameters. The first token comes from the
        prefill and never passes it.
    num_speculative_tokens: k, 0 to 64, or a Controller that chooses it in each round.
    sampling: None is Sampling(): temperature 1.
    stop: strings that end the text. The tokens keep what completed the string; ``text`` ends before it.
    seed: a number s keys the random streams of sequence i by the pair (s, i), so that runs with different seeds share
        none. A list gives each prompt its own key: a number s for (s, 0), or a pair. A single prompt also takes a pair
        as a tuple: ``generate(t, prompts, seed=7)[2]`` is drawn from the same streams as
        ``generate(t, prompts[2], seed=(7, 2))``. For a list of two prompts ``seed=(7, 2)`` is two seeds, one each. A
        text depends on its own key only, up to rounding: in float64 it is the same alone and in a batch, while in
        lower precision a batched product rounds differently, so that near-ties may be decided differently (rarely in
        float32, often in bfloat16).
    cache_factory: (target, batch, capacity) → SlotCache.  hooks: see Hooks.
    prefix_cache: reuses the keys and values of texts decoded before. Not used with drafters that read hidden states.
    Raises ValueError for bad input, before anything is decoded.
    """
    engine = Engine(
        target,
        prompts,
        drafter,
        rule=rule,
        rule_params=rule_params,
        num_speculative_tokens=num_speculative_tokens,
        sampling=sampling,
        max_new_tokens=max_new_tokens,
        stop=stop,
        ignore_eos=ignore_eos,
        seed=seed,
        chat=chat,
        cache_factory=cache_factory,
        hooks=hooks,
        prefix_cache=prefix_cache,
    )
    started = time.perf_counter()
    for _ in engine.rounds():
        pass
    seconds = time.perf_counter() - started
    found = [engine.generation(sequence, seconds) for sequence in engine.sequences]
    return found if engine.is_batch else found[0]


def stream(
    target: Target, prompts: Prompt | Sequence[Prompt], drafter: Drafter | str | None = None, **options
) -> Iterator[Round]:
    """As ``generate``, with the same options, but yields each Round as it happens.

    The prefill comes first, then one Round for each live sequence and target call. Its ``text`` is what it adds:
    ``for one in stream(…): print(one.text, end="")`` writes the text of one prompt as it is decoded.
    Raises ValueError for bad input, and for an option that there is not.
    """
    known = [name for name in inspect.signature(generate).parameters if name not in ("target", "prompts", "drafter")]
    for name in options:
        if name not in known:
            raise ValueError(f"stream has no option {name!r}; it has those of generate: {', '.join(known)}")
    return Engine(target, prompts, drafter, **options).rounds()
