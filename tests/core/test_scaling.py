"""Limits of columns: values far off, whatever the order of rows and the size of weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from fuzzytwin.core.scaling import FAR, TAIL, clipped, column_limits, tail_quantiles


def limits_of(X, weight=None):
    X = np.asarray(X, dtype=float)
    X = X[:, None] if X.ndim == 1 else X
    weight = np.ones(len(X)) if weight is None else weight
    return column_limits(X, weight, X.min(axis=0), X.max(axis=0))


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(400, 5))


def test_quantiles_are_those_of_a_loop(rows):
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.1, 3.0, size=400)
    lower, upper = tail_quantiles(rows, weight, TAIL)
    for j, column in enumerate(rows.T):
        below = [value for value in column if weight[column <= value].sum() >= TAIL * weight.sum()]
        above = [value for value in column if weight[column >= value].sum() >= TAIL * weight.sum()]
        assert lower[j] == min(below)
        assert upper[j] == max(above)


def test_rows_without_values_far_off_are_within_limits(rows):
    found = limits_of(rows)
    lower, upper = tail_quantiles(rows, np.ones(400), TAIL)
    assert_allclose(found, [lower - FAR * (upper - lower), upper + FAR * (upper - lower)])
    assert clipped(rows, found) is rows


@pytest.mark.parametrize("mark", [-999.0, 1e6, -1e200, 1.7e308])
@pytest.mark.parametrize("share", [0.003, 0.006, 0.02, 0.04])
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
