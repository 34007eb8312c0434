"""More than two classes: two planes for each pair, memberships from all pairs."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.preprocessing import scale

from fuzzytwin import GEPSVC, FuzzyTwinSVC, LeastSquaresTwinSVC, TwinSVC
from fuzzytwin.core.distances import distance_ratios, memberships_of


def blobs(K, n=40, d=4, seed=0):
    X, y = make_blobs(n * K, d, centers=K, cluster_std=4.0, random_state=seed)
    return X, y


@pytest.mark.parametrize("K", [3, 10])
@pytest.mark.parametrize(
    "model",
    [
        FuzzyTwinSVC(C=0.5, alpha=10.0),
        FuzzyTwinSVC(alpha=0.0),
        FuzzyTwinSVC(planes="fuzzy", C=2.0, alpha=10.0),
        FuzzyTwinSVC(membership="center", alpha=10.0),
        FuzzyTwinSVC(C=3.0, alpha=10.0, kernel="rbf", gamma=0.05, n_landmarks=blobs(3)[0][::5]),
        LeastSquaresTwinSVC(C=0.25, alpha=1.0),
        GEPSVC(alpha=0.1),
        TwinSVC(C=0.1, alpha=1.0),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.get_params().get('planes', '')}",
)
def test_planes_are_those_of_one_vs_one(model, K):
    X, y = blobs(K)
    model.fit(X, y)
    pairs = OneVsOneClassifier(model).fit(X, y).estimators_
    assert len(model.coef_) == 2 * len(pairs) == K * (K - 1)
    for p, ((k, j), pair) in enumerate(
        zip(itertools.combinations(range(K), 2), pairs, strict=True)
    ):
        assert model.plane_classes_[2 * p : 2 * p + 2].tolist() == [[k, j], [j, k]]
        for name in ("coef_", "intercept_", "width_coef_", "width_intercept_"):
            if hasattr(model, name):
                rtol = 1e-6 if isinstance(model, TwinSVC) else 1e-9
                mine, theirs = getattr(model, name)[2 * p : 2 * p + 2], getattr(pair, name)
                assert_allclose(mine, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


@pytest.mark.parametrize("rule", ["distance", "residual"])
@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
def test_memberships_by_loops(planes, rule):
    X, y = blobs(4)
    model = FuzzyTwinSVC(planes=planes, rule=rule, C=0.5).fit(X, y)
    delta, gamma = model.fuzzy_distance(X)
    if rule == "residual":
        norms = np.linalg.norm(model.coef_, axis=1)
        delta, gamma = delta * norms, gamma * norms
    u = model.predict_membership(X)
    place = {tuple(pair): i for i, pair in enumerate(model.plane_classes_.tolist())}
    for i in range(0, len(X), 11):
        a = {
            pair: delta[i, p] + (gamma[i, p] if delta[i, p] >= gamma[i, p] else 0.0)
            for pair, p in place.items()
        }
        assert_allclose(u[i], combined_by_loops(a, 4), rtol=1e-9)
    assert_allclose(u.sum(axis=1), 1.0, rtol=1e-12)
    assert_array_equal(model.predict(X), model.classes_[u.argmax(axis=1)])
    assert_array_equal(model.decision_function(X), u)


def combined_by_loops(a, K):
    v = [1 / (1 + sum((a[k, j] / a[j, k]) ** 3 for j in range(K) if j != k)) for k in range(K)]
    return np.array(v) / sum(v)


def test_two_classes_are_eq29():
    X, y = blobs(2)
    model = FuzzyTwinSVC(C=0.3).fit(X, y)
    a, _ = model.fuzzy_distance(X)
    assert_allclose(model.predict_membership(X), a[:, ::-1] / a.sum(axis=1, keepdims=True))
    assert model.plane_classes_.tolist() == [[0, 1], [1, 0]]


def test_memberships_of_extreme_distances():
    inf = np.inf
    a = np.array([[0.0, 0.0, inf, inf, 1.0, inf, 0.0, 1e-320, 1e308]])
    b = np.array([[0.0, 2.0, inf, 1.0, inf, 0.0, inf, 1e308, 1e-320]])
    wanted = [[1.0, 1e-50, 1.0, 1e50, 1e-50, 1e50, 1e-50, 1e-50, 1e50]]
    assert_allclose(distance_ratios(a, b), wanted)
    for row, label in (([0, 1, 0, 1, 1, 1], 0), ([inf, 1, 5, 1, 2, 2], 1), ([3, 1, 2, 0, 7, 0], 2)):
        u = memberships_of(np.array([row], dtype=float).T, 3).T
        assert u.argmax() == label
        assert_allclose(u.sum(), 1.0)
    round_robin = memberships_of(np.array([[0.0, 1.0, 1.0, 0.0, 0.0, 1.0]]).T, 3).T
    assert_allclose(round_robin, 1 / 3)  # each beats one and is beaten by another


def test_a_class_that_is_absent_from_a_batch():
    X, y = blobs(4)
    model = FuzzyTwinSVC()
    first = y < 2
    model.partial_fit(X[first], y[first], classes=range(4))
    assert set(model.predict(X)) <= {0, 1}  # a class without rows is never named
    model.partial_fit(X[~first], y[~first])
    assert_allclose(model.coef_, FuzzyTwinSVC().fit(X, y).coef_, rtol=1e-8, atol=1e-10)


def test_a_class_of_one_row():
    X, y = blobs(4)
    keep = (y > 0) | (np.cumsum(y == 0) == 1)
    model = FuzzyTwinSVC(alpha=1.0).fit(X[keep], y[keep])
    u = model.predict_membership(X)
    assert np.isfinite(u).all()
    assert (model.predict(X[y > 0]) == y[y > 0]).mean() > 0.8


def test_pairs_beat_one_against_the_rest():
    cv = StratifiedKFold(5, shuffle=True, random_state=0)
    for load, least in ((load_iris, 0.94), (load_digits, 0.96)):
        X, y = load(return_X_y=True)
        pairs, rest = (
            cross_val_score(model, scale(X), y, cv=cv).mean()
            for model in (FuzzyTwinSVC(), OneVsRestClassifier(FuzzyTwinSVC()))
        )
        assert pairs > max(rest, least)


def test_memory_of_many_classes_is_bounded():
    import tracemalloc

    K, n = 60, 4000
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(K, 8)) * 5
    y = rng.integers(K, size=n)
    X = centers[y] + rng.normal(size=(n, 8))
    model = FuzzyTwinSVC().fit(X, y)
    tracemalloc.start()
    assert (model.predict(X) == y).mean() > 0.9
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.4 * n * K * (K - 1) * 8  # never all distances at once
