"""One table over all rules and all ways of drafting: how far each is from plain sampling.

Takes: rules.  Returns: tidy rows.
Must not know: models and drafters.

The rows of the target differ by position and follow the prefix, so that a rule which reads the wrong row shows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from ...records import Draft
from ...verify import RULES, Rule, get_rule
from .enumerate import output_law, plain_law, total_variation

#: Up to here a difference is rounding: laws of up to a few hundred sequences are sums of float64 numbers.
LARGEST = 1e-12
VOCABULARY, K = 3, 2

Row = Callable[[tuple[int, ...]], Tensor]


def _rows(seed: int, vocabulary: int = VOCABULARY, keep: Sequence[int] | None = None) -> Row:
    """A table of rows that all differ: prefix → (V,), the same at every call. keep: the ids that may have mass."""

    @functools.cache
    def row(prefix: tuple[int, ...]) -> Tensor:
        number = functools.reduce(lambda n, token: n * 31 + token + 1, prefix, seed + 1)
        weights = torch.rand(vocabulary, generator=torch.Generator().manual_seed(number), dtype=torch.float64) + 0.05
        if keep is not None:
            weights = weights * torch.tensor([float(token in keep) for token in range(vocabulary)])
        return weights / weights.sum()

    return row


def _stream(row: Row, k: int, worst: bool = False) -> tuple[int, ...]:
    """k tokens, each the most (or least) probable one of its row."""
    tokens: tuple[int, ...] = ()
    for _ in range(k):
        tokens += (int(row(tokens).argmin() if worst else row(tokens).argmax()),)
    return tokens


def _fixed(tokens: Sequence[int]) -> Draft:
    return Draft(torch.tensor([list(tokens)], dtype=torch.int64))


def _drawn(row: Row, k: int) -> Draft:
    return Draft(torch.zeros(1, k, dtype=torch.int64), row)


_EVEN = torch.full((VOCABULARY,), 1 / VOCABULARY, dtype=torch.float64)
#: A way of drafting → (the target's rows, k) → the draft.
WAYS: dict[str, Callable[[Row, int], Draft]] = {
    "greedy, right": lambda target, k: _fixed(_stream(target, k)),
    "greedy, wrong": lambda target, k: _fixed(_stream(target, k, worst=True)),
    "sampled": lambda target, k: _drawn(_rows(91), k),
    "sampled, from the target": lambda target, k: _drawn(target, k),
    "sampled, some tokens never": lambda target, k: _drawn(_rows(92, keep=(0, 1)), k),
    "sampled, noise": lambda target, k: _drawn(
        lambda prefix: torch.ones(VOCABULARY, dtype=torch.float64) / VOCABULARY, k
    ),
}


def drafts(k: int = K, seed: int = 5) -> dict[str, tuple[Row, Draft]]:
    """Every way of drafting → the target's rows and the draft that the table uses."""
    target = _rows(seed)
    return {way: (target, make(target, k)) for way, make in WAYS.items()}


def table(rules: Iterable[str | Rule] | None = None, k: int = K, seed: int = 5) -> list[dict]:
    """A row for each rule and way of drafting: rule, lossless (as claimed), way, total_variation to plain sampling.

    rules: names or Rules; None takes all of RULES.  The law is that of k + 1 tokens over a vocabulary of three.
    """
    found = []
    for rule in map(get_rule, RULES if rules is None else rules):
        for way, (target, draft) in drafts(k, seed).items():
            distance = total_variation(output_law(rule, draft, target), plain_law(target, k + 1))
            found.append({"rule": rule.name, "lossless": rule.lossless, "way": way, "total_variation": distance})
    return found
