"""Score classifiers side by side on the folds of a table: the work of ``fuzzytwin compare``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from fuzzytwin.apps.study import Study, rarest_class, splitter
from fuzzytwin.apps.table_rows import Rows, Settings
from fuzzytwin.classics import GEPSVC, LeastSquaresTwinSVC, ProximalSVC, TwinSVC
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.data.columns import TableError
from fuzzytwin.data.files import known_format
from fuzzytwin.data.preprocessor import fitted_to_schema
from fuzzytwin.twin._search import FuzzyTwinSVCCV

POWERS = [2.0**k for k in (-9, -6, -3, 0, 3, 6)]
INNER = 3  # folds to tune by
SMALL = 20_000  # rows

NAMES = {
    "FTC": "FuzzyTwinCommittee",
    "FLST": "FuzzyTwinSVC",
    "LST": "LeastSquaresTwinSVC",
    "TSVM": "TwinSVC",
    "PSVM": "ProximalSVC",
    "GEP": "GEPSVC",
    "logit": "LogisticRegression",
    "SVC": "LinearSVC",
    "rbf": "SVC, Gaussian kernel",
    "forest": "RandomForest",
    "boost": "HistGradientBoosting",
}


def classifiers(settings: Settings) -> dict[str, Any]:
    """Make the classifiers, each tuned by inner folds; the committee needs no tuning.

    Where the score is not simply that of most rows, weights of the classes are tuned as well: the
    twin planes of a search have a C for each class.
    """
    cv = splitter(settings, INNER)
    score, seed = settings.scoring, settings.seed
    plain = score in (None, "accuracy")
    by_class = "balanced" if score == "balanced_accuracy" else None

    def tuned(model: Any, **grid: Any) -> GridSearchCV:
        if not plain and "class_weight" in model.get_params():
            grid["class_weight"] = [None, "balanced"]
        return GridSearchCV(model, grid, cv=cv, scoring=score)

    forest = RandomForestClassifier(random_state=seed)
    boosting = HistGradientBoostingClassifier(random_state=seed)
    return {
        "FTC": FuzzyTwinCommittee(class_weight=by_class, random_state=seed),
        "FLST": FuzzyTwinSVCCV(cv=cv, scoring=score),
        "LST": tuned(LeastSquaresTwinSVC(), C=POWERS),
        "TSVM": tuned(TwinSVC(tol=1e-4, max_iter=2000), C=POWERS),
        "PSVM": tuned(ProximalSVC(), C=POWERS),
        "GEP": tuned(GEPSVC(), alpha=POWERS),
        "logit": tuned(LogisticRegression(max_iter=1000), C=POWERS),
        "SVC": tuned(LinearSVC(), C=POWERS),
        "rbf": tuned(SVC(), C=[0.5, 2.0, 8.0, 32.0], gamma=["scale", 0.01]),
        "forest": tuned(forest, min_samples_leaf=[1, 4]),
        "boost": tuned(boosting, learning_rate=[0.03, 0.1], max_leaf_nodes=[4, 15]),
    }


def without_response(settings: Settings) -> list[str]:
    """List the classifiers that lack what the score is computed from, such as probabilities."""
    scorer = get_scorer(settings.scoring or "accuracy")
    needed = getattr(scorer, "_response_method", "predict")
    methods = (needed,) if isinstance(needed, str) else needed
    return [
        name
        for name, classifier in classifiers(settings).items()
        if not any(hasattr(classifier, method) for method in methods)
    ]


def score_table(
    path: str, settings: Settings, repeats: int, step: Callable[[str], None]
) -> dict[str, list[float]]:
    """Score every classifier on every outer test fold of a table.

    Those that the score cannot be computed for (`without_response`) are left out. Encoding, scaling
    and tuning are learned from each fold's training rows alone. Every repetition shuffles the folds
    in another way.
    """
    if not known_format(path).named:
        raise TableError(f"{path}: compare takes tables with column names; save it as CSV.")
    rows = Study(path, settings).rows
    _, least, what = rarest_class(rows, settings)
    if least < 2 * INNER:
        raise TableError(
            f"the smallest class of {path} has {least} {what}; comparing needs {2 * INNER} or more "
            "of each class: add some."
        )
    if least < settings.folds:
        raise TableError(
            f"the smallest class of {path} has {least} {what}, fewer than --folds "
            f"{settings.folds}; give at most {least}."
        )
    scorer = get_scorer(settings.scoring or "accuracy")
    _check_scorer(scorer, rows, path, settings)
    left_out = without_response(settings)
    scores: dict[str, list[float]] = {name: [] for name in NAMES if name not in left_out}
    for repeat in range(repeats):
        shuffled = replace(settings, seed=settings.seed + repeat)
        splits = splitter(shuffled, settings.folds).split(rows.X, rows.y, rows.groups)
        for train, test in splits:
            seen, held = rows.take(train), rows.take(test)
            prepare = fitted_to_schema(rows.schema, seen.X)
            A, B = prepare.transform(seen.X), prepare.transform(held.X)
            groups = {} if seen.groups is None else {"groups": seen.groups}
            every = classifiers(shuffled)
            for name in scores:
                step(f"{NAMES[name]} on {path}")
                # Boosting: on few rows, several threads would wait for each other.
                one = threadpool_limits(1 if len(train) < SMALL else None, user_api="openmp")
                with warnings.catch_warnings(), one:
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    fitted = clone(every[name]).fit(A, seen.y, **groups)
                scores[name].append(float(scorer(fitted, B, held.y)))
    return scores


def _check_scorer(scorer: Any, rows: Rows, path: str, settings: Settings) -> None:
    """Refuse a score that no classifier can have on such labels."""
    A = fitted_to_schema(rows.schema, rows.X).transform(rows.X)
    model = LeastSquaresTwinSVC(alpha="auto").fit(A, rows.y)
    try:
        scorer(model, A, rows.y)
    except (AttributeError, ValueError) as error:
        raise TableError(
            f"--scoring {settings.scoring} has no value on {path}: {str(error).rstrip('.')}; all "
            "classifiers have accuracy, balanced_accuracy, f1_macro and, for two classes, roc_auc."
        ) from error
