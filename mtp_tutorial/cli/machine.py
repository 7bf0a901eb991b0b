"""``fetch`` and ``doctor``: what this machine has, and what it lacks.

Takes: options.  Returns: text or JSON.
Must not know: where models come from.
"""

from __future__ import annotations

from typing import Annotated

import typer

from .app import Json, app, print_json, terminal


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="smollm2")] = "smollm2",
) -> None:
    """Bring a model into the cache, so that a workshop can go on without a network."""
    from ..models import smollm2

    if name != "smollm2":
        raise ValueError(f"{name!r} cannot be fetched; known: smollm2. Toys are built in")
    there = smollm2.is_cached()
    folder = smollm2.fetch()
    print(f"smollm2 {'was already' if there else 'is now'} in {folder}")


@app.command()
def doctor(as_json: Json = False) -> None:
    """Report Python, packages, device, memory and cached models, and what to do about each problem."""
    from rich.table import Table
    from rich.text import Text

    from ..doctor import PROBLEM, examine

    findings = examine()
    if as_json:
        print_json([one.as_dict() for one in findings])
    else:
        table = Table("what", "found", "status", "what to do", box=None, pad_edge=False)
        styles = {"ok": "green", "note": "yellow", "problem": "bold red"}
        for one in findings:
            table.add_row(one.what, one.found, Text(one.status, styles[one.status]), one.remedy)
        terminal().print(table)
    if any(one.status == PROBLEM for one in findings):
        raise typer.Exit(1)
