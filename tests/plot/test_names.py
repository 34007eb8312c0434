"""Names of classes, columns and rows are drawn as they are, whatever they hold."""

import numpy as np
import pandas as pd
import pytest

from fuzzytwin import FuzzyTwinSVC, FuzzyTwinSVCCV
from fuzzytwin.plot import MembershipDisplay, PlanesDisplay, ValidationSurfaceDisplay

pytest.importorskip("matplotlib")

# As formulas, none of these can be drawn.
LABELS = np.array([r"below 10 $ \frac $", r"$\no\such$"])
NAMES = [r"$x_{$", r"cost in $ of $y^^2$"]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.repeat([0, 1], 20)
    return pd.DataFrame(X + y[:, None], columns=NAMES), LABELS[y]


def drawn(display):
    """All texts of a figure, as they are drawn."""
    display.figure_.canvas.draw()
    texts = display.figure_.findobj(lambda artist: hasattr(artist, "_preprocess_math"))
    return "\n".join(text._preprocess_math(text.get_text())[0] for text in texts)


def test_dollars_in_planes(rows):
    X, y = rows
    text = drawn(PlanesDisplay.from_estimator(FuzzyTwinSVC().fit(X, y), X, y, grid_resolution=20))
    for name in (*LABELS, *NAMES):
        assert name in text


def test_dollars_in_memberships(rows):
    X, y = rows
    model = FuzzyTwinSVC().fit(X, y)
    people = np.array([f"$ {number} $" for number in range(40)])
    text = drawn(MembershipDisplay.from_estimator(model, X, y, names=people, n_named=3))
    for name in LABELS:
        assert name in text
    assert text.count("$ ") > 3


def test_dollars_in_a_surface(rows):
    search = FuzzyTwinSVCCV(Cs=[0.5, 1.0], memberships=(None,)).fit(*rows)
    display = ValidationSurfaceDisplay.from_estimator(search)
    text = drawn(display)
    for name in LABELS:
        assert f"C of class {name}" in text
    display.score_name, display.settings = r"$\loss$", r"$\alpha$ $"
    text = drawn(display.plot())
    assert r"mean $\loss$" in text
    assert r"$\alpha$ $" in text
