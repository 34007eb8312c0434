"""Leave-one-out memberships against fits without each row."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV, LeastSquaresTwinSVC
from tests.pairs import every_pair


def table(n_classes, n=48, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + 2 * rng.normal(size=(n_classes, d))[y]
    return X, y, rng


def refits(model, X, y, s=None, mu=None):
    """Fit without each row, and predict it."""
    classes = np.unique(y)
    u = np.zeros((len(y), len(classes)))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        given = {
            name: value[rest]
            for name, value in (("sample_weight", s), ("membership", mu))
            if value is not None
        }
        one = clone(model).fit(X[rest], y[rest], **given)
        u[i, np.searchsorted(classes, one.classes_)] = one.predict_membership(X[[i]])[0]
    return u


SETTINGS = [
    {"alpha": 10.0},
    {"alpha": 10.0, "rule": "residual", "C": 3.0},
    {"alpha": 0.0, "C": 0.3},
    {"alpha": 1.0, "class_weight": {0: 2.0, 1: 0.5, 2: 1.0, 3: 1.0, 4: 3.0}},
    {"kernel": "rbf", "gamma": 0.1, "alpha": 0.1},
    {"kernel": "poly", "gamma": 0.1, "coef0": 1.0, "degree": 2, "alpha": 10.0},
]


@every_pair(settings=SETTINGS, n_classes=[2, 5], given=["rows", "degrees", "soft labels"])
def test_equals_fits_without_each_row(settings, n_classes, given):
    X, y, rng = table(n_classes, n=30)
    s = mu = None
    if given != "rows":
        s = rng.uniform(0.1, 3, len(y))
        s[7] = 0.0
    if given == "degrees":
        mu = rng.uniform(size=len(y))
    if given == "soft labels":
        mu = rng.dirichlet(np.full(n_classes, 0.3), size=len(y))
    settings = dict(settings)
    if "kernel" in settings:
        settings["n_landmarks"] = X[:8]
    if "class_weight" in settings:
        settings["class_weight"] = {k: settings["class_weight"][k] for k in range(n_classes)}
    model = FuzzyTwinSVC(**settings).fit(X, y, s, mu)
    found = model.loo_membership(X, y, s, mu)
    np.testing.assert_allclose(found, refits(model, X, y, s, mu), rtol=0, atol=1e-10)


def test_many_rows_and_columns_far_from_zero():
    """With many rows the columns of a root are made orthogonal: same numbers."""
    X, y, _ = table(2, n=400, d=3)
    X = 1e6 + X * [1e-4, 1.0, 1e4]
    model = FuzzyTwinSVC(C=(0.3, 2.0), alpha=1e-9).fit(X, y)
    some = np.arange(0, 400, 25)
    u = model.loo_membership(X, y)
    rest = [np.arange(400) != i for i in some]
    pairs = zip(some, rest, strict=True)
    one = [clone(model).fit(X[r], y[r]).predict_membership(X[[i]])[0] for i, r in pairs]
    np.testing.assert_allclose(u[some], one, rtol=0, atol=1e-6)
    centred = X - 1e6
    np.testing.assert_allclose(u, model.fit(centred, y).loo_membership(centred, y), atol=1e-9)


def test_classic_sparse_and_search():
    X, y, _ = table(3)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    model = LeastSquaresTwinSVC(C=0.5, alpha=1.0).fit(X, y)
    u = model.loo_membership(X, y)
    np.testing.assert_allclose(u, refits(model, X, y), atol=1e-10)
    S = sparse.csr_array(X)
    np.testing.assert_allclose(model.fit(S, y).loo_membership(S, y), u, atol=1e-10)
    search = FuzzyTwinSVCCV(Cs=[0.5], alphas=[1.0], memberships=[None], rules=["distance"], cv=3)
    np.testing.assert_allclose(search.fit(X, y).loo_membership(X, y), u, atol=1e-10)


def test_weights_are_repetitions_and_order_does_not_matter():
    """A row of weight 2 is left out whole: as two rows that are left out together."""
    X, y, rng = table(3)
    order = rng.permutation(len(y))
    model = FuzzyTwinSVC(alpha=10.0).fit(X, y)
    u = model.loo_membership(X, y)
    shuffled = FuzzyTwinSVC(alpha=10.0).fit(X[order], y[order]).loo_membership(X[order], y[order])
    np.testing.assert_allclose(shuffled, u[order], atol=1e-11)
    names = np.array(["c", "a", "b"])[y]
    renamed = FuzzyTwinSVC(alpha=10.0).fit(X, names).loo_membership(X, names)
    np.testing.assert_allclose(renamed[:, [2, 0, 1]], u, atol=1e-11)
    s = np.where(np.arange(len(y)) == 4, 2.0, 1.0)
    heavy = FuzzyTwinSVC(alpha=10.0).fit(X, y, s)
    rest = np.arange(len(y)) != 4
    without = FuzzyTwinSVC(alpha=10.0).fit(X[rest], y[rest]).predict_membership(X[[4]])
    np.testing.assert_allclose(heavy.loo_membership(X, y, s)[[4]], without, atol=1e-11)


def test_computed_degrees_stay_fixed():
    X, y, _ = table(2)
    model = FuzzyTwinSVC(membership="center").fit(X, y)
    given = FuzzyTwinSVC().fit(X, y, membership=model.membership_)
    expected = given.loo_membership(X, y, membership=model.membership_)
    np.testing.assert_allclose(model.loo_membership(X, y), expected, atol=1e-12)
    np.testing.assert_allclose(given.loo_membership(X, y), expected, atol=1e-12)


def test_fuzzy_planes_keep_their_widths():
    X, y, _ = table(2)
    model = FuzzyTwinSVC(planes="fuzzy", alpha=1.0).fit(X, y)
    u = model.loo_membership(X, y)
    i, rest = 5, np.arange(len(y)) != 5
    one = FuzzyTwinSVC(planes="fuzzy", alpha=1.0).fit(X[rest], y[rest])
    one.width_coef_, one.width_intercept_ = model.width_coef_, model.width_intercept_
    np.testing.assert_allclose(u[i], one.predict_membership(X[[i]])[0], atol=1e-11)


@every_pair(rule=["distance", "residual"], n_classes=[2, 3, 4])
def test_the_only_row_of_a_class_does_not_belong_to_it(n_classes, rule):
    X, y, _ = table(n_classes)
    keep = (y > 0) | (np.arange(len(y)) == 0)
    X, y = X[keep], y[keep]
    model = FuzzyTwinSVC(alpha=10.0, rule=rule).fit(X, y)
    u = model.loo_membership(X, y)
    assert u[0, 0] == pytest.approx(0.0, abs=1e-100)
    np.testing.assert_allclose(u.sum(axis=1), 1.0)
    if n_classes == 4:
        rest = clone(model).fit(X[1:], y[1:])
        np.testing.assert_allclose(u[0, 1:], rest.predict_membership(X[[0]])[0], atol=1e-12)
        np.testing.assert_allclose(u[5], refits(model, X, y)[5], atol=1e-11)


def test_full_leverage_without_ridge():
    """A column that one row alone fills is lost with it: its coefficient is 0."""
    X, y, _ = table(2)
    flag = (np.arange(len(y)) == 6).astype(float)
    X = np.column_stack([X, flag])
    model = FuzzyTwinSVC(alpha=0.0, C=0.5).fit(X, y)
    np.testing.assert_allclose(model.loo_membership(X, y), refits(model, X, y), atol=1e-10)
    # More columns than rows: every row has full leverage.
    X, y, rng = table(2, n=8, d=20)
    X = rng.normal(size=X.shape)
    model = FuzzyTwinSVC(alpha=0.0, C=0.5, kernel="rbf", gamma=0.05, n_landmarks=X).fit(X, y)
    np.testing.assert_allclose(model.loo_membership(X, y), refits(model, X, y), atol=1e-8)


def test_without_a_ridge_a_group_may_leave_directions_open():
    """As many rows as columns in a group: of the planes that remain, the shortest is taken."""
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(12, 2)) @ rng.normal(size=(2, 5)), rng.normal(size=(3, 5))])
    y, rest = np.arange(15) % 2, np.arange(15) < 12
    model = FuzzyTwinSVC(alpha=0.0, kernel="poly", degree=1, gamma=1.0, n_landmarks=np.eye(5))
    left_out = model.fit(X, y).loo_membership(X, y, groups=np.minimum(np.arange(15), 12))
    expected = model.fit(X[rest], y[rest]).predict_membership(X[~rest])
    np.testing.assert_allclose(left_out[~rest], expected, atol=1e-7)


def test_groups_of_one_row_take_no_longer_than_rows(monkeypatch):
    X, y, rng = table(4)
    model = FuzzyTwinSVC(alpha=0.5).fit(X, y)
    expected = model.loo_membership(X, y)
    monkeypatch.delattr("fuzzytwin.core.ridge.LooFactor._leave_groups")
    found = model.loo_membership(X, y, groups=rng.permutation(len(y)))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_rows_of_a_group_that_is_all_of_a_class_do_not_belong_to_it():
    X, y, _ = table(2)
    groups = np.where(y == 0, -1, np.arange(len(y)))
    u = FuzzyTwinSVC().fit(X, y).loo_membership(X, y, groups=groups)
    np.testing.assert_allclose(u[y == 0], np.tile([0.0, 1.0], (24, 1)), atol=1e-100)
    assert np.isfinite(u).all()


def test_dependent_columns_without_ridge():
    X, y, _ = table(2)
    X = np.column_stack([X, X[:, 0] * 2])
    model = FuzzyTwinSVC(alpha=0.0, C=0.5).fit(X, y)
    assert model.rank_ < X.shape[1]
    np.testing.assert_allclose(model.loo_membership(X, y), refits(model, X, y), atol=1e-9)


def test_batches_and_balanced_classes():
    X, y, _ = table(3)
    model = FuzzyTwinSVC(class_weight="balanced").fit(X, y)
    u = model.loo_membership(X, y)
    factor = len(y) / (3 * np.bincount(y))
    fixed = FuzzyTwinSVC(class_weight=dict(enumerate(factor))).fit(X, y)
    np.testing.assert_allclose(u, fixed.loo_membership(X, y), atol=1e-12)
    parts = FuzzyTwinSVC(class_weight="balanced")
    for part in (slice(0, 20), slice(20, None)):
        parts.partial_fit(X[part], y[part], classes=[0, 1, 2])
    np.testing.assert_allclose(parts.loo_membership(X, y), u, atol=1e-11)


def test_other_rows_and_parameters_are_refused():
    X, y, _ = table(2)
    model = FuzzyTwinSVC().fit(X, y)
    coef = model.coef_.copy()
    for wrong, text in (
        (
            lambda: model.loo_membership(X[1:], y[1:]),
            "class 0 have a total weight of 23 .* fitted on 24",
        ),
        (lambda: model.loo_membership(X, y, np.full(len(y), 2.0)), "sample_weight and membership"),
        (
            lambda: model.loo_membership(X, y, membership=np.full(len(y), 0.5)),
            "class 0 have a total weight of 12",
        ),
        (lambda: model.loo_membership(X + 1.0, y), "the mean of class"),
        (lambda: model.loo_membership(X, np.roll(y, 1)), "with the same labels"),
        (lambda: model.loo_membership(X[:, 1:], y), "4 features"),
        (lambda: model.loo_membership(X, y + 1), "y holds 2"),
        (lambda: clone(model).loo_membership(X, y), "not fitted"),
        (lambda: FuzzyTwinSVC().fit(X, y).set_params(C=2.0).loo_membership(X, y), "fit again"),
    ):
        with pytest.raises((ValueError, AttributeError), match=text):
            wrong()
    np.testing.assert_array_equal(model.coef_, coef)


def many_classes(K, d, n):
    """Return rows of which every pair of classes has fewer than columns, and labels."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % K
    return rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(K, d))[y] + 5.0, y


@every_pair(
    solver=["gram", "iterative"],
    form=[np.asarray, np.float32, sparse.csr_array],
    settings=[{}, {"C": 0.25, "rule": "residual"}, {"alpha": "auto", "class_weight": "balanced"}],
    given=["labels", "weights", "degrees", "groups"],
)
def test_pairs_are_left_out_in_the_span_of_their_rows(solver, form, settings, given, monkeypatch):
    """As by moments, also where a group has rows of several classes or one class a single row."""
    monkeypatch.setattr("fuzzytwin.twin._fit.ITERATIVE_TOL", 1e-12)
    X, y = many_classes(K=4, d=30, n=34)
    y[y == 3] = 2
    y[0] = 3
    X, rng = form(X), np.random.default_rng(1)
    s = rng.uniform(0.5, 3.0, len(y)) if given in ("weights", "degrees") else None
    mu = rng.uniform(0.1, 1.0, len(y)) if given == "degrees" else None
    if s is not None:
        s[5] = 0.0
    groups = np.arange(len(y)) // 3 if given == "groups" else None
    found, expected = (
        FuzzyTwinSVC(solver=name, calibration="loo", **settings).fit(X, y, s, mu, groups)
        for name in (solver, "moments")
    )
    u, v = (model.loo_membership(X, y, s, mu, groups) for model in (found, expected))
    np.testing.assert_allclose(u, v, atol=1e-9)
    np.testing.assert_allclose(found.conformity_scores_, expected.conformity_scores_, atol=1e-6)


def test_rows_of_many_classes_are_left_out_in_little_memory(monkeypatch):
    """Neither moments of all classes nor the values of all rows by all planes are held."""
    X, y = many_classes(K=10, d=150, n=50)
    model = FuzzyTwinSVC(solver="gram", calibration="loo")
    expected = model.fit(X, y).conformity_scores_
    monkeypatch.setattr("fuzzytwin.twin._loo.MAX_VALUES", 0)
    tracemalloc.start()
    found = model.fit(X, y).conformity_scores_
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert peak < 8 * 10 * 150 * 150  # the covariances of all classes
