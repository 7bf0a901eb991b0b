"""R1b: the pseudo-code of an article on MTP and accuracy, to the letter.

Takes: draft tokens, the target's rows, coins.  Returns: the tokens of a round, possibly none after the accepted ones.
Must not know: models, drafters, the engine's loop.

The article says: accept draft token i with probability p(d); at the first rejection leave the loop; append what was
accepted, and only if nothing was, generate one token in the ordinary way. So a rejection *after* an acceptance emits
nothing. The next round drafts again from there, and a greedy drafter says the same token, which gets its second
chance, and a third one when the ordinary token is drawn from the whole p. There is no bonus token either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from ...sampling import inverse_cdf

Law = dict[tuple[int, ...], float]
Row = Callable[[tuple[int, ...]], Tensor]


def article_round(draft: Sequence[int], rows: Sequence[Tensor], coins: Sequence[float], draw: float) -> list[int]:
    """One round. draft: k ids.  rows: k rows (V,) of the target.  coins: k uniforms.  draw: one more.

    Returns between 1 and k tokens.
    """
    accepted: list[int] = []
    for token, row, coin in zip(draft, rows, coins, strict=True):
        if coin < float(row[token]):
            accepted.append(token)
        else:
            break
    if accepted:
        return accepted
    return [int(inverse_cdf(rows[0], draw))]  # only when nothing was accepted


def article_law(target: Row, guess: Callable[[tuple[int, ...]], int], k: int, length: int) -> Law:
    """The law of the first ``length`` tokens, by following every branch.

    target: prefix → (V,) row.  guess: prefix → the draft token that a greedy drafter says there.  k: draft tokens.
    """
    found: Law = {}

    def go(prefix: tuple[int, ...], judged: int, weight: float) -> None:
        """judged: how many draft tokens of the round under way were accepted."""
        if weight == 0:
            return
        if len(prefix) == length:
            found[prefix] = found.get(prefix, 0.0) + weight
            return
        row, token = target(prefix).tolist(), guess(prefix)
        p = row[token]
        go((*prefix, token), (judged + 1) % k, weight * p)  # after k accepted ones a new round begins, without bonus
        if judged:
            go(prefix, 0, weight * (1 - p))  # nothing is emitted: a new round drafts at the same place
        else:
            for other, q in enumerate(row):
                go((*prefix, other), 0, weight * (1 - p) * q)

    go((), 0, 1.0)
    return dict(sorted(found.items()))
