"""Build the course as static pages that open from the file system, without network, kernel or server.

    python tools/site.py                 write site/, with every slider's pictures (a minute or two); 00's show the
                                         real model, which is fetched (93 MB) where it is not at hand
    python tools/site.py --no-frames     the same without sliders, in seconds
    python tools/site.py --out FOLDER

Takes: README.md, the notebooks as they are stored, and the Markdown files they link to.  Returns: a folder of HTML.
Must not know: how a picture is drawn (see site_frames.py). It runs no notebook.
"""

from __future__ import annotations

import argparse
import base64
import html
import os
import posixpath
import re
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jinja2
import nbformat
import site_frames
from latex2mathml.converter import convert
from nbconvert.filters import ansi2html
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

ROOT = Path(__file__).resolve().parents[1]
ASSETS = Path(__file__).resolve().parent / "site_assets"
PARTS = ("", "Reading paths", "Notebooks")  # of README.md: what stands before its first section, and two sections
EXTRA = {"notebooks/TEACHING.md": "For teachers", "notebooks/GLOSSARY.md": "Glossary"}
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.I)
HEADING = re.compile(r'<h2 id="([^"]*)">(.*?) <a class="here"')
ATTRIBUTE = re.compile(r"""(\s(?:src|href)=")([^"]+)(")""")


def page_of(source: str) -> str:
    """Where a file of the repository lies in the site: its own path, as .html if it is turned into a page.

    >>> page_of("README.md"), page_of("notebooks/00_start_here.ipynb"), page_of("LICENSE")
    ('index.html', 'notebooks/00_start_here.html', 'LICENSE')
    """
    if source == "README.md":
        return "index.html"
    return re.sub(r"\.(ipynb|md)$", ".html", source)


def mathml(formula: str, display: str = "inline") -> str:
    """LaTeX → MathML, with words in one piece and a small gap behind log, ln and exp, as LaTeX has them."""
    text = convert(formula.strip(), display=display)
    letters = r'<mrow>((?:<mi mathvariant="normal">[A-Za-z]</mi>){2,})</mrow>'
    text = re.sub(letters, lambda m: f"<mi>{re.sub('<[^>]+>', '', m[1])}</mi>", text)
    return re.sub(r"(<mi>(?:log|ln|exp)</mi>)(?=<m[isn])", r'\1<mspace width="0.167em" />', text)


@dataclass
class Site:
    """A build under way. ``wanted``: files that pages link to; each is built or copied once. ``broken``: links that
    lead nowhere, in words."""

    root: Path
    out: Path
    wanted: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=dict)  # href → title, in the order of the course

    def __post_init__(self) -> None:
        loader = jinja2.FileSystemLoader(ASSETS)
        self.templates = jinja2.Environment(loader=loader, autoescape=True, keep_trailing_newline=True)

    def link(self, url: str, source: str) -> str:
        """A link as the page of ``source`` needs it. One that leads to no file of the repository stays as it is."""
        if ELSEWHERE.match(url) or url.startswith("#"):
            return url
        path, mark, fragment = url.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), unquote(path)))
        if target.startswith("..") or not (self.root / target).exists():
            self.broken.append(f"{source} links to {url}, which is not there")
            return url
        if (self.root / target).is_dir():
            target = posixpath.join(target, "README.md")
        if target not in self.wanted:
            self.wanted.append(target)
        return posixpath.relpath(page_of(target), posixpath.dirname(page_of(source)) or ".") + mark + fragment


class Renderer(IPythonRenderer):
    """Markdown → HTML: formulas as MathML, which browsers draw themselves; links as the site needs them."""

    def __init__(self, site: Site, source: str) -> None:
        super().__init__(escape=False, exclude_anchor_links=True)
        self.site, self.source, self.seen = site, source, set()

    def block_math(self, body: str) -> str:
        return mathml(body, "block")

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def heading(self, text: str, level: int, **attrs: object) -> str:
        words = plain(text)
        name = words.replace(" ", "-")  # as JupyterLab names it; GitHub's Markdown does it otherwise
        if self.source.endswith(".md"):
            name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        while name in self.seen:
            name += "-1"
        self.seen.add(name)
        name = html.escape(name)
        here = f' <a class="here" href="#{name}" aria-label="link to this section">¶</a>'
        return f'<h{level} id="{name}">{text}{here}</h{level}>\n'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        return super().link(text, self.site.link(url, self.source), title)

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return super().image(text, self.site.link(url, self.source), title)

    def block_html(self, html: str) -> str:
        return self._links(html)

    def inline_html(self, html: str) -> str:
        return self._links(html)

    def _links(self, text: str) -> str:
        return ATTRIBUTE.sub(lambda m: m[1] + self.site.link(m[2], self.source) + m[3], text)


def markdown(site: Site, source: str, text: str, renderer: Renderer | None = None) -> str:
    """HTML of Markdown text that stands in the file ``source``; wide tables scroll by themselves."""
    text = MarkdownWithMath(renderer=renderer or Renderer(site, source)).render(text)
    return text.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")


def plain(text: str) -> str:
    """The words of a piece of HTML.

    >>> plain("<code>k</code> &amp; more")
    'k & more'
    """
    return html.unescape(re.sub(r"<[^>]+>", "", text)).strip()


def sections(text: str) -> dict[str, str]:
    """Heading → section, of a Markdown file; '' is what stands before the first ``##``.

    >>> sections("# a" + chr(10) + "b" + chr(10) + "## c" + chr(10) + "d")
    {'': '# a\\nb', 'c': '## c\\nd'}
    """
    parts = re.split(r"^(?=## )", text, flags=re.M)
    return {part.splitlines()[0].removeprefix("## ").strip() if i else "": part.strip() for i, part in enumerate(parts)}


def output_html(site: Site, stem: str, output: nbformat.NotebookNode, number: int) -> str:
    """One stored output: a picture as a file beside the pages, else HTML, else text."""
    if output.output_type == "stream":
        return f"<pre>{ansi2html(output.text)}</pre>"
    data = output.get("data", {})
    if "image/png" in data:
        about = output.get("metadata", {}).get("image/png", {})
        name = f"pictures/{stem}-{number:02d}.png"
        (site.out / "notebooks" / "pictures").mkdir(parents=True, exist_ok=True)
        (site.out / "notebooks" / name).write_bytes(base64.b64decode(data["image/png"]))
        size = "".join(f' {side}="{about[side]}"' for side in ("width", "height") if side in about)
        return f'<img src="{name}" alt="{html.escape(about.get("alt", "a picture"))}"{size} loading="lazy">'
    if "text/html" in data:
        text = str(data["text/html"])
        return "" if text.startswith("<style>") else text  # that one is for JupyterLab
    return f"<pre>{ansi2html(str(data.get('text/plain', '')))}</pre>"


def slider_panel(slider: site_frames.Slider, output: nbformat.NotebookNode) -> Any:
    """The panel of a slider where ``output`` is its stored picture; None where that picture has to stay."""
    if "image/png" not in output.get("data", {}):
        return None
    try:
        panel = slider.panel()
    except (OSError, ValueError) as error:
        if not slider.run:
            raise
        print(f"{slider.find}…) stays as it is stored: {error}", file=sys.stderr)
        return None
    stored = output.get("metadata", {}).get("image/png", {}).get("alt")
    if slider.run and panel.alt != stored:
        print(f"{slider.find}…) stays as it is stored: the model generated another text here", file=sys.stderr)
        return None
    return panel


def notebook(site: Site, source: str, frames: bool) -> tuple[str, str]:
    """(title, HTML) of a stored notebook. With ``frames`` its panels get sliders where ``SLIDERS`` has them."""
    nb, stem = nbformat.read(site.root / source, as_version=4), Path(source).stem
    renderer, body, number = Renderer(site, source), [], 0
    sliders = list(site_frames.SLIDERS.get(stem, ())) if frames else []
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            body.append(markdown(site, source, cell.source, renderer))
            continue
        shown = []
        slider = next((one for one in sliders if one.find in cell.source), None)
        if slider:
            sliders.remove(slider)
        for output in cell.outputs:
            number += 1
            panel = slider_panel(slider, output) if slider else None
            if panel:
                page, folder = site.templates.get_template("frames.html"), site.out / "notebooks" / "pictures"
                key = f"{stem}-slider-{number:02d}"
                shown.append(site_frames.write(panel, slider.values, folder, "pictures", key, page))
            else:
                shown.append(output_html(site, stem, output, number))
        code = highlight(cell.source, PythonLexer(), HtmlFormatter())
        said = f'<div class="output">{"".join(shown)}</div>' if shown else ""
        body.append(f'<div class="cell">{code}{said}</div>')
    if sliders:
        raise ValueError(f"{source} has no cell with {sliders[0].find!r}: mend SLIDERS in tools/site_frames.py")
    title = next(cell.source for cell in nb.cells if cell.cell_type == "markdown").splitlines()[0].lstrip("# ")
    return title, "\n".join(body)


def start_page(site: Site) -> tuple[str, str]:
    """(title, HTML) of README.md: what it is, the reading paths, the table of notebooks."""
    parts = sections((site.root / "README.md").read_text(encoding="utf-8"))
    chosen = [parts[name] for name in PARTS if name in parts]
    more = [f"- [{title}]({path})" for path, title in EXTRA.items() if (site.root / path).exists()]
    return "mtp_tutorial", markdown(site, "README.md", "\n\n".join([*chosen, *more]))


def build(root: Path = ROOT, out: Path = ROOT / "site", frames: bool = True) -> Site:
    """Write the whole site into ``out``, emptied first. Raises ValueError when ``out`` holds something else."""
    if out.exists() and any(out.iterdir()) and not (out / "assets" / "frames.js").exists():
        raise ValueError(f"{out} holds something else than a site: name an empty folder")
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(ASSETS, out / "assets", ignore=shutil.ignore_patterns("*.html"))
    light, dark = (HtmlFormatter(style=name).get_style_defs(".highlight") for name in ("default", "github-dark"))
    code = f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
    (out / "assets" / "code.css").write_text(code, encoding="utf-8")

    notebooks = sorted(path.relative_to(root).as_posix() for path in (root / "notebooks").glob("*.ipynb"))
    course = ["README.md", *notebooks, *(path for path in EXTRA if (root / path).exists())]
    site = Site(root, out, wanted=list(course))
    made: dict[str, tuple[str, str]] = {}
    for source in site.wanted:  # grows while pages are made
        if source == "README.md":
            made[source] = start_page(site)
        elif source.endswith(".ipynb"):
            made[source] = notebook(site, source, frames)
        elif source.endswith(".md"):
            text = (root / source).read_text(encoding="utf-8")
            made[source] = (sections(text)[""].splitlines() or [source])[0].lstrip("# "), markdown(site, source, text)
        else:
            (out / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / source, out / source)
    for source in course:
        site.pages[page_of(source)] = EXTRA.get(source, "Start" if source == "README.md" else made[source][0])
    for source, (title, body) in made.items():
        write_page(site, source, title, body, notebooks)
    return site


def write_page(site: Site, source: str, title: str, body: str, notebooks: list[str]) -> None:
    """One page: the body between the course's navigation and the way to the next notebook."""
    href, beside = page_of(source), {}
    if source in notebooks:
        at = notebooks.index(source)
        near = {"before": at - 1, "after": at + 1}
        hrefs = {word: page_of(notebooks[i]) for word, i in near.items() if 0 <= i < len(notebooks)}
        beside = {word: {"href": one, "title": site.pages[one]} for word, one in hrefs.items()}
    gaps = [page_of(notebooks[0]) if notebooks else "", page_of(next(iter(EXTRA)))]
    links = [{"href": one, "title": words, "gap": one in gaps} for one, words in site.pages.items()]
    headings = [{"id": html.unescape(name), "words": plain(words)} for name, words in HEADING.findall(body)]
    page = site.templates.get_template("page.html").render(
        title=title, body=jinja2.utils.markupsafe.Markup(body), href=href, links=links, headings=headings,
        up="../" * href.count("/"), source=source if source in notebooks else "", **beside,
    )  # fmt: skip
    (site.out / href).parent.mkdir(parents=True, exist_ok=True)
    (site.out / href).write_text(page, encoding="utf-8", newline="\n")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="the folder to write (site/)")
    parser.add_argument("--no-frames", action="store_true", help="no sliders: each panel as it is stored")
    args = parser.parse_args(argv)
    os.environ.pop("MPLBACKEND", None)
    start = time.perf_counter()
    site = build(out=args.out, frames=not args.no_frames)
    files = [path for path in args.out.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    print(
        f"{len(site.pages)} pages of the course, {len(files)} files, {size:.1f} MB, {time.perf_counter() - start:.0f} s"
    )
    print(*site.broken, f"open {args.out / 'index.html'}", sep="\n")
    return int(bool(site.broken))


if __name__ == "__main__":
    sys.exit(main())
