"""Faults outside the verify rule: state that is stale, counted twice, or thrown away.

Takes: the engine's hooks, its cache, its drafter.  Returns: the same with one thing wrong.
Must not know: the right loop's insides; every fault is put in from outside.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...cache import SlotCache
from ...decode import Hooks
from ...drafters import Drafter
from ...records import Draft, Sampling, Verdict
from ...sampling import probabilities_unchecked
from ...verify import RULES


class Wrapped:
    """A drafter that passes everything on to another one; faults change one method."""

    def __init__(self, inner: Drafter) -> None:
        self.inner = inner
        self.needs_hidden = tuple(inner.needs_hidden)
        self.vocab_size = getattr(inner, "vocab_size", None)

    def start(self, target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        self.inner.start(target, prompts, hidden)

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        return self.inner.propose(k, sampling, uniforms)

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        self.inner.commit(verdict, hidden)

    def keep(self, rows: Sequence[int]) -> None:
        self.inner.keep(rows)


class KeepsRejected(SlotCache):
    """R14b. The roll-back stops one slot short: the first rejected token's keys and values stay visible."""

    def roll_back(self, lengths: Sequence[int]) -> None:
        super().roll_back([min(then + 1, now) for then, now in zip(lengths, self.lengths, strict=True)])


class ReadsRejected(Hooks):
    """R14a. The slot behind the accepted tokens is taken to be filled, so the recovered token is never read: where it
    belongs, the target still sees the rejected one."""

    def __init__(self) -> None:
        self.rejected: dict[int, int] = {}

    def reads(self, sequences: Sequence[int], ids: Tensor) -> Tensor:
        ids = ids.clone()
        for row, sequence in enumerate(sequences):
            ids[row, 0] = self.rejected.pop(sequence, ids[row, 0])
        return ids

    def observe(
        self, sequences: Sequence[int], draft: Draft, target_probs: Tensor, uniforms: Tensor, verdict: Verdict
    ) -> None:
        for row, sequence in enumerate(sequences):
            accepted = int(verdict.num_accepted[row])
            if accepted < int(draft.lengths[row]):
                self.rejected[sequence] = int(draft.tokens[row, accepted])


class FrozenPenalties(Hooks):
    """R15. Penalties are counted once a round: repeats inside a draft go unpenalised."""

    def probabilities(self, logits, sampling, history, prompt_lengths, draft) -> Tensor:
        return probabilities_unchecked(logits, sampling, history, prompt_lengths)


class ShortByOne(Wrapped):
    """After an all-accepted round the drafter never reads its own last draft token: the draft was made without it, and
    nobody feeds it later."""

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        self.inner.commit(verdict, hidden)
        for row, (bonus, accepted) in enumerate(
            zip(verdict.bonus.tolist(), verdict.num_accepted.tolist(), strict=True)
        ):
            if bonus and accepted:
                del self.inner.texts[row][-2]


class StaleHidden(Hooks):
    """The drafter gets the hidden states of the row before: the row that was read last round, not the one just read."""

    def hidden(self, hidden: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(torch.cat([states[:, :1], states[:, :-1]], 1) for states in hidden)


class DraftCoins(Wrapped):
    """Keeps the uniforms that drew the draft tokens, so that ``ReusedUniforms`` can use them a second time."""

    coins: Tensor | None = None

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        self.coins = uniforms
        return super().propose(k, sampling, uniforms)


class ReusedUniforms(Hooks):
    """The uniform that drew a draft token is also the coin that decides over it."""

    def __init__(self, source: DraftCoins) -> None:
        self.source = source

    def uniforms(self, generators: Sequence[torch.Generator], drafted: Sequence[int]) -> Tensor:
        found = super().uniforms(generators, drafted)
        for row, k in enumerate(drafted):
            if k:
                found[row, :k, 0] = self.source.coins[row, :k].cpu()
        return found


class Reseeded(Hooks):
    """The generator is seeded again before each round, so every round meets the same uniforms."""

    def uniforms(self, generators: Sequence[torch.Generator], drafted: Sequence[int]) -> Tensor:
        for source in generators:
            source.manual_seed(source.initial_seed())
        return super().uniforms(generators, drafted)


class NanPasses(Hooks):
    """Nobody looks for NaN. Every comparison with NaN is false, so a row of NaN becomes a valid-looking token: id 0."""

    check_nan = False


class NanRow(Hooks):
    """An overflow in the target: the row after the first draft token is NaN. The right code raises ValueError."""

    def probabilities(self, logits, sampling, history, prompt_lengths, draft) -> Tensor:
        probs = super().probabilities(logits, sampling, history, prompt_lengths, draft)
        if probs.shape[1] > 1:
            probs[:, 1:] = torch.nan
        return probs


class NanRowPasses(NanPasses, NanRow):
    """The overflow of ``NanRow``, and nobody looks."""


class PastEos(Hooks):
    """Only the last token of a round is compared with the end of text; one among the accepted is passed over."""

    def ends(self, token: int, eos_ids: frozenset[int], accepted: bool) -> bool:
        return not accepted and super().ends(token, eos_ids, accepted)


class FiltersJoined(Hooks):
    """Top-k and top-p are both measured on the unfiltered distribution, where the plain path applies top-p to what
    top-k left and normalised."""

    def probabilities(self, logits, sampling, history, prompt_lengths, draft) -> Tensor:
        if logits.shape[1] == 1:  # plain decoding and the prefill take the other path
            return super().probabilities(logits, sampling, history, prompt_lengths, draft)
        plain = Sampling(temperature=sampling.temperature)
        probs = probabilities_unchecked(logits, plain)
        by_k = probabilities_unchecked(logits, Sampling(temperature=sampling.temperature, top_k=sampling.top_k))
        by_p = probabilities_unchecked(logits, Sampling(temperature=sampling.temperature, top_p=sampling.top_p))
        kept = probs.masked_fill((by_k == 0) | (by_p == 0), 0)
        return kept / kept.sum(-1, keepdim=True)


class ArgmaxOfSoft(Wrapped):
    """R6 in the engine. The drafter says the argmax at each step and hands over the soft distribution as q."""

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        inner, made = self.inner, self.inner.choice

        def choice(sampling: Sampling):
            found = made(sampling)
            draws = found.pick

            def pick(logits: Tensor, uniforms: Tensor) -> Tensor:
                draws(logits, uniforms)
                found.tokens[-1] = found.probs[-1].argmax(-1)
                return found.tokens[-1]

            found.pick = pick
            return found

        inner.choice = choice
        try:
            return inner.propose(k, sampling, uniforms)
        finally:
            del inner.choice


def _needed(drafter: Drafter | None, what: str) -> Drafter:
    if drafter is None:
        raise ValueError(f"this fault lies in the drafter: pass {what}")
    return drafter


def keeps_rejected(drafter: Drafter | None) -> dict:
    return {"cache_factory": lambda target, batch, room: KeepsRejected(target.num_layers, batch, target.device, room)}


def reads_rejected(drafter: Drafter | None) -> dict:
    return {"hooks": ReadsRejected()}


def frozen_penalties(drafter: Drafter | None) -> dict:
    return {"hooks": FrozenPenalties()}


def short_by_one(drafter: Drafter | None) -> dict:
    return {"drafter": ShortByOne(_needed(drafter, "one that has a cache of its own, such as 'draft' or 'mtp'"))}


def stale_hidden(drafter: Drafter | None) -> dict:
    return {"drafter": _needed(drafter, "one that reads hidden states, such as 'mtp'"), "hooks": StaleHidden()}


def uniform_reused(drafter: Drafter | None) -> dict:
    wrapped = DraftCoins(_needed(drafter, "one that draws its tokens: load_drafter(…, temperature=1.0)"))
    return {"drafter": wrapped, "hooks": ReusedUniforms(wrapped)}


def reseeded(drafter: Drafter | None) -> dict:
    return {"hooks": Reseeded()}


def nan_row(drafter: Drafter | None) -> dict:
    return {"hooks": NanRowPasses()}


def past_eos(drafter: Drafter | None) -> dict:
    return {"hooks": PastEos()}


def filters_joined(drafter: Drafter | None) -> dict:
    return {"hooks": FiltersJoined()}


def argmax_of_soft(drafter: Drafter | None) -> dict:
    drafter = _needed(drafter, "one that draws its tokens: load_drafter(…, temperature=0.6)")
    if not hasattr(drafter, "choice"):
        raise ValueError(f"R6 needs a drafter with logits of its own, such as 'mtp'; {type(drafter).__name__} has none")
    return {"drafter": ArgmaxOfSoft(drafter), "rule": RULES["rejection"]}
