"""Compare FuzzyTwinSVCCV with GridSearchCV over FuzzyTwinSVC, point by point."""

import copy

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from fuzzytwin import CenterMembership, FuzzyTwinSVC, FuzzyTwinSVCCV

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


def sparsely(names, *axes, ids=str):
    """Parametrise by all combinations: one for each value of the longest axis, the others slow.

    The first combination of every value is run by default, along the diagonal of the axes.
    """
    longest = max(map(len, axes))
    diagonal = {tuple(i % len(axis) for axis in axes) for i in range(longest)}
    cases = [
        pytest.param(
            *(axis[i] for axis, i in zip(axes, place, strict=True)),
            marks=() if place in diagonal else pytest.mark.slow,
            id="-".join(ids(axis[i]) for axis, i in zip(axes, place, strict=True)),
        )
        for place in np.ndindex(*map(len, axes))
    ]
    return pytest.mark.parametrize(names, cases, indirect=["either"] if "either" in names else [])


def weights_for(y, seed=1):
    weight = np.random.default_rng(seed).integers(0, 4, size=len(y)).astype(float)
    return weight / 3


def points(search, n_classes):
    """The grid as `GridSearchCV` takes it."""
    Cs = list(search.Cs)
    return {
        "membership": list(search.memberships),
        "alpha": list(search.alphas),
        "rule": [search.rules] if isinstance(search.rules, str) else list(search.rules),
        "C": [(a, b) for a in Cs for b in Cs] if n_classes == 2 else Cs,
    }


def key(params):
    return tuple(repr(params[name]) for name in ("membership", "alpha", "rule", "C"))


def aligned(results, n_splits):
    """Split scores of each point, by its parameters."""
    scores = np.column_stack([results[f"split{i}_test_score"] for i in range(n_splits)])
    return {key(params): row for params, row in zip(results["params"], scores, strict=True)}


def peer(search, X, y, sample_weight=None, groups=None, **fit_params):
    """`GridSearchCV` of the same grid; weights go to fit and score alike in all versions."""
    fixed = {name: getattr(search, name) for name in ("class_weight",)}
    with sklearn.config_context(enable_metadata_routing=True, skip_parameter_validation=True):
        model = FuzzyTwinSVC(**fixed).set_fit_request(
            sample_weight=sample_weight is not None,
            membership="membership" in fit_params,
            groups=False,  # those of the splitter
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


def losing_folds(y, last=None):
    """The first split trains on all but the last class, the second on every other row."""
    last = np.unique(y)[-1] if last is None else last
    known = np.flatnonzero(y != last)
    every = np.arange(len(y))
    return [(known, every[::3]), (every[::2], every[1::2])]
