"""Looks on while draft tokens are judged: what the target and the drafter made of each of them.

Takes: the tensors of each round, as the engine shows them to its hooks.  Returns: rows in plain Python numbers.
Must not know: models, drafters, how a rule decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..decode import Hooks
from ..records import Draft, Generation, Verdict


@dataclass(frozen=True)
class Judged:
    """One draft token that the target judged: all before it in its round were accepted.

    position: its place in the draft, from 1.  round: 1 is the first after the prefill.
    token: the draft token.  favourite: the target's most probable token there (at ties the lowest id).
    p, q: what target and drafter give the draft token; q is 1 when it was chosen without randomness.
    overlap: Σ min(p, q), how often a token drawn from the drafter's row would be accepted here.
    greedy: p of the drafter's own favourite, how often that one would be accepted here.
    """

    sequence: int
    round: int
    position: int
    token: int
    favourite: int
    p: float
    q: float
    overlap: float
    greedy: float
    coin: float
    accepted: bool

    @property
    def match(self) -> bool:
        """Argmax match would keep it."""
        return self.token == self.favourite


class Watch(Hooks):
    """Hooks that change nothing and keep a ``Judged`` for each draft token that was judged; a new one for each run."""

    def __init__(self) -> None:
        self._rows: list[Judged] = []
        self._seen: dict[int, int] = {}

    def observe(
        self, sequences: Sequence[int], draft: Draft, target_probs: Tensor, uniforms: Tensor, verdict: Verdict
    ) -> None:
        for row, sequence in enumerate(sequences):
            index = self._seen[sequence] = self._seen.get(sequence, -1) + 1  # the prefill is round 0
            tokens = [token for token in draft.tokens[row].tolist() if token >= 0]
            accepted = int(verdict.num_accepted[row])
            for i, token in enumerate(tokens[: accepted + 1]):
                p = target_probs[row, i]
                q = torch.nn.functional.one_hot(torch.tensor(token), len(p)) if draft.probs is None else None
                q = (draft.probs[row, i] if q is None else q).to(p)
                self._rows.append(
                    Judged(
                        sequence=sequence,
                        round=index,
                        position=i + 1,
                        token=token,
                        favourite=int(p.argmax()),
                        p=float(p[token]),
                        q=float(q[token]),
                        overlap=float(torch.minimum(p, q).sum()),
                        greedy=float(p[q.argmax()]),
                        coin=float(uniforms[row, i, 0]),
                        accepted=i < accepted,
                    )
                )

    def judged(self, generations: Generation | Sequence[Generation]) -> list[Judged]:
        """The rows, without draft tokens that lie past the end of their text. Give what the watched run returned."""
        generations = [generations] if isinstance(generations, Generation) else generations
        drafted = {(r.sequence, r.index): r.num_drafted for g in generations for r in g.rounds}
        return [one for one in self._rows if one.position <= drafted.get((one.sequence, one.round), 0)]
