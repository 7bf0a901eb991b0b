"""Checks of notebook 01: temperature, the segment, top-p, the exponential race.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..records import Sampling
from ..sampling import exponential_race, inverse_cdf, probabilities
from .base import Exercise, Mistake, Result, check, read_flags, read_int, read_row, show


def _row(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# -- softmax_with_temperature(logits, temperature) -> probabilities --------------------------------------------------


def _softmax(logits: Tensor, temperature: float) -> Tensor:
    return probabilities(logits, Sampling(temperature=temperature))


def _plain_softmax(logits: Tensor) -> Tensor:
    return logits.exp() / logits.exp().sum()


def _or_one_hot(function: Callable[[Tensor, float], Tensor]) -> Callable[[Tensor, float], Tensor]:
    """The same mistake by someone who did think of temperature 0."""
    return lambda logits, t: function(logits, t) if t else _softmax(logits, 0)


def _ties_share(logits: Tensor, temperature: float) -> Tensor:
    if temperature:
        return _softmax(logits, temperature)
    best = (logits == logits.max()).to(torch.float64)
    return best / best.sum()


def _divide_after(logits: Tensor, temperature: float) -> Tensor:
    return logits.softmax(-1) / temperature


_ZERO = "At T = 0 you divided by zero: T = 0 means greedy, all mass on the largest logit."
_TIES = "At T = 0 equal logits share the mass in your function. Greedy gives all of it to one token, the lowest id."
_MULTIPLY = "You multiplied by the temperature. Divide: a T below 1 sharpens, a T above 1 flattens."
_IGNORED = "The temperature changes nothing in your function: divide the logits by it before the softmax."
_ROW = "At T = 0, too, the answer is a row: 1 for the token with the largest logit, 0 for the others."
_AFTER = "You divided the probabilities by T, after the softmax: then they no longer sum to 1. Divide the logits."
_OVERFLOW = "exp(1000) overflows: subtract the largest logit first, which changes no probability."

SOFTMAX = Exercise(
    "softmax_with_temperature",
    _softmax,
    [
        (_row(3, 2), 1.0),
        (_row(3, 2), 0.6),
        (_row(3, 2), 2.0),
        (_row(0.5, -1, 2, 0), 1.5),
        (_row(1000, 999), 1.0),
        (_row(3, 2), 0.0),
        (_row(1, 4, 4, 0), 0.0),
    ],
    read_row,
    [
        Mistake("divides by zero", lambda x, t: (x / t).softmax(-1), _ZERO),
        Mistake("divides by zero in Python", lambda x, t: 1 / t and _softmax(x, t), _ZERO),
        Mistake("raises at zero", lambda x, t: _softmax(x, t) if t else _raise(ValueError), _ZERO),
        Mistake("multiplies", lambda x, t: (x * t).softmax(-1), _MULTIPLY),
        Mistake("multiplies, one-hot", _or_one_hot(lambda x, t: (x * t).softmax(-1)), _MULTIPLY),
        Mistake("ignores T", lambda x, t: x.softmax(-1), _IGNORED),
        Mistake("ignores T, one-hot", _or_one_hot(lambda x, t: x.softmax(-1)), _IGNORED),
        Mistake("divides after", _divide_after, _AFTER),
        Mistake("divides after, one-hot", _or_one_hot(_divide_after), _AFTER),
        Mistake("an id at zero", lambda x, t: _softmax(x, t) if t else x.argmax(), _ROW),
        Mistake("zeros at zero", lambda x, t: _softmax(x, t) if t else torch.zeros_like(x), _ROW),
        Mistake("overflows", _or_one_hot(lambda x, t: _plain_softmax(x / t)), _OVERFLOW),
        Mistake("overflows and divides by zero", lambda x, t: _plain_softmax(x / t), f"{_OVERFLOW} {_ZERO}"),
        Mistake("ties share", _ties_share, _TIES),
        Mistake("nearly zero", lambda x, t: (x / max(t, 1e-8)).softmax(-1), _TIES),
    ],
    "3 and 2 become 0.73 and 0.27, and 0.84 and 0.16 at T = 0.6.",
    hints={1: "Here T is below 1.", 2: "Here T is above 1.", 4: _OVERFLOW, 5: "T = 0 means greedy.", 6: _TIES},
)


def _raise(kind: type[Exception]) -> Any:
    raise kind("T must be above 0")


def check_softmax_with_temperature(function: Callable[[Tensor, float], Any]) -> Result:
    """``softmax_with_temperature(logits, temperature)``: (V,) float64 logits → (V,) probabilities; T = 0 is one-hot."""
    return check(SOFTMAX, function)


# -- pick(probs, u) -> token id --------------------------------------------------------------------------------------


def _pick(probs: Tensor, u: float) -> int:
    return int(inverse_cdf(probs, torch.tensor(u, dtype=torch.float64)))


def _pick_closed(probs: Tensor, u: float) -> int:
    return min(int((probs.cumsum(-1) < u).sum()), len(probs) - 1)


def _pick_falls_off(probs: Tensor, u: float) -> int:
    return int((probs.cumsum(-1) <= u).sum())


def _pick_none(probs: Tensor, u: float) -> int | None:
    i = _pick_falls_off(probs, u)
    return i if i < len(probs) else None


def _pick_adds_late(probs: Tensor, u: float) -> int | None:
    i = int((probs.cumsum(-1) - probs <= u).sum())
    return i if i < len(probs) else None


def _pick_sorted(probs: Tensor, u: float) -> int:
    ordered, ids = probs.sort(descending=True, stable=True)
    return int(ids[_pick(ordered, u)])


def _pick_by_itself(probs: Tensor, u: float) -> int:
    return next((i for i, p in enumerate(probs.tolist()) if u < p), len(probs) - 1)


_CLOSED = (
    "The stretches are half open, [start, end): a u exactly on a border belongs to the next token. Test u < end, "
    "not u <= end."
)
_FALLS = "Ten times 0.1 adds up to a little less than 1, and this u lies beyond it: return the last token then."

PICK = Exercise(
    "pick",
    _pick,
    [
        (_row(0.84, 0.16), 0.30),
        (_row(0.84, 0.16), 0.90),
        (_row(0.2, 0.3, 0.5), 0.45),
        (_row(0.2, 0.3, 0.5), 0.1),
        (_row(0.2, 0.3, 0.5), 0.99),
        (_row(0.5, 0.25, 0.25), 0.5),
        (_row(0.5, 0.25, 0.25), 0.75),
        (_row(0.0, 1.0), 0.0),
        (_row(*[0.1] * 10), 1 - 2**-53),
    ],
    read_int,
    [
        Mistake(
            "argmax",
            lambda p, u: int(p.argmax()),
            "You take the most probable token whatever u is: that is greedy decoding, not sampling.",
        ),
        Mistake("closed", _pick_closed, _CLOSED),
        Mistake(
            "sorted",
            _pick_sorted,
            "You laid the stretches out by probability. The law is the same, but here they lie in the order "
            "of the ids.",
        ),
        Mistake("falls off", _pick_falls_off, _FALLS),
        Mistake("returns nothing at the end", _pick_none, _FALLS),
        Mistake(
            "adds too late",
            _pick_adds_late,
            "A stretch ends at the sum of the probabilities up to its token, its own included: add, then compare.",
        ),
        Mistake("one too far", lambda p, u: _pick(p, u) + 1, "You are one token too far: ids start at 0."),
        Mistake(
            "compares the probability",
            _pick_by_itself,
            "You compare u with each probability alone. Compare it with the sum of the probabilities so far.",
        ),
        Mistake("the probability", lambda p, u: float(p[_pick(p, u)]), "Return the token's id, not its probability."),
    ],
    "u = 0.30 gives token 0, u = 0.90 gives token 1.",
    describe=lambda case: f"pick(probs={show(case[0])}, u={case[1]!r})",
    hints={5: _CLOSED, 7: "Token 0 has probability 0: no u may give it.", 8: _FALLS},
)


def check_pick(function: Callable[[Tensor, float], Any]) -> Result:
    """``pick(probs, u)``: (V,) probabilities and u in [0, 1) → the id whose half-open stretch holds u."""
    return check(PICK, function)


# -- top_p_mask(probs, top_p) -> which tokens stay -------------------------------------------------------------------


def _top_p(probs: Tensor, top_p: float) -> Tensor:
    return probabilities(probs.log(), Sampling(top_p=top_p)) > 0


def _top_p_strict(probs: Tensor, top_p: float) -> Tensor:
    ordered, ids = probs.sort(descending=True, stable=True)
    return torch.zeros_like(probs, dtype=torch.bool).scatter(0, ids, ordered.cumsum(0) <= top_p)


def _top_p_strict_one(probs: Tensor, top_p: float) -> Tensor:
    mask = _top_p_strict(probs, top_p)
    mask[probs.argmax()] = True
    return mask


def _top_p_one_more(probs: Tensor, top_p: float) -> Tensor:
    ordered, ids = probs.sort(descending=True, stable=True)
    return torch.zeros_like(probs, dtype=torch.bool).scatter(0, ids, ordered.cumsum(0) - ordered <= top_p)


def _top_p_sorted(probs: Tensor, top_p: float) -> Tensor:
    ordered = probs.sort(descending=True, stable=True).values
    return ordered.cumsum(0) - ordered < top_p


_CROSSING = (
    "You dropped the token that crosses the line: what you keep holds less than top_p. Keep the smallest set that "
    "reaches it."
)

TOP_P = Exercise(
    "top_p_mask",
    _top_p,
    [
        (_row(0.125, 0.5, 0.25, 0.125), 0.6),
        (_row(0.125, 0.5, 0.25, 0.125), 0.8),
        (_row(0.125, 0.5, 0.25, 0.125), 0.75),
        (_row(0.125, 0.5, 0.25, 0.125), 0.1),
        (_row(0.125, 0.5, 0.25, 0.125), 1.0),
        (_row(0.0625, 0.0625, 0.125, 0.75), 0.5),
    ],
    read_flags,
    [
        Mistake("drops the crossing token", _top_p_strict, _CROSSING),
        Mistake("drops the crossing token, keeps one", _top_p_strict_one, _CROSSING),
        Mistake(
            "keeps one more",
            _top_p_one_more,
            "You keep one token too many where the kept ones reach top_p exactly: a token stays only while "
            "the mass before it is below top_p.",
        ),
        Mistake(
            "id order",
            lambda p, t: p.cumsum(0) - p < t,
            "You add up in the order of the ids. Start with the most probable token.",
        ),
        Mistake("sorted order", _top_p_sorted, "The mask is in sorted order: put it back into the order of the ids."),
        Mistake(
            "threshold",
            lambda p, t: p >= t,
            "You compare each probability with top_p. Compare the sum over the more probable tokens.",
        ),
    ],
    "The kept tokens are the smallest set that holds at least top_p of the mass.",
    argument_names=("probs", "top_p"),
)


def check_top_p_mask(function: Callable[[Tensor, float], Any]) -> Result:
    """``top_p_mask(probs, top_p)``: (V,) probabilities → (V,) booleans, True for the tokens that stay."""
    return check(TOP_P, function)


# -- exponential_race(probs, noise) -> token id ----------------------------------------------------------------------

RACE = Exercise(
    "exponential_race",
    exponential_race,
    [
        (_row(0.84, 0.16), _row(1.0, 1.0)),
        (_row(0.84, 0.16), _row(2.0, 0.1)),
        (_row(0.5, 0.3, 0.2), _row(0.9, 0.6, 0.1)),
        (_row(0.5, 0.3, 0.2), _row(1.5, 0.3, 0.9)),
        (_row(0.0, 0.4, 0.6), _row(0.01, 0.5, 2.0)),
        (_row(0.5, 0.3, 0.2), _row(0.4, 0.3, 3.0)),
        (_row(0.9, 0.1), _row(1.0, 5.0)),
    ],
    read_int,
    [
        Mistake(
            "multiplies",
            lambda p, e: int((p * e).argmax()),
            "You multiplied. A runner of rate p finishes at noise ÷ p; the first one has the largest p ÷ noise.",
        ),
        Mistake(
            "argmin",
            lambda p, e: int((p / e).argmin()),
            "You take the slowest runner: noise ÷ p is a finishing time, so the winner has the largest p ÷ noise.",
        ),
        Mistake(
            "ignores the noise",
            lambda p, e: int(p.argmax()),
            "The noise changes nothing in your function: that is greedy decoding.",
        ),
        Mistake(
            "ignores the probabilities",
            lambda p, e: int(e.argmin()),
            "The probabilities change nothing in your function: every token would be equally likely.",
        ),
        Mistake(
            "adds",
            lambda p, e: int((p.log() + e).argmax()),
            "Adding noise to log p is the Gumbel-max way and wants Gumbel noise. With exponential noise, "
            "divide p by it.",
        ),
    ],
    "Drawn again and again with Exp(1) noise, each token wins as often as its probability says.",
    hints={
        0: "Here the noise is the same for both.",
        4: "A token of probability 0 must not win, however small its noise.",
    },
    argument_names=("probs", "noise"),
)


def check_exponential_race(function: Callable[[Tensor, Tensor], Any]) -> Result:
    """``exponential_race(probs, noise)``: (V,) probabilities and (V,) Exp(1) noise → the id that wins."""
    return check(RACE, function)
