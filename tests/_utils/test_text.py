"""Names and numbers are read as they are meant."""

import io

import pytest
from matplotlib.figure import Figure

from fuzzytwin._utils.text import count, cut, cut_middle, decimals, literal, wrapped


@pytest.mark.parametrize("name", ["$", "a $ b", "$a$", "$\\frac$", "a\\$b", "$$$", "price_$_{x}$"])
def test_names_are_no_formulas(name):
    figure = Figure()
    text = figure.text(0, 0, literal(name))
    assert text._preprocess_math(literal(name)) == (name, False)
    figure.canvas.draw()


def test_numbers_are_written_for_people():
    written = [f"{most:.{decimals(most)}f}" for most in (12.0, 0.25, 0.0042, 0.00012, 0.0)]
    assert written == ["12.000", "0.250", "0.0042", "0.00012", "0.000"]
    assert (count(1, "row"), count(1200, "row")) == ("1 row", "1,200 rows")


def test_long_names_are_cut():
    assert [cut("abcdefgh", width) for width in (8, 7)] == ["abcdefgh", "abcd..."]
    assert cut("abcdefgh", 5, "…") == "abcd…"
    assert [cut_middle("abcdefgh", width) for width in (8, 7)] == ["abcdefgh", "ab...gh"]


def test_lines_are_broken_between_words_on_a_terminal_only(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    line = "no column 'q'; see fuzzytwin train --help"
    terminal = io.StringIO()
    assert wrapped(line, terminal) == line
    terminal.isatty = lambda: True
    assert wrapped(line, terminal) == "no column 'q'; see\nfuzzytwin train\n--help"
