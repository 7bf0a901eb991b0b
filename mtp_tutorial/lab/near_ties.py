"""Near-ties: where a call on k + 1 rows and a call on one row round differently, and when that decides a token.

Takes: a target, a drafter, prompts.  Returns: a ``Compared`` for each token of the texts that both ways share.
Must not know: verify rules, how a call computes.

At temperature 0 both ways take the largest logit. A matrix product of five rows adds up its terms in another order than
one of a single row, so the last digits differ. Where two tokens are nearer to one another than that, the two ways may
say different tokens, and from there on the texts have nothing to do with one another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..decode import Hooks, generate
from ..drafters import Drafter
from ..models import Target
from ..records import Draft, Sampling, Verdict

#: How many of the largest logits of each row are kept: the two that matter in one call are among those of the other.
_KEPT = 8


@dataclass(frozen=True)
class Compared:
    """One token, after the same text, by a call on one row and by a call that verifies a draft.

    position: its place in the text, from 0; the first is the prefill's and is left out.
    token, other: what plain decoding says, and what the verify call says.
    margin: in the plain call, the logit of ``token`` minus that of its rival: of ``other`` where the two differ, else
        the second largest.
    change: by how much this difference is another one in the verify call. A token flips where it is made up for, so
        only if change ≥ margin. inf where a logit was too small to be kept.
    """

    sequence: int
    position: int
    token: int
    other: int
    margin: float
    change: float

    @property
    def flipped(self) -> bool:
        return self.token != self.other


class _Rows(Hooks):
    """Keeps the largest logits of each row that a token was taken from: sequence → one (ids, logits) a token."""

    def __init__(self) -> None:
        self.rows: dict[int, list[tuple[list[int], list[float]]]] = {}

    def probabilities(self, logits: Tensor, *rest) -> Tensor:
        self.logits = logits
        return super().probabilities(logits, *rest)

    def observe(
        self, sequences: Sequence[int], draft: Draft, target_probs: Tensor, uniforms: Tensor, verdict: Verdict
    ) -> None:
        values, ids = self.logits.double().topk(min(_KEPT, self.logits.shape[-1]), -1)
        for row, (sequence, accepted) in enumerate(zip(sequences, verdict.num_accepted.tolist(), strict=True)):
            kept = self.rows.setdefault(sequence, [])
            kept += zip(ids[row, : accepted + 1].tolist(), values[row, : accepted + 1].tolist())


def compare(
    target: Target,
    drafter: Drafter,
    prompts: Sequence,
    num_speculative_tokens: int = 4,
    max_new_tokens: int = 48,
    **options,
) -> list[Compared]:
    """Every token of plain greedy decoding beside that of speculative decoding, up to the first one that differs.

    prompts: two or more strings, or lists of ids.  options: further ones of ``generate``, for both ways.
    Raises ValueError for a single prompt, and as ``generate`` does.
    """
    if isinstance(prompts, str) or len(prompts) < 2:
        raise ValueError("give two prompts or more, in a list")
    run = {"sampling": Sampling(temperature=0), "max_new_tokens": max_new_tokens, **options}
    plain_rows, rows = _Rows(), _Rows()
    plain = generate(target, prompts, hooks=plain_rows, **run)
    found = generate(target, prompts, drafter, hooks=rows, num_speculative_tokens=num_speculative_tokens, **run)
    compared = []
    for sequence, (one, two) in enumerate(zip(plain, found, strict=True)):
        for position, (token, other) in enumerate(zip(one.tokens, two.tokens)):
            if position:
                here, there = plain_rows.rows[sequence][position], rows.rows[sequence][position]
                compared.append(Compared(sequence, position, token, other, *_margins(here, there, token, other)))
            if token != other:
                break
    return compared


def _margins(
    plain: tuple[list[int], list[float]], verified: tuple[list[int], list[float]], token: int, other: int
) -> tuple[float, float]:
    """(margin, change) of one token, from the largest logits of both calls."""
    here, there = dict(zip(*plain)), dict(zip(*verified))
    rival = other if other != token else next(one for one in plain[0] if one != token)  # at ties any may come first
    if rival not in here:
        return math.inf, math.inf
    margin = here[token] - here[rival]
    if token not in there or rival not in there:
        return margin, math.inf
    return margin, abs(margin - (there[token] - there[rival]))


@torch.no_grad()
def row_difference(target: Target, text: Sequence[int], rows: int = 5) -> float:
    """The largest difference between the logits of one call on the last ``rows`` tokens, and those of calls on one row.

    text: ids, more than ``rows`` of them, else ValueError. Both ways read the text before from a cache of its own.
    """
    if not 1 <= rows < len(text):
        raise ValueError(f"rows={rows}: the text has {len(text)} tokens, and one at least is read before")
    start, ids = len(text) - rows, torch.tensor([list(text)], device=target.device)
    together, alone = target.new_cache(1), target.new_cache(1)
    for cache in (together, alone):
        target.forward(ids[:, :start], [start], cache)
    logits = target.forward(ids[:, start:], [rows], together)[0][0]
    each = [target.forward(ids[:, i : i + 1], [1], alone)[0][0, 0] for i in range(start, len(text))]
    return float((logits.double() - torch.stack(each).double()).abs().max())
