"""Names of columns and classes, and what may change between batches and merged models."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_iris

from fuzzytwin import (
    GEPSVC,
    FuzzyTwinSVC,
    FuzzyTwinSVCCV,
    LeastSquaresSVC,
    LeastSquaresTwinSVC,
    ProximalSVC,
    TwinSVC,
)

X, y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
SOFT = 0.8 * np.eye(3)[y] + 0.1


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("estimator", [FuzzyTwinSVC(), FuzzyTwinSVCCV(Cs=[1.0], alphas=[1.0])])
def test_soft_labels_go_by_the_names_of_columns(frame, estimator):
    wanted = estimator.fit(X, NAMES[y], membership=SOFT).predict_membership(X)
    table = frame({name: SOFT[:, k] for k, name in reversed(list(enumerate(NAMES)))})
    found = estimator.fit(X, NAMES[y], membership=table).predict_membership(X)
    assert_array_equal(found, wanted)


def test_names_of_integer_classes_may_be_text():
    wanted = FuzzyTwinSVC().fit(X, y, membership=SOFT).coef_
    table = pd.DataFrame({str(k): SOFT[:, k] for k in (2, 0, 1)})
    assert_array_equal(FuzzyTwinSVC().fit(X, y, membership=table).coef_, wanted)
    table.columns = [2, 0, 1]
    assert_array_equal(FuzzyTwinSVC().fit(X, y, membership=table).coef_, wanted)


def test_columns_without_names_are_in_order():
    wanted = FuzzyTwinSVC().fit(X, NAMES[y], membership=SOFT).coef_
    found = FuzzyTwinSVC().fit(X, NAMES[y], membership=pd.DataFrame(SOFT)).coef_
    assert_array_equal(found, wanted)


def test_other_names_are_refused():
    table = pd.DataFrame(SOFT, columns=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"columns a, b, c; name them as the classes, setosa"):
        FuzzyTwinSVC().fit(X, NAMES[y], membership=table)


def test_batches_go_by_names_too():
    table = pd.DataFrame(SOFT, columns=NAMES)
    wanted = FuzzyTwinSVC().fit(X, NAMES[y], membership=SOFT).coef_
    model = FuzzyTwinSVC()
    for rows in (slice(0, None, 2), slice(1, None, 2)):
        part = table.iloc[rows, ::-1]
        model.partial_fit(X[rows], NAMES[y][rows], classes=NAMES, membership=part)
    assert_allclose(model.coef_, wanted, rtol=1e-9)


def test_crisp_planes_after_fuzzy_ones_have_no_widths():
    model = FuzzyTwinSVC(planes="fuzzy").partial_fit(X, y, classes=[0, 1, 2])
    model.set_params(planes="crisp").partial_fit(X[:0:-1], y[:0:-1])
    assert not hasattr(model, "width_coef_")
    fresh = FuzzyTwinSVC().partial_fit(X, y, classes=[0, 1, 2]).partial_fit(X[:0:-1], y[:0:-1])
    assert_allclose(model.predict_membership(X), fresh.predict_membership(X), rtol=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        {"C": 0.3},
        {"C": [1.0, 2.0, 3.0]},
        {"alpha": 0.5},
        {"alpha": 0.0},
        {"rule": "residual"},
        {"class_weight": "balanced"},
        {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5}},
        {"tau": 3.0},
        {"margin_width": 2.0},
        {"random_state": 7},
    ],
    ids=str,
)
def test_parameters_of_planes_may_change_between_batches(change):
    first, second = slice(0, None, 2), slice(1, None, 2)
    model = FuzzyTwinSVC(planes="fuzzy").partial_fit(X[first], y[first], classes=[0, 1, 2])
    model.set_params(**change).partial_fit(X[second], y[second])
    fresh = FuzzyTwinSVC(planes="fuzzy", **change).fit(X, y)
    assert_allclose(model.predict_membership(X), fresh.predict_membership(X), rtol=1e-7)


@pytest.mark.parametrize(
    ("first", "change"),
    [
        ({}, {"planes": "fuzzy"}),
        ({"kernel": "rbf"}, {"kernel": "linear"}),
        ({"kernel": "rbf"}, {"gamma": "auto"}),
        ({"kernel": "rbf"}, {"n_landmarks": 20}),
        ({"kernel": "rbf", "n_landmarks": X[::5]}, {"n_landmarks": X[1::5]}),
        ({"kernel": "poly"}, {"coef0": 1.0}),
    ],
    ids=["planes", "kernel", "gamma", "count", "landmarks", "coef0"],
)
@pytest.mark.parametrize("method", ["partial_fit", "forget"])
def test_parameters_of_rows_may_not(first, change, method):
    model = FuzzyTwinSVC(**first).partial_fit(X, y, classes=[0, 1, 2])
    before = model.predict_membership(X)
    model.set_params(**change)
    with pytest.raises(ValueError, match=r"start a new model|fit a new model"):
        getattr(model, method)(X[::10], y[::10])
    assert_array_equal(model.predict_membership(X), before)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"C": 1}, {"C": 1.0}),
        ({"C": [1.0, 2.0, 3.0]}, {"C": np.array([1.0, 2.0, 3.0])}),
        ({"C": (1, 2, 3)}, {"C": [1.0, 2.0, 3.0]}),
        ({"class_weight": {0: 1, 1: 2, 2: 3}}, {"class_weight": {2: 3.0, 1: 2.0, 0: 1.0}}),
        ({"random_state": 0}, {"random_state": 1}),
        ({"n_jobs": 2}, {"n_jobs": 1}),
        (
            {"kernel": "rbf", "gamma": 1, "n_landmarks": X[::9]},
            {"kernel": "rbf", "gamma": 1.0, "n_landmarks": X[::9].tolist(), "random_state": 5},
        ),
    ],
    ids=["number", "array", "tuple", "dict", "random", "threads", "landmarks"],
)
def test_merge_compares_what_parameters_mean(one, other):
    a = FuzzyTwinSVC(**one).fit(X[::2], y[::2])
    b = FuzzyTwinSVC(**other).fit(X[1::2], y[1::2])
    wanted = FuzzyTwinSVC(**one).fit(X, y)
    assert_allclose(a.merge(b).predict_membership(X), wanted.predict_membership(X), rtol=1e-7)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"C": 2.0}, "differ in C"),
        ({"C": [1.0, 1.0, 2.0]}, "differ in C"),
        ({"class_weight": {0: 2}}, "differ in class_weight"),
        ({"rule": "residual"}, "differ in rule"),
    ],
)
def test_merge_still_refuses_what_differs(change, match):
    model = FuzzyTwinSVC().fit(X, y)
    with pytest.raises(ValueError, match=match):
        model.merge(FuzzyTwinSVC(**change).fit(X, y))


ESTIMATORS = [FuzzyTwinSVC(), FuzzyTwinSVCCV(Cs=[1.0], alphas=[1.0]), LeastSquaresTwinSVC()]
ESTIMATORS += [TwinSVC(), LeastSquaresSVC(), ProximalSVC(), GEPSVC()]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_gaps_name_the_column(estimator, value):
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    gaps = table.copy()
    gaps.loc[7, "c"] = value
    found = "NaN" if np.isnan(value) else "infinity"
    match = rf"X contains {found} in column 'c'; .* leave the row out"
    with pytest.raises(ValueError, match=match):
        estimator.fit(gaps, y)
    estimator.fit(table, y)
    with pytest.raises(ValueError, match=match):
        estimator.predict(gaps)
    with pytest.raises(ValueError, match=rf"contains {found} in column 2;"):
        estimator.fit(gaps.to_numpy(), y)


def test_gaps_of_sparse_rows_name_the_column():
    gaps = sparse.csr_array(X)
    gaps.data[6] = np.nan
    with pytest.raises(ValueError, match="X contains NaN in column 2"):
        FuzzyTwinSVC().fit(gaps, y)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_text_names_the_column_and_the_remedy(estimator):
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(id=[f"P{i}" for i in range(150)])
    with pytest.raises(ValueError, match=r"'P0'.* text in column 'id'; encode it as numbers"):
        estimator.fit(table, y)
    with pytest.raises(ValueError, match="text in column 4"):
        estimator.fit(table.to_numpy(), y)


def test_labels_of_two_kinds():
    mixed = np.array(["a", 1, None] * 50, dtype=object)
    with pytest.raises((ValueError, TypeError), match="y holds labels of several kinds"):
        FuzzyTwinSVC().fit(X, mixed)
