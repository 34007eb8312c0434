"""Marks and figures of the views."""

from fuzzytwin.studio._view import colour, interval, percent, shape, signed


def test_twenty_one_classes_have_marks_of_their_own():
    assert len({(colour(code), shape(code)) for code in range(21)}) == 21


def test_figures_have_few_digits():
    assert percent(0.98765) == "98.8%"
    assert interval((1234.4, 2345.6)) == "1,234 to 2,346"
    assert signed(-0.12345) == "\N{MINUS SIGN}0.12"
    assert signed(0.12345, 3) == "+0.123"
