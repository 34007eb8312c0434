"""The first pass: statistics of chunks add up, samples do not depend on order, outliers."""

import tracemalloc
from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

from fuzzytwin import FuzzyTwinCommittee, find_label_issues
from fuzzytwin._passes import in_memory
from fuzzytwin._rows import validate_chunk, validate_rows
from fuzzytwin.committee._first_pass import (
    feature_sums_pass,
    merge_copies,
    run_first_pass,
    stats_pass,
)
from fuzzytwin.committee._fit import fit_committee
from tests.committee.helpers import FEW, table


def test_parts_add_up_to_one_fit():
    X, y = table()
    s = np.random.default_rng(0).uniform(0.5, 2, 60)
    members = ["linear", ("rbf", {"gamma": 0.2}), ("laplacian", {"gamma": 0.2})]
    model = FuzzyTwinCommittee(members=members, n_landmarks=X[:20])
    whole = model.fit(X, y, sample_weight=s)
    slices = (slice(0, 7), slice(7, 40), slice(40, 60))
    parts = [validate_chunk(X[i], y[i], s[i]) for i in slices]

    def total(function, *shared):
        return reduce(add, (function(*shared, part) for part in parts))

    stats, _ = run_first_pass(total)
    by_label = stats.classes()

    def sum_features(scaler, features):  # of chunks, although the sample holds all rows
        return total(feature_sums_pass, by_label, scaler, features)

    fitted = fit_committee(model, stats, sum_features).attributes
    assert fitted["loo_log_loss_"] == pytest.approx(whole.loo_log_loss_, abs=1e-9)
    for one, other in zip(fitted["members_"], whole.members_, strict=True):
        np.testing.assert_allclose(one.coef, other.coef, atol=1e-9)
        assert one.weight == pytest.approx(other.weight, abs=1e-8)


def test_soft_labels_of_zero_and_one_are_labels():
    X, y = table()
    hard = FuzzyTwinCommittee(members=FEW).fit(X, y)
    soft = FuzzyTwinCommittee(members=FEW).fit(X, y, membership=np.eye(3)[y])
    np.testing.assert_allclose(hard.predict_proba(X), soft.predict_proba(X), atol=1e-10)


def test_degrees_weigh_rows():
    X, y = table()
    mu = np.random.default_rng(3).uniform(0.2, 1, len(y))
    one = FuzzyTwinCommittee(members=FEW).fit(X, y, membership=mu)
    other = FuzzyTwinCommittee(members=FEW).fit(X, y, sample_weight=mu)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-12)


def test_sparse_float32_and_wide_tables():
    X, y = table(80, 6, 2)
    X[np.abs(X) < 0.5] = 0
    dense = FuzzyTwinCommittee(members=FEW).fit(X.astype(np.float32), y)
    assert dense.score(X, y) > 0.8
    thin = FuzzyTwinCommittee(members=FEW).fit(sparse.csr_array(X), y)
    P = thin.predict_proba(sparse.csr_array(X))
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert thin.score(sparse.csr_array(X), y) > 0.8
    wide = np.hstack([X, np.random.default_rng(0).normal(size=(80, 200))])
    model = FuzzyTwinCommittee(members=FEW).fit(wide, y)
    assert model.members_[0].coef.shape == (206, 2)
    assert np.isfinite(model.loo_log_loss_)


@pytest.mark.parametrize(
    "X", [np.ones((20, 3)), np.full((20, 3), 0.1), np.full((20, 3), 1e300)], ids=["1", "0.1", "big"]
)
def test_constant_tables_give_the_shares_of_the_classes(X):
    y = np.arange(20) % 4 > 0
    model = FuzzyTwinCommittee().fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X[:1]), [[0.25, 0.75]], atol=1e-5)


def test_large_columns_and_few_rows():
    X, y = load_iris(return_X_y=True)
    far = np.column_stack([X, 1e8 + np.random.default_rng(0).normal(size=150)])
    assert FuzzyTwinCommittee(members=FEW).fit(far, y).score(far, y) > 0.95
    wide = np.hstack([X, np.random.default_rng(0).normal(size=(150, 300))])
    assert FuzzyTwinCommittee(members=FEW).fit(wide, y).score(wide, y) > 0.9


def test_groups_are_sampled_whole(monkeypatch):
    monkeypatch.setattr("fuzzytwin.committee._first_pass.SAMPLE_ROWS", 100)
    X, y = table(300)
    groups = np.arange(300) // 15
    chunk, _ = merge_copies(validate_rows(FuzzyTwinCommittee(), X, y, groups=groups))
    stats, _ = run_first_pass(in_memory(chunk))
    assert np.unique(stats.sample.groups, return_counts=True)[1].tolist() == [15] * 6


def test_rows_that_repeat_are_sampled_as_often_as_they_occur(monkeypatch):
    """Not all copies of a row or none: else most patterns of a table of categories are lost."""
    monkeypatch.setattr("fuzzytwin.committee._first_pass.SAMPLE_ROWS", 300)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (3000, 4)).astype(float)
    y = (X @ [1.0, -2.0, 3.0, 0.5] + rng.logistic(size=3000) > 1).astype(int)
    stats, _ = run_first_pass(in_memory(validate_rows(FuzzyTwinCommittee(), X, y)))
    counts = [np.unique(part @ [1, 2, 4, 8], return_counts=True)[1] for part in (X, stats.sample.X)]
    assert len(counts[1]) == 16
    assert np.abs(counts[1] / 300 - counts[0] / 3000).max() < 0.04
    model = FuzzyTwinCommittee(members=["linear"], n_landmarks=16, random_state=0)
    order = rng.permutation(3000)
    found = [clone(model).fit(X[i], y[i]).predict_proba(X) for i in (slice(None), order)]
    np.testing.assert_allclose(*found, atol=1e-9)


def marked_table(share=0.006, mark=-999.0):
    """Rows, labels, and rows with a mark for missing values in some cells of a column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=900) > 0).astype(int)
    marked = X.copy()
    marked[rng.random(900) < share, 1] = mark
    return X, y, marked


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(-999.0, marks=pytest.mark.slow),
        pytest.param(1e6, marks=pytest.mark.slow),
        1e200,
    ],
)
def test_a_few_values_far_off_do_not_wreck_the_scaling(mark):
    X, y, marked = marked_table(mark=mark)
    plain = FuzzyTwinCommittee().fit(X[:500], y[:500])
    model = FuzzyTwinCommittee().fit(marked[:500], y[:500])
    np.testing.assert_allclose(model.scale_, plain.scale_, rtol=0.03)
    np.testing.assert_allclose(model.mean_, plain.mean_, atol=0.05)
    losses = [log_loss(y[500:], m.predict_proba(X[500:])) for m in (plain, model)]
    assert losses[1] < losses[0] + 0.02
    np.testing.assert_allclose(log_loss(y[:500], model.loo_proba_), model.loo_log_loss_)


def test_scales_of_rows_with_values_far_off_add_up_over_chunks():
    _, y, marked = marked_table()
    s = np.random.default_rng(1).uniform(0.5, 2.0, size=900)
    order = np.random.default_rng(2).permutation(900)

    def total(function, *shared):
        chunks = [validate_chunk(marked[i], y[i], 3 * s[i]) for i in np.array_split(order, 7)]
        return reduce(add, (function(*shared, chunk) for chunk in chunks))

    stats, _ = run_first_pass(total)
    whole, _ = run_first_pass(in_memory(validate_rows(FuzzyTwinCommittee(), marked, y, s)))
    for one, two in zip(stats.scales, whole.scales, strict=True):
        np.testing.assert_array_equal(one, two)


def test_one_value_far_off_among_many_rows_is_found_outside_of_the_sample(monkeypatch):
    monkeypatch.setattr("fuzzytwin.committee._first_pass.SAMPLE_ROWS", 200)
    X, y, _ = marked_table()
    X[137, 2] = 1e12
    stats, _ = run_first_pass(in_memory(validate_rows(FuzzyTwinCommittee(), X, y)))
    assert stats.sampled
    np.testing.assert_allclose(stats.scales.deviation, 1.0, rtol=0.15)


def test_an_outlier_among_new_rows_changes_no_other_row():
    X, y, _ = marked_table()
    model = FuzzyTwinCommittee().fit(X[:500], y[:500])
    expected = model.predict_proba(X[500:])
    new = X[500:].copy()
    new[3, 1], new[5, 0], new[8] = 1e200, -1.7e308, 1e300
    found = model.predict_proba(new)
    others = np.setdiff1d(np.arange(400), [3, 5, 8])
    np.testing.assert_allclose(found[others], expected[others], atol=1e-12)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_the_first_pass_makes_no_wide_copy_of_narrow_rows(monkeypatch):
    """Rows of float32 are read in blocks; what remains is a sample."""
    monkeypatch.setattr("fuzzytwin.committee._first_pass.SAMPLE_ROWS", 500)
    monkeypatch.setattr("fuzzytwin.committee._first_pass.BLOCK_NUMBERS", 1 << 14)
    X = np.random.default_rng(0).normal(size=(40_000, 64)).astype(np.float32)
    s = np.ones(len(X))
    rows = validate_chunk(X, (X[:, 0] > 0).astype(np.uint8), s)
    tracemalloc.start()
    try:
        stats = stats_pass(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stats.rows.X.dtype == np.float32
    of_rows = 10 * s.nbytes  # weights, shares, keys and their orders
    assert peak < X.nbytes / 2 + of_rows


def sparse_table(n, d=6, seed=0):
    """Counts, mostly zero, a column far from zero, and one of which all is zero but one row."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.7, (n, d)) * rng.uniform(0.5, 20, d)
    X[:, 1] += 3
    X[:, 2] = np.arange(n) == 7
    y = (X[:, 0] / X[:, 0].std() + rng.normal(size=n) > 1).astype(int)
    return X, y


@pytest.mark.parametrize("n", [150, 1700])
@pytest.mark.parametrize("members", [["linear"], ["rbf", "laplacian"]])
def test_sparse_rows_are_scaled_as_dense_ones(n, members):
    X, y = sparse_table(n)
    weight = np.arange(n) % 4
    dense = FuzzyTwinCommittee(members=members).fit(X, y, weight)
    for convert in (sparse.csr_matrix, sparse.coo_array):
        model = FuzzyTwinCommittee(members=members).fit(convert(X), y, weight)
        np.testing.assert_allclose(model.scale_, dense.scale_, rtol=1e-12)
        assert not model.mean_.any()
        P = model.predict_proba(convert(X))
        np.testing.assert_allclose(P, dense.predict_proba(X), atol=1e-6)
        assert model.loo_log_loss_ == pytest.approx(dense.loo_log_loss_, abs=1e-6)


def test_label_issues_of_sparse_rows_are_those_of_dense_ones():
    X, y = sparse_table(200)
    dense, found = find_label_issues(X, y), find_label_issues(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(found.label_quality, dense.label_quality, atol=1e-6)
    np.testing.assert_array_equal(found.is_label_issue, dense.is_label_issue)
