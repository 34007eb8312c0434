"""`Rows`, the carrier of rows, labels, weights, degrees and groups, and their validation.

`validate_rows` validates the rows of a fit, without changing the estimator, and `validate_chunk`
one of many chunks. Each error names the parameter or the column, the value and the remedy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fuzzytwin._degrees import align_columns, check_degrees, classes_of_columns, column_names
from fuzzytwin._params import real_array
from fuzzytwin._utils.notices import warn_user
from fuzzytwin._utils.types import Array, canonical

# How scikit-learn checks features. NaN is rejected later, without another pass over the rows.
CHECK_FEATURES: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}

# The largest factor between positive weights. Products of three of them do not overflow or vanish.
MAX_WEIGHT_RATIO = 1e100


@dataclass(frozen=True, eq=False)
class Rows:
    """Validated rows: all of a table, a chunk of it, or a sample. The only carrier of rows.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Features.
    codes : ndarray of shape (n,)
        Index in `classes` of the label of each row.
    weight : ndarray of shape (n,) or None
        Sample weights. None stands for weights of 1.
    degree : ndarray of shape (n,) or (n, K), or None
        Membership degrees, or soft labels with one column per class. None stands for degrees of 1.
    groups : ndarray of shape (n,) or None
        Number of the group of each row. Rows of a group are left out together.
    classes : ndarray of shape (K,)
        Labels, sorted. In a chunk these are the labels that occur in it.
    names : ndarray of shape (d,) or None
        Names of the columns of X.
    """

    X: Any
    codes: Array
    weight: Array | None
    degree: Array | None
    groups: Array | None
    classes: Array
    names: Any = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def labels(self) -> Array:
        """Return the label of each row. A class without weight counts as the first class."""
        return np.asarray(self.classes[self.codes])

    @property
    def soft(self) -> bool:
        """Return whether the rows have soft labels."""
        return self.degree is not None and self.degree.ndim == 2

    @property
    def has_weight(self) -> Array:
        """Return which classes, or columns of soft labels, have rows of positive weight."""
        rows: Any = slice(None) if self.weight is None else self.weight > 0
        if self.soft and self.degree is not None:
            return np.asarray(self.degree[rows].any(axis=0))
        return np.bincount(self.codes[rows], minlength=len(self.classes)) > 0

    @property
    def weights(self) -> Array:
        """Return the sample weights, or ones."""
        return np.ones(len(self)) if self.weight is None else self.weight

    def take(self, index: Any) -> Rows:
        """Select rows by an index, a mask or a slice."""
        selected: dict[str, Any] = {}
        for name in ("X", "codes", "weight", "degree", "groups"):
            values = getattr(self, name)
            selected[name] = None if values is None else values[index]
        return replace(self, **selected)

    def __add__(self, other: Rows) -> Rows:
        """Concatenate rows. Classes that occur in only one of the parts are added to the other."""
        classes = join_classes(self.classes, other.classes)
        parts = [self.with_classes(classes), other.with_classes(classes)]
        weight = None
        if any(part.weight is not None for part in parts):
            weight = np.concatenate([part.weights for part in parts])
        columns: dict[str, Any] = {}
        for name in ("codes", "degree", "groups"):
            values = [getattr(part, name) for part in parts]
            columns[name] = None if values[0] is None else np.concatenate(values)
        stack = sparse.vstack if sparse.issparse(self.X) else np.concatenate
        return replace(parts[0], X=stack([self.X, other.X]), weight=weight, **columns)

    def with_classes(self, classes: Array) -> Rows:
        """Encode the labels by other classes, which must include the classes of all rows.

        Soft labels do not change.
        """
        if np.array_equal(classes, self.classes):
            return self
        dtype = np.min_scalar_type(len(classes))
        codes = np.searchsorted(classes, self.classes).astype(dtype)[self.codes]
        return replace(self, codes=codes, classes=classes)


def validate_rows(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    membership: Any = None,
    *,
    groups: Any = None,
    classes: Array | None = None,
    first: bool = True,
    table: Any = None,
) -> Rows:
    """Validate rows, labels, weights, degrees and groups, as passed to `fit`.

    The estimator determines whether sparse rows are allowed and, unless these are the `first` rows,
    which columns are expected. `classes` are all labels, if these rows may lack a class.
    Otherwise, classes without weight are dropped. If X was computed from the user's `table`, the
    other arguments are matched to its index.
    """
    # validate_data sets n_features_in_ on its estimator, so it gets a copy.
    unfitted = type(estimator)(**estimator.get_params(deep=False))
    for name in () if first else ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            setattr(unfitted, name, getattr(estimator, name))
    y = match_labels(X if table is None else table, y, sample_weight, membership, groups)
    with naming_text_columns(X):
        X, y = validate_data(
            unfitted, X, y, reset=first, accept_sparse=_sparse_format(unfitted), **CHECK_FEATURES
        )
    names = getattr(unfitted, "feature_names_in_", None)
    all_rows = classes is None
    rows = _encoded_rows(
        X, y, sample_weight, membership, classes=classes, names=names, all_rows=all_rows
    )
    if groups is not None:
        rows = replace(rows, groups=encode_groups(groups, len(rows)))
    return drop_empty_classes(rows) if all_rows else rows


def validate_chunk(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    membership: Any = None,
    *,
    labels: Array | None = None,
    names: Any = None,
) -> Rows:
    """Validate one of many chunks of rows, which may be empty, or lack classes.

    If `labels` (sorted) is not None, y holds indices into it. The number of columns of soft labels
    is checked after the last chunk, when all classes are known.
    """
    X = check_array(X, accept_sparse="csr", ensure_min_samples=0, input_name="X", **CHECK_FEATURES)
    y = column_or_1d(y if labels is not None else label_array(y, "y of a chunk"))
    if len(y) != X.shape[0]:
        raise ValueError(
            f"X has {X.shape[0]} rows and y {len(y)} in the same chunk; give both the same chunks "
            "(rechunk or repartition)."
        )
    return _encoded_rows(X, y, sample_weight, membership, labels=labels, names=names)


def validate_features(estimator: BaseEstimator, X: Any) -> Any:
    """Validate rows for prediction by a fitted estimator.

    Missing and infinite values are left to `check_finite`, which the caller uses on each block.
    """
    check_is_fitted(estimator)
    check_rows(X)
    with naming_text_columns(X):
        accept_sparse = _sparse_format(estimator)
        X = validate_data(
            estimator,
            X,
            reset=False,
            accept_sparse=accept_sparse,
            ensure_min_samples=0,
            **CHECK_FEATURES,
        )
    return canonical(X)


def _encoded_rows(
    X: Any,
    y: Array,
    sample_weight: Any,
    membership: Any,
    *,
    classes: Array | None = None,
    labels: Array | None = None,
    names: Any = None,
    all_rows: bool = False,
) -> Rows:
    """Encode labels, and check weights and degrees.

    Labels are encoded by `classes`. If this is None, the classes are the `labels` that y indexes,
    those named by the columns of soft labels, or those that occur in y. If these are `all_rows`,
    weights must not all be zero, and soft labels must have one column per class.
    """
    n = len(y)
    if labels is None:
        labels, codes = encode(y, classes)
    else:
        check_label_type(labels)
        codes = y
    weight = check_weights(sample_weight, n, allow_all_zero=not all_rows)
    if sparse.issparse(X):
        X = canonical(X)
    rows = Rows(X, codes, weight, None, None, labels, names)
    if not len(rows) or membership is None:
        return rows
    columns = column_names(membership)
    classes_are_known = all_rows or classes is not None
    order = None
    if columns is not None and len(columns) > 1:
        if not classes_are_known:
            rows = rows.with_classes(classes_of_columns(columns, labels))
        order = align_columns(columns, rows.classes)
    degree = check_degrees(membership, n, rows.classes if classes_are_known else None)
    if order is not None:
        degree = np.ascontiguousarray(degree[:, order])
    return replace(rows, degree=degree)


def match_labels(
    X: Any, y: Any, sample_weight: Any = None, membership: Any = None, groups: Any = None
) -> Any:
    """Return the labels of the rows of X, by position, as an array of one type.

    A ValueError is raised if y is the name of a column. A warning is issued if the index of an
    argument holds the entries of that of X in another order.
    """
    check_rows(X)
    check_has_columns(X)
    if is_name(y):
        raise ValueError(
            f"y={y!r} is one value; give one label for each row. If they are a column of X, give "
            f"X[{y!r}] as y, and X.drop(columns={y!r}) as X."
        )
    warn_of_other_order(X, y=y, sample_weight=sample_weight, membership=membership, groups=groups)
    return label_array(y)


def check_rows(X: Any) -> None:
    """Raise a ValueError if X is a path or a dict, or holds complex or masked numbers."""
    if isinstance(X, str | os.PathLike):
        path = os.fspath(X)
        raise ValueError(
            f"X is the path {path!r}; read the file first, as by pandas.read_csv({path!r}), or use "
            "the functions of fuzzytwin.files, which read files."
        )
    if isinstance(X, dict) and not sparse.issparse(X):
        raise ValueError("X is a dict; give a data frame, such as pandas.DataFrame(X).")
    if np.ma.is_masked(X):  # numpy would use the numbers under the mask
        raise ValueError("X holds masked values; give NaN instead, such as X.filled(numpy.nan).")
    if getattr(getattr(X, "dtype", None), "kind", "") == "c" or _column_of_kind(X, "c"):
        name = _column_of_kind(X, "c") or "each column"
        raise ValueError(
            f"Complex data not supported: {name} of X holds complex numbers; give the real part "
            "(numpy.real), or the real and the imaginary part as two columns."
        )


def check_has_columns(X: Any) -> None:
    """Raise a ValueError if X has no columns."""
    shape: Any = getattr(X, "shape", ())
    if len(shape) == 2 and shape[1] == 0:
        raise ValueError(
            f"X has 0 feature(s) (shape={tuple(shape)}) while a minimum of 1 is required: besides "
            "the labels, no column is left to learn from."
        )


def is_name(y: Any) -> bool:
    """Return whether labels are a string or a whole number, as names of columns are."""
    return isinstance(y, str | Integral)


def warn_of_other_order(X: Any, **arguments: Any) -> None:
    """Warn if an index has the unique entries of the index of X in another order."""
    names = [name for name, values in arguments.items() if _in_other_order(X, values)]
    if names:
        listed = " and ".join(names)
        verb = "has" if len(names) == 1 else "have"
        warn_user(
            f"{listed} {verb} the index of X in another order, but rows are matched by position; "
            f"if entries of the index belong together, give {names[0]}.loc[X.index]."
        )


def _in_other_order(X: Any, values: Any) -> bool:
    """Return whether the index of values has the unique entries of that of X in another order."""
    if not (hasattr(X, "iloc") and hasattr(values, "iloc")) or X.index.equals(values.index):
        return False
    are_unique = X.index.is_unique and values.index.is_unique
    return bool(are_unique and len(X) == len(values) and X.index.isin(values.index).all())


def label_array(y: Any, name: str = "y") -> Any:
    """Return labels as an array of numbers, truth values, dates or text.

    A ValueError is raised if a label is missing, if they are of several kinds, or of other types.
    """
    if y is None or sparse.issparse(y):
        return y  # scikit-learn's checks name the remedy
    labels, missing = plain_array(name, y)
    if missing.any():
        row = int(missing.argmax())
        raise ValueError(f"{name} has no label in row {row}; leave out rows without a label.")
    if labels.dtype.kind == "O" and labels.size and not isinstance(labels.flat[0], str):
        label = labels.flat[0]
        raise ValueError(
            f"Unknown label type: {type(label).__name__}. {name} holds {label!r}; convert labels "
            "to text or whole numbers (e.g. [str(label) for label in y])."
        )
    return labels


def plain_array(name: str, values: Any) -> tuple[Array, Array]:
    """Return labels or groups as an array of one type, and the mask of those that are missing.

    Lists are read as objects first, as numpy would turn None, NaN and numbers beside text into
    text. scikit-learn would turn nullable integers and truth values of pandas into floats.
    """
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            return np.asarray(values.data), np.ma.getmaskarray(values)
        values = np.asarray(values.data)
    if hasattr(values, "isna"):
        missing = np.asarray(values.isna())
        dtype = getattr(getattr(values, "dtype", None), "numpy_dtype", None)
        if dtype is not None and dtype.kind in "iub" and not missing.any():
            return values.to_numpy(dtype=dtype), missing
        values = values.to_numpy()
    is_list = isinstance(values, list | tuple)
    array = np.asarray(values, dtype=object if is_list else None)
    if array.dtype.kind != "O":
        return array, np.isnan(array) if array.dtype.kind in "fmM" else np.zeros(1, dtype=bool)
    cells = array.ravel().tolist()
    missing = np.zeros(1, dtype=bool)
    kinds = set(map(type, cells))
    if not all(issubclass(kind, str | Integral | np.bool_) for kind in kinds):
        missing = np.array([is_missing(cell) for cell in cells], dtype=bool)
        kinds = {type(cell) for cell, gap in zip(cells, missing, strict=True) if not gap}
    are_text = [issubclass(kind, str) for kind in kinds]
    if any(are_text) and not all(are_text):
        raise ValueError(
            f"{name} holds labels of several kinds ({', '.join(sorted(k.__name__ for k in kinds))}"
            "); convert all to one type (e.g. text)."
        )
    if missing.any() or not kinds:
        return array, missing
    if all(are_text):
        return array.astype(str) if is_list else array, missing
    if all(issubclass(kind, Real | np.bool_) for kind in kinds):
        array = np.array(cells).reshape(array.shape)
    return array, missing


def encode(y: Array, classes: Any) -> tuple[Array, Array]:
    """Return the classes and the index of each label, in the smallest integer type."""
    if not len(y):
        return y if classes is None else classes, np.zeros(0, dtype=np.uint8)
    if classes is None and y.dtype.kind in "ui" and (encoded := _encode_integers(y)) is not None:
        classes, codes = encoded
    elif classes is None:
        classes, codes = np.unique(y, return_inverse=True)
        check_label_type(classes)
    elif y.dtype.kind in "ui" and classes.dtype.kind in "ui":
        labels, label_codes = encode(y, None)
        _check_none_unknown(np.setdiff1d(labels, classes), classes)
        codes = np.searchsorted(classes, labels)[label_codes]
    else:
        _check_none_unknown(np.setdiff1d(y, classes), classes)
        codes = np.searchsorted(classes, y)
    return classes, codes.astype(np.min_scalar_type(len(classes)), copy=False)


def _encode_integers(y: Array) -> tuple[Array, Array] | None:
    """Encode integers by marking those that occur, which is faster than sorting.

    Return None if their range is too large.
    """
    low = y.min()
    span = int(y.max()) - int(low) + 1
    if span > 1 << 16:
        return None
    offset = np.empty(len(y), np.min_scalar_type(span))
    # An overflow in the type of y does not matter: the difference is correct modulo 2^64.
    np.subtract(y, low, out=offset, dtype=np.int64, casting="unsafe")
    if span <= 8:  # a bit for each value is faster than counting
        bits = np.bitwise_or.reduce(np.left_shift(np.uint8(1), offset, dtype=np.uint8))
        present = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    else:
        present = np.flatnonzero(np.bincount(offset, minlength=span))
    codes = offset
    if len(present) < span:
        numbers = np.zeros(span, np.min_scalar_type(len(present)))
        numbers[present] = np.arange(len(present))
        codes = numbers[offset]
    return present.astype(y.dtype) + low, codes


def check_label_type(labels: Array) -> None:
    """Raise a ValueError if labels are continuous numbers."""
    if labels.dtype.kind == "f" and (measured := labels[labels != np.round(labels)]).size:
        listed = ", ".join(f"{value:g}" for value in measured[:2])
        raise ValueError(
            f"Unknown label type: continuous. y holds measurements ({listed}, ...), not classes; "
            "bin them into classes first."
        )
    if labels.dtype.kind not in "uib":
        # Labels are doubled, or scikit-learn would warn that each of them is unique.
        check_classification_targets(np.tile(labels, 2))


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT or NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _check_none_unknown(unknown: Array, classes: Array) -> None:
    """Raise a ValueError if a label is not among the classes."""
    if len(unknown):
        raise ValueError(
            f"y holds {unknown[:1].tolist()[0]!r}, which is not among classes="
            f"{classes.tolist()!r}; pass all labels to the first call of partial_fit."
        )


def join_classes(classes: Array, others: Array) -> Array:
    """Return all labels of two chunks, sorted. Raise a ValueError if they cannot be sorted."""
    if np.array_equal(classes, others):
        return classes
    try:
        return np.union1d(classes, others)
    except TypeError as error:
        raise ValueError(
            f"y holds labels that cannot be sorted together, such as {classes[0]!r} and "
            f"{others[0]!r}; give labels of one kind."
        ) from error


def check_weights(sample_weight: Any, n: int, *, allow_all_zero: bool = False) -> Array | None:
    """Return non-negative weights of shape (n,). They may be all zero if `allow_all_zero`."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n, sample_weight)
    s = real_array("sample_weight", sample_weight)
    if s.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {s.shape}; give one weight per sample, shape ({n},)."
        )
    if not np.isfinite(s).all() or (s < 0).any():
        bad = s[~np.isfinite(s) | (s < 0)][0]
        raise ValueError(
            f"sample_weight holds {bad}; weights must be finite, and negative weights are not "
            "allowed. Use a weight of 0 to leave a sample out."
        )
    with np.errstate(over="ignore"):
        overflows = not np.isfinite(s.sum())
    if overflows:
        raise ValueError(
            f"sample_weight holds {s.max():g}, and the sum of all overflows in double precision; "
            "divide the weights by a power of ten."
        )
    if not (allow_all_zero or s.any()):
        raise ValueError(
            "sample_weight is zero for every sample; give at least one sample a positive weight."
        )
    least = s.min(where=s > 0, initial=np.inf)
    if least < s.max(initial=0.0) / MAX_WEIGHT_RATIO:
        raise ValueError(
            f"sample_weight holds positive values from {least:g} to {s.max():g}, which are too far "
            f"apart for double precision (a factor of {MAX_WEIGHT_RATIO:g} at most); give rows of "
            "tiny weight a weight of 0."
        )
    return s


def encode_groups(groups: Any, n: int) -> Array:
    """Return the number of the group of each of n rows, counted from 0."""
    if isinstance(groups, str):
        raise ValueError(
            f"groups={groups!r} is a string; give one group per row, such as the column "
            f"X[{groups!r}] of a data frame, and drop this column from X."
        )
    groups, missing = plain_array("groups", groups)
    if missing.any():
        raise ValueError(
            f"groups holds missing values (row {int(missing.argmax())}); give each row a group, "
            "if necessary its own."
        )
    if groups.shape != (n,):
        raise ValueError(f"groups has shape {groups.shape}; give one group per row, shape ({n},).")
    try:
        numbers = np.unique(groups, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError(
            "groups holds values that cannot be sorted; convert all to text or whole numbers."
        ) from error
    if numbers.max() == 0:
        raise ValueError("groups has one group only, which cannot be held out; give at least two.")
    return numbers


def drop_empty_classes(rows: Rows) -> Rows:
    """Drop the classes whose rows all have a weight of 0."""
    has_weight = rows.has_weight
    check_two_classes(rows.classes, has_weight)
    if has_weight.all():
        return rows
    renumbered = np.cumsum(has_weight) - 1
    renumbered[~has_weight] = 0  # their rows have weight 0
    codes = renumbered[rows.codes].astype(rows.codes.dtype)
    degree = rows.degree
    if degree is not None and rows.soft:
        degree = degree[:, has_weight]
    return replace(rows, codes=codes, classes=rows.classes[has_weight], degree=degree)


def check_two_classes(classes: Array, has_weight: Array) -> None:
    """Raise a ValueError unless at least two classes have positive weight."""
    if has_weight.sum() < 2:
        raise ValueError(
            f"y has one class only ({', '.join(map(str, classes[has_weight]))}) with positive "
            "weight; give samples of at least two classes."
        )


def check_finite(X: Any, names: Any = None) -> None:
    """Raise a ValueError that names the column if X holds NaN or infinity."""
    if hasattr(X, "indptr"):
        bad = np.flatnonzero(~np.isfinite(X.data))
        if not len(bad):
            return
        column = X.indices[bad[0]]
        value = X.data[bad[0]]
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            # The sum is fast and usually enough.
            if np.isfinite(np.sum(X)) or np.isfinite(X).all():
                return
        row, column = np.argwhere(~np.isfinite(X))[0]
        value = X[row, column]
    problem = "infinity"
    remedy = "replace it"
    if np.isnan(value):
        problem = "NaN"
        remedy = "fill it in (e.g. SimpleImputer)"
    name = column_name(names, column)
    raise ValueError(f"Input X contains {problem} in {name}; {remedy} or leave the row out.")


def check_predicted(values: Array) -> Array:
    """Raise a ValueError if a model computes NaN or infinity, as one from an altered file may."""
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0, 0])
        raise ValueError(
            f"the model computes NaN or infinity for row {row} of X, because its own numbers are "
            "altered or overflow; fit it again, or load its file again."
        )
    return values


def raise_overflow(rows: Rows) -> None:
    """Raise a ValueError that says what is not finite: X itself, or its squares."""
    check_finite(rows.X, rows.names)
    raise ValueError(
        "X or sample_weight is so large that squares overflow in double precision; scale the "
        "columns of X (e.g. StandardScaler) or divide the weights."
    )


def column_name(names: Any, column: Any) -> str:
    """Return the name of a column for error messages, or its number if columns have no names."""
    return f"column {int(column)}" if names is None else f"column {str(names[column])!r}"


@contextmanager
def naming_text_columns(X: Any) -> Iterator[None]:
    """Add the column and the remedy to errors of scikit-learn that only name the value."""
    try:
        yield
    except (TypeError, ValueError) as error:
        text = str(error)
        name = _text_column(X) if "could not convert" in text.lower() else None
        may_be_date = "promoted" in text or "a real number" in text
        if name is None and may_be_date and (name := _column_of_kind(X, "mM")) is not None:
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
    """Find the first column that holds anything but numbers."""
    names = getattr(X, "columns", None)
    table = np.asarray(X, dtype=object)
    for j in range(table.shape[1] if table.ndim == 2 else 0):
        try:
            table[:, j].astype(np.float64)
        except (TypeError, ValueError):
            return column_name(names, j)
    return None


def _column_of_kind(X: Any, kinds: str) -> str | None:
    """Find the first column of a pandas frame whose type is of one of these kinds of numpy."""
    if not hasattr(X, "iloc"):
        return None
    found = [getattr(dtype, "kind", "") for dtype in X.dtypes]
    return next((column_name(X.columns, j) for j, k in enumerate(found) if k and k in kinds), None)


def _sparse_format(estimator: BaseEstimator) -> str | bool:
    """Return `accept_sparse` of scikit-learn's checks for an estimator."""
    return "csr" if estimator.__sklearn_tags__().input_tags.sparse else False
