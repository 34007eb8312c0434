"""Sparse rows in every form that scipy allows give what dense rows give."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from fuzzytwin import (
    GEPSVC,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    LeastSquaresSVC,
    LeastSquaresTwinSVC,
    ProximalSVC,
    files,
)
from fuzzytwin.kernels import LandmarkMap
from fuzzytwin.memberships import MEMBERSHIPS
from tests.kernels.helpers import KERNELS

ALL_KERNELS = {"linear": {"kernel": "linear"}, **KERNELS}


def doubled(X, make=sparse.csr_array, zeros=False):
    """Every entry cut in two of the same place, far apart in the row, indices unsorted."""
    n, d = X.shape
    columns = np.arange(d)[::-1]
    rows = [columns[row[columns] != 0] if not zeros else columns for row in X]
    indices = np.concatenate([np.tile(row, 2) for row in rows])
    data = np.concatenate(
        [np.concatenate([2 * x[row], -x[row]]) for x, row in zip(X, rows, strict=True)]
    )
    indptr = np.append(0, np.cumsum([2 * len(row) for row in rows]))
    return make((data, indices, indptr), shape=(n, d))


def unsorted(X):
    S = sparse.csr_array(X)
    for a, b in zip(S.indptr[:-1], S.indptr[1:], strict=True):
        S.indices[a:b], S.data[a:b] = S.indices[a:b][::-1].copy(), S.data[a:b][::-1].copy()
    return sparse.csr_array((S.data, S.indices, S.indptr), shape=S.shape)


def wide(S):
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    return S


FORMS = {
    "duplicates": doubled,
    "duplicates csr_matrix": lambda X: doubled(X, sparse.csr_matrix),
    "duplicates CSC": lambda X: doubled(X.T.copy()).T,
    "duplicates COO": lambda X: sparse.coo_array(doubled(X)),
    "duplicates and zeros": lambda X: doubled(X, zeros=True),
    "duplicates int64": lambda X: wide(doubled(X)),
    "duplicates float32": lambda X: doubled(X.astype(np.float32)),
    "unsorted": unsorted,
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def make(n=60, d=8, K=2, seed=0):
    """Rows of multiples of 1/8, half of them zero: exact in float32, and twice themselves."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    X = np.round(8 * (rng.normal(size=(n, d)) + y[:, None] * rng.normal(size=d))) / 8
    X[rng.random(size=X.shape) < 0.5] = 0.0
    X[3] = 0.0
    return X, y


def kept(S):
    """The caller's matrix, to compare with afterwards."""
    parts = ("data", "indices", "indptr") if S.format in ("csr", "csc") else ("data",)
    return {name: getattr(S, name).copy() for name in parts}


def assert_kept(S, before):
    for name, value in before.items():
        assert_array_equal(getattr(S, name), value)


def test_forms_are_what_they_say():
    X, _ = make()
    for name, form in FORMS.items():
        S = form(X)
        assert_array_equal(S.toarray(), X)
        if "COO" not in name:
            assert not S.has_canonical_format
    assert FORMS["duplicates and zeros"](X).nnz == 2 * X.size


@pytest.mark.parametrize("membership", [None, *MEMBERSHIPS])
@pytest.mark.parametrize("kernel", ALL_KERNELS)
def test_every_kernel_and_membership(kernel, membership):
    X, y = make()
    S = doubled(X)
    before = kept(S)
    model = FuzzyTwinSVC(
        C=2.0, membership=membership, n_landmarks=25, random_state=0, **ALL_KERNELS[kernel]
    )
    dense, rows = clone(model).fit(X, y), clone(model).fit(S, y)
    assert_allclose(rows.membership_, dense.membership_, rtol=1e-6, atol=1e-9)
    expected = dense.decision_function(X)
    assert_allclose(rows.decision_function(X), expected, atol=1e-6)
    assert_allclose(rows.decision_function(S), expected, atol=1e-6)
    assert_allclose(dense.decision_function(S), expected, atol=1e-6)
    assert_kept(S, before)


@every_form
@pytest.mark.parametrize("membership", ["neighbor", "hyperplane"])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_every_form(kernel, membership, form):
    X, y = make()
    S = form(X)
    before = kept(S)
    model = FuzzyTwinSVC(C=2.0, membership=membership, n_landmarks=25, random_state=0)
    model.set_params(**ALL_KERNELS[kernel])
    dense, rows = clone(model).fit(X, y), clone(model).fit(S, y)
    assert_allclose(rows.membership_, dense.membership_, rtol=1e-6, atol=1e-9)
    assert_allclose(rows.decision_function(S), dense.decision_function(X), atol=1e-6)
    assert_kept(S, before)


@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize(
    "model",
    [
        FuzzyTwinSVC(planes="fuzzy", membership="center"),
        LeastSquaresTwinSVC(),
        LeastSquaresSVC(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_estimator(model, kernel):
    X, y = make()
    S = doubled(X)
    before = kept(S)
    model = clone(model).set_params(n_landmarks=25, random_state=0, **ALL_KERNELS[kernel])
    expected = clone(model).fit(X, y).decision_function(X)
    assert_allclose(clone(model).fit(S, y).decision_function(S), expected, rtol=1e-5, atol=1e-6)
    assert_kept(S, before)


@pytest.mark.parametrize("model", [ProximalSVC(), GEPSVC()])
def test_linear_estimators(model):
    X, y = make()
    S = doubled(X)
    before = kept(S)
    expected = clone(model).fit(X, y).decision_function(X)
    assert_allclose(clone(model).fit(S, y).decision_function(S), expected, rtol=1e-5, atol=1e-6)
    assert_kept(S, before)


@every_form
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_streams_and_files(kernel, form, tmp_path):
    pytest.importorskip("pyarrow")
    X, y = make()
    model = FuzzyTwinSVC(planes="fuzzy", n_landmarks=X[:20], **ALL_KERNELS[kernel])
    expected = clone(model).fit(X, y).predict_membership(X)
    batches = [(form(X[:30]), y[:30]), (form(X[30:]), y[30:])]
    befores = [kept(S) for S, _ in batches]
    streamed = clone(model).partial_fit(*batches[0], classes=[0, 1]).partial_fit(*batches[1])
    assert_allclose(streamed.predict_membership(X), expected, atol=1e-6)
    fitted = files.fit(clone(model), lambda: iter(batches))
    assert_allclose(fitted.predict_membership(X), expected, atol=1e-6)
    files.predict(fitted, [S for S, _ in batches], tmp_path / "out.csv")
    written = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1)
    assert_allclose(written[:, 1:], expected, atol=1e-5)
    for (S, _), before in zip(batches, befores, strict=True):
        assert_kept(S, before)
    center = clone(model).set_params(membership="center")
    expected = clone(center).fit(X, y).predict_membership(X)
    fitted = files.fit(clone(center), lambda: iter(batches))
    assert_allclose(fitted.predict_membership(X), expected, atol=1e-6)


@every_form
@pytest.mark.parametrize("kernel", [pytest.param("linear", marks=pytest.mark.slow), "rbf"])
def test_searches(kernel, form):
    X, y = make()
    search = FuzzyTwinSVCCV(
        Cs=[0.5, 2.0], alphas=[1.0], memberships=(None, "neighbor"), kernels=kernel, cv=3,
        gammas=None if kernel == "linear" else [0.1], n_landmarks=25, random_state=0,
    )  # fmt: skip
    dense, S = clone(search).fit(X, y), form(X)
    rows = clone(search).fit(S, y)
    key = "mean_test_score"
    assert_allclose(rows.cv_results_[key], dense.cv_results_[key], rtol=1e-12)
    assert rows.best_params_ == dense.best_params_
    assert_allclose(rows.decision_function(S), dense.decision_function(X), atol=1e-6)


@every_form
def test_landmarks_gamma_and_maps(form):
    X, y = make()
    S = form(X)
    before = kept(S)
    given = FuzzyTwinSVC(kernel="rbf", gamma=0.1, n_landmarks=form(X[:20])).fit(X, y)
    same = FuzzyTwinSVC(kernel="rbf", gamma=0.1, n_landmarks=X[:20]).fit(X, y)
    assert_allclose(given.decision_function(X), same.decision_function(X), atol=1e-6)
    scale = FuzzyTwinSVC(kernel="rbf", n_landmarks=20, random_state=0)
    gammas = [clone(scale).fit(rows, y).landmark_map_.gamma for rows in (S, X)]
    assert gammas[0] == pytest.approx(gammas[1], rel=1e-9)
    assert_kept(S, before)


@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != "callable"])
def test_a_map_called_by_hand(kernel):
    X, _ = make()
    given = {"gamma": 1.0, "degree": 3, "coef0": 0.0, **KERNELS[kernel]}
    phi = LandmarkMap.of(X[:20], **given)
    assert_allclose(phi(doubled(X)), phi(X), atol=1e-6)
    assert_allclose(LandmarkMap.of(doubled(X[:20]), **given).kernel_values(X),
                    phi.kernel_values(X), atol=1e-12)  # fmt: skip
