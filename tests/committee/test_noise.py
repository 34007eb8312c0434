"""The model of labels: its gradient, known noise found again, which rows are flagged."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import softmax

from fuzzytwin.committee._noise import Likelihood, fit_noise, rows_to_flag
from fuzzytwin.committee._stacking import combine


def made(K, n=3000, seed=0, share=0.2, classes=None):
    """Scores of clean classes, labels with noise, and what is wrong."""
    rng = np.random.default_rng(seed)
    F = rng.normal(0, 2, (n, K, 1))
    clean = (softmax(2 * F[:, :, 0], axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    clean = np.minimum(clean, K - 1)
    wrong = rng.random(n) < share
    if classes is not None:
        wrong &= np.isin(clean, classes)
    labels = np.where(wrong, (clean + rng.integers(1, K, n)) % K, clean)
    return F, labels, wrong


@pytest.mark.parametrize("K", [2, 4])
def test_the_gradient_is_that_of_the_objective(K):
    F, labels, _ = made(K, n=60)
    s = np.random.default_rng(1).uniform(0, 2, 60)
    problem = Likelihood(np.concatenate([F, F**2], axis=2), labels, s)
    at = problem.start() + np.random.default_rng(2).normal(0, 0.3, len(problem.start()))
    numeric = approx_fprime(at, lambda x: problem.loss(x)[0], 1e-7)
    np.testing.assert_allclose(problem.loss(at)[1], numeric, atol=1e-6)


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("spread", [0.3, 2.0])
def test_the_curvature_is_that_of_the_objective(K, spread):
    F, labels, _ = made(K, n=70)
    s = np.random.default_rng(1).uniform(0, 2, 70)
    problem = Likelihood(np.concatenate([F, F**2], axis=2), labels, s)
    at = problem.start() + np.random.default_rng(2).normal(0, spread, len(problem.start()))
    steps = 1e-5 * np.eye(len(at))
    numeric = np.array([problem.loss(at + h)[1] - problem.loss(at - h)[1] for h in steps]) / 2e-5
    numeric[2 : 2 + K, 2 : 2 + K] += 1 / K  # what keeps the mean of b
    np.testing.assert_allclose(problem.curvature(at), numeric, atol=1e-7)


@pytest.mark.parametrize("K", [2, 3])
def test_the_objective_is_least_to_the_last_digits(K):
    F, labels, _ = made(K, n=200)
    problem = Likelihood(F, labels, np.ones(200))
    labels_alone = combine(F, np.eye(K)[labels], np.ones(200), 0.1, mixed=False)
    _, gradient = problem.loss(problem.solve(labels_alone))
    assert np.abs(gradient).max() < 1e-12


def test_of_many_classes_no_second_derivatives_are_needed(monkeypatch):
    F, labels, _ = made(4, n=300)
    by_newton = fit_noise(F, labels).posterior(F, labels)
    monkeypatch.setattr("fuzzytwin.committee._noise.MOST_CLASSES", 3)
    np.testing.assert_allclose(fit_noise(F, labels).posterior(F, labels), by_newton, atol=1e-4)


@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_the_number_of_wrong_labels_is_found_again(K, share):
    F, labels, wrong = made(K, share=share)
    model = fit_noise(F, labels)
    low, high = model.interval
    assert low <= wrong.sum() <= high
    assert model.n_wrong == pytest.approx(wrong.sum(), rel=0.15, abs=0.05 * len(wrong))
    assert model.trust > 0.9
    assert model.chance.weights[0] == pytest.approx(2, rel=0.25)
    np.testing.assert_allclose(model.posterior(F, labels).sum(axis=1), 1)


@pytest.mark.parametrize("K", [2, 5])
def test_probabilities_of_true_classes_follow_from_those_of_labels(K):
    """p of the rows as made, from q = p T, by as much as chance is believed in."""
    F, labels, _ = made(K, share=0.3)
    model = fit_noise(F, labels)
    found = model.with_noise_correction(combine(F, np.eye(K)[labels], np.ones(len(labels)), 0.1))
    P, Q = softmax(2 * F[:, :, 0], axis=1), softmax(found.scores(F), axis=1)
    assert found.chance == pytest.approx(0.8, abs=0.01)
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    labels_alone = softmax(replace(found, unmixing=None).scores(F), axis=1)
    assert np.abs(Q - P).mean() < 0.75 * np.abs(labels_alone - P).mean()


def test_noise_in_one_class_is_found_there():
    F, labels, wrong = made(2, classes=[0], share=0.3)
    J = fit_noise(F, labels).posterior(F, labels)
    own = J[np.arange(len(labels)), labels]
    found = [(1 - own)[labels == k].sum() for k in (0, 1)]
    assert found[1] == pytest.approx(wrong.sum(), rel=0.2)  # they are called 1 now
    assert found[0] < 0.1 * wrong.sum()


def test_noise_that_grows_towards_the_border_is_within_the_interval():
    """The likelihood alone explains such errors as overlap (50, 0 to 135, of 239)."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=3000)
    truth = (z > 1).astype(int)
    wrong = rng.random(3000) < 0.45 * np.exp(-np.abs(z - 1) / 0.5)
    labels = np.where(wrong, 1 - truth, truth)
    F = np.stack([np.zeros_like(z), z - 1], axis=1)[:, :, None]
    model = fit_noise(F, labels)
    low, high = model.interval
    assert low <= wrong.sum() <= high
    assert model.n_wrong == pytest.approx(wrong.sum(), rel=0.5)
    J = model.posterior(F, labels)
    flags = rows_to_flag(1 - J[np.arange(3000), labels])
    assert 2 * (flags & wrong).sum() / (flags.sum() + wrong.sum()) > 0.8
    # Where rows that take part are fitted much better than rows left out, planes are not yet
    # known, and rows at the border are not doubtful as such.
    unsure = fit_noise(F, labels, fitted=F + 2 * np.eye(2)[labels][:, :, None])
    assert unsure.sharper < model.sharper
    assert unsure.n_wrong < 0.5 * model.n_wrong


def test_clean_labels_are_left_alone():
    F, labels, _ = made(3, share=0.0)
    assert fit_noise(F, labels).interval[0] < 0.01 * len(labels)
    F = 50 * (np.eye(3)[labels] - 0.5)[:, :, None]
    model = fit_noise(F, labels)
    assert model.n_wrong < 0.01 * len(labels)
    own = model.posterior(F, labels)[np.arange(len(labels)), labels]
    assert not rows_to_flag(1 - own).any()


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_no_number_is_claimed_where_values_tell_nothing(share):
    rng = np.random.default_rng(0)
    F, labels = rng.normal(0, 0.1, (300, 2, 2)), (rng.random(300) < share).astype(int)
    model = fit_noise(F, labels)
    assert not model.tells
    assert np.isnan(model.n_wrong)
    assert model.interval == (0.0, 300.0)
    assert model.posterior(F, labels)[np.arange(300), labels].min() > 0.85


def test_weights_are_repetitions_but_for_the_count():
    F, labels, _ = made(2, n=200)
    s = np.arange(200) % 3 + 1
    heavy = fit_noise(F, labels, s.astype(float)).posterior(F, labels)
    F, labels = np.repeat(F, s, axis=0), np.repeat(labels, s)
    repeated = fit_noise(F, labels).posterior(F, labels)
    np.testing.assert_allclose(np.repeat(heavy, s, axis=0), repeated, atol=1e-3)


def test_flags_by_brute_force():
    q = np.random.default_rng(0).random(9) ** 3
    flags = rows_to_flag(q)
    assert q[flags].min() > 0.25  # so that the best of F1 is what is flagged
    order = np.argsort(-q)
    scores = [2 * q[order[:m]].sum() / (m + q.sum()) for m in range(1, 10)]
    assert flags.sum() == np.argmax(scores) + 1
    assert q[flags].min() > q[~flags].max()


def test_no_flag_where_no_label_is_likely_to_be_wrong():
    assert not rows_to_flag(np.full(10, 0.001)).any()
    assert not rows_to_flag(np.zeros(3)).any()
    assert rows_to_flag(np.ones(3)).all()


def test_no_flag_that_is_wrong_with_little_probability():
    assert not rows_to_flag(np.full(200, 0.12)).any()
    assert rows_to_flag(np.r_[np.full(200, 0.1), np.full(50, 0.3)]).sum() == 50


def test_equal_rows_are_flagged_alike():
    for_rounding = 1 + 1e-14 * np.arange(6)
    flags = rows_to_flag(np.r_[np.full(4, 0.5), 0.26 * for_rounding, np.full(9, 0.01)])
    assert flags[4:10].all() or not flags[4:10].any()
    # Here every number of the equal rows promises the same F1.
    flags = rows_to_flag(np.full(6, 0.5) * for_rounding)
    assert flags.all()
