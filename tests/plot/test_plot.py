"""Displays: what they hold, and that drawing it raises no warning."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV, ProximalSVC
from fuzzytwin.plot import PlanesDisplay


@pytest.fixture
def plt():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


@pytest.fixture
def rows():
    X, y = load_iris(return_X_y=True)
    return X[:, 2:], y


@pytest.fixture
def pair(rows):
    X, y = rows
    return X[y > 0], np.array(["no", "yes"])[y[y > 0] - 1]


@pytest.fixture(params=["pair", "rows"])
def either(request):
    return request.getfixturevalue(request.param)


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_planes_of_machines_that_have_none(pair):
    X, y = pair
    for model in (ProximalSVC(), make_pipeline(StandardScaler(), SVC())):
        with pytest.raises(TypeError, match=r"no plane for each class; give a FuzzyTwinSVC"):
            PlanesDisplay.from_estimator(model.fit(X, y), X, y)


@pytest.mark.parametrize("planes", ["crisp", "fuzzy"])
def test_planes(plt, either, planes):
    X, y = either
    model = FuzzyTwinSVC(planes=planes, alpha=0.1).fit(X, y)
    display = PlanesDisplay.from_estimator(model, X, y, grid_resolution=20)
    n = len(model.coef_)
    assert n == len(model.classes_) * (len(model.classes_) - 1)
    assert display.figure_ is display.ax_.figure
    assert display.centers.shape == display.widths.shape == (n, 20, 20)
    at = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    assert_array_equal(model.classes_[display.winner.ravel()], model.predict(at))
    delta, gamma = model.fuzzy_distance(at)
    norms = np.linalg.norm(model.coef_, axis=1)
    assert_allclose(np.abs(display.centers.reshape(n, -1).T), delta * norms, atol=1e-12)
    assert_allclose(display.widths.reshape(n, -1).T, gamma * norms, atol=1e-12)
    assert (display.widths > 0).any() == (planes == "fuzzy")
    assert texts(display.ax_) == [f"class {label}" for label in model.classes_]
    assert len(display.ax_.images) == (n if planes == "fuzzy" else 0)
    low, high = display.ax_.get_xlim()
    assert low < X[:, 0].min() < X[:, 0].max() < high
    display.figure_.canvas.draw()


def test_planes_of_a_pipeline_are_drawn_on_its_own_columns(plt, pair):
    X, y = pair
    pipe = make_pipeline(StandardScaler(), FuzzyTwinSVC(planes="fuzzy")).fit(X, y)
    display = PlanesDisplay.from_estimator(pipe, X, y, grid_resolution=15)
    at = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    assert_array_equal(pipe.classes_[display.winner.ravel()], pipe.predict(at))
    assert display.xx0.min() < X[:, 0].min()


def test_planes_of_a_search_are_those_of_its_best_estimator(plt, pair):
    X, y = pair
    search = FuzzyTwinSVCCV(Cs=[1.0, 4.0], alphas=[1.0], memberships=(None,), cv=3).fit(X, y)
    one, other = (
        PlanesDisplay.from_estimator(model, X, y, grid_resolution=15)
        for model in (search, search.best_estimator_)
    )
    assert_array_equal(one.centers, other.centers)


@pytest.mark.parametrize("piped", [False, True])
def test_names_of_columns_become_names_of_axes(plt, pair, piped):
    X, y = pair
    frame = pd.DataFrame(X, columns=["length", "width"])
    model = FuzzyTwinSVC()
    model = make_pipeline(StandardScaler(), model) if piped else model
    display = PlanesDisplay.from_estimator(model.fit(frame, y), frame, y, grid_resolution=10)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("length", "width")


def test_samples_without_labels_and_with_degrees(plt, pair):
    X, y = pair
    model = FuzzyTwinSVC().fit(X, y)
    grey = PlanesDisplay.from_estimator(model, X, grid_resolution=10)
    assert grey.y is None
    assert_array_equal(grey.degrees, np.ones(len(X)))
    degrees = np.linspace(0, 1, len(X))
    for labels in (None, y):
        display = PlanesDisplay.from_estimator(
            model, X, labels, degrees=degrees, grid_resolution=10
        )
        sizes = np.concatenate(
            [c.get_sizes() for c in display.ax_.collections if len(c.get_offsets()) > 1]
        )
        assert_allclose(np.sort(sizes), np.sort(4 + 40 * degrees))


def test_planes_on_a_given_ax(plt, pair):
    X, y = pair
    _, ax = plt.subplots()
    display = PlanesDisplay.from_estimator(FuzzyTwinSVC().fit(X, y), X, y, ax=ax)
    assert display.ax_ is ax
    assert len(plt.get_fignums()) == 1
    again = display.plot()
    assert again is display
    assert display.ax_ is not ax


def test_planes_that_cannot_be_drawn(rows):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"n_features_in_=4, .*X\[:, \[i, j\]\]"):
        PlanesDisplay.from_estimator(FuzzyTwinSVC().fit(X, y), X, y)
    with pytest.raises(ValueError, match="n_features_in_=1, but"):
        PlanesDisplay.from_estimator(FuzzyTwinSVC().fit(X[:, :1], y), X[:, :1], y)
    with pytest.raises(NotFittedError):
        PlanesDisplay.from_estimator(FuzzyTwinSVC(), *rows)
