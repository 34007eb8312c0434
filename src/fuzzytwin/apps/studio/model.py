"""The model behind the page: kept exact while rows change their label, degree or presence."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, cross_val_predict

from fuzzytwin._utils.types import Array
from fuzzytwin.twin._svc import FuzzyTwinSVC

FOLDS = 5
CHUNK = 256  # columns that are moved at a time
LANDMARKS = 150  # of curved planes: quick enough to follow every decision
# What can be chosen on the page, with its name there.
PLANES = {"crisp": "crisp lines", "fuzzy": "fuzzy bands"}
SHAPES = {"linear": "straight", "rbf": "curved (RBF)"}


def make_model(planes: str = "crisp", kernel: str = "linear") -> FuzzyTwinSVC:
    """Make the model of the studio, not yet fitted.

    Its ridge is a number, 1 for curved planes: without a row, it is the same.
    """
    if kernel == "linear":
        return FuzzyTwinSVC(planes, alpha=10.0)
    return FuzzyTwinSVC(planes, kernel=kernel, alpha=1.0, n_landmarks=LANDMARKS, random_state=0)


class LiveModel:
    """A model that follows its rows: their `codes`, `degree`, and whether they are `used`.

    Changing a row forgets it as it was and learns it as it is: exact, and in milliseconds.
    """

    def __init__(
        self, model: FuzzyTwinSVC, X: Array, codes: Array, weight: Array, degree: Array, used: Array
    ) -> None:
        self.X, self.weight, self.n_classes = X, weight, int(codes.max()) + 1
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

    def memberships(self, groups: Array | None = None) -> Array:
        """Compute the memberships of every row by planes that saw neither it nor its group."""
        out = np.empty((len(self.X), self.n_classes))
        if groups is None:
            groups = np.arange(len(self.X))  # nothing is said about repetitions
        out[self.used] = self.model.loo_membership(*self._rows(self.used), groups[self.used])
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

    def cross_validate(self, groups: Array | None = None) -> float:
        """Compute the accuracy by stratified folds of whole groups, always the same ones.

        It is NaN where a fold leaves too little of a class.
        """
        X, y, weight, degree = self._rows(self.used)
        count = min(FOLDS, int(np.bincount(y).min()))
        kind, given = StratifiedKFold, None
        if groups is not None:
            kind, given = StratifiedGroupKFold, groups[self.used]
            count = min(count, len(np.unique(given)))
        params = {"sample_weight": weight, "membership": degree}
        try:
            folds = list(kind(max(count, 2), shuffle=True, random_state=0).split(X, y, given))
            predicted = cross_val_predict(clone(self.model), X, y, cv=folds, params=params)
        except ValueError:
            return np.nan
        return float((predicted == y).mean())

    def evidence(self, row: int, origins: Array, code: int, other: int) -> Array:
        """Compute how much each column speaks for one class rather than another at a row.

        Between the planes of the two classes, s = (f_code - f_other) / 2 leads straight from -1/2
        at rows of the other class to 1/2 at rows of the class. A column speaks for the class by
        what s would lose if the column were as in the average row; `origins` number the columns
        that those of X come from. (The membership itself would not do: beyond a plane it falls
        again, so that a strong sign for a class would seem to speak against it.) For linear
        planes the parts add up.
        """
        model, x, usual = self.without(row), self.X[row], self.X.mean(axis=0)
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
