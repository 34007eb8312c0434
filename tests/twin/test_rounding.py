"""Solvers where numbers are hard: large columns and rows, equal rows, ridges that are lost."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV


def shifted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)) + 10
    return X, (X[:, 0] + 0.3 * rng.normal(size=300) > 10).astype(int) + (X[:, 1] > 10)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_iterations_stop_at_the_rounding_floor_and_tell(C):
    """They diverged: coefficients of 1e68 to 1e153, or an error about an overflow."""
    X, y = shifted()
    expected = FuzzyTwinSVC(solver="moments", alpha=1e-9, C=C).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="relative error of up to"):
        found = FuzzyTwinSVC(solver="iterative", alpha=1e-9, C=C).fit(X, y)
    assert_allclose(found.coef_, expected.coef_, atol=1e-6)


@pytest.mark.parametrize("shape", [(60, 600), (60, 59)])
def test_search_in_row_space_measures_intuitionistic_distances_between_rows(shape):
    """Means of features were compared with rows: an error, or silently other degrees."""
    X = np.random.default_rng(0).normal(size=shape)
    y = (X[:, 0] > 0).astype(int)
    scores = [
        FuzzyTwinSVCCV(Cs=[1.0], alphas=[1.0], memberships=["intuitionistic"], cv=3, solver=solver)
        .fit(X, y)
        .cv_results_["mean_test_score"]
        for solver in ("gram", "moments")
    ]
    assert_allclose(scores[0], scores[1])


@pytest.mark.parametrize("solver", ["moments", "gram", "iterative"])
@pytest.mark.parametrize("value", [0.1, 0.7])
def test_a_class_of_equal_rows_has_full_degrees(solver, value):
    """By rows they were 1e-6: the mean of equal numbers was another number."""
    X = np.vstack([np.full((11, 2), value), np.random.default_rng(0).normal(size=(5, 2))])
    model = FuzzyTwinSVC(membership="center", solver=solver).fit(X, [0] * 11 + [1] * 5)
    assert (model.membership_[:11] == 1).all()


def test_gamma_of_a_constant_table_is_that_of_one_deviation():
    X = np.full((10, 2), 0.1)
    model = FuzzyTwinSVC(kernel="rbf", gamma="scale").fit(X, np.arange(10) % 2)
    assert model.landmark_map_.gamma == 0.5


@pytest.mark.parametrize("alpha", [1e-11, 1e-12, 1e-13])
@pytest.mark.parametrize("shape", [(20, 50), (40, 5)])
@pytest.mark.filterwarnings("ignore:the planes are ill-conditioned")
def test_leave_one_out_accepts_planes_of_rows_with_a_tiny_ridge(alpha, shape):
    X = np.random.default_rng(0).normal(size=shape)
    y = (X[:, 0] > 0).astype(int)
    model = FuzzyTwinSVC(solver="gram", alpha=alpha, calibration="loo").fit(X, y)
    expected = FuzzyTwinSVC(solver="moments", alpha=alpha).fit(X, y).loo_membership(X, y)
    assert_allclose(model.loo_membership(X, y), expected, atol=1e-5)


@pytest.mark.parametrize("solver", ["moments", "gram"])
def test_a_row_that_costs_planes_their_digits_gets_a_warning(solver):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FuzzyTwinSVC(solver=solver, alpha=10.0).fit(X, y)
    X[7] = 1e9
    with pytest.warns(UserWarning, match="ill-conditioned"):
        FuzzyTwinSVC(solver=solver, alpha=10.0).fit(X, y)


@pytest.mark.parametrize("solver", ["gram", "iterative"])
def test_a_constant_table_can_be_calibrated(solver):
    X, y = np.zeros((12, 3)), np.arange(12) % 2
    model = FuzzyTwinSVC(solver=solver, calibration="loo").fit(X, y)
    assert_allclose(model.predict_proba(X), 0.5, atol=1e-9)
    assert model.predict_set(X).all()
