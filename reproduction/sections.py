"""The sections of the report: words and tables made from the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reproduction.cache import Records
from reproduction.document import Block, Figure, Heading, Table, Value, Words
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
from reproduction.summary import NEAR, long_name, noise_summary, percent, seconds, soft_summary
from reproduction.toy import NOISE, PROTOCOLS
from reproduction.uci import comparison

Data = dict[str, Records]


def protocols(scale: Scale) -> list[Block]:
    """Explain the two protocols."""
    return [
        Heading("How it was measured", short="Protocols"),
        Words(bullets=(
            f"**Honest**: {scale.folds} outer folds, {_times(scale.repeats)}. Imputing, encoding, "
            f"scaling and tuning ({scale.inner} inner folds) see the training rows of the outer "
            "fold only. The test rows are used once, by the finished model.",
            "**Optimistic** (paper-style): every point of the grid is scored by one run of "
            f"{scale.folds} folds, and the best mean is reported. The test rows choose the point "
            "that they then praise. It is too good by construction, and the more so the larger "
            "the grid. The paper's figures are best compared with this one.",
            "**Penalties 1**: no tuning at all. The paper does so on its toy and NDC data.",
        )),
        Words(
            "FLST-M1 and FLST-M2 are the paper's two models as their objectives mean them: crisp "
            "and fuzzy planes, no ridge, the paper's two memberships, its decision rule. LST+, "
            "M1+ and M2+ are what a search (`FuzzyTwinSVCCV`) makes of LST-SVM and the two models: "
            "it adds a ridge, more memberships and a second rule, and picks less greedily. Green "
            f"and red tints: more than {NEAR:g} point above or below the paper's figure."
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
            f"Crossing {place}: accuracy, %, mean ± deviation over draws. The paper's figures are "
            "with penalties 1, on its own points.",
            ["method", "penalties 1", "honest", "optimistic (too good)", "paper"], rows,
        ))  # fmt: skip
    return [
        Heading("The toy data (Table I, Figure 4)", short="Toy data"),
        Words(
            "The paper's 121 points were drawn by hand and never published. These are "
            f"{_times(scale.toy_draws, 'draw')} of `make_xor` (121 points along two crossing "
            f"lines, noise {NOISE:g}), with degrees given. So the figures cannot be equal; the "
            "order of the methods and the differences between them can be compared."
        ),
        Figure(
            "toy", "Data and lines of three methods",
            "Figure 4 again. (b) One line cannot part a cross. (c) LST-SVM with tuned penalties. "
            "(d) FLST-SVM: bands show where a plane's width exceeds its value (margin width 2, "
            "so that they can be seen). Shading: the predicted class.",
        ),
        *tables,
        Words(
            "With both penalties at 1 and no degrees, LST-SVM is plain least-squares "
            "classification: its planes are parallel, and it can do no more than one line can. "
            f"Degrees and fuzzy planes gain {gain:+.1f} points on it there. Where the "
            "crossing lies in the middle both classes have the same mean, and every least-squares "
            "twin SVM is blind; GEP-SVM is not."
        ),
    ]  # fmt: skip


def uci(scale: Scale, data: Data) -> list[Block]:
    """Compare with Table III, and test by Friedman and Nemenyi."""
    rows = data["uci"]
    paper_rows = [r for r in rows if r["method"] in PAPER_METHODS]
    results = dict(comparisons(rows))
    blocks: list[Block] = [
        Heading("Ten UCI tables (Table III)", short="UCI tables"),
        Figure(
            "uci", "Accuracy of FLST-SVM in the paper and here",
            "The paper's FLST-SVM (red) beside model M2 as measured here, and all ten methods of "
            "this report under the honest protocol (grey).",
        ),
        _wide("Honest protocol: accuracy, %, mean ± deviation over folds", paper_rows, "honest",
              PAPER_METHODS),
        _wide("Optimistic protocol (the best grid point by its own test rows): accuracy, %",
              paper_rows, "optimistic", PAPER_METHODS),
        Words(
            "The paper reports one FLST-SVM and says its experiments are about model M2. So the "
            "paper's column is compared with M2. M1 has none to compare with."
        ),
        _library(rows),
        Heading("Do the methods differ?", 3),
        Figure(
            "ranks", "Diagrams of critical differences",
            "Mean ranks over ten tables (1 is best). Methods under one bar do not differ by "
            "Nemenyi's test at 5%. Heart (Cleveland) holds all rows of Heart (Statlog), so the "
            "ten are not quite independent.",
        ),
    ]  # fmt: skip
    for title, result in results.items():
        best = result.names[int(np.argmin(result.mean_ranks))]
        blocks.append(Words(
            f"**{title}**: Friedman {result.chi2:.2f} (p = {result.chi2_p:.2g}), critical "
            f"difference {result.critical_difference:.2f}; best mean rank {best} "
            f"({result.mean_ranks.min():.2f}). " + " ".join(result.sentences())
        ))  # fmt: skip
    blocks.append(Words(
        f"The paper reports {FRIEDMAN} and a critical difference of {CRITICAL_DIFFERENCE}; its "
        "own accuracies give the first line above."
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
    left_out = "" if "1m" in sizes else " The million rows are left out of a quick run."
    return [
        Heading("Normally distributed clusters (Tables V and VI)", short="NDC"),
        Words(
            f"Training and test rows: {tested}; 32 columns, 100 centres. The paper's draws are "
            "not published and its generator's settings are not given, so absolute accuracies "
            "cannot be compared. Orders, differences and times can. SVM is LIBLINEAR's here."
            + left_out
        ),
        Figure("ndc", "Training time and accuracy on NDC data",
               "Left: seconds to train with penalties 1, one thread. Right: accuracy on the "
               "largest data, beside the paper's."),
        Table("Time to train, penalties 1, one thread. The paper gave up SVM and T-SVM on the "
              "million rows.", ["data", *PAPER_METHODS], times),
        table("Penalties 1, as in the paper: accuracy, %", "fixed"),
        table("Honest: tuned on training rows (at most the first 10,000), fitted on "
              "all: accuracy, %", "honest"),
        table("Optimistic (the best grid point by the test rows): accuracy, %", "optimistic"),
        Words(
            "With penalties 1 and no memberships LST-SVM is least-squares classification, and so "
            "is P-SVM except for a penalty on the length of its plane. Their figures are almost "
            "equal here; they are equal to the last printed digit in three of four rows of the "
            "paper's table too (80, 87.00 and 86.24), which takes them from the literature."
        ),
    ]  # fmt: skip


def noise(scale: Scale, data: Data) -> list[Block]:
    """Present the study of noise and that of soft labels."""
    rows = data["noise"]
    tables = len({r["table"] for r in rows})
    blocks: list[Block] = [
        Heading("What memberships earn", short="Noise and soft labels"),
        Words(
            "The paper argues that memberships protect against noise and outliers, and shows "
            f"neither. Here a share of the training labels is flipped, or of the training rows "
            f"moved by {FAR:g} standard deviations in every column. Methods are tuned on "
            f"the noisy training rows, and tested on clean ones. Means over {tables} tables, "
            f"{scale.noise_folds} outer folds. By the paper a degree weights only the slack; "
            "\"both terms\" lets it weigh the own class's distances too."
        ),
        Figure("noise", "Accuracy against the share of noise",
               "Accuracy against noise in the training rows. Methods from \"ridge\" on differ by "
               "their memberships only."),
    ]  # fmt: skip
    for kind, title in zip(KINDS, ("Labels flipped", "Rows made outliers"), strict=True):
        shares = noise_means(rows, kind, "none")[0]
        body = [
            [long_name(strategy), *noise_means(rows, kind, strategy)[1]] for strategy in STRATEGIES
        ]
        blocks.append(_curves(f"{title}: mean accuracy, %", shares, body))
    soft = data["soft"]
    shares = soft_means(soft, "hard")[0]
    body = [[strategy, *soft_means(soft, strategy)[1]] for strategy in SOFT_STRATEGIES]
    return [
        *blocks,
        Words(noise_summary(rows)),
        Heading("Soft labels, when degrees are informative", 3),
        Words(
            "Each training label is wrong with a probability that is known for its sample "
            "(uniform, from 0 to twice the share). `fit` gets only the labels (hard), the chance "
            "that the label is right as a degree, or both classes' chances (soft). All are "
            "`FuzzyTwinSVC(alpha=10.0)`; nothing is tuned. Means over "
            f"{len({r['table'] for r in soft})} tables."
        ),
        Figure("soft", "Accuracy with hard and soft labels",
               "What it is worth to pass the uncertainty of labels to `fit`."),
        _curves("Mean accuracy on clean test rows, %, by the share of wrong labels", shares, body),
        Words(soft_summary(soft)),
    ]  # fmt: skip


def audit(scale: Scale, data: Data) -> list[Block]:
    """Present the twelve findings."""
    claimed = data.get("uci", data.get("claimed", []))
    return [
        Heading("The audit: twelve errors", short="Audit"),
        Words(
            "Each formula was run as it is printed and as it must mean, on the ten tables "
            f"({scale.folds} folds; penalties 1, no ridge, the center membership, unless stated "
            "otherwise)."
        ),
        *findings(lookup(data["audit"]), claimed),
    ]


def caveats(scale: Scale, names: Sequence[str]) -> list[Block]:
    """List the limits of the results."""
    return [
        Heading("What to beware of", short="Caveats"),
        Words(bullets=(
            "Bupa's target is, according to UCI, a split into training and test part, not a "
            "diagnosis; the literature classifies it nevertheless.",
            "WPBC's column `time` partly gives the outcome away. The paper keeps it, and so does "
            "this report.",
            "Zeros that mean missing in Pima are imputed here; missing cells elsewhere too. The "
            "paper does not say what it did.",
            "CMC has three classes; the task is use against no use.",
            "Grids: C = 2^-8 ... 2^8 by factors of 4 for each plane (T-SVM and SVM up to 2^4), "
            "ridge of GEP-SVM 0.0001 to 10,000; in the study of noise and on NDC data "
            "SVM is LIBLINEAR's. The paper refers to another paper for its grid. A quick run has "
            "fewer points.",
            "LST-SVM and the paper's models have no ridge, by definition. Part of what M1+ and "
            "M2+ gain over them is the ridge's, which is why LST+ is shown too.",
            "The study of noise has one draw of the noise for each fold: differences below a point "
            "or so are not significant.",
            "Where the audit names the best of several methods (error 11), the best is picked by "
            "the figures shown. That flatters what is measured here, not the paper.",
            "Standard deviations are over folds, which share training rows: they are not "
            "standard errors.",
        )),
    ]  # fmt: skip


def comparisons(rows: Records) -> list[tuple[str, RankComparison]]:
    """Tabulate the paper's figures beside the measured ones."""
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
    return Table(caption + "; small: the paper's.", ["table", *methods], [*body, means, foot], 2)


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
        "fuzzy planes (M2+). Honest accuracy, %; bold: best of the row.",
        ["table", *methods], body, 1,
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
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"


def _times(n: int, what: str = "time") -> str:
    words = {1: "once", 2: "twice"} if what == "time" else {1: f"one {what}"}
    return words.get(n, f"{n} {what}s")
