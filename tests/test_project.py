"""The project's own files agree with one another: pins, version, README, and what may be stored here."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from rattler import MatchSpec

import mtp_tutorial

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONDA_NAMES = {
    "torch": "pytorch",
    "matplotlib": "matplotlib-base",
    "huggingface-hub": "huggingface_hub",
    "prometheus-client": "prometheus_client",
}
IMPORT_NAMES = {
    "huggingface_hub": "huggingface-hub",
    "prometheus_client": "prometheus-client",
    "PIL": "pillow",
    "IPython": "ipykernel",
}  # ipykernel brings IPython


def bounds(requirement: str) -> tuple[str, frozenset[str]]:
    """('numpy', {'>=2.0', '<3'}) from 'numpy>=2.0,<3' or 'numpy >=2.0,<3'."""
    name, rest = re.fullmatch(r"([A-Za-z0-9_.-]+)\s*(.*)", requirement).groups()
    return name, frozenset(part.strip() for part in rest.split(",") if part.strip())


CONDA_SPECS = [item for item in ENVIRONMENT["dependencies"] if isinstance(item, str)]


def test_environment_has_only_the_keys_conda_reads():
    assert set(ENVIRONMENT) == {"name", "channels", "dependencies"}
    assert ENVIRONMENT["channels"] == ["conda-forge"]


def test_environment_lists_pip_before_the_pip_block():
    blocks = [i for i, item in enumerate(ENVIRONMENT["dependencies"]) if isinstance(item, dict)]
    pip = next(i for i, spec in enumerate(CONDA_SPECS) if bounds(spec)[0] == "pip")
    assert blocks == [len(ENVIRONMENT["dependencies"]) - 1] and pip < blocks[0]
    assert ENVIRONMENT["dependencies"][-1] == {"pip": ["--editable ."]}


@pytest.mark.parametrize("spec", CONDA_SPECS)
def test_environment_spec_parses(spec):
    assert MatchSpec(spec, strict=True).name is not None


def test_environment_has_the_bounds_of_pyproject():
    wanted = {"python": bounds("python" + PYPROJECT["project"]["requires-python"])[1]}
    for requirement in PYPROJECT["project"]["dependencies"]:
        name, limits = bounds(requirement)
        wanted[CONDA_NAMES.get(name, name)] = limits
    assert dict(map(bounds, CONDA_SPECS)) == wanted


def test_pins_are_bounded():
    groups = PYPROJECT["project"]["dependencies"], *PYPROJECT["project"]["optional-dependencies"].values()
    open_ended = {name for group in groups for name, limits in map(bounds, group) if not any("<" in x for x in limits)}
    assert open_ended == {"torch", "pip"}  # the reader chooses the torch build; pip belongs to the environment


def test_version_has_one_source():
    version = mtp_tutorial.__version__
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert importlib.metadata.version("mtp_tutorial") == version, "install again: pip install -e ."
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)


def test_citation_is_yaml_with_the_fields_readers_need():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors", "license", "version"} <= set(citation)
    assert citation["license"] == PYPROJECT["project"]["license"] == "Apache-2.0"


def test_every_imported_package_is_declared():
    declared = {bounds(r)[0] for r in PYPROJECT["project"]["dependencies"]}
    used = {}
    for path in (ROOT / "mtp_tutorial").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            else:
                continue
            used.update((name.split(".")[0], path.name) for name in names)
    foreign = set(used) - set(sys.stdlib_module_names) - {"mtp_tutorial"}
    missing = {name: used[name] for name in foreign if IMPORT_NAMES.get(name, name) not in declared}
    assert not missing, f"imported but not in pyproject.toml: {missing}"


@pytest.mark.parametrize(
    "words",
    [
        "make lab",
        "make test",
        "my-notebooks/",
        "190 MB",
        "whl/cpu",
        "conda env create",
        "uv pip install",
        "PowerShell",
        "TORCH_SPEC",
        "mtp-tutorial doctor",
    ]
    + ["MTP_TARGET", "MTP_DEVICE", "MTP_TUTORIAL_CACHE"],
)
def test_readme_mentions(words):
    assert words in README


EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.mark.smollm2
def test_readme_example_runs(capsys):
    exec(EXAMPLES[0], {})
    assert "target calls for" in capsys.readouterr().out


def test_readme_example_of_a_rule_runs():
    names = {"mt": mtp_tutorial}
    exec(EXAMPLES[1], names)
    law = mtp_tutorial.lab.exact.output_law("rejection", names["draft"], names["target_probs"])
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)


def test_readme_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`?make ([a-z-]+)[` ]", README + guide)) <= targets


def test_readme_tree_shows_what_exists():
    tree = re.search(r"<!-- tree -->\n```text\n(.*?)```", README, re.S).group(1)
    shown, folder = set(), ""
    for line in tree.splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            folder = name if name.endswith("/") else ""
            shown.add(name)
        else:
            shown.add(folder + name)
    missing = {name for name in shown if not (ROOT / name).exists()}
    assert not missing, f"in the tree of README.md but not in the repository: {missing}"
    rooms = {f"mtp_tutorial/{p.name}" + "/" * p.is_dir() for p in (ROOT / "mtp_tutorial").iterdir()}
    rooms = {r for r in rooms if not r.split("/")[1].startswith(("__pycache__", "."))}
    assert rooms <= shown, f"not in the tree of README.md: {rooms - shown}"


def tracked() -> list[str]:
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if run.returncode:
        pytest.skip("not a git checkout, so there is no list of stored files")
    return [name for name in run.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_lock_file_is_stored():
    locks = [n for n in tracked() if re.search(r"(\.lock|-lock\.ya?ml|pylock.*\.toml)$", n)]
    assert not locks, f"lock files record one machine's addresses: {locks}"


def test_no_path_or_package_index_of_one_machine_is_stored():
    private = re.compile(
        r"(?<![\w.])/(home|root|Users|mnt|media|opt|tmp|work(space)?)/\w|--(extra-)?index-url|--find-links"
    )
    public = "--index-url https://download.pytorch.org/whl/cpu"  # PyTorch's CPU builds, for README's readers
    own, found = ("tests/test_project.py", "tests/test_setup.py"), []  # they look for such options
    for name in tracked():
        if Path(name).suffix in {".py", ".md", ".toml", ".yml", ".yaml", ".cff", ".cfg", ".ipynb", ""}:
            text = (ROOT / name).read_text(encoding="utf-8")
            text = text.replace(public, "") if name == "README.md" else text
            found += [f"{name}: {m.group()}" for m in private.finditer(text) if name not in own]
    assert not found


def test_stored_files_are_small():
    large = {n: (ROOT / n).stat().st_size for n in tracked() if (ROOT / n).stat().st_size > 2_000_000}
    assert not [n for n in large if not n.startswith("data/")], f"more than 2 MB outside data/: {large}"
