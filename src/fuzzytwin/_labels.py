"""Encode labels, find missing ones, and match the columns of soft labels to classes.

Each error names the parameter, the value and the remedy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from fuzzytwin._utils.types import Array


def encode(y: Array, classes: Any) -> tuple[Array, Array]:
    """Return the classes and the index of each label, in the smallest integer type."""
    if not len(y):
        return y if classes is None else classes, np.zeros(0, dtype=np.uint8)
    if classes is None and y.dtype.kind in "ui" and (encoded := _encode_integers(y)) is not None:
        classes, codes = encoded
    elif classes is None:
        try:
            classes, codes = np.unique(y, return_inverse=True)
        except TypeError as error:
            kinds = sorted({type(label).__name__ for label in y.tolist()})
            raise ValueError(
                f"y holds labels of several kinds ({', '.join(kinds)}); leave out rows without a "
                "label and convert all labels to one type (e.g. y.astype(str))."
            ) from error
        check_label_type(classes)
    elif y.dtype.kind in "ui" and classes.dtype.kind in "ui":
        labels, label_codes = encode(y, None)
        _check_none_unknown(np.setdiff1d(labels, classes), classes)
        codes = np.searchsorted(classes, labels)[label_codes]
    else:
        _check_none_unknown(np.setdiff1d(y, classes), classes)
        codes = np.searchsorted(classes, y)
    return classes, codes.astype(np.min_scalar_type(len(classes)), copy=False)


def check_label_type(labels: Array) -> None:
    """Raise a ValueError if labels are continuous numbers."""
    if labels.dtype.kind not in "uib":
        # Labels are doubled, or scikit-learn would warn that each of them is unique.
        check_classification_targets(np.tile(labels, 2))


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT or NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def plain_labels(y: Any) -> Any:
    """Return labels of a nullable pandas type in numpy's; raise a ValueError if some are missing.

    scikit-learn would make floats of integers and truth values. Other labels are returned as they
    are.
    """
    if not hasattr(y, "isna"):
        return y
    check_none_missing(np.asarray(y.isna()))
    dtype = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    is_exact = dtype is not None and dtype.kind in "iub"
    return y.to_numpy(dtype=dtype) if is_exact else y


def check_none_missing(missing: Array) -> None:
    """Raise a ValueError that names the row if a label is missing, by a mask of the labels."""
    if missing.any():
        raise ValueError(
            f"y has no label in row {int(missing.argmax())}; leave out rows without a label."
        )


def check_labels_not_missing(y: Array) -> None:
    """Raise a ValueError that names the value if a label is missing."""
    missing = np.zeros(1, dtype=bool)
    if y.dtype.kind == "O":
        missing = np.array([is_missing(label) for label in y.tolist()], dtype=bool)
    elif y.dtype.kind == "f":
        missing = ~np.isfinite(y)
    if missing.any():
        raise ValueError(f"y holds {y[missing][0]}; leave out rows without a label.")


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


def column_names(membership: Any) -> tuple[Any, ...] | None:
    """Return the names of the columns of soft labels, or None if they have none."""
    columns = getattr(membership, "columns", None)
    if columns is None:
        return None
    names = tuple(columns)
    return None if names == tuple(range(len(names))) else names


def classes_of_columns(names: tuple[Any, ...], labels: Array) -> Array:
    """Return the classes that the columns of soft labels name, sorted, in the type of the labels.

    Not all of them need to occur among the labels. A ValueError is raised if a label is not named.
    """
    if set(labels.tolist()) <= set(names):
        return np.unique(np.array(names, dtype=object if labels.dtype.kind == "O" else None))
    texts = [str(label) for label in labels.tolist()]
    if labels.dtype.kind in "US" or not set(texts) <= set(names):
        return labels  # `align_columns` raises the error
    values = {"False": False, "True": True} if labels.dtype.kind == "b" else {}
    try:
        return np.unique(np.array([values.get(name, name) for name in names]).astype(labels.dtype))
    except ValueError:
        return labels


def align_columns(names: tuple[Any, ...], classes: Array) -> Array:
    """Find the column of each class in a frame of soft labels, by name.

    Raises a ValueError if names are not those of the classes.
    """
    for labels in (classes.tolist(), [str(label) for label in classes.tolist()]):
        if len(names) == len(labels) and set(names) == set(labels):
            return np.array([names.index(label) for label in labels])
    raise ValueError(
        f"membership has the columns {', '.join(map(str, names[:10]))}; name them as the classes, "
        f"{', '.join(map(str, classes[:10]))}, or give an array in this order."
    )


def _check_none_unknown(unknown: Array, classes: Array) -> None:
    """Raise a ValueError if a label is not among the classes."""
    if len(unknown):
        raise ValueError(
            f"y holds {unknown[:1].tolist()[0]!r}, which is not among classes="
            f"{classes.tolist()!r}; pass all labels to the first call of partial_fit."
        )


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
