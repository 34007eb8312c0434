"""Stacking: the maximum of the likelihood, matrix scaling, leave-one-out scores."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_iris

from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin.committee._fit import fit_rows
from fuzzytwin.committee._stacking import cross_fitted_scores, fit_stacking
from tests.committee.helpers import FEW, table


def test_combination_has_no_slope_left():
    rng = np.random.default_rng(0)
    Y, s = np.eye(2)[rng.integers(0, 2, 80)], rng.uniform(size=80)
    F = rng.normal(size=(80, 2, 4))
    F[..., 1] += Y
    found = fit_stacking(F, Y, s)

    def objective(t, b):
        scores = F @ t + b
        log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return -(s @ (Y * log_p).sum(axis=1)) + 0.05 * t @ t

    best = objective(found.weights, found.intercept)
    for _ in range(50):
        t = np.maximum(found.weights + 1e-3 * rng.normal(size=4), 0)
        assert objective(t, found.intercept + 1e-3 * rng.normal(size=2)) >= best - 1e-9


def test_a_class_between_two_others_is_brought_out():
    x = np.linspace(0, 3, 90)
    Y = np.eye(3)[np.arange(90) // 30]
    F = np.column_stack([1 - x / 2, np.full(90, 1 / 3), x / 2 - 0.5])[:, :, None]  # least squares
    found = fit_stacking(F, Y, np.ones(90))
    scores = found.scores(F)
    assert (scores.argmax(axis=1) == Y.argmax(axis=1)).mean() > 0.95
    assert ((F[:, :, 0].argmax(axis=1)) == 1).mean() < 0.15
    # The second step has no slope left either.
    P = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    np.testing.assert_allclose((P - Y).sum(axis=0), 0, atol=1e-4)


def test_cross_fitted_scores_are_those_of_stacking_without_the_fold():
    rng = np.random.default_rng(0)
    y, s, folds = np.arange(60) % 3, rng.uniform(0.5, 2, 60), np.arange(60) // 20
    F = rng.normal(size=(60, 3, 2))
    F[np.arange(60), y] += 0.5
    Y = np.eye(3)[y]
    scores = cross_fitted_scores(fit_stacking(F, Y, s), F, Y, s, folds)
    for fold in range(3):
        train, test = folds != fold, folds == fold
        expected = fit_stacking(F[train], Y[train], s[train]).scores(F[test])
        np.testing.assert_allclose(scores[test], expected)


@pytest.mark.parametrize("noise", [None, "auto"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_leave_one_out_probabilities_are_held_out_from_the_stacking(n_classes, noise):
    X, y = table(90, 4, n_classes)
    model = FuzzyTwinCommittee(members=FEW, noise=noise).fit(X, y)
    p_label = model.loo_proba_[np.arange(90), y]
    if noise is None:
        np.testing.assert_allclose(model.conformity_scores_[:, 0], np.sort(1 - p_label), atol=1e-9)
        assert model.loo_log_loss_ == pytest.approx(-np.log(p_label).mean(), abs=1e-9)
    F = fit_rows(FuzzyTwinCommittee(members=FEW, noise="auto"), X, y)[1]
    in_sample = softmax(model._stacking(model.members_).scores(F), axis=1)
    assert np.log(in_sample[np.arange(90), y]).mean() > np.log(p_label).mean()


@pytest.mark.parametrize("n", [2, 4])
def test_one_row_of_each_class_is_a_guess(n):
    X = np.random.default_rng(0).normal(size=(n, 3))
    with pytest.warns(UserWarning, match="each class has only one row"):
        model = FuzzyTwinCommittee().fit(X, np.arange(n))
    np.testing.assert_array_equal(model.predict(X), np.arange(n))


def test_hundreds_of_classes():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(200), 3)
    X = rng.normal(size=(200, 12))[y] + 0.5 * rng.normal(size=(600, 12))
    model = FuzzyTwinCommittee(members=["linear", "rbf"]).fit(X, y)
    assert model.predict_proba(X).shape == (600, 200)
    assert (model.loo_proba_.argmax(axis=1) == y).mean() > 0.5


def test_a_class_of_one_row_is_named_in_a_warning():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y][:101]
    with pytest.warns(UserWarning, match="y has only one row of 'c'"):
        FuzzyTwinCommittee(members=FEW).fit(X[:101], names)
    FuzzyTwinCommittee(members=FEW).fit(X[:102], np.array(["a", "b", "c"])[y][:102])
