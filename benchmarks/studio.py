"""The studio: what a reviewer who follows it repairs, and how soon the page follows a key."""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fuzzytwin.datasets import list_uci, load_uci
from fuzzytwin.experiment._rows import Settings
from fuzzytwin.studio._data import StudioTable
from fuzzytwin.studio._session import Session

SHARE = 0.15
TARGET = "target"


def run(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks studio", description=__doc__)
    parser.add_argument("--only", choices=["repair", "speed"])
    parser.add_argument("--tables", nargs="*", default=list_uci())
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=256)
    parser.add_argument("--classes", type=int, default=12)
    parser.add_argument("--keys", type=int, default=40)
    chosen = parser.parse_args(arguments)
    if chosen.only != "speed":
        repair(chosen.tables, chosen.seeds)
    if chosen.only != "repair":
        speed(chosen.rows, chosen.columns, chosen.classes, chosen.keys)


def repair(tables, seeds):
    """Flip labels; a reviewer who knows the truth checks as many rows, from the top of the list."""
    print(f"{SHARE:.0%} of the labels flipped; a reviewer checks the top {SHARE:.0%} of the list.")
    print(f"Mean (and least) of {seeds} seeds; checked at random, {SHARE:.0%} would be repaired.")
    print(f"{'table':16s} {'rows':>5s}  {'repaired':>16s}")
    for name in tables:
        found = [review(name, seed) for seed in range(seeds)]
        repaired = [share for share, _ in found]
        rows = found[0][1]
        print(f"{name:16s} {rows:5d}  {np.mean(repaired):8.1%} ({min(repaired):5.1%})", flush=True)


def review(name, seed):
    """Return the share of flips repaired, and the rows."""
    X, y = load_uci(name, return_X_y=True, as_frame=True)
    labels, codes = np.unique(np.asarray(y), return_inverse=True)
    rng = np.random.default_rng(seed)
    count = round(SHARE * len(codes))
    flipped = rng.choice(len(codes), count, replace=False)
    given = codes.copy()
    given[flipped] = (codes[flipped] + rng.integers(1, len(labels), count)) % len(labels)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        frame = X.assign(**{TARGET: [f"class {labels[k]}" for k in given]})
        frame.to_csv(path, index=False)
        session = Session(StudioTable(str(path), Settings(target=TARGET)))
    wrong = set(flipped.tolist())
    for _ in range(count):
        row = int(session.open_rows[0])
        if row in wrong:
            session.decide(row, "relabel", code=int(codes[row]))
            wrong.remove(row)
        else:
            session.decide(row, "keep")
    return 1 - len(wrong) / count, len(codes)


def speed(rows, columns, classes, keys):
    """Time the start and the keys of the real command in a real browser."""
    from tests.studio.helpers import Page, Served, open_browser

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        _write(path, rows, columns, classes)
        browser = open_browser()
        begin = time.perf_counter()
        served = Served(path, "--target", TARGET)
        try:
            page = Page(browser, served)
            start, start_work = time.perf_counter() - begin, _cpu_seconds(served.process.pid)
            page.press("k")  # also loads what later ones share
            before = _cpu_seconds(served.process.pid)
            taken = []
            for i in range(keys):
                taken.append(page.press("rkx"[i % 3]))
            work = (_cpu_seconds(served.process.pid) - before) / keys
        finally:
            served.stop()
            browser.quit()
    low, middle, high = statistics.quantiles(taken, n=4)
    print(
        f"\n{rows:,} x {columns} rows, {classes} classes: start of the command to the first view "
        f"{start:.1f} s, of which {start_work:.1f} s of work by the server"
    )
    print(
        f"key to updated page, measured by the page, {len(taken)} decisions: median "
        f"{middle:.0f} ms, quartiles {low:.0f} and {high:.0f} ms, longest {max(taken):.0f} ms; "
        f"{1e3 * work:.0f} ms of work by the server"
    )


def _cpu_seconds(process):
    """CPU time of a process: unlike time on the clock, it is the same on a busy computer."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _write(path, rows, columns, classes):
    rng = np.random.default_rng(0)
    centers = 0.5 * rng.normal(size=(classes, columns))
    codes = rng.integers(classes, size=rows)
    X = centers[codes] + 1.6 * rng.normal(size=(rows, columns))
    flipped = rng.random(rows) < 0.05
    codes[flipped] = rng.integers(classes, size=int(flipped.sum()))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"column {j}" for j in range(columns)), TARGET])
        for row, code in zip(X, codes, strict=True):
            writer.writerow([*(f"{v:.4f}" for v in row), f"label {code}"])


if __name__ == "__main__":
    run(sys.argv[1:])
