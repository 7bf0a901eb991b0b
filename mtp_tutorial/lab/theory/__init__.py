"""The arithmetic of speculative decoding: tokens a round, speed-up, best draft length, and what a call costs.

Takes: acceptance rates, costs, sizes of models and machines.  Returns: plain numbers.
Must not know: models, drafters, the loop.

``rounds`` holds what follows from acceptance, ``roofline`` what follows from bytes and FLOPs, ``sums`` the worked
examples of the article on the basics.
"""

from __future__ import annotations

from .roofline import (
    Machine,
    Roofline,
    RoundCosts,
    RoundSeconds,
    Weights,
    batch_table,
    best_k_under_load,
    compute_seconds,
    critical_rows,
    forward_seconds,
    memory_seconds,
    round_seconds,
    tokens_per_second,
)
from .rounds import (
    acceptance_for,
    best_k,
    break_even_acceptance,
    break_even_tokens,
    expected_tokens,
    speedup,
    survival,
    tokens_law,
)
from .sums import ARTICLE, DRAFTER_7B, GPU, MODEL_70B, memory_and_arithmetic, milliseconds_a_token, weights_milliseconds

__all__ = [
    "ARTICLE",
    "DRAFTER_7B",
    "GPU",
    "MODEL_70B",
    "Machine",
    "Roofline",
    "RoundCosts",
    "RoundSeconds",
    "Weights",
    "acceptance_for",
    "batch_table",
    "best_k",
    "best_k_under_load",
    "break_even_acceptance",
    "break_even_tokens",
    "memory_and_arithmetic",
    "compute_seconds",
    "critical_rows",
    "expected_tokens",
    "forward_seconds",
    "memory_seconds",
    "milliseconds_a_token",
    "round_seconds",
    "speedup",
    "survival",
    "tokens_law",
    "tokens_per_second",
    "weights_milliseconds",
]
