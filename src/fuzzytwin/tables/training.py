"""Train on a table and measure by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from fuzzytwin._utils.types import Array
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.kernels import is_count
from fuzzytwin.search.estimator import FuzzyTwinSVCCV
from fuzzytwin.tables.columns import TableError, preparation
from fuzzytwin.tables.measures import measure
from fuzzytwin.tables.rows import Rows, read_rows
from fuzzytwin.tables.settings import Settings

FEW_ROWS = 20_000  # memberships that look for neighbours are tried up to here

Step = Callable[[str], None]


@dataclass(frozen=True)
class Trained:
    """A trained pipeline, facts about it for the model file, and the rows for its report."""

    model: Pipeline
    facts: dict[str, Any]
    rows: Rows
    search: FuzzyTwinSVCCV | None = None
    memberships: Array | None = None  # of the rows, each by a model that was fitted without it


def train(path: str, settings: Settings, step: Step) -> Trained:
    """Train on a table that fits in memory, and measure by cross-validation.

    Everything, the choice of parameters included, is learned again in each fold from its training
    rows alone: the score is one of the whole procedure.
    """
    step("reading")
    rows = read_rows(path, settings)
    folds, inner = _count_folds(rows, settings)
    notes = list(rows.notes)
    if folds < settings.folds:
        what = "rows" if rows.groups is None else "groups"
        notes.append(f"{folds} folds, as the smallest class has {folds} {what}")
    near = len(rows.y) <= FEW_ROWS
    estimator = make_estimator(settings, rows.y, inner, neighbors=near)
    if settings.search and settings.membership is None and not near:
        notes.append(f"neighbor memberships not tried beyond {FEW_ROWS:,} rows")
    sparse = rows.schema.zero_based is not None
    prepare = MaxAbsScaler() if sparse else preparation(rows.schema.columns)
    pipeline = Pipeline([("prepare", prepare), ("model", estimator)])

    classes = np.unique(rows.y)
    memberships = np.zeros((len(rows.y), len(classes)))
    splits = splitter(settings, folds).split(rows.X, rows.y, rows.groups)
    for number, (train_rows, test_rows) in enumerate(splits, start=1):
        step(f"fold {number} of {folds}")
        fitted = _fit(clone(pipeline), rows, train_rows)
        with quiet():
            u = fitted.predict_proba(_take(rows.X, test_rows))
        memberships[np.ix_(test_rows, np.searchsorted(classes, fitted.classes_))] = u
    step("all rows")
    model = _fit(pipeline, rows, np.arange(len(rows.y)))
    search = model[-1] if settings.search else None
    best = model[-1] if search is None else search.best_estimator_
    facts = facts_of(path, settings, rows, best, notes)
    score = measure(
        rows.y,
        classes[memberships.argmax(axis=1)],
        membership=memberships,
        classes=classes,
        weight=rows.weight,
        groups=rows.groups,
    )
    facts["score"] = {**score, "how": f"{folds}-fold cross-validation"}
    return Trained(Pipeline([("prepare", model[0]), ("model", best)]), facts, rows, search,
                   memberships)  # fmt: skip


def splitter(settings: Settings, folds: int) -> StratifiedKFold | StratifiedGroupKFold:
    """Make shuffled folds with equal shares of the classes; groups are kept whole."""
    kind = StratifiedKFold if settings.groups is None else StratifiedGroupKFold
    return kind(folds, shuffle=True, random_state=settings.seed)


def make_estimator(
    settings: Settings, y: Array, folds: int, *, neighbors: bool
) -> FuzzyTwinSVC | FuzzyTwinSVCCV:
    """Make the estimator to train; `neighbors`: whether the search tries that membership."""
    seed = None if settings.kernel == "linear" else settings.seed  # for the landmarks
    class_weight = _class_weight(settings.class_weight, y)
    if not settings.search:
        return FuzzyTwinSVC(
            settings.planes,
            membership=_membership(settings.membership),
            kernel=settings.kernel,
            solver=settings.solver,
            class_weight=class_weight,
            calibration="loo" if settings.calibrate else None,
            random_state=seed,
        )
    names: tuple[str | None, ...] = (None, "center", "hyperplane", "neighbor")
    if settings.membership is not None:
        names = (settings.membership,)
    elif not neighbors:
        names = names[:-1]
    return FuzzyTwinSVCCV(
        memberships=tuple(_membership(name) for name in names),
        planes=settings.planes,
        kernels=settings.kernel,
        solver=settings.solver,
        cv=splitter(settings, folds),
        scoring=check_scoring(settings.scoring),
        class_weight=class_weight,
        calibration="loo" if settings.calibrate else None,
        random_state=seed,
    )


def facts_of(
    path: str, settings: Settings, rows: Rows, best: FuzzyTwinSVC, notes: list[str]
) -> dict[str, Any]:
    """Collect the facts of training that a model file holds, ready for JSON."""
    labels, counts = np.unique(rows.y, return_counts=True)
    chosen = {name: getattr(best, name) for name in ("planes", "C", "alpha", "membership", "rule")}
    chosen["C"] = np.asarray(chosen["C"], dtype=float).tolist()
    if best.class_weight is not None:
        chosen["class_weight"] = settings.class_weight
    phi = getattr(best, "landmark_map_", None)
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
        "parameters": {**chosen, **_curvature(best, len(rows.y))},
        "landmarks": None if phi is None else int(phi.landmarks.shape[0]),
        "tuned": settings.search,
        "scoring": settings.scoring or "accuracy",
        "notes": notes,
    }


def check_scoring(name: str | None) -> str | None:
    """Refuse a score that scikit-learn does not know; None is accuracy."""
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
    """Silence warnings of the encoders, which handle what a fold lacks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Skipping features without any observed values")
        warnings.filterwarnings("ignore", "The least populated class in y")
        warnings.filterwarnings("ignore", "Found unknown categories")
        yield


def _count_folds(rows: Rows, settings: Settings) -> tuple[int, int]:
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
    if settings.search and inner < 2:
        raise TableError(
            f"class {str(rarest)!r} has {least} {what}; tuning needs 3 or more of each class: add "
            "some, or train untuned with --no-search."
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


def _fit(pipeline: Pipeline, rows: Rows, index: Array) -> Pipeline:
    given = {"sample_weight": rows.weight, "membership": rows.degrees}
    if isinstance(pipeline[-1], FuzzyTwinSVCCV):
        given["groups"] = rows.groups
    kept = {f"model__{key}": value[index] for key, value in given.items() if value is not None}
    with quiet():
        return pipeline.fit(_take(rows.X, index), rows.y[index], **kept)


def _take(X: Any, rows: Array) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _curvature(best: FuzzyTwinSVC, rows: int) -> dict[str, Any]:
    """Give the parameters of a kernel that make it again; none where planes are linear.

    As many landmarks as asked for, not as found: classes' shares are rounded down, so that the
    number found would draw another sample.
    """
    phi = getattr(best, "landmark_map_", None)
    if phi is None:
        return {}
    asked = best.n_landmarks if is_count(best.n_landmarks) else phi.landmarks.shape[0]
    gamma = {} if best.kernel == "cosine" else {"gamma": np.asarray(phi.gamma, float).tolist()}
    count = {"n_landmarks": min(int(asked), rows), "random_state": best.random_state}
    return {"kernel": best.kernel, **gamma, **count}
