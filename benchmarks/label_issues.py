"""How well label errors are found, against cleanlab with three classifiers.

``--noise uniform|class|pair|border``: labels of 36 clean tables are flipped, in 5, 15 or 30% of
the rows; each table gets one rate, by turns (``--all``: all three). ``--noise real``: five tables
whose labels were wrong in fact, read from a folder of yours (`benchmarks/_keel.py` has their
sources). ``--noise mixed``: the 108 cases of earlier versions. `benchmarks/_label_error_cases.py`
explains the kinds. Without ``--noise``, all but mixed.

Measured are the ranking (area under the ROC curve, average precision), the flags (precision,
recall, F1), the estimated over the true number of label errors, the share of cases in which the
95% interval contains that number, and the CPU time on one thread. The baselines are cleanlab's
defaults: `get_label_quality_scores`, `find_label_issues` and `num_label_issues` on probabilities
from 5 folds. cleanlab and most of the tables come with ``pip install -e ".[benchmarks]"``.

If label errors are so many that the features no longer separate the classes (a class of 2%, 30% of
all labels wrong), `find_label_issues` flags nothing, as for random labels. Its F1 is 0 there, while
a classifier that guesses the larger class has some. Means without these cases are shown too.

The label-noise model was chosen on the first half of the tables, on the five real ones and on
synthetic ones; the second half confirms, but it was used for the number of landmarks, for the rule
about small classes that are never recognised, and when sharper boundaries were tried and given up.
Tables of one origin are in one half.

``--reviews``: the number of label errors after reviews of 30 rows (``--n-reviewed N``).
``--votes``: several annotators, good, lazy, weak and adversarial ones. ``--nothing``: 200 tables
without signal, and 200 without noise.

Other options: ``--cache FILE`` keeps results of the baselines, by case; ``--baselines`` computes
only these; ``--only NAME,NAME`` tables; ``--lines`` shows every case.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import rankdata
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, precision_recall_fscore_support, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from threadpoolctl import threadpool_limits

from benchmarks import _label_issues_more
from benchmarks._label_error_cases import MADE, cases
from fuzzytwin.label_issues import find_label_issues

BASELINES = {
    "logistic": lambda: LogisticRegression(max_iter=1000),
    "LDA": lambda: LinearDiscriminantAnalysis(),
    "forest": lambda: RandomForestClassifier(random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
}
OURS = "find_label_issues"
MEASURES = ("AUC", "avg. prec.", "precision", "recall", "F1", "number", "coverage", "seconds")


def baseline(make, X, labels):
    """Doubt of each row, which are flagged, and the number of wrong labels, by cleanlab."""
    from cleanlab.count import num_label_issues
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    P = cross_val_predict(make(), X, labels, cv=folds, method="predict_proba")
    codes = np.unique(labels, return_inverse=True)[1]
    flags = find_label_issues(codes, P, n_jobs=1)
    number = num_label_issues(codes, P)
    return -get_label_quality_scores(codes, P), flags, number, (np.nan, np.nan)


def ours(X, labels):
    report = find_label_issues(X, labels)
    return -report.label_quality, report.is_label_issue, report.n_errors, report.n_errors_interval


def measured(wrong, work, *arguments):
    """The measures of one method."""
    start = time.process_time()
    doubt, flags, number, (low, high) = work(*arguments)
    seconds = time.process_time() - start
    quality = precision_recall_fscore_support(wrong, flags, average="binary", zero_division=0)[:3]
    found = [
        roc_auc_score(wrong, doubt), average_precision_score(wrong, doubt), *quality,
        number / wrong.sum(), np.nan if np.isnan(low) else low <= wrong.sum() <= high, seconds,
    ]  # fmt: skip
    return [float(value) for value in found]


def results(kind, options):
    """Measures of every method, case by case."""
    cache = options.cache
    known = json.loads(cache.read_text()) if cache is not None and cache.exists() else {}
    out = []
    for case in cases(kind, options.all, options.only):
        found = {}
        if not options.baselines:
            found[OURS] = measured(case.wrong, ours, case.X, case.labels)
        for method, make in BASELINES.items():
            key = f"{case.key}, {method}"
            if key not in known:
                known[key] = measured(case.wrong, baseline, make, case.X, case.labels)
                if cache is not None:
                    cache.write_text(json.dumps(known))
            found[method] = known[key]
        out.append((case, found))
        if options.lines:
            for method, row in found.items():
                cells = " ".join(f"{value:6.3f}" for value in row)
                print(f"{case.key:36s} {method:14s} {cells}", flush=True)
    return out


def show(title, found):
    """Means and mean ranks over some cases."""
    if not found:
        return
    methods = list(found[0][1])
    scores = np.array([[measures[method] for method in methods] for _, measures in found])
    ranks = rankdata(-scores[:, :, :5], axis=1).mean(axis=0)
    print(f"\n{title}: {len(found)} cases; mean (mean rank)")
    print(f"{'':14s}" + "".join(f"{m:>14s}" for m in MEASURES[:5])
          + "".join(f"{m:>10s}" for m in MEASURES[5:]))  # fmt: skip
    for i, method in enumerate(methods):
        means = [scores[:, i, j].mean() for j in range(5)]
        cells = "".join(f"{m:7.3f} ({r:4.2f})" for m, r in zip(means, ranks[i], strict=True))
        number, covered, seconds = (scores[:, i, j] for j in (5, 6, 7))
        print(f"{method:14s}{cells}{np.nanmedian(number):10.2f}{covered.mean():10.2f}"
              f"{seconds.mean():10.2f}", flush=True)  # fmt: skip


def run(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks label_issues")
    parser.add_argument("--noise", choices=[*MADE, "real", "mixed"])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--cache", type=Path)
    parser.add_argument(
        "--only", default="", type=lambda text: tuple(filter(None, text.split(",")))
    )
    parser.add_argument("--baselines", action="store_true")
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("--reviews", action="store_true")
    parser.add_argument("--n-reviewed", type=int, default=30)
    parser.add_argument("--votes", action="store_true")
    parser.add_argument("--nothing", action="store_true")
    options = parser.parse_args(arguments)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kinds = [options.noise] if options.noise else [*MADE, "real"]
        if options.reviews:
            _label_issues_more.reviews(kinds, options.n_reviewed)
        if options.votes:
            _label_issues_more.votes()
        if options.nothing:
            _label_issues_more.nothing()
        if options.reviews or options.votes or options.nothing:
            return
        for kind in kinds:
            found = results(kind, options)
            halves = list(dict.fromkeys(case.half for case, _ in found))
            for half in [*halves, *(["all tables"] if len(halves) > 1 else [])]:
                some = [pair for pair in found if half in (pair[0].half, "all tables")]
                show(f"{kind}, {half}", some)
                separable = [pair for pair in some if not np.isnan(pair[1].get(OURS, [0.0] * 8)[5])]
                if len(separable) < len(some):
                    show(
                        f"{kind}, {half}, if the features separate the classes by our test",
                        separable,
                    )
