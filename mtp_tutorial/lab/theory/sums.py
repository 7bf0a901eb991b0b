"""The sums of the article on the basics, worked exactly: C1, C7 and C9 of the articles' statements.

Takes: the article's numbers, as defaults.  Returns: milliseconds.
Must not know: anything measured.

The article has a model of 70 billion parameters in 16 bits, a memory of 3 TB/s, "hundreds of TFLOPS", a target call of
100 ms and a draft step of 10 ms. The peak here is an H100 SXM's: 989 TFLOPS, dense, in 16 bits (NVIDIA's data sheet).
The 140 GB do not fit into one such GPU. The sums are those of one machine that has the memory; two GPUs that share the
work evenly take half the time.
"""

from __future__ import annotations

from typing import NamedTuple

from .numbers import number, whole
from .roofline import Machine, Weights, compute_seconds, memory_seconds
from .rounds import expected_tokens


class Article(NamedTuple):
    """C7: a call of the target and a draft step in milliseconds, draft tokens a round, a draft step in target calls."""

    target_call: float = 100.0
    draft_step: float = 10.0
    k: int = 4
    draft_cost: float = 0.1


ARTICLE = Article()

#: C1, C9.
GPU = Machine(bandwidth=3e12, peak=989e12)
MODEL_70B = Weights(parameters=70e9, bytes_each=2)

#: A drafter whose step costs a tenth of a target call at batch 1, as in C7.
DRAFTER_7B = Weights(parameters=7e9, bytes_each=2)


def weights_milliseconds(weights: Weights = MODEL_70B, machine: Machine = GPU) -> float:
    """C1: how long the weights take to be read once, which is the time of a token at batch 1.

    >>> round(weights_milliseconds(), 1)
    46.7
    """
    return 1000 * memory_seconds(weights, machine)


def milliseconds_a_token(
    tokens: float,
    k: int = ARTICLE.k,
    target_call: float = ARTICLE.target_call,
    draft_step: float = ARTICLE.draft_step,
) -> float:
    """C7: a round of k draft steps and one target call, divided by the tokens it brings (1 to k + 1).

    >>> [milliseconds_a_token(tokens) for tokens in (5, 2, 1)]
    [28.0, 70.0, 140.0]
    """
    number("tokens", tokens, expected_tokens(0, k), expected_tokens(1, k), "a number from 1 to k + 1")
    return (whole("k", k) * number("draft_step", draft_step) + number("target_call", target_call)) / tokens


def memory_and_arithmetic(
    batch: int, k: int, weights: Weights = MODEL_70B, machine: Machine = GPU
) -> tuple[float, float]:
    """C8, C9: (milliseconds of memory, milliseconds of arithmetic) of one target call on batch · (k + 1) rows.

    >>> [round(ms) for batch, k in ((1, 4), (256, 0), (256, 4)) for ms in memory_and_arithmetic(batch, k)]
    [47, 1, 47, 36, 47, 181]
    """
    rows = whole("batch", batch, 1) * (whole("k", k) + 1)
    return 1000 * memory_seconds(weights, machine), 1000 * compute_seconds(weights, machine, rows)
