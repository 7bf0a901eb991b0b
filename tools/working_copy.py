"""Copy the notebooks into my-notebooks/, for the reader to run and change while git sees no difference.

    python tools/working_copy.py

A copy that the reader has only run is replaced when its original changes; one that they edited is kept, and named once.
Links, data paths and imports work in both folders alike, since they lie side by side.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ".originals.json"  # file → digests of the original that the copy was made of


def refresh(source: Path, copies: Path) -> list[str]:
    """Bring every notebook and page of ``source`` into ``copies``; return what the reader should know."""
    copies.mkdir(exist_ok=True)
    try:
        held = json.loads((copies / RECORD).read_text(encoding="utf-8"))
        record = {name: {key: known[key] for key in ("file", "text")} for name, known in held.items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        record = {}  # none, or a damaged one: copies that differ from their originals count as edited
    told, made = [], {}
    originals = {path.name: path.read_bytes() for path in sorted(source.iterdir()) if path.suffix in (".ipynb", ".md")}
    for name in sorted(originals.keys() | record.keys()):
        copy, known = copies / name, record.get(name)
        own = copy.read_bytes() if copy.exists() else None
        is_edited = own is not None and (known is None or _text(own) != known["text"])
        if name not in originals:
            if own is not None and not is_edited:
                copy.unlink()  # renamed or removed
            continue
        new = originals[name]
        made[name] = {"file": _digest(new), "text": _text(new)}
        if own is None or not is_edited and known["file"] != made[name]["file"]:
            _write(copy, new)
        elif is_edited and own != new and (known is None or known["file"] != made[name]["file"]):
            made[name]["text"] = known["text"] if known else ""
            told.append(f"{copies.name}/{name} is kept as you edited it; its new version is {source.name}/{name}")
    _write(copies / RECORD, json.dumps(made, indent=1).encode())
    return told


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _text(content: bytes) -> str:
    """A digest of what a reader may have written: the cells without their outputs."""
    try:
        cells = [[cell["cell_type"], "".join(cell["source"])] for cell in json.loads(content)["cells"]]
    except (ValueError, KeyError, TypeError):
        return _digest(content)
    return _digest(json.dumps(cells).encode())


def _write(path: Path, content: bytes) -> None:
    """Under a temporary name first, so that an interrupted run leaves no half notebook."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


if __name__ == "__main__":
    for line in refresh(ROOT / "notebooks", ROOT / "my-notebooks"):
        print(line)
