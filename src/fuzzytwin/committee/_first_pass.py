"""Rows of a committee: a first look at them, and what its members are told of them.

A look has labels, means and deviations of columns, and a sample of rows. Looks at disjoint rows add
up, so rows in memory are one chunk among others. Rows are sampled and sorted by a hash of their
content, so that neither their order nor how they are cut into chunks matters, except for rows that
are equal. Few rows are all in the sample.

Weights are importances, in units of what is left out together (a group, or a row without groups):
with totals W_g of these, the unit is sum W_g^2 / sum W_g, so that weights sum up to the effective
number of units. What is chosen in numbers of rows (ridges, priors) is then the same for all
multiples of the weights, and for w copies of a row in one group and one row of weight w.

    look_pass     a look at each chunk
    sum_pass      sums of the features of all members over each chunk
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

SAMPLE_ROWS = 10_000  # of more rows, a sample is kept
BLOCK_NUMBERS = 1 << 21  # features of rows that are held at once


class Table:
    """A dataclass of arrays with one entry for each row, or None."""

    codes: Array

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, index: Any) -> Self:
        """Select some of the rows."""
        parts = (getattr(self, part.name) for part in fields(self))  # type: ignore[arg-type]
        return type(self)(*(None if part is None else part[index] for part in parts))


@dataclass(frozen=True, eq=False)
class WeightedRows(Table):
    """Rows of positive weight, as they were given."""

    X: Any
    codes: Array  # class of each row; zeros for soft labels
    s: Array  # weights; degrees are part of them
    mu: Array | None = None  # soft labels
    groups: Array | None = None  # rows of one number are left out together
    place: Any = None  # of each row in its chunk
    keys: Any = None  # rows of least keys are sampled

    @classmethod
    def of(
        cls, X: Any, y: Labels, s: Any, mu: Any, groups: Any = None
    ) -> tuple[WeightedRows, Array]:
        """Return the rows of positive weight, and which these are."""
        s = np.ones(len(y)) if s is None else s
        s, mu = (s, mu) if mu is None or mu.ndim == 2 else (s * mu, None)
        codes = y.codes.astype(np.intp) if mu is None else np.zeros(len(y), dtype=np.intp)
        index = np.flatnonzero(s > 0)
        rows = cls(X, codes, s, mu, groups, np.arange(len(s)))
        return rows if len(index) == len(s) else rows.take(index), index

    @property
    def weight(self) -> Array:
        """Return the weights of the rows; soft labels may sum to less than 1."""
        return self.s if self.mu is None else self.s * self.mu.sum(axis=1)

    def sorted(self) -> WeightedRows:
        """Sort rows by their keys and, within a group, by their content.

        So nothing depends on the order in which they came.
        """
        label = self.codes if self.mu is None else self.mu.max(axis=1)
        within = () if self.groups is None else (self.s, label, row_hashes(self.X))
        return self.take(np.lexsort((*within, self.keys)))

    def sample(self) -> WeightedRows:
        """Keep the rows of least keys, in their order, if rows are many; no group in part."""
        if len(self) <= SAMPLE_ROWS:
            return self
        order = np.argsort(self.keys, kind="stable")
        chosen, last = order[:SAMPLE_ROWS], self.keys[order[SAMPLE_ROWS]]
        if self.groups is not None and (self.keys[chosen] != last).any():
            chosen = chosen[self.keys[chosen] != last]
        return self.take(chosen)

    def __add__(self, other: WeightedRows) -> WeightedRows:
        names = [part.name for part in fields(self)]
        X, *pairs = [(getattr(self, name), getattr(other, name)) for name in names]
        join = sparse.vstack if sparse.issparse(self.X) else np.concatenate
        rest: Any = (None if one is None else np.concatenate([one, two]) for one, two in pairs)
        return WeightedRows(join(X), *rest)


@dataclass(frozen=True, eq=False)
class PreparedRows(Table):
    """Rows as members learn from them."""

    X: Any  # as given
    Z: Any  # with columns scaled
    codes: Array  # class of each row
    Y: Array  # targets; rows sum to 1
    plain: Array  # weights without class weights, in units of what is left out together
    s: Array  # and with them; the sum is the same
    groups: Array | None  # rows of one number are left out together


class Scales(NamedTuple):
    """How columns are scaled: clipped to the limits (2, d), less their mean, over the deviation."""

    mean: Array
    deviation: Array
    limits: Array

    def __call__(self, X: Any) -> Any:
        """Scale the columns of rows, in float64; a mean of zeros leaves sparse rows sparse."""
        if sparse.issparse(X) and not self.mean.any():
            return narrow(type(X)(clipped(X, self.limits).multiply(1.0 / self.deviation)))
        rows = X.toarray() if sparse.issparse(X) else X
        rows = clipped(np.asarray(rows, dtype=np.float64), self.limits)
        return (rows - self.mean) / self.deviation


@dataclass(frozen=True, eq=False)
class RowScaler:
    """Scales rows, and gives them targets and weights."""

    scales: Scales
    factor: Array  # class weights; the mean over all rows is 1
    unit: float  # the weight of a row or group: see above

    def __call__(self, rows: WeightedRows) -> PreparedRows:
        """Turn rows as given into those that members learn from; soft labels may sum to less."""
        s, codes, Y = rows.weight / self.unit, rows.codes, np.eye(len(self.factor))[rows.codes]
        if rows.mu is not None:
            Y = rows.mu / rows.mu.sum(axis=1, keepdims=True)
            codes = Y.argmax(axis=1)
        Z = self.scales(rows.X)
        return PreparedRows(rows.X, Z, codes, Y, s, s * (Y @ self.factor), rows.groups)

    def sums(self, rows: WeightedRows, features: list[Any]) -> Array:
        """Sum up the features of all members: a `RidgeSums` of each, in an array that adds up."""
        width = max(rows.X.shape[1], *(part.width for part in features))
        sums = []
        for here in blocks(len(rows), width):
            block, known = self(rows.take(here)), dict[str, Array]()
            sums.append([RidgeSums.of(f(block.Z, known), block.Y, block.s) for f in features])
        return np.asarray(np.array(sums, dtype=object).sum(axis=0))


@dataclass(frozen=True, eq=False)
class FirstPassStats(ClassTotals):
    """What the first pass finds out about rows; it adds up."""

    count: int  # of rows of positive weight
    unit: float  # the weight of a row or group: see above
    total: float  # sum of the weights
    mean: Array  # of each column, as the next three
    scatter: Array
    low: Array
    high: Array
    rows: WeightedRows  # sampled
    dropped: Any = ()  # labels without weight, once classes are known

    @classmethod
    def of(
        cls, labels: Array, rows: WeightedRows, columns: tuple[Any, ...] | None = None
    ) -> FirstPassStats:
        """Look at rows of positive weight, of which there may be none."""
        X, s, mu = rows.X, rows.s, rows.mu
        weight = np.bincount(rows.codes, s, minlength=len(labels)) if mu is None else s @ mu
        v = rows.weight
        total = float(v.sum())
        share = v / (total or 1.0)
        low, high = np.full((2, X.shape[1]), [[np.inf], [-np.inf]])
        if sparse.issparse(X):  # columns are not centred: zeros stay zeros
            mean = np.zeros(X.shape[1])
            scatter = np.zeros(X.shape[1])
            for here in blocks(X.shape[0], X.nnz // max(X.shape[0], 1)):
                some = X[here].astype(np.float64)
                scatter += some.multiply(some).T @ v[here]
        else:
            mean = mean_about_first(X, share)
            scatter = np.zeros(X.shape[1])
            with np.errstate(over="ignore"):  # a column of values far off is scaled without them
                for here in blocks(*X.shape):
                    scatter += v[here] @ (X[here] - mean) ** 2
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
            gap = other.mean - self.mean
            scatter = self.scatter + other.scatter + self.total * share * gap**2
        one, two = (
            part.rows if part.soft else replace(part.rows, codes=place[part.rows.codes])
            for part, place in zip((self, other), places, strict=True)
        )
        return replace(
            self, labels=labels, weight=weight, count=self.count + other.count,
            unit=self.unit + share * (other.unit - self.unit), total=total,
            mean=self.mean + share * gap,
            scatter=scatter, low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high), rows=(one + two).sample(),
        )  # fmt: skip

    @property
    def sampled(self) -> bool:
        """Return whether some rows are not in the sample."""
        return len(self.rows) < self.count

    @cached_property
    def scales(self) -> Scales:
        """Return how columns are scaled: by all rows, or by the sample if some values are far off.

        Means and deviations have seven digits. So the last bits of sums, which depend on the order
        of rows and on how they are cut into chunks, are not in the scaled columns.
        """
        rows = self.rows
        v = rows.s if rows.mu is None else rows.s * rows.mu.sum(axis=1)
        limits = column_limits(rows.X, v, self.low, self.high)
        mean, deviation = self.mean.copy(), np.sqrt(self.scatter / self.total)
        far = np.flatnonzero((self.low < limits[0]) | (self.high > limits[1]))
        if len(far):
            near = clipped(rows.X[:, far], limits[:, far])
            mean[far], deviation[far] = _moments(near, v / v.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            unit = np.ldexp(1.0, np.frexp(deviation)[1] - 24)
            rounded = np.round(mean / unit) * unit, np.round(deviation / unit) * unit
        # A constant column becomes 0; of sparse rows, which are not centred, 1.
        constant = self.low == self.high
        size = np.abs(self.low - mean)
        mean, deviation = np.where(constant, [mean, np.where(size > 0, size, 1.0)], rounded)
        return Scales(mean, deviation, limits)

    def prepare(self, factor: Array) -> RowScaler:
        """Return what rows are prepared by."""
        return self.prepared(self.scales, factor)

    def prepared(self, scales: Scales, factor: Array) -> RowScaler:
        """Return what rows are prepared by: given scales, and weights in units of these rows."""
        shares = self.weight / self.weight.max()
        return RowScaler(scales, factor * (shares.sum() / (shares @ factor)), self.unit)

    def raise_overflow(self, names: Any) -> None:
        """Refuse columns whose squares are too large or too small for a double."""
        deviation = self.scales.deviation
        bad = np.flatnonzero(~np.isfinite(deviation) | (deviation == 0))
        if len(bad):
            small = deviation[bad[0]] == 0
            size, passes = ("small", "underflow") if small else ("large", "overflow")
            raise ValueError(
                f"{column_name(names, bad[0])} of X is so {size} that its squares {passes} in "
                f"double precision; {'multiply' if small else 'divide'} it by a power of ten."
            )


def mean_about_first(X: Array, share: Array) -> Array:
    """Compute the mean of rows whose shares sum to 1, in float64 and without a copy of the rows.

    It is taken from the first row on: so the mean of a constant column is its value, to the bit.
    """
    first, rest = np.zeros((2, X.shape[1]))
    first[:] = X[0] if len(X) else 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for here in blocks(*X.shape):
            rest += share[here] @ (X[here] - first)
        return first + rest


def _moments(X: Any, share: Array) -> tuple[Array, Array]:
    """Compute the mean and the deviation of the columns of weighted rows; sparse ones about 0."""
    if sparse.issparse(X):
        return np.zeros(X.shape[1]), np.sqrt(X.multiply(X).T @ share)
    mean = mean_about_first(X, share)
    return mean, np.sqrt(share @ (X - mean) ** 2)


# Sums of features over all rows, prepared: see `RowScaler.sums`.
Summed = Callable[[RowScaler, list[Any]], Array]


def run_first_pass(
    total: Total, *, names: Any = None, classes: Array | None = None
) -> tuple[FirstPassStats, Summed]:
    """Look at all chunks; return the look, by classes, and what sums up all rows for the members.

    Where the look holds all rows, they are not read again. `names` are those of the columns, for
    errors; of `classes`, all labels, each needs rows.
    """
    look: Any = total(stats_pass, names)
    if look is None or not look.count:
        raise ValueError("X has no rows of positive weight; give some of at least two classes.")
    found = look.classes()
    lost = [] if classes is None else np.setdiff1d(classes, found.classes).tolist()
    if lost:
        raise ValueError(
            f"classes holds {lost[0]!r}, of which there are no rows; a committee learns each class "
            "from rows of it: leave it out."
        )
    look.raise_overflow(names)
    look = replace(
        look, labels=found.classes, rows=_by_class(look.rows, found).sorted(),
        weight=look.weight[found.index if look.soft else found.index >= 0],
        dropped=np.setdiff1d(found.labels, found.classes),
    )  # fmt: skip

    def summed(prepare: RowScaler, features: list[Any]) -> Array:
        if not look.sampled:
            return prepare.sums(look.rows, features)
        return np.asarray(total(feature_sums_pass, found, prepare, features))

    return look, summed


def _by_class(rows: WeightedRows, found: Classes) -> WeightedRows:
    """Replace indices of labels by those of classes, and columns of labels by those of classes."""
    if rows.mu is not None:
        return replace(rows, mu=rows.mu[:, found.index])
    return replace(rows, codes=found.index[rows.codes])


def stats_pass(
    names: Any, X: Any, y: Any, s: Any, mu: Any, groups: Any = None
) -> FirstPassStats | None:
    """Look at a chunk; which column of soft labels is of which class is found out at the end."""
    X, y, s, mu = checked(X, y, s, mu)
    if not len(y):
        return None
    check_finite(X, names)
    return FirstPassStats.of(y.values, WeightedRows.of(X, y, s, mu, groups)[0], y.columns)


def feature_sums_pass(
    found: Classes, prepare: RowScaler, features: Any, X: Any, y: Any, s: Any, mu: Any, *_: Any
) -> Array | None:
    """Sum up the features of all members over a chunk."""
    X, y, s, mu = checked(X, y, s, mu)
    rows = WeightedRows.of(X, Labels(found.labels, found.places(y)), s, mu)[0]
    return prepare.sums(_by_class(rows, found), features) if len(rows) else None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows in memory as the only chunk, in which copies of a row in one group are one row.

    It has the weight of all copies: they are left out together, so that nothing else changes.
    """

    total: Total
    X: Any
    place: Array | None = None  # of each row among those of the chunk; None: they are the same

    def every_row(self, values: Array) -> Array:
        """Return the values of all rows as given, from those of the rows of the chunk."""
        return values if self.place is None else values[self.place]


def as_single_chunk(rows: Rows, groups: Any = None) -> tuple[Rows, Chunk]:
    """Make degrees of rows in memory part of the weights; these rows are the only chunk.

    Classes whose rows have no weight are left out; a class that one group holds gets a warning.
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
    some, copies = rows, None
    if groups is not None:
        groups = encode_groups(groups, len(rows), rows.codes, rows.classes, stacklevel=5)
        copies = copies_in_groups(rows.X, rows.codes, rows.weight, rows.degree, groups)
    if copies is not None:
        first, place = copies
        weight = np.bincount(place, rows.weight).astype(float)
        some, groups = replace(rows.take(first), weight=weight), groups[first]
    given = some.X, Labels(some.classes, some.codes), some.weight, some.degree, groups
    chunk = Chunk(
        lambda function, *shared: function(*shared, *given), some.X,
        None if copies is None else copies[1],
    )  # fmt: skip
    return rows, chunk


def blocks(n: int, width: int) -> list[slice]:
    """Cut rows so that features of a block stay small."""
    return row_slices(n, width, BLOCK_NUMBERS)


def iter_group_blocks(groups: Array | None, n: int, width: int) -> Iterator[Any]:
    """Cut rows as `blocks` does, but keep groups together."""
    if groups is None:
        yield from blocks(n, width)
        return
    order = np.argsort(groups, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(groups[order])) + 1, n)
    start = 0
    for part in blocks(n, width):
        end = int(ends[np.searchsorted(ends, part.stop)])
        if end > start:
            yield order[start:end]
        start = end
