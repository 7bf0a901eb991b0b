"""Who takes part: the shipped drafters, ways to write one's own, and entries that are not what they seem.

Takes: a target, functions.  Returns: entries.
Must not know: scores.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...drafters import Drafter, bundled, load_drafter
from ...models import Target
from ...records import Draft, Sampling
from ..drafts import Says
from ..museum.engine_bugs import ArgmaxOfSoft, Wrapped
from .task import Entry

Plan = Callable[[list[int], int], Sequence[int]]


class Writes(Says):
    """A drafter from a plain function: ``plan(all ids of the text so far, the prompt's too; k)`` → up to k ids."""

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        self.said = [list(prompt) for prompt in prompts]

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        rows = [list(self.plan(list(said), want))[:want] for said, want in zip(self.said, k.tolist(), strict=True)]
        return Draft.of_lists(rows, uniforms.device)


def writes(name: str, plan: Plan, k: int = 4, note: str = "") -> Entry:
    """An entry from a function of (ids so far, k); it drafts without randomness, so it cannot misreport anything."""
    return Entry(name, lambda target: Writes(plan), k, note)


class Joined:
    """Two drafters by turns: where ``first`` finds nothing, ``second`` drafts. Both are told of every round."""

    def __init__(self, first: Drafter, second: Drafter) -> None:
        self.both = (first, second)
        self.needs_hidden = tuple(second.needs_hidden)
        self.vocab_size = getattr(second, "vocab_size", None)
        if first.needs_hidden:
            raise ValueError("first= must be a drafter that reads no hidden states, such as 'ngram'")

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        self.both[0].start(target, prompts, ())
        self.both[1].start(target, prompts, hidden)

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        found = self.both[0].propose(k, sampling, uniforms)
        missing = found.lengths.to(k.device) == 0
        other = self.both[1].propose(torch.where(missing, k, 0), sampling, uniforms)
        if other.probs is not None:
            raise ValueError("second= must draft greedily: temperature=0")
        rows = [[t for t in (*a, *b) if t >= 0] for a, b in zip(found.tokens.tolist(), other.tokens.tolist())]
        return Draft.of_lists(rows, uniforms.device)

    def commit(self, verdict, hidden: tuple[Tensor, ...]) -> None:
        self.both[0].commit(verdict, ())
        self.both[1].commit(verdict, hidden)

    def keep(self, rows: Sequence[int]) -> None:
        for drafter in self.both:
            drafter.keep(rows)


def next_words(texts: Sequence[Sequence[int]], most: int) -> dict[tuple[int, ...], int]:
    """For every run of 1 … ``most`` ids in the texts: the id that followed it most often (the smaller one at ties)."""
    counts: dict[tuple[int, ...], Counter] = defaultdict(Counter)
    for text in texts:
        for i in range(1, len(text)):
            for n in range(1, min(most, i) + 1):
                counts[tuple(text[i - n : i])][text[i]] += 1
    return {run: max(after, key=lambda token: (after[token], -token)) for run, after in counts.items()}


# -- The shipped ones -----------------------------------------------------------------------------------------------


def _shipped(name: str) -> Callable[[Target], Drafter]:
    kind, _, variant = name.partition("-")

    def make(target: Target) -> Drafter:
        return load_drafter(kind, target, **({"weights": bundled(target, name)} if variant else {}))

    return make


#: The repository's drafters, each with the k that scores best on practice prompts (``tune``).
SHIPPED: tuple[Entry, ...] = (
    Entry("plain", lambda target: None, 0, "no drafts"),
    *(
        Entry(name, _shipped(name), k, note)
        for name, k, note in (
            ("ngram", 2, "what followed these words before in this text"),
            ("draft", 3, "a model of one layer"),
            ("mtp", 2, "one head, applied k times"),
            ("mtp-one-step", 1, "the head, trained on its first step only"),
            ("mtp-stack", 1, "a layer for each step"),
            ("medusa", 1, "parallel heads"),
            ("eagle", 1, "features from three depths"),
            ("gated_lora", 4, "masks ask the target itself"),
        )
    ),
)


# -- Entries that are not what they seem ----------------------------------------------------------------------------


class SaysSmallQ(Writes):
    """Reports a tiny probability for its own token, so that p ÷ q is above every coin: R3 by the back door."""

    def __init__(self, plan: Plan, vocabulary: int, q: float = 1e-30) -> None:
        super().__init__(plan)
        self.vocab_size, self.q = vocabulary, q

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        tokens = super().propose(k, sampling, uniforms).tokens
        probs = torch.full((*tokens.shape, self.vocab_size), 1 / self.vocab_size, dtype=torch.float64)
        return Draft(tokens, probs.to(tokens.device).scatter(2, tokens.clamp_min(0)[..., None], self.q))


class Peeks(Wrapped):
    """Looks into the engine for the coins of the round to come, and drafts only where they are small."""

    def __init__(self, inner: Drafter, largest: float = 0.7) -> None:
        super().__init__(inner)
        self.largest = largest

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        return super().propose(self._lucky(k), sampling, uniforms)

    def _lucky(self, k: Tensor) -> Tensor:
        frame = sys._getframe(1)
        while frame is not None and not hasattr(frame.f_locals.get("self"), "live"):
            frame = frame.f_back
        if frame is None:  # nobody's engine: behave
            return k
        found = []
        for sequence, want in zip(frame.f_locals["self"].live, k.tolist(), strict=True):
            copy = torch.Generator()
            copy.set_state(sequence.verifying.get_state())
            coins = torch.rand(want, generator=copy, dtype=torch.float64).tolist()
            found.append(next((i for i, coin in enumerate(coins) if coin >= self.largest), want))
        return torch.tensor(found)


def always_right(plan: Plan, k: int = 8) -> Entry:
    """Whatever ``plan`` says is accepted: the cheat that wins."""
    return Entry("always right", lambda target: SaysSmallQ(plan, target.vocab_size), k, "accepted, whatever it says")


def submissions() -> tuple[Entry, Entry, Entry]:
    """Three entries for a post-mortem. Two of them are honest."""
    return (
        Entry("amber", lambda target: load_drafter("mtp", target, temperature="same"), 2, "drafts drawn from the head"),
        Entry("birch", lambda target: Peeks(load_drafter("mtp", target)), 2, "drafts when it feels lucky"),
        Entry(
            "cedar",
            lambda target: Joined(load_drafter("ngram", target, min_ngram=2), load_drafter("mtp", target)),
            2,
            "n-gram first, then the head",
        ),
    )


def argmax_of_soft() -> Entry:
    """The head's favourite with the head's softmax as draft_probs: R6."""
    return Entry(
        "argmax", lambda t: ArgmaxOfSoft(load_drafter("mtp", t, temperature="same")), 4, "soft q, argmax draft"
    )
