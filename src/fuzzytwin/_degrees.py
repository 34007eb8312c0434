"""Validate membership degrees and soft labels, and match columns of soft labels to classes.

Each error names the parameter, the value and the remedy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzytwin._params import real_array
from fuzzytwin._utils.text import count
from fuzzytwin._utils.types import Array


def check_degrees(
    membership: Any, n: int, classes: Array | None = None, *, soft: bool = True
) -> Array:
    """Return degrees in [0, 1] of shape (n,), or soft labels of shape (n, K).

    If the `classes` are not known yet, soft labels may have any number of columns.
    """
    mu = real_array("membership", membership)
    n_columns = mu.shape[1] if mu.ndim == 2 else 1
    K = n_columns if classes is None else len(classes)
    if mu.shape != (n,) and not (soft and mu.shape == (n, K)):
        if soft and classes is not None and n_columns > K and len(mu) == n:
            raise ValueError(
                f"membership has {n_columns} columns, but y holds {count(K, 'label')} only "
                f"({', '.join(map(str, classes[:10]))}): a class that is not the label of any row "
                "is lost (as after argmax of soft labels). Leave its column out, or give y a row "
                "of every class, for example with sample_weight 0."
            )
        table = f", or ({n}, {K}) for soft labels in the order of classes_" if soft else ""
        raise ValueError(
            f"membership has shape {mu.shape}; degrees must have the shape ({n},){table}."
        )
    if not ((mu >= 0) & (mu <= 1)).all():
        bad = mu[~((mu >= 0) & (mu <= 1))][0]
        remedy = "clip them, or leave out these rows"
        if bad > 1:
            remedy = "divide them by the largest"
        raise ValueError(f"membership holds {bad}; degrees must lie in [0, 1]: {remedy}.")
    if mu.ndim == 2 and not mu.any(axis=1).all():
        row = int(np.flatnonzero(~mu.any(axis=1))[0])
        raise ValueError(
            f"membership row {row} sums to zero, so the sample belongs to no class; "
            "leave it out, or give it the sample_weight 0 and any degree."
        )
    return mu


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
