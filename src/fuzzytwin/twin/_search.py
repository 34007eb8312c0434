"""FuzzyTwinSVCCV: cross-validate a whole grid from the moments of the folds."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._params import check_choice, set_fitted_attributes
from fuzzytwin._rows import Rows, label_array, validate_rows
from fuzzytwin._utils.types import Array
from fuzzytwin.twin import _row_fit
from fuzzytwin.twin._axes import check_axes, possible_solvers, shared_parameters
from fuzzytwin.twin._grid import SCORES
from fuzzytwin.twin._make_grid import SMALL_DATA, Search, Splits
from fuzzytwin.twin._prediction import available_if, check_calibrated
from fuzzytwin.twin._selection import choose_and_tabulate, pack_results, unpack_results
from fuzzytwin.twin._settings import choose_solver
from fuzzytwin.twin._stages import score_kernels
from fuzzytwin.twin._svc import FuzzyTwinSVC

MAX_ROUNDS = 4  # repetitions of k-fold cross-validation; those after the first are shuffled
SMALL_KERNEL_DATA = 500  # with a kernel, repeat until this many test rows (else SMALL_DATA)
SELECTIONS = ("one_standard_error", "score")


class FuzzyTwinSVCCV(ClassifierMixin, BaseEstimator):
    r"""`FuzzyTwinSVC` with its parameters chosen by cross-validation.

    It scores every point of a grid over the C of each plane, ridge, membership and rule, as
    ``GridSearchCV(FuzzyTwinSVC(), ...)`` would: same folds, same scores. Rows are read only once
    for each fold and membership, and the remaining work is algebra on moments. Without the
    membership "neighbor", a search takes the time of about 240 fits of 300 rows, 42 of 2,000 and 41
    of 100,000 (32 columns, ``python -m benchmarks search sizes``).

    Kernel planes are searched in two stages, unless `Cs` is set or None is not among the
    `memberships`. The first stage searches gamma and ridge, with C = 1 and no membership. The
    second searches C, memberships and rules at the best of these. ``cv_results_`` lists the points
    that were scored.

    All points are crisp planes with one bandwidth for all columns. For fuzzy planes
    or the solver "iterative", use `GridSearchCV` over `FuzzyTwinSVC`.

    The selection of the best point matters more than the grid: on small data the best of
    thousands of scores is mostly luck. ``selection="one_standard_error"`` considers all points
    whose mean score lies within a standard error of the best, and takes the one with the
    smallest Brier score

        B = mean over test rows of sum_k (u_k - [y = k])^2

    of the memberships u, which separates good planes from lucky ones better than accuracy does.
    Points whose Brier score exceeds the smallest by at most half a standard error of the
    difference count as equal. Among these, points whose planes share one C are preferred, then
    the smallest Brier score. Exact ties go to more ridge, C nearer to 1, no membership. With few
    rows and an int as `cv`, up to three further rounds of shuffled folds make the choice more
    stable. Rounds are added until about 2,000 rows are tested (500 with a kernel).

    Parameters
    ----------
    Cs : array-like of float, default=None
        Values of C. With two classes every pair of values is a point (the planes' C are
        independent). With more classes, all planes have one common C. None: nine powers of two
        from 2^-8 to 2^8, or five from 2^-4 to 2^4 if there are at least 2,000 rows. For more
        than two classes, four from 2^-4 to 2^2. With a kernel, 1, then 1/4, 1 and 4 (1/4 and 1
        for more than two classes) at the best gamma.
    alphas : array-like of float, default=None
        Values of the ridge. None: seven powers of ten, from 1e-5 to 10, times the mean scatter
        of a column (with the solver "gram", of a dimension of the row space). From 2,000 rows
        on, five, from 1e-4 to 1. With a kernel, six, from 1e-3 to 100.
    memberships : sequence, default=(None, "center", "hyperplane", "neighbor")
        Names, instances, callables or None, as for `FuzzyTwinSVC`. "neighbor" searches
        for neighbours in every fold. Omit it if that takes too long (about 100,000 rows).
    rules : sequence of {"distance", "residual"}, default=("distance", "residual")
        Values of `rule` to try.
    solver : {"auto", "moments", "gram"}, default="auto"
        As for `FuzzyTwinSVC`. With "gram", all points and folds are solved in the space of all
        rows.
    kernels : str, callable or a sequence of them, default="linear"
        Kernels, as for `FuzzyTwinSVC`. "auto" tries linear and RBF. Landmarks are taken from
        each fold's training rows.
    gammas : array-like of float, default=None
        Values of gamma for the kernels that have one. None: powers of four around the median
        heuristic, 1 / (median squared distance between rows). The search begins with the three
        nearest and continues as long as the best lies at an end. If `Cs` is set, there are five.
    cv : int, splitter or iterable, default=5
        As in scikit-learn. An int means stratified folds. The folds are drawn once.
        ``cv_results_`` reports these folds. Further rounds only help to choose.
    scoring : {"accuracy", "balanced_accuracy", "f1", "precision", "recall"}, default=None
        Score to compare points by. None is accuracy. "f1", "precision" and "recall" are those of
        the label 1, the second of two classes. For any other score, use
        ``GridSearchCV(FuzzyTwinSVC(), ...)``.
    selection : {"one_standard_error", "score"}, default="one_standard_error"
        How the best point is selected: as above, or simply by the best mean score.
    n_jobs : int, default=None
        Number of threads, as for `FuzzyTwinSVC`. They share the rows of each fold or, if these
        are few, the folds. The best estimator uses the same number to predict.
    verbose : int, default=0
        If above 0, draw a progress bar on standard error.
    calibration : None or "loo", default=None
        As for `FuzzyTwinSVC`, for the best estimator only. Points are compared by labels of
        greatest membership. Keep None with a `scoring` that is not optimised by the most probable
        label, such as "balanced_accuracy".
    class_weight, degree, coef0, n_landmarks, random_state
        As for `FuzzyTwinSVC`, the same at every point. `random_state` seeds the choice of
        landmarks.

    Attributes
    ----------
    best_params_ : dict
        Parameters of the best point, as keyword arguments of `FuzzyTwinSVC`.
    best_score_, best_index_
        Its mean score and its index in ``cv_results_``.
    best_estimator_ : FuzzyTwinSVC
        Model fitted on all rows with these parameters.
    refit_time_ : float
        Seconds that this fit took.
    cv_results_ : dict of arrays
        As in `GridSearchCV`. It can be converted to a data frame. It also has
        ``mean_test_brier``.
    n_splits_ : int
        Number of folds.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Memberships are computed only from each fold's training rows. `sample_weight` applies to
    training and test rows, as in `GridSearchCV` (from scikit-learn 1.7 on). A weight is an
    importance, and a weight of w is the same as w copies of the row in one fold.

    With a rare class set ``scoring="balanced_accuracy", selection="score"``. Accuracy selects
    planes that miss the rare class, and `class_weight` does not help by itself, since the C of each
    plane is tuned too. To rank rows, keep the default (``python -m benchmarks imbalance``).

    The scores of a split whose training rows lack a class are NaN, with a `FitFailedWarning`, and
    are not used for the selection. A grid that is empty or contains invalid values raises a
    ValueError that names it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from fuzzytwin import FuzzyTwinSVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = FuzzyTwinSVCCV(memberships=(None, "center")).fit(scale(X), y)
    >>> sorted(search.best_params_)
    ['C', 'alpha', 'membership', 'rule']
    >>> round(search.best_score_, 2)
    0.98
    """

    def __init__(
        self,
        *,
        Cs: Any = None,
        alphas: Any = None,
        memberships: Any = (None, "center", "hyperplane", "neighbor"),
        rules: Any = ("distance", "residual"),
        solver: str = "auto",
        kernels: Any = "linear",
        gammas: Any = None,
        cv: Any = 5,
        scoring: Any = None,
        selection: str = "one_standard_error",
        n_jobs: int | None = None,
        verbose: int = 0,
        class_weight: Any = None,
        calibration: str | None = None,
        degree: float = 3,
        coef0: float = 0.0,
        n_landmarks: Any = 300,
        random_state: Any = 0,
    ) -> None:
        self.Cs = Cs
        self.alphas = alphas
        self.memberships = memberships
        self.rules = rules
        self.solver = solver
        self.kernels = kernels
        self.gammas = gammas
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.class_weight = class_weight
        self.calibration = calibration
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, groups: Any = None
    ) -> Self:
        """Score the grid, select the best point, and fit it on all rows.

        Parameters
        ----------
        X, y, sample_weight
            As for `FuzzyTwinSVC.fit`.
        membership : array-like of shape (n,) or (n, K), default=None
            Membership degrees or soft labels, instead of all `memberships`.
        groups : array-like of shape (n,), default=None
            Group of each row, passed to splitters that use groups and to the fit of the best
            estimator.

        Returns
        -------
        self
        """
        axes = check_axes(self, has_degrees=membership is not None)
        check_choice("selection", self.selection, SELECTIONS)
        shared, settings = shared_parameters(self, axes)
        rows = validate_rows(self, X, y, sample_weight, membership, groups=groups)
        groups = rows.groups
        rows = replace(rows, groups=None)  # the folds hold them out
        scoring = checked_scoring(self.scoring, rows.classes)
        possible = possible_solvers(self, axes)
        solver = choose_solver(settings, rows, possible)
        original = rows
        if solver == "gram":
            rows = replace(rows, X=_row_fit.row_features(rows).Z)
        with settings.thread_pool(rows.X):
            n_rounds = 1
            if self.selection != "score":
                n_tested = SMALL_KERNEL_DATA if settings.uses_kernel else SMALL_DATA
                n_rounds = min(MAX_ROUNDS, -(-n_tested // len(rows.codes)))
            splits, n_folds = draw_splits(self.cv, rows, groups, n_rounds)
            search = Search(
                shared=shared | {"solver": solver, "calibration": None},
                rows=rows,
                original=original,
                splits=splits,
                n_folds=n_folds,
                scoring=scoring,
                selection=self.selection,
                verbose=self.verbose > 0,
            )
            results, best_index = choose_and_tabulate(search, score_kernels(search, axes))
            best_params = results["params"][best_index]
            start = time.perf_counter()
            best_model = FuzzyTwinSVC(**shared | best_params | {"solver": self.solver})
            best_model.fit(X, label_array(y), rows.weight, membership, groups)
            refit_time = time.perf_counter() - start
        set_fitted_attributes(
            self,
            refit_time_=refit_time,
            best_estimator_=best_model,
            best_params_=best_params,
            cv_results_=results,
            best_index_=best_index,
            best_score_=float(results["mean_test_score"][best_index]),
            n_splits_=n_folds,
            classes_=rows.classes,
            n_features_in_=original.X.shape[1],
            feature_names_in_=rows.names,
        )
        return self

    def _best(self) -> FuzzyTwinSVC:
        """Return the best estimator of a fitted search."""
        check_is_fitted(self)
        best: FuzzyTwinSVC = self.best_estimator_
        return best

    def predict(self, X: Any) -> Array:
        """Predict labels by the best estimator."""
        return self._best().predict(X)

    def decision_function(self, X: Any) -> Array:
        """Compute scores by the best estimator: see `FuzzyTwinSVC.decision_function`."""
        return self._best().decision_function(X)

    def predict_membership(self, X: Any) -> Array:
        """Compute memberships by the best estimator."""
        return self._best().predict_membership(X)

    @available_if(check_calibrated)
    def predict_proba(self, X: Any) -> Array:
        """Compute probabilities by the best estimator: see `FuzzyTwinSVC.predict_proba`."""
        return self._best().predict_proba(X)

    @available_if(check_calibrated)
    def predict_log_proba(self, X: Any) -> Array:
        """Compute the logarithms of `predict_proba`."""
        return self._best().predict_log_proba(X)

    @available_if(check_calibrated)
    def predict_set(
        self, X: Any, coverage: float = 0.9, *, class_conditional: bool = False
    ) -> Array:
        """Compute prediction sets by the best estimator: see `FuzzyTwinSVC.predict_set`."""
        return self._best().predict_set(X, coverage, class_conditional=class_conditional)

    def loo_membership(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, groups: Any = None
    ) -> Array:
        """Compute leave-one-out memberships, with the best parameters.

        See `FuzzyTwinSVC.loo_membership`. The parameters were selected on all rows.
        """
        return self._best().loo_membership(X, y, sample_weight, membership, groups)

    def fuzzy_distance(self, X: Any) -> tuple[Array, Array]:
        """Compute fuzzy distances (Definition 1) to the planes of the best estimator."""
        return self._best().fuzzy_distance(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score the best estimator by `scoring`: accuracy if that is None."""
        best = self._best()
        scorer = get_scorer("accuracy" if self.scoring is None else self.scoring)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(scorer(best, X, y, **weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "cv_results_" in state:
            state = {**state, "cv_results_": pack_results(state["cv_results_"])}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "cv_results_" in state:
            state = {**state, "cv_results_": unpack_results(state["cv_results_"])}
        super().__setstate__(state)


def checked_scoring(scoring: Any, classes: Array) -> str:
    """Return the name of the score. Raise an error if it is unknown, or does not fit the labels."""
    name = "accuracy" if scoring is None else scoring
    if not isinstance(name, str) or name not in SCORES:
        raise ValueError(
            f"scoring={scoring!r} is unknown; valid values are {', '.join(map(repr, SCORES))} and "
            "None. For another score, use GridSearchCV(FuzzyTwinSVC(), ..., scoring=...)."
        )
    if name in ("f1", "precision", "recall") and (len(classes) != 2 or classes[1] != 1):
        raise ValueError(
            f"scoring={scoring!r} needs two classes, of which the second is 1, but the classes are "
            f"{classes[:10].tolist()}; encode the labels as 0 and 1, or use "
            "GridSearchCV(FuzzyTwinSVC(), ..., scoring=sklearn.metrics.make_scorer(...))."
        )
    return name


def draw_splits(cv: Any, rows: Rows, groups: Any, n_rounds: int) -> tuple[Splits, int]:
    """Draw the splits of `cv`, and count those of one round.

    An int is repeated for `n_rounds` rounds, with shuffled folds after the first.
    """
    codes = rows.codes
    all_rows = np.arange(len(codes))
    splitters = [check_cv(cv, codes, classifier=True)]
    if isinstance(splitters[0], StratifiedKFold) and not hasattr(cv, "split"):
        splitters += [
            StratifiedKFold(splitters[0].n_splits, shuffle=True, random_state=seed)
            for seed in range(1, n_rounds)
        ]
    stratified = type(splitters[0]) is StratifiedKFold
    labels = codes if stratified else rows.labels  # codes give the same folds, faster
    splits = [split for splitter in splitters for split in splitter.split(rows.X, labels, groups)]
    if not splits:
        raise ValueError(f"cv={cv!r} gives no split; give at least one.")
    if not stratified:  # masks, lists, negative numbers
        splits = [(all_rows[train], all_rows[test]) for train, test in splits]
    return splits, len(splits) // len(splitters)
