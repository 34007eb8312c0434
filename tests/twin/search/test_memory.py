"""Searches of many classes and columns stay within memory, or are refused before they begin."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fuzzytwin import FuzzyTwinSVCCV
from fuzzytwin._utils.memory import NotEnoughMemoryError
from fuzzytwin.twin import _folds as folds


def table(K=12, d=40, n=240):
    rng = np.random.default_rng(0)
    y = np.arange(n) % K
    return rng.normal(size=(n, d)) + rng.normal(size=(K, d))[y], y


def test_planes_of_many_classes_are_not_kept(monkeypatch):
    """Planes of one block of alphas are held at a time, not those of all splits and memberships."""
    X, y = table(K=5, d=6, n=60)
    search = FuzzyTwinSVCCV(
        Cs=[0.25, 1.0], alphas=[0.1, 1.0, 10.0], memberships=(None, "center"), cv=2
    )
    whole = search.fit(X, y).cv_results_
    held = []
    score_points = folds.score_points

    def noted(grid, coef, *given):
        held.append(coef.size)
        return score_points(grid, coef, *given)

    n_numbers = 5 * 4 * 2 * 6  # of the planes of one alpha
    monkeypatch.setattr(folds, "MAX_PLANES", n_numbers)
    monkeypatch.setattr(folds, "score_points", noted)
    parts = search.fit(X, y).cv_results_
    assert held == [n_numbers] * len(held)
    assert len(held) % 3 == 0
    for name in ("mean_test_score", "mean_test_brier"):
        assert_allclose(parts[name], whole[name])


def test_what_does_not_fit_is_refused_with_the_remedy(monkeypatch):
    X, y = table(K=60, d=300, n=600)
    monkeypatch.setattr("fuzzytwin._utils.memory.available_memory", lambda: 2.0**26)
    with pytest.raises(NotEnoughMemoryError, match=r"60 classes and 300 columns.*n_jobs=1"):
        FuzzyTwinSVCCV(memberships=None).fit(X, y)


def test_many_classes_of_few_rows_are_searched_in_little_memory(monkeypatch):
    """Neither moments of all classes nor the planes of all points are held."""
    K, d = 5, 120
    X, y = table(K, d, n=30)
    axes = {"Cs": [0.25, 1.0], "alphas": [1.0, 10.0], "memberships": (None, "center"), "cv": 2}
    expected = FuzzyTwinSVCCV(**axes, solver="moments").fit(X, y).cv_results_
    monkeypatch.setattr(folds, "MAX_PLANES", K * (K - 1) * d)  # of one point
    tracemalloc.start()
    found = FuzzyTwinSVCCV(**axes, solver="gram").fit(X, y).cv_results_
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * K * d * d  # the covariances of all classes
    for name in ("mean_test_score", "mean_test_brier"):
        assert_allclose(found[name], expected[name], atol=1e-9)
