"""The progress bar, on a terminal, in a log file, and unwanted."""

import io
import re

import pytest

from fuzzytwin._utils import progress
from fuzzytwin._utils.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def stderr(monkeypatch):
    """Put a stream in the place of standard error; pytest sets its own after fixtures."""

    def put(stream):
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("COLUMNS", "80")
        return stream

    return put


def test_a_log_gets_few_lines(stderr, clock):
    err = stderr(io.StringIO())
    with Progress("fit", 100, "rows") as bar:
        for _ in range(100):
            clock.now += 0.25
            bar.advance()
    lines = err.getvalue().splitlines()
    assert lines[-1] == "fit: 100 of 100 rows, 4 a second"
    assert len(lines) == 3
    assert lines[0] == "fit: 41 of 100 rows, about 15 s left"


def test_a_log_names_the_steps_of_a_long_task(stderr, clock):
    err = stderr(io.StringIO())
    with Progress("starting", 30, transient=True) as bar:
        for number in range(30):
            bar.begin(f"step {number}")
            clock.now += 2.0
    lines = err.getvalue().splitlines()
    assert lines[0] == "step 6: 6 of 30 steps, about 48 s left"
    assert len(lines) == 4


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_terminal_gets_one_line_that_fits(stderr, clock, monkeypatch, width):
    err = stderr(Terminal())
    monkeypatch.setenv("COLUMNS", str(width))
    with Progress("search", 4, "folds") as bar:
        for _ in range(4):
            clock.now += 50
            bar.advance()
    text = err.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert all(len(part.rstrip("\n")) < width for part in text.split("\r"))
    if width == 80:
        assert re.search(r"\[#{12} {12}\] search: 2 of 4 folds, about 2 min left", text)
        assert re.search(r"\[#{24}\] search: 4 of 4 folds, 3 min", text)


def test_a_transient_bar_leaves_a_clean_line(stderr, clock):
    err = stderr(Terminal())
    with Progress("train", 2, transient=True) as bar:
        bar.begin("reading")
        bar.begin("fold 1")
    assert "fold 1: 1 of 2 steps" in err.getvalue()
    assert err.getvalue().endswith(f"\r{'':79s}\r")


def test_results_of_an_earlier_run_do_not_count_for_the_time_left(stderr, clock):
    err = stderr(io.StringIO())
    with Progress("reproduce", 100, "results", done=90) as bar:
        clock.now += 20
        bar.advance(5)
        clock.now += 5
        bar.advance(5)
    assert err.getvalue().splitlines() == [
        "reproduce: 95 of 100 results, about 20 s left",
        "reproduce: 100 of 100 results, 25 s",
    ]


def test_unwanted_it_is_silent_but_counts(stderr, clock):
    err = stderr(io.StringIO())
    with Progress("fit", None, "rows", enabled=False) as bar:
        clock.now += 60
        bar.advance(7)
    assert err.getvalue() == ""
    assert bar.line() == "fit: 7 rows, 0 a second"


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_a_failure_ends_the_line(stderr, clock, kind):
    err = stderr(kind())
    with pytest.raises(ZeroDivisionError), Progress("fit", 3):
        raise ZeroDivisionError
    assert err.getvalue().endswith("\n")
