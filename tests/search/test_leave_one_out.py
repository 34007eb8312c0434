"""``cv="loo"`` against a search over all splits that leave one row out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneOut

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV


def table(n_classes, n=40, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n, 4)) + 1.2 * rng.normal(size=(n_classes, 4))[y], y


@pytest.mark.parametrize("kernels", ["linear", "rbf"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_scores_are_those_of_fits_without_each_row(n_classes, multi_class, kernels):
    X, y = table(n_classes)
    search = FuzzyTwinSVCCV(
        [0.25, 1.0], alphas=[0.0, 0.1, 3.0], memberships=[None], cv="loo", kernels=kernels,
        gammas=[0.1], multi_class=multi_class, n_landmarks=X[:6],
    ).fit(X, y)  # fmt: skip
    results = search.cv_results_
    for point in (0, 3, len(results["params"]) - 1):
        model = FuzzyTwinSVC(**results["params"][point], multi_class=multi_class, n_landmarks=X[:6])
        hits = [
            (model.fit(X[train], y[train]).predict(X[test]) == y[test]).item()
            for train, test in LeaveOneOut().split(X)
        ]
        # Ten groups of four rows: the mean of their scores is the mean over all rows.
        assert results["mean_test_score"][point] == pytest.approx(np.mean(hits))
    assert search.n_splits_ == 10
    assert search.best_estimator_.predict(X).shape == y.shape


def test_brier_scores_and_weights():
    X, y = table(2)
    settings = {"memberships": [None], "rules": ["residual"], "selection": "band"}
    search = FuzzyTwinSVCCV([1.0], alphas=[1.0], cv="loo", **settings).fit(X, y)
    u = FuzzyTwinSVC(rule="residual", alpha=1.0, C=1.0).fit(X, y).loo_membership(X, y)
    brier = 2 * (1 - u[np.arange(len(y)), y]) ** 2
    assert search.cv_results_["mean_test_brier"][0] == pytest.approx(brier.mean())
    s = np.where(np.arange(len(y)) < 8, 0.0, 1.0)
    weighted = FuzzyTwinSVCCV([1.0], alphas=[1.0], cv="loo", **settings).fit(X, y, s)
    fewer = FuzzyTwinSVC(rule="residual", alpha=1.0, C=1.0).fit(X[8:], y[8:])
    np.testing.assert_allclose(weighted.best_estimator_.coef_, fewer.coef_)


def test_what_loo_refuses():
    X, y = table(2)
    for given, text in (
        ({"scoring": "roc_auc"}, "scoring='roc_auc'"),
        ({"planes": "fuzzy"}, "planes='crisp'"),
        ({"solver": "iterative", "memberships": [None]}, "solver='iterative'"),
    ):
        with pytest.raises(ValueError, match=text):
            FuzzyTwinSVCCV([1.0], alphas=[1.0], cv="loo", **given).fit(X, y)
    balanced = FuzzyTwinSVCCV(
        [0.5, 1.0], alphas=[1.0], memberships=["center", None], cv="loo",
        scoring="balanced_accuracy", class_weight="balanced", calibration="loo",
    )  # fmt: skip
    assert balanced.fit(X, y).best_score_ > 0.5
