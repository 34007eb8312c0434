"""The model behind the page: kept exact while rows change their label, degree or presence."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from fuzzytwin._utils.types import Array
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.report.effects import column_effects

FOLDS = 5
LANDMARKS = 150  # of curved planes: quick enough to follow every decision


def make_model(planes: str = "crisp", kernel: str = "linear") -> FuzzyTwinSVC:
    """Make the model of the studio, not yet fitted; curved planes have a ridge of 1."""
    if kernel == "linear":
        return FuzzyTwinSVC(planes)
    return FuzzyTwinSVC(
        planes, kernel=kernel, alpha=1.0, n_landmarks=LANDMARKS, random_state=0
    )  # fmt: skip


class LiveModel:
    """A model that follows its rows.

    Changing a row forgets it as it was and learns it as it is: exact, and in milliseconds.

    Parameters
    ----------
    model : FuzzyTwinSVC
        Not yet fitted.
    X : ndarray of shape (n, d)
        All rows.
    codes : ndarray of shape (n,)
        Classes of the rows, from 0 on.
    weight, degree : ndarray of shape (n,)
        Their weights and degrees.
    used : ndarray of shape (n,)
        Whether a row is learned from.
    n_classes : int
        Number of classes.
    """

    def __init__(
        self,
        model: FuzzyTwinSVC,
        X: Array,
        codes: Array,
        weight: Array,
        degree: Array,
        used: Array,
        n_classes: int,
    ) -> None:
        self.X, self.weight, self.n_classes = X, weight, n_classes
        self.codes, self.degree, self.used = codes.copy(), degree.copy(), used.copy()
        self.model = clone(model)
        self.refit()

    def refit(self) -> None:
        """Learn from all rows that are used, from the start."""
        self.model.fit(*self._rows(self.used))

    def change(self, row: int, code: int, degree: float, used: bool) -> None:
        """Give a row another class or degree, or leave it out, or take it in again."""
        before = self.codes[row], self.degree[row], self.used[row]
        if before == (code, degree, used):
            return
        index = np.array([row])
        given = self._rows(index)
        self.codes[row], self.degree[row], self.used[row] = code, degree, used
        try:
            if before[2]:
                self.model.forget(*given)
            if used:
                X, y, weight, degrees = self._rows(index)
                self.model.partial_fit(X, y, sample_weight=weight, membership=degrees)
        except ValueError:  # too many digits would cancel
            try:
                self.refit()
            except ValueError:
                self.codes[row], self.degree[row], self.used[row] = before
                self.refit()
                raise

    def _rows(self, index: Array) -> tuple[Array, Array, Array, Array]:
        return self.X[index], self.codes[index], self.weight[index], self.degree[index]

    def memberships(self) -> Array:
        """Compute the memberships of every row by planes that were learned without it."""
        out = np.empty((len(self.X), self.n_classes))
        out[self.used] = self.model.loo_membership(*self._rows(self.used))
        rest = ~self.used
        if rest.any():
            out[rest] = self.model.predict_membership(self.X[rest])
        return out

    def without(self, row: int) -> FuzzyTwinSVC:
        """Give the model as it would be without a row."""
        if not self.used[row]:
            return self.model
        index = np.array([row])
        other = clone(self.model)
        vars(other).update(vars(self.model))  # fitted parts are replaced, never changed
        try:
            return other.forget(*self._rows(index))
        except ValueError:
            return self.model

    def cross_validate(self) -> float:
        """Compute the accuracy by stratified folds, always the same ones."""
        rows = np.flatnonzero(self.used)
        least = int(np.bincount(self.codes[rows], minlength=self.n_classes).min())
        folds = StratifiedKFold(max(2, min(FOLDS, least)), shuffle=True, random_state=0)
        hits = 0
        for train, test in folds.split(rows, self.codes[rows]):
            fitted = clone(self.model).fit(*self._rows(rows[train]))
            hits += int((fitted.predict(self.X[rows[test]]) == self.codes[rows[test]]).sum())
        return hits / len(rows)

    def drivers(self) -> tuple[Array, Array]:
        """Compute the effect of every column on every class, and its strength."""
        used = self.weight * self.used
        return column_effects(self.model, self.X, used)


def evidence(model: Any, x: Array, origins: Array, code: int) -> Array:
    """Compute how much each column speaks for a class at one row.

    A column speaks for the class by what the membership would lose if the column were as in the
    average row (0, as columns are scaled; for a category, the mean of its columns).

    Parameters
    ----------
    model : FuzzyTwinSVC
        Best one that never saw the row.
    x : ndarray of shape (2, d)
        The row, and the average row.
    origins : ndarray of shape (d,)
        Number of the column that each prepared column comes from.
    code : int
        The class.

    Returns
    -------
    ndarray of shape (number of columns,)
        In units of membership; positive speaks for the class.
    """
    row, usual = x
    count = int(origins.max()) + 1
    moved = np.tile(row, (count + 1, 1))
    for column in range(count):
        here = origins == column
        moved[column, here] = usual[here]
    u = model.predict_membership(moved)[:, code]
    return np.asarray(u[-1] - u[:-1])
