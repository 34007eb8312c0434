"""DoubtsReport: what `find_doubtful` returns; users find it in `fuzzytwin.doubts`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fuzzytwin._utils.extras import need
from fuzzytwin._utils.public import public_in
from fuzzytwin._utils.types import Array

NORMAL_95 = 1.96  # deviations to each end of an interval of 95 %


@public_in("fuzzytwin.doubts")
@dataclass(frozen=True, eq=False, repr=False)
class DoubtsReport:
    """Doubtful labels of a table. `find_doubtful` makes one; its docstring has an example.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        The labels, sorted.
    codes : ndarray of shape (n,)
        Label of each row, as an index of `classes`.
    posterior : ndarray of shape (n, K)
        Probability that a row is of each class, from its features and its label.
    doubtful : ndarray of bool of shape (n,)
        Rows to look at: those of greatest expected F1 (see `find_doubtful`).
    deviation : float
        Standard deviation of `n_wrong`.
    estimator : estimator
        The classifier that was used, unfitted. For ours, a pipeline of `StandardScaler` and the
        `FuzzyTwinSVC` that counted most in the committee.
    setting : str
        What was used and chosen, in words.
    index : array-like of shape (n,), default=None
        The caller's index.
    ids : ndarray of shape (n,), default=None
        Names of the rows.
    id_name : str, default="id"
        What the names are called.

    Attributes
    ----------
    degrees : ndarray of shape (n,)
        Degree in [0, 1] to which each label is right; goes into ``fit(X, y, membership=...)``.
    suggested : ndarray of shape (n,)
        For a doubtful row the likeliest other label, for every other row its own.
    order : ndarray of shape (n,)
        All rows, the most doubtful first.
    n_wrong : float
        Expected number of wrong labels: the sum of 1 - degrees.
    n_wrong_interval : tuple of float
        Its 95 % interval.
    noise_matrix : ndarray of shape (K, K)
        Share of the rows of each class (row) that has each label (column); rows sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fuzzytwin.doubts import find_doubtful
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> y[:2] = 1 - y[:2]
    >>> report = find_doubtful(X, y)
    >>> np.argsort(report.degrees)[:2]
    array([1, 0])
    """

    classes: Array
    codes: Array
    posterior: Array = field(repr=False)
    doubtful: Array
    deviation: float
    estimator: Any
    setting: str
    index: Any = None
    ids: Array | None = None
    id_name: str = "id"

    @cached_property
    def degrees(self) -> Array:
        """Return the degree to which each label is right."""
        own: Array = self.posterior[np.arange(len(self.codes)), self.codes]
        return np.clip(own, 0.0, 1.0)

    @cached_property
    def suggested(self) -> Array:
        """Return the likeliest other label of doubtful rows, and the own label of others."""
        others = self.posterior.copy()
        others[np.arange(len(self.codes)), self.codes] = -1.0
        labels: Array = self.classes[np.where(self.doubtful, others.argmax(axis=1), self.codes)]
        return labels

    @cached_property
    def order(self) -> Array:
        """Return all rows, the most doubtful first."""
        return np.argsort(self.degrees, kind="stable")

    @property
    def n_wrong(self) -> float:
        """Return the expected number of wrong labels."""
        return float((1.0 - self.degrees).sum())

    @property
    def n_wrong_interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the number of wrong labels."""
        reach = NORMAL_95 * self.deviation
        return max(0.0, self.n_wrong - reach), min(len(self.codes), self.n_wrong + reach)

    @cached_property
    def noise_matrix(self) -> Array:
        """Return the share of each class (row) that has each label (column)."""
        K = len(self.classes)
        counts = np.stack(
            [np.bincount(self.codes, self.posterior[:, j], minlength=K) for j in range(K)]
        )
        total = counts.sum(axis=1, keepdims=True)
        return np.divide(counts, total, out=np.eye(K), where=total > 0)

    def to_frame(self) -> Any:
        """Make a pandas frame: one line for each row, in the caller's order and index.

        Returns
        -------
        DataFrame
            With the column of names if there is one ("id" where its own name is taken), then
            "label", "suggested", "degree", "doubtful" and "rank" (1 is the most doubtful row).
        """
        pandas = need("pandas", None, "to_frame")
        rank = np.empty(len(self.codes), dtype=np.int64)
        rank[self.order] = np.arange(1, len(self.codes) + 1)
        columns = {
            "label": self.classes[self.codes],
            "suggested": self.suggested,
            "degree": self.degrees,
            "doubtful": self.doubtful,
            "rank": rank,
        }
        if self.ids is not None:
            name = "id" if self.id_name in ("row", *columns) else self.id_name
            columns = {name: self.ids, **columns}
        return pandas.DataFrame(columns, index=self.index)

    def summary(self) -> str:
        """Describe the report in a few lines."""
        n, (low, high) = len(self.codes), self.n_wrong_interval
        lines = [
            f"{self.doubtful.sum():,} of {n:,} labels are doubtful; about {self.n_wrong:,.0f} "
            f"({low:,.0f} to {high:,.0f}) are probably wrong.",
        ]
        for k, label in enumerate(self.classes[:12].tolist()):
            own = self.codes == k
            lines.append(
                f"  {label}: {own.sum():,} rows, {self.doubtful[own].sum():,} doubtful, "
                f"about {(1 - self.degrees[own]).sum():,.1f} wrong"
            )
        if len(self.classes) > 12:
            lines.append(f"  ... and {len(self.classes) - 12} more classes")
        return "\n".join([*lines, f"Found by {self.setting}."])

    def __repr__(self) -> str:
        low, high = self.n_wrong_interval
        return (
            f"DoubtsReport({len(self.codes)} rows, {len(self.classes)} classes, "
            f"{int(self.doubtful.sum())} doubtful, "
            f"n_wrong={self.n_wrong:.1f} ({low:.1f} to {high:.1f}))"
        )
