"""The rows on disk: a first line that says what was run, then a line for each text.

Takes: a path, a header, rows.  Returns: the rows that are there.
Must not know: arms, measures.

Whole batches are appended. What was cut off in the middle of a line is dropped, and done again.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from ...longrun import append_rows, seed_scheme

TRACES = Path(__file__).resolve().parents[3] / "data" / "traces"


def recorded(target_name: str) -> Path:
    """Where the repository keeps the whole run of ``repetition_case`` on one of its own targets."""
    return TRACES / f"repetition-{target_name}.jsonl.gz"


def read(path: str | Path) -> tuple[dict, list[dict]]:
    """The header and the rows of a ``.jsonl`` or ``.jsonl.gz`` file; a line cut off at the end is left out.

    Raises ValueError for a file that no experiment wrote, OSError where there is none.
    """
    path = Path(path)
    if path.suffix == ".gz":
        try:
            text = gzip.decompress(path.read_bytes())
        except (EOFError, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is damaged ({error}): bring it here again") from error
    else:
        text = path.read_bytes()
    found = []
    for number, line in enumerate(text.split(b"\n")[:-1], 1):  # behind the last line break there is nothing, or a half
        try:
            found.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number} is no JSON: the file is damaged, bring it here again") from error
    if not found or not isinstance(found[0], dict) or "experiment" not in found[0]:
        raise ValueError(f"{path} was not written by an experiment: its first line is no header")
    return found[0], found[1:]


def claim(path: str | Path, header: dict) -> list[dict]:
    """Begin a file, or go on with one of the same header; return the rows that are there.

    Raises ValueError when the file belongs to another run, or to none: nothing in it is touched then.
    """
    path = Path(path)
    if path.suffix != ".jsonl":
        raise ValueError(f"{path}: rows are appended to a file that ends in .jsonl; pack it when it is whole")
    if path.exists() and path.stat().st_size:
        theirs, rows = read(path)
        _compare(path, theirs, header)
        text = path.read_bytes()
        if not text.endswith(b"\n"):
            with path.open("r+b") as file:
                file.truncate(text.rfind(b"\n") + 1)
        return rows
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text("")
    append_rows(temporary, [header])
    temporary.replace(path)
    return []


def _compare(path: Path, theirs: dict, mine: dict) -> None:
    """The same run? Drafters may be fewer now, as arms may be added one after the other."""
    for key, value in mine.items():
        there = seed_scheme(theirs) if key == "seed_scheme" else theirs.get(key)
        if key == "drafters" and isinstance(there, dict):
            same = all(there.get(name) == weights for name, weights in value.items())
        else:
            same = there == value
        if not same:
            raise ValueError(
                f"{path} holds another run: its {key} is {there!r}, this run's {value!r}. Give another file; nothing "
                "was changed"
            )
