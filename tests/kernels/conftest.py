"""Rows for the tests of kernels."""

import numpy as np
import pytest
from sklearn.datasets import load_iris


@pytest.fixture
def three():
    """Three classes, not too well apart."""
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[::3] + np.random.default_rng(0).normal(scale=0.4, size=X[::3].shape), y[::3]


@pytest.fixture
def two(three):
    X, y = three
    return X[y > 0], np.array(["no", "yes"])[y[y > 0] - 1]


@pytest.fixture(params=["two", "three"])
def either(request):
    return request.getfixturevalue(request.param)
