"""Names of classes, columns and rows are drawn as they are, whatever they hold."""

import numpy as np
import pandas as pd
import pytest

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.plot import PlanesDisplay

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
