"""Scales of tables: as StandardScaler if no value is far off, else by the scale of the others."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.tables import TablePreprocessor
from fuzzytwin.tables._numeric import scales


def test_columns_without_values_far_off_are_scaled_as_by_standard_scaler():
    X = np.random.default_rng(0).normal(size=(300, 4)) * [1, 10, 1e6, 1e-6]
    learned, wanted = scales(X, 4), StandardScaler().fit(np.sort(X, axis=0))
    assert_array_equal(learned["center"], wanted.mean_)
    assert_array_equal(learned["scale"], wanted.scale_)
    assert (learned["low"] <= X).all()
    assert (learned["high"] >= X).all()


def test_a_few_values_far_off_leave_the_scale_of_a_column_as_it_was():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    marked = X.copy()
    marked[:3, 0] = -999.0
    marked[3:6, 1] = 1e200
    plain, robust = scales(X[6:], 2), scales(marked, 2)
    assert_allclose(robust["scale"], plain["scale"], rtol=0.05)
    assert_allclose(robust["center"], plain["center"], atol=0.05)
    frame = pd.DataFrame(marked, columns=["a", "b"])
    with pytest.warns(UserWarning, match="far from all other numbers") as warned:
        found = TablePreprocessor().fit_transform(frame)
    assert len(warned) == 2  # one for each column
    assert np.abs(found).max() < 5


def test_a_mark_for_missing_values_does_not_ruin_planes_behind_a_preprocessor():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3)).round(6)
    y = (X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=600) > 0).astype(int)
    train = pd.DataFrame(X[:300], columns=list("abc"))
    new = pd.DataFrame(X[300:], columns=list("abc"))
    marked = train.copy()
    marked.loc[rng.choice(300, 2, replace=False), "a"] = -9999.0
    model = make_pipeline(TablePreprocessor(), FuzzyTwinSVC(kernel="rbf", alpha="auto"))
    clean = model.fit(train, y[:300]).score(new, y[300:])
    model.fit(marked, y[:300])
    assert model.score(new, y[300:]) > clean - 0.02
