"""The sections of the report: words and tables made from the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reproduction.cache import Records
from reproduction.document import NO_BREAK, Block, Figure, Heading, Table, Value, Words
from reproduction.figures import noise_means, soft_means
from reproduction.findings import findings, lookup
from reproduction.methods import LIBRARY_METHODS, METHODS, PAPER_METHODS
from reproduction.noise import FAR, KINDS, SOFT_STRATEGIES, STRATEGIES
from reproduction.published import (
    COLUMNS,
    CRITICAL_DIFFERENCE,
    FRIEDMAN,
    TABLE_III,
    TABLE_V,
    TITLES,
)
from reproduction.ranks import RankComparison, compare_ranks
from reproduction.scale import Scale
from reproduction.summary import NEAR, long_name, percent, seconds
from reproduction.toy import NOISE, PROTOCOLS
from reproduction.uci import comparison

Data = dict[str, Records]


def protocols(scale: Scale) -> list[Block]:
    """Explain the two protocols."""
    return [
        Heading("How it was measured", short="Protocols"),
        Words(bullets=(
            f"**Honest**: {scale.folds} outer folds, {_times(scale.repeats)}. Imputation, "
            f"encoding, scaling and tuning ({scale.inner} inner folds) use only the training rows "
            "of the outer fold. The test rows are used once, by the finished model.",
            "**Optimistic** (as in the paper): every point of the grid is scored by one run of "
            f"{scale.folds} folds, and the best mean is reported. The same test rows choose the "
            "point and score it. The result is too good, and the more so the larger the grid. "
            "Compare the paper's figures with these.",
            "**Penalties 1**: no tuning at all, as in the paper on its toy and NDC data.",
        )),
        Words(
            "FLST-M1 and FLST-M2 are the paper's two models as their objectives intend them: crisp "
            "and fuzzy planes, no ridge, the paper's two memberships and its decision rule. LST+, "
            "M1+ and M2+ are LST-SVM and the two models with what this library adds: a ridge, a "
            "second rule and, except for LST+, more memberships. `FuzzyTwinSVCCV` tunes LST+ and "
            "M1+, and M2+ is tuned by accuracy on the same grid. In `report.html`, green and red "
            f"mark figures more than {NEAR:g} point above or below the paper's."
        ),
    ]  # fmt: skip


def toy(scale: Scale, data: Data) -> list[Block]:
    """Compare with Table I and Figure 4."""
    fixed = {r["method"]: r["fixed"] for r in data["toy"] if r["crossing"] == 0.3}
    gain = fixed["FLST-M2"] - fixed["LST-SVM"]
    tables = []
    for crossing, place in ((0.3, "off the middle"), (0.5, "in the middle")):
        rows = []
        for r in data["toy"]:
            if r["crossing"] == crossing:
                values = [_value(r[p], r[f"{p}_std"]) for p in PROTOCOLS]
                paper = "" if r["paper"] is None else f"{r['paper']:.1f}"
                rows.append([r["method"], *values, paper])
        tables.append(Table(
            f"Lines that cross {place}: accuracy in percent, mean ± standard deviation over "
            "draws. The paper's figures are for penalties of 1 and its own points.",
            ["method", "penalties 1", "honest", "optimistic (too good)", "paper"], rows,
        ))  # fmt: skip
    return [
        Heading("The toy data (Table I, Figure 4)", short="Toy data"),
        Words(
            "The paper's 121 points were drawn by hand and never published. These are "
            f"{_times(scale.toy_draws, 'draw')} of `make_xor` (121 points along two crossing "
            f"lines, noise {NOISE:g}), with degrees given. So the figures cannot be equal, but the "
            "order of the methods and the differences between them can be compared."
        ),
        Figure(
            "toy", "Data and lines of three methods",
            "Figure 4 again. (b) One line cannot separate crossing lines. (c) LST-SVM with tuned "
            "penalties. (d) FLST-SVM. Bands show where the width of a plane exceeds its value "
            "(margin width 2, so that they can be seen). The shading is the predicted class.",
        ),
        *tables,
        Words(
            "With both penalties at 1 and no degrees, LST-SVM is ordinary least-squares "
            "classification: its planes are parallel, and no better than a single line. The gain "
            f"of degrees and fuzzy planes is {gain:+.1f} points there. If the lines cross in the "
            "middle, both classes have the same mean, and no least-squares twin SVM can separate "
            "them. GEP-SVM can."
        ),
    ]  # fmt: skip


def uci(scale: Scale, data: Data) -> list[Block]:
    """Compare with Table III, and test by Friedman and Nemenyi."""
    rows = data["uci"]
    paper_rows = [r for r in rows if r["method"] in PAPER_METHODS]
    results = dict(comparisons(rows))
    blocks: list[Block] = [
        Heading("Ten UCI datasets (Table III)", short="UCI datasets"),
        Figure(
            "uci", "Accuracy of FLST-SVM in the paper and here",
            "The paper's FLST-SVM (red), model M2 as measured here, and all ten methods of this "
            "report under the honest protocol (grey).",
        ),
        _wide("Honest protocol: accuracy in percent, mean ± standard deviation over folds",
              paper_rows, "honest", PAPER_METHODS),
        _wide("Optimistic protocol (the test rows choose the best grid point): accuracy in percent",
              paper_rows, "optimistic", PAPER_METHODS),
        Words(
            "The paper reports one FLST-SVM and says that its experiments are about model M2. So "
            "its figures are compared with M2, and there are none for M1."
        ),
        _library(rows),
        Heading("Do the methods differ?", 3),
        Figure(
            "ranks", "Diagrams of critical differences",
            "Mean ranks over ten datasets (1 is best). Methods under one bar do not differ "
            "significantly by Nemenyi's test at 5%. Heart (Cleveland) contains all rows of Heart "
            "(Statlog), so the ten are not quite independent.",
        ),
    ]  # fmt: skip
    for title, result in results.items():
        best = result.names[int(np.argmin(result.mean_ranks))]
        blocks.append(Words(
            f"**{title}**: Friedman {result.chi2:.2f} (p = {result.chi2_p:.2g}), critical "
            f"difference {result.critical_difference:.2f}. The best mean rank is that of {best} "
            f"({result.mean_ranks.min():.2f}). " + " ".join(result.sentences())
        ))  # fmt: skip
    blocks.append(Words(
        f"The paper reports {FRIEDMAN} and a critical difference of {CRITICAL_DIFFERENCE}. Its "
        "own accuracies give the first of these lines."
    ))  # fmt: skip
    return blocks


def ndc(scale: Scale, data: Data) -> list[Block]:
    """Compare with Tables V and VI."""
    rows = data["ndc"]
    sizes = list(dict.fromkeys(r["size"] for r in rows))
    by = {(r["size"], r["method"]): r for r in rows}

    def table(caption: str, what: str) -> Table:
        body: list[list[Any]] = []
        for size in sizes:
            line: list[Any] = [f"NDC-{size}"]
            for method in PAPER_METHODS:
                r = by[size, method]
                value = _value(r[what], None if size == "1m" else r[f"{what}_std"])
                gave_up = r["paper"] is None and method in COLUMNS
                paper = "" if r["paper"] is None else f"paper {r['paper']:.1f}"
                line.append(Value(value, "paper gave up" if gave_up else paper))
            body.append(line)
        return Table(caption, ["data", *PAPER_METHODS], body)

    times = [
        [f"NDC-{size}", *(seconds(by[size, method]["seconds"]) for method in PAPER_METHODS)]
        for size in sizes
    ]
    tested = ", ".join(f"{TABLE_V[s][0]:,} + {TABLE_V[s][1]:,}" for s in sizes)
    omitted = "" if "1m" in sizes else " A quick run omits the million rows."
    return [
        Heading("Normally distributed clusters (Tables V and VI)", short="NDC"),
        Words(
            f"Training and test rows: {tested}. There are 32 columns and 100 centres. The paper "
            "does not publish its draws or the settings of its generator, so absolute accuracies "
            "cannot be compared. Orders, differences and times can. SVM is LIBLINEAR's here."
            + omitted
        ),
        Figure("ndc", "Training time and accuracy on NDC data",
               "Left: training time with penalties of 1, on one thread. Right: accuracy on the "
               "largest data, and that of the paper."),
        Table("Training time with penalties of 1, on one thread. The paper gave up SVM and T-SVM "
              "on the million rows.", ["data", *PAPER_METHODS], times),
        table("Penalties of 1, as in the paper: accuracy in percent", "fixed"),
        table("Honest: tuned on the training rows (at most the first 10,000), fitted to all of "
              "them: accuracy in percent", "honest"),
        table("Optimistic (the test rows choose the best grid point): accuracy in percent",
              "optimistic"),
        Words(
            "With penalties of 1 and no memberships, LST-SVM is least-squares classification, and "
            "so is P-SVM except for a penalty on the length of its plane. Their figures are almost "
            "equal here. In three of the four rows of the paper's table, which takes them from the "
            "literature, they are equal to the last printed digit (80, 87.00 and 86.24)."
        ),
    ]  # fmt: skip


def noise(scale: Scale, data: Data) -> list[Block]:
    """Present the study of noise and that of soft labels."""
    rows = data["noise"]
    tables = len({r["table"] for r in rows})
    blocks: list[Block] = [
        Heading("What memberships gain", short="Noise and soft labels"),
        Words(
            "The paper argues that memberships protect against noise and outliers, and does not "
            "test it. Here a share of the training labels is flipped, or a share of the training "
            f"rows is moved by {FAR:g} standard deviations in every column. Methods are tuned on "
            f"the noisy training rows and tested on clean ones. All figures are means over "
            f"{tables} datasets and {scale.noise_folds} outer folds. A degree weights only "
            "the slack, as in the paper."
        ),
        Figure("noise", "Accuracy against the share of noise",
               "Accuracy against noise in the training rows. Methods from \"ridge\" on differ only "
               "by their memberships."),
    ]  # fmt: skip
    for kind, title in zip(KINDS, ("Labels flipped", "Rows made outliers"), strict=True):
        shares = noise_means(rows, kind, "none")[0]
        body = [
            [long_name(strategy), *noise_means(rows, kind, strategy)[1]] for strategy in STRATEGIES
        ]
        blocks.append(_curves(f"{title}: mean accuracy in percent", shares, body))
    soft = data["soft"]
    shares = soft_means(soft, "hard")[0]
    body = [[strategy, *soft_means(soft, strategy)[1]] for strategy in SOFT_STRATEGIES]
    return [
        *blocks,
        Heading("Soft labels, when degrees are informative", 3),
        Words(
            "Each training label is wrong with a probability that is known for its row (uniform, "
            "from 0 to twice the share). `fit` gets only the labels (hard), the probability that "
            "the label is correct as a degree, or the probabilities of both classes (soft). All "
            "models are `FuzzyTwinSVC(alpha=10.0)`, and nothing is tuned. The figures are means "
            f"over {len({r['table'] for r in soft})} datasets."
        ),
        Figure("soft", "Accuracy with hard and soft labels",
               "What is gained if the uncertainty of labels is passed to `fit`."),
        _curves("Mean accuracy on clean test rows in percent, by the share of wrong labels",
                shares, body),
    ]  # fmt: skip


def audit(scale: Scale, data: Data) -> list[Block]:
    """Present the twelve findings."""
    claimed = data.get("uci", data.get("claimed", []))
    return [
        Heading("The audit: twelve errors", short="Audit"),
        Words(
            "Each formula was run as printed and as intended, on the ten datasets. Unless stated "
            f"otherwise, there are {scale.folds} folds, penalties of 1, no ridge and the center "
            "membership."
        ),
        *findings(lookup(data["audit"]), claimed),
    ]


def caveats(scale: Scale, names: Sequence[str]) -> list[Block]:
    """List the limits of the results."""
    return [
        Heading("Caveats"),
        Words(bullets=(
            "According to UCI, the target of Bupa is a split into training and test rows, not a "
            "diagnosis. The literature classifies it nevertheless.",
            "The column `time` of WPBC partly reveals the outcome. The paper keeps it, and so does "
            "this report.",
            "In Pima, zeros that mean missing are imputed here, and so are missing values "
            "elsewhere. The paper does not say what it did.",
            "CMC has three classes. The task is use against no use.",
            "The grid of C is 2^-8 to 2^8 by factors of 4 for each plane (T-SVM and SVM up to "
            "2^4), and the ridge of GEP-SVM is 0.0001 to 10,000. In the study of noise and on NDC "
            "data, SVM is LIBLINEAR's. The paper refers to another paper for its grid. A quick run "
            "has fewer points.",
            "LST-SVM and the paper's models have no ridge, by definition. Part of what M1+ and "
            "M2+ gain over them comes from the ridge, so LST+ is shown too.",
            "The study of noise has one draw of the noise for each fold. Differences below about "
            "one point are not significant.",
            "When the audit names the best of several methods (error 11), the best is chosen by "
            "the figures shown. That favours the methods measured here, not the paper.",
            "Standard deviations are over folds, which share training rows. They are not standard "
            "errors.",
        )),
    ]  # fmt: skip


def comparisons(rows: Records) -> list[tuple[str, RankComparison]]:
    """Compare the ranks of the paper's figures and of the measured ones."""
    printed = {c: [TABLE_III[t][c][0] for t in TABLE_III] for c in COLUMNS}
    return [
        ("The paper's table", compare_ranks(printed)),
        ("Measured, honest", comparison(rows, "honest", PAPER_METHODS)),
        ("Measured, optimistic", comparison(rows, "optimistic", PAPER_METHODS)),
        ("Measured, honest, with this library's searches", comparison(rows, "honest", METHODS)),
    ]


def _wide(caption: str, rows: Records, what: str, methods: Sequence[str]) -> Table:
    tables = list(dict.fromkeys(r["table"] for r in rows))
    by = {(r["table"], r["method"]): r for r in rows}
    body: list[list[Any]] = []
    for table in tables:
        line: list[Any] = [TITLES[table]]
        for method in methods:
            r = by[table, method]
            line.append(_beside(_value(r[what], r[f"{what}_std"]), r[what], r["paper"]))
        body.append(line)
    means: list[Any] = ["mean"]
    for method in methods:
        mine = [by[t, method] for t in tables]
        value = float(np.mean([r[what] for r in mine]))
        paper = None if mine[0]["paper"] is None else float(np.mean([r["paper"] for r in mine]))
        means.append(_beside(f"{value:.1f}", value, paper))
    ranks = comparison(rows, what, methods).mean_ranks
    foot = ["mean rank", *(f"{rank:.2f}" for rank in ranks)]
    caption += ", with the paper's figure."
    return Table(caption, ["dataset", *methods], [*body, means, foot], 2)


def _library(rows: Records) -> Table:
    tables = list(dict.fromkeys(r["table"] for r in rows))
    by = {(r["table"], r["method"]): r for r in rows}
    methods = ("LST-SVM", *LIBRARY_METHODS)
    body: list[list[Any]] = []
    for table in tables:
        values = [by[table, m]["honest"] for m in methods]
        body.append([TITLES[table], *(
            Value(_value(v, by[table, m]["honest_std"]),
                  f"optimistic {by[table, m]['optimistic']:.1f}",
                  "best" if v >= max(values) - 1e-9 else "plain")
            for m, v in zip(methods, values, strict=True)
        )])  # fmt: skip
    means = [np.mean([by[t, m]["honest"] for t in tables]) for m in methods]
    lucky = [np.mean([by[t, m]["optimistic"] for t in tables]) for m in methods]
    body.append(["mean", *(
        Value(f"{v:.1f}", f"optimistic {o:.1f}") for v, o in zip(means, lucky, strict=True)
    )])  # fmt: skip
    return Table(
        "What this library adds to LST-SVM: a ridge and a second rule (LST+), memberships (M1+), "
        "fuzzy planes (M2+). Honest accuracy in percent. Bold: the best of the row.",
        ["dataset", *methods], body, 1,
    )  # fmt: skip


def _curves(caption: str, shares: list[float], body: list[list[Any]]) -> Table:
    """Tabulate methods by shares of noise; the best of each column is bold."""
    top = [max(row[j] for row in body) for j in range(1, len(shares) + 1)]
    rows = [
        [row[0], *(
            Value(f"{v:.1f}", tone="best" if round(v, 1) >= round(t, 1) else "plain")
            for v, t in zip(row[1:], top, strict=True)
        )]
        for row in body
    ]  # fmt: skip
    return Table(caption, ["", *map(percent, shares)], rows)


def _beside(text: str, measured: float, paper: float | None) -> Value:
    if paper is None:
        return Value(text)
    tone = "plain" if abs(measured - paper) <= NEAR else "over" if measured > paper else "short"
    return Value(text, f"paper {paper:.1f}", tone)


def _value(mean: float, deviation: float | None) -> str:
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f}{NO_BREAK}±{NO_BREAK}{deviation:.1f}"


def _times(n: int, what: str = "time") -> str:
    words = {1: "once", 2: "twice"} if what == "time" else {1: f"one {what}"}
    return words.get(n, f"{n} {what}s")
