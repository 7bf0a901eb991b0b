"""Exact laws: what a verify rule emits, to rounding, instead of an impression from samples.

Takes: a rule, a draft, the target's rows.  Returns: laws, distances between them, a table over all rules.
Must not know: models and drafters; a law is about distributions only.
"""

from __future__ import annotations

from .enumerate import (
    Law,
    Rows,
    accepted_law,
    all_sequences,
    marginal,
    output_law,
    plain_law,
    total_variation,
)
from .gumbel import separate_noise_law, shared_noise_law
from .table import LARGEST, VOCABULARY, WAYS, K, drafts, table

__all__ = [
    "LARGEST", "VOCABULARY", "WAYS", "K", "Law", "Rows", "accepted_law", "all_sequences", "drafts", "marginal",
    "output_law", "plain_law", "separate_noise_law", "shared_noise_law", "table", "total_variation",
]  # fmt: skip
