"""The estimator that an experiment fits, its folds, and the metadata of its model file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.experiment._rows import ONE_COLUMN, Rows, Settings
from fuzzytwin.kernels._landmark_map import has_gamma
from fuzzytwin.kernels._landmarks import is_centers, is_count
from fuzzytwin.memberships._registry import STREAMABLE, check_membership, is_streamable
from fuzzytwin.tables import TableError, TableWarning
from fuzzytwin.twin._search import FuzzyTwinSVCCV
from fuzzytwin.twin._svc import FuzzyTwinSVC

DEFAULT_SCORING = "balanced_accuracy"


def check_streamable(settings: Settings) -> None:
    """Raise an error for settings that need all rows in memory."""
    has_membership = settings.membership not in (None, "none")
    if has_membership and not is_streamable(check_membership(settings.membership)):
        raise TableError(
            f"--membership {settings.membership} needs all rows in memory; use none, "
            f"{' or '.join(STREAMABLE)}, or --no-stream."
        )
    for option in ("groups", "votes"):
        if getattr(settings, option):
            raise TableError(
                f"--{option} needs all rows in memory and cannot be combined with --stream; use "
                "--no-stream, or omit it."
            )


def is_calibrated(model: Any) -> bool:
    """Return whether a model gives probabilities, not memberships."""
    committee = isinstance(model, FuzzyTwinCommittee)
    return committee or getattr(model, "calibration", None) is not None


def likeliest_other(shares: Array, own: int) -> int:
    """Return the class of the greatest share, other than its own."""
    others = shares.copy()
    others[own] = -1.0
    return int(others.argmax())


def rarest_class(rows: Rows, settings: Settings) -> tuple[str, int, str]:
    """Return the class with the fewest rows or groups, their number, and "rows" or "groups of"."""
    units = np.arange(len(rows.y)) if rows.groups is None else rows.groups
    counts = {str(k): len(np.unique(units[rows.y == k])) for k in np.unique(rows.y)}
    rarest = min(counts, key=lambda label: counts[label])
    unit = "rows" if rows.groups is None else f"groups of {settings.groups!r}"
    return rarest, counts[rarest], unit


def splitter(settings: Settings, folds: int) -> StratifiedKFold | StratifiedGroupKFold:
    """Return stratified, shuffled folds that keep groups together."""
    kind = StratifiedKFold if settings.groups is None else StratifiedGroupKFold
    return kind(folds, shuffle=True, random_state=settings.seed)


def make_estimator(settings: Settings, y: Array, folds: int, *, neighbors: bool) -> Any:
    """Return the estimator to train; `neighbors`: whether to try neighbor memberships."""
    class_weight: Any = settings.class_weight
    if class_weight is not None and not isinstance(class_weight, str):
        classes = {str(label): label for label in np.unique(y).tolist()}
        if unknown := [label for label in class_weight if label not in classes]:
            raise ValueError(
                f"--class-weight names the unknown class {unknown[0]!r}; the classes are "
                f"{', '.join(list(classes)[:10])}."
            )
        class_weight = {k: float(class_weight.get(name, 1.0)) for name, k in classes.items()}
    if settings.model == "committee":
        return FuzzyTwinCommittee(
            noise=settings.noise, class_weight=class_weight, random_state=settings.seed
        )
    shared: dict[str, Any] = {
        "solver": settings.solver,
        "class_weight": class_weight,
        "calibration": "loo" if settings.calibrate else None,
        "random_state": None if settings.kernel == "linear" else settings.seed,  # for landmarks
    }
    membership = None if settings.membership == "none" else settings.membership
    if settings.model == "planes":
        return FuzzyTwinSVC(
            planes=settings.planes, membership=membership, kernel=settings.kernel, **shared
        )
    if settings.planes == "fuzzy":
        raise ValueError(
            "--planes fuzzy cannot be combined with a search; use --model planes, or in Python "
            "GridSearchCV over FuzzyTwinSVC(planes='fuzzy')."
        )
    search = FuzzyTwinSVCCV(
        kernels=settings.kernel,
        cv=splitter(settings, folds),
        scoring=check_scoring(settings.scoring) or DEFAULT_SCORING,
        **shared,
    )
    memberships = [m for m in search.memberships if neighbors or is_streamable(check_membership(m))]
    return search.set_params(
        memberships=memberships if settings.membership is None else [membership]
    )


def check_scoring(name: str | None) -> str | None:
    """Raise an error for a score that scikit-learn does not have."""
    if name is not None:
        try:
            get_scorer(name)
        except ValueError:
            raise ValueError(
                f"--scoring {name!r} is not a scorer of scikit-learn; use accuracy, "
                "balanced_accuracy or, for two classes, roc_auc, f1 or average_precision."
            ) from None
    return name


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings that an experiment reports as notes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # its findings are notes
        warnings.filterwarnings("ignore", "The least populated class in y")
        warnings.filterwarnings("ignore", "about .* rows (nearly )?equal another row")
        warnings.filterwarnings("ignore", "class .* prediction sets of this class contain it")
        yield


def training_metadata(
    path: str, settings: Settings, rows: Rows, best: Any, notes: list[str]
) -> dict[str, Any]:
    """Collect the metadata of training, except score and effects."""
    labels, counts = np.unique(rows.y, return_counts=True)
    parameters = _parameters(best, settings, len(rows.y))
    phi = getattr(best, "landmark_map_", None)
    landmarks = getattr(best, "landmarks_", getattr(phi, "landmarks", None))
    return {
        "data": str(path),
        **{name: getattr(settings, name) for name in ONE_COLUMN},
        "rows": len(rows.y),
        "classes": {str(label): int(n) for label, n in zip(labels, counts, strict=True)},
        "schema": rows.schema.to_dict(),
        "model": settings.model,
        "parameters": parameters,
        "landmarks": None if landmarks is None else int(landmarks.shape[0]),
        "tuned": settings.model == "search",
        "scoring": settings.scoring or DEFAULT_SCORING,
        "notes": notes,
    }


def _parameters(best: Any, settings: Settings, rows: int) -> dict[str, Any]:
    """Return the parameters that reproduce a model, for JSON."""
    class_weight = {} if best.class_weight is None else {"class_weight": settings.class_weight}
    if isinstance(best, FuzzyTwinCommittee):
        noise = {} if best.noise is None else {"noise": best.noise}
        members = [{"name": member.name, "weight": member.weight} for member in best.members_]
        return {"members": members, **noise, **class_weight}
    chosen = {name: getattr(best, name) for name in ("planes", "C", "alpha", "membership", "rule")}
    chosen = {**chosen, "C": np.asarray(chosen["C"], dtype=float).tolist(), **class_weight}
    phi = getattr(best, "landmark_map_", None)
    if phi is None:
        return chosen
    # The requested number of landmarks, not the actual one: shares of classes are rounded down,
    # so the actual number would draw another sample.
    n_landmarks = best.n_landmarks if is_count(best.n_landmarks) else phi.landmarks.shape[0]
    gamma = {"gamma": np.asarray(phi.gamma, float).tolist()} if has_gamma(best.kernel) else {}
    n_landmarks = n_landmarks if is_centers(n_landmarks) else min(int(n_landmarks), rows)
    landmarks = {"n_landmarks": n_landmarks, "random_state": best.random_state}
    return {**chosen, "kernel": best.kernel, **gamma, **landmarks}
