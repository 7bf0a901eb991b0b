"""The pages around the notebooks: the glossary, the plans for teachers, the reading paths. Nothing is run here."""

import re
from pathlib import Path

import nbformat
import pytest

import mtp_tutorial as mt
from mtp_tutorial import records
from mtp_tutorial.drafters import DRAFTERS

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
GLOSSARY = (FOLDER / "GLOSSARY.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def slug(heading: str) -> str:
    """The fragment that GitHub and the site give a Markdown heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table_rows(text: str) -> list[list[str]]:
    """The cells of every table row, headers and rulers left out."""
    rows, lines = [], text.splitlines()
    for i, line in enumerate(lines):
        ruler = set(line) <= set("|- ")
        header = i + 1 < len(lines) and lines[i + 1].startswith("|-")
        if line.startswith("|") and not ruler and not header:
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


PAGES = [path for path in (FOLDER / "GLOSSARY.md", FOLDER / "TEACHING.md", ROOT / "README.md") if path.exists()]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path):
    text = path.read_text(encoding="utf-8")
    for link in LINK.findall(text):
        file, _, fragment = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        assert not file or (path.parent / file).exists(), f"{path.name} links to {link}"
        if fragment and not file:
            assert fragment in map(slug, re.findall(r"^#+ (.+)$", text, re.M)), f"{path.name} links to {link}"


def test_every_term_of_the_glossary_names_its_notebook():
    own = [row for row in table_rows(GLOSSARY) if len(row) == 3]  # the table of other engines' names has four columns
    assert len(own) > 80
    without = [row[0] for row in own if not re.search(r"\]\(\d\d_\w+\.ipynb\)", row[2])]
    assert not without, f"terms without a notebook: {without}"
    assert len({row[0] for row in own}) == len(own), "a term stands twice"


def words(name: str) -> set[str]:
    """The lower-case text of a notebook's cells."""
    nb = nbformat.read(FOLDER / name, as_version=4)
    return re.sub(r"[*`]", "", "\n".join(cell.source for cell in nb.cells)).lower()


def test_the_notebook_of_a_term_uses_it():
    """The first notebook that a term links to has one of its words. A term that nobody explains would slip in here."""
    texts, missing = {}, []
    for term, _, links in (row for row in table_rows(GLOSSARY) if len(row) == 3):
        name = re.search(r"\]\((\d\d_\w+\.ipynb)\)", links)[1]
        text = texts.setdefault(name, words(name))
        plain = re.sub(r"[`*)]|generation\.|round\.", "", term.lower())
        names = [word.strip() for word in re.split(r"[,(]", plain)]
        if not any(word in text for word in names if word not in ("", "…")):
            missing.append((term, name))
    assert not missing, f"not in the notebook it links to: {missing}"


def properties(kind: type) -> list[str]:
    return [f"{kind.__name__}.{name}" for name, value in vars(kind).items() if isinstance(value, property)]


PUBLIC = [name for name in mt.__all__ if name[0].isupper()]
TERMS = [*PUBLIC, *properties(mt.Generation), *properties(mt.Round), *records.KINDS, *mt.RULES]


@pytest.mark.parametrize("term", TERMS)
def test_the_glossary_has_the_public_names(term):
    assert f"`{term}`" in GLOSSARY


@pytest.mark.parametrize("name", sorted(DRAFTERS))
def test_the_glossary_has_every_drafter(name):
    said = {
        "mtp": "MTP head",
        "joined": "n-gram, then a head",
        "draft": "draft model",
        "ngram": "n-gram",
        "eagle": "EAGLE",
        "gated_lora": "gated LoRA",
    }
    assert re.search(rf"^\| {said.get(name, name)}\b", GLOSSARY, re.M | re.I)


def test_the_glossary_says_which_letter_is_which():
    rows = {row[0]: row[1] for row in table_rows(GLOSSARY)}
    assert rows["p"].startswith("The target's") and "drafter" in rows["q"]
