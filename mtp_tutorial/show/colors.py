"""One look for every picture: a colour, a hatch, a letter and an underline for each kind of token.

Takes: the name of a kind.  Returns: its ``Look``. Plain data, so that the terminal can use it too.
Must not know: matplotlib, ipywidgets, models.

The colours are those of Okabe and Ito, with greys light or dark enough to stay apart from them for colour-blind
readers (tests/test_show_colors.py simulates their sight). Colour is never the only sign: in pictures each kind has its
own hatch and marker, in text its own underline and letter.
"""

from __future__ import annotations

from dataclasses import dataclass

INK = "#222222"  # text and axes
PALE = "#F2F2F2"  # empty slots
GRID = "#D9D9D9"


@dataclass(frozen=True)
class Look:
    """How one kind is drawn.

    color: for bars and underlines.  hatch, marker: matplotlib's codes.
    letter: shown beside a token; empty when the kind needs none.
    underline: a CSS ``text-decoration`` style.  terminal: a style of the rich library.
    sentence: what the kind means, for legends.
    """

    color: str
    hatch: str
    marker: str
    letter: str
    underline: str
    terminal: str
    sentence: str


LOOKS: dict[str, Look] = {
    "prompt": Look("#BBBBBB", "", ".", "", "none", "default", "the text so far"),
    "target": Look("#0072B2", "", "o", "p", "none", "blue", "the target's probability p"),
    "draft": Look("#E69F00", "//", "s", "D", "dashed", "yellow italic", "guessed by the drafter, not yet verified"),
    "accepted": Look("#009E73", "", "^", "", "solid", "green underline", "a draft token the target kept"),
    "recovered": Look("#D55E00", "\\\\", "v", "R", "wavy", "bold red", "drawn in place of a rejected draft token"),
    "bonus": Look("#CC79A7", "..", "*", "B", "double", "magenta underline2", "drawn after a round without rejection"),
    "prefill": Look("#56B4E9", "--", "P", "P", "dotted", "cyan italic", "the first token, from the prompt's own call"),
    "plain": Look("#EEEEEE", "||", ".", "", "none", "default", "from a round that drafted nothing"),
    "rejected": Look("#4D4D4D", "xx", "x", "X", "line-through", "dim strike", "a draft token the target threw out"),
}  # fmt: skip

#: (colour, hatch) for the tokens of a small vocabulary, told apart by both.
TOKENS: tuple[tuple[str, str], ...] = (
    ("#9ECAE9", ""),
    ("#F5C77E", "//"),
    ("#8FD3BC", ".."),
    ("#E3B3CE", "\\\\"),
    ("#F3E88A", "--"),
    ("#C9C9C9", "xx"),
    ("#F0A37A", "++"),
    ("#B7B5E4", "||"),
)

#: (colour, marker, line style) of curves side by side: never told apart by the colour alone.
LINES = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", ":"),
    ("#E69F00", "v", "-"),
    ("#56B4E9", "P", "--"),
    ("#222222", "X", "-."),
    ("#777777", "*", ":"),
)


def look(kind: str) -> Look:
    """The look of a kind. Raises ValueError listing the known kinds."""
    if kind not in LOOKS:
        raise ValueError(f"unknown kind {kind!r}; known: {', '.join(LOOKS)}")
    return LOOKS[kind]


def token_look(index: int) -> tuple[str, str]:
    """(colour, hatch) of the token with that place in a small vocabulary; they come round again after eight."""
    return TOKENS[index % len(TOKENS)]
