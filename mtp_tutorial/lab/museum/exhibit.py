"""What an exhibit of the museum is.

Takes: a broken twin of the right code, and what is known of it.  Returns: an ``Exhibit``, a ``Demonstration``.
Must not know: which exhibits there are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

from ...drafters import Drafter
from ...verify import Rule


@dataclass(frozen=True)
class Demonstration:
    """Numbers that anybody can get again: what the right code does and what the broken twin does.

    what: what the numbers are.  labels: one for each number.  right, wrong: the numbers, in the order of the labels.
    predicted: what the broken twin was expected to show; the prediction was made before the code was run.
    digits: how many decimals the prediction has.
    """

    what: str
    labels: tuple[str, ...]
    right: tuple[float, ...]
    wrong: tuple[float, ...]
    predicted: tuple[float, ...] | None = None
    digits: int = 3

    @property
    def as_predicted(self) -> bool | None:
        """Whether the broken twin shows what was expected, in all the digits given; None without a prediction."""
        if self.predicted is None:
            return None
        half = 0.5 * 10**-self.digits * (1 + 1e-9)
        return all(abs(a - b) <= half for a, b in zip(self.wrong, self.predicted, strict=True))

    def as_dict(self) -> dict:
        return {
            "what": self.what,
            "labels": list(self.labels),
            "right": list(self.right),
            "wrong": list(self.wrong),
            "predicted": None if self.predicted is None else list(self.predicted),
            "as_predicted": self.as_predicted,
        }


def own_loop(name: str) -> Callable[[Drafter | None], dict]:
    """The ``engine_bug`` of an exhibit that cannot be switched into ``generate``."""

    def refuse(drafter: Drafter | None) -> dict:
        raise ValueError(
            f"exhibit {name} replaces the loop itself and cannot be switched into generate: "
            f"call EXHIBITS[{name!r}].loop, or .demonstrate()"
        )

    return refuse


@dataclass(frozen=True, eq=False)
class Exhibit:
    """A real fault as runnable code beside what is right.

    name: what it is switched in by.  title: the fault in a few words.
    story: how such code comes about and what it does.  report: public reports of this fault.  fix: what is right.
    rule: a broken verify rule, with the signature of the right ones; pass it as ``rule`` to ``generate``, ``verify`` or
        ``lab.exact``.  Else None.
    engine_bug: a fault outside the rule: a function of the drafter (or None) that returns the keyword arguments of
        ``generate`` that switch it in, fresh ones at each call.  Else None.
    loop: a fault that replaces the loop itself, with a signature of its own; ``engine_bug`` then raises ValueError.
    demonstrate: runs it beside the right code.
    lossless: the emitted law stays the target's; what suffers is speed.
    by_design: not a slip but a rule that somebody chose, lossy as it is.
    needs_sampled: in the engine it shows only with a drafter that records probabilities (``temperature=``).
    code: the functions or classes to read.
    """

    name: str
    title: str
    story: str
    report: str
    fix: str
    demonstrate: Callable[[], Demonstration]
    rule: Rule | None = None
    engine_bug: Callable[[Drafter | None], dict] | None = None
    loop: Callable | None = None
    lossless: bool = False
    by_design: bool = False
    needs_sampled: bool = False
    code: tuple = field(default=())

    def options(self, drafter: Drafter | None = None) -> dict:
        """Keyword arguments of ``mt.generate`` that switch the fault in, the drafter among them.

        Raises ValueError for a fault that has its own loop.
        """
        if self.engine_bug is not None:
            return {"drafter": drafter, **self.engine_bug(drafter)}
        return {"drafter": drafter, "rule": self.rule}

    def source(self) -> str:
        """The broken code, to be read."""
        return "\n\n".join(inspect.getsource(part).rstrip() for part in self.code)

    def as_dict(self) -> dict:
        """Everything but the code, in plain values; the demonstration is run."""
        return {
            "name": self.name,
            "title": self.title,
            "story": self.story,
            "report": self.report,
            "fix": self.fix,
            "lossless": self.lossless,
            "by_design": self.by_design,
            "demonstration": self.demonstrate().as_dict(),
        }
