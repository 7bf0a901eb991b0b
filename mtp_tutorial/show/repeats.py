"""Finds what a text says again, for pictures: stretches of words that were said before, and a loop at the end.

Takes: a text.  Returns: its pieces, each new, said again, or part of the loop.
Must not know: matplotlib, tokenizers, models.

It reads words, not token ids, so that a recorded text can be marked without its model.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..lab import repetition

NEW, AGAIN, LOOPING = "new", "again", "loop"
#: A loop in characters: longer than a stutter, shorter than a third of any text of this course.
_PERIODS, _REPEATS = (4, 400), 3


@dataclass(frozen=True)
class RepeatLook:
    """How one kind is drawn: a background, and so many lines under the words."""

    color: str
    lines: int
    sentence: str


LOOKS = {
    NEW: RepeatLook("none", 0, "new"),
    AGAIN: RepeatLook("#F5C77E", 1, "said before"),
    LOOPING: RepeatLook("#F2A58E", 2, "a loop up to the end"),
}


def repeated_pieces(text: str, n: int = 4) -> list[tuple[str, str]]:
    """The text in pieces, (piece, kind): "new", "again" (part of n words that were said before), "loop".

    The loop at the end needs three rounds; from its second round on it is marked. The pieces join to the whole text.
    Raises ValueError unless n is 1 or more.

    >>> repeated_pieces("It rains. He reads. It rains.", 2)
    [('It rains. He reads. ', 'new'), ('It rains.', 'again')]
    """
    kinds = [NEW] * len(text)
    places = repetition.word_places(text)
    for (start, end), again in zip(places, repetition.repeated_places(repetition.words(text), n), strict=True):
        if again:
            kinds[start:end] = [AGAIN] * (end - start)
    for (_, end), (start, _) in zip(places, places[1:]):  # the space between two marked words belongs to them
        if kinds[end - 1] == kinds[start] == AGAIN:
            kinds[end:start] = [AGAIN] * (start - end)
    loop = repetition.tail_loop(text, *_PERIODS, _REPEATS)
    if loop is not None:
        kinds[loop.start + loop.period :] = [LOOPING] * (len(text) - loop.start - loop.period)
    return _grouped(text, kinds)


def share_repeated(pieces: list[tuple[str, str]]) -> float:
    """The share of a text's characters that are not new."""
    total = sum(len(piece) for piece, _ in pieces)
    return sum(len(piece) for piece, kind in pieces if kind != NEW) / total if total else 0.0


# -- Inside ---------------------------------------------------------------------------------------------------------


def _grouped(text: str, kinds: list[str]) -> list[tuple[str, str]]:
    pieces, start = [], 0
    for place in range(1, len(text) + 1):
        if place == len(text) or kinds[place] != kinds[start]:
            pieces.append((text[start:place], kinds[start]))
            start = place
    return pieces
