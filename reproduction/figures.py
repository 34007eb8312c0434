"""The figures of the report. Need matplotlib (the extra plot)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from fuzzytwin.plot import COLORS, PlanesDisplay
from fuzzytwin.twin import FuzzyTwinSVC, FuzzyTwinSVCCV
from reproduction.cache import Records
from reproduction.methods import PAPER_METHODS
from reproduction.noise import SOFT_STRATEGIES, STRATEGIES
from reproduction.published import TABLE_III, TITLES
from reproduction.ranks import RankComparison
from reproduction.toy import draw_points

_RC: dict[Any, Any] = {
    "font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e3e6eb", "axes.edgecolor": "#8a93a3", "axes.axisbelow": True,
    "legend.frameon": False, "svg.hashsalt": "fuzzytwin", "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
}  # fmt: skip
RED, GREY = "#C23B22", "#7a8290"


def draw(make: Any, *arguments: Any, size: tuple[float, float]) -> tuple[bytes, bytes]:
    """Draw a figure as SVG and as PNG; `make` gets it and the arguments."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        make(figure, *arguments)
        files = []
        for kind in ("svg", "png"):
            file = io.BytesIO()
            extra = {"Date": None} if kind == "svg" else {}
            figure.savefig(file, format=kind, dpi=150, metadata=extra)
            files.append(file.getvalue())
    return files[0], files[1]


def toy(figure: Any) -> None:
    """Draw Figure 4: the data, and the lines of SVM, LST-SVM and FLST-SVM."""
    X, y, degrees = draw_points(0.3, 0)
    (a, b), (c, d) = figure.subplots(2, 2, sharex=True, sharey=True)
    line = SVC(kernel="linear").fit(X, y)
    options: dict[str, Any] = {"alphas": (0.0,), "rules": ("distance",), "cv": 10}
    options |= {"memberships": (None,), "selection": "score"}
    lst = FuzzyTwinSVCCV(**options).fit(X, y).best_estimator_
    # A wide margin, so that the bands can be seen.
    Cs = 2.0 ** np.arange(-8, 9, 2)
    search = GridSearchCV(
        FuzzyTwinSVC(planes="fuzzy", margin_width=2.0, alpha=0.0),
        {"C": list(product(Cs, Cs))},
        cv=10,
    )
    fuzzy = search.fit(X, y, membership=degrees).best_estimator_
    for ax, model in ((c, lst), (d, fuzzy)):
        PlanesDisplay.from_estimator(model, X, y, degrees=degrees, ax=ax)
        ax.get_legend().remove()
    for ax in (a, b):
        for k, marker in ((0, "o"), (1, "^")):
            own = y == k
            ax.scatter(
                *X[own].T, s=4 + 40 * degrees[own], color=COLORS[k], marker=marker,
                edgecolor="white", linewidth=0.5, label=f"class {k}", zorder=3,
            )  # fmt: skip
    a.legend(loc="best", frameon=True)
    xs = np.array(d.get_xlim())
    w, intercept = line.coef_[0], line.intercept_[0]
    for level, style in ((0, "-"), (1, ":"), (-1, ":")):
        b.plot(xs, (level - intercept - w[0] * xs) / w[1], style, color="#333", lw=1.6)
    a.set(xlim=d.get_xlim(), ylim=d.get_ylim())
    names = ("(a) the data, sized by degree", "(b) SVM", "(c) LST-SVM", "(d) FLST-SVM (M2)")
    for ax, name in zip((a, b, c, d), names, strict=True):
        ax.set_title(name)
        ax.set(xlabel="", ylabel="")
        ax.grid(False)


def uci(figure: Any, rows: Records) -> None:
    """Draw the paper's FLST-SVM beside the measured one, table by table."""
    ax = figure.subplots()
    tables = list(dict.fromkeys(row["table"] for row in rows))
    tables.sort(key=lambda t: TABLE_III[t]["FLST-SVM"][0])
    by = {(row["table"], row["method"]): row for row in rows}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    for place, table in enumerate(tables):
        paper = TABLE_III[table]["FLST-SVM"][0]
        mine = by[table, "FLST-M2"]
        ax.plot([mine["honest"], paper], [place, place], color="#d5d9e0", lw=3, zorder=1)
        others = [by[table, m]["honest"] for m in methods]
        ax.scatter(others, [place] * len(others), color=GREY, s=12, alpha=0.55, zorder=2)
        ax.scatter(mine["optimistic"], place, color=COLORS[1], marker="s", s=42, zorder=3)
        ax.scatter(mine["honest"], place, color=COLORS[0], s=60, zorder=4)
        ax.scatter(paper, place, color=RED, marker="D", s=46, zorder=4)
    for label, color, marker in (
        ("FLST-SVM in the paper", RED, "D"), ("M2 measured, honest", COLORS[0], "o"),
        ("M2 measured, optimistic", COLORS[1], "s"), ("all methods here, honest", GREY, "."),
    ):  # fmt: skip
        ax.scatter([], [], color=color, marker=marker, label=label)
    ax.set_yticks(range(len(tables)), [TITLES[t] for t in tables])
    ax.set_xlabel("accuracy, %")
    ax.grid(axis="y", visible=False)
    ax.legend(loc="lower right", frameon=True)


def ranks(figure: Any, results: Sequence[tuple[str, RankComparison]]) -> None:
    """Draw diagrams of critical differences, one below the other."""
    axes = figure.subplots(len(results), 1, squeeze=False)[:, 0]
    for ax, (title, result) in zip(axes, results, strict=True):
        result.plot(ax)
        ax.set_title(title, loc="left")


def ndc(figure: Any, rows: Records) -> None:
    """Draw the seconds to train, and the accuracy beside the paper's."""
    left, right = figure.subplots(1, 2)
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    n = [{"1k": 1e3, "5k": 5e3, "10k": 1e4, "1m": 1e6}[size] for size in sizes]
    by = {(row["size"], row["method"]): row for row in rows}
    for k, method in enumerate(PAPER_METHODS):
        color = COLORS[k] if k < 6 else "#333333"
        left.loglog(
            n, [by[s, method]["seconds"] for s in sizes], "o-", color=color, label=method, ms=4
        )
    left.set(xlabel="training rows", ylabel="seconds to train (one thread)", title="Training time")
    left.legend(fontsize=8, ncols=2)
    place = np.arange(len(PAPER_METHODS))
    shown = "1m" if "1m" in sizes else sizes[-1]
    for offset, what, color in ((-0.2, "fixed", COLORS[0]), (0.2, "paper", RED)):
        values = [by[shown, m][what] or np.nan for m in PAPER_METHODS]
        right.scatter(
            place + offset / 2, values, color=color, marker="o" if what == "fixed" else "D",
            label="measured, penalties 1" if what == "fixed" else "the paper",
        )  # fmt: skip
    right.set_xticks(place, PAPER_METHODS, rotation=40, ha="right")
    right.set(title=f"Accuracy on NDC-{shown}, %")
    right.legend(fontsize=8)


_NOISE_STYLE = {
    "LinearSVC": (GREY, "-", "LinearSVC"),
    "LST-SVM": (COLORS[1], "-", "LST-SVM, no ridge"),
    "FLST-M1": (COLORS[1], "--", "FLST-M1, no ridge"),
    "none": ("#222222", "-", "ridge, no membership"),
    "center": (COLORS[0], ":", "ridge, center"),
    "hyperplane": (COLORS[2], ":", "ridge, hyperplane"),
    "neighbor": (COLORS[3], ":", "ridge, neighbor"),
    "M1+": (COLORS[5], "--", "M1+: search over all"),
}


def noise(figure: Any, rows: Records) -> None:
    """Draw the mean accuracy over the tables against the share of noise."""
    axes = figure.subplots(1, 2, sharey=True)
    for ax, kind, title in zip(
        axes, ("flips", "outliers"), ("Labels flipped", "Rows made outliers"), strict=True
    ):
        for strategy in STRATEGIES:
            shares, means = noise_means(rows, kind, strategy)
            color, style, label = _NOISE_STYLE[strategy]
            ax.plot([100 * s for s in shares], means, style, color=color, label=label, marker=".")
        ax.set(xlabel="share of the training rows, %", title=title)
        ax.set_xticks([100 * s for s in shares])
    axes[0].set_ylabel("mean accuracy on clean test rows, %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  fontsize=8)  # fmt: skip


def noise_means(rows: Records, kind: str, strategy: str) -> tuple[list[float], list[float]]:
    """Return the shares of noise, and the mean accuracy over the tables at each."""
    mine = [row for row in rows if row["strategy"] == strategy and row["kind"] in (kind, "none")]
    shares = sorted({row["share"] for row in mine})
    return shares, [
        float(np.mean([row["accuracy"] for row in mine if row["share"] == share]))
        for share in shares
    ]


def soft(figure: Any, rows: Records) -> None:
    """Draw the mean accuracy against the share of wrong labels, with and without soft labels."""
    ax = figure.subplots()
    styles = ((GREY, "--"), ("#222222", "-"), (COLORS[0], ":"), (COLORS[0], "-"), (RED, "-"))
    for strategy, (color, style) in zip(SOFT_STRATEGIES, styles, strict=True):
        shares, means = soft_means(rows, strategy)
        ax.plot([100 * s for s in shares], means, style, color=color, marker=".", label=strategy)
    ax.set(xlabel="labels that are wrong, %", ylabel="mean accuracy on clean test rows, %")
    ax.set_xticks([100 * s for s in shares])
    ax.legend(loc="lower left")


def soft_means(rows: Records, strategy: str) -> tuple[list[float], list[float]]:
    """Return the shares of wrong labels, and the mean accuracy over the tables at each."""
    mine = [row for row in rows if row["strategy"] == strategy]
    shares = sorted({row["share"] for row in mine})
    return shares, [
        float(np.mean([row["accuracy"] for row in mine if row["share"] == share]))
        for share in shares
    ]


def forms(figure: Any, found: dict[tuple[str, str], float]) -> None:
    """Draw three readings of model M2 on every table."""
    ax = figure.subplots()
    tables = list(dict.fromkeys(table for table, _ in found))
    place = np.arange(len(tables))
    for k, (form, color) in enumerate(
        (("printed", RED), ("stationary", COLORS[1]), ("endpoints", COLORS[0]))
    ):
        values = [found[t, f"M2 {form}, distance, fixed"] for t in tables]
        ax.bar(place + 0.27 * (k - 1), values, 0.25, color=color, label=form)
    chance = [found[t, "majority"] for t in tables]
    ax.hlines(chance, place - 0.42, place + 0.42, color="#222", lw=1.5, label="majority class")
    ax.set_xticks(place, [TITLES[t] for t in tables], rotation=30, ha="right")
    ax.set(ylabel="accuracy, %", ylim=(0, 105))
    ax.grid(axis="x", visible=False)
    ax.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.12))
