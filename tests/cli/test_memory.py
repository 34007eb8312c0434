"""Large tables are read in chunks, and so by their size only."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fuzzytwin import cli
from tests.cli.helpers import some


@pytest.fixture
def data(folder, monkeypatch):
    pd.DataFrame(some(400)).to_parquet("t.parquet", index=False)
    monkeypatch.setattr("fuzzytwin.tables._reader.SAMPLE_ROWS", 100)
    monkeypatch.setattr("fuzzytwin.tables._reader.WHOLE_BYTES", 399 * 3 * 8)
    return "t.parquet"


def said_by(capsys, *words, code=0):
    capsys.readouterr()
    got = cli.run(list(words))
    out, err = capsys.readouterr()
    assert got == code, (out, err)
    return " ".join(err.split())


LARGE = "t.parquet holds more than 256 MiB of numbers"


def test_doubts_reads_in_batches_by_itself_and_says_why(capsys, folder, data):
    words = ("label-issues", data, "--target", "y", "--out")
    said = said_by(capsys, *words, "itself.csv")
    assert f"note: {LARGE}, so it is read in chunks (--stream)" in said
    assert "note" not in said_by(capsys, *words, "asked.csv", "--stream")
    assert (folder / "itself.csv").read_bytes() == (folder / "asked.csv").read_bytes()
    assert "note" not in said_by(capsys, *words, "whole.csv", "--no-stream")
    assert "rank" in pd.read_csv("whole.csv")  # all rows at once


@pytest.mark.parametrize("option", ["--keep-all", "--report=r.html"])
def test_doubts_refuses_options_that_need_all_rows_of_a_large_table(capsys, folder, data, option):
    words = ("label-issues", data, "--target", "y", "--out", "d.csv", option)
    said = said_by(capsys, *words, code=2)
    name = option.partition("=")[0]
    assert f"error: {LARGE}, and {name} needs all rows in memory; omit it, or use --no-s" in said
    assert [file.name for file in folder.iterdir()] == ["t.parquet"]


def test_train_says_why_it_reads_in_batches(capsys, data):
    said = said_by(capsys, "train", data, "--target", "y")
    assert f"note: {LARGE}, so it is read in chunks (--stream)" in said


def test_free_memory_does_not_decide_what_is_read_whole(capsys, folder, monkeypatch):
    pd.DataFrame(some(400)).to_parquet("t.parquet", index=False)
    words = ("label-issues", "t.parquet", "--target", "y", "--out")
    monkeypatch.setattr("fuzzytwin._utils.memory.available_memory", lambda: 40_000.0)
    assert "read in chunks" not in said_by(capsys, *words, "little.csv")
    monkeypatch.setattr("fuzzytwin._utils.memory.available_memory", lambda: 1e12)
    assert "read in chunks" not in said_by(capsys, *words, "much.csv")
    assert (folder / "little.csv").read_bytes() == (folder / "much.csv").read_bytes()


def test_a_stream_of_a_table_that_is_read_whole_learns_columns_from_all_rows(
    capsys, folder, monkeypatch
):
    monkeypatch.setattr("fuzzytwin.tables._reader.SAMPLE_ROWS", 100)
    frame = pd.DataFrame(some(400))
    frame["late"] = np.where(np.arange(400) < 200, 0.0, np.arange(400.0))
    frame.to_csv("t.csv", index=False)
    words = ("label-issues", "t.csv", "--target", "y", "--out")
    said_by(capsys, *words, "stream.csv", "--stream")
    said_by(capsys, *words, "whole.csv", "--no-stream")
    pd.testing.assert_frame_equal(pd.read_csv("stream.csv"), pd.read_csv("whole.csv"))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (pa.ArrowMemoryError("malloc of size 184960 failed"), " (malloc of size 184960 failed)"),
        (MemoryError(), ""),
    ],
)
def test_memory_that_runs_out_names_the_remedy(capsys, folder, monkeypatch, error, reason):
    pd.DataFrame(some(100)).to_parquet("t.parquet", index=False)

    def fails(*given):
        raise error
        yield

    monkeypatch.setattr("fuzzytwin.tables._formats._Parquet._frames", fails)
    said = said_by(capsys, "label-issues", "t.parquet", "--target", "y", code=1)
    assert f"too little memory to read t.parquet{reason}; use --stream, or read fewer" in said
    assert "fix the line" not in said


@pytest.mark.parametrize(
    ("command", "remedy"), [("label-issues", "--stream"), ("studio", "--sample ROWS")]
)
def test_memory_that_runs_out_later_names_the_remedy_of_the_command(
    capsys, folder, monkeypatch, command, remedy
):
    if command == "studio":
        pytest.importorskip("nicegui")
    pd.DataFrame(some(100)).to_parquet("t.parquet", index=False)

    def fails(*given, **more):
        raise MemoryError("Unable to allocate 3.81 GiB")

    monkeypatch.setattr("fuzzytwin.experiment._experiment.rows_of", fails)
    said = said_by(capsys, command, "t.parquet", "--target", "y", code=1)
    assert f"not enough memory (Unable to allocate 3.81 GiB); try {remedy}" in said


def test_columns_of_wide_tables_are_judged_by_fewer_rows(capsys, folder, monkeypatch):
    monkeypatch.setattr("fuzzytwin.tables._reader.SAMPLE_BYTES", 8 * 3 * 150)
    monkeypatch.setattr("fuzzytwin.tables._reader.WHOLE_BYTES", 0)
    monkeypatch.setattr("fuzzytwin.tables._reader.MIN_SAMPLE_ROWS", 10)
    frame = pd.DataFrame(some(400))
    frame["y"] = np.where(np.arange(400) % 2, "yes", "no")
    frame.to_parquet("t.parquet", index=False)
    assert cli.run(["train", "t.parquet", "--target", "y", "--stream"]) == 0
    assert "first 150 rows" in " ".join(capsys.readouterr().out.split())
