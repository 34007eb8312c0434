"""FuzzyTwinSVC: validates, calls moments, planes and distances in turn, stores the result."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from fuzzytwin._utils.public import public_in
from fuzzytwin.core import distances, planes
from fuzzytwin.core.moments import ClassMoments, TwinMoments
from fuzzytwin.estimators.base import NearestPlane, Streamer
from fuzzytwin.estimators.labels import encode, present
from fuzzytwin.estimators.streaming import streaming
from fuzzytwin.memberships import Membership, MomentMembership
from fuzzytwin.validation import (
    check_choice,
    check_degrees,
    check_kernel,
    check_membership,
    check_moments,
    check_number,
    check_penalties,
    check_size,
    check_weights,
)

Array = NDArray[Any]


@public_in("fuzzytwin")
class FuzzyTwinSVC(NearestPlane, Streamer):
    r"""Fuzzy least-squares twin support vector machine, for two or more classes.

    One plane f_k(x) = w_k.x + b_k per class, near to its own samples and at -1 on its
    rivals. With the importance s_i of a sample (sample_weight times class_weight) and its
    membership degree mu_i in [0, 1], plane k minimises

        J_k = 1/2 sum_own s f_k^2 + C_k/2 sum_rivals s mu (1 + f_k)^2 + alpha/2 |w_k|^2

    (model M1 of the paper; eq6 and eq7, the LST-SVM, for two classes, mu = 1, alpha = 0).
    Fuzzy planes (model M2) have widths c, d >= 0 beside: their value at x is a triangular
    fuzzy number with centre f and width g = c.|x| + d, and J_k has the further terms

        1/2 sum_own s g^2 + C_k/2 sum_rivals s mu (O - g)^2 + tau (1/2 |c|^2 + d).

    A sample belongs to the class of greatest membership (eq29): the class whose plane is
    nearest. Scale the columns first (`StandardScaler`): ridge and distances depend on it.

    Parameters
    ----------
    planes : {"crisp", "fuzzy"}, default="crisp"
        Model M1 or model M2.
    C : float or array-like of shape (K,), default=1.0
        Penalty of the slack of each plane, in the order of ``classes_``. With two classes,
        C = 1 and no memberships the two planes are parallel: tune C.
    alpha : float, default=10.0
        Ridge on w, never on b. Zero is the paper. The default was measured with linear planes
        on scaled columns; features of landmarks are smaller, so begin with 1 where `kernel`
        curves the planes (``python -m benchmarks kernel --only alpha``).
    membership : None, str, Membership or callable, default=None
        How degrees are computed where `fit` is not given them: None (all 1), "center",
        "hyperplane", "neighbor", "entropy", "intuitionistic", an instance such as
        ``CenterMembership(decay="exponential")``, or a callable
        ``(X, y, sample_weight) -> degrees``.
    membership_scope : {"slack", "both"}, default="slack"
        Whether degrees weigh the slack alone (the paper) or the own-class term too.
    rule : {"distance", "residual"}, default="distance"
        Nearest by ``|f| / |w|`` (the paper) or by ``|f|``.
    tau : float, default=1.0
        Price of vagueness (fuzzy planes).
    margin_width : float, default=0.5
        Width O of the fuzzy margin (fuzzy planes).
    formulation : {"endpoints", "stationary", "printed"}, default="endpoints"
        Fuzzy planes as above, or, for two classes and to be studied only, by the paper's
        gradients or its printed closed form, both of which fail.
    class_weight : None, "balanced" or dict, default=None
        Factor on the weights of each class; "balanced" goes by total weight.
    kernel : str or callable, default="linear"
        "linear", "rbf", "poly", "sigmoid", "laplacian", "cosine", or a callable
        ``(X, Y) -> (n, m)``, as in `sklearn.svm.SVC`. Other kernels than the linear one curve
        the planes: rows are mapped to features of landmarks (see `fuzzytwin.kernels`), where
        everything is linear again, "center" and "hyperplane" memberships included. Widths of
        fuzzy planes stay on the absolute values of the columns.
    gamma : {"scale", "auto"} or float, default="scale"
        Parameter of "rbf", "poly", "sigmoid" and "laplacian"; "scale" is 1 / (d var(X)), with
        `partial_fit` that of the first batch.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    n_landmarks : int or array-like of shape (m, d), default=300
        How many training rows to take as landmarks: all where there are no more, else a
        sample, from each class its share and at least one; or the landmarks themselves.
        `partial_fit` takes them from the first batch and keeps them. An integer weight is the
        same as repeating a row where all rows are landmarks, or where they are given.
    random_state : int, RandomState instance or None, default=None
        For the sample of landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    coef_, intercept_ : ndarray of shape (K, d) and (K,)
        The planes (of fuzzy planes, the centres); with a kernel, one column for each feature
        of the landmarks.
    width_coef_, width_intercept_ : ndarray of shape (K, d) and (K,)
        The widths; fuzzy planes only.
    membership_ : ndarray of shape (n,)
        Degrees of the rows of the last `fit` or `partial_fit` (a table for soft labels).
    moments_ : TwinMoments
        All that is kept of the rows.
    landmark_map_ : LandmarkMap
        Landmarks and the map to their features, in which ``coef_`` lives; not for the linear
        kernel.
    rank_ : int
        Least numerical rank of the K systems for w: as many as ``coef_`` has columns, unless
        some depend on others and alpha is 0.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    The defaults of `membership`, `rule` and `alpha` had the best mean rank of 72 settings on
    the ten tables of `fuzzytwin.datasets`, clean and with a fifth of the labels flipped:
    ``python -m benchmarks defaults``. (With no membership, C = 1 and two classes the rules
    agree; the paper's stands.) Better than any default: `FuzzyTwinSVCCV`.

    A class that lies between others, such as the middle one of three in a row, has rivals on
    both sides, which no plane can keep at -1: lower C (tune it), or curve the planes.

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
        alpha: float = 10.0,
        membership: Any = None,
        membership_scope: str = "slack",
        rule: str = "distance",
        tau: float = 1.0,
        margin_width: float = 0.5,
        formulation: str = "endpoints",
        class_weight: Any = None,
        kernel: Any = "linear",
        gamma: Any = "scale",
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
        self.tau = tau
        self.margin_width = margin_width
        self.formulation = formulation
        self.class_weight = class_weight
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None) -> Any:
        """Learn the planes from all rows at once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels of any kind, at least two different ones.
        sample_weight : array-like of shape (n,), default=None
            Importance of each sample, at least 0. Zero is the same as leaving it out.
        membership : array-like of shape (n,) or (n, K), default=None
            Degrees in [0, 1], in place of those the parameter would compute; or soft labels,
            one column per class in the order of the sorted labels, which replace the labels.

        Returns
        -------
        self
        """
        return self._start(X, y, sample_weight, membership)

    @streaming
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        membership: Any = None,
    ) -> Any:
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
        return self._extend(X, y, classes, sample_weight, membership)

    @streaming
    def merge(self, other: Any) -> Any:
        """Add the rows that another model has seen. Exact: as one `fit` on both data sets.

        Parameters
        ----------
        other : FuzzyTwinSVC
            Fitted with the same parameters, columns and labels.

        Returns
        -------
        self
        """
        return self._merge(other)

    @streaming
    def forget(self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None) -> Any:
        """Take rows out again. The planes are those of one `fit` on the rows that remain.

        The rows are subtracted from the moments, which keeps all digits but those that cancel:
        each class may lose a factor of 10^4 (`fuzzytwin.moments.MOST_LOSS`), summed up over
        calls in ``forget_loss_``, so that some eleven digits of its moments remain. Beyond
        that, and where the moments show that the rows were never learned (a weight or a
        variance would be negative), a ValueError leaves the model as it was. Rows that were
        never learned but lie amidst others that were cannot be told from these.

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

    def _widths(self, X: Any) -> Array | None:
        if not hasattr(self, "width_coef_"):
            return None
        return distances.plane_values(X, self.width_coef_, self.width_intercept_, absolute=True)

    def _check_params(self) -> Any:
        check_choice("planes", self.planes, ("crisp", "fuzzy"))
        check_choice("membership_scope", self.membership_scope, ("slack", "both"))
        check_choice("rule", self.rule, ("distance", "residual"))
        check_choice("formulation", self.formulation, ("endpoints", "stationary", "printed"))
        check_number("alpha", self.alpha)
        check_number("tau", self.tau)
        check_number("margin_width", self.margin_width)
        self._check_class_weight()
        check_kernel(self)
        if self.kernel != "linear" and self.formulation != "endpoints":
            raise ValueError(
                f"formulation={self.formulation!r} is linear; use formulation='endpoints' with "
                f"kernel={self.kernel!r}."
            )
        return check_membership(self.membership)

    def _measure(self, X: Any, y: Any, classes: Any, *given: Any) -> TwinMoments:
        sample_weight, membership = given
        way = self._check_params()
        first = not hasattr(self, "moments_")
        X, y = validate_data(
            self, X, y, reset=first, accept_sparse="csr", dtype=[np.float64, np.float32],
            ensure_all_finite=False,  # the pass over the rows finds out: check_moments
        )  # fmt: skip
        fitting = classes is None
        classes, codes = encode(y, classes)
        s = check_weights(sample_weight, len(y), may_vanish=not fitting)
        mu = check_degrees(membership, len(y), classes)
        if fitting:
            classes, codes, mu = present(classes, codes, s, mu)
        self.classes_ = classes
        check_penalties(self.C, classes)  # before the pass over the rows
        moments, self.membership_ = self._moments(X, y, codes, s, mu, way)
        return moments

    def _check_complete(self, moments: TwinMoments) -> None:
        if not (moments.slack.rivals().weight > 0).all():
            raise ValueError(
                "membership is 0 for every sample outside of some class, so its plane has "
                "nothing to keep away from; give some of them a degree above 0."
            )

    def _moments_of(
        self, X: Any, codes: Array, s: Array | None, mu: Array | None = None
    ) -> TwinMoments:
        return self._moments(X, codes, codes, s, mu, None)[0]

    def _moments(
        self,
        X: Any,
        y: Array,
        codes: Array,
        s: Array | None,
        mu: Array | None,
        way: Any,
        own: tuple[ClassMoments, ClassMoments | None] | None = None,
        seen: Any = None,
    ) -> tuple[TwinMoments, Array]:
        """Moments and degrees of a batch of validated rows.

        `own` are the moments with the weights s (and those of abs(X)), and `seen` the rows as
        the planes see them, where they are known.
        """
        K = len(self.classes_)
        known, known_absolute = own or (None, None)
        if seen is None:
            seen = self._features(X, codes, s)  # widths stay on the columns themselves

        def of_rows(weight: Array | None, absolute: bool = False) -> ClassMoments:
            return ClassMoments.from_rows(
                X if absolute else seen, None if soft else codes, weight, n_classes=K,
                absolute=absolute,
            )  # fmt: skip

        soft = mu is not None and mu.ndim == 2
        own_weight = slack_weight = s
        if mu is None and way is not None:
            if known is None:
                known = of_rows(s)
                check_moments(known, X)
            mu = self._computed_degrees(X, seen, y, codes, s, way, known)
        if mu is not None:
            slack_weight = mu if s is None else (s[:, None] if soft else s) * mu
        if soft or (mu is not None and self.membership_scope == "both"):
            known, known_absolute, own_weight = None, None, slack_weight
        if known is None:
            known = of_rows(own_weight)
            check_moments(known, X)
        same = slack_weight is own_weight
        parts = [known, known if same else of_rows(slack_weight)]
        if self.planes == "fuzzy" and self.formulation == "endpoints":
            parts.append(known_absolute or of_rows(own_weight, absolute=True))
            parts.append(parts[2] if same else of_rows(slack_weight, absolute=True))
        return TwinMoments(*parts), np.ones(len(codes)) if mu is None else mu

    def _computed_degrees(
        self,
        X: Any,
        seen: Any,
        y: Array,
        codes: Array,
        s: Array | None,
        way: Any,
        own: ClassMoments,
    ) -> Array:
        factor = self._class_factors(own)
        weight = np.ones(len(codes)) if s is None else s
        if self.class_weight is not None:
            weight = weight * factor[codes]
            own = own.scaled(factor)
        if isinstance(way, MomentMembership):  # by distances where the planes are
            return way.degrees(seen, codes, weight, own)
        if isinstance(way, Membership):
            if self.kernel != "linear":
                own = ClassMoments.from_rows(X, codes, weight, n_classes=len(self.classes_))
            return way.degrees(X, codes, weight, own)
        mu = check_degrees(way(X, y, weight), len(codes), self.classes_, soft=False)
        if mu is None:
            raise ValueError(f"membership={way!r} returned None; return one degree per sample.")
        return mu

    def _solve(self) -> None:
        """Planes from moments."""
        m, K = self.moments_, len(self.classes_)
        C = check_penalties(self.C, self.classes_)
        if self.alpha == 0:
            check_size(m.own)
        factor = self._class_factors(m.own)
        own = m.own.scaled(factor)
        slack = own if m.slack is m.own else m.slack.scaled(factor)
        if self.planes == "crisp" or self.formulation == "endpoints":
            curved = self.kernel != "linear"
            found = planes.crisp_planes(own, slack, C, self.alpha, one_unit=curved)
        elif K > 2:
            raise ValueError(
                f"formulation={self.formulation!r} is defined for two classes, not {K}; use "
                "formulation='endpoints'."
            )
        elif self.formulation == "stationary":
            found = planes.stationary_planes(own, slack, C, self.alpha, self.tau)
        else:
            found = planes.printed_planes(own, slack, C, self.alpha, self.tau)
        if self.planes == "fuzzy" and self.formulation == "endpoints":
            if m.absolute_own is None or m.absolute_slack is None:
                raise ValueError(
                    "planes='fuzzy' needs moments that a fit with planes='crisp' does not keep; "
                    "start a new model."
                )
            found = planes.fuzzy_planes(
                found, m.absolute_own.scaled(factor), m.absolute_slack.scaled(factor),
                C, self.tau, self.margin_width,
            )  # fmt: skip
        self.coef_, self.intercept_, self.rank_ = found.coef, found.intercept, found.rank
        if found.width_coef is not None and found.width_intercept is not None:
            self.width_coef_, self.width_intercept_ = found.width_coef, found.width_intercept
