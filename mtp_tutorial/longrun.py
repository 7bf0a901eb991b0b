"""What long runs share: a progress bar that is silent under CI, and rows on disk that a second run goes on from.

Takes: an iterable, or a path and rows.  Returns: the same things with a bar, or the rows.
Must not know: what runs; only which kinds of files there are, and which command shows each.

A file has a first line that says what was run (the header), then a line for each row; the two oldest kinds have rows
only. Whole batches are appended. What was cut off in the middle of the last line is dropped, and done again.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Kind:
    """what: such a file in words.  command: what shows it.  columns: what each of its rows has at least."""

    what: str
    command: str
    columns: frozenset[str]
    has_header: bool = True


def _kind(what: str, command: str, columns: str, has_header: bool = True) -> Kind:
    return Kind(what, command + " --show", frozenset(columns.split()), has_header)


#: "experiment" of the header → the kind of file
KINDS = {
    "arms x prompts x seeds": _kind(
        "repetition experiment", "mtp-tutorial experiment", "arm prompt seed temperature rounds text ids"
    ),
    "bench": _kind("bench", "mtp-tutorial bench", "part batch temperature repeat group kind arm tokens seconds"),
    "costs": _kind("record of costs", "mtp-tutorial costs", "temperature batch k drafting verifying elsewhere"),
    "acceptance": _kind(
        "table of acceptance rates", "python -m mtp_tutorial.training.acceptance",
        "drafter drafting temperature k kind rounds tokens drafted accepted", has_header=False,
    ),
    "losslessness": _kind(
        "table of p-values", "python -m mtp_tutorial.lab.losslessness",
        "drafter drafts rule lossless samples p_value", has_header=False,
    ),
}  # fmt: skip


def read(path: str | Path, kind: str | None = None) -> tuple[dict, list[dict]]:
    """The header and the rows of a ``.jsonl``, ``.jsonl.gz`` or ``.json`` file; without a header, {} in its place.

    kind: the only one that will do; None takes any.
    Raises ValueError, which names file and line, for a damaged file, and for one of another kind, which names the
    command that shows it; OSError where there is no file.
    """
    lines = _lines(Path(path))
    found = _kind_of(lines[0]) if lines else None
    if found is None or kind not in (None, found):
        wanted = "rows of a run" if kind is None else KINDS[kind].what
        if found is None:
            raise ValueError(f"{path} holds no {wanted}: its first line is no header that a run of this package wrote")
        raise ValueError(f"{path} holds no {wanted}, but a {KINDS[found].what}: `{KINDS[found].command}` shows it")
    header, rows = (lines[0], lines[1:]) if KINDS[found].has_header else ({}, lines)
    if "rows" in header:  # one document
        rows = header["rows"]
    for number, row in enumerate(rows, 1 + KINDS[found].has_header):
        missing = KINDS[found].columns - row.keys() if isinstance(row, dict) else {"everything"}
        if missing:
            raise ValueError(
                f"{path}, row {number} is none of a {KINDS[found].what}: {', '.join(sorted(missing))} is missing"
            )
    return header, rows


def read_rows(path: str | Path, kind: str | None = None) -> list[dict]:
    """The rows alone. Raises as ``read`` does."""
    return read(path, kind)[1]


def go_on(path: Path, kind: str) -> tuple[dict, list[dict]]:
    """``read`` for a file that is to grow: half a line at its end is removed. ({}, []) when there is none yet."""
    if not path.exists() or not path.stat().st_size:
        return {}, []
    found = read(path, kind)
    content = path.read_bytes()
    if not content.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)
    return found


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


# -- Inside ---------------------------------------------------------------------------------------------------------


def _lines(path: Path) -> list:
    """The JSON of each line; a document over several lines is one. Half a line at the end is left out, unless the file
    is packed: then it was whole once."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is damaged ({error}): bring it here again") from error
    *lines, rest = content.split(b"\n")
    if rest and (path.suffix == ".gz" or not lines):
        lines.append(rest)
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(json.loads(line))
        except ValueError as error:
            if number == 1 and (document := _document(content)) is not None:
                return [document]
            raise ValueError(f"{path}, line {number} is no JSON: the file is damaged, bring it here again") from error
    return found


def _document(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _kind_of(first: object) -> str | None:
    """The kind of a file, by its first line."""
    if not isinstance(first, dict):
        return None
    if first.get("experiment") in KINDS:
        return first["experiment"]
    return next((name for name, kind in KINDS.items() if not kind.has_header and kind.columns <= first.keys()), None)
