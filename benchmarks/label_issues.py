"""How well label errors are found, against cleanlab with four classifiers.

``--noise uniform|class|pair|border``: labels of 36 clean tables are flipped, in 5, 15 or 30% of
the rows; each table gets one rate, by turns (``--all``: all three). ``--noise real``: five tables
whose labels were wrong in fact, read from a folder of yours (`benchmarks/_keel.py` has their
sources). ``--noise outcome``: a rare outcome (2 to 20%), drawn from p(x), with 0, 2 or 5% of the
labels wrong. ``--noise overlap``: classes drawn from p(x), no label wrong.
`benchmarks/_label_error_cases.py` explains the kinds. Without ``--noise``, all of them.

Measured are the ranking (area under the ROC curve, average precision), the flags (precision,
recall, F1), the estimated over the true number of label errors (median), the share of cases in
which the 95% interval contains that number and begins at 0, the share of rows that are flagged, the
share of label errors before and after all suggestions are accepted, as said and as true, the share
of cases in which accepting does no harm that was not announced (sign), and the CPU time on one
thread. P-values compare the ranking and the flags with each baseline over the cases. The baselines
are cleanlab's defaults: `get_label_quality_scores`, `find_label_issues` and `num_label_issues` on
probabilities from 5 folds. cleanlab and most of the tables come with
``pip install -e ".[benchmarks]"``.

If label errors are so many that the features no longer separate the classes (a class of 2%, 30% of
all labels wrong), `find_label_issues` flags nothing, as for random labels. Its F1 is 0 there, while
a classifier that guesses the larger class has some.

The label-noise model was chosen on the first half of the tables, on the five real ones and on
synthetic ones. The second half confirms. docs/compare.md says for which choices it was also used.
Tables of one origin are in one half.

``--reviews``: the number of label errors after reviews of 30 rows (``--n-reviewed N``).
``--votes``: several annotators, good, lazy, weak and adversarial ones. ``--nothing``: 200 tables
without signal, and 200 without noise. ``--certain``: 24 tables whose labels cannot be wrong, two
normal classes, and a hospital with a rare outcome. ``--many``: 10,000 rows of 256 columns, twelve
classes in confusable pairs.

Other options: ``--labels annotated|observed`` (``auto`` otherwise); ``--ours``: no baselines;
``--cache FILE`` keeps results of the baselines, by case; ``--baselines`` computes only these;
``--only NAME,NAME`` tables; ``--lines`` shows every case.
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
from benchmarks._label_error_cases import DRAWN, MADE, cases
from benchmarks._significance import print_p_values
from fuzzytwin.label_issues import find_label_issues

BASELINES = {
    "logistic": lambda: LogisticRegression(max_iter=1000),
    "LDA": lambda: LinearDiscriminantAnalysis(),
    "forest": lambda: RandomForestClassifier(random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
}
OURS = "find_label_issues"
RANKED = ("AUC", "avg. prec.", "precision", "recall", "F1")
TESTED = ("AUC", "avg. prec.", "F1")  # for significance
MEASURES = (
    *RANKED, "number", "coverage", "from 0", "flagged", "said", "after", "true", "after", "sign",
    "seconds",
)  # fmt: skip


def baseline(make, X, labels):
    """Doubt of each row, flags, number and interval of label errors, suggestions; by cleanlab."""
    from cleanlab.count import num_label_issues
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    P = cross_val_predict(make(), X, labels, cv=folds, method="predict_proba")
    classes, codes = np.unique(labels, return_inverse=True)
    flags = find_label_issues(codes, P, n_jobs=1)
    number = num_label_issues(codes, P)
    suggested = np.where(flags, classes[P.argmax(axis=1)], labels)
    doubt = -get_label_quality_scores(codes, P)
    return doubt, flags, number, (np.nan, np.nan), suggested, np.nan


def ours(X, labels, how="auto"):
    report = find_label_issues(X, labels, labels=how)
    return (
        -report.label_quality, report.is_label_issue, report.n_errors, report.n_errors_interval,
        report.suggested_labels, report.n_errors_if_accepted,
    )  # fmt: skip


def measured(case, work, *arguments):
    """The measures of one method; shares of all rows if they do not refer to errors."""
    start = time.process_time()
    doubt, flags, number, (low, high), suggested, number_after = work(*arguments)
    seconds = time.process_time() - start
    wrong, n = case.wrong, len(case.wrong)
    ranked, over_true = [np.nan] * 5, np.nan
    if wrong.any():
        quality = precision_recall_fscore_support(wrong, flags, average="binary", zero_division=0)
        ranked = [roc_auc_score(wrong, doubt), average_precision_score(wrong, doubt), *quality[:3]]
        over_true = number / wrong.sum()
    after = (suggested != case.truth).sum()
    harm_unsaid = after > wrong.sum() and not number_after > number
    found = [
        *ranked, over_true, np.nan if np.isnan(low) else low <= wrong.sum() <= high,
        np.nan if np.isnan(low) else low < 0.5, flags.mean(), number / n, number_after / n,
        wrong.mean(), after / n, not harm_unsaid, seconds,
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
            found[OURS] = measured(case, ours, case.X, case.labels, options.labels)
        for method, make in BASELINES.items() if not options.ours else ():
            key = f"{case.key}, {method}"
            if key not in known:
                known[key] = measured(case, baseline, make, case.X, case.labels)
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
    n_ranked = len(RANKED)
    with_errors = scores[~np.isnan(scores[:, 0, 0])]
    ranks = np.full((len(methods), n_ranked), np.nan)
    if len(with_errors):
        ranks = rankdata(-with_errors[:, :, :n_ranked], axis=1).mean(axis=0)
    print(f"\n{title}: {len(found)} cases, {len(with_errors)} with errors; mean (mean rank)")
    print(f"{'':18s}" + "".join(f"{m:>14s}" for m in RANKED)
          + "".join(f"{m:>9s}" for m in MEASURES[n_ranked:]))  # fmt: skip
    for i, method in enumerate(methods):
        means = np.nanmean(scores[:, i], axis=0)
        means[n_ranked] = np.nanmedian(scores[:, i, n_ranked])
        cells = "".join(
            f"{m:7.3f} ({r:4.2f})" for m, r in zip(means[:n_ranked], ranks[i], strict=True)
        )
        others = "".join(f"{m:9.3f}" for m in means[n_ranked:])
        print(f"{method:18s}{cells}{others}", flush=True)
    if len(with_errors) and methods[0] == OURS and len(methods) > 1:
        for measure in TESTED:
            values = with_errors[:, :, MEASURES.index(measure)]
            baselines = dict(zip(methods[1:], values[:, 1:].T, strict=True))
            print_p_values(measure, values[:, 0], baselines)


def run(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks label_issues")
    parser.add_argument("--noise", choices=[*MADE, "real", *DRAWN])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--cache", type=Path)
    parser.add_argument(
        "--only", default="", type=lambda text: tuple(filter(None, text.split(",")))
    )
    parser.add_argument("--baselines", action="store_true")
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--labels", choices=["auto", "annotated", "observed"], default="auto")
    parser.add_argument("--certain", action="store_true")
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("--reviews", action="store_true")
    parser.add_argument("--n-reviewed", type=int, default=30)
    parser.add_argument("--votes", action="store_true")
    parser.add_argument("--nothing", action="store_true")
    options = parser.parse_args(arguments)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kinds = [options.noise] if options.noise else [*MADE, "real", *DRAWN]
        if options.reviews:
            _label_issues_more.reviews(kinds, options.n_reviewed, options.labels)
        if options.votes:
            _label_issues_more.votes()
            _label_issues_more.votes_interval()
        if options.nothing:
            _label_issues_more.nothing()
        if options.certain:
            _label_issues_more.certain_labels(options.labels)
        if options.many:
            _label_issues_more.many_classes(baseline, BASELINES, options.labels)
        if any(
            getattr(options, name) for name in ("reviews", "votes", "nothing", "certain", "many")
        ):
            return
        for kind in kinds:
            found = results(kind, options)
            halves = list(dict.fromkeys(case.half for case, _ in found))
            for half in [*halves, *(["all tables"] if len(halves) > 1 else [])]:
                some = [pair for pair in found if half in (pair[0].half, "all tables")]
                show(f"{kind}, {half}", some)
