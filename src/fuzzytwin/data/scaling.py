"""Scaling of the columns of a table that a few values far off do not wreck."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.preprocessing import StandardScaler

from fuzzytwin._utils.types import Array
from fuzzytwin.core.scaling import clipped, column_limits


class ColumnScaler(StandardScaler):
    """`StandardScaler` for columns some of whose values may lie far off all others.

    Columns are clipped to `limits_` first (see `fuzzytwin.core.scaling`), in `fit` and in
    `transform`. A column without values far off is scaled as `StandardScaler` does.

    Attributes
    ----------
    limits_ : ndarray of shape (2, d)
        Values beyond these are taken as these.
    mean_, var_, scale_, n_features_in_, feature_names_in_
        As those of `StandardScaler`, of the clipped columns.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.data.scaling import ColumnScaler
    >>> X = np.append(np.arange(100.0), -9999.0)[:, None]
    >>> scaler = ColumnScaler().fit(X)
    >>> scaler.transform([[0.0], [99.0], [-9999.0]]).ravel().round(2)
    array([-1.68,  1.72, -1.68])
    """

    limits_: Array

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn limits, means and deviations of the columns.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows of numbers, without missing values.
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self
        """
        with np.errstate(over="ignore", invalid="ignore"):  # of columns that are clipped below
            super().fit(X, y, sample_weight)
        values = np.asarray(X, dtype=np.float64)
        weight = np.ones(len(values)) if sample_weight is None else np.asarray(sample_weight, float)
        held = values[weight > 0]
        low, high = held.min(axis=0), held.max(axis=0)
        self.limits_ = column_limits(held, weight[weight > 0], low, high)
        far = np.flatnonzero((low < self.limits_[0]) | (high > self.limits_[1]))
        if len(far):
            near = clipped(values[:, far], self.limits_[:, far])
            scaler = StandardScaler().fit(near, None, sample_weight)
            for name in ("mean_", "var_", "scale_"):
                getattr(self, name)[far] = getattr(scaler, name)
        return self

    def transform(self, X: Any, copy: bool | None = None) -> Any:
        """Clip and scale rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        copy : None
            Ignored: rows are always copied.

        Returns
        -------
        ndarray of shape (n, d)
        """
        if hasattr(X, "iloc"):
            near = X.clip(*self.limits_, axis=1)
        else:
            near = clipped(np.asarray(X, dtype=np.float64), self.limits_)
        return super().transform(near, copy=True)
