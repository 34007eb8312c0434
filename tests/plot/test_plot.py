"""Displays: what they hold, and that drawing it raises no warning."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fuzzytwin import CenterMembership, FuzzyTwinSVC, FuzzyTwinSVCCV, ProximalSVC
from fuzzytwin.plot import PlanesDisplay, ValidationSurfaceDisplay


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


def search_on(X, y, **changes):
    given = {
        "Cs": [4.0, 0.25, 1.0],
        "alphas": [0.1, 10.0],
        "memberships": (None, CenterMembership()),
        "cv": 3,
    }
    return FuzzyTwinSVCCV(**{**given, **changes}).fit(X, y)


@pytest.mark.parametrize("scoring", [None, "balanced_accuracy"])
def test_surface_of_two_classes(plt, pair, scoring):
    search = search_on(*pair, scoring=scoring)
    display = ValidationSurfaceDisplay.from_estimator(search)
    assert_array_equal(display.Cs, [0.25, 1.0, 4.0])
    assert display.best == search.best_params_["C"]
    for params, score, spread in zip(
        *(search.cv_results_[name] for name in ("params", "mean_test_score", "std_test_score")),
        strict=True,
    ):
        if {**params, "C": 0} == {**search.best_params_, "C": 0}:
            i, j = (list(display.Cs).index(C) for C in params["C"])
            assert display.mean[i, j] == pytest.approx(score)
            assert display.std[i, j] == pytest.approx(spread)
    i, j = (list(display.Cs).index(C) for C in display.best)
    assert display.mean[i, j] == pytest.approx(search.best_score_)
    ax = display.ax_
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("C of class no", "C of class yes")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    (mesh,) = ax.collections
    # Rows of the picture are the C of the second class.
    assert_allclose(mesh.get_array().reshape(3, 3), display.mean.T)
    assert mesh.colorbar.ax.get_ylabel() == f"mean {(scoring or 'accuracy').replace('_', ' ')}"
    assert_allclose(np.ravel(ax.lines[0].get_data()), display.best)
    # Each value of C lies in the middle of its cell.
    edges = mesh.get_coordinates()[0, :, 0]
    assert_allclose(np.sqrt(edges[1:] * edges[:-1]), display.Cs)
    assert "alpha=" in ax.get_title()
    display.figure_.canvas.draw()


def test_line_of_three_classes(plt, rows):
    search = search_on(*rows)
    display = ValidationSurfaceDisplay.from_estimator(search)
    assert display.mean.shape == display.std.shape == (3,)
    assert display.best == (search.best_params_["C"],)
    at = list(display.Cs).index(display.best[0])
    assert display.mean[at] == pytest.approx(search.best_score_)
    ax = display.ax_
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")
    assert_array_equal(ax.lines[0].get_ydata(), display.mean)
    assert texts(ax) == ["one standard deviation", "mean over the splits", "chosen"]
    assert ax.get_ylabel() == "accuracy"
    display.figure_.canvas.draw()


def test_surface_of_one_value(plt, either):
    display = ValidationSurfaceDisplay.from_estimator(search_on(*either, Cs=[2.0]))
    assert display.mean.size == 1
    display.figure_.canvas.draw()


def test_surface_of_a_pipeline_on_a_given_ax(plt, pair):
    X, y = pair
    search = FuzzyTwinSVCCV(Cs=[1.0, 4.0], alphas=[1.0], memberships=(None,), scoring=spread, cv=3)
    _, ax = plt.subplots()
    pipe = make_pipeline(StandardScaler(), search).fit(X, y)
    display = ValidationSurfaceDisplay.from_estimator(pipe, ax=ax)
    assert display.ax_ is ax
    assert display.score_name == "score"
    assert display.plot() is display
    assert display.ax_ is not ax


def spread(estimator, X, y):
    return estimator.score(X, y) ** 2


def test_surface_leaves_out_splits_that_failed(plt, pair):
    X, y = pair
    every = np.arange(len(y))
    splits = [(every[y == "no"], every), (every[::2], every[1::2])]
    with pytest.warns(FitFailedWarning):
        search = search_on(X, y, cv=splits)
    display = ValidationSurfaceDisplay.from_estimator(search)
    assert np.isfinite(display.mean).all()


def test_surfaces_that_cannot_be_drawn(pair):
    with pytest.raises(NotFittedError):
        ValidationSurfaceDisplay.from_estimator(FuzzyTwinSVCCV())
    with pytest.raises(TypeError, match=r"FuzzyTwinSVC; give a fitted FuzzyTwinSVCCV"):
        ValidationSurfaceDisplay.from_estimator(FuzzyTwinSVC().fit(*pair))
