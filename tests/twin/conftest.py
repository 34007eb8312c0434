"""Rows for the tests of FuzzyTwinSVC."""

import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler


@pytest.fixture
def rows():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture
def pair(rows):
    X, y = rows
    return X[y > 0], y[y > 0] - 1
