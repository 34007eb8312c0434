"""Warnings point at the line of the user's code, whoever calls in between."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin._utils.notices import warn_user

X = np.repeat(np.random.default_rng(0).normal(size=(150, 3)), 2, axis=0)
y = (X[:, 0] > 0).astype(int)


def by_itself(model):
    model.fit(X, y)


def in_a_pipeline(model):
    make_pipeline(FunctionTransformer(), model).fit(X, y)


def in_cross_validation(model):
    cross_validate(model, X, y, cv=2)


@pytest.mark.parametrize("call", [by_itself, in_a_pipeline, in_cross_validation])
def test_the_line_is_that_of_the_caller(call):
    with pytest.warns(UserWarning, match="equal another row") as caught:
        call(FuzzyTwinSVC(calibration="loo"))
    assert {warning.filename for warning in caught} == {__file__}


def test_category_and_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_user("text", FutureWarning)
    assert caught[0].category is FutureWarning
    assert caught[0].filename == __file__
