"""Checks of notebook 03: greedy verification, the counter of the KV cache, tokens a round, the mask.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..records import Draft
from ..verify import verify
from .base import Exercise, Mistake, Result, check, read_int, read_matrix, read_tokens_and_count

# -- greedy_verify(draft_tokens, target_argmax) -> (tokens, num_accepted) --------------------------------------------


def _greedy(draft_tokens: Sequence[int], target_argmax: Sequence[int]) -> tuple[list[int], int]:
    vocabulary = max([*draft_tokens, *target_argmax]) + 1
    rows = torch.nn.functional.one_hot(torch.tensor(target_argmax), vocabulary).double()[None]
    draft = Draft(torch.tensor([list(draft_tokens)], dtype=torch.int64))
    verdict = verify("greedy", draft, rows, torch.zeros(1, len(target_argmax), 2))
    return [t for t in verdict.tokens[0].tolist() if t >= 0], int(verdict.num_accepted[0])


def _leading(draft: Sequence[int], best: Sequence[int]) -> int:
    return next((i for i, (d, b) in enumerate(zip(draft, best)) if d != b), len(draft))


def _no_stop(draft: Sequence[int], best: Sequence[int]) -> tuple[list[int], int]:
    return list(best), sum(d == b for d, b in zip(draft, best))


def _counts_all(draft: Sequence[int], best: Sequence[int]) -> tuple[list[int], int]:
    return _greedy(draft, best)[0], sum(d == b for d, b in zip(draft, best))


def _no_last(draft: Sequence[int], best: Sequence[int]) -> tuple[list[int], int]:
    n = _leading(draft, best)
    return list(draft[:n]), n


def _no_bonus(draft: Sequence[int], best: Sequence[int]) -> tuple[list[int], int]:
    n = _leading(draft, best)
    return [*draft[:n], *best[n : len(draft)][:1]], n


def _wrong_row(draft: Sequence[int], best: Sequence[int]) -> tuple[list[int], int]:
    n = _leading(draft, best)
    return [*draft[:n], best[max(n - 1, 0)]], n


def _keeps_rejected(draft: Sequence[int], best: Sequence[int]) -> tuple[list[int], int]:
    n = _leading(draft, best)
    return [*draft[: n + 1], best[n]], n


def _counts_last(draft: Sequence[int], best: Sequence[int]) -> tuple[list[int], int]:
    tokens, n = _greedy(draft, best)
    return tokens, n + 1


GREEDY = Exercise(
    "greedy_verify",
    _greedy,
    [
        ([7, 8, 9, 10], [7, 8, 9, 11, 4]),
        ([7, 8, 9, 10], [7, 8, 9, 10, 4]),
        ([7, 8], [5, 8, 3]),
        ([7, 8, 9], [7, 5, 9, 3]),
        ([7], [7, 7]),
        ([], [6]),
    ],
    read_tokens_and_count,
    [
        Mistake(
            "does not stop",
            _no_stop,
            "You go on after the first mismatch. What follows was guessed after a token that is not in the "
            "text: drop it, even where it matches.",
        ),
        Mistake(
            "counts all matches", _counts_all, "num_accepted counts the draft tokens before the first mismatch only."
        ),
        Mistake(
            "no last token",
            _no_last,
            "Each round ends in one more token: the target's own at the first mismatch, or the bonus.",
        ),
        Mistake(
            "no bonus",
            _no_bonus,
            "When every draft token matches, the last row still holds an answer: the bonus token.",
        ),
        Mistake("wrong row", _wrong_row, "The last token comes from row num_accepted; you read the row before it."),
        Mistake("keeps the rejected token", _keeps_rejected, "The rejected draft token must not stay in the text."),
        Mistake(
            "counts the last token",
            _counts_last,
            "num_accepted counts draft tokens; the recovered or bonus token is the target's own.",
        ),
    ],
    "Three kept and one replaced: four tokens from one call.",
    hints={
        0: "Three draft tokens match, the fourth does not: keep three, write the target's own choice for the fourth.",
        1: "All four match: the last row gives the bonus.",
        2: "The first does not match: what comes after it is dropped, matching or not.",
        5: "No draft at all: the only row gives the only token.",
    },
    argument_names=("draft_tokens", "target_argmax"),
)


def check_greedy_verify(function: Callable[[list[int], list[int]], Any]) -> Result:
    """``greedy_verify(draft_tokens, target_argmax)``: k ids and k + 1 ids → (emitted tokens, num_accepted)."""
    return check(GREEDY, function)


# -- roll_back(length, num_drafted, num_accepted) -> the counter -----------------------------------------------------


def _roll_back(length: int, num_drafted: int, num_accepted: int) -> int:
    return length - (num_drafted - num_accepted)


ROLL_BACK = Exercise(
    "roll_back",
    _roll_back,
    [(10, 4, 3), (10, 4, 4), (10, 4, 0), (8, 0, 0), (7, 1, 0), (30, 8, 5)],
    read_int,
    [
        Mistake(
            "drops every draft",
            lambda n, k, a: n - k,
            "You drop the accepted draft tokens too; their keys and values are right and stay.",
        ),
        Mistake(
            "drops the accepted",
            lambda n, k, a: n - a,
            "You drop as many slots as were accepted. Drop the rejected ones.",
        ),
        Mistake(
            "drops one more",
            lambda n, k, a: n - (k - a) - 1,
            "One slot too few: the recovered token was never written, so nothing has to make room for it.",
        ),
        Mistake(
            "keeps one more",
            lambda n, k, a: n - (k - a) + 1,
            "One slot too many: the recovered token has no slot yet. The next call writes it.",
        ),
        Mistake(
            "starts from before",
            lambda n, k, a: n + 1 + a,
            "length counts the slots after the target call, the draft tokens included: take away the rejected ones.",
        ),
        Mistake(
            "nothing",
            lambda n, k, a: n,
            "The rejected tokens' slots still count: the next call would look at them.",
        ),
    ],
    "The slots stay as they are; only the counter moves.",
    hints={0: "One token of four was rejected."},
    argument_names=("length", "num_drafted", "num_accepted"),
)


def check_roll_back(function: Callable[[int, int, int], Any]) -> Result:
    """``roll_back(length, num_drafted, num_accepted)``: slots after the target call, drafts included → slots kept."""
    return check(ROLL_BACK, function)


# -- tokens_per_round(num_accepted) -> tokens ------------------------------------------------------------------------

TOKENS = Exercise(
    "tokens_per_round",
    lambda num_accepted: num_accepted + 1,
    [(0,), (1,), (3,), (4,)],
    read_int,
    [
        Mistake(
            "forgets the last token",
            lambda n: n,
            "You forget the token that the target adds itself: recovered or bonus.",
        ),
        Mistake(
            "never less than one",
            lambda n: max(n, 1),
            "The target's own token comes on top of the accepted ones, not only when there are none.",
        ),
    ],
    "At least 1, at most k + 1.",
    argument_names=("num_accepted",),
)


def check_tokens_per_round(function: Callable[[int], Any]) -> Result:
    """``tokens_per_round(num_accepted)``: how many tokens the round emits."""
    return check(TOKENS, function)


# -- verification_mask(length, k) -> (k+1, length+k+1) ---------------------------------------------------------------


def _grid(length: int, k: int) -> tuple[Tensor, Tensor]:
    return torch.arange(k + 1)[:, None], torch.arange(length + k + 1)[None, :]


def _mask(length: int, k: int) -> Tensor:
    row, slot = _grid(length, k)
    return slot <= length + row


def _mask_strict(length: int, k: int) -> Tensor:
    row, slot = _grid(length, k)
    return slot < length + row


def _mask_peeks(length: int, k: int) -> Tensor:
    row, slot = _grid(length, k)
    return slot <= length + row + 1


def _mask_whole_text(length: int, k: int) -> Tensor:
    return torch.ones(length + k + 1, length + k + 1, dtype=torch.bool).tril()


def _mask_no_offset(length: int, k: int) -> Tensor:
    row, slot = _grid(length, k)
    return slot <= row


def _mask_drafts_only(length: int, k: int) -> Tensor:
    row, slot = _grid(length, k)
    return (slot <= length + row) & (slot >= length)


def _mask_committed_only(length: int, k: int) -> Tensor:
    row, slot = _grid(length, k)
    return (slot < length) | (slot == length + row)


MASK = Exercise(
    "verification_mask",
    _mask,
    [(1, 1), (3, 2), (0, 2), (4, 0), (5, 4)],
    read_matrix,
    [
        Mistake(
            "all ones",
            lambda n, k: torch.ones(k + 1, n + k + 1, dtype=torch.bool),
            "Every row sees everything: a row would see the very token it has to judge.",
        ),
        Mistake("peeks", _mask_peeks, "Each row looks one slot too far: it sees the very token that it has to judge."),
        Mistake(
            "whole text",
            _mask_whole_text,
            "The call has k + 1 rows: the committed tokens are in the cache, they are not fed again.",
        ),
        Mistake(
            "no committed columns",
            lambda n, k: torch.ones(k + 1, k + 1, dtype=torch.bool).tril(),
            "The committed slots are missing: there are length + k + 1 columns.",
        ),
        Mistake("strict", _mask_strict, "A row must see its own token: slot <= length + row, not <."),
        Mistake(
            "no offset", _mask_no_offset, "Row i writes slot length + i; you forgot the committed slots before it."
        ),
        Mistake(
            "drafts only",
            _mask_drafts_only,
            "The committed slots are hidden: every row must see all of the text so far.",
        ),
        Mistake(
            "committed only",
            _mask_committed_only,
            "A row must also see the draft tokens before it: it judges what follows them.",
        ),
        Mistake("inverted", lambda n, k: ~_mask(n, k), "True means “may look”; yours is the other way round."),
        Mistake("transposed", lambda n, k: _mask(n, k).T, "Rows are the tokens fed, columns the slots: transpose it."),
        Mistake(
            "k rows",
            lambda n, k: _mask(n, k)[1:] if k else _mask(n, k)[:0],
            "The call has k + 1 rows: the last token of the text is fed too.",
        ),
        Mistake(
            "no own slots",
            lambda n, k: _mask(n, k)[:, :-1],
            "There are length + k + 1 slots: k + 1 tokens are written by this call.",
        ),
    ],
    "One forward call answers all k + 1 questions.",
    argument_names=("length", "k"),
)


def check_verification_mask(function: Callable[[int, int], Any]) -> Result:
    """``verification_mask(length, k)``: (k+1, length+k+1) booleans, True where the row may look at the slot."""
    return check(MASK, function)
