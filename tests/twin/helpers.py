"""Memberships and comparisons for the tests of FuzzyTwinSVC."""

import numpy as np
from numpy.testing import assert_allclose
from scipy import sparse

NAMES = ("center", "hyperplane", "neighbor", "entropy", "intuitionistic")


class FirstColumn:
    """A membership of the user's own. (A function's repr would differ between xdist workers.)"""

    def __call__(self, X, y, sample_weight):
        column = X[:, [0]].toarray()[:, 0] if sparse.issparse(X) else X[:, 0]
        return 1 / (1 + np.abs(column))

    def __repr__(self):
        return "FirstColumn()"


PLANES = ("crisp", "fuzzy")
WAYS = (None, *NAMES, FirstColumn())


def assert_same_model(one, other, rtol=1e-9, atol=1e-10):
    for name in ("coef_", "intercept_", "width_coef_", "width_intercept_"):
        assert hasattr(one, name) == hasattr(other, name)
        if hasattr(one, name):
            assert_allclose(getattr(one, name), getattr(other, name), rtol, atol, err_msg=name)
