"""The controllers' task: a rush on a server on paper, and how much shorter its users wait.

Takes: a controller.  Returns: a ``LoadScore``: how many times as soon as with plain decoding an answer is there.
Must not know: drafters' insides, pictures.

The trace is fixed: a quiet stretch, a rush in which the server fills up, a quiet stretch. All requests count alike.
Times are those of ``lab.server_sim``: a model of 70 billion weights on the article's GPU, a drafter of a tenth of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from ...decode import generate
from ...drafters import load_drafter
from ...models import Target
from ...records import Controller, Round, Sampling
from ..controllers import ByAcceptance, ByBatchSize, ByThroughput, Fixed
from ..experiment.prompts import prompts_for
from ..server_sim import DRAFTER, TARGET, Outcome, Request, make_requests, simulate
from ..stats import Interval, bootstrap_interval
from ..theory import GPU, batch_table

#: (how many requests, how many a second) of each stretch.
STRETCHES = ((120, 4.0), (360, 22.0), (120, 4.0))
#: Acceptance once judged. In the rush there is more chat.
KINDS: Mapping[str, float] = {"code": 0.85, "chat": 0.6}
MAX_BATCH = 256


@cache
def trace() -> tuple[Request, ...]:
    """The requests, the same each time."""
    found, start = [], 0.0
    for i, (count, rate) in enumerate(STRETCHES):
        made = make_requests(count, np.random.default_rng(i), KINDS, rate, 200, (60, 180))
        found += [replace(one, arrival=one.arrival + start) for one in made]
        start = found[-1].arrival
    return tuple(found)


@dataclass(frozen=True)
class LoadScore:
    """One controller on the trace. plain, seconds: from arrival to last token, of each request, without and with it.

    ``float(score)``: the mean over all requests of plain ÷ seconds; plain decoding has 1.
    """

    name: str
    plain: tuple[float, ...] = field(repr=False)
    seconds: tuple[float, ...] = field(repr=False)
    outcome: Outcome = field(repr=False)

    @property
    def gains(self) -> list[float]:
        """plain ÷ seconds of each request."""
        return [a / b for a, b in zip(self.plain, self.seconds)]

    def __float__(self) -> float:
        return sum(self.gains) / len(self.gains)

    def interval(self) -> Interval:
        """95 %, by drawing requests anew."""
        return bootstrap_interval(self.gains, resamples=2000)

    def row(self) -> dict:
        """A tidy row: name, score, low, high, and the mean draft length at the lowest and the highest load."""
        low, high = self.interval()
        steps = [(live, asked) for _, live, asked, _ in self.outcome.steps]
        few = [asked / live for live, asked in steps if live <= 16]
        many = [asked / live for live, asked in steps if live > 128]
        mean = {"k_quiet": few, "k_rush": many}
        return {
            "name": self.name,
            "score": float(self),
            "low": low,
            "high": high,
            **{key: float(np.mean(found)) if found else None for key, found in mean.items()},
        }


@cache
def _plain() -> tuple[float, ...]:
    return tuple(one.latency for one in simulate(trace(), Fixed(0), max_batch=MAX_BATCH).served)


def play_load(name: str, make: Callable[[], Controller]) -> LoadScore:
    """Serve the trace with a fresh controller. Raises ValueError for draft lengths outside 0 to 64."""
    controller = make()
    if not (hasattr(controller, "choose") and hasattr(controller, "observe")):
        raise ValueError(f"make() returned a {type(controller).__name__}: a controller has choose and observe")
    outcome = simulate(trace(), controller, max_batch=MAX_BATCH)
    return LoadScore(name, _plain(), tuple(one.latency for one in outcome.served), outcome)


class from_rule:  # noqa: N801 - used as a function
    """A controller from a plain function: ``rule(live sequences, acceptance rate)`` → k, for all of them.

    The rate is that of all draft tokens once judged; older rounds fade. It starts at 0.7.
    """

    def __init__(self, rule: Callable[[int, float], int], start: float = 0.7, decay: float = 0.98) -> None:
        self.rule, self.decay = rule, decay
        self.kept, self.judged = 20 * start, 20.0

    def choose(self, sequences: Sequence[int]) -> list[int]:
        return [self.rule(len(sequences), self.kept / self.judged)] * len(sequences)

    def observe(self, rounds: Sequence[Round]) -> None:
        drafted = [one for one in rounds if one.num_drafted]
        if drafted:
            self.kept = self.kept * self.decay + sum(one.num_accepted for one in drafted)
            self.judged = self.judged * self.decay + sum(min(one.num_accepted + 1, one.num_drafted) for one in drafted)


def _schedule() -> ByBatchSize:
    return ByBatchSize(batch_table(0.72, TARGET, DRAFTER, GPU, MAX_BATCH, context=200, max_k=8))


#: The shipped ones: name → a function that makes a fresh one.
CONTROLLERS: Mapping[str, Callable[[], Controller]] = {
    "k = 0": lambda: Fixed(0),
    "k = 1": lambda: Fixed(1),
    "k = 2": lambda: Fixed(2),
    "k = 4": lambda: Fixed(4),
    "by acceptance": ByAcceptance,
    "by batch size": _schedule,
    "by throughput": ByThroughput,
}


def examine_controller(target: Target, make: Callable[[], Controller], texts: int = 8, tokens: int = 24) -> int:
    """How many texts at temperature 0 are not those of plain decoding when the controller works in the real engine.

    A controller is asked before anything is drafted and sees only rounds that are over, so this is 0, or it is broken.
    """
    prompts = [one["prompt"] for one in prompts_for(target.name, texts)]
    run = {"sampling": Sampling(temperature=0), "max_new_tokens": tokens}
    made = generate(target, prompts, load_drafter("ngram", target), num_speculative_tokens=make(), **run)
    return sum(a.tokens != b.tokens for a, b in zip(generate(target, prompts, **run), made))
