"""FuzzyTwinSVC: what users meet; `streaming` and `prediction` do the work."""

from __future__ import annotations

from typing import Any, Self

from fuzzytwin._utils.types import Array
from fuzzytwin.core.conformal import prediction_sets, warn_of_rare_classes
from fuzzytwin.twin._prediction import NearestPlane
from fuzzytwin.twin._streaming import MomentClassifier, available_if_streamable


class FuzzyTwinSVC(NearestPlane, MomentClassifier):
    r"""Fuzzy least-squares twin support vector machine, for two or more classes.

    Each class gets a plane f_k(x) = w_k.x + b_k close to its own samples and at -1 on its rivals;
    doubtful samples count less. Two classes have one plane each; more have two planes for each
    pair of classes. With the importance s_i of a sample (sample_weight times class_weight) and its
    membership degree mu_i in [0, 1], plane k minimises

        J_k = 1/2 sum_own s f_k^2 + C_k/2 sum_rivals s mu (1 + f_k)^2 + alpha/2 |w_k|^2

    (model M1 of the paper; eq6 and eq7, the LST-SVM, for two classes, mu = 1, alpha = 0).
    Fuzzy planes (model M2) also have widths c, d >= 0: their value at x is a triangular
    fuzzy number with centre f and width g = c.|x| + d, and J_k has the further terms

        1/2 sum_own s g^2 + C_k/2 sum_rivals s mu (O - g)^2 + tau (1/2 |c|^2 + d).

    A sample belongs to the class of greatest membership: the class whose plane is nearest (the
    paper's equation 29). With more than two classes, the distances a_kj to the planes of all
    pairs give

        u_k = v_k / sum_l v_l,    v_k = 1 / (1 + sum_j (a_kj / a_jk)^3)

    (see `fuzzytwin.core.distances`). Scale the columns first (`StandardScaler`): ridge and
    distances depend on it.

    Parameters
    ----------
    planes : {"crisp", "fuzzy"}, default="crisp"
        Model M1 or model M2.
    C : float or array-like of shape (K,), default=1.0
        How strongly each plane is pushed away from rival samples; larger pushes harder. One
        number, or one per class in the order of ``classes_``. With two classes, C = 1 and no
        memberships the two planes are parallel: tune C.
    alpha : float or "auto", default="auto"
        L2 regularisation of the coefficients, not of the intercept. Zero gives the paper's model.
        "auto" suits any kernel, columns of any size and weights of any scale: as much as one more
        row would add. With a kernel, that is the mean squared distance of a row's features from the
        mean of its class. For linear planes it is the number of columns times the geometric mean of
        their variances within the classes, so that no column of large numbers decides for all:
        about the number of columns, if these are scaled. Both are multiplied by the mean weight of
        a row (with `groups`, of a group in its class). It follows from the moments, so that rows
        can be added, merged and forgotten; held-out values take it as that of all rows.
    membership : None, str, Membership or callable, default=None
        How degrees are computed where `fit` is not given them: None (all 1), a name of
        `fuzzytwin.memberships.MEMBERSHIPS` ("center", "hyperplane", "neighbor", "entropy",
        "intuitionistic", each also as "center_balanced" and so on: degrees times n_min / n_k, so
        that large classes count less), an instance such as
        ``CenterMembership(decay="exponential")``, or a callable
        ``(X, y, sample_weight) -> degrees``.
    membership_scope : {"slack", "both"}, default="slack"
        Whether degrees weigh the slack alone (the paper) or the own-class term too.
    rule : {"distance", "residual"}, default="distance"
        Nearest by ``|f| / |w|`` (the paper) or by ``|f|``.
    multi_class : {"ovo", "ovr"}, default="ovo"
        With more than two classes, two planes for each pair of them ("ovo": plane (k, j) has
        the rows of class k as its own and those of class j alone as rivals), or one plane per
        class against all others ("ovr"). Both follow from one pass over the rows.
    solver : {"auto", "moments", "gram", "iterative"}, default="auto"
        How planes are found; all give the same ones. "moments" sums up a d x d covariance for
        each class: any number of rows, up to some thousand columns, and rows can be added
        (`partial_fit`, `merge`, `forget`). "gram" takes the n x n scalar products of the rows:
        fewer rows than columns. "iterative" takes products with X alone: many rows and many
        sparse columns. "auto" chooses by cost, prefers moments, and takes no solver that would
        need more than 80 % of the available memory (see `fuzzytwin.core.solvers`). All but
        "moments" are for linear crisp planes.
    tol : float, default=1e-6
        Relative error of the coefficients at which "iterative" stops; a `ConvergenceWarning`
        says if it was not reached.
    tau : float, default=1.0
        Penalty on the widths (fuzzy planes).
    margin_width : float, default=0.5
        Width O of the fuzzy margin (fuzzy planes).
    formulation : {"endpoints", "stationary", "printed"}, default="endpoints"
        Fuzzy planes as above, or, for two classes and for study only, by the paper's
        gradients or its printed closed form; both give poor planes.
    class_weight : None, "balanced" or dict, default=None
        Factor on the weights of each class; "balanced" gives all classes the same total
        weight. Degrees are computed without it, except for the first planes of "hyperplane".
    n_jobs : int, default=None
        Threads for `fit`, `predict` and all that read rows: blocks of rows are handed to them.
        None is 1, or what `joblib.parallel_config` gives; -1 is all cores. Inside, BLAS runs on
        one thread (from 512 columns on: on `n_jobs`), whatever its default, which is restored.
        Results do not depend on it.
    calibration : None, "loo" or "moments", default=None
        What `predict_proba` gives: memberships (None, the paper), or probabilities. "loo": log
        odds of each pair of classes, fitted to the values that planes learned without a row
        have at it (two passes over the rows, as long as a few fits; needs all rows, so not with
        `partial_fit`). `predict_set` needs it. "moments": the mean of the log odds of memberships
        and of Gaussian plane values, from the moments alone, so that rows can be added, merged
        and forgotten. See `fuzzytwin.twin._calibration`. `predict` is then the most probable class
        and `decision_function` goes by probabilities; `predict_membership` does not change.
        Probabilities are those of the population as given: class weights change the planes, and
        count as costs in `predict` and `decision_function`, but are undone in `predict_proba`.
    kernel : str or callable, default="linear"
        "linear", "rbf", "poly", "sigmoid", "laplacian", "cosine", or a callable
        ``(X, Y) -> (n, m)``, as in `sklearn.svm.SVC`. Other kernels than the linear one curve
        the planes: rows are mapped to features of landmarks (see `fuzzytwin.kernels`), where
        everything is linear again, "center" and "hyperplane" memberships included. Widths of
        fuzzy planes stay on the absolute values of the columns.
    gamma : {"scale", "auto"}, float or array-like of shape (d,), default="scale"
        Parameter of "rbf", "poly", "sigmoid" and "laplacian"; "scale" is 1 / (d var(X)) of the d
        columns that vary, with `partial_fit` that of the first batch. One number for each column:
        how much it counts.
    relevance : None or "learned", default=None
        None: all columns count the same in the kernel (but for a `gamma` of each). "learned",
        for "rbf": columns count as much as first planes change along them, so that those that
        have nothing to do with the labels hardly count; `gamma` still sets how far the kernel
        reaches. `partial_fit` learns it from the first batch. See `fuzzytwin.kernels`;
        ``landmark_map_.gamma`` then holds one gamma for each column.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    n_landmarks : int, "centers" or array-like of shape (m, d), default=300
        Number of landmarks, or the landmarks themselves. "centers": landmarks that are no rows, so
        that model files hold none: see `FuzzyTwinCommittee`. A number takes all rows if there are
        no more, otherwise a sample stratified by class, at least one from each; with four times
        as many rows or more, it is moved to the middle of the rows around by k-means.
        `partial_fit` takes them from the first batch and keeps them.
    random_state : int, RandomState instance or None, default=None
        For the sample of landmarks, which goes by what rows hold and not by their order. None is
        the same as 0.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    coef_, intercept_ : ndarray of shape (n_planes, d) and (n_planes,)
        The planes (of fuzzy planes, the centres); with a kernel, one column for each feature
        of the landmarks. K (K - 1) planes for pairs of classes, K for "ovr".
    plane_classes_ : ndarray of shape (n_planes, 2)
        Index of the own and of the rival class of each plane; -1 stands for all others.
    width_coef_, width_intercept_ : ndarray of shape (n_planes, d) and (n_planes,)
        The widths; fuzzy planes only.
    membership_ : ndarray of shape (n,)
        Degrees of the rows of the last `fit` or `partial_fit` (a table for soft labels).
    moments_ : TwinMoments
        All that the model keeps of the training rows; only of the solver "moments".
    solver_ : str
        The solver that was used.
    alpha_ : float
        The ridge that ``alpha="auto"`` stood for.
    calibration_coef_, calibration_intercept_ : ndarray of shape (n_pairs, 3) and (n_pairs,)
        Log odds of each pair of classes; with `calibration` only.
    class_weight_ : ndarray of shape (K,)
        Factor of each class; with `calibration` and `class_weight` only.
    conformity_scores_ : ndarray of shape (m, 3) or (m, 4)
        Score, class, weight and, with `groups`, the number of the group of the rows, for
        `predict_set`; with ``calibration="loo"`` only.
    landmark_map_ : LandmarkMap
        Landmarks and the map to their features, to which ``coef_`` refers; not for the linear
        kernel.
    rank_ : int
        Least numerical rank of the systems for w: as many as ``coef_`` has columns, unless
        some depend on others and alpha is 0.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    The defaults were chosen among many on many tables; better than any default are values that
    are tuned, by `FuzzyTwinSVCCV`. With ``multi_class="ovr"``, a class that lies between
    others, such as the middle one of three in a row, has rivals on both sides, which no plane can
    keep at -1: pairs do better.

    Columns may differ in size by sixteen orders of magnitude and lie far from zero.
    Bad input gets a ValueError or TypeError that names the parameter, the value and the
    remedy, and leaves a fitted model as it was.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), FuzzyTwinSVC(membership="center"))
    >>> model.fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        planes: str = "crisp",
        *,
        C: Any = 1.0,
        alpha: float | str = "auto",
        membership: Any = None,
        membership_scope: str = "slack",
        rule: str = "distance",
        multi_class: str = "ovo",
        solver: str = "auto",
        tol: float = 1e-6,
        tau: float = 1.0,
        margin_width: float = 0.5,
        formulation: str = "endpoints",
        class_weight: Any = None,
        n_jobs: int | None = None,
        calibration: str | None = None,
        kernel: Any = "linear",
        gamma: Any = "scale",
        relevance: str | None = None,
        degree: float = 3,
        coef0: float = 0.0,
        n_landmarks: Any = 300,
        random_state: Any = None,
    ) -> None:
        self.planes = planes
        self.C = C
        self.alpha = alpha
        self.membership = membership
        self.membership_scope = membership_scope
        self.rule = rule
        self.multi_class = multi_class
        self.solver = solver
        self.tol = tol
        self.tau = tau
        self.margin_width = margin_width
        self.formulation = formulation
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.calibration = calibration
        self.kernel = kernel
        self.gamma = gamma
        self.relevance = relevance
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, groups: Any = None
    ) -> Self:
        """Learn the planes from all rows at once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels of any kind, at least two different ones.
        sample_weight : array-like of shape (n,), default=None
            Importance of each sample, at least 0. Zero is the same as leaving it out. Where a
            sample is left out, it is with all of its weight: a weight of w is the same as w copies
            in one of the `groups`.
        membership : array-like of shape (n,) or (n, K), default=None
            Degrees in [0, 1], in place of those the parameter would compute; or soft labels,
            one column per class in the order of the sorted labels, which replace the labels.
        groups : array-like of shape (n,), default=None
            Rows that belong together (visits of a patient, copies of a row), by a label of their
            group. With ``calibration="loo"`` the whole group is left out where its rows are
            scored, as it is where ``relevance="learned"`` chooses a ridge, and ``alpha="auto"``
            goes by groups in the place of rows; nothing else depends on it.

        Returns
        -------
        self

        Warns
        -----
        UserWarning
            Where a calibration leaves rows out, many of them are equal or nearly so, and no
            groups are given.
        """
        return self._fit(X, y, sample_weight, membership, groups=groups)

    @available_if_streamable
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, membership: Any = None
    ) -> Self:
        """Add rows. Exact: the planes are those of one `fit` on all rows so far.

        With a kernel, landmarks and ``gamma="scale"`` are those of the first batch, which should
        therefore be some hundreds of rows of all classes; or give both, and it is exact again.

        Parameters
        ----------
        X, y, sample_weight, membership
            As for `fit`; labels may be missing from a batch.
        classes : array-like of shape (K,), default=None
            All labels; needed in the first call only.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, classes, sample_weight, membership)

    @available_if_streamable
    def forget(self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None) -> Self:
        """Remove rows. The planes are those of one `fit` on the rows that remain.

        The rows are subtracted from the moments, which keeps all digits but those that cancel:
        each class may lose a factor of 10^4 (`fuzzytwin.core.moments.MOST_LOSS`), summed up over
        calls in ``forget_loss_``, so that about eleven digits of its moments remain. Beyond
        that, and where the moments show that the rows were never learned (a weight or a
        variance would be negative), a ValueError leaves the model as it was. Rows that were
        never learned but lie among learned ones cannot be detected.

        Parameters
        ----------
        X, y, sample_weight, membership
            The rows, just as they were given to `fit` or `partial_fit`.

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
        >>> rest = np.arange(len(X)) % 3 > 0
        >>> np.allclose(model.coef_, FuzzyTwinSVC().fit(X[rest], y[rest]).coef_, rtol=1e-9)
        True
        """
        return self._forget(X, y, sample_weight, membership)

    def predict_set(
        self, X: Any, coverage: float = 0.9, *, class_conditional: bool = False
    ) -> Array:
        r"""Predict a set of labels for each row that holds the true one with a given probability.

        A label is in the set unless it would make the row stranger than all but a share
        1 - coverage of the rows of the fit. How strange a row is with a label is one minus its
        probability (`predict_proba`); for rows of the fit it is that of planes learned without
        the row, or without its group, so that old and new rows are compared alike. A row is left
        out with all of its weight. Relevances of
        columns are learned again without the row too, a tenth of the rows at a time.

        Which promise holds: for new rows like those of the fit (exchangeable; with groups, rows of
        new groups), the true label is in the set with the probability `coverage` on average over
        all rows, up to the effect of one row on the planes, which vanishes as rows grow in number.
        Where relevances are learned from few rows, and where landmarks were moved towards the rows
        of the fit, it is somewhat more often. A rare class may be covered far less often than that,
        and the common ones more; with ``class_conditional=True`` the promise holds within every
        class. With weights, the promise is for a population in which rows occur as often as they
        weigh: weights that have nothing to do with how hard a row is leave it as it is, and if rows
        of one class weigh more, it is for as many more of them. There is no worst-case guarantee
        for few rows (the conformal jackknife has none), nor where parameters were chosen, or
        degrees computed, on the same rows.

        An empty set means that the row is stranger with any label than all but a share
        1 - coverage of the rows of the fit are with theirs. A greater coverage gives larger sets. A
        set that is not empty may lack the label that `predict` gives if classes are compared each
        with its own rows (``class_conditional=True``), or if class weights move labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.
        coverage : float, default=0.9
            Between 0 and 1.
        class_conditional : bool, default=False
            Compare with rows of the same class alone: then the coverage holds for every class,
            rare ones too, at the price of larger sets.

        Returns
        -------
        ndarray of bool of shape (n, K)
            Which labels, in the order of ``classes_``, are in the set.

        Warns
        -----
        UserWarning
            If the coverage holds on average, a class is rarer than 1 - coverage, and its rows,
            left out, are covered less than half as often as promised.

        Raises
        ------
        ValueError
            Where the model was not fitted by `fit` with ``calibration="loo"``, which keeps the
            scores of the rows, in the model and in its files.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from fuzzytwin import FuzzyTwinSVC
        >>> X, y = load_iris(return_X_y=True)
        >>> model = FuzzyTwinSVC(calibration="loo").fit(X[::2], y[::2])
        >>> sets = model.predict_set(X[1::2], coverage=0.9)
        >>> float(sets[range(75), y[1::2]].mean()) > 0.85
        True
        """
        calibrated = self._calibration()
        if calibrated is None or calibrated.conformity_scores is None:
            raise ValueError(
                f"predict_set needs the scores of the rows of a fit, which calibration="
                f"{self.calibration!r} does not keep; fit with calibration='loo', or use a "
                "FuzzyTwinCommittee."
            )
        scores, P = calibrated.conformity_scores, self.predict_proba(X)
        sets = prediction_sets(scores, P, coverage, class_conditional=class_conditional)
        if not class_conditional:
            warn_of_rare_classes(scores, self.classes_, coverage)
        return sets

    def loo_membership(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, groups: Any = None
    ) -> Array:
        """Compute the memberships of the fitted rows, each by planes learned without it.

        What `predict_membership` of a model fitted on all other rows gives, in closed form and
        at the cost of a few fits for all rows together: with leverage h, an error e of the
        plane at its own row becomes e / (1 - h) without it (see `fuzzytwin.twin._loo_systems`).

        Exact for no membership and for given degrees or soft labels. What was computed from all
        rows stays as it is: degrees (``membership_``), the factors of
        ``class_weight="balanced"``, landmarks and gamma, the relevance of columns, the ridge of
        ``alpha="auto"``, the widths of fuzzy planes, and, where columns depend on each other and
        alpha is 0, the scales of the columns.

        Parameters
        ----------
        X, y, sample_weight : array-like
            All rows of the fit, in any order if degrees are given or there are none.
        membership : array-like of shape (n,) or (n, K), default=None
            Degrees or soft labels of the fit; None takes ``membership_`` if it has as many.
        groups : array-like of shape (n,), default=None
            Rows that belong together, by a label of their group: the whole group is left out.

        Returns
        -------
        ndarray of shape (n, K)
            Rows sum to 1. A row that is the only one of its class has the membership 0 in it.

        Raises
        ------
        ValueError
            Where the rows are not those of the fit (their weights or means differ), parameters
            have changed since, ``formulation`` is one of the paper's, or planes were found
            without moments and ``alpha`` is 0 or the rows are too many for their Gram matrix.

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
