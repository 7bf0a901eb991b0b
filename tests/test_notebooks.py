"""The stored notebooks: clean outputs, the course's shape, links that lead somewhere. Nothing is run here."""

import importlib.util
import re
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
HEADINGS = ["predict", "explore", "exercise", "break it", "recap"]  # as words of a heading, in this order

spec = importlib.util.spec_from_file_location("notebook_tool", ROOT / "tools" / "notebooks.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def read(path: Path):
    return nbformat.read(path, as_version=4)


def pictures(nb) -> int:
    outputs = [output for cell in nb.cells if cell.cell_type == "code" for output in cell.outputs]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def headings(nb) -> list[str]:
    text = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    return [line.lstrip("# ").lower() for line in text.splitlines() if re.match(r"#{1,4} ", line)]


@each_notebook
def test_is_clean(path):
    assert tool.problems(path) == [], f"run: python tools/notebooks.py notebooks/{path.name}"


@each_notebook
def test_is_valid(path):
    nbformat.validate(read(path))


@each_notebook
def test_has_the_size_of_a_lesson(path):
    cells = read(path).cells
    long = [i for i, c in enumerate(cells) if c.cell_type == "code" and len(c.source.splitlines()) > 15]
    assert 15 <= len(cells) <= 30
    assert not long, f"code cells of more than 15 lines (counted from 0): {long}"


@each_notebook
def test_shows_pictures_without_a_kernel(path):
    assert pictures(read(path)) >= 2


@each_notebook
def test_follows_the_template(path):
    nb = read(path)
    first = nb.cells[0]
    assert first.cell_type == "markdown" and first.source.startswith("# ")
    assert re.search(r"\bminutes?\b", first.source), "the first cell says how many minutes it takes"
    if not path.stem.startswith("00_"):  # the first one is a set-up check, with a shape of its own
        titles = headings(nb)
        missing = [word for word in HEADINGS if not any(word in title for title in titles)]
        assert not missing, f"no heading with: {missing}"


def prose(nb) -> str:
    """The markdown cells without their code blocks and code spans, where brackets are no links."""
    text = "\n\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


def anchors(path: Path) -> set[str]:
    """The fragments that JupyterLab gives to a notebook's headings: as written, with - for spaces."""
    lines = prose(read(path)).splitlines()
    return {re.sub(r"^#+ ", "", line).strip().replace(" ", "-") for line in lines if re.match(r"#{1,4} ", line)}


@each_notebook
def test_local_links_lead_somewhere(path):
    for link in re.findall(r"\]\(([^)\s]+)[^)]*\)|(?:src|href)=\"([^\"]+)\"", prose(read(path))):
        file, _, fragment = unquote(next(filter(None, link))).partition("#")
        if re.match(r"[a-z]+:", file):
            continue
        target = path.parent / file if file else path
        assert target.exists(), f"broken link: {file}"
        if fragment and target.suffix == ".ipynb":
            assert fragment in anchors(target), f"no such heading: {file}#{fragment}"


@each_notebook
def test_every_picture_is_told_in_words(path):
    nb = read(path)
    for index, cell in enumerate(nb.cells):
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                about = output.metadata.get("image/png", {})
                assert len(about.get("alt", "").split()) >= 3, (
                    f"cell {index} (from 0): a picture without alternative text"
                )
                assert {"width", "height"} <= set(about), f"cell {index}: a picture without a size"
    for image in re.findall(r"<img[^>]*>", prose(nb)):
        assert re.search(r'alt="[^"]+"', image), f"without alternative text: {image}"
    assert "![](" not in prose(nb), "an image without alternative text"


@each_notebook
def test_nothing_on_a_page_comes_from_elsewhere(path):
    """Links may lead away; pictures, scripts and styles may not: a page must read the same without network."""
    for cell in read(path).cells:
        outputs = [str(output.get("data", {}).get("text/html", "")) for output in cell.get("outputs", [])]
        text = "".join(outputs) + (cell.source if cell.cell_type == "markdown" else "")
        assert not re.search(r"<(?:img|script|link|iframe)[^>]*(?:src|href)=|!\[[^\]]*\]\(https?:|url\(http", text)


@each_notebook
def test_has_three_exercises_with_their_minutes_and_a_folded_solution(path):
    text = "\n\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    exercises = re.split(r"^### Exercise ", text, flags=re.M)[1:]
    assert len(exercises) >= 3
    for exercise in exercises:
        title, *_ = exercise.splitlines()
        assert re.search(r"\((easy|medium|hard), \d+ minutes\)$", title), f"difficulty and minutes are missing: {title}"
        assert "<summary>Solution" in exercise, f"no folded solution: {title}"


@each_notebook
def test_folds_are_closed_and_sources_are_python(path):
    nb = read(path)
    text = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>") == text.count("</summary>")
    for cell in nb.cells:
        if cell.cell_type == "code":
            compile(cell.source, path.name, "exec")


def test_readme_table_and_folder_agree():
    linked = set(re.findall(r"\]\((notebooks/[^)]+\.ipynb)\)", README))
    assert linked == {f"notebooks/{p.name}" for p in NOTEBOOKS}


# --- the tool itself ------------------------------------------------------------------------------


def example(*outputs, count=1):
    cell = nbformat.v4.new_code_cell("1", execution_count=count, outputs=list(outputs), id="a")
    return nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {"state": {}}, "title": "x"})


PANEL = {tool.WIDGET_VIEW: {"model_id": "ab"}, "image/png": "aGk=", "text/plain": "Panel"}


def test_clean_keeps_the_picture_of_a_widget_and_drops_its_view():
    nb = tool.clean(example(nbformat.v4.new_output("execute_result", PANEL, execution_count=9), count=9))
    (output,) = nb.cells[0].outputs
    assert set(output.data) == {"image/png", "text/plain"}
    assert nb.cells[0].execution_count == output.execution_count == 1
    assert set(nb.metadata) == {"kernelspec", "language_info"}


def test_clean_drops_stderr_and_joins_stdout():
    stream = [nbformat.v4.new_output("stream", name=n, text=t) for n, t in [("stdout", "a"), ("stderr", "b")] * 2]
    (output,) = tool.clean(example(*stream)).cells[0].outputs
    assert (output.name, output.text) == ("stdout", "aa")


def test_clean_twice_gives_the_same_bytes():
    once = tool.dump(tool.clean(example(nbformat.v4.new_output("display_data", PANEL))))
    assert tool.dump(tool.clean(nbformat.reads(once, as_version=4))) == once


@pytest.mark.parametrize(
    ("nb", "word"),
    [
        (example(nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[])), "error"),
        (example(nbformat.v4.new_output("display_data", PANEL)), "widget view"),
        (example(nbformat.v4.new_output("stream", name="stderr", text="x")), "stderr"),
        (example(nbformat.v4.new_output("stream", text="<object at 0x7f1234567890>")), "address"),
        (example(nbformat.v4.new_output("stream", text="x"), count=3), "counts"),
        (example(), "no output"),
    ],
    ids=["error", "widget", "stderr", "address", "counts", "no-output"],
)
def test_problems_are_found(nb, word, tmp_path):
    path = tmp_path / "x.ipynb"
    path.write_text(tool.dump(nb), encoding="utf-8")
    assert any(word in problem for problem in tool.problems(path))


def test_run_stores_a_clean_notebook_and_stops_at_an_error(tmp_path):
    path = tmp_path / "x.ipynb"
    code = "import os, sys\nprint(len(os.listdir()))\nprint('bar', file=sys.stderr)\n1 + 1"
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    path.write_text(tool.dump(nb), encoding="utf-8")
    assert tool.main([str(path)]) == 0
    assert tool.problems(path) == []
    first = path.read_bytes()
    assert [o.get("text") or o.data["text/plain"] for o in read(path).cells[0].outputs] == ["1\n", "2"]
    assert tool.main([str(path)]) == 0 and path.read_bytes() == first
    nb.cells[0].source = "1 / 0"
    path.write_text(tool.dump(nb), encoding="utf-8")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        tool.main([str(path)])
