"""What the commands share: the app, its options, JSON as it is printed.

Takes: what a command found.  Returns: nothing; it prints.
Must not know: any command.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

app = typer.Typer(
    help="Learn, measure and debug speculative decoding and multi-token prediction.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def print_json(found: object) -> None:
    """Readable where the output takes every character, escaped where it does not."""
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    print(json.dumps(found, ensure_ascii=not unicode, indent=2))


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
