"""The fitted search: attributes, predictions, frames, pipelines, routing."""

import copy

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, PredefinedSplit, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fuzzytwin import CenterMembership, FuzzyTwinSVC, FuzzyTwinSVCCV
from tests.twin.search.helpers import (
    FOLDS,
    assert_same_scores,
    by_first_column,
    key,
    make,
    name_of,
    sparsely,
    weights_for,
)


@pytest.mark.parametrize("way", [None, "neighbor"])
def test_best_params_give_the_best_estimator(either, way):
    X, y = either
    for given in ({}, {"sample_weight": weights_for(y)}):
        search = make(memberships=(way,)).fit(X, y, **given)
        model = FuzzyTwinSVC(**search.best_params_).fit(X, y, **given)
        best = search.best_estimator_
        for name in ("coef_", "intercept_", "membership_", "classes_", "rank_"):
            one, other = getattr(best, name), getattr(model, name)
            if name == "classes_":
                assert_array_equal(one, other)
            else:
                assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        assert clone(best).get_params().keys() == model.get_params().keys()


def test_best_estimator_has_the_settings_that_all_points_share(pair):
    shared = {"class_weight": "balanced"}
    for memberships in ((None,), ("center",)):
        search = make(memberships=memberships, **shared).fit(*pair)
        model = FuzzyTwinSVC(**shared, **search.best_params_).fit(*pair)
        assert_allclose(search.best_estimator_.coef_, model.coef_)
        assert {n: getattr(search.best_estimator_, n) for n in shared} == shared


def test_best_estimator_learns_on(pair):
    """It holds the moments of all rows, also where these were summed from the folds'."""
    X, y = pair
    search = make().fit(X, y)
    model = copy.deepcopy(search.best_estimator_).partial_fit(X[:10], y[:10])
    whole = FuzzyTwinSVC(**search.best_params_).fit(np.r_[X, X[:10]], np.r_[y, y[:10]])
    assert_allclose(model.coef_, whole.coef_)


def test_it_predicts_as_its_best_estimator_does(either):
    X, y = either
    search = make().fit(X, y)
    best = search.best_estimator_
    for name in ("predict", "decision_function", "predict_membership"):
        assert_array_equal(getattr(search, name)(X), getattr(best, name)(X))
    for mine, theirs in zip(search.fuzzy_distance(X), best.fuzzy_distance(X), strict=True):
        assert_array_equal(mine, theirs)
    assert search.score(X, y) == best.score(X, y)
    assert search.score(X, y, weights_for(y)) == best.score(X, y, weights_for(y))
    assert search.decision_function(X).ndim == (1 if len(np.unique(y)) == 2 else 2)
    assert_array_equal(search.classes_, np.unique(y))
    for name in ("predict", "decision_function", "predict_membership", "fuzzy_distance"):
        with pytest.raises(NotFittedError):
            getattr(make(), name)(X)


def test_results_are_those_of_grid_search(pair):
    search, other = assert_same_scores(make(memberships=("center", None)), *pair)
    mine, theirs = search.cv_results_, other.cv_results_
    assert set(mine) == set(theirs) | {"mean_test_brier"}
    n = 2 * 2 * 2 * 9
    assert {len(column) for column in mine.values()} == {n}
    assert isinstance(mine["params"], list)
    for name in theirs:
        if name.startswith("param_"):
            assert isinstance(mine[name], np.ma.MaskedArray)
            assert_array_equal(
                [params[name.removeprefix("param_")] == value
                 for params, value in zip(mine["params"], mine[name], strict=True)], True,
            )  # fmt: skip
        elif name != "params":
            assert mine[name].dtype == theirs[name].dtype
    order = [[key(p) for p in theirs["params"]].index(key(p)) for p in mine["params"]]
    assert_array_equal(mine["rank_test_score"], theirs["rank_test_score"][order])
    frame = pd.DataFrame(mine)
    assert frame.shape == (n, len(mine))
    assert frame.sort_values("rank_test_score").iloc[0]["mean_test_score"] == max(
        mine["mean_test_score"]
    )
    assert (mine["mean_fit_time"] > 0).all()
    assert search.refit_time_ > 0


def test_single_values_stand_for_themselves(pair):
    X, y = pair
    for way in (None, "center", CenterMembership(), by_first_column):
        alone = make(memberships=way, rules="residual").fit(X, y)
        listed = make(memberships=[way], rules=["residual"]).fit(X, y)
        assert alone.best_index_ == listed.best_index_
        assert alone.best_params_["membership"] is way


def test_grids_as_arrays(pair):
    arrays = make(Cs=np.array([1, 4]), alphas=np.float32([0.5, 2])).fit(*pair)
    lists = make(Cs=[1.0, 4.0], alphas=(0.5, 2.0)).fit(*pair)
    assert arrays.best_params_ == lists.best_params_
    assert all(type(C) is float for C in arrays.best_params_["C"])
    assert type(arrays.best_params_["alpha"]) is float


def test_default_grids_do_not_depend_on_the_unit_of_the_rows(either):
    X, y = either
    one = FuzzyTwinSVCCV(memberships=(None,), cv=FOLDS).fit(X, y)
    other = FuzzyTwinSVCCV(memberships=(None,), cv=FOLDS).fit(1024 * X, y)
    assert_allclose(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])
    assert other.best_params_["alpha"] == pytest.approx(1024**2 * one.best_params_["alpha"])
    assert len(one.cv_results_["params"]) > 20


@sparsely(("either", "way"), ("pair", "rows"), (None, "neighbor", by_first_column), ids=name_of)
def test_two_jobs_give_the_same(either, way):
    X, y = either
    one = make(memberships=(way,)).fit(X, y)
    two = make(memberships=(way,), n_jobs=2).fit(X, y)
    for name in ("mean_test_score", "mean_test_brier"):
        assert_array_equal(one.cv_results_[name], two.cv_results_[name])
    assert_array_equal(one.best_estimator_.coef_, two.best_estimator_.coef_)
    assert one.best_index_ == two.best_index_


def test_progress_bar(pair, capsys):
    make().fit(*pair)
    assert capsys.readouterr() == ("", "")
    make(verbose=1).fit(*pair)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("search")
    assert "3 of 3 folds" in err


def test_same_input_gives_the_same_bits(either):
    X, y = either
    one, other = (make(memberships=(None, "center")).fit(X, y) for _ in range(2))
    assert_array_equal(one.cv_results_["mean_test_brier"], other.cv_results_["mean_test_brier"])
    assert_array_equal(one.best_estimator_.coef_, other.best_estimator_.coef_)


def test_weights_are_repetitions(pair):
    X, y = pair
    weight = np.random.default_rng(6).integers(0, 4, size=len(y))
    again = np.repeat(np.arange(len(y)), weight)
    folds = np.random.default_rng(7).integers(3, size=len(y))
    ways = (None, "center", "hyperplane")
    weighed = make(cv=PredefinedSplit(folds), memberships=ways).fit(X, y, weight)
    repeated = make(cv=PredefinedSplit(folds[again]), memberships=ways).fit(X[again], y[again])
    for name in ("mean_test_score", "mean_test_brier"):
        assert_allclose(weighed.cv_results_[name], repeated.cv_results_[name])
    assert weighed.best_params_ == repeated.best_params_
    assert_allclose(weighed.best_estimator_.coef_, repeated.best_estimator_.coef_, rtol=1e-7)


# Frames, pipelines, routing


@sparsely(("either", "way"), ("pair", "rows"), (None, "center"))
def test_names_of_columns(either, way):
    X, y = either
    frame = pd.DataFrame(X, columns=list("abcd"))
    search = make(memberships=(way,)).fit(frame, y)
    assert_array_equal(search.feature_names_in_, list("abcd"))
    assert_array_equal(search.best_estimator_.feature_names_in_, list("abcd"))
    assert search.n_features_in_ == search.best_estimator_.n_features_in_ == 4
    assert_array_equal(search.predict(frame), make(memberships=(way,)).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        search.predict(frame[["b", "a", "c", "d"]])
    with pytest.warns(UserWarning, match="feature names"):
        search.predict(X)


def test_pipeline_and_cross_validation_route_metadata(pair):
    X, y = pair
    weight, degrees = weights_for(y) + 0.1, np.linspace(0.1, 1, len(y))
    groups = np.arange(len(y)) % 5
    with sklearn.config_context(enable_metadata_routing=True):
        search = make(cv=GroupKFold(2)).set_fit_request(
            sample_weight=True, membership=True, groups=True
        ).set_score_request(sample_weight=True)  # fmt: skip
        scale = StandardScaler().set_fit_request(sample_weight=False)
        pipe = make_pipeline(scale, search)
        given = {"sample_weight": weight, "membership": degrees, "groups": groups}
        pipe.fit(X, y, **given)
        direct = make(cv=GroupKFold(2)).fit(StandardScaler().fit_transform(X), y, **given)
        assert_array_equal(pipe[-1].best_estimator_.coef_, direct.best_estimator_.coef_)
        outer = GroupKFold(2)
        scoring = get_scorer("accuracy").set_score_request(sample_weight=True)
        found = cross_validate(pipe, X, y, params=given, cv=outer, scoring=scoring)["test_score"]
        for (train, test), score in zip(outer.split(X, y, groups), found, strict=True):
            scaler = StandardScaler().fit(X[train])
            model = make(cv=GroupKFold(2)).fit(
                scaler.transform(X[train]), y[train],
                **{name: value[train] for name, value in given.items()},
            )  # fmt: skip
            by_hand = model.score(scaler.transform(X[test]), y[test], weight[test])
            assert score == pytest.approx(by_hand)


def scikit_learn_checks(*searches):
    checks = parametrize_with_checks(list(searches)).mark
    # A list, because scikit-learn 1.6 gives a generator, of which pytest 9 disapproves.
    return pytest.mark.parametrize(checks.args[0], list(checks.args[1]), **checks.kwargs)


@scikit_learn_checks(FuzzyTwinSVCCV(Cs=[1.0], alphas=[0.1, 10.0], memberships=("center",), cv=2))
# Some checks of scikit-learn 1.6 give four rows of a class to five folds.
@pytest.mark.filterwarnings("ignore:The least populated class in y")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@scikit_learn_checks(
    FuzzyTwinSVCCV(),
)
@pytest.mark.filterwarnings("ignore:The least populated class in y")
def test_scikit_learn_checks_of_larger_grids(estimator, check):
    check(estimator)
