"""The classic machines against independent solutions of their objectives."""

import copy
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import linalg, optimize, sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from fuzzytwin import (
    GEPSVC,
    FuzzyTwinSVC,
    LeastSquaresSVC,
    LeastSquaresTwinSVC,
    ProximalSVC,
    TablePreprocessor,
    TwinSVC,
)
from fuzzytwin.datasets import load_uci, make_ndc
from tests.checks import scikit_learn_checks
from tests.pairs import every_pair

MACHINES = [
    LeastSquaresTwinSVC(C=0.3),
    TwinSVC(C=0.3),
    ProximalSVC(C=0.3),
    LeastSquaresSVC(C=0.3),
    GEPSVC(),
]
STREAMERS = [model for model in MACHINES if hasattr(model, "partial_fit")]
SHIFTABLE = [model for model in MACHINES if not isinstance(model, ProximalSVC)]


def named(models):
    return pytest.mark.parametrize("model", models, ids=lambda model: type(model).__name__)


def make(kind, n=90, d=4, seed=0):
    rng = np.random.default_rng(seed)
    share, gap, K = {
        "separable": (0.5, 8.0, 2),
        "overlapping": (0.5, 1.0, 2),
        "imbalanced": (0.1, 1.5, 2),
        "three classes": (0.6, 3.0, 3),
    }[kind]
    y = (rng.random(n) < share).astype(int)
    if K == 3:
        y += rng.random(n) < 0.4
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    X[:, :2] += gap * np.column_stack([y, y * y])
    return X, y


def planes_close(a, b, rtol=1e-9, atol=1e-9):
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=rtol, atol=atol)
    np.testing.assert_allclose(a.intercept_, b.intercept_, rtol=rtol, atol=atol)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # 5 passes allowed
@scikit_learn_checks(LeastSquaresTwinSVC(), TwinSVC(), ProximalSVC(), LeastSquaresSVC(), GEPSVC())
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


# The objectives, each written out and solved by other means


def own_and_rivals(model, y):
    """Yield the rows of the own and of the rival class of each plane."""
    for k, j in model.classes_[model.plane_classes_]:
        yield y == k, y == j


def twin_objective(w, b, own, rivals, s_own, s_rivals, C, alpha):
    f, g = own @ w + b, rivals @ w + b
    slack = np.maximum(0, 1 + g)
    return 0.5 * s_own @ f**2 + C * (s_rivals @ slack) + 0.5 * alpha * w @ w


def twin_qp(own, rivals, s_own, s_rivals, C, alpha):
    """eq2 with its slack variables, as a generic quadratic program in (w, b, xi)."""
    d, m = own.shape[1], len(rivals)
    E = np.column_stack([own, np.ones(len(own))])
    F = np.column_stack([rivals, np.ones(m)])
    Q = (E * s_own[:, None]).T @ E + alpha * np.diag(np.append(np.ones(d), 0.0))

    def value(v):
        z, xi = v[: d + 1], v[d + 1 :]
        return 0.5 * z @ Q @ z + C * (s_rivals @ xi)

    def slope(v):
        return np.append(Q @ v[: d + 1], C * s_rivals)

    A = np.hstack([-F, np.eye(m)])
    start = np.concatenate([np.zeros(d), [-1.0], np.zeros(m)])
    found = optimize.minimize(
        value, start, jac=slope, method="SLSQP",
        constraints={"type": "ineq", "fun": lambda v: A @ v - 1, "jac": lambda v: A},
        bounds=[(None, None)] * (d + 1) + [(0, None)] * m,
        options={"ftol": 1e-15, "maxiter": 2000},
    )  # fmt: skip
    return found.x[:d], found.x[d]


@pytest.mark.parametrize("kind", ["separable", "overlapping", "imbalanced", "three classes"])
@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
def test_twin_svc_equals_a_generic_qp_solver(kind, C):
    X, y = make(kind)
    s = np.random.default_rng(1).uniform(0.2, 2.0, len(y))
    alpha = 0.01
    model = TwinSVC(C=C, alpha=alpha).fit(X, y, sample_weight=s)
    for k, (own, rival) in enumerate(own_and_rivals(model, y)):
        problem = X[own], X[rival], s[own], s[rival], C, alpha
        expected = twin_objective(*twin_qp(*problem), *problem)
        reached = twin_objective(model.coef_[k], model.intercept_[k], *problem)
        assert reached == pytest.approx(expected, rel=1e-6)


def test_twin_svc_reaches_the_optimum_where_slack_is_dear_and_features_are_many():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 100)), np.repeat([0, 1], 30)
    model = TwinSVC(C=1000.0).fit(X, y)
    for k in (0, 1):
        own, rivals = X[y == k], X[y != k]
        problem = own, rivals, np.ones(30), np.ones(30), 1000.0, 1e-3
        reached = twin_objective(model.coef_[k], model.intercept_[k], *problem)
        # a bound from below: the value of the dual at the multipliers that keep all margins
        E, F = (np.column_stack([rows, np.ones(30)]) for rows in (own, rivals))
        G = E.T @ E + 1e-3 * np.diag(np.append(np.ones(100), 0.0))
        Q = F @ linalg.solve(G, F.T, assume_a="pos")
        dual = optimize.minimize(
            lambda v, Q=Q: (0.5 * v @ Q @ v - v.sum(), Q @ v - 1), np.zeros(30), jac=True,
            method="L-BFGS-B", bounds=[(0, 1000.0)] * 30,
            options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 10000, "maxfun": 20000},
        )  # fmt: skip
        assert reached == pytest.approx(-dual.fun, rel=1e-6)


def test_twin_svc_keeps_margins_and_says_how_long_it_took():
    X, y = make("separable")
    model = TwinSVC(C=1e4).fit(X, y)
    for k in (0, 1):
        assert (X[y != k] @ model.coef_[k] + model.intercept_[k]).max() <= -1 + 1e-6
    assert model.n_iter_.shape == (2,)
    assert (model.n_iter_ >= 1).all()


def test_twin_svc_is_deterministic_and_its_seed_matters_within_tol_only():
    X, y = make("overlapping", n=400)
    first, again = (TwinSVC().fit(X, y) for _ in range(2))
    assert np.array_equal(first.coef_, again.coef_)
    assert np.array_equal(first.intercept_, again.intercept_)
    planes_close(first, TwinSVC(random_state=7).fit(X, y), rtol=1e-4, atol=1e-5)


def test_twin_svc_does_not_depend_on_the_names_of_classes():
    X, y = load_iris(return_X_y=True)
    u = TwinSVC().fit(X, y).predict_membership(X)
    renamed = TwinSVC().fit(X, np.array(["c", "a", "b"])[y]).predict_membership(X)
    np.testing.assert_allclose(renamed[:, [2, 0, 1]], u, atol=1e-12)


def test_twin_svc_warns_where_it_did_not_converge():
    X, y = make("overlapping", n=400)
    match = r"max_iter=2 .* class 0, 1; raise max_iter"
    with pytest.warns(ConvergenceWarning, match=match) as caught:
        TwinSVC(max_iter=2).fit(X, y)
    assert caught[0].filename == __file__


@every_pair(
    kind=["separable", "imbalanced", "three classes"], C=[0.3, [0.5, 2.0, 1.0]], alpha=[0.0, 0.7]
)
def test_least_squares_twin_svc_is_the_fuzzy_one_without_memberships(kind, C, alpha):
    X, y = make(kind)
    settings = {
        "C": C if np.isscalar(C) else C[: len(np.unique(y))],
        "alpha": alpha,
        "rule": "residual",
        "class_weight": "balanced",
    }
    mine = LeastSquaresTwinSVC(**settings).fit(X, y)
    fuzzy = FuzzyTwinSVC(membership=None, **settings).fit(X, y)
    assert np.array_equal(mine.coef_, fuzzy.coef_)
    assert np.array_equal(mine.intercept_, fuzzy.intercept_)
    assert np.array_equal(mine.decision_function(X), fuzzy.decision_function(X))


@pytest.mark.parametrize("C", [(0.4, 3.0), (1.0, 1.0)])
def test_least_squares_twin_svc_is_eq6_and_eq7(C):
    X, y = make("overlapping")
    model = LeastSquaresTwinSVC(C=C).fit(X, y)
    E, F = (np.column_stack([X[y == k], np.ones((y == k).sum())]) for k in (0, 1))
    z1 = -np.linalg.solve(F.T @ F + E.T @ E / C[0], F.sum(axis=0))
    z2 = np.linalg.solve(E.T @ E + F.T @ F / C[1], E.sum(axis=0))
    found = np.column_stack([model.coef_, model.intercept_])
    np.testing.assert_allclose(found, [z1, -z2], rtol=1e-9)  # eq7's plane, other sign
    cosine = model.coef_[0] @ model.coef_[1] / np.prod(np.linalg.norm(model.coef_, axis=1))
    assert (abs(cosine + 1) < 1e-12) == (C == (1.0, 1.0))  # C = 1: parallel, no twin machine


@pytest.mark.parametrize("kind", ["separable", "overlapping", "imbalanced", "three classes"])
@pytest.mark.parametrize("nu", [1e-3, 1.0, 1e3])
def test_proximal_svc_equals_its_closed_form(kind, nu):
    X, y = make(kind)
    s = np.random.default_rng(1).uniform(0.2, 2.0, len(y))
    model = ProximalSVC(C=nu).fit(X, y, sample_weight=s)
    E = np.column_stack([X, np.ones(len(X))])
    K = len(model.classes_)
    assert model.coef_.shape == (K * (K - 1) // 2, X.shape[1])
    for k, (own, rival) in enumerate(own_and_rivals(model, y)):
        D = own * 1.0 - rival
        pair = E[own | rival].T * s[own | rival]
        z = np.linalg.solve(np.eye(5) / nu + pair @ E[own | rival], E.T @ (s * D))
        np.testing.assert_allclose(np.append(model.coef_[k], model.intercept_[k]), z, rtol=1e-8)
    f = model.decision_function(X)
    expected = (f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)
    assert np.array_equal(model.predict(X), model.classes_[expected])


def test_proximal_svc_keeps_its_digits_far_from_zero():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(40, 2)) * 64) / 64 + 2.0**20
    y = (X[:, 0] + 0.3 * X[:, 1] > 1.3 * 2**20).astype(int)
    model = ProximalSVC().fit(X, y)
    # the closed form in exact arithmetic
    E = [[Fraction(v) for v in (*row, 1.0)] for row in X]
    D = [2 * int(label) - 1 for label in y]
    A = [[sum(e[i] * e[j] for e in E) + (i == j) for j in range(3)] for i in range(3)]
    r = [sum(e[i] * t for e, t in zip(E, D, strict=True)) for i in range(3)]
    for i in range(3):  # Gauss and Jordan
        for k in range(3):
            if k != i:
                q = A[k][i] / A[i][i]
                A[k] = [a - q * b for a, b in zip(A[k], A[i], strict=True)]
                r[k] -= q * r[i]
    exact = [float(r[i] / A[i][i]) for i in range(3)]
    np.testing.assert_allclose([*model.coef_[0], model.intercept_[0]], exact, rtol=1e-7)


@pytest.mark.parametrize("kind", ["separable", "overlapping", "imbalanced", "three classes"])
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 5.0])
def test_gepsvc_planes_are_generalised_eigenvectors(kind, alpha):
    X, y = make(kind)
    s = np.random.default_rng(1).uniform(0.2, 2.0, len(y))
    model = GEPSVC(alpha=alpha).fit(X, y, sample_weight=s)
    E = np.column_stack([X, np.ones(len(X))])
    np.testing.assert_allclose(np.linalg.norm(model.coef_, axis=1), 1.0, rtol=1e-12)
    for k, (own, rival) in enumerate(own_and_rivals(model, y)):
        G, H = ((E[part] * s[part, None]).T @ E[part] for part in (own, rival))
        G += alpha * np.diag([1.0] * 4 + [0.0])
        z = np.append(model.coef_[k], model.intercept_[k])
        value = (z @ G @ z) / (z @ H @ z)
        residual = np.linalg.norm(G @ z - value * (H @ z))
        assert residual <= 1e-10 * np.linalg.norm(G) * np.linalg.norm(z)
        assert value == pytest.approx(linalg.eigh(G, H, eigvals_only=True)[0], rel=1e-9)
        assert np.average(E[rival] @ z, weights=s[rival]) <= 0


@pytest.mark.filterwarnings("ignore::fuzzytwin.tables.TableWarning")
@pytest.mark.parametrize("name", ["hepatitis", "votes"])
def test_gepsvc_by_default_beats_the_majority_on_tables_with_categories(name):
    """One-hot columns are collinear: a tiny ridge picks planes through all rows (.33 and .49)."""
    X, y = load_uci(name, return_X_y=True, as_frame=True)
    least = y.value_counts(normalize=True).max()
    model = make_pipeline(TablePreprocessor(), GEPSVC())
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    assert cross_val_score(model, X, y, cv=folds).mean() > least


def test_gepsvc_scales_its_ridge_with_the_columns():
    X, y = make("three classes")
    model, wide = GEPSVC().fit(X, y), GEPSVC().fit(1000.0 * X, y)
    assert model.alpha_ == pytest.approx(FuzzyTwinSVC().fit(X, y).alpha_)
    assert wide.alpha_ == pytest.approx(1e6 * model.alpha_)
    assert np.array_equal(wide.predict(1000.0 * X), model.predict(X))
    assert not hasattr(GEPSVC(alpha=1.0).fit(X, y), "alpha_")


# Identities


@named(SHIFTABLE)
def test_a_shift_of_the_data_shifts_the_planes_alone(model):
    X, y = make("three classes", n=150)
    shift = np.array([1e6, -1e6, 3e5, 0.0])
    X = (X + shift) - shift  # so that both tables hold the same digits
    here, there = clone(model).fit(X, y), clone(model).fit(X + shift, y)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(
        there.decision_function(X + shift), here.decision_function(X), atol=1e-5
    )


@named(MACHINES)
def test_labels_may_be_renamed_and_rows_permuted(model):
    X, y = make("three classes")
    order = np.random.default_rng(0).permutation(len(y))
    plain = clone(model).fit(X, y)
    named_ = clone(model).fit(X[order], np.array(["a", "b", "c"])[y[order]])
    planes_close(plain, named_, rtol=1e-4, atol=1e-6)
    assert np.array_equal(np.array(["a", "b", "c"])[plain.predict(X)], named_.predict(X))


@named([LeastSquaresTwinSVC(), TwinSVC(), ProximalSVC(), LeastSquaresSVC()])
def test_class_weight_is_a_sample_weight(model):
    X, y = make("imbalanced")
    count = np.bincount(y)
    by_hand = clone(model).fit(X, y, sample_weight=(len(y) / 2 / count)[y])
    planes_close(clone(model).set_params(class_weight="balanced").fit(X, y), by_hand, 1e-5, 1e-6)
    given = clone(model).set_params(class_weight={1: 3.0}).fit(X, y)
    planes_close(given, clone(model).fit(X, y, sample_weight=np.array([1.0, 3.0])[y]), 1e-5, 1e-6)


@named(STREAMERS)
def test_partial_fit_and_merge_equal_one_fit(model):
    X, y = make("three classes", n=200)
    s = np.random.default_rng(1).uniform(0, 2, len(y))
    whole = clone(model).fit(X, y, sample_weight=s)
    parts = [clone(model), clone(model)]
    for turn, here in enumerate(np.array_split(np.arange(len(y)), 5)):
        parts[turn % 2].partial_fit(X[here], y[here], classes=[0, 1, 2], sample_weight=s[here])
    planes_close(parts[0].merge(parts[1]), whole)
    order = np.argsort(y, kind="stable")  # classes arrive one by one
    stream = clone(model)
    for here in np.array_split(order, 4):
        stream.partial_fit(X[here], y[here], classes=[0, 1, 2], sample_weight=s[here])
    planes_close(stream, whole)


@named(STREAMERS)
def test_sparse_and_narrow_rows(model):
    X, y = make("three classes")
    X[np.abs(X) < 1] = 0
    dense = clone(model).fit(X, y)
    thin = clone(model).fit(sparse.csr_array(X), y)
    planes_close(dense, thin)
    assert np.array_equal(dense.predict(X), thin.predict(sparse.csr_array(X)))
    narrow = clone(model).fit(X.astype(np.float32), y)
    assert narrow.coef_.dtype == np.float64
    planes_close(dense, narrow, rtol=1e-3, atol=1e-3)


def test_twin_svc_takes_narrow_rows_and_refuses_sparse_ones():
    X, y = make("separable")
    X = X.astype(np.float32)
    planes_close(TwinSVC().fit(X, y), TwinSVC().fit(X.astype(float), y))
    with pytest.raises(TypeError, match="dense data is required"):
        TwinSVC().fit(sparse.csr_array(X), y)


@pytest.mark.parametrize("model", [TwinSVC(), GEPSVC()], ids=["TwinSVC", "GEPSVC"])
def test_own_samples_that_do_not_span_the_space(model):
    X, y = make("separable")
    X = np.column_stack([X, X[:, 0], np.full(len(X), 3.0)])
    model = clone(model).fit(X, y)
    assert model.score(X, y) > 0.95
    with pytest.raises(ValueError, match=r"alpha=0.*class 0 .*span only 4 of 6.*larger alpha"):
        clone(model).set_params(alpha=0).fit(X, y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LeastSquaresTwinSVC(C=0), "C=0 is not allowed; give a finite number above 0"),
        (LeastSquaresTwinSVC(alpha=-1), "alpha=-1 is not allowed"),
        (LeastSquaresTwinSVC(rule="nearest"), "rule='nearest' is unknown"),
        (LeastSquaresTwinSVC(class_weight="even"), "class_weight='even' is unknown"),
        (TwinSVC(C=[1, 2, 3]), r"C=\[1, 2, 3\] does not fit 2 classes"),
        (TwinSVC(alpha="x"), "alpha='x' is not allowed"),
        (TwinSVC(tol=0), "tol=0 is not allowed"),
        (TwinSVC(max_iter=0), "max_iter=0 is not allowed"),
        (TwinSVC(max_iter=1.5), "max_iter=1.5 is not allowed; give a whole number"),
        (TwinSVC(random_state="x"), "random_state='x' is not allowed"),
        (TwinSVC(rule=None), "rule=None is unknown"),
        (ProximalSVC(C=[1, 2]), r"C=\[1, 2\] is not allowed"),
        (LeastSquaresSVC(C=0), "C=0 is not allowed"),
        (ProximalSVC(class_weight={0: -1}), "class_weight={0: -1} holds a negative"),
        (GEPSVC(alpha=np.nan), "alpha=nan is not allowed"),
    ],
)
def test_errors_name_the_parameter_and_leave_a_fitted_model_alone(model, message):
    X, y = make("separable")
    good = type(model)().fit(X, y)
    before = copy.deepcopy(vars(good))
    good.set_params(**model.get_params())
    with pytest.raises(ValueError, match=message):
        good.fit(X, y)
    for name in (name for name in before if name.endswith("_")):
        if name != "moments_":
            np.testing.assert_equal(vars(good)[name], before[name])
    assert set(before) == set(vars(good))


@named(MACHINES)
def test_bad_rows_are_refused(model):
    X, y = make("separable")
    fitted = clone(model).fit(X, y)
    coef = fitted.coef_.copy()
    holed = X.copy()
    holed[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        fitted.fit(holed, y)
    with pytest.raises(ValueError, match="one class"):
        fitted.fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="sample_weight holds -1"):
        fitted.fit(X, y, sample_weight=np.where(y == 0, -1.0, 1.0))
    assert np.array_equal(fitted.coef_, coef)


def test_only_like_models_merge():
    X, y = make("separable")
    mine = LeastSquaresTwinSVC(alpha=1.0).fit(X, y)
    with pytest.raises(TypeError, match="merge takes a LeastSquaresTwinSVC"):
        mine.merge(FuzzyTwinSVC(membership=None).fit(X, y))
    with pytest.raises(ValueError, match=r"differ in alpha: 1\.0 and 2\.0"):
        mine.merge(LeastSquaresTwinSVC(alpha=2.0).fit(X, y))
    with pytest.raises(ValueError, match="classes=None in the first call"):
        GEPSVC().partial_fit(X, y)


def test_weights_of_any_size_change_nothing_but_the_price_of_the_ridge():
    X, y = make("overlapping")
    for model in (LeastSquaresTwinSVC(alpha=0.0), TwinSVC(alpha=0.0), GEPSVC(alpha=0.0)):
        plain = clone(model).fit(X, y)
        for size in (1e-200, 1e200):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                sized = clone(model).fit(X, y, sample_weight=np.full(len(y), size))
            planes_close(plain, sized, rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # LinearSVC's
def test_twin_svc_takes_fewer_passes_than_linear_svc():
    """A pass for one of two planes is over the rows of the other class only."""
    X, y = make_ndc(20_000, 32, random_state=0)
    X = scale(X)
    linear = LinearSVC(loss="hinge", random_state=0).fit(X, y)
    model = TwinSVC().fit(X, y)
    assert (model.n_iter_ < model.max_iter).all()
    rows_passed = (model.n_iter_ * np.bincount(y > 0)[::-1]).sum()
    assert rows_passed <= linear.n_iter_ * len(y)


def test_weights_that_drown_the_ridge_of_proximal_svc_are_named():
    X = np.random.default_rng(0).normal(size=(6, 2)) @ np.ones((2, 4))
    y = np.arange(6) % 2
    assert np.isfinite(ProximalSVC().fit(X, y).coef_).all()
    with pytest.raises(ValueError, match=r"C=1.0 and a sum of sample_weight of .*lower C"):
        ProximalSVC().fit(X, y, np.full(6, 1e90))
