"""Dates that are read as days are instants, however they are written."""

import io

import numpy as np
import pandas as pd
import pytest

from fuzzytwin.tables import TablePreprocessor

WHEN = pd.date_range("2024-03-30 12:00", periods=40, freq="7h")


def read(prepare, cells):
    return prepare.transform(pd.DataFrame({"t": cells}))[:, 0]


def through_csv(column):
    return pd.read_csv(io.StringIO(pd.DataFrame({"t": column}).to_csv(index=False)))["t"]


@pytest.mark.parametrize(
    "column",
    [
        WHEN,
        WHEN.normalize(),
        WHEN + pd.Timedelta(milliseconds=250),
        WHEN.tz_localize("Europe/Berlin", nonexistent="shift_forward", ambiguous=True),
    ],
)
def test_timestamps_and_their_csv_are_the_same_numbers(column):
    typed = TablePreprocessor(numeric=["t"]).fit(pd.DataFrame({"t": column}))
    written = TablePreprocessor(numeric=["t"]).fit(pd.DataFrame({"t": through_csv(column)}))
    assert "ambiguous" not in written.columns_[0].note
    for cells in (column, through_csv(column)):
        np.testing.assert_allclose(read(typed, cells), read(written, column), atol=1e-9)


def test_one_instant_in_three_zones_is_one_number():
    cells = ["2024-05-01 12:00+00:00", "2024-05-01T20:00:00+0800", "2024-05-01 04:00:00-08"]
    cells += ["2024-05-01 12:00", "2024-05-01T12:00:00.000Z", "2024-05-01 17:30:00+05:30"]
    prepare = TablePreprocessor(numeric=["t"]).fit(pd.DataFrame({"t": through_csv(WHEN)}))
    assert len(set(read(prepare, cells))) == 1


def test_a_date_with_and_without_a_time_has_one_format():
    days = [f"{day:02}.04.2024" for day in range(1, 29)]
    column = TablePreprocessor(numeric=["t"]).fit(pd.DataFrame({"t": [*days, "29.04.2024 12:00"]}))
    assert column.columns_[0].note == "days since 1970"
