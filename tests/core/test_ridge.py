"""Ridge regression: leave-one-out equals refits, a Gram matrix equals features."""

import numpy as np
import pytest

from fuzzytwin.core.ridge import RidgePath, RidgeSums


@pytest.mark.parametrize("n_groups", [0, 9, 3])  # of three, each has more rows than columns
def test_left_out_values_equal_refits_at_fixed_features(n_groups):
    rng = np.random.default_rng(0)
    Z, Y = rng.normal(size=(30, 5)) + 3, np.eye(3)[rng.integers(0, 3, 30)]
    s, grouped = rng.uniform(0.5, 2, 30), n_groups > 0
    groups = rng.integers(0, n_groups, 30) if grouped else np.arange(30)
    alphas = np.array([1e-3, 1.0])
    path = RidgePath.of(RidgeSums.of(Z, Y, s))
    found = path.left_out(path.coordinates(Z), Y, s, alphas, groups if grouped else None)
    for g in np.unique(groups):
        rest = groups != g
        again = RidgePath.of(RidgeSums.of(Z[rest], Y[rest], s[rest]))
        for a, alpha in enumerate(alphas):
            w, c = again.planes(alpha)
            np.testing.assert_allclose(found[a][~rest], Z[~rest] @ w + c, atol=1e-10)


def test_gram_and_features_give_the_same_path():
    rng = np.random.default_rng(0)
    Z, Y, s = rng.normal(size=(20, 50)), np.eye(2)[rng.integers(0, 2, 20)], rng.uniform(1, 2, 20)
    path = RidgePath.of(RidgeSums.of(Z, Y, s))
    by_rows, Q = RidgePath.of_gram(Z @ Z.T, Y, s)
    alphas = np.array([0.1, 10.0])
    np.testing.assert_allclose(
        path.left_out(path.coordinates(Z), Y, s, alphas), by_rows.left_out(Q, Y, s, alphas),
        atol=1e-10,
    )  # fmt: skip
    w, a = path.planes(0.1)
    u, c = by_rows.planes(0.1)
    new = rng.normal(size=(5, 50))
    np.testing.assert_allclose(new @ w + a, (new @ Z.T) @ u + c, atol=1e-9)
