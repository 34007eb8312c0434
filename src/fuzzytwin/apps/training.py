"""The estimator that a study fits, the folds that measure it, and the facts about it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from fuzzytwin._utils.types import Array
from fuzzytwin.apps.table_rows import Rows, Settings
from fuzzytwin.data.columns import TableError, preparation
from fuzzytwin.estimators.committee import FuzzyTwinCommittee
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.fit.kernels import is_count
from fuzzytwin.search.estimator import FuzzyTwinSVCCV

HEADLINE = "balanced_accuracy"  # what is reported first is what the search tunes


def is_calibrated(model: Any) -> bool:
    """Return whether a model gives probabilities, not memberships."""
    committee = isinstance(model, FuzzyTwinCommittee)
    return committee or getattr(model, "calibration", None) is not None


def facts_of(
    path: str, settings: Settings, rows: Rows, best: Any, notes: list[str]
) -> dict[str, Any]:
    """Collect the facts of training but for score and effects."""
    labels, counts = np.unique(rows.y, return_counts=True)
    landmarks = getattr(getattr(best, "landmark_map_", best), "landmarks", None)
    landmarks = getattr(best, "landmarks_", landmarks)
    return {
        "data": str(path),
        "target": settings.target,
        "weight": settings.weight,
        "degree": settings.degree,
        "groups": settings.groups,
        "id": settings.id,
        "rows": len(rows.y),
        "classes": {str(label): int(n) for label, n in zip(labels, counts, strict=True)},
        "schema": rows.schema.as_dict(),
        "model": settings.model,
        "parameters": _parameters(best, settings, len(rows.y)),
        "landmarks": None if landmarks is None else int(landmarks.shape[0]),
        "tuned": settings.model == "search",
        "scoring": settings.scoring or HEADLINE,
        "notes": notes,
    }


def splitter(settings: Settings, folds: int) -> StratifiedKFold | StratifiedGroupKFold:
    """Make shuffled folds with equal shares of the classes; groups are kept whole."""
    kind = StratifiedKFold if settings.groups is None else StratifiedGroupKFold
    return kind(folds, shuffle=True, random_state=settings.seed)


def make_estimator(settings: Settings, y: Array, folds: int, *, neighbors: bool) -> Any:
    """Make the estimator to train; `neighbors`: whether the search tries that membership."""
    class_weight = _class_weight(settings.class_weight, y)
    if settings.model == "committee":
        return FuzzyTwinCommittee(class_weight=class_weight, random_state=settings.seed)
    shared: dict[str, Any] = {
        "planes": settings.planes,
        "solver": settings.solver,
        "class_weight": class_weight,
        "calibration": "loo" if settings.calibrate else None,
        "random_state": None if settings.kernel == "linear" else settings.seed,  # for landmarks
    }
    if settings.model == "planes":
        membership = _membership(settings.membership)
        return FuzzyTwinSVC(membership=membership, kernel=settings.kernel, **shared)
    names: tuple[str | None, ...] = (None, "center", "hyperplane", "neighbor")
    if settings.membership is not None:
        names = (_membership(settings.membership),)
    elif not neighbors:
        names = names[:-1]
    return FuzzyTwinSVCCV(
        memberships=names,
        kernels=settings.kernel,
        cv=splitter(settings, folds),
        scoring=check_scoring(settings.scoring) or HEADLINE,
        **shared,
    )


def check_scoring(name: str | None) -> str | None:
    """Refuse a score that scikit-learn does not know."""
    if name is not None:
        try:
            get_scorer(name)
        except ValueError:
            raise ValueError(
                f"--scoring {name!r} is unknown; usual ones are accuracy, balanced_accuracy and, "
                "for two classes, roc_auc, f1 and average_precision (scikit-learn's names)."
            ) from None
    return name


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings of encoders, which handle what a fold lacks, and those a study notes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Skipping features without any observed values")
        warnings.filterwarnings("ignore", "The least populated class in y")
        warnings.filterwarnings("ignore", "Found unknown categories")
        warnings.filterwarnings("ignore", "about .* rows (nearly )?equal another row")
        yield


def new_preparation(rows: Rows) -> Any:
    """Make what turns the columns into numbers, not yet fitted."""
    sparse = rows.schema.zero_based is not None
    return MaxAbsScaler() if sparse else preparation(rows.schema.columns)


def count_folds(rows: Rows, settings: Settings) -> tuple[int, int]:
    """Count the folds to measure by and, inside of them, those to tune by."""
    units = np.arange(len(rows.y)) if rows.groups is None else rows.groups
    counts = {label: len(np.unique(units[rows.y == label])) for label in np.unique(rows.y)}
    rarest = min(counts, key=lambda label: counts[label])
    least = counts[rarest]
    what = "rows" if rows.groups is None else f"groups of {settings.groups!r}"
    folds = min(settings.folds, least)
    inner = min(settings.folds, least - -(-least // max(folds, 1)))
    if folds < 2:
        raise TableError(
            f"class {str(rarest)!r} occurs in {least} of the {what}; measuring needs two: add "
            "some, or leave out --groups."
        )
    if settings.model == "search" and inner < 2:
        raise TableError(
            f"class {str(rarest)!r} has {least} {what}; tuning needs 3 or more of each class: add "
            "some, or train a model that needs none: --model committee."
        )
    return folds, inner


def _membership(name: str | None) -> str | None:
    return None if name == "none" else name


def _class_weight(given: str | Mapping[str, float] | None, y: Array) -> Any:
    if given is None or isinstance(given, str):
        return given
    known = {str(label): label.item() for label in np.unique(y)}
    strange = [label for label in given if label not in known]
    if strange:
        raise ValueError(
            f"--class-weight names the class {strange[0]!r}; the classes are "
            f"{', '.join(list(known)[:10])}."
        )
    return {label: float(given.get(text, 1.0)) for text, label in known.items()}


def fit_rows(pipeline: Pipeline, rows: Rows, index: Array) -> Pipeline:
    """Fit a pipeline to some rows, with their weights, degrees and groups."""
    given = {"sample_weight": rows.weight, "membership": rows.degrees}
    if not isinstance(pipeline[-1], FuzzyTwinSVC):
        given["groups"] = rows.groups
    kept = {f"model__{key}": value[index] for key, value in given.items() if value is not None}
    with quiet():
        return pipeline.fit(take(rows.X, index), rows.y[index], **kept)


def take(X: Any, rows: Array) -> Any:
    """Take some rows of a frame or matrix."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _parameters(best: Any, settings: Settings, rows: int) -> dict[str, Any]:
    """Describe the parameters that make a model again, ready for JSON."""
    weighed = {} if best.class_weight is None else {"class_weight": settings.class_weight}
    if isinstance(best, FuzzyTwinCommittee):
        return {"members": [str(member) for member in best.members_], **weighed}
    chosen = {name: getattr(best, name) for name in ("planes", "C", "alpha", "membership", "rule")}
    chosen = {**chosen, "C": np.asarray(chosen["C"], dtype=float).tolist(), **weighed}
    phi = getattr(best, "landmark_map_", None)
    if phi is None:
        return chosen
    # As many landmarks as asked for, not as found: shares of classes are rounded down, so that
    # the number found would draw another sample.
    asked = best.n_landmarks if is_count(best.n_landmarks) else phi.landmarks.shape[0]
    gamma = {} if best.kernel == "cosine" else {"gamma": np.asarray(phi.gamma, float).tolist()}
    count = {"n_landmarks": min(int(asked), rows), "random_state": best.random_state}
    return {**chosen, "kernel": best.kernel, **gamma, **count}
