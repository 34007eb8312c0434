"""What a search tells of its points: ``cv_results_``, as `GridSearchCV` has it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from fuzzytwin._utils.types import Array
from fuzzytwin.search.panels import Panel


def tell(params: list[dict[str, Any]], panels: list[Panel], scores: Array) -> dict[str, Any]:
    """Parameters, times, scores of every split and ranks of all points; Briers are NaN yet."""
    results: dict[str, Any] = {"params": params}
    for name in params[0]:
        values = np.empty(len(params), dtype=object)
        values[:] = [point[name] for point in params]
        results[f"param_{name}"] = np.ma.masked_array(values, mask=False)
    done = [split for panel in panels for split in panel.done]
    for kind in ("fit_time", "score_time"):
        # A split is worked on as a whole: each point is given its share.
        times = np.array([getattr(split, kind) * len(panels) / len(params) for split in done])
        results[f"mean_{kind}"] = np.full(len(params), times.mean())
        results[f"std_{kind}"] = np.full(len(params), times.std())
    for i, split in enumerate(scores):
        results[f"split{i}_test_score"] = split
    mean = scores.mean(axis=0)
    results["mean_test_score"] = mean
    results["std_test_score"] = scores.std(axis=0)
    last = np.nan_to_num(mean, nan=np.nanmin(mean, initial=0.0) - 1)
    results["rank_test_score"] = rankdata(-last, method="min").astype(np.int32)
    results["mean_test_brier"] = np.full(len(params), np.nan)
    return results
