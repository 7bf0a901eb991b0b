"""The exercises of the notebooks: a stub says "not attempted", its folded solution passes its own check.

An exercise is a code cell that defines a function and passes it on, `checks.check_…(function)`; its solution is the
python block, inside a `<details>` of a markdown cell, that defines the same function. Both run after the notebook's
import cell and nothing else, as an exercise stands on its own.
"""

import ast
import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))
FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def defined(source: str) -> set[str]:
    """The functions that a piece of code defines at its top level."""
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def checked(source: str) -> dict[str, str]:
    """Function name → the call that checks it, in a cell."""
    found = {}
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        if re.match(r"(checks\.)?check_(?!answer$)\w+$", ast.unparse(call.func)) and call.args:
            if isinstance(call.args[0], ast.Name):
                found[call.args[0].id] = ast.unparse(call)
    return found


def exercises(path: Path) -> list[tuple[str, str, str, str, str | None]]:
    """(function, imports, stub cell, check, solution or None) of each exercise of a notebook."""
    cells = nbformat.read(path, as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    folds = [fold for cell in cells if cell.cell_type == "markdown" for fold in FOLDED.findall(cell.source)]
    blocks = [block for fold in folds for block in BLOCK.findall(fold)]
    found = []
    for name, check in {name: check for source in code for name, check in checked(source).items()}.items():
        stub = next((source for source in code if name in defined(source)), "")
        found.append((name, code[0], stub, check, next((b for b in blocks if name in defined(b)), None)))
    return found


ALL = [(path.stem[:2], *exercise) for path in NOTEBOOKS for exercise in exercises(path)]
each_exercise = pytest.mark.parametrize(
    ("imports", "stub", "check", "solution"), [e[2:] for e in ALL], ids=[f"{e[0]}-{e[1]}" for e in ALL]
)


@each_exercise
def test_the_stub_is_not_attempted(imports, stub, check, solution):
    space = {}
    exec(imports, space)
    exec(stub, space)
    assert eval(check, space).status == "not attempted"


@each_exercise
def test_the_folded_solution_passes(imports, stub, check, solution):
    assert solution, "no python block inside a <details> defines this function"
    space = {}
    for source in (imports, stub, solution):
        exec(source, space)
    result = eval(check, space)
    assert result.passed, result


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_lesson_has_three_exercises(path):
    assert len(exercises(path)) >= (1 if path.stem.startswith("00_") else 3)
