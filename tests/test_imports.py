"""The one-way flow: who may import whom, read from the source with `ast`.

records → sampling → models, cache → drafters → verify → decode → lab → show. `verify` knows no model and no drafter,
drafters know no verify rule, nothing in the engine imports lab or show, and only show knows how to draw.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "mtp_tutorial"
ENGINE = {"records", "sampling", "verify", "cache", "models", "drafters", "decode"}
MAY_IMPORT = {
    "records": set(),
    "sampling": {"records"},
    "verify": {"records", "sampling"},
    "cache": {"records"},
    "models": {"records", "sampling", "cache"},
    "drafters": {"records", "sampling", "cache", "models"},
    "decode": ENGINE - {"decode"},
    "longrun": set(),
    "training": ENGINE - {"verify"} | {"longrun"},
    "lab": ENGINE | {"longrun", "training"},  # experiments run on the prompts that training holds out
    "serving": {"lab"},  # its statistics only: a server is what it says over HTTP
    "show": ENGINE | {"lab", "serving"},
    "checks": ENGINE | {"lab", "serving"},
    "doctor": {"models"},
    "cli": ENGINE | {"lab", "serving", "show", "doctor", "training", "longrun"},
    "__init__": ENGINE | {"lab", "serving", "show", "checks"},
}
DRAWING = {"matplotlib", "ipywidgets", "IPython"}
MODELS_LIBRARY = {"transformers", "accelerate", "gguf", "safetensors", "huggingface_hub"}
PURE = {"records", "sampling", "verify"}  # tensors in, tensors out


def room(path: Path) -> str:
    """The room a file belongs to: 'drafters' for mtp_tutorial/drafters/ngram.py."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(source: str, package: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Every imported module as a tuple of names, also inside functions; `package` resolves relative ones."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {tuple(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple((node.module or "").split(".")) if node.module else ()
            found |= {base + (alias.name,) for alias in node.names}
    return found


def breaches(path: Path) -> list[str]:
    """Imports of one file that go against the flow."""
    here, package = room(path), ("mtp_tutorial", *path.relative_to(PACKAGE).parts[:-1])
    allowed = MAY_IMPORT.get(here)
    if allowed is None:
        return [f"{here} is a new room: give it a line in MAY_IMPORT"]
    found = []
    for name in sorted(imports(path.read_text(encoding="utf-8"), package)):
        top = name[0]
        if top == "mtp_tutorial" and len(name) > 1 and name[1] in MAY_IMPORT:
            if name[1] != here and name[1] not in allowed:
                found.append(f"{here} imports {name[1]}")
        elif top in DRAWING and here != "show":
            found.append(f"{here} imports {top}")
        elif top in MODELS_LIBRARY and here in PURE:
            found.append(f"{here} imports {top}")
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_flow_one_way(path):
    assert breaches(path) == []


def test_the_map_has_no_circle():
    done: set[str] = set()
    while left := {here for here in MAY_IMPORT if here not in done}:
        ready = {here for here in left if MAY_IMPORT[here] <= done}
        assert ready, f"these rooms import one another: {left}"
        done |= ready


def test_borders_of_the_design():
    assert not MAY_IMPORT["verify"] & {"models", "drafters", "cache", "decode"}
    assert "verify" not in MAY_IMPORT["drafters"]
    assert not any(MAY_IMPORT[here] & {"lab", "serving", "show", "checks", "doctor", "cli"} for here in ENGINE)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("from ..lab import exact", ("mtp_tutorial", "lab", "exact")),
        ("def f():\n    from mtp_tutorial.show.panel import Panel", ("mtp_tutorial", "show", "panel", "Panel")),
        ("import matplotlib.pyplot as plt", ("matplotlib", "pyplot")),
        ("from . import base", ("mtp_tutorial", "drafters", "base")),
    ],
)
def test_the_reader_sees_every_kind_of_import(source, wanted):
    assert wanted in imports(source, ("mtp_tutorial", "drafters"))


@pytest.mark.parametrize("module", ["mtp_tutorial", "mtp_tutorial.cli"])
def test_importing_is_light(module):
    heavy = ["torch", "transformers", "matplotlib", "ipywidgets", "scipy"]
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_public_names_resolve_when_used():
    code = (
        "import mtp_tutorial as mt\n"
        "for n in ['Sampling','Draft','Verdict','Round','Generation','RULES','probabilities','verify','load',"
        "'load_drafter','generate','stream','__version__']: getattr(mt, n)\n"
        "mt.lab.exact.output_law\n"
        "assert set(mt.RULES) == {'greedy','rejection','sample_and_match','target_only','block','typical','relaxed'}"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_verify_stays_the_function_after_its_module_is_imported():
    # Importing mtp_tutorial.verify binds the module to the package under the function's name.
    code = "import mtp_tutorial as mt, mtp_tutorial.verify; assert callable(mt.verify)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
