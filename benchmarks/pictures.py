"""What `docs/compare.md` shows, from caches of ``python -m benchmarks committee accuracy``.

``python -m benchmarks pictures CACHE [CACHE ...] [--out docs]`` prints the tables of the page as
Markdown, mean ranks and times, and on how many tables each method beats the committee, and writes:

- ``compare_results.csv``: one line for each table, share of flipped labels and method;
- ``compare_ranks.png``: critical-difference diagrams of accuracy and log loss (Friedman and
  Nemenyi);
- ``compare_time.png``: accuracy and log loss against the time of a fit.

``python -m benchmarks pictures docs/compare_results.csv`` does the same from the CSV file.

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
from benchmarks._significance import LEVEL, corrected_p_values
from benchmarks.committee import MEASURES
from reproduction.ranks import compare_ranks

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.transforms import Bbox

NAMES = {
    "committee": "FuzzyTwinCommittee", "with noise": "FuzzyTwinCommittee, noise",
    "SVC": "SVC, grid of 25", "CatBoost": "CatBoost", "LightGBM": "LightGBM",
    "XGBoost": "XGBoost", "boosting": "HistGradientBoosting", "forest": "RandomForest",
    "logistic": "LogisticRegressionCV",
}  # fmt: skip
OURS = NAMES["committee"]
ON_THE_PAGE = {OURS: f"`{OURS}`", NAMES["with noise"]: 'the same, `noise="auto"`'}
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
        print("| | " + " | ".join(table.columns) + " |")
        print("|---" * (1 + table.shape[1]) + "|")
        for name in order:
            cells = " | ".join(table.loc[name].fillna("-"))
            print(f"| {ON_THE_PAGE.get(name, name)} | {cells} |")


def _cells(part, score):
    """Mean score of each method, the best in bold, with "n.s." if it is level with ours."""
    scores = _scores(part, score)
    p_values = corrected_p_values(scores[OURS], dict(scores.drop(columns=OURS).items()))
    shown = scores.mean().map("{:.3f}".format)
    best = shown.max() if SCORES[score] else shown.min()
    cells = shown.where(shown != best, "**" + shown + "**")
    cells[[name for name, p in p_values.items() if p > LEVEL]] += " *n.s.*"
    return cells


def _scores(part, score):
    """Scores of each table (row) and method (column) that has this score."""
    return part.pivot(index="table", columns="method", values=score).dropna(axis=1, how="all")


def print_ranks(means):
    """Print mean ranks by half, and on how many tables a method is better than the committee."""
    for flip, part in means.groupby("flip"):
        for score, higher_is_better in SCORES.items():
            print(f"\n{score}, {flip:.0%} of the training labels flipped")
            groups = {half: part[part["half"] == half] for half in HALVES.values()}
            ranks = {}
            for title, group in {**groups, "all": part}.items():
                result = compare_ranks(_scores(group, score), higher_is_better=higher_is_better)
                ranks[f"rank, {title}"] = pd.Series(result.mean_ranks, result.names).round(2)
            scores = _scores(part, score)
            lead = scores.sub(scores[OURS], axis=0) * (1 if higher_is_better else -1)
            print(pd.DataFrame({**ranks, "better than ours": (lead > 0).sum()}).to_string())
            print(f"critical difference (Nemenyi), all: {result.critical_difference:.2f}")
            print(*result.sentences(), sep="\n")


def print_times(means):
    """Print the mean CPU seconds of a fit to labels as they are."""
    clean = means[means["flip"] == 0]
    print("\nmean seconds of one fit, labels as they are")
    print(clean.groupby("method")["seconds"].mean().round(2).to_string(header=False))


def diagrams(means, out):
    """Mean ranks of accuracy and of log loss, with clean and with flipped labels."""
    figure, axes = plt.subplots(4, 1, figsize=(9, 11), layout="constrained")
    for two, (flip, part) in zip(axes.reshape(2, 2), means.groupby("flip"), strict=True):
        for ax, (score, higher_is_better) in zip(two, SCORES.items(), strict=True):
            scores = _scores(part, score)
            compare_ranks(scores, higher_is_better=higher_is_better).plot(ax)
            labels = f"{flip:.0%} of the labels flipped" if flip else "labels as they are"
            ax.set_title(f"{score}, {labels}, {len(scores)} datasets", fontsize=10)
    figure.savefig(out / "compare_ranks.png", dpi=110)


def over_time(means, out):
    """Mean accuracy and log loss against the mean time of a fit."""
    clean = means[means["flip"] == 0].groupby("method")[list(MEASURES)].mean()
    figure, axes = plt.subplots(1, 2, figsize=(11.5, 4.2), layout="constrained")
    for ax, score in zip(axes, SCORES, strict=True):
        points = clean.dropna(subset=[score])
        colors = ["tab:red" if name.startswith("FuzzyTwin") else "dimgray" for name in points.index]
        ax.scatter(points["seconds"], points[score], color=colors, zorder=3)
        ax.set(xscale="log", xlabel="seconds of one fit (mean)", ylabel=f"mean {score}")
        ax.margins(x=0.35, y=0.1)
        ax.grid(alpha=0.3)
    figure.canvas.draw()  # places the axes, so that labels can be measured
    for ax, score in zip(axes, SCORES, strict=True):
        points = clean.dropna(subset=[score])
        _label_points(ax, points["seconds"], points[score])
    figure.savefig(out / "compare_time.png", dpi=110)


def _label_points(ax, x, y):
    """Name each point, beside it at the first place where the name covers nothing else."""
    places = [(6, 4, "left"), (6, -11, "left"), (-6, 4, "right"), (-6, -11, "right")]
    dots = ax.transData.transform(list(zip(x, y, strict=True)))
    taken = [Bbox.from_bounds(left - 4, bottom - 4, 8, 8) for left, bottom in dots]
    for name in x.index:
        color = "tab:red" if name.startswith("FuzzyTwin") else "dimgray"
        for place in places:
            *offset, side = place
            label = ax.annotate(name, (x[name], y[name]), xytext=offset, ha=side, color=color,
                                textcoords="offset points", fontsize=9)  # fmt: skip
            box = label.get_window_extent()
            if place is places[-1] or not any(box.overlaps(other) for other in taken):
                break
            label.remove()
        taken.append(box)


def run(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks pictures", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args(arguments)
    if options.files[0].suffix == ".csv":
        means = pd.read_csv(options.files[0])
    else:
        halves = {table.name: table.half for table in collection()}
        means = by_table(read(options.files), halves)
        means.round(4).to_csv(options.out / "compare_results.csv", index=False)
    print(means.groupby(["flip", "half"])["table"].nunique().to_string())
    print_tables(means)
    print_ranks(means)
    print_times(means)
    diagrams(means, options.out)
    over_time(means, options.out)
