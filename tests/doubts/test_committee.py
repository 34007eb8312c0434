"""Values of planes that never saw the row are those of a fit without it."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.doubts.committee import ALPHAS, Member, committee, leave_one_out_path
from fuzzytwin.kernels import LandmarkMap

X, y = load_iris(return_X_y=True)
X = scale(X)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "laplacian"])
def test_values_are_those_of_planes_fitted_without_the_row(kernel, weighted):
    s = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    landmarks, alphas = X[::5], np.array([0.1, 10.0])
    Z = X if kernel == "linear" else LandmarkMap.of(landmarks, kernel, 0.2, 3, 0.0)(X)
    path = leave_one_out_path(Z, np.eye(3)[y], s, alphas)
    for a, alpha in enumerate(alphas):
        model = FuzzyTwinSVC(
            alpha=alpha, multi_class="ovr", kernel=kernel, gamma=0.2, n_landmarks=landmarks
        )
        for row in (0, 60, 149):
            rest = np.arange(len(y)) != row
            model.fit(X[rest], y[rest], sample_weight=s[rest])
            f = model.plane_values(X[[row]])[0][0]
            np.testing.assert_allclose(path[a, row], f + 1, atol=1e-9)


def test_rows_of_weight_zero_change_nothing():
    s = np.ones(len(y))
    s[::7] = 0
    values = leave_one_out_path(X, np.eye(3)[y], s, np.array([1.0]))[0]
    other = y.copy()
    other[::7] = 0
    np.testing.assert_allclose(
        leave_one_out_path(X, np.eye(3)[other], s, np.array([1.0]))[0], values, atol=1e-12
    )


def test_the_ridge_is_the_one_of_least_error():
    F, members = committee(X, y, 3, None, 0)
    assert F.shape == (150, 3, 5)
    for j, member in enumerate(members):
        error = ((F[:, :, j] - np.eye(3)[y]) ** 2).sum(axis=1).mean()
        assert member.error == pytest.approx(error)
        assert member.alpha in ALPHAS
    paths = leave_one_out_path(X, np.eye(3)[y], np.ones(150), ALPHAS)
    errors = ((paths - np.eye(3)[y]) ** 2).sum(axis=(1, 2))
    assert members[0].alpha == ALPHAS[errors.argmin()]


def test_sparse_and_wide_rows():
    dense = committee(X, y, 3, None, 0)[0]
    thin = committee(sparse.csr_matrix(X), y, 3, None, 0)[0]
    # Distances do not change with the mean; all rows are landmarks, so the planes are the same.
    np.testing.assert_allclose(thin, dense, atol=1e-6)
    wide = np.random.default_rng(0).normal(size=(40, 1500))
    assert np.isfinite(committee(wide, np.arange(40) % 2, 2, None, 0)[0]).all()


def test_constant_columns_and_equal_rows():
    assert np.isfinite(committee(np.ones((20, 2)), np.arange(20) % 2, 2, None, 0)[0]).all()


def test_a_member_as_an_estimator():
    estimator = Member("rbf", 0.1, 1.0, 0.2).estimator()
    assert estimator.fit(X, y).score(X, y) > 0.9
    assert "rbf, gamma 0.1, alpha 1" in str(Member("rbf", 0.1, 1.0, 0.2))
