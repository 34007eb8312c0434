"""Pictures of `docs/compare.md`, drawn from caches of ``python -m benchmarks committee accuracy``.

``python -m benchmarks pictures CACHE [CACHE ...] [--out docs]``: critical-difference diagrams of
accuracy and log loss (Friedman and Nemenyi; ranks of a table's mean over its folds), and accuracy
and log loss over the time of a fit. Only folds that every method has are used.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib
import pandas as pd

from benchmarks.committee import MEASURES
from reproduction.ranks import compare_ranks

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OURS = ("committee", "search")


def read(paths):
    """One line for each table, noise, fold and method."""
    lines = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    rows = [[*key, *values] for key, values in lines]
    frame = pd.DataFrame(rows, columns=["table", "flip", "fold", "method", *MEASURES])
    frame = frame.drop_duplicates(["table", "flip", "fold", "method"], keep="last")
    many = frame["method"].nunique()
    return frame.groupby(["table", "flip", "fold"]).filter(lambda part: len(part) == many)


def diagrams(frame, out):
    """Mean ranks, clean and flipped, of accuracy and of log loss."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 5.2), layout="constrained")
    for row, flip in zip(axes, sorted(frame["flip"].unique()), strict=False):
        part = frame[frame["flip"] == flip]
        for ax, measure in zip(row, ("accuracy", "log loss"), strict=True):
            means = part.groupby(["table", "method"])[measure].mean().unstack("method")
            means = means.dropna(axis=1, how="all").dropna()
            compare_ranks(means, higher_is_better=measure == "accuracy").plot(ax)
            labels = "labels as they are" if not flip else f"{flip:.0%} of the labels flipped"
            ax.set_title(f"{measure}, {labels}, {len(means)} tables", fontsize=10)
    figure.savefig(out / "compare_ranks.png", dpi=110)


def over_time(frame, out):
    """Mean accuracy and log loss over the mean time of a fit."""
    clean = frame[frame["flip"] == 0].groupby("method")[list(MEASURES)].mean()
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for ax, measure in zip(axes, ("accuracy", "log loss"), strict=True):
        for name, line in clean.dropna(subset=[measure]).iterrows():
            color = "tab:red" if name in OURS else "tab:gray"
            ax.scatter(line["seconds"], line[measure], color=color, zorder=3)
            ax.annotate(name, (line["seconds"], line[measure]), xytext=(5, 4),
                        textcoords="offset points", fontsize=9, color=color)  # fmt: skip
        ax.set(xscale="log", xlabel="seconds of one fit (mean)", ylabel=f"mean {measure}")
        ax.margins(x=0.15, y=0.1)
        ax.grid(alpha=0.3)
    figure.savefig(out / "compare_time.png", dpi=110)


def run(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks pictures", description=__doc__)
    parser.add_argument("caches", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args(arguments)
    frame = read(options.caches)
    n = frame.groupby("flip")[["table", "fold"]].apply(lambda part: len(part.drop_duplicates()))
    print(f"{frame['table'].nunique()} tables, {n.to_dict()} folds that all methods have")
    print(frame.groupby(["flip", "method"])[list(MEASURES)].mean().round(4))
    diagrams(frame, options.out)
    over_time(frame, options.out)
