"""LS-SVM against the dual linear system of its original."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.multiclass import OneVsOneClassifier

from fuzzytwin import LeastSquaresSVC, LeastSquaresTwinSVC


def make(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1.0, 10.0, 0.1, 3.0] + [5.0, -3.0, 0.0, 100.0]
    y = np.where(X[:, 0] + X[:, 1] / 10 + rng.normal(size=n) > 4.7, 1, -1)
    return X, y, rng.uniform(0.2, 2.0, n)


def dual(K, y, s, C):
    """Solve the system of Suykens and Vandewalle (1999), here with targets y: multipliers and b."""
    n = len(y)
    A = np.zeros((n + 1, n + 1))
    A[0, 1:] = A[1:, 0] = 1.0
    A[1:, 1:] = K + np.diag(1 / (C * s))
    found = np.linalg.solve(A, np.append(0.0, y))
    return found[1:], found[0]


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_it_solves_the_dual_system(C):
    X, y, s = make()
    model = LeastSquaresSVC(C=C).fit(X, y, sample_weight=s)
    multipliers, b = dual(X @ X.T, y, s, C)
    np.testing.assert_allclose(model.coef_[0], X.T @ multipliers, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(model.intercept_[0], b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_it_solves_the_dual_system_in_the_space_of_a_kernel(C):
    X, y, s = make()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LeastSquaresSVC(C=C, kernel="rbf", gamma=0.3, n_landmarks=X).fit(X, y, sample_weight=s)
    multipliers, b = dual(rbf_kernel(X, gamma=0.3), y, s, C)
    new = X[::3] + 0.1
    expected = rbf_kernel(new, X, gamma=0.3) @ multipliers + b
    np.testing.assert_allclose(model.decision_function(new), expected, rtol=1e-7, atol=1e-9)


def test_it_is_the_twin_svm_of_equal_penalties():
    X, y, s = make()
    one = LeastSquaresSVC(C=4.0).fit(X, y, sample_weight=s)
    two = LeastSquaresTwinSVC(C=1.0, alpha=0.25).fit(X, y, sample_weight=s)
    f, _ = two.plane_values(X)
    np.testing.assert_allclose(one.decision_function(X), 2 * f[:, 1] + 1, rtol=1e-9, atol=1e-12)


def test_pairs_of_classes_vote_as_scikit_learn_lets_them():
    X, y = load_iris(return_X_y=True)
    X = X[:, :2]  # classes that overlap, so that votes tie
    mine = LeastSquaresSVC().fit(X, y)
    theirs = OneVsOneClassifier(LeastSquaresSVC()).fit(X, y)
    assert mine.coef_.shape == (3, 2)
    np.testing.assert_allclose(
        mine.decision_function(X), theirs.decision_function(X), rtol=1e-9, atol=1e-12
    )
    assert np.array_equal(mine.predict(X), theirs.predict(X))


@pytest.mark.parametrize("C", [5e-324, 1e-300, 1e300])
def test_any_penalty_gives_finite_planes(C):
    X, y, _ = make()
    model = LeastSquaresSVC(C=C).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
