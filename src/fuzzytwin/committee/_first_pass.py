"""First pass of a committee over its rows: class totals, column statistics and a hashed sample.

The statistics of disjoint chunks add up, and rows in memory are a single chunk. Rows are sampled
and sorted by a hash of their content, so that neither their order nor the cuts between chunks
matter, except for duplicates. If rows are few, all of them are in the sample.

Weights are importances, in units of what is left out together (a group, or a row without groups):
with the totals W_g of these, the unit is sum W_g^2 / sum W_g, so that weights sum to the effective
number of units. Constants in numbers of rows (ridges, priors) then have the same effect for all
multiples of the weights, and for w copies of a row in one group and one row of weight w.

    stats_pass           statistics and sample of a chunk
    feature_sums_pass    sums over a chunk of the features of all members
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from fuzzytwin._duplicates import encode_groups
from fuzzytwin._passes import Classes, ClassTotals, Labels, Total, checked
from fuzzytwin._rows import Rows, check_finite, column_name, drop_empty_classes
from fuzzytwin._utils.types import Array
from fuzzytwin.core.blocks import row_slices
from fuzzytwin.core.hashing import copies_in_groups, row_hashes, unit_keys
from fuzzytwin.core.ridge import RidgeSums
from fuzzytwin.core.scaling import clipped, column_limits
from fuzzytwin.core.weights import mean_weight
from fuzzytwin.kernels import narrow

SAMPLE_ROWS = 10_000  # more rows than this are sampled
BLOCK_NUMBERS = 1 << 21  # size of a block of features, in numbers


class RowContainer:
    """Base of dataclasses whose fields are arrays with one entry per row, or None."""

    codes: Array

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, index: Any) -> Self:
        """Select rows by an index, a mask or a slice."""
        columns = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        return type(self)(*(None if column is None else column[index] for column in columns))


@dataclass(frozen=True, eq=False)
class WeightedRows(RowContainer):
    """Rows of positive weight, not yet scaled."""

    X: Any
    codes: Array  # class of each row; zeros for soft labels
    s: Array  # weights times membership degrees
    mu: Array | None = None  # soft labels
    groups: Array | None = None  # rows of a group are left out together
    place: Any = None  # index of each row in its chunk
    keys: Any = None  # hashes: rows with the smallest are sampled

    @classmethod
    def of(
        cls, X: Any, y: Labels, s: Any, mu: Any, groups: Any = None
    ) -> tuple[WeightedRows, Array]:
        """Return the rows of positive weight, and their index."""
        s = np.ones(len(y)) if s is None else s
        if mu is not None and mu.ndim == 1:
            s = s * mu
            mu = None
        codes = y.codes.astype(np.intp) if mu is None else np.zeros(len(y), dtype=np.intp)
        index = np.flatnonzero(s > 0)
        rows = cls(X, codes, s, mu, groups, np.arange(len(s)))
        if len(index) < len(s):
            rows = rows.take(index)
        return rows, index

    @property
    def weight(self) -> Array:
        """Return the weights of the rows, times the sums of soft labels, which may be below 1."""
        return self.s if self.mu is None else self.s * self.mu.sum(axis=1)

    def sorted(self) -> WeightedRows:
        """Sort rows by their keys and, within a group, by their content.

        This makes the fit independent of their order.
        """
        label = self.codes if self.mu is None else self.mu.max(axis=1)
        tie_breakers = () if self.groups is None else (self.s, label, row_hashes(self.X))
        return self.take(np.lexsort((*tie_breakers, self.keys)))

    def sample(self) -> WeightedRows:
        """Keep the rows with the smallest keys, in the order of the keys, if rows are many.

        Groups are kept whole or not at all.
        """
        if len(self) <= SAMPLE_ROWS:
            return self
        order = np.argsort(self.keys, kind="stable")
        sampled = order[:SAMPLE_ROWS]
        if self.groups is not None:
            complete = self.keys[sampled] != self.keys[order[SAMPLE_ROWS]]
            if complete.any():
                sampled = sampled[complete]
        return self.take(sampled)

    def __add__(self, other: WeightedRows) -> WeightedRows:
        names = [field.name for field in fields(self)]
        X, *pairs = [(getattr(self, name), getattr(other, name)) for name in names]
        join = sparse.vstack if sparse.issparse(self.X) else np.concatenate
        columns: Any = (None if a is None else np.concatenate([a, b]) for a, b in pairs)
        return WeightedRows(join(X), *columns)


@dataclass(frozen=True, eq=False)
class PreparedRows(RowContainer):
    """Scaled rows with targets and weights, to which members are fitted."""

    X: Any  # not scaled
    Z: Any  # with scaled columns
    codes: Array  # class of each row
    Y: Array  # targets (n, K), whose rows sum to 1
    row_weight: Array  # weights without class weights, in units of what is left out together
    s: Array  # weights times class weights, with the same sum
    groups: Array | None  # rows of a group are left out together


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

    def __call__(self, rows: WeightedRows) -> PreparedRows:
        """Prepare rows for the members. Soft labels are divided by their sum."""
        s = rows.weight / self.unit
        if rows.mu is None:
            codes = rows.codes
            Y = np.eye(len(self.factor))[codes]
        else:
            Y = rows.mu / rows.mu.sum(axis=1, keepdims=True)
            codes = Y.argmax(axis=1)
        Z = self.scales(rows.X)
        return PreparedRows(rows.X, Z, codes, Y, s, s * (Y @ self.factor), rows.groups)

    def sums(self, rows: WeightedRows, features: list[Any]) -> Array:
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
    rows: WeightedRows  # the sample
    dropped: Any = ()  # labels of total weight 0, once all chunks are read

    @classmethod
    def of(
        cls, labels: Array, rows: WeightedRows, columns: tuple[Any, ...] | None = None
    ) -> FirstPassStats:
        """Compute the statistics of rows of positive weight, of which there may be none."""
        X, s, mu = rows.X, rows.s, rows.mu
        weight = np.bincount(rows.codes, s, minlength=len(labels)) if mu is None else s @ mu
        v = rows.weight
        total = float(v.sum())
        share = v / (total or 1.0)
        low, high = np.full((2, X.shape[1]), [[np.inf], [-np.inf]])
        if sparse.issparse(X):  # columns are not centred, so that zeros stay zeros
            mean = np.zeros(X.shape[1])
            scatter = np.zeros(X.shape[1])
            for index in blocks(X.shape[0], X.nnz // max(X.shape[0], 1)):
                block = X[index].astype(np.float64)
                scatter += block.multiply(block).T @ v[index]
        else:
            mean = mean_about_first(X, share)
            scatter = np.zeros(X.shape[1])
            with np.errstate(over="ignore"):  # extreme values are clipped later, see `scales`
                for index in blocks(*X.shape):
                    scatter += v[index] @ (X[index] - mean) ** 2
        if len(v):
            ends = X.min(axis=0), X.max(axis=0)
            low, high = (end.toarray().ravel() if sparse.issparse(end) else end for end in ends)
        unit = mean_weight(v, rows.groups)
        keys = unit_keys(X, rows.codes if mu is None else mu.max(axis=1), v, rows.groups)
        return cls(
            labels, weight, X.shape[1], mu is not None, columns, len(v), unit, total, mean,
            scatter, low, high, replace(rows, keys=keys).sample(),
        )  # fmt: skip

    def __add__(self, other: FirstPassStats) -> FirstPassStats:
        labels, weight, places = self.joined(other)
        total = self.total + other.total
        share = other.total / (total or 1.0)
        with np.errstate(over="ignore"):
            shift = other.mean - self.mean
            scatter = self.scatter + other.scatter + self.total * share * shift**2
        samples = [
            part.rows if part.soft else replace(part.rows, codes=place[part.rows.codes])
            for part, place in zip((self, other), places, strict=True)
        ]
        return replace(
            self, labels=labels, weight=weight, count=self.count + other.count,
            unit=self.unit + share * (other.unit - self.unit), total=total,
            mean=self.mean + share * shift,
            scatter=scatter, low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high), rows=(samples[0] + samples[1]).sample(),
        )  # fmt: skip

    @property
    def sampled(self) -> bool:
        """Whether there are more rows than the sample holds."""
        return len(self.rows) < self.count

    @cached_property
    def scales(self) -> Scales:
        """Scaling of the columns, from all rows, or from the sample if a column has extreme values.

        Means and deviations are rounded to seven digits, so that scaled columns do not depend on
        the last bits of sums, which change with the order of rows and the cuts between chunks.
        """
        rows = self.rows
        v = rows.s if rows.mu is None else rows.s * rows.mu.sum(axis=1)
        limits = column_limits(rows.X, v, self.low, self.high)
        mean = self.mean.copy()
        deviation = np.sqrt(self.scatter / self.total)
        clip = np.flatnonzero((self.low < limits[0]) | (self.high > limits[1]))
        if len(clip):
            columns = clipped(rows.X[:, clip], limits[:, clip])
            mean[clip], deviation[clip] = _moments(columns, v / v.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            unit = np.ldexp(1.0, np.frexp(deviation)[1] - 24)
            rounded = np.round(mean / unit) * unit, np.round(deviation / unit) * unit
        # A constant column becomes 0, or 1 in sparse rows, which are not centred.
        constant = self.low == self.high
        size = np.abs(self.low - mean)
        mean, deviation = np.where(constant, [mean, np.where(size > 0, size, 1.0)], rounded)
        return Scales(mean, deviation, limits)

    def row_scaler(self, factor: Array) -> RowScaler:
        """Return the scaler of rows, for class weights `factor`."""
        return self.row_scaler_with(self.scales, factor)

    def row_scaler_with(self, scales: Scales, factor: Array) -> RowScaler:
        """Return the scaler of rows with other scales than those of these rows."""
        shares = self.weight / self.weight.max()
        return RowScaler(scales, factor * (shares.sum() / (shares @ factor)), self.unit)

    def raise_overflow(self, names: Any) -> None:
        """Raise a ValueError if squares of a column overflow or underflow."""
        deviation = self.scales.deviation
        bad = np.flatnonzero(~np.isfinite(deviation) | (deviation == 0))
        if len(bad):
            size, event, remedy = "large", "overflow", "divide"
            if deviation[bad[0]] == 0:
                size, event, remedy = "small", "underflow", "multiply"
            raise ValueError(
                f"{column_name(names, bad[0])} of X is so {size} that its squares {event} in "
                f"double precision; {remedy} it by a power of ten."
            )


def mean_about_first(X: Array, share: Array) -> Array:
    """Compute the mean of rows whose shares sum to 1, in float64 and without a copy of the rows.

    It is summed about the first row, so that the mean of a constant column is exactly its value.
    """
    first, shift = np.zeros((2, X.shape[1]))
    first[:] = X[0] if len(X) else 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for index in blocks(*X.shape):
            shift += share[index] @ (X[index] - first)
        return first + shift


def _moments(X: Any, share: Array) -> tuple[Array, Array]:
    """Compute weighted means and deviations of columns, or deviations about 0 of sparse ones."""
    if sparse.issparse(X):
        return np.zeros(X.shape[1]), np.sqrt(X.multiply(X).T @ share)
    mean = mean_about_first(X, share)
    return mean, np.sqrt(share @ (X - mean) ** 2)


# Sums features over all rows, prepared by a scaler: see `RowScaler.sums`.
SumFeatures = Callable[[RowScaler, list[Any]], Array]


def run_first_pass(
    total: Total, *, names: Any = None, classes: Array | None = None
) -> tuple[FirstPassStats, SumFeatures]:
    """Read all chunks once. Return their statistics, by class, and a function that sums features.

    That function reads the chunks again only if the sample does not hold all rows. `names` are
    those of the columns, for error messages. If `classes` are given, each must have rows.
    """
    stats: Any = total(stats_pass, names)
    if stats is None or not stats.count:
        raise ValueError("X has no rows of positive weight; give some of at least two classes.")
    by_label = stats.classes()
    empty = [] if classes is None else np.setdiff1d(classes, by_label.classes).tolist()
    if empty:
        raise ValueError(
            f"classes holds {empty[0]!r}, of which there are no rows; a committee learns each "
            "class from its rows, so leave this one out."
        )
    stats.raise_overflow(names)
    stats = replace(
        stats,
        labels=by_label.classes,
        rows=_by_class(stats.rows, by_label).sorted(),
        weight=stats.weight[by_label.index if stats.soft else by_label.index >= 0],
        dropped=np.setdiff1d(by_label.labels, by_label.classes),
    )

    def sum_features(scaler: RowScaler, features: list[Any]) -> Array:
        if not stats.sampled:
            return scaler.sums(stats.rows, features)
        return np.asarray(total(feature_sums_pass, by_label, scaler, features))

    return stats, sum_features


def _by_class(rows: WeightedRows, by_label: Classes) -> WeightedRows:
    """Replace codes or columns of labels by those of classes."""
    if rows.mu is not None:
        return replace(rows, mu=rows.mu[:, by_label.index])
    return replace(rows, codes=by_label.index[rows.codes])


def stats_pass(
    names: Any, X: Any, y: Any, s: Any, mu: Any, groups: Any = None
) -> FirstPassStats | None:
    """Compute the statistics of a chunk. Columns of soft labels are matched to classes later."""
    X, y, s, mu = checked(X, y, s, mu)
    if not len(y):
        return None
    check_finite(X, names)
    return FirstPassStats.of(y.values, WeightedRows.of(X, y, s, mu, groups)[0], y.columns)


def feature_sums_pass(
    by_label: Classes, scaler: RowScaler, features: Any, X: Any, y: Any, s: Any, mu: Any, *_: Any
) -> Array | None:
    """Sum the features of all members over a chunk."""
    X, y, s, mu = checked(X, y, s, mu)
    rows = WeightedRows.of(X, Labels(by_label.labels, by_label.places(y)), s, mu)[0]
    return scaler.sums(_by_class(rows, by_label), features) if len(rows) else None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows in memory as a single chunk, in which copies of a row in one group are merged.

    The merged row has the weight of all copies. As these are left out together, results stay the
    same.
    """

    total: Total
    X: Any
    place: Array | None = None  # index in the chunk of each original row; None if none is merged

    def every_row(self, values: Array) -> Array:
        """Return the values of all original rows, from those of the rows of the chunk."""
        return values if self.place is None else values[self.place]


def as_single_chunk(rows: Rows, groups: Any = None) -> tuple[Rows, Chunk]:
    """Turn rows in memory into a single chunk, with degrees multiplied into the weights.

    Classes of total weight 0 are dropped. A warning is given if all rows of a class are in one
    group.
    """
    if rows.degree is not None and rows.degree.ndim == 1:
        s = rows.degree if rows.weight is None else rows.weight * rows.degree
        if not s.any():
            raise ValueError(
                "membership is zero for every sample of positive weight; give some of them a "
                "degree above 0."
            )
        classes, codes, _ = drop_empty_classes(rows.classes, rows.codes, s, None)
        rows = replace(rows, weight=s, degree=None, classes=classes, codes=codes)
    merged = rows
    copies = None
    if groups is not None:
        groups = encode_groups(groups, len(rows), rows.codes, rows.classes, stacklevel=5)
        copies = copies_in_groups(rows.X, rows.codes, rows.weight, rows.degree, groups)
    if copies is not None:
        first, place = copies
        weight = np.bincount(place, rows.weight).astype(float)
        merged = replace(rows.take(first), weight=weight)
        groups = groups[first]
    labels = Labels(merged.classes, merged.codes)

    def total(function: Callable[..., Any], *shared: Any) -> Any:
        return function(*shared, merged.X, labels, merged.weight, merged.degree, groups)

    return rows, Chunk(total, merged.X, None if copies is None else copies[1])


def blocks(n: int, width: int) -> list[slice]:
    """Cut rows into blocks whose features fit in a limited amount of memory."""
    return row_slices(n, width, BLOCK_NUMBERS)


def iter_group_blocks(groups: Array | None, n: int, width: int) -> Iterator[Any]:
    """Cut rows as `blocks` does, but keep groups together."""
    if groups is None:
        yield from blocks(n, width)
        return
    order = np.argsort(groups, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(groups[order])) + 1, n)
    start = 0
    for block in blocks(n, width):
        end = int(ends[np.searchsorted(ends, block.stop)])
        if end > start:
            yield order[start:end]
        start = end
