"""Algebra that must hold whatever the data: each says that two roads lead to one model."""

import copy
import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from fuzzytwin import FuzzyTwinSVC

MODELS = {
    "crisp": functools.partial(FuzzyTwinSVC, alpha=1.0),
    "paper": functools.partial(FuzzyTwinSVC, alpha=0.0, C=0.3),
    "fuzzy": functools.partial(FuzzyTwinSVC, planes="fuzzy", alpha=0.5, C=2.0, tau=0.3),
    "residual": functools.partial(FuzzyTwinSVC, planes="fuzzy", alpha=10.0, rule="residual"),
    "balanced": functools.partial(FuzzyTwinSVC, C=3.0, alpha=10.0, class_weight="balanced"),
}
NAMES = ("coef_", "intercept_", "width_coef_", "width_intercept_")
# Degrees that are given (none, one per sample, soft labels).
GIVEN = ("none", "degrees", "soft")
identity = settings(max_examples=4, derandomize=True, deadline=None, database=None)
# Every model and every kind of degrees by default, though not each with each.
model_and_given = pytest.mark.parametrize(
    ("make", "given_degrees"),
    [
        pytest.param(
            make, degrees, id=f"{name}-{degrees}", marks=pytest.mark.slow if (i + j) % 2 else ()
        )
        for i, (name, make) in enumerate(MODELS.items())
        for j, degrees in enumerate(GIVEN)
    ],
)
models = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
seeds = st.integers(0, 2**32 - 1)


def problem(rng, given_degrees="none"):
    """Rows, labels 0..K-1, weights (some zero), degrees; well-posed also without a ridge."""
    K, d = rng.integers(2, 5), rng.integers(1, 5)
    n = int(K * (d + 6) + rng.integers(0, 20))
    y = np.concatenate([np.repeat(np.arange(K), d + 4), rng.integers(0, K, n - K * (d + 4))])
    y = rng.permutation(y)
    X = rng.normal(size=(n, d)) + rng.normal(scale=2.0, size=(K, d))[y]
    s = rng.uniform(0.5, 2.0, n) * (rng.uniform(size=n) > 0.1)
    s[np.unique(y, return_index=True)[1]] = 1.0
    mu = {
        "none": None,
        "degrees": rng.uniform(0.1, 1, n),
        "soft": np.clip(np.eye(K)[y] + rng.normal(scale=0.3, size=(n, K)), 0, 1) + 1e-3,
    }[given_degrees]
    return X, y, s, mu if mu is None else mu / mu.max()


def take(array, rows):
    return None if array is None else array[rows]


def assert_same(one, other, rtol=1e-7, atol=1e-9):
    assert_array_equal(one.classes_, other.classes_)
    for name in NAMES:
        assert hasattr(one, name) == hasattr(other, name)
        if hasattr(one, name):
            assert_allclose(getattr(one, name), getattr(other, name), rtol, atol, err_msg=name)


@model_and_given
@identity
@given(seed=seeds)
def test_integer_weight_is_repetition(make, given_degrees, seed):
    rng = np.random.default_rng(seed)
    X, y, _, mu = problem(rng, given_degrees)
    times = rng.integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), times)
    assert_same(
        make().fit(X, y, times, mu), make().fit(X[rows], y[rows], membership=take(mu, rows))
    )


@pytest.mark.parametrize(
    "membership", ["center", "hyperplane", "neighbor", "entropy", "intuitionistic"]
)
@identity
@given(seed=seeds)
def test_weight_of_a_row_with_computed_degrees(membership, seed):
    """Repetition and absence, through the memberships."""
    rng = np.random.default_rng(seed)
    X, y, _, _ = problem(rng)
    times = rng.integers(0, 4, len(y))
    times[np.unique(y, return_index=True)[1]] = 2
    rows = np.repeat(np.arange(len(y)), times)
    model = FuzzyTwinSVC(planes="fuzzy", alpha=10.0, membership=membership)
    weighted = clone(model).fit(X, y, times)
    repeated = clone(model).fit(X[rows], y[rows])
    assert_allclose(weighted.membership_[rows], repeated.membership_, rtol=1e-9, atol=1e-12)
    assert_same(weighted, repeated)


@model_and_given
@identity
@given(seed=seeds)
def test_zero_weight_is_absence(make, given_degrees, seed):
    rng = np.random.default_rng(seed)
    X, y, s, mu = problem(rng, given_degrees)
    X[s == 0] *= 1e3
    rows = s > 0
    assert_same(make().fit(X, y, s, mu), make().fit(X[rows], y[rows], s[rows], take(mu, rows)))


@models
@identity
@given(seed=seeds)
def test_a_class_without_weight_disappears(make, seed):
    rng = np.random.default_rng(seed)
    X, y, s, _ = problem(rng)
    ghosts = rng.normal(size=(5, X.shape[1]))
    for label in (-3, y.max() + 1):
        model = make().fit(
            np.concatenate([ghosts, X]),
            np.concatenate([np.full(5, label), y]),
            np.concatenate([np.zeros(5), s]),
        )
        assert_same(model, make().fit(X, y, s))


def stream(make, batches, X, y, s, mu):
    model, classes = make(), np.unique(y)
    for rows in batches:
        model.partial_fit(X[rows], y[rows], classes, take(s, rows), take(mu, rows))
    return model


@model_and_given
@identity
@given(seed=seeds, way=st.sampled_from(["single", "class", "halves", "random"]))
def test_any_batching_is_one_fit(make, given_degrees, seed, way):
    """Single rows (some of weight zero), batches of one class, halves, random cuts."""
    rng = np.random.default_rng(seed)
    X, y, s, mu = problem(rng, given_degrees)
    n = len(y)
    batches = {
        "single": np.arange(n)[:, None],
        "class": [np.flatnonzero(y == k) for k in rng.permutation(np.unique(y))],
        "halves": np.array_split(rng.permutation(n), 2),
        "random": np.split(rng.permutation(n), np.unique(rng.integers(1, n, 6))),
    }[way]
    assert_same(stream(make, batches, X, y, s, mu), make().fit(X, y, s, mu))


@model_and_given
@identity
@given(seed=seeds)
def test_merge_is_concatenation(make, given_degrees, seed):
    """In any order and any bracketing, and without touching the model that is merged."""
    rng = np.random.default_rng(seed)
    X, y, s, mu = problem(rng, given_degrees)
    parts = np.array_split(rng.permutation(len(y)), 3)

    # The last part row by row, so that it is itself a sum.
    built = [stream(make, [index], X, y, s, mu) for index in parts[:2]]
    built.append(stream(make, parts[2][:, None], X, y, s, mu))

    def part(i):
        return copy.deepcopy(built[i])

    whole = make().fit(X, y, s, mu)
    other = part(1)
    kept = other.coef_.copy(), other.moments_
    left = part(0).merge(other).merge(part(2))
    assert other.moments_ is kept[1]
    assert_array_equal(other.coef_, kept[0])
    assert_same(left, whole)
    assert_same(part(0).merge(part(1).merge(part(2))), whole)
    assert_same(part(2).merge(part(0)).merge(part(1)), whole)


@model_and_given
@identity
@given(seed=seeds)
def test_order_of_rows_and_columns(make, given_degrees, seed):
    rng = np.random.default_rng(seed)
    X, y, s, mu = problem(rng, given_degrees)
    rows, columns = rng.permutation(len(y)), rng.permutation(X.shape[1])
    whole = make().fit(X, y, s, mu)
    model = make().fit(X[rows][:, columns], y[rows], s[rows], take(mu, rows))
    for name in NAMES:
        if hasattr(model, name):
            expected = getattr(whole, name)
            expected = expected[:, columns] if expected.ndim == 2 else expected
            assert_allclose(getattr(model, name), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["crisp", "paper", "balanced"])
@pytest.mark.parametrize("membership", [None, "center", "hyperplane", "neighbor"])
@identity
@given(seed=seeds)
def test_translation_moves_the_intercept_alone(name, membership, seed):
    rng = np.random.default_rng(seed)
    X, y, s, _ = problem(rng)
    shift = rng.normal(scale=30.0, size=X.shape[1])
    still = MODELS[name](membership=membership).fit(X, y, s)
    moved = MODELS[name](membership=membership).fit(X + shift, y, s)
    assert_allclose(moved.coef_, still.coef_, rtol=1e-7, atol=1e-9)
    assert_allclose(moved.intercept_, still.intercept_ - still.coef_ @ shift, rtol=1e-7, atol=1e-7)
    assert_allclose(
        moved.predict_membership(X + shift), still.predict_membership(X), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
@pytest.mark.parametrize("rule", ["distance", "residual"])
@identity
@given(seed=seeds, t=st.sampled_from([1e-3, 0.3, 7.0, 1e4]))
def test_common_scale(planes, rule, seed, t):
    """X t with alpha t^2 is X with alpha: coef / t, the same values, the same memberships.

    The widths' price has |c|^2 and d in it, which scale differently: so tau = 0 for them.
    """
    rng = np.random.default_rng(seed)
    X, y, s, _ = problem(rng)
    small = FuzzyTwinSVC(planes=planes, alpha=2.0, rule=rule, tau=0.0).fit(X, y, s)
    large = FuzzyTwinSVC(planes=planes, alpha=2.0 * t**2, rule=rule, tau=0.0).fit(t * X, y, s)
    assert_allclose(t * large.coef_, small.coef_, rtol=1e-7, atol=1e-9)
    assert_allclose(large.intercept_, small.intercept_, rtol=1e-7, atol=1e-9)
    assert_allclose(
        large.predict_membership(t * X), small.predict_membership(X), rtol=1e-5, atol=1e-7
    )


@models
@identity
@given(seed=seeds)
def test_common_weight(make, seed):
    """All weights, alpha and tau times t: the same minimiser."""
    rng = np.random.default_rng(seed)
    X, y, s, _ = problem(rng)
    light = make()
    t = 10.0 ** rng.uniform(-6, 6)
    heavy = make(alpha=t * light.alpha, tau=t * light.tau)
    assert_same(heavy.fit(X, y, t * s), light.fit(X, y, s))


@model_and_given
@identity
@given(seed=seeds)
def test_renaming_labels_permutes_the_planes(make, given_degrees, seed):
    rng = np.random.default_rng(seed)
    X, y, s, mu = problem(rng, given_degrees)
    K = y.max() + 1
    names = rng.permutation([f"label {k}" for k in range(K)])
    order = np.argsort(names)  # plane j of the renamed model is plane order[j]
    plain = make().fit(X, y, s, mu)
    renamed = make().fit(X, names[y], s, mu[:, order] if given_degrees == "soft" else mu)
    places = {tuple(pair): i for i, pair in enumerate(plain.plane_classes_.tolist())}
    before = np.append(order, -1)  # -1 stands for all others
    planes = [places[before[k], before[j]] for k, j in renamed.plane_classes_.tolist()]
    for name in NAMES:
        if hasattr(plain, name):
            assert_allclose(
                getattr(renamed, name), getattr(plain, name)[planes], rtol=1e-7, atol=1e-9
            )
    u = plain.predict_membership(X)
    assert_allclose(renamed.predict_membership(X), u[:, order], rtol=1e-5, atol=1e-7)
