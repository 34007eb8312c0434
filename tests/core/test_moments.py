"""Moments against direct sums, exact arithmetic, and the algebra that the library rests on."""

import functools
import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.core import blocks as _blocks
from fuzzytwin.core.moments import ClassMoments
from tests.pairs import every_pair


def make(n=400, d=5, K=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)
    return X, rng.integers(K, size=n), rng.random(n) + 0.05


def direct(X, weight):
    """Weight, mean and covariance of one class by the definitions."""
    mean = np.average(X, axis=0, weights=weight)
    return weight.sum(), mean, np.cov(X.T, aweights=weight, ddof=0).reshape(2 * (X.shape[1],))


def of_class(m, k):
    return m.weight[k], m.mean[k], m.covariance[k]


def check(got, expected, rtol=1e-11):
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.abs(other).max())


BLOCKS = [None, 1, 7, 64]


@pytest.fixture(params=BLOCKS)
def block(request, monkeypatch):
    """Rows per class and block: as shipped, and so few that classes miss whole blocks."""
    if request.param is not None:
        for name in ("ROWS_AT_ONCE", "FIRST_ROWS", "MIN_ROWS"):
            monkeypatch.setattr(_blocks, name, request.param)
        monkeypatch.setattr(_blocks, "BLOCK_NUMBERS", 1)
        monkeypatch.setattr(_blocks, "CHUNK_NUMBERS", 25 * request.param)
    return request.param


@every_pair(
    indirect=["block"],
    block=BLOCKS,
    weighted=[False, True],
    absolute=[False, True],
    form=[np.asarray, sparse.csr_array, sparse.csc_array],
)
def test_definition_for_every_block_size_and_form(block, weighted, absolute, form):
    X, y, v = make()
    X[:, 1] *= np.random.default_rng(1).random(len(X)) < 0.1  # nearly empty
    X[:, 2] *= np.random.default_rng(2).random(len(X)) < 0.6  # a little fuller than half
    got = ClassMoments.from_rows(
        form(X), y, v if weighted else None, n_classes=3, absolute=absolute
    )
    Z = np.abs(X) if absolute else X
    for k in range(3):
        weight = v[y == k] if weighted else np.ones((y == k).sum())
        check(of_class(got, k), direct(Z[y == k], weight))
    np.testing.assert_allclose(got.scatter, got.covariance * got.weight[:, None, None])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_table_makes_every_row_a_member_of_every_class(block, form):
    X, _, _ = make()
    table = np.random.default_rng(1).dirichlet(np.ones(3), size=len(X))
    table[::5, 1] = 0.0
    got = ClassMoments.from_rows(form(X), None, table, n_classes=3)
    for k in range(3):
        check(of_class(got, k), direct(X, table[:, k]))


def exact(X, v):
    """Mean and covariance in rational numbers: the mean minus its rounding, too."""
    d = X.shape[1]
    rows, v = [[Fraction(x) for x in row] for row in X.tolist()], [Fraction(w) for w in v.tolist()]
    W = sum(v)
    mean = [sum(w * row[j] for w, row in zip(v, rows, strict=True)) / W for j in range(d)]
    cov = [
        [
            sum(w * (r[i] - mean[i]) * (r[j] - mean[j]) for w, r in zip(v, rows, strict=True)) / W
            for j in range(d)
        ]
        for i in range(d)
    ]
    return mean, np.array(cov, dtype=float)


@every_pair(
    offset=[0.0, 1e6, 1e8, -1e12], form=[np.asarray, sparse.csr_array], weighted=[False, True]
)
def test_far_from_zero_no_digit_is_lost(offset, form, weighted, monkeypatch):
    monkeypatch.setattr(_blocks, "ROWS_AT_ONCE", 20)
    X, _, v = make(n=90, d=3)
    X += [offset, 0, offset / 7]
    v = v if weighted else np.ones(90)
    got = ClassMoments.from_rows(form(X), np.zeros(90, int), v, n_classes=1)
    mean, covariance = exact(X, v)
    np.testing.assert_allclose(got.covariance[0], covariance, rtol=1e-12, atol=1e-12)
    parts = zip(got.origin[0].tolist(), got.offset[0].tolist(), mean, strict=True)
    error = [float(Fraction(origin) + Fraction(rest) - m) for origin, rest, m in parts]
    np.testing.assert_allclose(error, 0, atol=1e-14 * np.sqrt(np.diag(covariance)).max())
    assert got.mean[0, 0] == pytest.approx(math.fsum(v * X[:, 0]) / math.fsum(v), rel=1e-15)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("step", [0.0, 1.0, 1e5])
def test_rows_that_drift_lose_no_digit(step, weighted, monkeypatch):
    """Later blocks are summed about the mean of the first: where it is far off, met again."""
    monkeypatch.setattr(_blocks, "ROWS_AT_ONCE", 20)
    monkeypatch.setattr(_blocks, "FIRST_ROWS", 20)
    monkeypatch.setattr(_blocks, "CHUNK_NUMBERS", 3 * 60)
    read = np.zeros(1)
    monkeypatch.setattr(_blocks.np, "dot", lambda a, b: read.__iadd__(a.ndim == 2) is None or a @ b)
    X, _, v = make(n=120, d=3)
    X[:, 1] += step * np.arange(120)
    X[:, 2] = 1e-3 * X[:, 2] + step * (np.arange(120) > 65)
    v = v if weighted else np.ones(120)
    got = ClassMoments.from_rows(X, np.zeros(120, int), v, n_classes=1)
    mean, covariance = exact(X, v)
    np.testing.assert_allclose(got.covariance[0], covariance, rtol=1e-12)
    np.testing.assert_allclose(got.mean[0], np.array(mean, dtype=float), rtol=1e-13)
    assert (read[0] == 6) == (step == 0)  # three blocks of each chunk


def test_weights_of_any_size_in_any_block(monkeypatch):
    monkeypatch.setattr(_blocks, "ROWS_AT_ONCE", 10)
    X, y, v = make(n=120, K=2)
    for powers in (np.linspace(-300, 300, 120), np.linspace(300, -300, 120)):
        weight = v * 10.0**powers
        got = ClassMoments.from_rows(X, y, weight, n_classes=2)
        for k in range(2):
            heaviest = weight[y == k] / weight[y == k].max()
            W, mean, covariance = direct(X[y == k], heaviest)
            check(of_class(got, k)[1:], (mean, covariance))
            assert got.weight[k] == pytest.approx(W * weight[y == k].max())


@pytest.mark.parametrize("size", [1e10, 1e-5])
@pytest.mark.parametrize("power", [145, 154, 300])
def test_later_rows_may_weigh_far_more(size, power, monkeypatch):
    """Sums in units of earlier weights may overflow: then the rows are met again."""
    monkeypatch.setattr(_blocks, "ROWS_AT_ONCE", 20)
    X = size * make(n=200, d=1)[0]
    weight = np.full(200, 10.0**-power)
    weight[-50:] = 10.0**power
    got = ClassMoments.from_rows(X, np.zeros(200, int), weight, n_classes=1)
    assert got.is_finite
    check(of_class(got, 0), (50 * 10.0**power, X[-50:].mean(axis=0), np.cov(X[-50:].T, ddof=0)))


@pytest.mark.parametrize(("n", "d", "K"), [(6_000, 1_100, 2), (6_000, 200, 60)])
def test_sums_take_little_memory_beside_the_result(n, d, K):
    X = np.random.default_rng(0).normal(size=(n, d))
    codes = np.arange(n) % K
    tracemalloc.start()
    try:
        ClassMoments.from_rows(X, codes, n_classes=K)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    result, block = 8 * K * d * d, 8 * _blocks.ROWS_AT_ONCE * d
    assert peak < result + block + 8 * (_blocks.MAX_SUMS + 4 * d * d) + 2**21


@every_pair(
    indirect=["block"],
    block=BLOCKS,
    value=[0.1, 1 / 3, 1e8 + 0.1, -1e-5, 0.0],
    form=[np.asarray, sparse.csr_array],
    weighted=[False, True],
)
def test_a_constant_column_has_no_variance_at_all(block, value, form, weighted):
    X, y, v = make()
    X[:, 2] = value
    got = ClassMoments.from_rows(form(X), y, v if weighted else None, n_classes=3)
    assert (np.diagonal(got.covariance, axis1=1, axis2=2)[:, 2] == 0).all()
    np.testing.assert_array_equal(got.mean[:, 2], value)
    np.testing.assert_allclose(got.covariance[:, 2], 0, atol=1e-15 * abs(value))


@pytest.mark.parametrize("small", [1e-300, 1e-20, 1e-9])
def test_the_heavier_side_of_a_sum_prevails(small):
    light, heavy = (
        ClassMoments.from_rows(np.array([[x], [x + 2]]), np.zeros(2, int), w, n_classes=1)
        for x, w in ((5.0, np.full(2, small)), (70.0, np.ones(2)))
    )
    for total in (light + heavy, heavy + light):
        assert total.mean[0, 0] == pytest.approx(71, rel=1e-7)
        assert total.covariance[0, 0, 0] == pytest.approx(1, rel=1e-4)


@every_pair(
    indirect=["block"],
    block=BLOCKS,
    bad=[(1e200, 1.0), (np.nan, 0.0), (np.nan, 1.0), (-np.inf, 0.0), (-np.inf, 1.0)],
    form=[np.asarray, sparse.csr_array],
    absolute=[False, True],
)
def test_what_is_not_finite_is_told(block, bad, form, absolute):
    X, y, v = make()
    bad, weight = bad
    X[37, 3] = bad
    v[30:60] = weight  # whole blocks of one class, where blocks are small
    got = ClassMoments.from_rows(form(X), y, v, n_classes=3, absolute=absolute)
    assert not got.is_finite
    with np.errstate(over="ignore", invalid="ignore"):
        assert not (got + ClassMoments.from_rows(X[:9], y[:9], n_classes=3)).is_finite


@functools.cache
def tall():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, 32), dtype=np.float32)
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
def test_a_fit_takes_little_memory_beside_the_rows(planes):
    X, y = tall()
    tracemalloc.start()
    try:
        FuzzyTwinSVC(planes=planes).fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes / 3  # and X in float64 would be twice X
