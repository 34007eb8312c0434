"""Rows of a committee: a first look at them, those in memory or in chunks, those left out.

A look has labels, means and deviations of columns, and a sample of rows. The first pass over chunks
adds up looks, the second one what `fuzzytwin.fit.members.Summing` makes of them.

Looks at disjoint rows add up. Rows are sampled by a hash of their content, so that neither their
order nor how they are cut into chunks matters; few rows are all in the sample.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets

from fuzzytwin._utils.types import Array
from fuzzytwin.fit.chunked import Labels, Total, add, checked
from fuzzytwin.fit.kernels import narrow
from fuzzytwin.fit.repeats import group_codes
from fuzzytwin.fit.rows import (
    Rows,
    align_columns,
    column_names,
    drop_empty_classes,
    refuse_non_finite,
)

SAMPLE_ROWS = 10_000  # of more rows, a sample is kept
MOST_REPETITIONS = 1 << 32  # greater weights are importances
BLOCK_NUMBERS = 1 << 21  # features of rows that are held at once


@dataclass(frozen=True, eq=False)
class Look:
    """What the first pass finds out about rows; it adds up."""

    labels: Array  # sorted; of soft labels, their columns
    label_weight: Array  # of their rows
    count: int  # of rows of positive weight
    whole: bool  # whether all weights are whole numbers, and so repetitions
    weight: float  # their sum
    mean: Array  # this and the next are of each column
    scatter: Array
    low: Array
    high: Array
    keys: Array  # from here on: of the sampled rows
    X: Any
    y: Array  # indices of `labels`
    s: Array
    mu: Array | None  # soft labels

    @classmethod
    def of(
        cls, X: Any, labels: Array, codes: Array, s: Array, mu: Array | None, keys: Array | None
    ) -> Look:
        """Look at rows of positive weight; `keys` decide on the sample, None: by content."""
        weight = np.bincount(codes, s, minlength=len(labels)) if mu is None else s @ mu
        v = s if mu is None else s * mu.sum(axis=1)
        total = float(v.sum())
        share = v / total
        if sparse.issparse(X):  # columns are not centred: zeros stay zeros
            mean = np.zeros(X.shape[1])
            squares = sparse.csr_array((X.data.astype(float) ** 2, X.indices, X.indptr), X.shape)
            scatter = total * (squares.T @ share)
            low, high = (np.asarray(part(axis=0).todense()).ravel() for part in (X.min, X.max))
        else:
            mean, scatter = share @ X, np.zeros(X.shape[1])
            with np.errstate(over="ignore"):  # refused later, by the name of the column
                for here in blocks(*X.shape):
                    scatter += v[here] @ (X[here] - mean) ** 2
            low, high = X.min(axis=0), X.max(axis=0)
        whole = bool((v == np.round(v)).all() and v.max() <= MOST_REPETITIONS)
        look = cls(
            labels, weight, len(v), whole, total, mean, scatter, low,
            high, content_keys(X) if keys is None else keys, X, codes, s, mu,
        )  # fmt: skip
        return look._sampled()

    def __add__(self, other: Look) -> Look:
        labels = np.union1d(self.labels, other.labels) if self.mu is None else self.labels
        places = [np.searchsorted(labels, part.labels) for part in (self, other)]
        weight = np.zeros(len(labels))
        for part, place in zip((self, other), places, strict=True):
            weight[place] += part.label_weight
        total = self.weight + other.weight
        share, gap = other.weight / total, other.mean - self.mean
        join = sparse.vstack if sparse.issparse(self.X) else np.concatenate
        both = Look(
            labels, weight, self.count + other.count, self.whole and other.whole, total,
            self.mean + share * gap,
            self.scatter + other.scatter + self.weight * share * gap**2,
            np.minimum(self.low, other.low), np.maximum(self.high, other.high),
            np.concatenate([self.keys, other.keys]), join([self.X, other.X]),
            np.concatenate([places[0][self.y], places[1][other.y]]),
            np.concatenate([self.s, other.s]),
            None if self.mu is None or other.mu is None else np.concatenate([self.mu, other.mu]),
        )  # fmt: skip
        return both._sampled()

    def _sampled(self) -> Look:
        """Keep the rows of least keys, in their order, where rows are many."""
        if len(self.keys) <= SAMPLE_ROWS:
            return self
        keep = np.argsort(self.keys, kind="stable")[:SAMPLE_ROWS]
        X = self.X[keep] if sparse.issparse(self.X) else np.array(self.X[keep], dtype=np.float64)
        mu = None if self.mu is None else self.mu[keep]
        return replace(self, keys=self.keys[keep], X=X, y=self.y[keep], s=self.s[keep], mu=mu)

    @property
    def deviation(self) -> Array:
        """Return the deviation of each column; 1 of constant ones."""
        return np.where(self.high > self.low, np.sqrt(self.scatter / self.weight), 1.0)

    @property
    def scaling(self) -> tuple[Array, Array]:
        """Return mean and deviation of each column, to seven digits of the deviation.

        So the last bits of sums, which depend on the order of rows and on how they are cut into
        chunks, are not in the scaled columns.
        """
        _, exponent = np.frexp(self.deviation)
        unit = np.ldexp(1.0, exponent - 24)
        return np.round(self.mean / unit) * unit, np.round(self.deviation / unit) * unit

    @property
    def unit(self) -> float:
        """Return the weight of one row: 1, or the mean where weights are importances."""
        return 1.0 if self.whole else self.weight / self.count


@dataclass(frozen=True, eq=False)
class Scale:
    """Subtracts the mean of each column, and divides by its deviation."""

    mean: Array  # zeros where rows were sparse: then zeros stay zeros
    deviation: Array

    def __call__(self, X: Any) -> Any:
        """Scale rows, in float64."""
        if sparse.issparse(X) and not self.mean.any():
            return narrow(type(X)(X.multiply(1.0 / self.deviation)))
        rows = X.toarray() if sparse.issparse(X) else X
        return (np.asarray(rows, dtype=np.float64) - self.mean) / self.deviation


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows whose left-out values decide on ridges and on the combination."""

    X: Any  # as given
    Z: Any  # with columns scaled
    codes: Array  # class of each row
    Y: Array  # targets; rows sum to 1
    plain: Array  # weights without class weights
    s: Array  # and with them
    u: Array  # the part of s that is left out with a row
    groups: Array | None = None  # rows of one number are left out together

    @classmethod
    def of(
        cls, X: Any, Z: Any, codes: Array, s: Array, mu: Array | None, factor: Array, whole: bool,
        groups: Array | None,
    ) -> Sample:  # fmt: skip
        """Weigh rows. A whole-numbered weight is a repetition, of which one is left out."""
        Y, s = targets(codes, s, mu, len(factor))
        of_row = Y @ factor
        u = np.minimum(s, 1.0) if whole and groups is None else s
        codes = codes if mu is None else Y.argmax(axis=1)
        return cls(X, Z, codes, Y, s, s * of_row, u * of_row, groups)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def alone(self) -> bool:
        """Return whether each row is the only one of its class, and is left out whole."""
        one_each = len(np.unique(self.codes)) == len(self) == np.count_nonzero(self.Y)
        return bool(one_each and (self.u >= self.s).all())

    def take(self, index: Any) -> Sample:
        """Select some of the rows."""
        parts = (getattr(self, part.name) for part in fields(self))
        chosen: list[Any] = [None if part is None else part[index] for part in parts]
        return Sample(*chosen)


def targets(codes: Array, s: Array, mu: Array | None, n_classes: int) -> tuple[Array, Array]:
    """Return targets (n, K), which sum to 1, and weights: soft labels may sum to less."""
    if mu is None:
        return np.eye(n_classes)[codes], s
    total = mu.sum(axis=1)
    return mu / total[:, None], s * total


@dataclass(frozen=True, eq=False)
class Seen:
    """Rows in memory that have weight; see `weighed_by_degrees`."""

    index: Array
    X: Any
    codes: Array
    s: Array
    mu: Array | None
    groups: Array | None

    @classmethod
    def of(cls, rows: Rows, groups: Array | None) -> Seen:
        """Leave out rows of weight zero."""
        s, mu = np.ones(len(rows)) if rows.weight is None else rows.weight, rows.degree
        index = np.flatnonzero(s > 0)
        part = slice(None) if len(index) == len(s) else index
        codes = rows.codes[part].astype(np.intp)
        mu, groups = (None if a is None else a[part] for a in (mu, groups))
        return cls(index, rows.X[part], codes, s[part], mu, groups)

    def look(self, labels: Array) -> tuple[Look, Array | None]:
        """Look at the rows; also return the groups of the sampled ones."""
        keys = None if self.groups is None else mixed(self.groups)
        look = Look.of(self.X, labels, self.codes, self.s, self.mu, keys)
        if keys is None or self.groups is None or len(look.keys) == len(keys):
            return look, self.groups
        return look, self.groups[np.argsort(keys, kind="stable")[: len(look.keys)]]

    def total(self, summing: Callable[..., Any]) -> Any:
        """Sum up all rows."""
        return summing(self.X, self.codes, self.s, self.mu)


def weighed_by_degrees(rows: Rows) -> Rows:
    """Make degrees (n,) part of the weights; classes whose rows have none are left out."""
    mu = rows.degree
    if mu is None or mu.ndim != 1:
        return rows
    s = mu if rows.weight is None else rows.weight * mu
    classes, codes, _ = drop_empty_classes(rows.classes, rows.codes, s, None)
    return replace(rows, weight=s, degree=None, classes=classes, codes=codes)


def refuse_overflow(look: Look, names: Any) -> None:
    """Refuse columns whose squares are too large or too small for a double."""
    bad = np.flatnonzero(~np.isfinite(look.deviation) | (look.deviation == 0))
    if len(bad):
        name = int(bad[0]) if names is None else repr(str(names[bad[0]]))
        small = look.deviation[bad[0]] == 0
        size, passes = ("small", "underflow") if small else ("large", "overflow")
        raise ValueError(
            f"column {name} of X is so {size} that its squares {passes} in double precision; "
            f"{'multiply' if small else 'divide'} it by a power of ten."
        )


def check_groups(groups: Any, rows: Rows) -> Array | None:
    """Return numbers of groups of shape (n,); warn of classes that one group alone holds."""
    if groups is None:
        return None
    groups = np.asarray(groups)
    if groups.dtype.kind == "f" and np.isnan(groups).any():
        raise ValueError("groups holds NaN; give each row a group, if need be one of its own.")
    codes = group_codes(groups, len(rows))
    held = np.unique(np.column_stack([rows.codes, codes]), axis=0)[:, 0]
    single = np.flatnonzero(np.bincount(held) == 1)
    if len(single):
        warnings.warn(
            f"all rows of class {rows.classes[single].tolist()[0]!r} are in one group: where it is "
            "left out, nothing is known of the class; give groups that do not follow the labels.",
            UserWarning,
            stacklevel=3,
        )
    return codes


def content_keys(X: Any) -> Array:
    """Hash rows: equal rows have equal keys, on any machine and in any chunk."""
    odd = np.random.RandomState(0).randint(1, 2**62, size=X.shape[1], dtype=np.int64) * 2 + 1
    odd = odd.astype(np.uint64)
    if sparse.issparse(X):
        bits = (X.data.astype(np.float64) + 0.0).view(np.uint64) * odd[X.indices]
        keys = np.zeros(X.shape[0], dtype=np.uint64)
        np.add.at(keys, np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), bits)
    else:
        keys = np.concatenate([
            ((np.asarray(X[here], dtype=np.float64) + 0.0).view(np.uint64) * odd).sum(axis=1)
            for here in blocks(*X.shape)
        ])  # fmt: skip
    return mixed(keys)


def mixed(keys: Array) -> Array:
    """Scatter 64-bit numbers, so that each bit depends on all others."""
    keys = keys.astype(np.uint64)
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(33))


def blocks(n: int, width: int) -> Iterator[slice]:
    """Cut rows so that features of a block stay small."""
    step = max(256, BLOCK_NUMBERS // max(width, 1))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def whole_groups(groups: Array | None, n: int, width: int) -> Iterator[Any]:
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


def look_over(
    total: Total, *, names: Any = None, classes: Array | None = None
) -> tuple[Look, Callable[[Any], Any]]:
    """Look at all chunks; return the look, and what sums up all rows for the members.

    Where the look holds all rows, they are not read again. `names` are those of the columns, for
    errors; of `classes`, all labels, each needs rows.
    """
    part = total(look_pass, names)
    if part is None or part.look is None:
        raise ValueError("X has no rows of positive weight; give some of at least two classes.")
    labels, look, order = part.labels, part.look, None
    check_classification_targets(np.tile(labels, 2))
    if look.mu is not None:
        if look.mu.shape[1] != len(labels):
            raise ValueError(
                f"membership has {look.mu.shape[1]} columns; degrees need one, soft labels "
                f"{len(labels)}, in the order of the labels ({', '.join(map(str, labels[:10]))})."
            )
        order = align_columns(part.columns, labels)
        weight, mu = look.label_weight[order], look.mu[:, order]
        look = replace(look, labels=labels, label_weight=weight, mu=mu)
    kept, _, _ = drop_empty_classes(labels, np.arange(len(labels)), look.label_weight, None)
    lost = [] if classes is None else np.setdiff1d(classes, kept).tolist()
    if lost:
        raise ValueError(
            f"classes holds {lost[0]!r}, of which there are no rows; a committee learns each class "
            "from rows of it: leave it out."
        )

    def summed(summing: Any) -> Any:
        if len(look.keys) == look.count:
            return summing(look.X, look.y, look.s, look.mu)
        found: Any = total(sum_pass, labels, order, summing)
        return found

    return look, summed


@dataclass(frozen=True, eq=False)
class ChunkLook:
    """Labels of all rows of a chunk, and a look at those of positive weight, if there are any.

    `columns` are the names of soft labels, where they have names.
    """

    labels: Array
    look: Look | None
    columns: tuple[Any, ...] | None = None

    def __add__(self, other: ChunkLook) -> ChunkLook:
        """Add the looks at two chunks."""
        looks = [part.look for part in (self, other) if part.look is not None]
        shapes = {(look.X.shape[1], look.mu is None or look.mu.shape[1]) for look in looks}
        if len(shapes) > 1 or self.columns != other.columns:
            raise ValueError(
                "X or membership has other columns in one chunk than in another; give all rows the "
                "same columns."
            )
        try:
            labels = np.union1d(self.labels, other.labels)
        except TypeError as error:
            raise ValueError(
                f"y holds labels that cannot be sorted together, such as {self.labels[0]!r} and "
                f"{other.labels[0]!r}; give labels of one kind."
            ) from error
        return ChunkLook(labels, add(looks), self.columns)


def look_pass(names: Any, X: Any, y: Any, s: Any, mu: Any) -> ChunkLook | None:
    """Look at a chunk; which column of soft labels is of which class is found out at the end."""
    columns = column_names(mu)
    X, y, s, mu = weighed(X, y, s, mu)
    if not len(y):
        return None
    refuse_non_finite(X, names)
    held, look = _held(s), None
    if len(s[held]):
        labels = y.values if mu is None else np.arange(mu.shape[1])
        codes = (y.codes if mu is None else np.zeros(len(y))).astype(np.intp)
        look = Look.of(X[held], labels, codes[held], s[held], mu if mu is None else mu[held], None)
    return ChunkLook(y.values, look, None if mu is None else columns)


def sum_pass(
    labels: Array, order: Array | None, summing: Any, X: Any, y: Any, s: Any, mu: Any
) -> Any:
    """Sum up the features of all members over a chunk."""
    X, y, s, mu = weighed(X, y, s, mu)
    held = _held(s)
    if not len(s[held]):
        return None
    codes = np.searchsorted(labels, y.values)[y.codes[held]]
    return summing(X[held], codes, s[held], mu if mu is None else mu[held][:, order])


def weighed(X: Any, y: Any, s: Any, mu: Any) -> tuple[Any, Labels, Array, Array | None]:
    """Validate the rows of a chunk; degrees become part of the weights, soft labels stay apart."""
    X, y, s, mu = checked(X, y, s, mu)
    s = np.ones(len(y)) if s is None else s
    return (X, y, s * mu, None) if mu is not None and mu.ndim == 1 else (X, y, s, mu)


def _held(s: Array) -> Any:
    """Select rows of positive weight, without a copy where that is all of them."""
    return slice(None) if (s > 0).all() else np.flatnonzero(s > 0)
