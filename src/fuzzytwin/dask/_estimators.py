"""Estimators on Dask arrays and DataFrames: one task per chunk, and a tree of sums."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fuzzytwin._rows import Rows
from fuzzytwin._utils.extras import missing_package
from fuzzytwin.committee import _committee
from fuzzytwin.committee._fit import fit_chunks
from fuzzytwin.committee._preprocessing import keep_preprocessor, without_preprocessor
from fuzzytwin.core.conformal import warn_of_rare_classes
from fuzzytwin.tables import TableSchema
from fuzzytwin.twin import _svc as _classifier
from fuzzytwin.twin._prediction import available_if, check_calibrated
from fuzzytwin.twin._settings import FitSettings
from fuzzytwin.twin._streaming import check_streamable

try:
    import dask.array as da
    import pandas as pd

    from fuzzytwin.dask._chunks import Chunks, checked_columns, is_dask, whole_rows
except ImportError as error:  # pragma: no cover
    raise missing_package("fuzzytwin.dask", "Dask", "dask", error) from error

# Fitted attributes that predictions do not need. Prediction sets need the second.
HEAVY = ("moments_", "conformity_scores_")


class _Lazy:
    """Fits and predictions of Dask collections. Rows in memory are left to the estimator."""

    in_memory: Any  # the class of the same estimator for rows in memory

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, membership: Any = None, groups: Any = None
    ) -> Any:
        """Fit the model to rows in chunks.

        Parameters
        ----------
        X : Dask array of shape (n, d) or Dask DataFrame
            Rows, in chunks of any sizes, known or unknown. A committee takes DataFrames with text,
            dates and missing values, which are encoded by a preprocessor that is fitted to the
            first rows.
        y : Dask array or Series, or str
            Labels. If X is a DataFrame, y may be the name of a column. Columns named here or below
            are not features.
        sample_weight : Dask array or Series, or str, default=None
            Importance of each row.
        membership : Dask array, Series or DataFrame, str or list of str, default=None
            Membership degrees, or a table of soft labels.
        groups : None
            Not supported for Dask collections, as groups need all rows at once. A committee raises
            a ValueError, and `FuzzyTwinSVC` does not use them.

        Returns
        -------
        self
        """
        if not is_dask(X):
            return super().fit(X, y, sample_weight, membership, groups)  # type: ignore[misc]
        if groups is not None and isinstance(self, FuzzyTwinCommittee):
            raise ValueError(
                "groups are not supported for Dask collections, as they need all rows at once; "
                "compute the rows, or use groups=None."
            )
        chunks = Chunks(X, y, sample_weight, membership)
        if isinstance(self, FuzzyTwinSVC):
            has_degrees = membership is not None
            return self._fit_chunks(
                chunks.total, has_degrees=has_degrees, names=chunks.feature_names
            )
        chunks.fit_preprocessor()
        fit_chunks(self, chunks.total, names=chunks.feature_names)
        keep_preprocessor(self, chunks.preprocessor)
        return self

    def predict(self, X: Any) -> Any:
        """Predict labels lazily: a Dask array, or a Dask Series for a DataFrame."""
        return self._lazily("predict", X)

    def decision_function(self, X: Any) -> Any:
        """Compute scores lazily. With two classes, they are positive for ``classes_[1]``."""
        return self._lazily("decision_function", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the mean accuracy at once.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`. Columns of a DataFrame that the model was not fitted with are ignored.

        Returns
        -------
        float
        """
        if not is_dask(X):
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        check_is_fitted(self)
        model = self.to_sklearn()
        preprocessor = getattr(model, "preprocessor_", None)
        names = getattr(model, "feature_names_in_", None)
        if preprocessor is not None:
            names = TableSchema.from_dict(preprocessor.schema_).reads
        chunks = Chunks(X, y, sample_weight, None, names, preprocessor)
        weights = chunks.total(_correct_weight, without_preprocessor(model))
        if weights is None:
            raise ValueError("X has no rows; give at least one.")
        correct, total = weights
        return float(correct / total)

    def to_sklearn(self: Any) -> Any:
        """Return the same fitted model as an ordinary estimator of `fuzzytwin`.

        Returns
        -------
        fuzzytwin.FuzzyTwinSVC or fuzzytwin.FuzzyTwinCommittee
            A model with all fitted attributes. If it has `partial_fit` and `merge`, they continue
            from this fit.
        """
        plain = self.in_memory(**self.get_params(deep=False))
        plain.__dict__.update({k: v for k, v in vars(self).items() if k.endswith("_")})
        return plain

    def _lazily(self, method: str, X: Any, *options: Any) -> Any:
        if not is_dask(X):
            return getattr(super(), method)(X, *options)
        check_is_fitted(self)
        model = self.to_sklearn()
        for name in HEAVY[: 1 if method == "_sets" else 2]:  # not sent to the workers
            vars(model).pop(name, None)
        outcome = partial(_outcome, model, method, options)
        if isinstance(X, da.Array):
            X = whole_rows(X)
            empty = outcome(np.empty((0, model.n_features_in_)))  # has the type of the output
            shape = {} if empty.ndim == 2 else {"drop_axis": 1}
            chunks = (X.chunks[0], *((size,) for size in empty.shape[1:]))
            return X.map_blocks(outcome, dtype=empty.dtype, meta=empty, chunks=chunks, **shape)
        names = getattr(model, "feature_names_in_", None)
        if names is not None and getattr(model, "preprocessor_", None) is None:
            X = X[checked_columns(X, "X", list(names))]
        return X.map_partitions(outcome, meta=outcome(pd.DataFrame(columns=X.columns)))


class FuzzyTwinCommittee(_Lazy, _committee.FuzzyTwinCommittee):
    """`fuzzytwin.FuzzyTwinCommittee` for Dask collections, with the same parameters.

    The first pass collects statistics and up to 200,000 rows, from which trees learn and landmarks
    and bandwidths are chosen. If there are more, a second sums the features of all members.
    Only these rows and the sums leave the workers. The model is that of
    `fuzzytwin.FuzzyTwinCommittee`. With more than 10,000 rows, the sample may hold other copies of
    duplicates.

    Rows in memory are treated as by `fuzzytwin.FuzzyTwinCommittee`.

    Parameters
    ----------
    members, noise, n_landmarks, class_weight, n_jobs, verbose, random_state
        As for `fuzzytwin.FuzzyTwinCommittee`.

    Attributes
    ----------
    classes_, members_, loo_log_loss_, ...
        As for `fuzzytwin.FuzzyTwinCommittee`. All arrays are in memory.

    Examples
    --------
    >>> import dask.array as da
    >>> from fuzzytwin.dask import FuzzyTwinCommittee
    >>> from fuzzytwin.datasets import make_ndc
    >>> X, y = make_ndc(1000, 4, random_state=0)
    >>> X, y = da.from_array(X, chunks=(300, 4)), da.from_array(y, chunks=300)
    >>> model = FuzzyTwinCommittee(members=["linear", "rbf"], n_landmarks=50).fit(X, y)
    >>> model.predict_proba(X)
    dask.array<..., shape=(1000, 2), dtype=float64, chunksize=(300, 2), chunktype=numpy.ndarray>
    """

    in_memory = _committee.FuzzyTwinCommittee

    def predict_proba(self, X: Any) -> Any:
        """Predict probabilities lazily: a Dask array (n, K), or a DataFrame for a DataFrame."""
        return self._lazily("predict_proba", X)

    def predict_log_proba(self, X: Any) -> Any:
        """Predict logarithms of probabilities lazily, in the form of `predict_proba`."""
        return self._lazily("predict_log_proba", X)

    def predict_set(self, X: Any, coverage: float = 0.9, *, class_conditional: bool = False) -> Any:
        """Compute prediction sets lazily: see `fuzzytwin.FuzzyTwinCommittee.predict_set`.

        Parameters
        ----------
        X : Dask array of shape (n, d) or Dask DataFrame
            Rows.
        coverage : float, default=0.9
            Share of sets that should contain the label, between 0 and 1.
        class_conditional : bool, default=False
            Whether the coverage holds for each class.

        Returns
        -------
        Dask array of bool of shape (n, K), or Dask DataFrame
        """
        check_is_fitted(self)
        sets = self._lazily("_sets", X, coverage, class_conditional)
        if not class_conditional:  # once, not for each chunk
            warn_of_rare_classes(self.conformity_scores_, self.classes_, coverage)
        return sets


class FuzzyTwinSVC(_Lazy, _classifier.FuzzyTwinSVC):
    """`fuzzytwin.FuzzyTwinSVC` for Dask collections, with the same parameters and planes.

    Workers compute the moments of their chunks, and only these leave the workers. The fit runs on
    the current `dask.distributed.Client`, or on Dask's threads if there is none. Rows are read
    once, or three times with the memberships "center" and "hyperplane". `persist` them if they are
    expensive to compute and fit into the memory of the workers. Memberships that search for
    neighbours are an error.

    Rows in memory are treated as by `fuzzytwin.FuzzyTwinSVC`.

    Parameters
    ----------
    planes, C, alpha, membership, rule, tau, margin_width, class_weight, n_jobs, kernel, gamma, \
degree, coef0, n_landmarks, random_state
        As for `fuzzytwin.FuzzyTwinSVC`. A nonlinear kernel needs an array of landmarks as
        `n_landmarks`, and a `gamma` other than "scale".

    Attributes
    ----------
    classes_, coef_, intercept_, moments_, ...
        As for `fuzzytwin.FuzzyTwinSVC`, except that there is no ``membership_``. All arrays are in
        memory.

    Examples
    --------
    >>> import dask.array as da
    >>> from fuzzytwin.dask import FuzzyTwinSVC
    >>> from fuzzytwin.datasets import make_ndc
    >>> X, y = make_ndc(1000, 4, random_state=0)
    >>> X, y = da.from_array(X, chunks=(300, 4)), da.from_array(y, chunks=300)
    >>> model = FuzzyTwinSVC(membership="center").fit(X, y)
    >>> model.predict(X)
    dask.array<..., shape=(1000,), dtype=int64, chunksize=(300,), chunktype=numpy.ndarray>
    >>> model.score(X, y), model.to_sklearn().score(X.compute(), y.compute())
    (0.812, 0.812)
    """

    in_memory = _classifier.FuzzyTwinSVC

    @available_if(check_streamable)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, membership: Any = None
    ) -> Self:
        """Add rows. The planes are exactly those of one `fit` on all rows so far.

        Parameters
        ----------
        X, y, sample_weight, membership
            As for `fit`. The rows need not include all classes.
        classes : array-like of shape (K,), default=None
            All labels. Required in the first call only.

        Returns
        -------
        self
        """
        if not is_dask(X):
            return super().partial_fit(X, y, classes, sample_weight, membership)
        labels = self._known_classes(classes)
        phi = self._same_landmarks(FitSettings.of(self))
        chunks = Chunks(X, y, sample_weight, membership)
        names = chunks.feature_names
        fitted_names = getattr(self, "feature_names_in_", None)
        add_rows = hasattr(self, "moments_")
        if add_rows and (None if fitted_names is None else list(fitted_names)) != names:
            raise ValueError(
                f"X has the columns {names}, but the model was fitted on {fitted_names}; give the "
                "same columns in the same order."
            )
        return self._fit_chunks(
            chunks.total,
            has_degrees=membership is not None,
            names=names,
            classes=labels,
            phi=phi,
            add_rows=add_rows,
        )

    @available_if(check_calibrated)
    def predict_proba(self, X: Any) -> Any:
        """Predict probabilities lazily. Only with `calibration`."""
        return self._lazily("predict_proba", X)

    def predict_membership(self, X: Any) -> Any:
        """Predict memberships lazily: a Dask array (n, K), or a DataFrame for a DataFrame."""
        return self._lazily("predict_membership", X)

    def fuzzy_distance(self, X: Any) -> tuple[Any, Any]:
        """Compute distances and their widths lazily, each in the form of `predict_membership`."""
        if not is_dask(X):
            return super().fuzzy_distance(X)
        return self._lazily("_delta", X), self._lazily("_gamma", X)


def _correct_weight(model: Any, rows: Rows) -> Any:
    """Return the weight of the rows that are classified correctly, and of all rows."""
    if not len(rows):
        return None
    X = rows.X if rows.names is None else pd.DataFrame(rows.X, columns=rows.names)
    return np.array([rows.weights @ (model.predict(X) == rows.labels), rows.weights.sum()])


def _outcome(model: Any, method: str, options: tuple[Any, ...], X: Any) -> Any:
    """Apply a method to one chunk, which may be empty. A frame gives a frame or a series."""
    n = X.shape[0]
    is_frame = hasattr(X, "index")
    names = model.classes_.tolist()
    rows = X
    if not n:  # a row of zeros gives the type of the output
        preprocessed = getattr(model, "preprocessor_", None) is not None
        model = without_preprocessor(model)
        rows = np.zeros((1, model.n_features_in_))
        if is_frame and not preprocessed:
            rows = pd.DataFrame(rows, columns=X.columns)
    if method in ("_delta", "_gamma"):
        values = model.fuzzy_distance(rows)[method == "_gamma"][:n]
        if len(model.coef_) != len(names):  # distances to the planes of pairs
            names = [f"{names[i]} against {names[j]}" for i, j in model.plane_classes_.tolist()]
    else:
        values = getattr(model, method)(rows, *options)[:n]
    if not is_frame:
        return values
    if values.ndim == 2:
        return pd.DataFrame(values, X.index, names)
    return pd.Series(values, X.index, name="prediction" if method == "predict" else "score")
