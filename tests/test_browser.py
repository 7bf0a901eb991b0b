"""A real JupyterLab in headless Chromium: run a notebook, move a slider by keyboard, see the picture change."""

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

NOTEBOOK = Path(__file__).resolve().parents[1] / "notebooks" / "01_logits_temperature_sampling.ipynb"
CHROMIUM = os.environ.get("MTP_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
CHROMIUM = CHROMIUM or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
# Said by JupyterLab and the browser in every session, whatever the notebook does.
NOISE = re.compile(r"favicon|ERR_INTERNET_DISCONNECTED|ERR_NAME_NOT_RESOLVED|ERR_CONNECTION_REFUSED.*(jupyter|pypi)")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium found; install it or name it in MTP_CHROMIUM"),
    pytest.mark.skipif(not NOTEBOOK.exists(), reason=f"{NOTEBOOK.name} is not written yet"),
]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def lab(tmp_path):
    """The address of a JupyterLab with private settings, serving a copy of the notebook; stopped afterwards."""
    root, settings = tmp_path / "root", tmp_path / "settings"
    root.mkdir()
    settings.mkdir()
    shutil.copy(NOTEBOOK, root)
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


def test_a_slider_moves_a_picture(lab):
    from playwright.sync_api import expect, sync_playwright

    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    last = sum(cell.cell_type == "code" for cell in cells)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        errors = []
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.goto(f"{lab}/lab/tree/{NOTEBOOK.name}?reset&token=t")
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        page.locator(".jp-CodeCell .jp-InputPrompt", has_text=f"[{last}]:").wait_for(timeout=180_000)

        panel = page.locator(".jp-OutputArea-output .widget-vbox, .jp-OutputArea-output .lm-Widget.jupyter-widgets")
        panel = panel.filter(has=page.get_by_role("slider")).filter(has=page.locator("img")).first
        panel.scroll_into_view_if_needed()
        slider, picture = panel.get_by_role("slider").first, panel.locator("img").first
        expect(picture).to_be_visible()
        before, value = picture.get_attribute("src"), slider.get_attribute("aria-valuenow")
        slider.focus()
        page.keyboard.press("ArrowRight")
        expect(slider).not_to_have_attribute("aria-valuenow", value)
        expect(picture).not_to_have_attribute("src", before, timeout=15_000)
        browser.close()
    assert not [text for text in errors if not NOISE.search(text)]
