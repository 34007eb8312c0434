"""FuzzyTwinSVCCV against GridSearchCV over FuzzyTwinSVC: the same scores, point by point."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.metrics import get_scorer, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fuzzytwin import CenterMembership, FuzzyTwinSVC, FuzzyTwinSVCCV, NeighborMembership
from fuzzytwin.search import grid as _grid

SMALL = {"Cs": [0.25, 1.0, 8.0], "alphas": [0.1, 10.0]}
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
NAMES = ("center", "hyperplane", "neighbor", "entropy", "intuitionistic")


def by_first_column(X, y, sample_weight):
    """A membership of the user's own."""
    return 1 / (1 + np.abs(X[:, 0]))


def name_of(value):
    """A test id that is the same in every process, which a function's address is not."""
    return getattr(value, "__name__", str(value))


WAYS = (None, *NAMES, CenterMembership(decay="exponential", beta=0.5), by_first_column)


@pytest.fixture
def rows():
    """Three classes, made hard enough that scores differ from point to point."""
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)[::2]
    return X + np.random.default_rng(0).normal(size=X.shape), y[::2]


@pytest.fixture
def pair(rows):
    X, y = rows
    return X[y > 0], np.array(["no", "yes"])[y[y > 0] - 1]


@pytest.fixture(params=["pair", "rows"])
def either(request):
    return request.getfixturevalue(request.param)


def weights_for(y, seed=1):
    weight = np.random.default_rng(seed).integers(0, 4, size=len(y)).astype(float)
    return weight / 3


def points(search, n_classes):
    """The grid as `GridSearchCV` takes it."""
    Cs = list(search.Cs)
    return {
        "membership": list(search.memberships),
        "planes": [search.planes] if isinstance(search.planes, str) else list(search.planes),
        "alpha": list(search.alphas),
        "rule": [search.rules] if isinstance(search.rules, str) else list(search.rules),
        "C": [(a, b) for a in Cs for b in Cs] if n_classes == 2 else Cs,
    }


def key(params):
    return tuple(repr(params[name]) for name in ("membership", "planes", "alpha", "rule", "C"))


def aligned(results, n_splits):
    """Split scores of each point, by its parameters."""
    scores = np.column_stack([results[f"split{i}_test_score"] for i in range(n_splits)])
    return {key(params): row for params, row in zip(results["params"], scores, strict=True)}


def peer(search, X, y, sample_weight=None, groups=None, **fit_params):
    """`GridSearchCV` of the same grid; weights go to fit and score alike in all versions."""
    fixed = {
        name: getattr(search, name)
        for name in ("membership_scope", "tau", "margin_width", "class_weight")
    }
    with sklearn.config_context(enable_metadata_routing=True):
        model = FuzzyTwinSVC(**fixed).set_fit_request(
            sample_weight=sample_weight is not None, membership="membership" in fit_params
        )
        model.set_score_request(sample_weight=sample_weight is not None)
        scoring = search.scoring
        if isinstance(scoring, str):
            scoring = get_scorer(scoring)
        if hasattr(scoring, "set_score_request") and sample_weight is not None:
            scoring = copy.deepcopy(scoring).set_score_request(sample_weight=True)
        grid = points(search, len(np.unique(y)))
        if fit_params:
            grid["membership"] = [None]
        given = {"sample_weight": sample_weight, "groups": groups, **fit_params}
        return GridSearchCV(model, grid, cv=search.cv, scoring=scoring, refit=False).fit(
            X, y, **{name: value for name, value in given.items() if value is not None}
        )


def assert_same_scores(search, X, y, **given):
    """Every split score of every point is that of `GridSearchCV`. Gives both."""
    search.fit(X, y, **given)
    other = peer(search, X, y, **given)
    n = search.n_splits_
    assert n == other.n_splits_
    mine, theirs = aligned(search.cv_results_, n), aligned(other.cv_results_, n)
    assert mine.keys() == theirs.keys()
    assert len(mine) == len(search.cv_results_["params"])
    for point, scores in theirs.items():
        assert_allclose(mine[point], scores, rtol=1e-9, atol=1e-12, err_msg=str(point))
    for name in ("mean_test_score", "std_test_score"):
        order = [list(theirs).index(key(p)) for p in search.cv_results_["params"]]
        assert_allclose(search.cv_results_[name], other.cv_results_[name][order], atol=1e-12)
    values = np.array(list(theirs.values()))
    assert np.ptp(values) > 0, "all scores are equal: the test says nothing"
    return search, other


def make(**changes):
    given = {**SMALL, "memberships": (None,), "rules": ("distance", "residual"), "cv": FOLDS}
    return FuzzyTwinSVCCV(**{**given, **changes})


# The same scores as GridSearchCV


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("way", WAYS, ids=name_of)
def test_memberships(either, way, weighted):
    X, y = either
    given = {"sample_weight": weights_for(y)} if weighted else {}
    search = make(Cs=[0.25, 8.0], memberships=(way,), planes=("crisp", "fuzzy"))
    assert_same_scores(search, X, y, **given)


def test_many_memberships_at_once(either):
    ways = (None, "center", NeighborMembership(k=3), "hyperplane")
    assert_same_scores(make(memberships=ways, alphas=[1.0]), *either)


@pytest.mark.parametrize(
    "changes",
    [
        {"class_weight": "balanced"},
        {"class_weight": "balanced", "membership_scope": "both"},
        {"membership_scope": "both", "planes": "fuzzy"},
        {"planes": "fuzzy", "tau": 0.01, "margin_width": 2.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_settings_that_all_points_share(either, changes, weighted):
    X, y = either
    X, y = X[10:], y[10:]  # unbalanced
    given = {"sample_weight": weights_for(y)} if weighted else {}
    search = make(Cs=[0.25, 8.0], memberships=(None, "center"), **changes)
    assert_same_scores(search, X, y, **given)


def test_class_weight_by_label(pair):
    X, y = pair
    for weight in ({"no": 3.0, "yes": 0.5}, {"yes": 2}):
        assert_same_scores(make(class_weight=weight), X, y)


@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
@pytest.mark.parametrize("scope", ["slack", "both"])
@pytest.mark.parametrize("soft", [False, True])
def test_given_degrees_and_soft_labels(either, planes, scope, soft):
    X, y = either
    K = len(np.unique(y))
    rng = np.random.default_rng(2)
    degrees = rng.dirichlet(np.ones(K), size=len(y)) if soft else rng.random(len(y))
    search = make(Cs=[0.25, 8.0], planes=planes, membership_scope=scope)
    search.set_params(memberships=("center", None))
    search.fit(X, y, membership=degrees)
    assert {params["membership"] for params in search.cv_results_["params"]} == {None}
    search, _ = assert_same_scores(
        search.set_params(memberships=(None,)), X, y, membership=degrees,
        sample_weight=weights_for(y) + 0.1,
    )  # fmt: skip
    assert_array_equal(search.best_estimator_.membership_, degrees)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
def test_sparse_rows(either, kind):
    X, y = either
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = make(Cs=[0.25, 8.0], memberships=(None, "center"), planes=("crisp", "fuzzy"))
    dense.set_params(rules="distance").fit(X, y)
    search, _ = assert_same_scores(clone(dense), kind(X), y)
    assert_allclose(search.cv_results_["mean_test_score"], dense.cv_results_["mean_test_score"])
    assert search.best_params_ == dense.best_params_


def test_float32(either):
    X, y = either
    search, _ = assert_same_scores(make(memberships=(None, "center")), X.astype(np.float32), y)
    assert search.best_estimator_.coef_.dtype == np.float64


def test_no_ridge_and_columns_that_depend_on_each_other(either):
    X, y = either
    X = np.column_stack([X, X[:, 0] - 2 * X[:, 1], np.ones(len(X)), np.zeros(len(X))])
    search = make(alphas=[0.0, 1e-3], planes=("crisp", "fuzzy"), selection="score")
    search, _ = assert_same_scores(search, X, y)
    model = search.set_params(alphas=[0.0]).fit(X, y).best_estimator_
    assert model.rank_ < X.shape[1]


def test_rows_far_from_zero(either):
    X, y = either
    near = make().fit(X, y)
    far, _ = assert_same_scores(make(), X + 1e7, y)
    assert_allclose(far.cv_results_["mean_test_score"], near.cv_results_["mean_test_score"])


def test_more_rows_than_one_block(monkeypatch, either):
    """Tables of distances are made block by block; pairs are compared in two ways."""
    X, y = either
    whole = make(planes=("crisp", "fuzzy")).fit(X, y)
    monkeypatch.setattr("fuzzytwin.search.grid.TABLE_ROWS", 7)
    monkeypatch.setattr("fuzzytwin.search.grid.FEW_ROWS", 5)
    parts = make(planes=("crisp", "fuzzy")).fit(X, y)
    for name in ("mean_test_score", "mean_test_brier"):
        assert_allclose(parts.cv_results_[name], whole.cv_results_[name])


def test_moments_split_by_split_give_the_same(monkeypatch, either):
    """Where parts of rows would be too many, each split's rows are met on their own."""
    X, y = either
    shared = make(planes=("crisp", "fuzzy")).fit(X, y)
    monkeypatch.setattr("fuzzytwin.search.splits.MOST_NUMBERS", 0)
    alone = make(planes=("crisp", "fuzzy")).fit(X, y)
    for name in ("mean_test_score", "mean_test_brier"):
        assert_allclose(alone.cv_results_[name], shared.cv_results_[name])
    assert_allclose(alone.best_estimator_.coef_, shared.best_estimator_.coef_)


# Splitters


def splitters(n):
    order = np.random.default_rng(3).permutation(n)
    half = np.isin(np.arange(n), order[: n // 2])
    return {
        "int": 3,
        "KFold": KFold(3, shuffle=True, random_state=0),
        "RepeatedStratifiedKFold": RepeatedStratifiedKFold(n_splits=2, n_repeats=3, random_state=0),
        "ShuffleSplit": ShuffleSplit(4, test_size=0.4, random_state=0),
        "many ShuffleSplits": ShuffleSplit(7, test_size=0.3, random_state=0),
        "TimeSeriesSplit": TimeSeriesSplit(3),
        "PredefinedSplit": PredefinedSplit(np.arange(n) % 4 - 1),
        "indices": [(order[:30], order[30:]), (order[10:], order[:10])],
        "masks": [(half, ~half), (~half, half)],
        "rows that stand twice": [(np.r_[order[:30], order[:30]], np.r_[order[30:], order[30:]])],
        "rows to train and test on": [(order[:40], order)],
        "one split": [(order[:35], order[35:])],
    }


@pytest.mark.parametrize("name", splitters(50))
def test_splitters(either, name):
    X, y = either
    order = np.random.default_rng(4).permutation(len(y))
    X, y = X[order], y[order]
    search = make(cv=splitters(len(y))[name], Cs=[0.25, 8.0], memberships=(None, "center"))
    assert_same_scores(search, X, y)
    assert_same_scores(search, X, y, sample_weight=weights_for(y) + 0.5)


def test_more_than_sixty_two_splits(pair):
    cv = RepeatedStratifiedKFold(n_splits=2, n_repeats=32, random_state=0)
    assert_same_scores(make(cv=cv, Cs=[1.0, 4.0], alphas=[1.0]), *pair)


def test_groups(either):
    X, y = either
    groups = np.random.default_rng(5).integers(6, size=len(y))
    search, _ = assert_same_scores(make(cv=GroupKFold(3)), X, y, groups=groups)
    assert search.n_splits_ == 3
    with pytest.raises(ValueError, match="groups"):
        make(cv=GroupKFold(3)).fit(X, y)


def test_folds_are_drawn_once(pair):
    """A splitter that shuffles anew in each call serves every point with the same folds."""
    calls = []

    class Counting(KFold):
        def split(self, X, y=None, groups=None):
            calls.append(len(X))
            return super().split(X, y, groups)

    X, y = pair
    search = make(cv=Counting(3, shuffle=True), memberships=(None, None)).fit(X, y)
    assert calls == [len(X)]
    scores = search.cv_results_["mean_test_score"].reshape(2, -1)
    assert_array_equal(scores[0], scores[1])


@pytest.mark.parametrize("rules", ["distance", "residual"])
def test_rows_that_are_as_near_to_either_plane(rules):
    """Classes that mirror each other: many ties, which the grid breaks as `predict` does."""
    for seed in range(8):
        A = np.random.default_rng(seed).integers(-2, 3, size=(12, 2)) * 0.3
        A = np.vstack([A, A[:, ::-1]])
        X, y = np.vstack([A, -A, np.zeros((6, 2))]), np.repeat([0, 1, 0, 1], [24, 24, 3, 3])
        search = make(Cs=[0.25, 4.0], alphas=[0.1, 3.0], rules=(rules,), planes=("crisp", "fuzzy"))
        every = np.arange(len(y))
        assert_same_scores(search.set_params(cv=[(every, every)]), X, y)


# Scoring


def hits_beyond(estimator, X, y, sample_weight=None):
    """A scorer with an eye for the size of decision values."""
    u = estimator.predict_proba(X)
    own = u[np.arange(len(y)), np.searchsorted(estimator.classes_, y)]
    return np.average(own > 0.6, weights=sample_weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "scoring",
    [None, "accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc_ovr", hits_beyond],
    ids=lambda scoring: getattr(scoring, "__name__", str(scoring)),
)
def test_scoring(either, scoring, weighted):
    X, y = either
    if scoring == "roc_auc_ovr" and len(np.unique(y)) == 2:
        scoring = "roc_auc"
    given = {"sample_weight": weights_for(y)} if weighted else {}
    search = make(Cs=[0.25, 8.0], scoring=scoring, planes=("crisp", "fuzzy"), alphas=[1.0])
    if callable(scoring) and weighted:  # a plain function cannot ask for weights: do it here
        search.fit(X, y, **given)
        for i, (train, test) in enumerate(FOLDS.split(X, y)):
            for j in (0, 5, -1):
                model = FuzzyTwinSVC(**search.cv_results_["params"][j])
                model.fit(X[train], y[train], given["sample_weight"][train])
                score = hits_beyond(model, X[test], y[test], given["sample_weight"][test])
                assert search.cv_results_[f"split{i}_test_score"][j] == pytest.approx(score)
        return
    assert_same_scores(search, X, y, **given)


def test_two_class_scorers(pair):
    X, y = pair
    for scoring in ("neg_brier_score", make_scorer(hinge, response_method="decision_function")):
        if scoring == "neg_brier_score":
            search, _ = assert_same_scores(make(scoring=scoring, alphas=[1.0]), X, y == "yes")
        else:
            search, _ = assert_same_scores(make(scoring=scoring, alphas=[1.0]), X, y)
        assert search.best_score_ == search.cv_results_["mean_test_score"][search.best_index_]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labels", [(False, True), (1, 2)], ids=str)
@pytest.mark.parametrize("scoring", ["f1", "precision", "recall", "roc_auc", "balanced_accuracy"])
def test_named_scores_of_two_classes(pair, scoring, labels, weighted, monkeypatch):
    X, y = pair
    y = np.array(labels)[(y == "yes").astype(int)]
    given = {"sample_weight": weights_for(y)} if weighted else {}
    X = np.repeat(X[:, :1], 2, axis=1).round(1)  # ties
    search = make(Cs=[0.25, 8.0], scoring=scoring, planes=("crisp", "fuzzy"), alphas=[1.0])
    monkeypatch.setattr("fuzzytwin.search.grid.TABLE_ROWS", 7)
    if labels != (1, 2) or scoring in ("roc_auc", "balanced_accuracy"):
        monkeypatch.setattr("fuzzytwin.search.splits._score", None)  # all at once, none by itself
    search, _ = assert_same_scores(search, X, y, **given)
    assert len(np.unique(search.cv_results_["mean_test_score"])) > 1


def test_named_scores_where_a_test_fold_lacks_a_class(pair):
    X, y = pair
    one = np.flatnonzero(y == "yes")[:5]
    folds = [(np.setdiff1d(np.arange(len(y)), one), one)] * 2
    for scoring in ("balanced_accuracy", "roc_auc"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = make(scoring=scoring, cv=folds)
            other = peer(search, X, y)
            if np.isnan(other.cv_results_["mean_test_score"]).all():
                with pytest.raises(ValueError, match="NaN at every point"):
                    search.fit(X, y)
            else:
                assert_same_scores(search, X, y)


def test_many_distances_are_not_held_at_once(pair, monkeypatch):
    X, y = pair
    quick = make(scoring="roc_auc").fit(X, y)
    monkeypatch.setattr("fuzzytwin.search.scores.MOST_DISTANCES", 10)
    slow = make(scoring="roc_auc").fit(X, y)
    for name in ("mean_test_score", "split0_test_score"):
        assert_allclose(quick.cv_results_[name], slow.cv_results_[name], rtol=1e-12)


def hinge(y, decision):
    return -np.maximum(0, 1 - np.where(y == "yes", 1, -1) * decision).mean()


def test_accuracy_by_any_road_is_the_same(either):
    X, y = either
    quick = make(planes=("crisp", "fuzzy")).fit(X, y)
    slow = make(planes=("crisp", "fuzzy"), scoring=get_scorer("accuracy")).fit(X, y)
    assert_allclose(quick.cv_results_["mean_test_score"], slow.cv_results_["mean_test_score"])
    assert quick.best_index_ == slow.best_index_


def fails_without_ridge(estimator, X, y):
    if estimator.alpha < 1:
        raise RuntimeError("too little ridge")
    return estimator.score(X, y)


@pytest.mark.parametrize("selection", ["band", "score"])
def test_scorer_that_fails_here_and_there_gives_nan_and_a_warning(pair, selection):
    search = make(scoring=fails_without_ridge, selection=selection)
    with pytest.warns(UserWarning, match="too little ridge"):
        search.fit(*pair)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = peer(search, *pair)
    mine, theirs = aligned(search.cv_results_, 3), aligned(other.cv_results_, 3)
    for point, scores in theirs.items():
        assert_allclose(mine[point], scores)
    bad = [params["alpha"] < 1 for params in search.cv_results_["params"]]
    assert_array_equal(np.isnan(search.cv_results_["mean_test_score"]), bad)
    ranks = search.cv_results_["rank_test_score"]
    assert ranks[bad].min() > ranks[~np.array(bad)].max()
    assert search.best_params_["alpha"] == 10.0
    assert np.isfinite(search.best_score_)


def fails(estimator, X, y):
    raise RuntimeError("never")


def two_numbers(estimator, X, y):
    return {"one": 1.0, "two": 2.0}


def test_scorers_that_never_give_a_number(pair):
    with (
        pytest.warns(UserWarning, match="never"),
        pytest.raises(ValueError, match=r"scoring=.*NaN at every point"),
    ):
        make(scoring=fails).fit(*pair)
    with pytest.raises(ValueError, match="scoring must give a number"):
        make(scoring=two_numbers).fit(*pair)
    with pytest.raises(ValueError, match="scoring"):
        make(scoring="no such scorer").fit(*pair)


# The choice


@pytest.mark.parametrize("scoring", [None, "balanced_accuracy"])
@pytest.mark.parametrize("weighted", [False, True])
def test_selection_by_score(either, scoring, weighted):
    X, y = either
    given = {"sample_weight": weights_for(y)} if weighted else {}
    search = make(selection="score", memberships=(None, "center"), scoring=scoring)
    search, other = assert_same_scores(search, X, y, **given)
    assert search.best_score_ == pytest.approx(other.best_score_, abs=1e-12)
    mean = search.cv_results_["mean_test_score"]
    ties = [i for i in range(len(mean)) if mean[i] > mean.max() - 1e-12]
    assert search.best_index_ == min(ties, key=lambda i: price(search, i, -mean[i]))
    assert np.isnan(search.cv_results_["mean_test_brier"]).all()
    assert search.cv_results_["rank_test_score"][search.best_index_] == 1


def price(search, i, loss):
    """What a tie is broken by: C alike, less loss, more ridge, C near 1, no membership, place."""
    params = search.cv_results_["params"][i]
    way, logs = params["membership"], [np.log(C) for C in np.ravel(params["C"])]
    place = -1 if way is None else search.memberships.index(way)
    apart, far = max(logs) - min(logs), sum(map(abs, logs))
    return round(apart, 9), round(loss, 12), -params["alpha"], round(far, 9), place, i


def naive_choice(search, X, y, s, splits, width, near):
    """Briers of the band, and the choice by the rule as the docstring tells it, with loops."""
    points = search.cv_results_["params"]
    scores, briers = np.zeros((2, len(points), len(splits)))
    for j, params in enumerate(points):
        for i, (train, test) in enumerate(splits):
            model = FuzzyTwinSVC(**params).fit(X[train], y[train], s[train])
            for row, u, label in zip(
                test, model.predict_membership(X[test]), model.predict(X[test]), strict=True
            ):
                share = s[row] / s[test].sum()
                scores[j, i] += share * (label == y[row])
                for k, known in enumerate(model.classes_):
                    briers[j, i] += share * (u[k] - (y[row] == known)) ** 2
    root = np.sqrt(search.n_splits_)
    means = scores.mean(axis=1)
    best = means.argmax()
    limit = means[best] - width * scores[best].std(ddof=1) / root
    band = [j for j in range(len(points)) if means[j] >= limit - 1e-12]
    least = min(band, key=lambda j: briers[j].mean())
    equal = []
    for j in band:
        gap = briers[j] - briers[least]
        if gap.mean() <= near * gap.std(ddof=1) / root + 1e-12:
            equal.append(j)
    choice = min(equal, key=lambda j: price(search, j, briers[j].mean()))
    return {j: briers[j].mean() for j in band}, choice


@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("width", "near"), [(0.5, 0.0), (2.0, 0.5)])
def test_selection_by_band(monkeypatch, either, planes, weighted, width, near):
    monkeypatch.setattr("fuzzytwin.search.selection.BAND", width)
    monkeypatch.setattr("fuzzytwin.search.selection.NEAR", near)
    monkeypatch.setattr("fuzzytwin.search.estimator.ROUNDS", 2)
    X, y = either
    weight = weights_for(y) if weighted else None
    s = np.ones(len(y)) if weight is None else weight
    again = StratifiedKFold(3, shuffle=True, random_state=1)
    for cv, rounds in ((FOLDS, [FOLDS]), (3, [StratifiedKFold(3), again])):
        search = make(planes=planes, memberships=("center", None), rules="residual", cv=cv)
        search.fit(X, y, weight)
        splits = [split for turn in rounds for split in turn.split(X, y)]
        briers, best = naive_choice(search, X, y, s, splits, width, near)
        found = search.cv_results_["mean_test_brier"]
        assert_array_equal(np.flatnonzero(~np.isnan(found)), sorted(briers))
        for j, brier in briers.items():
            assert found[j] == pytest.approx(brier, rel=1e-9)
        assert width > 1 or len(briers) < len(found)
        assert search.best_index_ == best
        assert search.best_score_ == search.cv_results_["mean_test_score"][best]
        assert search.n_splits_ == 3


@pytest.mark.parametrize(("kernels", "width"), [(("linear", "rbf"), 2.0), (("linear",), 1.0)])
def test_band_is_wider_where_planes_may_be_curved(pair, kernels, width):
    X, y = pair
    search = make(kernels=kernels, cv=FOLDS, random_state=0).fit(X, y)
    results = search.cv_results_
    best = results["mean_test_score"].argmax()
    scores = [results[f"split{i}_test_score"][best] for i in range(search.n_splits_)]
    error = np.std(scores, ddof=1) / np.sqrt(len(scores))
    limit = results["mean_test_score"][best] - width * error
    inside = results["mean_test_score"] >= limit - 1e-12
    assert inside.sum() < len(inside)
    assert_array_equal(~np.isnan(results["mean_test_brier"]), inside)


def test_band_of_one_split_is_the_best_score(pair):
    X, y = pair
    order = np.random.default_rng(0).permutation(len(y))
    search = make(cv=[(order[:30], order[30:])]).fit(X, y)
    mean = search.cv_results_["mean_test_score"]
    assert_array_equal(~np.isnan(search.cv_results_["mean_test_brier"]), mean == mean.max())


def all_ones(X, y, sample_weight):
    return np.ones(len(y))


@pytest.mark.parametrize("selection", ["band", "score"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_ties_go_to_the_simpler_point(selection, n_classes):
    y = np.arange(12) % n_classes
    X = np.zeros((12, 1))  # no point has a direction: all scores and Briers are equal
    search = FuzzyTwinSVCCV(
        [4.0, 1.0], alphas=[1.0, 100.0], memberships=(all_ones, "center", None),
        selection=selection, cv=2,
    ).fit(X, y)  # fmt: skip
    params = search.best_params_
    assert params["alpha"] == 100.0
    assert params["C"] == ((1.0, 1.0) if n_classes == 2 else 1.0)
    assert params["membership"] is None
    assert params["rule"] == "distance"
    search.set_params(memberships=(all_ones, "center"), rules="distance", alphas=[1]).fit(X, y)
    assert search.best_params_["membership"] is all_ones
    search.set_params(Cs=[0.125, 4.0]).fit(X, y)
    assert search.best_params_["C"] == ((4.0, 4.0) if n_classes == 2 else 4.0)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_brier_of_rows_that_lie_on_both_planes(few, weighted, monkeypatch):
    """They belong to both classes by a half, so they cost 2 (1/2)^2 each."""
    X = np.array([[-2.0], [0.0], [2.0], [0.0]] * 3)
    y = np.array([0, 0, 1, 1] * 3)
    grid = _grid.Grid(("crisp",), np.ones(1), ("distance",), np.ones(1), 2, 1.0, 0.5)
    found = _grid.GridPlanes(
        np.array([[[[1.0], [1.0]]]]), np.zeros((1, 1, 2)), np.ones((1, 1, 2)), None, None
    )
    if not few:
        monkeypatch.setattr(_grid, "MOST_AT_ONCE", 1)
    wanted = np.ones(grid.shape, dtype=bool)
    weight = np.arange(12.0) if weighted else None
    total = _grid.sum_brier(grid, found, _grid.TestRows(X, X, y, weight, np.arange(12)), wanted)
    assert total.item() == pytest.approx(0.5 * (np.arange(12).sum() if weighted else 12))


# The fitted object


@pytest.mark.parametrize("way", WAYS, ids=name_of)
@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
def test_best_params_give_the_best_estimator(either, way, planes):
    X, y = either
    for given in ({}, {"sample_weight": weights_for(y)}):
        search = make(memberships=(way,), planes=planes).fit(X, y, **given)
        model = FuzzyTwinSVC(**search.best_params_).fit(X, y, **given)
        best = search.best_estimator_
        for name in ("coef_", "intercept_", "membership_", "classes_", "rank_"):
            one, other = getattr(best, name), getattr(model, name)
            if name == "classes_":
                assert_array_equal(one, other)
            else:
                assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        if planes == "fuzzy":
            assert_allclose(best.width_coef_, model.width_coef_, rtol=1e-9, atol=1e-12)
        assert clone(best).get_params().keys() == model.get_params().keys()


def test_best_estimator_has_the_settings_that_all_points_share(pair):
    shared = {
        "membership_scope": "both", "tau": 0.5, "margin_width": 1.5, "class_weight": "balanced",
    }  # fmt: skip
    for memberships in ((None,), ("center",)):
        for planes in ("crisp", "fuzzy"):
            search = make(memberships=memberships, planes=planes, **shared).fit(*pair)
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


@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
def test_it_predicts_as_its_best_estimator_does(either, planes):
    X, y = either
    search = make(planes=planes).fit(X, y)
    best = search.best_estimator_
    for name in ("predict", "decision_function", "predict_proba", "predict_membership"):
        assert_array_equal(getattr(search, name)(X), getattr(best, name)(X))
    for mine, theirs in zip(search.fuzzy_distance(X), best.fuzzy_distance(X), strict=True):
        assert_array_equal(mine, theirs)
    assert search.score(X, y) == best.score(X, y)
    assert search.score(X, y, weights_for(y)) == best.score(X, y, weights_for(y))
    assert search.decision_function(X).ndim == (1 if len(np.unique(y)) == 2 else 2)
    assert_array_equal(search.classes_, np.unique(y))
    for name in ("predict", "decision_function", "predict_proba", "fuzzy_distance"):
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
        alone = make(memberships=way, rules="residual", planes="fuzzy").fit(X, y)
        listed = make(memberships=[way], rules=["residual"], planes=["fuzzy"]).fit(X, y)
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


@pytest.mark.parametrize("way", [None, "neighbor", by_first_column], ids=name_of)
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
    assert err.count("\r") == 3
    assert err.endswith("3/3 folds\n")


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


@pytest.mark.parametrize("way", [None, "center"])
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


checks = parametrize_with_checks(
    [FuzzyTwinSVCCV(), FuzzyTwinSVCCV([0.5, 2.0], memberships=(None,), planes="fuzzy")]
).mark


# A list, because scikit-learn 1.6 gives a generator, of which pytest 9 disapproves.
@pytest.mark.parametrize(checks.args[0], list(checks.args[1]), **checks.kwargs)
# Some checks of scikit-learn 1.6 give four rows of a class to five folds.
@pytest.mark.filterwarnings("ignore:The least populated class in y")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Bad grids, folds that fail


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
        ({"Cs": 1.0}, r"Cs=1\.0 is no sequence"),
        ({"Cs": [(1.0, 2.0)]}, r"Cs=\(1\.0, 2\.0\) is not allowed"),
        ({"alphas": []}, r"alphas=\[\] is empty"),
        ({"alphas": [-1e-9]}, "alphas=-1e-09 is not allowed.*at least 0"),
        ({"alphas": [np.nan, 1.0]}, "alphas=nan is not allowed"),
        ({"alphas": ["1"]}, "alphas='1' is not allowed"),
        ({"alphas": 3}, "alphas=3 is no sequence"),
        ({"rules": ()}, r"rules=\(\) is empty"),
        ({"rules": ("nearest",)}, "rules='nearest' is unknown"),
        ({"rules": "nearest"}, "rules='nearest' is unknown"),
        ({"rules": None}, "rules=None is no sequence"),
        ({"planes": ()}, r"planes=\(\) is empty"),
        ({"planes": "vague"}, "planes='vague' is unknown"),
        ({"planes": ("crisp", 1)}, "planes=1 is unknown"),
        ({"planes": None}, "planes=None is no sequence"),
        ({"memberships": ()}, r"memberships=\[\] is empty"),
        ({"memberships": ("middle",)}, "membership='middle' is unknown"),
        ({"memberships": "middle"}, "membership='middle' is unknown"),
        ({"memberships": [5]}, "membership=5 is not allowed"),
        ({"memberships": 5}, "memberships=5 is no sequence"),
        ({"memberships": CenterMembership}, "membership=.* is not allowed"),
        ({"selection": "best"}, "selection='best' is unknown"),
        ({"cv": []}, "gives no split"),
        ({"cv": 1}, "n_splits=1"),
        ({"cv": "many"}, "cv"),
        ({"cv": [(np.arange(10), [])]}, "no test sample"),
        ({"cv": [([], np.arange(10))]}, "every fit of the search failed.*0 sample"),
        ({"membership_scope": "own"}, "membership_scope='own' is unknown"),
        ({"tau": -1.0}, "tau=-1.0 is not allowed"),
        ({"margin_width": np.nan}, "margin_width=nan is not allowed"),
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
    with pytest.raises(ValueError, match="no test sample with weight"):
        make(cv=PredefinedSplit(folds)).fit(X, y, (folds > 0).astype(float))


def losing_folds(y, last=None):
    """The first split trains on all but the last class, the second on every other row."""
    last = np.unique(y)[-1] if last is None else last
    known = np.flatnonzero(y != last)
    every = np.arange(len(y))
    return [(known, every[::3]), (every[::2], every[1::2])]


@pytest.mark.parametrize("selection", ["band", "score"])
def test_two_classes_and_a_split_that_loses_one(pair, selection):
    X, y = pair
    search = make(cv=losing_folds(y), selection=selection)
    with pytest.warns(FitFailedWarning, match=r"36 fits failed.*one class only"):
        search.fit(X, y)
    results = search.cv_results_
    assert np.isnan(results["split0_test_score"]).all()
    assert np.isnan(results["mean_test_score"]).all()
    assert np.isfinite(results["split1_test_score"]).all()
    alone = make(cv=losing_folds(y)[1:], selection=selection).fit(X, y)
    assert search.best_index_ == alone.best_index_
    assert np.isnan(search.best_score_)


@pytest.mark.parametrize("memberships", [(None,), ("center",), (None, "hyperplane")], ids=str)
@pytest.mark.parametrize("scoring", [None, "balanced_accuracy"])
def test_three_classes_and_a_split_that_loses_one(rows, memberships, scoring):
    X, y = rows
    for planes in ("crisp", "fuzzy"):
        search = make(cv=losing_folds(y), memberships=memberships, scoring=scoring, planes=planes)
        assert_same_scores(search, X, y)
    weight = weights_for(y) + 0.1
    assert_same_scores(make(cv=losing_folds(y), memberships=memberships), X, y,
                       sample_weight=weight)  # fmt: skip


def test_brier_of_a_split_that_loses_a_class(rows):
    """The lost class gets the membership 0."""
    X, y = rows
    search = make(cv=losing_folds(y)).fit(X, y)
    j = search.best_index_
    losses = []
    for train, test in search.cv:
        model = FuzzyTwinSVC(**search.best_params_).fit(X[train], y[train])
        u = np.zeros((len(test), 3))
        u[:, model.classes_] = model.predict_membership(X[test])
        losses.append(((u - np.eye(3)[y[test]]) ** 2).sum(axis=1).mean())
    assert search.cv_results_["mean_test_brier"][j] == pytest.approx(np.mean(losses))


def test_every_split_loses_a_class(pair):
    X, y = pair
    with pytest.raises(ValueError, match=r"every fit of the search failed.*one class only"):
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
    """alpha = 0 fails in every split, as in `GridSearchCV`; the other points stand."""
    X, y = pair
    search = make(alphas=[0.0, 1e-300], Cs=[1.0])
    with pytest.warns(FitFailedWarning, match="alpha=0"):
        search.fit(X * 1e-150, y)
    none = np.array([params["alpha"] == 0 for params in search.cv_results_["params"]])
    assert_array_equal(np.isnan(search.cv_results_["mean_test_score"]), none)
    assert search.best_params_["alpha"] == 1e-300


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


@pytest.mark.parametrize("scoring", [None, "balanced_accuracy"])
@pytest.mark.parametrize("cv", [FOLDS, ShuffleSplit(5, random_state=0)])
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
