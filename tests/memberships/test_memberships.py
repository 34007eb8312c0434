"""Each membership recomputed by plain loops, and what all of them promise."""

import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.memberships import (
    MEMBERSHIPS,
    CenterMembership,
    EntropyMembership,
    HyperplaneMembership,
    IntuitionisticMembership,
    NeighborMembership,
)

WAYS = {
    "center": CenterMembership(),
    "exponential": CenterMembership(decay="exponential", beta=0.7),
    "relative": HyperplaneMembership(),
    "plane distance": HyperplaneMembership(kind="distance", C=2.0, alpha=0.1),
    "neighbor": NeighborMembership(k=7),
    "entropy": EntropyMembership(k=7, bins=4, beta=0.2),
    "intuitionistic": IntuitionisticMembership(),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def make(n=90, d=3, K=3, seed=0):
    """Overlapping classes of different sizes, with weights of 1, 2 and 3."""
    rng = np.random.default_rng(seed)
    y = rng.choice(K, size=n, p=np.arange(1, K + 1) / (K * (K + 1) / 2))
    X = rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(K, d))[y]
    return X, y, rng.integers(1, 4, size=n).astype(float)


def center_by_loops(X, y, s, decay, beta, eps):
    d = np.empty(len(X))
    for k in set(y):
        mean = sum(w * x for w, x in zip(s[y == k], X[y == k], strict=True)) / s[y == k].sum()
        for i in np.flatnonzero(y == k):
            d[i] = math.dist(X[i], mean)
    if decay == "exponential":
        return np.array([2 / (1 + math.exp(beta * one)) for one in d])
    return np.array([1 - d[i] / (d[y == y[i]].max() * (1 + eps)) for i in range(len(X))])


@pytest.mark.parametrize("decay", ["linear", "exponential"])
def test_center(decay):
    X, y, s = make()
    got = CenterMembership(decay=decay, beta=0.7, eps=1e-3)(X, y, s)
    np.testing.assert_allclose(got, center_by_loops(X, y, s, decay, 0.7, 1e-3), rtol=1e-9)


@pytest.mark.parametrize("kind", ["relative", "distance"])
@pytest.mark.parametrize("K", [2, 3])
def test_hyperplane(kind, K):
    X, y, s = make(K=K)
    got = HyperplaneMembership(kind=kind, C=2.0, alpha=0.5, eps=1e-3)(X, y, s)
    model = FuzzyTwinSVC(C=2.0, alpha=0.5).fit(X, y, s)
    u = model.predict_membership(X)
    delta, _ = model.fuzzy_distance(X)
    own_planes = [np.flatnonzero(model.plane_classes_[:, 0] == k) for k in range(K)]
    distance = np.array([row[own_planes[k]].mean() for row, k in zip(delta, y, strict=True)])
    for i in range(len(X)):
        own = distance[i]
        if kind == "relative":
            expected = max(u[i, y[i]], 1e-3)
            if K == 2:
                assert expected == pytest.approx(delta[i, 1 - y[i]] / delta[i].sum(), rel=1e-9)
        else:
            expected = 1 - own / (distance[y == y[i]].max() * (1 + 1e-3))
        assert got[i] == pytest.approx(expected, rel=1e-9)


def test_a_plane_without_direction_favours_none_of_its_samples():
    X = np.array([[-2.0], [-0.5], [0.5], [2.0], [9.0], [10.0]])
    y = np.array([0, 1, 1, 0, 2, 2])  # the means of the first two classes are equal: w = 0
    mu = HyperplaneMembership(kind="distance", alpha=1.0)(X, y)
    apart = HyperplaneMembership(kind="distance", alpha=1.0)(X[y != 1], y[y != 1])
    np.testing.assert_allclose(mu[y == 0], apart[:2], rtol=1e-9)
    assert (mu[[1, 4]] < mu[[0, 5]]).all()


def shares_by_loops(X, y, s, k):
    """Label shares among the k nearest and the sample itself, weights as repetitions."""
    K = y.max() + 1
    table = np.zeros((len(X), K))
    for i in range(len(X)):
        near = sorted(range(len(X)), key=lambda j: (j != i, math.dist(X[i], X[j])))
        labels = [y[j] for j in near for _ in range(int(s[j]))][: k + 1]
        table[i] = np.bincount(labels, minlength=K) / len(labels)
    return table


@pytest.mark.parametrize("k", [1, 6, 500])
@pytest.mark.parametrize("d", [2, 20])  # scikit-learn searches by a tree, or by dot products
def test_neighbor(k, d):
    X, y, s = make(d=d)
    got = NeighborMembership(k=k)(X, y, s)
    expected = shares_by_loops(X, y, s, k)[np.arange(len(y)), y]
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("sizes", ["different", "equal"])
def test_entropy(sizes):
    X, y, s = make()
    if sizes == "equal":
        y, s = np.arange(len(y)) % 3, np.ones(len(y))
    k, bins, beta = 8, 5, 0.2
    got = EntropyMembership(k=k, bins=bins, beta=beta)(X, y, s)
    H = [-sum(p * math.log(p) for p in row if p > 0) for row in shares_by_loops(X, y, s, k)]
    H = np.array(H)
    totals = [s[y == c].sum() for c in range(3)]
    for i in range(len(y)):
        low, high = H[y == y[i]].min(), H[y == y[i]].max()
        part = bins
        while part > 1 and H[i] < low + (part - 1) * (high - low) / bins - 1e-9:
            part -= 1
        smallest = sizes == "different" and totals[y[i]] == min(totals)
        assert got[i] == pytest.approx(1 if smallest else 1 - beta * (part - 1))
    assert len(set(got.round(6))) > 2


def test_entropy_is_not_moved_by_rounding():
    X, y, s = make()
    plain = EntropyMembership()(X, y, s / s)
    np.testing.assert_array_equal(EntropyMembership()(X, y, np.full(len(y), 0.1)), plain)
    # "balanced" weights make classes equal up to rounding: then all are cut
    weight = (1.0 / np.bincount(y))[y]
    balanced = EntropyMembership(k=5)(X, y, weight)
    assert all((balanced[y == k] < 1).any() for k in range(3))


@pytest.mark.parametrize("radius", [0.1, 0.5, 3.0])
def test_intuitionistic(radius):
    X, y, s = make()
    eps = 1e-3
    got = IntuitionisticMembership(radius=radius, eps=eps)(X, y, s)
    mu = center_by_loops(X, y, s, "linear", 0, eps)
    reach = {}
    for k in range(3):
        mean = np.average(X[y == k], axis=0, weights=s[y == k])
        reach[k] = radius * max(math.dist(x, mean) for x in X[y == k])
    met = set()
    for i in range(len(y)):
        near = [j for j in range(len(y)) if math.dist(X[i], X[j]) <= reach[y[i]]]
        rho = sum(s[j] for j in near if y[j] != y[i]) / sum(s[j] for j in near)
        nu = (1 - mu[i]) * rho
        if nu == 0:
            case, expected = "alone", mu[i]
        elif mu[i] <= nu:
            case, expected = "foreign", eps
        else:
            case, expected = "between", (1 - nu) / (2 - mu[i] - nu)
        assert got[i] == pytest.approx(max(expected, eps), rel=1e-8)
        met.add(case)
    assert {"between", "foreign"} <= met or radius == 0.1


@every_way
def test_degrees_lie_above_zero_and_up_to_one(way):
    X, y, s = make()
    for weight in (None, s, np.random.default_rng(0).random(len(y))):
        mu = way(X, y, weight)
        assert mu.shape == y.shape
        assert (mu > 0).all()
        assert (mu <= 1).all()
        assert mu.min() < mu.max()


@every_way
def test_weight_zero_moves_nothing(way):
    X, y, s = make()
    expected = way(X, y, s)
    rng = np.random.default_rng(1)
    far = 100 * rng.normal(size=(30, 3))
    order = rng.permutation(len(y) + 30)
    both = np.concatenate([X, far])[order]
    labels, weight = np.append(y, np.arange(30) % 3)[order], np.append(s, np.zeros(30))[order]
    got = way(both, labels, weight)
    np.testing.assert_allclose(got[order.argsort()][: len(y)], expected, rtol=1e-9)
    assert ((got > 0) & (got <= 1)).all()


@every_way
@pytest.mark.parametrize("imbalance", [False, True])
def test_an_integer_weight_is_a_repetition(way, imbalance):
    X, y, s = make()
    way = clone(way).set_params(imbalance=imbalance)
    again = np.repeat(np.arange(len(y)), s.astype(int))
    np.testing.assert_allclose(way(X[again], y[again]), way(X, y, s)[again], rtol=1e-9)


@every_way
def test_order_of_rows_names_of_labels_and_place_do_not_matter(way):
    X, y, s = make(d=20)
    expected = way(X, y, s)
    order = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_allclose(way(X[order], y[order], s[order]), expected[order], rtol=1e-9)
    names = np.array(["c", "a", "b"])[y]
    np.testing.assert_allclose(way(X, names, s), expected, rtol=1e-9)
    np.testing.assert_allclose(way(X + 1e6, y, s), expected, rtol=1e-6, atol=1e-8)


@every_way
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_rows_give_the_same(way, form):
    X, y, s = make(d=12)  # so many columns that no two rows are alike
    X[np.abs(X) < 0.7] = 0.0
    np.testing.assert_allclose(way(form(X), y, s), way(X, y, s), rtol=1e-7, atol=1e-9)


@every_way
def test_float32_rows_give_the_same(way):
    X, y, s = make()
    X = X.astype(np.float32)
    np.testing.assert_allclose(way(X, y, s), way(X.astype(float), y, s), rtol=1e-6)


@every_way
def test_imbalance_lets_large_classes_count_less(way):
    X, y, s = make()
    total = np.array([s[y == k].sum() for k in range(3)])
    expected = way(X, y, s) * (total.min() / total)[y]
    np.testing.assert_allclose(clone(way).set_params(imbalance=True)(X, y, s), expected)


@every_way
def test_a_class_of_one_sample(way):
    X, y, s = make()
    y = np.where(np.arange(len(y)) == 4, 3, y)
    mu = way(X, y, s)
    assert np.isfinite(mu).all()
    assert ((mu > 0) & (mu <= 1)).all()
    if isinstance(way, CenterMembership):
        assert mu[4] == 1  # it is its own centre


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e9])
@pytest.mark.parametrize("way", [CenterMembership(), IntuitionisticMembership()])
def test_units_do_not_matter_to_linear_decay(way, scale):
    X, y, s = make()
    np.testing.assert_allclose(way(X * scale, y, s), way(X, y, s), rtol=1e-6, atol=1e-9)


def test_flipped_labels_are_found():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 2)) + 5 * y[:, None]
    flipped = np.arange(200) < 20
    y = np.where(flipped, 1 - y, y)
    for name in ("hyperplane", "neighbor", "intuitionistic"):
        mu = MEMBERSHIPS[name]()(X, y)
        assert mu[flipped].max() < np.median(mu[~flipped])


def test_duplicates_at_one_place_leave_room_for_the_sample_itself():
    X = np.zeros((40, 2))
    y = np.arange(40) % 2
    mu = NeighborMembership(k=3)(X, y)
    assert (mu >= 0.25).all()  # itself among 3 + 1, whatever the order of ties


@pytest.mark.parametrize(
    ("way", "name"),
    [
        (CenterMembership(decay="cubic"), "decay"),
        (CenterMembership(beta=0), "beta"),
        (CenterMembership(eps=-1), "eps"),
        (CenterMembership(imbalance="yes"), "imbalance"),
        (HyperplaneMembership(kind="near"), "kind"),
        (HyperplaneMembership(C=0), "C"),
        (HyperplaneMembership(alpha=-0.1), "alpha"),
        (HyperplaneMembership(eps=1), "eps"),
        (NeighborMembership(k=0), "k"),
        (NeighborMembership(k=2.5), "k"),
        (NeighborMembership(k=True), "k"),
        (EntropyMembership(bins=0), "bins"),
        (EntropyMembership(beta=0), "beta"),
        (EntropyMembership(bins=11, beta=0.1), "beta"),
        (IntuitionisticMembership(radius=0), "radius"),
        (IntuitionisticMembership(eps=0), "eps"),
        (CenterMembership(beta=np.nan), "beta"),
    ],
)
def test_parameters_out_of_range_are_named(way, name):
    X, y, _ = make(n=20)
    with pytest.raises(ValueError, match=rf"{type(way).__name__}: {name}="):
        way(X, y)


@pytest.mark.parametrize("name", MEMBERSHIPS)
def test_a_name_in_the_classifier_is_the_default_instance(name):
    X, y, s = make()
    model = FuzzyTwinSVC(membership=name).fit(X, y, s)
    np.testing.assert_allclose(model.membership_, MEMBERSHIPS[name]()(X, y, s), rtol=1e-12)
    same = FuzzyTwinSVC(membership=MEMBERSHIPS[name]()).fit(X, y, s)
    np.testing.assert_array_equal(same.coef_, model.coef_)


@every_way
@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (-1.0, "negative weights are not"),
        (np.nan, "must be finite"),
        (0.0, "zero for every sample"),
        ([1.0, 2.0], r"shape \(2,\)"),
        (["a"] * 90, "does not hold numbers"),
    ],
)
def test_bad_weights_are_refused_by_name(way, weights, match):
    X, y, s = make()
    bad = np.where(np.arange(90) == 7, weights, s) if weights == -1.0 else weights
    with pytest.raises(ValueError, match=f"sample_weight.*{match}"):
        way(X, y, bad)
