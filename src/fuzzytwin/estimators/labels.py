"""Labels as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from fuzzytwin._utils.types import Array


def encode(y: Array, classes: Any) -> tuple[Array, Array]:
    """Labels and the number of each sample's label, as a narrow integer."""
    if classes is None and y.dtype.kind in "ui" and int(y.max()) - int(y.min()) < 1 << 16:
        # Small integers need no sorting: a table of marks does.
        marked = np.zeros(int(y.max()) - int(y.min()) + 1, dtype=bool)
        place = (y - y.min()).view(f"u{y.itemsize}")  # int8 wraps round
        place = place.astype(np.min_scalar_type(len(marked)), copy=False)
        marked[place] = True
        classes = np.flatnonzero(marked).astype(y.dtype) + y.min()
        codes = place
        if not marked.all():
            codes = (np.cumsum(marked) - 1).astype(np.min_scalar_type(len(classes)))[place]
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
    else:
        unseen = np.setdiff1d(y, classes)
        if len(unseen):
            raise ValueError(
                f"y holds {unseen[:1].tolist()[0]!r}, which is not among "
                f"classes={classes.tolist()!r}; "
                "only labels that the first call of partial_fit named are known."
            )
        codes = np.searchsorted(classes, y)
    return classes, codes.astype(np.min_scalar_type(len(classes)), copy=False)


def present(
    classes: Array, codes: Array, s: Array | None, mu: Array | None
) -> tuple[Array, Array, Array | None]:
    """Only classes that weigh something: weight zero is the same as absence."""
    soft = mu is not None and mu.ndim == 2
    if soft and mu is not None:
        held = mu.any(axis=0) if s is None else (mu[s > 0]).any(axis=0)
    else:
        held = np.ones(len(classes), dtype=bool)
        if s is not None:
            held = np.bincount(codes[s > 0], minlength=len(classes)) > 0
    if held.sum() < 2:
        raise ValueError(
            f"y has one class only ({', '.join(map(str, classes[held]))}) among samples with "
            "weight; give samples of at least two classes."
        )
    if held.all():
        return classes, codes, mu
    renumbered = np.cumsum(held) - 1
    renumbered[~held] = 0  # their samples weigh nothing
    codes = renumbered[codes].astype(codes.dtype)
    return classes[held], codes, mu[:, held] if soft and mu is not None else mu
