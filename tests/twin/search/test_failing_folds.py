"""Bad grids and rows, folds that lose a class, and no leak from test rows."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import PredefinedSplit, ShuffleSplit

from fuzzytwin import CenterMembership
from tests.twin.search.helpers import (
    FOLDS,
    SMALL,
    assert_same_scores,
    losing_folds,
    make,
    sparsely,
    weights_for,
)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"Cs": []}, r"Cs=\[\] is empty"),
        ({"Cs": [1.0, -1.0]}, r"Cs=-1\.0 is not allowed.*above 0"),
        ({"Cs": [0.0]}, r"Cs=0\.0 is not allowed"),
        ({"Cs": [np.nan]}, "Cs=nan is not allowed"),
        ({"Cs": [np.inf]}, "Cs=inf is not allowed"),
        ({"Cs": "abc"}, "Cs='a' is not allowed"),
        ({"Cs": [None]}, "Cs=None is not allowed"),
        ({"Cs": 1.0}, r"Cs=1\.0 is not a sequence"),
        ({"Cs": [(1.0, 2.0)]}, r"Cs=\(1\.0, 2\.0\) is not allowed"),
        ({"alphas": []}, r"alphas=\[\] is empty"),
        ({"alphas": [-1e-9]}, "alphas=-1e-09 is not allowed.*at least 0"),
        ({"alphas": [np.nan, 1.0]}, "alphas=nan is not allowed"),
        ({"alphas": ["1"]}, "alphas='1' is not allowed"),
        ({"alphas": 3}, "alphas=3 is not a sequence"),
        ({"rules": ()}, r"rules=\(\) is empty"),
        ({"rules": ("nearest",)}, "rules='nearest' is unknown"),
        ({"rules": "nearest"}, "rules='nearest' is unknown"),
        ({"rules": None}, "rules=None is not a sequence"),
        ({"memberships": ()}, r"memberships=\(\) is empty"),
        ({"memberships": ("middle",)}, "membership='middle' is unknown"),
        ({"memberships": "middle"}, "membership='middle' is unknown"),
        ({"memberships": [5]}, "membership=5 is not allowed"),
        ({"memberships": 5}, "memberships=5 is not a sequence"),
        ({"memberships": CenterMembership}, "membership=.* is not allowed"),
        ({"selection": "best"}, "selection='best' is unknown"),
        ({"cv": []}, "gives no split"),
        ({"cv": 1}, "n_splits=1"),
        ({"cv": "many"}, "cv"),
        ({"cv": [(np.arange(10), [])]}, "no test rows"),
        ({"cv": [([], np.arange(10))]}, "every fit of the search failed.*no row of class"),
        ({"class_weight": "equal"}, "class_weight='equal' is unknown"),
    ],
    ids=lambda value: str(value)[:50] if isinstance(value, dict) else "",
)
def test_bad_grids(pair, changes, match):
    with pytest.raises(ValueError, match=match):
        make(**changes).fit(*pair)


def test_bad_rows(pair):
    X, y = pair
    broken = X.copy()
    broken[3, 1] = np.nan
    weight = np.ones(len(y))
    for search in (make(), make(memberships=("center",)), make(cv=ShuffleSplit(9))):
        for bad in (broken, sparse.csr_array(broken)):
            with pytest.raises(ValueError, match="X contains NaN"):
                search.fit(bad, y)
        with pytest.raises(ValueError, match="sample_weight holds -1"):
            search.fit(X, y, -weight)
        with pytest.raises(ValueError, match="membership has shape"):
            search.fit(X, y, membership=weight[1:])
        with pytest.raises(ValueError, match="one class only"):
            search.fit(X, np.zeros(len(y), dtype=int))


def test_weights_that_leave_no_test_sample(pair):
    X, y = pair
    folds = np.arange(len(y)) % 3
    with pytest.raises(ValueError, match="no test rows with positive weight"):
        make(cv=PredefinedSplit(folds)).fit(X, y, (folds > 0).astype(float))


@pytest.mark.parametrize("selection", ["one_standard_error", "score"])
def test_two_classes_and_a_split_that_loses_one(pair, selection):
    X, y = pair
    search = make(cv=losing_folds(y), selection=selection)
    with pytest.warns(
        FitFailedWarning, match=r"1 fits failed.*no row of class 'yes'.*GridSearchCV"
    ):
        search.fit(X, y)
    results = search.cv_results_
    assert np.isnan(results["split0_test_score"]).all()
    assert np.isnan(results["mean_test_score"]).all()
    assert np.isfinite(results["split1_test_score"]).all()
    alone = make(cv=losing_folds(y)[1:], selection=selection).fit(X, y)
    assert search.best_index_ == alone.best_index_
    assert np.isnan(search.best_score_)


@pytest.mark.parametrize("memberships", [(None,), (None, "hyperplane")])
def test_three_classes_and_a_split_that_loses_one(rows, memberships):
    """Its scores are NaN, and the others decide."""
    X, y = rows
    search = make(cv=losing_folds(y), memberships=memberships)
    with pytest.warns(FitFailedWarning, match=r"no row of class 2.*GridSearchCV"):
        search.fit(X, y)
    assert np.isnan(search.cv_results_["split0_test_score"]).all()
    alone, _ = assert_same_scores(make(cv=losing_folds(y)[1:], memberships=memberships), X, y)
    assert search.best_params_ == alone.best_params_


def test_every_split_loses_a_class(pair):
    X, y = pair
    with pytest.raises(ValueError, match=r"every fit of the search failed.*no row of class"):
        make(cv=losing_folds(y)[:1]).fit(X, y)


def test_class_without_weight_is_no_class(rows):
    X, y = rows
    weight = (y > 0).astype(float)
    search, _ = assert_same_scores_of_weighed(X, y, weight)
    assert_array_equal(search.classes_, [1, 2])
    assert len(search.best_params_["C"]) == 2


def assert_same_scores_of_weighed(X, y, weight):
    folds = PredefinedSplit(np.arange(len(y)) % 3)
    search = make(cv=folds).fit(X, y, weight)
    held = weight > 0
    other = make(cv=PredefinedSplit((np.arange(len(y)) % 3)[held])).fit(X[held], y[held])
    for name in ("mean_test_score", "mean_test_brier"):
        assert_allclose(search.cv_results_[name], other.cv_results_[name])
    return search, other


def test_columns_too_small_for_no_ridge(pair):
    X, y = pair
    with pytest.raises(ValueError, match=r"every fit of the search failed.*alpha=0 .*scale"):
        make(alphas=[0.0, 1e-300], Cs=[1.0]).fit(X * 1e-150, y)


def test_degrees_that_leave_a_plane_without_rivals(pair):
    X, y = pair
    degrees = np.where(y == "yes", 0.0, 1.0)
    with pytest.raises(ValueError, match=r"every fit of the search failed.*membership is 0"):
        make().fit(X, y, membership=degrees)


def test_a_fit_that_fails_leaves_the_model_as_it_was(pair):
    X, y = pair
    search = make().fit(X, y)
    before = dict(vars(search))
    for bad in ({"cv": losing_folds(y)[:1]}, {"Cs": []}, {"cv": []}):
        search.set_params(**bad)
        with pytest.raises(ValueError, match=r"failed|empty|no split"):
            search.fit(X, y)
        search.set_params(Cs=SMALL["Cs"], cv=FOLDS)
    after = vars(search)
    assert after.keys() == before.keys()
    assert all(after[name] is value for name, value in before.items())


def test_parameters_are_left_alone(pair):
    search = make(memberships=[None, "center"], class_weight={"no": 2.0, "yes": 1.0})
    before = copy.deepcopy(search.get_params())
    search.fit(*pair)
    assert repr(search.get_params()) == repr(before)
    assert repr(clone(search).get_params()) == repr(before)


# Honesty


class Spy:
    """Notes the rows that a membership is shown."""

    def __init__(self):
        self.seen = []

    def __call__(self, X, y, sample_weight):
        self.seen.append((X[:, 0].copy(), np.array(y), np.array(sample_weight)))
        return np.full(len(y), 0.5)


@sparsely(
    ("either", "scoring", "cv"),
    ("pair", "rows"), (None, "balanced_accuracy"), (FOLDS, ShuffleSplit(5, random_state=0)),
)  # fmt: skip
def test_memberships_see_training_rows_alone(either, scoring, cv):
    X, y = either
    X[:, 0] = np.arange(len(X)) / len(X)  # a row's number
    weight = weights_for(y) + 0.1
    spy = Spy()
    make(memberships=(spy,), cv=cv, scoring=scoring).fit(X, y, weight)
    expected = [train for train, _ in cv.split(X, y)] + [np.arange(len(y))]
    assert len(spy.seen) == len(expected)  # once for each split, and once for the last fit
    for (column, labels, weights), rows in zip(spy.seen, expected, strict=True):
        assert_array_equal(column, X[rows, 0])
        assert_array_equal(labels, y[rows])
        assert_array_equal(weights, weight[rows])


def test_test_rows_move_no_plane(pair):
    """Scores of the other rows stay what they are when one test row goes far away."""
    X, y = pair
    search = make(cv=[(np.arange(0, len(y), 2), np.arange(1, len(y), 2))],
                  memberships=(None, "center", "neighbor"))  # fmt: skip
    before = search.fit(X, y).cv_results_["mean_test_score"]
    moved = X.copy()
    moved[1] *= 1e3
    after = search.fit(moved, y).cv_results_["mean_test_score"]
    assert np.abs(after - before).max() <= 1 / len(y[1::2]) + 1e-12
