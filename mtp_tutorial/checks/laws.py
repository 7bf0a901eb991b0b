"""Checks of notebook 04, second part: the law of the emitted token, written out for a right rule and a broken one.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures. R1 and R3 are names of the bug museum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, zeros_like

from .base import Exercise, Mistake, Result, check, read_row, read_two_rows
from .lossless import P, normalised, row

# -- one_hot_law(p, d) -> what acceptance brings, what recovery brings -----------------------------------------------


def _parts(p: Tensor, d: int) -> tuple[Tensor, Tensor]:
    accepted = zeros_like(p)
    accepted[d] = p[d]
    return accepted, p - accepted


def _parts_r1(p: Tensor, d: int) -> tuple[Tensor, Tensor]:
    return _parts(p, d)[0], (1 - p[d]) * p


def _parts_unweighted(p: Tensor, d: int) -> tuple[Tensor, Tensor]:
    accepted, rest = _parts(p, d)
    return accepted, rest / rest.sum()


def _parts_r3(p: Tensor, d: int) -> tuple[Tensor, Tensor]:
    accepted = zeros_like(p)
    accepted[d] = 1
    return accepted, zeros_like(p)


ONE_HOT = Exercise(
    "one_hot_law",
    _parts,
    [(P, 0), (P, 2), (row(0.1, 0.2, 0.3, 0.4), 1)],
    read_two_rows,
    [
        Mistake(
            "full p (R1)",
            _parts_r1,
            "The recovered part still holds the draft token: drawing from the full p is bug R1.",
        ),
        Mistake(
            "not weighted",
            _parts_unweighted,
            "Recovery happens only after a rejection: multiply the residual by 1 - p(d).",
        ),
        Mistake("always accepts (R3)", _parts_r3, "The draft token is accepted with p(d), not always."),
        Mistake("swapped", lambda p, d: _parts(p, d)[::-1], "First what acceptance brings, then what recovery brings."),
    ],
    "The two parts add up to p, whichever token was drafted.",
    argument_names=("target_probs", "d"),
)


def check_one_hot_law(function: Callable[[Tensor, int], Any]) -> Result:
    """``one_hot_law(p, d)``: the draft is always d → two (V,) rows: each token's chance by acceptance, by recovery."""
    return check(ONE_HOT, function)


# -- full_p_law(p, d): the law of bug R1 -----------------------------------------------------------------------------


def _r1_law(p: Tensor, d: int) -> Tensor:
    law = (1 - p[d]) * p
    law[d] += p[d]
    return law


def _r1_no_accept(p: Tensor, d: int) -> Tensor:
    return (1 - p[d]) * p


def _r1_unweighted(p: Tensor, d: int) -> Tensor:
    law = p.clone()
    law[d] += p[d]
    return law


FULL_P = Exercise(
    "full_p_law",
    _r1_law,
    [(P, 0), (P, 2), (row(0.1, 0.2, 0.3, 0.4), 1)],
    read_row,
    [
        Mistake(
            "p",
            lambda p, d: p,
            "That is the right law, p. The broken rule gives the draft token a second chance: how much more "
            "does it get?",
        ),
        Mistake(
            "forgets the acceptance",
            _r1_no_accept,
            "You left out the accepted draft token: your numbers sum to 1 - p(d).",
        ),
        Mistake(
            "not weighted", _r1_unweighted, "The second draw happens only after a rejection: multiply it by 1 - p(d)."
        ),
        Mistake(
            "added to all",
            lambda p, d: p[d] + (1 - p[d]) * p,
            "You added the acceptance to every token. Only the draft token, d, can be accepted.",
        ),
        Mistake(
            "two chances for all",
            lambda p, d: 2 * p - p * p,
            "Only the draft token has two chances. Another token needs a rejection first: (1 - p(d)) times its p.",
        ),
        Mistake(
            "normalised",
            lambda p, d: normalised(_r1_unweighted(p, d)),
            "Do not divide by the sum: weigh the second draw by 1 - p(d).",
        ),
    ],
    "The draft token gets 2p - p², every other token too little.",
    argument_names=("target_probs", "d"),
)


def check_full_p_law(function: Callable[[Tensor, int], Any]) -> Result:
    """``full_p_law(p, d)``: the law of the emitted token when a rejection leads to a draw from the full p (R1)."""
    return check(FULL_P, function)
