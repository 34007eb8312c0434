"""The estimator that an experiment fits, its folds, and the metadata of its model file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from fuzzytwin._utils.types import Array
from fuzzytwin.committee._committee import FuzzyTwinCommittee
from fuzzytwin.experiment._rows import ONE_COLUMN, Rows, Settings
from fuzzytwin.tables import TableError, TableWarning


def check_streamable(settings: Settings) -> None:
    """Raise an error for settings that need all rows in memory."""
    for option in ("groups", "votes"):
        if getattr(settings, option):
            raise TableError(
                f"--{option} needs all rows in memory and cannot be combined with --stream; use "
                "--no-stream, or omit it."
            )


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


def make_estimator(settings: Settings, y: Array) -> FuzzyTwinCommittee:
    """Return the committee to train."""
    class_weight: Any = settings.class_weight
    if class_weight is not None and not isinstance(class_weight, str):
        classes = {str(label): label for label in np.unique(y).tolist()}
        if unknown := [label for label in class_weight if label not in classes]:
            raise ValueError(
                f"--class-weight names the unknown class {unknown[0]!r}; the classes are "
                f"{', '.join(list(classes)[:10])}."
            )
        class_weight = {k: float(class_weight.get(name, 1.0)) for name, k in classes.items()}
    return FuzzyTwinCommittee(
        noise=settings.noise, class_weight=class_weight, random_state=settings.seed
    )


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
    path: str,
    settings: Settings,
    rows: Rows,
    committee: FuzzyTwinCommittee,
    notes: list[str],
) -> dict[str, Any]:
    """Collect the metadata of training, except score and effects."""
    labels, counts = np.unique(rows.y, return_counts=True)
    return {
        "data": str(path),
        **{name: getattr(settings, name) for name in ONE_COLUMN},
        "rows": len(rows.y),
        "classes": {str(label): int(n) for label, n in zip(labels, counts, strict=True)},
        "schema": rows.schema.to_dict(),
        "parameters": _parameters(committee, settings),
        "landmarks": int(committee.landmarks_.shape[0]),
        "notes": notes,
    }


def _parameters(committee: FuzzyTwinCommittee, settings: Settings) -> dict[str, Any]:
    """Return the members of a committee, and parameters that are not the default, for JSON."""
    members = [{"name": member.name, "weight": member.weight} for member in committee.members_]
    chosen = {"noise": settings.noise, "class_weight": settings.class_weight}
    return {"members": members, **{name: value for name, value in chosen.items() if value}}
