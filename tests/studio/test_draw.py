"""The points of the view Draw, without a page."""

import numpy as np
import pytest

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.apps.studio.draw import MOST_POINTS, Board


@pytest.mark.parametrize("name", ["groups", "outlier", "three", "ring"])
def test_examples_can_be_learned(name):
    board = Board()
    board.example(name)
    X, y, degrees = board.rows()
    assert board.model().score(X, y) > 0.85
    assert (degrees == 1).all()


def test_the_model_is_that_of_the_library():
    board = Board()
    board.example("three")
    board.chosen = next(iter(board.points))
    board.change(board.chosen, degree=0.3)
    board.parameters |= {"rule": "residual", "C": 4.0, "alpha": 0.0}
    X, y, degrees = board.rows()
    expected = FuzzyTwinSVC("fuzzy", C=4.0, alpha=0.0, rule="residual")
    expected.fit(X, y, membership=degrees)
    np.testing.assert_array_equal(board.model().coef_, expected.coef_)


def test_points_stay_on_the_board_and_are_not_too_many():
    board = Board()
    number = board.add(-3, 99, 0)
    assert (board.points[number].x, board.points[number].y) == (0.0, 7.0)
    board.change(number, x=float("nan"), y=2)
    assert board.points[number].y == 2
    with pytest.raises(ValueError, match="two classes"):
        board.model()
    for _ in range(2 * MOST_POINTS):
        board.add(1, 1, 1)
    assert len(board.points) == MOST_POINTS
    board.remove()
    board.change(10**6, x=1, y=1)
    assert len(board.points) == MOST_POINTS - 1
