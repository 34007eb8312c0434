"""``cv="loo"`` against fits without each row, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, LeaveOneOut

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV
from fuzzytwin.core.calibration import CALIBRATIONS

OF_SECOND = {"f1": f1_score, "precision": precision_score, "recall": recall_score}


def table(n_classes, n=40, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n, 4)) + 1.2 * rng.normal(size=(n_classes, 4))[y], y


def groups_of(y):
    """The ten groups of rows whose scores take the place of folds, as the guide describes them."""
    group = np.empty(len(y), dtype=int)
    group[np.argsort(y, kind="stable")] = np.arange(len(y)) % 10
    return group


def assert_scores_are_those_of_refits(search, X, y, s=None, **shared):
    """Compare every group's score and Brier score at every point with fits without each row."""
    search.fit(X, y, s)
    results, group = search.cv_results_, groups_of(y)
    weight = np.ones(len(y)) if s is None else s
    for j, params in enumerate(results["params"]):
        model = FuzzyTwinSVC(**params, **shared)
        u = np.empty((len(y), len(np.unique(y))))
        hits = np.empty(len(y))
        for train, test in LeaveOneOut().split(X):
            model.fit(X[train], y[train], None if s is None else s[train])
            u[test], hits[test] = (
                model.predict_membership(X[test]),
                model.predict(X[test]) == y[test],
            )
        loss = ((u - np.eye(u.shape[1])[y]) ** 2).sum(axis=1)
        brier = [np.average(loss[group == g], weights=weight[group == g]) for g in range(10)]
        for g in range(10):
            mine, v = group == g, weight[group == g]
            score = np.average(hits[mine], weights=v)
            if search.scoring in OF_SECOND:
                called = np.where(hits[mine], y[mine], 1 - y[mine])
                given = {"sample_weight": v, "zero_division": 0.0}
                score = OF_SECOND[search.scoring](y[mine], called, **given)
            if search.scoring == "balanced_accuracy":
                labels = [k for k in np.unique(y) if weight[mine & (y == k)].sum() > 0]
                score = np.mean(
                    [np.average(hits[mine & (y == k)], weights=weight[mine & (y == k)])
                     for k in labels]
                )  # fmt: skip
            assert results[f"split{g}_test_score"][j] == pytest.approx(score, abs=1e-9), params
        found = results["mean_test_brier"][j]
        assert np.isnan(found) or found == pytest.approx(np.mean(brier), abs=1e-7), params


def test_scores_of_two_values_of_C_belong_to_the_planes_they_name():
    """C = (a, b) and (b, a) have scores of their own, by LeaveOneOut and by ``cv="loo"``."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + rng.normal(size=60) > 0.8).astype(int)
    search = FuzzyTwinSVCCV(
        [0.1, 10.0], alphas=[1.0], memberships=None, rules=["residual"], cv="loo",
        selection="score",
    )  # fmt: skip
    assert_scores_are_those_of_refits(search, X, y)
    mean = dict(zip(map(str, search.cv_results_["param_C"]), search.cv_results_["mean_test_score"],
                    strict=True))  # fmt: skip
    assert mean["(0.1, 10.0)"] == pytest.approx(0.7, abs=0.01)
    assert mean["(10.0, 0.1)"] == pytest.approx(0.467, abs=0.01)


RANDOM_SEARCHES = 3


@pytest.mark.parametrize(
    "seed",
    [*range(RANDOM_SEARCHES)]
    + [pytest.param(seed, marks=pytest.mark.slow) for seed in range(RANDOM_SEARCHES, 60)],
)
def test_random_searches_are_those_of_refits(seed):
    """Two to four classes of unequal size, all rules, weights, both strategies, any values."""
    rng = np.random.default_rng(seed)
    K = 2 + seed % 3
    y = np.concatenate([np.arange(K), np.arange(K), rng.choice(K, 22, p=rng.dirichlet(np.ones(K)))])
    X = rng.normal(size=(len(y), 3)) + rng.normal(size=(K, 3))[y] + 10 * rng.normal(size=3)
    s = rng.integers(1, 4, len(y)).astype(float) if seed % 2 else None
    shared = {
        "multi_class": str(rng.choice(["ovo", "ovr"])),
        "class_weight": [None, "balanced"][rng.integers(2)] if s is None else None,
    }
    if shared["class_weight"]:  # its weights would change with the row that is left out
        shared["class_weight"] = dict(enumerate(rng.uniform(0.5, 2.0, K).tolist()))
    search = FuzzyTwinSVCCV(
        (2.0 ** rng.integers(-4, 5, 2)).tolist(), alphas=[0.0, 10.0 ** rng.uniform(-3, 2)],
        memberships=None, cv="loo", scoring=[None, "balanced_accuracy"][rng.integers(2)], **shared,
    )  # fmt: skip
    assert_scores_are_those_of_refits(search, X, y, s, **shared)


@pytest.mark.parametrize("scoring", OF_SECOND)
@pytest.mark.parametrize("n_second", [12, 6])  # in each group of rows, or not
def test_scores_of_the_positive_class_are_those_of_refits(scoring, n_second):
    rng = np.random.default_rng(n_second)
    y = np.arange(40) < n_second
    X, s = rng.normal(size=(40, 3)) + y[:, None], rng.integers(1, 4, 40).astype(float)
    search = FuzzyTwinSVCCV([0.2, 3.0], alphas=[1.0], memberships=None, cv="loo", scoring=scoring)
    assert_scores_are_those_of_refits(search, X, y.astype(int), s)
    for labels in (np.where(y, "a", "b"), np.arange(40) % 3):  # no positive label, three classes
        with pytest.raises(ValueError, match=rf"cv='loo' does not work with scoring='{scoring}'"):
            search.fit(X, labels)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_curved_planes_are_those_of_refits(n_classes):
    X, y = table(n_classes, n=30)
    shared = {"n_landmarks": X[:6]}
    search = FuzzyTwinSVCCV(
        [0.25, 1.0], alphas=[0.0, 0.1], memberships=[None], rules=["distance"], cv="loo",
        kernels="rbf", gammas=[0.1], **shared,
    )  # fmt: skip
    assert_scores_are_those_of_refits(search, X, y, **shared)
    assert search.n_splits_ == 10
    assert search.best_estimator_.predict(X).shape == y.shape


def test_rows_without_weight_do_not_count():
    X, y = table(2)
    settings = {"memberships": [None], "rules": ["residual"]}
    s = np.where(np.arange(len(y)) < 8, 0.0, 1.0)
    weighted = FuzzyTwinSVCCV([1.0], alphas=[1.0], cv="loo", **settings).fit(X, y, s)
    fewer = FuzzyTwinSVC(rule="residual", alpha=1.0, C=1.0).fit(X[8:], y[8:])
    np.testing.assert_allclose(weighted.best_estimator_.coef_, fewer.coef_)


def test_what_loo_refuses():
    X, y = table(2)
    for given, text in (
        ({"scoring": "roc_auc"}, "scoring='roc_auc'"),
        ({"planes": "fuzzy"}, "planes='crisp'"),
    ):
        with pytest.raises(ValueError, match=text):
            FuzzyTwinSVCCV([1.0], alphas=[1.0], cv="loo", **given).fit(X, y)
    balanced = FuzzyTwinSVCCV(
        [0.5, 1.0], alphas=[1.0], memberships=["center", None], cv="loo",
        scoring="balanced_accuracy", class_weight="balanced", calibration="loo",
    )  # fmt: skip
    assert balanced.fit(X, y).best_score_ > 0.5


@pytest.mark.parametrize(("n_classes", "scoring"), [(2, None), (3, "balanced_accuracy")])
def test_groups_are_left_out_whole(n_classes, scoring):
    """Scores of a row are those of a fit without all rows of its group."""
    rng = np.random.default_rng(n_classes)
    groups = np.repeat(rng.permutation(14), 3)
    y = np.repeat(np.arange(14) % n_classes, 3)
    y[::5] = rng.integers(0, n_classes, len(y[::5]))  # some groups have several labels
    X = rng.normal(size=(14, 3))[groups] + 0.1 * rng.normal(size=(len(y), 3)) + y[:, None]
    search = FuzzyTwinSVCCV(
        [0.25, 2.0], alphas=[0.1, 5.0], memberships=None, cv="loo", scoring=scoring
    ).fit(X, y, groups=groups)
    results, folds = search.cv_results_, list(GroupKFold(10).split(X, y, groups))
    assert search.n_splits_ == 10
    for j, params in enumerate(results["params"]):
        model, hits = FuzzyTwinSVC(**params), np.empty(len(y))
        for train, test in LeaveOneGroupOut().split(X, y, groups):
            hits[test] = model.fit(X[train], y[train]).predict(X[test]) == y[test]
        for g, (_, test) in enumerate(folds):
            score = hits[test].mean()
            if scoring is not None:
                score = np.mean([hits[test][y[test] == k].mean() for k in np.unique(y[test])])
            assert results[f"split{g}_test_score"][j] == pytest.approx(score, abs=1e-9), params
    with pytest.raises(ValueError, match="groups has one group only"):
        search.fit(X, y, groups=np.zeros(len(y)))


def test_copies_in_one_group_do_not_flatter_the_score():
    """Every row twice with a random label: alone, a row's copy tells its label."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 90)), np.arange(60) % 2
    X, y, groups = np.vstack([X, X]), np.tile(y, 2), np.tile(np.arange(60), 2)
    search = FuzzyTwinSVCCV([1.0], alphas=[1e-3], memberships=None, cv="loo")
    with pytest.warns(UserWarning, match="give groups="):
        assert search.fit(X, y).best_score_ > 0.8
    assert search.fit(X, y, groups=groups).best_score_ < 0.7


@pytest.mark.parametrize("grouped", [False, True])
def test_rows_without_weight_are_as_if_left_out(grouped):
    rng = np.random.default_rng(0)
    y = np.arange(12) % 2
    X = rng.normal(size=(12, 2)) + y[:, None]
    s = np.ones(12)
    s[[2, 3, 4]] = 0
    groups = np.arange(12) // 2 if grouped else None
    search = FuzzyTwinSVCCV([0.01, 1, 100], cv="loo", memberships=[None], alphas=[1.0])
    weighted = search.fit(X, y, sample_weight=s, groups=groups).cv_results_["mean_test_score"]
    some = s > 0
    kept = None if groups is None else groups[some]
    dropped = search.fit(X[some], y[some], groups=kept).cv_results_["mean_test_score"]
    np.testing.assert_allclose(weighted, dropped, rtol=1e-12)


@pytest.mark.parametrize("calibration", [None, *CALIBRATIONS])
def test_repeated_rows_get_one_warning_with_every_calibration(calibration):
    X, y = table(2, n=60)
    given = {"alphas": [1.0], "memberships": None, "cv": "loo"}
    search = FuzzyTwinSVCCV([1.0], calibration=calibration, **given)
    with pytest.warns(UserWarning, match="120 of 120 rows equal another row") as told:
        search.fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert len(told) == 1


def test_groups_of_a_search_are_left_out_of_its_calibration():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 3)
    y = rng.integers(0, 2, 30)[groups]
    X = rng.normal(size=(30, 4))[groups] + 0.05 * rng.normal(size=(90, 4)) + y[:, None]
    search = FuzzyTwinSVCCV([1.0], alphas=[1.0], memberships=[None], cv="loo", calibration="loo")
    best = search.fit(X, y, groups=groups).best_estimator_
    alone = FuzzyTwinSVC(**search.best_params_, calibration="loo").fit(X, y, groups=groups)
    np.testing.assert_allclose(best.set_scores_, alone.set_scores_, atol=1e-12)


def test_no_ridge_and_more_columns_than_rows_are_refused():
    X, y = np.random.default_rng(0).normal(size=(16, 60)), np.arange(16) % 2
    for solver in ("moments", "gram"):
        search = FuzzyTwinSVCCV([1.0], alphas=[0.0, 1.0], cv="loo", solver=solver)
        with pytest.raises(ValueError, match=r"alphas=.* holds 0, .* more rows than columns"):
            search.fit(X, y)
    curved = FuzzyTwinSVCCV(
        [1.0], alphas=[0.0, 0.1], memberships=[None], cv="loo", kernels="rbf", gammas=[0.01],
        n_landmarks=X[:6],
    )  # fmt: skip
    assert 0 <= curved.fit(X, y).best_score_ <= 1  # six features, whatever the columns
