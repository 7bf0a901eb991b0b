"""A real JupyterLab in headless Chromium: run a notebook, move a slider by keyboard, see the picture change; open it
again without its kernel, in the dark theme and in a narrow window."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
#: notebook → the slider that is moved, by its label. Notebooks that run in a few seconds.
SLIDERS = {
    "01_logits_temperature_sampling": "temperature T",
    "03_draft_and_verify": "row (0: all)",
    "04_lossless_sampling": "coin",
    "08_the_repetition_bug": "runs looked at",
}
SMALL = (
    "from mtp_tutorial import show",
    "show.position_panel([0.8, 0.6], alpha=0.8)",
    "show.figure(show.draw_mask)",
)
CHROMIUM = os.environ.get("MTP_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
CHROMIUM = CHROMIUM or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
# Said by JupyterLab and the browser in every session, whatever the notebook does.
NOISE = re.compile(r"favicon|ERR_INTERNET_DISCONNECTED|ERR_NAME_NOT_RESOLVED|ERR_CONNECTION_REFUSED.*(jupyter|pypi)")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium found; install it or name it in MTP_CHROMIUM"),
]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab with private settings, serving copies of the notebooks; stopped afterwards."""
    tmp_path = tmp_path_factory.mktemp("lab")
    root, settings = tmp_path / "root", tmp_path / "settings"
    root.mkdir()
    settings.mkdir()
    for name in SLIDERS:
        shutil.copy(FOLDER / f"{name}.ipynb", root)
    cells = [nbformat.v4.new_code_cell(source) for source in SMALL]
    nb = nbformat.v4.new_notebook(cells=cells)
    nb.metadata.kernelspec = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    nbformat.write(nb, root / "small.ipynb")
    quiet = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
    (settings / "overrides.json").write_text(json.dumps(quiet))
    private = ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR"]
    env = {k: v for k, v in os.environ.items() if k != "MPLBACKEND"} | {k: str(tmp_path / k) for k in private}
    port = free_port()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=t"]
    command += [f"--ServerApp.root_dir={root}", f"--LabApp.app_settings_dir={settings}"]
    with open(tmp_path / "server.log", "w") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT, cwd=root)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{url}/api?token=t", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "server.log").read_text()
                time.sleep(0.25)
        yield url
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def open_notebook(page, lab, name):
    page.goto(f"{lab}/lab/tree/{name}.ipynb?reset&token=t")
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)


def run_all(page, last):
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.locator(".jp-CodeCell .jp-InputPrompt", has_text=f"[{last}]:").wait_for(timeout=180_000)


def pictures(page):
    return page.locator(".jp-OutputArea-output img:visible")


def style(locator, name):
    return locator.evaluate("(element, name) => getComputedStyle(element)[name]", name)


def test_a_reopened_notebook_keeps_its_pictures_in_any_theme_and_width(lab, browser):
    from playwright.sync_api import expect

    page = browser.new_page(viewport={"width": 1400, "height": 1400})
    open_notebook(page, lab, "small")
    run_all(page, len(SMALL))
    panel = page.locator(".jp-OutputArea-output .mtp-panel img")
    expect(panel).to_be_visible()
    expect(pictures(page)).to_have_count(2)  # the stored one hides behind the living panel
    for label in page.locator(".mtp-panel .widget-label").all():
        assert label.evaluate("e => e.scrollWidth <= e.clientWidth"), f"cut off: {label.text_content()}"
    page.set_viewport_size({"width": 900, "height": 1400})
    box, room = panel.bounding_box(), page.locator(".mtp-panel").bounding_box()
    assert box["width"] <= room["width"] < 700 and box["height"] == pytest.approx(box["width"] * 410 / 900, abs=2)
    dark = "document.body.dataset.jpThemeLight = 'false'"
    page.evaluate(dark)
    assert all("invert" in style(picture, "filter") for picture in pictures(page).all())

    with page.expect_response(lambda answer: answer.request.method == "PUT" and "small.ipynb" in answer.url):
        page.keyboard.press("Control+s")
    page.close()
    with urllib.request.urlopen(f"{lab}/api/sessions?token=t", timeout=20) as answer:
        for session in json.load(answer):
            gone = urllib.request.Request(f"{lab}/api/sessions/{session['id']}?token=t", method="DELETE")
            urllib.request.urlopen(gone, timeout=20).close()

    page = browser.new_page(viewport={"width": 1400, "height": 1400})
    open_notebook(page, lab, "small")
    missing = page.get_by_text("model not found")
    expect(missing).to_have_count(1)  # the dead widget, which shows another sentence in place of this one
    assert style(missing, "fontSize") == "0px"
    expect(pictures(page)).to_have_count(2)
    assert all(style(picture, "filter") == "none" for picture in pictures(page).all())
    page.evaluate(dark)
    assert all("invert" in style(picture, "filter") for picture in pictures(page).all())
    if folder := os.environ.get("MTP_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "reopened-dark.png")
    page.close()


@pytest.mark.parametrize("name", SLIDERS)
def test_run_all_then_a_key_on_a_slider_moves_the_picture(lab, browser, name):
    from playwright.sync_api import expect

    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    last = sum(cell.cell_type == "code" for cell in cells)
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    errors = []
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: errors.append(str(e)))
    open_notebook(page, lab, name)
    run_all(page, last)

    labelled = page.locator(".widget-inline-hbox", has=page.get_by_text(SLIDERS[name], exact=True))
    panel = page.locator(".jp-OutputArea-output .widget-vbox", has=labelled).first
    panel.scroll_into_view_if_needed()
    slider, picture = panel.locator(labelled).get_by_role("slider"), panel.locator("img")
    words = panel.get_by_role("status")  # what a screen reader says
    expect(picture).to_be_visible()
    before, value, said = picture.get_attribute("src"), slider.get_attribute("aria-valuetext"), words.text_content()
    assert slider.get_attribute("tabindex") == "0", "the Tab key reaches it"
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(slider).not_to_have_attribute("aria-valuetext", value)
    expect(picture).not_to_have_attribute("src", before, timeout=15_000)
    expect(words).not_to_have_text(said)
    if folder := os.environ.get("MTP_SCREENSHOTS"):
        panel.screenshot(path=Path(folder) / f"{name}.png")
    page.close()
    assert not [text for text in errors if not NOISE.search(text)]
