"""How well wrong labels are found, against cleanlab with three classifiers.

Labels of clean tables are exchanged: of 10, 20 or 30 % of the rows at random; between a class and
the one whose mean is nearest; in the largest class only. Each table gets three of the nine cases,
every kind once and every rate once, turn and turn about (``--all``: all nine). Measured are the
ranking (area under the ROC curve, average precision), the flags (precision, recall, F1) and the
processor's time on one thread. A method's rank is among all methods, case by case.

The rivals are cleanlab's own defaults: `get_label_quality_scores` and `find_label_issues` on
probabilities out of 5 folds. cleanlab is no dependency of the library: ``pip install cleanlab``.

Our committee, the penalties of the model of labels and the rule for flags were chosen on the first
half of the tables, and on made-up ones with a rare class, with overlapping classes or with features
that tell nothing; the second half confirms, but for two of the penalties, where marketing, letter
and cmc were looked at. Tables of one origin are in one half.

Options: ``--all``; ``--cache FILE`` keeps results of the rivals; ``--only NAME,NAME`` tables;
``--loop`` compares with finding again where the first degrees are weights, without rivals.
Otherwise about half an hour on one core, most of it boosting of many classes.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, precision_recall_fscore_support, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from fuzzytwin.datasets import list_uci, load_uci, uci_preprocessor
from fuzzytwin.doubts import find_doubtful

FOLDER = Path("/work/shared/data/more")
HALVES = {
    "chosen on": (
        "australian", "bupa", "heart_cleveland", "heart_statlog", "pima", "banana", "magic",
        "chess", "yeast4", "yeast6", "page-blocks0", "car-good", "breast_cancer", "iris",
        "satimage", "penbased", "texture",
    ),
    "confirmed on": (
        "cmc", "hepatitis", "sonar", "votes", "wpbc", "ring", "twonorm", "segment0", "abalone19",
        "abalone9-18", "winequality-red-4", "poker-9_vs_7", "wine", "splice", "segment",
        "marketing", "optdigits", "digits", "letter",
    ),
}  # fmt: skip
KINDS, RATES = ("random", "similar", "one class"), (0.1, 0.2, 0.3)
RIVALS = {
    "logistic": lambda: LogisticRegression(max_iter=1000),
    "forest": lambda: RandomForestClassifier(random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
}
OURS = "find_doubtful"
MEASURES = ("AUC", "avg. precision", "precision", "recall", "F1")
SHIPPED = {
    "iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}  # fmt: skip


def table(name):
    """Rows as numbers, scaled, and labels from 0 on."""
    if name in list_uci():
        X, y = load_uci(name, return_X_y=True)
        X = uci_preprocessor(name).fit_transform(X)
    elif name in SHIPPED:
        X, y = SHIPPED[name](return_X_y=True)
        X = StandardScaler().fit_transform(X)
    else:
        frame = pd.read_csv(FOLDER / f"{name}.csv")
        y = frame.pop("label")
        X = make_column_transformer(
            (StandardScaler(), make_column_selector(dtype_include="number")),
            remainder=OneHotEncoder(sparse_output=False),
        ).fit_transform(frame)
    return np.asarray(X, float), np.unique(np.asarray(y).astype(str), return_inverse=True)[1]


def exchanged(X, y, kind, rate):
    """Labels of which some are wrong."""
    rng = np.random.default_rng([int(100 * rate), KINDS.index(kind)])
    K, labels, rows = y.max() + 1, y.copy(), np.arange(len(y))
    if kind == "one class":
        rows = np.flatnonzero(y == np.bincount(y).argmax())
    wrong = rng.choice(rows, round(rate * len(rows)), replace=False)
    if kind == "similar":
        means = np.array([X[y == k].mean(axis=0) for k in range(K)])
        apart = ((means[:, None] - means) ** 2).sum(axis=-1)
        np.fill_diagonal(apart, np.inf)
        labels[wrong] = apart.argmin(axis=1)[y[wrong]]
    else:
        labels[wrong] = (y[wrong] + rng.integers(1, K, len(wrong))) % K
    return labels


def rival(make, X, labels):
    """Doubt of each row, and which are flagged, by cleanlab."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    P = cross_val_predict(make(), X, labels, cv=folds, method="predict_proba")
    codes = np.unique(labels, return_inverse=True)[1]
    return -get_label_quality_scores(codes, P), find_label_issues(codes, P, n_jobs=1)


def ours(X, labels):
    report = find_doubtful(X, labels)
    return -report.degrees, report.doubtful


def loop(X, labels):
    """Find, down-weigh, find again."""
    first = find_doubtful(X, labels)
    report = find_doubtful(X, labels, sample_weight=np.maximum(first.degrees, 1e-3))
    return -report.degrees, report.doubtful


def measured(wrong, work, *arguments):
    """The measures and the seconds of one method."""
    start = time.process_time()
    doubt, flags = work(*arguments)
    seconds = time.process_time() - start
    quality = precision_recall_fscore_support(wrong, flags, average="binary", zero_division=0)[:3]
    return [
        float(value)
        for value in (
            roc_auc_score(wrong, doubt), average_precision_score(wrong, doubt), *quality, seconds,
        )
    ]  # fmt: skip


def cases(name, everything):
    """Kinds and rates for a table."""
    if everything:
        return [(kind, rate) for kind in KINDS for rate in RATES]
    place = [*HALVES["chosen on"], *HALVES["confirmed on"]].index(name)
    return [(kind, RATES[(place + i) % 3]) for i, kind in enumerate(KINDS)]


def show_loop(names, everything):
    """Means of one round and of two."""
    found = []
    for name in names:
        X, y = table(name)
        for kind, rate in cases(name, everything):
            labels = exchanged(X, y, kind, rate)
            found.append([measured(labels != y, work, X, labels) for work in (ours, loop)])
    for method, means in zip(
        ("find", "find, down-weigh, find"), np.mean(found, axis=0), strict=True
    ):
        cells = "".join(f"{name} {mean:.3f}  " for name, mean in zip(MEASURES, means, strict=False))
        print(f"{method:24s}{cells}")


def results(names, everything, cache):
    """Measures of every method, by table and case, in the order of the table."""
    known = json.loads(cache.read_text()) if cache is not None and cache.exists() else {}
    out = {}
    for name in names:
        X, y = table(name)
        for kind, rate in cases(name, everything):
            labels = exchanged(X, y, kind, rate)
            found = out[name, kind, rate] = {OURS: measured(labels != y, ours, X, labels)}
            for method, make in RIVALS.items():
                key = f"{name}, {kind}, {rate}, {method}"
                if key not in known:
                    known[key] = measured(labels != y, rival, make, X, labels)
                    if cache is not None:
                        cache.write_text(json.dumps(known))
                found[method] = known[key]
        print(name, flush=True)
    return out


def show(title, found):
    """Means and mean ranks over some cases."""
    methods = [OURS, *RIVALS]
    scores = np.array([[case[method] for method in methods] for case in found.values()])
    ranks = rankdata(-scores[:, :, :-1], axis=1).mean(axis=0)
    seconds = scores[:, :, -1]
    forest = methods.index("forest")
    print(f"\n{title}: {len(found)} cases; mean (mean rank)")
    print(f"{'':14s}" + "".join(f"{m:>17s}" for m in MEASURES) + f"{'s':>8s}{'of forest':>11s}")
    for i, method in enumerate(methods):
        cells = "".join(
            f"{scores[:, i, j].mean():10.3f} ({ranks[i, j]:4.2f})" for j in range(len(MEASURES))
        )
        share = (seconds[:, i] / seconds[:, forest]).mean()
        print(f"{method:14s}{cells}{seconds[:, i].mean():8.2f}{share:11.3f}")


def show_counts(names, everything):
    """How well the number of wrong labels is estimated, and what is flagged on clean tables."""
    errors, inside, clean = [], [], []
    for name in names:
        X, y = table(name)
        clean.append(find_doubtful(X, y).doubtful.mean())
        for kind, rate in cases(name, everything):
            labels = exchanged(X, y, kind, rate)
            report, wrong = find_doubtful(X, labels), (labels != y).sum()
            errors.append((report.n_wrong - wrong) / len(y))
            low, high = report.n_wrong_interval
            inside.append(low <= wrong <= high)
    print(
        f"share of wrong labels: error {np.mean(errors):+.3f}, absolute {np.abs(errors).mean():.3f}"
        f"; the 95 % interval holds the number in {np.mean(inside):.0%} of the cases; of the "
        f"labels as they are, {np.mean(clean):.1%} are flagged"
    )


def run(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks doubts")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--loop", action="store_true")
    options = parser.parse_args(arguments)
    only = [name for name in options.only.split(",") if name]
    together = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for half, names in HALVES.items():
            names = [name for name in names if not only or name in only]
            if not names:
                continue
            if options.loop:
                print(f"{half} {', '.join(names)}")
                show_loop(names, options.all)
                continue
            found = results(names, options.all, options.cache)
            show(f"{half} {', '.join(names)}", found)
            show_counts(names, options.all)
            together |= found
    if options.loop:
        return
    show("all tables", together)
    for kind in KINDS:
        show(f"wrong labels: {kind}", {k: v for k, v in together.items() if k[1] == kind})
    for rate in RATES:
        show(f"{rate:.0%} wrong", {k: v for k, v in together.items() if k[2] == rate})
