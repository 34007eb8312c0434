"""Rows for the tests of FuzzyTwinSVCCV."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler


@pytest.fixture
def rows():
    """Three classes, made hard enough that scores differ from point to point."""
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)[::2]
    return X + np.random.default_rng(0).normal(size=X.shape), y[::2]


@pytest.fixture
def pair(rows):
    X, y = rows
    return X[y > 0], np.array(["no", "yes"])[y[y > 0] - 1]


@pytest.fixture(params=["pair", "rows"])
def either(request):
    """Two classes, then three."""
    return request.getfixturevalue(request.param)
