"""Limits of columns: values far off, whatever the order of rows and the size of weights."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from fuzzytwin.core.scaling import MAX_OUTLIERS, MIN_GAP, TAIL, clipped, column_limits


def limits_of(X, weight=None):
    X = np.asarray(X, dtype=float)
    X = X[:, None] if X.ndim == 1 else X
    weight = np.ones(len(X)) if weight is None else weight
    return column_limits(X, weight, X.min(axis=0), X.max(axis=0))


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(400, 5))


def upper_limit(column, weight):
    """The definition, value by value."""
    total = weight.sum()
    lower = min(v for v in column if weight[column <= v].sum() >= TAIL * total)
    upper = max(v for v in column if weight[column >= v].sum() >= TAIL * total)
    inside = [
        x
        for x, y in pairwise(np.unique(column))
        if lower < upper
        and weight[column >= y].sum() <= MAX_OUTLIERS * total
        and y - x > MIN_GAP * (x - lower)
    ]
    return min(inside) if inside else column.max() + MIN_GAP * (column.max() - lower)


def test_limits_are_those_of_a_loop(rows):
    rng = np.random.default_rng(1)
    X = np.column_stack([rows, np.exp(2 * rows), np.round(rows), rows**3])
    X[rng.random(X.shape) < 0.01] = 300.0
    X[rng.random(X.shape) < 0.01] = -50.0
    weight = rng.uniform(0.1, 3.0, size=400)
    found = limits_of(X, weight)
    assert_allclose(found[1], [upper_limit(column, weight) for column in X.T])
    assert_allclose(-found[0], [upper_limit(-column, weight) for column in X.T])


def test_rows_without_values_far_off_are_within_limits(rows):
    assert clipped(rows, limits_of(rows)) is rows


def test_values_that_thin_out_are_not_far_off():
    rng = np.random.default_rng(0)
    skewed = rng.exponential(size=(2000, 3))
    mostly_zero = np.where(rng.random((2000, 3)) < [0.93, 0.95, 0.97], 0.0, skewed)
    counts = rng.poisson(0.1, size=(2000, 3)).astype(float)
    X = np.column_stack([skewed, mostly_zero, counts])
    assert clipped(X, limits_of(X)) is X


@pytest.mark.parametrize("mark", [-999.0, 1e6, -1e200, 1.7e308])
@pytest.mark.parametrize("share", [0.003, 0.006, 0.02])
def test_values_far_off_are_taken_as_the_nearest_of_the_others(rows, mark, share):
    X = rows.copy()
    marked = np.zeros(400, dtype=bool)
    marked[: max(1, round(share * 400))] = True
    X[marked, 2] = mark
    X[X[:, 3] < 1, 3] = 0.0
    near = clipped(X, limits_of(X))
    others = X[~marked, 2]
    assert_array_equal(near[marked, 2], others.min() if mark < 0 else others.max())
    assert_array_equal(near[~marked], X[~marked])
    assert_array_equal(np.delete(near, 2, axis=1), np.delete(X, 2, axis=1))


def test_limits_do_not_depend_on_order_factors_or_copies(rows):
    rng = np.random.default_rng(2)
    X = rows.copy()
    X[:7, 0] = -999.0
    weight = rng.integers(1, 4, size=400).astype(float)
    found, order = limits_of(X, weight), rng.permutation(400)
    assert_array_equal(limits_of(X[order], weight[order]), found)
    for factor in (3.0, 1 / 3, 1e-200, 1e200):
        assert_array_equal(limits_of(X, factor * weight), found)
    assert_array_equal(limits_of(np.repeat(X, weight.astype(int), axis=0)), found)


def test_limits_of_a_reflected_column_are_reflected(rows):
    X = np.abs(rows)
    X[:3] = 500.0
    assert_array_equal(limits_of(-X), -limits_of(X)[::-1])


def test_columns_of_one_value_nearly_everywhere_are_left_alone():
    X = np.zeros((200, 3))
    X[:4, 0] = 1.0  # a rare category
    X[:9, 1] = np.arange(1.0, 10.0) ** 4
    assert clipped(X, limits_of(X)) is X
    assert_array_equal(limits_of(X)[:, 2], 0.0)


def test_sparse_rows_keep_their_zeros(rows):
    X = np.where(np.random.default_rng(0).random(rows.shape) < 0.5, 0.0, np.abs(rows) + 3.0)
    X[:3, 1] = 999.0
    form = sparse.csr_array(X)
    found = column_limits(form, np.ones(400), X.min(axis=0), X.max(axis=0))
    assert (found[0] <= 0).all()
    assert_allclose(clipped(form, found).toarray(), clipped(X, limits_of(X)))
    assert clipped(form[3:], found).nnz == form[3:].nnz
