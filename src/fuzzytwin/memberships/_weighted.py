"""Use membership degrees as sample weights of any classifier."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from fuzzytwin._params import set_fitted_attributes
from fuzzytwin._rows import label_array, validate_rows
from fuzzytwin._utils.types import Array
from fuzzytwin.memberships._degrees import compute_degrees
from fuzzytwin.memberships._registry import check_membership


def _delegated(name: str, summary: str, shape: str) -> Any:
    """Make a method that delegates to the fitted classifier, available if it has that method."""

    def has_method(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    def method(self: Any, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(getattr(self.estimator_, name)(X))

    method.__name__ = name
    method.__qualname__ = f"MembershipWeighted.{name}"
    method.__module__ = __name__
    method.__doc__ = f"""{summary}

        Parameters
        ----------
        X : {{array-like, sparse matrix}} of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape {shape}
        """
    return available_if(has_method)(method)


class MembershipWeighted(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Fit any classifier with membership degrees as sample weights.

    `fit` computes the degree mu of every row and calls ``estimator.fit`` with the weights
    s mu, where s is `sample_weight`, or 1. With `sklearn.svm.SVC` and
    ``membership="center"`` this is the fuzzy SVM of Lin and Wang:

        1/2 |w|^2 + C sum mu xi,    y f(x) >= 1 - xi,    xi >= 0.

    Parameters
    ----------
    estimator : classifier
        A classifier whose `fit` takes `sample_weight`. It is cloned, not changed.
    membership : None, str, Membership or callable, default="center"
        How to compute the degrees, as for `FuzzyTwinSVC`. None gives every row a degree of 1.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    membership_ : ndarray of shape (n,)
        Degree of each training row.
    classes_ : ndarray of shape (K,)
        The labels.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Degrees are computed from the rows passed to `fit`, so columns should have similar scales: put
    a scaler before it in a pipeline. If metadata routing is enabled, this estimator requests
    `sample_weight` and `membership` itself (``set_fit_request``). Other metadata is routed to the
    classifier.

    Invalid input raises a ValueError or TypeError that names the parameter, the value and the
    remedy, and leaves a fitted model unchanged.

    References
    ----------
    C.-F. Lin, S.-D. Wang: Fuzzy support vector machines. IEEE Transactions on Neural Networks
    13 (2002).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> from fuzzytwin import MembershipWeighted
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> weighted = MembershipWeighted(estimator=SVC(), membership="neighbor")
    >>> model = make_pipeline(StandardScaler(), weighted)
    >>> round(model.fit(X, y).score(X, y), 3)
    0.984
    """

    classes_: Array

    def __init__(self, *, estimator: Any, membership: Any = "center") -> None:
        self.estimator = estimator
        self.membership = membership

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.classifier_tags = inner.classifier_tags
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata that this estimator and its classifier request.

        Returns
        -------
        MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, **fit_params: Any
    ) -> Self:
        """Compute the degrees, and fit the classifier with them as weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows of numbers.
        y : array-like of shape (n,)
            Labels of any type, with at least two classes.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row, at least 0, by which degrees are multiplied.
        membership : array-like of shape (n,), default=None
            Degrees in [0, 1], used instead of computed ones.
        **fit_params
            Passed to ``estimator.fit``, or routed by its requests if metadata routing is enabled.

        Returns
        -------
        self
        """
        if not has_fit_parameter(self.estimator, "sample_weight"):
            raise TypeError(
                f"estimator={self.estimator!r:.80} does not take sample_weight in fit; give a "
                "classifier that does (and put MembershipWeighted last in a Pipeline, not around "
                "it)."
            )
        if np.ndim(membership) > 1:
            raise ValueError(
                f"membership has shape {np.shape(membership)}; give one degree per row. Soft "
                "labels work with FuzzyTwinSVC."
            )
        routed = process_routing(self, "fit", **fit_params).estimator.fit
        method = check_membership(self.membership)
        rows = validate_rows(self, X, y, sample_weight, membership)
        degrees, _ = compute_degrees(method, rows, rows.X)
        mu = np.ones(len(rows)) if degrees is None else degrees
        weight = mu if rows.weight is None else rows.weight * mu
        fitted = clone(self.estimator).fit(X, label_array(y), sample_weight=weight, **routed)
        set_fitted_attributes(
            self,
            estimator_=fitted,
            membership_=mu,
            classes_=fitted.classes_,
            n_features_in_=rows.X.shape[1],
            feature_names_in_=rows.names,
        )
        return self

    predict = _delegated("predict", "Predict labels by the fitted classifier.", "(n,)")
    predict_proba = _delegated("predict_proba", "Return the classifier's probabilities.", "(n, K)")
    predict_log_proba = _delegated(
        "predict_log_proba", "Return the logarithms of the classifier's probabilities.", "(n, K)"
    )
    decision_function = _delegated(
        "decision_function", "Return the classifier's scores.", "(n,) or (n, K)"
    )
