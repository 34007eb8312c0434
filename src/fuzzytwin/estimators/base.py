"""What all machines share: validated rows in, one plane per class, nearest plane out."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import check_is_fitted, validate_data

from fuzzytwin.core import distances
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.estimators.labels import encode, present
from fuzzytwin.estimators.merging import comparable, same_axes, same_kernel
from fuzzytwin.kernels import LandmarkMap, MappedRows, make_map
from fuzzytwin.validation import check_choice, check_moments, check_weights

Array = NDArray[Any]


class Fitter(ClassifierMixin, BaseEstimator):
    """A fit that fails leaves the model as it was: a draft learns, the model adopts.

    A machine gives `_learn`, which validates and sets every fitted attribute on itself.
    """

    classes_: Array
    coef_: Array
    intercept_: Array
    class_weight: Any
    # A machine without these parameters is linear.
    kernel: Any = "linear"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 0.0
    n_landmarks: Any = 300
    random_state: Any = None
    landmark_map_: LandmarkMap

    def _learn(self, X: Any, y: Any, classes: Any, *given: Any) -> None:
        """Add the rows to those learned before, if any. `classes` is None for `fit`."""
        raise NotImplementedError

    def _start(self, X: Any, y: Any, *given: Any) -> Any:
        """`fit`."""
        draft = type(self)(**self.get_params(deep=False))
        draft._learn(X, y, None, *given)
        return self._adopt(draft)

    def _adopt(self, draft: Any) -> Any:
        """Take over what a draft has learned, now that nothing can fail any more."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.__dict__.update({k: v for k, v in vars(draft).items() if k.endswith("_")})
        return self

    def _check_class_weight(self) -> None:
        if not (self.class_weight is None or isinstance(self.class_weight, dict)):
            check_choice("class_weight", self.class_weight, ("balanced",))

    def _class_factors(self, own: ClassMoments) -> Array:
        """Class weights; "balanced" makes the total weights of all classes equal."""
        K = len(self.classes_)
        if self.class_weight is None:
            return np.ones(K)
        if self.class_weight == "balanced":
            present = own.weight > 0
            mean = own.weight.sum() / max(present.sum(), 1)
            with np.errstate(over="ignore"):
                factor = np.divide(mean, own.weight, out=np.ones(K), where=present)
        else:
            try:
                factor = compute_class_weight(
                    self.class_weight, classes=self.classes_, y=self.classes_
                )
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"class_weight={self.class_weight!r} does not give the labels numbers; {error}"
                ) from error
            if not (np.isfinite(factor) & (factor >= 0)).all():
                raise ValueError(
                    f"class_weight={self.class_weight!r} holds a negative or infinite weight; "
                    "give finite numbers of at least 0."
                )
        with np.errstate(over="ignore"):
            if not np.isfinite(factor * own.weight).all():
                raise ValueError(
                    f"class_weight={self.class_weight!r} times the weights of the samples is "
                    "beyond double precision; divide the weights."
                )
        return factor

    def _features(self, X: Any, codes: Array, s: Array | None) -> Any:
        """Rows as the planes see them; the first rows that come fix the landmarks."""
        known = getattr(self, "landmark_map_", None)
        if hasattr(self, "moments_") and not same_kernel(self, known):
            raise ValueError(
                f"kernel={self.kernel!r}, gamma={self.gamma!r}, degree={self.degree!r} or "
                f"coef0={self.coef0!r} was another when rows were learned before; set it back or "
                "start a new model."
            )
        if self.kernel == "linear":
            return X
        if known is None:
            names = ("kernel", "gamma", "degree", "coef0", "n_landmarks", "random_state")
            chosen = {name: getattr(self, name) for name in names}
            self.landmark_map_ = make_map(X, codes, s, **chosen)
        return MappedRows(X, self.landmark_map_)

    def _plane_values(self, X: Any) -> tuple[Any, Array]:
        """Validated rows, and the value of every plane at each."""
        check_is_fitted(self)
        X = validate_data(
            self, X, reset=False, dtype=[np.float64, np.float32],
            accept_sparse="csr" if self.__sklearn_tags__().input_tags.sparse else False,
        )  # fmt: skip
        curved = hasattr(self, "landmark_map_")
        seen = MappedRows(X, self.landmark_map_) if curved else X
        return X, distances.plane_values(seen, self.coef_, self.intercept_)


class Streamer(Fitter):
    """Machines that are functions of moments: rows can be added, and models merged, exactly.

    A machine gives `_solve`, which turns ``moments_`` into planes.
    """

    moments_: Any
    membership_: Any
    forget_loss_: Array

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _solve(self) -> None:
        raise NotImplementedError

    def _measure(self, X: Any, y: Any, classes: Any, *given: Any) -> Any:
        """Validate rows and give their moments; `classes` is None for `fit`."""
        raise NotImplementedError

    def _moments_of(self, X: Any, codes: Array, s: Array | None, mu: Array | None = None) -> Any:
        """Moments of rows that were validated elsewhere, with given degrees `mu` if any."""
        raise NotImplementedError

    def _check_complete(self, moments: Any) -> None:
        """Refuse moments of all rows from which no planes follow."""

    def _learn(self, X: Any, y: Any, classes: Any, *given: Any) -> None:
        first = not hasattr(self, "moments_")
        moments = self._measure(X, y, classes, *given)
        if classes is None:
            self._check_complete(moments)
        self.moments_ = moments if first else self.moments_ + moments
        self._solve()

    def _settle(self, classes: Array, moments: Any, n_features: int, names: Any = None) -> None:
        """Become the model of moments that were gathered elsewhere: from files, by workers."""
        self.classes_ = classes
        self.n_features_in_ = n_features
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self.moments_ = moments
        self._solve()

    def _forget(self, X: Any, y: Any, *given: Any) -> Any:
        """`forget`."""
        check_is_fitted(self)
        draft = copy.copy(self)
        part = draft._measure(X, y, self.classes_, *given)
        draft.moments_, draft.forget_loss_ = self.moments_.without(
            part, getattr(self, "forget_loss_", None), self.classes_
        )
        if hasattr(draft, "membership_"):
            del draft.membership_  # one number per row, forgotten ones included
        draft._solve()
        return self._adopt(draft)

    def _extend(self, X: Any, y: Any, classes: Any, *given: Any) -> Any:
        """`partial_fit`."""
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError(
                "classes=None in the first call of partial_fit; give all labels that will occur."
            )
        if classes is not None:
            classes = np.unique(classes)
            if len(classes) < 2:
                raise ValueError(
                    f"classes={classes!r} has one class only; give at least two labels."
                )
            if not first and not np.array_equal(classes, self.classes_):
                raise ValueError(
                    f"classes={classes!r} differ from those of the first call, {self.classes_!r}; "
                    "leave them out or start a new model."
                )
        draft = copy.copy(self)
        draft._learn(X, y, classes if first else self.classes_, *given)
        return self._adopt(draft)

    def _merge(self, other: Any) -> Any:
        kind = type(self).__name__
        if not isinstance(other, type(self)):
            raise TypeError(
                f"other={other!r} is of type {type(other).__name__}; merge takes a {kind}."
            )
        check_is_fitted(self)
        check_is_fitted(other)
        mine, theirs = (comparable(model) for model in (self, other))
        for name, value in mine.items():
            if theirs.get(name) != value:
                remedy = "fit both alike (partial_fit takes the labels that a part lacks)."
                if name in ("gamma", "the landmarks"):
                    remedy = (
                        "each took its own from its rows, so give both the same n_landmarks (an "
                        "array) and gamma, or begin both as copies of one model."
                    )
                raise ValueError(
                    f"the models to merge differ in {name}: {value} and {theirs.get(name)}; "
                    f"{remedy}"
                )
        if not same_axes(self, other):
            raise ValueError(
                "the models to merge have the same landmarks, but their machines turned the axes "
                "of the features differently; begin both as copies of one model after its first "
                "partial_fit."
            )
        draft = copy.copy(self)
        draft.moments_ = self.moments_ + other.moments_
        losses = [model.forget_loss_ for model in (self, other) if hasattr(model, "forget_loss_")]
        if losses:
            draft.forget_loss_ = np.max(losses, axis=0)
        draft._solve()
        return self._adopt(draft)


class WeightedStreamer(Streamer):
    """Streamers that take rows, labels and weights, and nothing else.

    A machine gives `_check_params` beside.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learn from all rows at once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels of any kind, at least two different ones.
        sample_weight : array-like of shape (n,), default=None
            Importance of each sample, at least 0. Zero is the same as leaving it out.

        Returns
        -------
        self
        """
        return self._start(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Add rows. Exact: the result is that of one `fit` on all rows so far.

        With a kernel, landmarks and ``gamma="scale"`` are those of the first batch: see
        `FuzzyTwinSVC.partial_fit`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`; labels may be missing from a batch.
        classes : array-like of shape (K,), default=None
            All labels; needed in the first call only.

        Returns
        -------
        self
        """
        return self._extend(X, y, classes, sample_weight)

    def merge(self, other: Any) -> Any:
        """Add the rows that another model has seen. Exact: as one `fit` on both data sets.

        Parameters
        ----------
        other : estimator of the same class
            Fitted with the same parameters, columns and labels.

        Returns
        -------
        self
        """
        return self._merge(other)

    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Take rows out again. The result is that of one `fit` on the rows that remain.

        Refused, with the model left as it was, where too many digits would cancel or the rows
        cannot have been learned: see `FuzzyTwinSVC.forget`.

        Parameters
        ----------
        X, y, sample_weight
            The rows, just as they were given to `fit` or `partial_fit`.

        Returns
        -------
        self
        """
        return self._forget(X, y, sample_weight)

    def _check_params(self) -> None:
        raise NotImplementedError

    def _moments_of(self, X: Any, codes: Array, s: Array | None, mu: Array | None = None) -> Any:
        seen = self._features(X, codes, s)
        moments = ClassMoments.from_rows(seen, codes, s, n_classes=len(self.classes_))
        check_moments(moments, X)
        return moments

    def _measure(self, X: Any, y: Any, classes: Any, *given: Any) -> ClassMoments:
        self._check_params()
        first = not hasattr(self, "moments_")
        X, y = validate_data(
            self, X, y, reset=first, accept_sparse="csr", dtype=[np.float64, np.float32],
            ensure_all_finite=False,  # the pass over the rows finds out: check_moments
        )  # fmt: skip
        fitting = classes is None
        s = check_weights(given[0], len(y), may_vanish=not fitting)
        classes, codes = encode(y, classes)
        if fitting:
            classes, codes, _ = present(classes, codes, s, None)
        self.classes_ = classes
        moments: ClassMoments = self._moments_of(X, codes, s)
        return moments


class NearestPlane(Fitter):
    """Machines that label a row by its nearest plane (eq29)."""

    rule: str = "distance"

    def predict(self, X: Any) -> Array:
        """Labels: for each row of X the class of greatest membership."""
        u = self.predict_membership(X)
        labels: Array = self.classes_[u.argmax(axis=1)]
        return labels

    def decision_function(self, X: Any) -> Array:
        """Memberships as scores.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            For two classes u_2 - u_1, in [-1, 1] and positive for ``classes_[1]``; for more
            the memberships themselves.
        """
        u = self.predict_membership(X)
        return u[:, 1] - u[:, 0] if len(self.classes_) == 2 else u

    def predict_membership(self, X: Any) -> Array:
        """Degrees (eq29) to which each row belongs to each class; rows sum to 1.

        Returns
        -------
        ndarray of shape (n, K)
        """
        delta, gamma = self._distances(X, self.rule)
        return distances.memberships(distances.effective_distances(delta, gamma))

    def predict_proba(self, X: Any) -> Array:
        """`predict_membership` under the name that scikit-learn's tools look for.

        No calibrated probability: wrap the model in
        `sklearn.calibration.CalibratedClassifierCV` where you need one.
        """
        return self.predict_membership(X)

    def fuzzy_distance(self, X: Any) -> tuple[Array, Array]:
        """Fuzzy distances (Definition 1) of each row to each plane.

        Returns
        -------
        delta, gamma : ndarray of shape (n, K)
            ``|f| / |w|`` and its width ``g / |w|`` (zero for crisp planes).
        """
        return self._distances(X, "distance")

    def _distances(self, X: Any, rule: str) -> tuple[Array, Array]:
        X, f = self._plane_values(X)
        norms = distances.plane_norms(self.coef_) if rule == "distance" else np.ones(f.shape[1])
        return distances.fuzzy_distances(f, self._widths(X), norms)

    def _widths(self, X: Any) -> Array | None:
        """Width of every plane's value at each row; None for crisp planes."""
        return None
