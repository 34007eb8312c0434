"""The decimal mark is inferred once, in training: a row means the same whatever comes with it."""

import numpy as np
import pandas as pd
import pytest

from fuzzytwin import FuzzyTwinCommittee, files
from fuzzytwin.tables import TablePreprocessor, read_table

pytestmark = pytest.mark.filterwarnings("ignore::fuzzytwin.tables.TableWarning")
PRICES = ["1.983", "1.755,40", "314,73", "1.046", "2.477,16", "3.555,72"] * 6
TABLE = pd.DataFrame({"price": PRICES, "ward": list("aabbab") * 6})
Y = np.array([0, 0, 0, 1, 1, 1] * 6)


def test_a_row_alone_means_what_it_means_among_others():
    model = FuzzyTwinCommittee(members="planes").fit(TABLE, Y)
    alone = [model.predict_proba(TABLE.iloc[[i]])[0, 1] for i in range(6)]
    np.testing.assert_allclose(alone, model.predict_proba(TABLE)[:6, 1], rtol=1e-9)


def test_the_mark_of_fit_outvotes_that_of_later_tables():
    later = pd.DataFrame({"price": ["1.046"] * 5, "ward": "b"})
    prepare = TablePreprocessor().fit(TABLE)
    np.testing.assert_allclose(prepare.transform(later), prepare.transform(TABLE)[[3] * 5])


def test_a_file_of_one_row_is_predicted_as_in_a_larger_one(tmp_path):
    model = files.fit(FuzzyTwinCommittee(members="planes"), TABLE.assign(y=Y), target="y")
    read = []
    for name, rows in (("all", TABLE), ("one", TABLE.iloc[[3]])):
        rows.to_csv(tmp_path / f"{name}.csv", index=False, sep=";")
        files.predict(model, tmp_path / f"{name}.csv", tmp_path / f"{name}_out.parquet")
        read.append(pd.read_parquet(tmp_path / f"{name}_out.parquet")["probability_1"])
    assert read[1][0] == pytest.approx(read[0][3], rel=1e-9)


def test_the_files_of_a_folder_have_one_mark(tmp_path):
    (tmp_path / "parts").mkdir()
    table = TABLE.assign(y=Y)
    table.to_csv(tmp_path / "whole.csv", index=False, sep=";")
    for i in range(0, 36, 4):
        table.iloc[i : i + 4].to_csv(tmp_path / f"parts/{i:02}.csv", index=False, sep=";")
    table.iloc[[3]].to_csv(tmp_path / "parts" / "36.csv", index=False, sep=";")
    whole, parts = (read_table(tmp_path / name) for name in ("whole.csv", "parts"))
    assert (whole.decimal, parts.decimal) == (",", ",")
    values = [batch.numbers("price").values for batch in parts.batches()]
    expected = whole.read().numbers("price").values
    np.testing.assert_array_equal(np.concatenate(values), [*expected, 1046.0])


def test_the_mark_does_not_depend_on_the_order_of_rows(tmp_path):
    cells = ["1.046"] * 6000 + ["0,5", "1,25"] * 3001
    for order in (cells, cells[::-1]):
        pd.DataFrame({"a": order, "b": "x"}).to_csv(tmp_path / "t.csv", index=False, sep=";")
        assert read_table(tmp_path / "t.csv").decimal == ","


@pytest.mark.parametrize("sep", [";", ",", "\t"])
def test_a_mark_that_occurs_twice_in_a_cell_is_not_decimal(tmp_path, sep):
    frame = pd.DataFrame({"a": ["26,019", "21,322", "1,801,694"], "b": "x"})
    frame.to_csv(tmp_path / "t.csv", index=False, sep=sep)
    batch = read_table(tmp_path / "t.csv").read()
    assert batch.numbers("a").values.tolist() == [26019, 21322, 1801694]


@pytest.mark.parametrize(("cell", "value"), [("1.801.694", 1801694), ("1.801.694,5", 1801694.5)])
def test_a_point_that_occurs_twice_in_a_cell_is_not_decimal(cell, value):
    batch = read_table({"a": [cell, "26.019", "7,5"]}).read()
    assert batch.numbers("a").values.tolist() == [value, 26019, 7.5]
