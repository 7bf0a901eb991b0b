"""The measurements behind the instruments: each returns one number, 0 or rounding for the right code.

Takes: a ``Subject``.  Returns: a number.
Must not know: exhibits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from ...cache import SlotCache
from ...decode import generate
from ...drafters import Drafter, load_drafter
from ...drafters.mtp import MtpDrafter
from ...drafters.mtp_head import MtpHead
from ...models import Target, toys
from ...records import Sampling
from ...sampling import probabilities
from ...verify import Rule
from ..drafts import draft_after
from ..exact import table
from ..museum.engine_bugs import Wrapped
from ..museum.engine_demos import toy, watched
from ..stats import chi_square

#: A drafter → the keyword arguments of ``generate`` under test, the drafter among them.
Switch = Callable[[Drafter | None], dict]

GREEDY = Sampling(temperature=0)
SAMPLES = 1500


_PROMPT = [3, 1, 4, 1, 5]
_PROMPTS = [_PROMPT, [9, 2, 6], [5, 3, 5, 8, 9, 7, 9]]


@cache
def _llama() -> Target:
    return toys.random_llama()


@cache
def _toy() -> Target:
    return toys.random_toy(3, order=2, seed=4)


def _drawing(target: Target) -> Drafter:
    """A drafter with a model of its own that draws its tokens: accepted now and then."""
    return load_drafter("draft", target, model=toys.random_llama(seed=0, num_layers=1), temperature=1.0)


def _drawing_toy(target: Target) -> Drafter:
    return load_drafter("draft", target, model=toys.random_toy(3, order=1, seed=8), temperature=1.0)


def _self_draft(target: Target) -> Drafter:
    return load_drafter("draft", target, model=target)


def _head(target: Target) -> Drafter:
    """An MTP head with random weights: its drafts are poor, and must be the same poor ones each time."""
    head = MtpHead(target)
    head.start_from_target(torch.Generator().manual_seed(0))
    return MtpDrafter(target, head=head)


@dataclass(frozen=True)
class Subject:
    """What is examined. rule: its verify rule.  switch: how it is run.  numbers: the two laws of an own loop."""

    rule: Rule
    switch: Switch
    numbers: tuple[tuple[float, ...], tuple[float, ...]] | None = None


def law_by_enumeration(what: Subject) -> float:
    """The largest total variation to plain sampling, over all ways of drafting, by enumeration."""
    if what.numbers is not None:
        return 0.5 * sum(abs(a - b) for a, b in zip(*what.numbers, strict=True))
    return max(row["total_variation"] for row in table([what.rule]))


def samples_against_law(what: Subject) -> float:
    """1 - p of a χ² test: what ``generate`` says at T = 1 with a sampled drafter, against the table of a toy."""
    target = _toy()
    run = {"num_speculative_tokens": 2, "sampling": Sampling(), "max_new_tokens": 4}
    found = generate(target, [[0]] * SAMPLES, **what.switch(_drawing_toy(target)), **run)
    # Token 1 comes from the prefill; the law of tokens 2 to 4 is that given token 1.
    observed, expected = torch.zeros(3, 27), torch.zeros(3, 27, dtype=torch.float64)
    for generation in found:
        first, *rest = generation.tokens
        observed[first, rest[0] * 9 + rest[1] * 3 + rest[2]] += 1
    for first in range(3):
        expected[first] = _law_of_three(target.model.table, first).flatten() * observed[first].sum()
    law = expected.flatten() / SAMPLES
    return 1 - chi_square(observed.flatten().tolist(), law.tolist()).p_value


def _law_of_three(chances: Tensor, first: int) -> Tensor:
    """(3, 3, 3): the law of the three tokens that follow ``0, first`` in a toy of order 2."""
    a = chances[0, first]  # (3,)
    b = chances[first, :3]  # (a, b)
    c = chances[:3, :3]  # (a, b, c)
    return a[:, None, None] * b[:, :, None] * c


@torch.no_grad()
def rows_against_recomputed(what: Subject) -> float:
    """The largest difference between the rows that the verify rule is shown and those of a call from scratch."""
    target, differences = _llama(), []
    for sampling in (Sampling(), Sampling(frequency_penalty=0.7, repetition_penalty=1.3), Sampling(top_k=6, top_p=0.6)):
        options, seen = watched(what.switch(_drawing(target)))
        generate(target, [_PROMPT], **options, num_speculative_tokens=3, max_new_tokens=8, sampling=sampling)
        text = list(_PROMPT)
        for _, draft, rows, _, verdict in seen:
            said = [token for token in draft.tokens[0].tolist() if token >= 0]
            for i in range(len(said) + 1):
                ids = torch.tensor([text + said[:i]])
                logits = target.model(input_ids=ids).logits[:, -1:]
                fresh = probabilities(logits, sampling, ids, torch.tensor([len(_PROMPT)]))[0, 0]
                differences.append((fresh - rows[0, i]).abs().max())
            text += [token for token in verdict.tokens[0].tolist() if token >= 0]
    return float(torch.stack(differences).max())  # NaN wins a maximum of tensors


def greedy_against_plain(what: Subject) -> float:
    """T = 0 in float64: how many texts differ from plain decoding, with a drafter that is right now and then."""
    target = _llama()
    run = {"max_new_tokens": 16, "sampling": GREEDY, "ignore_eos": True}
    plain = generate(target, _PROMPTS, **run)
    found = generate(target, _PROMPTS, **what.switch(_drawing(target)), num_speculative_tokens=3, **run)
    return float(sum(a.tokens != b.tokens for a, b in zip(plain, found, strict=True)))


def cache_against_prefill(what: Subject) -> float:
    """The largest difference between the cache after many roll-backs and that of a fresh prefill of the same text."""
    target, kept = _llama(), []
    options = what.switch(_drawing(target))
    make = options.pop("cache_factory", Target.new_cache)

    def factory(target: Target, batch: int, room: int) -> SlotCache:
        kept.append(make(target, batch, room))
        return kept[0]

    run = {"num_speculative_tokens": 3, "max_new_tokens": 16, "cache_factory": factory}
    found = generate(target, _PROMPT, **options, **run)
    text, length = [*_PROMPT, *found.tokens], kept[0].lengths[0]
    if length not in (len(text) - 1, len(text)):  # the last token is not read any more, unless it was a draft token
        return float("inf")
    text = text[:length]
    fresh = target.new_cache(1, len(text))
    target.forward(torch.tensor([text]), [len(text)], fresh)
    pairs = zip(kept[0].read(0), fresh.read(0), strict=True)
    return max(float((a - b).abs().max()) for one, two in pairs for a, b in zip(one, two, strict=True))


def drafts_against_scratch(what: Subject) -> float:
    """How many drafts differ from those of a drafter that reads the same text from scratch."""
    target, wrong = _llama(), 0
    for make in (_self_draft, _head):
        options = what.switch(make(target))
        noted = _Noted(options["drafter"])
        run = {"num_speculative_tokens": 2, "max_new_tokens": 12, "sampling": GREEDY, "ignore_eos": True}
        generate(target, [_PROMPT], **{**options, "drafter": noted}, **run)
        for text, tokens in noted.drafts:
            wrong += draft_after(target, make(target), text, len(tokens)).tokens[0].tolist() != tokens
    return float(wrong)


def tokens_after_the_end(what: Subject) -> float:
    """How many tokens follow the end of text, when a draft goes on past it."""
    rows = {(): (1.0, 0.0, 0.0), (0,): (0.0, 1.0, 0.0), (1,): (0.0, 0.0, 1.0)}  # 2 → 0 → 1, the end → 2
    target = toy(rows, 3, eos=1)
    options = what.switch(load_drafter("draft", target, model=toy(rows, 3, eos=1), temperature=1.0))
    tokens = generate(target, [2], **options, num_speculative_tokens=2, max_new_tokens=8).tokens
    return float(len(tokens) - 1 - tokens.index(1)) if 1 in tokens else float("inf")


def nan_is_passed_over(what: Subject) -> float:
    """1 when a target that gives NaN is decoded without an error."""
    target, model = toy({(): (0.0, 0.5, 0.5)}, 3), toy({(): (0.0, 0.5, 0.5)}, 3)
    target.model.lm_head.weight[:, 1] = torch.nan  # the row that follows token 1
    options = what.switch(load_drafter("draft", target, model=model, temperature=1.0))
    try:
        generate(target, [2], **options, num_speculative_tokens=1, max_new_tokens=12)
    except ValueError:
        return 0.0
    return 1.0


def uniforms_used_twice(what: Subject) -> float:
    """How many of a text's uniforms (drafting, coins, draws) were used before in the same text."""
    target = _toy()
    options, seen = watched(what.switch(_drawing_toy(target)))
    noted = _Noted(options["drafter"])
    generate(target, [[0]], **{**options, "drafter": noted}, num_speculative_tokens=2, max_new_tokens=24)
    numbers = [u for uniforms in noted.uniforms for u in uniforms]
    for _, draft, _, uniforms, _ in seen:
        k = int(draft.lengths[0])
        numbers += uniforms[0, :k, 0].tolist() + uniforms[0, : k + 1, 1].tolist()
    return float(len(numbers) - len(set(numbers)))


class _Noted(Wrapped):
    """Keeps each draft with the text before it, and the uniforms it was given."""

    def __init__(self, inner: Drafter) -> None:
        super().__init__(inner)
        self.drafts: list[tuple[list[int], list[int]]] = []
        self.uniforms: list[list[float]] = []

    def start(self, target, prompts, hidden) -> None:
        super().start(target, prompts, hidden)
        self.text = list(prompts[0])

    def propose(self, k, sampling, uniforms):
        draft = super().propose(k, sampling, uniforms)
        self.drafts.append((list(self.text), [token for token in draft.tokens[0].tolist() if token >= 0]))
        self.uniforms.append(uniforms[0, : int(k[0])].tolist())
        return draft

    def commit(self, verdict, hidden) -> None:
        super().commit(verdict, hidden)
        self.text += [token for token in verdict.tokens[0].tolist() if token >= 0]
