"""MembershipDisplay computes the right degrees and names the right samples."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.plot import MembershipDisplay
from fuzzytwin.plot._memberships import _push_apart

X, y = load_iris(return_X_y=True)
LABELS = np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_degrees_are_the_membership_in_the_own_label():
    model = make_pipeline(StandardScaler(), FuzzyTwinSVC()).fit(X, LABELS)
    display = MembershipDisplay.from_estimator(model, X, LABELS, n_named=7)
    np.testing.assert_array_equal(display.degrees, model.predict_proba(X)[np.arange(150), y])
    assert len(display.lowest) == 7
    rest = np.delete(display.degrees, display.lowest)
    assert display.degrees[display.lowest].max() <= rest.min()
    assert (np.diff(display.degrees[display.lowest]) >= 0).all()


def test_names_come_from_the_frame_or_are_given():
    frame = pd.DataFrame(X, index=[f"flower {i}" for i in range(150)])
    model = FuzzyTwinSVC().fit(frame.to_numpy(), y)
    display = MembershipDisplay.from_estimator(model, X, y, names=frame.index)
    drawn = {text.get_text() for text in display.ax_.texts}
    assert drawn == {f"flower {i}" for i in display.lowest}
    display = MembershipDisplay.from_estimator(
        make_pipeline(StandardScaler(), FuzzyTwinSVC()).fit(frame, y), frame, y
    )
    assert {text.get_text() for text in display.ax_.texts} == {
        f"flower {i}" for i in display.lowest
    }


def test_given_degrees_other_models_and_axes():
    _, ax = plt.subplots()
    model = LogisticRegression(max_iter=1000).fit(X, y)
    display = MembershipDisplay.from_estimator(model, X, y, degrees=np.linspace(0, 1, 150), ax=ax)
    assert display.ax_ is ax
    np.testing.assert_array_equal(display.lowest, np.arange(5))
    assert MembershipDisplay.from_estimator(model, X, y, n_named=0).ax_.texts[:] == []


def test_a_label_that_the_model_does_not_know():
    model = FuzzyTwinSVC().fit(X, y)
    with pytest.raises(ValueError, match="y holds 7"):
        MembershipDisplay.from_estimator(model, X, np.where(y == 2, 7, y))


@pytest.mark.parametrize("places", [[], [0.5], [0.1, 0.1, 0.1], [0.95, 0.96, 0.97, 1.0]])
def test_names_do_not_cover_each_other(places):
    out = _push_apart(places)
    assert (np.diff(out) >= 0.08 - 1e-12).all()
    assert all(place <= 1 for place in out)
