"""Whether one method beats others over tables: Wilcoxon's signed-rank test, corrected by Holm."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import wilcoxon

LEVEL = 0.05


def wilcoxon_p(first: ArrayLike, second: ArrayLike) -> float:
    """Two-sided p-value of paired scores, one pair for each table. Equal pairs count as halves."""
    differences = np.round(np.subtract(first, second), 10)
    if not differences.any():
        return 1.0
    return float(wilcoxon(differences, zero_method="zsplit").pvalue)


def holm(p_values: ArrayLike) -> np.ndarray:
    """Correct p-values for their number."""
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    factors = np.arange(len(p), 0, -1)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(factors * p[order]), 1)
    return corrected


def corrected_p_values(ours: ArrayLike, baselines: Mapping[str, ArrayLike]) -> dict[str, float]:
    """P-value of each baseline against ours, corrected by Holm for the number of baselines.

    Each holds one score for each table, in the same order. Tables on which ours or any baseline has
    no score (NaN) are left out of all tests.
    """
    scores = np.column_stack([ours, *baselines.values()])
    scores = scores[~np.isnan(scores).any(axis=1)]
    p_values = [wilcoxon_p(scores[:, 0], other) for other in scores[:, 1:].T]
    return dict(zip(baselines, holm(p_values).tolist(), strict=True))


def print_p_values(measure: str, ours: ArrayLike, baselines: Mapping[str, ArrayLike]) -> None:
    """Print the corrected p-values of a measure, with "n.s." beside those above `LEVEL`."""
    cells = [
        f"{name} {p:.3g}{' n.s.' if p > LEVEL else ''}"
        for name, p in corrected_p_values(ours, baselines).items()
    ]
    print(f"p-values of {measure}, Wilcoxon, Holm: {', '.join(cells)}", flush=True)
