"""First pass of a committee over its rows: class totals, column statistics and a hashed sample.

The statistics of disjoint chunks add up, and rows in memory are a single chunk. Rows are sampled
and sorted by a hash of their content, so that neither their order nor the cuts between chunks
matter, except for duplicates. Up to `KEPT_ROWS` rows are kept, from which trees learn, and the
first `SAMPLE_ROWS` of these are the sample, from which everything else is chosen. If rows are few,
all of them are in the sample.

Weights are importances, in units of what is left out together (a group, or a row without groups):
with the totals W_g of these, the unit is sum W_g^2 / sum W_g, so that weights sum to the effective
number of units. Constants in numbers of rows (ridges, priors) then have the same effect for all
multiples of the weights, and for w copies of a row in one group and one row of weight w.

    stats_pass           statistics and sample of a chunk
    feature_sums_pass    sums over a chunk of the features of all members
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fuzzytwin._passes import Classes, ClassTotals, SumOverChunks
from fuzzytwin._rows import Rows, check_finite, column_name
from fuzzytwin._utils.types import Array
from fuzzytwin.committee._members import Features, RidgeProblem
from fuzzytwin.core.blocks import merge_means, row_slices
from fuzzytwin.core.hashing import (
    class_ranks,
    content_keys,
    copies_in_groups,
    group_sums,
    unit_keys,
)
from fuzzytwin.core.ridge import RidgeSums
from fuzzytwin.core.scaling import clipped, column_limits
from fuzzytwin.core.weights import mean_weight
from fuzzytwin.kernels._landmark_map import narrow

SAMPLE_ROWS = 10_000  # more rows than this are sampled
KEPT_ROWS = 200_000  # more rows than this, or 128 MiB of numbers, are not all kept
KEPT_NUMBERS = 1 << 24
BLOCK_NUMBERS = 1 << 21  # size of a block of features, in numbers

# Sums the features of members over all rows, prepared by a scaler: see `RowScaler.sums`.
SumFeatures = Callable[["RowScaler", list[Features]], Array]


def run_first_pass(
    sum_over_chunks: SumOverChunks, *, names: Any = None, classes: Array | None = None
) -> tuple[FirstPassStats, SumFeatures]:
    """Read all chunks once. Return their statistics, by class, and a function that sums features.

    That function reads the chunks again only if the sample does not hold all rows. `names` are
    those of the columns, for error messages. Each of the `classes`, if not None, must have rows.
    """
    stats: Any = sum_over_chunks(stats_pass)
    if stats is None or not stats.count:
        raise ValueError(
            "sample_weight or membership is zero for every row; give rows of at least two classes "
            "positive values."
        )
    by_label = stats.classes()
    empty = [] if classes is None else np.setdiff1d(classes, by_label.classes).tolist()
    if empty:
        raise ValueError(
            f"classes holds {empty[0]!r}, but no row has this label; remove it, because a "
            "committee learns each class from its rows."
        )
    stats = stats.by_class(by_label)
    stats.check_scales(names)

    def sum_features(scaler: RowScaler, features: list[Features]) -> Array:
        if stats.is_complete:
            return scaler.sums(stats.rows, features)
        return np.asarray(sum_over_chunks(feature_sums_pass, by_label, scaler, features))

    return stats, sum_features


def stats_pass(rows: Rows) -> FirstPassStats | None:
    """Compute the statistics of a chunk."""
    if not rows.X.shape[0]:
        return None
    check_finite(rows.X, rows.names)
    return FirstPassStats.of(rows)


def feature_sums_pass(
    by_label: Classes, scaler: RowScaler, features: list[Features], rows: Rows
) -> Array | None:
    """Sum the features of all members over a chunk."""
    rows, _ = used_rows(rows.with_classes(by_label.labels))
    return scaler.sums(_by_class(rows, by_label), features) if len(rows) else None


@dataclass(frozen=True, eq=False)
class FirstPassStats(ClassTotals):
    """Statistics and sample of rows. Those of disjoint rows can be added."""

    count: int  # rows of positive weight
    unit: float  # mean weight of a row or group, as in the docstring of the module
    total: float  # sum of the weights
    mean: Array  # of each column, like the next three
    scatter: Array
    low: Array
    high: Array
    rows: Rows  # those that are kept
    keys: Array  # hashes of these rows, the smallest hashes of all rows
    index: Array  # of each of these rows in its chunk
    n_sampled: int = 0  # rows of the sample, once all chunks are read, like the next
    by_label: Classes | None = None  # class of each label

    @classmethod
    def of(cls, chunk: Rows) -> FirstPassStats:
        """Compute the statistics of rows, of which some may have a weight of 0."""
        rows, index = used_rows(chunk)
        weight = class_totals(rows)
        v = label_weights(rows)
        unit = mean_weight(v, rows.groups)
        mean, scatter = _column_sums(rows.X, v)
        low, high = _column_range(rows.X)
        keys = unit_keys(rows.X, _label_order(rows), v, rows.groups)
        kept = _smallest_keys(keys, rows.groups, _most_rows(rows.X))
        return cls(
            labels=rows.classes,
            weight=weight,
            n_features=rows.X.shape[1],
            soft=rows.soft,
            count=len(rows),
            unit=unit,
            total=float(v.sum()),
            mean=mean,
            scatter=scatter,
            low=low,
            high=high,
            rows=rows.take(kept),
            keys=keys[kept],
            index=index[kept],
        )

    def __add__(self, other: FirstPassStats) -> FirstPassStats:
        labels, weight, _ = self.joined(other)
        with np.errstate(over="ignore"):
            total, mean, between, gap = merge_means(self.total, self.mean, other.total, other.mean)
            scatter = self.scatter + other.scatter + between * gap**2
        share = other.total / (total or 1.0)
        rows = self.rows + other.rows
        keys = np.concatenate([self.keys, other.keys])
        kept = _smallest_keys(keys, rows.groups, _most_rows(rows.X))
        return replace(
            self,
            labels=labels,
            weight=weight,
            count=self.count + other.count,
            unit=self.unit + share * (other.unit - self.unit),
            total=total,
            mean=mean,
            scatter=scatter,
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            rows=rows.take(kept),
            keys=keys[kept],
            index=np.concatenate([self.index, other.index])[kept],
        )

    def by_class(self, by_label: Classes) -> FirstPassStats:
        """Replace labels by classes, and sort the rows that are kept.

        The sample comes first. Rows are sorted by group and content, which makes the fit
        independent of the order of rows and, unless there are more rows than are kept, of columns.
        """
        rows = self.rows
        content = content_keys(rows.X)
        label = _label_order(rows)
        if not rows.soft:
            label = class_ranks(content, rows.codes)[rows.codes]
        by_group = content if rows.groups is None else group_sums(content, rows.groups)[rows.groups]
        is_other = np.ones(len(rows), dtype=bool)
        is_other[_smallest_keys(self.keys, rows.groups, SAMPLE_ROWS)] = False
        order = np.lexsort((rows.weights, label, content, by_group, is_other))
        return replace(
            self,
            labels=by_label.classes,
            weight=self.weight[by_label.index if self.soft else by_label.index >= 0],
            rows=_by_class(rows.take(order), by_label),
            keys=self.keys[order],
            index=self.index[order],
            n_sampled=len(rows) - int(is_other.sum()),
            by_label=by_label,
        )

    def training_rows(self, chunk: Rows) -> tuple[Rows, Array]:
        """Return the training rows among the rows of the only chunk, and their index."""
        if self.is_complete:
            return self.rows, self.index
        assert self.by_label is not None
        rows, index = used_rows(chunk)
        return _by_class(rows, self.by_label), index

    @property
    def dropped(self) -> Array:
        """Return the labels of total weight 0, once all chunks are read."""
        assert self.by_label is not None
        return np.setdiff1d(self.by_label.labels, self.by_label.classes)

    @property
    def is_complete(self) -> bool:
        """Return whether all rows are kept."""
        return len(self.rows) == self.count

    @cached_property
    def sample(self) -> Rows:
        """Return the rows with the smallest keys, once all chunks are read."""
        return self.rows.take(slice(self.n_sampled))

    @property
    def sampled(self) -> bool:
        """Return whether there are more rows than the sample holds."""
        return self.n_sampled < self.count

    @cached_property
    def scales(self) -> Scales:
        """Return the scaling of the columns, by all rows, or by the sample for extreme values.

        Means and deviations are rounded to seven digits, so that scaled columns do not depend on
        the last bits of sums, which change with the order of rows and the cuts between chunks.
        """
        X = self.sample.X
        v = label_weights(self.sample)
        limits = column_limits(X, v, self.low, self.high)
        mean = self.mean.copy()
        deviation = np.sqrt(self.scatter / self.total)
        has_outliers = np.flatnonzero((self.low < limits[0]) | (self.high > limits[1]))
        if len(has_outliers):
            inside = clipped(X[:, has_outliers], limits[:, has_outliers])
            mean[has_outliers], scatter = _column_sums(inside, v / v.sum())
            deviation[has_outliers] = np.sqrt(scatter)
        with np.errstate(over="ignore", invalid="ignore"):
            digit = np.ldexp(1.0, np.frexp(deviation)[1] - 24)
            rounded_mean = np.round(mean / digit) * digit
            rounded_deviation = np.round(deviation / digit) * digit
        # A constant column becomes 0, or 1 in sparse rows, which are not centred: zeros stay zeros.
        constant = self.low == self.high
        mean = np.where(constant, mean, rounded_mean)
        if sparse.issparse(X):
            mean = np.zeros(X.shape[1])
        size = np.abs(self.low - mean)
        deviation = np.where(constant, np.where(size > 0, size, 1.0), rounded_deviation)
        return Scales(mean, deviation, limits)

    def row_scaler(self, class_weight: Array, scales: Scales | None = None) -> RowScaler:
        """Return the scaler of rows, by default with the scales of these rows."""
        shares = self.weight / self.weight.max()
        factor = class_weight * (shares.sum() / (shares @ class_weight))
        return RowScaler(self.scales if scales is None else scales, factor, self.unit)

    def check_scales(self, names: Any) -> None:
        """Raise a ValueError if squares of a column overflow or underflow."""
        deviation = self.scales.deviation
        bad = np.flatnonzero(~np.isfinite(deviation) | (deviation == 0))
        if len(bad):
            problem = "large that its squares overflow in double precision; divide"
            if deviation[bad[0]] == 0:
                problem = "small that its squares underflow in double precision; multiply"
            raise ValueError(
                f"{column_name(names, bad[0])} of X is so {problem} it by a power of ten."
            )


class Scales(NamedTuple):
    """Scaling of columns: clip to the limits (2, d), subtract the mean, divide by the deviation."""

    mean: Array
    deviation: Array
    limits: Array

    def __call__(self, X: Any) -> Any:
        """Scale the columns, in float64. Sparse rows stay sparse if the mean is zero."""
        if sparse.issparse(X) and not self.mean.any():
            return narrow(type(X)(clipped(X, self.limits).multiply(1.0 / self.deviation)))
        rows = X.toarray() if sparse.issparse(X) else X
        rows = clipped(np.asarray(rows, dtype=np.float64), self.limits)
        return (rows - self.mean) / self.deviation


@dataclass(frozen=True, eq=False)
class RowScaler:
    """Scales rows and computes their targets and weights."""

    scales: Scales
    factor: Array  # class weights, whose mean over all rows is 1
    unit: float  # mean weight of a row or group, as in the docstring of the module

    def __call__(self, rows: Rows) -> RidgeProblem:
        """Prepare rows for the members: scale columns, and compute targets and weights."""
        return replace(self.unscaled(rows), Z=self.scales(rows.X))

    def unscaled(self, rows: Rows) -> RidgeProblem:
        """Compute targets and weights of rows. Soft labels are divided by their sum."""
        codes = rows.codes
        if rows.degree is None:
            Y = np.eye(len(self.factor))[codes]
        else:
            Y = rows.degree / rows.degree.sum(axis=1, keepdims=True)
            codes = Y.argmax(axis=1)
        weight = label_weights(rows) / self.unit
        return RidgeProblem(rows.X, Y, codes, weight * (Y @ self.factor), weight, rows.groups)

    def sums(self, rows: Rows, features: list[Features]) -> Array:
        """Sum up the features of all members.

        Returns a `RidgeSums` for each member, in an array of objects. Such arrays can be added.
        """
        width = max(rows.X.shape[1], *(part.width for part in features))
        sums = []
        for index in blocks(len(rows), width):
            block = self(rows.take(index))
            distances = dict[str, Array]()
            sums.append([RidgeSums.of(f(block.Z, distances), block.Y, block.s) for f in features])
        return np.asarray(np.array(sums, dtype=object).sum(axis=0))


def used_rows(rows: Rows) -> tuple[Rows, Array]:
    """Return the rows of positive weight, with degrees multiplied into it, and their index."""
    rows = multiply_degrees(rows)
    index = np.flatnonzero(rows.weights > 0)
    return (rows if len(index) == len(rows) else rows.take(index)), index


def multiply_degrees(rows: Rows) -> Rows:
    """Multiply degrees (n,) into the weights. Soft labels do not change."""
    if rows.degree is None or rows.degree.ndim == 2:
        return rows
    return replace(rows, weight=rows.weights * rows.degree, degree=None)


def label_weights(rows: Rows) -> Array:
    """Return the weights of rows, times the sums of soft labels, which may be below 1."""
    return rows.weights if rows.degree is None else rows.weights * rows.degree.sum(axis=1)


def class_totals(rows: Rows) -> Array:
    """Return the total weight of each label, or of each column of soft labels."""
    if rows.degree is not None:
        return np.asarray(rows.weights @ rows.degree)
    return np.bincount(rows.codes, rows.weights, minlength=len(rows.classes))


def _label_order(rows: Rows) -> Array:
    """Return numbers that order rows of equal content by their labels."""
    return rows.codes if rows.degree is None else np.asarray(rows.degree.max(axis=1))


def _by_class(rows: Rows, by_label: Classes) -> Rows:
    """Replace codes, or columns of soft labels, by those of classes."""
    classes = by_label.classes
    if rows.degree is None:
        return replace(rows, codes=by_label.index[rows.codes], classes=classes)
    degree = rows.degree[:, by_label.index]
    return replace(rows, codes=degree.argmax(axis=1), degree=degree, classes=classes)


def _most_rows(X: Any) -> int:
    """Return the number of rows that are kept. Trees, for which they are, take no sparse rows."""
    if sparse.issparse(X):
        return SAMPLE_ROWS
    return max(SAMPLE_ROWS, min(KEPT_ROWS, KEPT_NUMBERS // max(X.shape[1], 1)))


def _smallest_keys(keys: Array, groups: Array | None, most: int) -> Array | slice:
    """Select the rows with the smallest keys, in the order of the keys, if there are more.

    Groups are selected whole or not at all.
    """
    if len(keys) <= most:
        return slice(None)
    order = np.argsort(keys, kind="stable")
    kept = order[:most]
    if groups is not None:
        complete = keys[kept] != keys[order[most]]
        if complete.any():
            kept = kept[complete]
    return kept


def _column_sums(X: Any, v: Array) -> tuple[Array, Array]:
    """Compute weighted means and scatters of columns.

    Means are summed about the first row, so that the mean of a constant column is exactly its
    value.
    """
    n, d = X.shape
    mean, scatter = np.zeros((2, d))
    if sparse.issparse(X):
        return _sparse_column_sums(X, v)
    first = np.zeros(d)
    first[:] = X[0] if n else 0.0
    share = v / (v.sum() or 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # extreme values are clipped later
        for index in blocks(n, d):
            mean += share[index] @ (X[index] - first)
        mean += first
        for index in blocks(n, d):
            scatter += v[index] @ (X[index] - mean) ** 2
    return mean, scatter


def _sparse_column_sums(X: Any, v: Array) -> tuple[Array, Array]:
    """Compute weighted means and scatters of sparse columns, without a dense copy."""
    d = X.shape[1]
    total = v.sum()
    weight = np.repeat(v, np.diff(X.indptr))  # of each stored number
    data = X.data.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # extreme values are clipped later
        mean = np.bincount(X.indices, weight * data, minlength=d) / (total or 1.0)
        centred = data - mean[X.indices]
        scatter = np.bincount(X.indices, weight * centred * centred, minlength=d)
        zeros = np.maximum(total - np.bincount(X.indices, weight, minlength=d), 0.0)
        return mean, scatter + zeros * mean * mean


def _column_range(X: Any) -> tuple[Array, Array]:
    """Return the minimum and maximum of each column, infinite if there are no rows."""
    if not X.shape[0]:
        return np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    low, high = X.min(axis=0), X.max(axis=0)
    if sparse.issparse(X):
        return low.toarray().ravel(), high.toarray().ravel()
    return low, high


def merge_copies(rows: Rows) -> tuple[Rows, Array]:
    """Merge copies of a row in one group, and return the index of each row in the merged rows.

    A merged row has the weight of all copies. As these are left out together, results stay the
    same.
    """
    rows = multiply_degrees(rows)
    if rows.groups is not None:
        copies = copies_in_groups(rows.X, rows.codes, rows.weight, rows.degree, rows.groups)
        if copies is not None:
            first, index = copies
            weight = np.bincount(index, rows.weight).astype(float)
            return replace(rows.take(first), weight=weight), index
    return rows, np.arange(len(rows))


def blocks(n: int, width: int, groups: Array | None = None) -> Iterator[Any]:
    """Split rows into blocks whose features fit in a limited amount of memory.

    Rows of a group stay together.
    """
    slices = row_slices(n, width, BLOCK_NUMBERS)
    if groups is None:
        yield from slices
        return
    order = np.argsort(groups, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(groups[order])) + 1, n)
    start = 0
    for block in slices:
        end = int(ends[np.searchsorted(ends, block.stop)])
        if end > start:
            yield order[start:end]
        start = end
