"""Text with every token coloured by how it came about: HTML for notebooks, rich text for the terminal.

Takes: a ``Generation``, or pieces of text with a kind for each.  Returns: a ``TokenView`` or ``rich.text.Text``.
Must not know: matplotlib, ipywidgets, models. The command line imports this module, so it stays light.

Colour is never the only sign: each kind has its own underline, and all but the commonest a letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from .colors import LOOKS, look
from .spans import spans

if TYPE_CHECKING:
    from rich.text import Text

    from ..records import Generation, Round

_LEGEND_ORDER = tuple(LOOKS)


@dataclass(frozen=True)
class Mark:
    """A stretch of text and how it came about. More than one kind when several tokens share a character."""

    text: str
    kinds: tuple[str, ...]
    title: str = ""
    round: int = 0

    @property
    def kind(self) -> str:
        """The kind that colours it: that of the token which completed it."""
        return self.kinds[-1]

    @property
    def letters(self) -> str:
        return "".join(dict.fromkeys(look(kind).letter for kind in self.kinds))


@dataclass(frozen=True)
class TokenView:
    """Coloured tokens. The last line of a cell shows them; ``str()`` gives them with letters in plain text."""

    marks: tuple[Mark, ...]
    legend: bool = True
    rounds: bool = False  # draw a thin bar between rounds

    def _repr_html_(self) -> str:
        parts = []
        for i, mark in enumerate(self.marks):
            if self.rounds and i and mark.round != self.marks[i - 1].round:
                parts.append('<span style="opacity:.45;user-select:none"> ¦ </span>')
            parts.append(_html(mark))
        style = "font-size:15px;line-height:2.1;white-space:pre-wrap;overflow-wrap:anywhere"
        text = f'<div class="mtp-tokens" style="{style}">{"".join(parts)}</div>'
        return text + (self._legend() if self.legend else "")

    def _legend(self) -> str:
        present = {kind for mark in self.marks for kind in mark.kinds}
        items = []
        for kind in _LEGEND_ORDER:
            if kind in present:
                items.append(f"<span>{_html(Mark(kind, (kind,)))} {escape(look(kind).sentence)}</span>")
        style = "font-size:13px;line-height:2.1;display:flex;flex-wrap:wrap;gap:0 1.6em"
        return f'<div class="mtp-legend" style="{style}">{" ".join(items)}</div>'

    def __str__(self) -> str:
        out = []
        for mark in self.marks:
            out.append(mark.text + (f"[{mark.letters}]" if mark.letters else ""))
        return "".join(out)

    def __repr__(self) -> str:
        tokens = sum(len(mark.kinds) for mark in self.marks)
        counts = {kind: sum(mark.kinds.count(kind) for mark in self.marks) for kind in _LEGEND_ORDER}
        return f"<{tokens} tokens: {', '.join(f'{n} {kind}' for kind, n in counts.items() if n)}>"


def _html(mark: Mark) -> str:
    """One mark as HTML. Inline styles, as some pages drop style sheets; ``<u>``, ``<s>`` and letters survive there."""
    style = look(mark.kind)
    line = "line-through" if style.underline == "line-through" else "underline"
    css = f"background:{style.color}33;border-radius:3px;padding:1px 0;margin:0 1px"
    if style.underline != "none":
        drawn = "" if line == "line-through" else f" {style.underline}"
        color = "" if line == "line-through" else f" {style.color}"  # the text's own, on a dark page, too
        css += f";text-decoration:{line}{drawn}{color};text-underline-offset:4px"
    text = escape(mark.text, quote=True).replace("\r", "").replace("\t", "→\t")
    text = text.replace("\n", '<span style="opacity:.5">↵</span><br>')
    text, end = (text[:-4], "<br>") if text.endswith("<br>") else (text, "")  # the letter belongs before the break
    tag = {"accepted": "u", "rejected": "s"}.get(mark.kind, "span")
    title = f' title="{escape(mark.title, quote=True)}"' if mark.title else ""
    letters = ""
    if mark.letters:
        small = "font-weight:bold;user-select:none;text-decoration:none"  # in the page's own ink, dark or light
        letters = f'<sup style="{small}">{escape(mark.letters)}</sup>'
    return f'<{tag} class="mtp-{"-".join(dict.fromkeys(mark.kinds))}" style="{css}"{title}>{text}</{tag}>{letters}{end}'


def show_pieces(
    pieces: Sequence[str], kinds: Sequence[str], titles: Sequence[str] | None = None, legend: bool = True
) -> TokenView:
    """Tokens written by hand: a piece of text and a kind (a key of ``LOOKS``) for each.

    Raises ValueError when the lengths differ or a kind is unknown.

    >>> print(show_pieces(["去", "上海"], ["accepted", "recovered"]))
    去上海[R]
    """
    titles = [""] * len(pieces) if titles is None else titles
    if not len(pieces) == len(kinds) == len(titles):
        raise ValueError(
            f"{len(pieces)} pieces, {len(kinds)} kinds and {len(titles)} titles: give one of each for every token"
        )
    for kind in kinds:
        look(kind)
    return TokenView(tuple(Mark(*one) for one in zip(pieces, ((k,) for k in kinds), titles, strict=True)), legend)


def show_tokens(generation: Generation, details: bool = True, legend: bool = True, rounds: bool = False) -> TokenView:
    """The text of a generation, coloured. Hovering over a token tells its round and numbers.

    details: put p(d), q(d) and the coin into the hover text; leave them out where the output is compared byte by byte.
    rounds: draw a thin bar between rounds.
    """
    return TokenView(tuple(_marks(generation, details)), legend, rounds)


def _marks(generation: Generation, details: bool) -> list[Mark]:
    titles, numbers = [], []
    for one in generation.rounds:
        for place in range(len(one.tokens)):
            titles.append(_title(one, place, details))
            numbers.append(one.index)
    kinds, pieces = generation.kinds, pieces_of(generation)
    whole = generation.text if generation.pieces else None
    return [
        Mark(s.text, tuple(kinds[s.start : s.end]), "\n".join(titles[s.start : s.end]), numbers[s.end - 1])
        for s in spans(pieces[: len(kinds)], whole)
    ]


def _title(one: Round, place: int, details: bool) -> str:
    """The hover text of the token at ``place`` of a round."""
    kind = one.kinds[place]
    words = f"{kind}, round {one.index}" + (f", draft position {place + 1}" if kind == "accepted" else "")
    if not details or place >= one.num_drafted:
        return words
    numbers = []
    if place < len(one.target_probs):
        numbers.append(f"p(d) = {one.target_probs[place]:.3f}")
    if place < len(one.draft_probs):
        numbers.append(f"q(d) = {one.draft_probs[place]:.3f}")
    if place < len(one.coins):
        numbers.append(f"coin = {one.coins[place]:.3f}")
    if not numbers:
        return words
    return (
        f"{words}: {', '.join(numbers)}"
        if kind == "accepted"
        else f"{words}; the rejected draft had {', '.join(numbers)}"
    )


def pieces_of(generation: Generation) -> list[str]:
    """The text of each emitted token; its id in brackets where the generation does not carry pieces."""
    if generation.pieces:
        return list(generation.pieces)
    return [f"[{token}]" for token in generation.tokens]


# -- The terminal ---------------------------------------------------------------------------------------------------


def rich_piece(text: str, kind: str, letters: bool = False) -> Text:
    """One token for the terminal. ``letters``: add the kind's letter in brackets, for output without styles."""
    from rich.text import Text

    style = look(kind)
    piece = Text(text, style=style.terminal)
    if letters and style.letter:
        piece.append(f"[{style.letter}]", style="dim")
    return piece


def rich_tokens(generation: Generation, letters: bool = False) -> Text:
    """The text of a generation for the terminal, each token styled by its kind."""
    from rich.text import Text

    out = Text()
    for mark in _marks(generation, details=False):
        out.append_text(rich_piece(mark.text, mark.kind, letters))
    return out


def rich_legend(
    kinds: Sequence[str] = ("accepted", "recovered", "bonus", "prefill", "plain"), letters: bool = False
) -> Text:
    """The kinds, each in its own style, on one line."""
    from rich.text import Text

    return Text("  ").join(rich_piece(kind, kind, letters) for kind in kinds)
