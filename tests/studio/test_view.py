"""Marks and figures of the views."""

from fuzzytwin.studio._view import colour, interval, shape, signed


def test_twenty_one_classes_have_marks_of_their_own():
    assert len({(colour(code), shape(code)) for code in range(21)}) == 21


def test_figures_have_few_digits():
    assert interval((1234.4, 2345.6)) == "1,234 to 2,346"
    assert signed(-0.12345) == "\N{MINUS SIGN}0.12"
