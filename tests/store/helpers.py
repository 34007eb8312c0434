"""Rows for the tests of model files."""

import numpy as np
from sklearn.datasets import load_iris

IRIS = load_iris(return_X_y=True)
BINARY = IRIS[0][50:], np.array(["versicolor", "virginica"])[IRIS[1][50:] - 1]
