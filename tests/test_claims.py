"""The table of statements: every row is there, its number can be worked out, and what it names exists."""

from __future__ import annotations

import ast
import json
import math
import re
from pathlib import Path

import nbformat
import pytest

from mtp_tutorial.lab import claims, theory
from mtp_tutorial.lab.claims import CLAIMS, NOTEBOOKS, REPORTED, VERDICTS, Claim
from mtp_tutorial.lab.claims.numbers import measured

ROOT = Path(__file__).resolve().parents[1]
TO_COME: set[str] = set()  # notebooks that claims may name before they are written
THERE = {path.stem[:2]: path for path in (ROOT / "notebooks").glob("*.ipynb")}
each_claim = pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.key)


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_statement_has_its_row():
    wanted = [f"{letter}{i}" for letter, count in (("A", 12), ("B", 12), ("C", 17)) for i in range(1, count + 1)]
    assert list(CLAIMS) == wanted and len(wanted) == 41


@each_claim
def test_a_row_says_what_it_is_about(claim):
    assert claim.says.endswith(".") and len(claim.says) < 140 and claim.because and not claim.because.endswith(".")
    assert "|" not in claim.says + claim.because  # they stand in a table


@each_claim
def test_what_a_row_names_exists(claim):
    for notebook in claim.notebooks:
        assert notebook in THERE or notebook in TO_COME, notebook
    if claim.test is None:
        return
    if claim.test.startswith("mtp-tutorial "):
        from mtp_tutorial.cli import app
        from mtp_tutorial.lab.museum import EXHIBITS

        _, command, *names = claim.test.split()
        assert command in {one.name or one.callback.__name__ for one in app.registered_commands}
        assert set(names) <= set(EXHIBITS)
    else:
        path, name = claim.test.split("::")
        assert name in functions_of(ROOT / path)


@each_claim
def test_a_notebook_that_settles_a_statement_names_it(claim):
    for notebook in set(claim.notebooks) & set(THERE):
        cells = nbformat.read(THERE[notebook], as_version=4).cells
        text = "\n".join(cell.source for cell in cells)
        assert re.search(rf"\b{claim.key}\b", text), f"notebook {notebook} does not speak of {claim.key}"


def test_notebooks_have_the_names_of_the_list():
    assert {path.stem for path in THERE.values()} <= set(NOTEBOOKS.values())


@each_claim
def test_a_number_can_be_worked_out(claim):
    if claim.number is not None:
        said = claim.number()
        assert re.search(r"\d", said) and "|" not in said and not re.search(r"\bnan\b", said)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("A2", "0.73, 0.27 → 0.84, 0.16"),
        ("A3", "0.30 → 好, 0.90 → 的"),
        ("A6", "1 to 3 tokens"),
        ("A7", "total variation 0 "),
        ("A8", "(0.841, 0.159) with drafts, (0.841, 0.159) without"),
        ("A10", "(1.0, 0.0, 0.0) where the target says (0.5, 0.3, 0.2)"),
        ("A11", "above 78 % only; for 0.92 % it takes 325"),
        ("B5", "total variation 0 for 4 rules"),
        ("B6", "1 rejection, 3 rounds, 3 target calls"),
        ("B7", "0.75 and, after an acceptance, 0.875 instead of 0.5"),
        ("B8", "largest change 0;"),
        ("C1", "46.7 ms"),
        ("C3", "3 of 4 accepted, 4 tokens"),
        ("C7", "28 ms (3.57×), 70 ms (1.43×), 140 ms (0.71×)"),
        ("C9", "47 ms of memory against 36 ms for 256 rows, 181 ms for 256 × 5"),
    ],
)
def test_numbers_known_by_hand(key, words):
    assert words in claims.get(key).number()


def test_the_measured_ones_carry_their_verdict():
    positions = measured("nano", "mtp", 0, 4)["accepted"]
    assert positions == sorted(positions, reverse=True)  # B4: acceptance falls with the position
    for k in (2, 4):  # C10: JSON is ahead; code and the others are close
        rows = {kind: measured("smollm2", "mtp", 0, k, kind) for kind in ("json", "code", "chat", "fiction")}
        length = {kind: row["tokens"] / row["rounds"] for kind, row in rows.items()}
        assert length.pop("json") > max(length.values()) + 0.3
    head, model = (measured("smollm2", name, 0.6, 2) for name in ("mtp", "draft"))
    assert head["tokens"] / head["rounds"] > model["tokens"] / model["rounds"]  # C13
    assert theory.speedup(0, 4, 0.1) < 1 < theory.speedup(1, 4, 0.1)  # C17


def test_a_row_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="no row for mtp, T = 0.5"):
        measured("nano", "mtp", 0.5, 2)
    with pytest.raises(ValueError, match="no statement 'D1'; known: A1, A2"):
        claims.get("D1")
    with pytest.raises(ValueError, match="no article 'D'"):
        claims.rows("D")


@pytest.mark.parametrize(
    ("change", "words"), [({"verdict": "perhaps"}, "unknown verdict"), ({"notebooks": ("99",)}, "must name some of 00")]
)
def test_a_claim_is_checked_when_it_is_made(change, words):
    given = {"key": "A1", "says": "x.", "verdict": "holds", "because": "y", "notebooks": ("01",), **change}
    with pytest.raises(ValueError, match=words):
        Claim(**given)


def test_reported_figures():
    found = {(one.benchmark, one.model.split(",")[0]): one for one in REPORTED}
    large, small = found["HumanEval", "13B"], found["HumanEval", "0.3B"]
    assert round(large.points, 1) == 1.7 and f"{large.relative:.0%}" == "12%"  # "12 % more problems"
    assert small.points < 0 and round(found["HumanEval", "MoE 228.7B"].points, 1) == 9.2
    assert all(0 < one.plain < 100 and 0 < one.trained < 100 and math.isfinite(one.relative) for one in REPORTED)


def test_rows_and_the_table():
    found = claims.rows("C")
    assert [row["key"] for row in found] == [f"C{i}" for i in range(1, 18)]
    assert {row["verdict"] for row in found} <= set(VERDICTS)
    json.dumps(found)
    lines = claims.markdown(found).splitlines()
    assert len(lines) == 2 + 17 and {line.count("|") for line in lines} == {6}
