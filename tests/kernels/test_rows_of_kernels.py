"""Sparse and float32 rows, memory, problems that no plane solves, scikit-learn's checks."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from fuzzytwin import (
    CenterMembership,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    LeastSquaresSVC,
    LeastSquaresTwinSVC,
    TwinSVC,
)
from tests.checks import scikit_learn_checks
from tests.kernels.helpers import KERNELS


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "callable"])
@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
def test_sparse_rows(three, name, planes):
    X, y = three
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    X[3] = 0.0
    model = FuzzyTwinSVC(
        planes=planes, n_landmarks=30, random_state=0, membership="center", **KERNELS[name]
    )
    dense = clone(model).fit(X, y)
    for kind in (sparse.csr_matrix, sparse.csr_array, sparse.csc_array):
        rows = clone(model).fit(kind(X), y)
        assert sparse.issparse(rows.landmark_map_.landmarks)
        assert_allclose(rows.predict_membership(X), dense.predict_membership(X), atol=1e-7)
        assert_allclose(rows.predict_membership(kind(X)), dense.predict_membership(X), atol=1e-7)
        assert_allclose(dense.predict_membership(kind(X)), dense.predict_membership(X), atol=1e-7)
    wide = sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    rows = clone(model).fit(wide, y)
    assert_allclose(rows.predict_membership(wide), dense.predict_membership(X), atol=1e-7)
    given = clone(model).set_params(n_landmarks=sparse.csr_array(X[:9])).fit(X, y)
    same = clone(model).set_params(n_landmarks=X[:9]).fit(X, y)
    assert_allclose(given.predict_membership(X), same.predict_membership(X), atol=1e-7)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly"])
def test_narrow_floats_are_mapped_in_wide_ones(two, kind, kernel):
    """Landmarks and features are of double precision: noise would pass for eigenvalues."""
    X, y = two
    X = X.astype(np.float32)
    narrow = FuzzyTwinSVC(kernel=kernel, gamma=0.01).fit(kind(X), y)
    wide = FuzzyTwinSVC(kernel=kernel, gamma=0.01).fit(kind(X.astype(float)), y)
    assert narrow.landmark_map_.root.shape == wide.landmark_map_.root.shape
    assert_allclose(narrow.plane_values(kind(X))[0], wide.plane_values(kind(X))[0], atol=1e-9)


def test_twin_svc_still_refuses_sparse_rows(two):
    X, y = two
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        TwinSVC(kernel="rbf").fit(sparse.csr_array(X), y)


def test_rows_are_mapped_once_for_all_classes(three):
    X, y = three
    calls = []

    def counted(A, B):
        calls.append(len(A))
        return A @ B.T

    FuzzyTwinSVC(kernel=counted, n_landmarks=X[:4]).fit(X, y)
    assert calls == [4, len(X)]


@pytest.mark.parametrize("machine", [FuzzyTwinSVC, LeastSquaresTwinSVC, LeastSquaresSVC])
def test_memory_is_that_of_blocks(machine):
    rng = np.random.default_rng(0)
    n, m = 60_000, 100
    X = rng.normal(size=(n, 16))
    y = (np.abs(X[:, 0]) + 0.3 * rng.normal(size=n) > 0.7).astype(int)
    model = machine(kernel="rbf", n_landmarks=m, random_state=0)
    tracemalloc.start()
    try:
        model.fit(X, y)
        _, fitting = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        model.predict(X)
        _, predicting = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    whole = n * m * 8
    assert fitting < 0.35 * whole
    assert predicting < 0.35 * whole


# --- puzzles that no plane solves


def puzzle(name, n, seed):
    rng = np.random.default_rng(seed)
    if name == "moons":
        return make_moons(n, noise=0.25, random_state=seed)
    if name == "circles":
        return make_circles(n, noise=0.12, factor=0.5, random_state=seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    if name == "xor":
        return X + 0.1 * rng.normal(size=X.shape), (X[:, 0] * X[:, 1] > 0).astype(int)
    tiles = np.floor(2 * X).astype(int).sum(axis=1)
    return X + 0.02 * rng.normal(size=X.shape), tiles % 2


@pytest.mark.parametrize(
    "name",
    [
        "xor",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("checkerboard", "moons", "circles")
        ),
    ],
)
def test_puzzles_as_well_as_svc(name):
    """Both tuned by cross-validation on the training rows; within 1 % of each other."""
    X, y = puzzle(name, 400, 0)
    X_test, y_test = puzzle(name, 4000, 1)
    gammas = (1.0, 4.0, 16.0)
    search = FuzzyTwinSVCCV(
        kernels="rbf", memberships=(None,), gammas=gammas, n_landmarks=100, random_state=0
    ).fit(X, y)
    peer = GridSearchCV(SVC(), {"C": np.logspace(-1, 3, 5), "gamma": gammas}, cv=5).fit(X, y)
    mine, theirs = search.score(X_test, y_test), peer.score(X_test, y_test)
    assert mine >= theirs - 0.01, (mine, theirs)
    assert mine > 0.85
    linear = FuzzyTwinSVCCV(memberships=(None,)).fit(X, y)
    assert mine > linear.score(X_test, y_test) + 0.02


def test_chi_squared_by_a_callable():
    """Histograms with the kernel that they are compared by."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.dirichlet(a, 40) for a in ([3, 1, 1], [1, 3, 1])])
    y = np.repeat([0, 1], 40)
    assert FuzzyTwinSVC(kernel=chi2_kernel, alpha=0.1).fit(X, y).score(X, y) > 0.85


# --- scikit-learn's own checks


@scikit_learn_checks(
    FuzzyTwinSVC(kernel="rbf"),
    slow=[
        FuzzyTwinSVC(planes="fuzzy", kernel="rbf", membership="center"),
        FuzzyTwinSVC(kernel="laplacian", membership="neighbor"),
        FuzzyTwinSVC(kernel="poly", membership=CenterMembership()),
        # Without a ridge its planes go through all rows, whatever they weigh.
        LeastSquaresTwinSVC(kernel="rbf", alpha=0.01),
        TwinSVC(kernel="rbf"),
    ],
)
# One check weighs classes as 10^7 to 1 and allows no more than 1000 passes.
@pytest.mark.filterwarnings("ignore:LIBLINEAR did not converge")
def test_scikit_learn_checks(estimator, check):
    check(estimator)
