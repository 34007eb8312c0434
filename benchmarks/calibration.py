"""Log loss and accuracy of probabilities by `calibration`, for tuned and untuned planes.

The ten shipped tables and those of KEEL (`benchmarks._keel`), columns of text encoded: how
probabilities are computed was chosen on these. (The prior of "loo" on samples of 60, 120 and 300
rows of the first half of the tables of `benchmarks.label_issues`, its strength also so that few of
all these tables come out above eq29.) Confirmed on scikit-learn's own tables and on generated ones,
"aside". Outer 3 folds, everything (scaling, tuning) on the outer training rows only.
`LogisticRegressionCV` is tuned by its log loss.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from joblib import Memory, Parallel, delayed
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._collection import _generated, _of_sklearn, _sample
from benchmarks._keel import KEEL, has_keel, keel_table, say_what_runs
from benchmarks._tables import tasks
from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV
from reproduction.preprocessing import uci_preprocessor

MOST_ROWS = 1000
KINDS = (None, "loo")
MEASURES = ("log loss", "accuracy", "balanced")


def tables():
    """Name, rows, labels and how to prepare columns, of every table. Missing ones are printed."""
    keel = KEEL if has_keel() else ()
    others = [*(name for name, _, _ in tasks()), *_of_sklearn(), *_generated()]
    say_what_runs([*others, *keel], [*others, *KEEL])
    for name, X, y in tasks():
        yield name, X, y, uci_preprocessor(name)
    for name in keel:
        table = keel_table(name)
        y = np.unique(table.pop("label"), return_inverse=True)[1]
        if len(y) > MOST_ROWS and y.max() > 4:
            some = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
            table, y = table.iloc[some], np.unique(y[some], return_inverse=True)[1]
        encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False, min_frequency=5)
        prepare = make_column_transformer(
            (StandardScaler(), make_column_selector(dtype_include="number")),
            (encoder, make_column_selector(dtype_exclude="number")),
        )
        yield name, table, y, prepare
    for name, (X, y) in {**_of_sklearn(), **_generated()}.items():
        X, y = _sample(X, np.unique(y, return_inverse=True)[1])
        yield f"aside: {name}", X, y, StandardScaler()


def losses(X, y, prepare, tuned):
    """Log loss, accuracy and balanced accuracy of logistic regression and of every kind, (3, 3)."""
    found = []
    splits = StratifiedKFold(3, shuffle=True, random_state=0).split(np.zeros(len(y)), y)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for train, test in splits:
            train = np.random.default_rng(1).permutation(train)
            rows = [X.iloc[i] if hasattr(X, "iloc") else X[i] for i in (train, test)]
            A = np.asarray(prepare.fit_transform(rows[0]), float)
            B = np.asarray(prepare.transform(rows[1]), float)
            logistic = LogisticRegressionCV(Cs=10, cv=3, max_iter=300, scoring="neg_log_loss")
            proba = [logistic.fit(A, y[train]).predict_proba(B)]
            best = {}
            if tuned:
                search = FuzzyTwinSVCCV(memberships=(None, "hyperplane"))
                best = search.fit(A, y[train]).best_params_
            for kind in KINDS:
                model = FuzzyTwinSVC(calibration=kind, **best).fit(A, y[train])
                predict = model.predict_membership if kind is None else model.predict_proba
                proba.append(predict(B))
            labels = [P.argmax(axis=1) for P in proba]
            found.append([
                [log_loss(y[test], P, labels=np.arange(y.max() + 1)) for P in proba],
                [accuracy_score(y[test], label) for label in labels],
                [balanced_accuracy_score(y[test], label) for label in labels],
            ])  # fmt: skip
    return np.mean(found, axis=0)


def run(arguments: list[str]) -> None:
    folder = arguments[arguments.index("--cache") + 1] if "--cache" in arguments else None
    compute = Memory(folder, verbose=0).cache(losses)
    warnings.simplefilter("ignore", UserWarning)  # joblib: large arguments
    all_tables = [t for t in tables() if not _named(arguments) or t[0] in _named(arguments)]
    for tuned in (False, True):
        scores = np.array(
            Parallel(n_jobs=1)(
                delayed(compute)(X, y, prepare, tuned) for _, X, y, prepare in all_tables
            )
        )
        print(f"\n{'FuzzyTwinSVCCV' if tuned else 'FuzzyTwinSVC, default settings'}")
        print(f"{'':28s}{'logistic':>10s}{'eq29':>10s}{'loo':>10s}")
        for (name, *_), (row, *_) in zip(all_tables, scores, strict=True):
            above = "   above eq29" if row[2] >= row[1] else ""
            print(f"{name:28s}" + "".join(f"{value:10.3f}" for value in row) + above)
        aside = np.array([name.startswith("aside") for name, *_ in all_tables])
        for title, part in {"chosen on": ~aside, "kept aside": aside}.items():
            if part.any():
                mean = scores[part].mean(axis=0)
                ratio = f"   loo / logistic {mean[0, 2] / mean[0, 0]:.3f}"
                for what, values in zip(MEASURES, mean, strict=True):
                    cells = "".join(f"{value:10.4f}" for value in values)
                    print(f"{f'{title}, {what}':28s}{cells}{ratio}")
                    ratio = ""
        sys.stdout.flush()


def _named(arguments: list[str]) -> list[str]:
    """Take the names of tables from the command line."""
    if "--only" not in arguments:
        return []
    return arguments[arguments.index("--only") + 1].split(",")
