"""Cells of text: how dates are written, codes of digits, and marks for missing values."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fuzzytwin.tables import TablePreprocessor, TableSchema, TableWarning, read_table
from fuzzytwin.tables._parse import (
    date_styles,
    dates,
    is_code,
    kind_of,
    missing_markers,
    numbers,
    text,
)

pa = pytest.importorskip("pyarrow")


def judged(column, **asked):
    """What is learned of one column, which stands beside one of numbers."""
    other = np.random.default_rng(0).normal(size=len(column))
    table = read_table(pa.table({"x": column, "other": other}))
    return TableSchema.infer(table.read(), **asked).columns[0]


def test_dates_are_read_by_the_style_that_reads_most_cells():
    """Of 200 dates, 12 have a day beyond 12: by day/month, 6 % of them cannot be read."""
    rng = np.random.default_rng(0)
    day = np.where(np.arange(200) < 12, 20, rng.integers(1, 13, 200))
    month = rng.integers(1, 13, 200)
    words = [f"{m:02d}/{d:02d}/2020" for d, m in zip(day, month, strict=True)]
    assert date_styles(pa.array(words)) == ["%m/%d/%Y"]
    column = judged(words, numeric=("x",))
    assert (column.style, column.missing) == ("%m/%d/%Y", 0)
    days = dates(pa.chunked_array([words]), column.style).values
    true = pd.to_datetime({"year": 2020, "month": month, "day": day})
    assert_array_equal(days, (true - pd.Timestamp("1970-01-01")).dt.days)
    turned = [f"{d:02d}/{m:02d}/2020" for d, m in zip(day, month, strict=True)]
    assert date_styles(pa.array(turned)) == ["%d/%m/%Y"]


def test_dates_that_two_styles_read_are_noted():
    words = [f"{1 + i % 12:02d}/{1 + i % 7:02d}/2020" for i in range(60)]
    assert date_styles(pa.array(words)) == ["%d/%m/%Y", "%m/%d/%Y"]
    column = judged(words, numeric=("x",))
    assert column.style == "%d/%m/%Y"
    assert "read as day/month, although month/day fits too" in column.note
    assert "fits too" not in judged([*words, "31/01/2020"], numeric=("x",)).note


def test_few_unreadable_dates_and_other_texts():
    words = ["2020-01-02"] * 95 + ["soon"] * 5
    assert date_styles(pa.array(words)) == ["%Y-%m-%d"]
    assert date_styles(pa.array(words[:40] + words[95:])) == []
    assert date_styles(pa.array(["a", "b"])) == date_styles(pa.array([], pa.string())) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["01067", "80331", "50667"] * 20, True),
        (["80331"] * 59 + ["01067"], True),  # all have five digits
        (["80331", "50667"] * 30, False),
        (["007", "12", "1234"] * 20, True),
        (["1", "22", "333"] * 30 + ["05"], False),  # one of many may be a slip
        (["0", "0.5", "00.5"] * 20, False),
        (["05.5", "01.5"] * 20, False),
        (["-05", "-12"] * 20, False),
    ],
)
def test_zeros_before_digits_say_code(words, code):
    column = pa.array(words)
    assert is_code(column) == code
    assert kind_of(column) == ("text" if code else "number")


def test_codes_of_digits_are_categories_and_noted():
    codes = [f"{1000 + 7 * (i % 25):05d}" for i in range(200)]
    column = judged(codes)
    assert (column.kind, column.categories[0]) == ("category", "01000")
    assert (
        column.note
        == "a code, as 01000 begins with a zero; TablePreprocessor(numeric=['x']) reads numbers"
    )
    assert judged(codes, numeric=("x",)).kind == "number"
    named = judged([f"{i:05d}" for i in range(200)])
    assert named.kind == "id"
    assert "begins with a zero" in named.note
    slips = judged([*map(str, range(300)), "05"])
    assert slips.kind == "number"
    assert (
        slips.note == "1 begin with zeros, such as 05; TablePreprocessor(category=['x']) keeps them"
    )


def test_marks_for_missing_values_can_be_set():
    words = pa.array(["NA", "DE", "-999", "", None, "?"])
    assert text(words).to_pylist() == [None, "DE", "-999", None, None, None]
    marks = missing_markers(["-999", "?"])
    assert text(words, marks).to_pylist() == ["NA", "DE", None, None, None, None]
    assert missing_markers([]) == missing_markers(()) != missing_markers([""]) == ("",)
    for column in (
        pa.array(["1", "-999", "-999.0", "NA", "2"]),
        pa.array([1, -999, -999, None, 2]),
    ):
        found = numbers(column, ".", marks).values  # in numbers, the usual marks are none either
        assert_array_equal(found, [1, np.nan, np.nan, np.nan, 2])
    assert text(pa.array([1, -999]), marks).to_pylist() == ["1", None]


def test_a_preprocessor_keeps_na_as_a_category():
    frame = pd.DataFrame({"land": ["NA", "DE", "FR", "-999"] * 10, "a": [1.0, 2.5, -999.0, 4] * 10})
    usual, own = TablePreprocessor(), TablePreprocessor(missing=[-999])
    with pytest.warns(UserWarning, match="holds -999 in 10 cells"):
        usual.fit(frame)
    assert "NA" not in usual.columns_[0].categories
    column, number = own.fit(frame).columns_
    assert column.categories == ("DE", "FR", "NA")
    assert column.missing == number.missing == 10
    assert "land_NA" in " ".join(own.get_feature_names_out())
    schema = TableSchema.from_dict(own.schema_)
    read = schema.decode(read_table(frame, like=schema).read()).X
    assert read["land"].tolist()[:3] == ["NA", "DE", "FR"]
    with pytest.raises(ValueError, match="missing='NA' is a string; give a list"):
        TablePreprocessor(missing="NA").fit(frame)


def test_marks_for_missing_values_count_among_days_as_numbers_too():
    written = pd.DataFrame({"d": pd.date_range("2024", periods=30).strftime("%Y-%m-%d")})
    prepare = TablePreprocessor(numeric=["d"], missing=["-999"]).fit(written)
    with pytest.warns(TableWarning, match="'d': 1 cell is missing \\(none in training\\)"):
        missing = prepare.transform(pd.DataFrame({"d": [np.nan, 19740.0]}))
    assert_array_equal(prepare.transform(pd.DataFrame({"d": [-999.0, 19740.0]})), missing)
