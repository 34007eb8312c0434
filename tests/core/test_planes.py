"""Planes against other ways to the same minimum: least squares on raw rows."""

import numpy as np
import pytest

from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import crisp_planes, fuzzy_planes
from tests.pairs import every_pair


def make(K=2, n=150, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 2 * rng.normal(size=(K, d))[y]
    return X, y, 2 * rng.random(n) + 0.1, rng.random(n)


def both_moments(X, y, s, mu, **kw):
    K = y.max() + 1
    return [ClassMoments.from_rows(X, y, v, n_classes=K, **kw) for v in (s, s * mu)]


def stacked(X, y, s, mu, k, C, alpha):
    """J_k as 1/2 |R z - t|^2 with one row of R per sample and one per ridge."""
    own, d = y == k, X.shape[1]
    root = np.sqrt(np.where(own, s, C * s * mu))
    R = np.column_stack([X, np.ones(len(X))]) * root[:, None]
    R = np.vstack([R, np.sqrt(alpha) * np.eye(d, d + 1)])
    return R, np.append(np.where(own, 0.0, -root), np.zeros(d))


def each_plane(found, X, y, s, mu):
    """Yield the number of each plane, its own class, and the rows of its pair."""
    for i, (k, j) in enumerate(found.classes.tolist()):
        rows = (y == k) | (y == j)
        yield i, k, (X[rows], y[rows], s[rows], mu[rows])


def value(R, t, w, b):
    return 0.5 * np.sum((R @ np.append(w, b) - t) ** 2)


@every_pair(K=[2, 3, 5], alpha=[0.0, 0.3, 100.0], plain=[True, False])
def test_crisp_planes_minimise_the_objective(K, alpha, plain):
    X, y, s, mu = make(K)
    if plain:
        s, mu = np.ones_like(s), np.ones_like(mu)
    C = 2.0 ** np.arange(-1, K - 1)
    found = crisp_planes(*both_moments(X, y, s, mu), C, alpha)
    assert found.rank == 4
    for i, k, rows in each_plane(found, X, y, s, mu):
        R, t = stacked(*rows, k, C[k], alpha)
        z = np.linalg.lstsq(R, t, rcond=None)[0]
        np.testing.assert_allclose(found.coef[i], z[:-1], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(found.intercept[i], z[-1], rtol=1e-8)


def duplicate(X):
    X[:, 3] = X[:, 1]
    return X


def scaled_copy(X):
    X[:, 3] = 1e-9 * X[:, 1] - 3e-10 * X[:, 0]
    return X


def constant(X):
    X[:, 2] = 0.1
    return X


def wide(X):
    return np.column_stack([X, np.random.default_rng(5).normal(size=(len(X), 40))])


@pytest.mark.parametrize(
    ("spoil", "n", "rank"), [(duplicate, 60, 3), (scaled_copy, 60, 3), (constant, 60, 3),
                             (wide, 25, 24)],
)  # fmt: skip
def test_dependent_columns_reach_the_minimum(spoil, n, rank):
    X, y, s, mu = make(n=n)
    X = spoil(X)
    C = np.array([0.5, 2.0])
    found = crisp_planes(*both_moments(X, y, s, mu), C, 0.0)
    assert found.rank == rank
    for k in range(2):
        R, t = stacked(X, y, s, mu, k, C[k], 0.0)
        z = np.linalg.lstsq(R, t, rcond=1e-13)[0]
        best = value(R, t, z[:-1], z[-1])
        scale = value(R, t, 0 * z[:-1], 0.0)
        assert value(R, t, found.coef[k], found.intercept[k]) - best < 1e-9 * scale
    if spoil is duplicate:
        np.testing.assert_allclose(found.coef[:, 1], found.coef[:, 3], rtol=1e-6)  # least norm
    if spoil is constant:
        np.testing.assert_allclose(found.coef[:, 2], 0, atol=1e-12)
    assert crisp_planes(*both_moments(X, y, s, mu), C, 1e-2).rank >= rank


def test_nobody_to_keep_away_from():
    X, y, s, _ = make()
    m = ClassMoments.from_rows(X, 0 * y, s, n_classes=2)
    found = crisp_planes(m, m, np.ones(2), 0.0)
    np.testing.assert_array_equal(found.coef, 0)
    np.testing.assert_array_equal(found.intercept, [0, -1])


def bounded_widths(X, y, s, mu, k, C, tau, margin):
    """Widths of plane k by trying every set of free ones on the sums over raw rows."""
    Z = np.column_stack([np.abs(X), np.ones(len(X))])
    own, d = y == k, X.shape[1]
    v = np.where(own, s, C * s * mu)
    target = np.where(own, 0.0, margin)
    Q = (Z.T * v) @ Z + tau * np.diag(np.append(np.ones(d), 0.0))
    r = Z.T @ (v * target) - tau * np.append(np.zeros(d), 1.0)

    def J(z):
        return 0.5 * z @ Q @ z - r @ z

    best = (np.inf, None)
    for mask in range(1 << (d + 1)):
        free = np.array([mask >> j & 1 for j in range(d + 1)], dtype=bool)
        z = np.zeros(d + 1)
        if free.any():
            z[free] = np.linalg.lstsq(Q[np.ix_(free, free)], r[free], rcond=None)[0]
        if (z >= -1e-12).all():
            best = min(best, (J(z), z.tolist()))
    return np.array(best[1])


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("margin", [0.0, 0.5, 2.0])
@pytest.mark.parametrize(("tau", "shift"), [(1.0, 0.0), (0.0, 0.0), (10.0, 3.0), (1e3, 0.0)])
def test_widths_are_the_bounded_minimum(K, tau, margin, shift):
    X, y, s, mu = make(K)
    X = X + shift * (y == 0)[:, None]
    C = 2.0 ** np.arange(K)
    plain = crisp_planes(*both_moments(X, y, s, mu), C, 1.0)
    found = fuzzy_planes(plain, *both_moments(X, y, s, mu, absolute=True), C, tau, margin)
    np.testing.assert_array_equal(found.coef, plain.coef)
    for i, k, rows in each_plane(found, X, y, s, mu):
        expected = bounded_widths(*rows, k, C[k], tau, margin)
        got = np.append(found.width_coef[i], found.width_intercept[i])
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("tau", "constant_is_free"), [(1.0, [False, True]), (1e4, [False, False])])
def test_the_constant_width_is_free_or_zero(tau, constant_is_free):
    X, y, s, mu = make(d=1)
    X[:, 0] = np.where(y == 0, 0.1, 5.0) * X[:, 0] / np.abs(X[:, 0]).max()
    X[:, 0] += np.where(y == 0, 0.0, 5.0)  # rivals of plane 0 are far out: a width there suits it
    plain = crisp_planes(*both_moments(X, y, s, mu), np.ones(2), 1.0)
    m = both_moments(X, y, s, mu, absolute=True)
    found = fuzzy_planes(plain, *m, np.ones(2), tau, 2.0)
    assert (found.width_intercept > 0).tolist() == constant_is_free
    assert (found.width_coef > 0).any(axis=1).tolist() == [True, tau > 1]
    for k in range(2):
        expected = bounded_widths(X, y, s, mu, k, 1.0, tau, 2.0)
        np.testing.assert_allclose(found.width_coef[k], expected[:-1], rtol=1e-8, atol=1e-10)
        assert found.width_intercept[k] == pytest.approx(expected[-1], rel=1e-8)
