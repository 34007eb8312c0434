"""Members that are ridge regressions: bandwidths, landmarks, sparse rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons

from fuzzytwin import FuzzyTwinCommittee
from tests.committee.helpers import FEW, table


@pytest.mark.parametrize("factor", [0.1, 2.5, 3.0])
def test_a_common_factor_of_weights_leaves_the_median_distance_where_it_is_tied(factor):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, s = rng.normal(size=(40, 3)), np.where(rng.random(40) < 0.5, 1, 3)
        y, model = (
            X[:, 0] + rng.normal(size=40) > 0,
            FuzzyTwinCommittee(members=["rbf"], random_state=0),
        )
        gammas = [clone(model).fit(X, y, f * s).members_[0].gamma for f in (1, factor)]
        assert gammas[0] == pytest.approx(gammas[1], rel=1e-9)


def test_the_last_digit_of_weights_hardly_moves_probabilities():
    """Sums of kernel values that nearly depend on each other lose digits: 2e-3 here once."""
    X, y = make_moons(1600, noise=0.2, random_state=2)
    s = 1 + 1e-15 * np.random.default_rng(0).integers(-2, 3, len(y))
    model = FuzzyTwinCommittee(
        members=["rbf", ("rbf", {"length_scale_factor": 4.0})], n_landmarks=X[:150]
    )
    before = model.fit(X, y).predict_proba(X)
    after = model.fit(X, y, sample_weight=s).predict_proba(X)
    np.testing.assert_allclose(after, before, atol=1e-6)


@pytest.mark.filterwarnings("ignore:about .* rows equal another row")
def test_fewer_groups_of_equal_rows_than_folds():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (90, 1)).astype(float)
    y = X[:, 0] + 0.8 * rng.normal(size=90) > 0.5
    groups = np.arange(90) % 3
    model = FuzzyTwinCommittee().fit(X, y, groups=groups)
    assert np.isfinite(model.loo_proba_).all()


def test_landmarks_of_many_rows_are_fewer():
    X, y = table(1600, 5, 2)
    model = FuzzyTwinCommittee(members=["rbf"], random_state=0).fit(X, y)
    assert 300 <= len(model.landmarks_) < 1500
    assert model.loo_proba_.shape == (1600, 2)


def test_kernels_that_are_not_definite_predict_what_is_left_out():
    X, y = load_iris(return_X_y=True)
    model = FuzzyTwinCommittee(members=["sigmoid", "poly", "cosine"]).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.loo_log_loss_ < 0.3


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array])
def test_sparse_rows_are_predicted_by_a_model_of_dense_ones_and_the_other_way_round(form):
    X, y = load_iris(return_X_y=True)
    for learned, other in ((X, form(X)), (form(X), X)):
        model = FuzzyTwinCommittee(members=FEW).fit(learned, y)
        P = model.predict_proba(learned)
        np.testing.assert_allclose(model.predict_proba(other), P, atol=1e-9)


def test_dense_landmarks_of_sparse_rows():
    X, y = table(40)
    X = sparse.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
    dense, thin = (
        FuzzyTwinCommittee(members=FEW, n_landmarks=marks).fit(X, y)
        for marks in (X[:9].toarray(), X[:9])
    )
    np.testing.assert_allclose(dense.predict_proba(X), thin.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("factor", [1e200, 1e-200])
def test_a_length_scale_beyond_all_numbers_is_named(factor):
    with pytest.raises(ValueError, match="length_scale_factor=1e"):
        FuzzyTwinCommittee(members=[("rbf", {"length_scale_factor": factor})]).fit(*table())


@pytest.mark.parametrize("n_landmarks", [40, "auto"])
def test_the_order_of_rows_and_columns_does_not_choose_landmarks(n_landmarks):
    X, y = make_moons(1700, noise=0.3, random_state=0)
    order = np.random.default_rng(0).permutation(len(y))
    model = FuzzyTwinCommittee(members=FEW, n_landmarks=n_landmarks, random_state=0)
    P = clone(model).fit(X, y).predict_proba(X)
    by_rows = clone(model).fit(X[order], y[order]).predict_proba(X)
    by_columns = clone(model).fit(X[:, ::-1], y).predict_proba(X[:, ::-1])
    np.testing.assert_allclose(by_rows, P, atol=1e-8)
    np.testing.assert_allclose(by_columns, P, atol=1e-8)
