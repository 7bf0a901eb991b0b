"""Names from outside reach the terminal as they are: no markup is read in them, control characters do not pass."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mtp_tutorial as mt
from mtp_tutorial import cli, doctor
from mtp_tutorial.cli import app, decoding
from mtp_tutorial.cli.app import terminal

TRACES = Path(__file__).resolve().parents[1] / "data" / "traces"
LABELS = ["[/x]", "[link=http://x]", "[bold red]", "[/]", "[", "\\[x]", ":smile:", "[[b]]", "é[/b]", "[@click=x]"]


def output(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "300"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


def bench_file(label: str, path: Path) -> Path:
    lines = gzip.decompress((TRACES / "bench-smollm2-cpu.jsonl.gz").read_bytes()).splitlines()
    header, *rows = map(json.loads, lines)
    rows = [row for row in rows if row["arm"] in ("plain", "mtp:k=2") and row["kind"] == "json"]
    named = [row | {"kind": label, "arm": row["arm"].replace("mtp:k=2", label)} for row in rows]
    header |= {"target": label, "machine": {**header["machine"], "cpu": label}}
    path.write_text("".join(json.dumps(row) + "\n" for row in (header, *named)))
    return path


def costs_file(label: str, path: Path) -> Path:
    found = json.loads((TRACES / "costs-smollm2-cpu.json").read_text())
    small = [row for row in found["rows"] if row["batch"] in (1, 2) and row["k"] in (0, 1) and not row["temperature"]]
    path.write_text(json.dumps(found | {"rows": small, "machine": {**found["machine"], "cpu": label}}))
    return path


@pytest.mark.parametrize("label", LABELS)
def test_a_label_is_shown_as_it_is(label, tmp_path, monkeypatch):
    page = tmp_path / "metrics.txt"
    quoted = label.replace("\\", "\\\\")
    page.write_text(f'sglang:spec_accept_length{{model_name="{quoted}"}} 2.25\n', encoding="utf-8")
    assert label in output("metrics", str(page))
    assert label in output("bench", "--show", str(bench_file(label, tmp_path / "bench.jsonl")))
    found = doctor.Finding("model", label, doctor.PROBLEM, f"delete {label}")
    monkeypatch.setattr(doctor, "examine", lambda: [found])
    assert output("doctor").count(label) == 2
    result = CliRunner().invoke(app, ["generate", "--prompt", "x", "--target", f"{tmp_path}/{label}"])
    assert isinstance(result.exception, (ValueError, OSError)) and "Markup" not in type(result.exception).__name__


def test_a_label_of_a_record_of_costs_is_shown_as_it_is(tmp_path):
    label = "[/x] [link=http://x]"
    assert label in output("costs", "--show", str(costs_file(label, tmp_path / "costs.json")))


def test_control_characters_do_not_reach_the_terminal(tmp_path, capsys, monkeypatch):
    page = tmp_path / "metrics.txt"
    page.write_text('sglang:spec_accept_length{model_name="a\x1b]0;title\x07b"} 2.25\n')
    shown = output("metrics", str(page))
    assert "\x1b" not in shown and "\x07" not in shown and "a\ufffd]0;title\ufffdb" in shown
    monkeypatch.setattr("sys.argv", ["mtp-tutorial", "metrics", "no\x1b[31m"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "\x1b" not in capsys.readouterr().err


def test_no_command_makes_a_console_that_reads_markup():
    for path in Path(cli.__file__).parent.glob("*.py"):
        assert path.name == "app.py" or "rich.console" not in path.read_text(encoding="utf-8"), path.name


def test_control_characters_that_a_model_writes_do_not_pass():
    target, console = mt.load("toy"), terminal(file=io.StringIO())
    found = replace(mt.generate(target, [1, 2], max_new_tokens=2), pieces=("\x1b[2J", "[b]"))
    decoding.show(console, target, found, speculative=False)
    text = console.file.getvalue()
    assert "\x1b" not in text and "\N{REPLACEMENT CHARACTER}[2J" in text and "[b]" in text
