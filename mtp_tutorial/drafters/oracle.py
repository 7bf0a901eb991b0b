"""Oracle drafter: replays a recorded continuation and is right with a given probability.

Takes: a recording of what the target says.  Returns: the recording's next tokens, some of them spoilt on purpose.
Must not know: verify rules, the loop.

For lessons and for timing: the acceptance rate becomes a slider. At temperature 0 the target says what was recorded,
so each draft token is accepted with exactly this probability, until the first spoilt one.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import torch
from torch import Tensor

from ..models import Target
from ..records import Draft, Generation, Sampling, Verdict


class OracleDrafter:
    """Is right with probability ``accuracy``.

    continuation: a Generation or a list of ids (for all sequences), or a list of those, one a sequence. None lets the
        target say its greedy continuation as it is needed; those target calls count as drafting.
    accuracy: the probability with which a draft token is the recorded one; otherwise it is the next id after it.
    """

    needs_hidden: tuple[int, ...] = ()

    def __init__(self, target: Target, continuation: object = None, accuracy: float = 1.0) -> None:
        if isinstance(accuracy, bool) or not isinstance(accuracy, Real) or not 0 <= accuracy <= 1:
            raise ValueError(f"accuracy={accuracy!r}: use a probability from 0 to 1")
        self.target, self.accuracy, self.continuation = target, float(accuracy), continuation
        self.vocab_size = target.vocab_size

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        self.recordings = [_Recording(target, prompt) for prompt in prompts]
        if self.continuation is not None:
            for recording, ids in zip(self.recordings, _one_each(self.continuation, len(prompts)), strict=True):
                recording.ids, recording.open = self._checked(ids), False
        self.said = [0] * len(prompts)

    def _checked(self, ids: list[int]) -> list[int]:
        """The ids, if all are in the target's vocabulary."""
        for token in ids:
            if not isinstance(token, int) or not 0 <= token < self.vocab_size:
                raise ValueError(f"the oracle's continuation holds {token!r}: use ids from 0 to {self.vocab_size - 1}")
        return ids

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        rows = []
        coins = uniforms.tolist()
        for recording, begin, want, row in zip(self.recordings, self.said, k.tolist(), coins, strict=True):
            right = recording.get(begin, want)
            rows.append(
                [
                    token if coin < self.accuracy else (token + 1) % self.vocab_size
                    for token, coin in zip(right, row, strict=False)
                ]
            )
        return Draft.of_lists(rows, self.target.device)

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        counts = (verdict.tokens >= 0).sum(1).tolist()
        self.said = [said + count for said, count in zip(self.said, counts, strict=True)]

    def keep(self, rows: Sequence[int]) -> None:
        self.recordings = [self.recordings[row] for row in rows]
        self.said = [self.said[row] for row in rows]


class _Recording:
    """One continuation; an open one is made longer by the target, greedily, when more of it is asked for."""

    def __init__(self, target: Target, prompt: Sequence[int]) -> None:
        self.target, self.ids, self.open = target, [], True
        self.unread = list(prompt)
        self.cache = None

    def get(self, begin: int, count: int) -> list[int]:
        while self.open and len(self.ids) < begin + count:
            if self.cache is None:
                self.cache = self.target.new_cache(1, len(self.unread) + 128)
            ids = torch.tensor([self.unread], device=self.target.device)
            logits, _ = self.target.forward(ids, [len(self.unread)], self.cache, last_only=True)
            self.unread = [int(logits[0, -1].argmax())]
            self.ids += self.unread
        return self.ids[begin : begin + count]


def _one_each(continuation: object, batch: int) -> list[list[int]]:
    """One list of ids a sequence. Raises ValueError when the number does not fit."""
    if isinstance(continuation, Generation):
        return [list(continuation.tokens)] * batch
    if isinstance(continuation, Tensor):
        continuation = continuation.tolist()
    if not isinstance(continuation, (list, tuple)):
        raise ValueError(
            f"the oracle's continuation is a Generation, a list of ids, or a list of those; got "
            f"{type(continuation).__name__}"
        )
    items = list(continuation)
    if all(isinstance(item, int) for item in items):
        return [items] * batch
    lists = [list(item.tokens) if isinstance(item, Generation) else _one_each(item, 1)[0] for item in items]
    if len(lists) != batch:
        raise ValueError(f"the oracle was given {len(lists)} continuations for {batch} prompts: give one each")
    return lists
