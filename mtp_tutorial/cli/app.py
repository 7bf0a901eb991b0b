"""What the commands share: the app, its options, JSON as it is printed.

Takes: what a command found.  Returns: nothing; it prints.
Must not know: any command.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    help="Learn, measure and debug speculative decoding and multi-token prediction.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def readable(text: str) -> str:
    """Control characters made visible: a name from outside must not steer the terminal. Line breaks and tabs stay."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text)


def terminal(**options) -> Console:
    """The console of every command. Strings are shown as they are: names of models, folders, labels and kinds come from
    outside, and square brackets in them are no markup. What is to be bold is given as a ``Text`` or by ``style=``. A
    word too long for its column in a table is folded, where rich would cut it off."""
    from rich.console import Console
    from rich.table import Table

    class Terminal(Console):
        def render_str(self, text: str, **options):
            return super().render_str(readable(text), **options)

        def print(self, *objects, **options) -> None:
            for table in (one for one in objects if isinstance(one, Table)):
                for column in table.columns:
                    column.overflow = "fold"
            super().print(*objects, **options)

    return Terminal(markup=False, emoji=False, highlight=False, **options)


def print_json(found: object) -> None:
    """Readable where the output takes every character, escaped where it does not."""
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    print(json.dumps(found, ensure_ascii=not unicode, indent=2))


def print_markdown(text: str) -> None:
    """Markdown for the terminal; in its tables a long word is folded where rich would cut it off."""
    from rich.console import ConsoleOptions, RenderResult
    from rich.markdown import Markdown, TableElement

    class Folded(TableElement):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for table in super().__rich_console__(console, options):
                table.box, table.padding = None, (0, 1, 1, 0)  # room for words in place of lines
                for column in table.columns:
                    column.overflow = "fold"
                if table.columns:
                    table.columns[0].no_wrap = True  # the names of the rows
                yield table

    markdown = Markdown(text)
    markdown.elements = {**markdown.elements, "table_open": Folded}
    terminal().print(markdown)


def check_file(option: str, path: Path | None, suffix: str) -> None:
    """Raise ValueError, before any work, for a file that could not be written after it."""
    if path is None:
        return
    if path.suffix != suffix:
        raise ValueError(f"{option} {path}: use a name that ends in {suffix}")
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if there == path and path.is_dir() or there != path and not there.is_dir() or not os.access(there, os.W_OK):
        raise ValueError(f"{option} {path}: this file cannot be written; give another name")


def pairs(items: list[str], option: str = "--rule-param") -> dict[str, float]:
    """["delta=0.2"] → {"delta": 0.2}."""
    found = {}
    for item in items:
        name, _, value = item.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise ValueError(f"{option} {item!r}: write name=value with a number, such as delta=0.2") from None
    return found
