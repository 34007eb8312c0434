"""Leave-one-out probabilities of a committee are those of refits, and of its fit."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from fuzzytwin import FuzzyTwinCommittee
from tests.committee.helpers import FEW, table


def test_loo_proba_is_what_a_refit_with_the_same_features_predicts():
    X, y = table()
    model = FuzzyTwinCommittee(members=["linear", ("rbf", {"gamma": 0.2})], n_landmarks=X[:20]).fit(
        X, y
    )
    P = model.loo_proba(X, y)
    assert np.allclose(P.sum(axis=1), 1)
    loss = -np.log(P[np.arange(len(y)), y]).mean()
    assert loss == pytest.approx(model.loo_log_loss_, abs=1e-9)
    with pytest.raises(ValueError, match="differs from the training data"):
        model.loo_proba(X + 0.1 * np.random.default_rng(0).normal(size=X.shape), y)


@pytest.mark.parametrize("how", ["plain", "weights", "soft", "groups", "landmarks"])
def test_loo_proba_is_that_of_the_fit(how, monkeypatch):
    X, y = table()
    rng = np.random.default_rng(0)
    given = {
        "weights": {"sample_weight": rng.integers(0, 3, 60)},
        "soft": {"membership": 0.8 * np.eye(3)[y] + 0.2 / 3},
        "groups": {"groups": np.arange(60) // 2},
    }.get(how, {})
    model = FuzzyTwinCommittee(n_landmarks=20 if how == "landmarks" else "auto").fit(X, y, **given)
    monkeypatch.setattr("fuzzytwin.committee._ridge_members.SAMPLE_ROWS", 10)  # rows in blocks
    P = model.loo_proba(X, y, **given)
    Y, s = given.get("membership", np.eye(3)[y]), given.get("sample_weight", np.ones(60))
    loss = -(s @ (Y * np.log(P)).sum(axis=1)) / s.sum()
    assert loss == pytest.approx(model.loo_log_loss_, abs=1e-9)


@pytest.mark.parametrize("tiny", [1e-100, 1e-20, 1e-9])
def test_rows_of_tiny_weights_are_nearly_left_out(tiny):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = X[:, 0] + 0.8 * rng.normal(size=60) > 0
    weight = np.where(np.arange(60) < 6, tiny, 1.0)
    rest = FuzzyTwinCommittee().fit(X[6:], y[6:])
    left_out = FuzzyTwinCommittee().fit(X, y, weight).loo_proba(X, y, weight)
    np.testing.assert_allclose(left_out[:6], rest.predict_proba(X[:6]), atol=1e-6)


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
