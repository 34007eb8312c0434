"""Whether one method beats others over tables: Wilcoxon's signed-rank test, corrected by Holm."""

from __future__ import annotations

import numpy as np
from scipy.stats import wilcoxon

LEVEL = 0.05


def wilcoxon_p(first, second) -> float:
    """Two-sided p-value of paired scores, one pair for each table. Equal pairs count as halves."""
    differences = np.round(np.subtract(first, second), 10)
    if not differences.any():
        return 1.0
    return float(wilcoxon(differences, zero_method="zsplit").pvalue)


def holm(p_values) -> np.ndarray:
    """Correct p-values for their number."""
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    factors = np.arange(len(p), 0, -1)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(factors * p[order]), 1)
    return corrected
