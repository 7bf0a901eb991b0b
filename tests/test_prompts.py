"""The prompts: enough of each kind, the two splits apart, and the files what tools/prompts.py makes."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER, SCRIPT = ROOT / "data" / "prompts", ROOT / "tools" / "prompts.py"
KINDS = "arithmetic chat code factual fiction json lists_tables rewrite sql summarise".split()
FILES = {kind: (FOLDER / f"{kind}.jsonl").read_text(encoding="utf-8") for kind in KINDS}
ROWS = [json.loads(line) for text in FILES.values() for line in text.splitlines()]
TRAIN = [row for row in ROWS if row["split"] == "train"]
HELDOUT = [row for row in ROWS if row["split"] == "heldout"]


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def grams(text: str, n: int) -> set[tuple[str, ...]]:
    each = words(text)
    return {tuple(each[i : i + n]) for i in range(len(each) - n + 1)}


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("prompts_tool", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_sources(folder: Path, heldout: str = "Say {heldout_word}.", template: str = "Tell me about {thing}.") -> Path:
    """A made-up kind, large enough to be accepted."""
    source = folder / "source"
    source.mkdir()
    (source / "common.txt").write_text("[slots]\nname = Ann | Bo\n")
    train = "\n".join(f"Train {i}" for i in range(250))
    held = "\n".join(f"Held out {i}" for i in range(30))
    (source / "toy.txt").write_text(
        "# a comment\n[slots]\nthing = tea | rain\nheldout_word = moon\nlong =\n- two\\nlines\n- a | b\n"
        f"[templates]\n{template}\n[train]\n{train}\n[heldout]\n{held}\n{heldout}\n"
    )
    return source


def test_every_kind_is_there():
    assert sorted(path.stem for path in FOLDER.glob("*.jsonl")) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_counts_ids_and_keys(kind):
    rows = [row for row in ROWS if row["kind"] == kind]
    assert len(rows) == FILES[kind].count("\n")
    assert all(list(row) == ["id", "kind", "split", "prompt"] for row in rows)
    for split, least in (("train", 250), ("heldout", 30)):
        some = [row for row in rows if row["split"] == split]
        assert len(some) >= least
        assert [row["id"] for row in some] == [f"{kind}-{split}-{i:03d}" for i in range(1, len(some) + 1)]
    assert {row["split"] for row in rows} == {"train", "heldout"}


def test_totals_and_uniqueness():
    assert len(TRAIN) >= 2500 and len(HELDOUT) >= 300
    assert len({row["id"] for row in ROWS}) == len(ROWS)
    assert len({" ".join(words(row["prompt"])) for row in ROWS}) > 0.995 * len(
        ROWS
    )  # broken code differs in signs only
    assert len({row["prompt"] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths(kind):
    prompts = [row["prompt"] for row in ROWS if row["kind"] == kind]
    assert all(prompt == prompt.strip() and 2 <= len(prompt.split()) <= 160 for prompt in prompts)
    assert all(prompt[0].isupper() or not prompt[0].isalpha() for prompt in prompts)
    if kind != "summarise":
        assert sorted(len(words(prompt)) for prompt in prompts)[len(prompts) // 2] <= 25


def test_mostly_ascii():
    text = "".join(row["prompt"] for row in ROWS)
    assert sum(char.isascii() for char in text) > 0.999 * len(text)
    assert not set(text) & set("\r\t\ufeff\xa0")


def test_no_slot_is_left_open(tool):
    assert not [row["id"] for row in ROWS if tool.SLOT.search(row["prompt"])]


def test_no_eight_words_in_both_splits():
    seen = set().union(*(grams(row["prompt"], 8) for row in TRAIN))
    assert not {row["id"]: sorted(grams(row["prompt"], 8) & seen) for row in HELDOUT if grams(row["prompt"], 8) & seen}


def test_no_heldout_prompt_is_nearly_a_training_prompt():
    bags = [(row["id"], set(words(row["prompt"]))) for row in TRAIN]
    near = []
    for row in HELDOUT:
        bag = set(words(row["prompt"]))
        near += [(row["id"], other) for other, theirs in bags if 2 * len(bag & theirs) > len(bag | theirs)]
    assert not near


def test_no_heldout_prompt_is_a_slot_variant(tool):
    for kind in KINDS:
        prompts = [row["prompt"] for row in HELDOUT if row["kind"] == kind]
        for template in tool.read(FOLDER / "source" / f"{kind}.txt")["templates"]:
            assert not [prompt for prompt in prompts if tool.variant(template).fullmatch(prompt)], template


@pytest.mark.parametrize("kind", KINDS)
def test_many_templates_none_of_which_makes_many(kind, tool):
    templates = tool.read(FOLDER / "source" / f"{kind}.txt")["templates"]
    assert len(templates) >= 25 and tool.PER_TEMPLATE <= 12


@pytest.mark.parametrize("kind", KINDS)
def test_any_beginning_of_the_training_prompts_is_varied(kind):
    starts = [" ".join(words(row["prompt"])[:5]) for row in TRAIN if row["kind"] == kind]
    assert len(set(starts)) >= 25 and len(set(starts[:40])) >= 15


@pytest.mark.parametrize("kind", ["summarise", "rewrite"])
def test_enough_texts_of_the_length_that_was_asked_for(kind, tool):
    slots = tool.read(FOLDER / "source" / f"{kind}.txt")["slots"]
    if kind == "summarise":
        assert len(slots["text"]) >= 40 and len(slots["heldout_text"]) >= 15
        assert all(60 <= len(text.split()) <= 150 for text in slots["text"] + slots["heldout_text"])
    else:
        names = "casual rude wordy news mini contact simple errors".split()
        assert len({text for name in names for text in slots[name]}) >= 90


def test_readme_has_every_checksum(tool):
    files = tool.build(FOLDER)
    assert files["README.md"].decode() == (FOLDER / "README.md").read_text(encoding="utf-8")
    overview = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    assert f"{len(TRAIN)} training and {len(HELDOUT)} held-out requests" in overview


def test_check_passes_whatever_the_hash_seed():
    for hash_seed in ("0", "7"):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "--check"],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_check_tells_a_changed_a_missing_and_a_stray_file(tool, tmp_path, capsys):
    folder = tmp_path / "prompts"
    shutil.copytree(FOLDER, folder)
    (folder / "code.jsonl").write_text("{}\n")
    (folder / "sql.jsonl").unlink()
    (folder / "old.jsonl").write_text("{}\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert tool.main(["--check", "--folder", str(folder)]) == 1
    told = [line.split(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == ["code.jsonl", "old.jsonl", "sql.jsonl"]
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    (folder / "old.jsonl").unlink()
    assert tool.main(["--folder", str(folder)]) == 0
    for path in FOLDER.iterdir():
        if path.is_file():
            assert (folder / path.name).read_bytes() == path.read_bytes()
    assert {path.name for path in folder.iterdir()} == {path.name for path in FOLDER.iterdir()}


def test_a_failed_write_leaves_the_old_file(tool, tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"old\n")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(tool.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        tool.write(path, b"new\n")
    assert path.read_bytes() == b"old\n" and list(tmp_path.iterdir()) == [path]


def test_slots_are_filled_and_dealt_evenly(tool, tmp_path):
    source = write_sources(tmp_path)
    rows = tool.make("toy", source)
    prompts = [row["prompt"] for row in rows]
    assert {"Tell me about tea.", "Tell me about rain.", "Say moon."} <= set(prompts)
    assert len(rows) == 250 + 2 + 31
    assert tool.read(source / "toy.txt")["slots"]["long"] == ["two\nlines", "a | b"]
    dealer = tool.Dealer("toy", {"thing": ["a", "b", "c"]})
    assert all(sorted(dealer.fill("{thing} {thing2} {thing3}").lower().split()) == ["a", "b", "c"] for _ in range(5))
    assert Counter(dealer.fill("-{thing}") for _ in range(9)) == {"-a": 3, "-b": 3, "-c": 3}
    assert {int(dealer.fill("+{10-30/10}", i)) for i in range(50)} == {10, 20, 30}


@pytest.mark.parametrize(
    "heldout, template, message",
    [
        ("Say {thing}.", "Tell me about {thing}.", "uses a training slot"),
        ("Tell me about snow.", "Tell me about {thing}.", "is a variant of the template"),
        ("Say yes.", "Tell me about {nothing}.", "unknown slot 'nothing'"),
        ("Say yes.", "Tell me about {heldout_word}.", "held-out one"),
        ("Say yes.", "Tell me.", "without a slot"),
        ("Train 3", "Tell me about {thing}.", "stands twice"),
        ("[heldout]\nSay yes.", "{thing} {thing2} {thing3}", "too few values"),
    ],
)
def test_bad_sources_are_refused(tool, tmp_path, heldout, template, message):
    source = write_sources(tmp_path, heldout, template)
    with pytest.raises(ValueError, match=message):
        tool.make("toy", source)


@pytest.mark.parametrize(
    "text, message",
    [
        ("hello\n", "before the first section"),
        ("[slots]\na = x\na = y\n", "each name once"),
        ("[slots]\nb = x | x\n", "holds a value twice"),
        ("[slots]\nb =\n", "is empty"),
    ],
)
def test_bad_lines_are_refused(tool, tmp_path, text, message):
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        tool.read(path)
