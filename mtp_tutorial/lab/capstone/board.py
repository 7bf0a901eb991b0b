"""The leaderboard: everybody who played, best first, and what the gate says of each.

Takes: a target, entries.  Returns: standings, rows of a table, seconds of this machine.
Must not know: how scores come about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...decode import generate
from ...longrun import bar
from ...models import Target
from ..experiment.prompts import prompts_for
from .entries import SHIPPED
from .referee import Ruling, examine
from .task import SAMPLING, SEED, TOKENS, Entry, Score, play


@dataclass(frozen=True)
class Standing:
    """A score, and the gate's ruling where the entry was examined (the shipped ones have passed the tests)."""

    score: Score
    ruling: Ruling | None = None

    @property
    def accepted(self) -> bool:
        return self.ruling is None or self.ruling.accepted


def leaderboard(
    target: Target,
    entries: Iterable[Entry] = SHIPPED,
    guests: Iterable[Entry] = (),
    played: Iterable[Score] = (),
    progress: bool = False,
) -> list[Standing]:
    """Everybody plays; the guests pass the gate as well. Best first, the refused at the end.

    entries: the shipped ones by default.  guests: the reader's.  played: scores of entries that need not play again.
    """
    there = {score.entry.name: score for score in played}
    waiting = bar(list(entries), "capstone", progress)
    standings = [Standing(there.get(one.name) or play(target, one)) for one in waiting]
    for one in guests:
        score = play(target, one)
        standings.append(Standing(score, examine(target, one, score)))
    return ranked(standings)


def ranked(standings: Iterable[Standing]) -> list[Standing]:
    """Best first, the refused at the end."""
    return sorted(standings, key=lambda one: (not one.accepted, -float(one.score)))


def table(standings: Sequence[Standing]) -> list[dict]:
    """A row each, as ``Score.row`` makes them, with ``place`` (None for the refused) and ``gate``."""
    rows = []
    for place, one in enumerate(ranked(standings), 1):
        gate = "shipped" if one.ruling is None else "passed" if one.accepted else f"refused: {one.ruling.exhibit}"
        rows.append({"place": place if one.accepted else None, **one.score.row(), "gate": gate})
    return rows


def wall_clock(target: Target, entries: Iterable[Entry], texts: int = 4, turns: int = 2) -> dict[str, float]:
    """Name → tokens a second on this machine now, the best of ``turns``. For interest: nothing is ranked by it."""
    prompts = prompts_for(target.name, texts)
    found: dict[str, float] = {}
    for entry in list(entries) * turns:
        options = entry.options(target)
        made = [
            generate(target, one["prompt"], **options, sampling=SAMPLING, max_new_tokens=TOKENS, seed=(SEED, i))
            for i, one in enumerate(prompts)
        ]
        speed = sum(len(one.tokens) for one in made) / sum(one.seconds for one in made)
        found[entry.name] = max(found.get(entry.name, 0.0), speed)
    return found
