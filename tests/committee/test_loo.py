"""Held-out probabilities of a committee are those of refits, and of its log loss."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import Ridge

from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin.committee._first_pass import Scales
from fuzzytwin.committee._fit import fit_rows
from fuzzytwin.committee._members import predict_values
from tests.committee.helpers import FEW, table


def options(how, y):
    """What is given to a fit besides rows and labels."""
    return {
        "weights": {"sample_weight": np.random.default_rng(0).integers(0, 3, len(y))},
        "soft": {"membership": 0.8 * np.eye(3)[y] + 0.2 / 3},
        "groups": {"groups": np.arange(len(y)) // 2},
    }.get(how, {})


@pytest.mark.parametrize("how", ["plain", "weights", "soft", "groups"])
def test_held_out_values_are_those_of_a_refit_with_the_same_features(how):
    X, y = table()
    given = options(how, y)
    model = FuzzyTwinCommittee(members=["linear", ("rbf", {"gamma": 0.2})], n_landmarks=X[:20])
    fit, values = fit_rows(model, X, y, **given)
    Z, weight = fit.scaler.scales(X), given.get("sample_weight", np.ones(60)) / fit.scaler.unit
    Y, groups = given.get("membership", np.eye(3)[y]), given.get("groups", np.arange(60))
    for m, fitted in enumerate(fit.members):
        features = Z
        if not fitted.features.columns:
            features = fitted.features.map.kernel_values(Z, None) @ fitted.features.root
        for group in range(0, groups.max() + 1, 7):
            rest, left_out = groups != group, groups == group
            ridge = Ridge(fitted.member.alpha).fit(features[rest], Y[rest], weight[rest])
            np.testing.assert_allclose(
                ridge.predict(features[left_out]), values[left_out, :, m], atol=1e-7
            )


@pytest.mark.parametrize("how", ["plain", "weights", "soft", "groups", "landmarks"])
def test_held_out_probabilities_have_the_log_loss_of_the_fit(how, monkeypatch):
    monkeypatch.setattr("fuzzytwin.committee._ridge_members.SAMPLE_ROWS", 10)  # rows in blocks
    X, y = table()
    given = options(how, y)
    model = FuzzyTwinCommittee(n_landmarks=20 if how == "landmarks" else "auto").fit(X, y, **given)
    P = model.loo_proba_
    Y, s = given.get("membership", np.eye(3)[y]), given.get("sample_weight", np.ones(60))
    loss = -(s @ (Y * np.log(P)).sum(axis=1)) / s.sum()
    assert loss == pytest.approx(model.loo_log_loss_, abs=1e-9)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_allclose(P[s == 0], model.predict_proba(X[s == 0]), atol=1e-12)


@pytest.mark.parametrize("tiny", [1e-100, 1e-20, 1e-9])
def test_rows_of_tiny_weights_are_nearly_left_out(tiny):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = X[:, 0] + 0.8 * rng.normal(size=60) > 0
    weight = np.where(np.arange(60) < 6, tiny, 1.0)
    rest = FuzzyTwinCommittee(members=FEW).fit(X[6:], y[6:])
    scales = Scales(rest.mean_, rest.scale_, rest.limits_)
    expected = predict_values(rest.members_, X[:6], scales, rest.landmarks_)
    values = fit_rows(FuzzyTwinCommittee(members=FEW), X, y, weight)[1]
    np.testing.assert_allclose(values[:6], expected, atol=1e-6)


def test_repeated_rows_in_groups_are_left_out_together():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:150], y[:150]
    X5, y5, groups = np.repeat(X, 5, axis=0), np.repeat(y, 5), np.repeat(np.arange(150), 5)
    X5 = X5 + 1e-3 * X.std(axis=0) * np.random.default_rng(0).normal(size=X5.shape)
    once = FuzzyTwinCommittee(members=FEW).fit(X, y).loo_log_loss_
    alone = FuzzyTwinCommittee(members=FEW).fit(X5, y5).loo_log_loss_
    together = FuzzyTwinCommittee(members=FEW).fit(X5, y5, groups=groups).loo_log_loss_
    assert alone < once / 3
    assert together == pytest.approx(once, rel=0.25)
