"""What drives a prediction: the effect of every column on the membership in every class."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse

from fuzzytwin._utils.types import Array

MOST_ROWS = 2000
WORK = 1e10  # multiplications, about; with many columns fewer rows are looked at
FEWEST_ROWS = 50


def column_effects(model: Any, X: Any, sample_weight: Any = None) -> tuple[Array, Array]:
    r"""Compute how memberships change as a column rises by one standard deviation.

    .. math:: E_{kj} = \frac{1}{n} \sum_i \Delta_{ijk}, \qquad
        S_{kj} = \frac{1}{n} \sum_i |\Delta_{ijk}|, \qquad
        \Delta_{ijk} = u_k(x_i + \tfrac12 s_j e_j) - u_k(x_i - \tfrac12 s_j e_j)

    with :math:`u_k` the membership in class k and :math:`s_j` the standard deviation of column
    j. The effect E is the mean slope of the membership times the deviation of the column, by
    central differences. Unlike a coefficient of a plane, its sign gives the direction in which a
    column moves the prediction, for linear and for curved planes. The strength S disregards
    the direction: where it exceeds the effect by far, the direction depends on the other columns.
    Over the classes the effects of a column sum to 0.

    Parameters
    ----------
    model : fitted classifier
        With `predict_membership` or `predict_proba`.
    X : array-like or sparse matrix of shape (n, d)
        Rows as the model takes them, best those that it was fitted on.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.

    Returns
    -------
    effects, strengths : ndarray of shape (K, d)

    Notes
    -----
    Columns are moved one at a time; what moves together with them in the data stays where it is.
    Of many rows a sample of at most 2,000 is used, always the same one.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin import FuzzyTwinSVC
    >>> from fuzzytwin.report.effects import column_effects
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = FuzzyTwinSVC().fit(X, X[:, 0] > 0)
    >>> effects, strengths = column_effects(model, X)
    >>> bool(effects[1, 0] > 0.2 > 0.02 > abs(effects[1, 1]))
    True
    """
    n, d = X.shape
    w = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    count = int(np.clip(WORK / (4 * d * d), FEWEST_ROWS, MOST_ROWS))
    rows = np.flatnonzero(w > 0)
    if len(rows) > count:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:count])
    X = X[rows].toarray() if sparse.issparse(X) else np.array(np.asarray(X)[rows], np.float64)
    w = w[rows] / w[rows].sum()
    spread = np.sqrt(w @ (X - w @ X) ** 2)
    memberships = getattr(model, "predict_membership", None) or model.predict_proba
    effects, strengths = np.zeros((2, len(model.classes_), d))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        for j in np.flatnonzero(spread):
            kept = X[:, j].copy()
            X[:, j] = kept + spread[j] / 2
            above = memberships(X)
            X[:, j] = kept - spread[j] / 2
            change = above - memberships(X)
            X[:, j] = kept
            effects[:, j], strengths[:, j] = w @ change, w @ np.abs(change)
    return effects, strengths
