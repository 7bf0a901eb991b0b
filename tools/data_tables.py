"""Fill the tables in the READMEs of data/nano, data/smollm2 and data/traces from the files that lie there.

Takes: nothing.  Returns: README.md with, between its marks, every file with its size and sha256, how each head was
trained, how often its drafts are accepted, and what the test of losslessness gave.
Must not know: how any of these files came about.

    python tools/data_tables.py            # writes
    python tools/data_tables.py --check    # exit status 1 when a README is not what would be written
"""

import hashlib
import json
import sys
from pathlib import Path

from mtp_tutorial.lab import losslessness
from mtp_tutorial.training import acceptance

DATA = Path(__file__).resolve().parent.parent / "data"
FOLDERS = ("nano", "smollm2", "traces")


def files(folder: Path) -> str:
    """Name, bytes, sha256."""
    lines = ["| file | bytes | sha256 |", "|---|---|---|"]
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "README.md":
            content = path.read_bytes()
            size = f"{len(content):,}".replace(",", " ")
            lines.append(
                f"| `{path.relative_to(folder).as_posix()}` | {size} | `{hashlib.sha256(content).hexdigest()}` |"
            )
    return "\n".join(lines)


def heads(folder: Path) -> str:
    """What each folder of weights says of itself."""
    lines = [
        "| weights | drafter | parameters | answers: texts, tokens | steps × texts | last losses, nats | minutes |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in sorted(folder.glob("*/config.json")):
        config = json.loads(path.read_text(encoding="utf-8"))
        if "drafter" not in config:
            continue
        made = config["training"]
        shape = ", ".join(f"{name}={value}" for name, value in {**config["settings"], **made["objective"]}.items())
        last = ", ".join(f"{value:.2f}" for name, value in made["log"][-1].items() if name.startswith("kl"))
        texts, tokens = (f"{made[name]:,}".replace(",", " ") for name in ("texts", "answer_tokens"))
        parameters = f"{config['parameters']:,}".replace(",", " ")
        name = f"`{config['drafter']}`" + (f" ({shape})" if shape else "")
        schedule = made["schedule"]
        lines.append(
            f"| `{path.parent.name}` | {name} | {parameters} | {texts}, {tokens} | "
            f"{schedule['steps']} × {schedule['batch']} | {last} | {made['minutes']} |"
        )
    return "\n".join(lines)


def tables(folder: Path) -> dict[str, str]:
    """mark → what stands between its marks."""
    found = {"files": files(folder), "heads": heads(folder)}
    if (rows := folder / "acceptance.jsonl").exists():
        found["acceptance"] = acceptance.markdown(acceptance.read_rows(rows))
    if (rows := folder / "losslessness.jsonl").exists():
        found["losslessness"] = losslessness.markdown(losslessness.read_rows(rows))
    return found


def filled(text: str, found: dict[str, str]) -> str:
    for mark, table in found.items():
        begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
        if begin in text:
            before, rest = text.split(begin, 1)
            text = before + begin + "\n\n" + table + "\n\n" + end + rest.split(end, 1)[1]
    return text


def main(check: bool) -> int:
    """Write the READMEs, or say which are stale."""
    stale = []
    for folder in (DATA / name for name in FOLDERS):
        readme = folder / "README.md"
        if not readme.exists():
            continue
        old = readme.read_text(encoding="utf-8")
        new = filled(old, tables(folder))
        if new != old:
            stale.append(str(readme.relative_to(DATA.parent)))
            if not check:
                readme.write_text(new, encoding="utf-8")
    for name in stale:
        print(f"{'stale' if check else 'written'}: {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
