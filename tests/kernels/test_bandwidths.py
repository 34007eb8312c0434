"""One gamma for each column: given by the user, or learned from the rows (ARD)."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV, store
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.kernels._bandwidths import learn_feature_gammas

GAMMAS = np.array([0.3, 0.0, 1.2, 0.05])


@pytest.fixture(scope="module")
def idle():
    """A curve in two of eight columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    return X, (X[:, 2] * X[:, 5] > 0).astype(int)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_a_gamma_of_each_column_scales_the_columns(form):
    X = np.random.default_rng(1).normal(size=(12, 4))
    root = np.sqrt(GAMMAS)
    given = {
        "rbf": rbf_kernel(X * root, gamma=1.0),
        "poly": polynomial_kernel(X * root, gamma=1.0, degree=3, coef0=0.5),
        "laplacian": laplacian_kernel(X * GAMMAS, gamma=1.0),
    }
    for kernel, K in given.items():
        phi = LandmarkMap.of(form(X), kernel, GAMMAS, 3, 0.5)
        assert_allclose(phi.kernel_values(form(X)), K, atol=1e-12)
        same = LandmarkMap.of(form(X), kernel, np.full(4, 0.7), 3, 0.5)
        one = LandmarkMap.of(form(X), kernel, 0.7, 3, 0.5)
        assert_allclose(same.kernel_values(form(X)), one.kernel_values(form(X)), atol=1e-12)


def test_gammas_that_are_refused(idle):
    X, y = idle
    for gamma in ([0.1, -0.2], [0.0, 0.0], [0.1, np.nan], ["a", "b"], [[0.1]], [True, False]):
        with pytest.raises(ValueError, match=r"^gamma=.* is not allowed; give one number above 0"):
            FuzzyTwinSVC(kernel="rbf", gamma=gamma).fit(X, y)
    with pytest.raises(ValueError, match=r"gamma=.* holds 3 numbers, but X has 8 columns"):
        FuzzyTwinSVC(kernel="rbf", gamma=[1.0, 2.0, 3.0]).fit(X, y)


def numeric_change(phi, X, y, ridge):
    """Mean squared change of a ridge regression in kernel features along each column."""
    Z = phi(X)
    center, t = Z.mean(axis=0), y - y.mean()
    w = np.linalg.solve((Z - center).T @ (Z - center) + ridge * np.eye(Z.shape[1]),
                        (Z - center).T @ t)  # fmt: skip
    step, change = 1e-5, []
    for j in range(X.shape[1]):
        moved = np.zeros(X.shape[1])
        moved[j] = step
        change.append(np.mean(((phi(X + moved) - phi(X - moved)) @ w / (2 * step)) ** 2))
    return np.array(change)


def test_columns_count_as_the_first_planes_change_along_them(idle, monkeypatch):
    X, y = idle
    phi = LandmarkMap.of(X[:60], "rbf", 0.2, 3, 0.0)
    Z = phi(X)
    scatter = ((Z - Z.mean(axis=0)) ** 2).sum() / len(X)
    monkeypatch.setattr("fuzzytwin.kernels._bandwidths.ARD_RIDGES", np.array([0.1]))
    learned = learn_feature_gammas(X[:60], 0.2, X, y, None)
    change = numeric_change(phi, X, y, 0.1 * scatter)
    assert_allclose(learned / learned.sum(), change / change.sum(), rtol=1e-5)
    # As far apart as before.
    assert_allclose(learned @ X.var(axis=0), 0.2 * X.var(axis=0).sum())


def test_the_ridge_is_that_of_least_error_at_rows_left_out(idle, monkeypatch):
    X, y = (part[:40] for part in idle)
    phi = LandmarkMap.of(X, "rbf", 0.2, 3, 0.0)
    Z = phi(X)
    scatter = ((Z - Z.mean(axis=0)) ** 2).sum() / len(X)
    ridges = (1e-3, 0.1, 3.0)
    errors, gammas = [], []
    for ridge in ridges:
        lost = 0.0
        for i in range(len(X)):
            keep = np.arange(len(X)) != i
            center, mean = Z[keep].mean(axis=0), y[keep].mean()
            A = Z[keep] - center
            w = np.linalg.solve(
                A.T @ A + ridge * scatter * np.eye(A.shape[1]), A.T @ (y[keep] - mean)
            )
            lost += (y[i] - mean - (Z[i] - center) @ w) ** 2
        errors.append(lost)
        monkeypatch.setattr("fuzzytwin.kernels._bandwidths.ARD_RIDGES", np.array([ridge]))
        gammas.append(learn_feature_gammas(X, 0.2, X, y, None))
    monkeypatch.setattr("fuzzytwin.kernels._bandwidths.ARD_RIDGES", np.array(ridges))
    best = gammas[int(np.argmin(errors))]
    assert_allclose(learn_feature_gammas(X, 0.2, X, y, None), best)
    assert sum(np.allclose(best, other) for other in gammas) == 1


def test_idle_columns_hardly_count(idle):
    X, y = idle
    gamma = learn_feature_gammas(X[:200], 0.125, X[:200], y[:200], None)
    share = gamma / gamma.sum()
    assert set(np.argsort(share)[-2:]) == {2, 5}
    assert share[[2, 5]].sum() > 0.6
    scores = [
        FuzzyTwinSVC(kernel="rbf", gamma=g, alpha=0.3).fit(X[:200], y[:200]).score(X[200:], y[200:])
        for g in (gamma, 0.125)
    ]
    assert scores[0] > scores[1] + 0.03


def test_more_classes_sparse_rows_and_rows_far_from_zero(idle):
    X, y = idle
    y = y + (X[:, 2] > 1)
    gamma = learn_feature_gammas(X[::5], 0.1, X, y, None)
    far = learn_feature_gammas(X[::5] + 1e4, 0.1, X + 1e4, y, None)
    assert_allclose(far, gamma, rtol=1e-6)
    few = learn_feature_gammas(sparse.csr_array(X[::5]), 0.1, sparse.csr_array(X), y, None)
    assert_allclose(few, gamma, rtol=1e-9)


def test_a_weight_of_w_is_w_copies_in_one_group(idle):
    X, y = (part[:80] for part in idle)
    weight = np.random.default_rng(2).integers(0, 4, len(y)).astype(float)
    index = np.repeat(np.arange(len(y)), weight.astype(int))
    groups = np.unique(index, return_inverse=True)[1]
    repeated = learn_feature_gammas(X[:30], 0.1, X[index], y[index], None, groups=groups)
    for factor in (1.0, 0.3):
        weighted = learn_feature_gammas(X[:30], 0.1, X, y, factor * weight)
        assert_allclose(weighted, repeated, rtol=1e-8)


def test_nothing_to_learn_from(idle):
    """Equal rows, or rows of one class: columns count the same."""
    X, y = idle
    assert learn_feature_gammas(X[:20], 0.1, X[y == 0], y[y == 0], None) == 0.1
    equal = np.ones((6, 3))
    assert learn_feature_gammas(equal, 0.1, equal, np.array([0, 1, 0, 1, 0, 1]), None) == 0.1


def test_files_and_pickles_keep_the_gammas(idle, tmp_path):
    pytest.importorskip("skops")
    X, y = idle
    gamma = np.linspace(0.0, 0.3, 8)
    model = FuzzyTwinSVC(kernel="rbf", gamma=gamma, n_landmarks=30, random_state=0)
    store.save(model.fit(X, y), tmp_path / "m.skops")
    for again in (store.load(tmp_path / "m.skops"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(again.landmark_map_.gamma, model.landmark_map_.gamma)
        assert_array_equal(again.predict_membership(X), model.predict_membership(X))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_many_landmarks_in_any_order_and_with_copies(form):
    """Of many landmarks some span the first planes: which ones must not depend on copies."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    w = rng.integers(1, 4, 100)
    weighted = learn_feature_gammas(form(X), 0.2, form(X), y, w.astype(float))
    index = rng.permutation(np.repeat(np.arange(100), w))
    rows = form(X[index])
    repeated = learn_feature_gammas(rows, 0.2, rows, y[index], None, groups=index)
    assert_allclose(weighted, repeated, rtol=1e-8)


def test_a_model_keeps_its_own_gammas_and_landmarks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] > 0).astype(int)
    gamma, landmarks = np.ones(3), X[:20].copy()
    model = FuzzyTwinSVC(kernel="rbf", gamma=gamma, n_landmarks=landmarks)
    model.partial_fit(X, y, classes=[0, 1])
    before = model.predict_membership(X)
    landmarks[:] = 0
    np.testing.assert_array_equal(model.predict_membership(X), before)
    gamma *= 20
    np.testing.assert_array_equal(model.predict_membership(X), before)
    with pytest.raises(ValueError, match=r"gamma=.* was .* when the model was fitted"):
        model.partial_fit(X, y)


def test_rows_that_are_not_finite_are_refused():
    X = np.random.default_rng(0).normal(size=(40, 2))
    X[3, 1] = np.nan
    for model in (FuzzyTwinSVC(kernel="rbf"), FuzzyTwinSVCCV(kernels=("linear", "rbf"))):
        with pytest.raises(ValueError, match="NaN in column 1"):
            model.fit(X, X[:, 0] > 0)


def test_gammas_and_weights_that_tell_nothing_are_refused():
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match="gamma="):
        FuzzyTwinSVC(kernel="rbf", gamma=[[1], 1]).fit(X, X[:, 0] > 0)
    model = FuzzyTwinSVC(kernel="rbf", n_landmarks=X[:5])
    with pytest.raises(ValueError, match="sample_weight is zero"):
        model.partial_fit(X, X[:, 0] > 0, classes=[0, 1], sample_weight=np.zeros(40))
