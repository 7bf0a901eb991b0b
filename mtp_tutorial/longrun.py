"""What long runs share: a progress bar that is silent under CI, and rows on disk that a second run goes on from.

Takes: an iterable, or a path and rows.  Returns: the same things with a bar, or the rows.
Must not know: what runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path


def bar(things: Iterable, desc: str, progress: bool = True, **options):
    """``things`` with tqdm's bar; no bar without ``progress``, under CI, or where nobody watches a terminal."""
    from tqdm.auto import tqdm

    silent = not progress or bool(os.environ.get("CI"))
    return tqdm(things, desc=desc, disable=silent or None, **options)


def read_rows(path: Path) -> list[dict]:
    """The rows of a JSON Lines file; none when it is not there yet."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def append_rows(path: Path, rows: Iterable[dict]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
