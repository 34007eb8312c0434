"""Rows of a table: validated once, without changing the estimator they are for.

Each error names the parameter or the column, the value and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fuzzytwin._params import check_weights, real_array
from fuzzytwin._utils.text import count
from fuzzytwin._utils.types import Array, canonical


@dataclass(frozen=True, eq=False)
class Rows:
    """Validated rows: features, labels, the index of each label in `classes`, and their weights.

    ``degree`` are given degrees (n,) or soft labels (n, K), ``names`` those of the columns,
    ``given`` the rows as they were given, where X holds features of them, and ``groups`` the number
    of the group of each row, if they belong together.
    """

    X: Any
    y: Array
    codes: Array
    weight: Array | None
    degree: Array | None
    classes: Array
    names: Array | None = None
    given: Any = None
    groups: Array | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, index: Array) -> Rows:
        """Select some of the rows."""
        names = ("X", "y", "codes", "weight", "degree", "given", "groups")
        parts = ((name, getattr(self, name)) for name in names)
        some: dict[str, Any] = {name: part if part is None else part[index] for name, part in parts}
        return replace(self, **some)

    @property
    def original(self) -> Any:
        """Return the rows as they were given."""
        return self.X if self.given is None else self.given


def validate_rows(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    membership: Any = None,
    *,
    classes: Array | None = None,
    first: bool = True,
) -> Rows:
    """Validate rows, labels, weights and degrees, as they were given to `fit`.

    The estimator says whether sparse rows are allowed and, unless these are the `first` rows,
    which columns are expected. `classes` are all labels, where some may be missing from these rows.
    """
    # validate_data sets n_features_in_ on its estimator, so it gets a copy.
    scratch = type(estimator)(**estimator.get_params(deep=False))
    for name in () if first else ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            setattr(scratch, name, getattr(estimator, name))
    if hasattr(y, "isna"):
        refuse_missing(np.asarray(y.isna()))
    with naming_text_columns(X):
        X, y = validate_data(
            scratch, X, y, reset=first, accept_sparse=_accepted(scratch),
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,  # NaN is found in check_moments, without another pass
        )  # fmt: skip
    all_rows = classes is None
    classes, codes = encode(y, classes)
    s = check_weights(sample_weight, len(y), allow_all_zero=not all_rows)
    mu = check_degrees(membership, len(y), classes)
    if all_rows:
        classes, codes, mu = drop_empty_classes(classes, codes, s, mu)
    return Rows(canonical(X), y, codes, s, mu, classes, getattr(scratch, "feature_names_in_", None))


def validate_features(estimator: BaseEstimator, X: Any) -> Any:
    """Validate rows to predict by a fitted estimator, all but that they are finite.

    `check_finite` does that, where they are read.
    """
    check_is_fitted(estimator)
    with naming_text_columns(X):
        X = validate_data(
            estimator, X, reset=False, dtype=[np.float64, np.float32],
            accept_sparse=_accepted(estimator), ensure_all_finite=False,
        )  # fmt: skip
    return canonical(X)


def encode(y: Array, classes: Any) -> tuple[Array, Array]:
    """Return the classes and the index of each label, in the smallest integer type."""
    if classes is None and y.dtype.kind in "ui" and (near := _near_integers(y)) is not None:
        classes, codes = near
    elif classes is None:
        try:
            classes, codes = np.unique(y, return_inverse=True)
        except TypeError as error:
            kinds = sorted({type(label).__name__ for label in y.tolist()})
            raise ValueError(
                f"y holds labels of several kinds ({', '.join(kinds)}); leave out rows without a "
                "label and write all labels alike (e.g. y.astype(str))."
            ) from error
        # Twice, or scikit-learn would warn that every label is unique.
        check_classification_targets(np.tile(classes, 2))
    elif y.dtype.kind in "ui" and classes.dtype.kind in "ui":
        found, places = encode(y, None)
        _refuse_unknown(np.setdiff1d(found, classes), classes)
        codes = np.searchsorted(classes, found)[places]
    else:
        _refuse_unknown(np.setdiff1d(y, classes), classes)
        codes = np.searchsorted(classes, y)
    return classes, codes.astype(np.min_scalar_type(len(classes)), copy=False)


def is_missing(value: Any) -> bool:
    """Return whether a cell holds nothing: None, NaN, NaT or NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def refuse_missing(missing: Array) -> None:
    """Refuse labels of which some are missing."""
    if missing.any():
        raise ValueError(
            f"y has no label in row {int(missing.argmax())}; leave out rows without a label."
        )


def _refuse_unknown(unseen: Array, classes: Array) -> None:
    if len(unseen):
        raise ValueError(
            f"y holds {unseen[:1].tolist()[0]!r}, which is not among classes={classes.tolist()!r}; "
            "only labels that the first call of partial_fit named are known."
        )


def _near_integers(y: Array) -> tuple[Array, Array] | None:
    """Encode integers by marking those that occur, which is faster than sorting.

    None where they are too far apart.
    """
    low = y.min()
    span = int(y.max()) - int(low) + 1
    if span > 1 << 16:
        return None
    place = np.empty(len(y), np.min_scalar_type(span))
    # The difference may overflow in the type of y, and is right in the end.
    np.subtract(y, low, out=place, dtype=np.int64, casting="unsafe")
    if span <= 8:  # a bit for each value is faster than counting
        bits = np.bitwise_or.reduce(np.left_shift(np.uint8(1), place, dtype=np.uint8))
        held = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    else:
        held = np.flatnonzero(np.bincount(place, minlength=span))
    codes = place
    if len(held) < span:
        numbers = np.zeros(span, np.min_scalar_type(len(held)))
        numbers[held] = np.arange(len(held))
        codes = numbers[place]
    return held.astype(y.dtype) + low, codes


def drop_empty_classes(
    classes: Array, codes: Array, s: Array | None, mu: Array | None
) -> tuple[Array, Array, Array | None]:
    """Keep the classes with positive weight: weight zero is the same as absence."""
    soft, held = mu is not None and mu.ndim == 2, held_classes(codes, s, mu, len(classes))
    if held.sum() < 2:
        raise ValueError(
            f"y has one class only ({', '.join(map(str, classes[held]))}) with positive "
            "weight; give samples of at least two classes."
        )
    if held.all():
        return classes, codes, mu
    renumbered = np.cumsum(held) - 1
    renumbered[~held] = 0  # their samples weigh nothing
    codes = renumbered[codes].astype(codes.dtype)
    return classes[held], codes, mu[:, held] if soft and mu is not None else mu


def held_classes(codes: Array, s: Array | None, mu: Array | None, n_classes: int) -> Array:
    """Return which classes, or columns of soft labels, have rows of positive weight."""
    if mu is not None and mu.ndim == 2:
        return np.asarray((mu if s is None else mu[s > 0]).any(axis=0))
    if s is None:
        return np.ones(n_classes, dtype=bool)
    return np.bincount(codes[s > 0], minlength=n_classes) > 0


def check_degrees(membership: Any, n: int, classes: Array, *, soft: bool = True) -> Array | None:
    """Return degrees in [0, 1] of shape (n,), or soft labels of shape (n, K)."""
    if membership is None:
        return None
    order = None if not soft else align_columns(column_names(membership), classes)
    mu = real_array("membership", membership)
    K = len(classes)
    if mu.shape != (n,) and not (soft and mu.shape == (n, K)):
        if soft and mu.ndim == 2 and len(mu) == n and mu.shape[1] > K:
            raise ValueError(
                f"membership has {mu.shape[1]} columns, but y holds {count(K, 'label')} only "
                f"({', '.join(map(str, classes[:10]))}): a class that is the label of no row is "
                "lost (as by argmax of soft labels). Leave its column out, or give y a row of "
                "every class, such as one of weight 0 (sample_weight)."
            )
        table = f", or ({n}, {K}) for soft labels in the order of classes_" if soft else ""
        raise ValueError(f"membership has shape {mu.shape}; degrees need ({n},){table}.")
    if not ((mu >= 0) & (mu <= 1)).all():
        bad = mu[~((mu >= 0) & (mu <= 1))][0]
        remedy = "clip them, or leave out these rows"
        remedy = "divide them by their greatest" if bad > 1 else remedy
        raise ValueError(f"membership holds {bad}; degrees must lie in [0, 1]: {remedy}.")
    if mu.ndim == 2 and not mu.any(axis=1).all():
        row = int(np.flatnonzero(~mu.any(axis=1))[0])
        raise ValueError(
            f"membership row {row} sums to zero, so the sample belongs to no class; "
            "leave it out, or give it the sample_weight 0 and any degree."
        )
    return mu if order is None or mu.ndim == 1 else mu[:, order]


def column_names(membership: Any) -> tuple[Any, ...] | None:
    """Return the names of the columns of soft labels in a frame; None where they have none."""
    columns = getattr(membership, "columns", None)
    if columns is None:
        return None
    names = tuple(columns)
    return None if names == tuple(range(len(names))) else names


def align_columns(names: tuple[Any, ...] | None, classes: Array) -> Array:
    """Find the column of each class in a frame of soft labels, by name.

    Columns without names are in the order of the classes. Names that are not those of the
    classes get a ValueError.
    """
    if names is None or len(names) == 1:
        return np.arange(len(classes))
    for known in (classes.tolist(), [str(label) for label in classes.tolist()]):
        if len(names) == len(known) and set(names) == set(known):
            return np.array([names.index(label) for label in known])
    raise ValueError(
        f"membership has the columns {', '.join(map(str, names[:10]))}; name them as the classes, "
        f"{', '.join(map(str, classes[:10]))}, or give an array in this order."
    )


def check_finite(X: Any, names: Any = None) -> None:
    """Raise a ValueError that names the column where X holds NaN or infinity, if it does."""
    if hasattr(X, "indptr"):
        bad = np.flatnonzero(~np.isfinite(X.data))
        if not len(bad):
            return
        column, value = X.indices[bad[0]], X.data[bad[0]]
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            # The sum is fast and usually enough.
            if np.isfinite(np.sum(X)) or np.isfinite(X).all():
                return
        row, column = np.argwhere(~np.isfinite(X))[0]
        value = X[row, column]
    found, remedy = "infinity", "replace it"
    if np.isnan(value):
        found, remedy = "NaN", "fill it in (e.g. SimpleImputer)"
    name = column_name(names, column)
    raise ValueError(f"Input X contains {found} in {name}; {remedy} or leave the row out.")


def column_name(names: Any, column: Any) -> str:
    """Name a column for an error, by its number where columns have no names."""
    return f"column {int(column)}" if names is None else f"column {str(names[column])!r}"


@contextmanager
def naming_text_columns(X: Any) -> Iterator[None]:
    """Name the column and the remedy where scikit-learn only names the value."""
    try:
        yield
    except (TypeError, ValueError) as error:
        text = str(error)
        name = _text_column(X) if "could not convert" in text.lower() else None
        odd = "promoted" in text or "a real number" in text
        if name is None and odd and (name := _date_column(X)) is not None:
            raise ValueError(
                f"X holds dates or times in {name}; turn them into numbers (such as days since "
                "the first one) or leave it out."
            ) from error
        if name is None:
            raise
        raise ValueError(
            f"{text}: X holds text in {name}; encode it as numbers "
            "(fuzzytwin.tables.TablePreprocessor, OneHotEncoder) or leave it out."
        ) from error


def _text_column(X: Any) -> str | None:
    """Find the first column that does not hold numbers alone."""
    names = getattr(X, "columns", None)
    table = np.asarray(X, dtype=object)
    for j in range(table.shape[1] if table.ndim == 2 else 0):
        try:
            table[:, j].astype(np.float64)
        except (TypeError, ValueError):
            return column_name(names, j)
    return None


def _date_column(X: Any) -> str | None:
    """Find the first column of dates or times of a frame."""
    kinds = [getattr(kind, "kind", "") for kind in getattr(X, "dtypes", ())]
    return next((column_name(X.columns, j) for j, k in enumerate(kinds) if k in "mM"), None)


def _accepted(estimator: BaseEstimator) -> str | bool:
    return "csr" if estimator.__sklearn_tags__().input_tags.sparse else False
