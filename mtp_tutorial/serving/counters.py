"""What a server counted of its drafts, and what follows: rates by position with intervals, differences of readings.

Takes: counts.  Returns: rates, intervals, other counts.
Must not know: where the counts come from.

vLLM counts from its start on: rounds (``num_drafts``: only those that drafted anything), draft tokens, accepted draft
tokens, and for each position the rounds that accepted it. Two readings and their difference tell of the time between.
SGLang keeps no such counters; its gauges are ratios over the last few rounds, so that no interval can be worked out.

Ref: vLLM 0.32 and 0.33 ``v1/spec_decode/metrics.py``; SGLang 0.5.23 ``srt/observability/metrics_collector.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..lab.stats import Interval, wilson_interval


@dataclass(frozen=True)
class Counters:
    """What one vLLM engine counted.

    drafts: rounds that drafted at least one token.  draft_tokens: tokens drafted.  accepted_tokens: of them accepted.
    accepted: for draft position 1, 2, … the rounds that accepted it.
    generated, requests: all tokens said, requests finished; None when the text lacks them.
    created: when counting began, in seconds since 1970; None when the text does not say.
    was_reset: of a difference: the server began anew in between, so these counts are those since its start.
    """

    labels: Mapping[str, str]
    drafts: int
    draft_tokens: int
    accepted_tokens: int
    accepted: tuple[int, ...]
    generated: int | None = None
    requests: int | None = None
    created: float | None = None
    was_reset: bool = False

    @property
    def acceptance_rate(self) -> float:
        """Accepted ÷ drafted tokens; NaN before the first draft. Tokens behind a rejection count as drafted."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else math.nan

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens a round that drafted, as vLLM logs it: 1 + accepted tokens ÷ drafts. The 1 is the recovered or bonus
        token. NaN before the first draft."""
        return 1 + self.accepted_tokens / self.drafts if self.drafts else math.nan

    @property
    def length_interval(self) -> Interval:
        """95 % of the mean acceptance length, two standard errors, as if rounds were independent.

        The counts by position hold the whole law of a round: accepted[i] - accepted[i + 1] rounds stopped behind
        position i + 1. Rounds of one text are alike, so the true interval is wider.
        """
        if self.drafts < 2:
            return Interval(math.nan, math.nan)
        squares = sum((2 * i + 1) * count for i, count in enumerate(self.accepted))  # Σ n² over rounds
        mean = sum(self.accepted) / self.drafts
        half = 1.96 * math.sqrt(max(squares / self.drafts - mean**2, 0) / self.drafts)
        return Interval(1 + mean - half, 1 + mean + half)

    @property
    def by_position(self) -> list[float]:
        """Of *all* rounds that drafted, the share that accepts position 1, 2, …, as vLLM logs it: ÷ drafts."""
        return [count / self.drafts if self.drafts else math.nan for count in self.accepted]

    @property
    def judged(self) -> list[int]:
        """How many rounds judged each position: all before it were accepted. Denominators of ``conditional``.

        An upper bound where drafts are shorter than k (see ``full_drafts``): no counter says how many had a position.
        """
        return [self.drafts, *self.accepted[:-1]]

    @property
    def conditional(self) -> list[float]:
        """Of the rounds that *judged* a position, the share that accepts it; NaN where none got there."""
        return [count / n if n else math.nan for count, n in zip(self.accepted, self.judged)]

    @property
    def full_drafts(self) -> bool:
        """True when every round drafted as many tokens as there are positions; n-gram look-up often drafts fewer."""
        return self.draft_tokens == self.drafts * len(self.accepted)

    @property
    def undrafted_rounds(self) -> int | None:
        """Target calls without a draft, one for each token they say; None when the text does not tell.

        All tokens, less one a request (the prompt's own call), less those of the rounds that drafted. About: a request
        that ends inside a draft counts more accepted tokens than it says.
        """
        if self.generated is None or self.requests is None:
            return None
        return max(self.generated - self.requests - self.drafts - self.accepted_tokens, 0)

    @property
    def tokens_per_call(self) -> float:
        """Tokens a target call, calls without a draft included, the prompt's own left out; NaN when unknown."""
        left = self.undrafted_rounds
        if left is None or not self.drafts + left:
            return math.nan
        return (self.generated - self.requests) / (self.drafts + left)

    def intervals(self, conditional: bool = False, level: float = 0.95) -> list[Interval]:
        """Wilson's interval of each position's rate, as if rounds were independent; the true one is wider."""
        trials = self.judged if conditional else [self.drafts] * len(self.accepted)
        none = Interval(math.nan, math.nan)
        return [wilson_interval(count, n, level) if n else none for count, n in zip(self.accepted, trials)]


@dataclass(frozen=True)
class Gauges:
    """What one SGLang scheduler last averaged, over the rounds since its last line in the log (40 of them by default).

    accept_length: tokens a round, bonus included.  accept_rate: accepted ÷ drafted. Both 0 before the first round.
    steps, draft_tokens: the settings in force; draft_tokens counts the verify call's rows, one more than is drafted.
    None: this version does not export it.
    """

    labels: Mapping[str, str]
    accept_length: float | None
    accept_rate: float | None
    steps: int | None = None
    draft_tokens: int | None = None


def total(counters: Iterable[Counters]) -> Counters:
    """Several engines as one, such as the replicas of a model. Raises ValueError without any, or for two models."""
    found = list(counters)
    if not found:
        raise ValueError("no counters to add up")
    models = sorted({one.labels.get("model_name", "") for one in found})
    if len(models) > 1:
        raise ValueError(f"counters of {', '.join(models)}: rates of different models are not to be mixed; pick one")
    longest = max(len(one.accepted) for one in found)

    def summed(name: str) -> int | None:
        values = [getattr(one, name) for one in found]
        return None if None in values else sum(values)

    return Counters(
        {"model_name": models[0]},
        *(summed(name) for name in ("drafts", "draft_tokens", "accepted_tokens")),
        tuple(sum(one.accepted[i] for one in found if i < len(one.accepted)) for i in range(longest)),
        summed("generated"),
        summed("requests"),
        was_reset=any(one.was_reset for one in found),
    )


def difference(before: Counters, after: Counters) -> Counters:
    """What was counted between two readings of one engine.

    If a count fell, or counting began later than before, the server was started anew: then the counts of ``after`` are
    those since that start, and ``was_reset`` is True. What was counted between ``before`` and the end is lost.
    Raises ValueError for readings of two engines or models, and where counting began earlier in ``after``: a server's
    start never moves back, so they are two servers', or swapped.
    """
    if dict(before.labels) != dict(after.labels):
        raise ValueError(f"readings of two engines: {words(before.labels)} and {words(after.labels)}")
    if None not in (before.created, after.created) and after.created < before.created:
        raise ValueError(
            f"the earlier reading began to count at {before.created:.0f} seconds since 1970, the later one at "
            f"{after.created:.0f}: they are of two servers, or swapped"
        )
    names = ("drafts", "draft_tokens", "accepted_tokens", "generated", "requests")
    old = {name: getattr(before, name) for name in names}
    new = {name: getattr(after, name) for name in names}
    fell = any(a is not None and b is not None and a < b for a, b in zip(new.values(), old.values()))
    fell = fell or any(a < b for a, b in zip(after.accepted, before.accepted))
    began_anew = None not in (before.created, after.created) and after.created > before.created
    if fell or began_anew or len(before.accepted) != len(after.accepted):
        return replace(after, was_reset=True)
    left = {name: None if None in (new[name], old[name]) else new[name] - old[name] for name in names}
    return replace(after, accepted=tuple(a - b for a, b in zip(after.accepted, before.accepted)), **left)


def words(labels: Mapping[str, str]) -> str:
    """Labels as Prometheus writes them."""
    return ", ".join(f'{name}="{word}"' for name, word in sorted(labels.items())) or "no labels"
