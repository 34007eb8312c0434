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

from fuzzytwin.classics import GEPSVC, LeastSquaresTwinSVC, ProximalSVC, TwinSVC
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.experiment._estimators import rarest_class, splitter
from fuzzytwin.experiment._experiment import Experiment
from fuzzytwin.experiment._rows import Rows, Settings
from fuzzytwin.tables import TableError
from fuzzytwin.tables._preprocessor import fitted_to_schema
from fuzzytwin.twin._grid import SCORES
from fuzzytwin.twin._search import FuzzyTwinSVCCV

PENALTIES = [2.0**k for k in (-9, -6, -3, 0, 3, 6)]
N_INNER_FOLDS = 3
MAX_ROWS_ONE_THREAD = 20_000  # of boosting: threads slow it down on fewer rows
AT_ONCE = {*SCORES, "roc_auc"}  # scores that a search computes fast
LABELS = ("predict",)  # what a score is computed from
PROBABILITIES = ("predict_proba",)
CONTROL = "FuzzyTwinCommittee"  # the classifier that all others are compared with


def classifiers(settings: Settings) -> dict[str, Any]:
    """Return the classifiers, tuned by inner folds. The committee needs no tuning.

    For scores of predicted labels other than accuracy, class weights are tuned too. The search of
    twin planes tunes a C for each class instead. Class weights would distort probabilities.
    """
    cv = splitter(settings, N_INNER_FOLDS)
    score = settings.scoring
    seed = settings.seed
    with_class_weights = score not in (None, "accuracy") and _response_methods(score) == LABELS
    class_weight = "balanced" if score == "balanced_accuracy" else None

    def tuned(model: Any, **grid: Any) -> GridSearchCV:
        if with_class_weights and "class_weight" in model.get_params():
            grid["class_weight"] = [None, "balanced"]
        return GridSearchCV(model, grid, cv=cv, scoring=score)

    forest = RandomForestClassifier(random_state=seed)
    boosting = HistGradientBoostingClassifier(random_state=seed)
    return {
        CONTROL: FuzzyTwinCommittee(class_weight=class_weight, random_state=seed),
        "FuzzyTwinSVC": twin_search(score, cv),
        "LeastSquaresTwinSVC": tuned(LeastSquaresTwinSVC(), C=PENALTIES),
        "TwinSVC": tuned(TwinSVC(tol=1e-4, max_iter=2000), C=PENALTIES),
        "ProximalSVC": tuned(ProximalSVC(), C=PENALTIES),
        "GEPSVC": tuned(GEPSVC(), alpha=PENALTIES),
        "LogisticRegression": tuned(LogisticRegression(max_iter=1000), C=PENALTIES),
        "LinearSVC": tuned(LinearSVC(), C=PENALTIES),
        "SVC, Gaussian kernel": tuned(SVC(), C=[0.5, 2.0, 8.0, 32.0], gamma=["scale", 0.01]),
        "RandomForest": tuned(forest, min_samples_leaf=[1, 4]),
        "HistGradientBoosting": tuned(boosting, learning_rate=[0.03, 0.1], max_leaf_nodes=[4, 15]),
    }


def twin_search(score: str | None, cv: Any) -> FuzzyTwinSVCCV:
    """Return the search of twin planes, which is fast only for scores of `AT_ONCE`.

    Any other scorer is called for each of thousands of points. If it takes probabilities, the
    planes are chosen by accuracy and Brier score instead, and are calibrated. Otherwise the grid
    is smaller.
    """
    if score is None or score in AT_ONCE:
        return FuzzyTwinSVCCV(cv=cv, scoring=score)
    if _response_methods(score) == PROBABILITIES:
        return FuzzyTwinSVCCV(cv=cv, calibration="loo")
    return FuzzyTwinSVCCV(
        Cs=[0.125, 1.0, 8.0], memberships=(None, "center"), rules=("distance",), cv=cv,
        scoring=score,
    )  # fmt: skip


def _response_methods(score: str | None) -> tuple[str, ...]:
    """Return the methods of a classifier that a score can be computed from."""
    methods = getattr(get_scorer(score or "accuracy"), "_response_method", "predict")
    return (methods,) if isinstance(methods, str) else tuple(methods)


def without_response(settings: Settings) -> list[str]:
    """List the classifiers without the method that the score needs, such as predict_proba."""
    methods = _response_methods(settings.scoring)
    return [
        name
        for name, classifier in classifiers(settings).items()
        if not any(hasattr(classifier, method) for method in methods)
    ]


def score_table(
    path: str, settings: Settings, repeats: int, step: Callable[[str], None]
) -> dict[str, list[float]]:
    """Score every classifier on every outer test fold of a table.

    Classifiers of `without_response` are omitted. Encoding, scaling and tuning are learned from
    the training rows of each fold only. Every repetition shuffles the folds anew.
    """
    rows = Experiment(path, settings).rows
    _, smallest, unit = rarest_class(rows, settings)
    if smallest < 2 * N_INNER_FOLDS:
        raise TableError(
            f"the smallest class of {path} has {smallest} {unit}; compare needs at least "
            f"{2 * N_INNER_FOLDS} of each class."
        )
    if smallest < settings.folds:
        raise TableError(
            f"the smallest class of {path} has {smallest} {unit}, fewer than --folds "
            f"{settings.folds}; use --folds {smallest} or less."
        )
    scorer = get_scorer(settings.scoring or "accuracy")
    _check_scorer(scorer, rows, path, settings)
    omitted = without_response(settings)
    scores: dict[str, list[float]] = {
        name: [] for name in classifiers(settings) if name not in omitted
    }
    for repeat in range(repeats):
        shuffled = replace(settings, seed=settings.seed + repeat)
        splits = splitter(shuffled, settings.folds).split(rows.X, rows.y, rows.groups)
        for train, test in splits:
            training_rows = rows.take(train)
            test_rows = rows.take(test)
            preprocessor = fitted_to_schema(rows.schema, training_rows.X)
            X_train = preprocessor.transform(training_rows.X)
            X_test = preprocessor.transform(test_rows.X)
            groups = {} if training_rows.groups is None else {"groups": training_rows.groups}
            models = classifiers(shuffled)
            n_threads = 1 if len(train) < MAX_ROWS_ONE_THREAD else None
            for name in scores:
                step(f"{name} on {path}")
                with warnings.catch_warnings(), threadpool_limits(n_threads, user_api="openmp"):
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    fitted = clone(models[name]).fit(X_train, training_rows.y, **groups)
                scores[name].append(float(scorer(fitted, X_test, test_rows.y)))
    return scores


def _check_scorer(scorer: Any, rows: Rows, path: str, settings: Settings) -> None:
    """Raise an error for a score that is not defined for these labels."""
    A = fitted_to_schema(rows.schema, rows.X).transform(rows.X)
    model = LeastSquaresTwinSVC(alpha="auto").fit(A, rows.y)
    try:
        scorer(model, A, rows.y)
    except (AttributeError, ValueError) as error:
        raise TableError(
            f"--scoring {settings.scoring} is not defined for {path}: {str(error).rstrip('.')}; "
            "use accuracy, balanced_accuracy, f1_macro or, for two classes, roc_auc."
        ) from error
