"""Run the notebooks afresh and store their outputs in a clean, repeatable form.

    python tools/notebooks.py                     run and clean every notebook
    python tools/notebooks.py notebooks/01_*.ipynb
    python tools/notebooks.py --clean             clean only, run nothing
    python tools/notebooks.py --check             run nothing, report what is not clean

Takes notebook files; returns the same files with outputs that read well where there is no kernel: pictures and
text stay, widget views, widget state, stderr and timestamps go. Must not know the package it documents.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path

import nbformat
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python", "pygments_lexer": "ipython3"}
KEPT_CELL_METADATA = ("tags", "jupyter", "slideshow")
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


def run(nb: NotebookNode, folder: Path, timeout: int = 600) -> NotebookNode:
    """Execute in a fresh kernel whose working directory is `folder`; a cell that raises stops the run."""
    from nbclient import NotebookClient

    os.environ["TQDM_DISABLE"] = "1"
    os.environ.pop("MPLBACKEND", None)
    client = NotebookClient(nb, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    return client.execute()


def clean_outputs(outputs: list[NotebookNode], count: int) -> list[NotebookNode]:
    """Outputs without stderr, widget views and empty shells; neighbouring stdout pieces become one."""
    kept: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream":
            if output.name == "stderr":
                continue
            if kept and kept[-1].output_type == "stream":
                kept[-1].text += output.text
                continue
        if output.output_type in ("display_data", "execute_result"):
            output.data.pop(WIDGET_VIEW, None)
            if not output.data:
                continue
            output.metadata = NotebookNode({k: v for k, v in output.metadata.items() if k in output.data})
        if output.output_type == "execute_result":
            output.execution_count = count
        kept.append(output)
    return kept


def clean(nb: NotebookNode) -> NotebookNode:
    """The same notebook with sequential counts, plain metadata and clean outputs; changes `nb` in place."""
    nb.nbformat, nb.nbformat_minor = 4, 5
    nb.metadata = NotebookNode({"kernelspec": NotebookNode(KERNEL), "language_info": NotebookNode(LANGUAGE)})
    seen: set[str] = set()
    count = 0
    for index, cell in enumerate(nb.cells):
        if not cell.get("id") or cell.id in seen:
            cell.id = f"cell-{index:02d}"
        seen.add(cell.id)
        cell.metadata = NotebookNode({k: v for k, v in cell.metadata.items() if k in KEPT_CELL_METADATA})
        cell.source = cell.source.rstrip()
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            cell.outputs = clean_outputs(cell.outputs, count)
    return nb


def dump(nb: NotebookNode) -> str:
    """The bytes that are stored: sorted keys, one indent, a newline at the end."""
    return nbformat.writes(nb).rstrip("\n") + "\n"


def problems(path: Path) -> list[str]:
    """What is not clean in a stored notebook, one sentence each; an empty list is a pass."""
    text = path.read_text(encoding="utf-8")
    nb = nbformat.reads(text, as_version=4)
    found = []
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    outputs = [(i, output) for i, cell in enumerate(code, 1) for output in cell.outputs]
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        found.append("execution counts are not 1, 2, 3, …: run it from top to bottom")
    if not outputs:
        found.append("no output is stored, so nbval would compare nothing")
    if "widgets" in nb.metadata:
        found.append("widget state is stored (metadata.widgets), which breaks the view on GitHub")
    for i, output in outputs:
        if output.output_type == "error":
            found.append(f"[{i}] stores an error: {output.ename}")
        if output.output_type == "stream" and output.name == "stderr":
            found.append(f"[{i}] stores stderr")
        data = output.get("data", {})
        if WIDGET_VIEW in data:
            found.append(f"[{i}] stores a widget view, which needs a kernel")
        if ADDRESS.search(str(output.get("text", "")) + str(data.get("text/plain", ""))):
            found.append(f"[{i}] prints a memory address, which differs in every run")
    if not found and dump(clean(nb)) != text:
        found.append("metadata or layout is not in the stored form")
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks; all of notebooks/ when none is named")
    parser.add_argument("--check", action="store_true", help="run nothing, report what is not clean")
    parser.add_argument("--clean", action="store_true", help="run nothing, clean what is stored")
    parser.add_argument("--timeout", type=int, default=600, help="seconds allowed for one cell (600)")
    args = parser.parse_args(argv)
    failed = False
    for path in args.paths or sorted(FOLDER.glob("*.ipynb")):
        if args.check:
            found = problems(path)
            failed |= bool(found)
            print(f"{path.name}: {'clean' if not found else ''}", *found, sep="\n  " if found else "")
            continue
        nb = nbformat.read(path, as_version=4)
        start = time.perf_counter()
        if not args.clean:
            nb = run(nb, path.resolve().parent, args.timeout)
        for i, cell in enumerate((c for c in nb.cells if c.cell_type == "code"), 1):
            for output in cell.outputs:
                if output.output_type == "stream" and output.name == "stderr":
                    print(f"{path.name} [{i}] wrote to stderr, which nbval will not accept:\n{output.text}")
        path.write_text(dump(clean(nb)), encoding="utf-8", newline="\n")
        print(f"{path.name}: stored, {time.perf_counter() - start:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
