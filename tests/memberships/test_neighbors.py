"""Ties among neighbours: counted by hand in whole numbers, and what must not matter."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from fuzzytwin.memberships import EntropyMembership, IntuitionisticMembership, NeighborMembership
from fuzzytwin.memberships._neighbor_search import GATHERED_NUMBERS, distinct_rows, neighbor_shares
from tests.pairs import every_pair

WAYS = {
    "neighbor": NeighborMembership(k=7),
    "entropy": EntropyMembership(k=7, bins=4, beta=0.2),
    "intuitionistic": IntuitionisticMembership(),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def make(n=120, d=3, levels=4, K=3, seed=0):
    """Rows on a small grid, many of them equal and most distances tied."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels, size=(n, d)).astype(float)
    y = (X.sum(axis=1) + rng.integers(0, 3, size=n)).astype(int) % K
    return X, y, rng.integers(1, 4, size=n).astype(float)


def share_by_hand(X, y, s, k, i, K):
    """Shares of sample i as fractions, from integer rows and integer weights."""
    left = [Fraction(int(w)) for w in s]
    share = [Fraction(0)] * K
    share[y[i]] += 1
    left[i] -= 1
    places = Fraction(k)
    square = [sum((int(a) - int(b)) ** 2 for a, b in zip(X[i], x, strict=True)) for x in X]
    for reach in sorted(set(square)):
        here = [j for j in range(len(X)) if square[j] == reach]
        total = sum(left[j] for j in here)
        if not total:
            continue
        part = min(Fraction(1), places / total)
        for j in here:
            share[y[j]] += part * left[j]
        places -= part * total
    return [float(one / sum(share)) for one in share]


@every_pair(form=[np.asarray, sparse.csr_array], levels=[2, 4, 30], k=[1, 6, 40, 500])
def test_ties_share_what_is_left(k, levels, form):
    X, y, s = make(levels=levels)
    expected = [share_by_hand(X, y, s, k, i, 3) for i in range(len(y))]
    np.testing.assert_allclose(neighbor_shares(form(X), y, s, k, 3), expected, rtol=1e-15)


def test_a_sample_counts_before_others_at_its_place():
    X, y = np.zeros((8, 2)), np.array([0, 0, 0, 1, 1, 1, 1, 1])
    got = NeighborMembership(k=2)(X, y)
    np.testing.assert_allclose(got, np.where(y == 0, (1 + 2 * 2 / 7) / 3, (1 + 2 * 4 / 7) / 3))
    weighed = NeighborMembership(k=2)(X[2:4], y[2:4], [3, 5])
    np.testing.assert_array_equal(weighed, got[2:4])


@every_way
@pytest.mark.parametrize("imbalance", [False, True])
@pytest.mark.parametrize("levels", [2, 4, 9])
def test_an_integer_weight_is_a_repetition(way, imbalance, levels):
    way = clone(way).set_params(imbalance=imbalance)
    X, y, s = make(levels=levels)
    again = np.repeat(np.arange(len(y)), s.astype(int))
    # centres and totals of classes are rounded, counts are not
    rounded = imbalance or isinstance(way, IntuitionisticMembership)
    rtol = 1e-12 if rounded else 0.0
    np.testing.assert_allclose(way(X[again], y[again]), way(X, y, s)[again], rtol=rtol)


@every_way
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("d", [3, 20])  # scikit-learn searches by a tree, or by dot products
def test_neither_order_nor_place_matters(way, d, scaled):
    X, y, s = make(d=d, n=300, levels=2 if d > 3 else 5)
    if scaled:
        X = StandardScaler().fit_transform(X)
    expected = way(X, y, s)
    order = np.random.default_rng(1).permutation(len(y))
    np.testing.assert_allclose(way(X[order], y[order], s[order]), expected[order], rtol=1e-12)
    # 1e5 / 3 rounds every number of X; neighbours may not notice
    np.testing.assert_allclose(way(X + 1e5 / 3, y, s), expected, rtol=1e-8)
    np.testing.assert_allclose(way(X * 0.7, y, s), expected, rtol=1e-12)
    np.testing.assert_allclose(way(1 - X[:, ::-1], y, s), expected, rtol=1e-12)


@every_way
def test_float32_rows_keep_their_ties(way):
    X, y, s = make(n=300, levels=5)
    X = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(way(X.astype(np.float32), y, s), way(X, y, s), rtol=2e-6)


@every_way
def test_sparse_rows_keep_their_ties(way):
    X, y, s = make(d=20, levels=3)
    np.testing.assert_allclose(way(sparse.csr_array(X), y, s), way(X, y, s), rtol=1e-12)


def test_a_large_constant_column_does_not_tie_other_rows():
    X, y, s = make()
    X = X + np.random.default_rng(0).normal(size=X.shape)
    wide = np.column_stack([X, np.full(len(X), 1.7e18)])
    for way in WAYS.values():
        np.testing.assert_allclose(way(wide, y, s), way(X, y, s), rtol=1e-9)


def test_rows_far_from_the_others_keep_their_neighbours():
    # by dot products, distances of 1 are lost among coordinates of 1e9
    X, y, s = make(n=200, d=20, levels=3)
    far = X + np.where(np.arange(200) < 100, 0, 2.0**30)[:, None]
    shares = neighbor_shares(far, y, s, 5, 3)
    for part in (slice(0, 100), slice(100, 200)):
        alone = neighbor_shares(X[part], y[part], s[part], 5, 3)
        np.testing.assert_array_equal(shares[part], alone)


def test_weights_below_one_only_shift_the_shares():
    X, y, _ = make()
    for weight in (0.1, 1e-9, 1.0):
        got = NeighborMembership()(X, y, np.full(len(y), weight))
        np.testing.assert_allclose(got, NeighborMembership()(X, y), rtol=1e-12)


def test_entropy_at_the_edge_of_a_part_is_in_the_upper_one():
    # ln 2 lies half way between 0 and ln 4, wherever rounding puts it
    X = np.repeat([0.0, 100.0, 200.0], [3, 2, 4])[:, None]
    y = np.array([0, 0, 0, 0, 1, 0, 1, 2, 3])
    s = np.array([5.0, 5, 5, 3, 3, 2, 2, 2, 2])
    mu = EntropyMembership(k=500, bins=2, beta=0.5)  # every row is a neighbour
    assert len(set(mu(X, y, s)[y == 0])) == 1
    for k in (5, 7):
        mu = EntropyMembership(k=k, bins=2, beta=0.5)(X, y, s)
        np.testing.assert_array_equal(mu[:3], 1.0)
        np.testing.assert_array_equal(mu[[3, 5]], 0.5)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_distinct_rows(form):
    X, _, _ = make(levels=2)
    X[::7] += 1e-17  # equal to them by any projection, but not equal
    X[::7, 0] = np.where(X[::7, 0] == 0, 1e-300, X[::7, 0])
    first, spot = distinct_rows(form(X))
    np.testing.assert_array_equal(X[first][spot], X)
    assert len(first) <= 2 * len(np.unique(X, axis=0))
    assert len(distinct_rows(form(np.zeros((9, 2))))[0]) <= 2


def test_blocks_do_not_matter(monkeypatch):
    X, y, s = make(n=200, d=5, levels=3)
    expected = [way(X, y, s) for way in WAYS.values()]
    assert GATHERED_NUMBERS > 1000
    monkeypatch.setattr("fuzzytwin.memberships._neighbor_search.GATHERED_NUMBERS", 100)
    for way, degrees in zip(WAYS.values(), expected, strict=True):
        np.testing.assert_array_equal(way(X, y, s), degrees)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_intuitionistic_at_the_very_reach(form):
    # class 0 has its centre at (0, 0) and r = 10: the reach of 5 is the distance of many rows
    corners = np.array([[6, 8], [-6, 8], [6, -8], [-6, -8], [5, 0], [-5, 0]], dtype=float)
    rivals = np.array([[a, b] for a in range(-9, 10, 3) for b in range(-8, 9, 4)], dtype=float)
    X = np.concatenate([corners, rivals])
    y = np.repeat([0, 1], [len(corners), len(rivals)])
    square = ((X[:, None] - X) ** 2).sum(axis=2)
    near = square[:6] <= 25
    assert (square[:6] == 25).any()
    rho = (near & (y == 1)).sum(axis=1) / near.sum(axis=1)
    mu = 1 - np.sqrt((corners**2).sum(axis=1)) / (10 * (1 + 1e-6))
    nu = (1 - mu) * rho
    expected = np.where(mu <= nu, 1e-6, (1 - nu) / (2 - mu - nu))
    for shift in (0.0, 1 / 3, 1e4 / 7):
        for scale in (1.0, 0.1, 1e7 / 3):
            got = IntuitionisticMembership()(form((X + shift) * scale), y)
            np.testing.assert_allclose(got[:6], expected, rtol=1e-9)
