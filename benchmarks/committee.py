"""The committee against what people use: accuracy, probabilities and time.

``accuracy``: outer 5 folds of 51 tables of at most 600 rows (`benchmarks._collection`; two halves,
choices were made on the first alone), clean and with 20% of the training labels flipped. Columns
are imputed, encoded and scaled, and rivals tuned, on the training rows. LightGBM, XGBoost and
CatBoost stop early on a fifth of them, where they are installed (``pip install -e
".[benchmarks]"``). ``--cache FILE`` keeps results of single fits (further files are read alone),
``--folds N``, ``--only NAME,NAME`` and ``--methods NAME,NAME`` limit the work, and ``--known``
reports what the files hold, on the folds that all methods have. ``--sizes medium``: 12 tables of
5,300 to 20,000 rows instead (`benchmarks._collection.MEDIUM`), one split each, CatBoost with 500
rounds, LightGBM, histogram boosting and a forest of 300 trees with their defaults.
``large``: log loss and time on tables of 5,000 to 50,000 rows, against HistGradientBoosting.
``thresholds``: labels that follow random trees of depth three and four, columns normal or
heavy-tailed, against HistGradientBoosting.
``held-out``: log loss of held-out predictions against that of new rows.
``centers``: landmarks that are not rows (``n_landmarks="centers"``), on eight tables.
``time``: one thread, as ratios within one run.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.datasets import make_classification, make_gaussian_quantiles, make_hastie_10_2
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks._collection import _checkers, _noisy, _spirals, collection, medium_tables
from benchmarks._measure import least_times, verdict
from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVCCV
from fuzzytwin.datasets import make_ndc

FLIPPED = 0.2
MEASURES = ("accuracy", "balanced", "log loss", "AUC", "seconds")
OURS = "committee"
LANDMARKS = ("auto", "centers")
CENTERS = (
    "australian", "banana", "breast_cancer", "heart_statlog", "pima", "sonar", "wine", "yeast4",
)  # fmt: skip
# Tables with categories or gaps, encoded and filled in on the training rows.
MIXED = (
    "australian", "car-good", "chess", "cmc", "heart_cleveland", "heart_statlog", "hepatitis",
    "marketing", "splice", "votes", "wpbc",
)  # fmt: skip


def methods():
    """Ours, and what people use."""
    grid = {"C": np.logspace(-1, 3, 5), "gamma": ["scale", *np.logspace(-3, 0, 4)]}
    found = {
        OURS: FuzzyTwinCommittee(random_state=0),
        "with noise": FuzzyTwinCommittee(noise="auto", random_state=0),
        "search": FuzzyTwinSVCCV(kernels=("linear", "rbf"), random_state=0),
        "SVC": GridSearchCV(SVC(), grid, cv=5),
        "forest": RandomForestClassifier(300, random_state=0),
        "boosting": HistGradientBoostingClassifier(random_state=0),
        "logistic": LogisticRegressionCV(
            Cs=10, cv=5, max_iter=2000, l1_ratios=(0.0,), scoring="neg_log_loss",
            use_legacy_attributes=False,
        ),
    }  # fmt: skip
    for name, make in {"LightGBM": _lightgbm, "XGBoost": _xgboost, "CatBoost": _catboost}.items():
        try:
            found[name] = Stopping(make)
        except ImportError:
            print(f"{name} is not installed")
    return found


class Stopping:
    """Boosting that stops early on a fifth of the training rows."""

    def __init__(self, make):
        make()
        self.make = make

    def fit(self, X, y):
        counts = np.bincount(y)
        stratify = y if counts[counts > 0].min() > 1 else None
        A, B, a, b = train_test_split(X, y, test_size=0.2, stratify=stratify, random_state=0)
        present = np.unique(a)
        self.classes_ = present
        codes = np.searchsorted(present, a)
        known = np.isin(b, present)
        self.make()(A, codes, B[known], np.searchsorted(present, b[known]), self)
        return self

    def predict_proba(self, X):
        return self.model.predict_proba(X)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _lightgbm():
    import lightgbm

    def fit(A, a, B, b, into):
        into.model = lightgbm.LGBMClassifier(
            n_estimators=500, learning_rate=0.05, n_jobs=1, verbose=-1, random_state=0
        ).fit(A, a, eval_set=[(B, b)], callbacks=[lightgbm.early_stopping(30, verbose=False)])

    return fit


def _xgboost():
    import xgboost

    def fit(A, a, B, b, into):
        into.model = xgboost.XGBClassifier(
            n_estimators=500, learning_rate=0.05, n_jobs=1, early_stopping_rounds=30,
            random_state=0,
        ).fit(A, a, eval_set=[(B, b)], verbose=False)  # fmt: skip

    return fit


def _catboost():
    import catboost

    def fit(A, a, B, b, into):
        into.model = catboost.CatBoostClassifier(
            iterations=500, thread_count=1, verbose=False, random_seed=0,
            allow_writing_files=False, early_stopping_rounds=30,
        ).fit(A, a, eval_set=(B, b))  # fmt: skip

    return fit


def measured(method, X, y, X_test, y_test):
    """The measures of one fit; NaN where a method has no probabilities."""
    model = method if isinstance(method, Stopping) else clone(method)
    start = time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = time.process_time() - start
    labels = np.ravel(model.predict(X_test))  # CatBoost gives a column
    balanced = balanced_accuracy_score(y_test, labels)
    loss = auc = np.nan
    predict = getattr(model, "predict_proba", getattr(model, "predict_membership", None))
    if predict is not None:
        K = int(max(y.max(), y_test.max())) + 1
        P = np.full((len(y_test), K), 1e-6)
        P[:, model.classes_] = np.clip(predict(X_test), 1e-6, 1)
        P /= P.sum(axis=1, keepdims=True)
        loss = log_loss(y_test, P, labels=np.arange(K))
        present = np.unique(y_test)
        if len(present) == K:
            of_one = P[:, 1] if K == 2 else P
            auc = roc_auc_score(y_test, of_one, multi_class="ovr")
    return [float(v) for v in (np.mean(labels == y_test), balanced, loss, auc, seconds)]


def medium_methods():
    """Ours, and what people use on thousands of rows, without tuning."""
    import catboost
    import lightgbm

    return {
        OURS: FuzzyTwinCommittee(),
        "CatBoost": catboost.CatBoostClassifier(
            iterations=500, thread_count=1, verbose=False, allow_writing_files=False
        ),
        "LightGBM": lightgbm.LGBMClassifier(n_jobs=1, verbose=-1),
        "boosting": HistGradientBoostingClassifier(random_state=0),
        "forest": RandomForestClassifier(300, random_state=0),
    }


def accuracy(arguments):
    """All methods on all tables."""
    known = {}
    for cache in map(Path, arguments.cache):
        if cache.exists():
            known.update((tuple(key), value) for key, value in map(json.loads, cache.open()))
    medium = arguments.sizes == "medium"
    everything = medium_methods() if medium else methods()
    chosen = list(everything)
    if arguments.methods:
        chosen = arguments.methods.split(",")
    elif arguments.known:
        chosen = [name for name in chosen if any(key[3] == name for key in known)]
    rows = []
    for table in medium_tables() if medium else collection():
        if arguments.only and table.name not in arguments.only.split(","):
            continue
        for flip in (0.0,) if medium else (0.0, FLIPPED):
            for fold, parts in enumerate(
                [table.split()] if medium else table.folds(flip=flip, folds=5)
            ):
                if fold >= arguments.folds:
                    break
                keys = [(table.name, flip, fold, name) for name in chosen]
                if arguments.known and not all(key in known for key in keys):
                    continue
                for name, key in zip(chosen, keys, strict=True):
                    if key not in known:
                        known[key] = measured(everything[name], *parts)
                        if arguments.cache:
                            with Path(arguments.cache[0]).open("a") as file:
                                file.write(json.dumps([key, known[key]]) + "\n")
                    rows.append([table.half, table.name, flip, fold, name, *known[key]])
    frame = pd.DataFrame(rows, columns=["half", "table", "flip", "fold", "method", *MEASURES])
    report(frame)


def report(frame):
    """Means and mean ranks by half and noise; ranks are of a table's mean over its folds."""
    names = list(dict.fromkeys(frame["method"]))
    n_tables, mixed = frame["table"].nunique(), frame["table"].isin(MIXED)
    print(f"{n_tables} tables, {frame['table'][mixed].nunique()} with categories or gaps")
    for (half, flip), part in frame.groupby(["half", "flip"]):
        means = part.groupby(["table", "method"])[list(MEASURES)].mean().unstack("method")
        print(f"\n{half}, {'clean' if not flip else f'{flip:.0%} flipped'}, {len(means)} tables")
        print(f"{'':14s}" + "".join(f"{name:>18s}" for name in MEASURES))
        for name in names:
            line = f"{name:14s}"
            for measure in MEASURES:
                values = means[measure][names]
                sign = 1 if measure in ("log loss", "seconds") else -1
                having = [n for n in names if values[n].notna().any()]
                line += f"{values[name].mean():9.4f}"
                if name in having:
                    filled = sign * values[having].fillna(-sign * np.inf).to_numpy()
                    ranks = rankdata(filled, axis=1).mean(axis=0)
                    line += f" ({ranks[having.index(name)]:5.2f}) "
                else:
                    line += " " * 9
            print(line)


def large(arguments):
    """Log loss and time on larger tables."""
    tables = {
        "classification 5,000 x 20": make_classification(
            5_000, 20, n_informative=8, n_clusters_per_class=4, flip_y=0.02, random_state=0
        ),
        "hastie 12,000 x 10": make_hastie_10_2(12_000, random_state=1),
        "ndc 20,000 x 32": make_ndc(20_000, random_state=2),
        "quantiles 10,000 x 6": make_gaussian_quantiles(
            n_samples=10_000, n_features=6, n_classes=5, random_state=3
        ),
        "checkers 10,000 x 2": _checkers(10_000, 2, 4, 0.05, 4),
        "spirals 8,000 x 2": _noisy(*_spirals(8_000, 3, 0.1, 5), 0.05, 5),
        "classes 50,000 x 15": make_classification(
            50_000, 15, n_informative=10, n_classes=8, n_clusters_per_class=2, random_state=6
        ),
        "classification 50,000 x 30": make_classification(
            50_000, 30, n_informative=12, n_clusters_per_class=6, flip_y=0.1, random_state=7
        ),
    }  # fmt: skip
    total = np.zeros((2, 2))
    print(f"{'':28s}{'committee':>22s}{'HistGradientBoosting':>24s}")
    for name, (X, y) in tables.items():
        y = np.unique(y, return_inverse=True)[1]
        parts = train_test_split(np.asarray(X, float), y, random_state=0)
        found = []
        for model in (FuzzyTwinCommittee(random_state=0), methods()["boosting"]):
            result = measured(model, parts[0], parts[2], parts[1], parts[3])
            found.append((result[2], result[4]))
        total += found
        print(f"{name:28s}" + "".join(f"{loss:12.4f} {spent:8.1f} s" for loss, spent in found))
    total /= len(tables)
    print(f"{'mean':28s}" + "".join(f"{loss:12.4f} {spent:8.1f} s" for loss, spent in total))
    print(verdict(total[0, 0] <= total[1, 0]))


def _random_tree(depth, seed, heavy, n=2600, d=10):
    """Labels of a random tree; 600 rows to train on, the others to test."""
    rng = np.random.default_rng([depth, seed, heavy])
    X = rng.standard_t(1.5, size=(n, d)) if heavy else rng.normal(size=(n, d))
    while True:
        y = np.zeros(n, dtype=int)
        nodes = [(np.arange(n), depth)]
        while nodes:
            index, levels = nodes.pop()
            if levels == 0:
                y[index] = rng.integers(2)
                continue
            column = rng.integers(d)
            threshold = np.quantile(X[index, column], rng.uniform(0.3, 0.7))
            is_left = X[index, column] <= threshold
            nodes += [(index[is_left], levels - 1), (index[~is_left], levels - 1)]
        if 0.25 < y.mean() < 0.75:
            return X[:600], y[:600], X[600:], y[600:]


def thresholds(arguments):
    """Accuracy and log loss if labels follow random trees, ten seeds each."""
    models = {
        "committee": FuzzyTwinCommittee(),
        "planes": FuzzyTwinCommittee(members="planes"),
        "boosting": HistGradientBoostingClassifier(random_state=0),
    }
    print(f"{'accuracy, log loss':24s}" + "".join(f"{name:>20s}" for name in models))
    for heavy in (False, True):
        for depth in (3, 4):
            found = np.array(
                [
                    [
                        measured(model, *_random_tree(depth, seed, heavy))
                        for model in models.values()
                    ]
                    for seed in range(10)
                ]
            ).mean(axis=0)
            name = f"depth {depth}, {'heavy tails' if heavy else 'normal'}"
            print(f"{name:24s}" + "".join(f"{v[0]:12.4f} {v[2]:7.4f}" for v in found))
            best = found[0, 0] >= found[2, 0] and found[0, 2] <= found[2, 2]
            print(f"{'':24s}{verdict(best)}")


def held_out(arguments):
    """Log loss of held-out predictions of training rows, and of new rows, on 20 tables."""
    losses = []
    for table in collection()[::2][:20]:
        for fold, (X, y, X_test, y_test) in enumerate(table.folds(flip=0.0)):
            if fold >= arguments.folds:
                break
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = FuzzyTwinCommittee().fit(X, y)
            known = np.isin(y_test, model.classes_)
            P = np.clip(model.predict_proba(X_test[known]), 1e-6, 1)
            codes = np.searchsorted(model.classes_, y_test[known])
            new = -np.log(P[np.arange(len(P)), codes]).mean()
            losses.append((model.loo_log_loss_, new))
    held, new = np.mean(losses, axis=0)
    print(f"{len(losses)} fits: held out {held:.4f}, new rows {new:.4f}, ratio {held / new:.3f}")
    print(verdict(abs(held / new - 1) <= 0.05))


def centers(arguments):
    """Accuracy and log loss if landmarks are centers, which are no rows, instead of all rows."""
    found = {}
    for table in collection():
        if table.name not in CENTERS:
            continue
        for name in LANDMARKS:
            model = FuzzyTwinCommittee(n_landmarks=name)
            folds = [measured(model, *parts) for parts in table.folds(flip=0.0)]
            found[table.name, name] = np.mean(folds, axis=0)[[0, 2]]
        cells = "".join("{:10.3f}{:10.3f}".format(*found[table.name, name]) for name in LANDMARKS)
        print(f"{table.name:20s}{len(table.y):5d} rows{cells}", flush=True)
    cells = ""
    for name in LANDMARKS:
        losses = [values for (_, kind), values in found.items() if kind == name]
        cells += "{:10.3f}{:10.3f}".format(*np.mean(losses, axis=0))
    print(f"{'mean: all rows, centers':30s}{cells}")


def timing(arguments):
    """Ratios of times on one thread, in turns."""
    X, y = make_classification(500, 20, n_informative=6, random_state=0)
    grid = methods()["SVC"]
    forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    model = FuzzyTwinCommittee(random_state=0).fit(X, y)
    with threadpool_limits(1):
        found = least_times(
            {"ours": lambda: model.fit(X, y), "grid": lambda: grid.fit(X, y)}, 3, time.process_time
        )
        _line("500 x 20, times GridSearchCV(SVC)", found["ours"] / found["grid"], 0.3)
        found = least_times(
            {"ours": lambda: model.predict_proba(X[:1]), "forest": lambda: forest.predict(X[:1])},
            20, time.process_time,
        )  # fmt: skip
        _line("one row, times a forest of 100 trees", found["ours"] / found["forest"], 2.0)
        X, y = make_classification(10**5, 32, n_informative=10, random_state=0)
        boosting = HistGradientBoostingClassifier(random_state=0)
        found = least_times(
            {"ours": lambda: model.fit(X, y), "boosting": lambda: boosting.fit(X, y)},
            1, time.process_time,
        )  # fmt: skip
        _line("100,000 x 32, times HistGradientBoosting", found["ours"] / found["boosting"], 2.0)
        for n, d, K in ((20_000, 384, 20), (5_000, 768, 100)):
            X, y = make_classification(
                n, d, n_informative=40, n_classes=K, n_clusters_per_class=1, random_state=0
            )
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            start = time.process_time()
            FuzzyTwinCommittee(random_state=0).fit(X, y)
            _line(f"{n:,} x {d}, {K} classes, seconds", time.process_time() - start, 30)
            beyond = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
            _line("    GiB beyond X", beyond, 2)


def _line(what, value, bar):
    print(f"{what:48s} {value:8.2f} (bar {bar:g}) {verdict(value <= bar)}")


def run(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks committee", description=__doc__)
    parts = {
        "accuracy": accuracy, "large": large, "thresholds": thresholds, "held-out": held_out,
        "centers": centers, "time": timing,
    }  # fmt: skip
    parser.add_argument("part", choices=tuple(parts))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--sizes", choices=("small", "medium"), default="small")
    parser.add_argument("--cache", nargs="*", default=[])
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--methods")
    parsed = parser.parse_args(arguments)
    with threadpool_limits(1):
        parts[parsed.part](parsed)
