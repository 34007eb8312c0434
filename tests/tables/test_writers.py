"""CSV files as spreadsheets open them: formulas are guarded, and nothing else is changed."""

import csv
import io

import pytest

from fuzzytwin.tables import read_table
from fuzzytwin.tables._writer import as_csv

pa = pytest.importorskip("pyarrow")

PLAIN = (
    "-0,287", "-", "--", "+", "+49 7", "+49 170 1234567", "-5", "+5.5", "-1.4,5", "-1'000", "-5 %",
    "-1e-5", "-.5", "-1\u00a0000", "\t-5", "a=b", "x@y.de", "1-2", "'quoted'", "\n", "\tx", "",
)  # fmt: skip
RUN = (
    "=1+1", "@SUM(1)", "+A1", "-A1", "-2+3+cmd|' /C calc'!A0", "+cmd|' /C calc'!A0", "=cmd()",
    "-no", "+49-30", "-(1)", "\uff1d1+1", "\uff20SUM()",
    "-1%%A1", "-5e", "+1;A1", "-e5", "+e5", "-.e5",
)  # fmt: skip
WITHIN = {
    "x;=1+1": "x;'=1+1", "x,@SUM(1)": "x,'@SUM(1)", "x\t=1": "x\t'=1", "x\n+A1": "x\n'+A1",
    "=1;=2": "'=1;'=2", "\n=1+1": "'\n'=1+1", "x;-2+3+cmd|'c'!A0": "x;'-2+3+cmd|'c'!A0",
    "x;'=1": "x;''=1", "x;-5": "x;-5", "48.8,-2.3": "48.8,-2.3", "a;-;b": "a;-;b", "a; =1": "a; =1",
}  # fmt: skip


def written(words):
    text = as_csv(pa.table({"x": [*words, "end"]}))
    return [row[0] if row else "" for row in csv.reader(io.StringIO(text, newline=""))][1:-1]


@pytest.mark.parametrize("word", PLAIN)
def test_what_no_spreadsheet_runs_is_written_as_it_is(word):
    assert written([word]) == [word]


@pytest.mark.parametrize("word", RUN)
def test_what_a_spreadsheet_would_run_is_guarded(word):
    assert written([word]) == [f"'{word}"]


@pytest.mark.parametrize("word", WITHIN)
def test_what_runs_where_a_spreadsheet_of_another_country_divides_a_cell_is_guarded(word):
    assert written([word]) == [WITHIN[word]]


def test_guards_are_taken_away_in_reading(tmp_path):
    words = [
        *PLAIN,
        *RUN,
        *WITHIN,
        *WITHIN.values(),
        "\t=1+1",
        "\r@SUM(1)",
        "\r\n+A1",
        "'=z",
        "''=z",
        "'-5",
        "'\n=z",
        None,
    ]
    names = {"-name": words, "'=x": ["y"] * len(words), "-1": ["1"] * len(words)}
    text = as_csv(pa.table(names))
    (tmp_path / "t.csv").write_bytes(text.encode())
    cells = read_table(tmp_path / "t.csv").read().cells
    assert cells.schema.names == list(names)
    assert cells.column("-name").to_pylist() == [word or None for word in words]
    assert text.startswith("'-name,''=x,-1\n")
