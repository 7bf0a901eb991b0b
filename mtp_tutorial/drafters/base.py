"""What every drafter promises.

Takes: the prompts, then after each round the verdict.  Returns: drafts.
Must not know: verify rules, the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from ..models import Target
from ..records import Draft, Sampling, Verdict


class Drafter(Protocol):
    """Guesses the next tokens of each live sequence. The engine calls, in this order:

    ``start`` once after the prefill, ``commit`` with the first token (a verdict of one token, nothing accepted), then
    in each round ``propose`` and ``commit``; ``keep`` whenever sequences have left the batch. It uses nothing else, so
    a class with ``__slots__`` will do.
    """

    #: The target's hidden states it reads: -1 is after the final norm, i after layer i. Empty: none.
    needs_hidden: tuple[int, ...]
    #: The width of the distributions it drafts from; None, or left out, when it can only copy tokens it has seen.
    vocab_size: int | None

    def start(self, target: Target, prompts: Sequence[Sequence[int]], hidden: tuple[Tensor, ...]) -> None:
        """Begin a batch. hidden: for each layer of ``needs_hidden``, (B, L, size) over the padded prompts."""

    def propose(self, k: Tensor, sampling: Sampling, uniforms: Tensor) -> Draft:
        """Draft up to ``k`` (B,) tokens a sequence. uniforms: (B, k_max) float64, for drafters that sample."""

    def commit(self, verdict: Verdict, hidden: tuple[Tensor, ...]) -> None:
        """The round's outcome, with tensors on the CPU. ``verdict.tokens[:, i]`` is what followed ``hidden[:, i]``.

        The drafter rolls its own cache back to what was accepted.
        """

    def keep(self, rows: Sequence[int]) -> None:
        """Only these sequences, in this order, go on."""


METHODS = ("start", "propose", "commit", "keep")


def check_drafter(drafter: object) -> None:
    """Raise ValueError for what is no drafter, naming the methods that it lacks."""
    what = f"drafter={drafter!r:.60}"
    if isinstance(drafter, type):
        raise ValueError(
            f"{what} is a class: make an object of it, or use a name that load_drafter knows, or what it returned"
        )
    missing = [name for name in METHODS if not callable(getattr(drafter, name, None))]
    if not missing:
        return
    lacks = f"it lacks {', '.join(missing)}"
    if callable(drafter):
        lacks = f"it is a function; call it from the propose of a class ({lacks})"
    raise ValueError(
        f"{what} is no drafter: {lacks}. A drafter is an object with the methods {', '.join(METHODS)} "
        "(help(mt.drafters.Drafter) says what each is given); a name that load_drafter knows will do, and what it "
        "returned; None decodes plainly"
    )
