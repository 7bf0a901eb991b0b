"""Checks of notebook 04: acceptance, the residual, one position of rejection sampling, exact laws.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures. R1 … R18 are the names of the bug museum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..records import Draft
from ..sampling import inverse_cdf
from ..verify import residual as residual_weights
from ..verify import verify
from .base import Exercise, Mistake, Result, check, read_int, read_number, read_row


def row(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


P, Q = row(0.5, 0.3, 0.2), row(0.2, 0.3, 0.5)
FIRST = row(1, 0, 0)

# -- accept_probability(p, q), two numbers ---------------------------------------------------------------------------

ACCEPT = Exercise(
    "accept_probability",
    lambda p, q: min(1.0, p / q),
    [(0.3, 0.6), (0.6, 0.3), (0.25, 0.25), (0.0, 0.5), (0.5, 1.0), (0.2, 0.3)],
    read_number,
    [
        Mistake(
            "unclipped",
            lambda p, q: p / q,
            "A probability is at most 1: where the target likes the token more than the drafter, always accept.",
        ),
        Mistake(
            "upside down",
            lambda p, q: min(1.0, q / p if p else 1.0),
            "p and q are swapped: accept with target ÷ draft.",
        ),
        Mistake(
            "upside down, raising", lambda p, q: min(1.0, q / p), "p and q are swapped: accept with target ÷ draft."
        ),
        Mistake(
            "p alone",
            lambda p, q: p,
            "That ignores q: it is right for a draft chosen without randomness (q = 1), and rejects too often "
            "otherwise.",
        ),
        Mistake(
            "min",
            lambda p, q: min(p, q),
            "min(p, q) is the chance that the token is drafted and accepted. Divide it by q: it was drafted already.",
        ),
        Mistake(
            "all or nothing",
            lambda p, q: float(p >= q),
            "Accepting only when p ≥ q throws away too much: accept p/q of the others.",
        ),
    ],
    "Where q is above p, accept just enough of the drafts.",
    argument_names=("target_prob", "draft_prob"),
)


def check_accept_probability(function: Callable[[float, float], Any]) -> Result:
    """``accept_probability(p, q)``: the target's and the drafter's probability of the draft token → a number."""
    return check(ACCEPT, function)


# -- acceptance(p, q), two rows --------------------------------------------------------------------------------------

ALPHA = Exercise(
    "acceptance",
    lambda p, q: float(torch.minimum(p, q).sum()),
    [(P, Q), (P, P), (P, FIRST), (row(0.5, 0.5, 0, 0), row(0, 0, 0.5, 0.5))],
    read_number,
    [
        Mistake(
            "product",
            lambda p, q: float((p * q).sum()),
            "Σ p·q is how often two independent draws agree: that is sample-and-match, which accepts less.",
        ),
        Mistake(
            "total variation",
            lambda p, q: float(0.5 * (p - q).abs().sum()),
            "That is what is rejected: the total variation. Take it from 1.",
        ),
        Mistake(
            "mean ratio",
            lambda p, q: float((p / q).clamp_max(1).nan_to_num().mean()),
            "The tokens are not drafted equally often: weigh min(1, p/q) by q, which gives min(p, q).",
        ),
    ],
    "α = Σ min(p, q): the area that both rows share.",
    argument_names=("p", "q"),
)


def check_acceptance(function: Callable[[Tensor, Tensor], Any]) -> Result:
    """``acceptance(p, q)``: two (V,) rows → α, how often a token drawn from q is accepted."""
    return check(ALPHA, function)


# -- residual(p, q) -> row -------------------------------------------------------------------------------------------


def _residual(p: Tensor, q: Tensor) -> Tensor:
    draft = Draft(torch.zeros(1, 1, dtype=torch.int64), q[None, None])
    weights = residual_weights(p[None], draft, torch.tensor([0]))[0]
    return weights / weights.sum()


def normalised(weights: Tensor) -> Tensor:
    return weights / weights.sum()


def _argmax_of_residual(p: Tensor, q: Tensor) -> Tensor:
    best = torch.zeros_like(p)
    best[(p - q).argmax()] = 1
    return best


_R1 = "You drew again from the full p: that is bug R1. The draft token gets a second chance, 2p - p² instead of p."
_R18 = "Your weights do not sum to 1: that is bug R18, and the missing mass falls on the last token. Divide by the sum."

RESIDUAL = Exercise(
    "residual",
    _residual,
    [
        (P, Q),
        (row(0.4, 0.3, 0.2, 0.1), row(0.1, 0.2, 0.3, 0.4)),
        (P, FIRST),
        (row(0.5, 0.5, 0, 0), row(0, 0, 0.5, 0.5)),
    ],
    read_row,
    [
        Mistake("full p (R1)", lambda p, q: p, _R1),
        Mistake("not normalised (R18)", lambda p, q: (p - q).clamp_min(0), _R18),
        Mistake(
            "not clamped",
            lambda p, q: p - q,
            "Some of your weights are negative: nothing is left over where q ≥ p. Clamp at 0, then divide by the sum.",
        ),
        Mistake(
            "not clamped, divided",
            lambda p, q: normalised(p - q),
            "p − q sums to 0: cut off what is negative first, then divide by the sum.",
        ),
        Mistake(
            "absolute",
            lambda p, q: normalised((p - q).abs()),
            "Where q is above p nothing is left over: clamp at 0 instead of the absolute value.",
        ),
        Mistake(
            "upside down",
            lambda p, q: normalised((q - p).clamp_min(0)),
            "p and q are swapped: the residual is what the target has and the drafter lacks.",
        ),
        Mistake(
            "the accepted part",
            lambda p, q: normalised(torch.minimum(p, q)),
            "min(p, q) is what was accepted. The residual is the rest of p.",
        ),
        Mistake(
            "argmax (R4)",
            _argmax_of_residual,
            "You take the likeliest leftover instead of a distribution: that is bug R4.",
        ),
    ],
    "Accepted part and residual part together are p again.",
    argument_names=("target_probs", "draft_probs"),
)


def check_residual(function: Callable[[Tensor, Tensor], Any]) -> Result:
    """``residual(p, q)``: two different (V,) rows → (V,), max(p - q, 0) divided by its sum."""
    return check(RESIDUAL, function)


# -- rejection_sample(draft_token, p, q, coin, draw) -> token --------------------------------------------------------


def _sample(draft_token: int, p: Tensor, q: Tensor, coin: float, draw: float) -> int:
    draft = Draft(torch.tensor([[draft_token]]), q[None, None])
    uniforms = torch.tensor([[[coin, draw], [0.0, 0.0]]], dtype=torch.float64)
    return int(verify("rejection", draft, torch.stack([p, p])[None], uniforms).tokens[0, 0])


def _cdf(weights: Tensor, u: float) -> int:
    return int(inverse_cdf(weights, torch.tensor(u, dtype=torch.float64)))


def _variant(
    ratio: Callable = lambda d, p, q: float(p[d] / q[d]), rest: Callable = _residual, strict: bool = True
) -> Callable:
    """Rejection sampling with one part exchanged."""

    def sample(d: int, p: Tensor, q: Tensor, coin: float, draw: float) -> int:
        limit = ratio(d, p, q)
        return d if (coin < limit if strict else coin <= limit) else _cdf(rest(p, q), draw)

    return sample


def _without_draft(d: int, p: Tensor, q: Tensor, coin: float, draw: float) -> int:
    rest = p.clone()
    rest[d] = 0
    return d if coin < p[d] / q[d] else _cdf(rest, draw)


def _unnormalised(d: int, p: Tensor, q: Tensor, coin: float, draw: float) -> int:
    if coin < p[d] / q[d]:
        return d
    return min(int(((p - q).clamp_min(0).cumsum(0) <= draw).sum()), len(p) - 1)


def _same_coin(d: int, p: Tensor, q: Tensor, coin: float, draw: float) -> int:
    return d if coin < p[d] / q[d] else _cdf(_residual(p, q), coin)


SAMPLE = Exercise(
    "rejection_sample",
    _sample,
    [
        (0, P, FIRST, 0.3, 0.9),
        (0, P, FIRST, 0.7, 0.1),
        (0, P, FIRST, 0.7, 0.55),
        (0, P, FIRST, 0.9, 0.7),
        (0, P, FIRST, 0.5, 0.1),
        (2, P, Q, 0.3, 0.5),
        (2, P, Q, 0.6, 0.95),
        (0, P, Q, 0.99, 0.95),
        (1, P, Q, 0.99, 0.05),
        (3, row(0.4, 0.3, 0.2, 0.1), row(0.1, 0.2, 0.3, 0.4), 0.8, 0.8),
        (0, row(0.4, 0.3, 0.2, 0.1), row(0.1, 0.2, 0.3, 0.4), 0.8, 0.9),
        (3, row(0.4, 0.3, 0.2, 0.1), row(0.1, 0.2, 0.3, 0.4), 0.8, 0.1),
    ],
    read_int,
    [
        Mistake(
            "full p (R1)",
            _variant(rest=lambda p, q: p),
            "You resampled from the full p: that is bug R1. The draft token gets 2p - p² instead of p, 0.75 "
            "instead of 0.5.",
        ),
        Mistake(
            "always accepts (R3)",
            lambda d, p, q, coin, draw: d,
            "Your function always keeps the draft token (bug R3): the text is the drafter's, not the target's.",
        ),
        Mistake(
            "argmax of the residual (R4)",
            _variant(rest=_argmax_of_residual),
            "After a rejection you take the likeliest leftover (bug R4): draw from the residual instead.",
        ),
        Mistake(
            "one coin for both (R5)",
            _same_coin,
            "You used the coin again to draw from the residual (bug R5). After a rejection the coin is known "
            "to be large: use draw.",
        ),
        Mistake(
            "residual without the draft only (R7)",
            _without_draft,
            "You only took the draft token out of p (bug R7). That is right for a one-hot q; otherwise the "
            "residual is max(p - q, 0).",
        ),
        Mistake("not normalised (R18)", _unnormalised, _R18),
        Mistake(
            "upside down",
            _variant(ratio=lambda d, p, q: float(q[d] / p[d])),
            "p and q are swapped in the ratio: accept with target ÷ draft.",
        ),
        Mistake(
            "wrong way round",
            lambda d, p, q, coin, draw: d if coin >= p[d] / q[d] else _cdf(_residual(p, q), draw),
            "Accept when the coin is below p/q, not above.",
        ),
        Mistake(
            "residual upside down",
            _variant(rest=lambda p, q: (q - p).clamp_min(0)),
            "p and q are swapped in the residual: draw from what the target has and the drafter lacks.",
        ),
        Mistake(
            "ignores q",
            _variant(ratio=lambda d, p, q: float(p[d])),
            "You accept with p(d) alone. The token was drawn from q: accept with min(1, p(d)/q(d)).",
        ),
        Mistake(
            "accepts on the border",
            _variant(strict=False),
            "Accept when coin < p/q. With <= a token of probability 0 gets in when the coin is 0.",
        ),
        Mistake(
            "plain sampling",
            lambda d, p, q, coin, draw: _cdf(p, draw),
            "You never look at the draft token: that is plain sampling. Right in law, but nothing is ever gained.",
        ),
        Mistake(
            "greedy (R17)",
            lambda d, p, q, coin, draw: int(p.argmax()),
            "You always emit the target's most probable token (bug R17): the temperature is ignored.",
        ),
    ],
    "Whatever the drafter says, the token follows p.",
    argument_names=("draft_token", "target_probs", "draft_probs", "coin", "draw"),
    hints={0: "The coin is below p/q = 0.5: the draft token stays."},
)


def check_rejection_sample(function: Callable[[int, Tensor, Tensor, float, float], Any]) -> Result:
    """``rejection_sample(draft_token, p, q, coin, draw)``: one position; (V,) rows, two uniforms → the token emitted.

    The recovered token is the inverse CDF of ``draw`` in the residual.
    """
    return check(SAMPLE, function)
