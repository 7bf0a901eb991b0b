"""The ``mtp-tutorial`` command.

Takes: the command line.  Returns: text for people, or JSON for programs.
Must not know: how anything is done; it asks the library and shows the answer.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..doctor import torch_problem
from . import bench, costs, decoding, lab, machine, serving, training  # noqa: F401  (each adds its commands to the app)
from .app import app, readable

__all__ = ["app", "main"]


def main() -> None:
    """Run the command. Bad input ends with one clear line and exit code 2, not with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character shows "?" in its place
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        print(readable(f"error: {_told(error)}"), file=sys.stderr)
        raise SystemExit(2) from error


def _told(error: Exception) -> str:
    """The error's own message, or what cures it when torch or another package cannot be imported."""
    broken = torch_problem() if isinstance(error, (OSError, ImportError)) else None
    if broken is not None:
        return f"torch {broken.found}: {broken.remedy}. `mtp-tutorial doctor` looks at the rest"
    return f"{error}: `mtp-tutorial doctor` tells what is missing" if isinstance(error, ImportError) else str(error)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        from .. import __version__

        print(__version__)
        raise typer.Exit
