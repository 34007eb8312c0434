"""Maps: what is drawn lies where the numbers say."""

import re

import numpy as np
import pytest

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.apps.studio import maps


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(80, 4)) * [5, 3, 1, 0.5] + 2


def test_principal_directions_hold_most_of_the_spread(X):
    axes = maps.Axes.principal(X)
    centered = X - X.mean(axis=0)
    values = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    np.testing.assert_allclose(axes.points.var(axis=0, ddof=1), values[:2])
    assert f"{100 * values[0] / values.sum():.0f} %" in axes.names[0]
    back = axes.rows_at(axes.points) - X.mean(axis=0)
    assert (back**2).sum() == pytest.approx((axes.points**2).sum())
    assert ((centered - back) ** 2).sum() == pytest.approx(79 * values[2:].sum())


def test_one_column_has_a_map_too(X):
    axes = maps.Axes.principal(X[:, :1])
    np.testing.assert_allclose(axes.rows_at(axes.points), X[:, :1])
    assert not axes.points[:, 1].any()


def test_columns_are_shown_as_the_file_has_them(X):
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    axes = maps.Axes.columns(scaled, 2, 0, list("abcd"), X[:, [2, 0]])
    assert axes.names == ("c", "a")
    np.testing.assert_allclose(axes.points, X[:, [2, 0]])
    rows = axes.rows_at(axes.points)
    np.testing.assert_allclose(rows[:, [2, 0]], scaled[:, [2, 0]], atol=1e-12)
    np.testing.assert_allclose(rows[:, [1, 3]], 0, atol=1e-12)


def path_points(d):
    return np.array([pair.split() for pair in re.findall(r"[\d.]+ [\d.]+", d)], dtype=float)


def test_planes_and_bands_are_drawn_where_they_are():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2)) + 4
    y = X @ [1, 0.5] > 6
    model = FuzzyTwinSVC("fuzzy", C=0.5, alpha=0.1).fit(X, y)
    frame = maps.Frame(np.array([2.0, 2.0]), np.array([6.0, 6.0]))
    drawn = maps.planes_svg(model, frame, lambda at: at, "p")

    def values(points):
        unit = points / [maps.WIDTH, maps.HEIGHT]
        f, g = model.plane_values(np.column_stack([2 + 4 * unit[:, 0], 6 - 4 * unit[:, 1]]))
        return f, g

    step = 4 / maps.WIDTH * np.abs(model.coef_).max()  # one pixel
    for p in range(2):
        lines = re.findall(rf'class="plane c{p}" d="([^"]*)"', drawn)
        assert np.abs(values(path_points(lines[0]))[0][:, p]).max() < step
        bands = re.findall(rf'id="p-{p}-10"><path d="([^"]*)"', drawn)
        points = path_points(bands[0])
        inside = ((points > 0.1) & (points < [maps.WIDTH - 0.1, maps.HEIGHT - 0.1])).all(axis=1)
        f, g = values(points[inside])
        assert len(f)
        assert np.abs(f[:, p] + g[:, p]).max() < 2 * step  # the lower edge
    winners = model.predict_membership(frame.grid(maps.GRID)[2]).argmax(axis=1)
    assert drawn.count('class="region') == 2
    assert set(winners) == {0, 1}


def test_a_sample_keeps_rare_classes():
    codes = np.array([0] * 9000 + [1] * 970 + [2] * 30)
    rows = maps.sample(codes)
    assert len(rows) <= maps.MOST_POINTS + 40
    assert (np.bincount(codes[rows]) >= 20).all()
    np.testing.assert_array_equal(maps.sample(codes[:100]), np.arange(100))
    np.testing.assert_array_equal(rows, maps.sample(codes))


def test_points_far_out_are_put_on_the_edge():
    points = np.vstack([np.random.default_rng(0).normal(size=(999, 2)), [[1e6, 0]]])
    frame = maps.Frame.around(points)
    pixels = frame.pixels(points)
    assert (pixels >= 0).all()
    assert (pixels <= [maps.WIDTH, maps.HEIGHT]).all()
    assert np.ptp(pixels[:-1, 0]) > maps.WIDTH / 2
