"""How many drafts a verify rule judges in a second.

Takes: a rule and sizes.  Returns: rates.
Must not know: models.
"""

from __future__ import annotations

import statistics
import time

import torch

from ...records import Draft
from ...verify import Rule, get_rule


def judged_per_second(
    rule: str | Rule,
    batch: int = 4096,
    k: int = 4,
    vocabulary: int = 64,
    sampled: bool = True,
    repeats: int = 9,
    seed: int = 0,
) -> dict:
    """Median, lowest and highest rate of drafts of ``k`` tokens judged in a second, on one thread.

    sampled: the drafts carry distributions.  repeats: timed calls, after one that is not.
    The rule runs as in the loop: without the checks that ``verify`` makes of what a caller gives it.
    Raises ValueError for sizes below 1.
    """
    found = get_rule(rule)
    if min(batch, k, vocabulary, repeats) < 1:
        raise ValueError(f"batch={batch}, k={k}, vocabulary={vocabulary}, repeats={repeats}: each is 1 or more")
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(batch, 2 * k + 1, vocabulary, generator=generator, dtype=torch.float64)
    rows = rows / rows.sum(-1, keepdim=True)
    target_probs, probs = rows[:, : k + 1], rows[:, k + 1 :]
    tokens = torch.randint(vocabulary, (batch, k), generator=generator)
    draft = Draft.trusted(tokens, probs.contiguous() if sampled else None)
    uniforms = torch.rand(batch, k + 1, 2, generator=generator, dtype=torch.float64)
    threads, rates = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        for _ in range(repeats + 1):
            began = time.perf_counter()
            found.decide(draft, target_probs, uniforms, **found.check_params({}))
            rates.append(batch / (time.perf_counter() - began))
    finally:
        torch.set_num_threads(threads)
    rates = rates[1:]
    return {
        "rule": found.name,
        "batch": batch,
        "k": k,
        "vocabulary": vocabulary,
        "sampled": sampled,
        "per_second": statistics.median(rates),
        "lowest": min(rates),
        "highest": max(rates),
    }
