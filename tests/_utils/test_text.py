"""Names of users' files in pictures."""

import pytest
from matplotlib.figure import Figure

from fuzzytwin._utils.text import literal


@pytest.mark.parametrize("name", ["$", "a $ b", "$a$", "$\\frac$", "a\\$b", "$$$", "price_$_{x}$"])
def test_names_are_no_formulas(name):
    figure = Figure()
    text = figure.text(0, 0, literal(name))
    assert text._preprocess_math(literal(name)) == (name, False)
    figure.canvas.draw()
