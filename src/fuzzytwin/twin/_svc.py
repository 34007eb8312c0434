"""The estimator `FuzzyTwinSVC`, built on `_streaming` (fitting) and `_prediction`."""

from __future__ import annotations

from typing import Any, Self

from fuzzytwin._utils.types import Array
from fuzzytwin.core.conformal import prediction_sets, warn_of_rare_classes
from fuzzytwin.twin._prediction import CalibratedPlanes, available_if, check_calibrated
from fuzzytwin.twin._streaming import MomentClassifier, check_streamable


class FuzzyTwinSVC(CalibratedPlanes, MomentClassifier):
    r"""Fuzzy least-squares twin support vector machine, for two or more classes.

    Each class has a plane f_k(x) = w_k.x + b_k that is close to its own rows and near -1 on the
    rows of its rivals. Rows with a low membership degree count less. With two classes there is one
    plane for each, with more there are two planes for each pair of classes. With the weight s_i of
    a row (sample_weight times class_weight) and its membership degree mu_i in [0, 1], plane k
    minimises

        J_k = 1/2 sum_own s f_k^2 + C_k/2 sum_rivals s mu (1 + f_k)^2 + alpha/2 |w_k|^2

    (model M1 of the paper). For two classes, mu = 1 and alpha = 0 this is the LST-SVM (equations 6
    and 7). Fuzzy planes (model M2) also have widths c, d >= 0: their value at x is a triangular
    fuzzy number with centre f and width g = c.|x| + d, and J_k has the further terms

        1/2 sum_own s g^2 + C_k/2 sum_rivals s mu (O - g)^2 + tau (1/2 |c|^2 + d).

    A row is assigned to the class of greatest membership, which is the class whose plane is nearest
    (the paper's equation 29). With more than two classes, the distances a_kj to the planes of all
    pairs give

        u_k = v_k / sum_l v_l,    v_k = 1 / (1 + sum_j (a_kj / a_jk)^3)

    (see `fuzzytwin.core.distances`). Scale the columns first (`StandardScaler`), because
    the ridge penalty and the distances depend on the scale.

    Parameters
    ----------
    planes : {"crisp", "fuzzy"}, default="crisp"
        Model M1 or model M2.
    C : float or array-like of shape (K,), default=1.0
        Penalty on the slack of the rival rows of each plane. One number, or one per class in the
        order of ``classes_``. With two classes, C = 1 and no memberships the two planes are
        parallel, so tune C.
    alpha : float or "auto", default="auto"
        L2 regularisation of the coefficients, not of the intercept. Zero gives the paper's model.
        "auto" adapts to the kernel and to the scale of columns and weights: it adds about as much
        as one more row would. With a kernel, that is the mean squared distance of a row's features
        from the mean of its class. For linear planes it is the number of columns times the
        geometric mean of their within-class variances, so that columns of large numbers do not
        dominate (about the number of columns, if these are scaled). Both are multiplied by the mean
        weight of a row (with `groups`, of a group in its class). The value is computed from the
        moments, so that rows can be added, merged and forgotten. Leave-one-out values use the one
        of all rows. A common factor on all weights then changes nothing, except through the
        memberships "hyperplane" and those of neighbours, which count weights as numbers of rows,
        and through `tau` of fuzzy planes.
    membership : None, str, Membership or callable, default=None
        How degrees are computed if they are not passed to `fit`: None (all 1), a name of
        `fuzzytwin.memberships.MEMBERSHIPS` ("center", "hyperplane", "neighbor", "entropy",
        "intuitionistic", each also as "center_balanced" and so on: degrees times n_min / n_k, so
        that large classes count less), an instance such as
        ``CenterMembership(decay="exponential")``, or a callable
        ``(X, y, sample_weight) -> degrees``. Degrees weight only the slack term (the paper). To
        weight both terms, pass them as `sample_weight`, or use
        ``MembershipWeighted(estimator=FuzzyTwinSVC())``.
    rule : {"distance", "residual"}, default="distance"
        Nearest by ``|f| / |w|`` (the paper) or by ``|f|``.
    solver : {"auto", "moments", "gram", "iterative"}, default="auto"
        Algorithm that computes the planes. All give the same planes. "moments" accumulates a d x d
        covariance matrix per class. It suits any number of rows and up to a few thousand columns,
        and rows can be added (`partial_fit`, `merge`, `forget`). "gram" uses the n x n Gram matrix
        and suits fewer rows than columns. "iterative" uses only products with X and suits many rows
        with many sparse columns. It stops at a relative error of the coefficients of 1e-6, and
        raises a `ConvergenceWarning` if that is not reached. "auto" chooses by the numbers of rows
        and columns, prefers "moments", and excludes solvers that would need more than 80% of the
        available memory (see `fuzzytwin.core.solvers`). "gram" and "iterative" are for linear crisp
        planes only.
    tau : float, default=1.0
        Penalty on the widths (fuzzy planes).
    margin_width : float, default=0.5
        Width O of the fuzzy margin (fuzzy planes).
    class_weight : None, "balanced" or dict, default=None
        Factor on the weights of each class. "balanced" gives all classes the same total
        weight. Degrees are computed without it, except for the first planes of "hyperplane".
    n_jobs : int, default=None
        Number of threads that process blocks of rows in `fit`, `predict` and all other methods
        that read rows. None means 1, unless inside a `joblib.parallel_config` context. -1 uses all
        cores. Meanwhile, BLAS is limited to one thread (to `n_jobs` from 512 columns on). Results
        do not depend on it.
    calibration : None or "loo", default=None
        How `predict_proba` gets its probabilities. None: there is no `predict_proba`, only
        `predict_membership`, as a membership is no probability.
        "loo" fits the log odds of each pair of classes to the leave-one-out values of the planes.
        It takes two passes over the rows and the time of a few fits, and needs all rows at once (so
        no `partial_fit`, for which there is `FuzzyTwinCommittee` on chunks). With a calibration,
        `predict` returns the most probable class and `decision_function` is based on probabilities.
        `predict_membership` does not change. Class weights change the planes and count as costs in
        `predict` and `decision_function`, but `predict_proba` undoes them: its probabilities refer
        to the class frequencies of the training rows.
    kernel : str or callable, default="linear"
        "linear", "rbf", "poly", "sigmoid", "laplacian", "cosine", or a callable
        ``(X, Y) -> (n, m)``, as in `sklearn.svm.SVC`. Kernels other than the linear one map rows
        to features of landmarks (see `fuzzytwin.kernels`). Planes, and "center" and "hyperplane"
        memberships, are computed in these features. Widths of fuzzy planes still use the absolute
        values of the columns.
    gamma : {"scale", "auto"}, float or array-like of shape (d,), default="scale"
        Coefficient of "rbf", "poly", "sigmoid" and "laplacian". "scale" is 1 / (d var(X)) of the d
        columns that vary (with `partial_fit`, in the first batch). An array has one coefficient per
        column.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    n_landmarks : int, "all", "centers" or array-like of shape (m, d), default=300
        Number of landmarks, or the landmarks themselves. A number takes all rows if there are no
        more than that, otherwise a sample stratified by class with at least one row of each. If
        there are at least four times as many rows, the sample is refined by k-means. "all" takes
        every training row (in cross-validation, of the fold), so rows can then not be added.
        "centers" takes landmarks that are not training rows, so that model files contain none (see
        `FuzzyTwinCommittee`). `partial_fit` takes the landmarks from the first batch and keeps
        them.
    random_state : int, RandomState instance or None, default=0
        Seed of the sample of landmarks, which depends on the values of the rows and not on the
        order of rows or columns or the names of labels. None is random.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    coef_, intercept_ : ndarray of shape (n_planes, d) and (n_planes,)
        The planes (for fuzzy planes, their centres). With a kernel, one column per landmark
        feature. There are K (K - 1) planes, two for each pair of classes.
    plane_classes_ : ndarray of shape (n_planes, 2)
        Index of the own and of the rival class of each plane.
    width_coef_, width_intercept_ : ndarray of shape (n_planes, d) and (n_planes,)
        The widths. Only for fuzzy planes.
    membership_ : ndarray of shape (n,)
        Degrees of the rows of the last `fit` or `partial_fit`, of shape (n, K) for soft labels.
    moments_ : TwinMoments
        Everything that the model keeps of the training rows. Only with the solver "moments".
    row_parameters_, calibration_parameters_ : dict
        Parameters on which the moments and the calibration depend, as they were when the model was
        fitted.
    forget_loss_ : ndarray of shape (K,)
        Factor by which `forget` has amplified rounding errors in each class. Only after `forget`.
    solver_ : str
        The solver that was used.
    alpha_ : float
        The L2 penalty that ``alpha="auto"`` resolved to. Only for "auto".
    calibration_coef_, calibration_intercept_ : ndarray of shape (n_pairs, 3) and (n_pairs,)
        Log odds of each pair of classes. Only with `calibration`.
    class_weight_ : ndarray of shape (K,)
        Factor of each class. Only with `calibration` and `class_weight`.
    conformity_scores_ : ndarray of shape (m, 3) or (m, 4)
        Score, class, weight and, with `groups`, group code of the training rows, for
        `predict_set`. Only with `calibration`.
    landmark_map_ : LandmarkMap
        Landmarks and the map to their features, to which ``coef_`` refers. Not for the linear
        kernel.
    rank_ : int
        Smallest numerical rank of the linear systems for w. It is the number of columns of
        ``coef_``, unless columns are collinear and alpha is 0.
    n_features_in_, feature_names_in_
        Number and names of the columns, as in scikit-learn.

    Notes
    -----
    The defaults were chosen on many tables. Values tuned by `FuzzyTwinSVCCV` are better than any
    default. For one classifier per class against all others, use
    ``OneVsRestClassifier(FuzzyTwinSVC())``. It does worse on a class that lies between others, such
    as the middle one of three on a line: it has rivals on both sides, which no plane can keep at
    -1.

    Columns may differ in scale by sixteen orders of magnitude and lie far from zero. Invalid input
    raises a ValueError or TypeError that names the parameter, the value and the remedy, and leaves
    a fitted model unchanged.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), FuzzyTwinSVC(membership="center"))
    >>> model.fit(X[::2], y[::2]).predict(X[1::40])
    array([0, 0, 1, 1, 2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.96
    """

    conformity_scores_: Array

    def __init__(
        self,
        *,
        planes: str = "crisp",
        C: Any = 1.0,
        alpha: float | str = "auto",
        membership: Any = None,
        rule: str = "distance",
        solver: str = "auto",
        tau: float = 1.0,
        margin_width: float = 0.5,
        class_weight: Any = None,
        n_jobs: int | None = None,
        calibration: str | None = None,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        n_landmarks: Any = 300,
        random_state: Any = 0,
    ) -> None:
        self.planes = planes
        self.C = C
        self.alpha = alpha
        self.membership = membership
        self.rule = rule
        self.solver = solver
        self.tau = tau
        self.margin_width = margin_width
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.calibration = calibration
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, groups: Any = None
    ) -> Self:
        """Fit the planes to all rows at once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels of any type, with at least two classes. They are matched to the rows of X by
            position, not by an index.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row, at least 0. A weight of zero is the same as omitting the row.
            Leave-one-out holds a row out with its full weight, so that a weight of w is the same as
            w copies in one of the `groups`.
        membership : array-like of shape (n,) or (n, K), default=None
            Degrees in [0, 1], instead of those that the parameter would compute. Or soft labels
            that replace the labels, one column per class in the order of the sorted labels.
        groups : array-like of shape (n,), default=None
            Group label of each row, for rows that belong together (visits of a patient,
            duplicates). With ``calibration="loo"`` the whole group is held out when its rows are
            scored, and ``alpha="auto"`` counts groups instead of rows. Nothing else depends on it.

        Returns
        -------
        self

        Warns
        -----
        UserWarning
            If the calibration uses leave-one-out, many rows are equal, and `groups` is None.
        """
        return self._fit(X, y, sample_weight, membership, groups=groups)

    @available_if(check_streamable)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, membership: Any = None
    ) -> Self:
        """Add rows. The result is exact: the planes are those of one `fit` on all rows so far.

        With a kernel, landmarks and ``gamma="scale"`` are taken from the first batch, which should
        therefore hold a few hundred rows of all classes. If both are set by the user, the result is
        exact as well.

        Parameters
        ----------
        X, y, sample_weight, membership
            As for `fit`. A batch need not hold all classes.
        classes : array-like of shape (K,), default=None
            All labels that will occur. Required in the first call only.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, classes, sample_weight, membership)

    @available_if(check_streamable)
    def forget(self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None) -> Self:
        """Remove rows. The planes are those of one `fit` on the rows that remain.

        The rows are subtracted from the moments, which loses digits by cancellation. Each class
        may lose a factor of 10^4 (`fuzzytwin.core.moments.MAX_LOSS`), accumulated over calls in
        ``forget_loss_``, so that about eleven digits of its moments remain. Beyond that, or if the
        moments show that the rows were not among the training rows (a weight or a variance would
        be negative), a ValueError is raised and the model stays unchanged. Rows that were not
        among the training rows but lie between them cannot be detected.

        Parameters
        ----------
        X, y, sample_weight, membership
            The rows, exactly as they were passed to `fit` or `partial_fit`.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from fuzzytwin import FuzzyTwinSVC
        >>> X, y = load_iris(return_X_y=True)
        >>> model = FuzzyTwinSVC().fit(X, y).forget(X[::3], y[::3])
        >>> model.coef_[0].round(4)
        array([ 0.0257,  0.1504, -0.2419, -0.1924])
        >>> remaining = np.arange(len(X)) % 3 > 0
        >>> FuzzyTwinSVC().fit(X[remaining], y[remaining]).coef_[0].round(4)
        array([ 0.0257,  0.1504, -0.2419, -0.1924])
        """
        return self._forget(X, y, sample_weight, membership)

    @available_if(check_calibrated)
    def predict_set(
        self, X: Any, coverage: float = 0.9, *, class_conditional: bool = False
    ) -> Array:
        r"""Predict a conformal prediction set of labels for each row. Only with `calibration`.

        The nonconformity score of a row with a label is one minus the probability of the label
        (`predict_proba`). A label is in the set unless its score exceeds those of all but a share
        1 - coverage of the training rows. The scores of training rows are leave-one-out scores: the
        planes are fitted without the row (with its full weight), or without its group, so that
        training rows and new rows are comparable.

        Coverage: for new rows that are exchangeable with the training rows (with groups, rows of
        new groups), the true label is in the set with the probability `coverage` on average over
        all rows, up to the effect of one row on the planes, which vanishes as the number of rows
        grows. If landmarks were refined by k-means, it is somewhat higher. A rare class may be
        covered far less often, and common ones more. With ``class_conditional=True`` the coverage
        holds within every class. With weights, it holds for a population in which rows occur in
        proportion to their weights. There is no worst-case guarantee for few rows (the conformal
        jackknife has none), nor if parameters were chosen, or degrees computed, on the same rows.

        The set is empty if every label has a score above those of all but a share 1 - coverage of
        the training rows. A greater coverage gives larger sets. A set that is not empty may lack
        the label that `predict` returns if each class is compared with its own rows
        (``class_conditional=True``), or if class weights change the predicted label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.
        coverage : float, default=0.9
            Probability that the set holds the true label, between 0 and 1.
        class_conditional : bool, default=False
            Compare only with training rows of the same class. Then the coverage holds for every
            class, also for rare ones, at the price of larger sets.

        Returns
        -------
        ndarray of bool of shape (n, K)
            Which labels, in the order of ``classes_``, are in the set.

        Warns
        -----
        UserWarning
            If ``class_conditional=False``, a class is rarer than 1 - coverage, and the
            leave-one-out coverage of its rows is less than half of `coverage`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from fuzzytwin import FuzzyTwinSVC
        >>> X, y = load_iris(return_X_y=True)
        >>> model = FuzzyTwinSVC(calibration="loo").fit(X[::2], y[::2])
        >>> sets = model.predict_set(X[1::2], coverage=0.9)
        >>> sets[[0, 30]]
        array([[ True, False, False],
               [False,  True, False]])
        >>> round(float(sets[range(75), y[1::2]].mean()), 2)  # share of sets that hold the label
        0.93
        """
        P = self.predict_proba(X)
        scores = self.conformity_scores_
        sets = prediction_sets(scores, P, coverage, class_conditional=class_conditional)
        if not class_conditional:
            warn_of_rare_classes(scores, self.classes_, coverage)
        return sets

    def loo_membership(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, groups: Any = None
    ) -> Array:
        """Compute the leave-one-out memberships of the training rows.

        They are what `predict_membership` of a model fitted on all other rows returns, in closed
        form and at the cost of a few fits for all rows together. With leverage h, an in-sample
        residual e becomes e / (1 - h) if the row is held out (see `fuzzytwin.twin._loo_systems`).

        They are exact without memberships, and with degrees or soft labels that were passed to
        `fit`. What was computed from all rows stays fixed: degrees (``membership_``), the factors
        of ``class_weight="balanced"``, landmarks and gamma, the penalty of ``alpha="auto"``, the
        widths of fuzzy planes and, if columns are collinear and alpha is 0, the scales of the
        columns.

        Parameters
        ----------
        X, y, sample_weight : array-like
            All training rows. If degrees are passed or not used, they may be in any order.
        membership : array-like of shape (n,) or (n, K), default=None
            Degrees or soft labels of the fit. None takes ``membership_`` if it has the same length.
        groups : array-like of shape (n,), default=None
            Group label of each row. The whole group of a row is held out.

        Returns
        -------
        ndarray of shape (n, K)
            Memberships, which sum to 1 in each row. The only row of a class has membership 0 in
            that class.

        Raises
        ------
        ValueError
            If the rows are not the training rows (their weights or means differ), parameters have
            changed since the fit, or planes were computed without moments and ``alpha`` is 0 or
            there are too many rows for their Gram matrix.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from fuzzytwin import FuzzyTwinSVC
        >>> X, y = load_iris(return_X_y=True)
        >>> u = FuzzyTwinSVC().fit(X, y).loo_membership(X, y)
        >>> u.shape, u.argmin(axis=1)[:3].tolist(), round(float((u.argmax(axis=1) == y).mean()), 2)
        ((150, 3), [1, 2, 2], 0.98)
        """
        return self._held_out(X, y, sample_weight, membership, groups=groups).memberships()
