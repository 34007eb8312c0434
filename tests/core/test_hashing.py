"""Hashes of rows by their content: whatever the order of rows and columns, dense or sparse."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from fuzzytwin.core.hashing import class_ranks, content_keys, content_order


def table(kind, n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "binary":
        return rng.integers(0, 2, size=(n, d)).astype(float)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    X[:, 1] = 3.0  # a constant column
    return X


@pytest.mark.parametrize("kind", ["numbers", "binary"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_keys_follow_the_rows_in_any_order_of_rows_and_columns(kind, form):
    X = table(kind)
    keys = content_keys(X)
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    assert_array_equal(content_keys(form(X[rows][:, columns])), keys[rows])
    assert len(np.unique(keys)) == len(np.unique(X, axis=0))


def test_constant_columns_stored_zeros_and_precision_do_not_count():
    X = table("numbers").astype(np.float32)
    keys = content_keys(X)
    stored = sparse.csr_array(np.where(X == 0, 7.0, X))
    stored.data[stored.data == 7.0] = 0.0
    for same in (X.astype(float), np.delete(X, 1, axis=1), np.where(X == 0, -0.0, X), stored):
        assert_array_equal(content_keys(same), keys)


def test_blocks_change_nothing(monkeypatch):
    X = table("numbers", n=700)
    whole = content_keys(X), content_keys(sparse.csr_array(X))
    monkeypatch.setattr("fuzzytwin.core.hashing.BLOCK_NUMBERS", 1)
    assert_array_equal(content_keys(X), whole[0])
    assert_array_equal(content_keys(sparse.csr_array(X)), whole[1])


def test_duplicates_are_ordered_by_weight():
    X = np.repeat(table("numbers", n=10), 3, axis=0)
    s = np.tile([2.0, 1.0, 3.0], 10)
    assert_array_equal(s[content_order(X, s)].reshape(10, 3), np.tile([1.0, 2.0, 3.0], (10, 1)))


def test_names_of_classes_change_no_rank():
    X = table("numbers")
    codes = np.arange(60) % 3
    renamed = np.array([2, 0, 1])[codes]
    keys = content_keys(X)
    assert_array_equal(class_ranks(keys, renamed)[renamed], class_ranks(keys, codes)[codes])


def test_rows_of_a_symmetric_table_are_told_apart():
    X = np.array([[i, j] for i in range(4) for j in range(4)], dtype=float)
    keys = content_keys(X)
    assert len(np.unique(keys)) == 16
    order = np.random.default_rng(0).permutation(16)
    assert_array_equal(content_keys(X[order]), keys[order])
    assert_array_equal(content_keys(sparse.csr_array(X)), keys)
