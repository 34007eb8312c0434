"""Planes of pairs in the space of their rows are those that moments give."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fuzzytwin.core.moments import ClassMoments
from fuzzytwin.core.pair_rows import WeighedRows, most_pair_rows, pair_grid
from fuzzytwin.core.planes import crisp_grid

CS, ALPHAS = np.array([0.25, 1.0, 8.0]), np.array([1e-4, 1.0, 100.0])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("degrees", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_same_planes_as_from_moments(weighted, degrees, shift):
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.repeat(np.arange(4), [7, 5, 6, 2]))
    Z = rng.normal(size=(20, 30)) + codes[:, None] + shift
    own = rng.integers(0, 3, 20) + (np.arange(20) > 15) if weighted else np.ones(20)
    own = 1e6 * own + 1e-300  # every class has some weight
    slack = own * rng.random(20) if degrees else own
    found = pair_grid(WeighedRows(Z, codes, own, slack), 4, CS, 1e6 * ALPHAS)
    moments = [ClassMoments.from_rows(Z, codes, v, n_classes=4) for v in (own, slack)]
    moments = moments if degrees else [moments[0], moments[0]]
    expected = crisp_grid(*moments, CS, 1e6 * ALPHAS, multi_class="ovo")
    for mine, theirs in zip(found, expected, strict=True):
        assert_allclose(mine, theirs, rtol=1e-7, atol=1e-7 * np.abs(theirs).max())


def test_a_ridge_too_small_is_left_to_moments():
    Z, codes = np.random.default_rng(0).normal(size=(9, 20)), np.arange(9) % 3
    rows = WeighedRows(Z, codes, np.ones(9), np.ones(9))
    assert pair_grid(rows, 3, CS, np.array([0.0, 1.0])) is None
    assert pair_grid(rows, 3, CS, np.array([1e-16, 1.0])) is None


def test_rows_of_the_two_largest_classes():
    assert most_pair_rows(np.array([0, 1, 1, 2, 2, 2]), 4) == 5
