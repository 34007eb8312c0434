"""``cv="loo"`` against fits without each row, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    f1_score,
    log_loss,
    make_scorer,
    matthews_corrcoef,
    precision_score,
    recall_score,
    roc_auc_score,
)
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV
from fuzzytwin.twin._calibration import CALIBRATIONS
from tests.twin.search.helpers import sparsely

OF_SECOND = ("f1", "precision", "recall")


def table(n_classes, n=40, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n, 4)) + 1.2 * rng.normal(size=(n_classes, 4))[y], y


METRICS = {
    None: lambda y, u, s: accuracy_score(y, u.argmax(axis=1), sample_weight=s),
    "balanced_accuracy": lambda y, u, s: balanced_accuracy_score(
        y, u.argmax(axis=1), sample_weight=s
    ),
    "f1": lambda y, u, s: f1_score(y, u.argmax(axis=1), sample_weight=s, zero_division=0.0),
    "precision": lambda y, u, s: precision_score(
        y, u.argmax(axis=1), sample_weight=s, zero_division=0.0
    ),
    "recall": lambda y, u, s: recall_score(y, u.argmax(axis=1), sample_weight=s),
    "f1_macro": lambda y, u, s: f1_score(y, u.argmax(axis=1), sample_weight=s, average="macro"),
    "roc_auc": lambda y, u, s: roc_auc_score(y, u[:, 1], sample_weight=s),
    "average_precision": lambda y, u, s: average_precision_score(y, u[:, 1], sample_weight=s),
    "neg_log_loss": lambda y, u, s: -log_loss(y, u, sample_weight=s),
    "neg_brier_score": lambda y, u, s: -brier_score_loss(y, u[:, 1], sample_weight=s),
}


def refitted_memberships(model, X, y, s=None, splits=None):
    """Memberships of each row by a fit without it, or without the rows of its split."""
    u = np.empty((len(y), len(np.unique(y))))
    for train, test in LeaveOneOut().split(X) if splits is None else splits:
        model.fit(X[train], y[train], None if s is None else s[train])
        u[test] = model.predict_membership(X[test])
    return u


def assert_scores_are_those_of_refits(search, X, y, s=None, **shared):
    """Compare scores and Brier scores of pooled predictions with those of fits without each row."""
    search.fit(X, y, s)
    results = search.cv_results_
    for j, params in enumerate(results["params"]):
        u = refitted_memberships(FuzzyTwinSVC(**params, **shared), X, y, s)
        score = METRICS[search.scoring](y, u, s)
        assert results["mean_test_score"][j] == pytest.approx(score, abs=1e-9), params
        loss = ((u - np.eye(u.shape[1])[y]) ** 2).sum(axis=1)
        found = results["mean_test_brier"][j]
        expected = np.average(loss, weights=s)
        assert np.isnan(found) or found == pytest.approx(expected, abs=1e-7), params


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
@pytest.mark.parametrize("n_second", [12, pytest.param(6, marks=pytest.mark.slow)])
def test_scores_of_the_positive_class_are_those_of_refits(scoring, n_second):
    rng = np.random.default_rng(n_second)
    y = np.arange(40) < n_second
    X, s = rng.normal(size=(40, 3)) + y[:, None], rng.integers(1, 4, 40).astype(float)
    search = FuzzyTwinSVCCV([0.2, 3.0], alphas=[1.0], memberships=None, cv="loo", scoring=scoring)
    assert_scores_are_those_of_refits(search, X, y.astype(int), s)
    for labels in (np.where(y, "a", "b"), np.arange(40) % 3):  # no positive label, three classes
        with (
            pytest.warns(UserWarning, match="Scoring failed"),
            pytest.raises(ValueError, match=rf"scoring='{scoring}' failed"),
        ):
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
    assert search.n_splits_ == 30
    assert search.best_estimator_.predict(X).shape == y.shape


def test_rows_without_weight_do_not_count():
    X, y = table(2)
    settings = {"memberships": [None], "rules": ["residual"]}
    s = np.where(np.arange(len(y)) < 8, 0.0, 1.0)
    weighted = FuzzyTwinSVCCV([1.0], alphas=[1.0], cv="loo", **settings).fit(X, y, s)
    fewer = FuzzyTwinSVC(rule="residual", alpha=1.0, C=1.0).fit(X[8:], y[8:])
    np.testing.assert_allclose(weighted.best_estimator_.coef_, fewer.coef_)


def test_class_weights_and_calibration():
    X, y = table(2)
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
    results = search.cv_results_
    assert search.n_splits_ == 14
    splits = list(LeaveOneGroupOut().split(X, y, groups))
    for j, params in enumerate(results["params"]):
        u = refitted_memberships(FuzzyTwinSVC(**params), X, y, splits=splits)
        score = METRICS[scoring](y, u, None)
        assert results["mean_test_score"][j] == pytest.approx(score, abs=1e-9), params
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
    np.testing.assert_allclose(best.conformity_scores_, alone.conformity_scores_, atol=1e-12)


def test_no_ridge_and_more_columns_than_rows_are_refused():
    X, y = np.random.default_rng(0).normal(size=(16, 60)), np.arange(16) % 2
    for solver in ("moments", "gram"):
        search = FuzzyTwinSVCCV([1.0], alphas=[0.0, 1.0], cv="loo", solver=solver)
        with pytest.raises(ValueError, match=r"alphas=.* contains 0, .* more rows than columns"):
            search.fit(X, y)
    uses_kernel = FuzzyTwinSVCCV(
        [1.0], alphas=[0.0, 0.1], memberships=[None], cv="loo", kernels="rbf", gammas=[0.01],
        n_landmarks=X[:6],
    )  # fmt: skip
    assert 0 <= uses_kernel.fit(X, y).best_score_ <= 1  # six features, whatever the columns


def rare_class(seed, n=100, n_rare=4, n_columns=2):
    rng = np.random.default_rng(seed)
    y = np.zeros(n, int)
    y[:n_rare] = 1
    return rng.normal(size=(n, n_columns)) + 0.7 * y[:, None] * (seed > 0), y


def test_balanced_accuracy_of_a_rare_class_is_that_of_all_rows_together():
    """Ten parts of the rows, scored one by one, said 0.80 of planes that find no rare row."""
    X, y = rare_class(0)
    search = FuzzyTwinSVCCV(
        [1.0], alphas=[10.0], memberships=None, rules=("distance",), cv="loo",
        scoring="balanced_accuracy",
    ).fit(X, y)  # fmt: skip
    labels = search.loo_membership(X, y).argmax(axis=1)
    assert search.best_score_ == balanced_accuracy_score(y, labels) == 0.5
    assert not [name for name in search.cv_results_ if name.startswith("split")]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scoring", METRICS)
def test_the_best_score_is_the_metric_of_all_left_out_predictions(scoring, weighted):
    X, y = rare_class(1, n=60, n_rare=9)
    s = np.random.default_rng(2).uniform(0.5, 3.0, len(y)) if weighted else None
    search = FuzzyTwinSVCCV(
        [0.25, 4.0], alphas=[1.0], memberships=[None], cv="loo", scoring=scoring,
        selection="score",
    ).fit(X, y, s)  # fmt: skip
    score = METRICS[scoring](y, search.loo_membership(X, y, s), s)
    assert search.best_score_ == pytest.approx(score, abs=1e-12)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()


@pytest.mark.parametrize(
    "seeds", [range(1, 4), pytest.param(range(4, 13), marks=pytest.mark.slow)], ids=str
)
@pytest.mark.parametrize("scoring", ["balanced_accuracy", "f1", "roc_auc", "neg_log_loss"])
def test_the_winner_of_a_rare_class_has_the_best_metric_of_all_rows(scoring, seeds):
    """With selection="score", among 25 points of twelve tables with five rare rows."""
    Cs = (2.0 ** np.arange(-4, 5, 2)).tolist()
    for seed in seeds:
        X, y = rare_class(seed, n=80, n_rare=5)
        search = FuzzyTwinSVCCV(
            Cs, alphas=[1.0], memberships=None, rules=("distance",), cv="loo", scoring=scoring,
            selection="score",
        ).fit(X, y)  # fmt: skip
        scores = [
            METRICS[scoring](y, FuzzyTwinSVC(**params).fit(X, y).loo_membership(X, y), None)
            for params in search.cv_results_["params"]
        ]
        assert scores[search.best_index_] == pytest.approx(max(scores), abs=1e-12)
        np.testing.assert_allclose(search.cv_results_["mean_test_score"], scores, atol=1e-9)


@pytest.mark.parametrize("seed", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 3))])
@sparsely(
    ("selection", "scoring", "grouped"),
    ("one_standard_error", "score"),
    ("balanced_accuracy", "roc_auc", "average_precision"),
    (False, True),
)
def test_the_order_of_rows_changes_no_winner(selection, scoring, grouped, seed):
    rng = np.random.default_rng(seed)
    X, y = rare_class(seed, n=90, n_rare=7)
    s = rng.uniform(0.5, 2.0, len(y))
    groups = rng.integers(0, 30, len(y)) if grouped else None
    search = FuzzyTwinSVCCV(
        [0.1, 1.0, 10.0], alphas=[0.1, 10.0], memberships=(None, "center"), cv="loo",
        scoring=scoring, selection=selection,
    )  # fmt: skip
    first = search.fit(X, y, s, groups=groups)
    params, results = first.best_params_, first.cv_results_
    for _ in range(2):
        order = rng.permutation(len(y))
        some = None if groups is None else 1000 - groups[order]
        search.fit(X[order], y[order], s[order], groups=some)
        assert search.best_params_ == params
        for name in ("mean_test_score", "std_test_score", "mean_test_brier"):
            np.testing.assert_allclose(
                search.cv_results_[name], results[name], rtol=1e-9, atol=1e-9
            )


def naive_error(metric, y, u, s, units):
    """The jackknife, as a loop."""
    scores = [metric(y[units != g], u[units != g], s[units != g]) for g in np.unique(units)]
    return np.sqrt((len(scores) - 1) / len(scores) * np.sum((scores - np.mean(scores)) ** 2))


@sparsely(
    ("n_classes", "scoring", "grouped"),
    (2, 3, 2),
    (None, "balanced_accuracy", "neg_log_loss", "f1_macro"),
    (False, True, True),
)
def test_one_standard_error_is_that_of_rows_or_groups(n_classes, scoring, grouped):
    """The band, the Brier scores that count as equal, and the choice, with loops."""
    rng = np.random.default_rng(n_classes)
    y = rng.integers(0, n_classes, 75)
    X = rng.normal(size=(75, 3)) + 0.8 * y[:, None]
    s = rng.uniform(0.5, 2.0, 75)
    units = rng.integers(0, 25, 75) if grouped else np.arange(75)
    search = FuzzyTwinSVCCV(
        [0.25, 1.0, 4.0], alphas=[0.1, 100.0], memberships=["center", None], cv="loo",
        scoring=scoring,
    ).fit(X, y, s, groups=units if grouped else None)  # fmt: skip
    results, metric = search.cv_results_, METRICS[scoring]
    groups, points = (units if grouped else None), results["params"]
    u = [
        FuzzyTwinSVC(**params).fit(X, y, s).loo_membership(X, y, s, groups=groups)
        for params in points
    ]
    scores = np.array([metric(y, part, s) for part in u])
    best = scores.argmax()
    error = naive_error(metric, y, u[best], s, units)
    band = np.flatnonzero(scores >= scores[best] - error - 1e-12)
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(results["mean_test_brier"])), band)
    assert 1 < len(band) < len(points)
    losses = np.array([((part - np.eye(n_classes)[y]) ** 2).sum(axis=1) for part in u])
    brier = losses @ s / s.sum()
    np.testing.assert_allclose(results["mean_test_brier"][band], brier[band], atol=1e-9)
    least, equal, G = band[brier[band].argmin()], [], len(np.unique(units))
    for j in band:
        d = losses[j] - losses[least]
        gap = np.average(d, weights=s)
        of_unit = np.bincount(units, s * (d - gap)) / s.sum()
        width = np.sqrt(G / (G - 1) * np.sum(of_unit**2))
        if gap <= 0.5 * width + 1e-12:
            equal.append(j)
    assert search.best_index_ in equal
    logs = [np.log(np.ravel(points[j]["C"])) for j in equal]
    apart = np.array([np.ptp(log) for log in logs]).round(9)
    alike = np.array(equal)[apart == apart.min()]
    assert search.best_index_ == alike[brier[alike].argmin()]
    assert search.n_splits_ == G
    chosen = naive_error(metric, y, u[search.best_index_], s, units)
    found = results["std_test_score"][search.best_index_] / np.sqrt(G)
    assert found == pytest.approx(chosen, rel=1e-6)


def test_a_scorer_of_the_users_own_sees_all_left_out_predictions():
    X, y = table(3, n=60)

    def by_hand(estimator, X, y):
        assert estimator.get_params()["alpha"] in (1.0, 10.0)
        return matthews_corrcoef(y, estimator.predict(X))

    given = {"alphas": [1.0, 10.0], "memberships": None, "cv": "loo", "selection": "score"}
    for scoring in (by_hand, make_scorer(matthews_corrcoef)):
        search = FuzzyTwinSVCCV([0.5, 1.0], scoring=scoring, **given).fit(X, y)
        labels = search.loo_membership(X, y).argmax(axis=1)
        assert search.best_score_ == pytest.approx(matthews_corrcoef(y, labels), abs=1e-12)

    def of_some_rows(estimator, X, y):
        return estimator.score(X[:10], y[:10])

    search = FuzzyTwinSVCCV([0.5, 1.0], scoring=of_some_rows, **given)
    with (
        pytest.warns(UserWarning, match="predicts the 60 test rows at once, not 10"),
        pytest.raises(ValueError, match="NaN at every point"),
    ):
        search.fit(X, y)


def test_scores_of_whole_tables_do_not_depend_on_how_many_are_held(monkeypatch):
    X, y = table(3, n=40)
    search = FuzzyTwinSVCCV(
        [0.5, 1.0], alphas=[0.1, 1.0, 10.0], memberships=None, cv="loo", scoring="neg_log_loss"
    )
    at_once = search.fit(X, y).cv_results_
    monkeypatch.setattr("fuzzytwin.twin._grid.MAX_DISTANCES", 1)
    for name in ("mean_test_score", "std_test_score", "mean_test_brier"):
        np.testing.assert_allclose(search.fit(X, y).cv_results_[name], at_once[name], rtol=1e-12)
