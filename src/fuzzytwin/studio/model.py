"""The model behind the page: kept exact while rows change their label, degree or presence."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from fuzzytwin._utils.types import Array
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.explain import column_effects

FOLDS = 5
CHUNK = 256  # columns that are moved at a time
LANDMARKS = 150  # of curved planes: quick enough to follow every decision


# Fuzzy planes by default where their bands can be told apart and their widths solved quickly.
FEW_CLASSES, FEW_COLUMNS = 2, 200


def usual_planes(n_classes: int, n_columns: int) -> str:
    """Choose the planes of a table where no one has: "fuzzy" if it is small, else "crisp"."""
    few = n_classes <= FEW_CLASSES and n_columns <= FEW_COLUMNS
    return "fuzzy" if few else "crisp"


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
        phi = getattr(self.model, "landmark_map_", None)
        if phi is not None:  # curved planes keep their landmarks, whatever becomes of the rows
            fixed = {"n_landmarks": phi.landmarks, "gamma": phi.gamma, "relevance": None}
            self.model.set_params(**fixed)
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
        except ValueError:  # too many digits would cancel, or there are no moments
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
        other = clone(self.model)
        vars(other).update(vars(self.model))  # fitted parts are replaced, never changed
        try:
            return other.forget(*self._rows(np.array([row])))
        except ValueError:  # too many digits would cancel, or there are no moments
            rest = self.used.copy()
            rest[row] = False
            return clone(self.model).fit(*self._rows(rest))

    def accuracy(self, u: Array) -> float:
        """Return the share of used rows whose class has the greatest of the memberships `u`."""
        return float((u.argmax(axis=1) == self.codes)[self.used].mean())

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


def evidence(
    model: FuzzyTwinSVC, x: Array, usual: Array, origins: Array, code: int, other: int
) -> Array:
    """Compute how much each column speaks for one class rather than another at a row.

    Between the planes of the two classes, s = (f_code - f_other) / 2 leads straight from -1/2 at
    rows of the other class to 1/2 at rows of the class. A column speaks for the class by what s
    would lose if the column were as in the average row. (The membership itself would not do:
    beyond a plane it falls again, so that a strong sign for a class would seem to speak against
    it.) For linear planes the parts add up.

    Parameters
    ----------
    model : FuzzyTwinSVC
        Best one that never saw the row.
    x, usual : ndarray of shape (d,)
        The row, and the average row.
    origins : ndarray of shape (d,)
        Number of the column that each prepared column comes from.
    code, other : int
        The classes.

    Returns
    -------
    ndarray of shape (number of columns,)
        Positive speaks for the class; 1 is the whole way between the classes.
    """
    pairs = model.plane_classes_
    mine, its = (
        int(np.flatnonzero((pairs[:, 0] == a) & ((pairs[:, 1] == b) | (pairs[:, 1] < 0)))[0])
        for a, b in ((code, other), (other, code))
    )
    count = int(origins.max()) + 1
    if not hasattr(model, "landmark_map_"):
        part = (model.coef_[mine] - model.coef_[its]) * (x - usual) / 2
        return np.bincount(origins, part, minlength=count)
    lost = np.empty(count)
    for start in range(0, count, CHUNK):
        columns = np.arange(start, min(start + CHUNK, count))
        moved = np.where(origins == columns[:, None], usual, x)
        f, _ = model.plane_values(np.vstack([moved, x]))
        s = (f[:, mine] - f[:, its]) / 2
        lost[columns] = s[-1] - s[:-1]
    return lost
