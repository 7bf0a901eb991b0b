"""Seconds from bytes and FLOPs: the roofline model of one forward call, of a round, and of a loaded server.

Takes: sizes of models and machines, batch, k.  Returns: seconds, tokens a second.
Must not know: real models, real machines; nothing is measured here.

A call reads every weight once, whatever the number of rows, and computes two FLOPs a weight and row. It takes as long
as the slower of the two (Williams et al., *Roofline*, CACM 2009). Left out: attention's own FLOPs, activations, the
communication between devices, and that no kernel reaches either peak.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .numbers import Alpha, number, plain, positive, whole
from .rounds import MAX_K, expected_tokens


@dataclass(frozen=True)
class Machine:
    """What computes. bandwidth: bytes a second.  peak: FLOP a second.  overhead: further seconds of each call."""

    bandwidth: float
    peak: float
    overhead: float = 0.0

    def __post_init__(self) -> None:
        positive("bandwidth", self.bandwidth)
        positive("peak", self.peak)
        number("overhead", self.overhead)


@dataclass(frozen=True)
class Weights:
    """What is computed. parameters: how many.  bytes_each: 2 in 16 bits.  kv_bytes: keys and values of one token.

    A mixture of experts reads more weights with more rows; this model has every weight read by every call.
    """

    parameters: float
    bytes_each: float = 2.0
    kv_bytes: float = 0.0

    def __post_init__(self) -> None:
        for name in ("parameters", "bytes_each", "kv_bytes"):
            number(name, getattr(self, name))


@dataclass(frozen=True)
class RoundSeconds:
    """Seconds of one round.  is_measured: none of them comes from a model of costs."""

    drafting: float
    verifying: float
    elsewhere: float = 0.0
    is_measured: bool = False

    @property
    def seconds(self) -> float:
        return self.drafting + self.verifying + self.elsewhere


class RoundCosts(Protocol):
    """What a round takes. ``Roofline`` reckons it, ``lab.bench.Costs`` reads it from a record."""

    def round_seconds(self, lengths: Sequence[int], context: float = 0, prompt_tokens: int = 0) -> RoundSeconds:
        """lengths: draft tokens of each live sequence.  context: committed tokens of all of them together.

        prompt_tokens: of new requests, read in the same call.
        """


def memory_seconds(weights: Weights, machine: Machine, context: float = 0.0) -> float:
    """Seconds to read the weights once, and the keys and values of ``context`` tokens (of all sequences together)."""
    read = weights.parameters * weights.bytes_each + number("context", context) * weights.kv_bytes
    return read / machine.bandwidth


def compute_seconds(weights: Weights, machine: Machine, rows: float) -> float:
    """Seconds of arithmetic for ``rows`` rows: a multiplication and an addition for each weight and row."""
    return 2 * weights.parameters * number("rows", rows) / machine.peak


def forward_seconds(weights: Weights, machine: Machine, rows: float, context: float = 0.0) -> float:
    """One call on ``rows`` rows: the slower of reading and computing, plus the machine's overhead."""
    slower = max(memory_seconds(weights, machine, context), compute_seconds(weights, machine, rows))
    return slower + machine.overhead


def critical_rows(weights: Weights, machine: Machine, context: float = 0.0) -> float:
    """The rows at which computing takes as long as reading: below them further rows are free. inf without weights."""
    once = compute_seconds(weights, machine, 1)
    return memory_seconds(weights, machine, context) / once if once else math.inf


def round_seconds(
    target: Weights, drafter: Weights, machine: Machine, batch: int, k: int, context: float = 0.0
) -> float:
    """One round of ``batch`` sequences: k draft steps on batch rows, one call of the target on batch · (k + 1) rows.

    context: committed tokens of one sequence, for the keys and values that are read.
    """
    batch, k = whole("batch", batch, 1), whole("k", k)
    seen = batch * number("context", context)
    step = forward_seconds(drafter, machine, batch, seen)
    return k * step + forward_seconds(target, machine, batch * (k + 1), seen)


@dataclass(frozen=True)
class Roofline:
    """Rounds of sequences that may draft unequally. Nothing is padded: a step computes those that still draft."""

    target: Weights
    drafter: Weights
    machine: Machine

    def round_seconds(self, lengths: Sequence[int], context: float = 0, prompt_tokens: int = 0) -> RoundSeconds:
        """As ``RoundCosts``; the drafter has no keys and values to read."""
        steps = (sum(k > i for k in lengths) for i in range(max(lengths, default=0)))
        drafting = sum(forward_seconds(self.drafter, self.machine, rows) for rows in steps)
        rows = sum(lengths) + len(lengths) + prompt_tokens
        return RoundSeconds(drafting, forward_seconds(self.target, self.machine, rows, context))


def tokens_per_second(
    alpha: Alpha, target: Weights, drafter: Weights, machine: Machine, batch: int, k: int, context: float = 0.0
) -> float:
    """Throughput of the whole batch: batch · expected_tokens(alpha, k) ÷ round_seconds. One sequence: ÷ batch."""
    return batch * expected_tokens(alpha, k) / round_seconds(target, drafter, machine, batch, k, context)


def best_k_under_load(
    alpha: Alpha,
    target: Weights,
    drafter: Weights,
    machine: Machine,
    batch: int,
    context: float = 0.0,
    max_k: int = 16,
) -> int:
    """The draft length, 0 to ``max_k`` (at most 64), with the most tokens a second at this batch; the shorter at ties.

    Arguments as in ``tokens_per_second``. A sequence ``alpha`` bounds the length by its own.
    """
    longest, rate = min(whole("max_k", max_k), MAX_K), plain(alpha)
    longest = min(longest, len(rate)) if isinstance(rate, (list, tuple)) else longest
    speeds = [tokens_per_second(alpha, target, drafter, machine, batch, k, context) for k in range(longest + 1)]
    return speeds.index(max(speeds))


def batch_table(
    alpha: Alpha,
    target: Weights,
    drafter: Weights,
    machine: Machine,
    limit: int,
    context: float = 0.0,
    max_k: int = 16,
) -> list[tuple[int, int, int]]:
    """Rows (from, to, k): ``best_k_under_load`` of the batch sizes 1 to ``limit``, equal neighbours in one row."""
    sizes = range(1, whole("limit", limit, 1) + 1)
    best = ((b, best_k_under_load(alpha, target, drafter, machine, b, context, max_k)) for b in sizes)
    rows = []
    for k, group in itertools.groupby(best, key=lambda pair: pair[1]):
        batches = [batch for batch, _ in group]
        rows.append((batches[0], batches[-1], k))
    return rows
