"""The file of an experiment: begun, or gone on with when it belongs to the same run.

Takes: a path, a header.  Returns: the rows that are there.
Must not know: arms, measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...longrun import append_rows, go_on, seed_scheme

TRACES = Path(__file__).resolve().parents[3] / "data" / "traces"


def recorded(target_name: str) -> Path:
    """Where the repository keeps the whole run of ``repetition_case`` on one of its own targets."""
    return TRACES / f"repetition-{target_name}.jsonl.gz"


def claim(path: str | Path, header: dict) -> list[dict]:
    """The rows of a file that is to grow, which must have the same header; none when it is not there yet.

    Nothing is created: a run that fails before its first rows leaves nothing behind.
    Raises ValueError when the file belongs to another run, or to none: nothing in it is touched then.
    """
    path = Path(path)
    if path.suffix != ".jsonl":
        raise ValueError(f"{path}: rows are appended to a file that ends in .jsonl; pack it when it is whole")
    theirs, rows = go_on(path, header["experiment"])
    if theirs:
        _compare(path, theirs, header)
    return rows


def add(path: str | Path, header: dict, rows: Sequence[dict]) -> None:
    """Append rows to a claimed file; the first ones come with the header, whole or not at all."""
    path = Path(path)
    if path.exists() and path.stat().st_size:
        append_rows(path, rows)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text("")
    append_rows(temporary, [header, *rows])
    temporary.replace(path)


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
