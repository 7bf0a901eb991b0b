"""What a drafter proposes for one text, outside of any run; and drafters without a model.

Takes: a target, a drafter, token ids.  Returns: a ``Draft``.
Must not know: verify rules, the loop, kinds of drafters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..drafters import Drafter
from ..models import Target
from ..records import Draft, Sampling, Verdict


def draft_after(
    target: Target,
    drafter: Drafter,
    text: Sequence[int],
    k: int,
    sampling: Sampling | None = None,
    uniforms: Sequence[float] | None = None,
) -> Draft:
    """The draft of ``k`` tokens that follows ``text``, from scratch: no cache of an earlier round can be wrong.

    text: ids; the target has read all but the last one, and has just said that one, as at the start of a round.
    uniforms: k numbers in [0, 1) for drafters that draw their tokens; None: 0.5 each.
    Raises ValueError for a text of fewer than two tokens, or another number of uniforms than k.
    """
    if len(text) < 2:
        raise ValueError(f"text has {len(text)} tokens: give at least two, the last of them just said")
    numbers = [0.5] * k if uniforms is None else [float(u) for u in uniforms]
    if len(numbers) != k:
        raise ValueError(f"{len(numbers)} uniforms for k={k}: give one for each draft token")
    read, last = list(text[:-1]), text[-1]
    ids = torch.tensor([read], device=target.device)
    hidden = target.forward(ids, [len(read)], target.new_cache(1), layers=drafter.needs_hidden)[1]
    drafter.start(target, [read], hidden)
    device = {"device": target.device}
    said = Verdict(torch.tensor([[last]], **device), torch.tensor([0], **device), torch.tensor([True], **device))
    drafter.commit(said, tuple(rows[:, -1:] for rows in hidden))
    coins = torch.tensor([numbers], dtype=torch.float64, **device)
    return drafter.propose(torch.tensor([k]), sampling or Sampling(), coins)


class RandomDrafter:
    """Guesses any token of the vocabulary, one as often as another: hardly ever accepted, and never to blame.

    A guess of a lossless rule is judged by the target alone, so its law must not move when this drafter takes the
    place of a good one. Whatever moves follows the drafter. The token is chosen by the drafting uniforms, which the
    verify rule never sees; given the token there is nothing random left, hence no ``probs``.
    """

    needs_hidden: tuple[int, ...] = ()

    def __init__(self, target: Target) -> None:
        self.vocab_size, self.device = target.vocab_size, target.device

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        pass

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        tokens = (uniforms * self.vocab_size).long().clamp_max(self.vocab_size - 1)
        beyond = torch.arange(tokens.shape[1], device=tokens.device) >= k.to(tokens.device)[:, None]
        return Draft.trusted(tokens.masked_fill(beyond, -1).to(self.device))

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        pass

    def keep(self, rows: Sequence[int]) -> None:
        pass


class Says:
    """A drafter without any thought: ``plan(tokens said so far, k)`` is its draft."""

    needs_hidden: tuple[int, ...] = ()
    vocab_size = None

    def __init__(self, plan: Callable[[list[int], int], Sequence[int]]) -> None:
        self.plan = plan

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        self.said: list[list[int]] = [[] for _ in prompts]

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        rows = [list(self.plan(said, want))[:want] for said, want in zip(self.said, k.tolist(), strict=True)]
        return Draft.of_lists(rows, "cpu")

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        for said, tokens in zip(self.said, verdict.tokens.tolist(), strict=True):
            said.extend(token for token in tokens if token >= 0)

    def keep(self, rows: Sequence[int]) -> None:
        self.said = [self.said[row] for row in rows]
