"""Instruments that decide whether decoding is what it claims to be, and which exhibit of the museum each one catches.

Takes: a rule, or a way to call ``generate``.  Returns: a ``Finding``: what was measured, what would be allowed.
Must not know: what is wrong with an exhibit.

The tests of this project use the same instruments on the right code. ``mutations`` turns them on every exhibit: an
instrument that catches nothing is no instrument, and an exhibit that none catches would be a hole in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from ...longrun import bar
from ...verify import RULES, Rule
from ..exact import LARGEST
from ..museum import EXHIBITS, Exhibit
from . import measures
from .measures import Subject

__all__ = ["INSTRUMENTS", "Finding", "Subject", "examine", "mutations", "right", "subject"]


@dataclass(frozen=True)
class Finding:
    """figure: what was measured.  limit: what is allowed; anything above is a fault."""

    instrument: str
    figure: float
    limit: float

    @property
    def caught(self) -> bool:
        return not self.figure <= self.limit  # NaN is a fault, too


def right(rule: str | Rule = "rejection") -> Subject:
    """The right code with one of the lossless rules."""
    found = RULES[rule] if isinstance(rule, str) else rule
    return Subject(found, lambda drafter: {"drafter": drafter, "rule": found})


def subject(exhibit: Exhibit) -> Subject:
    """An exhibit as the instruments see it."""
    shown = exhibit.demonstrate() if exhibit.loop is not None else None
    numbers = None if shown is None else (shown.right, shown.wrong)
    return Subject(exhibit.rule or RULES["rejection"], exhibit.options, numbers)


#: name → (instrument, what is allowed). 1 - p above .999999: a sample in a million looks like this by chance.
INSTRUMENTS: dict[str, tuple[Callable[[Subject], float], float]] = {
    "law by enumeration": (measures.law_by_enumeration, LARGEST),
    "samples against the law": (measures.samples_against_law, 1 - 1e-6),
    "rows against recomputed": (measures.rows_against_recomputed, 1e-9),
    "greedy against plain": (measures.greedy_against_plain, 0.0),
    "cache against a prefill": (measures.cache_against_prefill, 1e-9),
    "drafts against scratch": (measures.drafts_against_scratch, 0.0),
    "tokens after the end": (measures.tokens_after_the_end, 0.0),
    "NaN passed over": (measures.nan_is_passed_over, 0.0),
    "uniforms used twice": (measures.uniforms_used_twice, 0.0),
}


def examine(what: Subject, instruments: Iterable[str] | None = None) -> list[Finding]:
    """Turn the instruments on one subject."""
    found = []
    for name in INSTRUMENTS if instruments is None else instruments:
        measure, limit = INSTRUMENTS[name]
        if what.numbers is not None and measure is not measures.law_by_enumeration:
            continue  # a loop of its own cannot be run by the engine
        found.append(Finding(name, measure(what), limit))
    return found


def mutations(progress: bool = True) -> list[dict]:
    """A row for each exhibit and instrument: exhibit, instrument, figure, limit, caught; "none" is the right code."""
    subjects = {"none": right(), **{name: subject(exhibit) for name, exhibit in EXHIBITS.items()}}
    return [
        {"exhibit": name, **asdict(finding), "caught": finding.caught}
        for name, what in bar(subjects.items(), "exhibits", progress)
        for finding in examine(what)
    ]
