"""FuzzyTwinSVCCV: a whole grid, cross-validated at about the cost of one fit per fold."""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, validate_data

from fuzzytwin._base import Fitter, encode, present
from fuzzytwin._classifier import FuzzyTwinSVC, TwinMoments
from fuzzytwin._folds import Rows, SplitScores, own_moments, score_split, split_brier
from fuzzytwin._grid import Grid
from fuzzytwin._validation import (
    check_choice,
    check_degrees,
    check_membership,
    check_moments,
    check_number,
    check_weights,
)
from fuzzytwin.moments import ClassMoments

Array = NDArray[Any]

SMALL_DATA = 2000  # fewer rows than this get the finer grid
BAND = 0.5  # half-width of the band, in standard errors of the best score


class FuzzyTwinSVCCV(Fitter):
    r"""`FuzzyTwinSVC` with its parameters chosen by cross-validation.

    Scores every point of a grid over C of each plane, ridge, membership, rule and planes, as
    ``GridSearchCV(FuzzyTwinSVC(), ...)`` would: same folds, same scores. But rows are met once
    for each fold and membership; the rest is algebra on moments, so that thousands of points
    cost little more than one fit.

    How the winner is picked matters more than the grid. On small data the best of thousands
    of scores is mostly luck. ``selection="band"`` takes all points whose mean score lies
    within half a standard error of the best, and among them the least Brier score

        B = mean over test samples of sum_k (u_k - [y = k])^2

    of the memberships u (eq29), which tells a good plane from a lucky one more finely than
    counting hits does. Remaining ties go to the simpler point: more ridge, C nearer to 1,
    a membership named earlier.

    Parameters
    ----------
    Cs : array-like of float, default=None
        Values of C. With two classes every pair of values is a point (the planes' C are
        independent); with more, one common C for all planes. None: nine powers of two from
        2^-8 to 2^8, or seven from 2^-6 to 2^6 from 2,000 rows on.
    alphas : array-like of float, default=None
        Values of the ridge. None: seven powers of ten (five from 2,000 rows on) times the mean
        scatter of a column, from 1e-5 to 10 (1e-4 to 1).
    memberships : sequence, default=(None, "center", "hyperplane", "neighbor")
        Names, instances, callables or None, as for `FuzzyTwinSVC`. "neighbor" looks for
        neighbours in every fold: leave it out where that takes too long (some 10^5 rows).
    rules : sequence of {"distance", "residual"}, default=("distance", "residual")
        Rules.
    planes : {"crisp", "fuzzy"} or a sequence of both, default="crisp"
        Kinds of planes.
    cv : int, splitter or iterable, default=5
        As everywhere in scikit-learn; an int means stratified folds. The folds are drawn once.
    scoring : str, callable or None, default=None
        Score to compare points by; None is accuracy. Anything else than accuracy is scored
        point by point, at the cost of one prediction each.
    selection : {"band", "score"}, default="band"
        How the winner is picked: as above, or simply the best mean score.
    n_jobs : int, default=None
        Folds to work on at the same time.
    verbose : int, default=0
        Above 0 a progress bar is drawn on standard error.
    membership_scope, tau, margin_width, class_weight
        As for `FuzzyTwinSVC`; the same at every point.

    Attributes
    ----------
    best_params_ : dict
        Parameters of the winner; `FuzzyTwinSVC` takes them.
    best_score_, best_index_
        Its mean score and its place in ``cv_results_``.
    best_estimator_ : FuzzyTwinSVC
        Fitted on all rows with these parameters; it predicts.
    cv_results_ : dict of arrays
        As `GridSearchCV` gives it, ready for a data frame. Beside, ``mean_test_brier``: NaN
        at points outside of the band.
    classes_, n_features_in_, feature_names_in_, n_splits_
        As everywhere in scikit-learn.

    Notes
    -----
    Memberships are computed from each fold's training rows alone. `sample_weight` weighs
    training and test samples alike, as in `GridSearchCV` (from scikit-learn 1.7 on), so that
    an integer weight is the same as repeating a row; a scorer must then accept it.

    A split whose training rows lack a class is fitted point by point; where that fails, its
    scores are NaN, with a `FitFailedWarning`. A grid that is empty or holds bad values gets a
    ValueError that names it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from fuzzytwin import FuzzyTwinSVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = FuzzyTwinSVCCV(memberships=(None, "center")).fit(scale(X), y)
    >>> sorted(search.best_params_)
    ['C', 'alpha', 'membership', 'planes', 'rule']
    >>> search.best_score_ > 0.96
    True
    """

    def __init__(
        self,
        Cs: Any = None,
        *,
        alphas: Any = None,
        memberships: Any = (None, "center", "hyperplane", "neighbor"),
        rules: Any = ("distance", "residual"),
        planes: Any = "crisp",
        cv: Any = 5,
        scoring: Any = None,
        selection: str = "band",
        n_jobs: int | None = None,
        verbose: int = 0,
        membership_scope: str = "slack",
        tau: float = 1.0,
        margin_width: float = 0.5,
        class_weight: Any = None,
    ) -> None:
        self.Cs = Cs
        self.alphas = alphas
        self.memberships = memberships
        self.rules = rules
        self.planes = planes
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.membership_scope = membership_scope
        self.tau = tau
        self.margin_width = margin_width
        self.class_weight = class_weight

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        membership: Any = None,
        groups: Any = None,
    ) -> Any:
        """Score the grid, pick a point, and fit it on all rows.

        Parameters
        ----------
        X, y, sample_weight
            As for `FuzzyTwinSVC.fit`.
        membership : array-like of shape (n,) or (n, K), default=None
            Given degrees or soft labels, in place of all `memberships`.
        groups : array-like of shape (n,), default=None
            Handed to a splitter that asks for groups.

        Returns
        -------
        self
        """
        return self._start(X, y, sample_weight, membership, groups)

    def predict(self, X: Any) -> Array:
        """Labels, by the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def decision_function(self, X: Any) -> Array:
        """Scores of the best estimator; see `FuzzyTwinSVC.decision_function`."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def predict_membership(self, X: Any) -> Array:
        """Memberships (eq29), by the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict_membership(X)

    def predict_proba(self, X: Any) -> Array:
        """`predict_membership`; see `FuzzyTwinSVC.predict_proba`."""
        return self.predict_membership(X)

    def fuzzy_distance(self, X: Any) -> tuple[Array, Array]:
        """Fuzzy distances (Definition 1) to the planes of the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.fuzzy_distance(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _learn(self, X: Any, y: Any, classes: Any, *given: Any) -> None:
        sample_weight, membership, groups = given
        table = X
        kinds, rules, ways = self._check_axes(membership is not None)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32],
            ensure_all_finite=False,  # the pass over the rows finds out: check_moments
        )  # fmt: skip
        s = check_weights(sample_weight, len(y))
        classes, codes = encode(y, None)
        mu = check_degrees(membership, len(y), classes)
        self.classes_, codes, mu = present(classes, codes, s, mu)
        rows = Rows(X, y, codes, s, mu)
        splits = [
            (np.arange(len(y))[train], np.arange(len(y))[test])
            for train, test in check_cv(self.cv, y, classifier=True).split(X, y, groups)
        ]
        if not splits:
            raise ValueError(f"cv={self.cv!r} gives no split; give at least one.")
        self.n_splits_ = len(splits)

        template = FuzzyTwinSVC(
            planes="fuzzy" if "fuzzy" in kinds else "crisp", membership_scope=self.membership_scope,
            tau=self.tau, margin_width=self.margin_width, class_weight=self.class_weight,
        )  # fmt: skip
        template._check_params()
        template.classes_ = self.classes_
        Cs, alphas = self._check_values(len(y))
        own = own_moments(template, rows, [train for train, _ in splits])
        whole = own[0] if own else None
        if whole is None:
            assert_all_finite(X.data if hasattr(X, "indptr") else X, input_name="X")
            whole = ClassMoments.from_rows(X, codes, s, n_classes=len(self.classes_))
        check_moments(whole, X)
        if alphas is None:
            alphas = _default_alphas(whole.scaled(template._class_factors(whole)), len(y))
        grid = Grid(kinds, alphas, rules, Cs, len(self.classes_), self.tau, self.margin_width)
        scorer = None
        if self.scoring not in (None, "accuracy"):
            scorer = check_scoring(FuzzyTwinSVC(), scoring=self.scoring)
        jobs = (
            delayed(score_split)(
                template, ways, grid, rows, train, test, own[1][i] if own else None, scorer
            )
            for i, (train, test) in enumerate(splits)
        )
        work = Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs)
        done = list(_with_bar(work, len(splits), self.verbose))
        self._choose(grid, ways, rows, splits, done)
        start = time.perf_counter()
        best = FuzzyTwinSVC(**{**template.get_params(deep=False), **self.best_params_})
        if best.membership is None and mu is None and own and best.planes == "crisp":
            # The moments of all rows are known: no need to meet the rows again.
            best.classes_, best.moments_ = self.classes_, TwinMoments(whole, whole)
            best.membership_ = np.ones(len(y))
            for name in ("n_features_in_", "feature_names_in_"):
                if hasattr(self, name):
                    setattr(best, name, getattr(self, name))
            best._solve()
        else:
            best.fit(table, y, sample_weight, membership)
        self.best_estimator_ = best
        self.refit_time_ = time.perf_counter() - start

    def _check_axes(self, given: bool) -> tuple[tuple[str, ...], tuple[str, ...], list[Any]]:
        """Planes, rules and memberships of the grid (None alone where degrees are given)."""
        check_choice("selection", self.selection, ("band", "score"))
        kinds = (self.planes,) if isinstance(self.planes, str) else tuple(self.planes)
        rules = (self.rules,) if isinstance(self.rules, str) else tuple(self.rules)
        for kind in kinds:
            check_choice("planes", kind, ("crisp", "fuzzy"))
        for rule in rules:
            check_choice("rules", rule, ("distance", "residual"))
        one = self.memberships is None or isinstance(self.memberships, str)
        ways = [self.memberships] if one or callable(self.memberships) else list(self.memberships)
        for way in ways:
            check_membership(way)
        for name, values in (("planes", kinds), ("rules", rules), ("memberships", ways)):
            if not values:
                raise ValueError(f"{name}={values!r} is empty; give at least one value.")
        return kinds, rules, [None] if given else ways

    def _check_values(self, n: int) -> tuple[Array, Array | None]:
        """Values of C and alpha; None for an alpha that depends on the data."""
        powers = np.arange(-8, 9, 2) if n < SMALL_DATA else np.arange(-6, 7, 2)
        Cs = 2.0**powers if self.Cs is None else _values("Cs", self.Cs, above=0.0)
        return Cs, None if self.alphas is None else _values("alphas", self.alphas)

    def _choose(
        self, grid: Grid, ways: list[Any], rows: Rows, splits: list[Any], done: list[SplitScores]
    ) -> None:
        """Fill ``cv_results_`` and pick the best point."""
        scores = np.array([split.scores.ravel() for split in done])
        failures = [text for split in done for text in split.failures]
        if failures:
            if np.isnan(scores).all():
                raise ValueError(f"every fit of the search failed; the first one: {failures[0]}")
            warnings.warn(
                f"{len(failures)} fits failed; their scores are NaN. The first one: {failures[0]}",
                FitFailedWarning,
                stacklevel=4,
            )
        points = list(
            itertools.product(
                ways, grid.kinds, map(float, grid.alphas), grid.rules,
                (grid.penalties(place) for place in np.ndindex(grid.shape[3:])),
            )
        )  # fmt: skip
        names = ("membership", "planes", "alpha", "rule", "C")
        params = [dict(zip(names, point, strict=True)) for point in points]
        results: dict[str, Any] = {"params": params}
        for name, column in zip(names, zip(*points, strict=True), strict=True):
            values = np.empty(len(points), dtype=object)
            values[:] = column
            results[f"param_{name}"] = np.ma.masked_array(values, mask=False)
        for kind in ("fit_time", "score_time"):
            # A split is worked on as a whole: each point is given its share.
            times = np.array([getattr(split, kind) / len(points) for split in done])
            results[f"mean_{kind}"] = np.full(len(points), times.mean())
            results[f"std_{kind}"] = np.full(len(points), times.std())
        for i, split in enumerate(scores):
            results[f"split{i}_test_score"] = split
        mean = scores.mean(axis=0)
        results["mean_test_score"] = mean
        results["std_test_score"] = scores.std(axis=0)
        last = np.nan_to_num(mean, nan=np.nanmin(mean, initial=0.0) - 1)
        results["rank_test_score"] = rankdata(-last, method="min").astype(np.int32)
        results["mean_test_brier"] = np.full(len(points), np.nan)
        if self.selection == "band":
            candidates = _band(scores)
            wanted = candidates.reshape(len(ways), *grid.shape)
            sums = [
                split_brier(grid, rows, test, split, wanted).ravel()
                for (_, test), split in zip(splits, done, strict=True)
            ]
            brier = np.where(candidates, np.mean(sums, axis=0), np.nan)
            results["mean_test_brier"] = brier
            self.best_index_ = _simplest(params, ways, np.flatnonzero(candidates), -brier)
        else:
            best = np.flatnonzero(mean == np.nanmax(mean))
            self.best_index_ = _simplest(params, ways, best, mean)
        self.cv_results_ = results
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])


def _values(name: str, values: Any, above: float | None = None) -> Array:
    try:
        values = list(values)
    except TypeError as error:
        raise ValueError(f"{name}={values!r} is no sequence; give a list of numbers.") from error
    if not values:
        raise ValueError(f"{name}={values!r} is empty; give at least one number.")
    return np.array([check_number(name, value, above=above) for value in values])


def _default_alphas(own: ClassMoments, n: int) -> Array:
    """Powers of ten around the mean scatter of a column within the classes."""
    trace = np.trace(own.covariance, axis1=1, axis2=2)
    scatter = float(own.weight @ trace) / own.origin.shape[1]
    powers = np.arange(-5, 2) if n < SMALL_DATA else np.arange(-4, 1)
    return (scatter or 1.0) * 10.0**powers


def _band(scores: Array) -> Array:
    """Points whose mean score lies within half a standard error of the best."""
    mean = scores.mean(axis=0)
    best = int(np.nanargmax(mean))
    spread = scores[:, best].std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else 0.0
    rounding = 1e-12 * max(1.0, abs(mean[best]))
    return mean >= mean[best] - BAND * spread - rounding


def _simplest(params: list[Any], ways: list[Any], points: Array, worth: Array) -> int:
    """The point of greatest worth; among equals more ridge, C nearer to 1, an earlier way."""
    top = worth[points].max()
    equal = points[worth[points] >= top - 1e-12 * abs(top)]

    def price(point: int) -> tuple[float, float, int]:
        chosen = params[point]
        place = next(i for i, way in enumerate(ways) if way is chosen["membership"])
        return -chosen["alpha"], float(np.abs(np.log(chosen["C"])).sum()), place

    return int(min(equal, key=price))


def _with_bar(work: Iterable[Any], total: int, verbose: int) -> Iterator[Any]:
    """Hand on results as they come; draw how many have come where asked to."""
    for count, result in enumerate(work, start=1):
        if verbose > 0:
            full = round(30 * count / total)
            end = "\n" if count == total else ""
            sys.stderr.write(f"\rsearch [{'#' * full:30s}] {count}/{total} folds{end}")
            sys.stderr.flush()
        yield result
