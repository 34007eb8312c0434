"""The methods of the paper, each with the grid it is tuned over.

Every method knows two things: how to score all points of its grid on given training and test
rows (`Method.hits`), and how to tune itself on training rows only (`Method.tune`). The two
protocols are made of these.

========== ======================================== =======================================
name       classifier                               grid
========== ======================================== =======================================
SVM        ``SVC(kernel="linear")``                 C = 2^-8 ... 2^4
LST-SVM    `LeastSquaresTwinSVC`, no ridge          C of each plane, 2^-8 ... 2^8
T-SVM      `TwinSVC`                                C of each plane, 2^-8 ... 2^4
P-SVM      `ProximalSVC`                            C = 2^-8 ... 2^8
GEP-SVM    `GEPSVC`                                 ridge 10^-4 ... 10^4
FLST-M1    crisp planes, as the paper has them      LST-SVM's, two memberships of the paper
FLST-M2    fuzzy planes, ``"endpoints"``            LST-SVM's, two memberships of the paper
LST+       LST-SVM with ridge and both rules        `FuzzyTwinSVCCV`'s own, no membership
M1+        what `FuzzyTwinSVCCV` makes of FLST-M1   its own
M2+        fuzzy planes with ridge and both rules   that of M1+, by accuracy
========== ======================================== =======================================
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC, LinearSVC

from fuzzytwin._utils.types import Array
from fuzzytwin.classics import GEPSVC, ProximalSVC, TwinSVC
from fuzzytwin.core.distances import effective_distances
from fuzzytwin.memberships import HyperplaneMembership
from fuzzytwin.twin import FuzzyTwinSVC
from fuzzytwin.twin._search import FuzzyTwinSVCCV

PAPER_METHODS = ("SVM", "LST-SVM", "T-SVM", "P-SVM", "GEP-SVM", "FLST-M1", "FLST-M2")
LIBRARY_METHODS = ("LST+", "M1+", "M2+")
METHODS = PAPER_METHODS + LIBRARY_METHODS

# The paper's two: distance to the centre, distance to the plane of a first LST-SVM.
PAPER_MEMBERSHIPS: tuple[Any, ...] = ("center", HyperplaneMembership(kind="distance"))


class Method:
    """A classifier and its grid."""

    def hits(self, A: Array, a: Array, B: Array, b: Array, degrees: Any = None) -> Array:
        """Count the test rows that each point of the grid gets right, as a flat array.

        Parameters
        ----------
        A, a : ndarray
            Training rows and labels 0 / 1.
        B, b : ndarray
            Test rows and labels.
        degrees : ndarray of shape (n,), default=None
            Given degrees of the training rows, for methods that know what to do with them.
        """
        raise NotImplementedError

    def tune(
        self, A: Array, a: Array, inner: int, seed: int, degrees: Any = None
    ) -> tuple[Any, str]:
        """Tune by cross-validation on training rows, and return the model and its settings."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Points(Method):
    """A classifier with one parameter: each value is fitted and scored."""

    name: str
    values: tuple[float, ...]
    make: Callable[[float], Any]

    def hits(self, A: Array, a: Array, B: Array, b: Array, degrees: Any = None) -> Array:
        """See `Method.hits`."""
        with quiet():
            right = [(self.make(v).fit(A, a).predict(B) == b).sum() for v in self.values]
        return np.array(right)

    def tune(
        self, A: Array, a: Array, inner: int, seed: int, degrees: Any = None
    ) -> tuple[Any, str]:
        """See `Method.tune`; the first of equals wins."""
        total = sum(self.hits(*fold) for fold in inner_folds(A, a, inner, seed))
        best = self.values[int(np.argmax(total))]
        with quiet():
            return self.make(best).fit(A, a), f"{self.name}={best:g}"


@dataclass(frozen=True, eq=False)
class TwinPairs(Method):
    """T-SVM with a C for each plane.

    Plane k depends on its own C only. So |C| fits give |C|^2 points, which are scored from
    the distances to their planes.
    """

    values: tuple[float, ...]

    def hits(self, A: Array, a: Array, B: Array, b: Array, degrees: Any = None) -> Array:
        """See `Method.hits`."""
        with quiet():
            delta = np.array(
                [_twin(C).fit(A, a).fuzzy_distance(B)[0] for C in self.values]
            )  # value of C, row, class
        second = delta[None, :, :, 1] < delta[:, None, :, 0]
        return (second == (b == 1)).sum(axis=-1).ravel()

    def tune(
        self, A: Array, a: Array, inner: int, seed: int, degrees: Any = None
    ) -> tuple[Any, str]:
        """See `Method.tune`; the first of equals wins."""
        total = sum(self.hits(*fold) for fold in inner_folds(A, a, inner, seed))
        first, second = divmod(int(np.argmax(total)), len(self.values))
        C = (self.values[first], self.values[second])
        with quiet():
            return _twin(C).fit(A, a), f"C={C[0]:g}, {C[1]:g}"


@dataclass(frozen=True, eq=False)
class Search(Method):
    """A fuzzy twin SVM, tuned by `FuzzyTwinSVCCV`.

    `powers` are those of ten of the ridge, in units of the number of training rows; None
    means no ridge. With `defaults` the search picks its grid itself where it tunes.
    """

    options: dict[str, Any] = field(default_factory=dict)
    powers: tuple[int, ...] | None = None
    defaults: bool = False

    def hits(self, A: Array, a: Array, B: Array, b: Array, degrees: Any = None) -> Array:
        """See `Method.hits`."""
        n, m = len(A), len(B)
        options = {"alphas": self._alphas(n), **self.options, "selection": "score"}
        split = [(np.arange(n), np.arange(n, n + m))]
        search = FuzzyTwinSVCCV(cv=split, **options)
        given = None if degrees is None else np.append(degrees, np.ones(m))
        search.fit(np.concatenate([A, B]), np.concatenate([a, b]), membership=given)
        scores = search.cv_results_["split0_test_score"]
        return np.rint(np.nan_to_num(scores) * m).astype(int)

    def tune(
        self, A: Array, a: Array, inner: int, seed: int, degrees: Any = None
    ) -> tuple[Any, str]:
        """See `Method.tune`."""
        options = dict(self.options)
        if not self.defaults:
            options["alphas"] = self._alphas(len(A))
        folds = StratifiedKFold(inner, shuffle=True, random_state=seed)
        search = FuzzyTwinSVCCV(cv=folds, **options).fit(A, a, membership=degrees)
        best = search.best_params_
        C = best["C"]
        chosen = f"C={C[0]:g}, {C[1]:g}; alpha={best['alpha']:.3g}; {best['rule']}"
        return search.best_estimator_, f"{chosen}; {_named(best['membership'])}"

    def _alphas(self, n: int) -> tuple[float, ...]:
        return ridges_of(self.powers, n)


def ridges_of(powers: tuple[int, ...] | None, n: int) -> tuple[float, ...]:
    """Return ridges for n training rows; None means no ridge."""
    return (0.0,) if powers is None else tuple(n * 10.0**p for p in powers)


@dataclass(frozen=True, eq=False)
class FuzzyPairs(Method):
    """Fuzzy planes (M2) with a C for each plane.

    As in `TwinPairs`, |C| fits give |C|^2 points. `powers` are as in `Search`.
    """

    Cs: tuple[float, ...]
    memberships: tuple[Any, ...]
    rules: tuple[str, ...] = ("distance",)
    powers: tuple[int, ...] | None = None

    def hits(self, A: Array, a: Array, B: Array, b: Array, degrees: Any = None) -> Array:
        """See `Method.hits`."""
        right = []
        for membership, alpha in product(
            self._memberships(degrees), ridges_of(self.powers, len(A))
        ):
            models = [
                FuzzyTwinSVC(planes="fuzzy", C=C, alpha=alpha, membership=membership).fit(
                    A, a, membership=degrees
                )
                for C in self.Cs
            ]
            for rule in self.rules:
                parts = [_fuzzy_values(model, rule, B) for model in models]
                distances = np.array([effective_distances(*part) for part in parts])
                second = distances[None, :, :, 1] < distances[:, None, :, 0]
                right.append((second == (b == 1)).sum(axis=-1))
        return np.array(right).ravel()

    def tune(
        self, A: Array, a: Array, inner: int, seed: int, degrees: Any = None
    ) -> tuple[Any, str]:
        """See `Method.tune`; equals go to planes of one C, more ridge, C nearer to 1."""
        total: Any = 0
        folds = StratifiedKFold(inner, shuffle=True, random_state=seed)
        for train, test in folds.split(A, a):
            train_degrees = None if degrees is None else degrees[train]
            total = total + self.hits(A[train], a[train], A[test], a[test], train_degrees)
        memberships = self._memberships(degrees)
        alphas = ridges_of(self.powers, len(A))
        points = list(product(memberships, alphas, self.rules, self.Cs, self.Cs))

        def sort_key(i: int) -> tuple[float, ...]:
            _, alpha, _, *C = points[i]
            logs = np.log(C)
            return round(float(np.ptp(logs)), 9), -alpha, round(float(np.abs(logs).sum()), 9)

        best = min(np.flatnonzero(total == np.max(total)).tolist(), key=sort_key)
        membership, alpha, rule, *C = points[best]
        model = FuzzyTwinSVC(planes="fuzzy", C=C, alpha=alpha, membership=membership, rule=rule)
        model.fit(A, a, membership=degrees)
        return model, f"C={C[0]:g}, {C[1]:g}; alpha={alpha:.3g}; {rule}; {_named(membership)}"

    def _memberships(self, degrees: Any) -> tuple[Any, ...]:
        return self.memberships if degrees is None else (None,)


def _fuzzy_values(model: FuzzyTwinSVC, rule: str, B: Array) -> tuple[Array, Array]:
    """Compute fuzzy distances of rows to both planes or, by the rule "residual", plane values."""
    if rule == "distance":
        return model.fuzzy_distance(B)
    f, g = model.plane_values(B)
    assert g is not None
    return np.abs(f), np.abs(g)


def make_methods(quick: bool = False, large: bool = False) -> dict[str, Method]:
    """List all methods by name.

    Parameters
    ----------
    quick : bool, default=False
        Small grids.
    large : bool, default=False
        For many rows: the SVM by LIBLINEAR (squared hinge), no membership that looks for
        neighbours.
    """
    wide = range(-6, 7, 3) if quick else range(-8, 9, 2)
    Cs = _powers(2.0, wide)
    narrow = _powers(2.0, range(-6, 1, 3) if quick else range(-8, 5, 2))
    if large:
        narrow = _powers(2.0, range(-6, 3, 4) if quick else range(-8, 5, 3))
    ridges = _powers(10.0, range(-2, 3, 2) if quick else range(-4, 5))
    plain = {"Cs": Cs, "memberships": (None,), "rules": ("distance",), "selection": "score"}
    paper = {**plain, "memberships": PAPER_MEMBERSHIPS}
    every: tuple[Any, ...] = (None, "center", "hyperplane", "neighbor")
    own: dict[str, Any] = {"Cs": Cs, "memberships": every[: 3 if large or quick else 4]}
    powers = (-3, -1, 0) if quick else tuple(range(-5, 2))

    def svm(C: float) -> Any:
        return LinearSVC(C=C, random_state=0) if large else SVC(kernel="linear", C=C)

    return {
        "SVM": Points("C", narrow, svm),
        "LST-SVM": Search(plain),
        "T-SVM": TwinPairs(narrow),
        "P-SVM": Points("C", Cs, lambda C: ProximalSVC(C=C)),
        "GEP-SVM": Points("alpha", ridges, lambda alpha: GEPSVC(alpha=alpha)),
        "FLST-M1": Search(paper),
        "FLST-M2": FuzzyPairs(Cs, PAPER_MEMBERSHIPS),
        "LST+": Search({**own, "memberships": (None,)}, powers, defaults=not quick),
        "M1+": Search(own, powers, defaults=not quick),
        "M2+": FuzzyPairs(Cs, own["memberships"], ("distance", "residual"), powers),
    }


def inner_folds(A: Array, a: Array, inner: int, seed: int) -> Iterator[tuple[Array, ...]]:
    """Split the rows that may be tuned on into training and test parts."""
    for train, test in StratifiedKFold(inner, shuffle=True, random_state=seed).split(A, a):
        yield A[train], a[train], A[test], a[test]


def quiet() -> Any:
    """Ignore warnings of grid points that do not converge: they are scored as they are."""
    return warnings.catch_warnings(action="ignore", category=ConvergenceWarning)


def _twin(C: Any) -> TwinSVC:
    return TwinSVC(C=C, tol=1e-4)


def _powers(base: float, exponents: Any) -> tuple[float, ...]:
    """List powers with those nearest to 1 first: among equals the first one wins."""
    return tuple(base**e for e in sorted(exponents, key=lambda e: (abs(e), e)))


def _named(membership: Any) -> str:
    if membership is None:
        return "no membership"
    return "hyperplane distance" if isinstance(membership, HyperplaneMembership) else membership
