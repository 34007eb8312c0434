"""What `docs/compare.md` shows, from caches of ``python -m benchmarks committee accuracy``.

``python -m benchmarks pictures CACHE [CACHE ...] [--out docs]`` prints the tables of the page as
Markdown, and writes:

- ``compare_results.csv``: one line for each table, share of flipped labels and method;
- ``compare_ranks.png``: critical-difference diagrams of accuracy and log loss (Friedman and
  Nemenyi);
- ``compare_time.png``: accuracy and log loss against the time of a fit.

Scores of a table are means over its folds, and only folds that every method has are used. In the
printed tables, "n.s." marks a score that does not differ significantly from the committee's by
Wilcoxon's signed-rank test over tables, corrected by Holm for the number of methods.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib
import pandas as pd

from benchmarks._collection import collection
from benchmarks._significance import LEVEL, holm, wilcoxon_p
from benchmarks.committee import MEASURES
from reproduction.ranks import compare_ranks

matplotlib.use("Agg")
import matplotlib.pyplot as plt

NAMES = {
    "committee": "FuzzyTwinCommittee", "with noise": "FuzzyTwinCommittee, noise",
    "search": "FuzzyTwinSVCCV, two kernels", "SVC": "SVC, grid of 25", "forest": "RandomForest",
    "boosting": "HistGradientBoosting", "logistic": "LogisticRegressionCV",
}  # fmt: skip
OURS = NAMES["committee"]
HALVES = {"choose": "first half", "confirm": "second half"}
SCORES = {"accuracy": True, "log loss": False}  # whether higher is better


def read(paths):
    """Scores of each fold, from the files of ``committee accuracy --cache``."""
    lines = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    rows = [[*key, *values] for key, values in lines]
    frame = pd.DataFrame(rows, columns=["table", "flip", "fold", "method", *MEASURES])
    frame = frame.drop_duplicates(["table", "flip", "fold", "method"], keep="last")
    frame["method"] = frame["method"].replace(NAMES)
    n_methods = frame["method"].nunique()
    return frame.groupby(["table", "flip", "fold"]).filter(lambda fold: len(fold) == n_methods)


def by_table(frame, halves):
    """Means over the folds of each table, with its half."""
    keys = ["table", "flip", "method"]
    means = frame.groupby(keys)[list(MEASURES)].mean().reset_index()
    means.insert(1, "half", means["table"].map(halves).map(HALVES))
    return means


def print_tables(means):
    """Print the scores by half and share of flipped labels, as Markdown."""
    for flip, part in means.groupby("flip"):
        print(f"\n{flip:.0%} of the training labels flipped\n")
        columns = {
            f"{score}, {half}": _cells(part[part["half"] == half], score)
            for score in SCORES
            for half in HALVES.values()
        }
        table = pd.DataFrame(columns)
        order = [name for name in NAMES.values() if name in table.index]
        order += [name for name in table.index if name not in order]
        print("| | " + " | ".join(table.columns) + " |")
        print("|---" * (1 + table.shape[1]) + "|")
        for name in order:
            print(f"| {name} | " + " | ".join(table.loc[name].fillna("-")) + " |")


def _cells(part, score):
    """Mean score of each method, the best in bold, with "n.s." if it is level with ours."""
    scores = part.pivot(index="table", columns="method", values=score).dropna(axis=1, how="all")
    others = [name for name in scores if name != OURS]
    p_values = holm([wilcoxon_p(scores[OURS], scores[name]) for name in others])
    level = [name for name, p in zip(others, p_values, strict=True) if p > LEVEL]
    shown = scores.mean().map("{:.3f}".format)
    best = shown.max() if SCORES[score] else shown.min()
    cells = shown.where(shown != best, "**" + shown + "**")
    cells[level] += " n.s."
    return cells


def diagrams(means, out):
    """Mean ranks of accuracy and of log loss, with clean and with flipped labels."""
    figure, axes = plt.subplots(4, 1, figsize=(9, 11), layout="constrained")
    for two, (flip, part) in zip(axes.reshape(2, 2), means.groupby("flip"), strict=True):
        for ax, (score, higher_is_better) in zip(two, SCORES.items(), strict=True):
            scores = part.pivot(index="table", columns="method", values=score)
            scores = scores.dropna(axis=1, how="all").dropna()
            compare_ranks(scores, higher_is_better=higher_is_better).plot(ax)
            labels = f"{flip:.0%} of the labels flipped" if flip else "labels as they are"
            ax.set_title(f"{score}, {labels}, {len(scores)} datasets", fontsize=10)
    figure.savefig(out / "compare_ranks.png", dpi=110)


def over_time(means, out):
    """Mean accuracy and log loss against the mean time of a fit."""
    clean = means[means["flip"] == 0].groupby("method")[list(MEASURES)].mean()
    figure, axes = plt.subplots(1, 2, figsize=(11.5, 4.2), layout="constrained")
    for ax, score in zip(axes, SCORES, strict=True):
        for name, line in clean.dropna(subset=[score]).iterrows():
            color = "tab:red" if name.startswith("FuzzyTwin") else "tab:gray"
            ax.scatter(line["seconds"], line[score], color=color, zorder=3)
            below = name == NAMES["with noise"]  # often close to the committee without noise
            ax.annotate(name, (line["seconds"], line[score]), xytext=(5, -10 if below else 4),
                        textcoords="offset points", fontsize=8, color=color)  # fmt: skip
        ax.set(xscale="log", xlabel="seconds of one fit (mean)", ylabel=f"mean {score}")
        ax.margins(x=0.3, y=0.1)
        ax.grid(alpha=0.3)
    figure.savefig(out / "compare_time.png", dpi=110)


def run(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks pictures", description=__doc__)
    parser.add_argument("caches", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args(arguments)
    halves = {table.name: table.half for table in collection()}
    means = by_table(read(options.caches), halves)
    print(means.groupby(["flip", "half"])["table"].nunique().to_string())
    means.round(4).to_csv(options.out / "compare_results.csv", index=False)
    print_tables(means)
    diagrams(means, options.out)
    over_time(means, options.out)
