"""ColumnScaler: as StandardScaler if no value is far off, else by the scale of the others."""

import numpy as np
import pandas as pd
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.data.scaling import ColumnScaler
from fuzzytwin.tables import TablePreprocessor


def test_columns_without_values_far_off_are_scaled_as_by_standard_scaler():
    X = np.random.default_rng(0).normal(size=(300, 4)) * [1, 10, 1e6, 1e-6]
    assert_array_equal(ColumnScaler().fit_transform(X), StandardScaler().fit_transform(X))
    weight = np.random.default_rng(1).integers(0, 4, size=300)
    found, wanted = ColumnScaler().fit(X, None, weight), StandardScaler().fit(X, None, weight)
    assert_array_equal(found.transform(X), wanted.transform(X))


def test_a_few_values_far_off_leave_the_scale_of_a_column_as_it_was():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    marked = X.copy()
    marked[:3, 0] = -999.0
    marked[3:6, 1] = 1e200
    plain, robust = ColumnScaler().fit(X[6:]), ColumnScaler().fit(marked)
    assert_allclose(robust.scale_, plain.scale_, rtol=0.05)
    assert_allclose(robust.mean_, plain.mean_, atol=0.05)
    found = robust.transform(marked)
    assert np.abs(found).max() < 5
    frame = pd.DataFrame(marked, columns=["a", "b"])
    assert_array_equal(ColumnScaler().fit(frame).transform(frame), found)


def test_a_mark_for_missing_values_does_not_ruin_planes_behind_a_preprocessor():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3)).round(6)
    y = (X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=600) > 0).astype(int)
    train = pd.DataFrame(X[:300], columns=list("abc"))
    new = pd.DataFrame(X[300:], columns=list("abc"))
    marked = train.copy()
    marked.loc[rng.choice(300, 2, replace=False), "a"] = -9999.0
    scores = [
        make_pipeline(TablePreprocessor(), FuzzyTwinSVC(kernel="rbf", alpha="auto"))
        .fit(table, y[:300]).score(new, y[300:])
        for table in (train, marked)
    ]  # fmt: skip
    assert scores[1] > scores[0] - 0.02
