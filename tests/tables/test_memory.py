"""What is read whole is a fixed size, and samples of larger tables are fair."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fuzzytwin._utils.memory import NotEnoughMemoryError
from fuzzytwin.tables import read_table
from fuzzytwin.tables._formats import open_table

ENDINGS = ("parquet", "feather", "csv", "tsv", "csv.gz", "xlsx")


def written(folder, ending, n=3000):
    path = folder / f"t.{ending}"
    X = np.random.default_rng(0).normal(size=(n, 4))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(place=np.arange(n))
    if ending == "parquet":
        frame.to_parquet(path, index=False)
    elif ending == "feather":
        frame.to_feather(path)
    elif ending == "xlsx":
        frame.to_excel(path, index=False)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    return str(path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_tables_are_read_whole_up_to_a_fixed_size(tmp_path, monkeypatch, ending):
    path = written(tmp_path, ending)
    monkeypatch.setattr("fuzzytwin.tables._reader.SAMPLE_ROWS", 100)
    monkeypatch.setattr("fuzzytwin.tables._formats.BATCH_ROWS", 1000)
    monkeypatch.setattr("fuzzytwin.tables._reader.WHOLE_BYTES", 3000 * 5 * 8)
    sample = read_table(path).sample()
    assert (len(sample), sample.complete) == (3000, True)
    monkeypatch.setattr("fuzzytwin.tables._reader.WHOLE_BYTES", 3000 * 5 * 8 - 1)
    sample = read_table(path).sample()
    assert (len(sample), sample.complete) == (100, False)


def test_every_element_of_a_list_counts_as_a_number(monkeypatch):
    frame = {"place": range(3000), "list": [[1.0, 2.0, 3.0]] * 3000}
    monkeypatch.setattr("fuzzytwin.tables._reader.SAMPLE_ROWS", 100)
    for whole, size in ((3000 * 4 * 8, 3000), (3000 * 4 * 8 - 1, 100)):
        monkeypatch.setattr("fuzzytwin.tables._reader.WHOLE_BYTES", whole)
        assert len(read_table(frame).sample()) == size


@pytest.mark.parametrize("ending", ENDINGS)
def test_rows_are_counted_or_estimated_before_a_table_is_read(tmp_path, monkeypatch, ending):
    for module in ("_formats", "_sniff"):
        monkeypatch.setattr(f"fuzzytwin.tables.{module}.TEXT_BYTES", 20_000)  # read at once
    table = read_table(written(tmp_path, ending))
    assert table.estimate_rows() == pytest.approx(3000, rel=0.1)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_sample_is_of_rows_from_everywhere_and_a_larger_one_holds_it(tmp_path, ending):
    path = written(tmp_path, ending)
    few, again, more = (read_table(path).draw(rows) for rows in (300, 300, 900))
    assert few.cells.equals(again.cells)
    assert len(few.cells) == pytest.approx(300, abs=60)
    assert len(more.cells) == pytest.approx(900, abs=90)
    places = np.array(few.cells.column("place").to_pylist(), dtype=int)
    assert set(places) <= set(np.array(more.cells.column("place").to_pylist(), dtype=int))
    assert (np.histogram(places, bins=5, range=(0, 3000))[0] > 30).all()
    first = 1 if ending == "parquet" else 2
    np.testing.assert_array_equal(few.row_numbers(np.arange(len(places))), places + first)
    whole = read_table(path).draw(10_000)
    assert whole.cells.equals(read_table(path).read().cells)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_memory_that_runs_out_while_a_file_is_read_is_no_fault_of_the_file(
    tmp_path, monkeypatch, ending
):
    path = written(tmp_path, ending)
    file = open_table(path)

    def fails(*given):
        raise pa.ArrowMemoryError("malloc of size 184960 failed")
        yield

    monkeypatch.setattr(type(file), "_frames", fails)
    with pytest.raises(
        NotEnoughMemoryError, match=r"too little memory .*184960.*read batches"
    ) as error:
        read_table(path).read()
    assert "fix the line" not in str(error.value)
