"""The static site: links, formulas and pre-drawn sliders of a small course. `make site` builds the whole of it."""

import importlib.util
import json
import re
import sys
from html import unescape
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("latex2mathml", reason="the site's packages are missing: pip install -e '.[site]'")
from mtp_tutorial import show
from mtp_tutorial.show.picture import PAGE_STYLE

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))  # for site_frames
spec = importlib.util.spec_from_file_location("course_site", ROOT / "tools" / "site.py")
site = importlib.util.module_from_spec(spec)
sys.modules["course_site"] = site  # dataclasses look their module up
spec.loader.exec_module(site)
frames = site.site_frames

README = """# A course
Hello.

## Start
not shown

## Notebooks

| notebook | what |
|---|---|
| [00_a](notebooks/00_a.ipynb) | a |
"""
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = r"""# 00 · A

With $p_i$ as $\log p$, see [the next](01_b.ipynb#Recap), [the words](GLOSSARY.md#the-words) and [there](https://example.org/x.ipynb).

$$\frac{\mathrm{enorm}(a)}{b}$$

<details><summary>Solution</summary>

<a href="01_b.ipynb">again</a>
</details>
"""  # noqa: E501


@pytest.fixture
def course(tmp_path):
    root = tmp_path / "course"
    (root / "notebooks").mkdir(parents=True)
    (root / "README.md").write_text(README, encoding="utf-8")
    (root / "notebooks" / "GLOSSARY.md").write_text("# Glossary\n\n## The words\n\nToken, [data](data.csv).\n")
    (root / "notebooks" / "data.csv").write_text("1,2\n")
    v4 = nbformat.v4
    picture = v4.new_output("execute_result", {"image/png": PNG, "text/plain": "<Panel x>"}, execution_count=1)
    picture.metadata = {"image/png": {"alt": "one <dot>", "width": 9, "height": 9}}
    printed = v4.new_output("stream", text="a < b\n")
    cells = [v4.new_markdown_cell(TEXT), v4.new_code_cell("show.segment_panel()", outputs=[printed, picture])]
    nbformat.write(v4.new_notebook(cells=cells), root / "notebooks" / "00_a.ipynb")
    nbformat.write(
        v4.new_notebook(cells=[v4.new_markdown_cell("# 01 · B\n\n## Recap")]), root / "notebooks" / "01_b.ipynb"
    )
    return root


def pages(out: Path) -> dict[str, str]:
    return {path.relative_to(out).as_posix(): path.read_text(encoding="utf-8") for path in out.rglob("*.html")}


def links(text: str) -> list[str]:
    found = re.findall(r'\s(?:src|href)="([^"]+)"', text)
    for data in re.findall(r'<script type="application/json">(.*?)</script>', text, re.S):
        found += [frame["src"] for frame in json.loads(data)]
    return [unescape(link) for link in found]


def assert_closed(out: Path) -> None:
    """Every link leads to a file of the site, and every fragment to an id of the page."""
    made = pages(out)
    for name, text in made.items():
        for link in links(text):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, fragment = link.partition("#")
            target = (out / name).parent / path if path else out / name
            assert target.resolve().is_file(), f"{name} links to {link}"
            if fragment and target.suffix == ".html":
                assert f'id="{fragment}"' in made[target.resolve().relative_to(out.resolve()).as_posix()], link


SEGMENT = {"00_a": [frames.Slider("show.segment_panel(", show.segment_panel, {"temperature": [0.0, 1.0], "u": [0.9]})]}


def test_a_small_course(course, tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "SLIDERS", SEGMENT)
    out = tmp_path / "site"
    built = site.build(course, out)
    assert list(built.pages) == ["index.html", "notebooks/00_a.html", "notebooks/01_b.html", "notebooks/GLOSSARY.html"]
    assert_closed(out)
    start, page = (pages(out)[name] for name in ("index.html", "notebooks/00_a.html"))
    assert "Hello." in start and "not shown" not in start
    assert 'href="01_b.html#Recap"' in page and 'href="https://example.org/x.ipynb"' in page
    assert '<a href="01_b.html">again</a>' in page, "links inside raw HTML lead to pages, too"
    assert page.count("<math") == 3 and "<mi>enorm</mi>" in page and "$" not in page
    assert "a &lt; b" in page and (out / "notebooks" / "data.csv").read_text() == "1,2\n"
    assert str(tmp_path) not in "".join(pages(out).values()) + "".join(p.read_text() for p in out.rglob("*.css"))


def test_a_page_lists_its_sections_under_its_own_link(course, tmp_path):
    site.build(course, tmp_path / "site", frames=False)
    page = pages(tmp_path / "site")["notebooks/01_b.html"]
    (own,) = re.findall(r'aria-current="page">01 · B</a>(.*?)</li>\s*</ul>', page, re.S)
    assert '<a href="#Recap">Recap</a>' in own and page.count('href="#Recap">Recap') == 1
    assert "<summary>Contents · 01 · B</summary>" in page, "what a narrow page folds it into"


def test_outputs_that_style_jupyterlab_stay_out(course, tmp_path):
    path = course / "notebooks" / "00_a.ipynb"
    nb = nbformat.read(path, as_version=4)
    nb.cells[1].outputs.insert(0, nbformat.v4.new_output("display_data", {"text/html": PAGE_STYLE}))
    nbformat.write(nb, path)
    site.build(course, tmp_path / "site", frames=False)
    assert "jp-needs-light-background" not in pages(tmp_path / "site")["notebooks/00_a.html"]


def test_code_and_page_have_dark_colours(course, tmp_path):
    site.build(course, tmp_path / "site", frames=False)
    for name in ("style.css", "code.css"):
        assert "@media (prefers-color-scheme: dark)" in (tmp_path / "site" / "assets" / name).read_text()
    pictures = (tmp_path / "site" / "assets" / "style.css").read_text()
    assert "invert(.933) hue-rotate(180deg)" in pictures, "as in JupyterLab's dark theme"


@pytest.mark.parametrize("fault", ["another text", "no model"])
def test_a_run_that_cannot_be_repeated_keeps_its_stored_picture(course, tmp_path, monkeypatch, fault):
    def panel():
        if fault == "no model":
            raise OSError("not here, and no network")
        return show.segment_panel()  # its words differ from those stored

    monkeypatch.setattr(frames, "SLIDERS", {"00_a": [frames.Slider("show.segment_panel(", panel, run=True)]})
    site.build(course, tmp_path / "site")
    page = pages(tmp_path / "site")["notebooks/00_a.html"]
    assert 'alt="one &lt;dot&gt;"' in page and "<input" not in page


def test_without_names_every_control_runs_through_all_its_values():
    (only,) = frames.controls(show.museum_panel("R1"), {})
    assert len(only.values) == len(only.words) > 20 and only.values[only.at] == "R1"
    step, layers, accepted = frames.controls(show.steps_panel(), {})
    assert [len(one.values) for one in (step, layers, accepted)] == [5, 2, 4]


def test_frames_are_ordered_as_the_script_reads_them(course, tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "SLIDERS", SEGMENT)
    site.build(course, tmp_path / "site")
    page = pages(tmp_path / "site")["notebooks/00_a.html"]
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', page, re.S)
    words = [json.loads(unescape(one)) for one in re.findall(r'data-words="([^"]+)"', page)]
    assert words == [["0", "0.6", "1"], ["0.3", "0.9"]], "the panel's own values are among the stops"
    for at, frame in enumerate(json.loads(data)):
        temperature, u = float(words[0][at // 2]), float(words[1][at % 2])
        panel = show.segment_panel(temperature=temperature, u=u)
        assert frame["alt"] == panel.alt
        assert (tmp_path / "site" / "notebooks" / frame["src"]).read_bytes() == panel.png
    assert '<label for="00_a-slider-02-u">' in page and 'id="00_a-slider-02-u"' in page
    shown = re.search(r'<img src="([^"]+)" alt="([^"]+)" width="900"', page)
    start = json.loads(data)[1 * 2 + 0]
    assert [unescape(one) for one in shown.groups()] == [start["src"], start["alt"]]


def test_without_frames_the_stored_picture_stays(course, tmp_path):
    site.build(course, tmp_path / "site", frames=False)
    page = pages(tmp_path / "site")["notebooks/00_a.html"]
    assert 'alt="one &lt;dot&gt;" width="9" height="9"' in page and "<input" not in page
    assert_closed(tmp_path / "site")


def test_a_broken_link_is_reported(course, tmp_path):
    assert site.build(course, tmp_path / "site", frames=False).broken == []
    (course / "notebooks" / "GLOSSARY.md").write_text("# Glossary\n\n[away](nowhere.md)\n")
    broken = site.build(course, tmp_path / "site", frames=False).broken
    assert "notebooks/GLOSSARY.md links to nowhere.md, which is not there" in broken


def test_a_folder_with_other_things_is_left_alone(course, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(ValueError, match="something else"):
        site.build(course, tmp_path / "mine")


def test_a_control_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="no control named 'heat'; this panel has: temperature, u"):
        frames.controls(show.segment_panel(), {"heat": [1]})


EACH = [
    pytest.param(stem, one, id=f"{stem[:2]}-{one.find}", marks=[pytest.mark.smollm2] if one.run else [])
    for stem, sliders in frames.SLIDERS.items()
    for one in sliders
]


@pytest.mark.parametrize(("stem", "slider"), EACH)
def test_a_slider_starts_with_the_picture_of_its_notebook(stem, slider):
    nb = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", as_version=4)
    cells = [cell for cell in nb.cells if cell.cell_type == "code" and slider.find in cell.source]
    assert len(cells) == 1
    (stored,) = [o for o in cells[0].outputs if "image/png" in o.get("data", {})]
    panel = slider.panel()
    assert repr(panel) == stored.data["text/plain"] or slider.run  # whose text other processors may round otherwise
    assert panel.alt == stored.metadata["image/png"]["alt"] or slider.run
    for control in frames.controls(panel, slider.values):
        widget = panel._controls[control.name]
        if hasattr(widget, "min"):
            assert widget.min <= min(control.values) and max(control.values) <= widget.max
