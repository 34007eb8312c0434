"""Rows taken out again: the model of the rows that remain, or an error and the old model."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fuzzytwin import GEPSVC, FuzzyTwinSVC, LeastSquaresSVC, LeastSquaresTwinSVC, ProximalSVC
from fuzzytwin.core.moments import MAX_LOSS, ClassMoments

MACHINES = [
    FuzzyTwinSVC(),
    FuzzyTwinSVC(planes="fuzzy", class_weight="balanced", C=0.3),
    LeastSquaresTwinSVC(C=0.5),
    ProximalSVC(),
    LeastSquaresSVC(),
    GEPSVC(),
]


def rows(n=600, d=5, K=3, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + y[:, None] * rng.normal(size=d)
    return X + offset, y


def assert_same(model, other, rtol=1e-9):
    # Signs of the eigenvectors of GEPSVC are fixed, so planes can be compared as they are.
    size = np.abs(other.coef_).max()
    assert_allclose(model.coef_, other.coef_, rtol=rtol, atol=rtol * size)
    shift = np.abs(other.coef_) @ np.abs(_moments(other).mean).max(axis=0)
    assert_allclose(model.intercept_, other.intercept_, rtol=rtol, atol=rtol * shift.max())


def _moments(model):
    return getattr(model.moments_, "own", model.moments_)


@pytest.mark.parametrize("machine", MACHINES, ids=repr)
@pytest.mark.parametrize("K", [2, 5])
def test_forget_is_fit_on_the_rest(machine, K):
    X, y = rows(K=K)
    s = np.random.default_rng(1).random(len(y))
    rest = np.arange(len(y)) % 3 > 0
    model = machine.fit(X, y, s).forget(X[~rest], y[~rest], s[~rest])
    assert_same(model, type(machine)(**machine.get_params()).fit(X[rest], y[rest], s[rest]))


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_far_from_zero(offset):
    X, y = rows(offset=offset)
    model = FuzzyTwinSVC().fit(X, y).forget(X[:200], y[:200])
    assert_same(model, FuzzyTwinSVC().fit(X[200:], y[200:]))


def test_given_degrees_and_soft_labels():
    X, y = rows()
    rng = np.random.default_rng(1)
    for mu in (rng.random(len(y)), rng.dirichlet(np.ones(3), len(y))):
        model = FuzzyTwinSVC().fit(X, y, membership=mu)
        model.forget(X[:200], y[:200], membership=mu[:200])
        assert_same(model, FuzzyTwinSVC().fit(X[200:], y[200:], membership=mu[200:]))


def test_constant_column_and_one_class_alone():
    X, y = rows()
    X[:, 2] = 0.1
    here = np.flatnonzero(y == 1)[:50]
    rest = np.setdiff1d(np.arange(len(y)), here)
    model = FuzzyTwinSVC().fit(X, y).forget(X[here], y[here])
    assert_same(model, FuzzyTwinSVC().fit(X[rest], y[rest]))
    assert model.forget_loss_[0] == model.forget_loss_[2] == 1 < model.forget_loss_[1]


def test_forgotten_rows_can_be_learned_again():
    X, y = rows()
    model = FuzzyTwinSVC().fit(X, y)
    model.forget(X[:100], y[:100]).partial_fit(X[:100], y[:100])
    assert_same(model, FuzzyTwinSVC().fit(X, y))
    merged = model.merge(FuzzyTwinSVC().fit(X, y))
    assert merged.forget_loss_.max() > 1


def test_nothing_of_single_rows_stays():
    X, y = rows()
    model = FuzzyTwinSVC().fit(X, y)
    assert len(model.membership_) == len(y)
    assert not hasattr(model.forget(X[:10], y[:10]), "membership_")


def refused(model, match, X, y, **given):
    before = dict(vars(model))
    coef = model.coef_.copy()
    with pytest.raises(ValueError, match=match):
        model.forget(X, y, **given)
    assert vars(model) == before
    assert np.array_equal(model.coef_, coef)


def test_refuses_more_than_was_learned():
    X, y = rows()
    refused(FuzzyTwinSVC().fit(X[:100], y[:100]), "total weight of .* was fitted on", X, y)
    refused(FuzzyTwinSVC().fit(X, y), "total weight of", X, y, sample_weight=np.full(len(y), 2.0))


def test_refuses_all_and_nearly_all():
    X, y = rows()
    model = FuzzyTwinSVC().fit(X, y)
    refused(model, "mostly rounding error", X, y)
    X, y = rows(n=60_000, K=2)
    rest = np.r_[np.flatnonzero(y == 0)[:2], np.flatnonzero(y == 1)]
    out = np.setdiff1d(np.arange(len(y)), rest)
    refused(FuzzyTwinSVC().fit(X, y), "weight of class 0, or the variance", X[out], y[out])


def test_refuses_a_column_that_would_become_constant():
    X, y = rows()
    X[:, 3] = np.arange(len(y)) == 7
    refused(FuzzyTwinSVC().fit(X, y), "mostly rounding error", X[7:8], y[7:8])


def test_losses_of_many_calls_add_up():
    X, y = rows(n=40_000, K=2)
    model = FuzzyTwinSVC().fit(X, y)
    n = len(y)
    while n == len(y) or model.forget_loss_.max() < MAX_LOSS / 4:
        model.forget(X[n // 2 : n], y[n // 2 : n])
        n //= 2
    with pytest.raises(ValueError, match="mostly rounding error"):
        model.forget(X[n // 8 : n], y[n // 8 : n])
    # What it did allow is true.
    assert model.forget_loss_.max() < MAX_LOSS
    assert n < 80
    assert_same(model, FuzzyTwinSVC().fit(X[:n], y[:n]), rtol=1e-7)


def test_refuses_rows_that_were_never_learned():
    X, y = rows()
    model = FuzzyTwinSVC().fit(X, y)
    refused(model, "larger scatter", X[:20] + 1e3, y[:20])
    # In a direction in which the columns together do not reach so far.
    Z = X.copy()
    Z[:, 4] = Z[:, 0] + 1e-6 * Z[:, 4]
    strange = Z[:200].copy()
    strange[:, 4] += 0.01 * np.random.default_rng(3).normal(size=200)
    refused(FuzzyTwinSVC().fit(Z, y), "larger scatter", strange, y[:200])


def test_refuses_unknown_labels_other_columns_and_the_unfitted():
    X, y = rows()
    model = FuzzyTwinSVC().fit(X, y)
    refused(model, "not among classes", X[:3], [0, 1, 7])
    refused(model, "features", X[:3, :4], y[:3])
    with pytest.raises(ValueError, match="not fitted"):
        FuzzyTwinSVC().forget(X, y)


def test_refuses_memberships_that_do_not_stream():
    X, y = rows()
    model = FuzzyTwinSVC(membership="center").fit(X, y)
    assert not hasattr(model, "forget")
    refused(model, "forget is not available", X[:3], y[:3])


def test_moments_without_check_themselves():
    X, y = rows(K=2)
    whole = ClassMoments.from_rows(X, y, n_classes=2)
    part = ClassMoments.from_rows(X[:100], y[:100], n_classes=2)
    rest, loss = whole.without(part)
    truth = ClassMoments.from_rows(X[100:], y[100:], n_classes=2)
    assert_allclose(rest.mean, truth.mean, rtol=1e-12)
    assert_allclose(rest.covariance, truth.covariance, rtol=1e-11, atol=1e-12)
    assert (loss > 1).all()
    same, loss = whole.without(ClassMoments.zeros(2, X.shape[1]))
    assert np.array_equal(same.covariance, whole.covariance)
    assert (loss == 1).all()
