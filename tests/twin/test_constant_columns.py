"""A constant column tells nothing, so its value changes nothing, however large it is."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC, FuzzyTwinSVCCV, LeastSquaresSVC, TwinSVC
from fuzzytwin._rows import validate_chunk
from fuzzytwin.committee._first_pass import run_first_pass
from fuzzytwin.core.blocks import column_means
from fuzzytwin.kernels._bandwidths import resolve_gamma

VALUES = (1.7e18, -1e30, 1e60, 1e200, 1.7e308)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.8 * rng.normal(size=240) > 0).astype(int)
    return X, y


def with_constant(X, value):
    return np.column_stack([X, np.full(len(X), value)])


@pytest.mark.parametrize(
    "value",
    [*VALUES[::2], *(pytest.param(value, marks=pytest.mark.slow) for value in VALUES[1::2])],
)
@pytest.mark.parametrize(
    "model",
    [
        FuzzyTwinCommittee(),
        FuzzyTwinCommittee(n_landmarks=40),
        FuzzyTwinSVC(kernel="rbf", alpha="auto"),
        FuzzyTwinSVC(kernel="rbf", alpha="auto", n_landmarks=40),
        FuzzyTwinSVCCV(kernels=("rbf",), memberships=(None,), Cs=[1.0], alphas=[1.0], cv=2),
        LeastSquaresSVC(kernel="rbf"),
        TwinSVC(kernel="rbf"),
    ],
)
def test_the_value_of_a_constant_column_changes_no_prediction(table, model, value):
    X, y = table
    scores = [
        model.fit(with_constant(X[:160], c), y[:160]).decision_function(with_constant(X[160:], c))
        for c in (0.0, value)
    ]
    # A committee sorts rows by what they hold, so that sums differ in their last bits.
    assert_allclose(scores[1], scores[0], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("value", [1.7e18, 1e60])
def test_a_constant_column_of_sparse_rows_changes_no_prediction(table, value):
    X, y = table
    forms = [sparse.csr_array(with_constant(np.maximum(X, 0.0), c)) for c in (1.0, value)]
    model = FuzzyTwinCommittee()
    P = [model.fit(form[:160], y[:160]).predict_proba(form[160:]) for form in forms]
    assert_allclose(P[1], P[0], atol=1e-12)


def test_a_constant_column_of_training_is_ignored_in_new_rows(table):
    X, y = table
    model = FuzzyTwinCommittee().fit(with_constant(X[:160], 1.7e18), y[:160])
    same, later = (with_constant(X[160:], value) for value in (1.7e18, 1.8e18))
    assert_array_equal(model.predict_proba(later), model.predict_proba(same))


def test_the_mean_of_a_constant_column_is_its_value_in_chunks_too(table):
    X, y = table
    rows = with_constant(X, 1.7e18 + 0.1)

    def total(function, *shared):
        parts = [
            function(*shared, validate_chunk(rows[i], y[i], np.linspace(0.1, 0.7, len(y))[i]))
            for i in (slice(0, 7), slice(7, 100), slice(100, 240))
        ]
        return parts[0] + parts[1] + parts[2]

    look, _ = run_first_pass(total)
    assert look.mean[-1] == rows[0, -1]
    assert look.scatter[-1] == 0
    assert_array_equal(column_means(rows)[-1], rows[0, -1])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_gamma_by_scale_is_that_of_the_columns_that_vary(table, form):
    X, _ = table
    wanted = 1 / (X.shape[1] * X.var())
    assert_allclose(resolve_gamma("scale", form(X), None), wanted)
    for value in (0.0, 3.0, 1.7e18):
        assert_allclose(resolve_gamma("scale", form(with_constant(X, value)), None), wanted)
    light = np.append(np.ones(len(X)), 0.0)
    last = np.append(with_constant(X, 3.0), np.full((1, 5), 4.0), axis=0)
    assert_allclose(resolve_gamma("scale", form(last), light), wanted)
