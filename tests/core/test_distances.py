"""Distances and memberships by hand (eq29, Definition 1 with the width that was meant)."""

import numpy as np
import pytest
from scipy import sparse

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.core import blocks as _blocks
from fuzzytwin.core import distances as ds
from fuzzytwin.core.distances import labels_of, nearest_labels, second_is_nearer
from tests.pairs import every_pair

# Both wide and narrow widths for both planes: the four cases of eq29.
CASES = [
    ((3.0, 1.0), (5.0, 2.0), 1 - (3 + 1) / (3 + 1 + 5 + 2)),
    ((1.0, 3.0), (5.0, 2.0), 1 - 1 / (1 + 5 + 2)),
    ((3.0, 1.0), (2.0, 5.0), 1 - (3 + 1) / (3 + 1 + 2)),
    ((1.0, 3.0), (2.0, 5.0), 1 - 1 / (1 + 2)),
    ((2.0, 2.0), (1.0, 0.0), 1 - (2 + 2) / (2 + 2 + 1)),  # delta = gamma is the first case
]


@pytest.mark.parametrize(("first", "second", "expected"), CASES)
def test_the_four_cases_of_eq29(first, second, expected):
    delta, gamma = np.array([first, second]).T[:, None, :]
    u = ds.memberships_of(ds.effective_distances(delta, gamma).T, 2).T
    np.testing.assert_allclose(u, [[expected, 1 - expected]], rtol=1e-15)


@pytest.mark.parametrize(
    ("a", "expected"),
    [
        ([1.0, 3.0], [0.75, 0.25]),
        ([0.0, 2.0], [1, 0]),
        ([0.0, 0.0], [0.5, 0.5]),
        ([np.inf, 2.0], [0, 1]),
        ([np.inf, np.inf], [0.5, 0.5]),
        ([1e-300, 3e-300], [0.75, 0.25]),
        ([1e300, 1e-300], [0, 1]),
        ([5e-324, 1e308], [1, 0]),
    ],
)
def test_memberships_of_any_distances(a, expected):
    np.testing.assert_allclose(ds.memberships_of(np.array(a), 2), expected, atol=1e-300)


def test_crisp_planes_have_no_width():
    f, norms = np.array([[3.0, -4.0]]), np.array([2.0, 0.5])
    delta, gamma = ds.fuzzy_distances(f, None, norms)
    np.testing.assert_array_equal(delta, [[1.5, 8.0]])
    np.testing.assert_array_equal(gamma, [[0.0, 0.0]])
    np.testing.assert_array_equal(ds.effective_distances(delta, gamma), delta)


def test_planes_without_direction():
    f = np.array([[2.0, 0.0], [-2.0, 3.0]])
    delta, _ = ds.fuzzy_distances(f, None, np.array([0.0, 2.0]))
    np.testing.assert_array_equal(delta, [[np.inf, 0.0], [np.inf, 1.5]])
    delta, _ = ds.fuzzy_distances(0 * f, None, np.array([0.0, 2.0]))
    np.testing.assert_array_equal(delta, 0)
    # where no plane has one, f itself is left
    np.testing.assert_array_equal(ds.fuzzy_distances(f, f, np.zeros(2)), [np.abs(f)] * 2)


@every_pair(
    form=[np.asarray, sparse.csr_array],
    dtype=[np.float32, np.float64],
    absolute=[False, True],
    rows=[None, 3],
)
def test_values_of_planes(form, dtype, absolute, rows, monkeypatch):
    if rows:
        monkeypatch.setattr(_blocks, "MIN_ROWS", rows)
        monkeypatch.setattr(_blocks, "BLOCK_NUMBERS", 1)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4)).astype(dtype)
    coef, intercept = rng.normal(size=(3, 4)), rng.normal(size=3)
    got = ds.plane_values(form(X), coef, intercept, absolute=absolute)
    Z = (np.abs(X) if absolute else X).astype(float).tolist()
    expected = [
        [sum(x * w for x, w in zip(row, c, strict=True)) + b for c, b in zip(coef, intercept)]  # noqa: B905
        for row in Z
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_norms_and_ratios_neither_overflow_nor_vanish(size):
    coef = size * np.array([[3.0, 4.0], [0.0, 0.0]])
    norms = ds.plane_norms(coef)
    np.testing.assert_allclose(norms, [5 * size, 0], rtol=1e-15)
    delta, _ = ds.fuzzy_distances(size * np.array([[10.0, 0.0]]), None, norms)
    np.testing.assert_allclose(delta, [[2.0, 0.0]], rtol=1e-15)
    # too far to be told from infinitely far, without a warning
    delta, _ = ds.fuzzy_distances(np.array([[1e300, 0.0]]), None, 1e-300 * np.ones(2))
    np.testing.assert_array_equal(delta, [[np.inf, 0.0]])


@every_pair(rule=["distance", "residual"], planes=["crisp", "fuzzy"])
def test_from_rows_to_labels_by_loops(planes, rule):
    rng = np.random.default_rng(3)
    y = rng.integers(2, size=120)
    X = rng.normal(size=(120, 3)) + rng.normal(size=(2, 3))[y]
    model = FuzzyTwinSVC(planes=planes, rule=rule, margin_width=0.8).fit(X, y)
    delta, gamma = model.fuzzy_distance(X)
    u = model.predict_membership(X)
    for i in range(0, 120, 7):
        a = []
        for k in range(2):
            length = np.sqrt(sum(w * w for w in model.coef_[k]))
            f = abs(X[i] @ model.coef_[k] + model.intercept_[k])
            g = 0.0
            if planes == "fuzzy":  # Definition 1 with |x|, with d, without w
                g = abs(X[i]) @ model.width_coef_[k] + model.width_intercept_[k]
            assert delta[i, k] == pytest.approx(f / length)
            assert gamma[i, k] == pytest.approx(g / length)
            size = length if rule == "distance" else 1.0
            a.append((f + g if f >= g else f) / size)
        expected = (1 / np.array(a)) / sum(1 / one for one in a)
        np.testing.assert_allclose(u[i], expected, rtol=1e-9)
        assert model.predict(X[i : i + 1])[0] == np.argmin(a)
    if planes == "fuzzy":
        assert (delta < gamma).any()  # both branches are met
        assert (delta > gamma).any()
    score = model.decision_function(X)
    np.testing.assert_array_equal(score, u[:, 1] - u[:, 0])


def test_of_equal_scores_and_distances_the_first_class_wins():
    scores = np.array([[0.2, 0.4, 0.4], [0.5, 0.5, 0.0]])
    assert labels_of(scores).tolist() == labels_of(scores.T, axis=0).tolist() == [1, 0]
    a = np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]])
    assert nearest_labels(a, 2).tolist() == [0, 0, 1]
    assert second_is_nearer(*a).tolist() == [False, False, True]
