"""Calibrated probabilities and conformal sets."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from fuzzytwin import (
    GEPSVC,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    LeastSquaresTwinSVC,
    MembershipWeighted,
    TwinSVC,
)
from fuzzytwin.core.distances import couple_pairwise
from fuzzytwin.twin._calibration import Calibration
from fuzzytwin.twin._prediction import class_values
from tests.checks import scikit_learn_checks


@pytest.fixture
def three():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return scale(X)[order], y[order]


def halves(X, y):
    return (X[::2], y[::2]), (X[1::2], y[1::2])


@pytest.mark.parametrize("settings", [{}, {"planes": "fuzzy"}], ids=str)
def test_probabilities_sum_to_one_and_memberships_stay(three, settings):
    X, y = three
    plain = FuzzyTwinSVC(**settings).fit(X, y)
    model = FuzzyTwinSVC(calibration="loo", **settings).fit(X, y)
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict_membership(X), plain.predict_membership(X))
    np.testing.assert_array_equal(model.predict(X), P.argmax(axis=1))
    np.testing.assert_array_equal(model.decision_function(X), P)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), P)
    assert np.abs(P - plain.predict_membership(X)).max() > 0.01


@pytest.mark.parametrize(
    "model",
    [
        FuzzyTwinSVC(),
        FuzzyTwinSVCCV(Cs=[1.0], alphas=[1.0], memberships=[None], cv=3),
        MembershipWeighted(estimator=FuzzyTwinSVC()),
        make_pipeline(StandardScaler(), FuzzyTwinSVC()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_membership_is_no_probability(three, model):
    """As SVC, planes have probabilities only if they were asked to be calibrated."""
    model = clone(model).fit(*three)
    for name in ("predict_proba", "predict_log_proba", "predict_set"):
        assert not hasattr(model, name)
    calibrated = model.set_params(
        **{name: "loo" for name in model.get_params() if name.endswith("calibration")}
    ).fit(*three)
    np.testing.assert_allclose(calibrated.predict_proba(three[0]).sum(axis=1), 1.0)


def test_a_missing_method_names_the_remedy(three):
    model = FuzzyTwinSVC().fit(*three)
    remedy = "use predict_membership, fit with calibration='loo', or use a FuzzyTwinCommittee"
    for name in ("predict_proba", "predict_log_proba", "predict_set"):
        with pytest.raises(AttributeError, match=f"{name} needs probabilities.*{remedy}"):
            getattr(model, name)


@pytest.mark.parametrize("machine", [LeastSquaresTwinSVC, TwinSVC, GEPSVC])
def test_classic_machines_have_memberships_only(three, machine):
    X, y = three
    model = machine().fit(X, y)
    assert not hasattr(model, "predict_proba")
    np.testing.assert_array_equal(model.decision_function(X), model.predict_membership(X))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_loss_falls(n_classes):
    loss = {None: 0.0, "loo": 0.0}
    for seed in range(3):
        X, y = make_classification(600, 12, n_informative=6, n_classes=n_classes, random_state=seed)
        (A, a), (B, b) = halves(scale(X), y)
        for kind in loss:
            model = FuzzyTwinSVC(calibration=kind).fit(A, a)
            loss[kind] += log_loss(b, class_values(model, B))
    assert loss["loo"] < 0.97 * loss[None]


def test_log_odds_of_memberships_give_memberships(three):
    X, y = three
    model = FuzzyTwinSVC(rule="residual").fit(X, y)
    f, _ = model.plane_values(X)
    as_it_is = Calibration(np.tile([1.0, 0.0, 0.0], (3, 1)), np.zeros(3))
    P = as_it_is.weighted(f.T, np.abs(f.T), 3).T
    np.testing.assert_allclose(P, model.predict_membership(X), atol=1e-4)  # log odds are bounded


def test_coupling_of_consistent_pairs_is_exact():
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.ones(5), size=7).T
    k, j = np.triu_indices(5, 1)
    np.testing.assert_allclose(couple_pairwise(P[j] / P[k], 5), P, rtol=1e-12)


@pytest.mark.parametrize("alpha", [10.0, "auto"])
def test_a_weight_of_w_is_w_copies_in_one_group(three, alpha):
    X, y = three
    index = np.repeat(np.arange(len(y)), np.random.default_rng(4).integers(0, 4, len(y)))
    weight = np.bincount(index, minlength=len(y))
    model = FuzzyTwinSVC(calibration="loo", alpha=alpha)
    weighted = clone(model).fit(X, y, weight)
    repeated = clone(model).fit(X[index], y[index], groups=index)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(weighted.predict_set(X), repeated.predict_set(X))


def test_weight_zero_is_absence_for_loo(three):
    X, y = three
    s = (np.arange(len(y)) % 3 > 0).astype(float)
    weighted = FuzzyTwinSVC(calibration="loo").fit(X, y, s)
    fewer = FuzzyTwinSVC(calibration="loo").fit(X[s > 0], y[s > 0])
    np.testing.assert_allclose(weighted.predict_proba(X), fewer.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(weighted.conformity_scores_, fewer.conformity_scores_, atol=1e-9)


def test_what_needs_rows_is_refused_without_them(three):
    X, y = three
    model = FuzzyTwinSVC(calibration="loo").fit(X, y)
    before = model.predict_proba(X)
    for wrong in (
        lambda: model.partial_fit(X, y),
        lambda: model.merge(clone(model).fit(X, y)),
        lambda: model.forget(X[:9], y[:9]),
    ):
        with pytest.raises(ValueError, match="Set calibration=None, or fit on all rows"):
            wrong()
    np.testing.assert_array_equal(model.predict_proba(X), before)
    with pytest.raises(ValueError, match="calibration='sigmoid' is unknown"):
        FuzzyTwinSVC(calibration="sigmoid").fit(X, y)
    with pytest.raises(ValueError, match="calibration='sigmoid' is unknown"):
        FuzzyTwinSVCCV(calibration="sigmoid").fit(X, y)
    with pytest.raises(ValueError, match="fit again"):
        clone(model).fit(X, y).set_params(rule="residual").predict_proba(X)
    with pytest.raises(ValueError, match="fit again"):
        FuzzyTwinSVC().fit(X, y).set_params(calibration="loo").predict_proba(X)


@pytest.mark.filterwarnings(
    "ignore:class .* prediction sets of this class contain it"
)  # not the point
def test_classes_of_one_row_and_pickles(three):
    X, y = three
    keep = (y > 0) | (np.arange(len(y)) == np.flatnonzero(y == 0)[0])
    model = FuzzyTwinSVC(calibration="loo").fit(X[keep], y[keep])
    P = model.predict_proba(X)
    assert np.isfinite(P).all()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), P)
    np.testing.assert_array_equal(again.predict_set(X), model.predict_set(X))


def test_soft_labels(three):
    X, y = three
    hard = np.eye(3)[y]
    given = FuzzyTwinSVC(calibration="loo").fit(X, y, membership=hard)
    plain = FuzzyTwinSVC(calibration="loo").fit(X, y)
    np.testing.assert_allclose(given.predict_proba(X), plain.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(given.predict_set(X), plain.predict_set(X))


def test_search_calibrates(three):
    X, y = three
    search = FuzzyTwinSVCCV(
        Cs=[1.0], alphas=[1.0], memberships=[None], cv=3, calibration="loo"
    ).fit(X, y)
    best = FuzzyTwinSVC(calibration="loo", **search.best_params_).fit(X, y)
    np.testing.assert_allclose(search.predict_proba(X), best.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(search.predict_log_proba(X), np.log(search.predict_proba(X)))
    np.testing.assert_array_equal(search.predict_set(X, 0.8), best.predict_set(X, 0.8))
    np.testing.assert_array_equal(search.predict(X), best.predict(X))


def test_many_rows_are_sampled():
    rng = np.random.default_rng(0)
    y = (rng.uniform(size=30_000) < 0.2).astype(int)
    X = rng.normal(size=(len(y), 3)) + y[:, None]
    model = FuzzyTwinSVC(calibration="loo").fit(X, y)
    assert len(model.conformity_scores_) == 10_000 + y.sum()
    assert model.conformity_scores_[:, 2].sum() == pytest.approx(len(y))
    P = model.predict_proba(X)
    assert P[:, 1].mean() == pytest.approx(y.mean(), abs=0.01)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_order_of_rows_and_columns_does_not_choose_the_sample(grouped, monkeypatch):
    monkeypatch.setattr("fuzzytwin.twin._loo.MAX_ROWS", 40)
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = rng.normal(size=(300, 4)) + y[:, None]
    groups = np.arange(300) // 2 if grouped else None
    first = FuzzyTwinSVC(calibration="loo").fit(X, y, groups=groups)
    order = rng.permutation(300)
    groups = groups[order] if grouped else None
    again = FuzzyTwinSVC(calibration="loo").fit(X[order][:, ::-1], y[order], groups=groups)
    np.testing.assert_allclose(again.predict_proba(X[:, ::-1]), first.predict_proba(X), atol=1e-9)


def test_sets_cover():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    hits, rare, sizes = [], [], []
    for seed in range(30):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:300], order[300:]
        model = FuzzyTwinSVC(calibration="loo").fit(X[train], y[train])
        sets = model.predict_set(X[test], coverage=0.9)
        hits.append(sets[np.arange(len(test)), y[test]].mean())
        sizes.append(sets.sum(axis=1).mean())
        sets = model.predict_set(X[test], coverage=0.9, class_conditional=True)
        rare.append(sets[np.arange(len(test)), y[test]][y[test] == 0].mean())
    assert np.mean(hits) == pytest.approx(0.9, abs=0.02)
    assert np.mean(rare) == pytest.approx(0.9, abs=0.03)
    assert np.mean(sizes) < 1.1


@pytest.mark.filterwarnings(
    "ignore:class .* prediction sets of this class contain it"
)  # not the point
def test_sets_grow_with_coverage(three):
    X, y = three
    model = FuzzyTwinSVC(calibration="loo").fit(X, y)
    small, large = model.predict_set(X, 0.5), model.predict_set(X, 0.99)
    assert (small <= large).all()
    assert small.sum() < large.sum()
    for bad in (0.0, 1.0, "0.9", True, np.nan):
        with pytest.raises(ValueError, match="coverage="):
            model.predict_set(X, bad)


@scikit_learn_checks(
    slow=[
        FuzzyTwinSVC(calibration="loo"),
        FuzzyTwinSVCCV(Cs=[1.0], alphas=[1.0], memberships=[None], cv=2, calibration="loo"),
    ],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("settings", [{}, {"planes": "fuzzy"}], ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_model_files_and_onnx(tmp_path, three, n_classes, settings):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    pytest.importorskip("skops")
    from fuzzytwin.store import load, save, to_onnx

    X, y = three
    X, y = X[y < n_classes], y[y < n_classes]
    model = FuzzyTwinSVC(calibration="loo", **settings).fit(X, y)
    save(model, tmp_path / "model.fuzzytwin")
    again = load(tmp_path / "model.fuzzytwin")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict_set(X), model.predict_set(X))
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    label, P = session.run(None, {"X": X})
    np.testing.assert_allclose(P, model.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(label, model.predict(X))


def test_columns_that_tell_nothing():
    """Leave-one-out makes the own class look rarer; probabilities must not learn from that."""
    rng = np.random.default_rng(0)
    for n in (60, 600):
        X, y = rng.normal(size=(n, 5)), np.arange(n) % 2
        model = FuzzyTwinSVC(calibration="loo").fit(X, y)
        assert (model.calibration_coef_ * [1, 1, -1] >= 0).all()
    np.testing.assert_allclose(model.predict_proba(X), 0.5, atol=0.1)
    same = FuzzyTwinSVC(calibration="loo").fit(np.ones((20, 2)), y[:20])
    assert same.predict_set(np.ones((3, 2))).all()


def test_kernels_weights_of_any_size_and_few_rows(three):
    X, y = three
    uses_kernel = FuzzyTwinSVC(kernel="rbf", alpha=1.0, calibration="loo").fit(X, y)
    np.testing.assert_allclose(uses_kernel.predict_proba(X).sum(axis=1), 1.0)
    assert uses_kernel.predict_set(X).any()
    for size in (1e-200, 1e200):
        heavy = FuzzyTwinSVC(calibration="loo").fit(X, y, np.full(len(y), size))
        assert np.isfinite(heavy.predict_proba(X)).all()
    two = FuzzyTwinSVC(calibration="loo").fit(X[:2], [0, 1])
    assert np.isfinite(two.predict_proba(X)).all()
    assert two.predict_set(X).all()


@pytest.mark.parametrize("solver", ["gram", "iterative"])
def test_solvers_without_moments(solver, monkeypatch):
    monkeypatch.setattr("fuzzytwin.twin._fit.ITERATIVE_TOL", 1e-12)
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 90)), np.arange(40) % 2
    X[y == 1, :3] += 2.0
    model = FuzzyTwinSVC(solver=solver, calibration="loo").fit(X, y)
    same = FuzzyTwinSVC(solver="moments", calibration="loo").fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(model.predict_set(X), same.predict_set(X))


def test_order_of_classes_does_not_matter(three):
    """What pairs have in common is the same whichever class of a pair comes first."""
    X, y = three
    model = FuzzyTwinSVC(C=0.5, calibration="loo")
    P, again = (model.fit(X, labels).predict_proba(X) for labels in (y, y.max() - y))
    np.testing.assert_allclose(again[:, ::-1], P, atol=1e-9)


def test_pairs_of_few_rows_are_like_the_others():
    """With three rows a class, the log odds are near to those of all pairs together."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 3)
    X = rng.normal(size=(24, 4)) + 2 * rng.normal(size=(8, 4))[y]
    found = FuzzyTwinSVC(calibration="loo").fit(X, y).calibration_coef_
    assert (found.std(axis=0) < 0.15 * np.abs(found.mean(axis=0))).all()


@pytest.mark.parametrize("alpha", [1e-14, 1e-12, 1e-11])
@pytest.mark.filterwarnings("ignore:the planes are ill-conditioned")
def test_nearly_singular_planes_are_those_of_the_fit(alpha):
    """Planes lose digits where the ridge is tiny; that is no change of parameters."""
    X, y = np.random.default_rng(0).normal(size=(40, 60)), np.arange(40) % 2
    model = FuzzyTwinSVC(alpha=alpha, solver="moments", calibration="loo").fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.loo_membership(X, y)).all()
