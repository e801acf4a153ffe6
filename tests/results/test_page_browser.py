"""The page in a real browser: no error in its console, a click on a legend entry hides that run's lines."""

import json
import shutil
import subprocess
import urllib.request

import pytest
from synthetic import config, records, write_run

from rpg.cli import main

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="needs headless Chromium: apt-get install chromium chromium-driver",
    ),
]
OPTIONS = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu"]}


class Browser:
    """The few WebDriver commands that are needed, over HTTP."""

    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"
        wanted = {"browserName": "chrome", "goog:chromeOptions": OPTIONS, "goog:loggingPrefs": {"browser": "ALL"}}
        self.url += f"/session/{self.send('/session', capabilities={'alwaysMatch': wanted})['sessionId']}"

    def send(self, path, **body):
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        return json.load(urllib.request.urlopen(request, timeout=60))["value"]

    def run(self, script):
        return self.send("/execute/sync", script=f"return {script}", args=[])

    def click(self, selector):
        element = self.send("/element", using="css selector", value=selector)
        self.send(f"/element/{next(iter(element.values()))}/click")

    def close(self):
        urllib.request.urlopen(urllib.request.Request(self.url, method="DELETE"), timeout=60).close()


@pytest.fixture
def browser():
    driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        assert driver.stdout is not None
        said = next(line for line in driver.stdout if "started successfully on port" in line)
        port = int(said.rsplit(" ", 1)[-1].rstrip(".\n"))
        opened = Browser(port)
        yield opened
        opened.close()
    finally:
        driver.terminate()
        driver.wait(timeout=30)


VISIBLE = "[...document.querySelectorAll('.panels [data-run=\"{}\"]')].filter(e => e.getClientRects().length).length"


def test_page_in_chromium(tmp_path, browser):
    for name, loss in (("rpg_cpu_urkl1e-4", "rpg_urkl"), ("grpo_cpu", "vanilla")):
        write_run(tmp_path / name, records([0.1, 0.2, 0.3]), config(name, loss=loss))
    assert main(["plot", str(tmp_path), "--out", str(tmp_path / "plots")]) == 0
    browser.send("/url", url=f"file://{tmp_path}/plots/index.html")

    shown = [browser.run(VISIBLE.format(run)) for run in (0, 1)]
    assert min(shown) > 0
    browser.click(".legend button[data-run='0']")
    assert [browser.run(VISIBLE.format(run)) for run in (0, 1)] == [0, shown[1]]
    assert browser.run("document.querySelector('.legend button[data-run=\"0\"]').ariaPressed") == "false"
    browser.click(".legend button[data-run='0']")
    assert [browser.run(VISIBLE.format(run)) for run in (0, 1)] == shown

    requested = browser.run("performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in requested if not name.startswith("data:")] == []
    assert browser.send("/se/log", type="browser") == []
