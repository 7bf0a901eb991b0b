"""Checks of notebook 06: what a step of a head predicts, how its two inputs are mixed, the loss at the right shift.

Takes: the reader's function.  Returns: a ``Result``, and prints one line.
Must not know: notebooks, pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .base import Exercise, Mistake, Result, check, read_int, read_number, read_row

# -- predicted_position(row, step) -> position -----------------------------------------------------------------------

SHIFT = Exercise(
    "predicted_position",
    lambda row, step: row + step + 1,
    [(0, 1), (4, 1), (4, 2), (4, 3), (0, 5)],
    read_int,
    [
        Mistake(
            "the token it reads",
            lambda row, step: row + step,
            "That is the token that the row reads beside the hidden state. It predicts the one after that.",
        ),
        Mistake(
            "always the token after next",
            lambda row, step: row + 2,
            "That is right at step 1. Each further step looks one position further.",
        ),
        Mistake(
            "the next token",
            lambda row, step: row + 1,
            "The next token is what the target itself predicts there; the head is told it and predicts a later one.",
        ),
        Mistake(
            "two a step",
            lambda row, step: row + 2 * step,
            "One step goes one position further, not two: step 1 predicts row + 2, step 2 predicts row + 3.",
        ),
        Mistake(
            "one too far",
            lambda row, step: row + step + 2,
            "One too far. At step 1 the row reads the token at row + 1 and predicts the token at row + 2.",
        ),
    ],
    "Step s of row i reads the token at i + s and predicts the one at i + s + 1.",
    hints={0: "Row 0 at step 1 has the hidden state of position 0 and the token at position 1."},
    argument_names=("row", "step"),
)


def check_predicted_position(function: Callable[[int, int], Any]) -> Result:
    """``predicted_position(row, step)``: the position of the token that row ``row`` predicts at step ``step``."""
    return check(SHIFT, function)


# -- mix(embedding, hidden, enorm, hnorm, projection) -> what enters the decoder layer -------------------------------


def _norm(x: Tensor, gain: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain


class _Norm:
    """An RMSNorm with a gain for each channel, as the heads have it."""

    def __init__(self, *gain: float) -> None:
        self.gain = torch.tensor(gain, dtype=torch.float64)

    def __call__(self, x: Tensor) -> Tensor:
        return _norm(x, self.gain)


def _mix(embedding: Tensor, hidden: Tensor, enorm: Callable, hnorm: Callable, projection: Tensor) -> Tensor:
    return torch.cat([enorm(embedding), hnorm(hidden)], -1) @ projection.T


def _mix_case(seed: int, size: int = 2) -> tuple:
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(2 * size + 2 * size * size + 2 * size, generator=generator, dtype=torch.float64)
    numbers = (numbers * 4).round() / 4  # short in a message
    e, h, gains, rest = numbers[:size], numbers[size : 2 * size], numbers[2 * size : 4 * size], numbers[4 * size :]
    first, second = gains.abs().add(0.5).split(size)
    return e + 1, h * 3 - 1, _Norm(*first.tolist()), _Norm(*second.tolist()), rest.reshape(size, 2 * size)


def _both_one_norm(e: Tensor, h: Tensor, enorm: Callable, hnorm: Callable, projection: Tensor) -> Tensor:
    return torch.cat([enorm(e), enorm(h)], -1) @ projection.T


MIX = Exercise(
    "mix",
    _mix,
    [_mix_case(1), _mix_case(2), _mix_case(3)],
    read_row,
    [
        Mistake(
            "hidden first",
            lambda e, h, enorm, hnorm, w: torch.cat([hnorm(h), enorm(e)], -1) @ w.T,
            "You put the hidden state first. These weights want [e; h], the embedding first. The other order crashes "
            "nowhere; the drafts are just bad.",
        ),
        Mistake(
            "no norms",
            lambda e, h, enorm, hnorm, w: torch.cat([e, h], -1) @ w.T,
            "The norms are missing: embedding and hidden state differ in size, so each gets a norm of its own.",
        ),
        Mistake(
            "norm of the embedding only",
            lambda e, h, enorm, hnorm, w: torch.cat([enorm(e), h], -1) @ w.T,
            "The hidden state has a norm of its own, hnorm, though the target's final norm came before.",
        ),
        Mistake(
            "norm of the hidden state only",
            lambda e, h, enorm, hnorm, w: torch.cat([e, hnorm(h)], -1) @ w.T,
            "The embedding has a norm of its own, enorm.",
        ),
        Mistake(
            "one norm for both", _both_one_norm, "The two norms have weights of their own: hnorm is for the state."
        ),
        Mistake(
            "norms exchanged",
            lambda e, h, enorm, hnorm, w: torch.cat([hnorm(e), enorm(h)], -1) @ w.T,
            "The norms are exchanged: enorm is for the embedding, hnorm for the hidden state.",
        ),
        Mistake(
            "no projection",
            lambda e, h, enorm, hnorm, w: torch.cat([enorm(e), hnorm(h)], -1),
            "The concatenation is twice as wide as a hidden state: project it back with the matrix.",
        ),
        Mistake(
            "not transposed",
            lambda e, h, enorm, hnorm, w: torch.cat([enorm(e), hnorm(h)], -1) @ w,
            "If it is the product that fails: projection has the shape (size, 2·size), as a Linear stores its weights. "
            "Multiply the row of 2·size numbers by projection.T.",
        ),
        Mistake(
            "sum",
            lambda e, h, enorm, hnorm, w: enorm(e) + hnorm(h),
            "The two are put side by side, not added, and then projected: the head learns how to weigh them.",
        ),
    ],
    "Two norms, [e; h], one matrix: this is all that is mixed before the decoder layer.",
    describe=lambda case: f"mix(embedding={case[0].tolist()}, hidden={case[1].tolist()}, …)",
)


def check_mix(function: Callable[[Tensor, Tensor, Callable, Callable, Tensor], Any]) -> Result:
    """``mix(embedding, hidden, enorm, hnorm, projection)``: two rows, two norms, a (size, 2·size) matrix → a row."""
    return check(MIX, function)


# -- shifted_kl(teacher, student, shift) -> nats ---------------------------------------------------------------------


def _rows(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64).log()


def _kl(teacher: Tensor, student: Tensor) -> Tensor:
    return (teacher.exp() * (teacher - student)).sum(-1)


def _shifted_kl(teacher: Tensor, student: Tensor, shift: int) -> Tensor:
    return _kl(teacher[shift:], student).mean()


_TEACHER = _rows((0.5, 0.3, 0.2), (0.1, 0.8, 0.1), (0.2, 0.2, 0.6), (0.7, 0.2, 0.1), (0.3, 0.3, 0.4))
_STUDENT = _rows((0.4, 0.4, 0.2), (0.2, 0.7, 0.1), (0.3, 0.3, 0.4), (0.6, 0.2, 0.2), (0.2, 0.5, 0.3))


def _hard(teacher: Tensor, student: Tensor, shift: int) -> Tensor:
    best = teacher[shift:].argmax(-1, keepdim=True)
    return -student.gather(-1, best).mean()


KL = Exercise(
    "shifted_kl",
    _shifted_kl,
    [
        (_TEACHER, _STUDENT[:-1], 1),
        (_TEACHER, _STUDENT[:-2], 2),
        (_TEACHER[1:], _TEACHER[2:], 1),
        (_TEACHER, _STUDENT, 0),
    ],
    read_number,
    [
        Mistake(
            "no shift",
            lambda t, s, shift: _kl(t[: len(s)], s).mean(),
            "You compare row i of the student with row i of the teacher. There the teacher predicts a token that the "
            "head has been told already: compare with row i + shift.",
        ),
        Mistake(
            "the other direction",
            lambda t, s, shift: _kl(s, t[shift:]).mean(),
            "The divergence is the other way round: weigh the logarithms with the teacher's probabilities.",
        ),
        Mistake(
            "the wrong sign",
            lambda t, s, shift: -_kl(t[shift:], s).mean(),
            "The sign is wrong: a divergence is never below 0. Take teacher minus student, not student minus teacher.",
        ),
        Mistake(
            "absolute values",
            lambda t, s, shift: (t[shift:].exp() * (t[shift:] - s).abs()).sum(-1).mean(),
            "Leave out abs(): the terms of single tokens may be below 0. Only their sum is a divergence.",
        ),
        Mistake(
            "absolute differences of probabilities",
            lambda t, s, shift: (t[shift:].exp() - s.exp()).abs().sum(-1).mean(),
            "That is a distance between probabilities. The divergence takes teacher minus student in logarithms, "
            "weighed with the teacher's probabilities.",
        ),
        Mistake(
            "logarithm of logarithms",
            lambda t, s, shift: torch.nn.functional.kl_div(s, t[shift:], reduction="batchmean"),
            "nan comes from the logarithm of a negative number. The teacher's rows are logarithms already. If you use "
            "F.kl_div, tell it so: log_target=True.",
        ),
        Mistake(
            "sum over the rows",
            lambda t, s, shift: _kl(t[shift:], s).sum(),
            "Take the mean over the rows, not their sum: long texts would weigh more.",
        ),
        Mistake(
            "mean over the vocabulary",
            lambda t, s, shift: (t[shift:].exp() * (t[shift:] - s)).mean(),
            "Sum over the vocabulary, then take the mean over the rows.",
        ),
        Mistake(
            "cross-entropy",
            lambda t, s, shift: -(t[shift:].exp() * s).sum(-1).mean(),
            "That is the cross-entropy: it is not 0 where the student equals the teacher. Take away the teacher's own "
            "entropy.",
        ),
        Mistake(
            "the best token only",
            _hard,
            "You use the teacher's best token only. Its whole distribution is known, and it teaches faster.",
        ),
        Mistake(
            "logarithms as probabilities",
            lambda t, s, shift: (t[shift:] * (t[shift:] - s)).sum(-1).mean(),
            "teacher and student hold logarithms: take exp() of the teacher where a probability is wanted.",
        ),
    ],
    "0 only where the head says exactly what the target will say.",
    hints={2: "Here the student says exactly what the teacher says one row later, so the divergence is 0."},
    describe=lambda case: f"{len(case[0])} rows of the teacher, {len(case[1])} of the student, shift={case[2]}",
)


def check_shifted_kl(function: Callable[[Tensor, Tensor, int], Any]) -> Result:
    """``shifted_kl(teacher, student, shift)``: (L, V) and (L - shift, V) log-probabilities → mean divergence, nats."""
    return check(KL, function)
