"""Rows on disk: every kind of file is known by every reader, and damage is named by file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtp_tutorial import longrun
from mtp_tutorial.cli import app
from mtp_tutorial.lab import losslessness
from mtp_tutorial.training import acceptance

DATA = Path(__file__).resolve().parents[1] / "data"
FILES = {
    "arms x prompts x seeds": DATA / "traces" / "repetition-nano.jsonl.gz",
    "bench": DATA / "traces" / "bench-smollm2-cpu.jsonl.gz",
    "costs": DATA / "traces" / "costs-smollm2-cpu.json",
    "acceptance": DATA / "nano" / "acceptance.jsonl",
    "losslessness": DATA / "nano" / "losslessness.jsonl",
}
OTHERS = [(kind, other) for kind in FILES for other in FILES if kind != other]


def shorter(path: Path, to: Path, rows: int = 3) -> Path:
    """The first rows of a stored file, unpacked."""
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    to.write_bytes(content if path.suffix == ".json" else b"".join(content.splitlines(keepends=True)[: rows + 1]))
    return to


def test_every_kind_of_file_is_stored_and_read():
    assert FILES.keys() == longrun.KINDS.keys()
    for kind, path in FILES.items():
        header, rows = longrun.read(path, kind)
        assert rows and header.get("experiment", kind) == kind and bool(header) == longrun.KINDS[kind].has_header
        assert longrun.read(path) == (header, rows)


@pytest.mark.parametrize(("kind", "other"), OTHERS)
def test_a_file_of_another_kind_is_named_with_the_command_that_shows_it(kind, other, tmp_path):
    path = shorter(FILES[other], tmp_path / "given.jsonl")
    shown = longrun.KINDS[kind].command.split()
    words = [f"no {longrun.KINDS[kind].what}", f"a {longrun.KINDS[other].what}", f"`{longrun.KINDS[other].command}`"]
    if shown[0] == "python":
        main = {"acceptance": acceptance.main, "losslessness": losslessness.main}[kind]
        with pytest.raises(SystemExit) as stopped:
            main(["--show", str(path)])
        assert stopped.value.code == 2
        with pytest.raises(ValueError) as refused:
            longrun.read(path, kind)
        said = str(refused.value)
    else:
        said = str(CliRunner().invoke(app, [shown[1], "--show", str(path)]).exception)
    assert "given.jsonl" in said and all(word in said for word in words)


@pytest.mark.parametrize("kind", ["arms x prompts x seeds", "bench"])
def test_damage_is_named_by_file_and_line(kind, tmp_path):
    path = shorter(FILES[kind], tmp_path / "rows.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    packed = tmp_path / "rows.jsonl.gz"
    whole = gzip.compress(path.read_bytes())
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for content in (bytes(flipped), whole[: len(whole) // 2], whole[:-4], b"", b"\x1f"):
        packed.write_bytes(content)
        with pytest.raises(ValueError, match="rows.jsonl.gz.*(damaged|no header)"):
            longrun.read(packed, kind)
    packed.write_bytes(gzip.compress(path.read_bytes()[:-20]))  # packed in the middle of its last line
    with pytest.raises(ValueError, match=f"rows.jsonl.gz, line {len(lines)} is no JSON"):
        longrun.read(packed, kind)
    for bad, words in ((lines[2][:30] + b"\n", "line 3 is no JSON"), (b"[1]\n", "row 3"), (b'{"arm": 1}\n', "row 3")):
        path.write_bytes(b"".join([*lines[:2], bad, *lines[3:]]))
        with pytest.raises(ValueError, match=f"rows.jsonl, {words}"):
            longrun.read(path, kind)
    path.write_bytes(lines[0][:-20] + b"\n" + lines[1])
    with pytest.raises(ValueError, match="rows.jsonl, line 1 is no JSON"):
        longrun.read(path, kind)


@pytest.mark.parametrize("kind", ["arms x prompts x seeds", "acceptance", "losslessness"])
def test_half_a_line_at_the_end_is_left_out_and_removed_before_the_file_grows(kind, tmp_path):
    path = shorter(FILES[kind], tmp_path / "rows.jsonl")
    header, rows = longrun.read(path, kind)
    whole = path.read_bytes()
    path.write_bytes(whole + json.dumps(rows[0]).encode()[:50])
    assert longrun.read(path, kind) == (header, rows)
    assert longrun.go_on(path, kind) == (header, rows) and path.read_bytes() == whole
    longrun.append_rows(path, rows[:1])
    assert longrun.read_rows(path, kind) == [*rows, rows[0]]
    assert longrun.go_on(tmp_path / "none.jsonl", kind) == ({}, [])


@pytest.mark.parametrize("main", [acceptance.main, losslessness.main])
def test_a_file_that_is_not_there_is_named(main, capsys):
    with pytest.raises(SystemExit):
        main(["--show", "nowhere.jsonl"])
    assert "nowhere.jsonl" in capsys.readouterr().err
