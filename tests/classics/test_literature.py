"""Names of the literature and our settings for them (docs/method/names.md)."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from fuzzytwin import LeastSquaresTwinSVC

X, Y = load_breast_cancer(return_X_y=True)
X = scale(X[:, :10])


def energy_planes(C, alpha, energies, ridge_on_b):
    """The closed form of RELS-TSVM: z_k = -E_k (G + C H + alpha R)^-1 C H'e for both classes."""
    Z = np.column_stack([X, np.ones(len(X))])
    R = np.diag(np.append(np.ones(X.shape[1]), float(ridge_on_b)))
    planes = []
    for k, energy in enumerate(energies):
        own, rivals = Z[k == Y], Z[k != Y]
        system = own.T @ own + C * rivals.T @ rivals + alpha * R
        planes.append(-np.linalg.solve(system, C * energy * rivals.sum(axis=0)))
    return np.array(planes)


def labels(planes, rule):
    f = np.abs(np.column_stack([X, np.ones(len(X))]) @ planes.T)
    if rule == "distance":
        f = f / np.linalg.norm(planes[:, :-1], axis=1)
    return f.argmin(axis=1)


@pytest.mark.parametrize("ridge_on_b", [False, True])
@pytest.mark.parametrize("C", [0.1, 3.0])
def test_energies_of_rels_tsvm_cancel(C, ridge_on_b):
    one = energy_planes(C, 2.0, (1.0, 1.0), ridge_on_b)
    same = energy_planes(C, 2.0, (0.6, 0.6), ridge_on_b)
    other = energy_planes(C, 2.0, (0.6, 0.9), ridge_on_b)
    np.testing.assert_allclose(same, 0.6 * one, rtol=1e-12, atol=1e-13)
    for rule in ("distance", "residual"):
        assert np.array_equal(labels(one, rule), labels(same, rule))
    assert np.array_equal(labels(one, "distance"), labels(other, "distance"))
    assert not np.array_equal(labels(one, "residual"), labels(other, "residual"))


def test_rels_tsvm_with_its_ridge_on_w_is_a_setting():
    planes = energy_planes(0.3, 2.0, (0.7, 0.7), ridge_on_b=False)
    mine = LeastSquaresTwinSVC(C=0.3, alpha=2.0, rule="residual").fit(X, Y)
    np.testing.assert_allclose(0.7 * mine.coef_, planes[:, :-1], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(0.7 * mine.intercept_, planes[:, -1], rtol=1e-7)
    assert np.array_equal(mine.predict(X), labels(planes, "residual"))
