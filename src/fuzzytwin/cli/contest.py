"""Machines side by side on tables: the work behind ``fuzzytwin compare``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC, LinearSVC

from fuzzytwin.classics import GEPSVC, LeastSquaresTwinSVC, ProximalSVC, TwinSVC
from fuzzytwin.search.estimator import FuzzyTwinSVCCV
from fuzzytwin.sources.formats import known_kind
from fuzzytwin.tables.columns import TableError, preparation
from fuzzytwin.tables.rows import read_rows
from fuzzytwin.tables.settings import Settings

POWERS = [2.0**k for k in (-9, -6, -3, 0, 3, 6)]


def machines(seed: int) -> dict[str, Any]:
    """The machines, each tuned by three inner folds."""
    cv = StratifiedKFold(3, shuffle=True, random_state=seed)

    def tuned(model: Any, **grid: Any) -> GridSearchCV:
        return GridSearchCV(model, grid, cv=cv)

    return {
        "FLST": FuzzyTwinSVCCV(cv=cv),
        "LST": tuned(LeastSquaresTwinSVC(), C=POWERS),
        "TSVM": tuned(TwinSVC(tol=1e-4, max_iter=2000), C=POWERS),
        "PSVM": tuned(ProximalSVC(), C=POWERS),
        "GEP": tuned(GEPSVC(), alpha=POWERS),
        "logit": tuned(LogisticRegression(max_iter=1000), C=POWERS),
        "SVC": tuned(LinearSVC(), C=POWERS),
        "rbf": tuned(SVC(), C=[0.5, 2.0, 8.0, 32.0], gamma=["scale", 0.01]),
    }


MEANINGS = {
    "FLST": "FuzzyTwinSVC, tuned by FuzzyTwinSVCCV",
    "LST": "LeastSquaresTwinSVC",
    "TSVM": "TwinSVC",
    "PSVM": "ProximalSVC",
    "GEP": "GEPSVC",
    "logit": "LogisticRegression",
    "SVC": "LinearSVC",
    "rbf": "SVC with the Gaussian kernel",
}


def contest(
    path: str, target: str, folds: int, seed: int, drop: Sequence[str], step: Callable[[str], None]
) -> dict[str, list[float]]:
    """Accuracy of every machine on every outer test fold of a table."""
    if known_kind(path) == "libsvm":
        raise TableError(f"{path}: compare takes tables with column names; save it as CSV.")
    rows = read_rows(path, Settings(target, drop=drop))
    X, y = rows.X, rows.y
    least = int(np.unique(y, return_counts=True)[1].min())
    if least < 6:
        raise TableError(
            f"the smallest class of {path} has {least} rows; comparing needs at least 6 of each."
        )
    scores: dict[str, list[float]] = {name: [] for name in MEANINGS}
    splits = StratifiedKFold(min(folds, least), shuffle=True, random_state=seed).split(X, y)
    for train, test in splits:
        prepare = preparation(rows.schema.columns).fit(X.iloc[train])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Found unknown categories")
            A, B = prepare.transform(X.iloc[train]), prepare.transform(X.iloc[test])
        for name, machine in machines(seed).items():
            step(f"{name} on {path}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                fitted = clone(machine).fit(A, y[train])
            scores[name].append(float((fitted.predict(B) == y[test]).mean()))
    return scores
