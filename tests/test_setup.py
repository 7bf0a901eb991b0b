"""Setting up: which torch `make` installs where, and the reader's copies of the notebooks."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
spec = importlib.util.spec_from_file_location("working_copy", ROOT / "tools" / "working_copy.py")
working_copy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(working_copy)

# -- torch ----------------------------------------------------------------------------------------------------------

PYTHON = """#!/bin/sh
case "$*" in
  *find_spec*) [ -n "$STUB_TORCH" ] ;;
  *"pip index"*) echo "$*" >> "$STUB_LOG"; [ -z "$STUB_UNREACHABLE" ] ;;
  *) echo "$*" >> "$STUB_LOG" ;;
esac
"""
UNAME = '#!/bin/sh\n[ "$1" = -s ] && echo "$STUB_SYSTEM" || echo "$STUB_MACHINE"\n'
TOOLS = ("sh", "make", "cat", "touch", "mkdir", "dirname", "xargs", "env")


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def set_up(tmp_path):
    """Runs `make venv` with a python that only writes down what it is asked for; returns that, and what make prints."""
    if not all(map(shutil.which, TOOLS)):
        pytest.skip("needs make and a Unix shell")
    tools, venv, log = tmp_path / "tools", tmp_path / "venv", tmp_path / "log"
    script(tools / "uname", UNAME)
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name))
    script(venv / "bin" / "python", PYTHON)
    (venv / ".mtp-stamps").mkdir()
    (venv / ".mtp-stamps" / "venv").touch()

    def run(*words: str, system="Linux", machine="x86_64", driver=False, torch=False, unreachable=False):
        if driver:
            script(tools / "nvidia-smi", "#!/bin/sh\n")
        log.write_text("")
        env = {
            "PATH": str(tools), "STUB_LOG": str(log), "STUB_SYSTEM": system, "STUB_MACHINE": machine,
            "STUB_TORCH": "1" * torch, "STUB_UNREACHABLE": "1" * unreachable,
        }  # fmt: skip
        command = [shutil.which("make"), "venv", f"VENV={venv}", *words]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return log.read_text().splitlines(), done.stdout + done.stderr

    return run


HERE_IS_A_DRIVER = pytest.mark.skipif(os.path.exists("/proc/driver/nvidia"), reason="this machine has an NVIDIA driver")
PACKAGE = "-m pip install --editable ."


@HERE_IS_A_DRIVER
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_linux_without_a_driver_gets_the_cpu_build(set_up, machine):
    asked, said = set_up(machine=machine)
    look, install, package = asked
    assert "pip index versions torch" in look and "--timeout 5 --retries 0" in look and CPU_INDEX in look
    assert install == f"-m pip install --no-deps --index-url {CPU_INDEX} torch>=2.9"
    assert package == PACKAGE and "CPU build" in said
    assert set_up(machine=machine)[0] == []  # a second time there is nothing to do


@HERE_IS_A_DRIVER
def test_an_index_that_cannot_be_reached_leaves_torch_to_pips_own(set_up):
    asked, said = set_up(unreachable=True)
    assert len(asked) == 2 and "pip index" in asked[0] and asked[1] == PACKAGE
    assert "cannot be reached" in said and "TORCH_SPEC" in said


@pytest.mark.parametrize(
    "case",
    [
        {"driver": True},
        {"system": "Darwin", "machine": "arm64"},
        {"machine": "ppc64le"},
        {"torch": True},
    ],
)
def test_elsewhere_and_where_torch_is_installed_pip_is_left_alone(set_up, case):
    assert set_up(**case)[0] == [PACKAGE]


@pytest.mark.parametrize("driver", [False, True])
def test_torch_spec_wins(set_up, driver):
    asked, _ = set_up("TORCH_SPEC=torch==2.13.0 --pre", driver=driver)
    assert asked == ["-m pip install torch==2.13.0 --pre", PACKAGE]


def test_a_torch_spec_given_later_is_installed(set_up):
    set_up(driver=True)
    assert set_up("TORCH_SPEC=torch==2.13.0", torch=True)[0] == ["-m pip install torch==2.13.0", PACKAGE]


def test_the_bound_on_torch_is_that_of_pyproject():
    bound = next(line for line in (ROOT / "pyproject.toml").read_text().splitlines() if '"torch>=' in line)
    assert bound.split('"')[1] in (ROOT / "Makefile").read_text()


# -- Working copies -------------------------------------------------------------------------------------------------


def notebook(*cells: str, output: str = "") -> bytes:
    made = [{"cell_type": "code", "source": [cell], "outputs": [output]} for cell in cells]
    return json.dumps({"cells": made}).encode()


@pytest.fixture
def folders(tmp_path):
    source, copies = tmp_path / "notebooks", tmp_path / "my-notebooks"
    source.mkdir()
    (source / "00.ipynb").write_bytes(notebook("1 + 1"))
    (source / "WORDS.md").write_text("words")
    assert working_copy.refresh(source, copies) == []
    return source, copies


def test_everything_is_copied_and_nothing_else(folders):
    source, copies = folders
    assert {p.name for p in copies.iterdir()} == {"00.ipynb", "WORDS.md", working_copy.RECORD}
    assert (copies / "00.ipynb").read_bytes() == notebook("1 + 1")
    (copies / "00.ipynb").unlink()
    working_copy.refresh(source, copies)
    assert (copies / "00.ipynb").exists()


def test_a_copy_that_was_only_run_follows_its_original(folders):
    source, copies = folders
    (copies / "00.ipynb").write_bytes(notebook("1 + 1", output="2"))
    working_copy.refresh(source, copies)
    assert (copies / "00.ipynb").read_bytes() == notebook("1 + 1", output="2")  # the reader's outputs stay as long
    (source / "00.ipynb").write_bytes(notebook("1 + 2"))
    assert working_copy.refresh(source, copies) == []
    assert (copies / "00.ipynb").read_bytes() == notebook("1 + 2")


@pytest.mark.parametrize("lost", ["{", "[1]", '{"00.ipynb": 3}', '{"00.ipynb": {}}'])
def test_a_copy_that_was_edited_is_never_replaced(folders, lost):
    source, copies = folders
    mine = notebook("1 + 1  # mine")
    (copies / "00.ipynb").write_bytes(mine)
    (copies / "own.ipynb").write_bytes(mine)
    assert working_copy.refresh(source, copies) == []
    for text in ("1 + 2", "1 + 3"):
        (source / "00.ipynb").write_bytes(notebook(text))
        (told,) = working_copy.refresh(source, copies)
        assert "00.ipynb is kept" in told
        assert working_copy.refresh(source, copies) == []  # told once
    (copies / working_copy.RECORD).write_text(lost)  # a lost record makes everything that differs the reader's
    working_copy.refresh(source, copies)
    (source / "00.ipynb").unlink()
    working_copy.refresh(source, copies)
    assert (copies / "00.ipynb").read_bytes() == (copies / "own.ipynb").read_bytes() == mine


def test_a_renamed_original_takes_its_untouched_copy_along(folders):
    source, copies = folders
    (source / "00.ipynb").rename(source / "01.ipynb")
    working_copy.refresh(source, copies)
    assert not (copies / "00.ipynb").exists() and (copies / "01.ipynb").exists()


def test_git_ignores_the_copies():
    if subprocess.run(["git", "rev-parse"], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("not a git checkout")
    assert subprocess.run(["git", "check-ignore", "-q", "my-notebooks/00_start_here.ipynb"], cwd=ROOT).returncode == 0
