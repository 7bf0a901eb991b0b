"""A loaded server on paper: requests arrive, share a batch, and a controller says how many tokens each one drafts.

Takes: requests, a controller, sizes of models and machine or recorded costs.  Returns: when each request got its
tokens; summary rows.  Must not know: real models; nothing is measured here.

Each step is one round of all live requests: the drafter's steps, then one call of the target, with the times of
``theory.roofline`` or those of a record (``bench.Costs``). A new request enters the next step if the batch has room;
its prompt is read in the same call and brings its first token (chunked prefill without the chunks). Left out: the
drafter's reading of the prompt, memory for keys and values, scheduling costs.

Whether the drafter is right at a place of a text is drawn once, with the request, so that controllers are compared on
the same texts. The same requests and a controller of the same kind give the same numbers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..decode import MAX_DRAFT, check_k
from ..records import Controller, Round
from .theory import DRAFTER_7B, GPU, MODEL_70B, Machine, Roofline, RoundCosts, RoundSeconds, Weights
from .theory.numbers import Alpha, number, plain, positive, rates, whole

__all__ = ["DRAFTER", "TARGET", "Outcome", "Request", "Served", "compare", "make_requests", "simulate"]

#: The article's model with the keys and values of Llama-3-70B (80 layers, 8 heads of 128, 16 bits), and a tenth of it.
TARGET = Weights(MODEL_70B.parameters, MODEL_70B.bytes_each, kv_bytes=2 * 80 * 8 * 128 * 2)
DRAFTER = DRAFTER_7B


@dataclass(frozen=True)
class Request:
    """One request. arrival: seconds.  prompt_tokens, new_tokens: how many.  kind: a name for the tables.

    alpha: conditional acceptance rates as in ``theory.rounds``; past its end, a sequence goes on with its last rate.
    seed: of the coins that say where the drafter is right.
    """

    arrival: float
    prompt_tokens: int
    new_tokens: int
    alpha: Alpha
    kind: str = "text"
    seed: int = 0

    def __post_init__(self) -> None:
        number("arrival", self.arrival)
        whole("prompt_tokens", self.prompt_tokens, 1)
        whole("new_tokens", self.new_tokens, 1)
        self.rates()

    def rates(self) -> list[float]:
        """A rate for each of the 64 draft positions there can be."""
        alpha = plain(self.alpha)
        if isinstance(alpha, (list, tuple)):
            if not alpha:
                raise ValueError("alpha is empty: give a rate, or one for each draft position")
            alpha = [*alpha, *[alpha[-1]] * MAX_DRAFT]
        return rates(alpha, MAX_DRAFT)


def make_requests(
    count: int,
    generator: np.random.Generator,
    kinds: Mapping[str, Alpha],
    rate: float | None = None,
    prompt_tokens: int = 200,
    new_tokens: tuple[int, int] = (64, 192),
) -> list[Request]:
    """``count`` requests, of each kind about as many.

    generator: what all that is random is drawn from.  kinds: name → acceptance rates.
    rate: requests a second, arriving as a Poisson process; None: all are there at the start.
    new_tokens: the least and the most; lengths are uniform between them.
    """
    if not isinstance(generator, np.random.Generator):
        raise ValueError(f"generator={generator!r:.60}: use numpy's, such as np.random.default_rng(0)")
    low, high = (whole("new_tokens", n, 1) for n in new_tokens)
    if not kinds or high < low:
        raise ValueError("give at least one kind, and new_tokens as (least, most)")
    count, names = whole("count", count, 1), list(kinds)
    pauses = np.zeros(count) if rate is None else generator.exponential(1 / positive("rate", rate), count)
    arrivals, picked = np.cumsum(pauses), generator.integers(len(names), size=count)
    lengths, seeds = generator.integers(low, high + 1, count), generator.integers(2**62, size=count)
    return [
        Request(float(arrivals[i]), prompt_tokens, int(lengths[i]), kinds[name], name, int(seeds[i]))
        for i, name in enumerate(names[j] for j in picked)
    ]


@dataclass
class Served:
    """What became of one request. Times are seconds on the server's clock."""

    request: Request
    started: float = 0.0
    first_token: float = 0.0
    finished: float = 0.0
    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def latency(self) -> float:
        """Seconds from the arrival to the last token."""
        return self.finished - self.request.arrival

    @property
    def time_per_token(self) -> float:
        """Seconds between tokens after the first; NaN for a single token."""
        return (self.finished - self.first_token) / (self.tokens - 1) if self.tokens > 1 else math.nan


@dataclass(frozen=True)
class Outcome:
    """One run. steps: (seconds when it began, live requests, draft tokens asked for, seconds it took) of each step."""

    served: list[Served]
    steps: list[tuple[float, int, int, float]] = field(repr=False)

    @property
    def seconds(self) -> float:
        """From the first arrival to the last token."""
        return max(s.finished for s in self.served) - min(s.request.arrival for s in self.served)

    def row(self, **labels) -> dict:
        """A tidy row: the labels, then throughput, time per token and latency (percentiles over requests)."""
        found = {**labels, "requests": len(self.served), "tokens": sum(s.tokens for s in self.served)}
        found["seconds"] = self.seconds
        found["tokens_per_second"] = found["tokens"] / self.seconds
        busy = sum(took for *_, took in self.steps)
        found["mean_batch"] = sum(live * took for _, live, _, took in self.steps) / busy
        rounds, drafted = sum(s.rounds for s in self.served), sum(s.drafted for s in self.served)
        found["mean_k"] = drafted / rounds if rounds else 0.0
        found["acceptance_rate"] = sum(s.accepted for s in self.served) / drafted if drafted else math.nan
        for name in ("time_per_token", "latency"):
            values = [value for s in self.served if not math.isnan(value := getattr(s, name))]
            for p in (50, 95, 99):
                found[f"{name}_p{p}"] = float(np.percentile(values, p)) if values else math.nan
        return found


def simulate(
    requests: Sequence[Request],
    controller: Controller,
    target: Weights = TARGET,
    drafter: Weights = DRAFTER,
    machine: Machine = GPU,
    max_batch: int = 256,
    costs: RoundCosts | None = None,
) -> Outcome:
    """Serve the requests, at most ``max_batch`` at a time, first come first served.

    costs: what rounds take; None: as the roofline of ``target``, ``drafter`` and ``machine`` has it.
    Raises ValueError without requests, and for a draft length outside 0 to 64.
    """
    if not requests:
        raise ValueError("requests is empty: make_requests(…) makes some")
    whole("max_batch", max_batch, 1)
    costs = Roofline(target, drafter, machine) if costs is None else costs
    texts = [_Text(index, Served(request)) for index, request in enumerate(requests)]
    waiting = deque(sorted(texts, key=lambda text: text.served.request.arrival))
    live: list[_Text] = []
    steps, clock = [], 0.0
    while waiting or live:
        if not live:  # nothing to do until somebody comes
            clock = max(clock, waiting[0].served.request.arrival)
        new = []
        while waiting and waiting[0].served.request.arrival <= clock and len(live) + len(new) < max_batch:
            new.append(waiting.popleft())
            new[-1].served.started = clock
        lengths = list(controller.choose([text.index for text in live])) if live else []
        for k in lengths:
            check_k(k)
        context, prompts = sum(text.context for text in live), sum(text.served.request.prompt_tokens for text in new)
        took = costs.round_seconds(lengths, context, prompts)
        steps.append((clock, len(live) + len(new), sum(lengths), took.seconds))
        clock += took.seconds
        rounds = [text.advance(k, clock, took) for text, k in zip(live, lengths)]
        rounds += [text.advance(0, clock, took) for text in new]
        controller.observe(rounds)
        live = [text for text in (*live, *new) if not text.is_done]
    return Outcome([text.served for text in texts], steps)


class _Text:
    """A request on its way."""

    def __init__(self, index: int, served: Served) -> None:
        self.index, self.served = index, served
        request = served.request
        self.rates = request.rates()
        self.coins = np.random.default_rng(request.seed).random(request.new_tokens + MAX_DRAFT).tolist()

    @property
    def is_done(self) -> bool:
        return self.served.tokens >= self.served.request.new_tokens

    @property
    def context(self) -> int:
        """Tokens whose keys and values the next call reads."""
        return self.served.request.prompt_tokens + self.served.tokens

    def advance(self, k: int, clock: float, took: RoundSeconds) -> Round:
        """Take part in a round that ends at ``clock``; draft token i is right if its place's coin is below rate i."""
        done = self.served
        kept = 0
        while kept < k and self.coins[done.tokens + kept] < self.rates[kept]:
            kept += 1
        count = min(kept + 1, done.request.new_tokens - done.tokens)
        kept, first = min(kept, count), done.tokens == 0
        done.tokens += count
        drafted = min(k, count) if self.is_done else k  # as the engine counts: nothing past the end of the text
        last = "prefill" if first else "plain" if k == 0 else "bonus" if kept == k else "recovered"
        if first:
            done.first_token = clock
        else:
            done.rounds, done.drafted, done.accepted = done.rounds + 1, done.drafted + drafted, done.accepted + kept
        if self.is_done:
            done.finished = clock
        return Round(
            sequence=self.index,
            index=0 if first else done.rounds,
            tokens=(0,) * count,
            kinds=("accepted",) * kept + (last,) * (count - kept),
            draft_tokens=(0,) * drafted,
            num_accepted=kept,
            seconds_drafting=took.drafting,
            seconds_verifying=took.verifying,
            seconds_elsewhere=took.elsewhere,
        )


def compare(
    requests: Sequence[Request],
    policies: Mapping[str, Callable[[], Controller]],
    labels: Mapping | None = None,
    **options,
) -> list[dict]:
    """A row for each policy (name → a function that makes a fresh controller) on the same requests.

    labels: further columns.  options: as in ``simulate``.
    """
    return [simulate(requests, make(), **options).row(policy=name, **(labels or {})) for name, make in policies.items()]
