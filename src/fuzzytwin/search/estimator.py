"""FuzzyTwinSVCCV: a whole grid, cross-validated at about the cost of one fit per fold."""

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils.validation import check_is_fitted

from fuzzytwin import row_fitting
from fuzzytwin._utils.progress import Progress
from fuzzytwin._utils.public import public_in
from fuzzytwin._utils.threads import each
from fuzzytwin._utils.types import Array
from fuzzytwin.core.moments import TwinMoments
from fuzzytwin.core.solvers import SOLVERS
from fuzzytwin.estimators.fuzzy_twin import FuzzyTwinSVC
from fuzzytwin.kernels import default_gammas
from fuzzytwin.rows import Rows, refuse_non_finite, validate_rows
from fuzzytwin.search.choice import Choice, choose, plan_of, split_scores
from fuzzytwin.search.held_out import check_loo, loo_groups, score_loo
from fuzzytwin.search.plan import (
    Axes,
    Plan,
    check_axes,
    list_gammas,
    list_kernels,
    list_relevances,
    make_plan,
)
from fuzzytwin.search.results import collect_results, pack_results, unpack_results
from fuzzytwin.search.splits import score_split
from fuzzytwin.search.stages import score_in_stages
from fuzzytwin.settings import FitSettings, check_choice, check_membership, check_number

SMALL_DATA = 2000  # fewer rows than this get the finer grid
ROUNDS = 4  # rounds of folds at most; those after the first are shuffled
SMALL_CURVED_DATA = 500  # so many rows are tested in all rounds of curved planes, or SMALL_DATA

# With so many rows, threads share the rows of one split after another.
MANY_ROWS = 1 << 16


@public_in("fuzzytwin")
class FuzzyTwinSVCCV(ClassifierMixin, BaseEstimator):
    r"""`FuzzyTwinSVC` with its parameters chosen by cross-validation.

    Scores every point of a grid over C of each plane, ridge, membership, rule and planes, as
    ``GridSearchCV(FuzzyTwinSVC(), ...)`` would: same folds, same scores. But rows are read once
    for each fold and membership; the rest is algebra on moments, so that on large tables
    thousands of points cost some ten fits (``python -m benchmarks search``).

    Curved planes are searched in stages, unless `Cs` are given or None is not among the
    `memberships`: gamma and ridge first, with C = 1 and no membership; then the same with
    learned relevances of the columns; then C, memberships and rules at the best of these. That
    takes about the time of a `GridSearchCV` over 25 points of an `SVC`
    (``python -m benchmarks kernel --only search``). ``cv_results_`` lists the points that were
    scored.

    How the winner is picked matters more than the grid: on small data the best of thousands of
    scores is mostly luck. ``selection="band"`` takes all points whose mean score lies within a
    standard error of the best, and among them the least Brier score

        B = mean over test samples of sum_k (u_k - [y = k])^2

    of the memberships u (eq29), which separates good planes from lucky ones better than
    accuracy does. Points whose Brier score is no more than half a standard error of the
    difference above the least count as equal; of these, one whose planes share one C is taken
    before others, then the least Brier score. Exact ties go to more ridge, C nearer to 1, no
    membership. With few rows and an int as `cv`, further rounds of shuffled folds make the
    choice more stable: up to three, so that some 2,000 rows are tested (500, where planes may
    be curved).

    Parameters
    ----------
    Cs : array-like of float, default=None
        Values of C. With two classes every pair of values is a point (the planes' C are
        independent); with more, one common C for all planes. None: nine powers of two from
        2^-8 to 2^8, or five from 2^-4 to 2^4 from 2,000 rows on; four from 2^-4 to 2^2 for more
        than two classes; for curved planes 1, then 1/4, 1 and 4 (1/4 and 1) at the best gamma.
    alphas : array-like of float, default=None
        Values of the ridge. None: seven powers of ten, from 1e-5 to 10, times the mean scatter
        of a column; five, from 1e-4 to 1, from 2,000 rows on; six, from 1e-3 to 100, for
        curved planes.
    memberships : sequence, default=(None, "center", "hyperplane", "neighbor")
        Names, instances, callables or None, as for `FuzzyTwinSVC`. "neighbor" looks for
        neighbours in every fold: leave it out where that takes too long (some 10^5 rows).
    rules : sequence of {"distance", "residual"}, default=("distance", "residual")
        Values of `rule` to try.
    planes : {"crisp", "fuzzy"} or a sequence of both, default="crisp"
        Values of `planes` to try.
    multi_class : {"ovo", "ovr"}, default="ovo"
        As for `FuzzyTwinSVC`.
    solver : {"auto", "moments", "rows", "iterative"}, default="auto"
        As for `FuzzyTwinSVC`. With "rows", all points and folds are solved in the space of all
        rows; with "iterative", each point begins with the planes of a larger alpha.
    tol : float, default=1e-6
        As for `FuzzyTwinSVC`.
    kernels : str, callable or a sequence of them, default="linear"
        Kernels, as for `FuzzyTwinSVC`; "auto" is linear or RBF, as the rows say. Landmarks are
        taken from each fold's training rows.
    gammas : array-like of float, default=None
        Values of gamma for the kernels that have one. None: powers of four around the median
        heuristic, 1 / (median squared distance between rows): the three nearest, and farther
        ones while the best lies at an end; five where `Cs` are given.
    relevances : None, "learned" or a sequence of both, default=None
        Values of `relevance` to try with the kernel "rbf". None: equal columns and learned ones
        where curved planes are searched in stages, else equal ones.
    cv : int, splitter or iterable, default=5
        As everywhere in scikit-learn; an int means stratified folds. The folds are drawn once.
        ``cv_results_`` reports these folds; the further rounds of "band" only help to choose.
        "loo": every row is scored by planes learned without it, in closed form, with accuracy
        or balanced accuracy and crisp planes; ``cv_results_`` then has ten groups of rows in
        the place of folds. Memberships, landmarks, gamma and relevances are computed from all rows,
        the row itself among them, so that scores of memberships and of learned relevances are a
        little too good.
    scoring : str, callable or None, default=None
        Score to compare points by; None is accuracy. Of the names, "accuracy",
        "balanced_accuracy" and, for two classes, "roc_auc", "f1", "precision" and "recall" are
        computed for all points at once; anything else is scored point by point, at the cost of
        one prediction each.
    selection : {"band", "score"}, default="band"
        How the winner is picked: as above, or simply the best mean score.
    n_jobs : int, default=None
        Threads, as for `FuzzyTwinSVC`: they share the rows of each fold or, where these are few,
        the folds. The best estimator predicts with as many.
    verbose : int, default=0
        Above 0 a progress bar is drawn on standard error.
    calibration : None, "loo" or "moments", default=None
        As for `FuzzyTwinSVC`, for the best estimator alone. Points are compared by labels of
        greatest membership (and, for a `scoring` of probabilities, by memberships): with a
        `scoring` that does not ask for the most probable label, such as "balanced_accuracy",
        leave it out.
    membership_scope, tau, margin_width, class_weight, degree, coef0, n_landmarks, random_state
        As for `FuzzyTwinSVC`; the same at every point. A `random_state` makes the
        sample of landmarks reproducible.

    Attributes
    ----------
    best_params_ : dict
        Parameters of the winner; `FuzzyTwinSVC` takes them.
    best_score_, best_index_
        Its mean score and its place in ``cv_results_``.
    best_estimator_ : FuzzyTwinSVC
        Fitted on all rows with these parameters; it predicts.
    cv_results_ : dict of arrays
        As `GridSearchCV` gives it, ready for a data frame. Also ``mean_test_brier``: NaN
        at points outside of the band.
    classes_, n_features_in_, feature_names_in_, n_splits_
        As everywhere in scikit-learn.

    Notes
    -----
    Memberships are computed from each fold's training rows alone. `sample_weight` weighs
    training and test samples alike, as in `GridSearchCV` (from scikit-learn 1.7 on), so that
    an integer weight is the same as repeating a row; a scorer must then accept it.

    With a rare class set ``scoring="balanced_accuracy", selection="score"``: accuracy as the
    score picks planes that miss it, and `class_weight` alone does not help, since the C of each
    plane is tuned too. Balanced accuracy on four tables to choose on and five to confirm: 0.911
    and 0.749, against 0.676 and 0.623 by default, and 0.915 and 0.748 of balanced logistic
    regression; average precision falls on the five from 0.438 to 0.388. To rank rows, keep the
    default or use ``scoring="roc_auc"`` (``python -m benchmarks imbalance``).

    A split whose training rows lack a class is fitted point by point; where that fails, its
    scores are NaN, with a `FitFailedWarning`, and a split that fails at every point is not
    used for the choice. A grid that is empty or holds bad values gets a ValueError that names it.

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
        multi_class: str = "ovo",
        solver: str = "auto",
        tol: float = 1e-6,
        kernels: Any = "linear",
        gammas: Any = None,
        relevances: Any = None,
        cv: Any = 5,
        scoring: Any = None,
        selection: str = "band",
        n_jobs: int | None = None,
        verbose: int = 0,
        membership_scope: str = "slack",
        tau: float = 1.0,
        margin_width: float = 0.5,
        class_weight: Any = None,
        calibration: str | None = None,
        degree: float = 3,
        coef0: float = 0.0,
        n_landmarks: Any = 300,
        random_state: Any = None,
    ) -> None:
        self.Cs = Cs
        self.alphas = alphas
        self.memberships = memberships
        self.rules = rules
        self.planes = planes
        self.multi_class = multi_class
        self.solver = solver
        self.tol = tol
        self.kernels = kernels
        self.gammas = gammas
        self.relevances = relevances
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.membership_scope = membership_scope
        self.tau = tau
        self.margin_width = margin_width
        self.class_weight = class_weight
        self.calibration = calibration
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

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
            Passed to splitters that use groups.

        Returns
        -------
        self
        """
        axes = check_axes(self, given=membership is not None)
        FuzzyTwinSVC(calibration=self.calibration).fit_settings()  # before the search
        # Parameters are checked for each grid, in make_plan.
        rows = validate_rows(self, FitSettings(), X, y, sample_weight, membership)
        n_columns = rows.X.shape[1]
        solver = self._solver(axes, rows)
        if solver == "rows":
            rows = row_fitting.in_row_space(rows)
        scoring = "accuracy" if self.scoring is None else self.scoring
        if self._by_loo:
            check_loo(scoring, axes.kinds, solver)
        curved = list_kernels(self) != ["linear"]
        kernel = "rbf" if curved else "linear"
        settings = FitSettings(kernel=kernel, n_landmarks=self.n_landmarks, n_jobs=self.n_jobs)
        with settings.working(rows.X):
            tested = SMALL_CURVED_DATA if curved else SMALL_DATA
            rounds = self._rounds(rows, groups, min(ROUNDS, -(-tested // len(rows))))
            splits = [split for one_round in rounds for split in one_round]
            scorer = check_scoring(FuzzyTwinSVC(), scoring=scoring)
            plans = self._search(axes, rows, rounds, scoring, scorer, solver)
            results, best_index = self._choose(plans, rows, splits, len(rounds[0]))
            best_plan, _ = plan_of(plans, best_index)
            best_params = results["params"][best_index]
            start = time.perf_counter()
            template = best_plan.task.template.get_params(deep=False)
            best_model = FuzzyTwinSVC(
                **template | best_params | {"calibration": self.calibration, "solver": self.solver}
            )
            if (
                best_model.calibration != "loo"
                and best_model.membership is None
                and rows.mu is None
                and best_plan.all_moments is not None
                and best_plan.train_moments
                and solver == "moments"
                and best_model.planes == "crisp"
            ):
                # The moments of all rows are known: no need to read the rows again.
                all_moments = TwinMoments(best_plan.all_moments, best_plan.all_moments)
                ones = np.ones(len(rows))
                best_model.fit_moments(
                    all_moments, rows.classes, feature_names=rows.names, degrees=ones, rows=rows
                )
            else:
                best_model.fit(X, y, sample_weight, membership)
            refit_time = time.perf_counter() - start
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.refit_time_ = refit_time
        self.best_estimator_, self.best_params_ = best_model, best_params
        self.cv_results_, self.best_index_ = results, best_index
        self.best_score_ = float(results["mean_test_score"][best_index])
        self.n_splits_, self.classes_ = len(rounds[0]), rows.classes
        self.n_features_in_ = n_columns
        if rows.names is not None:
            self.feature_names_in_ = rows.names
        return self

    def predict(self, X: Any) -> Array:
        """Predict labels by the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def decision_function(self, X: Any) -> Array:
        """Compute scores by the best estimator; see `FuzzyTwinSVC.decision_function`."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def predict_membership(self, X: Any) -> Array:
        """Compute memberships (eq29) by the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict_membership(X)

    def predict_proba(self, X: Any) -> Array:
        """Compute probabilities by the best estimator; see `FuzzyTwinSVC.predict_proba`."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    def predict_log_proba(self, X: Any) -> Array:
        """Compute the logarithms of `predict_proba`."""
        check_is_fitted(self)
        return self.best_estimator_.predict_log_proba(X)

    def predict_set(
        self, X: Any, coverage: float = 0.9, *, class_conditional: bool = False
    ) -> Array:
        """Predict sets of labels by the best estimator; see `FuzzyTwinSVC.predict_set`."""
        check_is_fitted(self)
        return self.best_estimator_.predict_set(X, coverage, class_conditional=class_conditional)

    def loo_membership(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None
    ) -> Array:
        """Compute memberships by planes learned without the row, with the best parameters.

        See `FuzzyTwinSVC.loo_membership`. The parameters were chosen on all rows.
        """
        check_is_fitted(self)
        return self.best_estimator_.loo_membership(X, y, sample_weight, membership)

    def fuzzy_distance(self, X: Any) -> tuple[Array, Array]:
        """Compute fuzzy distances (Definition 1) to the planes of the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.fuzzy_distance(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score the best estimator by `scoring`: accuracy if that is None."""
        check_is_fitted(self)
        scorer = check_scoring(self.best_estimator_, scoring=self.scoring)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(scorer(self.best_estimator_, X, y, **weights))

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

    @property
    def _by_loo(self) -> bool:
        return isinstance(self.cv, str) and self.cv == "loo"

    def _solver(self, axes: Axes, rows: Rows) -> str:
        """Choose the solver for all points."""
        settings = FitSettings(
            planes="fuzzy" if "fuzzy" in axes.kinds else "crisp",
            solver=self.solver, tol=self.tol, multi_class=self.multi_class,
            membership=next((check_membership(m) for m in axes.memberships if m is not None), None),
        )  # fmt: skip
        curved = [kernel for kernel in list_kernels(self) if kernel != "linear"]
        settings = replace(settings, kernel=curved[0]) if curved else settings
        check_choice("solver", self.solver, ("auto", *SOLVERS))
        check_number("tol", self.tol, above=0.0)
        check_choice("multi_class", self.multi_class, ("ovo", "ovr"))
        return row_fitting.choose_solver(settings, rows)

    def _search(
        self,
        axes: Axes,
        rows: Rows,
        rounds: list[Any],
        scoring: Any,
        scorer: Any,
        solver: str,
    ) -> list[Plan]:
        """Score the grids of all kernels: whole ones, or in stages where planes are curved."""
        splits = [split for one_round in rounds for split in one_round]

        def score(axes: Axes, kernels: list[dict[str, Any]]) -> list[Plan]:
            plans = [
                self._plan(kernel, axes, rows, rounds, scoring, scorer, solver)
                for kernel in kernels
            ]
            self._score(plans, splits)
            return plans

        def choose_among(plans: list[Plan]) -> Choice | None:
            return choose(plans, rows, splits, len(rounds[0]), self.selection)

        def median_gamma() -> float:
            return float(np.median(default_gammas(rows.X, rows.s)))

        kernels = list_kernels(self)
        in_stages = axes.Cs is None and None in axes.memberships
        relevances = list_relevances(self, in_stages=in_stages)
        if kernels == ["linear"]:
            return score(axes, [{}])
        refuse_non_finite(rows.X, rows.names)
        listed = "rbf" in kernels and relevances != [None]  # else no point names it
        whole, plans = [], []
        for kernel in kernels:
            gammas = list_gammas(self, kernel)
            some = relevances if kernel == "rbf" else [None]
            named = [{"relevance": value} if listed else {} for value in some]
            if kernel == "linear" or not in_stages:
                gammas = default_gammas(rows.X, rows.s).tolist() if gammas is None else gammas
                whole += [
                    {"kernel": kernel, "gamma": gamma, **one} for gamma in gammas for one in named
                ]
            else:
                plans += score_in_stages(
                    kernel, gammas, named, median_gamma, axes, len(rows.classes), score,
                    choose_among,
                )  # fmt: skip
        return (score(axes, whole) if whole else []) + plans

    def _plan(
        self, kernel: dict[str, Any], axes: Axes, rows: Rows, rounds: list[Any], scoring: Any,
        scorer: Any, solver: str,
    ) -> Plan:  # fmt: skip
        """Make the grid of one kernel and gamma."""
        fine = len(rows) < SMALL_DATA and kernel.get("kernel", "linear") == "linear"
        template = FuzzyTwinSVC(
            planes="fuzzy" if "fuzzy" in axes.kinds else "crisp", tau=self.tau,
            multi_class=self.multi_class, solver=solver, tol=self.tol,
            membership_scope=self.membership_scope, margin_width=self.margin_width,
            class_weight=self.class_weight, n_jobs=self.n_jobs,
            degree=self.degree, coef0=self.coef0, n_landmarks=self.n_landmarks,
            random_state=copy.deepcopy(self.random_state),
            **kernel,
        )  # fmt: skip
        return make_plan(kernel, template, axes, fine, rows, rounds, scoring, scorer)

    def _score(self, plans: list[Plan], splits: list[Any]) -> None:
        """Score every grid on every split."""
        if self._by_loo:
            for plan in plans:
                plan.split_scores = score_loo(plan.task, splits)
            return
        jobs = [
            (plan.task, *split, plan.train_moments[i] if plan.train_moments else None)
            for plan in plans
            for i, split in enumerate(splits)
        ]
        # Threads share the rows of one split after another or, where these are few, the splits.
        many = len(plans[0].task.rows) >= MANY_ROWS
        done = []
        with Progress("search", len(jobs), "folds", wanted=self.verbose > 0) as bar:
            for scores in (map if many else each)(lambda job: score_split(*job), jobs):
                done.append(scores)
                bar.advance()
        for k, plan in enumerate(plans):
            plan.split_scores = done[k * len(splits) : (k + 1) * len(splits)]

    def _rounds(self, rows: Rows, groups: Any, n_rounds: int) -> list[list[tuple[Array, Array]]]:
        """Draw the splits of `cv`; for small data and a number of folds, further rounds too."""
        X, y, codes = rows.X, rows.y, rows.codes
        if self._by_loo:
            return [loo_groups(codes)]
        splitters = [check_cv(self.cv, codes, classifier=True)]
        folds = isinstance(splitters[0], StratifiedKFold) and not hasattr(self.cv, "split")
        if folds and self.selection == "band":
            splitters += [
                StratifiedKFold(splitters[0].n_splits, shuffle=True, random_state=seed)
                for seed in range(1, n_rounds)
            ]
        stratified = type(splitters[0]) is StratifiedKFold
        # The indices of the labels give the same folds, faster.
        labels = codes if stratified else y
        all_rows = np.arange(len(y))

        def index(part: Any) -> Array:
            return part if stratified else all_rows[part]  # masks, lists, negative numbers

        rounds = [
            [(index(train), index(test)) for train, test in splitter.split(X, labels, groups)]
            for splitter in splitters
        ]
        if not rounds[0]:
            raise ValueError(f"cv={self.cv!r} gives no split; give at least one.")
        return rounds

    def _choose(
        self, plans: list[Plan], rows: Rows, splits: list[Any], n_folds: int
    ) -> tuple[dict[str, Any], int]:
        """Pick the best point: ``cv_results_`` and its place there."""
        found = choose(plans, rows, splits, n_folds, self.selection)
        done = [split for plan in plans for split in plan.split_scores]
        failures = [text for split in done for text in split.failures]
        if found is None:
            if failures:
                raise ValueError(f"every fit of the search failed; the first one: {failures[0]}")
            hint = ""
            if isinstance(self.scoring, str) and len(rows.classes) == 2 and rows.classes[1] != 1:
                label = rows.classes[1:].tolist()[0]
                hint = f" (with the positive label, such as pos_label={label!r})"
            raise ValueError(
                f"scoring={self.scoring!r} failed or gave NaN at every point of the grid; see the "
                f"warning, and give a scorer{hint} that fits the labels, the splits and the "
                "weights: sklearn.metrics.make_scorer."
            )
        if failures:
            warnings.warn(
                f"{len(failures)} fits failed; their scores are NaN. The first one: {failures[0]}",
                FitFailedWarning,
                stacklevel=3,
            )
        # Further rounds only help to choose.
        results = collect_results(plans, split_scores(plans)[:n_folds])
        results["mean_test_brier"] = found.mean_brier
        return results, found.index
