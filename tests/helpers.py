"""What several tests share: toy distributions and a slow verifier written from the rules' table, in exact fractions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from torch import Tensor

#: The same examples every time, and no clock.
STEADY = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))

LOSSLESS = ("rejection", "sample_and_match", "target_only", "block")
LOSSY = ("greedy", "typical", "relaxed")

P = (0.5, 0.3, 0.2)


def doubles(values) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float64)


def prefix_rows(seed: int, vocabulary: int, zeros: float = 0.0) -> Callable[[tuple[int, ...]], Tensor]:
    """A table of rows that all differ: prefix → (V,), the same at every call. ``zeros``: share without mass."""

    @functools.cache
    def row(prefix: tuple[int, ...]) -> Tensor:
        key = functools.reduce(lambda n, token: n * 31 + token + 1, prefix, seed + 1)
        generator = torch.Generator().manual_seed(key)
        weights = torch.rand(vocabulary, generator=generator, dtype=torch.float64) + 0.01
        dropped = torch.rand(vocabulary, generator=generator) < zeros
        dropped[key % vocabulary] = False  # at least one token stays
        weights = weights.masked_fill(dropped, 0)
        return weights / weights.sum()

    return row


def one_hot_rows(seed: int, vocabulary: int) -> Callable[[tuple[int, ...]], Tensor]:
    """The target at temperature 0: each row has all its mass on one token, which depends on the prefix."""
    soft = prefix_rows(seed, vocabulary)
    return lambda prefix: torch.nn.functional.one_hot(soft(prefix).argmax(), vocabulary).to(torch.float64)


# -- The slow verifier ------------------------------------------------------------------------------------------------


@dataclass
class Slow:
    """One sequence, judged token by token with exact fractions.

    ``margin`` is the smallest distance between a uniform and a point where a decision changes: where it is 0 or
    nearly so, the rounding of the fast verifier may decide otherwise.
    """

    draft: list[int]
    q: list[list[Fraction]] | None
    p: list[list[Fraction]]
    u: list[tuple[Fraction, Fraction]]
    margin: float = field(default=1.0)

    def below(self, a, b) -> bool:
        self.margin = min(self.margin, abs(float(a - b)))
        return a < b

    def inverse(self, weights: list[Fraction], u: Fraction) -> int:
        total, cumulative = sum(weights), Fraction(0)
        for token, weight in enumerate(weights):
            cumulative += weight / total
            if weight and self.below(u, cumulative):
                return token
        raise AssertionError("a uniform below 1 must find its token")

    def ratio(self, i: int) -> Fraction:
        d = self.draft[i]
        if self.q is None:
            return self.p[i][d]
        return self.p[i][d] / self.q[i][d] if self.q[i][d] else Fraction(0)

    def q_row(self, i: int) -> list[Fraction]:
        if self.q is not None:
            return self.q[i]
        return [Fraction(int(token == self.draft[i])) for token in range(len(self.p[i]))]

    def judge(self, rule: str, **params: float) -> tuple[list[int], int, bool]:
        """(emitted tokens, number accepted, bonus)."""
        n, last = getattr(self, rule)(**{name: Fraction(value) for name, value in params.items()})
        return [*self.draft[:n], last], n, n == len(self.draft)

    def end(self, n: int, weights: list[Fraction]) -> tuple[int, int]:
        """The last token, from ``weights`` after a rejection and from the whole row as a bonus. A residual without mass
        (a draft token its own q could not have drawn) falls back to the whole row."""
        whole = n == len(self.draft) or not sum(weights)
        return n, self.inverse(self.p[n] if whole else weights, self.u[n][1])

    def walk(self, accept: Callable[[int], bool], after: Callable[[int], list[Fraction]]) -> tuple[int, int]:
        """Accept one after the other; at the first rejection draw from ``after(i)``."""
        for i in range(len(self.draft)):
            if not accept(i):
                return self.end(i, after(i))
        return self.end(len(self.draft), [])

    def without(self, i: int) -> list[Fraction]:
        return [Fraction(0) if token == self.draft[i] else x for token, x in enumerate(self.p[i])]

    def greedy(self) -> tuple[int, int]:
        for i, d in enumerate(self.draft):
            if d != (best := self.p[i].index(max(self.p[i]))):
                return i, best
        return len(self.draft), self.p[len(self.draft)].index(max(self.p[len(self.draft)]))

    def rejection(self) -> tuple[int, int]:
        return self.walk(
            lambda i: self.below(self.u[i][0], min(Fraction(1), self.ratio(i))),
            lambda i: [max(a - b, Fraction(0)) for a, b in zip(self.p[i], self.q_row(i), strict=True)],
        )

    def sample_and_match(self) -> tuple[int, int]:
        for i, d in enumerate(self.draft):
            if (t := self.inverse(self.p[i], self.u[i][1])) != d:
                return i, t
        return self.end(len(self.draft), [])

    def target_only(self, threshold_single=Fraction(1), threshold_acc=Fraction(1)) -> tuple[int, int]:
        def accept(i: int) -> bool:
            p = self.p[i][self.draft[i]]
            return p >= threshold_single or self.below(self.u[i][0], p / threshold_acc)

        return self.walk(accept, self.without)

    def typical(self, epsilon=Fraction(0.09), delta=Fraction(0.3)) -> tuple[int, int]:
        def accept(i: int) -> bool:
            entropy = -sum(float(x) * math.log(x) for x in self.p[i] if x)
            threshold = min(float(epsilon), float(delta) * math.exp(-entropy))
            return self.below(threshold, float(self.p[i][self.draft[i]]))

        return self.walk(accept, lambda i: self.p[i])

    def relaxed(self, delta=Fraction(0.1)) -> tuple[int, int]:
        return self.walk(
            lambda i: not self.below(self.p[i][self.draft[i]], max(self.p[i]) - delta), lambda i: self.p[i]
        )

    def block(self) -> tuple[int, int]:
        k, one, zero = len(self.draft), Fraction(1), Fraction(0)
        r = [one]
        for i in range(k):
            r.append(min(r[i] * self.ratio(i), one))

        def rest(i: int) -> list[Fraction]:
            return [max(r[i] * a - b, zero) for a, b in zip(self.p[i], self.q_row(i), strict=True)]

        kept = 0
        for i in range(1, k + 1):
            if i == k:
                h = r[k]
            else:
                s = sum(rest(i))
                h = s / (s + 1 - r[i]) if s + 1 - r[i] else one
            if self.below(self.u[i - 1][0], h):
                kept = i
        return self.end(kept, [] if kept == k else rest(kept))


@dataclass
class Case:
    """A batch for ``verify``, and the same as fractions for ``Slow``."""

    tokens: Tensor
    probs: Tensor | None
    target: Tensor
    uniforms: Tensor

    def slow(self, b: int) -> Slow:
        k_b = int((self.tokens[b] >= 0).sum())
        fractions = lambda rows: [[Fraction(x) for x in row] for row in rows.tolist()]  # noqa: E731
        return Slow(
            self.tokens[b, :k_b].tolist(),
            None if self.probs is None else fractions(self.probs[b, :k_b]),
            fractions(self.target[b, : k_b + 1]),
            [tuple(pair) for pair in fractions(self.uniforms[b, : k_b + 1])],
        )


@st.composite
def cases(draw: Callable, exact: bool, batch: int = 64) -> Case:
    """Ragged batches of every kind. ``exact``: rows and uniforms in sixteenths, so that sums and products are free
    of rounding, ties, zeros and ones are common, and uniforms often sit on a boundary. Else arbitrary numbers."""
    k, vocabulary = draw(st.sampled_from((3, 2, 1, 0, 3))), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def rows(*shape: int) -> Tensor:
        if exact:
            cuts = np.sort(rng.integers(0, 17, (*shape, vocabulary - 1)), -1)
            ends = np.zeros((*shape, 1)), np.full((*shape, 1), 16)
            return doubles(np.diff(np.concatenate([ends[0], cuts, ends[1]], -1), axis=-1) / 16)
        weights = rng.random((*shape, vocabulary)) * (rng.random((*shape, vocabulary)) < 0.7)
        weights[weights.sum(-1) == 0, 0] = 1.0
        return doubles(weights / weights.sum(-1, keepdims=True))

    target, probs = rows(batch, k + 1), rows(batch, k)
    kind = torch.from_numpy(rng.integers(0, 4, (batch, k, 1)))
    probs = torch.where(kind == 0, target[:, :-1], probs)  # a drafter that is the target
    probs = torch.where(kind == 1, (target[:, :-1] + probs) / 2, probs)  # one that is near it
    tokens = torch.from_numpy(rng.integers(0, vocabulary, (batch, k)))
    unused = torch.arange(k) >= torch.from_numpy(rng.integers(0, k + 1, (batch, 1)))
    tokens[unused] = -1
    shape = (batch, k + 1, 2)
    uniforms = rng.integers(0, 16, shape) / 16 if exact else rng.random(shape)
    uniforms = doubles(np.where(rng.random(shape) < 0.1, math.nextafter(1, 0), uniforms))
    if draw(st.booleans()):  # what is never used must not matter
        for unread in (probs, target[:, 1:], uniforms[:, 1:]):
            unread[unused] = torch.nan
    return Case(tokens, probs if draw(st.sampled_from((True, False, True))) else None, target, uniforms)
