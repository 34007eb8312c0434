"""The decimal mark of a table is that of most of its cells that show one."""

import pandas as pd
import pytest

from fuzzytwin.tables import read_table


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
