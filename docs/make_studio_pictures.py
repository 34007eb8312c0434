"""Take the pictures of the studio: ``python -m docs.make_studio_pictures``; needs Chromium.

The table is scikit-learn's breast cancer, with one label in twenty flipped and names made up.
Other views and sizes go to a folder: ``python -m docs.make_studio_pictures FOLDER``.
"""

import io
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_breast_cancer

from tests.studio.helpers import Page, Served, open_browser

HERE = Path(__file__).parent
SIZES = {"wide": (1280, 800), "tablet": (820, 1180), "telephone": (390, 844)}


def write_table(path):
    frame = load_breast_cancer(as_frame=True).frame
    rng = np.random.default_rng(0)
    codes = frame.pop("target").to_numpy() ^ (rng.random(len(frame)) < 0.05)
    frame.insert(0, "patient", [f"P-{1000 + i}" for i in range(len(frame))])
    frame["diagnosis"] = np.array(["malignant", "benign"])[codes]
    frame.to_csv(path, index=False)


def resize(browser, size):
    width, height = SIZES[size]
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    time.sleep(0.5)


def shoot(browser, path):
    """Save the page as a small PNG of 256 colours."""
    picture = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    picture = picture.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)


def main(folder=None):
    browser = open_browser(hide_scrollbars=True)
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "patients.csv"
        write_table(data)
        served = Served(data, "--target", "diagnosis", "--id", "patient")
        try:
            page = Page(browser, served)
            for view in ("review", "overview", "save"):
                page.go(view)
                time.sleep(1)
                if view == "review":
                    for key in "rrkrr":
                        page.press(key)
                for size in SIZES:
                    resize(browser, size)
                    if folder is not None:
                        shoot(browser, Path(folder) / f"studio_{view}_{size}.png")
                    elif size == "wide" and view in ("review", "overview"):
                        shoot(browser, HERE / f"studio_{view}.png")
                resize(browser, "wide")
        finally:
            served.stop()
            browser.quit()


if __name__ == "__main__":
    main(*sys.argv[1:])
