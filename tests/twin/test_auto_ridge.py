"""alpha="auto": a ridge as large as one more row, for any kernel, scale, solver and stream."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzzytwin import FuzzyTwinSVC, LeastSquaresTwinSVC, TwinSVC


def scatter(Z, y, weight):
    """Mean squared distance of a row from the mean of its class, by the definition."""
    total = 0.0
    for k in np.unique(y):
        own, v = Z[y == k], weight[y == k]
        total += v @ ((own - np.average(own, axis=0, weights=v)) ** 2).sum(axis=1)
    return total / weight.sum()


def column_size(X, y, weight):
    """Number of columns times the geometric mean of their variances within the classes."""
    variances = [scatter(column[:, None], y, weight) for column in X.T]
    return len(variances) * np.exp(np.log(variances).mean())


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_it_is_the_mean_scatter_of_a_row(wine, kernel):
    """Of columns, by the geometric mean of their variances; a constant one does not count."""
    X, y = wine
    if kernel == "linear":
        X = np.column_stack([X * np.logspace(-3, 4, X.shape[1]), np.full(len(y), 1e6 / 3)])
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    model = FuzzyTwinSVC(alpha="auto", kernel=kernel, n_landmarks=X[::4]).fit(X, y, weight)
    mean_weight = (weight**2).sum() / weight.sum()
    if kernel == "linear":
        size = column_size(X[:, :-1], y, weight)
    else:
        size = scatter(model.landmark_map_(X), y, weight)
    assert model.alpha_ == pytest.approx(mean_weight * size)
    number = clone(model).set_params(alpha=model.alpha_).fit(X, y, weight)
    assert_allclose(model.coef_, number.coef_, rtol=1e-8, atol=1e-12)
    assert_allclose(model.loo_membership(X, y, weight), number.loo_membership(X, y, weight))


@pytest.mark.parametrize("given", [{}, {"class_weight": "balanced", "membership": "center"}])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_solvers_agree(wine, form, given, monkeypatch):
    monkeypatch.setattr("fuzzytwin.twin._fit.ITERATIVE_TOL", 1e-10)
    X, y = wine
    wide = np.hstack([X, X**2, np.abs(X), X**3])[::5]
    y = y[::5]
    soft = np.random.default_rng(0).dirichlet(np.ones(3), len(y))
    for mu in (None, soft) if not given else (None,):
        model = FuzzyTwinSVC(alpha="auto", **given)
        planes = [
            clone(model).set_params(solver=solver).fit(form(wide), y, membership=mu).coef_
            for solver in ("moments", "gram", "iterative")
        ]
        assert_allclose(planes[1], planes[0], rtol=1e-6, atol=1e-9)
        assert_allclose(planes[2], planes[0], rtol=1e-5, atol=1e-8)


def test_streams_merge_and_forget(wine):
    X, y = wine
    model = FuzzyTwinSVC(alpha="auto", kernel="rbf", gamma=0.05, n_landmarks=X[::4])
    whole = clone(model).fit(X, y).coef_
    batches = clone(model)
    for i in range(3):
        batches.partial_fit(X[i::3], y[i::3], classes=range(3))
    assert_allclose(batches.coef_, whole, rtol=1e-7, atol=1e-10)
    one, other = (clone(model).partial_fit(X[i::2], y[i::2], classes=range(3)) for i in (0, 1))
    assert_allclose(one.merge(other).coef_, whole, rtol=1e-7, atol=1e-10)
    assert_allclose(one.forget(X[1::2], y[1::2]).coef_, clone(model).fit(X[::2], y[::2]).coef_,
                    rtol=1e-6, atol=1e-9)  # fmt: skip


def test_any_scale_of_the_columns_gives_the_same_labels(wine):
    X, y = wine
    model = FuzzyTwinSVC(alpha="auto")
    assert_array_equal(model.fit(X, y).predict(X), clone(model).fit(1e3 * X, y).predict(1e3 * X))


def test_no_column_of_large_numbers_decides_for_all():
    """The sum of variances was that of one column: accuracies 0.71 and 0.89."""
    for load in (load_wine, load_breast_cancer):
        X, y = load(return_X_y=True)
        assert cross_val_score(FuzzyTwinSVC(alpha="auto"), X, y).mean() > 0.94


def test_it_is_the_default():
    assert FuzzyTwinSVC().alpha == "auto"
    X, y = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X[:600])
    uses_kernel = cross_val_score(FuzzyTwinSVC(kernel="rbf", random_state=0), X, y[:600]).mean()
    assert uses_kernel > 0.9  # 0.877 with alpha=10


def test_one_ridge_for_all_kernels():
    X, y = load_breast_cancer(return_X_y=True)
    for kernel in ("linear", "rbf", "laplacian"):
        model = FuzzyTwinSVC(alpha="auto", kernel=kernel, random_state=0)
        assert cross_val_score(make_pipeline(StandardScaler(), model), X, y).mean() > 0.955


def test_what_is_refused(wine):
    X, y = wine
    with pytest.raises(ValueError, match="alpha='best' is not allowed; give a finite number"):
        FuzzyTwinSVC(alpha="best").fit(X, y)
    with pytest.raises(ValueError, match="alpha='auto' is not allowed"):
        TwinSVC(alpha="auto").fit(X, y)
    equal = FuzzyTwinSVC(alpha="auto").fit([[0.0], [0.0], [1.0], [1.0]], [0, 0, 1, 1])
    assert_array_equal(equal.predict([[0.0], [1.0]]), [0, 1])
    assert LeastSquaresTwinSVC(alpha="auto").fit(X, y).score(X, y) > 0.97
