"""Planes from the Gram matrix of rows are those that moments give."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.core import row_space as gram
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import crisp_grid
from fuzzytwin.core.weights import RowWeights

CS, ALPHAS = np.array([0.25, 1.0, 8.0]), np.array([1e-4, 1.0, 100.0])


def grid(Z, weights, alphas):
    """Solve for the planes of every alpha and C."""
    planes = [
        [gram.crisp_planes(Z, weights, np.full(weights.n_classes, C), alpha)[0] for C in CS]
        for alpha in alphas
    ]
    coef = np.array([[point.coef for point in row] for row in planes])
    intercept = np.array([[point.intercept for point in row] for row in planes])
    return coef, intercept


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("degrees", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_same_planes_as_from_moments(weighted, degrees, shift):
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.repeat(np.arange(4), [7, 5, 6, 2]))
    Z = rng.normal(size=(20, 30)) + codes[:, None] + shift
    own = rng.integers(0, 3, 20) + (np.arange(20) > 15) if weighted else np.ones(20)
    own = 1e6 * own + 1e-300  # every class has some weight
    slack = own * rng.random(20) if degrees else own
    weights = RowWeights(codes, own, slack, 4)
    found = grid(Z, weights, 1e6 * ALPHAS)
    moments = [ClassMoments.from_rows(Z, codes, v, n_classes=4) for v in (own, slack)]
    moments = moments if degrees else [moments[0], moments[0]]
    expected = crisp_grid(*moments, CS, 1e6 * ALPHAS)
    for mine, theirs in zip(found, expected, strict=True):
        assert_allclose(mine, theirs, rtol=1e-7, atol=1e-7 * np.abs(theirs).max())


def test_without_a_ridge_the_plane_of_least_norm_is_that_of_moments():
    rng = np.random.default_rng(0)
    Z, codes = rng.normal(size=(9, 20)) * 10.0 ** rng.normal(size=20), np.arange(9) % 3
    moments = ClassMoments.from_rows(Z, codes, n_classes=3)
    alphas = np.array([0.0, 1e-30])
    found = grid(Z, RowWeights(codes, None, None, 3), alphas)
    expected = crisp_grid(moments, moments, CS, alphas)
    for mine, theirs in zip(found, expected, strict=True):
        assert_allclose(mine, theirs, atol=1e-8 * np.abs(theirs).max())


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


def test_features_keep_small_columns_beside_large_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 30)) + 3.0
    X[:, 4] *= 1e9
    found = gram.RowFeatures.of(X)
    coef = rng.normal(size=(2, found.Z.shape[1]))
    w, b = found.columns(X, coef, np.array([0.5, -1.0]))
    coef[:, 0] = w[:, 4]
    assert_allclose(X @ w.T + b, found.Z @ coef.T + [0.5, -1.0], rtol=1e-6)
    others = np.delete(X - X.mean(axis=0), 4, axis=1)
    assert_allclose(found.Z[:, 1:] @ found.Z[:, 1:].T, others @ others.T, atol=1e-9)


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
