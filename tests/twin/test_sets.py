"""Conformal sets and calibrated probabilities: which rows are left out, and what weights mean."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.preprocessing import scale

from fuzzytwin import (
    FuzzyTwinCommittee,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    LeastSquaresTwinSVC,
)
from fuzzytwin._duplicates import count_duplicates

LOO = {"calibration": "loo"}


def two_classes(rng, n, share=0.4, shift=0.9, d=4):
    y = (rng.uniform(size=n) < share).astype(int)
    return rng.normal(size=(n, d)) + shift * y[:, None], y


def mean_coverage(make, fit, times=20):
    """Mean coverage of 90 % sets on 600 new rows."""
    hits = []
    for seed in range(times):
        rng = np.random.default_rng(seed)
        model = fit(*make(rng)[:-2], rng)
        X, y = make(np.random.default_rng(1000 + seed))[-2:]
        hits.append(model.predict_set(X, 0.9)[np.arange(len(y)), y].mean())
    return float(np.mean(hits))


@pytest.mark.filterwarnings(
    "ignore:class .* prediction sets of this class contain it"
)  # not the point
def test_one_hot_soft_labels_have_the_sets_of_labels_whatever_the_class_weights():
    rng = np.random.default_rng(0)
    X, y = two_classes(rng, 200, share=0.1)
    hard = FuzzyTwinSVC(class_weight="balanced", **LOO).fit(X, y)
    soft = FuzzyTwinSVC(class_weight="balanced", **LOO).fit(X, y, membership=np.eye(2)[y])
    np.testing.assert_allclose(soft.conformity_scores_, hard.conformity_scores_, atol=1e-9)
    np.testing.assert_array_equal(soft.predict_set(X, 0.8), hard.predict_set(X, 0.8))


@pytest.mark.parametrize("size", [1 / 150, 0.1, 1.0])
def test_uniform_weights_change_no_set(size):
    """Weights that sum to 1 are as many rows as weights of 1: the effective number counts."""
    X, y = two_classes(np.random.default_rng(0), 150)
    plain = FuzzyTwinSVC(alpha=1.0, **LOO).fit(X, y)
    light = FuzzyTwinSVC(alpha=size, **LOO).fit(X, y, np.full(len(y), size))
    np.testing.assert_allclose(light.conformity_scores_, plain.conformity_scores_, atol=1e-9)
    for conditional in (False, True):
        sets = [m.predict_set(X, 0.8, class_conditional=conditional) for m in (plain, light)]
        np.testing.assert_array_equal(*sets)
        assert not sets[0].all()


def test_sets_of_a_class_of_light_rows_are_not_all_labels():
    X, y = two_classes(np.random.default_rng(0), 300, shift=2.0)
    weight = np.where(y == 1, 0.01, 1.0)
    model = FuzzyTwinSVC(class_weight="balanced", **LOO).fit(X, y, weight)
    sets = model.predict_set(X, 0.8, class_conditional=True)
    assert sets[:, 1].mean() < 0.8
    assert sets[y == 1, 1].mean() > 0.75


@pytest.mark.parametrize("calibration", [None, "loo"])
def test_sets_refuse_another_rule_than_that_of_the_fit(calibration):
    X, y = load_iris(return_X_y=True)
    model = FuzzyTwinSVC(calibration=calibration).fit(X, y)
    with pytest.raises(ValueError, match=r"rule='residual' was 'distance'|calibration='loo'"):
        model.set_params(rule="residual").predict_set(X)


def test_a_model_holds_no_rows_of_the_caller():
    X, y = two_classes(np.random.default_rng(0), 200)
    new, rows = X[:50].copy(), X.copy()
    model = FuzzyTwinSVC(**LOO).fit(rows, y)
    before = model.predict_set(new, 0.8)
    rows[:] = 0.0
    np.testing.assert_array_equal(model.predict_set(new, 0.8), before)
    for calibration in (None, "loo"):
        fitted = FuzzyTwinSVC(calibration=calibration).fit(X, y)
        assert not any(name.startswith("_fit") for name in vars(fitted))
        assert all(value is not X for value in vars(fitted).values())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_of_the_population_whatever_the_class_weights(n_classes):
    rng = np.random.default_rng(0)
    y = rng.choice(n_classes, 3000, p=[0.95, 0.05] if n_classes == 2 else [0.85, 0.1, 0.05])
    X = rng.normal(size=(len(y), 4)) + 1.2 * rng.normal(size=(n_classes, 4))[y]
    model = FuzzyTwinSVC(class_weight="balanced", **LOO).fit(X, y)
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.mean(axis=0), np.bincount(y) / len(y), atol=0.015)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    # Class weights are costs in the label, which decision_function agrees with.
    score = model.decision_function(X)
    label = score.argmax(axis=1) if n_classes > 2 else (score > 0).astype(int)
    np.testing.assert_array_equal(model.predict(X), label)
    assert (model.predict(X) == n_classes - 1).mean() > (P.argmax(axis=1) == n_classes - 1).mean()


def test_onnx_gives_the_probabilities_of_the_population():
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    from fuzzytwin.store import to_onnx

    X, y = two_classes(np.random.default_rng(0), 300, share=0.1)
    model = FuzzyTwinSVC(class_weight="balanced", **LOO).fit(X, y)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    label, P = session.run(None, {"X": X})
    np.testing.assert_allclose(P, model.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(label, model.predict(X))


def grouped(rng, n_groups=60, size=5, jitter=0.05, d=10):
    y = rng.integers(0, 2, n_groups)
    X = rng.normal(size=(n_groups, d)) + 0.5 * y[:, None]
    rows = np.repeat(X, size, axis=0) + jitter * rng.normal(size=(n_groups * size, d))
    return rows, np.repeat(y, size), np.repeat(np.arange(n_groups), size)


def refits_without_groups(model, X, y, groups):
    u = np.empty((len(y), len(np.unique(y))))
    for g in np.unique(groups):
        mine = groups == g
        u[mine] = model.fit(X[~mine], y[~mine]).predict_membership(X[mine])
    return u


@pytest.mark.parametrize(
    "model",
    [
        FuzzyTwinSVC(alpha=10.0),
        FuzzyTwinSVC(alpha=10.0, rule="residual"),
        LeastSquaresTwinSVC(C=0.5),
    ],
    ids=["distance", "residual", "classic"],
)
def test_leaving_out_groups_is_a_refit_without_them(model):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 80)
    X, groups = rng.normal(size=(80, 3)) + y[:, None], rng.integers(0, 15, 80)
    names = np.array([f"patient {g}" for g in groups])
    u = model.fit(X, y).loo_membership(X, y, groups=names)
    np.testing.assert_allclose(u, refits_without_groups(model, X, y, groups), atol=1e-9)


@pytest.mark.parametrize("membership", [None, "center"])
def test_weights_equal_repetition_where_groups_are_left_out(membership):
    """Weights above 1 and groups used to be refused as rows of another fit."""
    rng = np.random.default_rng(0)
    y, w, groups = rng.integers(0, 2, 80), rng.integers(1, 4, 80), np.arange(80) // 2
    X = rng.normal(size=(80, 3)) + y[:, None]
    heavy = FuzzyTwinSVC(membership=membership, **LOO).fit(X, y, w * 1.0, groups=groups)
    again = (np.repeat(X, w, axis=0), np.repeat(y, w))
    often = FuzzyTwinSVC(membership=membership, **LOO).fit(*again, groups=np.repeat(groups, w))
    np.testing.assert_allclose(heavy.predict_proba(X), often.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(heavy.predict_set(X, 0.9), often.predict_set(X, 0.9))


def test_groups_of_one_row_change_nothing():
    X, y = two_classes(np.random.default_rng(0), 120)
    alone = FuzzyTwinSVC(**LOO).fit(X, y)
    single = FuzzyTwinSVC(**LOO).fit(X, y, groups=np.arange(120)[::-1])
    np.testing.assert_allclose(
        single.conformity_scores_[:, :3], alone.conformity_scores_, atol=1e-9
    )
    np.testing.assert_array_equal(single.predict_set(X, 0.97), alone.predict_set(X, 0.97))
    np.testing.assert_allclose(single.predict_proba(X), alone.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_sets_cover_new_groups_where_groups_are_given(kernel):
    def make(rng):
        new, labels, _ = grouped(rng, n_groups=600, size=1)
        return *grouped(rng), new, labels

    def fit(X, y, groups, rng):
        settings = {"kernel": kernel, "alpha": "auto"}
        return FuzzyTwinSVC(**settings, **LOO).fit(X, y, groups=groups)

    assert mean_coverage(make, fit, times=12) == pytest.approx(0.9, abs=0.03)


def test_copies_of_rows_are_noticed():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = np.repeat(scale(X), 2, axis=0), np.repeat(y, 2)
    with pytest.warns(UserWarning, match="1138 of 1138 rows equal another row.*give groups="):
        FuzzyTwinSVC(**LOO).fit(X, y)
    model = FuzzyTwinSVC().fit(X, y)
    with pytest.warns(UserWarning, match="give groups="):
        model.loo_membership(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FuzzyTwinSVC(**LOO).fit(X, y, groups=np.arange(len(y)) // 2)


def test_ordinary_tables_are_not_taken_for_copies():
    rng = np.random.default_rng(0)
    tables = {
        "iris": load_iris(return_X_y=True)[0],
        "breast cancer": load_breast_cancer(return_X_y=True)[0],
        "normal": rng.normal(size=(500, 3)),
        "heavy tails": rng.standard_cauchy(size=(400, 5)),
        "small integers": rng.integers(0, 5, size=(500, 4)),
        "binary": rng.integers(0, 2, size=(800, 8)),
        "one-hot": np.eye(6)[rng.integers(0, 6, 500)],
        "age and sex": np.column_stack([rng.integers(20, 80, 600), rng.integers(0, 2, 600)]),
        "rounded": rng.normal(size=(1000, 3)).round(1),
        "categories and a number": np.column_stack(
            [rng.integers(0, 2, size=(800, 6)), rng.normal(size=800)]
        ),
        "constant": np.ones((200, 2)),
        "huge": 1e300 * rng.normal(size=(200, 2)),
    }
    found = {name: count_duplicates(np.asarray(X, dtype=float)) for name, X in tables.items()}
    assert found == dict.fromkeys(tables, 0)


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        (np.zeros(150), "one group only"),
        (np.arange(10), r"groups has shape \(10,\); give one group per row"),
        (np.array([1, "a", 2] * 50, dtype=object), "several kinds"),
        (["a", "b", np.nan] * 50, "groups holds missing values"),
        (pd.Series([1, 2, None] * 50, dtype="Int64"), "groups holds missing values"),
        (
            np.array([1.0, 2.0, np.nan] * 50),
            r"groups holds missing values \(row 2\); give each row a group",
        ),
    ],
    ids=["one", "short", "mixed", "gap in a list", "NA", "missing"],
)
def test_bad_groups_are_refused(groups, text):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=text):
        FuzzyTwinSVC(**LOO).fit(X, y, groups=groups)


def test_classes_that_follow_groups_are_named():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match="all rows of class 0 are in one group"):
        FuzzyTwinSVC(**LOO).fit(X, y, groups=y)


@pytest.mark.filterwarnings(
    "ignore:class .* prediction sets of this class contain it"
)  # not the point
def test_the_promise_holds_within_a_rare_class_if_asked_for():
    rng = np.random.default_rng(0)
    X, y = two_classes(rng, 3000, share=0.05, shift=0.7)
    new, labels = two_classes(rng, 4000, share=0.05, shift=0.7)
    model = FuzzyTwinSVC(**LOO).fit(X, y)
    rare = labels == 1
    overall = model.predict_set(new, 0.9)[np.arange(4000), labels]
    within = model.predict_set(new, 0.9, class_conditional=True)[np.arange(4000), labels]
    assert overall.mean() == pytest.approx(0.9, abs=0.02)
    assert overall[rare].mean() < 0.5
    assert within[rare].mean() == pytest.approx(0.9, abs=0.06)


def test_a_row_for_every_class_is_enough_to_calibrate():
    X = np.random.default_rng(0).uniform(size=(4, 2))
    model = FuzzyTwinSVC(**LOO).fit(X, [0, 1, 2, 3])
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.predict_set(X).all()


def test_soft_labels_that_lose_a_class_say_so():
    rng = np.random.default_rng(0)
    X, soft = rng.normal(size=(30, 2)), rng.dirichlet([5.0, 5.0, 0.5], size=30)
    soft[:, 2] = np.minimum(soft[:, 2], 0.1)
    with pytest.raises(ValueError, match=r"3 columns, but y holds 2 labels only.*argmax"):
        FuzzyTwinSVC().fit(X, soft.argmax(axis=1), membership=soft)


def test_rows_that_differ_in_small_columns_only_are_not_taken_for_copies():
    X = np.random.default_rng(0).normal(size=(200, 4))
    assert count_duplicates(X * [1e8, 1e-8, 1, 1e100]) == 0
    assert count_duplicates(np.repeat(X, 2, axis=0) * [1e8, 1e-8, 1, 1e100]) == 400


def rare_table(n=900, share=0.09, apart=0.8):
    """A rare class that overlaps with a common one."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < share, "rare", "usual")
    return rng.normal(size=(n, 3)) + apart * (y == "rare")[:, None], y


@pytest.mark.parametrize(
    "model",
    [
        FuzzyTwinCommittee(members=["linear"]),
        FuzzyTwinSVC(calibration="loo"),
        FuzzyTwinSVCCV(Cs=[1.0], alphas=[1.0], memberships=(None,), calibration="loo"),
    ],
)
def test_a_class_rarer_than_the_promised_error_that_sets_miss_gets_a_warning(model):
    X, y = rare_table()
    model.fit(X, y)
    with pytest.warns(
        UserWarning, match=r"class 'rare' has 8\.3% .*class_conditional=True"
    ) as told:
        sets = model.predict_set(X[:400])
    assert len(told) == 1
    assert told[0].filename == __file__
    said = int(re.search(r"about (\d+)% of the prediction sets", str(told[0].message))[1]) / 100
    assert abs(sets[y[:400] == "rare", 0].mean() - said) < 0.15
    model.predict_set(X, class_conditional=True)


def test_classes_that_are_rare_as_there_are_many_get_no_warning():
    X, y = load_digits(return_X_y=True)
    model = FuzzyTwinSVC(calibration="loo").fit(X[::2] / 16, y[::2])
    assert np.bincount(y[::2]).min() < 0.1 * len(y[::2])
    model.predict_set(X[1::2] / 16, coverage=0.9)
