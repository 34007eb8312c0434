"""Planes from the Gram matrix of rows are those that moments give."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from fuzzytwin import FuzzyTwinSVC


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("shape", [(20, 4), (30, 60)])
@pytest.mark.parametrize("scales", [(1e8,), (1e5, 1e8), (1e-8,), (1e8, 1e8, 1e-8)])
def test_the_ridge_counts_beside_large_columns(shape, scales, form):
    """It was dropped: planes were those of alpha=0 where one column is large."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    y = X[:, 1] + X[:, 2] > 0
    X[:, : len(scales)] *= scales
    X = form(X)
    values = [
        FuzzyTwinSVC(solver=solver).fit(X, y).decision_function(X) for solver in ("moments", "gram")
    ]
    assert_allclose(values[1], values[0], atol=1e-6)


@pytest.mark.parametrize("alpha", [0.1, 1e-3])
def test_the_ridge_of_large_columns_is_that_of_all(alpha):
    """It was its square, in units of the weights."""
    rng = np.random.default_rng(0)
    X = 1e-9 * rng.normal(size=(20, 4)) * [1e8, 1, 1, 1]
    y = X[:, 0] + 1e8 * X[:, 2] > 0
    coef = [FuzzyTwinSVC(solver=s, alpha=alpha).fit(X, y).coef_ for s in ("moments", "gram")]
    assert_allclose(coef[1], coef[0], rtol=1e-6)


@pytest.mark.parametrize("seed", [65, 149, 173, 195, 279, 297])
def test_columns_of_all_sizes_have_the_planes_of_moments(seed):
    """Sizes without a gap between them were lost in the rounding of the Gram matrix."""
    rng = np.random.default_rng(seed)
    n, d, K = rng.integers(8, 60), rng.integers(1, 12), rng.integers(2, 4)
    y = np.arange(n) % K
    X = rng.normal(size=(n, d))
    X[np.arange(n), y % d] += 2
    X *= 10.0 ** rng.uniform(-8, 8, d)
    values = [
        FuzzyTwinSVC(solver=s, alpha=0.01).fit(X, y).decision_function(X)
        for s in ("moments", "gram")
    ]
    assert_allclose(values[1], values[0], atol=1e-6)
