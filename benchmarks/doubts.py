"""How well wrong labels are found, against cleanlab with three classifiers.

``--noise uniform|class|pair|border``: labels of 36 clean tables are exchanged, of 5, 15 or 30 % of
the rows; each table gets one rate, by turns (``--all``: all three). ``--noise real``: five tables
whose labels were wrong in fact, read from a folder of yours (`benchmarks/_keel.py` has their
sources). ``--noise mixed``: the 108 cases of earlier versions. See `benchmarks/_doubt_cases.py` for
what each kind is. Without ``--noise``, all but mixed.

Measured are the ranking (area under the ROC curve, average precision), the flags (precision,
recall, F1), the estimated over the true number of wrong labels, the share of cases where the 95 %
interval holds that number, and the processor's time on one thread. The rivals are cleanlab's own
defaults: `get_label_quality_scores`, `find_label_issues` and `num_label_issues` on probabilities
out of 5 folds. cleanlab and most of the tables come with ``pip install -e ".[benchmarks]"``.

Where wrong labels are so many that the columns no longer tell the classes apart (a class of 2 %,
30 % of all labels wrong), `find_doubtful` flags nothing, as on labels drawn at random: it has no F1
there, while a classifier that guesses the larger class has. Means without these cases stand apart.

Our model of labels was chosen on the first half of the tables, on the five real ones and on made-up
ones; the second half confirms, but it was looked at for the number of landmarks, for the rule about
small classes that are never found, and when sharper borders were tried and given up. Tables of one
origin are in one half.

``--settle``: the number of wrong labels after 30 rows were looked at (``--asked N``). ``--votes``:
several annotators, good, lazy, weak and adversarial ones. ``--nothing``: 200 tables without signal,
and 200 without noise.

Other options: ``--cache FILE`` keeps results of the rivals, by case; ``--rivals`` computes these
alone; ``--only NAME,NAME`` tables; ``--lines`` shows every case.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, precision_recall_fscore_support, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from threadpoolctl import threadpool_limits

from benchmarks import _doubt_more
from benchmarks._doubt_cases import MADE, cases
from fuzzytwin.doubts import find_doubtful

RIVALS = {
    "logistic": lambda: LogisticRegression(max_iter=1000),
    "forest": lambda: RandomForestClassifier(random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
}
OURS = "find_doubtful"
MEASURES = ("AUC", "avg. prec.", "precision", "recall", "F1", "number", "coverage", "seconds")


def rival(make, X, labels):
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
    report = find_doubtful(X, labels)
    return -report.degrees, report.doubtful, report.n_wrong, report.n_wrong_interval


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
        if not options.rivals:
            found[OURS] = measured(case.wrong, ours, case.X, case.labels)
        for method, make in RIVALS.items():
            key = f"{case.key}, {method}"
            if key not in known:
                known[key] = measured(case.wrong, rival, make, case.X, case.labels)
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks doubts")
    parser.add_argument("--noise", choices=[*MADE, "real", "mixed"])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--cache", type=Path)
    parser.add_argument(
        "--only", default="", type=lambda text: tuple(filter(None, text.split(",")))
    )
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("--settle", action="store_true")
    parser.add_argument("--asked", type=int, default=30)
    parser.add_argument("--votes", action="store_true")
    parser.add_argument("--nothing", action="store_true")
    options = parser.parse_args(arguments)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kinds = [options.noise] if options.noise else [*MADE, "real"]
        if options.settle:
            _doubt_more.settle(kinds, options.asked)
        if options.votes:
            _doubt_more.votes()
        if options.nothing:
            _doubt_more.nothing()
        if options.settle or options.votes or options.nothing:
            return
        for kind in kinds:
            found = results(kind, options)
            halves = list(dict.fromkeys(case.half for case, _ in found))
            for half in [*halves, *(["all tables"] if len(halves) > 1 else [])]:
                some = [pair for pair in found if half in (pair[0].half, "all tables")]
                show(f"{kind}, {half}", some)
                told = [pair for pair in some if not np.isnan(pair[1].get(OURS, [0.0] * 8)[5])]
                if len(told) < len(some):
                    show(f"{kind}, {half}, where columns tell the classes apart by our test", told)
