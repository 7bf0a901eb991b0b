"""Make data/prompts/<kind>.jsonl from the hand-written sources in data/prompts/source.

Takes: the sources: `common.txt` (slots every kind may use) and one `<kind>.txt` each, with sections `[slots]`,
`[templates]`, `[train]` and `[heldout]`; one entry a line, `\\n` for a line break, `#` for a comment.
Returns: one JSON object a line: id, kind, split, prompt. The same sources give the same bytes on every Python.
Must not know: any model or tokenizer.

    python tools/prompts.py            # writes the .jsonl files and the table in data/prompts/README.md
    python tools/prompts.py --check    # exit status 1 when a file isn't what would be made

In a template `{animal}` is filled from the slot `animal`; `{animal2}` draws another value from the same slot;
`{3-40}` is a whole number and `{10-90/5}` one in steps of 5. Values are dealt like cards, all of a slot before any
comes again, so that every value is used about equally often. A slot whose name begins with `heldout_` may be used in
`[heldout]` only, and no other slot may be used there.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path

SEED = 20250
PER_TEMPLATE = 10  # prompts a template makes, unless its slots have fewer combinations
MIN_TRAIN, MIN_HELDOUT = 250, 30
FOLDER = Path(__file__).resolve().parent.parent / "data" / "prompts"
SLOT = re.compile(r"\{(?:(\d+)-(\d+)(?:/(\d+))?|([a-z_]+)(\d*))\}")
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def number(*key) -> int:
    """A whole number that depends on nothing but the seed and the key."""
    text = "\x1f".join(str(part) for part in (SEED, *key))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def shuffled(items: list[str], *key) -> list[str]:
    return sorted(items, key=lambda item: (number(*key, item), item))


def read(path: Path) -> dict[str, list[str] | dict[str, list[str]]]:
    """The sections of a source file; `slots` is a dict: `name = a | b | c`, or `name =` and then `- value` lines."""
    sections: dict = {"slots": {}, "templates": [], "train": [], "heldout": []}
    section = name = None
    for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]") and line[1:-1] in sections:
            section, name = line[1:-1], None
        elif section is None:
            raise ValueError(f"{path.name}:{at}: a line before the first section")
        elif section != "slots":
            sections[section].append(line.replace("\\n", "\n"))
        elif line.startswith("- ") and name:
            sections["slots"][name].append(line[2:].replace("\\n", "\n"))
        elif (head := re.fullmatch(r"([a-z_]+) =(.*)", line)) and head[1] not in sections["slots"]:
            name = head[1]
            sections["slots"][name] = [v.strip().replace("\\n", "\n") for v in head[2].split("|") if v.strip()]
        else:
            raise ValueError(f"{path.name}:{at}: expected 'name = a | b' (each name once) or '- value', got {line!r}")
    for slot, values in sections["slots"].items():
        if len(values) != len(set(values)) or not values:
            raise ValueError(f"{path.name}: slot {slot!r} is empty or holds a value twice")
    return sections


class Dealer:
    """Deals the values of every slot like cards from a shuffled pack."""

    def __init__(self, kind: str, slots: dict[str, list[str]]):
        self.kind, self.slots = kind, slots
        self.hands: dict[str, list[str]] = {}
        self.rounds: dict[str, int] = {}

    def draw(self, slot: str, without: set[str]) -> str:
        if slot not in self.slots:
            raise ValueError(f"{self.kind}: unknown slot {slot!r}")
        if without >= set(self.slots[slot]):
            raise ValueError(f"{self.kind}: slot {slot!r} has too few values for one prompt")
        hand = self.hands.setdefault(slot, [])
        if not set(hand) - without:
            self.rounds[slot] = self.rounds.get(slot, 0) + 1
            hand += shuffled(self.slots[slot], self.kind, slot, self.rounds[slot])
        value = next(v for v in hand if v not in without)
        hand.remove(value)
        return value

    def fill(self, template: str, *key) -> str:
        drawn: dict[tuple[str, str], str] = {}

        def one(match: re.Match) -> str:
            low, high, step, slot, which = match.groups()
            if low:
                values = range(int(low), int(high) + 1, int(step or 1))
                return str(values[number(self.kind, template, match.start(), *key) % len(values)])
            if (slot, which) not in drawn:
                taken = {value for (other, _), value in drawn.items() if other == slot}
                drawn[slot, which] = self.draw(slot, taken)
            return drawn[slot, which]

        text = SLOT.sub(one, template)
        return text[:1].upper() + text[1:] if template.startswith("{") else text


def combinations(template: str, slots: dict[str, list[str]]) -> int:
    """An upper bound on how many prompts a template can make."""
    total = 1
    for low, high, step, slot, _ in {m.groups() for m in SLOT.finditer(template)}:
        total *= len(range(int(low), int(high) + 1, int(step or 1))) if low else len(slots.get(slot, "-"))
    return total


def variant(template: str) -> re.Pattern:
    """What the template could make with any values at all, so that a held-out prompt can be told from it."""
    parts, at = [], 0
    for match in SLOT.finditer(template):
        parts += [re.escape(template[at : match.start()]), r"\d+" if match[1] else r".+"]
        at = match.end()
    return re.compile("".join([*parts, re.escape(template[at:])]), re.DOTALL | re.IGNORECASE)


def make(kind: str, source: Path) -> list[dict[str, str]]:
    """The records of one kind: training prompts shuffled, held-out ones in the order they were written."""
    common, own = read(source / "common.txt"), read(source / f"{kind}.txt")
    dealer = Dealer(kind, {**common["slots"], **own["slots"]})
    if len(own["templates"]) != len(set(own["templates"])):
        raise ValueError(f"{kind}: a template stands twice")
    train = list(own["train"])
    for template in own["templates"]:
        if not SLOT.search(template) or "{heldout_" in template:
            raise ValueError(f"{kind}: a template without a slot, or with a held-out one: {template!r}")
        made: list[str] = []
        for attempt in range(20 * PER_TEMPLATE):
            if len(made) == min(PER_TEMPLATE, combinations(template, dealer.slots)):
                break
            prompt = dealer.fill(template, attempt)
            if prompt not in made and prompt not in train:
                made.append(prompt)
        train += made
    if any(m[4] is None or not m[4].startswith("heldout_") for line in own["heldout"] for m in SLOT.finditer(line)):
        raise ValueError(f"{kind}: a held-out prompt uses a training slot")
    heldout = [dealer.fill(line, "heldout") for line in own["heldout"]]
    for template in own["templates"]:
        if near := [prompt for prompt in heldout if variant(template).fullmatch(prompt)]:
            raise ValueError(f"{kind}: held-out {near[0]!r} is a variant of the template {template!r}")
    if len(set(train + heldout)) != len(train) + len(heldout):
        raise ValueError(f"{kind}: a prompt stands twice")
    if len(train) < MIN_TRAIN or len(heldout) < MIN_HELDOUT:
        raise ValueError(f"{kind}: {len(train)} training and {len(heldout)} held-out prompts are too few")
    return [
        {"id": f"{kind}-{split}-{i:03d}", "kind": kind, "split": split, "prompt": prompt}
        for split, prompts in (("train", shuffled(train, kind, "order")), ("heldout", heldout))
        for i, prompt in enumerate(prompts, 1)
    ]


def kinds(source: Path) -> list[str]:
    return sorted(path.stem for path in source.glob("*.txt") if path.stem != "common")


def table(records: dict[str, list[dict[str, str]]], files: dict[str, bytes], templates: dict[str, int]) -> str:
    """The Markdown table of the README: counts, templates, median words, sha256."""
    lines = ["| kind | train | held-out | templates | words (median) | sha256 of the file |"]
    lines.append("|---|--:|--:|--:|--:|---|")
    totals = [0, 0, 0]
    for kind, rows in records.items():
        train = sum(row["split"] == "train" for row in rows)
        words = sorted(len(row["prompt"].split()) for row in rows)
        digest = hashlib.sha256(files[f"{kind}.jsonl"]).hexdigest()
        counts = [train, len(rows) - train, templates[kind]]
        totals = [a + b for a, b in zip(totals, counts)]
        lines.append(f"| {kind} | {counts[0]} | {counts[1]} | {counts[2]} | {words[len(words) // 2]} | `{digest}` |")
    lines.append(f"| **all** | {totals[0]} | {totals[1]} | {totals[2]} | | |")
    return "\n".join(lines)


def build(folder: Path) -> dict[str, bytes]:
    """Every file this script owns, by name: the .jsonl files, and the README with its table renewed."""
    source = folder / "source"
    records = {kind: make(kind, source) for kind in kinds(source)}
    seen: set[str] = set()
    for row in (row for rows in records.values() for row in rows):
        if row["prompt"] in seen:
            raise ValueError(f"{row['id']}: the prompt stands in another kind too")
        seen.add(row["prompt"])
    files = {
        f"{kind}.jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        for kind, rows in records.items()
    }
    readme = folder / "README.md"
    if readme.exists():
        text = readme.read_text(encoding="utf-8")
        if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
            raise ValueError(f"{readme}: expected the lines {BEGIN} and {END} once each, for the table")
        before, after = text[: text.index(BEGIN)], text[text.index(END) + len(END) :]
        counts = {kind: len(read(source / f"{kind}.txt")["templates"]) for kind in records}
        files["README.md"] = f"{before}{BEGIN}\n{table(records, files, counts)}\n{END}{after}".encode()
    return files


def write(path: Path, content: bytes) -> None:
    """Write the whole file or nothing: a new file beside it, then one rename."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file differs")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the prompts lie (default: data/prompts)")
    options = parser.parse_args(arguments)
    files = build(options.folder)
    stray = {path.name for path in options.folder.glob("*.jsonl")} - set(files)
    old = {name: (options.folder / name).read_bytes() for name in files if (options.folder / name).exists()}
    changed = [name for name in files if old.get(name) != files[name]]
    if options.check:
        for name in sorted({*changed, *stray}):
            print(f"{name}: not what tools/prompts.py makes; run it without --check", file=sys.stderr)
        return 1 if changed or stray else 0
    for name in changed:
        write(options.folder / name, files[name])
    print(f"{len(files)} files, {len(changed)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
