"""Small tables, and the studio in a process of its own with a real browser before it."""

import csv
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fuzzytwin.experiment._rows import Settings
from fuzzytwin.studio._data import StudioTable
from fuzzytwin.studio._history import open_journal
from fuzzytwin.studio._session import Session

SRC = Path(__file__).parents[2] / "src"


def write_table(path, n=120, wrong=8, classes=("no", "yes"), seed=0):
    """Write a table of some columns, one of them text; return the rows with a wrong label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    K = len(classes)
    codes = np.clip(np.floor((X[:, 0] + X[:, 1] + 2.5) / 5 * K), 0, K - 1).astype(int)
    bad = rng.choice(n, wrong, replace=False)
    labels = codes.copy()
    labels[bad] = (codes[bad] + 1) % K
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "age", "size", "noise", "town", "sick"])
        for i, (row, k) in enumerate(zip(X, labels, strict=True)):
            town = "Rom" if row[0] > 0 else "Oslo"
            writer.writerow([f"p{i}", *(f"{v:.4f}" for v in row), town, classes[k]])
    return bad


def written(path, **options):
    write_table(path, **options)
    return path


def noted(path):
    """Write a table with a leak, two spellings of a label and a mark for missing values."""
    write_table(path)
    frame = pd.read_csv(path)
    frame["copy"] = frame["sick"].map({"no": "healthy", "yes": "ill"})
    frame.loc[:9, "sick"] = frame.loc[:9, "sick"].str.upper()
    frame.loc[frame["sick"] == "NO", "sick"] = "no"
    frame.loc[::10, "age"] = -999
    frame.to_csv(path, index=False)


OPENED = []  # sessions of a test, whose journals are closed when it ends


def open_session(path, show=(), **settings):
    """Open a session with its journal, as the command does."""
    settings = {"target": "sick", "id": "name", **settings}
    table = StudioTable(str(path), Settings(**settings), show=show)
    journal = open_journal(table)
    try:
        OPENED.append(Session(table, journal))
    except ValueError:
        journal.close()
        raise
    return OPENED[-1]


class Served:
    """The command ``fuzzytwin studio`` in a process of its own."""

    def __init__(self, *arguments, browser=None):
        """Start it; `browser` is a program to open the page with."""
        opens = "--browser" if browser else "--no-browser"
        environment = {
            **os.environ,
            "BROWSER": str(browser),
            "PYTHONPATH": str(SRC),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fuzzytwin", "studio", *map(str, arguments), opens],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        )  # fmt: skip
        address = re.compile(r"http://(127\.0\.0\.1:(\d+))/([^/]+)/")
        printed = ""
        while not (found := address.search(printed)):
            line = self.process.stdout.readline()
            assert line, printed
            printed += line
        self.address, self.host, self.token = found[0], found[1], found[3]
        self.port = int(found[2])

    def kill(self):
        """Kill it as kill -9 does."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.kill()
        self.process.stdout.close()


def find_chromium():
    """Give the paths of Chromium and its driver; skip the test where they are not installed."""
    pytest.importorskip("selenium", reason="the extra `test` brings selenium")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if not browser or not driver:
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver (.ci/run does)")
    return browser, driver


def open_browser(width=1280, height=800, *, hide_scrollbars=False):
    """Open a real browser without a window."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    browser, driver = find_chromium()
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 f"--window-size={width},{height}"):  # fmt: skip
        options.add_argument(word)
    if hide_scrollbars:
        options.add_argument("--hide-scrollbars")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    opened.set_script_timeout(60)
    return opened


def wait_for(what, timeout=60.0):
    """Wait until a function returns something that is true, and return that."""
    end = time.monotonic() + timeout
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < end, "the page did not get there in time"
        time.sleep(0.02)


# What each view shows, and no other one.
VIEWS = {"review": ".detail", "overview": ".map", "save": ".kept"}
# The page measures the time from a key to the row that is drawn next.
TIMER = """
    window.latencies = [];
    let pressed = null;
    const step = () => document.querySelector(".detail")?.dataset.step;
    let shown = step();
    document.addEventListener("keydown", () => { pressed = performance.now(); }, true);
    new MutationObserver(() => {
        if (step() === shown) return;
        shown = step();
        if (pressed !== null) latencies.push(performance.now() - pressed);
        pressed = null;
    }).observe(document.body, {subtree: true, childList: true, attributes: true});
"""


class Page:
    """The page as a user has it."""

    def __init__(self, browser, served):
        self.browser, self.host = browser, served.host
        browser.get(served.address)
        wait_for(lambda: self.script("return !!document.querySelector('.detail[data-step]')"))
        self.script(TIMER)

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def text(self, selector="body"):
        return self.script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def go(self, view):
        self.click(f"[data-view={view}]")
        wait_for(lambda: self.script("return !!document.querySelector(arguments[0])", VIEWS[view]))

    def click(self, selector):
        """Click on what a selector finds, once it can be clicked on.

        By a script, as it may be drawn again meanwhile.
        """
        click = """const found = document.querySelector(arguments[0]);
            if (!found || found.disabled || found.getAttribute("aria-disabled") === "true")
                return false;
            found.click();
            return true;"""
        wait_for(lambda: self.script(click, selector))

    def type(self, *keys):
        """Press keys on what has the focus."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    @property
    def row(self):
        return self.script("return Number(document.querySelector('[data-row]')?.dataset.row ?? -1)")

    def press(self, key):
        """Press a key and wait until the page has followed; return the milliseconds it took."""
        before = self.script("return latencies.length")
        self.type(key)
        wait_for(lambda: self.script("return latencies.length") > before)
        return self.script("return latencies.at(-1)")

    @property
    def listed(self):
        """Return the names of the rows in the list."""
        names = "return [...document.querySelectorAll('.queue .name')].map(e => e.innerText)"
        return self.script(names)

    def resize(self, width, height):
        """Give the page another size, as a telephone has."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wait_for(lambda: self.script("return innerWidth") == width)

    def errors(self):
        """Return what the browser complained about on this page, not on pages before it."""
        return [entry["message"] for entry in self.browser.get_log("browser")
                if entry["level"] == "SEVERE" and self.host in entry["message"]]  # fmt: skip
