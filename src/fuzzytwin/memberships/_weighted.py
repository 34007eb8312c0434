"""Degrees of membership for any classifier that takes sample weights."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from fuzzytwin._params import set_fitted_attributes
from fuzzytwin._rows import validate_rows
from fuzzytwin._utils.types import Array
from fuzzytwin.memberships._degrees import compute_degrees
from fuzzytwin.memberships._registry import check_membership


def _of_estimator(name: str, what: str, shape: str) -> Any:
    """Make the method of this name that the fitted classifier has, where it has one."""

    def has_method(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    def method(self: Any, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(getattr(self.estimator_, name)(X))

    method.__name__, method.__qualname__ = name, f"MembershipWeighted.{name}"
    method.__module__ = __name__
    method.__doc__ = f"""{what}

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
    """Any classifier, with degrees of membership as weights of its samples.

    `fit` computes the degree mu of every sample and calls ``estimator.fit`` with the weights
    s mu, where s is the given `sample_weight`, or 1. With `sklearn.svm.SVC` and
    ``membership="center"`` this is the fuzzy SVM of Lin and Wang:

        1/2 |w|^2 + C sum mu xi,    y f(x) >= 1 - xi,    xi >= 0.

    Parameters
    ----------
    estimator : classifier
        One whose `fit` takes `sample_weight`. It is cloned, not changed.
    membership : None, str, Membership or callable, default="center"
        As for `FuzzyTwinSVC`: how to compute the degrees. None gives every sample 1.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    membership_ : ndarray of shape (n,)
        Degree of each training sample.
    classes_ : ndarray of shape (K,)
        The labels.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Degrees are computed from the rows that `fit` gets, so columns should be of like size: put
    a scaler before it in a pipeline. Where metadata routing is enabled, this estimator asks for
    `sample_weight` and `membership` itself (``set_fit_request``); other metadata goes to the
    classifier, as it requests.

    Bad input gets a ValueError or TypeError that names the parameter, the value and the
    remedy, and leaves a fitted model as it was.

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
    >>> model = make_pipeline(StandardScaler(), MembershipWeighted(SVC(), membership="neighbor"))
    >>> model.fit(X, y).score(X, y) > 0.95
    True
    """

    classes_: Array

    def __init__(self, estimator: Any, membership: Any = "center") -> None:
        self.estimator = estimator
        self.membership = membership

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.classifier_tags = inner.classifier_tags
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Describe what metadata this estimator and its classifier ask for.

        Returns
        -------
        MetadataRouter
        """
        fits = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=fits)

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, **fit_params: Any
    ) -> Self:
        """Compute the degrees, and fit the classifier with them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Rows of numbers.
        y : array-like of shape (n,)
            Labels of any kind, at least two different ones.
        sample_weight : array-like of shape (n,), default=None
            Importance of each sample, at least 0; multiplies the degrees.
        membership : array-like of shape (n,), default=None
            Degrees in [0, 1], in place of those the parameter would compute.
        **fit_params
            For ``estimator.fit``; by its requests where metadata routing is enabled.

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
                f"membership has shape {np.shape(membership)}; give one degree per sample. Soft "
                "labels work with FuzzyTwinSVC."
            )
        routed = process_routing(self, "fit", **fit_params).estimator.fit
        how = check_membership(self.membership)
        rows = validate_rows(self, X, y, sample_weight, membership)
        degrees, _ = compute_degrees(how, rows, rows.X)
        mu = np.ones(len(rows)) if degrees is None else degrees
        weight = mu if rows.weight is None else rows.weight * mu
        fitted = clone(self.estimator).fit(X, y, sample_weight=weight, **routed)
        set_fitted_attributes(
            self,
            estimator_=fitted,
            membership_=mu,
            classes_=fitted.classes_,
            n_features_in_=rows.X.shape[1],
            feature_names_in_=rows.names,
        )
        return self

    predict = _of_estimator("predict", "Predict labels by the fitted classifier.", "(n,)")
    predict_proba = _of_estimator(
        "predict_proba", "Return the classifier's probabilities.", "(n, K)"
    )
    predict_log_proba = _of_estimator(
        "predict_log_proba", "Return the logarithms of the classifier's probabilities.", "(n, K)"
    )
    decision_function = _of_estimator(
        "decision_function", "Return the classifier's scores.", "(n,) or (n, K)"
    )
