"""How good predicted labels are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix

Array = NDArray[Any]


def measure(y: Array, said: Array, weight: Array | None = None) -> dict[str, Any]:
    """How often labels were right, and where not."""
    classes = np.unique(np.concatenate([y, said]))
    shares = np.array([(y == label).mean() for label in classes])
    if weight is not None:
        shares = np.array([weight[y == label].sum() for label in classes]) / weight.sum()
    with warnings.catch_warnings():
        # A label that was said but is not among the true ones has no recall to speak of.
        warnings.filterwarnings("ignore", "y_pred contains classes not in y_true")
        balanced = balanced_accuracy_score(y, said, sample_weight=weight)
    table = confusion_matrix(y, said, labels=classes)
    return {
        "accuracy": float(accuracy_score(y, said, sample_weight=weight)),
        "balanced_accuracy": float(balanced),
        "baseline": float(shares.max()),
        "rows": len(y),
        "classes": classes.tolist(),
        "confusion": table.tolist(),
    }
