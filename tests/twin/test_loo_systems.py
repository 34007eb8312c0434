"""Rows of a group left out together, in closed form, against fits without the group."""

from __future__ import annotations

import numpy as np
import pytest

from fuzzytwin.core.distances import plane_norms
from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.planes import crisp_planes
from fuzzytwin.core.weights import RowWeights
from fuzzytwin.twin._loo_systems import LeaveOneOut


def moments(Z, weights, rows=slice(None)):
    """Compute own and slack moments of some rows."""
    codes = None if weights.codes is None else weights.codes[rows]
    own = ClassMoments.from_rows(Z[rows], codes, weights.own[rows], n_classes=weights.n_classes)
    slack = ClassMoments.from_rows(Z[rows], codes, weights.slack[rows], n_classes=weights.n_classes)
    return own, slack


def refits(Z, weights, groups, C, alpha):
    """Fit without each group: values and norms of its rows."""
    f, norms = [], []
    for i in range(len(Z)):
        own, slack = moments(Z, weights, groups != groups[i])
        planes = crisp_planes(own, slack, C, alpha)
        f.append(planes.coef @ Z[i] + planes.intercept)
        norms.append(plane_norms(planes.coef))
    return np.array(f).T, np.array(norms).T


def table(kind, n_classes, rng):
    n, K = 45, n_classes
    codes = np.arange(n) % K
    Z = rng.normal(size=(n, 4)) + rng.normal(size=(K, 4))[codes] + 100.0
    s, mu = rng.uniform(0.2, 3, n), rng.uniform(0.1, 1, n)
    s[3] = 0.0
    if kind == "soft":
        both = s[:, None] * rng.dirichlet(np.ones(K), size=n)
        return Z, RowWeights(None, both, both, K)
    return Z, RowWeights(codes, s, s if kind == "one weight" else s * mu, K)


@pytest.mark.parametrize(
    ("kind", "n_classes", "C", "alpha"),
    [
        ("hard", 2, 0.3, 0.1),
        ("hard", 4, 2.0, 1.0),
        ("one weight", 3, 1.0, 1.0),
        ("soft", 3, 0.5, 1.0),
        ("hard", 2, 1.0, 0.0),
    ],
)
@pytest.mark.parametrize("n_groups", [5, 20])
def test_equals_fits_without_each_group(kind, n_classes, C, alpha, n_groups):
    """Groups of some rows, or of more rows than columns; of one class or of several."""
    rng = np.random.default_rng(n_groups)
    Z, weights = table(kind, n_classes, rng)
    groups = rng.integers(n_groups, size=len(Z)) * 7 - 3
    own, slack = moments(Z, weights)
    slack = own if kind == "one weight" else slack
    Cs = np.full(n_classes, C)
    planes = crisp_planes(own, slack, Cs, alpha)
    model = LeaveOneOut(planes, own, slack, Cs, alpha)
    f, norms = np.empty((2, len(planes.coef), len(Z)))
    for block in model.values(Z, weights, groups=groups):
        f[:, block.index], norms[:, block.index] = block.f, block.norms
    expected = refits(Z, weights, groups, Cs, alpha)
    np.testing.assert_allclose(f, expected[0], atol=1e-9)
    np.testing.assert_allclose(norms, expected[1], rtol=1e-9)


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_groups_of_one_row_take_no_longer_than_rows(kind, monkeypatch):
    rng = np.random.default_rng(1)
    Z, weights = table(kind, 4, rng)
    groups = rng.permutation(len(Z))
    C = np.full(4, 0.7)
    f, norms = refits(Z, weights, groups, C, 0.5)
    own, slack = moments(Z, weights)
    planes = crisp_planes(own, slack, C, 0.5)
    left = LeaveOneOut(planes, own, slack, C, 0.5)
    monkeypatch.delattr("fuzzytwin.core.ridge.LooFactor._leave_groups")
    for block in left.values(Z, weights, groups=groups):
        np.testing.assert_allclose(block.f, f[:, block.index], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(block.norms, norms[:, block.index], rtol=1e-7, atol=1e-9)


def test_only_some_rows_of_groups():
    rng = np.random.default_rng(0)
    Z, weights = table("hard", 2, rng)
    own, slack = moments(Z, weights)
    planes = crisp_planes(own, slack, np.ones(2), 0.1)
    model = LeaveOneOut(planes, own, slack, np.ones(2), 0.1)
    groups, only = rng.integers(9, size=len(Z)), np.array([2, 30, 31])
    (whole,) = model.values(Z, weights, groups=groups)
    (part,) = model.values(Z, weights, groups=groups, only=only)
    assert sorted(part.index.tolist()) == only.tolist()
    place = np.argsort(whole.index)[part.index]
    np.testing.assert_allclose(part.f, whole.f[:, place], rtol=1e-12)


def test_a_group_that_is_all_of_a_class_leaves_planes_without_it():
    rng = np.random.default_rng(0)
    Z, weights = table("hard", 2, rng)
    own, slack = moments(Z, weights)
    planes = crisp_planes(own, slack, np.ones(2), 0.1)
    groups = np.where(weights.codes == 0, -1, np.arange(len(Z)))
    model = LeaveOneOut(planes, own, slack, np.ones(2), 0.1)
    f = np.empty((2, len(Z)))
    for block in model.values(Z, weights, groups=groups):
        f[:, block.index] = block.f
    assert np.isneginf(f[0, weights.codes == 0]).all()
    assert (f[1, weights.codes == 0] == 0).all()
    assert np.isfinite(f[:, weights.codes == 1]).all()


def test_without_a_ridge_a_group_may_leave_directions_open():
    """As many rows as columns in a group: of the planes that remain, the shortest is taken."""
    rng = np.random.default_rng(1)
    Z = np.vstack([rng.normal(size=(12, 2)) @ rng.normal(size=(2, 5)), rng.normal(size=(3, 5))])
    codes = np.arange(15) % 2
    weights = RowWeights(codes, np.ones(15), np.ones(15), 2)
    groups = np.append(np.arange(12), [99, 99, 99])
    own, slack = moments(Z, weights)
    found = np.empty((2, 15))
    planes = crisp_planes(own, slack, np.ones(2), 0.0, isotropic=True)
    model = LeaveOneOut(planes, own, slack, np.ones(2), 0.0, isotropic=True)
    for block in model.values(Z, weights, groups=groups):
        found[:, block.index] = block.f
    rest = groups != 99
    own, slack = moments(Z, weights, rest)
    again = crisp_planes(own, slack, np.ones(2), 0.0, isotropic=True)
    expected = again.coef @ Z[~rest].T + again.intercept[:, None]
    np.testing.assert_allclose(found[:, ~rest], expected, atol=1e-7)
