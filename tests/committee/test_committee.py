"""FuzzyTwinCommittee: leave-one-out equals refits, weights are importances, sets cover."""

import threading
import tracemalloc
from contextlib import contextmanager
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification, make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fuzzytwin import FuzzyTwinCommittee
from fuzzytwin._passes import Labels
from fuzzytwin._rows import validate_rows
from fuzzytwin.committee._first_pass import (
    as_single_chunk,
    feature_sums_pass,
    run_first_pass,
    stats_pass,
)
from fuzzytwin.committee._fit import learn
from fuzzytwin.committee._stacking import combine, unseen_scores
from fuzzytwin.core.ridge import RidgePath, RidgeSums
from fuzzytwin.datasets import load_uci, uci_preprocessor
from tests.checks import leaves_rows_out
from tests.label_errors import few_rows_with_much_noise

FEW = ["linear", "rbf", "laplacian"]


def table(n=60, d=4, K=3, seed=0):
    X, y = make_classification(
        n, d, n_informative=d - 1, n_redundant=0, n_classes=K, n_clusters_per_class=1,
        random_state=seed,
    )  # fmt: skip
    return X, y


@pytest.mark.filterwarnings("ignore:y has only one row")
@parametrize_with_checks([FuzzyTwinCommittee(FEW)], expected_failed_checks=leaves_rows_out)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y has only one row")
@parametrize_with_checks(
    [FuzzyTwinCommittee(), FuzzyTwinCommittee(["linear", GaussianNB()])],
    expected_failed_checks=leaves_rows_out,
)
def test_scikit_learn_checks_of_other_members(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_groups", [0, 9, 3])  # of three, each has more rows than columns
def test_left_out_values_equal_refits_at_fixed_features(n_groups):
    rng = np.random.default_rng(0)
    Z, Y = rng.normal(size=(30, 5)) + 3, np.eye(3)[rng.integers(0, 3, 30)]
    s, grouped = rng.uniform(0.5, 2, 30), n_groups > 0
    groups = rng.integers(0, n_groups, 30) if grouped else np.arange(30)
    alphas = np.array([1e-3, 1.0])
    path = RidgePath.of(RidgeSums.of(Z, Y, s))
    found = path.left_out(path.coordinates(Z), Y, s, alphas, groups if grouped else None)
    for g in np.unique(groups):
        rest = groups != g
        again = RidgePath.of(RidgeSums.of(Z[rest], Y[rest], s[rest]))
        for a, alpha in enumerate(alphas):
            w, c = again.planes(alpha)
            np.testing.assert_allclose(found[a][~rest], Z[~rest] @ w + c, atol=1e-10)


def test_gram_and_features_give_the_same_path():
    rng = np.random.default_rng(0)
    Z, Y, s = rng.normal(size=(20, 50)), np.eye(2)[rng.integers(0, 2, 20)], rng.uniform(1, 2, 20)
    path = RidgePath.of(RidgeSums.of(Z, Y, s))
    by_rows, Q = RidgePath.of_gram(Z @ Z.T, Y, s)
    alphas = np.array([0.1, 10.0])
    np.testing.assert_allclose(
        path.left_out(path.coordinates(Z), Y, s, alphas), by_rows.left_out(Q, Y, s, alphas),
        atol=1e-10,
    )  # fmt: skip
    w, a = path.planes(0.1)
    u, c = by_rows.planes(0.1)
    new = rng.normal(size=(5, 50))
    np.testing.assert_allclose(new @ w + a, (new @ Z.T) @ u + c, atol=1e-9)


def test_combination_has_no_slope_left():
    rng = np.random.default_rng(0)
    Y, s = np.eye(2)[rng.integers(0, 2, 80)], rng.uniform(size=80)
    F = rng.normal(size=(80, 2, 4))
    F[..., 1] += Y
    found = combine(F, Y, s, 0.1)

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
    found = combine(F, Y, np.ones(90), 0.1)
    scores = found.scores(F)
    assert (scores.argmax(axis=1) == Y.argmax(axis=1)).mean() > 0.95
    assert ((F[:, :, 0].argmax(axis=1)) == 1).mean() < 0.15
    # The second step has no slope left either.
    P = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    np.testing.assert_allclose((P - Y).sum(axis=0), 0, atol=1e-4)


def test_loo_proba_is_what_a_refit_with_the_same_features_predicts():
    X, y = table()
    model = FuzzyTwinCommittee(["linear", ("rbf", {"gamma": 0.2})], n_landmarks=X[:20]).fit(X, y)
    P = model.loo_proba(X, y)
    assert np.allclose(P.sum(axis=1), 1)
    loss = -np.log(P[np.arange(len(y)), y]).mean()
    assert loss == pytest.approx(model.loo_log_loss_, abs=1e-9)
    with pytest.raises(ValueError, match="differ from the training data"):
        model.loo_proba(X + 0.1 * np.random.default_rng(0).normal(size=X.shape), y)


@pytest.mark.parametrize("grouped", [False, True])
def test_unseen_scores_are_nearly_those_of_stacking_without_the_row_or_group(grouped):
    rng = np.random.default_rng(0)
    n, K = 60, 2
    y, s = rng.integers(0, K, n), rng.uniform(0.5, 2, n)
    F = 0.5 * rng.normal(size=(n, K, 3))
    F[np.arange(n), y] += 0.5
    Y, units = np.eye(K)[y], np.arange(n) // (2 if grouped else 1)
    found = combine(F, Y, s, 0.1)
    P = softmax(unseen_scores(found, F, Y, s, 0.1, units if grouped else None), axis=1)
    refits = np.empty_like(P)
    for unit in range(units.max() + 1):
        rest, left = units != unit, units == unit
        refits[left] = softmax(combine(F[rest], Y[rest], s[rest], 0.1).scores(F[left]), axis=1)
    seen = softmax(found.scores(F), axis=1)
    assert np.abs(P - refits).max() < 0.1 * np.abs(seen - refits).max()


@pytest.mark.slow
def test_sets_of_two_overlapping_classes_cover():
    """Scores of rows that stacking has seen were too good: 0.791 of 0.8, 200 splits of pima."""
    covered = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, 1100)
        X = rng.normal(size=(1100, 4)) + 0.7 * y[:, None]
        model = FuzzyTwinCommittee(random_state=0).fit(X[:100], y[:100])
        covered.append(model.predict_set(X[100:], 0.8)[np.arange(1000), y[100:]].mean())
    error = np.std(covered, ddof=1) / np.sqrt(len(covered))
    assert 0.8 - 2 * error < np.mean(covered) < 0.81 + 2 * error


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
    monkeypatch.setattr("fuzzytwin.committee._members.SAMPLE_ROWS", 10)  # rows in blocks
    P = model.loo_proba(X, y, **given)
    Y, s = given.get("membership", np.eye(3)[y]), given.get("sample_weight", np.ones(60))
    loss = -(s @ (Y * np.log(P)).sum(axis=1)) / s.sum()
    assert loss == pytest.approx(model.loo_log_loss_, abs=1e-9)


def test_parts_add_up_to_one_fit():
    X, y = table()
    s = np.random.default_rng(0).uniform(0.5, 2, 60)
    members = ["linear", ("rbf", {"gamma": 0.2}), ("laplacian", {"gamma": 0.2})]
    model = FuzzyTwinCommittee(members, n_landmarks=X[:20])
    whole = model.fit(X, y, sample_weight=s)
    parts = [(X[i], y[i], s[i], None) for i in (slice(0, 7), slice(7, 40), slice(40, 60))]

    def total(function, *shared):
        return reduce(add, (function(*shared, *part) for part in parts))

    look, _ = run_first_pass(total)
    found = look.classes()

    def summed(prepare, features):  # of chunks, though the look holds all rows
        return total(feature_sums_pass, found, prepare, features)

    fitted = learn(model._plan(), look, summed).attributes
    assert fitted["loo_log_loss_"] == pytest.approx(whole.loo_log_loss_, abs=1e-9)
    for one, other in zip(fitted["members_"], whole.members_, strict=True):
        np.testing.assert_allclose(one.coef, other.coef, atol=1e-9)
        assert one.weight == pytest.approx(other.weight, abs=1e-8)


@pytest.mark.parametrize("members", ["auto", FEW])
def test_a_weight_of_w_is_w_copies_in_one_group(members):
    X, y = table()
    s = np.random.default_rng(1).integers(0, 3, len(y))
    index = np.repeat(np.arange(len(y)), s)
    weighted = FuzzyTwinCommittee(members).fit(X, y, sample_weight=s)
    repeated = FuzzyTwinCommittee(members).fit(X[index], y[index], groups=index)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-7)
    assert weighted.loo_log_loss_ == pytest.approx(repeated.loo_log_loss_, abs=1e-7)


@pytest.mark.parametrize("factor", [0.1, 2.5, 3.0])
def test_a_common_factor_of_weights_leaves_the_median_distance_where_it_is_tied(factor):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, s = rng.normal(size=(40, 3)), np.where(rng.random(40) < 0.5, 1, 3)
        y, model = X[:, 0] + rng.normal(size=40) > 0, FuzzyTwinCommittee(["rbf"], random_state=0)
        gammas = [clone(model).fit(X, y, f * s).members_[0].gamma for f in (1, factor)]
        assert gammas[0] == pytest.approx(gammas[1], rel=1e-9)


def test_the_last_digit_of_weights_hardly_moves_probabilities():
    """Sums of kernel values that nearly depend on each other lose digits: 2e-3 here once."""
    X, y = make_moons(1600, noise=0.2, random_state=2)
    s = 1 + 1e-15 * np.random.default_rng(0).integers(-2, 3, len(y))
    model = FuzzyTwinCommittee(["rbf", ("rbf", {"reach": 4.0})], n_landmarks=X[:150])
    before = model.fit(X, y).predict_proba(X)
    after = model.fit(X, y, sample_weight=s).predict_proba(X)
    np.testing.assert_allclose(after, before, atol=1e-6)


def test_a_common_factor_of_weights_changes_nothing():
    X, y = table()
    s = np.random.default_rng(1).uniform(0.5, 1.5, len(y))
    one, other = (FuzzyTwinCommittee(FEW).fit(X, y, sample_weight=s / f) for f in (1, s.sum()))
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)


@pytest.mark.parametrize("tiny", [1e-300, 1e-100, 1e-20, 1e-9])
def test_rows_of_tiny_weights_are_nearly_left_out(tiny):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = X[:, 0] + 0.8 * rng.normal(size=60) > 0
    weight = np.where(np.arange(60) < 6, tiny, 1.0)
    rest = FuzzyTwinCommittee().fit(X[6:], y[6:])
    left_out = FuzzyTwinCommittee().fit(X, y, weight).loo_proba(X, y, weight)
    np.testing.assert_allclose(left_out[:6], rest.predict_proba(X[:6]), atol=1e-6)


@pytest.mark.filterwarnings("ignore:about .* rows equal another row")
def test_fewer_groups_of_equal_rows_than_folds():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (90, 1)).astype(float)
    y = X[:, 0] + 0.8 * rng.normal(size=90) > 0.5
    groups = np.arange(90) % 3
    model = FuzzyTwinCommittee().fit(X, y, groups=groups)
    assert np.isfinite(model.loo_proba(X, y, groups=groups)).all()


def test_order_of_rows_columns_and_labels_does_not_matter():
    X, y = table()
    rng = np.random.default_rng(2)
    rows, columns, labels = rng.permutation(len(y)), rng.permutation(4), np.array([2, 0, 1])
    one = FuzzyTwinCommittee().fit(X, y)
    other = FuzzyTwinCommittee().fit(X[rows][:, columns], labels[y[rows]])
    np.testing.assert_allclose(
        one.predict_proba(X), other.predict_proba(X[:, columns])[:, labels], atol=1e-8
    )


def test_soft_labels_of_zero_and_one_are_labels():
    X, y = table()
    hard = FuzzyTwinCommittee(FEW).fit(X, y)
    soft = FuzzyTwinCommittee(FEW).fit(X, y, membership=np.eye(3)[y])
    np.testing.assert_allclose(hard.predict_proba(X), soft.predict_proba(X), atol=1e-10)


def test_degrees_weigh_rows():
    X, y = table()
    mu = np.random.default_rng(3).uniform(0.2, 1, len(y))
    one = FuzzyTwinCommittee(FEW).fit(X, y, membership=mu)
    other = FuzzyTwinCommittee(FEW).fit(X, y, sample_weight=mu)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-12)


def test_repeated_rows_in_groups_do_not_vouch_for_each_other():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:150], y[:150]
    X5, y5, groups = np.repeat(X, 5, axis=0), np.repeat(y, 5), np.repeat(np.arange(150), 5)
    X5 = X5 + 1e-3 * X.std(axis=0) * np.random.default_rng(0).normal(size=X5.shape)
    once = FuzzyTwinCommittee(FEW).fit(X, y).loo_log_loss_
    with pytest.warns(UserWarning, match="750 rows nearly equal another row"):
        alone = FuzzyTwinCommittee(FEW).fit(X5, y5).loo_log_loss_
    together = FuzzyTwinCommittee(FEW).fit(X5, y5, groups=groups).loo_log_loss_
    assert alone < once / 3
    assert together == pytest.approx(once, rel=0.25)


def test_class_weights_move_labels_but_not_probabilities():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] + rng.normal(size=600) > 2).astype(int)
    plain, balanced = (
        FuzzyTwinCommittee(FEW, class_weight=w).fit(X, y) for w in (None, "balanced")
    )
    assert balanced.predict(X).mean() > 1.5 * plain.predict(X).mean()
    assert balanced.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), rel=0.2)


def test_sparse_float32_and_wide_tables():
    X, y = table(80, 6, 2)
    X[np.abs(X) < 0.5] = 0
    dense = FuzzyTwinCommittee(FEW).fit(X.astype(np.float32), y)
    assert dense.score(X, y) > 0.8
    thin = FuzzyTwinCommittee(FEW).fit(sparse.csr_array(X), y)
    P = thin.predict_proba(sparse.csr_array(X))
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert thin.score(sparse.csr_array(X), y) > 0.8
    wide = np.hstack([X, np.random.default_rng(0).normal(size=(80, 200))])
    model = FuzzyTwinCommittee(FEW).fit(wide, y)
    assert model.members_[0].coef.shape == (206, 2)
    assert np.isfinite(model.loo_log_loss_)


def test_classifiers_are_members_out_of_bag_or_out_of_folds():
    X, y = table(120, 4, 3)
    forest = RandomForestClassifier(30, oob_score=True, random_state=0)
    members = ["linear", forest, LogisticRegression()]
    model = FuzzyTwinCommittee(members, random_state=0).fit(X, np.array(list("abc"))[y])
    assert [m.kernel for m in model.members_] == [
        "linear", "RandomForestClassifier", "LogisticRegression"
    ]  # fmt: skip
    assert set(model.predict(X)) <= set("abc")
    grouped = clone(model).fit(X, y, groups=np.repeat(np.arange(40), 3))
    assert np.isfinite(grouped.loo_log_loss_)
    P = grouped.loo_proba(X, y, groups=np.repeat(np.arange(40), 3))
    assert -np.log(P[np.arange(120), y]).mean() == pytest.approx(grouped.loo_log_loss_, abs=1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"members": "planes of all kinds"}, "give 'auto', or a list"),
        ({"members": []}, "give 'auto', or a list"),
        ({"members": ["linear", "radial"]}, r"members\[1\]='radial' is unknown"),
        (
            {"members": [("rbf", {"gama": 1})]},
            "parameter gama=1, which kernel 'rbf'.* gamma, reach",
        ),
        ({"members": [("linear", {"gamma": 5})]}, "gamma=5, which kernel 'linear' does not have"),
        ({"members": ["rbf", ("cosine", {"gamma": 1e9})]}, r"members\[1\].*gamma=1000000000.0"),
        ({"members": [("linear", {"reach": 2.0})]}, "reach=2.0.*it has none: leave it out"),
        ({"members": [("rbf", {"degree": 2})]}, "degree=2, which kernel 'rbf'"),
        ({"members": [("laplacian", {"coef0": 1.0})]}, "coef0=1.0, which kernel 'laplacian'"),
        ({"members": [("rbf", {"gamma": 1.0, "reach": 2})]}, "gamma=1.0 and reach=2.*one of them"),
        ({"members": [("laplacian", {"relevance": "learned"})]}, "use 'rbf'"),
        ({"members": [LogisticRegression]}, "a classifier with predict_proba"),
        ({"members": [("rbf", {"gamma": [1, 2, 3, -1.0]})]}, r"members\[0\] gamma=-1"),
        ({"noise": "yes"}, "noise='yes' is not allowed; use None or 'auto'"),
        ({"n_landmarks": 0}, "n_landmarks=0 is not allowed"),
        ({"class_weight": "heavy"}, "class_weight"),
        ({"class_weight": {0: 0, 1: 1, 2: 1}}, "leaves out class"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        FuzzyTwinCommittee(**parameters).fit(*load_iris(return_X_y=True))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_weight": np.full(150, 1e308)}, "sample_weight holds 1e.308.*divide the weights"),
        ({"membership": np.zeros(150)}, "membership is zero for every sample"),
    ],
)
def test_weights_and_degrees_that_leave_no_sum_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        FuzzyTwinCommittee(FEW).fit(*load_iris(return_X_y=True), **given)


def test_bad_rows_are_named_and_change_nothing():
    X, y = load_iris(return_X_y=True)
    model = FuzzyTwinCommittee(FEW).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"groups has shape \(3,\); give one group per row"):
        model.fit(X, y, groups=[1, 2, 3])
    with pytest.raises(ValueError, match="groups has one group only"):
        model.fit(X, y, groups=np.zeros(150))
    with pytest.raises(ValueError, match="groups holds missing values"):
        model.fit(X, y, groups=np.where(y > 0, y, np.nan))
    with pytest.raises(ValueError, match=r"so large that its squares overflow.*divide"):
        model.fit(X * 1e200, y)
    with pytest.raises(ValueError, match=r"so small that its squares underflow.*multiply"):
        model.fit(X * 1e-200, y)
    with pytest.raises(ValueError, match=r"gamma of a member has shape \(2,\)"):
        FuzzyTwinCommittee([("rbf", {"gamma": [1.0, 2.0]})]).fit(X, y)
    X = X.copy()
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN in column 2"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(load_iris().data), before)


def test_threads_change_no_bit():
    X, y = table(100)
    one, two = (FuzzyTwinCommittee(n_jobs=n, random_state=0).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_landmarks_of_many_rows_are_fewer():
    X, y = table(1600, 5, 2)
    model = FuzzyTwinCommittee(["rbf"], random_state=0).fit(X, y)
    assert 300 <= len(model.landmarks_) < 1500
    assert model.loo_proba(X, y).shape == (1600, 2)


def test_conformity_scores_come_from_combinations_that_did_not_see_the_row():
    X, y = table(90, 4, 3)
    model = FuzzyTwinCommittee(FEW).fit(X, y)
    P = model.loo_proba(X, y)
    seen = np.sort(1 - P[np.arange(90), y])
    assert model.conformity_scores_[:, 0].mean() > seen.mean()


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 3])
def test_sets_cover_as_promised(K):
    covered = []
    for seed in range(60):
        X, y = table(400, 6, K, seed)
        model = FuzzyTwinCommittee(random_state=0).fit(X[:100], y[:100])
        sets = model.predict_set(X[100:], 0.9)
        covered.append(sets[np.arange(300), y[100:]].mean())
    assert np.mean(covered) == pytest.approx(0.9, abs=3 * np.std(covered) / np.sqrt(60) + 0.01)


@pytest.mark.parametrize(
    "X", [np.ones((20, 3)), np.full((20, 3), 0.1), np.full((20, 3), 1e300)], ids=["1", "0.1", "big"]
)
def test_constant_tables_give_the_shares_of_the_classes(X):
    y = np.arange(20) % 4 > 0
    model = FuzzyTwinCommittee().fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X[:1]), [[0.25, 0.75]], atol=1e-5)


@pytest.mark.parametrize("n", [2, 4])
def test_one_row_of_each_class_is_a_guess(n):
    X = np.random.default_rng(0).normal(size=(n, 3))
    with pytest.warns(UserWarning, match="each class has only one row"):
        model = FuzzyTwinCommittee().fit(X, np.arange(n))
    np.testing.assert_array_equal(model.predict(X), np.arange(n))


def test_large_columns_and_few_rows():
    X, y = load_iris(return_X_y=True)
    far = np.column_stack([X, 1e8 + np.random.default_rng(0).normal(size=150)])
    assert FuzzyTwinCommittee(FEW).fit(far, y).score(far, y) > 0.95
    wide = np.hstack([X, np.random.default_rng(0).normal(size=(150, 300))])
    assert FuzzyTwinCommittee(FEW).fit(wide, y).score(wide, y) > 0.9


@pytest.mark.parametrize("factor", [1e-300, 1 / 150, 1e300])
def test_equal_weights_change_nothing(factor):
    X, y = load_iris(return_X_y=True)
    one, other = (
        FuzzyTwinCommittee(FEW).fit(X, y, sample_weight=np.full(150, f)) for f in (1, factor)
    )
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)


def test_hundreds_of_classes():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(200), 3)
    X = rng.normal(size=(200, 12))[y] + 0.5 * rng.normal(size=(600, 12))
    model = FuzzyTwinCommittee(["linear", "rbf"]).fit(X, y)
    assert model.predict_proba(X).shape == (600, 200)
    assert (model.loo_proba(X, y).argmax(axis=1) == y).mean() > 0.5


def test_labels_of_any_kind_and_columns_by_name():
    X, y = load_iris(return_X_y=True)
    plain = FuzzyTwinCommittee(FEW).fit(X, y).predict(X)
    for labels in (np.array(["a", "b", "c"]), np.array(["x", "y", "z"], dtype=object)):
        np.testing.assert_array_equal(
            FuzzyTwinCommittee(FEW).fit(X, labels[y]).predict(X), labels[plain]
        )
    model = FuzzyTwinCommittee(FEW).fit(pd.DataFrame(X, columns=list("abcd")), y > 1)
    assert model.predict(pd.DataFrame(X, columns=list("abcd"))).dtype == bool
    assert model.decision_function(pd.DataFrame(X, columns=list("abcd"))).shape == (150,)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(X, columns=list("abdc")))


def test_groups_are_routed_to_the_fit():
    X, y = load_iris(return_X_y=True)
    groups = np.arange(150) // 3
    with config_context(enable_metadata_routing=True):
        model = (
            FuzzyTwinCommittee(["linear"])
            .set_fit_request(groups=True, sample_weight=True, membership=True)
            .set_score_request(sample_weight=False)
        )
        params = {"groups": groups, "sample_weight": np.ones(150), "membership": np.ones(150)}
        scores = cross_val_score(model, X, y, cv=GroupKFold(3), params=params)
    assert len(scores) == 3


def test_classes_that_follow_groups_are_named():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match="all rows of class 0 are in one group"):
        FuzzyTwinCommittee(["linear"]).fit(X, y, groups=y)


def test_kernels_that_are_not_definite_predict_what_is_left_out():
    X, y = load_iris(return_X_y=True)
    model = FuzzyTwinCommittee(["sigmoid", "poly", "cosine"]).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.loo_log_loss_ < 0.3


def test_auto_is_one_of_several_members(capsys):
    X, y = table()
    model = FuzzyTwinCommittee(["auto", GaussianNB()], verbose=1).fit(X, y)
    assert len(model.members_) == 7
    assert "7 of 7 members" in capsys.readouterr().err
    np.testing.assert_array_equal(
        FuzzyTwinCommittee("planes").fit(X, y).predict_proba(X),
        FuzzyTwinCommittee().fit(X, y).predict_proba(X),
    )


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array])
def test_sparse_rows_are_predicted_by_a_model_of_dense_ones_and_the_other_way_round(form):
    X, y = load_iris(return_X_y=True)
    for learned, other in ((X, form(X)), (form(X), X)):
        model = FuzzyTwinCommittee(FEW).fit(learned, y)
        P = model.predict_proba(learned)
        np.testing.assert_allclose(model.predict_proba(other), P, atol=1e-9)
        np.testing.assert_allclose(
            model.loo_proba(other, y), model.loo_proba(learned, y), atol=1e-9
        )


def test_weights_equal_repetitions_where_groups_are_left_out():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    weight, groups = rng.integers(0, 4, len(y)), np.arange(len(y)) // 3
    rows = np.repeat(np.arange(len(y)), weight)
    one = FuzzyTwinCommittee().fit(X, y, sample_weight=weight, groups=groups)
    other = FuzzyTwinCommittee().fit(X[rows], y[rows], groups=groups[rows])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([None], r"members\[0\]=None is not allowed"),
        ([("rbf", 3)], r"members\[0\]=\('rbf', 3\) is not allowed"),
        (("rbf", {"gamma": 1}), r"members\[1\]={'gamma': 1} is not allowed"),
        ([("poly", {"degree": "x"})], r"members\[0\] degree='x' is not allowed"),
        ([("poly", {"degree": 2.5})], r"members\[0\] degree=2.5 is not allowed"),
        ([("poly", {"coef0": "x"})], r"members\[0\] coef0='x' is not allowed"),
    ],
)
def test_what_cannot_be_a_member_is_refused_by_its_place(members, message):
    with pytest.raises(ValueError, match=message):
        FuzzyTwinCommittee(members).fit(*table())


def test_a_class_whose_rows_all_have_degree_zero_is_left_out():
    X, y = load_iris(return_X_y=True)
    degrees = np.where(y == 1, 0.0, 1.0)
    model = FuzzyTwinCommittee(FEW, noise="auto").fit(X, y, membership=degrees)
    by_weight = FuzzyTwinCommittee(FEW, noise="auto").fit(X, y, sample_weight=degrees)
    assert model.classes_.tolist() == [0, 2]
    assert (model.membership_[y == 1] == 0).all()
    assert (model.membership_[y != 1] > 0.9).all()
    np.testing.assert_array_equal(model.membership_, by_weight.membership_)
    assert model.loo_proba(X, y, membership=degrees).shape == (150, 2)
    with pytest.raises(ValueError, match="one class only"):
        FuzzyTwinCommittee(FEW).fit(X, y, membership=y == 1)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_dates_in_a_frame_are_refused_by_the_name_of_their_column(zone):
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(seen=pd.Timestamp("2026-01-01", tz=zone))
    with pytest.raises(ValueError, match="dates or times in column 'seen'; turn them into numbers"):
        FuzzyTwinCommittee(FEW).fit(frame, y)


@pytest.mark.parametrize(("name", "flipped"), [("bupa", 0.0), ("heart_statlog", 0.2)])
def test_overlap_is_not_taken_for_wrong_labels_altogether(name, flipped):
    """Modelled noise hardly costs where there is none, and tells the truth better where it is."""
    X, y = load_uci(name, return_X_y=True)
    y = np.unique(y, return_inverse=True)[1]
    P = {noise: np.zeros((len(y), 2)) for noise in (None, "auto")}
    folds = StratifiedKFold(3, shuffle=True, random_state=0).split(X, y)
    for fold, (train, test) in enumerate(folds):
        prepare = uci_preprocessor(name).fit(X[train])
        wrong = np.random.default_rng(fold).random(len(train)) < flipped
        for noise, p in P.items():
            model = FuzzyTwinCommittee(FEW, noise=noise, random_state=0)
            model.fit(prepare.transform(X[train]), np.where(wrong, 1 - y[train], y[train]))
            p[test] = model.predict_proba(prepare.transform(X[test]))
    losses = {noise: log_loss(y, p) for noise, p in P.items()}
    assert losses["auto"] < (0.96 if flipped else 1.05) * losses[None]


@pytest.mark.filterwarnings("error")
def test_heavy_weights_give_no_warning_of_other_packages():
    X, y = load_iris(return_X_y=True)
    model = FuzzyTwinCommittee(FEW).fit(X, y, np.full(150, 1e9))
    assert model.score(X, y) > 0.95


@pytest.mark.filterwarnings(
    "ignore:class .* prediction sets of this class contain it"
)  # not the point
def test_sets_of_few_overlapping_rows_cover_where_noise_is_modelled():
    covered = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        y = np.where(rng.random(700) < 0.3, 0, rng.integers(0, 4, 700))
        X = rng.normal(size=(700, 4)) + np.outer(y, [1, 0, 0, 0])
        model = FuzzyTwinCommittee(FEW, noise="auto").fit(X[:100], y[:100])
        covered.append(model.predict_set(X[100:], 0.8)[np.arange(600), y[100:]].mean())
    assert np.mean(covered) > 0.78


@pytest.mark.parametrize("flipped", [0.0, 0.15])
def test_sets_cover_true_classes_where_noise_is_modelled(flipped):
    covered = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        middle = rng.normal(size=(4, 3))
        y = rng.integers(0, 4, 2400)
        X = middle[y] + rng.normal(size=(2400, 3))
        given = np.where(rng.random(2400) < flipped, (y + rng.integers(1, 4, 2400)) % 4, y)
        model = FuzzyTwinCommittee(FEW, noise="auto").fit(X[:400], given[:400])
        covered.append(model.predict_set(X[400:], 0.9)[np.arange(2000), y[400:]].mean())
    assert 0.88 < np.mean(covered) < 0.95  # where labels are wrong, a little more than asked for


def test_sets_count_groups_not_rows():
    """Twenty groups of nearly equal rows, and the same rows once, give the same sets."""
    rng = np.random.default_rng(0)
    X, y = table(20, 3, 2)
    groups = np.repeat(np.arange(20), 10)
    near = X[groups] + 1e-12 * rng.normal(size=(200, 3))
    once = FuzzyTwinCommittee(["linear"]).fit(X, y)
    many = FuzzyTwinCommittee(["linear"]).fit(near, y[groups], np.full(200, 0.1), groups=groups)
    new = rng.normal(size=(300, 3))
    for coverage in (0.8, 0.94):
        for by_class in (False, True):
            expected = once.predict_set(new, coverage, class_conditional=by_class)
            found = many.predict_set(new, coverage, class_conditional=by_class)
            np.testing.assert_array_equal(found, expected)
    assert once.conformity_scores_.shape == (20, 3)
    assert many.conformity_scores_.shape == (200, 4)


@pytest.mark.slow
def test_sets_cover_where_many_columns_are_learned():
    """Columns that are learned from half of the rows are less sure than those of all rows."""
    covered = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1800, 150))
        y = (rng.random(1800) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
        model = FuzzyTwinCommittee(random_state=0).fit(X[:300], y[:300])
        covered.append(model.predict_set(X[300:], 0.9)[np.arange(1500), y[300:]].mean())
    assert np.mean(covered) == pytest.approx(0.895, abs=0.02)


def test_soft_labels_and_modelled_noise_are_refused_together():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="soft labels, which noise='auto' does not support"):
        FuzzyTwinCommittee(FEW, noise="auto").fit(X, y, membership=np.eye(3)[y])


def test_weights_reach_a_classifier_behind_a_pipeline():
    X, y = load_iris(return_X_y=True)
    s = np.where(np.arange(150) % 3, 1, 3)
    member = make_pipeline(make_pipeline(StandardScaler(), LogisticRegression()))
    weighed = FuzzyTwinCommittee([member]).fit(X, y, s).members_[0].classifier
    # Weights are in units of the mean weight of a row.
    weight = {"pipeline__logisticregression__sample_weight": s * (s.sum() / (s**2).sum())}
    repeated = clone(member).fit(X, y, **weight)
    assert np.abs(weighed.predict_proba(X) - repeated.predict_proba(X)).max() < 1e-6
    assert np.abs(weighed.predict_proba(X) - clone(member).fit(X, y).predict_proba(X)).max() > 0.02
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_"):
        FuzzyTwinCommittee(["linear", KNeighborsClassifier()]).fit(X, y, s)


def test_a_class_that_no_classifier_learns_is_named():
    X, y = load_iris(return_X_y=True)
    soft = np.where(y[:, None] == 2, [0.0, 0.6, 0.4], np.eye(3)[y])
    with pytest.raises(ValueError, match=r"GaussianNB is a .* column 2 are not the largest"):
        FuzzyTwinCommittee(["linear", GaussianNB()]).fit(X, y, membership=soft)


def test_groups_are_sampled_whole(monkeypatch):
    monkeypatch.setattr("fuzzytwin.committee._first_pass.SAMPLE_ROWS", 100)
    X, y = table(300)
    groups = np.arange(300) // 15
    _, chunk = as_single_chunk(validate_rows(FuzzyTwinCommittee(), X, y), groups)
    look, _ = run_first_pass(chunk.total)
    assert np.unique(look.rows.groups, return_counts=True)[1].tolist() == [15] * 6


def test_dense_landmarks_of_sparse_rows():
    X, y = table(40)
    X = sparse.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
    dense, thin = (
        FuzzyTwinCommittee(FEW, n_landmarks=marks).fit(X, y) for marks in (X[:9].toarray(), X[:9])
    )
    np.testing.assert_allclose(dense.predict_proba(X), thin.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("reach", [1e200, 1e-200])
def test_a_reach_beyond_all_numbers_is_named(reach):
    with pytest.raises(ValueError, match="reach=1e"):
        FuzzyTwinCommittee([("rbf", {"reach": reach})]).fit(*table())


def test_metadata_routing_changes_no_member():
    X, y = table()
    members = [make_pipeline(StandardScaler(), LogisticRegression())]
    expected = FuzzyTwinCommittee(members).fit(X, y, np.arange(1.0, 61.0)).predict_proba(X)
    with config_context(enable_metadata_routing=True):
        found = FuzzyTwinCommittee(members).fit(X, y, np.arange(1.0, 61.0)).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n_landmarks", [40, "auto"])
def test_the_order_of_rows_does_not_choose_landmarks(n_landmarks):
    X, y = make_moons(1700, noise=0.3, random_state=0)
    order = np.random.default_rng(0).permutation(len(y))
    model = FuzzyTwinCommittee(FEW, n_landmarks=n_landmarks, random_state=0)
    found = [clone(model).fit(X[i], y[i]).predict_proba(X) for i in (slice(None), order)]
    np.testing.assert_allclose(*found, atol=1e-8)


def test_rows_that_repeat_are_sampled_as_often_as_they_occur(monkeypatch):
    """Not all copies of a row or none: else most patterns of a table of categories are lost."""
    monkeypatch.setattr("fuzzytwin.committee._first_pass.SAMPLE_ROWS", 300)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (3000, 4)).astype(float)
    y = (X @ [1.0, -2.0, 3.0, 0.5] + rng.logistic(size=3000) > 1).astype(int)
    _, chunk = as_single_chunk(validate_rows(FuzzyTwinCommittee(), X, y))
    look, _ = run_first_pass(chunk.total)
    counts = [np.unique(part @ [1, 2, 4, 8], return_counts=True)[1] for part in (X, look.rows.X)]
    assert len(counts[1]) == 16
    assert np.abs(counts[1] / 300 - counts[0] / 3000).max() < 0.04
    model = FuzzyTwinCommittee(["linear"], n_landmarks=16, random_state=0)
    order = rng.permutation(3000)
    found = [clone(model).fit(X[i], y[i]).predict_proba(X) for i in (slice(None), order)]
    np.testing.assert_allclose(*found, atol=1e-9)


def test_members_are_screened_whatever_the_order_of_rows(monkeypatch):
    for name, number in (("FEW_ROWS", 200), ("SCREENING_ROWS", 150), ("SCREENING_LANDMARKS", 30)):
        monkeypatch.setattr(f"fuzzytwin.committee._fit.{name}", number)
    X, y = make_moons(600, noise=0.3, random_state=0)
    order = np.argsort(y, kind="stable")
    model = FuzzyTwinCommittee(n_landmarks=40, random_state=0)
    one, two = (clone(model).fit(X[i], y[i]) for i in (slice(None), order))
    assert [m.kernel for m in one.members_] == [m.kernel for m in two.members_]
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-6)


# In the first, names of labels led to another optimum of the noise model once.
RENAMED = [58, 39, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(200, 300))]


@pytest.mark.parametrize("seed", RENAMED)
def test_noise_is_the_same_whatever_labels_are_called_and_however_rows_are_ordered(seed):
    X, y, names, order = few_rows_with_much_noise(seed)
    model = FuzzyTwinCommittee(noise="auto", random_state=0).fit(X, y)
    renamed = clone(model).fit(X, names[y])
    permuted = clone(model).fit(X[order], y[order])
    exactly = {"rtol": 0, "atol": 1e-6}
    np.testing.assert_allclose(renamed.membership_, model.membership_, **exactly)
    np.testing.assert_allclose(permuted.membership_, model.membership_[order], **exactly)
    P = model.predict_proba(X)
    np.testing.assert_allclose(renamed.predict_proba(X)[:, names], P, **exactly)
    np.testing.assert_allclose(permuted.predict_proba(X), P, **exactly)


class Blas:
    """Threads of a BLAS that belong to the process, as those of most builds do."""

    threads = 8

    @contextmanager
    def limit(self, limits, user_api):
        assert user_api == "blas"
        before, self.threads = self.threads, limits
        yield
        self.threads = before


def test_concurrent_fits_leave_the_threads_of_blas_as_they_were(monkeypatch):
    """One fit begins while another runs, and ends after it."""
    blas = Blas()
    runs = {"first": threading.Event(), "second": threading.Event()}
    first_is_done, seen = threading.Event(), []

    def look(*given, **named):
        name = threading.current_thread().name
        runs[name].set()
        assert (first_is_done if name == "second" else runs["second"]).wait(30)
        seen.append(blas.threads)
        return run_first_pass(*given, **named)

    monkeypatch.setattr("fuzzytwin._utils.threads._libraries", lambda: blas)
    monkeypatch.setattr("fuzzytwin.committee._committee.run_first_pass", look)
    X, y = make_moons(60, noise=0.3, random_state=0)
    first, second = (
        threading.Thread(target=FuzzyTwinCommittee(FEW).fit, args=(X, y), name=name)
        for name in runs
    )
    first.start()
    assert runs["first"].wait(30)
    second.start()
    first.join()
    first_is_done.set()
    second.join()
    assert seen[0] == 1
    assert blas.threads == 8


def test_a_fit_that_fails_at_the_end_changes_nothing(monkeypatch):
    X, y = make_moons(80, noise=0.3, random_state=0)
    model = FuzzyTwinCommittee(FEW, noise="auto").fit(X, y)
    before = dict(vars(model))

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("fuzzytwin.committee._committee._label_degrees", fail)
    with pytest.raises(MemoryError):
        model.fit(-X, 1 - y)
    assert vars(model) == before


def marked_table(share=0.006, mark=-999.0):
    """Rows, labels, and rows with a mark for missing values in some cells of a column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=900) > 0).astype(int)
    marked = X.copy()
    marked[rng.random(900) < share, 1] = mark
    return X, y, marked


@pytest.mark.parametrize("mark", [-999.0, 1e6, 1e200])
def test_a_few_values_far_off_do_not_wreck_the_scaling(mark):
    X, y, marked = marked_table(mark=mark)
    plain = FuzzyTwinCommittee().fit(X[:500], y[:500])
    model = FuzzyTwinCommittee().fit(marked[:500], y[:500])
    np.testing.assert_allclose(model.scale_, plain.scale_, rtol=0.03)
    np.testing.assert_allclose(model.mean_, plain.mean_, atol=0.05)
    losses = [log_loss(y[500:], m.predict_proba(X[500:])) for m in (plain, model)]
    assert losses[1] < losses[0] + 0.02
    left_out = model.loo_proba(marked[:500], y[:500])
    np.testing.assert_allclose(log_loss(y[:500], left_out), model.loo_log_loss_)


def test_scales_of_rows_with_values_far_off_add_up_over_chunks():
    _, y, marked = marked_table()
    s = np.random.default_rng(1).uniform(0.5, 2.0, size=900)
    order = np.random.default_rng(2).permutation(900)

    def total(function, *shared):
        parts = np.array_split(order, 7)
        return reduce(add, (function(*shared, marked[i], y[i], 3 * s[i], None) for i in parts))

    look, _ = run_first_pass(total)
    whole, _ = run_first_pass(
        as_single_chunk(validate_rows(FuzzyTwinCommittee(), marked, y, s))[1].total
    )
    for one, two in zip(look.scales, whole.scales, strict=True):
        np.testing.assert_array_equal(one, two)


def test_one_value_far_off_among_many_rows_is_found_outside_of_the_sample(monkeypatch):
    monkeypatch.setattr("fuzzytwin.committee._first_pass.SAMPLE_ROWS", 200)
    X, y, _ = marked_table()
    X[137, 2] = 1e12
    look, _ = run_first_pass(as_single_chunk(validate_rows(FuzzyTwinCommittee(), X, y))[1].total)
    assert look.sampled
    np.testing.assert_allclose(look.scales.deviation, 1.0, rtol=0.15)


def test_an_outlier_among_new_rows_changes_no_other_row():
    X, y, _ = marked_table()
    model = FuzzyTwinCommittee().fit(X[:500], y[:500])
    expected = model.predict_proba(X[500:])
    new = X[500:].copy()
    new[3, 1], new[5, 0], new[8] = 1e200, -1.7e308, 1e300
    found = model.predict_proba(new)
    others = np.setdiff1d(np.arange(400), [3, 5, 8])
    np.testing.assert_allclose(found[others], expected[others], atol=1e-12)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_the_first_pass_makes_no_wide_copy_of_narrow_rows(monkeypatch):
    """Rows of float32 are read in blocks; what remains is a sample."""
    monkeypatch.setattr("fuzzytwin.committee._first_pass.SAMPLE_ROWS", 500)
    monkeypatch.setattr("fuzzytwin.committee._first_pass.BLOCK_NUMBERS", 1 << 14)
    X = np.random.default_rng(0).normal(size=(40_000, 64)).astype(np.float32)
    s, labels = np.ones(len(X)), Labels(np.array([0, 1]), (X[:, 0] > 0).astype(np.uint8))
    tracemalloc.start()
    try:
        look = stats_pass(None, X, labels, s, None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert look.rows.X.dtype == np.float32
    of_rows = 10 * s.nbytes  # weights, shares, keys and their orders
    assert peak < X.nbytes / 2 + of_rows


@pytest.mark.parametrize("noise", ["yes", True, ["auto"]])
def test_noise_is_none_or_auto(noise):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"noise=.* is not allowed; use None or 'auto'"):
        FuzzyTwinCommittee(FEW, noise=noise).fit(X, y)


def test_a_class_of_one_row_is_named_in_a_warning():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y][:101]
    with pytest.warns(UserWarning, match="y has only one row of 'c'"):
        FuzzyTwinCommittee(FEW).fit(X[:101], names)
    FuzzyTwinCommittee(FEW).fit(X[:102], np.array(["a", "b", "c"])[y][:102])
