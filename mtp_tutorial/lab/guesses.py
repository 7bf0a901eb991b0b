"""What becomes of the later guesses when the first one is wrong, at temperature 0.

Takes: the tensors of each round, as the engine shows them to its hooks.  Returns: rows in plain Python numbers.
Must not know: models, drafters, verify rules.

A verify call gives a row for every draft token, also behind a wrong one. Row i says what the target itself would say
after the text *and* the draft tokens before. So each draft token can be asked: does it fit what the drafter had
guessed so far, right or wrong?
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from torch import Tensor

from ..decode import Hooks
from ..records import Draft, Verdict


@dataclass(frozen=True)
class Guessed:
    """One round with a draft.

    fits: for each draft token, whether it is the target's own choice behind the text and the draft tokens before it.
    num_accepted: how many fit from the first on.
    """

    sequence: int
    round: int
    fits: tuple[bool, ...]

    @property
    def num_accepted(self) -> int:
        return (*self.fits, False).index(False)


class Guesses(Hooks):
    """Hooks that change nothing and keep a ``Guessed`` for each draft; for runs at temperature 0, a new one for each.

    Drafts that the end of the text cuts short are kept as well.
    """

    def __init__(self) -> None:
        self.rounds: list[Guessed] = []
        self._seen: dict[int, int] = {}

    def observe(
        self, sequences: Sequence[int], draft: Draft, target_probs: Tensor, uniforms: Tensor, verdict: Verdict
    ) -> None:
        best = target_probs.argmax(-1).tolist()
        for row, sequence in enumerate(sequences):
            index = self._seen[sequence] = self._seen.get(sequence, -1) + 1  # the prefill is round 0
            said = [token for token in draft.tokens[row].tolist() if token >= 0]
            if said:
                fits = tuple(token == wanted for token, wanted in zip(said, best[row], strict=False))
                self.rounds.append(Guessed(sequence, index, fits))


def fit_after(rounds: Iterable[Guessed], first_right: bool, k: int) -> list[float]:
    """For draft tokens 2 … k: the share that fits, among full drafts whose first token was right (or wrong).

    nan where there is no such draft.
    """
    chosen = [one.fits for one in rounds if len(one.fits) == k and one.fits[0] == first_right]
    return [fmean(fits[i] for fits in chosen) if chosen else math.nan for i in range(1, k)]


def first_after(rounds: Iterable[Guessed], rejected: bool) -> float:
    """How often the first guess of a round is right when the round before had a rejection (or had none).

    nan where there is no such round.
    """
    before: dict[int, Guessed] = {}
    found = []
    for one in rounds:
        last = before.get(one.sequence)
        if last is not None and last.round == one.round - 1 and (not all(last.fits)) == rejected:
            found.append(one.fits[0])
        before[one.sequence] = one
    return fmean(found) if found else math.nan
