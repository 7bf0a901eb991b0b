"""A table of words and numbers, readable where there is no kernel.

Takes: rows as dicts.  Returns: a ``Table``, which shows itself as HTML at the end of a cell.
Must not know: what the rows say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Table:
    """head: the columns' names.  rows: as many cells each, plain text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        return f"<Table of {len(self.rows)} rows: {', '.join(name for name in self.head if name)}>"

    def _repr_html_(self) -> str:
        head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in self.head)
        lines = [
            "<tr>" + "".join(f'<td style="text-align:left">{_cell(cell)}</td>' for cell in row) + "</tr>"
            for row in self.rows
        ]
        return "\n".join(["<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *lines, "</tbody>", "</table>"])


def show_table(rows: Sequence[Mapping], columns: Mapping[str, str]) -> Table:
    """The rows with these columns: key → name in the head. ``**words**`` at the beginning of a cell are bold.

    Lists are joined by commas. Raises ValueError for a row without one of the columns.
    """
    for row in rows:
        missing = [key for key in columns if key not in row]
        if missing:
            raise ValueError(f"a row has no {missing[0]!r}; it has: {', '.join(map(str, row))}")
    cells = tuple(tuple(_text(row[key]) for key in columns) for row in rows)
    return Table(tuple(columns.values()), cells)


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _cell(text: str) -> str:
    start, mark, rest = text.removeprefix("**").partition("**")
    if text.startswith("**") and mark:
        return f"<b>{escape(start)}</b>{escape(rest)}"
    return escape(text)
