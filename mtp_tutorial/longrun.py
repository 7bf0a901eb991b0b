"""What long runs share: a progress bar that is silent under CI, and rows on disk that a second run goes on from.

Takes: an iterable, or a path and rows.  Returns: the same things with a bar, or the rows.
Must not know: what runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

#: How ``sampling.generator`` derives the random stream of a sequence. Files whose texts depend on seeds record it under
#: ``seed_scheme``; files from before there was that field used the earlier one, with the seed s + i for sequence i.
SEED_SCHEME = "SeedSequence(seed, spawn_key=(sequence, role))"
EARLIER_SEED_SCHEME = "SeedSequence([seed + sequence, role])"


def bar(things: Iterable, desc: str, progress: bool = True, **options):
    """``things`` with tqdm's bar; no bar without ``progress``, under CI, or where nobody watches a terminal."""
    from tqdm.auto import tqdm

    silent = not progress or bool(os.environ.get("CI"))
    return tqdm(things, desc=desc, disable=silent or None, **options)


def read_rows(path: Path) -> list[dict]:
    """The rows of a JSON Lines file; none when it is not there yet."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def seed_scheme(record: Mapping) -> str:
    """The scheme by which the texts of a file were drawn, from its header, its manifest or one of its rows."""
    return record.get("seed_scheme", EARLIER_SEED_SCHEME)


def check_seed_scheme(path: Path, rows: Sequence[dict]) -> None:
    """Raise ValueError when rows that are there already were drawn with another seed scheme than this version's."""
    for scheme in {seed_scheme(row) for row in rows} - {SEED_SCHEME}:
        raise ValueError(
            f"{path} was drawn with the seed scheme {scheme}, this version draws with {SEED_SCHEME}: give another file"
        )


def append_rows(path: Path, rows: Iterable[dict]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
