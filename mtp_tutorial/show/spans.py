"""Puts the pieces of a text back together where a token split a character.

Takes: the text of each token alone, and the whole text.  Returns: spans of tokens with the text they make together.
Must not know: tokenizers, colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SPLIT = "\ufffd"  # what a decoder writes for bytes that are no whole character


class Span(NamedTuple):
    """Tokens ``start`` … ``end - 1``, which together read ``text``."""

    start: int
    end: int
    text: str


def spans(pieces: Sequence[str], text: str | None = None) -> list[Span]:
    """One span a token, but neighbours that hold parts of one character share a span.

    A piece without text holds the start of a character that the next piece completes; a piece with "\ufffd" holds
    some part of one.
    text: the decoded whole, where split characters are read from. Without it they show as "\ufffd".

    >>> [s.text for s in spans(["I ", "", "看", "!"])]
    ['I ', '看', '!']
    """
    result: list[Span] = []
    position = 0  # how much of the text is placed
    i = 0
    while i < len(pieces):
        end = i
        while end < len(pieces) and (not pieces[end] or SPLIT in pieces[end]):
            end += 1
        if any(SPLIT in piece for piece in pieces[i:end]):
            following = next((p for p in pieces[end:] if p), "")
            said, position = _repair(pieces[i:end], text, position, following)
        else:
            end = min(end + 1, len(pieces))  # with the whole piece that completes the run; alone if the run is empty
            said, position = _place(pieces[end - 1], text, position)
        result.append(Span(i, end, said))
        i = end
    return result


def _place(piece: str, text: str | None, position: int) -> tuple[str, int]:
    """The piece as the text has it at ``position``: some tokenizers drop the leading space of a word alone."""
    if text is None or not piece:
        return piece, position
    if text.startswith(piece, position):
        return piece, position + len(piece)
    if text.startswith(" " + piece, position):
        return " " + piece, position + len(piece) + 1
    return piece, position  # a special token, which the text leaves out


def _repair(pieces: Sequence[str], text: str | None, position: int, following: str) -> tuple[str, int]:
    """The text of a run of split pieces: all of ``text`` up to where the next whole piece begins."""
    if text is not None and position < len(text):
        end = text.find(following, position + 1) if following else len(text)
        if end < 0:  # the next piece is not in the text (a special token)
            end = len(text)
        return text[position:end], end
    return SPLIT if all(set(p) == {SPLIT} for p in pieces) else "".join(pieces), position
