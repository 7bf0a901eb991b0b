"""The speed-up of a family's MTP layer on named GPUs, by the roofline.

Takes: a family, a GPU, k, acceptance, a batch.  Returns: ``Predicted``: seconds, tokens, a speed-up.
Must not know: models, clocks; nothing is measured.

Left out: keys and values, the communication between GPUs, and that no kernel reaches a data sheet's peak.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .. import theory
from ..theory.numbers import Alpha, number, whole
from .shapes import GPUS
from .sizes import sizes

ROOM = 1.2  # memory for weights, and a fifth more for keys, values and the rest


@dataclass(frozen=True)
class Predicted:
    """Seconds by the roofline. plain: of a call without drafts, a token of each sequence.  step: of a draft step.

    verify: of the call on k + 1 rows of each.  tokens: that a round brings.  gpus: how many hold the weights.
    """

    family: str
    gpus: int
    plain: float
    step: float
    verify: float
    k: int
    tokens: float
    bound: str

    @property
    def draft_cost(self) -> float:
        return self.step / self.plain

    @property
    def verify_cost(self) -> float:
        return self.verify / self.plain

    @property
    def round_cost(self) -> float:
        """In plain calls."""
        return self.verify_cost + self.k * self.draft_cost

    @property
    def speed_up(self) -> float:
        return self.tokens / self.round_cost if self.k else 1.0


def predict(
    family: str,
    gpu: str = "H100 SXM",
    k: int = 2,
    alpha: Alpha = 0.8,
    batch: int = 1,
    bits: int = 16,
    scored: float = 1.0,
    layer_overhead: float = 0.0,
) -> Predicted:
    """The speed-up of a family with its MTP layer applied k times, on as many GPUs as hold its weights.

    alpha: as in ``theory.expected_tokens``.  batch: sequences.  bits: of a weight.  scored: share of the lm_head that a
    draft step scores.  layer_overhead: seconds that every layer of a call costs beyond reading and computing (starting
    its kernels, for one).
    """
    counts, each = sizes(family), whole("bits", bits, 1) / 8
    if gpu not in GPUS:
        raise ValueError(f"no GPU {gpu!r}; there are: {', '.join(GPUS)}")
    chosen, batch, k = GPUS[gpu], whole("batch", batch, 1), whole("k", k)
    needed = math.ceil(ROOM * (counts.total + counts.head) * each / (chosen.memory * 1e9))
    machine, more = chosen.several(needed), number("layer_overhead", layer_overhead)

    def seconds(read: float, active: float, rows: float, layers: int) -> tuple[float, str]:
        memory, arithmetic = read * each / machine.bandwidth, 2 * active * rows / machine.peak
        bound = "memory" if memory >= arithmetic else "arithmetic"
        return max(memory, arithmetic) + layers * more, bound

    plain, _ = seconds(counts.read(batch), counts.active, batch, counts.layers)
    rows = batch * (k + 1)
    verify, bound = seconds(counts.read(rows), counts.active, rows, counts.layers)
    step, _ = seconds(counts.step(batch, scored), counts.step_active(scored), batch, 1)
    return Predicted(family, needed, plain, step, verify, k, theory.expected_tokens(alpha, k), bound)
